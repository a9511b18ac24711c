//! The check, told as its users meet it. Verdicts by release stand in `fixtures/verdicts.txt`.

#![allow(clippy::unwrap_used)]

use corefile::{
    CheckOptions, Code, Environment, Finding, Knowledge, MemoryFiles, Probes, Report, Severity, Version, check,
};
use proptest::prelude::*;

fn version(text: &str) -> Version {
    Version::parse(text).unwrap()
}

fn checked(text: &str, release: &str) -> Report {
    check("Corefile", text, &CheckOptions::new(version(release)))
}

fn codes(report: &Report) -> Vec<Code> {
    report.findings.iter().map(|finding| finding.code).collect()
}

fn find(report: &Report, code: Code) -> &Finding {
    report.findings.iter().find(|finding| finding.code == code).unwrap()
}

#[test]
fn verdicts_by_release() {
    let releases = ["1.11.3", "1.12.1", "1.13.1", "1.14.2", "1.14.6", "1.14.7", "1.15.0"];
    let mut wrong = Vec::new();
    let mut cases = 0;
    for line in include_str!("fixtures/verdicts.txt").lines().filter(|line| line.starts_with(['+', '-'])) {
        let (expected, content) = line.split_once(' ').unwrap();
        let text = format!("example.org {{\n{}\n}}\n", content.replace('⏎', "\n"));
        let reports: Vec<Report> = releases.iter().map(|release| checked(&text, release)).collect();
        let ours: String = reports.iter().map(|report| if report.is_refused() { '-' } else { '+' }).collect();
        if ours != expected {
            let why = reports.iter().find_map(Report::refusal).map(ToString::to_string).unwrap_or_default();
            wrong.push(format!("{expected} {content}\n{ours} {why}"));
        }
        cases += 1;
    }
    assert!(cases > 200, "{cases}");
    assert!(wrong.is_empty(), "{} of {cases}:\n{}", wrong.len(), wrong.join("\n"));
}

const KUBEADM: &str = "\
.:53 {
    errors
    health {
       lameduck 5s
    }
    ready
    kubernetes cluster.local in-addr.arpa ip6.arpa {
       pods insecure
       fallthrough in-addr.arpa ip6.arpa
       ttl 30
    }
    prometheus :9153
    forward . /etc/resolv.conf {
       max_concurrent 1000
    }
    cache 30 {
       disable success cluster.local
       disable denial cluster.local
    }
    loop
    reload
    loadbalance
}
";

#[test]
fn the_default_of_kubeadm_has_no_findings() {
    for release in ["1.12.1", "1.13.1", "1.14.2", "1.14.7", "1.15.0"] {
        let report = checked(KUBEADM, release);
        assert_eq!(report.findings, [], "{release}");
    }
    // The lines that came with CoreDNS 1.9.4.
    let report = checked(KUBEADM, "1.9.3");
    assert_eq!(
        report.refusal().unwrap().remedy.as_deref(),
        Some("'disable' needs CoreDNS 1.9.4 or newer: upgrade first or remove the line")
    );
}

/// Reports R12 and R14.
#[test]
fn a_property_is_judged_by_the_release() {
    let report = checked(".:53 {\n  forward . 1.1.1.1 {\n    max_concurrent 1000\n  }\n}\n", "1.6.7");
    assert!(report.refusal().unwrap().message.contains("unknown property 'max_concurrent'"));

    let ready = ".:53 {\n  ready {\n    moniter until-ready\n  }\n  whoami\n}\n";
    let report = checked(ready, "1.14.3");
    assert!(!report.is_refused());
    assert_eq!(find(&report, Code::Ignored).remedy.as_deref(), Some("did you mean 'monitor'?"));
    assert!(checked(ready, "1.14.4").is_refused());

    let report = checked(".:53 {\n  health {\n    lameduk 5s\n  }\n}\n", "1.14.6");
    assert_eq!(report.refusal().unwrap().remedy.as_deref(), Some("did you mean 'lameduck'?"));
}

/// Report R13.
#[test]
fn a_finding_in_an_imported_file_names_that_file() {
    let mut files = MemoryFiles::new();
    files
        .add_config_map("/etc/coredns/custom", [("b.server", "b.org {\n  kubernetes b.org {\n    upstream\n  }\n}\n")]);
    let options = CheckOptions::new(version("1.14.6")).files(&files);
    let report = check("/etc/coredns/Corefile", ".:53 {\n  whoami\n}\nimport custom/*.server\n", &options);
    assert_eq!(
        report.refusal().unwrap().to_string(),
        "error[plugin-setup]: plugin/kubernetes: unknown property 'upstream'\n  --> /etc/coredns/custom/b.server:3:5\n   \
         |\n 3 |     upstream\n   |     ^^^^^^^^\n   = help: CoreDNS 1.7.0 took 'upstream' away: remove the line or \
         migrate the file\n"
    );
}

