//! Fresh installs, changes of the spec, and the quiet after.

use std::time::Duration;

use addon_testkit::audit::Request;
use anyhow::{Context as _, Result, ensure};
use kube::api::DeleteParams;
use serde_json::{Value, json};

use crate::bed::{Bed, OPERATOR, container, image, pods};

#[tokio::test]
async fn an_empty_spec_installs_what_the_catalogue_recommends() -> Result<()> {
    let bed = Bed::new().await?;
    let _operator = bed.operator().await?;
    bed.create(json!({})).await?;
    let status = bed.current().await?;
    let recommended = if bed.cluster.version().starts_with("1.34.") { "1.12.1" } else { "1.14.7" };
    assert_eq!(status["version"], json!({"desired": recommended, "current": recommended, "recommended": recommended}));
    assert_eq!(status["healthy"], true);
    let deployment = bed.deployment().await?;
    assert_eq!(image(&deployment), format!("registry.k8s.io/coredns/coredns:v{recommended}"));
    let service = json!(bed.services().get("kube-dns").await?);
    assert_eq!(service["spec"]["clusterIP"], "10.96.0.10", "the tenth address of the cluster's range");
    assert_eq!(container(&deployment)["env"][0]["value"], "cluster.local");
    let codes: Vec<_> = status["findings"].as_array().into_iter().flatten().map(|it| it["code"].clone()).collect();
    assert_eq!(codes, ["DomainAssumed"], "a domain that nothing tells is assumed, and said");
    let owned = json!(bed.deployments().get("coredns").await?.metadata.owner_references);
    assert_eq!(owned, Value::Null, "nothing refers to the resource: deleting it releases");
    Ok(())
}

#[tokio::test]
async fn with_nothing_to_do_nothing_is_written_for_60_seconds() -> Result<()> {
    let bed = Bed::new().await?;
    let _operator = bed.operator().await?;
    bed.create(json!({"dnsDomain": "cluster.local"})).await?;
    bed.current().await?;
    let recorder = bed.cluster.recorder();
    // The promise is about a span of time: this is no wait for something to happen.
    tokio::time::sleep(Duration::from_mins(1)).await;
    let requests = recorder.requests(OPERATOR).await?;
    let writes: Vec<_> = requests.iter().filter(|request| request.is_write()).map(Request::to_string).collect();
    assert_eq!(writes, [] as [String; 0]);
    assert!(requests.is_empty(), "watches stay open, and nothing else is asked: {requests:?}");
    Ok(())
}

#[tokio::test]
async fn a_restart_with_nothing_to_do_writes_nothing() -> Result<()> {
    let bed = Bed::new().await?;
    let operator = bed.operator().await?;
    bed.create(json!({"dnsDomain": "cluster.local", "resources": {"limits": {"memory": "0.5Gi", "cpu": 1}}})).await?;
    bed.current().await?;
    operator.terminate().await?;
    let recorder = bed.cluster.recorder();
    let _operator = bed.operator().await?;
    // What it does at all it does at once: after its last watch has begun, one change is answered by one write.
    bed.eventually()
        .until("the operator watches again", async || {
            let requests = recorder.requests(OPERATOR).await?;
            let watches = requests.iter().filter(|request| request.verb == "watch").count();
            ensure!(watches >= 8, "{watches} watches");
            anyhow::Ok(())
        })
        .await?;
    bed.change(json!({"replicas": 3})).await?;
    bed.current().await?;
    let writes = recorder.writes(OPERATOR).await?;
    let deployments = writes.iter().filter(|request| request.resource == "deployments").count();
    let others: Vec<_> = writes
        .iter()
        .filter(|request| !matches!(request.resource.as_str(), "deployments" | "coredns"))
        .map(Request::to_string)
        .collect();
    assert_eq!(others, [] as [String; 0]);
    // A quantity in another form than the API server's is sent once more after a restart, and then known.
    assert!(deployments <= 2, "{writes:?}");
    Ok(())
}

#[tokio::test]
async fn a_change_of_the_corefile_rolls_and_the_old_one_goes_once_nothing_refers_to_it() -> Result<()> {
    let bed = Bed::new().await?;
    let _operator = bed.operator().await?;
    bed.create(json!({"dnsDomain": "cluster.local"})).await?;
    bed.current().await?;
    let before = mounted(&bed).await?;
    let pods_before = pods(&bed).await?;
    let corefile = ".:53 {\n    errors\n    health {\n        lameduck 15s\n    }\n    ready\n    whoami\n}\n";
    for round in 0..5 {
        bed.change(json!({"corefile": format!("# {round}\n{corefile}")})).await?;
        bed.current().await?;
    }
    let after = mounted(&bed).await?;
    let config = bed.config_maps().get(&after).await?;
    assert_eq!(config.data.context("no data")?["Corefile"], format!("# 4\n{corefile}"), "verbatim");
    assert_eq!(config.immutable, Some(true));
    assert_ne!(before, after);
    assert!(pods(&bed).await?.iter().all(|pod| !pods_before.contains(pod)), "a new Corefile means new pods");
    // Three old ReplicaSets are kept for a rollback (revisionHistoryLimit), with what they mount.
    bed.eventually()
        .until("old ConfigMaps are gone", async || {
            let names = config_maps(&bed).await?;
            ensure!(names.len() == 4, "{names:?}");
            ensure!(names.contains(&after) && !names.contains(&before), "{names:?}");
            anyhow::Ok(())
        })
        .await?;
    Ok(())
}

