//! A user's patches on rendered objects: strategic merge or JSON patch, with a target.

use serde_json::{Map, Value};

use crate::{
    fields::item_of,
    finding::Finding,
    object::Object,
    path::{FieldPath, Segment},
    schema::{Merge, merge_of},
    yaml,
};

/// The most operations of one JSON patch.
const MAX_OPERATIONS: usize = 256;
/// The deepest that a patched object may nest; Kubernetes objects stay below 20 levels.
const MAX_DEPTH: usize = 64;
/// The largest that a patched object may become, in bytes: more than the API server stores.
const MAX_SIZE: usize = 2 << 20;

/// Applies the patches of `spec.patches` in order. The first that cannot be applied is the finding.
pub fn apply_all(objects: &mut [Object], patches: &[Value]) -> Result<(), Box<Finding>> {
    patches.iter().enumerate().try_for_each(|(index, patch)| {
        apply(objects, patch).map_err(|(code, message, remedy)| {
            Box::new(Finding::error(code, message).field(format!(".spec.patches[{index}]")).remedy(remedy))
        })
    })
}

type Failure = (&'static str, String, String);

fn bad(message: impl Into<String>) -> Failure {
    (
        "BadPatch",
        message.into(),
        "write {target: {kind, name}, patch: ...} with a strategic merge patch or a list of JSON patch operations, or a \
         partial object with apiVersion, kind and metadata.name"
            .into(),
    )
}

fn apply(objects: &mut [Object], patch: &Value) -> Result<(), Failure> {
    let (target, body) = match (patch.get("patch"), patch.get("target")) {
        (Some(body), target) => (target.or(Some(body)), body.clone()),
        (None, None) => (Some(patch), patch.clone()),
        (None, Some(_)) => return Err(bad("there is a target and no patch")),
    };
    let body = match body {
        Value::String(text) => yaml::from_str(&text).map_err(|error| bad(format!("the patch is no YAML: {error}")))?,
        body => body,
    };
    let target = Target::read(target.unwrap_or(&Value::Null), &body)?;
    let mut matched = false;
    for object in objects.iter_mut().filter(|object| target.matches(object)) {
        matched = true;
        let key = object.key();
        let mut value = object.value().clone();
        match &body {
            Value::Array(_) => json_patch(&mut value, &body).map_err(|error| bad(format!("{key}: {error}")))?,
            Value::Object(_) => merge(object.kind(), &FieldPath::default(), &mut value, &body),
            _ => return Err(bad("the patch is neither an object nor a list")),
        }
        let patched = Object::new(value).map_err(|error| bad(format!("{key}: {error}")))?;
        if patched.key() != key {
            return Err(bad(format!("it makes {key} into {}; an object's identity cannot be patched", patched.key())));
        }
        *object = patched;
    }
    if matched {
        return Ok(());
    }
    let known: Vec<_> = objects.iter().map(|object| object.key().to_string()).collect();
    Err(("PatchWithoutTarget", format!("no object matches {target}"), format!("patch one of {}", known.join(", "))))
}

/// Applies the operations one by one: `copy` can double an object with each of them.
fn json_patch(value: &mut Value, body: &Value) -> Result<(), String> {
    let patch: json_patch::Patch = serde_json::from_value(body.clone()).map_err(|error| error.to_string())?;
    if patch.0.len() > MAX_OPERATIONS {
        return Err(format!("it has {} operations, and at most {MAX_OPERATIONS} are applied", patch.0.len()));
    }
    for operation in patch.0 {
        let copied = match &operation {
            json_patch::PatchOperation::Copy(copy) => value.pointer(copy.from.as_str()).map_or(0, depth),
            json_patch::PatchOperation::Move(from) => value.pointer(from.from.as_str()).map_or(0, depth),
            json_patch::PatchOperation::Add(add) => depth(&add.value),
            json_patch::PatchOperation::Replace(replace) => depth(&replace.value),
            _ => 0,
        };
        if operation.path().count() + copied > MAX_DEPTH {
            return Err(format!("it nests more than {MAX_DEPTH} levels deep"));
        }
        json_patch::patch(value, &[operation]).map_err(|error| error.to_string())?;
        if size(value) > MAX_SIZE {
            return Err(format!("it makes the object larger than {MAX_SIZE} bytes"));
        }
    }
    Ok(())
}

/// How deep a value is nested.
fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(members) => 1 + members.values().map(depth).max().unwrap_or(0),
        _ => 1,
    }
}

/// About how many bytes a value takes.
fn size(value: &Value) -> usize {
    match value {
        Value::Array(items) => items.iter().map(size).sum::<usize>() + 2,
        Value::Object(members) => members.iter().map(|(name, value)| name.len() + size(value) + 4).sum::<usize>() + 2,
        Value::String(text) => text.len() + 2,
        _ => 8,
    }
}