/// Report R17.
#[test]
fn a_missing_blank_before_a_brace_is_named() {
    let text = ". {\n  hosts /etc/hosts example.com{\n    ttl 10000\n    fallthrough\n  }\n}\n";
    let report = checked(text, "1.14.6");
    let refusal = report.refusal().unwrap();
    assert_eq!(refusal.message, "Unknown directive 'ttl'");
    assert_eq!(refusal.remedy.as_deref(), Some("put a blank before the brace in 'example.com{'"));
}

/// Report R19.
#[test]
fn a_second_hosts_by_import_names_both_places() {
    let mut files = MemoryFiles::new();
    files.add_config_map("custom", [("x.override", "hosts {\n  10.0.0.2 b\n  fallthrough\n}\n")]);
    let text = ".:53 {\n  hosts {\n    10.0.0.1 a\n    fallthrough\n  }\n  import custom/*.override\n}\n";
    let report = check("Corefile", text, &CheckOptions::new(version("1.13.1")).files(&files));
    let refusal = report.refusal().unwrap();
    assert_eq!((refusal.file.as_str(), refusal.position.line), ("custom/x.override", 1));
    assert!(refusal.message.contains("this plugin can only be used once per Server Block"));
    assert_eq!(
        refusal.remedy.as_deref(),
        Some("join the use at Corefile:2:3 and the one at custom/x.override:1:1 in one")
    );
}

/// Report R21. CoreDNS shares these ports with itself from 1.6.6 on; before, the second one failed.
#[test]
fn health_in_two_servers_is_one_port_twice() {
    let text = "a.org {\n  health\n}\nb.org {\n  health\n}\n";
    let report = checked(text, "1.5.0");
    assert_eq!(report.refusal().unwrap().message, "plugin/health: listen :8080: address already in use");
    let report = checked(text, "1.14.6");
    assert!(!report.is_refused());
    assert_eq!(find(&report, Code::ListenerShared).position.line, 5);
    let shared = "a.org {\n  ready\n  prometheus :9153\n}\nb.org {\n  ready\n  prometheus :9153\n}\n";
    assert_eq!(codes(&checked(shared, "1.14.7")), []);
}

/// Report R25.
#[test]
fn a_stub_in_resolv_conf_is_explained() {
    let options = CheckOptions::new(version("1.13.1")).resolv_conf("# stub\nnameserver 127.0.0.53\noptions edns0\n");
    let report = check("Corefile", KUBEADM, &options);
    let finding = find(&report, Code::ForwardLoop);
    assert!(finding.message.contains("127.0.0.53") && finding.message.contains("loop stops CoreDNS"), "{finding}");
    assert!(finding.remedy.as_ref().unwrap().contains("do not remove loop"));
}

/// Report R28.
#[test]
fn a_probe_without_its_plugin_is_named() {
    let probes = Probes { liveness: Some(8080), readiness: Some(8181) };
    let text = ".:53 {\n  health\n  whoami\n}\n";
    let report = check("Corefile", text, &CheckOptions::new(version("1.13.1")).probes(probes));
    assert_eq!(codes(&report), [Code::ProbeWithoutReady]);
    assert_eq!(report.findings[0].remedy.as_deref(), Some("add the line ready to one server"));
    assert_eq!(codes(&check("Corefile", KUBEADM, &CheckOptions::new(version("1.13.1")).probes(probes))), []);
}

/// Reports R05 and R30.
#[test]
fn nested_rules_give_no_alarm_and_bad_releases_do() {
    let text = ".:53 {\n  rewrite stop {\n    name regex (.*)\\.a\\.org {1}.b.org\n    answer name (.*)\\.b\\.org {1}.a.org\n  }\n}\n";
    assert_eq!(codes(&checked(text, "1.8.0")), []);
    for (release, instead) in [("1.11.4", "use 1.12.1 instead"), ("1.12.0", "use 1.12.1 instead")] {
        assert_eq!(find(&checked(KUBEADM, release), Code::BadRelease).remedy.as_deref(), Some(instead));
    }
}

/// Report R01, its second half.
#[test]
fn a_second_forward_for_the_root_never_gets_a_query() {
    let text = ".:53 {\n  forward . /etc/resolv.conf\n  forward . 1.1.1.1\n}\n";
    assert!(checked(text, "1.9.3").is_refused());
    let report = checked(text, "1.9.4");
    assert!(!report.is_refused());
    assert_eq!(find(&report, Code::ForwardShadowed).position.line, 3);
    assert_eq!(codes(&checked(".:53 {\n  forward a.org 1.1.1.1\n  forward . 8.8.8.8\n}\n", "1.14.7")), []);
}

