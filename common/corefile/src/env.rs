//! Environment references in a token: `{$NAME}` and `{%NAME%}` (`coredns/caddy: caddyfile/parse.go`).
//!
//! CoreDNS replaces them after splitting the text into tokens, so a value with blanks stays one token; an unset
//! variable is the empty string; and it looks again at the result, so values may hold references, and one that holds
//! its own would keep CoreDNS busy for ever. Here that is an error.

use std::collections::BTreeMap;

/// The environment variables that CoreDNS would see.
///
/// ```
/// use corefile::Environment;
/// let environment: Environment = [("UPSTREAM", "1.1.1.1")].into_iter().collect();
/// assert_eq!(environment.get("UPSTREAM"), Some("1.1.1.1"));
/// assert_eq!(environment.get("HOME"), None);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Environment(BTreeMap<String, String>);

impl Environment {
    /// No variable at all.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets a variable.
    pub fn set(&mut self, name: impl Into<String>, value: impl Into<String>) {
        self.0.insert(name.into(), value.into());
    }

    /// The value of a variable.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }
}

impl<N: Into<String>, V: Into<String>> FromIterator<(N, V)> for Environment {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(variables: I) -> Self {
        Self(variables.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
    }
}

/// The names of the variables that a word refers to, in order.
///
/// ```
/// assert_eq!(corefile::environment_references("{$HOST}:{%PORT%}"), ["HOST", "PORT"]);
/// assert!(corefile::environment_references("{$}").is_empty());
/// ```
pub fn environment_references(word: &str) -> Vec<&str> {
    let mut found: Vec<(usize, &str)> = Vec::new();
    for (start, end) in STYLES {
        let mut from = 0;
        while let Some((at, name)) = first_reference(&word[from..], start, end) {
            found.push((from + at, name));
            from += at + start.len() + name.len() + end.len();
        }
    }
    found.sort_unstable();
    found.into_iter().map(|(_, name)| name).collect()
}

/// How references are written, in the order in which CoreDNS replaces them.
const STYLES: [(&str, &str); 2] = [("{%", "%}"), ("{$", "}")];

/// The first reference in `text` and its place. None as well if the first start mark has no end or no name: CoreDNS
/// looks no further then.
fn first_reference<'a>(text: &'a str, start: &str, end: &str) -> Option<(usize, &'a str)> {
    let at = text.find(start)?;
    let length = text[at..].find(end)?;
    // `{$}` has no name. With `{%}` the end mark overlaps the start mark.
    if length <= start.len() {
        return None;
    }
    Some((at, &text[at + start.len()..at + length]))
}

/// A replacement without end, or one too large to go on.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Endless;

/// Replaces all references. `None` if there are none. Names of unset variables are handed to `unset`.
pub(crate) fn replace(
    word: &str,
    environment: &Environment,
    max_bytes: usize,
    mut unset: impl FnMut(&str),
) -> Result<Option<String>, Endless> {
    if !word.contains('{') || !STYLES.iter().any(|(start, _)| word.contains(start)) {
        return Ok(None);
    }
    let max_bytes = max_bytes.max(word.len());
    let (mut rounds, mut work) = (10_000_u32, max_bytes.saturating_mul(64));
    let mut text = word.to_owned();
    for (start, end) in STYLES {
        while let Some((at, name)) = first_reference(&text, start, end) {
            let value = environment.get(name).unwrap_or_else(|| {
                unset(name);
                ""
            });
            let reference = &text[at..at + start.len() + name.len() + end.len()];
            let uses = text.matches(reference).count();
            let grown = text.len().saturating_add(uses.saturating_mul(value.len()));
            rounds = rounds.checked_sub(1).ok_or(Endless)?;
            work = work.checked_sub(grown).ok_or(Endless)?;
            if grown.saturating_sub(uses * reference.len()) > max_bytes {
                return Err(Endless);
            }
            text = text.replace(reference, value);
        }
    }
    Ok(Some(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expand(word: &str, variables: &[(&str, &str)]) -> Result<String, Endless> {
        let environment = variables.iter().copied().collect();
        replace(word, &environment, 1 << 20, |_| {}).map(|text| text.unwrap_or_else(|| word.to_owned()))
    }

    #[test]
    fn both_styles_are_replaced_and_unset_is_empty() {
        assert_eq!(expand("{$A}:{%B%}{$C}", &[("A", "x"), ("B", "53")]).unwrap(), "x:53");
        let mut unset = Vec::new();
        replace("{$C}{%D%}", &Environment::new(), 99, |name| unset.push(name.to_owned())).unwrap();
        assert_eq!(unset, ["D", "C"]);
    }

    #[test]
    fn what_is_no_reference_stays() {
        for word in ["{$}", "{$A", "{%A}", "$A", "{%%}", "{%}"] {
            assert_eq!(expand(word, &[("A", "x")]).unwrap(), word);
        }
        // The scan stops at the first start mark without a name.
        assert_eq!(expand("{$}{$A}", &[("A", "x")]).unwrap(), "{$}{$A}");
    }

    #[test]
    fn values_are_looked_at_again() {
        assert_eq!(expand("{$A}", &[("A", "{$B}"), ("B", "y")]).unwrap(), "y");
        assert_eq!(expand("{{$A}", &[("A", "$B}"), ("B", "y")]).unwrap(), "y");
    }

    #[test]
    fn a_value_that_refers_to_itself_is_an_error() {
        assert_eq!(expand("{$A}", &[("A", "{$A}")]), Err(Endless));
        assert_eq!(expand("{$A}", &[("A", "x{$A}{$A}")]), Err(Endless));
    }
}
