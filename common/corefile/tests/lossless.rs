//! No text is lost, none makes the parser fail in any way but by an error, and edits stay on their lines.

#![allow(clippy::format_collect)] // speed does not matter here

use corefile::{
    CheckOptions, Corefile, Directive, Environment, ExpandOptions, Limits, MemoryFiles, Version, check,
    environment_references, expand, migrate, parse,
};
use proptest::prelude::*;

/// Text made of what Corefiles are made of, so that deep structure turns up often.
fn corefile_like() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => Just("\n".to_owned()),
        3 => Just(" ".to_owned()),
        2 => Just("{".to_owned()),
        2 => Just("}".to_owned()),
        1 => Just("\"".to_owned()),
        1 => Just("#".to_owned()),
        1 => Just("\r\n".to_owned()),
        1 => Just("\\".to_owned()),
        1 => Just(",".to_owned()),
        1 => Just("\t".to_owned()),
        1 => Just("(s)".to_owned()),
        2 => Just("import s".to_owned()),
        1 => Just("import".to_owned()),
        1 => Just("{$A}{%B%}".to_owned()),
        1 => Just("\u{feff}".to_owned()),
        3 => prop::sample::select(vec![".:53", "errors", "forward . 1.1.1.1", "cache", "x"]).prop_map(str::to_owned),
    ];
    prop::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
}

/// Text that parses: servers with plugins with blocks, comments and odd blanks anywhere.
fn valid_corefile() -> impl Strategy<Value = String> {
    let gap = prop::sample::select(vec![" ", "\t", "  ", " \r"]);
    let end = prop::sample::select(vec!["\n", "\r\n", " # note\n", "\n\n", "\n# a line { of } its own\n"]);
    let word = prop::sample::select(vec!["a", "1.1.1.1", "\"two words\"", "{$ENV}", "x#y", "\"\"", "cluster.local"]);
    let line = (prop::collection::vec((gap.clone(), word), 1..4), end.clone())
        .prop_map(|(words, end)| words.iter().map(|(gap, word)| format!("{gap}{word}")).collect::<String>() + end);
    let block = prop::collection::vec(line.clone(), 0..3).prop_map(|lines| format!(" {{\n{}  }}", lines.concat()));
    let plugin = (prop::sample::select(vec!["errors", "cache", "forward ."]), prop::option::of(block), end.clone())
        .prop_map(|(name, block, end)| format!("    {name}{}{end}", block.unwrap_or_default()));
    let server =
        (prop::sample::select(vec![".:53", "a.org, b.org", "(snippet)"]), prop::collection::vec(plugin, 0..4), end)
            .prop_map(|(key, plugins, end)| format!("{key} {{\n{}}}{end}", plugins.concat()));
    prop::collection::vec(server, 0..4).prop_map(|servers| servers.concat())
}

fn check_tree(file: &Corefile) {
    let source = file.source();
    let mut end = 0;
    for server in file.servers() {
        let range = server.span().range();
        assert!(range.start >= end && range.end >= range.start && range.end <= source.len());
        end = range.end;
        check_children(source, range, &server.directives());
    }
}

