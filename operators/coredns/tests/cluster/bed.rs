//! What every test starts from: a cluster as if just started, the operator's CRD and rights, and three nodes.

use std::{path::Path, time::Duration};

use addon_testkit::{
    ClusterGuard, Program, TestCluster,
    eventually::Eventually,
    manifests,
    nodes::{NodeSpec, SimulatedNodes},
};
use anyhow::{Context as _, Result, ensure};
use coredns_operator::api::CoreDNS;
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ConfigMap, Node, Service},
};
use kube::{
    Api, Client,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

/// The namespace of everything.
pub(crate) const NAMESPACE: &str = "kube-system";
/// The operator's user, as the audit log names it.
pub(crate) const OPERATOR: addon_testkit::audit::By<'static> =
    addon_testkit::audit::By::ServiceAccount(NAMESPACE, "coredns-operator");
/// The operator's field manager.
pub(crate) const MANAGER: &str = "addons.x-k8s.io/coredns";

/// A cluster for one test.
pub(crate) struct Bed {
    pub(crate) cluster: ClusterGuard,
    pub(crate) client: Client,
    _nodes: SimulatedNodes,
}

impl Bed {
    /// A cluster with the CRD, the operator's rights and three nodes.
    pub(crate) async fn new() -> Result<Self> {
        let bed = Self::without_crd().await?;
        bed.apply(&file("../../crds/coredns.addons.x-k8s.io.yaml")?).await?;
        Ok(bed)
    }

    /// A cluster with the operator's rights and three nodes.
    pub(crate) async fn without_crd() -> Result<Self> {
        let cluster = TestCluster::shared().await?;
        let client = cluster.client();
        Api::<Node>::all(client.clone()).delete_collection(&DeleteParams::default(), &ListParams::default()).await?;
        let nodes = SimulatedNodes::start(client.clone(), NodeSpec::count(3)).await?;
        let bed = Self { cluster, client, _nodes: nodes };
        bed.apply(&file("deploy/rbac.yaml")?).await?;
        Ok(bed)
    }

    /// Applies YAML as the test's own field manager.
    pub(crate) async fn apply(&self, yaml: &str) -> Result<()> {
        manifests::apply(&self.client, yaml).await.map(drop)
    }

    /// Runs the operator with the rights it ships with.
    pub(crate) async fn operator(&self) -> Result<Program> {
        let kubeconfig = self.kubeconfig().await?;
        self.operator_with(&kubeconfig, &[])
    }

    pub(crate) async fn kubeconfig(&self) -> Result<std::path::PathBuf> {
        Ok(self.cluster.kubeconfig_for(NAMESPACE, "coredns-operator").await?)
    }

    pub(crate) fn operator_with(&self, kubeconfig: &Path, arguments: &[&str]) -> Result<Program> {
        let program = Path::new(env!("CARGO_BIN_EXE_coredns-operator"));
        Ok(self.cluster.run("coredns-operator", program, arguments, kubeconfig)?)
    }

    pub(crate) fn resources(&self) -> Api<CoreDNS> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    pub(crate) fn deployments(&self) -> Api<Deployment> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    pub(crate) fn config_maps(&self) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    pub(crate) fn services(&self) -> Api<Service> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    /// Creates the resource `coredns` with a spec.
    pub(crate) async fn create(&self, spec: Value) -> Result<()> {
        self.create_named("coredns", spec).await
    }

    pub(crate) async fn create_named(&self, name: &str, spec: Value) -> Result<()> {
        let resource = json!({"apiVersion": "addons.x-k8s.io/v1alpha1", "kind": "CoreDNS", "metadata": {"name": name}, "spec": spec});
        self.resources().create(&PostParams::default(), &serde_json::from_value(resource)?).await?;
        Ok(())
    }

    /// Changes the resource by a merge patch on its spec.
    pub(crate) async fn change(&self, spec: Value) -> Result<()> {
        let patch = Patch::Merge(json!({ "spec": spec }));
        self.resources().patch("coredns", &PatchParams::default(), &patch).await?;
        Ok(())
    }

    /// Waits with a dump of what there is on failure.
    pub(crate) fn eventually(&self) -> Eventually {
        Eventually::new(&self.client)
            .within(Duration::from_mins(1))
            .namespace(NAMESPACE)
            .objects::<CoreDNS>(&(), Some(NAMESPACE))
    }

    /// Waits until the resource's status is about its present spec and everything is as wanted.
    pub(crate) async fn current(&self) -> Result<Value> {
        self.eventually().until("coredns is Current", async || self.is_current("coredns").await.map(Some)).await
    }

    async fn is_current(&self, name: &str) -> Result<Value> {
        let resource = self.resources().get(name).await?;
        let status = json!(resource.status);
        let generation = json!(resource.metadata.generation);
        ensure!(status["phase"] == "Current" && status["observedGeneration"] == generation, "status: {status}");
        Ok(status)
    }

    /// Waits until the condition has the reason, and returns the condition.
    pub(crate) async fn condition(&self, kind: &str, reason: &str) -> Result<Value> {
        self.condition_of(&self.resources(), "coredns", kind, reason).await
    }

    pub(crate) async fn condition_of(&self, api: &Api<CoreDNS>, name: &str, kind: &str, reason: &str) -> Result<Value> {
        let what = format!("condition {kind} of {name} has reason {reason}");
        self.eventually()
            .until(&what, async || {
                let status = json!(api.get(name).await?.status);
                let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
                let found = conditions.into_iter().find(|it| it["type"] == kind && it["reason"] == reason);
                found.map(Some).with_context(|| format!("status: {status}"))
            })
            .await
    }

    /// The Deployment as JSON.
    pub(crate) async fn deployment(&self) -> Result<Value> {
        Ok(json!(self.deployments().get("coredns").await?))
    }

    /// Everything that the operator is to have made, without what differs between two runs.
    pub(crate) async fn state(&self) -> Result<Value> {
        let mut objects = Vec::new();
        for (kind, plural, group, namespaced) in [
            ("ServiceAccount", "serviceaccounts", "", true),
            ("ConfigMap", "configmaps", "", true),
            ("Service", "services", "", true),
            ("Deployment", "deployments", "apps", true),
            ("ClusterRole", "clusterroles", "rbac.authorization.k8s.io", false),
            ("ClusterRoleBinding", "clusterrolebindings", "rbac.authorization.k8s.io", false),
        ] {
            let gvk = kube::core::GroupVersionKind::gvk(group, "v1", kind);
            let resource = kube::api::ApiResource::from_gvk_with_plural(&gvk, plural);
            let api: Api<kube::api::DynamicObject> = if namespaced {
                Api::namespaced_with(self.client.clone(), NAMESPACE, &resource)
            } else {
                Api::all_with(self.client.clone(), &resource)
            };
            let labelled = ListParams::default().labels("addons.x-k8s.io/addon=coredns");
            objects.extend(api.list(&labelled).await?.items.into_iter().map(|object| normal(json!(object))));
        }
        Ok(json!(objects))
    }
}

/// An object without what differs between two runs: times, uids, versions, status, and counts of revisions.
fn normal(mut object: Value) -> Value {
    if let Some(members) = object.as_object_mut() {
        members.remove("status");
    }
    if let Some(metadata) = object["metadata"].as_object_mut() {
        for volatile in ["uid", "resourceVersion", "creationTimestamp", "generation"] {
            metadata.remove(volatile);
        }
        if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
            annotations.remove("deployment.kubernetes.io/revision");
        }
    }
    for entry in object["metadata"]["managedFields"].as_array_mut().into_iter().flatten() {
        entry["time"] = Value::Null;
    }
    if let Some(entries) = object["metadata"]["managedFields"].as_array_mut() {
        entries.retain(|entry| entry["manager"] == MANAGER);
    }
    object
}

/// A file of this crate.
pub(crate) fn file(path: &str) -> Result<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    std::fs::read_to_string(&path).with_context(|| path.display().to_string())
}

/// The image of the container `coredns` in a Deployment.
pub(crate) fn image(deployment: &Value) -> &str {
    container(deployment)["image"].as_str().unwrap_or_default()
}

/// The container `coredns` of a Deployment.
pub(crate) fn container(deployment: &Value) -> &Value {
    let containers = deployment["spec"]["template"]["spec"]["containers"].as_array();
    containers.into_iter().flatten().find(|container| container["name"] == "coredns").unwrap_or(&Value::Null)
}

/// The uid and restart-relevant identity of each DNS pod: unchanged means that no pod was touched.
pub(crate) async fn pods(bed: &Bed) -> Result<Vec<String>> {
    let pods: Api<k8s_openapi::api::core::v1::Pod> = Api::namespaced(bed.client.clone(), NAMESPACE);
    let pods = pods.list(&ListParams::default().labels("k8s-app=kube-dns")).await?;
    let mut uids: Vec<_> = pods.items.into_iter().filter_map(|pod| pod.metadata.uid).collect();
    uids.sort();
    Ok(uids)
}
