//! Plugins with one or two rules of their own.

use super::super::dispenser::{Dispenser, Outcome, refuse};
use super::super::plugin::{Site, Use, arguments, properties};
use super::super::values;
use super::SECOND;
use crate::expand::Word;
use crate::knowledge::{Kind, Plugin, Property};
use crate::version::Version;
use crate::zone::{ServerKey, parse_range};
use std::collections::HashSet;
use std::net::IpAddr;

/// Refuses the first word that a test does not take.
pub(super) fn each<'a>(
    words: impl Iterator<Item = &'a &'a Word>,
    test: impl Fn(&str) -> Result<(), String>,
) -> Outcome {
    for word in words {
        test(word.text()).map_err(|message| refuse(word, message))?;
    }
    Ok(())
}

/// One range as the argument, and then no block is looked for.
pub(super) fn dns64<'a>(plugin: &Plugin, d: &mut Dispenser<'a>, this: &mut Use<'a>, site: &Site<'_>) -> Outcome<bool> {
    this.arguments = arguments(&plugin.arguments, false, d, site.version)?;
    match this.arguments.first() {
        Some(word) => translation_prefix(word, site.version)?,
        None => properties(plugin, d, this, site)?,
    }
    Ok(true)
}

/// Prefixes for the translation of IPv4 into IPv6.
pub(super) fn prefix(plugin: &Plugin, property: &Property, arguments: &[&Word], site: &Site<'_>) -> Outcome {
    match (plugin.name.as_str(), property.name.as_str(), arguments) {
        ("dns64", "prefix", [word]) => translation_prefix(word, site.version),
        ("siit", "ipv6_prefix", [word]) => {
            translation_prefix(word, site.version)?;
            match parse_range(word.text()) {
                Some((IpAddr::V6(address), _)) if address.octets()[8] == 0 => Ok(()),
                _ => Err(refuse(word, "reserved octet (byte 8) must be zero")),
            }
        }
        ("siit", "eam", [four, six]) => match (four.text().parse::<IpAddr>(), six.text().parse::<IpAddr>()) {
            (Ok(IpAddr::V4(_)), Ok(IpAddr::V6(_))) => Ok(()),
            (Ok(IpAddr::V4(_)), _) => Err(refuse(six, format!("invalid IPv6 address: '{}'", six.text()))),
            _ => Err(refuse(four, format!("invalid IPv4 address: '{}'", four.text()))),
        },
        _ => Ok(()),
    }
}

fn translation_prefix(word: &Word, version: Version) -> Outcome {
    let lengths: &[u32] = if version >= Version::new(1, 15, 0) {
        &[32, 40, 48, 56, 64, 96]
    } else {
        &[32, 40, 48, 56, 64, 72, 80, 88, 96]
    };
    match parse_range(word.text()) {
        Some((IpAddr::V6(_), length)) if lengths.contains(&length) => Ok(()),
        Some((IpAddr::V4(_), _)) => Err(refuse(word, format!("invalid netmask: '{}' is not IPv6", word.text()))),
        _ => Err(refuse(word, format!("invalid prefix length '{}'", word.text()))),
    }
}

pub(super) fn loadbalance<'a>(plugin: &Plugin, d: &mut Dispenser<'a>, this: &mut Use<'a>, site: &Site<'_>) -> Outcome {
    this.arguments = d.rest_of_line();
    let words: Vec<&str> = this.arguments.iter().map(|word| word.text()).collect();
    let weighted = site.version >= Version::new(1, 10, 1);
    let prefer = site.version >= Version::new(1, 12, 4);
    let takes = match words.as_slice() {
        [] | ["round_robin"] => None,
        ["round_robin", ..] => return Err(refuse(this.name, "unknown property for round_robin")),
        ["weighted", _] if weighted => Some("reload"),
        ["weighted"] if weighted => return Err(refuse(this.name, "missing weight file argument")),
        ["weighted", ..] if weighted => return Err(refuse(this.name, "unexpected argument(s)")),
        [policy, ..] => return Err(refuse(this.arguments[0], format!("unknown policy: {policy}"))),
    };
    if takes.is_none() && !prefer {
        while d.next() {} // whatever follows is not looked at
        return Ok(());
    }
    while d.next_block() {
        let name = d.word();
        let expected = takes.unwrap_or("prefer");
        let property = plugin.property(name.text()).filter(|property| property.name == expected);
        let Some(property) = property else { return Err(d.unknown_property()) };
        let words = arguments(&property.arguments, false, d, site.version)?;
        this.properties.push((name, words));
    }
    Ok(())
}

