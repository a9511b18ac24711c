//! From one release to another, as people meet it.

#![allow(clippy::unwrap_used)]

use corefile::{
    CheckOptions, Code, Held, Knowledge, MemoryFiles, Migration, NoticeKind, Suggestion, Version, check, migrate, parse,
};

fn version(text: &str) -> Version {
    Version::parse(text).unwrap()
}

fn migrated(text: &str, from: &str, to: &str) -> Result<Migration, Held> {
    migrate("Corefile", text, version(from), &CheckOptions::new(version(to)))
}

fn becomes(text: &str, from: &str, to: &str, expected: &str) {
    let migration = migrated(text, from, to).unwrap();
    assert_eq!(migration.text, expected);
    let again = migrated(&migration.text, to, to).unwrap();
    assert_eq!(again.text, expected);
}

fn is_held(text: &str, from: &str, to: &str) -> String {
    migrated(text, from, to).unwrap_err().to_string()
}

/// The defaults of kubeadm, from the first that had CoreDNS to the newest.
fn kubeadm() -> Vec<(u16, &'static str, String)> {
    let old = ".:53 {\n    errors\n    health\n    kubernetes cluster.local in-addr.arpa ip6.arpa {\n       pods insecure\n       \
               upstream\n       fallthrough in-addr.arpa ip6.arpa\n    }\n    prometheus :9153\n    proxy . \
               /etc/resolv.conf\n    cache 30\n    loop\n    reload\n    loadbalance\n}\n";
    let with_forward = old.replace("proxy", "forward");
    let with_ready = with_forward
        .replace("health\n", "health\n    ready\n")
        .replace("       upstream\n", "")
        .replace("ip6.arpa\n    }", "ip6.arpa\n       ttl 30\n    }");
    let with_lameduck = with_ready.replace("health\n", "health {\n       lameduck 5s\n    }\n");
    let with_limit = with_lameduck.replace("resolv.conf\n", "resolv.conf {\n       max_concurrent 1000\n    }\n");
    let with_disable = with_limit.replace(
        "cache 30\n",
        "cache 30 {\n       disable success cluster.local\n       disable denial cluster.local\n    }\n",
    );
    vec![
        (11, "1.2.6", old.replace("    loop\n", "").replace("    loadbalance\n", "")),
        (12, "1.2.6", old.to_owned()),
        (14, "1.4.0", with_forward),
        (16, "1.6.2", with_ready),
        (17, "1.6.5", with_lameduck),
        (19, "1.7.0", with_limit),
        (32, "1.12.1", with_disable),
    ]
}

#[test]
fn the_defaults_of_kubeadm_are_recognised_and_reach_every_newer_release() {
    for (minor, release, text) in kubeadm() {
        let default = parse(&text).unwrap().kubeadm_default().unwrap();
        assert_eq!((default.first_minor, default.domain.as_str()), (minor, "cluster.local"));
        for &to in Knowledge::get().releases().iter().filter(|&&to| to >= version(release)) {
            let migration = migrate("Corefile", &text, version(release), &CheckOptions::new(to)).unwrap();
            assert!(!check("Corefile", &migration.text, &CheckOptions::new(to)).is_refused());
            let must_change = minor < 16 && to >= version("1.5.0") && migration.text.contains("forward");
            assert!(migration.text == text || must_change, "{minor} to {to}");
        }
    }
}

#[test]
fn one_changed_word_makes_it_somebodys_own() {
    let (.., text) = kubeadm().pop().unwrap();
    for (from, to) in [("/etc/resolv.conf", "10.0.0.2"), ("cache 30", "cache 35"), ("5s", "15s"), (".:53", ".:1053")] {
        assert_eq!(parse(&text.replace(from, to)).unwrap().kubeadm_default(), None, "{to}");
    }
    let other_domain = text.replace("cluster.local", "k8s.example");
    assert_eq!(parse(&other_domain).unwrap().kubeadm_default().unwrap().domain, "k8s.example");
    let mixed = text.replacen("cluster.local", "k8s.example", 1);
    assert_eq!(parse(&mixed).unwrap().kubeadm_default(), None);
    let commented = text.replace("    loop\n", "    loop # keep\n");
    assert!(parse(&commented).unwrap().kubeadm_default().is_some());
}

/// Report R01.
#[test]
fn two_upstreams_do_not_become_two_forwards_where_that_is_refused() {
    let text = ".:53 {\n    proxy . /etc/resolv.conf {\n        protocol force_tcp\n    }\n    proxy . 10.0.0.1\n}\n";
    let reason = is_held(text, "1.4.0", "1.6.2");
    assert_eq!(
        reason,
        "line 5: the upstreams on lines 2 and 5 would become several forward in one server, which CoreDNS 1.6.2 refuses \
         (join them: forward . /etc/resolv.conf 10.0.0.1)"
    );
    let migration = migrated(text, "1.4.0", "1.9.4").unwrap();
    assert_eq!(
        migration.text,
        ".:53 {\n    forward . /etc/resolv.conf {\n        force_tcp\n    }\n    forward . 10.0.0.1\n}\n"
    );
    assert!(migration.findings.iter().any(|finding| finding.code == Code::ForwardShadowed));
}

