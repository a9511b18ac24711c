//! The plan for one object: whether it has to be written, which fields are taken, which are left.

use serde_json::{Value, json};

use crate::{
    addon::{Desired, DesiredObject, Observed},
    api::Conflicts,
    fields::{self, FieldChange, Owners, item_of, leaves, projection},
    finding::Finding,
    object::Object,
    path::FieldPath,
    plan::Action,
    render::ADDON_LABEL,
    schema::{Merge, merge_of},
};

/// Fields that cannot be changed on a live object.
const IMMUTABLE: &[(&str, &str)] = &[
    ("Deployment", ".spec.selector"),
    ("DaemonSet", ".spec.selector"),
    ("ClusterRoleBinding", ".roleRef"),
    ("RoleBinding", ".roleRef"),
    ("Service", ".spec.clusterIP"),
];

/// Who a field belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Enforced,
    Defaulted,
    Shared,
}

/// The action for one object, where one is needed, or the findings that forbid it.
pub(super) fn plan(
    object: &DesiredObject,
    desired: &Desired,
    observed: &Observed,
    manager: &str,
) -> Result<Option<Action>, Vec<Finding>> {
    let key = object.object.key();
    let Some(live) = observed.get(&key) else {
        let changes = leaves(&object.object)
            .into_iter()
            .map(|(path, value)| FieldChange { path, old: None, new: Some(value.clone()), owner: None })
            .collect();
        return Ok(Some(Action::Apply { target: key, body: object.object.clone(), force: false, changes }));
    };
    if !live.text("/metadata/deletionTimestamp").is_empty() {
        return Err(vec![
            Finding::error("BeingDeleted", "it is being deleted").object(&key).remedy("wait until it is gone"),
        ]);
    }
    immutable(&object.object, live)?;
    let owners = Owners::of(live);
    if let Some(action) = strangers(object, desired, live, &owners, manager) {
        return Ok(Some(action));
    }

    let mut body = object.object.clone();
    let mut force = false;
    let mut refused = Vec::new();
    for change in fields::changes(&object.object, live, &owners, manager) {
        let Some(owner) = &change.owner else { continue };
        match (class_of(object, desired, &change.path), desired.conflicts) {
            (Class::Enforced, _) | (Class::Shared, Conflicts::Overwrite) => force = true,
            (Class::Defaulted, _) | (Class::Shared, Conflicts::Preserve) => {
                change.path.remove(body.value_mut());
            }
            (Class::Shared, Conflicts::Fail) => refused.push(conflict(&key.to_string(), &change, owner)),
        }
    }
    if !refused.is_empty() {
        return Err(refused);
    }
    if is_settled(&body, live, &owners, observed, manager) {
        return Ok(None);
    }
    let changes = fields::changes(&body, live, &owners, manager);
    let seen = if force {
        json!({"uid": live.uid(), "resourceVersion": live.resource_version()})
    } else {
        json!({"uid": live.uid()})
    };
    if let (Some(metadata), Value::Object(seen)) = (body.value_mut()["metadata"].as_object_mut(), seen) {
        metadata.extend(seen);
    }
    Ok(Some(Action::Apply { target: key, body, force, changes }))
}

/// Whether there is nothing to write: every field has its value and is ours, and we hold no other; or the API server
/// has made of the very same body what is live now.
fn is_settled(body: &Object, live: &Object, owners: &Owners, observed: &Observed, manager: &str) -> bool {
    let wanted = leaves(body);
    let held = owners.held_by(manager);
    let as_wanted = wanted.iter().all(|(path, value)| path.get(live.value()) == Some(*value) && held.contains(path))
        && held.iter().all(|path| wanted.contains_key(path));
    as_wanted
        || observed.answers.get(&body.key()).is_some_and(|answer| {
            without_preconditions(&answer.sent) == without_preconditions(body)
                && answer.projection == projection(live, wanted.keys())
        })
}

fn without_preconditions(object: &Object) -> Value {
    let mut value = object.value().clone();
    if let Some(metadata) = value["metadata"].as_object_mut() {
        metadata.remove("uid");
        metadata.remove("resourceVersion");
    }
    value
}

