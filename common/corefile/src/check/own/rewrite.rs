//! `rewrite`: rules on one line, or spread over the lines of a block.

use super::super::dispenser::{Dispenser, Outcome, refuse};
use super::super::plugin::{Site, Use};
use super::super::{regex, values};
use crate::version::Version;

type Rule = Result<(), String>;

pub(super) fn read<'a>(d: &mut Dispenser<'a>, this: &mut Use<'a>, site: &Site<'_>) -> Outcome {
    this.arguments = d.rest_of_line();
    if this.arguments.len() < 2 {
        // The words of the block follow those of the line, however they are broken into lines.
        while d.next_block() {
            this.arguments.push(d.word());
        }
    }
    let words: Vec<&str> = this.arguments.iter().map(|word| word.text()).collect();
    rule(&words, site.version).map_err(|message| refuse(this.name, message))
}

fn rule(words: &[&str], version: Version) -> Rule {
    let first = words.first().ok_or("no rule type specified for rewrite")?.to_lowercase();
    let (kind, arguments) = match first.as_str() {
        "continue" | "stop" => match words.get(1) {
            Some(kind) => (kind.to_lowercase(), &words[2..]),
            None => return Err(format!("{first} rule must begin with a rule type")),
        },
        _ => (first, &words[1..]),
    };
    match kind.as_str() {
        "answer" => Err("response rewrites must begin with a name rule".to_owned()),
        "name" => name(arguments, version),
        "class" | "type" => pair(&kind, arguments),
        "edns0" => edns0(arguments, version),
        "ttl" => ttl(arguments, version),
        "cname" if version >= Version::new(1, 11, 0) => cname(arguments, version),
        "rcode" if version >= Version::new(1, 11, 2) => rcode(arguments, version),
        _ => Err(format!("invalid rule type {:?}", words.first().unwrap_or(&""))),
    }
}

fn pair(kind: &str, arguments: &[&str]) -> Rule {
    if arguments.len() != 2 {
        return Err(format!("{kind} rules must have exactly two arguments"));
    }
    let wrong = arguments.iter().map(|word| word.to_uppercase()).find(|word| match kind {
        "class" => !values::CLASSES.contains(&word.as_str()),
        _ => !values::is_record_type(word),
    });
    wrong.map_or(Ok(()), |word| Err(format!("invalid {kind} {word:?}")))
}

const MATCHES: [&str; 5] = ["exact", "prefix", "suffix", "substring", "regex"];

/// A pattern, and a replacement that may use its groups as `{1}`.
fn pattern(from: &str, to: &str, version: Version) -> Rule {
    let groups = regex::groups(from, version)?;
    let used = (0..=100).filter(|number| to.contains(&format!("{{{number}}}"))).count();
    if used > groups {
        return Err(format!("'{to}' uses more subexpressions than the pattern '{from}' has"));
    }
    Ok(())
}

fn name(arguments: &[&str], version: Version) -> Rule {
    let (kind, from, to, rest) = match arguments {
        [] | [_] => return Err("too few arguments for a name rule".to_owned()),
        [from, to] => ("exact".to_owned(), *from, *to, &[][..]),
        [kind, from, to, rest @ ..] => (kind.to_lowercase(), *from, *to, rest),
    };
    if !MATCHES.contains(&kind.as_str()) {
        return Err(format!("name rule supports only exact, prefix, suffix, substring, and regex, received: {kind}"));
    }
    let metadata = version >= Version::new(1, 15, 0) && rest.first() == Some(&"metadata");
    if metadata && kind != "regex" {
        return Err("metadata is only supported for regex name rules".to_owned());
    }
    let rest = &rest[usize::from(metadata)..];
    if !rest.is_empty() {
        answers(&kind, rest, version)?;
    }
    match kind.as_str() {
        "regex" => pattern(from, to, version),
        // What CoreDNS does here is look at the names as if they were patterns, the wrong way round.
        "exact" => pattern(to, from, version),
        _ => Ok(()),
    }
}

