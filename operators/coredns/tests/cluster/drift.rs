//! What others change is repaired at once where it matters, and left where it does not.

use anyhow::{Result, ensure};
use k8s_openapi::api::{core::v1::ServiceAccount, rbac::v1::ClusterRole};
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams},
};
use serde_json::json;

use crate::bed::{Bed, NAMESPACE, container, image};

fn by_hand() -> PatchParams {
    PatchParams { field_manager: Some("kubectl-edit".into()), ..PatchParams::default() }
}

#[tokio::test]
async fn a_changed_image_is_taken_back_and_the_log_names_who_changed_it() -> Result<()> {
    let bed = Bed::new().await?;
    let _operator = bed.operator().await?;
    bed.create(json!({})).await?;
    bed.current().await?;
    let before = image(&bed.deployment().await?).to_owned();
    let hostile =
        json!({"spec": {"template": {"spec": {"containers": [{"name": "coredns", "image": "evil.example/x:1"}]}}}});
    bed.deployments().patch("coredns", &by_hand(), &Patch::Strategic(hostile)).await?;
    bed.eventually()
        .until("the image is taken back", async || {
            let deployment = bed.deployment().await?;
            ensure!(image(&deployment) == before, "{}", image(&deployment));
            anyhow::Ok(())
        })
        .await?;
    bed.current().await?;
    let log = bed.cluster.log("coredns-operator")?;
    assert!(
        log.contains("kubectl-edit") && log.contains("containers[name=\\\"coredns\\\"].image")
            || log.contains(".image"),
        "{log}"
    );
    Ok(())
}

#[tokio::test]
async fn a_container_put_in_beside_is_removed() -> Result<()> {
    let bed = Bed::new().await?;
    let _operator = bed.operator().await?;
    bed.create(json!({})).await?;
    bed.current().await?;
    let containers = json!({"spec": {"template": {"spec": {
        "containers": [{"name": "spy", "image": "evil.example/x:1"}],
        "initContainers": [{"name": "spy-first", "image": "evil.example/x:1"}]}}}});
    bed.deployments().patch("coredns", &by_hand(), &Patch::Strategic(containers)).await?;
    bed.eventually()
        .until("only CoreDNS is left", async || {
            let pod = bed.deployment().await?["spec"]["template"]["spec"].clone();
            let names: Vec<_> = ["containers", "initContainers"]
                .iter()
                .flat_map(|list| pod[*list].as_array().cloned().unwrap_or_default())
                .map(|it| it["name"].clone())
                .collect();
            ensure!(names == ["coredns"], "{names:?}");
            anyhow::Ok(())
        })
        .await?;
    bed.current().await?;
    Ok(())
}

#[tokio::test]
async fn a_deleted_object_is_made_again() -> Result<()> {
    let bed = Bed::new().await?;
    let _operator = bed.operator().await?;
    bed.create(json!({})).await?;
    bed.current().await?;
    let state = bed.state().await?;
    let delete = DeleteParams::default();
    bed.services().delete("kube-dns", &delete).await?;
    Api::<ServiceAccount>::namespaced(bed.client.clone(), NAMESPACE).delete("coredns", &delete).await?;
    Api::<ClusterRole>::all(bed.client.clone()).delete("system:coredns", &delete).await?;
    bed.deployments().delete("coredns", &delete).await?;
    bed.eventually()
        .until("everything is as before", async || {
            let now = bed.state().await?;
            ensure!(now == state, "now: {now:#}");
            anyhow::Ok(())
        })
        .await?;
    bed.current().await?;
    Ok(())
}

