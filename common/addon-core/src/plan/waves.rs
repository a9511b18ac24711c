//! The order of actions: configuration and roles, bindings of the roles, proof of the rights, workloads, clean-up.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::{
    addon::{Desired, Observed},
    check::pod_account,
    health::Health,
    object::Object,
    plan::{Access, Action, Wave},
    render::{ADDON_LABEL, config_maps_of},
    schema,
};

/// The last wave: nobody waits for it.
pub(super) const CLEAN_UP: &str = "clean-up";

/// Puts actions into waves, and adds the proof of rights before workloads change and the clean-up after all is done.
pub(super) fn arrange(actions: Vec<Action>, addon: &str, desired: &Desired, observed: &Observed) -> Vec<Wave> {
    let (workloads, base): (Vec<_>, Vec<_>) =
        actions.into_iter().partition(|action| schema::pod_spec_path(&action.target().kind).is_some());
    // The API server reads a role before it lets anyone bind it.
    let (bindings, base): (Vec<_>, Vec<_>) =
        base.into_iter().partition(|action| action.target().kind.ends_with("Binding"));
    let proofs = workloads
        .iter()
        .filter_map(|action| match action {
            Action::Apply { body, .. } => Some(accesses(body, desired, observed)),
            _ => None,
        })
        .flatten()
        .filter(|access| !observed.confirmed.contains(&access.id()))
        .map(Action::ConfirmAccess)
        .collect();
    let nothing_else = base.is_empty() && bindings.is_empty() && workloads.is_empty();
    let clean_up = if nothing_else { unused_config_maps(addon, desired, observed) } else { Vec::new() };
    [
        ("configuration", base),
        ("bindings", bindings),
        ("access", proofs),
        ("workloads", workloads),
        ("clean-up", clean_up),
    ]
    .into_iter()
    .filter(|(_, actions)| !actions.is_empty())
    .map(|(name, actions)| Wave { name: name.to_owned(), actions })
    .collect()
}

/// One right of each rule that the workload's ServiceAccount is granted by the desired set.
///
/// A role is one object: who has one right of its newest rule has them all. Without this, pods of a new version can
/// start before the API server knows the role that they need (coredns/coredns#5495).
fn accesses(workload: &Object, desired: &Desired, observed: &Observed) -> Vec<Access> {
    let Some(account) = pod_account(workload) else { return Vec::new() };
    let binds = |binding: &Object| {
        binding.value()["subjects"].as_array().is_some_and(|subjects| {
            subjects.iter().any(|subject| subject["kind"] == "ServiceAccount" && subject["name"] == account)
        })
    };
    let objects = || desired.objects.iter().map(|desired| &desired.object);
    let mut found = Vec::new();
    for binding in objects().filter(|object| object.kind() == "ClusterRoleBinding" && binds(object)) {
        let role = objects().find(|role| role.kind() == "ClusterRole" && role.name() == binding.text("/roleRef/name"));
        let Some(role) = role else { continue };
        let version = observed.get(&role.key()).map_or("to be written", Object::resource_version);
        for rule in role.value()["rules"].as_array().into_iter().flatten() {
            let last = |field: &str| rule[field].as_array().and_then(|all| all.last()).and_then(Value::as_str);
            if let (Some(group), Some(resource), Some(verb)) = (last("apiGroups"), last("resources"), last("verbs")) {
                found.push(Access {
                    namespace: workload.namespace().to_owned(),
                    service_account: account.to_owned(),
                    verb: verb.to_owned(),
                    group: group.to_owned(),
                    resource: resource.to_owned(),
                    role: format!("{} {version}", role.key()),
                });
            }
        }
    }
    found
}

/// Deletes immutable ConfigMaps of earlier configurations, once the new one is proven and nothing refers to them: no
/// workload, and no ReplicaSet that a rollback would bring back.
fn unused_config_maps(addon: &str, desired: &Desired, observed: &Observed) -> Vec<Action> {
    let proven = desired.objects.iter().filter(|desired| schema::pod_spec_path(desired.object.kind()).is_some()).all(
        |desired| {
            !desired.deferred && observed.get(&desired.object.key()).is_some_and(|live| Health::of(live).is_done())
        },
    );
    if !proven {
        return Vec::new();
    }
    let wanted = desired.objects.iter().map(|desired| desired.object.name().to_owned());
    let used: BTreeSet<String> =
        observed.live.values().flat_map(|object| config_maps_of(object)).chain(wanted).collect();
    observed
        .live
        .values()
        .filter(|object| object.kind() == "ConfigMap" && object.value()["immutable"] == true)
        .filter(|object| object.label(ADDON_LABEL) == Some(addon) && !used.contains(object.name()))
        .filter(|object| object.text("/metadata/deletionTimestamp").is_empty())
        .map(|object| Action::Delete {
            target: object.key(),
            uid: object.uid().to_owned(),
            resource_version: object.resource_version().to_owned(),
        })
        .collect()
}