/// Report R68.
#[test]
fn node_cache_has_fewer_plugins_and_fills_two_placeholders() {
    let options = CheckOptions::for_node_cache(version("1.26.4")).unwrap();
    let text = "cluster.local:53 {\n  errors\n  cache {\n    success 9984 30\n    denial 9984 5\n  }\n  reload\n  loop\n  bind \
                169.254.20.10\n  forward . __PILLAR__CLUSTER__DNS__ {\n    force_tcp\n  }\n  prometheus :9253\n  health \
                169.254.20.10:8080\n}\n.:53 {\n  bind 169.254.20.10\n  forward . __PILLAR__UPSTREAM__SERVERS__\n}\n";
    assert_eq!(codes(&check("Corefile", text, &options)), []);
    let left = text.replace("169.254.20.10", "__PILLAR__LOCAL__DNS__");
    assert!(check("Corefile", &left, &options).is_refused());
    let report = check("Corefile", &text.replace("  loop\n", "  ready\n"), &options);
    assert_eq!(
        report.refusal().unwrap().remedy.as_deref(),
        Some("the image of NodeLocal DNS cache does not have ready")
    );
    let two = text.replace("health 169.254.20.10:8080", "health 169.254.20.10:8080 10.96.0.10:8080");
    assert!(check("Corefile", &two, &options).is_refused());
    assert!(CheckOptions::for_node_cache(version("1.15.1")).is_none());
}

#[test]
fn addresses_of_servers_are_looked_at_before_plugins() {
    for (key, message) in [
        (":53", "error inspecting server blocks: zone is not a valid domain name: "),
        ("a.org:", "error inspecting server blocks: expecting data after last colon: \"a.org:\""),
        ("a..b", "error inspecting server blocks: zone is not a valid domain name: a..b"),
    ] {
        let report = checked(&format!("{key} {{\n  cache 0\n}}\n"), "1.14.7");
        assert_eq!(report.refusal().unwrap().message, message);
        assert_eq!(codes(&report), [Code::ServerKey]);
    }
}

#[test]
fn ports_are_looked_at_last() {
    let report = checked(".:99999 {\n  whoami\n}\n", "1.14.7");
    assert_eq!(report.refusal().unwrap().message, "address 99999: invalid port");
    assert!(checked(".:99999 {\n  whoami x\n}\n", "1.14.7").refusal().unwrap().message.starts_with("plugin/whoami"));
}

#[test]
fn an_error_in_an_imported_file_shows_its_line() {
    let mut files = MemoryFiles::new();
    files.add("a.conf", "errors\nnonesuch # here\n");
    let report = check("Corefile", ". {\n  import a.conf\n}\n", &CheckOptions::new(version("1.14.7")).files(&files));
    let refusal = report.refusal().unwrap();
    assert_eq!((refusal.file.as_str(), refusal.position.line), ("a.conf", 2));
    assert_eq!(refusal.line_text.as_deref(), Some("nonesuch # here"));
}

#[test]
fn zones_may_not_be_served_twice() {
    let twice = |text: &str, release: &str| checked(text, release).refusal().map(|refusal| refusal.code);
    assert_eq!(twice("a.org {\n}\na.org:53 {\n}\n", "1.12.1"), Some(Code::ZoneTwice));
    assert_eq!(twice("a.org {\n}\na.org:54 {\n}\ntls://a.org {\n}\n", "1.12.1"), None);
    assert_eq!(twice("a.org A.org {\n}\n", "1.14.6"), None);
    assert_eq!(twice("a.org A.org {\n}\n", "1.14.7"), Some(Code::ZoneTwice));
    assert_eq!(twice("10.0.0.0/23 {\n}\n1.0.10.in-addr.arpa {\n}\n", "1.12.1"), Some(Code::ZoneTwice));
    assert_eq!(twice("a.org {\n  bind 10.0.0.1\n}\na.org {\n  bind 10.0.0.2\n}\n", "1.12.1"), None);
    assert_eq!(twice("a.org {\n  bind 10.0.0.1\n}\na.org {\n}\n", "1.12.1"), Some(Code::ZoneOverlap));
    assert_eq!(twice("a.org {\n}\na.org {\n  bind 10.0.0.1\n}\n", "1.12.1"), Some(Code::ZoneOverlap));
}

#[test]
fn views_of_one_zone_had_to_come_first() {
    let view = "a.org {\n  view internal {\n    expr true\n  }\n}\n";
    let plain = "a.org {\n}\n";
    assert!(!checked(&format!("{view}{plain}"), "1.14.2").is_refused());
    assert_eq!(checked(&format!("{plain}{view}"), "1.14.2").refusal().unwrap().code, Code::ZoneTwice);
    assert!(!checked(&format!("{plain}{view}"), "1.14.3").is_refused());
}

