//! Taking over loses nothing that people wrote: their files, their ports, their rules, their numbers.

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::{core::v1::Service, rbac::v1::ClusterRole};
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams},
};
use serde_json::{Value, json};

use crate::{
    bed::{Bed, container, image, pods},
    kubeadm,
};

const KUBEADM: &str = "registry.k8s.io/coredns/coredns:v1.12.1";
const COREFILE: &str = ".:53 {\n    health\n    ready\n    file db.example.org example.org\n}\n";

/// The data of the ConfigMap that the pods mount, and the files that they see.
async fn mounted(bed: &Bed) -> Result<(Value, Vec<String>)> {
    let deployment = bed.deployment().await?;
    let volume = &deployment["spec"]["template"]["spec"]["volumes"][0]["configMap"];
    let name = volume["name"].as_str().context("no ConfigMap is mounted")?;
    let files = volume["items"].as_array().into_iter().flatten().filter_map(|item| item["path"].as_str());
    Ok((json!(bed.config_maps().get(name).await?.data), files.map(str::to_owned).collect()))
}

async fn set_config(bed: &Bed, name: &str) -> Result<()> {
    let data = json!({"Corefile": COREFILE, "db.example.org": "$ORIGIN example.org.\n"});
    let config_map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data});
    let params = PatchParams::apply("someone").force();
    bed.config_maps().patch(name, &params, &Patch::Apply(config_map)).await?;
    Ok(())
}

#[tokio::test]
async fn zone_files_beside_the_corefile_come_along_and_stay_when_the_old_config_map_goes() -> Result<()> {
    let bed = Bed::new().await?;
    kubeadm::install(&bed, KUBEADM).await?;
    set_config(&bed, "coredns").await?;
    let _operator = bed.operator().await?;
    bed.create(json!({"version": "1.13.1"})).await?;
    bed.current().await?;
    let (data, files) = mounted(&bed).await?;
    assert_eq!((&data["Corefile"], files), (&json!(COREFILE), vec!["Corefile".into(), "db.example.org".into()]));
    let running = pods(&bed).await?;
    bed.config_maps().delete("coredns", &DeleteParams::default()).await?;
    // Proof that the operator has seen it, without a wait for nothing: a change that rolls no pod.
    bed.change(json!({"replicas": 3})).await?;
    bed.current().await?;
    assert_eq!(mounted(&bed).await?.0, data);
    assert!(pods(&bed).await?.iter().filter(|pod| running.contains(pod)).count() == 2);
    Ok(())
}

#[tokio::test]
async fn the_corefile_is_that_of_the_config_map_that_is_mounted() -> Result<()> {
    let bed = Bed::new().await?;
    set_config(&bed, "dns-config").await?;
    let mut deployment = kubeadm::deployment(KUBEADM);
    deployment["spec"]["template"]["spec"]["volumes"][0]["configMap"]["name"] = json!("dns-config");
    kubeadm::create(&bed, deployment).await?;
    let _operator = bed.operator().await?;
    bed.create(json!({"replicas": 3})).await?;
    bed.eventually()
        .until("it is taken over", async || {
            let (data, _) = mounted(&bed).await?;
            let deployment = bed.deployment().await?;
            ensure!(deployment["spec"]["replicas"] == 3, "not yet");
            ensure!(data["Corefile"] == COREFILE, "{data}");
            anyhow::Ok(())
        })
        .await
}

#[tokio::test]
async fn a_mounted_config_map_that_is_not_there_is_not_made_up() -> Result<()> {
    let bed = Bed::new().await?;
    kubeadm::create(&bed, kubeadm::deployment(KUBEADM)).await?;
    let _operator = bed.operator().await?;
    bed.create(json!({"replicas": 3})).await?;
    let condition = bed.condition("Degraded", "CorefileUnknown").await?;
    assert!(condition["message"].as_str().is_some_and(|it| it.contains("spec.corefile")), "{condition}");
    assert_eq!(bed.deployment().await?["spec"]["replicas"], 2);
    Ok(())
}