/// Reports R03, R05 and R08: nothing to do is nothing done.
#[test]
fn what_needs_no_change_is_not_touched() {
    let r03 = "# own\n.:53 {\n  hosts example.org {\n    10.0.0.1 a\n    fallthrough\n  }\n  forward . 1.1.1.1 {\n    \
               prefer_udp\n  }\n}\nglobal:53 {\n  forward . 8.8.8.8\n}\n";
    assert_eq!(Version::parse("v1.6.2-100"), Some(Version::new(1, 6, 2)));
    assert_eq!(migrated(r03, "1.6.2", "1.6.5").unwrap().text, r03);
    let r05 = ".:53 {\n  rewrite stop {\n    name regex (.*)\\.a {1}.b\n    answer name (.*)\\.b {1}.a\n  }\n}\n";
    assert_eq!(migrated(r05, "1.6.7", "1.8.0").unwrap().text, r05);
    let r08 = ".:53 {\n    forward . 10.0.0.1 10.0.0.2 10.0.0.3 {\n        max_concurrent 1000\n    }\n}\n";
    assert_eq!(migrated(r08, "1.6.9", "1.7.0").unwrap().text, r08);
    let r34 = "# above\nx:53 { }\n.:53 {\n  # inside\n  log . \"{remote} - {>id}\" # quoted\n}";
    assert_eq!(migrated(r34, "1.11.3", "1.15.0").unwrap().text, r34);
}

/// Report R14: held until corrected.
#[test]
fn a_misspelt_property_holds_the_move_across_1_14_4() {
    let text = ".:53 {\n    ready {\n        moniter until-ready\n    }\n}\n";
    assert_eq!(migrated(text, "1.12.4", "1.14.2").unwrap().text, text);
    assert_eq!(
        is_held(text, "1.14.2", "1.14.6"),
        "line 3: CoreDNS 1.14.6 refuses Corefile:3:9: plugin/ready: unknown property 'moniter' (did you mean 'monitor'?)"
    );
}

/// Report R13, for a migration: the imported file is named, not edited.
#[test]
fn imported_files_are_judged_too() {
    let mut files = MemoryFiles::new();
    files.add("b.server", "b.org {\n  kubernetes b.org {\n    upstream\n  }\n}\n");
    let target = CheckOptions::new(version("1.7.0")).files(&files);
    let held = migrate("Corefile", "import *.server\n", version("1.6.5"), &target).unwrap_err();
    assert!(held.to_string().contains("b.server:3:5"), "{held}");
}

#[test]
fn options_that_went_are_rewritten_in_place() {
    becomes(
        "a.org {\n\tkubernetes a.org b.org { # k\n\t\tresyncperiod 5m\n\t\ttransfer to * 10.0.0.1 # slaves\n\t\tttl 5\n\t}\n\tlog\n}\n",
        "1.6.5",
        "1.14.7",
        "a.org {\n\tkubernetes a.org b.org { # k\n\t\tttl 5\n\t}\n\ttransfer a.org b.org {\n\t\tto * 10.0.0.1\n\t}\n\tlog\n}\n",
    );
    becomes(
        ". {\n  file /db.a a.org {\n    transfer to *\n  }\n}\n",
        "1.7.1",
        "1.8.0",
        ". {\n  file /db.a a.org\n  transfer a.org {\n    to *\n  }\n}\n",
    );
    becomes(
        ". {\n  header {\n    set ra # why\n    clear aa rd\n  }\n}\n",
        "1.11.3",
        "1.12.4",
        ". {\n  header {\n    response set ra # why\n    response clear aa rd\n  }\n}\n",
    );
    becomes(
        ". {\n  federation cluster.local {\n    prod p.org\n  }\n  errors\n}\n",
        "1.6.9",
        "1.7.0",
        ". {\n  errors\n}\n",
    );
    becomes(
        "(k) {\n  kubernetes a.org {\n    upstream\n  }\n}\n. {\n  import k\n}\n",
        "1.6.5",
        "1.7.0",
        "(k) {\n  kubernetes a.org\n}\n. {\n  import k\n}\n",
    );
}

#[test]
fn a_proxy_whose_meaning_forward_cannot_take_is_held() {
    for (option, reason) in [
        ("policy least_conn", "forward has no policy least_conn"),
        ("protocol https_google", "forward does not speak https_google"),
        ("colour red", "'colour' of proxy has no counterpart in forward"),
    ] {
        let held = is_held(&format!(".:53 {{\n  proxy . 1.1.1.1 {{\n    {option}\n  }}\n}}\n"), "1.4.0", "1.5.0");
        assert!(held.contains(reason), "{held}");
    }
    let text = ".:53 {\n  proxy . 1.1.1.1 {\n    fail_timeout 5s\n    spray\n  }\n}\n";
    let migration = migrated(text, "1.4.0", "1.5.0").unwrap();
    assert_eq!(migration.text, ".:53 {\n  forward . 1.1.1.1\n}\n");
    assert_eq!(migration.notices.iter().filter(|notice| notice.kind == NoticeKind::Removed).count(), 2);
}

