//! The language as people meet it: one behaviour a test.

#![allow(clippy::unwrap_used)]

use corefile::{
    Corefile, Edit, EditError, Environment, ErrorKind, ExpandOptions, ExpandWarning, Limits, MemoryFiles, expand,
    parse, parse_named,
};

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

fn refusal(text: &str) -> String {
    let by_tree = parse(text).unwrap_err();
    let by_expansion = expand("Corefile", text, &ExpandOptions::new()).unwrap_err();
    assert_eq!(by_tree, by_expansion);
    by_tree.to_string()
}

#[test]
fn the_default_of_kubeadm_is_understood() {
    let file = parse(KUBEADM).unwrap();
    let server = file.servers().next().unwrap();
    assert_eq!(server.keys(), [".:53"]);
    assert_eq!(server.directives().len(), 10);
    assert_eq!(server.directive("kubernetes").unwrap().property("ttl").unwrap().args(), ["30"]);
    assert_eq!(file.kubernetes_zones(), ["cluster.local", "in-addr.arpa", "ip6.arpa"]);
    assert_eq!(file.cluster_domain().unwrap(), "cluster.local");
    assert_eq!(file.health().unwrap().lameduck.unwrap(), "5s");
    assert_eq!((file.health().unwrap().port, file.ready().unwrap().port), (8080, 8181));
    assert_eq!(file.to_string(), KUBEADM);
}

#[test]
fn zones_are_inherited_from_the_server_and_from_snippets() {
    let zones = |text: &str| parse(text).unwrap().kubernetes_zones();
    assert_eq!(
        zones("cluster.local:53 10.96.0.0/16 {\n kubernetes {\n ttl 5\n }\n}"),
        ["cluster.local", "96.10.in-addr.arpa"]
    );
    assert_eq!(zones("(k) {\n kubernetes Cluster.Local.\n}\n.:53 {\n import k\n}"), ["cluster.local"]);
    assert_eq!(zones(".:53\nkubernetes a.b in-addr.arpa\n"), ["a.b", "in-addr.arpa"]);
    assert_eq!(zones(". {\n import custom/*\n import gone\n kubernetes x.y\n}"), ["x.y"]);
    assert_eq!(zones(". {\n forward . 1.1.1.1\n}"), Vec::<String>::new());
    assert_eq!(parse(". {\n kubernetes\n}").unwrap().cluster_domain(), None);
}

/// The file of report R34.
#[test]
fn comments_empty_servers_and_quotes_survive() {
    let text = "# above\nx:53 { }\n\n.:53 {\n  # inside\n  hosts {\n    10.0.0.1 a.example # one\n    fallthrough\n  }\n  \
                log . \"{remote} - {>id}\" # quoted\n}";
    let file = parse(text).unwrap();
    assert_eq!(file.to_string(), text);
    assert_eq!(file.servers().nth(1).unwrap().directive("log").unwrap().args(), [".", "{remote} - {>id}"]);
    let mut edit = file.edit();
    edit.append(file.servers().next().unwrap(), "whoami");
    assert_eq!(edit.finish().unwrap().to_string(), text.replace("x:53 { }", "x:53 {\n  whoami\n}"));
}

/// The file of report R17: no blank before the brace.
#[test]
fn a_brace_without_a_blank_before_it_opens_nothing() {
    let text = ". {\n  hosts a.hosts example.com{\n    ttl 10000\n    fallthrough\n  }\n}\n";
    let known = |name: &str| name == "hosts";
    let error = expand("Corefile", text, &ExpandOptions::new().known_plugins(&known)).unwrap_err();
    assert_eq!(error.coredns_message(), "Corefile:3 - Error during parsing: Unknown directive 'ttl'");
    assert_eq!(error.position.column, 5);
}

#[test]
fn refusals_name_the_place() {
    assert_eq!(refusal(". {\n cache {\n"), "Corefile:2:8: Unexpected EOF");
    assert_eq!(refusal(". {\n errors\n"), "Corefile:2:2: Unexpected token 'errors', expecting '}'");
    assert_eq!(refusal("a.org, {\n}"), "Corefile:1:8: Expected another address but had '{' - check for extra comma");
    assert_eq!(refusal("a.org,"), "Corefile:1:1: Unexpected EOF");
    assert_eq!(refusal(". {\n {\n }\n}"), "Corefile:2:2: Unknown directive '{'");
    assert_eq!(refusal("(s)\nlog"), "Corefile:2:1: Unexpected token 'log', expecting '{'");
    assert_eq!(refusal("(s) {\nlog"), "Corefile:2:1: Unexpected token 'log', expecting '}'");
    assert_eq!(
        refusal(". {\n import\n}"),
        "Corefile:2:2: Wrong argument count or unexpected line ending after 'import'"
    );
    assert_eq!(
        refusal("(a) {\n}\n. {\n import a b\n}"),
        "Corefile:4:11: Import takes only one argument (glob pattern or file)"
    );
}

