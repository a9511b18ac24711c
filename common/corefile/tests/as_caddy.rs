//! Verdicts of the real parser, word for word: `fixtures/caddy.txt` holds pairs of lines, a text and what
//! `coredns/caddy` v1.1.4 (package caddyfile) makes of it. Line feeds are written `⏎`, other unusual characters as in
//! `unescape` below.
//!
//! The environment of that run: `A` is `x{$B}`, `B` is `y z`, `NL` is `p`, a line feed, `q`. Known plugins: errors,
//! forward, cache, x, log, hosts.

use corefile::{Environment, ExpandOptions, expand};
use std::collections::BTreeMap;

fn unescape(text: &str) -> String {
    let pairs = [("␍", "\r"), ("␂", "\u{feff}"), ("␠", "\u{a0}"), ("␢", "\u{2003}"), ("⏎", "\n")];
    pairs.into_iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
}

/// What the real parser's result looks like in the fixture.
fn verdict(text: &str) -> String {
    let environment: Environment = [("A", "x{$B}"), ("B", "y z"), ("NL", "p\nq")].into_iter().collect();
    let known = |name: &str| ["errors", "forward", "cache", "x", "log", "hosts"].contains(&name);
    let options = ExpandOptions::new().environment(&environment).known_plugins(&known);
    match expand("Corefile", text, &options) {
        Err(error) => format!("ERR {}", error.coredns_message()),
        Ok(expanded) => {
            let mut verdict = "OK".to_owned();
            for server in &expanded.servers {
                let keys: Vec<&str> = server.keys.iter().map(|(key, _)| key.as_str()).collect();
                verdict += &format!(" [{}]", keys.join("|"));
                let mut plugins: BTreeMap<&str, Vec<String>> = BTreeMap::new();
                for plugin in &server.plugins {
                    let words = plugin.words.iter().map(|word| format!("{}:{}", word.position().line, word.text()));
                    plugins.entry(&plugin.name).or_default().extend(words);
                }
                for (name, words) in plugins {
                    verdict += &format!(" {name}({})", words.join("|"));
                }
            }
            verdict
        }
    }
}

#[test]
fn every_verdict_is_that_of_the_real_parser() {
    let fixture = std::env::var("COREFILE_CADDY_VERDICTS")
        .map_or_else(|_| include_str!("fixtures/caddy.txt").to_owned(), |path| std::fs::read_to_string(path).unwrap());
    let lines: Vec<&str> = fixture.split_terminator('\n').collect();
    let (mut wrong, mut cases) = (Vec::new(), 0);
    for pair in lines.chunks(2) {
        cases += 1;
        let ours = verdict(&unescape(pair[0]));
        if ours != unescape(pair[1]) {
            wrong.push(format!("text:  {}\nreal:  {}\nours:  {}\n", pair[0], pair[1], ours.replace('\n', "⏎")));
        }
    }
    assert!(cases >= 100, "{cases} cases");
    assert!(wrong.is_empty(), "{} of {cases} differ:\n{}", wrong.len(), wrong[..wrong.len().min(8)].join("\n"));
}
