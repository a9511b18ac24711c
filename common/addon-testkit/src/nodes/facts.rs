//! What the agent keeps of a pod: the few fields that decide what its kubelet would do.
//!
//! The watch decodes into [`SlimPod`], which skips the rest already while parsing: at thousands of pods this is most of the memory.

use std::collections::BTreeMap;
use std::time::Duration;

use kube::core::Object;
use serde::Deserialize;

/// A pod as the watch decodes it.
pub(super) type SlimPod = Object<SlimSpec, SlimStatus>;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SlimSpec {
    #[serde(default)]
    node_name: String,
    #[serde(default)]
    host_network: bool,
    #[serde(default)]
    restart_policy: String,
    #[serde(default)]
    containers: Vec<SlimContainer>,
    #[serde(default)]
    init_containers: Vec<SlimContainer>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SlimContainer {
    name: String,
    #[serde(default)]
    image: String,
    #[serde(default)]
    restart_policy: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SlimStatus {
    #[serde(default, rename = "podIP")]
    pod_ip: String,
    #[serde(default)]
    phase: String,
}

/// Everything about a pod that the agent decides by, except the pod's own history.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PodFacts {
    pub(super) uid: String,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) node: String,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) host_network: bool,
    pub(super) restart: Restart,
    pub(super) containers: Vec<ContainerFacts>,
    pub(super) init_containers: Vec<ContainerFacts>,
    /// The grace period, once the pod is being deleted.
    pub(super) deleted_with_grace: Option<Duration>,
}

/// One container of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ContainerFacts {
    pub(super) name: String,
    pub(super) image: String,
    /// A sidecar: an init container that keeps running.
    pub(super) restartable: bool,
}

/// A pod's restart policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Restart {
    #[default]
    Always,
    OnFailure,
    Never,
}

/// What a watch event says: the facts, and what an earlier agent may have written.
pub(super) struct Observed {
    pub(super) facts: PodFacts,
    pub(super) pod_ip: Option<String>,
    pub(super) finished: bool,
}

impl Observed {
    /// None for a pod that is not bound to a node, or that the server sent without an identity.
    pub(super) fn read(pod: SlimPod) -> Option<Self> {
        let meta = pod.metadata;
        if pod.spec.node_name.is_empty() {
            return None;
        }
        let status = pod.status.unwrap_or_default();
        let grace = meta.deletion_grace_period_seconds.and_then(|seconds| u64::try_from(seconds).ok()).unwrap_or(0);
        Some(Self {
            facts: PodFacts {
                uid: meta.uid?,
                namespace: meta.namespace?,
                name: meta.name?,
                node: pod.spec.node_name,
                labels: meta.labels.unwrap_or_default(),
                host_network: pod.spec.host_network,
                restart: match pod.spec.restart_policy.as_str() {
                    "Never" => Restart::Never,
                    "OnFailure" => Restart::OnFailure,
                    _ => Restart::Always,
                },
                containers: containers(pod.spec.containers),
                init_containers: containers(pod.spec.init_containers),
                deleted_with_grace: meta.deletion_timestamp.map(|_| Duration::from_secs(grace)),
            },
            pod_ip: Some(status.pod_ip).filter(|ip| !ip.is_empty()),
            finished: matches!(status.phase.as_str(), "Succeeded" | "Failed"),
        })
    }
}

fn containers(slim: Vec<SlimContainer>) -> Vec<ContainerFacts> {
    slim.into_iter()
        .map(|c| ContainerFacts { restartable: c.restart_policy == "Always", name: c.name, image: c.image })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &serde_json::Value) -> Option<Observed> {
        Observed::read(serde_json::from_value(json.clone()).unwrap())
    }

    #[test]
    fn a_full_pod_is_pruned_to_the_facts() {
        let seen = read(&serde_json::json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "p", "namespace": "ns", "uid": "u", "labels": {"a": "b"}, "managedFields": [{"manager": "x"}],
                "deletionTimestamp": "2030-01-01T00:00:00Z", "deletionGracePeriodSeconds": 7},
            "spec": {"nodeName": "n", "hostNetwork": true, "restartPolicy": "Never", "volumes": [{"name": "v"}],
                "initContainers": [{"name": "i", "image": "img-i", "restartPolicy": "Always"}],
                "containers": [{"name": "c", "image": "img-c", "ports": [{"containerPort": 53}]}]},
            "status": {"podIP": "10.128.0.9", "phase": "Running"},
        }))
        .unwrap();
        assert_eq!(seen.pod_ip.as_deref(), Some("10.128.0.9"));
        assert!(!seen.finished);
        let facts = seen.facts;
        assert_eq!((facts.node.as_str(), facts.host_network, facts.restart), ("n", true, Restart::Never));
        assert_eq!(facts.deleted_with_grace, Some(Duration::from_secs(7)));
        assert_eq!(facts.containers, [ContainerFacts { name: "c".into(), image: "img-c".into(), restartable: false }]);
        assert!(facts.init_containers[0].restartable);
    }

    #[test]
    fn a_pod_without_a_node_is_none_of_the_agents_business() {
        assert!(read(&serde_json::json!({"metadata": {"name": "p", "namespace": "ns", "uid": "u"}, "spec": {"containers": []}})).is_none());
    }
}