pub(super) fn header<'a>(d: &mut Dispenser<'a>, this: &mut Use<'a>, site: &Site<'_>) -> Outcome {
    while d.next_block() {
        let selector = d.word();
        let word = selector.text().to_lowercase();
        let action = match word.as_str() {
            "query" | "response" if site.version >= Version::new(1, 9, 4) => {
                if d.next_argument() {
                    d.text().to_lowercase()
                } else {
                    String::new()
                }
            }
            "set" | "clear" if site.version < Version::new(1, 12, 4) => word,
            _ => {
                let message = format!("setting up rule: invalid selector={word} should be query or response");
                return Err(d.refuse(message));
            }
        };
        let flags = d.rest_of_line();
        if !["set", "clear"].contains(&action.as_str()) {
            return Err(d.refuse(format!("setting up rule: unknown flag action={action}, should be set or clear")));
        }
        if flags.is_empty() {
            return Err(d.refuse("setting up rule: invalid length for flags, at least one should be provided"));
        }
        each(flags.iter(), |flag| match flag.to_lowercase().as_str() {
            "aa" | "ra" | "rd" => Ok(()),
            flag => Err(format!("setting up rule: unknown/unsupported flag={flag}")),
        })?;
        this.properties.push((selector, flags));
    }
    if this.properties.is_empty() {
        return Err(d.wrong_count());
    }
    while d.next() {} // only the first use with rules counts
    Ok(())
}

/// Lines that are no properties are entries, until `fallthrough` has been read.
pub(super) fn hosts<'a>(plugin: &Plugin, d: &mut Dispenser<'a>, this: &mut Use<'a>, site: &Site<'_>) -> Outcome {
    this.arguments = d.rest_of_line();
    let mut falls_through = false;
    while d.next_block() {
        let name = d.word();
        let known = plugin.property(name.text()).filter(|property| property.lifetime.covers(site.version));
        falls_through |= name.text() == "fallthrough";
        let words = match known {
            Some(property) => arguments(&property.arguments, property.takes_next, d, site.version)?,
            None if falls_through => return Err(d.unknown_property()),
            None => d.rest_of_line(),
        };
        this.properties.push((name, words));
    }
    Ok(())
}

pub(super) fn consolidate(name: &Word, arguments: &[&Word], version: Version) -> Outcome {
    let most = if version >= Version::new(1, 14, 0) { 4 } else { 2 + usize::from(version >= Version::new(1, 8, 5)) };
    if arguments.len() > most {
        return Err(refuse(name, "Wrong argument count or unexpected line ending after 'consolidate'"));
    }
    let (mut level, mut show_first) = (false, false);
    for word in arguments.iter().skip(2) {
        match word.text() {
            "warning" | "error" | "info" | "debug" if !level && !show_first => level = true,
            "show_first" if version >= Version::new(1, 14, 0) => show_first = true,
            other => return Err(refuse(word, format!("unknown option in consolidate: {other}"))),
        }
    }
    Ok(())
}

pub(super) fn reload(this: &Use<'_>, version: Version) -> Outcome {
    let nanoseconds = |index: usize| this.arguments.get(index).and_then(|word| values::duration(word.text()).ok());
    if nanoseconds(0).is_some_and(|interval| interval < 2 * SECOND) {
        return Err(refuse(this.arguments[0], "interval value must be greater or equal to 2s"));
    }
    let least = SECOND;
    match nanoseconds(1) {
        Some(0) if version >= Version::new(1, 14, 2) => Ok(()),
        Some(jitter) if jitter < least => Err(refuse(this.arguments[1], "jitter value must be greater or equal to 1s")),
        _ => Ok(()),
    }
}

