//! What `kubeadm init` leaves in a cluster, as far as DNS goes (kubernetes/kubernetes:
//! `cmd/kubeadm/app/phases/addons/dns/manifests.go`, the same from 1.34 to 1.37 but for the image).

use anyhow::Result;
use kube::{
    Api,
    api::{ApiResource, DynamicObject, PostParams},
    core::GroupVersionKind,
};
use serde_json::{Value, json};

use crate::bed::{Bed, NAMESPACE, pods};

/// kubeadm's Corefile with a change that a person made: another cache time.
pub(crate) const COREFILE: &str = ".:53 {
    errors
    health {
       lameduck 5s
    }
    ready
    kubernetes cluster.local in-addr.arpa ip6.arpa {
       pods insecure
       fallthrough in-addr.arpa ip6.arpa
       ttl 30
    }
    prometheus :9153
    forward . /etc/resolv.conf {
       max_concurrent 1000
    }
    cache 35 {
       disable success cluster.local
       disable denial cluster.local
    }
    loop
    reload
    loadbalance
}
";

/// Installs what kubeadm of a Kubernetes minor installs, with client-side creates, and waits until it runs.
/// Returns the image and the pods' uids.
pub(crate) async fn install(bed: &Bed, image: &str) -> Result<Vec<String>> {
    for object in objects(image) {
        create(bed, object).await?;
    }
    available(bed).await
}

/// Waits until the Deployment is available; returns the pods' uids.
pub(crate) async fn available(bed: &Bed) -> Result<Vec<String>> {
    bed.eventually()
        .until("the Deployment is available", async || {
            let deployment = bed.deployment().await?;
            let (ready, wanted) = (&deployment["status"]["availableReplicas"], &deployment["spec"]["replicas"]);
            anyhow::ensure!(ready == wanted, "{ready} of {wanted}");
            anyhow::Ok(())
        })
        .await?;
    pods(bed).await
}

/// Creates an object as kubeadm does: by Create, not by apply.
pub(crate) async fn create(bed: &Bed, object: Value) -> Result<()> {
    let object: DynamicObject = serde_json::from_value(object)?;
    let types = object.types.clone().unwrap_or_default();
    let resource = ApiResource::from_gvk(&GroupVersionKind::try_from(&types)?);
    let api: Api<DynamicObject> = match object.metadata.namespace.as_deref() {
        Some(namespace) => Api::namespaced_with(bed.client.clone(), namespace, &resource),
        None => Api::all_with(bed.client.clone(), &resource),
    };
    let params = PostParams { field_manager: Some("kubeadm".into()), ..PostParams::default() };
    api.create(&params, &object).await?;
    Ok(())
}

fn objects(image: &str) -> Vec<Value> {
    let named = |name: &str| json!({"name": name, "namespace": NAMESPACE});
    let cluster_configuration = "apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\nnetworking:\n  \
         dnsDomain: cluster.local\n  serviceSubnet: 10.96.0.0/12\n";
    let kubelet = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nclusterDNS:\n- 10.96.0.10\n\
         clusterDomain: cluster.local\n";
    vec![
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": named("kubeadm-config"),
            "data": {"ClusterConfiguration": cluster_configuration}}),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": named("kubelet-config"), "data": {"kubelet": kubelet}}),
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": named("coredns")}),
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "system:coredns"},
            "rules": [
                {"apiGroups": [""], "resources": ["endpoints", "services", "pods", "namespaces"], "verbs": ["list", "watch"]},
                {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]}]}),
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": {"name": "system:coredns"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:coredns"},
            "subjects": [{"kind": "ServiceAccount", "name": "coredns", "namespace": NAMESPACE}]}),
        config_map(),
        service("kube-dns"),
        deployment(image),
    ]
}

/// The ConfigMap that kubeadm's pods mount.
pub(crate) fn config_map() -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "coredns", "namespace": NAMESPACE},
        "data": {"Corefile": COREFILE}})
}

/// The DNS Service under a name.
pub(crate) fn service(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Service",
        "metadata": {"name": name, "namespace": NAMESPACE,
            "labels": {"k8s-app": "kube-dns", "kubernetes.io/cluster-service": "true", "kubernetes.io/name": "CoreDNS"},
            "annotations": {"prometheus.io/port": "9153", "prometheus.io/scrape": "true"}},
        "spec": {"clusterIP": "10.96.0.10", "selector": {"k8s-app": "kube-dns"}, "ports": [
            {"name": "dns", "port": 53, "protocol": "UDP", "targetPort": 53},
            {"name": "dns-tcp", "port": 53, "protocol": "TCP", "targetPort": 53},
            {"name": "metrics", "port": 9153, "protocol": "TCP", "targetPort": 9153}]}})
}

/// kubeadm's Deployment.
pub(crate) fn deployment(image: &str) -> Value {
    let port =
        |name: &str, port: u16, protocol: &str| json!({"name": name, "containerPort": port, "protocol": protocol});
    let container = json!({
        "name": "coredns", "image": image, "imagePullPolicy": "IfNotPresent",
        "args": ["-conf", "/etc/coredns/Corefile"],
        "resources": {"limits": {"memory": "170Mi"}, "requests": {"cpu": "100m", "memory": "70Mi"}},
        "volumeMounts": [{"name": "config-volume", "mountPath": "/etc/coredns", "readOnly": true}],
        "ports": [port("dns", 53, "UDP"), port("dns-tcp", 53, "TCP"), port("metrics", 9153, "TCP"),
            port("liveness-probe", 8080, "TCP"), port("readiness-probe", 8181, "TCP")],
        "livenessProbe": {"httpGet": {"path": "/health", "port": "liveness-probe", "scheme": "HTTP"},
            "initialDelaySeconds": 60, "timeoutSeconds": 5, "successThreshold": 1, "failureThreshold": 5},
        "readinessProbe": {"httpGet": {"path": "/ready", "port": "readiness-probe", "scheme": "HTTP"}},
        "securityContext": {"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
            "capabilities": {"add": ["NET_BIND_SERVICE"], "drop": ["ALL"]}}});
    json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "coredns", "namespace": NAMESPACE, "labels": {"k8s-app": "kube-dns"}},
        "spec": {"replicas": 2,
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}},
            "selector": {"matchLabels": {"k8s-app": "kube-dns"}},
            "template": {"metadata": {"labels": {"k8s-app": "kube-dns"}}, "spec": {
                "priorityClassName": "system-cluster-critical", "serviceAccountName": "coredns", "dnsPolicy": "Default",
                "nodeSelector": {"kubernetes.io/os": "linux"},
                "tolerations": [{"key": "CriticalAddonsOnly", "operator": "Exists"},
                    {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}],
                "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100,
                    "podAffinityTerm": {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchExpressions": [
                        {"key": "k8s-app", "operator": "In", "values": ["kube-dns"]}]}}}]}},
                "containers": [container],
                "volumes": [{"name": "config-volume", "configMap": {"name": "coredns",
                    "items": [{"key": "Corefile", "path": "Corefile"}]}}]}}}})
}
