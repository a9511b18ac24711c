//! Single words as Go reads them: numbers, durations, addresses, names of DNS.

use crate::knowledge::Kind;
use crate::version::Version;
use crate::zone::parse_range;
use std::net::IpAddr;

use super::regex;

const SECOND: i64 = 1_000_000_000;

/// Whether the word is of that kind; else what is wrong with it.
pub(super) fn check(kind: &Kind, word: &str, version: Version) -> Result<(), String> {
    match kind {
        Kind::Word | Kind::Zone | Kind::Path => Ok(()),
        Kind::Ip => when(word.parse::<IpAddr>().is_ok(), || format!("'{word}' is not an IP address")),
        Kind::Cidr => when(parse_range(word).is_some(), || format!("invalid CIDR address: {word}")),
        Kind::HostPort => listen_address(word),
        Kind::Address => address(word),
        Kind::Int(low, high) => in_range(integer(word)?, *low, *high),
        Kind::Uint(bits) => match word.parse::<u64>() {
            Ok(number) if word.bytes().all(|b| b.is_ascii_digit()) && (*bits >= 64 || number >> bits == 0) => Ok(()),
            _ => Err(format!("'{word}' is not a number of {bits} bits without sign")),
        },
        Kind::Float(low, high) => match float(word) {
            Ok(number) if number.is_nan() || (*low..=*high).contains(&number) => Ok(()),
            Ok(_) => Err(format!("'{word}' is not between {low} and {high}")),
            Err(error) => Err(error),
        },
        Kind::Bool => when(BOOLS.contains(&word), || format!("'{word}' is neither true nor false")),
        Kind::Percent(low, high) => match word.strip_suffix('%') {
            Some(number) => in_range(integer(number)?, *low, *high),
            None => Err(format!("'{word}' does not end in %")),
        },
        Kind::Duration => duration(word).map(|_| ()),
        Kind::DurationAboveZero => when(duration(word)? > 0, || format!("'{word}' is not above zero")),
        Kind::DurationUpTo(seconds) => {
            in_range(duration(word)?, 0, seconds.saturating_mul(SECOND)).map_err(|_| match seconds {
                &i64::MAX => format!("'{word}' is negative"),
                seconds => format!("'{word}' is not between 0 and {seconds} seconds"),
            })
        }
        Kind::Seconds(low, high) => {
            let nanoseconds = seconds(word)?;
            in_range(nanoseconds, low.saturating_mul(SECOND), high.saturating_mul(SECOND))
                .map_err(|_| format!("'{word}' is not between {low} and {high} seconds"))
        }
        Kind::RecordType => when(is_record_type(word), || format!("'{word}' is not a type of DNS record")),
        Kind::Class => when(CLASSES.contains(&word), || format!("'{word}' is not a class of DNS records")),
        Kind::ResponseCode { any_case } => {
            let known = if *any_case { is_response_code(&word.to_uppercase()) } else { is_response_code(word) };
            when(known, || format!("'{word}' is not a response code"))
        }
        Kind::Regex => regex::groups(word, version).map(|_| ()),
        Kind::Template => when(word.matches("{{").count() <= word.matches("}}").count(), || {
            format!("the template '{word}' has an action without end")
        }),
        Kind::OneOf { words, any_case } => {
            let is = |known: &String| known == word || (*any_case && *known == word.to_lowercase());
            when(words.iter().any(is), || format!("'{word}' is not one of: {}", words.join(", ")))
        }
    }
}

fn when(good: bool, wrong: impl Fn() -> String) -> Result<(), String> {
    if good { Ok(()) } else { Err(wrong()) }
}

fn in_range(number: i64, low: i64, high: i64) -> Result<(), String> {
    match (low, high) {
        _ if (low..=high).contains(&number) => Ok(()),
        (_, i64::MAX) => Err(format!("{number} is less than {low}")),
        _ => Err(format!("{number} is not between {low} and {high}")),
    }
}

/// A whole number with an optional sign.
pub(super) fn integer(word: &str) -> Result<i64, String> {
    word.parse().map_err(|_| format!("'{word}' is not a whole number"))
}

