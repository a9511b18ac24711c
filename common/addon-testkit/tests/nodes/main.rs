//! Simulated nodes under a real control plane: what its controllers make of the agent's reports.

mod scale;
mod scene;

use std::time::Duration;

use addon_testkit::TestCluster;
use addon_testkit::eventually::{Eventually, never, wait_until_gone};
use addon_testkit::nodes::{NodeSpec, Rule, SimulatedNodes};
use anyhow::{Result, ensure};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use serde_json::json;

use scene::{Scene, is_available, is_ready, waiting};

#[tokio::test]
async fn a_deployment_becomes_available_on_nodes_with_mixed_kubelets() -> Result<()> {
    let scene = Scene::start(5).await?;
    scene.deployment("dns", "coredns:1", 2).await?;
    scene.available("dns").await?;

    let nodes: Api<Node> = Api::all(scene.client.clone());
    let mine = nodes.list(&ListParams::default().labels(&format!("test={}", scene.namespace))).await?;
    let mut versions: Vec<_> = mine
        .iter()
        .filter_map(|node| Some(node.status.as_ref()?.node_info.as_ref()?.kubelet_version.clone()))
        .collect();
    versions.sort();
    assert_eq!(versions, ["v1.34.4", "v1.34.4", "v1.34.4", "v1.37.2", "v1.37.2"]);

    let mut addresses = std::collections::BTreeSet::new();
    for pod in scene.pods().await? {
        let status = pod.status.unwrap_or_default();
        addresses.insert(status.pod_ip.unwrap_or_default());
        let mut types: Vec<_> =
            status.conditions.iter().flatten().map(|c| format!("{}={}", c.type_, c.status)).collect();
        types.sort();
        // The scheduler's PodScheduled is kept by the agent's patches.
        assert_eq!(
            types,
            [
                "ContainersReady=True",
                "Initialized=True",
                "PodReadyToStartContainers=True",
                "PodScheduled=True",
                "Ready=True"
            ]
        );
    }
    assert_eq!(addresses.len(), 2, "each pod has an address of its own");
    Ok(())
}

#[tokio::test]
async fn a_daemonset_lands_on_each_node_also_on_one_that_joins_later_and_leaves_one_that_goes() -> Result<()> {
    let scene = Scene::start(3).await?;
    scene.daemonset("proxy", "kube-proxy:1").await?;
    scene.daemons_ready("proxy", 3).await?;

    scene.nodes.add_nodes(NodeSpec::named([scene.node(4)]).label("test", &scene.namespace)).await?;
    scene.daemons_ready("proxy", 4).await?;

    scene.nodes.remove_node(&scene.node(1)).await?;
    scene.daemons_ready("proxy", 3).await?;
    scene
        .wait
        .until("the pod of the removed node is gone", async || anyhow::Ok(scene.pod_on(1).await?.is_none()))
        .await?;
    assert_eq!(scene.nodes.names(), [scene.node(2), scene.node(3), scene.node(4)]);
    Ok(())
}

#[tokio::test]
async fn an_image_that_fails_to_start_crash_loops_and_recovers_when_the_script_changes() -> Result<()> {
    let scene = Scene::start(1).await?;
    let broken = scene.nodes.script().add(Rule::image("coredns:broken").fails_to_start("plugin/loop: detected", 3));
    scene.deployment("dns", "coredns:broken", 1).await?;

    let crashing = scene
        .container("CrashLoopBackOff after at least one restart", |c| {
            waiting(c) == Some("CrashLoopBackOff") && c.restart_count >= 1
        })
        .await?;
    let last = crashing.last_state.and_then(|state| state.terminated).unwrap_or_default();
    assert_eq!((last.exit_code, last.message.as_deref()), (3, Some("plugin/loop: detected")));
    never("the Deployment is Available", Duration::from_secs(1), async || {
        anyhow::Ok(is_available(&scene.api::<Deployment>().get("dns").await?))
    })
    .await?;

    scene.nodes.script().remove(broken);
    scene.available("dns").await?;
    Ok(())
}

#[tokio::test]
async fn an_image_that_cannot_be_pulled_backs_off_with_its_message_and_recovers() -> Result<()> {
    let scene = Scene::start(1).await?;
    let missing = scene.nodes.script().add(Rule::image("coredns").image_pull_fails("coredns:1: not found"));
    scene.deployment("dns", "coredns:1", 1).await?;

    let failing = scene.container("ImagePullBackOff", |c| waiting(c) == Some("ImagePullBackOff")).await?;
    let message = failing.state.and_then(|state| state.waiting?.message).unwrap_or_default();
    assert!(message.ends_with("coredns:1: not found"), "{message}");

    scene.nodes.script().remove(missing);
    scene.available("dns").await?;
    Ok(())
}

