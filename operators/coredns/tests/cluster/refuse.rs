//! Bad input: one clear condition or message each, and what runs is untouched.

use anyhow::Result;
use coredns_operator::api::CoreDNS;
use k8s_openapi::api::core::v1::Service;
use kube::{
    Api,
    api::{DeleteParams, ObjectMeta, PostParams},
};
use serde_json::{Value, json};

use crate::bed::{Bed, OPERATOR};

/// Changes a good spec into a bad one: the condition has the reason and all parts of the message, nothing that runs is
/// touched, and it is well again once the change is taken back.
async fn refused(change: Value, back: Value, reason: &str, parts: &[&str]) -> Result<()> {
    let bed = Bed::new().await?;
    let _operator = bed.operator().await?;
    bed.create(json!({"dnsDomain": "cluster.local"})).await?;
    bed.current().await?;
    let state = bed.state().await?;
    let recorder = bed.cluster.recorder();
    bed.change(change).await?;
    let condition = bed.condition("Degraded", reason).await?;
    let message = condition["message"].as_str().unwrap_or_default();
    for part in parts {
        assert!(message.contains(part), "`{part}` is not in: {message}");
    }
    assert_eq!(bed.condition("Stalled", reason).await?["status"], "True");
    assert_eq!(bed.state().await?, state, "what runs is untouched");
    assert_eq!(bed.condition("Available", "AsExpected").await?["status"], "True");
    let writes = recorder.writes(OPERATOR).await?;
    assert!(writes.iter().all(|write| write.subresource == "status"), "{writes:?}");
    bed.change(back).await?;
    bed.current().await?;
    Ok(())
}

#[tokio::test]
async fn an_unknown_version() -> Result<()> {
    refused(
        json!({"version": "1.99.0"}),
        json!({"version": null}),
        "UnknownVersion",
        &[".spec.version", "1.99.0", "use one of", "(recommended)"],
    )
    .await
}

#[tokio::test]
async fn a_version_that_is_not_for_this_kubernetes() -> Result<()> {
    refused(json!({"version": "1.9.3"}), json!({"version": null}), "VersionNotForKubernetes", &["1.9.3", "<1.33"]).await
}

#[tokio::test]
async fn an_unknown_channel() -> Result<()> {
    refused(json!({"channel": "nightly"}), json!({"channel": null}), "UnknownChannel", &["nightly", "stable"]).await
}

#[tokio::test]
async fn a_patch_that_matches_nothing() -> Result<()> {
    let change = json!({"patches": [{"target": {"kind": "DaemonSet", "name": "coredns"}, "patch": {"spec": {}}}]});
    let parts = [".spec.patches[0]", "kind DaemonSet", "Deployment kube-system/coredns"];
    refused(change, json!({"patches": null}), "PatchWithoutTarget", &parts).await
}

#[tokio::test]
async fn a_patch_that_parts_the_account_from_its_binding() -> Result<()> {
    // kubernetes/kops PR #9374: old pods lived on their caches, new ones failed.
    let change = json!({"patches": [{"target": {"kind": "Deployment"},
        "patch": {"spec": {"template": {"spec": {"serviceAccountName": "other"}}}}}]});
    refused(change, json!({"patches": null}), "ServiceAccountMismatch", &["`other`", "serviceAccountName"]).await
}

#[tokio::test]
async fn a_corefile_that_coredns_would_not_start_with() -> Result<()> {
    // coredns/coredns#2339: running pods ignore it, and the outage comes with the next restart.
    let change = json!({"corefile": ".:53 {\n    errors\n    health\n    ready\n    froward . 192.0.2.1\n}\n"});
    let parts = ["line 5, column 5", "froward", "ConfigMap kube-system/coredns-"];
    refused(change, json!({"corefile": null}), "CorefileUnknownPlugin", &parts).await
}

#[tokio::test]
async fn a_corefile_whose_pods_would_never_be_ready() -> Result<()> {
    // aws/containers-roadmap#2152, coredns/coredns#3219
    let change = json!({"corefile": ".:53 {\n    health\n    whoami\n}\n"});
    refused(change, json!({"corefile": null}), "CorefileProbeWithoutReady", &["8181"]).await
}

#[tokio::test]
async fn a_version_that_refuses_the_corefile_that_runs() -> Result<()> {
    // coredns/coredns PR #8119: from 1.14.4 on unknown properties are refused that were passed over before.
    let bed = Bed::new().await?;
    let _operator = bed.operator().await?;
    let corefile = ".:53 {\n    health\n    ready {\n        moniter until-ready\n    }\n    whoami\n}\n";
    bed.create(json!({"version": "1.14.2", "corefile": corefile})).await?;
    let status = bed.current().await?;
    assert!(status["findings"].to_string().contains("CorefileIgnored"), "it is said before: {}", status["findings"]);
    let state = bed.state().await?;
    bed.change(json!({"version": "1.14.7"})).await?;
    let condition = bed.condition("Degraded", "CorefilePluginSetup").await?;
    let message = condition["message"].as_str().unwrap_or_default();
    assert!(message.contains("line 4, column 9") && message.contains("did you mean 'monitor'?"), "{message}");
    assert_eq!(bed.state().await?, state);
    bed.change(json!({"corefile": corefile.replace("moniter", "monitor")})).await?;
    assert_eq!(bed.current().await?["version"]["current"], "1.14.7", "image and Corefile move together");
    Ok(())
}

#[tokio::test]
async fn an_argument_that_the_operator_sets() -> Result<()> {
    let change = json!({"extraArgs": ["-conf=/tmp/x"]});
    refused(change, json!({"extraArgs": null}), "ArgumentTaken", &["-conf=/tmp/x", ".spec.extraArgs"]).await
}