#[test]
fn on_the_way_down_tuning_goes_and_meaning_holds() {
    becomes(
        ".:53 {\n  forward . 1.1.1.1 {\n    max_concurrent 1000\n    max_idle_conns 5\n  }\n  multisocket 2\n}\n",
        "1.14.7",
        "1.11.3",
        ".:53 {\n  forward . 1.1.1.1 {\n    max_concurrent 1000\n  }\n}\n",
    );
    becomes(
        ".:53 {\n  forward . 1.1.1.1 {\n    max_concurrent 1000\n  }\n}\n",
        "1.7.0",
        "1.6.5",
        ".:53 {\n  forward . 1.1.1.1\n}\n",
    );
    for (text, to) in [
        (".:53 {\n  view x {\n    expr true\n  }\n}\n", "1.9.4"),
        (".:53 {\n  forward . 1.1.1.1 {\n    next NXDOMAIN\n  }\n}\n", "1.11.3"),
        (".:53 {\n  cache {\n    disable success a.org\n  }\n}\n", "1.9.3"),
        (".:53 {\n  forward a 1.1.1.1\n  forward . 1.1.1.1\n}\n", "1.9.3"),
        (".:53 {\n  forward . dns.example.org\n}\n", "1.14.3"),
        (".:53 {\n  reload 10s 0s\n}\n", "1.14.1"),
    ] {
        is_held(text, "1.14.7", to);
    }
    // Report R12: what the release has stays.
    let text = ".:53 {\n  ready\n  health {\n    lameduck 5s\n  }\n}\n";
    assert_eq!(migrated(text, "1.6.2", "1.5.0").unwrap().text, text);
}

#[test]
fn behaviour_that_changes_is_told_for_the_plugins_in_use() {
    let text = ".:53 {\n  hosts {\n    fallthrough\n  }\n  forward . 1.1.1.1\n}\n";
    let migration = migrated(text, "1.14.2", "1.14.6").unwrap();
    assert_eq!(migration.text, text);
    let told: Vec<&str> = migration.notices.iter().map(|notice| notice.message.as_str()).collect();
    assert!(told.iter().any(|message| message.starts_with("from 1.14.5 on: hosts:")), "{told:?}");
    assert!(!told.iter().any(|message| message.contains("dnstap")), "{told:?}");
    let down = migrated(text, "1.14.6", "1.14.2").unwrap();
    assert!(down.notices.iter().any(|notice| notice.message.starts_with("before 1.14.5, this was not so: hosts:")));
}

#[test]
fn what_both_releases_take_stays_as_it_is() {
    let releases = ["1.11.3", "1.12.1", "1.13.1", "1.14.2", "1.14.6", "1.14.7", "1.15.0"];
    for line in include_str!("fixtures/verdicts.txt").lines().filter(|line| line.starts_with(['+', '-'])) {
        let (verdicts, content) = line.split_once(' ').unwrap();
        let text = format!("example.org {{\n{}\n}}\n", content.replace('⏎', "\n"));
        for (from, _) in releases.iter().zip(verdicts.chars()).filter(|(_, verdict)| *verdict == '+') {
            for (to, verdict) in releases.iter().zip(verdicts.chars()) {
                match migrated(&text, from, to) {
                    Ok(migration) if verdict == '+' => assert_eq!(migration.text, text, "{from} to {to}"),
                    Ok(migration) => {
                        assert_ne!(migration.text, text, "{from} to {to}");
                        assert!(!check("Corefile", &migration.text, &CheckOptions::new(version(to))).is_refused());
                    }
                    // What the target passes over in silence is not passed over here.
                    Err(held) => {
                        assert!(verdict == '-' || held.to_string().contains("does not exist in"), "{text}{held}");
                    }
                }
            }
        }
    }
}

#[test]
fn suggestions_are_apart_and_lead_to_no_refusal() {
    let file = parse(".:53 {\n    errors\n    health # probe\n    forward . /etc/resolv.conf\n}\n").unwrap();
    let mut better = file.clone();
    let all = Suggestion::for_file(&file, version("1.14.7"));
    assert_eq!(all, [Suggestion::Loop, Suggestion::Ready, Suggestion::Lameduck, Suggestion::MaxConcurrent]);
    for suggestion in all {
        assert!(!suggestion.reason().is_empty());
        better = suggestion.apply(&better).unwrap();
    }
    assert_eq!(
        better.source(),
        ".:53 {\n    errors\n    health { # probe\n        lameduck 5s\n    }\n    forward . /etc/resolv.conf {\n        \
         max_concurrent 1000\n    }\n    loop\n    ready\n}\n"
    );
    assert_eq!(Suggestion::for_file(&better, version("1.14.7")), []);
    assert!(!check("Corefile", better.source(), &CheckOptions::new(version("1.14.7"))).is_refused());
    assert_eq!(Suggestion::for_file(&file, version("1.4.0")), [Suggestion::Loop, Suggestion::Lameduck]);
}