/// A number with a point or an exponent. Go takes an underscore between digits.
fn float(word: &str) -> Result<f64, String> {
    let digits = |text: Option<char>| text.is_some_and(|c| c.is_ascii_digit());
    let parts: Vec<&str> = word.split('_').collect();
    let between_digits = parts.windows(2).all(|pair| digits(pair[0].chars().last()) && digits(pair[1].chars().next()));
    let number = if between_digits { parts.concat().parse() } else { word.parse() };
    number.map_err(|_| format!("'{word}' is not a number"))
}

/// Nanoseconds of a duration such as `1m30s`.
pub(super) fn duration(word: &str) -> Result<i64, String> {
    let wrong = || format!("'{word}' is not a duration such as 5s");
    let (negative, mut rest) = match word.strip_prefix(['+', '-']) {
        Some(rest) => (word.starts_with('-'), rest),
        None => (false, word),
    };
    if rest == "0" {
        return Ok(0);
    }
    if rest.is_empty() {
        return Err(wrong());
    }
    let mut total = 0_f64;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(wrong)?;
        let (number, tail) = rest.split_at(end);
        if !number.bytes().any(|b| b.is_ascii_digit()) {
            return Err(wrong());
        }
        let end = tail.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(end);
        let nanoseconds = match unit {
            "ns" => 1.0,
            "us" | "µs" | "μs" => 1e3,
            "ms" => 1e6,
            "s" => 1e9,
            "m" => 60e9,
            "h" => 3600e9,
            _ => return Err(wrong()),
        };
        // Go takes `1.` and `.5`, as Rust does.
        total += number.parse::<f64>().map_err(|_| wrong())? * nanoseconds;
        rest = tail;
    }
    if total > 9.223_372_036_854_775e18 {
        return Err(wrong());
    }
    #[allow(clippy::cast_possible_truncation)] // bounded just above
    let total = total as i64;
    Ok(if negative { -total } else { total })
}

/// Nanoseconds of a duration, or of a bare number of seconds.
pub(super) fn seconds(word: &str) -> Result<i64, String> {
    match integer(word) {
        Ok(seconds) => Ok(seconds.saturating_mul(SECOND)),
        Err(_) => duration(word),
    }
}

/// Host and port as Go's `net.SplitHostPort` takes them apart.
pub(super) fn split_host_port(word: &str) -> Result<(&str, &str), String> {
    let missing = || format!("address {word}: missing port in address");
    let many = || format!("address {word}: too many colons in address");
    let colon = word.rfind(':').ok_or_else(missing)?;
    let (host, rest) = if word.starts_with('[') {
        let end = word.find(']').ok_or_else(|| format!("address {word}: missing ']' in address"))?;
        if end + 1 == word.len() {
            return Err(missing());
        }
        if end + 1 != colon {
            return Err(if word[end + 1..].starts_with(':') { many() } else { missing() });
        }
        (&word[1..end], &word[end + 1..])
    } else {
        let host = &word[..colon];
        if host.contains(':') {
            return Err(many());
        }
        (host, word)
    };
    if host.contains('[') || rest.contains(['[', ']']) {
        return Err(format!("address {word}: unexpected bracket in address"));
    }
    Ok((host, &word[colon + 1..]))
}

/// An address to listen on: host and port, and the port must be one.
fn listen_address(word: &str) -> Result<(), String> {
    let (_, port) = split_host_port(word)?;
    match port.parse::<i64>() {
        Ok(0..=65535) => Ok(()),
        Err(_) if port.is_empty() || ["domain", "http", "https", "http-alt"].contains(&port) => Ok(()),
        _ => Err(format!("address {word}: invalid port")),
    }
}

/// An address without the zone behind a `%`.
pub(super) fn without_zone(host: &str) -> &str {
    host.rsplit_once('%').map_or(host, |(host, _)| host)
}