#[tokio::test]
async fn another_dns_address_than_the_service_has() -> Result<()> {
    let parts = ["10.96.0.99", "10.96.0.10", ".spec.dnsIP"];
    refused(json!({"dnsIP": "10.96.0.99"}), json!({"dnsIP": null}), "DnsIpClash", &parts).await
}

#[tokio::test]
async fn a_domain_that_kubeadm_contradicts() -> Result<()> {
    let bed = Bed::new().await?;
    let configuration = "networking:\n  dnsDomain: example.org\n  serviceSubnet: 10.96.0.0/12\n";
    bed.apply(&format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: kubeadm-config, namespace: kube-system}}\ndata: {}\n",
        json!({ "ClusterConfiguration": configuration })
    ))
    .await?;
    let _operator = bed.operator().await?;
    bed.create(json!({"dnsDomain": "cluster.local"})).await?;
    let condition = bed.condition("Degraded", "DomainClash").await?;
    let message = condition["message"].as_str().unwrap_or_default();
    assert!(message.contains("kubeadm-config") && message.contains("example.org"), "{message}");
    assert!(bed.services().get_opt("kube-dns").await?.is_none());
    bed.change(json!({"dnsDomain": null})).await?;
    bed.current().await?;
    Ok(())
}

#[tokio::test]
async fn an_address_that_another_service_holds_until_it_is_gone() -> Result<()> {
    // k3s-io/k3s#10611, kubermatic/kubermatic#5232: retried blindly, with no word of who holds it.
    let bed = Bed::new().await?;
    let strangers: Api<Service> = Api::namespaced(bed.client.clone(), "default");
    let stranger =
        json!({"metadata": {"name": "stranger"}, "spec": {"clusterIP": "10.96.0.10", "ports": [{"port": 80}]}});
    strangers.create(&PostParams::default(), &serde_json::from_value(stranger)?).await?;
    let _operator = bed.operator().await?;
    bed.create(json!({})).await?;
    let condition = bed.condition("Degraded", "DnsIpTaken").await?;
    let message = condition["message"].as_str().unwrap_or_default();
    assert!(message.contains("Service default/stranger") && message.contains("10.96.0.10"), "{message}");
    assert_eq!(bed.state().await?, json!([]), "nothing is half applied");
    strangers.delete("stranger", &DeleteParams::default()).await?;
    bed.current().await?;
    Ok(())
}

#[tokio::test]
async fn our_own_older_service_under_another_name_is_named_too() -> Result<()> {
    let bed = Bed::new().await?;
    crate::kubeadm::create(&bed, crate::kubeadm::service("coredns")).await?;
    let _operator = bed.operator().await?;
    bed.create(json!({})).await?;
    let condition = bed.condition("Degraded", "DnsIpTaken").await?;
    assert!(condition["message"].as_str().is_some_and(|it| it.contains("Service kube-system/coredns")), "{condition}");
    Ok(())
}

#[tokio::test]
async fn of_two_resources_the_older_wins_and_the_other_says_so() -> Result<()> {
    let bed = Bed::new().await?;
    let _operator = bed.operator().await?;
    bed.create_named("coredns", json!({"replicas": 2})).await?;
    bed.current().await?;
    // Creation times have whole seconds: the second one is to be younger, not a draw.
    tokio::time::sleep(std::time::Duration::from_millis(1100)).await;
    let recorder = bed.cluster.recorder();
    bed.create_named("another", json!({"replicas": 3})).await?;
    let condition = bed.condition_of(&bed.resources(), "another", "Degraded", "Superseded").await?;
    assert!(condition["message"].as_str().is_some_and(|it| it.contains("coredns is older")), "{condition}");
    let writes = recorder.writes(OPERATOR).await?;
    assert_eq!(writes.len(), 1, "one status, and no fight: {writes:?}");
    bed.resources().delete("coredns", &DeleteParams::default()).await?;
    bed.condition_of(&bed.resources(), "another", "Available", "AsExpected").await?;
    let taken_over = async || anyhow::Ok(bed.deployment().await?["spec"]["replicas"] == 3);
    bed.eventually().until("the other one takes over", taken_over).await?;
    Ok(())
}

#[tokio::test]
async fn a_resource_outside_the_configured_namespace() -> Result<()> {
    let bed = Bed::new().await?;
    let _operator = bed.operator().await?;
    let elsewhere: Api<CoreDNS> = Api::namespaced(bed.client.clone(), "default");
    let metadata = ObjectMeta { name: Some("coredns".into()), ..ObjectMeta::default() };
    let resource = CoreDNS { metadata, spec: serde_json::from_value(json!({}))?, status: None };
    elsewhere.create(&PostParams::default(), &resource).await?;
    let condition = bed.condition_of(&elsewhere, "coredns", "Degraded", "WrongNamespace").await?;
    assert!(condition["message"].as_str().is_some_and(|it| it.contains("kube-system")), "{condition}");
    assert_eq!(bed.state().await?, json!([]));
    Ok(())
}

#[tokio::test]
async fn a_spec_that_the_api_server_itself_refuses() -> Result<()> {
    let bed = Bed::new().await?;
    for bad in [
        json!({"version": "1.12.1", "channel": "stable"}),
        json!({"replicas": -1}),
        json!({"conflicts": "Maybe"}),
        json!({"version": 1}),
        json!({"tolerations": "x"}),
    ] {
        assert!(bed.create(bad.clone()).await.is_err(), "{bad} was accepted");
    }
    Ok(())
}