#[test]
fn warnings_tell_what_does_not_happen() {
    for (text, code) in [
        (".:53 {\n  hosts {\n    10.0.0.1 a\n  }\n  forward . 1.1.1.1\n}\n", Code::HostsSwallows),
        (".:53 {\n  forward . 127.0.0.1\n}\n", Code::ForwardLoop),
        (".:53 {\n  import custom/*.override\n}\n", Code::ImportMatchesNothing),
        ("{$ZONE}. {\n  whoami\n}\n", Code::UnsetVariable),
        (".:53 {\n  file db.example.org\n}\n", Code::RelativePath),
        (".:53 {\n  kubernetes cluster.local a..b\n}\n", Code::InvalidZone),
        ("a.org {\n  bind 10.0.0.1\n}\nb.org {\n}\n", Code::BindShadow),
        (".:53 {\n  reload\n  reload 10s\n}\n", Code::Ignored),
        ("# nothing\n", Code::NoServers),
        (".:53 {\n  forward . dns.example.org\n}\n", Code::HostName),
    ] {
        let report = checked(text, "1.14.7");
        assert_eq!(codes(&report), [code], "{text}");
        assert!(!report.is_refused());
    }
}

#[test]
fn forwarding_to_the_clusters_own_dns_is_a_loop() {
    let options = CheckOptions::new(version("1.14.7")).cluster_dns(vec!["10.96.0.10".parse().unwrap()]);
    let report = check("Corefile", ".:53 {\n  forward . 10.96.0.10\n}\n", &options);
    assert_eq!(codes(&report), [Code::ForwardLoop]);
}

#[test]
fn a_list_in_a_variable_is_explained() {
    let environment: Environment = [("UPSTREAMS", "1.1.1.1 8.8.8.8")].into_iter().collect();
    let options = CheckOptions::new(version("1.12.1")).environment(environment);
    let report = check("Corefile", ". {\n  forward . {$UPSTREAMS}\n}\n", &options);
    assert!(report.refusal().unwrap().remedy.as_ref().unwrap().contains("no list can come from one variable"));
}

#[test]
fn a_release_of_the_future_is_judged_as_the_newest() {
    let report = checked(KUBEADM, "2.0.0");
    assert_eq!(report.release.rules_of, Knowledge::get().newest());
    assert_eq!(codes(&report), [Code::NewerThanKnown]);
    assert_eq!(report.findings[0].severity, Severity::Note);
}

#[test]
fn unknown_plugins_come_with_a_guess() {
    let remedy = |plugin: &str, release: &str| {
        checked(&format!(". {{\n  {plugin}\n}}\n"), release).refusal().unwrap().remedy.clone().unwrap_or_default()
    };
    assert_eq!(remedy("forwrad . 1.1.1.1", "1.14.6"), "did you mean 'forward'?");
    assert_eq!(remedy("proxy . 1.1.1.1", "1.14.6"), "CoreDNS 1.5.0 took proxy away");
    assert_eq!(remedy("view x", "1.9.4"), "view needs CoreDNS 1.10.0 or newer");
    assert_eq!(remedy("lameduck 5s", "1.14.6"), "'lameduck' is a property of health: it has to stand in its block");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever the words, in whatever release: a report, with places inside the text.
    #[test]
    fn every_text_gets_a_report(
        words in prop::collection::vec(prop::sample::select(vec![
            "\n", "\n", "{\n", "\n}\n", "{", "}", "cache", "forward", ".", "1.1.1.1", "hosts", "rewrite", "name", "regex", "(",
            "acl", "block", "net", "ready", "health", ":8080", "kubernetes", "ttl", "30", "errors", "consolidate", "5m", "template",
            "IN", "A", "view", "bind", "tls://a.b:1", "10.0.0.0/9", "log", "class", "loadbalance", "weighted", "header", "response",
            "set", "dns64", "import", "x", "(x)", "{$E}", "fallthrough", "auto", "directory", "é", "\"\"", "transfer", "to", "*",
        ]), 0..40),
        release in prop::sample::select(Knowledge::get().releases().to_vec()),
    ) {
        let text = format!(".:53 {{\n{}\n}}\n", words.join(" "));
        let report = check("Corefile", &text, &CheckOptions::new(release));
        for finding in &report.findings {
            prop_assert!(text.is_char_boundary(finding.position.offset));
            prop_assert!(!finding.to_string().is_empty());
        }
        prop_assert_eq!(report.is_refused(), report.findings.iter().any(|finding| finding.severity == Severity::Error));
    }
}
