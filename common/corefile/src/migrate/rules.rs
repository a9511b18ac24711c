//! What happens to one plugin on the way. Which releases have what is asked of [`Knowledge`]; here is only what to do.

use super::{NoticeKind, Work, proxy};
use crate::knowledge::{Knowledge, Plugin};
use crate::tree::Directive;
use crate::version::Version;

pub(super) fn apply<'a>(directive: Directive<'a>, work: &mut Work<'a>) {
    let name = directive.name();
    if directive.is_import() {
        return;
    }
    // In a snippet this may also be a line of a block: then it is no plugin, and the check of the target judges it.
    let Some(plugin) = Knowledge::get().plugin(name) else { return };
    if !plugin.lifetime.covers(work.to) {
        whole_plugin(plugin, directive, work);
        return;
    }
    let mut useless = Vec::new();
    for line in directive.properties() {
        let Some(property) = plugin.property(line.name()) else { continue };
        if property.lifetime.covers(work.to) || !property.lifetime.covers(work.from) {
            continue; // what neither release knows is left to the check
        }
        match (name, line.name()) {
            ("kubernetes", "resyncperiod" | "upstream") | ("secondary", "upstream") => {
                useless.push(line);
                let message = format!("{}: CoreDNS does this by itself now", line.name());
                work.note(NoticeKind::Removed, line, message);
            }
            ("kubernetes" | "file" | "auto", "transfer") if line.args().first() == Some(&"to") => {
                useless.push(line);
                transfer(directive, line, work);
            }
            ("file" | "auto", "no_reload") => {
                work.edit.replace(line, "reload 0s");
                work.note(NoticeKind::Rewritten, line, "no_reload is reload 0s now");
            }
            ("header", "set" | "clear") => {
                let rule = [&["response", line.name()], line.args().as_slice()].concat().join(" ");
                work.edit.replace(line, &rule);
                work.note(NoticeKind::Rewritten, line, format!("{} is response {} now", line.name(), line.name()));
            }
            ("header", "response") if work.to < Version::new(1, 9, 4) => {
                work.edit.replace(line, &line.args().join(" "));
                work.note(NoticeKind::Rewritten, line, "rules for responses have no word before them here");
            }
            _ if property.is_tuning => {
                useless.push(line);
                work.note(NoticeKind::Removed, line, format!("{} does not exist in CoreDNS {}", line.name(), work.to));
            }
            _ => {
                let message = format!("'{}' of {name} does not exist in CoreDNS {}", line.name(), work.to);
                work.hold(line, message, "without it CoreDNS would answer differently: decide, and remove the line");
            }
        }
    }
    remove_lines(directive, &useless, work);
}

fn whole_plugin<'a>(plugin: &Plugin, directive: Directive<'a>, work: &mut Work<'a>) {
    let name = plugin.name.as_str();
    if name == "proxy" {
        proxy::to_forward(directive, work);
    } else if name == "federation" {
        work.edit.remove(directive);
        let message = "federation is gone from CoreDNS and from Kubernetes: names of federated services are not found";
        work.note(NoticeKind::Removed, directive, message);
    } else if plugin.is_tuning {
        work.edit.remove(directive);
        work.note(NoticeKind::Removed, directive, format!("{name} does not exist in CoreDNS {}", work.to));
    } else if plugin.lifetime.covers(work.from) {
        let message = format!("the plugin {name} does not exist in CoreDNS {}", work.to);
        work.hold(directive, message, "without it CoreDNS would answer differently: decide, and remove it");
    }
}

/// The option `transfer to` becomes the plugin transfer, for the same zones.
fn transfer<'a>(directive: Directive<'a>, line: Directive<'a>, work: &mut Work<'a>) {
    if work.to < Version::new(1, 8, 0) {
        return;
    }
    let zones = directive.args().into_iter().skip(usize::from(directive.name() == "file"));
    let head: Vec<&str> = std::iter::once("transfer").chain(zones).collect();
    let to: Vec<String> = line.args().iter().map(|word| crate::edit::write_word(word).unwrap_or_default()).collect();
    work.edit.insert_after(directive, &format!("{} {{\n    {}\n}}", head.join(" "), to.join(" ")));
    work.note(NoticeKind::Rewritten, line, "transfer is a plugin of its own now");
}

/// Takes lines out of a block, and the block with them if nothing is left.
pub(super) fn remove_lines<'a>(directive: Directive<'a>, lines: &[Directive<'a>], work: &mut Work<'a>) {
    if !lines.is_empty() && lines.len() == directive.properties().len() {
        work.edit.remove_block(directive);
        return;
    }
    for line in lines {
        work.edit.remove(*line);
    }
}
