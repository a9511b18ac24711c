//! Addresses of servers: `[scheme://]zone-or-range[:port]`, as CoreDNS takes them apart
//! (`coredns/coredns: core/dnsserver/register.go`, `plugin/normalize.go`, `plugin/pkg/cidr`).

use crate::version::Version;
use std::fmt;
use std::net::IpAddr;

/// How a server is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Transport {
    /// UDP and TCP.
    Dns,
    /// DNS over TLS.
    Tls,
    /// DNS over QUIC.
    Quic,
    /// DNS over gRPC.
    Grpc,
    /// DNS over HTTPS.
    Https,
    /// DNS over HTTP/3.
    Https3,
    /// A Unix socket: not for servers.
    Unix,
}

impl Transport {
    const ALL: [(&'static str, Self); 7] = [
        ("tls", Self::Tls),
        ("dns", Self::Dns),
        ("quic", Self::Quic),
        ("grpc", Self::Grpc),
        ("https3", Self::Https3),
        ("https", Self::Https),
        ("unix", Self::Unix),
    ];

    /// The scheme of an address, and what follows it. Without a scheme it is DNS.
    pub fn of(address: &str) -> (Self, &str) {
        let split = address.split_once(':');
        let known = split.and_then(|(scheme, rest)| {
            let rest = rest.strip_prefix("//")?;
            let (_, transport) = Self::ALL.iter().find(|(name, _)| *name == scheme)?;
            Some((*transport, rest))
        });
        known.unwrap_or((Self::Dns, address))
    }

    /// The port of a server that names none.
    pub fn default_port(self) -> &'static str {
        match self {
            Self::Dns => "53",
            Self::Tls | Self::Quic => "853",
            Self::Grpc | Self::Https | Self::Https3 => "443",
            Self::Unix => "",
        }
    }

    /// Its scheme.
    pub fn scheme(self) -> &'static str {
        Self::ALL.iter().find(|(_, transport)| *transport == self).map_or("", |(name, _)| name)
    }
}

/// One address of a server, taken apart.
///
/// ```
/// use corefile::{ServerKey, Transport};
/// let key = ServerKey::read("tls://Example.org:8853").unwrap();
/// assert_eq!((key.transport, key.zones, key.port.as_str()), (Transport::Tls, vec!["example.org".into()], "8853"));
/// assert_eq!(ServerKey::read("10.0.0.0/23").unwrap().zones, ["0.0.10.in-addr.arpa", "1.0.10.in-addr.arpa"]);
/// assert!(ServerKey::read("example.org:").is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerKey {
    /// The scheme.
    pub transport: Transport,
    /// The zone, or the reverse zones of a range. Lower case, no final dot; the root is `.`.
    pub zones: Vec<String>,
    /// The port, as CoreDNS writes it: given, or that of the scheme.
    pub port: String,
}

/// An address that CoreDNS refuses, in its words.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyError {
    /// A colon at the end.
    NothingAfterColon(String),
    /// More than 255 bytes.
    TooLong(usize),
    /// Labels that are empty or too long.
    NoDomainName(String),
    /// An IPv6 range that begins with `:` or `0`.
    InvalidRange(String),
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NothingAfterColon(key) => write!(f, "expecting data after last colon: {key:?}"),
            Self::TooLong(length) => write!(f, "specified zone is too long: {length} > 255"),
            Self::NoDomainName(zone) => write!(f, "zone is not a valid domain name: {zone}"),
            Self::InvalidRange(range) => write!(f, "invalid CIDR {range}"),
        }
    }
}

impl std::error::Error for KeyError {}

impl ServerKey {
    /// Takes an address apart, as the newest CoreDNS does.
    pub fn read(key: &str) -> Result<Self, KeyError> {
        Self::take_apart(Transport::of(key))
    }