#[tokio::test]
async fn a_slow_pull_keeps_the_pod_creating_until_the_script_lets_it_go() -> Result<()> {
    let scene = Scene::start(1).await?;
    let rule = Rule::image("coredns").label("app", "dns").namespace(&scene.namespace);
    let slow = scene.nodes.script().add(rule.clone().slow_pull(Duration::from_hours(1)));
    scene.deployment("dns", "coredns:1", 1).await?;
    scene.container("ContainerCreating", |c| waiting(c) == Some("ContainerCreating")).await?;
    assert_eq!(scene.pods().await?[0].status.as_ref().and_then(|s| s.phase.as_deref()), Some("Pending"));

    // Then the container runs, but is not ready.
    scene.nodes.script().replace(slow, rule.clone().never_ready());
    scene.container("running, not ready", |c| c.started == Some(true) && !c.ready).await?;

    scene.nodes.script().replace(slow, rule.ready_after(Duration::from_millis(10)));
    scene.available("dns").await?;
    Ok(())
}

#[tokio::test]
async fn a_container_that_crashes_while_it_runs_is_restarted() -> Result<()> {
    let scene = Scene::start(1).await?;
    scene.deployment("dns", "coredns:1", 1).await?;
    scene.available("dns").await?;
    let crash = scene.nodes.script().add(Rule::everything().crash_after(Duration::ZERO));
    scene.container("CrashLoopBackOff", |c| waiting(c) == Some("CrashLoopBackOff")).await?;
    scene.nodes.script().remove(crash);
    let running = scene.container("running again", |c| c.ready).await?;
    assert!(running.restart_count >= 1);
    Ok(())
}

#[tokio::test]
async fn on_a_lost_node_pods_are_unready_and_do_not_go_until_it_is_back() -> Result<()> {
    let scene = Scene::start(2).await?;
    scene.daemonset("proxy", "kube-proxy:1").await?;
    scene.daemons_ready("proxy", 2).await?;

    scene.nodes.lose_node(&scene.node(1)).await?;
    scene.daemons_ready("proxy", 1).await?;
    let nodes: Api<Node> = Api::all(scene.client.clone());
    scene
        .wait
        .until("the controller-manager taints the node", async || {
            let taints = nodes.get(&scene.node(1)).await?.spec.and_then(|spec| spec.taints).unwrap_or_default();
            anyhow::Ok(taints.iter().any(|taint| taint.key == "node.kubernetes.io/unreachable"))
        })
        .await?;

    let lost = scene.pod_on(1).await?.unwrap().name_any();
    scene.api::<Pod>().delete(&lost, &DeleteParams::default()).await?;
    never("the pod on the lost node is gone", Duration::from_secs(1), async || {
        anyhow::Ok(scene.api::<Pod>().get_opt(&lost).await?.is_none())
    })
    .await?;

    scene.nodes.restore_node(&scene.node(1)).await?;
    wait_until_gone(scene.api::<Pod>(), &lost, Duration::from_mins(1)).await?;
    scene.daemons_ready("proxy", 2).await?;
    Ok(())
}

#[tokio::test]
async fn a_deletion_takes_as_long_as_the_script_says_and_then_finishes() -> Result<()> {
    let scene = Scene::start(1).await?;
    scene.deployment("dns", "coredns:1", 1).await?;
    scene.available("dns").await?;
    let slow = scene.nodes.script().add(Rule::everything().stop_takes(Duration::from_hours(1)));
    let pods = scene.api::<Pod>();
    let name = scene.pods().await?[0].name_any();
    scene.api::<Deployment>().delete("dns", &DeleteParams::background()).await?;
    scene
        .wait
        .wait_for(&scene.namespace, &name, "the pod is terminating and not ready", |pod: &Pod| {
            pod.metadata.deletion_timestamp.is_some() && !is_ready(pod)
        })
        .await?;
    scene.nodes.script().remove(slow);
    wait_until_gone(pods, &name, Duration::from_mins(1)).await?;
    Ok(())
}

#[tokio::test]
async fn a_kubelet_is_upgraded_in_place() -> Result<()> {
    let scene = Scene::start(1).await?;
    scene.nodes.set_kubelet_version(&scene.node(1), "1.37.2").await?;
    let node = Api::<Node>::all(scene.client.clone()).get(&scene.node(1)).await?;
    let info = node.status.and_then(|status| status.node_info).unwrap();
    assert_eq!((info.kubelet_version.as_str(), info.operating_system.as_str()), ("v1.37.2", "linux"));
    let unknown = scene.nodes.lose_node("node-x").await.unwrap_err();
    assert!(unknown.to_string().contains(&scene.node(1)), "{unknown}");
    Ok(())
}

