//! A shared cluster is as if just started for every test, whatever the test before it made.

use std::collections::BTreeSet;

use addon_testkit::TestCluster;
use anyhow::Result;
use futures::{StreamExt as _, TryStreamExt as _};
use kube::{
    Api, Client, Discovery, ResourceExt as _,
    api::{DynamicObject, ListParams, PostParams},
    core::discovery::{ApiResource, verbs},
};
use serde_json::{Value, json};

/// Every object of the cluster, but for those that come and go by themselves.
async fn everything(client: &Client) -> Result<BTreeSet<String>> {
    let discovery = Discovery::new(client.clone()).run_aggregated().await?;
    let resources = discovery.groups().flat_map(kube::discovery::ApiGroup::recommended_resources);
    let listable = resources.filter(|(resource, capabilities)| {
        capabilities.supports_operation(verbs::LIST) && !["events", "componentstatuses"].contains(&&*resource.plural)
    });
    let lists = listable.map(|(resource, _)| async move {
        let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
        let names = api.list_metadata(&ListParams::default()).await?.items.into_iter().map(move |object| {
            format!("{} {}/{}", resource.plural, object.namespace().unwrap_or_default(), object.name_any())
        });
        anyhow::Ok(names.collect::<Vec<_>>())
    });
    let lists: Vec<_> = futures::stream::iter(lists).buffer_unordered(8).try_collect().await?;
    Ok(lists.into_iter().flatten().collect())
}

async fn create(client: &Client, object: Value) -> Result<()> {
    let object: DynamicObject = serde_json::from_value(object)?;
    let types = object.types.clone().unwrap_or_default();
    let (group, version) = types.api_version.rsplit_once('/').unwrap_or(("", &types.api_version));
    let resource = ApiResource::from_gvk(&kube::core::GroupVersionKind::gvk(group, version, &types.kind));
    let api: Api<DynamicObject> = match object.namespace() {
        Some(namespace) => Api::namespaced_with(client.clone(), &namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    let mut attempts = 0;
    loop {
        match api.create(&PostParams::default(), &object).await {
            // A new kind is served a moment after its definition is stored.
            Err(kube::Error::Api(status)) if status.code == 404 && attempts < 500 => {
                attempts += 1;
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
            other => return Ok(other.map(drop)?),
        }
    }
}

fn metadata(namespace: &str, name: &str) -> Value {
    json!({ "namespace": namespace, "name": name, "finalizers": ["example.com/nobody-handles-this"] })
}

/// What tests of operators leave behind, with finalizers that nobody handles.
fn left_by_a_test(namespace: &str) -> Vec<Value> {
    let labels = json!({ "app": "left" });
    let pod = json!({ "metadata": { "labels": labels }, "spec": { "containers": [{ "name": "c", "image": "i" }] } });
    let schema = json!({ "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } });
    let mut objects = vec![
        json!({ "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": { "name": "widgets.example.com" },
            "spec": { "group": "example.com", "scope": "Namespaced", "names": { "kind": "Widget", "plural": "widgets" },
                "versions": [{ "name": "v1", "served": true, "storage": true, "schema": schema }] } }),
        json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": { "name": "left" } }),
        json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": { "name": "left" },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "left" } }),
        json!({ "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
            "metadata": { "name": "left" },
            "spec": { "validations": [{ "expression": "false" }], "matchConstraints": { "resourceRules": [
                { "apiGroups": [""], "apiVersions": ["v1"], "operations": ["DELETE"], "resources": ["configmaps"] }] } } }),
        json!({ "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": { "name": "left" }, "spec": { "policyName": "left", "validationActions": ["Deny"] } }),
    ];
    for namespace in ["kube-system", "default", namespace] {
        let metadata = |name| metadata(namespace, name);
        let workload = json!({ "selector": { "matchLabels": labels }, "template": pod });
        objects.extend([
            json!({ "apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata("left"), "spec": workload }),
            json!({ "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": metadata("left"), "spec": workload }),
            json!({ "apiVersion": "v1", "kind": "Pod", "metadata": metadata("left"), "spec": pod["spec"] }),
            json!({ "apiVersion": "v1", "kind": "Service", "metadata": metadata("left"),
                "spec": { "selector": labels, "ports": [{ "port": 53 }] } }),
            json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata("left") }),
            json!({ "apiVersion": "v1", "kind": "Secret", "metadata": metadata("left") }),
            json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata("left") }),
            json!({ "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata("left") }),
            json!({ "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata("left"),
                "spec": { "minAvailable": 1, "selector": { "matchLabels": labels } } }),
            json!({ "apiVersion": "example.com/v1", "kind": "Widget", "metadata": metadata("left") }),
        ]);
    }
    objects
}

#[tokio::test]
async fn a_reset_removes_whatever_a_test_left_and_nothing_else_and_what_it_keeps_still_works() -> Result<()> {
    let cluster = TestCluster::shared().await?;
    let client = cluster.client();
    let before = everything(&client).await?;
    for round in 0..2 {
        let namespace = cluster.temp_namespace().await?;
        for object in left_by_a_test(&namespace) {
            create(&client, object).await?;
        }
        let start = std::time::Instant::now();
        cluster.reset().await?;
        println!("round {round}: reset in {:.2} s", start.elapsed().as_secs_f32());
        let after = everything(&client).await?;
        let left: Vec<_> = after.difference(&before).collect();
        // The control plane may add accounts of its own controllers late; a test's objects are all called so.
        let of_tests =
            left.iter().filter(|name| name.ends_with("/left") || name.contains(&namespace) || name.contains("widget"));
        assert_eq!(of_tests.count(), 0, "{left:?}");
        let missing: Vec<_> = before.difference(&after).collect();
        assert!(missing.is_empty(), "the reset removed what was there before: {missing:?}");
    }
    Ok(())
}

#[tokio::test]
async fn a_reset_of_a_pristine_cluster_writes_nothing() -> Result<()> {
    let cluster = TestCluster::shared().await?;
    let recorder = cluster.recorder();
    cluster.reset().await?;
    let writes = recorder.writes(addon_testkit::audit::By::User("kubernetes-admin")).await?;
    assert!(writes.is_empty(), "{writes:?}");
    Ok(())
}

#[tokio::test]
async fn the_next_test_gets_a_working_cluster_after_one_that_stopped_the_api_server() -> Result<()> {
    let cluster = TestCluster::shared().await?;
    cluster.stop_apiserver().await?;
    drop(cluster);
    let cluster = TestCluster::shared().await?;
    cluster.client().apiserver_version().await?;
    Ok(())
}
