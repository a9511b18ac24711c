//! Reads `data/knowledge.txt`. Its format is explained at its top.

use super::arguments::{Arguments, Kind, Slot, Times};
use super::{BadRelease, Before, Change, Knowledge, Lifetime, Listener, Plugin, Property, Uses};
use crate::version::Version;

/// The knowledge in a text, and the numbers of the lines that could not be read.
pub(super) fn read(text: &str) -> (Knowledge, Vec<usize>) {
    let mut knowledge = Knowledge::default();
    let mut unread = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        if read_line(line, &mut knowledge).is_none() {
            unread.push(index + 1);
        }
    }
    (knowledge, unread)
}

fn read_line(line: &str, knowledge: &mut Knowledge) -> Option<()> {
    if line.starts_with(' ') {
        let (head, arguments) = line.split_once(':')?;
        let property = property(head, arguments)?;
        knowledge.plugins.last_mut()?.properties.push(property);
        return Some(());
    }
    let (what, rest) = line.split_once(' ')?;
    let words: Vec<&str> = rest.split_whitespace().collect();
    match what {
        "releases" => {
            for word in words {
                knowledge.releases.push(Version::parse(word)?);
            }
        }
        "bad" => {
            let (head, text) = rest.split_once(" : ")?;
            let (version, instead) = head.split_once(' ')?;
            let (reason, evidence) = with_evidence(text);
            knowledge.bad.push(BadRelease {
                version: Version::parse(version)?,
                instead: Version::parse(instead)?,
                reason,
                evidence: evidence?,
            });
        }
        "change" => {
            let (head, text) = rest.split_once(" : ")?;
            let (version, plugin) = head.split_once(' ')?;
            let (text, evidence) = with_evidence(text);
            let plugin = (plugin != "*").then(|| plugin.to_owned());
            knowledge.changes.push(Change { version: Version::parse(version)?, plugin, text, evidence });
        }
        "listener" => {
            let (plugin, default) = ((*words.first()?).to_owned(), (*words.get(1)?).to_owned());
            knowledge.listeners.push(Listener { plugin, default, shared: words.get(2) == Some(&"shared") });
        }
        "node-cache" => match words.as_slice() {
            [first, last, inside] => {
                let tags = (Version::parse(first)?, Version::parse(last)?, Version::parse(inside)?);
                knowledge.node_cache.push(tags);
            }
            _ => return None,
        },
        "node-cache-plugins" => knowledge.node_cache_plugins.extend(words.into_iter().map(str::to_owned)),
        "plugin" => {
            let (head, arguments) = rest.split_once(':')?;
            let plugin = plugin(head, arguments)?;
            knowledge.places.insert(plugin.name.clone(), knowledge.plugins.len());
            knowledge.plugins.push(plugin);
        }
        _ => return None,
    }
    Some(())
}

/// A text, and what stands in brackets behind it.
fn with_evidence(text: &str) -> (String, Option<String>) {
    match text.strip_suffix(']').and_then(|text| text.rsplit_once(" [")) {
        Some((text, evidence)) => (text.to_owned(), Some(evidence.to_owned())),
        None => (text.to_owned(), None),
    }
}

fn lifetime(word: &str, lifetime: &mut Lifetime) -> Option<bool> {
    if let Some(since) = word.strip_prefix('@') {
        lifetime.since = Some(Version::parse(since)?);
    } else if let Some(removed) = word.strip_prefix('!') {
        lifetime.removed = Some(Version::parse(removed)?);
    } else {
        return Some(false);
    }
    Some(true)
}

fn plugin(head: &str, list: &str) -> Option<Plugin> {
    let mut words = head.split_whitespace();
    let mut plugin = Plugin {
        name: words.next()?.to_owned(),
        lifetime: Lifetime::default(),
        uses: Uses::Each,
        arguments: arguments(list)?,
        properties: Vec::new(),
        has_own_rules: false,
        takes_next: false,
        is_tuning: false,
        no_block: Before::Never,
        lax: Before::Never,
        unread: Before::Never,
    };
    for word in words {
        if lifetime(word, &mut plugin.lifetime)? {
            continue;
        }
        let (flag, before) = match word.split_once('<') {
            Some((flag, version)) => (flag, Before::Release(Version::parse(version)?)),
            None => (word, Before::Always),
        };
        match flag {
            "each" => plugin.uses = Uses::Each,
            "once" => plugin.uses = Uses::Once,
            "first" => plugin.uses = Uses::First,
            "only" => plugin.uses = Uses::Only,
            "noblock" => plugin.no_block = before,
            "lax" => plugin.lax = before,
            "unread" => plugin.unread = before,
            "own" => plugin.has_own_rules = true,
            "next" => plugin.takes_next = true,
            "tuning" => plugin.is_tuning = true,
            _ => return None,
        }
    }
    Some(plugin)
}

fn property(head: &str, list: &str) -> Option<Property> {
    let mut words = head.split_whitespace();
    let mut property = Property {
        name: words.next()?.to_owned(),
        lifetime: Lifetime::default(),
        arguments: arguments(list)?,
        unique: false,
        takes_next: false,
        is_tuning: false,
    };
    for word in words {
        match word {
            "unique" => property.unique = true,
            "next" => property.takes_next = true,
            "tuning" => property.is_tuning = true,
            word if lifetime(word, &mut property.lifetime)? => {}
            _ => return None,
        }
    }
    Some(property)
}