    /// Takes an address apart as that release does: older ones know fewer schemes and keep capitals.
    pub(crate) fn read_in(key: &str, version: Version) -> Result<Self, KeyError> {
        let (transport, _) = Transport::of(key);
        let known = match transport {
            Transport::Quic | Transport::Unix => version >= Version::new(1, 11, 0),
            Transport::Https3 => version >= Version::new(1, 13, 2),
            _ => true,
        };
        let split = if known { Transport::of(key) } else { (Transport::Dns, key) };
        let mut read = Self::take_apart(split)?;
        if version < Version::new(1, 14, 7) && read.zones.len() == 1 {
            let (zone, _) = split_port(split.1)?;
            let bare = if is_qualified(zone) && zone != "." { &zone[..zone.len() - 1] } else { zone };
            if bare.to_lowercase() == read.zones[0] {
                read.zones = vec![bare.to_owned()];
            }
        }
        Ok(read)
    }

    fn take_apart((transport, address): (Transport, &str)) -> Result<Self, KeyError> {
        let (zone, port) = split_port(address)?;
        let port = port.unwrap_or_else(|| transport.default_port().to_owned());
        if zone.len() > 255 {
            return Err(KeyError::TooLong(zone.len()));
        }
        if !is_domain_name(zone) {
            return Err(KeyError::NoDomainName(zone.to_owned()));
        }
        let zones = match Range::read(zone) {
            None => vec![normal(zone)],
            Some(_) if zone.starts_with(':') || (zone.starts_with('0') && zone.contains(':')) => {
                return Err(KeyError::InvalidRange(zone.to_owned()));
            }
            Some(range) => range.reverse_zones(),
        };
        Ok(Self { transport, zones, port })
    }
}

/// Splits off a number after the last colon.
fn split_port(address: &str) -> Result<(&str, Option<String>), KeyError> {
    let Some((before, after)) = address.rsplit_once(':') else { return Ok((address, None)) };
    if after.is_empty() {
        return Err(KeyError::NothingAfterColon(address.to_owned()));
    }
    // Go's Atoi takes a sign; the port is written without it.
    Ok(after.parse::<i64>().map_or((address, None), |port| (before, Some(port.to_string()))))
}

/// Lower case, without the final dot.
fn normal(zone: &str) -> String {
    let bare = if is_qualified(zone) && zone != "." { &zone[..zone.len() - 1] } else { zone };
    if bare.bytes().all(|byte| byte.is_ascii() && !byte.is_ascii_uppercase()) {
        return bare.to_owned();
    }
    bare.to_lowercase()
}

/// Whether the name ends in a dot that is not escaped.
fn is_qualified(name: &str) -> bool {
    let Some(bare) = name.strip_suffix('.') else { return false };
    if !bare.ends_with('\\') {
        return true;
    }
    // As the DNS library of CoreDNS counts: from the first byte of the last other character.
    let other = bare.char_indices().rev().find(|&(_, c)| c != '\\');
    other.map_or(bare.len() + 1, |(at, _)| bare.len() - at) % 2 != 0
}

/// Whether labels and length are fit for DNS, as `miekg/dns: defaults.go` judges. Nearly anything is, but not nothing.
fn is_domain_name(name: &str) -> bool {
    if name.is_empty() {
        return false;
    }
    // The name with a final dot, which need not be written.
    let length = name.len() + usize::from(!is_qualified(name));
    let byte =
        |at: usize| name.as_bytes().get(at).copied().or_else(|| (at == name.len() && at < length).then_some(b'.'));
    let (mut label_start, mut total, mut at) = (0_usize, 0_usize, 0_usize);
    let (mut after_dot, mut after_escape) = (false, false);
    while let Some(current) = byte(at) {
        match current {
            b'\\' => {
                after_escape = !after_escape;
                let digits = (1..4).all(|offset| byte(at + offset).is_some_and(|byte| byte.is_ascii_digit()));
                // An escaped character counts as one.
                let skipped = if digits { 3 } else { 1 };
                at += skipped;
                label_start += skipped;
                after_dot = false;
            }
            b'.' => {
                let label = at.saturating_sub(label_start);
                total += label + 1;
                if (at == 0 && length > 1) || after_dot || label > 63 || total > 256 {
                    return false;
                }
                (after_dot, after_escape) = (true, false);
                label_start = at + 1;
            }
            _ => (after_dot, after_escape) = (false, false),
        }
        at += 1;
    }
    !after_escape
}

/// A network range as Go's `net.ParseCIDR` reads it: its address and the length of its prefix.
pub(crate) fn parse_range(text: &str) -> Option<(IpAddr, u32)> {
    Range::read(text).map(|range| (range.address, range.prefix))
}

