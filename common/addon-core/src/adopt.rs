//! Taking over what someone else installed, without changing it.
//!
//! A workload whose pods another installer made is left as it is until the user's resource asks for something that is
//! not so. What the resource asks for is the difference between its rendering and that of an empty spec.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    addon::{DesiredObject, Observed},
    fields::{Owners, leaves},
    finding::Finding,
    object::Object,
    package::FieldRef,
    path::FieldPath,
    render::{ADDON_LABEL, Rendered},
    schema,
};

/// Brings what was rendered from the user's spec (`rendered`) and from an empty spec (`plain`) together: which fields
/// the user asks for, and which workloads are left to whoever made them. `set` are fields that the spec sets, be it to the
/// same as an empty spec would.
pub fn desired(
    rendered: Vec<Rendered>,
    plain: &[Rendered],
    set: &[FieldRef],
    observed: &Observed,
    manager: &str,
) -> (Vec<DesiredObject>, Vec<Finding>) {
    let plain: BTreeMap<_, _> = plain.iter().map(|plain| (plain.source.as_str(), &plain.object)).collect();
    let mut objects: Vec<DesiredObject> = rendered
        .into_iter()
        .map(|Rendered { source, object }| {
            let mut asked = asked(&object, plain.get(source.as_str()).copied());
            let is_set = |path: &FieldPath| set.iter().any(|set| set.covers(&source, path));
            asked.extend(leaves(&object).into_keys().filter(is_set));
            DesiredObject { source, object, asked, deferred: false }
        })
        .collect();
    let mut findings = Vec::new();
    // Asked of any object, e.g. the configuration, a change concerns the workload that uses it.
    let asks = objects.iter().any(|desired| asks_for_change(desired, observed));
    for desired in objects.iter_mut().filter(|desired| is_foreign_workload(&desired.object, observed, manager)) {
        let Some(live) = observed.get(&desired.object.key()) else { continue };
        if !asks {
            desired.deferred = true;
            findings.push(deferral(&desired.object, live));
        }
    }
    if findings.is_empty() {
        return (objects, findings);
    }
    // Nor is anything else of that installation changed: the running pods may depend on it.
    for desired in &mut objects {
        let live = observed.get(&desired.object.key());
        desired.deferred |= live.is_some_and(|live| Owners::of(live).held_by(manager).is_empty());
    }
    if let Some(deferred) = objects.iter().find(|desired| schema::pod_spec_path(desired.object.kind()).is_some()) {
        // Immutable configuration that nothing would mount yet.
        let mounted = crate::render::config_maps_of(&deferred.object);
        objects.retain(|desired| {
            desired.object.kind() != "ConfigMap" || !mounted.contains(&desired.object.name().to_owned())
        });
    }
    (objects, findings)
}

/// The fields that the spec makes differ from an empty spec.
fn asked(object: &Object, plain: Option<&Object>) -> BTreeSet<FieldPath> {
    let plain = plain.map(leaves).unwrap_or_default();
    leaves(object).into_iter().filter(|(path, value)| plain.get(path) != Some(value)).map(|(path, _)| path).collect()
}

/// Whether the user asks for a field of a workload, or of what it mounts, that is not so in the cluster.
fn asks_for_change(desired: &DesiredObject, observed: &Observed) -> bool {
    let live = observed.get(&desired.object.key());
    let hashed = desired.object.value().get("immutable").is_some();
    match live {
        Some(live) => desired.asked.iter().any(|path| path.get(live.value()) != path.get(desired.object.value())),
        None => hashed && !desired.asked.is_empty(),
    }
}

/// Whether a live workload's pods were made by someone else: it does not carry our label, which is written with the
/// first change of ours, and we hold no field of its pod template. Ownership alone would not do: anyone may empty it.
pub fn is_foreign_workload(object: &Object, observed: &Observed, manager: &str) -> bool {
    schema::pod_spec_path(object.kind()).is_some()
        && observed.get(&object.key()).is_some_and(|live| {
            if live.label(ADDON_LABEL).is_some() {
                return false;
            }
            let template = FieldPath::default().field("spec").field("template");
            !Owners::of(live).held_by(manager).iter().any(|held| template.covers(held))
        })
}

/// The finding that lists what is left for later.
fn deferral(object: &Object, live: &Object) -> Finding {
    const SHOWN: usize = 8;
    let differing: Vec<String> = leaves(object)
        .into_iter()
        .filter(|(path, value)| path.get(live.value()) != Some(*value))
        .map(|(path, _)| path.to_string())
        .collect();
    let more = differing.len().saturating_sub(SHOWN);
    let mut list = differing[..differing.len() - more].join(", ");
    if more > 0 {
        list += &format!(" and {more} more");
    }
    Finding::note("AdoptionDeferred", format!("adopted without a change; these fields differ from the package: {list}"))
        .object(object.key())
        .remedy("they are set with the first change that the spec asks for, e.g. a version")
}