pub(super) fn dnstap(this: &Use<'_>, version: Version) -> Outcome {
    let listens =
        version >= Version::new(1, 14, 4) && this.arguments.first().is_some_and(|word| word.text() == "listen");
    let arguments = &this.arguments[usize::from(listens)..];
    if arguments.is_empty() {
        return Err(refuse(this.name, "dnstap listen requires an endpoint argument"));
    }
    if !listens && let Some((tls, _)) = this.property("tls") {
        return Err(refuse(tls, "tls directive only valid for listeners"));
    }
    if version < Version::new(1, 13, 0) {
        return Ok(());
    }
    for (word, most) in arguments.iter().skip(2).zip([1024, 4096]) {
        values::check(&Kind::Int(1, most), word.text(), version).map_err(|message| refuse(word, message))?;
    }
    Ok(())
}

/// With files it is set up by hand; without, from 1.14.7, by ACME.
pub(super) fn tls(this: &Use<'_>, version: Version) -> Outcome {
    const ACME: [&str; 6] = ["acme", "email", "ca", "storage", "ca_root", "resolver"];
    let by_acme = this.arguments.is_empty() && version >= Version::new(1, 14, 7);
    if !by_acme && !(2..=3).contains(&this.arguments.len()) {
        return Err(refuse(this.name, "Wrong argument count or unexpected line ending after 'tls'"));
    }
    match this.properties.iter().find(|(name, _)| ACME.contains(&name.text()) != by_acme) {
        Some((name, _)) if by_acme => Err(refuse(name, format!("unknown ACME option {:?}", name.text()))),
        Some((name, _)) => Err(refuse(name, format!("unknown option '{}'", name.text()))),
        None if by_acme && !this.has("acme") => Err(refuse(this.name, "ACME needs the names to get a certificate for")),
        None => Ok(()),
    }
}

pub(super) fn kubernetes(this: &Use<'_>, site: &Site<'_>) -> Outcome {
    let zones: Vec<String> = if this.arguments.is_empty() {
        site.zones.to_vec()
    } else {
        let keys = this.arguments.iter().filter_map(|word| ServerKey::read(word.text()).ok());
        keys.flat_map(|key| key.zones).collect()
    };
    // The top of a reverse tree does not count as reverse to CoreDNS.
    if zones.iter().all(|zone| zone.ends_with(".in-addr.arpa") || zone.ends_with(".ip6.arpa")) {
        return Err(refuse(this.name, "non-reverse zone name must be used"));
    }
    if this.has("namespaces") && this.has("namespace_labels") {
        return Err(refuse(this.name, "namespaces and namespace_labels cannot both be set"));
    }
    if this.has("zonal") && this.has("noendpoints") {
        return Err(refuse(this.name, "zonal requires the endpoint cache; remove noendpoints"));
    }
    let Some((_, multicluster)) = this.property("multicluster") else { return Ok(()) };
    let zones: HashSet<&String> = zones.iter().collect();
    each(multicluster.iter(), |word| match ServerKey::read(word) {
        Ok(key) if key.zones.iter().any(|zone| !zones.contains(&zone)) => {
            Err(format!("is not authoritative for the multicluster zone {word}"))
        }
        _ => Ok(()),
    })
}

/// Where keys come from: files, or names in a store. Other words are passed over, but nothing may follow them.
pub(super) fn key(plugin: &Plugin, arguments: &[&Word], version: Version) -> Outcome {
    let Some((from, names)) = arguments.split_first() else { return Ok(()) };
    let is_known = match (plugin.name.as_str(), from.text()) {
        (_, "file") => true,
        ("dnssec", "aws_secretsmanager") => version >= Version::new(1, 11, 4),
        ("sign", "directory") => return Err(refuse(from, "directory: not implemented")),
        _ => false,
    };
    match names.first() {
        None if is_known => Err(refuse(from, "Wrong argument count or unexpected line ending after 'key'")),
        Some(name) if !is_known => Err(refuse(name, format!("unknown property '{}'", name.text()))),
        _ => Ok(()),
    }
}