#[tokio::test]
async fn settings_reach_the_objects() -> Result<()> {
    let bed = Bed::new().await?;
    let _operator = bed.operator().await?;
    bed.create(json!({
        "version": "1.12.1",
        "dnsDomain": "example.org",
        "dnsIP": "10.96.0.53",
        "replicas": 3,
        "images": {"registry": "mirror.example/k8s", "pullSecrets": ["mirror"], "pullPolicy": "Always"},
        "resources": {"limits": {"memory": "300Mi"}},
        "nodeSelector": {"zone": "a", "kubernetes.io/os": "windows"},
        "tolerations": [{"operator": "Exists"}],
        "labels": {"team": "dns"},
        "annotations": {"example.org/note": "kept"},
        "extraArgs": ["-quiet"],
        "patches": [{"target": {"kind": "Deployment"}, "patch": {"spec": {"template": {"spec": {"hostAliases": [{"ip": "192.0.2.1", "hostnames": ["a"]}]}}}}}],
    }))
    .await?;
    let deployment =
        bed.eventually().until("the Deployment is there", async || bed.deployment().await.map(Some)).await?;
    let pod = &deployment["spec"]["template"]["spec"];
    assert_eq!(image(&deployment), "mirror.example/k8s/coredns/coredns:v1.12.1");
    assert_eq!(deployment["spec"]["replicas"], 3);
    assert_eq!(pod["imagePullSecrets"], json!([{"name": "mirror"}]));
    assert_eq!(pod["nodeSelector"], json!({"zone": "a", "kubernetes.io/os": "linux"}), "never a Windows node");
    assert_eq!(pod["tolerations"], json!([{"operator": "Exists"}]));
    assert_eq!(pod["hostAliases"][0]["ip"], "192.0.2.1");
    assert_eq!(container(&deployment)["args"], json!(["-conf", "/etc/coredns/Corefile", "-quiet"]));
    assert_eq!(container(&deployment)["resources"]["limits"], json!({"memory": "300Mi"}));
    assert_eq!(container(&deployment)["imagePullPolicy"], "Always");
    assert_eq!(container(&deployment)["env"][0]["value"], "example.org");
    assert_eq!(deployment["spec"]["template"]["metadata"]["labels"]["team"], "dns");
    assert_eq!(deployment["spec"]["template"]["metadata"]["annotations"]["example.org/note"], "kept");
    let service = json!(bed.services().get("kube-dns").await?);
    assert_eq!(service["spec"]["clusterIP"], "10.96.0.53");
    Ok(())
}

#[tokio::test]
async fn deleting_the_resource_releases_and_leaves_everything_running() -> Result<()> {
    let bed = Bed::new().await?;
    let _operator = bed.operator().await?;
    bed.create(json!({})).await?;
    bed.current().await?;
    let (state, running) = (bed.state().await?, pods(&bed).await?);
    let recorder = bed.cluster.recorder();
    bed.resources().delete("coredns", &DeleteParams::default()).await?;
    bed.eventually()
        .until("the resource is gone", async || anyhow::Ok(bed.resources().get_opt("coredns").await?.is_none()))
        .await?;
    // Taken up again: proof that the operator has seen the deletion, without a wait for nothing.
    bed.create(json!({})).await?;
    bed.current().await?;
    let writes = recorder.writes(OPERATOR).await?;
    let writes: Vec<_> = writes.iter().filter(|write| write.subresource != "status").map(Request::to_string).collect();
    assert_eq!(writes, [] as [String; 0], "nothing was changed, nor had to be to take it up again");
    assert_eq!(bed.state().await?, state);
    assert_eq!(pods(&bed).await?, running);
    Ok(())
}

/// The ConfigMap that the Deployment's pods mount.
async fn mounted(bed: &Bed) -> Result<String> {
    let deployment = bed.deployment().await?;
    let name = deployment["spec"]["template"]["spec"]["volumes"][0]["configMap"]["name"].as_str();
    name.map(str::to_owned).context("no ConfigMap is mounted")
}

/// The names of the ConfigMaps of the add-on.
async fn config_maps(bed: &Bed) -> Result<Vec<String>> {
    let ours = kube::api::ListParams::default().labels("addons.x-k8s.io/addon=coredns");
    Ok(bed.config_maps().list(&ours).await?.items.into_iter().filter_map(|it| it.metadata.name).collect())
}