#[tokio::test]
async fn adoption_keeps_an_extra_port_and_an_extra_rule() -> Result<()> {
    let bed = Bed::new().await?;
    kubeadm::install(&bed, KUBEADM).await?;
    let by_hand = PatchParams { field_manager: Some("kubectl-edit".into()), ..PatchParams::default() };
    let port = json!({"spec": {"ports": [{"name": "dns-tls", "port": 853, "protocol": "TCP", "targetPort": 853}]}});
    bed.services().patch("kube-dns", &by_hand, &Patch::Strategic(port)).await?;
    let roles: Api<ClusterRole> = Api::all(bed.client.clone());
    let mut role = roles.get("system:coredns").await?;
    let rule =
        json!({"apiGroups": ["multicluster.x-k8s.io"], "resources": ["serviceimports"], "verbs": ["list", "watch"]});
    role.rules.get_or_insert_default().push(serde_json::from_value(rule)?);
    let role = roles.replace("system:coredns", &kube::api::PostParams::default(), &role).await?;
    let service: Service = bed.services().get("kube-dns").await?;
    let _operator = bed.operator().await?;
    bed.create(json!({})).await?;
    bed.current().await?;
    assert_eq!(roles.get("system:coredns").await?, role);
    assert_eq!(bed.services().get("kube-dns").await?, service);
    Ok(())
}

#[tokio::test]
async fn an_installation_pinned_by_digest_follows_the_version_that_is_asked_for() -> Result<()> {
    let bed = Bed::new().await?;
    kubeadm::install(&bed, &format!("registry.example/coredns@sha256:{}", "0".repeat(64))).await?;
    let _operator = bed.operator().await?;
    bed.create(json!({"version": "1.13.1"})).await?;
    let status = bed.current().await?;
    assert_eq!(status["version"]["current"], "1.13.1");
    assert_eq!(image(&bed.deployment().await?), "registry.k8s.io/coredns/coredns:v1.13.1");
    Ok(())
}

#[tokio::test]
async fn a_container_of_another_name_is_replaced() -> Result<()> {
    let bed = Bed::new().await?;
    kubeadm::install(&bed, KUBEADM).await?;
    let mut other = kubeadm::deployment(KUBEADM);
    other["spec"]["template"]["spec"]["containers"][0]["name"] = json!("dns");
    bed.deployments().delete("coredns", &DeleteParams::default()).await?;
    bed.eventually()
        .until("it is gone", async || anyhow::Ok(bed.deployments().get_opt("coredns").await?.is_none()))
        .await?;
    kubeadm::create(&bed, other).await?;
    let _operator = bed.operator().await?;
    bed.create(json!({"version": "1.13.1", "replicas": 3})).await?;
    bed.current().await?;
    let deployment = bed.deployment().await?;
    assert_eq!(container(&deployment)["image"], "registry.k8s.io/coredns/coredns:v1.13.1");
    assert_eq!(deployment["spec"]["template"]["spec"]["containers"].as_array().map(Vec::len), Some(1));
    Ok(())
}

#[tokio::test]
async fn a_service_with_none_of_our_ports_is_repaired() -> Result<()> {
    let bed = Bed::new().await?;
    let mut service = kubeadm::service("kube-dns");
    service["spec"]["ports"] = json!([{"name": "dns", "port": 5353, "protocol": "UDP", "targetPort": 53}]);
    kubeadm::create(&bed, service).await?;
    let _operator = bed.operator().await?;
    bed.create(json!({})).await?;
    bed.current().await?;
    let service = json!(bed.services().get("kube-dns").await?);
    let ports: Vec<_> = service["spec"]["ports"].as_array().into_iter().flatten().map(|port| &port["port"]).collect();
    assert_eq!(ports, [53, 53, 9153]);
    Ok(())
}