fn answers(kind: &str, words: &[&str], version: Version) -> Rule {
    if words.len() < 2 {
        return Err(format!("invalid arguments for {kind} rule"));
    }
    let (mut rest, mut auto, mut names, mut first) = (words, false, 0, true);
    while let Some((word, after)) = rest.split_first() {
        if *word == "answer" {
            rest = after;
        } else if first {
            return Err(format!("exceeded the number of arguments for a non-answer rule argument for {kind} rule"));
        }
        first = false;
        let Some((what, after)) = rest.split_first() else {
            return Err(format!("type missing for answer rule for {kind} rule"));
        };
        rest = after;
        match (*what, rest) {
            ("auto", _) => auto = true,
            ("name" | "value", [from, to, after @ ..]) => {
                pattern(from, to, version)?;
                names += usize::from(*what == "name");
                rest = after;
            }
            ("name" | "value", _) => {
                return Err(format!("{what} answer rule for {kind} rule: 2 arguments required"));
            }
            _ => return Err(format!("invalid type {what:?} for answer rule for {kind} rule")),
        }
    }
    if auto && names > 0 {
        return Err("auto name answer rule cannot be combined with explicit name answer rules".to_owned());
    }
    Ok(())
}

fn is_ttl(word: &str) -> bool {
    let number = |text: &str| text.parse::<u32>().ok().filter(|_| text.bytes().all(|b| b.is_ascii_digit()));
    match word.split('-').collect::<Vec<_>>().as_slice() {
        [one] => number(one).is_some(),
        ["", ""] => false,
        [low, high] => {
            let low = if low.is_empty() { Some(0) } else { number(low) };
            let high = if high.is_empty() { Some(i32::MAX.unsigned_abs()) } else { number(high) };
            low.zip(high).is_some_and(|(low, high)| low <= high)
        }
        _ => false,
    }
}

fn ttl(arguments: &[&str], version: Version) -> Rule {
    let (kind, from, value) = match arguments {
        [] | [_] => return Err(format!("too few ({}) arguments for a ttl rule", arguments.len())),
        [from, value] => (None, *from, *value),
        [kind, from, value] => (Some(kind.to_lowercase()), *from, *value),
        _ => return Err("too many arguments for a ttl rule".to_owned()),
    };
    if !is_ttl(value) {
        return Err(format!("invalid TTL '{value}' for a ttl rule"));
    }
    matched("ttl", kind.as_deref(), from, version)
}

fn matched(rule: &str, kind: Option<&str>, from: &str, version: Version) -> Rule {
    match kind {
        Some("regex") => regex::groups(from, version).map(|_| ()),
        Some(kind) if !MATCHES.contains(&kind) => {
            Err(format!("{rule} rule supports only exact, prefix, suffix, substring, and regex name matching"))
        }
        _ => Ok(()),
    }
}

fn rcode(arguments: &[&str], version: Version) -> Rule {
    let (kind, from, old, new) = match arguments {
        [from, old, new] => (None, *from, *old, *new),
        [kind, from, old, new] => (Some(kind.to_lowercase()), *from, *old, *new),
        _ => return Err(format!("wrong number ({}) of arguments for a rcode rule", arguments.len())),
    };
    let is_code = |word: &str| {
        let number = word.bytes().all(|b| b.is_ascii_digit()) && word.parse::<u32>().is_ok_and(|code| code <= 23);
        number || values::is_response_code(&word.to_uppercase())
    };
    if let Some(wrong) = [old, new].into_iter().find(|word| !is_code(word)) {
        return Err(format!("invalid RCODE '{wrong}' for a rcode rule"));
    }
    matched("rcode", kind.as_deref(), from, version)
}