fn check_children(source: &str, within: std::ops::Range<usize>, children: &[Directive<'_>]) {
    let mut end = within.start;
    for child in children {
        let range = child.span().range();
        assert!(range.start >= end && range.end <= within.end, "{range:?} in {within:?}: {source:?}");
        assert!(source.get(range.clone()).is_some());
        end = range.end;
        check_children(source, range, &child.properties());
    }
}

/// The words of a text, for comparison; comments do not count.
fn words(file: &Corefile) -> Vec<String> {
    fn of(lines: &[Directive<'_>], words: &mut Vec<String>) {
        for line in lines {
            words.push(line.name().to_owned());
            words.extend(line.args().iter().map(|&arg| arg.to_owned()));
            of(&line.properties(), words);
        }
    }
    let mut all = Vec::new();
    for server in file.servers() {
        all.extend(server.keys().iter().map(|&key| key.to_owned()));
        of(&server.directives(), &mut all);
    }
    all
}

fn comments(text: &str) -> usize {
    text.matches("# ").count()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_read_or_refused(text in any::<String>()) {
        if let Ok(file) = parse(&text) {
            prop_assert_eq!(file.to_string(), text);
            check_tree(&file);
        }
    }

    #[test]
    fn corefile_like_text_is_read_or_refused(text in corefile_like()) {
        let mut files = MemoryFiles::new();
        files.add("s", &text);
        let environment: Environment = [("A", "x{$B}"), ("B", "y\nz")].into_iter().collect();
        let limits = Limits { max_file_imports: 200, max_snippet_imports: 200, ..Limits::default() };
        let options = ExpandOptions::new().files(&files).environment(&environment).limits(limits);
        let _ = expand("Corefile", &text, &options);
        let _ = environment_references(&text);
        if let Ok(file) = parse(&text) {
            prop_assert_eq!(file.to_string(), text);
            check_tree(&file);
            let _ = (file.kubernetes_zones(), file.cluster_domain(), file.health(), file.ready());
            let _ = file.kubeadm_default();
            for (from, to) in [(Version::new(1, 2, 6), Version::new(1, 15, 0)), (Version::new(1, 15, 0), Version::new(1, 4, 0))] {
                let _ = migrate("Corefile", file.source(), from, &CheckOptions::new(to));
            }
        }
    }

    /// Where nothing is imported, both views agree on what is a Corefile.
    #[test]
    fn tree_and_expansion_agree_without_imports(text in corefile_like()) {
        let text = text.replace("import", "export");
        let tree = parse(&text);
        let expanded = expand("Corefile", &text, &ExpandOptions::new());
        match (&tree, &expanded) {
            (Ok(file), Ok(expanded)) => {
                let keyed: Vec<Vec<String>> = file.servers().filter(|server| !server.keys().is_empty())
                    .map(|server| server.keys().iter().map(|&key| key.to_owned()).collect()).collect();
                let run: Vec<Vec<String>> = expanded.servers.iter()
                    .map(|server| server.keys.iter().map(|(key, _)| key.clone()).collect()).collect();
                prop_assert_eq!(keyed, run);
            }
            (Err(tree), Err(expanded)) if text.contains("(s)") => prop_assert_eq!(&tree.file, &expanded.file),
            (Err(tree), Err(expanded)) => prop_assert_eq!(tree, expanded),
            // A redeclared snippet is wrong only as a whole.
            (Ok(_), Err(error)) => prop_assert!(error.to_string().contains("redeclaration"), "{}", error),
            (Err(error), Ok(_)) => prop_assert!(false, "only the tree refuses: {}", error),
        }
    }

    #[test]
    fn valid_text_is_read(text in valid_corefile()) {
        let file = parse(&text).unwrap();
        prop_assert_eq!(file.to_string(), text);
        check_tree(&file);
    }

    #[test]
    fn an_edit_without_changes_changes_nothing(text in valid_corefile()) {
        let file = parse(&text).unwrap();
        prop_assert_eq!(file.edit().finish().unwrap().to_string(), text);
    }

    #[test]
    fn removing_one_plugin_removes_its_words_only(text in valid_corefile(), pick in any::<prop::sample::Index>()) {
        let file = parse(&text).unwrap();
        let plugins: Vec<Directive<'_>> = file.servers().flat_map(|server| server.directives()).collect();
        prop_assume!(!plugins.is_empty());
        let victim = plugins[pick.index(plugins.len())];
        let mut edit = file.edit();
        edit.remove(victim);
        let edited = edit.finish().unwrap();
        let lost = words(&file).len() - words(&edited).len();
        let victims = 1 + victim.args().len() + victim.properties().iter().map(|p| 1 + p.args().len()).sum::<usize>();
        prop_assert_eq!(lost, victims);
        // What stands before and after the lines of the victim is still there.
        let (start, end) = (victim.span().range().start, victim.span().range().end);
        let before = text[..start].trim_end_matches([' ', '\t']);
        prop_assert!(edited.source().starts_with(before));
        let after = text[end..].find('\n').map_or("", |line_end| &text[end + line_end + 1..]);
        prop_assert!(edited.source().ends_with(after));
    }

    #[test]
    fn inserted_lines_stand_where_they_should(text in valid_corefile(), pick in any::<prop::sample::Index>(), how in 0..3) {
        let file = parse(&text).unwrap();
        let plugins: Vec<Directive<'_>> = file.servers().flat_map(|server| server.directives()).collect();
        prop_assume!(!plugins.is_empty());
        let at = pick.index(plugins.len());
        let mut edit = file.edit();
        match how {
            0 => edit.insert_before(plugins[at], "new one {\n    inner\n}"),
            1 => edit.insert_after(plugins[at], "new one {\n    inner\n}"),
            _ => edit.append_property(plugins[at], "new one {\n    inner\n}"),
        };
        let edited = edit.finish().unwrap();
        prop_assert_eq!(comments(edited.source()), comments(&text));
        let mut now = words(&edited);
        let place = now.iter().position(|word| word == "new").unwrap();
        now.drain(place..place + 3);
        prop_assert_eq!(now, words(&file));
    }
}

#[test]
fn time_grows_linearly() {
    // Inputs that are quadratic for a careless parser.
    let size = 200_000;
    for text in [
        "{".repeat(size),
        "\"".repeat(size),
        "a\r".repeat(size),
        "# \n".repeat(size),
        format!(". {{\n{}}}", "cache\n{\n}\n".repeat(size / 10)),
        format!("(s) {{\n log\n}}\n. {{\n{}}}", "import s\n".repeat(9_999)),
        format!(". {{\nforward {}\n}}", "{$A}".repeat(size / 8)),
        format!(". {{\n{}}}", "forward a.org 127.0.0.1\n".repeat(size / 20)),
        format!(". {{\nhosts {{\n{}}}\n}}", "10.0.0.1 a\n".repeat(size / 10)),
        format!(". {{\nkubernetes a {{\n{}}}\n}}", "upstream\n".repeat(size / 10)),
        format!("{} {{\nbind {}\n}}", "a ".repeat(size / 10), "::1 ".repeat(size / 10)),
        (0..size / 20).map(|zone| format!("z{zone} {{\n cache\n}}\n")).collect(),
    ] {
        let started = std::time::Instant::now();
        let environment = Environment::new();
        let _ = parse(&text);
        let _ = expand("Corefile", &text, &ExpandOptions::new().environment(&environment));
        let target = CheckOptions::new(Version::new(1, 14, 7));
        let _ = check("Corefile", &text, &target);
        let _ = migrate("Corefile", &text, Version::new(1, 6, 5), &target);
        assert!(started.elapsed().as_secs() < 10, "{text:.40}");
    }
}

#[test]
fn imports_that_double_stop_at_the_limit() {
    let mut text = String::from("(s0) {\n log\n log\n}\n");
    for level in 1..40 {
        text += &format!("(s{level}) {{\n import s{0}\n import s{0}\n}}\n", level - 1);
    }
    text += ". {\n import s39\n}\n";
    let error = expand("Corefile", &text, &ExpandOptions::new()).unwrap_err();
    assert_eq!(error.to_string(), "Corefile:6:9: maximum snippet import depth (10000) exceeded");
}