/// Which objects a patch is for; what is not given matches all.
struct Target {
    fields: Vec<(&'static str, String)>,
    labels: Vec<(String, String)>,
}

impl Target {
    /// Reads a `target`, or takes the identity of a bare object.
    fn read(target: &Value, body: &Value) -> Result<Self, Failure> {
        let from = |value: &Value, pointer: &str| value.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        let identity =
            if target.get("metadata").is_some() || target.get("apiVersion").is_some() { body } else { target };
        let mut fields: Vec<_> = [
            ("/apiVersion", from(identity, "/apiVersion")),
            ("/kind", from(identity, "/kind")),
            ("/metadata/name", from(identity, "/metadata/name").or_else(|| from(identity, "/name"))),
            ("/metadata/namespace", from(identity, "/metadata/namespace").or_else(|| from(identity, "/namespace"))),
        ]
        .into_iter()
        .filter_map(|(pointer, value)| Some((pointer, value?)))
        .collect();
        if let Some(version) = from(identity, "/version") {
            let group = from(identity, "/group").map(|group| format!("{group}/")).unwrap_or_default();
            fields.push(("/apiVersion", format!("{group}{version}")));
        }
        let mut labels = Vec::new();
        if let Some(selector) = from(identity, "/labelSelector") {
            for pair in selector.split(',') {
                let (key, value) = pair.split_once('=').ok_or_else(|| {
                    bad(format!("labelSelector `{selector}` is not understood (expected key=value,...)"))
                })?;
                labels.push((key.trim().to_owned(), value.trim_start_matches('=').trim().to_owned()));
            }
        }
        if fields.is_empty() && labels.is_empty() {
            return Err(bad("it has neither a target nor apiVersion, kind and metadata.name"));
        }
        Ok(Self { fields, labels })
    }

