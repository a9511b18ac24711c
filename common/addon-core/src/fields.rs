//! Fields and their owners: what an object sets, who holds it today, and what would change.
//!
//! Server-side apply tracks owners in `metadata.managedFields`. Reading them here answers, without a request, what the
//! server would answer: which fields conflict, which are ours and which would be dropped.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    object::Object,
    path::{FieldPath, Segment},
    schema::{Merge, merge_of},
};

/// One field that a write changes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FieldChange {
    /// The field.
    pub path: FieldPath,
    /// Value before; absent where there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old: Option<Value>,
    /// Value after; absent where the field goes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new: Option<Value>,
    /// The field manager, not us, that holds the field today.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
}

/// The fields that an object sets, each with its value, in order.
///
/// A field is what has an owner of its own: a scalar, an atomic list or map, an empty map. Identity
/// (`apiVersion`, `kind`, name, namespace) and what the server writes (`status`, `uid`, ...) are left out.
pub fn leaves(object: &Object) -> BTreeMap<FieldPath, &Value> {
    let mut found = BTreeMap::new();
    if let Some(members) = object.value().as_object() {
        for (name, value) in members {
            match name.as_str() {
                "apiVersion" | "kind" | "status" => {}
                "metadata" => {
                    for map in ["labels", "annotations", "finalizers", "ownerReferences"] {
                        if let Some(value) = value.get(map) {
                            descend(object.kind(), &FieldPath::default().field(name).field(map), value, &mut found);
                        }
                    }
                }
                _ => descend(object.kind(), &FieldPath::default().field(name), value, &mut found),
            }
        }
    }
    found
}

fn descend<'a>(kind: &str, path: &FieldPath, value: &'a Value, found: &mut BTreeMap<FieldPath, &'a Value>) {
    match value {
        Value::Object(members) if !members.is_empty() && merge_of(kind, path, false) == Merge::Granular => {
            for (name, value) in members {
                descend(kind, &path.field(name), value, found);
            }
        }
        Value::Array(items) if !items.is_empty() => match merge_of(kind, path, true) {
            Merge::Keyed(keys) => {
                for item in items {
                    descend(kind, &path.join(item_of(keys, item)), item, found);
                }
            }
            Merge::Set => {
                for item in items {
                    found.insert(path.join(Segment::Member(item.to_string())), item);
                }
            }
            Merge::Granular | Merge::Atomic => {
                found.insert(path.clone(), value);
            }
        },
        _ => {
            found.insert(path.clone(), value);
        }
    }
}

/// The step that leads to an item of a keyed list.
pub(crate) fn item_of(keys: &[&str], item: &Value) -> Segment {
    let keys = keys.iter().filter_map(|key| match item.get(key) {
        Some(value) => Some(((*key).to_owned(), value.to_string())),
        None if *key == "protocol" => Some(((*key).to_owned(), "\"TCP\"".to_owned())),
        None => None,
    });
    Segment::Item(keys.collect())
}

/// Who holds which fields of a live object.
#[derive(Clone, Debug, Default)]
pub struct Owners(Vec<(String, BTreeSet<FieldPath>)>);

/// Whom the API server takes for the holder of everything, at the first apply to an object without managed fields.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

impl Owners {
    /// Reads `metadata.managedFields`. Entries for the status are left out; those for other subresources count: who
    /// scales a Deployment holds its `spec.replicas`.
    pub fn of(live: &Object) -> Self {
        let entries = live.value().pointer("/metadata/managedFields").and_then(Value::as_array);
        let read = entries.into_iter().flatten();
        Self(
            read.map(|entry| {
                let manager = entry.get("manager").and_then(Value::as_str).unwrap_or("unknown");
                let mut fields = BTreeSet::new();
                let of_spec = entry["subresource"] != "status";
                if let Some(set) = entry.get("fieldsV1").and_then(Value::as_object).filter(|_| of_spec) {
                    read_fields(&FieldPath::default(), set, &mut fields);
                }
                (manager.to_owned(), fields)
            })
            .collect(),
        )
    }

    /// The fields that `manager` holds.
    pub fn held_by(&self, manager: &str) -> BTreeSet<FieldPath> {
        self.0.iter().filter(|(name, _)| name == manager).flat_map(|(_, fields)| fields.iter().cloned()).collect()
    }

    /// A field manager other than `manager` that holds `path` or something below or around it as a whole.
    pub fn other_than(&self, manager: &str, path: &FieldPath) -> Option<&str> {
        if self.0.is_empty() {
            return Some(BEFORE_FIRST_APPLY);
        }
        self.0
            .iter()
            .filter(|(name, _)| name != manager)
            .find(|(_, fields)| fields.iter().any(|held| held.covers(path) || path.covers(held)))
            .map(|(name, _)| name.as_str())
    }
}

/// Reads a `FieldsV1` set; its leaves are the owned fields.
fn read_fields(path: &FieldPath, set: &Map<String, Value>, found: &mut BTreeSet<FieldPath>) {
    for (key, below) in set {
        let segment = match key.split_once(':') {
            Some(("f", name)) => Segment::Field(name.to_owned()),
            Some(("k", keys)) => match serde_json::from_str::<BTreeMap<String, Value>>(keys) {
                Ok(keys) => Segment::Item(keys.into_iter().map(|(name, value)| (name, value.to_string())).collect()),
                Err(_) => continue,
            },
            Some(("v", member)) => Segment::Member(member.to_owned()),
            _ => continue,
        };
        let path = path.join(segment);
        match below.as_object() {
            Some(below) if below.keys().any(|key| key != ".") => read_fields(&path, below, found),
            _ => {
                found.insert(path);
            }
        }
    }
}