fn class_of(object: &DesiredObject, desired: &Desired, path: &FieldPath) -> Class {
    let names = |references: &[crate::package::FieldRef]| references.iter().any(|it| it.covers(&object.source, path));
    let is_our_label = *path == FieldPath::default().field("metadata").field("labels").field(ADDON_LABEL);
    if is_our_label || object.asked.contains(path) || names(&desired.fields.enforced) {
        Class::Enforced
    } else if names(&desired.fields.defaulted) {
        Class::Defaulted
    } else {
        Class::Shared
    }
}

fn conflict(object: &str, change: &FieldChange, owner: &str) -> Finding {
    let show = |value: &Option<Value>| value.as_ref().map_or("nothing".into(), |value| shorten(&value.to_string()));
    Finding::error(
        "FieldConflict",
        format!("{owner} has set it to {}, and the add-on wants {}", show(&change.old), show(&change.new)),
    )
    .object(object)
    .field(&change.path)
    .remedy("set spec.conflicts to Preserve or Overwrite, or set the value in the spec")
}

fn shorten(text: &str) -> String {
    const SHOWN: usize = 80;
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

fn immutable(object: &Object, live: &Object) -> Result<(), Vec<Finding>> {
    let findings: Vec<_> = IMMUTABLE
        .iter()
        .filter(|(kind, _)| *kind == object.kind())
        .filter_map(|(_, path)| {
            let path: FieldPath = path.parse().ok()?;
            let (old, new) = (path.get(live.value())?, path.get(object.value())?);
            (old != new).then(|| {
                Finding::error("ImmutableField", format!("it is {old}, has to be {new}, and cannot be changed"))
                    .object(object.key())
                    .field(&path)
                    .remedy("the running object stays as it is; delete it yourself if its loss is acceptable")
            })
        })
        .collect();
    if findings.is_empty() { Ok(()) } else { Err(findings) }
}

/// The action that removes items of others from lists that are ours alone.
fn strangers(
    object: &DesiredObject,
    desired: &Desired,
    live: &Object,
    owners: &Owners,
    manager: &str,
) -> Option<Action> {
    let mut operations = Vec::new();
    let mut changes = Vec::new();
    for list in desired.fields.exclusive.iter().filter(|list| list.source == object.source) {
        let Merge::Keyed(keys) = merge_of(object.object.kind(), &list.path, true) else { continue };
        let items =
            |object: &Object| list.path.get(object.value()).and_then(Value::as_array).cloned().unwrap_or_default();
        let wanted: Vec<_> = items(&object.object).iter().map(|item| item_of(keys, item)).collect();
        let Some(pointer) = pointer(&list.path) else { continue };
        let is_ours = |item: &Value| wanted.contains(&item_of(keys, item));
        // Required lists may not become empty, and names in them may not clash: all at once, then.
        let replaced = !wanted.is_empty() && !items(live).iter().any(is_ours);
        if replaced && !items(live).is_empty() {
            operations.push(json!({"op": "test", "path": pointer, "value": items(live)}));
            operations.push(json!({"op": "replace", "path": pointer, "value": items(&object.object)}));
        }
        // From the end, so that the indexes of the others stay.
        for (index, item) in items(live).iter().enumerate().rev() {
            let step = item_of(keys, item);
            if !is_ours(item) {
                let path = list.path.join(step);
                if !replaced {
                    operations.push(json!({"op": "test", "path": format!("{pointer}/{index}"), "value": item}));
                    operations.push(json!({"op": "remove", "path": format!("{pointer}/{index}")}));
                }
                let owner = owners.other_than(manager, &path).map(str::to_owned);
                changes.push(FieldChange { path, old: Some(item.clone()), new: None, owner });
            }
        }
    }
    // What we hold ourselves goes with the next apply; what nobody holds would stay for ever.
    let held = owners.held_by(manager);
    if changes.iter().all(|change| held.iter().any(|held| change.path.covers(held))) {
        return None;
    }
    Some(Action::RemoveItems { target: live.key(), patch: Value::Array(operations), changes })
}

/// The JSON pointer of a path of plain members.
fn pointer(path: &FieldPath) -> Option<String> {
    path.segments().iter().try_fold(String::new(), |pointer, segment| match segment {
        crate::path::Segment::Field(name) => Some(format!("{pointer}/{}", name.replace('~', "~0").replace('/', "~1"))),
        _ => None,
    })
}
