//! The API server or the CRD is not there: one message, and no hands needed when it comes.

use anyhow::{Result, ensure};
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::bed::{Bed, file, image, pods};

#[tokio::test]
async fn started_without_an_api_server_it_says_so_and_waits() -> Result<()> {
    let bed = Bed::new().await?;
    bed.create(json!({})).await?;
    let kubeconfig = bed.kubeconfig().await?;
    bed.cluster.stop_apiserver().await?;
    let _operator = bed.operator_with(&kubeconfig, &[])?;
    bed.eventually()
        .until("the log says what is wrong", async || said(&bed, "the API server cannot be reached"))
        .await?;
    bed.cluster.start_apiserver().await?;
    bed.current().await?;
    let log = bed.cluster.log("coredns-operator")?;
    let told = log.lines().filter(|line| line.contains("cannot be reached")).count();
    assert!(told <= 2, "said once for each cause, not at every try:\n{log}");
    Ok(())
}

#[tokio::test]
async fn an_api_server_that_is_lost_and_comes_back_needs_no_hands() -> Result<()> {
    let bed = Bed::new().await?;
    let _operator = bed.operator().await?;
    bed.create(json!({})).await?;
    bed.current().await?;
    let (state, running) = (bed.state().await?, pods(&bed).await?);
    bed.cluster.stop_apiserver().await?;
    bed.eventually().until("the operator notices", async || said(&bed, "cannot list and watch")).await?;
    bed.cluster.start_apiserver().await?;
    let hostile =
        json!({"spec": {"template": {"spec": {"containers": [{"name": "coredns", "image": "evil.example/x:1"}]}}}});
    bed.deployments().patch("coredns", &PatchParams::default(), &Patch::Strategic(hostile)).await?;
    bed.eventually()
        .until("it watches and repairs again", async || {
            let deployment = bed.deployment().await?;
            ensure!(!image(&deployment).starts_with("evil"), "{}", image(&deployment));
            anyhow::Ok(())
        })
        .await?;
    bed.current().await?;
    assert_eq!(bed.state().await?, state);
    assert_eq!(pods(&bed).await?.len(), running.len());
    Ok(())
}

#[tokio::test]
async fn started_before_its_crd_it_says_so_and_waits() -> Result<()> {
    let bed = Bed::without_crd().await?;
    let _operator = bed.operator().await?;
    let message = "the API server does not serve coredns.addons.x-k8s.io; apply the CustomResourceDefinition";
    bed.eventually().until("the log says what is missing", async || said(&bed, message)).await?;
    bed.apply(&file("../../crds/coredns.addons.x-k8s.io.yaml")?).await?;
    bed.create(json!({})).await?;
    bed.current().await?;
    Ok(())
}

#[tokio::test]
async fn a_watch_that_is_refused_later_and_allowed_again_needs_no_restart() -> Result<()> {
    let bed = Bed::new().await?;
    let _operator = bed.operator().await?;
    bed.create(json!({})).await?;
    bed.current().await?;
    let shipped = crate::rights::without(&bed, "Role", "replicasets", "watch").await?;
    // Watches that go on after their connection ended are authorised anew.
    bed.cluster.stop_apiserver().await?;
    bed.cluster.start_apiserver().await?;
    bed.condition("Degraded", "Forbidden").await?;
    crate::rights::restore(&bed, "Role", shipped).await?;
    bed.current().await?;
    bed.change(json!({"replicas": 3})).await?;
    bed.current().await?;
    assert_eq!(bed.deployment().await?["spec"]["replicas"], 3);
    Ok(())
}

fn said(bed: &Bed, text: &str) -> Result<()> {
    let log = bed.cluster.log("coredns-operator")?;
    ensure!(log.contains(text), "{log}");
    Ok(())
}