#[test]
fn files_need_neither_braces_nor_the_last_one() {
    for text in [
        ".:53\nerrors\nforward . 1.1.1.1 {\n}\n",
        ".:53\nerrors\n}\na.org {\n}\n",
        ".:53\n{\nerrors\n}\n",
        ". {\n cache {\n }\n",
        "a.org,\nb.org\n",
        "{\n errors\n}\n",
        ". {\n}\n}\n",
        "",
    ] {
        assert_eq!(parse(text).unwrap().to_string(), text);
        assert!(expand("Corefile", text, &ExpandOptions::new()).is_ok(), "{text:?}");
    }
}

#[test]
fn a_block_may_open_on_the_next_line() {
    let file = parse(". {\n  cache 30\n  {\n    prefetch 2\n  }\n}\n").unwrap();
    assert!(file.servers().next().unwrap().directive("cache").unwrap().has_block());
}

#[test]
fn quoted_braces_are_braces() {
    let file = parse("a.org \"{\"\nerrors\n\"}\"\n").unwrap();
    assert!(file.servers().next().unwrap().has_braces());
}

#[test]
fn nested_blocks_keep_their_depth() {
    let file = parse("a {\n p {\n  q {\n   r s {\n    t\n   }\n  }\n }\n}\n").unwrap();
    let p = file.servers().next().unwrap().directive("p").unwrap();
    let r = p.property("q").unwrap().property("r").unwrap();
    assert_eq!((r.args(), r.properties()[0].name()), (vec!["s"], "t"));
}

#[test]
fn depth_and_size_have_limits() {
    let deep = format!("a {{\n b {}", "{\n".repeat(200));
    assert_eq!(parse(&deep).unwrap_err().kind, ErrorKind::TooDeep { limit: 100 });
    let large = "#".repeat(100);
    let error = parse_named("big", &large, &Limits { max_bytes: 99, ..Limits::default() }).unwrap_err();
    assert_eq!(error.to_string(), "big:1:1: the file is larger than the limit of 99 bytes");
    assert!(error.is_limit());
}

fn azure() -> MemoryFiles {
    let mut files = MemoryFiles::new();
    files.add_config_map(
        "/etc/coredns/custom",
        [("b.server", "b.org {\n    kubernetes b.org {\n        upstream\n    }\n}\n"), ("a.override", "log\nerrors")],
    );
    files
}

const AZURE: &str = ".:53 {\n    ready\n    import custom/*.override\n    cache 30\n}\nimport custom/*.server\n";

/// The layout of report R13: a main file and a ConfigMap of the user's.
#[test]
fn imported_files_come_in_place_and_keep_their_origin() {
    let files = azure();
    let file = parse_named("/etc/coredns/Corefile", AZURE, &Limits::default()).unwrap();
    let expanded = file.expand(&ExpandOptions::new().files(&files)).unwrap();
    assert_eq!(
        expanded.to_string(),
        ".:53 {\n    ready\n    log\n    errors\n    cache 30\n}\n\
         b.org {\n    kubernetes b.org {\n        upstream\n    }\n}\n"
    );
    let upstream =
        expanded.plugins("kubernetes").next().unwrap().words.iter().find(|w| w.text() == "upstream").unwrap();
    assert_eq!((upstream.file(), upstream.position().to_string()), ("/etc/coredns/custom/b.server", "3:9".to_owned()));
    let read: Vec<&str> = expanded.files().map(|(name, _)| name).collect();
    assert_eq!(read, ["/etc/coredns/Corefile", "/etc/coredns/custom/a.override", "/etc/coredns/custom/b.server"]);
}

#[test]
fn a_pattern_without_matches_is_a_warning_and_a_missing_file_is_not() {
    let expanded = expand("Corefile", AZURE, &ExpandOptions::new()).unwrap();
    assert_eq!(expanded.warnings.len(), 2);
    assert!(
        matches!(&expanded.warnings[0], ExpandWarning::NoMatch { pattern } if pattern.text() == "custom/*.override")
    );
    let error = expand("Corefile", "import extra.conf", &ExpandOptions::new()).unwrap_err();
    assert_eq!(error.to_string(), "Corefile:1:8: File to import not found: extra.conf");
}

#[test]
fn a_bare_star_meets_the_hidden_folder_of_a_mounted_config_map() {
    let files = azure();
    let error = expand("/etc/coredns/Corefile", "import custom/*", &ExpandOptions::new().files(&files)).unwrap_err();
    assert!(error.to_string().ends_with("Could not import /etc/coredns/custom/..data: is a directory"), "{error}");
}

#[test]
fn patterns_have_one_star_and_no_brackets() {
    let refusal =
        |pattern: &str| expand("/c/Corefile", &format!("import {pattern}"), &ExpandOptions::new()).unwrap_err().kind;
    assert_eq!(refusal("*/*.conf"), ErrorKind::ImportPattern { pattern: "/c/*/*.conf".into() });
    assert_eq!(refusal("[ab]"), ErrorKind::ImportPattern { pattern: "/c/[ab]".into() });
    assert_eq!(refusal("[ab"), ErrorKind::ImportBadPattern { pattern: "[ab".into() });
    assert_eq!(refusal("\"\""), ErrorKind::ImportOfNothing);
}