#[tokio::test]
async fn limits_replicas_and_tolerations_that_someone_sets_stay() -> Result<()> {
    let bed = Bed::new().await?;
    let _operator = bed.operator().await?;
    bed.create(json!({})).await?;
    bed.current().await?;
    let change = json!({"spec": {"replicas": 3, "template": {"spec": {
        "tolerations": [{"operator": "Exists"}],
        "containers": [{"name": "coredns", "resources": {"limits": {"memory": "400Mi"}}}]}}}});
    bed.deployments().patch("coredns", &by_hand(), &Patch::Strategic(change)).await?;
    bed.current().await?;
    // A change of ours that rolls the pods leaves them, too.
    bed.change(json!({"extraArgs": ["-quiet"]})).await?;
    bed.current().await?;
    let deployment = bed.deployment().await?;
    assert_eq!(container(&deployment)["args"], json!(["-conf", "/etc/coredns/Corefile", "-quiet"]));
    assert_eq!(deployment["spec"]["replicas"], 3);
    assert_eq!(deployment["spec"]["template"]["spec"]["tolerations"], json!([{"operator": "Exists"}]));
    assert_eq!(container(&deployment)["resources"]["limits"]["memory"], "400Mi");
    Ok(())
}

#[tokio::test]
async fn replicas_set_through_the_scale_subresource_stay_and_block_nothing() -> Result<()> {
    // `kubectl scale` and every autoscaler write there, and hold `spec.replicas` of the Deployment itself.
    let bed = Bed::new().await?;
    let _operator = bed.operator().await?;
    bed.create(json!({})).await?;
    bed.current().await?;
    let scale = Patch::Merge(json!({"spec": {"replicas": 4}}));
    bed.deployments().patch_scale("coredns", &PatchParams::default(), &scale).await?;
    bed.current().await?;
    let hostile =
        json!({"spec": {"template": {"spec": {"containers": [{"name": "coredns", "image": "evil.example/x:1"}]}}}});
    bed.deployments().patch("coredns", &by_hand(), &Patch::Strategic(hostile)).await?;
    bed.change(json!({"extraArgs": ["-quiet"]})).await?;
    bed.current().await?;
    let deployment = bed.deployment().await?;
    assert_eq!(deployment["spec"]["replicas"], 4);
    assert_eq!(container(&deployment)["args"], json!(["-conf", "/etc/coredns/Corefile", "-quiet"]));
    assert!(image(&deployment).starts_with("registry.k8s.io/"));
    bed.change(json!({"replicas": 2})).await?;
    bed.current().await?;
    assert_eq!(bed.deployment().await?["spec"]["replicas"], 2, "what the spec says wins");
    Ok(())
}

#[tokio::test]
async fn stripping_managed_fields_does_not_make_it_foreign() -> Result<()> {
    let bed = Bed::new().await?;
    let _operator = bed.operator().await?;
    bed.create(json!({})).await?;
    bed.current().await?;
    let before = image(&bed.deployment().await?).to_owned();
    let strip = json!({"metadata": {"managedFields": [{}]}, "spec": {"template": {"spec": {"containers": [
        {"name": "coredns", "image": "evil.example/coredns:v1.12.1"}, {"name": "spy", "image": "evil.example/x:1"}]}}}});
    bed.deployments().patch("coredns", &by_hand(), &Patch::Strategic(strip)).await?;
    bed.eventually()
        .until("it is as before", async || {
            let deployment = bed.deployment().await?;
            let containers = deployment["spec"]["template"]["spec"]["containers"].as_array().map(Vec::len);
            ensure!(
                image(&deployment) == before && containers == Some(1),
                "{}",
                deployment["spec"]["template"]["spec"]
            );
            anyhow::Ok(())
        })
        .await?;
    bed.current().await?;
    Ok(())
}

#[tokio::test]
async fn two_who_undo_each_other_slow_down_and_say_so() -> Result<()> {
    let bed = Bed::new().await?;
    let _operator = bed.operator().await?;
    bed.create(json!({})).await?;
    bed.current().await?;
    let deployments = bed.deployments();
    let opponent = tokio::spawn(async move {
        let spy =
            json!({"spec": {"template": {"spec": {"containers": [{"name": "spy", "image": "evil.example/x:1"}]}}}});
        loop {
            // Refused now and then, since the other one writes at the same time.
            let _ = deployments.patch("coredns", &by_hand(), &Patch::Strategic(spy.clone())).await;
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    });
    let condition = bed.condition("Degraded", "Contended").await?;
    let message = condition["message"].as_str().unwrap_or_default();
    assert!(message.contains("kubectl-edit keeps changing") && message.contains("spy"), "{message}");
    opponent.abort();
    bed.current().await?;
    Ok(())
}
