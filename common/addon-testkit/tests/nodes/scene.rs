//! What the tests of simulated nodes share: one control plane, and for each test a namespace and nodes of its own.

use std::time::Duration;

use addon_testkit::TestCluster;
use addon_testkit::eventually::Eventually;
use addon_testkit::nodes::{NodeSpec, SimulatedNodes};
use anyhow::Result;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use kube::Client;
use kube::api::{Api, ListParams, PostParams};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

/// A test's part of the cluster.
pub(crate) struct Scene {
    pub(crate) client: Client,
    pub(crate) namespace: String,
    pub(crate) nodes: SimulatedNodes,
    pub(crate) wait: Eventually,
}

async fn cluster() -> Result<&'static TestCluster> {
    static CLUSTER: OnceCell<TestCluster> = OnceCell::const_new();
    Ok(CLUSTER.get_or_try_init(TestCluster::start).await?)
}

impl Scene {
    /// Nodes `<namespace>-1` to `<namespace>-<count>`, half of them with an older kubelet.
    pub(crate) async fn start(count: usize) -> Result<Self> {
        Self::with(count, |spec| spec).await
    }

    pub(crate) async fn with(count: usize, change: impl FnOnce(NodeSpec) -> NodeSpec) -> Result<Self> {
        Self::on(cluster().await?, count, change).await
    }

    /// The same on a control plane of its own.
    pub(crate) async fn on(
        cluster: &TestCluster,
        count: usize,
        change: impl FnOnce(NodeSpec) -> NodeSpec,
    ) -> Result<Self> {
        let client = cluster.client();
        let namespace = cluster.temp_namespace().await?;
        let spec = NodeSpec::named((1..=count).map(|n| format!("{namespace}-{n}")))
            .kubelet_versions(["1.34.4", "1.37.2"])
            .label("test", &namespace);
        let nodes = SimulatedNodes::start(client.clone(), change(spec)).await?;
        let wait = Eventually::new(&client).within(Duration::from_mins(2)).namespace(&namespace).nodes();
        Ok(Self { client, namespace, nodes, wait })
    }

    pub(crate) fn node(&self, number: usize) -> String {
        format!("{}-{number}", self.namespace)
    }

    pub(crate) fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    pub(crate) fn pod_template(&self, image: &str) -> Value {
        json!({
            "metadata": { "labels": { "app": "dns" } },
            "spec": {
                "nodeSelector": { "test": self.namespace },
                "tolerations": [{ "operator": "Exists" }],
                // Longer than any test: a pod that goes is let go by the script.
                "terminationGracePeriodSeconds": 3600,
                "containers": [{ "name": "dns", "image": image }],
            },
        })
    }

    pub(crate) async fn deployment(&self, name: &str, image: &str, replicas: i32) -> Result<Deployment> {
        let deployment = serde_json::from_value(json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": name },
            "spec": {
                "replicas": replicas,
                "selector": { "matchLabels": { "app": "dns" } },
                "template": self.pod_template(image),
            },
        }))?;
        Ok(self.api().create(&PostParams::default(), &deployment).await?)
    }

    pub(crate) async fn daemonset(&self, name: &str, image: &str) -> Result<DaemonSet> {
        let set = serde_json::from_value(json!({
            "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": { "name": name },
            "spec": {
                "selector": { "matchLabels": { "app": "dns" } },
                "template": self.pod_template(image),
            },
        }))?;
        Ok(self.api().create(&PostParams::default(), &set).await?)
    }

    pub(crate) async fn available(&self, name: &str) -> Result<Deployment> {
        self.wait.wait_for(&self.namespace, name, &format!("Deployment {name} is Available"), is_available).await
    }

    pub(crate) async fn daemons_ready(&self, name: &str, count: i32) -> Result<DaemonSet> {
        self.wait
            .wait_for(
                &self.namespace,
                name,
                &format!("{count} pods of DaemonSet {name} are ready"),
                |set: &DaemonSet| {
                    let status = set.status.clone().unwrap_or_default();
                    status.number_ready == count && status.number_available == Some(count)
                },
            )
            .await
    }

    /// Waits until the first container of the only pod is in a state.
    pub(crate) async fn container(
        &self,
        what: &str,
        holds: impl Fn(&ContainerStatus) -> bool,
    ) -> Result<ContainerStatus> {
        self.wait
            .until(what, async || {
                let pods = self.pods().await?;
                let status =
                    pods.first().and_then(|pod| pod.status.as_ref()?.container_statuses.as_ref()?.first().cloned());
                anyhow::Ok(status.filter(|status| holds(status)))
            })
            .await
    }

    pub(crate) async fn pods(&self) -> Result<Vec<Pod>> {
        Ok(self.api::<Pod>().list(&ListParams::default()).await?.items)
    }

    /// The pod on the node with this number.
    pub(crate) async fn pod_on(&self, number: usize) -> Result<Option<Pod>> {
        let node = self.node(number);
        Ok(self.pods().await?.into_iter().find(|pod| node_of(pod) == Some(node.as_str())))
    }
}

pub(crate) fn is_available(deployment: &Deployment) -> bool {
    let conditions = deployment.status.iter().filter_map(|status| status.conditions.as_ref()).flatten();
    let wanted = deployment.spec.as_ref().and_then(|spec| spec.replicas);
    conditions.into_iter().any(|c| c.type_ == "Available" && c.status == "True")
        && deployment.status.as_ref().and_then(|status| status.ready_replicas) == wanted
}

pub(crate) fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref()
}

pub(crate) fn is_ready(pod: &Pod) -> bool {
    pod.status.iter().filter_map(|s| s.conditions.as_ref()).flatten().any(|c| c.type_ == "Ready" && c.status == "True")
}

pub(crate) fn waiting(status: &ContainerStatus) -> Option<&str> {
    status.state.as_ref()?.waiting.as_ref()?.reason.as_deref()
}
