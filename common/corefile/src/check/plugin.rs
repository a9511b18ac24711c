//! Sets a plugin up as CoreDNS would, by what `data/knowledge.txt` says of it and, where that is not enough, by
//! [`super::own`]. Nothing is opened, resolved or contacted.

use super::dispenser::{Dispenser, Outcome, refuse};
use super::values;
use super::{distance, own};
use crate::expand::Word;
use crate::knowledge::{Arguments, Knowledge, Plugin, Property, Uses};
use crate::version::Version;

/// One use of a plugin, as far as it was read.
pub(super) struct Use<'a> {
    pub(super) name: &'a Word,
    pub(super) arguments: Vec<&'a Word>,
    /// The properties, each with its arguments.
    pub(super) properties: Vec<(&'a Word, Vec<&'a Word>)>,
}

impl<'a> Use<'a> {
    pub(super) fn has(&self, property: &str) -> bool {
        self.property(property).is_some()
    }

    /// The last use of a property, which is the one that counts.
    pub(super) fn property(&self, property: &str) -> Option<&(&'a Word, Vec<&'a Word>)> {
        self.properties.iter().rev().find(|(name, _)| name.text() == property)
    }
}

/// What is known where a plugin is set up.
pub(super) struct Site<'a> {
    pub(super) version: Version,
    /// The zones of its server.
    pub(super) zones: &'a [String],
    /// Whether placeholders of node-cache stand for addresses.
    pub(super) placeholders: bool,
}

const ONCE: &str = "this plugin can only be used once per Server Block";

/// Reads all uses of a plugin in one server.
pub(super) fn set_up<'a>(plugin: &Plugin, words: Vec<&'a Word>, site: &Site<'_>) -> Outcome<Vec<Use<'a>>> {
    let version = site.version;
    let mut d = Dispenser::new(words, version >= Version::new(1, 13, 0));
    let mut uses = Vec::new();
    if plugin.is_unread(version) {
        return Ok(uses);
    }
    let how = plugin.uses_in(version);
    while d.next() {
        if how == Uses::Once && !uses.is_empty() {
            return Err(d.refuse(ONCE));
        }
        let mut this = Use { name: d.word(), arguments: Vec::new(), properties: Vec::new() };
        if !own::read(plugin, &mut d, &mut this, site)? {
            this.arguments = arguments(&plugin.arguments, plugin.takes_next, &mut d, version)?;
            if plugin.reads_block(version) {
                properties(plugin, &mut d, &mut this, site)?;
            }
        }
        if d.hangs() {
            return Err(d.refuse("the block has no end of its own: CoreDNS before 1.13.0 hangs here"));
        }
        own::after_use(plugin, &this, site)?;
        uses.push(this);
        match how {
            Uses::First => break,
            Uses::Only if d.next() => return Err(d.wrong_count()),
            _ => {}
        }
    }
    Ok(uses)
}

/// The block of a plugin.
pub(super) fn properties<'a>(plugin: &Plugin, d: &mut Dispenser<'a>, this: &mut Use<'a>, site: &Site<'_>) -> Outcome {
    while d.next_block() {
        let name = d.word();
        // nomad alone reads its properties in any case.
        let property_name = if plugin.name == "nomad" { name.text().to_lowercase() } else { name.text().to_owned() };
        let known = plugin.property(&property_name).filter(|property| property.lifetime.covers(site.version));
        let Some(property) = known else {
            if plugin.is_lax(site.version) {
                continue;
            }
            return Err(d.unknown_property());
        };
        if property.unique && this.has(&property.name) {
            return Err(d.refuse(format!("{} already defined", property.name)));
        }
        let arguments = arguments(&property.arguments, property.takes_next, d, site.version)?;
        own::after_property(plugin, property, name, &arguments, site)?;
        this.properties.push((name, arguments));
    }
    Ok(())
}

/// The words behind a name.
pub(super) fn arguments<'a>(
    list: &Arguments,
    takes_next: bool,
    d: &mut Dispenser<'a>,
    version: Version,
) -> Outcome<Vec<&'a Word>> {
    let mut words = Vec::new();
    if list.nothing {
        return if d.next_argument() { Err(d.wrong_count()) } else { Ok(words) };
    }
    let (least, most) = list.count();
    if takes_next {
        while words.len() < most && d.next_argument() {
            words.push(d.word());
        }
    } else {
        words = d.rest_of_line();
    }
    if words.len() < least || words.len() > most {
        return Err(d.wrong_count());
    }
    for (kind, word) in list.kinds(words.len()).zip(&words) {
        values::check(kind, word.text(), version).map_err(|message| refuse(word, message))?;
    }
    Ok(words)
}

/// What to do about a property that this release does not take.
pub(super) fn remedy(plugin: &Plugin, word: &str, version: Version) -> Option<String> {
    if let Some(Property { lifetime, .. }) = plugin.property(word) {
        return match (lifetime.since, lifetime.removed) {
            (_, Some(removed)) if version >= removed => {
                Some(format!("CoreDNS {removed} took '{word}' away: remove the line or migrate the file"))
            }
            (Some(since), _) if version < since => {
                Some(format!("'{word}' needs CoreDNS {since} or newer: upgrade first or remove the line"))
            }
            _ => None,
        };
    }
    let there = plugin.properties.iter().filter(|property| property.lifetime.covers(version));
    let near = there.map(|property| (distance::between(word, &property.name), &property.name)).min();
    if let Some((_, name)) = near.filter(|(distance, name)| *distance <= 2 && *distance < name.len()) {
        return Some(format!("did you mean '{name}'?"));
    }
    let elsewhere = Knowledge::get().plugin(word).is_some();
    elsewhere.then(|| format!("'{word}' is a plugin: is a closing brace missing before it?"))
}