/// An event, and the command to run then.
pub(super) fn on<'a>(d: &mut Dispenser<'a>, this: &mut Use<'a>) -> Outcome {
    this.arguments = d.rest_of_line();
    let Some((event, command)) = this.arguments.split_first() else { return Err(d.wrong_count()) };
    if !["startup", "shutdown", "certrenew"].contains(&event.text().to_lowercase().as_str()) {
        return Err(refuse(event, format!("Wrong event name or event not supported: '{}'", event.text())));
    }
    if command.iter().all(|word| word.text().trim().is_empty()) {
        return Err(refuse(event, "no command contained in ''"));
    }
    Ok(())
}

pub(super) fn require(arguments: &[&Word], what: &str, known: impl Fn(&str) -> bool) -> Outcome {
    if arguments.first().is_some_and(|word| ["all", "none"].contains(&word.text())) {
        return Ok(());
    }
    each(arguments.iter(), |word| if known(word) { Ok(()) } else { Err(format!("unknown {what} '{word}'")) })
}

pub(super) fn tsig(this: &Use<'_>) -> Outcome {
    let mut seen = HashSet::new();
    for (_, arguments) in this.properties.iter().filter(|(name, _)| name.text() == "secret") {
        let Some(key) = arguments.first() else { continue };
        let name = key.text().trim_end_matches('.').to_lowercase();
        if seen.contains(&name) {
            return Err(refuse(key, format!("key {name:?} redefined")));
        }
        seen.insert(name);
    }
    Ok(())
}

/// Zones of clouds: parts with colons between, each once.
pub(super) fn pairs(this: &Use<'_>, parts: usize) -> Outcome {
    let mut seen: HashSet<&str> = HashSet::new();
    for word in &this.arguments {
        let text = word.text();
        let found: Vec<&str> = text.splitn(parts, ':').collect();
        if found.len() != parts || found.contains(&"") {
            return Err(refuse(word, format!("invalid zone {text:?}")));
        }
        if !seen.insert(text) {
            return Err(refuse(word, format!("conflict zone {text:?}")));
        }
    }
    Ok(())
}

pub(super) fn allow(arguments: &[&Word]) -> Outcome {
    match arguments {
        [key, ..] if ["*", "@"].contains(&key.text()) || key.text().trim().is_empty() => {
            Err(refuse(key, format!("invalid TSIG key {:?}", key.text())))
        }
        [_, _, types @ ..] if types.len() > 1 && types.iter().any(|word| word.text() == "*") => {
            Err(refuse(types[0], "wildcard RR type must be the only type in an allow rule"))
        }
        [_, _, types @ ..] => each(types.iter(), |word| {
            let upper = word.to_uppercase();
            let refused = ["AXFR", "IXFR", "MAILA", "MAILB", "OPT", "TKEY", "TSIG", "NONE"].contains(&upper.as_str());
            let known =
                values::is_record_type(&upper) || upper.strip_prefix("TYPE").is_some_and(|n| n.parse::<u16>().is_ok());
            if word == "*" || (known && !refused) {
                Ok(())
            } else {
                Err(format!("invalid RR type {word:?} in allow rule"))
            }
        }),
        _ => Ok(()),
    }
}

pub(super) fn dynupdate(this: &Use<'_>, site: &Site<'_>) -> Outcome {
    if this.arguments.is_empty() && site.zones.len() != 1 {
        let message = "zone is required when the server block does not define exactly one zone";
        return Err(refuse(this.name, message));
    }
    for (property, message) in [("file", "file is required"), ("allow", "at least one allow rule is required")] {
        if !this.has(property) {
            return Err(refuse(this.name, message));
        }
    }
    Ok(())
}
