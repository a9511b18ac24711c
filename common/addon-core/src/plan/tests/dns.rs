//! A small add-on, and a cluster for it.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::{Value, json};

use crate::{
    Version,
    addon::{Addon, Desired, DesiredObject, Observed, Watch},
    api::Conflicts,
    finding::Finding,
    object::{Object, ObjectKey},
    plan::{Plan, Wave, plan_all},
    schema::Kind,
};

/// An add-on of a ServiceAccount with a role, and a Deployment.
pub(super) struct Dns {
    pub(super) objects: Vec<Value>,
    pub(super) conflicts: Conflicts,
    pub(super) findings: Vec<Finding>,
}

pub(super) const MANAGER: &str = "addons.x-k8s.io/dns";

impl Addon for Dns {
    fn name(&self) -> &'static str {
        "dns"
    }

    fn resource(&self) -> Kind {
        Kind { group: "addons.x-k8s.io", version: "v1alpha1", kind: "Dns", plural: "dns", namespaced: true }
    }

    fn watches(&self) -> Vec<Watch> {
        Vec::new()
    }

    fn lookups(&self, _: &Object, _: &Observed) -> Vec<ObjectKey> {
        Vec::new()
    }

    fn looks_up(&self) -> Vec<(&'static Kind, Option<&'static str>)> {
        Vec::new()
    }

    fn desire(&self, _: &Object, _: &Observed) -> Desired {
        let objects = self.objects.iter().map(|value| {
            let object = object(value.clone());
            DesiredObject { source: crate::package::source_of(&object), object, asked: [].into(), deferred: false }
        });
        let fields = crate::yaml::from_str(
            "enforced: [Deployment/dns spec.image]\ndefaulted: [Deployment/dns spec.replicas]\n\
             exclusive: [Deployment/dns spec.template.spec.containers]\n",
        );
        Desired {
            workloads: vec![ObjectKey::new("apps", "Deployment", "n", "dns")],
            objects: objects.collect(),
            fields: fields.unwrap(),
            conflicts: self.conflicts,
            findings: self.findings.clone(),
            ..Desired::default()
        }
    }
}

pub(super) fn object(value: Value) -> Object {
    Object::new(value).unwrap()
}

pub(super) fn deployment(spec: &Value) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "dns", "namespace": "n"}, "spec": spec})
}

pub(super) fn service_account() -> Value {
    json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "dns", "namespace": "n"}})
}

pub(super) fn role() -> Value {
    json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "dns"}, "rules": [
        {"apiGroups": [""], "resources": ["pods", "services"], "verbs": ["list", "watch"]},
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["watch"]}]})
}

pub(super) fn binding() -> Value {
    json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "dns"},
        "roleRef": {"kind": "ClusterRole", "name": "dns"},
        "subjects": [{"kind": "ServiceAccount", "name": "dns", "namespace": "n"}]})
}

pub(super) fn dns(spec: &Value) -> Dns {
    Dns { objects: vec![service_account(), deployment(spec)], conflicts: Conflicts::Fail, findings: Vec::new() }
}

pub(super) fn spec() -> Value {
    json!({"image": "a", "replicas": 2, "other": 1, "template": {"spec": {"serviceAccountName": "dns",
        "containers": [{"name": "dns"}]}}})
}

/// A live object with fields and their owners, each given as the object that the owner would apply.
pub(super) fn live(value: Value, owners: &[(&str, Value)]) -> Arc<Object> {
    let mut stored = value;
    stored["metadata"]["uid"] = json!("u");
    stored["metadata"]["resourceVersion"] = json!("7");
    stored["metadata"]["managedFields"] = owners
        .iter()
        .map(|(manager, applied)| json!({"manager": manager, "operation": "Apply", "fieldsV1": fields_v1(applied)}))
        .collect();
    Arc::new(object(stored))
}

/// The `FieldsV1` set of an object, as the API server would write it.
pub(super) fn fields_v1(value: &Value) -> Value {
    let mut set = json!({});
    for path in crate::fields::leaves(&object(value.clone())).keys() {
        let mut at = &mut set;
        for segment in path.segments() {
            let key = match segment {
                crate::path::Segment::Field(name) => format!("f:{name}"),
                crate::path::Segment::Item(keys) => {
                    let keys: BTreeMap<_, Value> =
                        keys.iter().map(|(name, text)| (name, serde_json::from_str(text).unwrap())).collect();
                    format!("k:{}", json!(keys))
                }
                _ => unreachable!("no sets here"),
            };
            at = &mut at[key];
        }
        if at.is_null() {
            *at = json!({});
        }
    }
    set
}

pub(super) fn resource(name: &str, namespace: &str, created: &str, uid: &str) -> Arc<Object> {
    Arc::new(object(json!({"apiVersion": "addons.x-k8s.io/v1alpha1", "kind": "Dns", "metadata": {"name": name,
        "namespace": namespace, "creationTimestamp": created, "uid": uid, "generation": 1}})))
}

pub(super) fn observed(live: Vec<Arc<Object>>) -> Observed {
    Observed {
        kubernetes: Version::new(1, 34, 4),
        namespace: "n".into(),
        resources: vec![resource("dns", "n", "2026-01-01T00:00:00Z", "a")],
        live: live.into_iter().map(|object| (object.key(), object)).collect(),
        lookups: BTreeMap::new(),
        answers: BTreeMap::new(),
        confirmed: [].into(),
        failures: BTreeMap::new(),
        now: "2026-01-01T00:10:00Z".parse().unwrap(),
    }
}

pub(super) fn plan_of(addon: &Dns, observed: &Observed) -> Plan {
    plan_all(addon, observed).remove(0)
}

pub(super) fn names(plan: &Plan) -> Vec<String> {
    let wave = |wave: &Wave| {
        let targets: Vec<_> = wave.actions.iter().map(|action| action.target().to_string()).collect();
        format!("{}: {}", wave.name, targets.join(", "))
    };
    plan.waves.iter().map(wave).collect()
}

/// What the server would hold after an apply by us over `live`, for objects without shared fields.
pub(super) fn applied(addon: &Dns) -> Vec<Arc<Object>> {
    addon.objects.iter().map(|value| live(value.clone(), &[(MANAGER, value.clone())])).collect()
}