    fn matches(&self, object: &Object) -> bool {
        self.fields.iter().all(|(pointer, value)| object.text(pointer) == value)
            && self.labels.iter().all(|(key, value)| object.label(key) == Some(value))
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let fields = self
            .fields
            .iter()
            .map(|(pointer, value)| format!("{} {value}", pointer.rsplit('/').next().unwrap_or_default()));
        let labels = self.labels.iter().map(|(key, value)| format!("label {key}={value}"));
        f.write_str(&fields.chain(labels).collect::<Vec<_>>().join(", "))
    }
}

/// Merges `patch` into `base` as a strategic merge patch: `null` removes, keyed lists merge by their keys,
/// `$patch: delete` and `$patch: replace` are understood, other lists are replaced.
///
/// Lists are keyed as for server-side apply: ports by number *and* protocol, where kubectl's strategic merge takes the
/// number alone and loses one of 53/UDP and 53/TCP (kubernetes/kubernetes#39188).
pub fn merge(kind: &str, path: &FieldPath, base: &mut Value, patch: &Value) {
    match (base, patch) {
        (Value::Object(base), Value::Object(patch)) => {
            if patch.get("$patch").and_then(Value::as_str) == Some("replace") {
                base.clear();
            }
            for (name, value) in patch.iter().filter(|(name, _)| *name != "$patch") {
                if value.is_null() {
                    base.remove(name);
                } else {
                    let empty = if value.is_object() { Value::Object(Map::new()) } else { Value::Null };
                    merge(kind, &path.field(name), base.entry(name.clone()).or_insert(empty), value);
                }
            }
        }
        (Value::Array(items), Value::Array(patches)) => match merge_of(kind, path, true) {
            Merge::Keyed(keys) => merge_items(kind, path, keys, items, patches),
            Merge::Set => {
                let new: Vec<_> = patches.iter().filter(|item| !items.contains(item)).cloned().collect();
                items.extend(new);
            }
            Merge::Granular | Merge::Atomic => items.clone_from(patches),
        },
        (base, patch) => *base = patch.clone(),
    }
}

fn merge_items(kind: &str, path: &FieldPath, keys: &[&str], items: &mut Vec<Value>, patches: &[Value]) {
    let directive = |item: &Value| item.get("$patch").and_then(Value::as_str).map(str::to_owned);
    if patches.iter().any(|item| directive(item).as_deref() == Some("replace") && item_of(keys, item) == nothing()) {
        items.clear();
    }
    for patch in patches {
        let step = item_of(keys, patch);
        let known = items.iter().position(|item| item_of(keys, item) == step);
        match (directive(patch).as_deref(), known) {
            (Some("replace"), _) if step == nothing() => {}
            (Some("delete"), Some(at)) => {
                items.remove(at);
            }
            (Some("delete"), None) => {}
            (_, Some(at)) => merge(kind, &path.join(step), &mut items[at], patch),
            (_, None) => items.push(patch.clone()),
        }
    }
}

fn nothing() -> Segment {
    Segment::Item(std::collections::BTreeMap::new())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn deployment() -> Vec<Object> {
        vec![
            Object::new(json!({"apiVersion": "apps/v1", "kind": "Deployment",
                "metadata": {"name": "coredns", "namespace": "kube-system", "labels": {"k8s-app": "kube-dns"}},
                "spec": {"replicas": 2, "template": {"spec": {
                    "containers": [{"name": "coredns", "image": "a", "ports": [
                        {"containerPort": 53, "protocol": "UDP", "name": "dns"},
                        {"containerPort": 53, "protocol": "TCP", "name": "dns-tcp"}]}],
                    "tolerations": [{"key": "x"}]}}}}))
            .unwrap(),
        ]
    }

    fn patched(patch: Value) -> Value {
        let mut objects = deployment();
        apply_all(&mut objects, &[patch]).unwrap();
        objects[0].value().clone()
    }

    fn refused(patch: Value) -> Finding {
        let mut objects = deployment();
        let finding = *apply_all(&mut objects, &[patch]).unwrap_err();
        assert_eq!(objects, deployment(), "a refused patch changes nothing");
        finding
    }

    #[test]
    fn a_bare_object_is_a_strategic_merge_patch_on_itself() {
        let object = patched(json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "coredns"},
            "spec": {"replicas": null, "template": {"spec": {
                "containers": [{"name": "coredns", "ports": [{"containerPort": 53, "protocol": "UDP", "hostPort": 53}]},
                               {"name": "sidecar", "image": "b"}],
                "tolerations": [{"key": "y"}]}}}}));
        let pod = &object["spec"]["template"]["spec"];
        assert_eq!(object["spec"].get("replicas"), None);
        assert_eq!(pod["containers"][0]["image"], "a", "the rest of the container stays");
        assert_eq!(pod["containers"][0]["ports"][0]["hostPort"], 53);
        assert_eq!(
            pod["containers"][0]["ports"][1],
            json!({"containerPort": 53, "protocol": "TCP", "name": "dns-tcp"})
        );
        assert_eq!(pod["containers"][1]["name"], "sidecar");
        assert_eq!(pod["tolerations"], json!([{"key": "y"}]), "an atomic list is replaced");
    }

    #[test]
    fn a_target_takes_a_json_patch_or_text() {
        let operations = json!([{"op": "replace", "path": "/spec/replicas", "value": 3}]);
        let text = "- {op: replace, path: /spec/replicas, value: 3}";
        for patch in [operations, json!(text)] {
            for target in [
                json!({"kind": "Deployment"}),
                json!({"labelSelector": "k8s-app=kube-dns"}),
                json!({"group": "apps", "version": "v1", "kind": "Deployment", "name": "coredns"}),
            ] {
                assert_eq!(patched(json!({"target": target, "patch": patch}))["spec"]["replicas"], 3);
            }
        }
    }

    #[test]
    fn directives_delete_and_replace() {
        let object =
            patched(json!({"target": {"name": "coredns"}, "patch": {"spec": {"template": {"spec": {"containers": [
            {"name": "coredns", "ports": [{"containerPort": 53, "protocol": "UDP", "$patch": "delete"}]}]}}}}}));
        assert_eq!(object["spec"]["template"]["spec"]["containers"][0]["ports"].as_array().unwrap().len(), 1);
        let object =
            patched(json!({"target": {"name": "coredns"}, "patch": {"spec": {"template": {"spec": {"containers": [
            {"$patch": "replace"}, {"name": "other"}]}}}}}));
        assert_eq!(object["spec"]["template"]["spec"]["containers"], json!([{"name": "other"}]));
    }

    #[test]
    fn a_patch_that_matches_nothing_is_an_error_that_lists_what_there_is() {
        let finding = refused(json!({"target": {"kind": "DaemonSet", "name": "coredns"}, "patch": {"spec": {}}}));
        assert_eq!(finding.code, "PatchWithoutTarget");
        assert_eq!(finding.field.as_deref(), Some(".spec.patches[0]"));
        assert_eq!(finding.remedy.as_deref(), Some("patch one of Deployment kube-system/coredns"));
    }

    #[test]
    fn a_patch_that_copies_itself_is_refused() {
        let deeper = json!({"op": "copy", "from": "/spec", "path": "/spec/again"});
        let larger = json!({"op": "copy", "from": "/spec/items", "path": "/spec/items/-"});
        let first = json!({"op": "add", "path": "/spec/items", "value": ["x".repeat(1000)]});
        for operations in [vec![deeper; 200], [vec![first], vec![larger.clone(); 100]].concat(), vec![larger; 300]] {
            assert_eq!(refused(json!({"target": {"kind": "Deployment"}, "patch": operations})).code, "BadPatch");
        }
    }

    #[test]
    fn what_is_no_patch_is_refused() {
        for patch in [
            json!({}),
            json!("text"),
            json!({"target": {"kind": "Deployment"}}),
            json!({"target": {"kind": "Deployment"}, "patch": 3}),
            json!({"target": {"kind": "Deployment"}, "patch": "{"}),
            json!({"target": {"kind": "Deployment"}, "patch": [{"op": "remove", "path": "/spec/none"}]}),
            json!({"target": {"kind": "Deployment"}, "patch": {"metadata": {"name": "other"}}}),
            json!({"target": {"labelSelector": "broken"}, "patch": {}}),
        ] {
            assert_eq!(refused(patch.clone()).code, "BadPatch", "{patch}");
        }
    }
}