#[tokio::test]
async fn heartbeats_renew_the_lease_and_the_condition_when_asked_for() -> Result<()> {
    let scene = Scene::with(1, |spec| spec.heartbeats(Duration::from_millis(200))).await?;
    let leases: Api<Lease> = Api::namespaced(scene.client.clone(), "kube-node-lease");
    let renewed = async || {
        let lease = leases.get_opt(&scene.node(1)).await?;
        anyhow::Ok(lease.and_then(|lease| lease.spec?.renew_time))
    };
    let first = scene.wait.until("a lease", renewed).await?;
    scene
        .wait
        .until("a later lease", async || {
            let now = renewed().await?;
            ensure!(now.as_ref() > Some(&first), "{now:?}");
            anyhow::Ok(())
        })
        .await?;
    let node = Api::<Node>::all(scene.client.clone()).get(&scene.node(1)).await?;
    let conditions = node.status.and_then(|status| status.conditions).unwrap_or_default();
    let ready = conditions.iter().find(|c| c.type_ == "Ready").unwrap();
    assert_eq!((ready.status.as_str(), ready.reason.as_deref()), ("True", Some("KubeletReady")));
    Ok(())
}

#[tokio::test]
async fn after_the_handle_is_dropped_nothing_acts_any_more() -> Result<()> {
    let scene = Scene::start(1).await?;
    let Scene { client, namespace, nodes, .. } = scene;
    drop(nodes);
    let pods: Api<Pod> = Api::namespaced(client, &namespace);
    let pod = serde_json::from_value(json!({
        "metadata": { "name": "p" },
        "spec": { "nodeName": format!("{namespace}-1"), "containers": [{ "name": "c", "image": "i" }] },
    }))?;
    pods.create(&PostParams::default(), &pod).await?;
    never("the pod has an address", Duration::from_secs(1), async || {
        anyhow::Ok(pods.get("p").await?.status.and_then(|status| status.pod_ip))
    })
    .await?;
    Ok(())
}

#[tokio::test]
async fn a_failed_wait_shows_what_ails_the_pods() -> Result<()> {
    let scene = Scene::start(1).await?;
    scene.nodes.script().add(Rule::everything().fails_to_start("plugin/loop: detected", 1));
    scene.deployment("dns", "coredns:1", 1).await?;
    scene.container("CrashLoopBackOff", |c| waiting(c) == Some("CrashLoopBackOff")).await?;

    let hasty =
        scene.wait.clone().within(Duration::from_millis(300)).objects::<Deployment>(&(), Some(&scene.namespace));
    let failed =
        hasty.wait_for(&scene.namespace, "dns", "Deployment dns is Available", is_available).await.unwrap_err();
    let text = failed.to_string();
    for part in [
        "not within 300ms: Deployment dns is Available",
        "unavailableReplicas: 1",
        "CrashLoopBackOff",
        "last exit 1 plugin/loop: detected",
        "--- events",
        "Available=False(MinimumReplicasUnavailable)",
        "--- nodes",
        "v1.34.4",
    ] {
        assert!(text.contains(part), "{part:?} is not in:\n{text}");
    }
    assert!(!text.contains("managedFields"), "{text}");
    Ok(())
}

#[tokio::test]
async fn an_agent_outlives_its_api_server() -> Result<()> {
    let cluster = TestCluster::start().await?;
    let client = cluster.client();
    let namespace = cluster.temp_namespace().await?;
    let nodes = SimulatedNodes::start(client.clone(), NodeSpec::count(1)).await?;
    let pods: Api<Pod> = Api::namespaced(client.clone(), &namespace);
    let pod = |name: &str| {
        serde_json::from_value::<Pod>(json!({
            "metadata": { "name": name },
            "spec": { "nodeName": "node-1", "containers": [{ "name": "c", "image": "i" }] },
        }))
    };
    let wait = Eventually::new(&client).within(Duration::from_mins(1)).namespace(&namespace);
    let slow = nodes.script().add(Rule::everything().slow_pull(Duration::from_hours(1)));
    pods.create(&PostParams::default(), &pod("before")?).await?;
    wait.wait_for(&namespace, "before", "the pod is accepted", |pod: &Pod| {
        pod.status.as_ref().is_some_and(|status| status.pod_ip.is_some())
    })
    .await?;

    cluster.stop_apiserver().await?;
    // Due while nobody can be told.
    nodes.script().remove(slow);
    cluster.start_apiserver().await?;

    pods.create(&PostParams::default(), &pod("after")?).await?;
    for name in ["before", "after"] {
        wait.wait_for(&namespace, name, "the pod is ready", is_ready).await?;
    }
    Ok(())
}
