//! A measurement at many nodes; run it with `cargo test -p addon-testkit --test nodes -- --ignored --nocapture`.

use std::time::Duration;

use addon_testkit::TestCluster;
use anyhow::Result;
use k8s_openapi::api::apps::v1::DaemonSet;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::scene::Scene;

/// Prints how long a DaemonSet takes, first to cover many nodes, then to be rolled over. `ADDON_TEST_NODES` says how many.
#[tokio::test]
#[ignore = "a measurement, not a proof"]
async fn measure_a_daemonset_on_many_nodes() -> Result<()> {
    let count: usize = std::env::var("ADDON_TEST_NODES").ok().and_then(|count| count.parse().ok()).unwrap_or(500);
    let all = i32::try_from(count)?;
    let start = std::time::Instant::now();
    // With it each node is created with a taint that the controller-manager must remove again.
    let argument = "--disable-admission-plugins=TaintNodesByCondition";
    let cluster = TestCluster::builder().apiserver_argument(argument).start().await?;
    eprintln!("control plane: {:.1?}", start.elapsed());

    let start = std::time::Instant::now();
    let scene = Scene::on(&cluster, count, |spec| spec).await?;
    eprintln!("{count} nodes created: {:.1?}", start.elapsed());

    let start = std::time::Instant::now();
    scene.daemonset("proxy", "kube-proxy:1").await?;
    let wait = scene.wait.clone().within(Duration::from_mins(10));
    wait.wait_for(&scene.namespace, "proxy", "ready everywhere", |set: &DaemonSet| {
        set.status.as_ref().is_some_and(|status| status.number_ready == all)
    })
    .await?;
    eprintln!("DaemonSet ready on all: {:.1?}", start.elapsed());

    let start = std::time::Instant::now();
    let patch = json!({ "spec": {
        "updateStrategy": { "rollingUpdate": { "maxUnavailable": "10%" } },
        "template": { "spec": { "containers": [{ "name": "dns", "image": "kube-proxy:2" }] } },
    } });
    scene.api::<DaemonSet>().patch("proxy", &PatchParams::default(), &Patch::Strategic(patch)).await?;
    wait.wait_for(&scene.namespace, "proxy", "rolled over", |set: &DaemonSet| {
        let status = set.status.clone().unwrap_or_default();
        status.observed_generation == set.metadata.generation
            && status.updated_number_scheduled == Some(all)
            && status.number_ready == all
    })
    .await?;
    eprintln!("rolled over, 10% at a time: {:.1?}", start.elapsed());
    if let Ok(own) = std::fs::read_to_string("/proc/self/status") {
        eprintln!("{}", own.lines().find(|line| line.starts_with("VmHWM")).unwrap_or_default());
    }
    Ok(())
}