#[test]
fn imports_in_a_circle_are_refused() {
    let mut files = MemoryFiles::new();
    files.add("a", "import b");
    files.add("b", "import a");
    let error = expand("Corefile", "import a", &ExpandOptions::new().files(&files)).unwrap_err();
    assert_eq!(error.kind, ErrorKind::FileDepth { limit: 10_000 });

    let own = "(s) {\n import s\n}\n";
    assert_eq!(
        expand("Corefile", own, &ExpandOptions::new()).unwrap_err().kind,
        ErrorKind::SnippetDepth { limit: 10_000 }
    );
    assert!(expand("Corefile", own, &ExpandOptions::new().before_import_caps()).is_ok());
}

#[test]
fn a_snippet_goes_before_a_file_and_must_be_defined_first() {
    let mut files = MemoryFiles::new();
    files.add("s", "log");
    let options = ExpandOptions::new().files(&files);
    let plugin = |text: &str| expand("Corefile", text, &options).unwrap().servers[0].plugins[0].name.clone();
    assert_eq!(plugin("(s) {\n errors\n}\n. {\n import s\n}\n"), "errors");
    assert_eq!(plugin(". {\n import s\n}\n(s) {\n errors\n}\n"), "log");
}

#[test]
fn a_list_in_an_environment_variable_stays_one_word() {
    let environment: Environment = [("UPSTREAMS", "1.1.1.1 8.8.8.8")].into_iter().collect();
    let text = ".:{$PORT} {\n  forward . {$UPSTREAMS}\n}\n";
    let file = parse(text).unwrap();
    assert_eq!(file.servers().next().unwrap().directives()[0].args(), [".", "{$UPSTREAMS}"]);
    let expanded = file.expand(&ExpandOptions::new().environment(&environment)).unwrap();
    assert_eq!(expanded.to_string(), ".: {\n    forward . \"1.1.1.1 8.8.8.8\"\n}\n");
    assert!(matches!(&expanded.warnings[..], [ExpandWarning::UnsetVariable { name, .. }] if name == "PORT"));
}

#[test]
fn edits_that_cannot_be_made_change_nothing() {
    let file = parse(". {\n  log {\n    class error\n  }\n}\n").unwrap();
    let log = file.servers().next().unwrap().directives()[0];
    assert_eq!(
        failure(&file, |edit| {
            edit.remove(log).rename(log.properties()[0], "x").add_arg(log, "y");
        }),
        "two changes to the same text on line 2"
    );
    assert_eq!(
        failure(&file, |edit| {
            edit.replace(log, "log {");
        }),
        "the braces of these lines do not match: log {"
    );
    assert_eq!(
        failure(&file, |edit| {
            edit.replace_arg(log, 0, "x");
        }),
        "what is to be changed is not part of this file"
    );
    assert_eq!(
        failure(&file, |edit| {
            edit.add_arg(log, "a \\\" b");
        }),
        "no way to write \"a \\\\\\\" b\" in a Corefile"
    );
    let other = parse(file.source()).unwrap();
    let foreign = other.servers().next().unwrap().directives()[0];
    let mut edit = file.edit();
    edit.remove(foreign);
    assert_eq!(edit.finish().unwrap_err(), EditError::NotHere);
}

fn failure<'a>(file: &'a Corefile, change: impl FnOnce(&mut Edit<'a>)) -> String {
    let mut edit = file.edit();
    change(&mut edit);
    edit.finish().unwrap_err().to_string()
}

#[test]
fn edits_keep_tabs_line_ends_and_comments() {
    let text = "a {\r\n\t# why\r\n\tproxy . 8.8.8.8 8.8.4.4 { # old\r\n\t\tprotocol force_tcp\r\n\t}\r\n\tlog\r\n}\r\n";
    let file = parse(text).unwrap();
    let server = file.servers().next().unwrap();
    let proxy = server.directive("proxy").unwrap();
    let mut edit = file.edit();
    edit.rename(proxy, "forward")
        .remove_arg(proxy, 2)
        .replace(proxy.properties()[0], "force_tcp")
        .insert_before(proxy, "errors {\n    consolidate 5m .*\n}")
        .remove(server.directive("log").unwrap())
        .append(server, "reload")
        .append_server("b {\n    whoami\n}");
    assert_eq!(
        edit.finish().unwrap().to_string(),
        "a {\r\n\terrors {\r\n\t\tconsolidate 5m .*\r\n\t}\r\n\t# why\r\n\tforward . 8.8.8.8 { # old\r\n\t\tforce_tcp\r\n\
         \t}\r\n\treload\r\n}\r\nb {\r\n\twhoami\r\n}\r\n"
    );
}