/// An IP address, with or without a port.
fn address(word: &str) -> Result<(), String> {
    let host = split_host_port(word).map_or(word, |(host, _)| host);
    match without_zone(host).parse::<IpAddr>() {
        Ok(_) => Ok(()),
        Err(_) => Err(format!("must specify an IP address: '{word}'")),
    }
}

/// An IP address, or something that Linux would take as the name of an interface (and nobody as an address).
pub(super) fn address_or_interface(word: &str) -> Result<(), String> {
    let like_interface = (1..=15).contains(&word.len())
        && !word.contains(|c: char| c.is_whitespace() || c == '/' || c == ':')
        && word.contains(|c: char| !c.is_ascii_digit() && c != '.');
    when(like_interface || word.parse::<IpAddr>().is_ok(), || {
        format!("not a valid IP address or interface name: {word:?}")
    })
}

const BOOLS: [&str; 12] = ["1", "t", "T", "TRUE", "true", "True", "0", "f", "F", "FALSE", "false", "False"];
pub(super) const CLASSES: [&str; 6] = ["IN", "CS", "CH", "HS", "NONE", "ANY"];
pub(super) const OPCODES: [&str; 5] = ["QUERY", "IQUERY", "STATUS", "NOTIFY", "UPDATE"];

/// The types that the DNS library of CoreDNS has a name for (`miekg/dns: ztypes.go`).
const RECORD_TYPES: &str = " A AAAA AFSDB AMTRELAY ANY APL ATMA AVC AXFR CAA CDNSKEY CDS CERT CNAME CSYNC DHCID DLV DNAME \
    DNSKEY DS EID EUI48 EUI64 GID GPOS HINFO HIP HTTPS IPSECKEY ISDN IXFR KEY KX L32 L64 LOC LP MAILA MAILB MB MD MF MG \
    MINFO MR MX NAPTR NID NIMLOC NINFO NS NSAP-PTR NSEC NSEC3 NSEC3PARAM NULL NXNAME NXT None OPENPGPKEY OPT PTR PX \
    RESINFO RKEY RP RRSIG RT Reserved SIG SMIMEA SOA SPF SRV SSHFP SVCB TA TALINK TKEY TLSA TSIG TXT UID UINFO UNSPEC URI \
    X25 ZONEMD ";

/// The response codes it has a name for (`miekg/dns: msg.go`).
const RESPONSE_CODES: &str = " NOERROR FORMERR SERVFAIL NXDOMAIN NOTIMP NOTIMPL REFUSED YXDOMAIN YXRRSET NXRRSET NOTAUTH \
    NOTZONE DSOTYPENI BADSIG BADVERS BADKEY BADTIME BADMODE BADNAME BADALG BADTRUNC BADCOOKIE ";

pub(super) fn is_record_type(word: &str) -> bool {
    is_in(RECORD_TYPES, word)
}

pub(super) fn is_response_code(word: &str) -> bool {
    is_in(RESPONSE_CODES, word)
}

fn is_in(list: &str, word: &str) -> bool {
    !word.is_empty() && !word.contains(' ') && list.contains(&format!(" {word} "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_go_reads_them() {
        for (word, nanoseconds) in [
            ("5s", 5 * SECOND),
            ("1m30s", 90 * SECOND),
            ("-1.5h", -5400 * SECOND),
            ("0", 0),
            (".5s", SECOND / 2),
            ("1us", 1000),
        ] {
            assert_eq!(duration(word), Ok(nanoseconds), "{word}");
        }
        for word in ["", "5", "s", "-", "1d", "1s5", "9999999999h", ".s", "1..s"] {
            assert!(duration(word).is_err(), "{word}");
        }
    }

    #[test]
    fn hosts_and_ports_are_split_as_go_splits_them() {
        assert_eq!(split_host_port(":8080"), Ok(("", "8080")));
        assert_eq!(split_host_port("[::1]:53"), Ok(("::1", "53")));
        assert_eq!(split_host_port("a:"), Ok(("a", "")));
        for word in ["8080", "::1", "[::1]", "[::1]x:53", "a:b:c", "[a", "a]:1"] {
            assert!(split_host_port(word).is_err(), "{word}");
        }
    }
}
