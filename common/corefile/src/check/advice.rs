//! What starts but does not do what it says, and what to do about it.

use super::dispenser::Refusal;
use super::own::looks_like_file;
use super::plugin::Use;
use super::{CheckOptions, Code, Finding, ServerUses, distance, values};
use crate::error::{ErrorKind, ParseError};
use crate::expand::{ExpandedServer, Word};
use crate::knowledge::{Arguments, Kind, Knowledge, Plugin, Uses};
use crate::span::Position;
use crate::version::Version;
use crate::zone::ServerKey;
use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

/// The two placeholders that node-cache fills in when it starts.
pub(super) const FILLED_AT_START: [&str; 2] = ["__PILLAR__CLUSTER__DNS__", "__PILLAR__UPSTREAM__SERVERS__"];

pub(super) fn give(servers: &[ServerUses<'_>], options: &CheckOptions<'_>, findings: &mut Vec<Finding>) {
    for server in servers {
        for (plugin, uses) in &server.plugins {
            for this in uses {
                about_words(plugin, this, server, options, findings);
            }
        }
        about_forwards(server, options, findings);
        about_hosts(server, findings);
        about_interfaces(server, findings);
        about_placeholders(server.server, options, findings);
    }
    about_probes(servers, options, findings);
}

/// Words that a release does not even look at.
pub(super) fn about_unread(plugin: &Plugin, server: &ExpandedServer, version: Version, findings: &mut Vec<Finding>) {
    let uses = || server.plugins.iter().filter(|used| used.name == plugin.name);
    if plugin.uses_in(version) == Uses::First
        && let Some(second) = uses().nth(1)
    {
        let message = format!("only the first use of {} in a server is read", plugin.name);
        findings.push(Finding::new(Code::Ignored, &second.words[0], message));
    }
    let unread = |word: &Word, findings: &mut Vec<Finding>| {
        let message =
            format!("plugin/{}: '{}' is passed over in silence by CoreDNS {version}", plugin.name, word.text());
        let finding = Finding::new(Code::Ignored, word, message);
        let remedy = super::plugin::remedy(plugin, word.text(), version)
            .unwrap_or_else(|| "remove it: from 1.14.4 CoreDNS refuses it".to_owned());
        findings.push(finding.remedy(remedy));
    };
    for used in uses() {
        if plugin.is_unread(version) {
            if let Some(word) = used.words.get(1) {
                unread(word, findings);
            }
        } else if plugin.is_lax(version) && plugin.reads_block(version) {
            let mut depth = 0_usize;
            for pair in used.words.windows(2) {
                depth += usize::from(pair[0].text() == "{");
                depth -= usize::from(pair[0].text() == "}" && depth > 0);
                let starts_line = !pair[0].is_followed_on_line_by(&pair[1]);
                let word = &pair[1];
                let known = plugin.property(word.text()).is_some_and(|property| property.lifetime.covers(version));
                if depth > 0 && starts_line && !known && word.text() != "}" {
                    unread(word, findings);
                }
            }
        }
    }
}

/// Zones that are none, and relative paths.
fn about_words(
    plugin: &Plugin,
    this: &Use<'_>,
    server: &ServerUses<'_>,
    options: &CheckOptions<'_>,
    findings: &mut Vec<Finding>,
) {
    let rooted = !server.uses("root").is_empty();
    let mut look = |list: &Arguments, words: &[&Word]| {
        for (kind, word) in list.kinds(words.len()).zip(words) {
            match kind {
                Kind::Zone if ServerKey::read(word.text()).is_err() => {
                    let message = format!("'{}' is no zone and is passed over in silence", word.text());
                    findings.push(Finding::new(Code::InvalidZone, word, message));
                }
                Kind::Path if !rooted && !word.text().starts_with('/') && !word.text().is_empty() => {
                    findings.push(relative_path(word, options.version()));
                }
                _ => {}
            }
        }
    };
    if plugin.name != "root" {
        look(&plugin.arguments, &this.arguments);
    }
    for (name, words) in &this.properties {
        if let Some(property) = plugin.property(name.text()) {
            look(&property.arguments, words);
        }
    }
}

fn relative_path(word: &Word, version: Version) -> Finding {
    let in_home = (Version::new(1, 11, 0)..Version::new(1, 11, 4)).contains(&version);
    let directory = if in_home { "/home/nonroot" } else { "/" };
    let message =
        format!("the relative path '{}' starts at {directory} in the image of CoreDNS {version}", word.text());
    Finding::new(Code::RelativePath, word, message).remedy("write the whole path: the start differs between releases")
}

fn about_forwards(server: &ServerUses<'_>, options: &CheckOptions<'_>, findings: &mut Vec<Finding>) {
    let mut taken: HashMap<String, &Word> = HashMap::new();
    let own_ports: HashSet<&str> = server.keys.iter().map(|(key, _)| key.port.as_str()).collect();
    for this in server.uses("forward") {
        let Some((from, targets)) = this.arguments.split_first() else { continue };
        let zone = ServerKey::read(from.text()).ok().and_then(|key| key.zones.into_iter().next());
        if let Some(zone) = zone {
            if let Some(first) = parents(&zone).find_map(|parent| taken.get(parent)) {
                let line = first.position().line;
                let message = format!("this forward never gets a query: the one on line {line} takes them all");
                let remedy = "join the two in one forward with all addresses, or put the narrower zone first";
                findings.push(Finding::new(Code::ForwardShadowed, this.name, message).remedy(remedy));
            } else if !this.has("except") {
                taken.insert(zone, this.name);
            }
        }
        for target in targets {
            about_target(target, server, &own_ports, options, findings);
        }
    }
}

/// A zone and all that it lies in, the root last.
fn parents(zone: &str) -> impl Iterator<Item = &str> {
    let inner = std::iter::successors(Some(zone), |zone| zone.split_once('.').map(|(_, parent)| parent));
    inner.filter(|zone| !zone.is_empty()).chain(std::iter::once("."))
}

fn about_target(
    target: &Word,
    server: &ServerUses<'_>,
    own_ports: &HashSet<&str>,
    options: &CheckOptions<'_>,
    findings: &mut Vec<Finding>,
) {
    let (_, host) = crate::zone::Transport::of(target.text());
    let (name, port) = values::split_host_port(host).unwrap_or((host, "53"));
    let address = values::without_zone(name.trim_matches(['[', ']'])).parse::<IpAddr>();
    let Ok(address) = address else {
        if host == "/etc/resolv.conf" {
            about_resolv_conf(target, server, options, findings);
        } else if !looks_like_file(host) && !FILLED_AT_START.contains(&host) {
            let message = format!("the name '{host}' is looked up when CoreDNS starts, and must be found then");
            findings.push(Finding::new(Code::HostName, target, message));
        }
        return;
    };
    let to_itself = address.is_loopback() && server.uses("bind").is_empty() && own_ports.contains(port);
    if options.cluster_dns.contains(&address) && !options.node_cache {
        let message = format!("{address} is the cluster's DNS Service, which leads back to this CoreDNS");
        let remedy = "forward to the servers outside the cluster, such as those in /etc/resolv.conf of the node";
        findings.push(Finding::new(Code::ForwardLoop, target, message).remedy(remedy));
    } else if to_itself {
        let message = format!("{address} port {port} is this server itself");
        findings.push(Finding::new(Code::ForwardLoop, target, message));
    }
}

/// A resolv.conf that names a local stub: inside the pod that is CoreDNS itself, and `loop` stops it.
fn about_resolv_conf(target: &Word, server: &ServerUses<'_>, options: &CheckOptions<'_>, findings: &mut Vec<Finding>) {
    let lines = options.resolv_conf.unwrap_or_default().lines();
    let servers = lines.filter_map(|line| line.trim().strip_prefix("nameserver")).map(str::trim);
    let Some(stub) = servers.filter_map(|server| server.parse::<IpAddr>().ok()).find(IpAddr::is_loopback) else {
        return;
    };
    let stops =
        if server.uses("loop").is_empty() { "" } else { ", and the plugin loop stops CoreDNS when it sees that" };
    let message = format!("resolv.conf names {stub}, which inside the pod is CoreDNS itself{stops}");
    let remedy = "set resolvConf of the kubelet to a file with the real servers (/run/systemd/resolve/resolv.conf); do \
                  not remove loop";
    findings.push(Finding::new(Code::ForwardLoop, target, message).remedy(remedy));
}

/// Names that `hosts` does not hold are answered with NXDOMAIN where it does not let them through.
fn about_hosts(server: &ServerUses<'_>, findings: &mut Vec<Finding>) {
    let others = ["forward", "kubernetes", "file", "auto", "etcd", "grpc", "secondary"];
    let Some(next) = others.iter().find(|plugin| !server.uses(plugin).is_empty()) else { return };
    for this in server.uses("hosts").iter().filter(|this| !this.has("fallthrough")) {
        let zones = this.arguments.get(1..).unwrap_or_default();
        let everything = zones.is_empty() || zones.iter().any(|zone| zone.text() == ".");
        if everything {
            let message = format!("hosts has no fallthrough: names it does not hold never reach {next}");
            let remedy = "add the line fallthrough, or name the zones that hosts alone answers for";
            findings.push(Finding::new(Code::HostsSwallows, this.name, message).remedy(remedy));
        }
    }
}

fn about_interfaces(server: &ServerUses<'_>, findings: &mut Vec<Finding>) {
    for word in server.uses("bind").iter().flat_map(|this| &this.arguments) {
        if word.text().parse::<IpAddr>().is_err() {
            let message = format!("'{}' has to be a network interface of the node", word.text());
            findings.push(Finding::new(Code::InterfaceName, word, message));
        }
    }
}

fn about_placeholders(server: &ExpandedServer, options: &CheckOptions<'_>, findings: &mut Vec<Finding>) {
    let words = server.keys.iter().map(|(_, word)| word).chain(server.plugins.iter().flat_map(|used| &used.words));
    for word in words.filter(|word| word.text().contains('_') && word.text().contains("__PILLAR__")) {
        if options.node_cache && FILLED_AT_START.contains(&word.text()) {
            continue;
        }
        let code = if options.node_cache { Code::Placeholder } else { Code::PlaceholderLeft };
        let finding = Finding::new(code, word, format!("the placeholder {} is left over", word.text()));
        findings.push(finding.remedy("whoever installs the file has to fill it in"));
    }
}

fn about_probes(servers: &[ServerUses<'_>], options: &CheckOptions<'_>, findings: &mut Vec<Finding>) {
    let opens = |plugin: &str, default: &str, port: u16| {
        let mut uses = servers.iter().flat_map(|server| server.uses(plugin));
        uses.any(|this| {
            let address = this.arguments.first().map_or(default, |word| word.text());
            values::split_host_port(address).is_ok_and(|(_, opened)| opened == port.to_string())
        })
    };
    let Some((_, place)) = servers.first().and_then(|server| server.server.keys.first()) else { return };
    if let Some(port) = options.probes.readiness.filter(|&port| !opens("ready", ":8181", port)) {
        let message = format!("pods are probed for readiness on port {port}, which the plugin ready does not open");
        let remedy = format!("add the line ready{} to one server", port_argument(port, 8181));
        findings.push(Finding::new(Code::ProbeWithoutReady, place, message).remedy(remedy));
    }
    if let Some(port) = options.probes.liveness.filter(|&port| !opens("health", ":8080", port)) {
        let message = format!("pods are probed for liveness on port {port}, which the plugin health does not open");
        let remedy = format!("add the line health{} to one server", port_argument(port, 8080));
        findings.push(Finding::new(Code::ProbeWithoutHealth, place, message).remedy(remedy));
    }
}

fn port_argument(port: u16, default: u16) -> String {
    if port == default { String::new() } else { format!(" :{port}") }
}

pub(super) fn about_release(name: &str, options: &CheckOptions<'_>, findings: &mut Vec<Finding>) {
    let mut add = |code, message, remedy| {
        findings.push(Finding::at_position(code, name, Position::START, message).remedy(remedy));
    };
    let release = options.release;
    if release.is_newer_than_known() {
        let message = format!("CoreDNS {} is not known here: judged as {}", release.asked, release.rules_of);
        add(Code::NewerThanKnown, message, "update this tool".to_owned());
    }
    if let Some(bad) = Knowledge::get().bad_release(release.asked).filter(|_| !options.node_cache) {
        let message = format!("CoreDNS {}: {} ({})", bad.version, bad.reason, bad.evidence);
        add(Code::BadRelease, message, format!("use {} instead", bad.instead));
    }
}

/// What to do about a text that is no Corefile.
pub(super) fn for_parse_error(error: &ParseError, text: &str, options: &CheckOptions<'_>) -> Option<String> {
    match &error.kind {
        ErrorKind::UnknownDirective { name } => for_unknown_plugin(name, error, text, options),
        ErrorKind::UnexpectedEof | ErrorKind::UnexpectedToken { expected: "}", .. } => {
            Some("a closing brace is missing".to_owned())
        }
        ErrorKind::UnmatchedClose => Some("put the closing brace on a line of its own".to_owned()),
        ErrorKind::SnippetDepth { .. } | ErrorKind::FileDepth { .. } if options.version() < Version::new(1, 13, 0) => {
            Some("CoreDNS before 1.13.0 hangs on a circle of imports".to_owned())
        }
        ErrorKind::ImportUnreadable { path, .. } if path.ends_with("/..data") => {
            Some("a mounted ConfigMap has hidden directories: import *.server or the like, not a bare *".to_owned())
        }
        _ => None,
    }
}

fn for_unknown_plugin(name: &str, error: &ParseError, text: &str, options: &CheckOptions<'_>) -> Option<String> {
    // A brace without a blank before it opens nothing, so the lines of the block are read as plugins.
    let above = text.get(..error.position.offset)?.trim_end();
    let last = above.split_whitespace().next_back().unwrap_or_default();
    if last.len() > 1 && last.ends_with('{') {
        return Some(format!("put a blank before the brace in '{last}'"));
    }
    let knowledge = Knowledge::get();
    let version = options.version();
    if let Some(plugin) = knowledge.plugin(name) {
        return Some(match (plugin.lifetime.since, plugin.lifetime.removed) {
            (_, Some(removed)) if version >= removed => format!("CoreDNS {removed} took {name} away"),
            (Some(since), _) if version < since => format!("{name} needs CoreDNS {since} or newer"),
            _ => format!("the image of NodeLocal DNS cache does not have {name}"),
        });
    }
    if let Some(plugin) = knowledge.plugins().iter().find(|plugin| plugin.property(name).is_some()) {
        return Some(format!("'{name}' is a property of {}: it has to stand in its block", plugin.name));
    }
    let there = knowledge.plugins().iter().filter(|plugin| options.has_plugin(&plugin.name));
    let near = there.map(|plugin| (distance::between(name, &plugin.name), &plugin.name)).min()?;
    (near.0 <= 2 && near.0 < near.1.len()).then(|| format!("did you mean '{}'?", near.1))
}

/// What to do about a plugin that refuses its configuration.
pub(super) fn for_refusal(refusal: &Refusal, server: &ExpandedServer, plugin: &Plugin) -> Option<String> {
    if refusal.message.contains("only be used once") {
        let mut uses = server.plugins.iter().filter(|used| used.name == plugin.name).map(|used| &used.words[0]);
        let first = uses.next()?;
        let there = format!("{}:{}", first.file(), first.position());
        let second = uses.next().map(|second| format!(" and the one at {}:{}", second.file(), second.position()));
        return Some(match second {
            Some(second) => format!("join the use at {there}{second} in one"),
            None => "this CoreDNS reads no block here, so what stands in it counts as a further use".to_owned(),
        });
    }
    let raw = refusal.at.raw();
    if raw != refusal.at.text() && refusal.at.text().contains(char::is_whitespace) {
        return Some(format!("the value of {raw} stays one word, blanks and all: no list can come from one variable"));
    }
    None
}
