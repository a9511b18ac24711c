//! Rules of single plugins that go beyond a list of arguments and properties (`coredns/coredns: plugin/*/setup.go`).

mod acl;
mod cache;
mod forward;
mod rewrite;
mod small;

use super::dispenser::{Dispenser, Outcome, refuse};
use super::plugin::{Site, Use};
use super::{regex, values};
use crate::expand::Word;
use crate::knowledge::{Plugin, Property};
use crate::version::Version;

pub(super) use forward::looks_like_file;

const SECOND: i64 = 1_000_000_000;

/// Reads one use of a plugin that has a way of its own. False if it has none.
pub(super) fn read<'a>(plugin: &Plugin, d: &mut Dispenser<'a>, this: &mut Use<'a>, site: &Site<'_>) -> Outcome<bool> {
    match plugin.name.as_str() {
        "rewrite" => rewrite::read(d, this, site)?,
        "acl" => acl::read(d, this, site)?,
        "dns64" => return small::dns64(plugin, d, this, site),
        "loadbalance" => small::loadbalance(plugin, d, this, site)?,
        "header" => small::header(d, this, site)?,
        "hosts" => small::hosts(plugin, d, this, site)?,
        "erratic" => super::plugin::properties(plugin, d, this, site)?,
        "on" => small::on(d, this)?,
        "proxy" | "federation" => while d.next() {},
        _ => return Ok(false),
    }
    Ok(true)
}

/// What must hold for a property beyond the kinds of its arguments.
pub(super) fn after_property(
    plugin: &Plugin,
    property: &Property,
    name: &Word,
    arguments: &[&Word],
    site: &Site<'_>,
) -> Outcome {
    match (plugin.name.as_str(), property.name.as_str()) {
        ("errors", "consolidate") => small::consolidate(name, arguments, site.version),
        ("cache", "serve_stale") => cache::serve_stale(name, arguments, site.version),
        ("tsig", "require") => small::require(arguments, "query type", values::is_record_type),
        ("tsig", "require_opcode") => small::require(arguments, "opcode", |word| values::OPCODES.contains(&word)),
        ("timeouts", "maxtcpqueries") if arguments.first().is_some_and(|word| word.text() == "0") => {
            Err(refuse(name, "maxtcpqueries needs to be -1 (unlimited) or a positive integer"))
        }
        ("auto", "directory") => match arguments {
            [_, pattern] => Err(refuse(pattern, "Wrong argument count: a pattern needs a template after it")),
            [_, pattern, _] if regex::groups(pattern.text(), site.version) == Ok(0) => {
                Err(refuse(pattern, "Need at least one sub expression"))
            }
            _ => Ok(()),
        },
        ("transfer", "to") => {
            let to_all = arguments.iter().filter(|word| word.text() != "*");
            small::each(to_all, |word| values::check(&crate::knowledge::Kind::Address, word, site.version))
        }
        ("forward", "health_check") => forward::health_check(arguments, site),
        ("forward", "failover") => small::each(arguments.iter(), |word| match word.to_uppercase().as_str() {
            "NOERROR" if site.version >= Version::new(1, 13, 2) => Err("NoError cannot be used in failover".to_owned()),
            _ => Ok(()),
        }),
        ("proxyproto" | "loadbalance" | "dns64" | "siit", _) => small::prefix(plugin, property, arguments, site),
        ("dnssec" | "sign", "key") => small::key(plugin, arguments, site.version),
        ("dynupdate", "allow") => small::allow(arguments),
        _ => Ok(()),
    }
}

/// What must hold for one use as a whole.
pub(super) fn after_use(plugin: &Plugin, this: &Use<'_>, site: &Site<'_>) -> Outcome {
    let version = site.version;
    match plugin.name.as_str() {
        "forward" => forward::after_use(this, site),
        "grpc" => forward::grpc(this),
        "kubernetes" => small::kubernetes(this, site),
        "cache" => cache::after_use(this, version),
        "reload" => small::reload(this, version),
        "bind" => {
            small::each(this.arguments.iter().chain(this.properties.iter().flat_map(|(_, words)| words)), |word| {
                values::address_or_interface(word)
            })
        }
        "multisocket" if version >= Version::new(1, 13, 2) => match this.arguments.first() {
            Some(word) if values::integer(word.text()).is_ok_and(|number| number > 1024) => {
                Err(refuse(word, format!("num sockets exceeds maximum (1024): {}", word.text())))
            }
            _ => Ok(()),
        },
        "trace" => match this.arguments.as_slice() {
            [kind, _] if !["zipkin", "datadog"].contains(&kind.text().to_lowercase().as_str()) => {
                Err(refuse(kind, format!("tracing endpoint type '{}' is not supported", kind.text())))
            }
            _ => Ok(()),
        },
        "dnstap" => small::dnstap(this, version),
        "timeouts" if this.properties.is_empty() => Err(refuse(this.name, "timeouts block with no timeouts specified")),
        "transfer" if !this.has("to") => Err(refuse(this.name, "'to' is required")),
        "secondary" if !this.has("transfer") && version >= Version::new(1, 12, 2) => {
            Err(refuse(this.name, "secondary zones require a transfer from property"))
        }
        "tls" => small::tls(this, version),
        "hosts"
            if version >= Version::new(1, 14, 7) && this.has("fallthrough_unsupported") && !this.has("fallthrough") =>
        {
            Err(refuse(this.name, "fallthrough_unsupported requires fallthrough"))
        }
        "tsig" => small::tsig(this),
        "route53" | "azure" => small::pairs(this, 2),
        "clouddns" => small::pairs(this, 3),
        "dynupdate" => small::dynupdate(this, site),
        _ => Ok(()),
    }
}
