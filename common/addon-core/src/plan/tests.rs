//! Plans of a small add-on: what is written, in which order, and what is left alone.

mod dns;

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};

use self::dns::*;
use super::*;
use crate::{addon::Failure, api::Conflicts};

#[test]
fn rights_are_bound_and_proven_before_workloads_start() {
    let mut addon = dns(&spec());
    addon.objects.extend([role(), binding()]);
    let plan = plan_of(&addon, &observed(Vec::new()));
    assert_eq!(
        names(&plan),
        [
            "configuration: ServiceAccount n/dns, ClusterRole dns",
            "bindings: ClusterRoleBinding dns",
            "access: ServiceAccount n/dns, ServiceAccount n/dns",
            "workloads: Deployment n/dns",
        ]
    );
    let Action::ConfirmAccess(access) = &plan.waves[2].actions[1] else { panic!("a proof") };
    assert_eq!(access.user(), "system:serviceaccount:n:dns");
    assert_eq!((access.verb.as_str(), access.resource.as_str()), ("watch", "endpointslices"), "one of each rule");

    let mut confirmed = observed(Vec::new());
    confirmed.confirmed = plan.waves[2]
        .actions
        .iter()
        .filter_map(|action| match action {
            Action::ConfirmAccess(access) => Some(access.id()),
            _ => None,
        })
        .collect();
    assert_eq!(plan_of(&addon, &confirmed).waves.len(), 3, "what was confirmed is not asked again");
}

#[test]
fn the_plan_after_an_apply_is_empty() {
    let addon = dns(&spec());
    let plan = plan_of(&addon, &observed(applied(&addon)));
    assert_eq!(names(&plan), [] as [&str; 0]);
}

#[test]
fn an_enforced_field_is_taken_back_under_the_resource_version_that_was_seen() {
    let addon = dns(&spec());
    let changed = json!({"spec": {"image": "evil"}});
    let mut theirs = deployment(&changed["spec"]);
    theirs["spec"]["image"] = json!("evil");
    let mut now = deployment(&spec());
    now["spec"]["image"] = json!("evil");
    let live = vec![
        live(service_account(), &[(MANAGER, service_account())]),
        live(now, &[(MANAGER, deployment(&json!({"replicas": 2, "other": 1}))), ("kubectl-edit", theirs)]),
    ];
    let plan = plan_of(&addon, &observed(live));
    let Action::Apply { force, body, changes, .. } = &plan.waves[0].actions[0] else { panic!("an apply") };
    assert!(*force);
    assert_eq!(body.resource_version(), "7");
    assert_eq!(changes[0].path.to_string(), ".spec.image");
    assert_eq!(changes[0].owner.as_deref(), Some("kubectl-edit"));
}

fn with_other_owner(field: &str, value: i64) -> Vec<Arc<Object>> {
    let mut now = spec();
    now[field] = json!(value);
    let mut ours = spec();
    ours.as_object_mut().unwrap().remove(field);
    vec![
        live(service_account(), &[(MANAGER, service_account())]),
        live(deployment(&now), &[(MANAGER, deployment(&ours)), ("someone", deployment(&json!({ field: value })))]),
    ]
}

#[test]
fn a_default_that_someone_changed_stays() {
    let plan = plan_of(&dns(&spec()), &observed(with_other_owner("replicas", 5)));
    assert_eq!((names(&plan), plan.findings), (vec![], vec![]));
}

#[test]
fn a_field_of_no_class_follows_the_conflict_policy() {
    let live = observed(with_other_owner("other", 9));
    let mut addon = dns(&spec());
    let plan = plan_of(&addon, &live);
    assert_eq!(names(&plan), [] as [&str; 0], "nothing at all is written");
    assert_eq!(plan.findings[0].code, "FieldConflict");
    assert!(plan.findings[0].to_string().contains(".spec.other: someone has set it to 9, and the add-on wants 1"));
    addon.conflicts = Conflicts::Preserve;
    assert_eq!(names(&plan_of(&addon, &live)), [] as [&str; 0]);
    addon.conflicts = Conflicts::Overwrite;
    assert_eq!(names(&plan_of(&addon, &live)), ["workloads: Deployment n/dns"]);
}

