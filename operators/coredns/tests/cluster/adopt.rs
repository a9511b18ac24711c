//! Taking over what others installed: without a change at first, and without losing what people set.

use anyhow::Result;
use k8s_openapi::api::{apps::v1::ReplicaSet, rbac::v1::ClusterRole};
use kube::{
    Api,
    api::{ListParams, Patch, PatchParams},
};
use serde_json::json;

use crate::{
    bed::{Bed, NAMESPACE, OPERATOR, container, image, pods},
    kubeadm,
};

/// What kubeadm of 1.34 and of 1.37 installs.
const KUBEADM: [&str; 2] = ["registry.k8s.io/coredns/coredns:v1.12.1", "registry.k8s.io/coredns/coredns:v1.14.6"];

#[tokio::test]
async fn kubeadms_1_34_is_adopted_without_restarting_a_pod() -> Result<()> {
    adopted_without_restart(KUBEADM[0], "1.12.1").await
}

#[tokio::test]
async fn kubeadms_1_37_is_adopted_without_restarting_a_pod() -> Result<()> {
    adopted_without_restart(KUBEADM[1], "1.14.6").await
}

async fn adopted_without_restart(kubeadm_image: &str, version: &str) -> Result<()> {
    let bed = Bed::new().await?;
    let running = kubeadm::install(&bed, kubeadm_image).await?;
    let before = bed.deployment().await?;
    let recorder = bed.cluster.recorder();
    let _operator = bed.operator().await?;
    bed.create(json!({})).await?;
    let status = bed.current().await?;
    assert_eq!(status["version"]["current"], version);
    assert_eq!(status["version"]["desired"], version, "an adopted version stays");
    let codes: Vec<_> = status["findings"].as_array().into_iter().flatten().map(|it| it["code"].clone()).collect();
    assert!(codes.contains(&json!("AdoptionDeferred")), "what differs is listed: {codes:?}");
    let after = bed.deployment().await?;
    assert_eq!(after["spec"], before["spec"]);
    assert_eq!(after["metadata"]["generation"], before["metadata"]["generation"]);
    assert_eq!(pods(&bed).await?, running);
    let writes = recorder.writes(OPERATOR).await?;
    assert!(writes.iter().all(|write| !matches!(write.resource.as_str(), "deployments" | "configmaps")), "{writes:?}");
    Ok(())
}

#[tokio::test]
async fn the_first_change_takes_over_with_the_users_corefile_limits_and_replicas() -> Result<()> {
    // kubernetes/kubeadm#3033: an upgrade reset the memory limit and the number of pods.
    let bed = Bed::new().await?;
    kubeadm::install(&bed, KUBEADM[0]).await?;
    let by_hand = PatchParams { field_manager: Some("kubectl-edit".into()), ..PatchParams::default() };
    let limits = json!({"spec": {"replicas": 4, "template": {"spec": {"containers": [
        {"name": "coredns", "resources": {"limits": {"memory": "300Mi"}}}]}}}});
    bed.deployments().patch("coredns", &by_hand, &Patch::Strategic(limits)).await?;
    kubeadm::available(&bed).await?;
    let _operator = bed.operator().await?;
    bed.create(json!({})).await?;
    bed.current().await?;
    bed.change(json!({"version": "1.13.1"})).await?;
    let status = bed.current().await?;
    assert_eq!(status["version"]["current"], "1.13.1");
    let deployment = bed.deployment().await?;
    assert_eq!(image(&deployment), "registry.k8s.io/coredns/coredns:v1.13.1");
    assert_eq!(deployment["spec"]["replicas"], 4);
    assert_eq!(container(&deployment)["resources"]["limits"]["memory"], "300Mi");
    assert_eq!(deployment["spec"]["strategy"]["rollingUpdate"], json!({"maxSurge": 1, "maxUnavailable": 0}));
    let mounted =
        deployment["spec"]["template"]["spec"]["volumes"][0]["configMap"]["name"].as_str().unwrap_or_default();
    assert!(mounted.starts_with("coredns-"), "{mounted}");
    let data = json!(bed.config_maps().get(mounted).await?.data);
    assert_eq!(data["Corefile"], kubeadm::COREFILE, "the user's Corefile goes with it, unchanged");
    let kept = json!(bed.config_maps().get("coredns").await?.data);
    assert_eq!(kept["Corefile"], kubeadm::COREFILE, "and kubeadm's ConfigMap stays");
    Ok(())
}

#[tokio::test]
async fn a_version_that_is_taken_over_stays_also_after_other_changes() -> Result<()> {
    let bed = Bed::new().await?;
    kubeadm::install(&bed, "registry.k8s.io/coredns/coredns:v1.12.2").await?;
    let _operator = bed.operator().await?;
    bed.create(json!({"replicas": 3})).await?;
    let status = bed.current().await?;
    assert_eq!(status["version"]["current"], "1.12.2");
    let deployment = bed.deployment().await?;
    assert_eq!(deployment["spec"]["replicas"], 3);
    assert_eq!(image(&deployment), "registry.k8s.io/coredns/coredns:v1.12.2");
    let codes: Vec<_> = status["findings"].as_array().into_iter().flatten().map(|it| it["code"].clone()).collect();
    assert!(codes.contains(&json!("OtherVersionRecommended")), "{codes:?}");
    bed.change(json!({"channel": "stable"})).await?;
    let status = bed.current().await?;
    assert_eq!(status["version"]["current"], status["version"]["recommended"]);
    Ok(())
}

