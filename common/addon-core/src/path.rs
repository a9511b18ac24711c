//! Paths of fields, as the API server names them in conflicts: `.spec.template.spec.containers[name="coredns"].image`.

use std::{collections::BTreeMap, fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Segment {
    /// A member of an object.
    Field(String),
    /// The item of a list that is keyed by the given members, written as JSON values.
    Item(BTreeMap<String, String>),
    /// A member of a list that is a set, written as a JSON value.
    Member(String),
    /// Any item of a list; only in patterns.
    Any,
}

/// A path from the root of an object to one of its fields.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct FieldPath(Vec<Segment>);

/// Text that is no field path.
#[derive(Debug, thiserror::Error)]
#[error("`{text}` is no field path: {reason} (expected e.g. `spec.template.spec.containers[name=coredns].image`)")]
pub struct BadPath {
    text: String,
    reason: &'static str,
}

impl FieldPath {
    /// The steps.
    pub fn segments(&self) -> &[Segment] {
        &self.0
    }

    /// This path and one more step.
    #[must_use]
    pub fn join(&self, segment: Segment) -> Self {
        let mut segments = self.0.clone();
        segments.push(segment);
        Self(segments)
    }

    /// This path and one more member.
    #[must_use]
    pub fn field(&self, name: &str) -> Self {
        self.join(Segment::Field(name.to_owned()))
    }

    /// Whether `path` is this path or lies below it. `[*]` in this path stands for any list item.
    pub fn covers(&self, path: &Self) -> bool {
        self.0.len() <= path.0.len()
            && self.0.iter().zip(&path.0).all(|(ours, theirs)| match (ours, theirs) {
                (Segment::Any, Segment::Item(_) | Segment::Member(_)) => true,
                _ => ours == theirs,
            })
    }

    /// The value at this path.
    pub fn get<'a>(&self, root: &'a Value) -> Option<&'a Value> {
        self.0.iter().try_fold(root, |value, segment| match segment {
            Segment::Field(name) => value.get(name),
            Segment::Item(keys) => value.as_array()?.iter().find(|item| has_keys(item, keys)),
            Segment::Member(text) => value.as_array()?.iter().find(|item| is_written(item, text)),
            Segment::Any => None,
        })
    }

    /// Sets the value at this path, making missing objects on the way; list items have to be there already.
    /// Returns whether it could be set.
    pub fn set(&self, root: &mut Value, new: Value) -> bool {
        let mut value = root;
        for segment in &self.0 {
            let next = match segment {
                Segment::Field(name) => {
                    if value.is_null() {
                        *value = Value::Object(serde_json::Map::new());
                    }
                    value.as_object_mut().map(|map| map.entry(name.clone()).or_insert(Value::Null))
                }
                Segment::Item(keys) => {
                    value.as_array_mut().and_then(|items| items.iter_mut().find(|item| has_keys(item, keys)))
                }
                Segment::Member(_) | Segment::Any => None,
            };
            match next {
                Some(next) => value = next,
                None => return false,
            }
        }
        *value = new;
        true
    }

    /// Removes the member or list item at this path; returns it.
    pub fn remove(&self, root: &mut Value) -> Option<Value> {
        let (last, parents) = self.0.split_last()?;
        let mut value = root;
        for segment in parents {
            value = match segment {
                Segment::Field(name) => value.get_mut(name)?,
                Segment::Item(keys) => value.as_array_mut()?.iter_mut().find(|item| has_keys(item, keys))?,
                Segment::Member(_) | Segment::Any => return None,
            };
        }
        match last {
            Segment::Field(name) => value.as_object_mut()?.remove(name),
            Segment::Item(keys) => {
                let items = value.as_array_mut()?;
                let index = items.iter().position(|item| has_keys(item, keys))?;
                Some(items.remove(index))
            }
            Segment::Member(_) | Segment::Any => None,
        }
    }
}

/// Whether a list item has the given key members; a missing `protocol` is `TCP`, as the API server defaults it.
fn has_keys(item: &Value, keys: &BTreeMap<String, String>) -> bool {
    keys.iter().all(|(name, text)| match item.get(name) {
        Some(value) => is_written(value, text),
        None => name == "protocol" && text == "\"TCP\"",
    })
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for segment in &self.0 {
            match segment {
                Segment::Field(name) if name.chars().all(is_plain) => write!(f, ".{name}")?,
                Segment::Field(name) => write!(f, "[{}]", Value::String(name.clone()))?,
                Segment::Item(keys) => {
                    let keys: Vec<_> = keys.iter().map(|(name, value)| format!("{name}={value}")).collect();
                    write!(f, "[{}]", keys.join(","))?;
                }
                Segment::Member(value) => write!(f, "[={value}]")?,
                Segment::Any => f.write_str("[*]")?,
            }
        }
        Ok(())
    }
}

