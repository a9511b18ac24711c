//! Golden files: what is rendered and planned, byte for byte. `cargo insta review`, or `INSTA_UPDATE=always cargo test`,
//! takes over a wanted change.

#![allow(clippy::unwrap_used)] // clippy does not know that the helpers are tests, too

use std::{collections::BTreeMap, sync::Arc};

use addon_framework::core::{Addon as _, Object, Observed, Plan, plan::plan_all};
use coredns_operator::addon::CoreDns;
use serde_json::{Value, json};

fn observed(kubernetes: &str, spec: &Value, live: &[Value]) -> Observed {
    let object = |value: &Value| Arc::new(Object::new(value.clone()).unwrap());
    let resource = json!({"apiVersion": "addons.x-k8s.io/v1alpha1", "kind": "CoreDNS", "spec": spec,
        "metadata": {"name": "coredns", "namespace": "kube-system", "generation": 1, "uid": "a"}});
    let mut observed = Observed {
        kubernetes: kubernetes.parse().unwrap(),
        namespace: "kube-system".into(),
        resources: vec![object(&resource)],
        live: live.iter().map(object).map(|object| (object.key(), object)).collect(),
        lookups: BTreeMap::new(),
        answers: BTreeMap::new(),
        confirmed: [].into(),
        failures: BTreeMap::new(),
        now: "2026-01-01T00:00:00Z".parse().unwrap(),
    };
    let cidr = json!({"apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR", "metadata": {"name": "kubernetes"},
        "spec": {"cidrs": ["10.96.0.0/12"]}});
    let cidr = Object::new(cidr).unwrap();
    observed.lookups.insert(cidr.key(), Some(cidr));
    observed
}

fn plan(observed: &Observed) -> Plan {
    plan_all(&CoreDns::embedded().unwrap(), observed).remove(0)
}

fn rendered(kubernetes: &str, spec: &Value) -> String {
    let observed = observed(kubernetes, spec, &[]);
    let desired = CoreDns::embedded().unwrap().desire(&observed.resources[0], &observed);
    assert_eq!(desired.findings, [], "nothing is to be said of it");
    let documents = desired.objects.iter().map(|desired| serde_json::to_string_pretty(&desired.object).unwrap());
    documents.collect::<Vec<_>>().join("\n") + "\n"
}

#[test]
fn the_same_input_gives_the_same_bytes() {
    let spec = json!({"dnsDomain": "cluster.local"});
    let first = rendered("1.34.4", &spec);
    assert_eq!(first, rendered("1.34.4", &spec));
    insta::assert_snapshot!("render-1.34", first);
}

#[test]
fn between_two_kubernetes_minors_only_the_image_differs() {
    let spec = json!({"dnsDomain": "cluster.local"});
    let (older, newer) = (rendered("1.34.4", &spec), rendered("1.37.2", &spec));
    let differing: Vec<_> = older.lines().zip(newer.lines()).filter(|(older, newer)| older != newer).collect();
    assert_eq!(differing.len(), 1, "{differing:?}");
    assert!(differing[0].1.contains("coredns:v1.14.7"), "{differing:?}");
}

#[test]
fn every_setting() {
    let spec = json!({
        "version": "1.13.1",
        "dnsDomain": "example.org.",
        "dnsIP": "10.96.0.53",
        "corefile": ".:53 {\n    health\n    ready\n    whoami\n}\n",
        "replicas": 3,
        "images": {"repository": "mirror.example/dns", "digest": "sha256:00", "pullSecrets": ["mirror"], "pullPolicy": "Always"},
        "resources": {"limits": {"memory": "300Mi"}},
        "nodeSelector": {"zone": "a"},
        "tolerations": [{"operator": "Exists"}],
        "priorityClassName": "system-node-critical",
        "labels": {"team": "dns"},
        "annotations": {"note": "kept"},
        "extraArgs": ["-quiet"],
        "patches": [{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "kube-dns"},
            "spec": {"ports": [{"port": 53, "protocol": "UDP", "nodePort": 30053}]}}],
    });
    insta::assert_snapshot!("render-every-setting", rendered("1.34.4", &spec));
}

#[test]
fn the_plan_of_a_fresh_install() {
    let plan = plan(&observed("1.34.4", &json!({}), &[]));
    insta::assert_snapshot!("plan-install", serde_json::to_string_pretty(&plan).unwrap());
}

#[test]
fn a_spec_that_cannot_be_carried_out_plans_nothing() {
    for (spec, code) in [
        (json!({"version": "9.9.9"}), "UnknownVersion"),
        (json!({"dnsIP": "10.96.0"}), "BadDnsIp"),
        (json!({"dnsDomain": "-bad-"}), "BadDomain"),
        (json!({"replicas": "many"}), "BadSpec"),
    ] {
        let plan = plan(&observed("1.34.4", &spec, &[]));
        assert_eq!((plan.findings[0].code.as_str(), plan.waves.len()), (code, 0));
    }
}