fn arguments(list: &str) -> Option<Arguments> {
    let mut arguments = Arguments::default();
    for word in list.split_whitespace() {
        match word {
            "..." => arguments.open = true,
            "nothing" => arguments.nothing = true,
            word => {
                let (kind, times) = match word.chars().last()? {
                    '?' => (&word[..word.len() - 1], Times::Optional),
                    '*' => (&word[..word.len() - 1], Times::Any),
                    '+' => (&word[..word.len() - 1], Times::Some),
                    _ => (word, Times::One),
                };
                arguments.slots.push(Slot { kind: kind_of(kind)?, times });
            }
        }
    }
    Some(arguments)
}

fn kind_of(word: &str) -> Option<Kind> {
    let list = |list: &str| list.split('|').map(str::to_owned).collect();
    if let Some(words) = word.strip_prefix('=') {
        return Some(Kind::OneOf { words: list(words), any_case: false });
    }
    if let Some(words) = word.strip_prefix('~') {
        return Some(Kind::OneOf { words: list(words), any_case: true });
    }
    let mut parts = word.split(':');
    let name = parts.next()?;
    let bounds: Vec<&str> = parts.collect();
    let bound = |index: usize, default: i64| match bounds.get(index) {
        None | Some(&"") => Some(default),
        Some(text) => text.parse().ok(),
    };
    let float = |index: usize, default: f64| match bounds.get(index) {
        None | Some(&"") => Some(default),
        Some(text) => text.parse().ok(),
    };
    Some(match name {
        "word" => Kind::Word,
        "zone" => Kind::Zone,
        "path" => Kind::Path,
        "ip" => Kind::Ip,
        "cidr" => Kind::Cidr,
        "hostport" => Kind::HostPort,
        "address" => Kind::Address,
        "int" => Kind::Int(bound(0, i64::MIN)?, bound(1, i64::MAX)?),
        "uint" => Kind::Uint(u32::try_from(bound(0, 64)?).ok()?),
        "float" => Kind::Float(float(0, f64::NEG_INFINITY)?, float(1, f64::INFINITY)?),
        "bool" => Kind::Bool,
        "percent" => Kind::Percent(bound(0, i64::MIN)?, bound(1, i64::MAX)?),
        "duration" if bounds.is_empty() => Kind::Duration,
        "duration" => Kind::DurationUpTo(bound(1, i64::MAX)?),
        "duration>0" => Kind::DurationAboveZero,
        "duration>=0" => Kind::DurationUpTo(i64::MAX),
        "seconds" => Kind::Seconds(bound(0, i64::MIN)?, bound(1, i64::MAX)?),
        "rrtype" => Kind::RecordType,
        "class" => Kind::Class,
        "rcode" => Kind::ResponseCode { any_case: false },
        "RCODE" => Kind::ResponseCode { any_case: true },
        "regex" => Kind::Regex,
        "template" => Kind::Template,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_data_is_read() {
        let (knowledge, unread) = read(include_str!("../../data/knowledge.txt"));
        assert_eq!(unread, Vec::<usize>::new(), "lines of data/knowledge.txt");
        assert!(knowledge.releases.is_sorted());
        assert!(knowledge.node_cache.is_sorted());
        let mut names: Vec<&str> = knowledge.plugins.iter().map(|plugin| plugin.name.as_str()).collect();
        let plugins = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), plugins, "a plugin twice");
        for plugin in &knowledge.plugins {
            let mut names: Vec<&str> = plugin.properties.iter().map(|property| property.name.as_str()).collect();
            names.sort_unstable();
            assert!(names.is_sorted_by(|a, b| a < b), "a property of {} twice", plugin.name);
        }
    }

    #[test]
    fn every_version_in_the_data_is_a_release() {
        let (knowledge, _) = read(include_str!("../../data/knowledge.txt"));
        let lifetimes = knowledge.plugins.iter().flat_map(|plugin| {
            let own = std::iter::once(plugin.lifetime);
            own.chain(plugin.properties.iter().map(|property| property.lifetime))
        });
        let ends = lifetimes.flat_map(|lifetime| [lifetime.since, lifetime.removed]).flatten();
        let others = knowledge.changes.iter().map(|change| change.version);
        let bad = knowledge.bad.iter().flat_map(|bad| [bad.version, bad.instead]);
        for version in ends.chain(others).chain(bad) {
            assert!(knowledge.releases.contains(&version), "{version}");
        }
    }

    #[test]
    fn words_fill_the_slots_from_the_left() {
        let list = arguments("word int:0:9? =a|b+").unwrap();
        assert_eq!(list.count(), (2, usize::MAX));
        let kinds = |words| list.kinds(words).map(|kind| matches!(kind, Kind::Int(0, 9))).collect::<Vec<_>>();
        assert_eq!(kinds(2), [false, false]);
        assert_eq!(kinds(3), [false, true, false]);
        assert_eq!(kinds(4), [false, true, false, false]);
        assert!(arguments("wurd").is_none());
    }
}
