//! `forward` and `grpc`: where queries go.

use super::super::advice::FILLED_AT_START;
use super::super::dispenser::{Outcome, refuse};
use super::super::plugin::{Site, Use};
use super::super::values;
use crate::expand::Word;
use crate::version::Version;
use crate::zone::{ServerKey, Transport};
use std::net::IpAddr;

const MOST: usize = 15;

pub(super) fn health_check(arguments: &[&Word], site: &Site<'_>) -> Outcome {
    let mut options = arguments.iter().skip(1);
    while let Some(option) = options.next() {
        match option.text() {
            "no_rec" => {}
            "domain" if site.version >= Version::new(1, 9, 2) => match options.next() {
                Some(domain) if !domain.text().is_empty() => {}
                _ => return Err(refuse(option, "health_check: a domain is missing")),
            },
            other => return Err(refuse(option, format!("health_check: unknown option {other}"))),
        }
    }
    Ok(())
}

pub(super) fn after_use(this: &Use<'_>, site: &Site<'_>) -> Outcome {
    let version = site.version;
    let Some((from, targets)) = this.arguments.split_first() else { return Ok(()) };
    if version >= Version::new(1, 9, 1) && ServerKey::read(from.text()).is_err() {
        return Err(refuse(from, format!("unable to normalize '{}'", from.text())));
    }
    for target in targets {
        if !(site.placeholders && FILLED_AT_START.contains(&target.text())) {
            self::target(target, version)?;
        }
    }
    if targets.len() > MOST {
        return Err(refuse(targets[MOST], format!("more than {MOST} TOs configured: {}", targets.len())));
    }
    let nanoseconds = |property: &str| {
        let (_, arguments) = this.property(property)?;
        values::duration(arguments.first()?.text()).ok()
    };
    if let Some(age) = nanoseconds("max_age")
        && age > 0
        && age < nanoseconds("expire").unwrap_or(10_000_000_000)
    {
        return Err(refuse(this.name, "max_age must not be less than expire (10s unless set)"));
    }
    if this.has("tls_servername")
        && version >= Version::new(1, 13, 2)
        && let Some(target) =
            targets.iter().find(|target| target.text().starts_with("tls://") && target.text().contains('%'))
    {
        return Err(refuse(target, "both forward and proxy level TLS servernames are set"));
    }
    Ok(())
}

/// One place to forward to: an address, a file like resolv.conf, or (from 1.14.4) a name.
fn target(word: &Word, version: Version) -> Outcome {
    let text = word.text();
    let (transport, host) = Transport::of(text);
    if host.is_empty() {
        return Err(refuse(word, format!("invalid address: {text:?}")));
    }
    if transport == Transport::Https && host.contains('/') && version >= Version::new(1, 14, 5) {
        return Err(refuse(word, "paths are not allowed in HTTPS upstream addresses"));
    }
    let is_allowed = match transport {
        Transport::Dns | Transport::Tls => true,
        Transport::Https => version >= Version::new(1, 14, 5),
        Transport::Quic => version >= Version::new(1, 15, 0),
        Transport::Grpc | Transport::Https3 | Transport::Unix => false,
    };
    let is_ip = |host: &str| values::without_zone(host).parse::<IpAddr>().is_ok();
    let with_port = values::split_host_port(host);
    let address = match with_port {
        Ok((host, _)) => is_ip(host),
        Err(_) if version >= Version::new(1, 12, 0) => is_ip(host.trim_matches(['[', ']'])),
        Err(_) => is_ip(host),
    };
    if address || transport == Transport::Unix {
        let message = format!("'{}' is not supported as a destination protocol in forward: {text}", transport.scheme());
        return if is_allowed { Ok(()) } else { Err(refuse(word, message)) };
    }
    if transport == Transport::Dns && looks_like_file(host) {
        return Ok(());
    }
    let name = with_port.map_or(host, |(name, _)| name).trim_matches(['[', ']']);
    if version >= Version::new(1, 14, 4) && is_allowed && ServerKey::read(name).is_ok() {
        return Ok(()); // looked up at the start
    }
    Err(refuse(word, format!("not an IP address or file: {host:?}")))
}

/// Whether a word is more likely to be a path than an address. What is in the pod is not known here.
pub(in crate::check) fn looks_like_file(word: &str) -> bool {
    word.contains('/') && !word.contains("://")
}

pub(super) fn grpc(this: &Use<'_>) -> Outcome {
    let Some((from, targets)) = this.arguments.split_first() else { return Ok(()) };
    if ServerKey::read(from.text()).is_err() {
        return Err(refuse(from, format!("unable to normalize '{}'", from.text())));
    }
    for word in targets {
        let (_, host) = Transport::of(word.text());
        let address = values::split_host_port(host).map_or(host, |(host, _)| host);
        let address = values::without_zone(address.trim_matches(['[', ']']));
        if address.parse::<IpAddr>().is_err() && !looks_like_file(host) && !word.text().starts_with("unix://") {
            return Err(refuse(word, format!("not an IP address or file: {host:?}")));
        }
    }
    if targets.len() > MOST {
        return Err(refuse(targets[MOST], format!("more than {MOST} TOs configured: {}", targets.len())));
    }
    Ok(())
}