#[test]
fn a_known_bad_version_runs_with_a_warning_that_names_a_better_one() {
    // coredns/coredns#7177: the default of Kubernetes 1.33.
    let plan = plan(&observed("1.33.0", &json!({"version": "1.12.0", "dnsDomain": "a.b"}), &[]));
    assert_eq!(plan.findings[0].code, "KnownBadVersion");
    assert_eq!(plan.findings[0].remedy.as_deref(), Some("use 1.12.1"));
    assert_eq!(plan.version.recommended.as_deref(), Some("1.12.1"));
    assert!(!plan.waves.is_empty());
}

#[test]
fn domain_and_address_come_from_who_knows_best() {
    let config_map = |name: &str, key: &str, text: &str| {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "kube-system"},
            "data": {key: text}})
    };
    let kubeadm = |subnet: &str| {
        config_map(
            "kubeadm-config",
            "ClusterConfiguration",
            &format!("networking:\n  dnsDomain: kube.example\n  serviceSubnet: {subnet}\n"),
        )
    };
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "kube-dns", "namespace": "kube-system"},
        "spec": {"clusterIP": "10.111.0.10"}});
    let corefile = config_map("coredns", "Corefile", ".:53 {\n    kubernetes served.example in-addr.arpa\n}\n");
    // siderolabs/talos#1888: a comma pair was taken as one range.
    for (live, address, domain) in [
        (vec![], "10.96.0.10", "cluster.local"),
        (vec![kubeadm("10.200.0.0/16")], "10.200.0.10", "kube.example"),
        (vec![kubeadm("10.200.0.0/16,fd00::/108")], "10.200.0.10", "kube.example"),
        (vec![kubeadm("fd00::/108,10.200.0.0/16")], "fd00::a", "kube.example"),
        (vec![kubeadm("10.200.0.0/16"), service], "10.111.0.10", "kube.example"),
        (vec![corefile], "10.96.0.10", "served.example"),
    ] {
        let observed = observed("1.34.4", &json!({}), &live);
        let desired = CoreDns::embedded().unwrap().desire(&observed.resources[0], &observed);
        let text = |pointer: &str, kind: &str| {
            let object = desired.objects.iter().find(|desired| desired.object.kind() == kind).unwrap();
            object.object.text(pointer).to_owned()
        };
        assert_eq!(text("/spec/clusterIP", "Service"), address);
        assert_eq!(text("/spec/template/spec/containers/0/env/0/value", "Deployment"), domain);
    }
    for subnet in ["10.0.0.0/29", "nonsense"] {
        let plan = plan(&observed("1.34.4", &json!({}), &[kubeadm(subnet)]));
        assert_eq!(plan.findings[0].code, "BadServiceCidr");
    }
}

#[test]
fn an_address_that_kubelets_do_not_give_is_not_taken_for_a_new_service() {
    let kubelet = |address: &str| {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kubelet-config", "namespace": "kube-system"},
            "data": {"kubelet": format!("clusterDNS: [{address}]\nclusterDomain: cluster.local\n")}})
    };
    let mismatch = plan(&observed("1.34.4", &json!({}), &[kubelet("10.96.0.53")]));
    assert_eq!((mismatch.findings[0].code.as_str(), mismatch.waves.len()), ("KubeletDnsMismatch", 0));
    for (spec, address) in
        [(json!({"dnsIP": "10.96.0.53"}), "10.96.0.53"), (json!({}), "10.96.0.10"), (json!({}), "169.254.20.10")]
    {
        let plan = plan(&observed("1.34.4", &spec, &[kubelet(address)]));
        assert!(!plan.waves.is_empty(), "{address}: {:?}", plan.findings);
    }
}

#[test]
fn a_headless_dns_service_is_an_error() {
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "kube-dns", "namespace": "kube-system"},
        "spec": {"clusterIP": "None"}});
    let plan = plan(&observed("1.34.4", &json!({}), &[service]));
    assert_eq!((plan.findings[0].code.as_str(), plan.waves.len()), ("DnsIpUnknown", 0));
}

#[test]
fn someone_elses_adopted_annotation_counts_for_nothing() {
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "coredns",
        "namespace": "kube-system", "labels": {"addons.x-k8s.io/addon": "coredns"},
        "annotations": {"addons.x-k8s.io/adopted": "1.12.0"}}, "spec": {}});
    let plan = plan(&observed("1.37.2", &json!({}), &[deployment]));
    assert_eq!(plan.version.desired.as_deref(), Some("1.14.7"));
}
