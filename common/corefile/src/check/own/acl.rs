//! `acl`: lines of an action and sections `type` and `net`.

use super::super::dispenser::{Dispenser, Outcome, refuse};
use super::super::plugin::{Site, Use};
use super::super::values;
use crate::expand::Word;
use crate::version::Version;
use crate::zone::parse_range;

pub(super) fn read<'a>(d: &mut Dispenser<'a>, this: &mut Use<'a>, site: &Site<'_>) -> Outcome {
    this.arguments = d.rest_of_line();
    while d.next_block() {
        let action = d.word();
        let known = match action.text().to_lowercase().as_str() {
            "allow" | "block" => true,
            "filter" => site.version >= Version::new(1, 8, 3),
            "drop" => site.version >= Version::new(1, 10, 1),
            _ => false,
        };
        if !known {
            let message = format!("unexpected token {:?}; expect 'allow', 'block', 'filter' or 'drop'", action.text());
            return Err(d.refuse(message));
        }
        let words = d.rest_of_line();
        sections(&words)?;
        this.properties.push((action, words));
    }
    Ok(())
}

fn is_section(word: &Word) -> bool {
    ["type", "net"].contains(&word.text().to_lowercase().as_str())
}

fn sections(words: &[&Word]) -> Outcome {
    let mut rest = words;
    while let Some((section, after)) = rest.split_first() {
        if !is_section(section) {
            return Err(refuse(section, format!("unexpected token {:?}; expect 'type | net'", section.text())));
        }
        let length = after.iter().position(|word| is_section(word)).unwrap_or(after.len());
        let (words, following) = after.split_at(length);
        if words.is_empty() {
            return Err(refuse(section, format!("no token specified in {:?} section", section.text())));
        }
        let is_type = section.text().eq_ignore_ascii_case("type");
        // A star ends a section: what follows it is not looked at.
        for word in words.iter().take_while(|word| word.text() != "*") {
            if is_type && !values::is_record_type(word.text()) {
                return Err(refuse(word, format!("unexpected token {:?}; expect legal QTYPE", word.text())));
            }
            if !is_type && parse_range(&with_prefix(word.text())).is_none() {
                return Err(refuse(word, format!("illegal CIDR notation {:?}", word.text())));
            }
        }
        rest = following;
    }
    Ok(())
}

fn with_prefix(address: &str) -> String {
    match address {
        range if range.contains('/') => range.to_owned(),
        six if six.contains(':') => format!("{six}/128"),
        four => format!("{four}/32"),
    }
}
