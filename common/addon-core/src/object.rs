//! Kubernetes objects as plain data.
//!
//! Objects are never held in typed structs: those send zero values for required fields and drop fields that they do not
//! know. [`Object`] guarantees only what every use needs: an `apiVersion`, a `kind` and a `metadata.name`.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A Kubernetes object with at least `apiVersion`, `kind` and `metadata.name`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Value", into = "Value")]
pub struct Object(Value);

/// What identifies an object in a cluster, whatever version of its API it is read in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObjectKey {
    /// API group; empty for the core group.
    pub group: String,
    /// Kind, e.g. `Deployment`.
    pub kind: String,
    /// Namespace; empty for cluster-scoped objects.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Name.
    pub name: String,
}

/// A value that is no Kubernetes object.
#[derive(Debug, thiserror::Error)]
#[error("not a Kubernetes object: {0} is missing or not a string")]
pub struct NotAnObject(&'static str);

impl Object {
    /// Takes a value that has `apiVersion`, `kind` and `metadata.name`.
    pub fn new(value: Value) -> Result<Self, NotAnObject> {
        for (pointer, field) in [("/apiVersion", "apiVersion"), ("/kind", "kind"), ("/metadata/name", "metadata.name")]
        {
            match value.pointer(pointer).and_then(Value::as_str) {
                Some(text) if !text.is_empty() => {}
                _ => return Err(NotAnObject(field)),
            }
        }
        Ok(Self(value))
    }

    /// The whole object.
    pub fn value(&self) -> &Value {
        &self.0
    }

    /// The whole object, to change any field but its identity.
    pub(crate) fn value_mut(&mut self) -> &mut Value {
        &mut self.0
    }

    /// The string at a JSON pointer; empty where there is none.
    pub fn text(&self, pointer: &str) -> &str {
        self.0.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
    }

    /// The integer at a JSON pointer.
    pub fn integer(&self, pointer: &str) -> Option<i64> {
        self.0.pointer(pointer).and_then(Value::as_i64)
    }

    /// `apiVersion`, e.g. `apps/v1`.
    pub fn api_version(&self) -> &str {
        self.text("/apiVersion")
    }

    /// API group; empty for the core group.
    pub fn group(&self) -> &str {
        self.api_version().rsplit_once('/').map_or("", |(group, _)| group)
    }

    /// Kind, e.g. `Deployment`.
    pub fn kind(&self) -> &str {
        self.text("/kind")
    }

    /// Name.
    pub fn name(&self) -> &str {
        self.text("/metadata/name")
    }

    /// Namespace; empty for cluster-scoped objects.
    pub fn namespace(&self) -> &str {
        self.text("/metadata/namespace")
    }

    /// The uid that the API server gave; empty for objects that were never stored.
    pub fn uid(&self) -> &str {
        self.text("/metadata/uid")
    }

    /// The resource version as stored; empty for objects that were never stored.
    pub fn resource_version(&self) -> &str {
        self.text("/metadata/resourceVersion")
    }

    /// What identifies this object.
    pub fn key(&self) -> ObjectKey {
        ObjectKey {
            group: self.group().to_owned(),
            kind: self.kind().to_owned(),
            namespace: self.namespace().to_owned(),
            name: self.name().to_owned(),
        }
    }

    /// A label's value.
    pub fn label(&self, key: &str) -> Option<&str> {
        self.0.pointer("/metadata/labels")?.get(key)?.as_str()
    }

    /// An annotation's value.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.0.pointer("/metadata/annotations")?.get(key)?.as_str()
    }

    /// Sets `metadata.<map>.<key>`, where map is `labels` or `annotations`.
    pub(crate) fn set_metadata(&mut self, map: &str, key: &str, value: &str) {
        if let Some(entries) = member(&mut self.0, "metadata").and_then(|metadata| member(metadata, map)) {
            if !entries.is_object() {
                *entries = Value::Object(Map::new());
            }
            entries[key] = Value::String(value.to_owned());
        }
    }
}

/// The member of an object, made as an empty object where it is missing; `None` where `value` is no object.
fn member<'a>(value: &'a mut Value, name: &str) -> Option<&'a mut Value> {
    Some(value.as_object_mut()?.entry(name).or_insert_with(|| Value::Object(Map::new())))
}

impl TryFrom<Value> for Object {
    type Error = NotAnObject;

    fn try_from(value: Value) -> Result<Self, NotAnObject> {
        Self::new(value)
    }
}

impl From<Object> for Value {
    fn from(object: Object) -> Self {
        object.0
    }
}

impl ObjectKey {
    /// A key for an object of a namespace; an empty namespace means cluster scope.
    pub fn new(group: &str, kind: &str, namespace: &str, name: &str) -> Self {
        Self { group: group.into(), kind: kind.into(), namespace: namespace.into(), name: name.into() }
    }

    /// `namespace/name`, or the name alone for cluster-scoped objects.
    pub fn qualified_name(&self) -> String {
        if self.namespace.is_empty() { self.name.clone() } else { format!("{}/{}", self.namespace, self.name) }
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.qualified_name())
    }
}
