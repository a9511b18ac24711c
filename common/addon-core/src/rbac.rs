//! The rights that an operator needs, derived from what it does: from its watches, its look-ups and its packages.

use serde_json::{Value, json};

use crate::{addon::Addon, object::Object, package::Package, schema, schema::Kind};

/// The manifests that give an operator its rights, and nothing more: a ServiceAccount, and a ClusterRole and a Role
/// with their bindings.
///
/// Rights are bound to names wherever the names are known: server-side apply names its object also when it creates it,
/// and a watch of one name is authorised by that name. Who grants rights to an add-on has to hold them: the rules of the
/// packages' own roles are part of the operator's.
pub fn manifests(addon: &dyn Addon, packages: &[Package], namespace: &str) -> Vec<Object> {
    let name = format!("{}-operator", addon.name());
    let mut cluster = vec![
        rule(&addon.resource(), &["list", "watch"], None),
        json!({
            "apiGroups": [addon.resource().group],
            "resources": [format!("{}/status", addon.resource().plural)],
            "verbs": ["patch"],
        }),
        json!({
            "apiGroups": ["authorization.k8s.io"],
            "resources": ["subjectaccessreviews"],
            "verbs": ["create"],
        }),
    ];
    let mut local = Vec::new();
    for watch in addon.watches() {
        let rule = rule(watch.kind, &["list", "watch"], watch.name);
        if watch.kind.namespaced { local.push(rule) } else { cluster.push(rule) }
    }
    // What is looked up may lie in any namespace.
    cluster.extend(addon.looks_up().iter().map(|(kind, name)| rule(kind, &["get"], *name)));
    for package in packages {
        for object in &package.objects {
            let Some(kind) = schema::kind_of(object.group(), object.kind()) else { continue };
            let hashed = package.metadata.hashed.contains(&crate::package::source_of(object));
            let rule = if hashed {
                rule(kind, &["create", "delete", "patch"], None)
            } else {
                rule(kind, &["create", "patch"], Some(object.name()))
            };
            if kind.namespaced {
                local.push(rule);
            } else {
                cluster.push(rule);
            }
            if object.kind() == "ClusterRole" {
                // The rules below would do, but the API server takes ten times as long to see that they do.
                cluster.push(self::rule(kind, &["bind"], Some(object.name())));
                cluster.extend(object.value()["rules"].as_array().into_iter().flatten().cloned());
            }
        }
    }
    let role = |kind: &str, rules: Vec<Value>, namespace: Option<&str>| {
        let metadata = metadata(&name, namespace);
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": metadata, "rules": merged(rules)})
    };
    let binding = |kind: &str, namespace_of_binding: Option<&str>| {
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": format!("{kind}Binding"),
            "metadata": metadata(&name, namespace_of_binding),
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
        })
    };
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata(&name, Some(namespace))});
    [
        account,
        role("ClusterRole", cluster, None),
        binding("ClusterRole", None),
        role("Role", local, Some(namespace)),
        binding("Role", Some(namespace)),
    ]
    .into_iter()
    .filter_map(|value| Object::new(value).ok())
    .collect()
}

fn metadata(name: &str, namespace: Option<&str>) -> Value {
    match namespace {
        Some(namespace) => json!({"name": name, "namespace": namespace}),
        None => json!({ "name": name }),
    }
}

fn rule(kind: &Kind, verbs: &[&str], name: Option<&str>) -> Value {
    let mut rule = json!({"apiGroups": [kind.group], "resources": [kind.plural], "verbs": verbs});
    if let Some(name) = name {
        rule["resourceNames"] = json!([name]);
    }
    rule
}

/// Puts rules about the same objects together, in a fixed order.
fn merged(rules: Vec<Value>) -> Vec<Value> {
    let mut verbs_by_objects = std::collections::BTreeMap::<String, (Value, std::collections::BTreeSet<String>)>::new();
    for mut rule in rules {
        let verbs = rule["verbs"].take();
        let verbs = verbs.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned);
        verbs_by_objects.entry(rule.to_string()).or_insert_with(|| (rule, [].into())).1.extend(verbs);
    }
    let put_back = |(mut rule, verbs): (Value, std::collections::BTreeSet<String>)| {
        rule["verbs"] = json!(verbs);
        rule
    };
    verbs_by_objects.into_values().map(put_back).collect()
}