fn cname(arguments: &[&str], version: Version) -> Rule {
    match arguments {
        [_, _] => Ok(()),
        [kind, from, _] => match kind.to_lowercase().as_str() {
            // Before 1.14 the pattern was compiled only when a query came.
            "regex" if version >= Version::new(1, 14, 0) => regex::groups(&from.to_lowercase(), version).map(|_| ()),
            kind if MATCHES.contains(&kind) => Ok(()),
            kind => Err(format!("unknown cname rewrite type: {kind}")),
        },
        _ => Err(format!("wrong number ({}) of arguments for a cname rule", arguments.len())),
    }
}

fn edns0(arguments: &[&str], version: Version) -> Rule {
    let [kind, action, ..] = arguments else { return Err("too few arguments for an EDNS0 rule".to_owned()) };
    let (kind, action) = (kind.to_lowercase(), action.to_lowercase());
    let mut rest = &arguments[2..];
    match action.as_str() {
        "append" | "replace" | "set" => {}
        "unset" if version >= Version::new(1, 13, 0) => {
            return match (kind.as_str(), rest) {
                ("local", [code]) => option_code(code),
                ("nsid" | "subnet", []) => Ok(()),
                ("local" | "nsid" | "subnet", _) => Err(format!("{kind} unset action has a wrong number of arguments")),
                _ => Err(format!("invalid rule type {kind:?}")),
            };
        }
        _ => return Err(format!("invalid action: {action:?}")),
    }
    if version >= Version::new(1, 12, 0) && arguments.last() == Some(&"revert") {
        rest = &rest[..rest.len().saturating_sub(1)];
    }
    match (kind.as_str(), rest) {
        ("local", [code, data]) => {
            option_code(code)?;
            match data.strip_prefix('{').and_then(|data| data.strip_suffix('}')) {
                Some(variable) if is_variable(variable) => Ok(()),
                Some(_) => Err(format!("unsupported variable name {data:?}")),
                None => match data.strip_prefix("0x") {
                    Some(hex) if hex.len() % 2 != 0 || !hex.bytes().all(|b| b.is_ascii_hexdigit()) => {
                        Err(format!("'{data}' is not hexadecimal"))
                    }
                    _ => Ok(()),
                },
            }
        }
        ("nsid", []) => Ok(()),
        ("subnet", [four, six]) => {
            let bits = |word: &str, most| go_uint(word).filter(|&bits| bits <= most);
            match (bits(four, 32), bits(six, 128)) {
                (Some(_), Some(_)) => Ok(()),
                _ => Err(format!("invalid bit mask length in '{four} {six}'")),
            }
        }
        ("local" | "nsid" | "subnet", _) => Err(format!("EDNS0 {kind} rules have a wrong number of arguments")),
        _ => Err(format!("invalid rule type {kind:?}")),
    }
}

/// The names CoreDNS knows itself, or a label of the metadata plugin: `plugin/name`.
fn is_variable(name: &str) -> bool {
    const OWN: [&str; 7] = ["qname", "qtype", "client_ip", "client_port", "protocol", "server_ip", "server_port"];
    OWN.contains(&name) || name.split_once('/').is_some_and(|(plugin, name)| !plugin.is_empty() && !name.is_empty())
}

fn option_code(word: &str) -> Rule {
    go_uint(word).map(|_| ()).ok_or_else(|| format!("'{word}' is not the number of an EDNS0 option"))
}

/// A number of 16 bits with Go's prefixes.
fn go_uint(word: &str) -> Option<u64> {
    let lower = word.to_lowercase();
    let (digits, radix) = match lower.get(..2) {
        Some("0x") => (&lower[2..], 16),
        Some("0b") => (&lower[2..], 2),
        Some("0o") => (&lower[2..], 8),
        _ if lower.len() > 1 && lower.starts_with('0') => (&lower[1..], 8),
        _ => (lower.as_str(), 10),
    };
    let plain = !digits.is_empty() && digits.chars().all(|c| c.is_digit(radix));
    u64::from_str_radix(digits, radix).ok().filter(|&number| plain && number <= 0xffff)
}