#[test]
fn an_item_of_others_in_an_exclusive_list_is_removed_by_a_tested_patch() {
    let addon = dns(&spec());
    let mut now = spec();
    now["template"]["spec"]["containers"] = json!([{"name": "spy"}, {"name": "dns"}]);
    let mut theirs = json!({"template": {"spec": {"containers": [{"name": "spy"}]}}});
    theirs = deployment(&theirs);
    let live = vec![
        live(service_account(), &[(MANAGER, service_account())]),
        live(deployment(&now), &[(MANAGER, deployment(&spec())), ("someone", theirs)]),
    ];
    let plan = plan_of(&addon, &observed(live));
    let Action::RemoveItems { patch, .. } = &plan.waves[0].actions[0] else { panic!("a removal: {plan:?}") };
    assert_eq!(
        *patch,
        json!([{"op": "test", "path": "/spec/template/spec/containers/0", "value": {"name": "spy"}},
            {"op": "remove", "path": "/spec/template/spec/containers/0"}])
    );
}

#[test]
fn items_of_no_owner_go_too_and_a_list_is_never_left_empty() {
    let addon = dns(&spec());
    let live_with = |containers: Value| {
        let mut now = spec();
        now["template"]["spec"]["containers"] = containers;
        observed(vec![live(service_account(), &[(MANAGER, service_account())]), live(deployment(&now), &[])])
    };
    let patch_of = |plan: &Plan| match &plan.waves[0].actions[0] {
        Action::RemoveItems { patch, .. } => patch.clone(),
        other => panic!("a removal: {other:?}"),
    };
    let beside = plan_of(&addon, &live_with(json!([{"name": "dns"}, {"name": "spy"}])));
    assert_eq!(patch_of(&beside)[1], json!({"op": "remove", "path": "/spec/template/spec/containers/1"}));
    let instead = plan_of(&addon, &live_with(json!([{"name": "spy"}])));
    assert_eq!(
        patch_of(&instead)[1],
        json!({"op": "replace", "path": "/spec/template/spec/containers", "value": [{"name": "dns"}]})
    );
}

#[test]
fn a_selector_that_cannot_be_changed_is_an_error() {
    let mut wanted = spec();
    wanted["selector"] = json!({"matchLabels": {"a": "b"}});
    let mut now = spec();
    now["selector"] = json!({"matchLabels": {"a": "c"}});
    let plan = plan_of(&dns(&wanted), &observed(vec![live(deployment(&now), &[])]));
    assert_eq!(plan.findings[0].code, "ImmutableField");
    assert!(plan.waves.is_empty(), "and nothing else is written");
}

#[test]
fn an_error_keeps_everything_from_being_written() {
    let mut addon = dns(&spec());
    addon.findings = vec![Finding::error("Bad", "it is bad").remedy("mend it")];
    let plan = plan_of(&addon, &observed(Vec::new()));
    assert!(plan.waves.is_empty());
    let status = plan.status.unwrap();
    assert_eq!((&status["phase"], &status["errors"]), (&json!("Failed"), &json!(["it is bad; mend it"])));
}

#[test]
fn of_one_age_the_lower_uid_wins_and_other_namespaces_do_not_count() {
    let mut observed = observed(Vec::new());
    observed.resources = vec![
        resource("elsewhere", "default", "2025-01-01T00:00:00Z", "0"),
        resource("second", "n", "2026-01-01T00:00:00Z", "b"),
        resource("first", "n", "2026-01-01T00:00:00Z", "a"),
        resource("younger", "n", "2026-01-02T00:00:00Z", "0"),
    ];
    let plans = plan_all(&dns(&spec()), &observed);
    let verdicts: Vec<_> = plans
        .iter()
        .map(|plan| (plan.subject.name.as_str(), plan.findings.first().map(|finding| finding.code.as_str())))
        .collect();
    assert_eq!(
        verdicts,
        [
            ("elsewhere", Some("WrongNamespace")),
            ("second", Some("Superseded")),
            ("first", None),
            ("younger", Some("Superseded")),
        ]
    );
}