#[tokio::test]
async fn asking_for_what_is_so_changes_nothing() -> Result<()> {
    let bed = Bed::new().await?;
    let running = kubeadm::install(&bed, KUBEADM[0]).await?;
    let _operator = bed.operator().await?;
    bed.create(json!({"version": "1.12.1", "replicas": 2, "dnsDomain": "cluster.local", "dnsIP": "10.96.0.10",
        "corefile": kubeadm::COREFILE}))
        .await?;
    bed.current().await?;
    assert_eq!(pods(&bed).await?, running);
    Ok(())
}

#[tokio::test]
async fn a_running_image_that_tells_no_version_stays() -> Result<()> {
    // coredns/corefile-migration#23: a self-built image stopped the upgrade, or was replaced unseen.
    let bed = Bed::new().await?;
    let digest = format!("registry.example/coredns@sha256:{}", "0".repeat(64));
    let running = kubeadm::install(&bed, &digest).await?;
    let _operator = bed.operator().await?;
    bed.create(json!({})).await?;
    bed.current().await?;
    assert_eq!(pods(&bed).await?, running);
    bed.change(json!({"replicas": 3})).await?;
    let condition = bed.condition("Degraded", "VersionUnknown").await?;
    assert!(condition["message"].as_str().is_some_and(|it| it.contains("spec.version")), "{condition}");
    assert_eq!(image(&bed.deployment().await?), digest);
    Ok(())
}

#[tokio::test]
async fn the_role_is_proven_before_pods_that_need_it_start() -> Result<()> {
    // coredns/coredns#5495: the new image came first, and could not list EndpointSlices.
    let bed = Bed::new().await?;
    kubeadm::install(&bed, KUBEADM[0]).await?;
    let roles: Api<ClusterRole> = Api::all(bed.client.clone());
    let old = json!({"rules": [{"apiGroups": [""], "resources": ["endpoints", "services", "pods", "namespaces"],
        "verbs": ["list", "watch"]}]});
    roles.patch("system:coredns", &PatchParams::default(), &Patch::Merge(old)).await?;
    let recorder = bed.cluster.recorder();
    let _operator = bed.operator().await?;
    bed.create(json!({"version": "1.13.1"})).await?;
    bed.current().await?;
    let requests = recorder.requests(OPERATOR).await?;
    let first = |verb: &str, resource: &str| {
        requests
            .iter()
            .position(|it| it.verb == verb && it.resource == resource && it.code < 300 && it.subresource.is_empty())
    };
    let role = first("patch", "clusterroles");
    let proof = first("create", "subjectaccessreviews");
    let image = first("patch", "deployments");
    assert!(role.is_some() && role < proof && proof < image, "{requests:#?}");
    Ok(())
}

#[tokio::test]
async fn a_deployment_with_another_selector_is_left_alone_and_named() -> Result<()> {
    // aws/containers-roadmap#1411: a Helm chart's selector differs, and selectors cannot be changed.
    let bed = Bed::new().await?;
    let mut helm = kubeadm::deployment(KUBEADM[0]);
    for pointer in ["/spec/selector/matchLabels", "/spec/template/metadata/labels"] {
        if let Some(labels) = helm.pointer_mut(pointer) {
            *labels = json!({"k8s-app": "coredns"});
        }
    }
    kubeadm::create(&bed, helm).await?;
    kubeadm::create(&bed, kubeadm::config_map()).await?;
    let _operator = bed.operator().await?;
    bed.create(json!({"version": "1.13.1"})).await?;
    let condition = bed.condition("Degraded", "ImmutableField").await?;
    let message = condition["message"].as_str().unwrap_or_default();
    assert!(message.contains("Deployment kube-system/coredns") && message.contains(".spec.selector"), "{message}");
    assert!(bed.services().get_opt("kube-dns").await?.is_none(), "nothing else is written either");
    let sets: Api<ReplicaSet> = Api::namespaced(bed.client.clone(), NAMESPACE);
    assert!(sets.list(&ListParams::default()).await?.items.len() <= 1);
    Ok(())
}

#[tokio::test]
async fn a_service_made_by_client_side_apply_ends_with_each_port_once() -> Result<()> {
    // kubernetes/kubernetes#39188, #118725: a port was lost, or its name was there twice.
    let bed = Bed::new().await?;
    let mut service = kubeadm::service("kube-dns");
    service["spec"]["ports"] = json!([
        {"name": "dns-udp", "port": 53, "protocol": "UDP", "targetPort": 53},
        {"name": "dns", "port": 5353, "protocol": "UDP", "targetPort": 53}]);
    let applied = service.to_string();
    service["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"] = json!(applied);
    kubeadm::create(&bed, service).await?;
    let _operator = bed.operator().await?;
    bed.create(json!({})).await?;
    bed.current().await?;
    let service = json!(bed.services().get("kube-dns").await?);
    let mut ports: Vec<_> = service["spec"]["ports"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|port| format!("{} {}/{}", port["name"], port["port"], port["protocol"]))
        .collect();
    ports.sort();
    assert_eq!(ports, ["\"dns\" 53/\"UDP\"", "\"dns-tcp\" 53/\"TCP\"", "\"metrics\" 9153/\"TCP\""]);
    Ok(())
}