/// A network range: the address with host bits cleared, and the length of the prefix.
struct Range {
    address: IpAddr,
    prefix: u32,
}

impl Range {
    fn read(text: &str) -> Option<Self> {
        let (address, prefix) = text.split_once('/')?;
        let address: IpAddr = address.parse().ok()?;
        let bits = if address.is_ipv4() { 32 } else { 128 };
        if prefix.is_empty() || !prefix.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let prefix: u32 = prefix.parse().ok()?;
        (prefix <= bits).then_some(Self { address, prefix })
    }

    /// The reverse zones that together make up the range: at byte borders for IPv4, at half-byte borders for IPv6.
    fn reverse_zones(&self) -> Vec<String> {
        let (digits, per_digit, suffix) = match self.address {
            IpAddr::V4(address) => (address.octets().to_vec(), 8, "in-addr.arpa"),
            IpAddr::V6(address) => {
                let halves = address.octets().iter().flat_map(|byte| [byte >> 4, byte & 15]).collect();
                (halves, 4, "ip6.arpa")
            }
        };
        let kept = self.prefix.div_ceil(per_digit);
        let free_bits = kept * per_digit - self.prefix;
        let name = |digits: &[u8]| {
            let labels = digits.iter().rev().map(|digit| match self.address {
                IpAddr::V4(_) => format!("{digit}."),
                IpAddr::V6(_) => format!("{digit:x}."),
            });
            labels.collect::<String>() + suffix
        };
        let Some((&last, before)) = digits.get(..kept as usize).and_then(<[u8]>::split_last) else {
            return vec![suffix.to_owned()];
        };
        let first = u32::from(last) >> free_bits << free_bits;
        (first..first + (1 << free_bits))
            .filter_map(|last| u8::try_from(last).ok())
            .map(|last| name(&[before, &[last]].concat()))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zones(key: &str) -> Vec<String> {
        ServerKey::read(key).unwrap().zones
    }

    #[test]
    fn ports_are_numbers_after_the_last_colon() {
        for (key, zone, port) in [
            (".", ".", "53"),
            (".:1053", ".", "1053"),
            ("a.org:x", "a.org:x", "53"),
            ("a.org:053", "a.org", "53"),
            ("grpc://.", ".", "443"),
            ("quic://a.:99", "a", "99"),
            ("a::53", "a:", "53"),
        ] {
            let read = ServerKey::read(key).unwrap();
            assert_eq!((read.zones[0].as_str(), read.port.as_str()), (zone, port), "{key}");
        }
    }

    #[test]
    fn ranges_become_reverse_zones() {
        assert_eq!(zones("10.0.0.0/8"), ["10.in-addr.arpa"]);
        assert_eq!(zones("10.1.2.3/24:1053"), ["2.1.10.in-addr.arpa"]);
        assert_eq!(zones("10.0.0.64/27").len(), 32);
        assert_eq!(zones("10.0.0.64/27")[0], "64.0.0.10.in-addr.arpa");
        assert_eq!(
            zones("10.9.0.0/14"),
            ["8.10.in-addr.arpa", "9.10.in-addr.arpa", "10.10.in-addr.arpa", "11.10.in-addr.arpa"]
        );
        assert_eq!(zones("2001:db8::/32"), ["8.b.d.0.1.0.0.2.ip6.arpa"]);
        assert_eq!(zones("fd00::/7"), ["c.f.ip6.arpa", "d.f.ip6.arpa"]);
        assert_eq!(zones("0.0.0.0/0"), ["in-addr.arpa"]);
        assert_eq!(zones("1.2.3.4/32"), ["4.3.2.1.in-addr.arpa"]);
        assert_eq!(zones("1.2.3.4/33"), ["1.2.3.4/33"]);
    }

    #[test]
    fn what_dns_cannot_hold_is_refused() {
        let long = "x".repeat(64);
        for key in ["", ":53", "a..b", ".a", &long, "a.org:", "::1/64", "0:1::/64", "a\\", &"a.".repeat(129)] {
            assert!(ServerKey::read(key).is_err(), "{key}");
        }
        for key in ["a_b", "é", "}", "a\\.", &"a.".repeat(127)] {
            assert!(ServerKey::read(key).is_ok(), "{key}");
        }
    }
}