/// Whether a value is written so in JSON.
fn is_written(value: &Value, text: &str) -> bool {
    match value {
        Value::String(value) => serde_json::from_str::<String>(text).is_ok_and(|text| text == *value),
        _ => value.to_string().as_str() == text,
    }
}

fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '-' || c == '$'
}

impl FromStr for FieldPath {
    type Err = BadPath;

    fn from_str(text: &str) -> Result<Self, BadPath> {
        let bad = |reason| BadPath { text: text.to_owned(), reason };
        let mut segments = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            if let Some(inner) = rest.strip_prefix('[') {
                let end = closing_bracket(inner).ok_or_else(|| bad("a `[` is not closed"))?;
                segments.push(bracket(&inner[..end]).ok_or_else(|| bad("what is in the brackets is not understood"))?);
                rest = &inner[end + 1..];
            } else {
                let name = rest.strip_prefix('.').unwrap_or(rest);
                let end = name.find(['.', '[']).unwrap_or(name.len());
                if end == 0 {
                    return Err(bad("a name is empty"));
                }
                segments.push(Segment::Field(name[..end].to_owned()));
                rest = &name[end..];
            }
        }
        if segments.is_empty() { Err(bad("it is empty")) } else { Ok(Self(segments)) }
    }
}

/// Where the bracket closes, quoted text skipped.
fn closing_bracket(inner: &str) -> Option<usize> {
    let mut quoted = false;
    inner.char_indices().find_map(|(at, c)| {
        quoted ^= c == '"';
        (c == ']' && !quoted).then_some(at)
    })
}

fn bracket(inner: &str) -> Option<Segment> {
    if inner == "*" {
        return Some(Segment::Any);
    }
    if let Some(member) = inner.strip_prefix('=') {
        return Some(Segment::Member(member.to_owned()));
    }
    if inner.starts_with('"') {
        return serde_json::from_str(inner).ok().map(Segment::Field);
    }
    let keys = inner
        .split(',')
        .map(|pair| {
            let (name, value) = pair.split_once('=')?;
            // `[name=coredns]` is what people write, `[name="coredns"]` what the API server writes.
            let value = serde_json::from_str::<Value>(value).unwrap_or_else(|_| Value::String(value.to_owned()));
            (!name.is_empty()).then(|| (name.to_owned(), value.to_string()))
        })
        .collect::<Option<BTreeMap<_, _>>>()?;
    Some(Segment::Item(keys))
}

impl TryFrom<String> for FieldPath {
    type Error = BadPath;

    fn try_from(text: String) -> Result<Self, BadPath> {
        text.parse()
    }
}

impl From<FieldPath> for String {
    fn from(path: FieldPath) -> Self {
        path.to_string()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn path(text: &str) -> FieldPath {
        text.parse().unwrap()
    }

    #[test]
    fn reads_what_people_write_and_prints_what_the_api_server_prints() {
        let people = path("spec.template.spec.containers[name=coredns].ports[containerPort=53,protocol=UDP].name");
        let server = ".spec.template.spec.containers[name=\"coredns\"].ports[containerPort=53,protocol=\"UDP\"].name";
        assert_eq!(people.to_string(), server);
        assert_eq!(path(server), people);
        assert_eq!(
            path("metadata.annotations[\"prometheus.io/port\"]").to_string(),
            ".metadata.annotations[\"prometheus.io/port\"]"
        );
    }

    #[test]
    fn refuses_text_that_is_no_path() {
        for text in ["", ".", "a..b", "a[b", "a[]", "a[=", "a[b]"] {
            let read = text.parse::<FieldPath>();
            assert!(read.is_err() || text == "a[=", "{text} was read as {read:?}");
        }
    }

    #[test]
    fn gets_sets_and_removes_through_keyed_lists() {
        let mut object = json!({"ports": [{"port": 53, "name": "tcp"}, {"port": 53, "protocol": "UDP"}]});
        let name = path("ports[port=53,protocol=UDP].name");
        assert!(name.set(&mut object, json!("dns")));
        assert_eq!(name.get(&object), Some(&json!("dns")));
        assert_eq!(path("ports[port=53,protocol=TCP].name").get(&object), Some(&json!("tcp")));
        assert!(path("ports[port=53,protocol=TCP]").remove(&mut object).is_some());
        assert_eq!(object["ports"].as_array().unwrap().len(), 1);
        assert!(!path("ports[port=99].name").set(&mut object, json!("no")), "list items are never invented");
        assert!(path("metadata.labels.a").set(&mut object, json!("b")), "objects are made on the way");
    }

    #[test]
    fn a_pattern_covers_what_lies_below_it() {
        let pattern = path("spec.containers[*].image");
        assert!(pattern.covers(&path("spec.containers[name=coredns].image")));
        assert!(!pattern.covers(&path("spec.containers[name=coredns].args")));
        assert!(path("spec").covers(&path("spec.replicas")));
        assert!(!path("spec.replicas").covers(&path("spec")));
    }
}