/// What applying `desired` over `live` would change, each field with its present owner other than `manager`:
/// fields that get another value, and fields that `manager` holds today and no longer sets.
pub fn changes(desired: &Object, live: &Object, owners: &Owners, manager: &str) -> Vec<FieldChange> {
    let wanted = leaves(desired);
    let set = wanted.iter().filter_map(|(path, new)| {
        let old = path.get(live.value());
        (old != Some(*new)).then(|| FieldChange {
            path: path.clone(),
            old: old.cloned(),
            new: Some((*new).clone()),
            owner: owners.other_than(manager, path).map(str::to_owned),
        })
    });
    let dropped = owners.held_by(manager).into_iter().filter_map(|path| {
        let old = path.get(live.value())?;
        let gone = !wanted.keys().any(|wanted| wanted.covers(&path) || path.covers(wanted));
        (gone && owners.other_than(manager, &path).is_none()).then(|| FieldChange {
            old: Some(old.clone()),
            path,
            new: None,
            owner: None,
        })
    });
    let mut all: Vec<_> = set.chain(dropped).collect();
    all.sort_by(|a, b| a.path.cmp(&b.path));
    all
}

/// The fields of `live` that `paths` name, as one comparable value: what a decision about them consumed.
pub fn projection<'a>(live: &Object, paths: impl Iterator<Item = &'a FieldPath>) -> Value {
    Value::Object(paths.filter_map(|path| Some((path.to_string(), path.get(live.value())?.clone()))).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(value: Value) -> Object {
        Object::new(value).unwrap()
    }

    fn service(ports: &Value, managed: &Value) -> Object {
        object(
            json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "kube-dns", "managedFields": managed},
            "spec": {"selector": {"k8s-app": "kube-dns"}, "ports": ports}}),
        )
    }

    #[test]
    fn leaves_have_the_granularity_of_the_api_servers_owners() {
        let service = service(&json!([{"port": 53, "protocol": "UDP", "name": "dns"}, {"port": 9153}]), &json!([]));
        let paths: Vec<_> = leaves(&service).into_keys().map(|path| path.to_string()).collect();
        assert_eq!(
            paths,
            [
                ".spec.ports[port=53,protocol=\"UDP\"].name",
                ".spec.ports[port=53,protocol=\"UDP\"].port",
                ".spec.ports[port=53,protocol=\"UDP\"].protocol",
                ".spec.ports[port=9153,protocol=\"TCP\"].port",
                ".spec.selector",
            ]
        );
    }

    #[test]
    fn a_change_names_the_old_value_and_its_owner() {
        let managed = json!([{"manager": "kubectl-edit", "operation": "Update", "fieldsV1": {"f:spec": {"f:ports":
            {"k:{\"port\":53,\"protocol\":\"UDP\"}": {"f:name": {}}}}}}]);
        let live = service(&json!([{"port": 53, "protocol": "UDP", "name": "dns-udp"}]), &managed);
        let wanted = service(&json!([{"port": 53, "protocol": "UDP", "name": "dns"}]), &json!([]));
        let changes = changes(&wanted, &live, &Owners::of(&live), "us");
        assert_eq!(changes.len(), 1);
        assert_eq!(changes[0].owner.as_deref(), Some("kubectl-edit"));
        assert_eq!((&changes[0].old, &changes[0].new), (&Some(json!("dns-udp")), &Some(json!("dns"))));
    }

    #[test]
    fn who_scales_holds_the_replicas() {
        let managed = json!([
            {"manager": "kubectl", "operation": "Update", "subresource": "scale", "fieldsV1": {"f:spec": {"f:replicas": {}}}},
            {"manager": "controller", "operation": "Update", "subresource": "status", "fieldsV1": {"f:spec": {"f:x": {}}}}]);
        let live = object(json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "x",
            "managedFields": managed}, "spec": {"replicas": 5}}));
        let owner = |path: &str| Owners::of(&live).other_than("us", &path.parse().unwrap()).map(str::to_owned);
        assert_eq!(owner("spec.replicas").as_deref(), Some("kubectl"));
        assert_eq!(owner("spec.x"), None);
    }

    #[test]
    fn a_field_that_we_no_longer_set_goes_unless_another_holds_it() {
        let ours = json!({"f:metadata": {"f:labels": {"f:a": {}, "f:b": {}}}});
        let theirs = json!({"f:metadata": {"f:labels": {"f:b": {}}}});
        let live = object(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x",
            "labels": {"a": "1", "b": "1"}, "managedFields": [
                {"manager": "us", "operation": "Apply", "fieldsV1": ours},
                {"manager": "them", "operation": "Update", "fieldsV1": theirs}]}}));
        let wanted = object(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}));
        let changes = changes(&wanted, &live, &Owners::of(&live), "us");
        assert_eq!(changes.iter().map(|change| change.path.to_string()).collect::<Vec<_>>(), [".metadata.labels.a"]);
        assert_eq!(changes[0].new, None);
    }
}
