//! What servers may not have in common: zones, addresses, ports (`coredns/coredns: core/dnsserver`).

use super::{CheckOptions, Code, Finding, ServerUses};
use crate::expand::{Expanded, Word};
use crate::knowledge::Knowledge;
use crate::version::Version;
use crate::zone::{ServerKey, Transport};
use std::collections::{HashMap, HashSet};

/// One address of a server, taken apart, and the word it is.
pub(super) type Key<'a> = (ServerKey, &'a Word);

/// The zones of a server, in lower case.
pub(super) fn zones_of(keys: &[Key<'_>]) -> Vec<String> {
    keys.iter().flat_map(|(key, _)| &key.zones).map(|zone| zone.to_lowercase()).collect()
}

/// CoreDNS looks at all addresses before any plugin. Gives those that it takes, server by server.
pub(super) fn check_keys<'a>(
    expanded: &'a Expanded,
    options: &CheckOptions<'_>,
    findings: &mut Vec<Finding>,
) -> Vec<Vec<Key<'a>>> {
    let mut read = |key: &'a str, word: &'a Word| match ServerKey::read_in(key, options.version()) {
        Ok(key) => Some((key, word)),
        Err(error) => {
            let finding = Finding::new(Code::ServerKey, word, format!("error inspecting server blocks: {error}"));
            findings.push(match key {
                key if key.starts_with(':') => finding.remedy("write the root zone before the port: .:53"),
                _ => finding,
            });
            None
        }
    };
    let mut keys = Vec::with_capacity(expanded.servers.len());
    for server in &expanded.servers {
        keys.push(server.keys.iter().filter_map(|(key, word)| read(key, word)).collect());
    }
    if let (true, Some((name, text))) = (expanded.servers.is_empty(), expanded.files().next()) {
        let mut finding = Finding::at_position(
            Code::NoServers,
            name,
            crate::span::Position::START,
            "there is no server in this file: CoreDNS runs its built-in one, which answers with the client's address",
        );
        finding.line_text = text.lines().next().map(str::to_owned);
        findings.push(finding);
    }
    keys
}

/// Ports are looked at when listeners are made, after all plugins.
pub(super) fn check_ports(servers: &[ServerUses<'_>], findings: &mut Vec<Finding>) {
    for (key, word) in servers.iter().flat_map(|server| &server.keys) {
        if key.transport != Transport::Unix && key.port.parse::<u16>().is_err() {
            findings.push(Finding::new(Code::ServerKey, word, format!("address {}: invalid port", key.port)));
        }
    }
}

/// Plugins that look for others in their server when it starts.
pub(super) fn check_companions(servers: &[ServerUses<'_>], options: &CheckOptions<'_>, findings: &mut Vec<Finding>) {
    for server in servers {
        // Before 1.11.0 it did nothing without kubernetes, in silence.
        if options.version() >= Version::new(1, 11, 0)
            && let (Some(this), []) = (server.uses("k8s_external").first(), server.uses("kubernetes"))
        {
            let finding = Finding::new(Code::Companion, this.name, "plugin/k8s_external: kubernetes plugin not loaded");
            findings.push(finding.remedy("add kubernetes to this server"));
        }
        for word in server.uses("autopath").iter().filter_map(|this| this.arguments.last()) {
            let Some(other) = word.text().strip_prefix('@') else { continue };
            if !["kubernetes", "erratic"].contains(&other)
                && server.server.plugins.iter().any(|used| used.name == other)
            {
                let message = format!("plugin/autopath: {other} does not implement the AutoPather interface");
                findings.push(Finding::new(Code::Companion, word, message));
            }
        }
        let other = server.keys.iter().find(|(key, _)| key.transport != Transport::Dns);
        if let (Some(this), Some((_, key))) = (server.uses("shed").first(), other) {
            let message =
                format!("plugin/shed: only plain DNS server blocks are supported, which {} is not", key.text());
            findings.push(Finding::new(Code::Companion, this.name, message));
        }
    }
}

/// What makes two servers one and the same.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Place<'a> {
    transport: Transport,
    zone: &'a str,
    port: &'a str,
    address: &'a str,
}

impl Place<'_> {
    fn unbound(&self) -> Self {
        Self { address: "", ..*self }
    }

    fn describe(&self) -> String {
        let on = if self.address.is_empty() { String::new() } else { format!(" on {}", self.address) };
        let dot = if self.zone.ends_with('.') { "" } else { "." };
        format!("{}://{}{dot}:{}{on}", self.transport.scheme(), self.zone, self.port)
    }
}

/// More combinations of zones and addresses than this are not looked at.
const MOST_PLACES: usize = 200_000;

/// The addresses that a server binds to; the empty one for all.
fn addresses<'a>(server: &ServerUses<'a>) -> Vec<&'a str> {
    let uses = server.uses("bind");
    if uses.is_empty() {
        return vec![""];
    }
    let excepted: HashSet<&str> =
        uses.iter().flat_map(|this| &this.properties).flat_map(|(_, words)| words).map(|word| word.text()).collect();
    let all = uses.iter().flat_map(|this| &this.arguments).map(|word| word.text());
    all.filter(|address| !excepted.contains(address)).collect()
}