#[test]
fn while_a_watch_fails_nothing_is_written_but_the_reason() {
    let mut observed = observed(Vec::new());
    let failure = Failure { reason: "Forbidden".into(), message: "may not watch".into(), is_error: true };
    observed.failures.insert(ObjectKey::new("apps", "Deployment", "n", ""), failure);
    let plans = hold_all(&observed);
    assert!(plans[0].waves.is_empty());
    assert_eq!(plans[0].status.as_ref().unwrap()["errors"], json!(["may not watch"]));
}

#[test]
fn the_status_keeps_its_times_and_is_written_only_where_it_differs() {
    let addon = dns(&spec());
    let mut observed = observed(applied(&addon));
    let first = plan_of(&addon, &observed).status.unwrap();
    let mut resource = (*observed.resources[0]).clone().value().clone();
    resource["status"] = first;
    observed.resources = vec![Arc::new(object(resource))];
    observed.now = "2026-01-01T00:20:00Z".parse().unwrap();
    assert_eq!(plan_of(&addon, &observed).status, None);
}

#[test]
fn a_plan_is_data_that_reads_back() {
    let mut addon = dns(&spec());
    addon.objects.extend([role(), binding()]);
    let plan = plan_of(&addon, &observed(Vec::new()));
    let text = serde_json::to_string(&plan).unwrap();
    assert_eq!(serde_json::from_str::<Plan>(&text).unwrap(), plan);
    assert_eq!(serde_json::to_string(&plan_of(&addon, &observed(Vec::new()))).unwrap(), text, "the same bytes again");
}

proptest! {
    /// Whatever someone else does to fields of any class: after one apply of the plan's body there is nothing to do.
    #[test]
    fn one_apply_settles_whatever_others_did(
        image in "[a-c]", replicas in 1..4i64, other in 1..4i64, policy in prop::sample::select(vec![
            Conflicts::Preserve, Conflicts::Overwrite]),
    ) {
        let mut addon = dns(&spec());
        addon.conflicts = policy;
        let theirs = json!({"image": image, "replicas": replicas, "other": other});
        let mut now = spec();
        for field in ["image", "replicas", "other"] {
            now[field] = theirs[field].clone();
        }
        let account = live(service_account(), &[(MANAGER, service_account())]);
        let before = live(deployment(&now), &[("someone", deployment(&theirs))]);
        let plan = plan_of(&addon, &observed(vec![account.clone(), before]));
        let Some(Action::Apply { body, .. }) = plan.waves.first().map(|wave| &wave.actions[0]) else {
            return Err(TestCaseError::fail("we hold nothing yet: there is something to apply"));
        };
        // What a server would make of it: our fields over theirs; what we take is no longer theirs.
        let mut after = now.clone();
        let mut left = theirs.clone();
        for (field, value) in body.value()["spec"].as_object().unwrap() {
            if after[field] != *value && left.get(field).is_some() {
                left.as_object_mut().unwrap().remove(field);
            }
            after[field] = value.clone();
        }
        let mut ours = body.value().clone();
        ours["metadata"] = json!({"name": "dns", "namespace": "n"});
        let stored = live(deployment(&after), &[(MANAGER, ours), ("someone", deployment(&left))]);
        let again = plan_of(&addon, &observed(vec![account, stored]));
        prop_assert!(names(&again).is_empty(), "{again:?}");
        prop_assert_eq!(&after["image"], "a", "enforced");
        prop_assert_eq!(&after["replicas"], &json!(replicas), "left");
    }
}
