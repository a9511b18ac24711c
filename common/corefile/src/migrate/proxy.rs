//! `proxy`, gone in 1.5.0, becomes `forward`.

use super::rules::remove_lines;
use super::{NoticeKind, Work};
use crate::tree::Directive;
use crate::version::Version;

const GONE: Version = Version::new(1, 5, 0);

/// Before 1.9.4 a server may have one forward only: two proxies cannot become two of them.
pub(super) fn count(directives: &[Directive<'_>], work: &mut Work<'_>) {
    let upstreams: Vec<&Directive<'_>> =
        directives.iter().filter(|directive| ["proxy", "forward"].contains(&directive.name())).collect();
    let proxies = upstreams.iter().any(|directive| directive.name() == "proxy");
    if work.to < GONE || work.to >= Version::new(1, 9, 4) || !proxies || upstreams.len() < 2 {
        return;
    }
    let lines: Vec<String> = upstreams.iter().map(|directive| directive.span().start.line.to_string()).collect();
    let message = format!(
        "the upstreams on lines {} would become several forward in one server, which CoreDNS {} refuses",
        lines.join(" and "),
        work.to
    );
    work.hold(*upstreams[1], message, &merged(&upstreams));
}

/// The one forward that could take the place of several.
fn merged(upstreams: &[&Directive<'_>]) -> String {
    let zones: Vec<&str> = upstreams.iter().filter_map(|directive| directive.args().first().copied()).collect();
    if zones.windows(2).any(|pair| pair[0] != pair[1]) {
        return "give each zone a server of its own".to_owned();
    }
    let mut targets: Vec<&str> = Vec::new();
    for target in upstreams.iter().flat_map(|directive| directive.args().into_iter().skip(1).collect::<Vec<_>>()) {
        if !targets.contains(&target) {
            targets.push(target);
        }
    }
    format!("join them: forward {} {}", zones.first().unwrap_or(&"."), targets.join(" "))
}

pub(super) fn to_forward<'a>(proxy: Directive<'a>, work: &mut Work<'a>) {
    work.edit.rename(proxy, "forward");
    work.note(NoticeKind::Rewritten, proxy, "proxy is forward now");
    let mut useless = Vec::new();
    for line in proxy.properties() {
        let args = line.args();
        match (line.name(), args.as_slice()) {
            ("max_fails", [_]) | ("except", [_, ..]) | ("policy", ["random" | "round_robin"]) => {}
            ("policy", ["first"]) => {
                work.edit.replace_arg(line, 0, "sequential");
                work.note(NoticeKind::Rewritten, line, "policy first is policy sequential now");
            }
            ("policy", [policy, ..]) => {
                work.hold(line, format!("forward has no policy {policy}"), "choose random, round_robin or sequential");
            }
            ("protocol", ["force_tcp"] | ["dns", "force_tcp"]) => {
                work.edit.replace(line, "force_tcp");
                work.note(NoticeKind::Rewritten, line, "protocol force_tcp is force_tcp now");
            }
            ("protocol", ["dns"]) => {
                useless.push(line);
                work.note(NoticeKind::Removed, line, "protocol dns: forward speaks nothing else here");
            }
            ("protocol", protocol) => {
                let message = format!("forward does not speak {}", protocol.join(" "));
                work.hold(line, message, "use the plugin grpc, or tls:// addresses with forward");
            }
            ("fail_timeout" | "health_check" | "spray", _) => {
                useless.push(line);
                let message = format!("{}: forward asks its upstreams by itself whether they live", line.name());
                work.note(NoticeKind::Removed, line, message);
            }
            (name, _) => work.hold(line, format!("'{name}' of proxy has no counterpart in forward"), ""),
        }
    }
    remove_lines(proxy, &useless, work);
}
