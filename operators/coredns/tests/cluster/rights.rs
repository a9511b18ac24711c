//! The operator runs with exactly the rights that it ships with, and a right that is missing is named.

use anyhow::Result;
use k8s_openapi::api::rbac::v1::{ClusterRole, Role};
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};

use crate::bed::{Bed, NAMESPACE, OPERATOR};

#[tokio::test]
async fn an_install_needs_no_right_but_the_shipped_ones() -> Result<()> {
    let bed = Bed::new().await?;
    let recorder = bed.cluster.recorder();
    let _operator = bed.operator().await?;
    bed.create(json!({})).await?;
    bed.current().await?;
    bed.change(json!({"corefile": ".:53 {\n    ready\n    health\n    whoami\n}\n"})).await?;
    bed.current().await?;
    let refused: Vec<_> =
        recorder.requests(OPERATOR).await?.into_iter().filter(|request| request.code == 403).collect();
    assert!(refused.is_empty(), "{refused:?}");
    Ok(())
}

/// Takes a rule from a role of the operator, sees the condition that names it, gives it back, sees it well.
async fn named(kind: &str, resource: &str, verb: &str, rule: &str) -> Result<()> {
    let bed = Bed::new().await?;
    let shipped = without(&bed, kind, resource, verb).await?;
    let _operator = bed.operator().await?;
    bed.create(json!({})).await?;
    let condition = bed.condition("Degraded", "Forbidden").await?;
    let message = condition["message"].as_str().unwrap_or_default();
    assert!(message.contains(rule), "`{rule}` is not in: {message}");
    restore(&bed, kind, shipped).await?;
    bed.current().await?;
    Ok(())
}

/// Takes a verb on a resource from the operator's role of a kind; returns the rules as they were.
pub(crate) async fn without(bed: &Bed, kind: &str, resource: &str, verb: &str) -> Result<Value> {
    let shipped = match kind {
        "Role" => json!(Api::<Role>::namespaced(bed.client.clone(), NAMESPACE).get("coredns-operator").await?.rules),
        _ => json!(Api::<ClusterRole>::all(bed.client.clone()).get("coredns-operator").await?.rules),
    };
    let mut rules = shipped.clone();
    for rule in rules.as_array_mut().into_iter().flatten() {
        let is_about_it = rule["resources"].as_array().is_some_and(|resources| resources.contains(&json!(resource)));
        if let Some(verbs) = rule["verbs"].as_array_mut().filter(|_| is_about_it) {
            verbs.retain(|it| it != verb);
        }
    }
    if let Some(rules) = rules.as_array_mut() {
        rules.retain(|rule| rule["verbs"].as_array().is_some_and(|verbs| !verbs.is_empty()));
    }
    restore(bed, kind, rules).await?;
    Ok(shipped)
}

pub(crate) async fn restore(bed: &Bed, kind: &str, rules: Value) -> Result<()> {
    let patch = Patch::Merge(json!({ "rules": rules }));
    let params = PatchParams::default();
    match kind {
        "Role" => {
            Api::<Role>::namespaced(bed.client.clone(), NAMESPACE).patch("coredns-operator", &params, &patch).await?;
        }
        _ => {
            Api::<ClusterRole>::all(bed.client.clone()).patch("coredns-operator", &params, &patch).await?;
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_missing_watch_is_named() -> Result<()> {
    named("Role", "deployments", "watch", "{apiGroups: [\"apps\"], resources: [deployments], verbs: [list, watch]}")
        .await
}

#[tokio::test]
async fn a_missing_write_is_named() -> Result<()> {
    named("Role", "configmaps", "patch", "{apiGroups: [\"\"], resources: [configmaps], verbs: [patch, create]}").await
}

#[tokio::test]
async fn a_missing_look_up_is_named() -> Result<()> {
    let rule = "{apiGroups: [\"networking.k8s.io\"], resources: [ipaddresses], verbs: [get]}";
    named("ClusterRole", "ipaddresses", "get", rule).await
}

#[tokio::test]
async fn a_right_that_the_operator_grants_and_does_not_hold_is_named() -> Result<()> {
    // The predecessor's role could not be installed by its operator: it lacked what it granted.
    named("ClusterRole", "endpointslices", "watch", "grants rights that the operator does not hold").await
}

#[tokio::test]
async fn the_missing_review_of_rights_is_named() -> Result<()> {
    let rule = "{apiGroups: [\"authorization.k8s.io\"], resources: [subjectaccessreviews], verbs: [create]}";
    named("ClusterRole", "subjectaccessreviews", "create", rule).await
}