pub(super) fn check_overlaps(servers: &[ServerUses<'_>], options: &CheckOptions<'_>, findings: &mut Vec<Finding>) {
    let version = options.version();
    let mut registered: HashMap<Place<'_>, &Word> = HashMap::new();
    let mut bound: HashMap<Place<'_>, (Place<'_>, &Word)> = HashMap::new();
    // By port: where a server is bound to all addresses, and where to one.
    let mut by_port: HashMap<(Transport, &str), [Option<&Word>; 2]> = HashMap::new();
    for server in servers {
        let has_view = !server.uses("view").is_empty();
        let addresses = addresses(server);
        if server.zones.len().saturating_mul(addresses.len()) > MOST_PLACES {
            let (_, word) = &server.server.keys[0];
            let message = format!("more than {MOST_PLACES} combinations of zones and addresses in one server");
            findings.push(Finding::new(Code::Limit, word, message));
            continue;
        }
        let zones = server.keys.iter().flat_map(|(key, word)| key.zones.iter().map(move |zone| (key, zone, *word)));
        let places = zones.flat_map(|(key, zone, word)| {
            let at = |&address| (Place { transport: key.transport, zone, port: &key.port, address }, word);
            addresses.iter().map(at).collect::<Vec<_>>()
        });
        for (place, word) in places {
            let ports = by_port.entry((place.transport, place.port)).or_default();
            ports[usize::from(!place.address.is_empty())].get_or_insert(word);
            let there = |word: &Word| format!("{}:{}", word.file(), word.position());
            // Before 1.14.3 a server with a view had to stand before the one without.
            let exempt = has_view && version >= Version::new(1, 14, 3);
            if let Some(first) = registered.get(&place).filter(|_| !exempt) {
                let message = format!("cannot serve {} - it is already defined", place.describe());
                findings.push(Finding::new(Code::ZoneTwice, word, message).remedy(if has_view {
                    format!("put this server before the one at {}, which has no view", there(first))
                } else {
                    format!("join it with the server at {}", there(first))
                }));
                continue;
            }
            let unbound = place.unbound();
            let overlap = match (bound.get(&unbound), place.address.is_empty()) {
                (Some((other, first)), true) if !other.address.is_empty() => Some((other.describe(), *first)),
                (Some(_), false) => registered.get(&unbound).map(|first| (unbound.describe(), *first)),
                _ => None,
            };
            if let Some((other, first)) = overlap {
                let message =
                    format!("cannot serve {} - zone overlap listener capacity with {other}", place.describe());
                let remedy = format!("give both this server and the one at {} a bind, or neither", there(first));
                findings.push(Finding::new(Code::ZoneOverlap, word, message).remedy(remedy));
            } else if !has_view {
                bound.insert(unbound, (place, word));
                registered.insert(place, word);
            }
        }
    }
    let clash = findings.iter().any(|finding| finding.code == Code::ZoneOverlap);
    for ((_, port), pair) in by_port {
        if let ([Some(all), Some(one)], false) = (pair, clash) {
            let message = format!("on port {port} this server is bound to all addresses and another to one of them");
            let remedy = format!(
                "queries to the bound address reach only the server at {}:{}: give both a bind",
                one.file(),
                one.position()
            );
            findings.push(Finding::new(Code::BindShadow, all, message).remedy(remedy));
        }
    }
}

/// Ports that plugins open for the whole process.
pub(super) fn check_listeners(servers: &[ServerUses<'_>], options: &CheckOptions<'_>, findings: &mut Vec<Finding>) {
    // From 1.6.6 on these ports are opened so that the same process can open them again.
    let can_share = options.version() >= Version::new(1, 6, 6);
    let mut opened: HashMap<String, (&str, &Word)> = HashMap::new();
    for listener in Knowledge::get().listeners() {
        for this in servers.iter().flat_map(|server| server.uses(&listener.plugin)) {
            let word = this.arguments.first().copied().unwrap_or(this.name);
            let address = this.arguments.first().map_or(listener.default.as_str(), |word| word.text());
            let address = address.replacen("localhost:", "127.0.0.1:", 1);
            let Some((plugin, first)) = opened.get(&address) else {
                opened.insert(address, (&listener.plugin, word));
                continue;
            };
            if listener.shared && *plugin == listener.plugin {
                continue;
            }
            let there = format!("{}:{}", first.file(), first.position());
            let (code, message) = if can_share {
                let message = format!("{} opens {address} a second time: either listener may answer", this.name.text());
                (Code::ListenerShared, message)
            } else {
                (Code::ListenerTwice, format!("plugin/{}: listen {address}: address already in use", this.name.text()))
            };
            let remedy =
                format!("the port is one for the whole process and {plugin} at {there} has it: keep one of them");
            findings.push(Finding::new(code, word, message).remedy(remedy));
        }
    }
}
