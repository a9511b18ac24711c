//! Which nodes to simulate: a builder, and the Node objects it stands for.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::time::Duration;

use k8s_openapi::api::core::v1::{
    Node, NodeAddress, NodeCondition, NodeDaemonEndpoints, NodeSpec as NodeObjectSpec, NodeStatus, NodeSystemInfo,
    Taint,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use k8s_openapi::jiff::Timestamp;
use sha2::{Digest, Sha256};

use super::world::NodeHealth;

/// Which nodes to simulate. Defaults: kubelet 1.37.2, amd64, 4 CPUs, 8Gi, 110 pods, no zone, no taints, no heartbeats.
///
/// ```
/// use addon_testkit::nodes::NodeSpec;
///
/// // node-1 and node-2 run 1.34.4, node-3 and node-4 run 1.37.2; zones alternate.
/// let mixed = NodeSpec::count(4).kubelet_versions(["1.34.4", "1.37.2"]).zones(["a", "b"]);
/// let control_plane = NodeSpec::named(["cp-1"]).taint("node-role.kubernetes.io/control-plane", "", "NoSchedule");
/// ```
#[derive(Clone, Debug)]
#[must_use = "nodes are simulated from SimulatedNodes::start on"]
pub struct NodeSpec {
    names: Vec<String>,
    kubelet_versions: Vec<String>,
    zones: Vec<String>,
    architectures: Vec<String>,
    labels: BTreeMap<String, String>,
    taints: Vec<Taint>,
    cpu: String,
    memory: String,
    pods: u32,
    pub(super) heartbeat: Option<Duration>,
    pub(super) parallel_writes: usize,
}

impl NodeSpec {
    /// Nodes `node-1` to `node-<count>`.
    pub fn count(count: usize) -> Self {
        Self::named((1..=count).map(|n| format!("node-{n}")))
    }

    /// Nodes with these names.
    pub fn named<N: Into<String>>(names: impl IntoIterator<Item = N>) -> Self {
        Self {
            names: names.into_iter().map(Into::into).collect(),
            kubelet_versions: vec!["1.37.2".into()],
            zones: Vec::new(),
            architectures: vec!["amd64".into()],
            labels: BTreeMap::new(),
            taints: Vec::new(),
            cpu: "4".into(),
            memory: "8Gi".into(),
            pods: 110,
            heartbeat: None,
            parallel_writes: 64,
        }
    }

    /// The same kubelet version on all nodes, with or without a leading `v`.
    pub fn kubelet_version(self, version: impl Into<String>) -> Self {
        self.kubelet_versions([version])
    }

    /// Kubelet versions in equal blocks: with two versions the first half of the nodes runs the first one.
    pub fn kubelet_versions<V: Into<String>>(mut self, versions: impl IntoIterator<Item = V>) -> Self {
        self.kubelet_versions = versions.into_iter().map(Into::into).collect();
        self
    }

    /// Zones, dealt in turn (so that each zone has nodes of each kubelet version).
    pub fn zones<Z: Into<String>>(mut self, zones: impl IntoIterator<Item = Z>) -> Self {
        self.zones = zones.into_iter().map(Into::into).collect();
        self
    }

    /// Architectures in equal blocks; one name gives it to all.
    pub fn architectures<A: Into<String>>(mut self, architectures: impl IntoIterator<Item = A>) -> Self {
        self.architectures = architectures.into_iter().map(Into::into).collect();
        self
    }

    /// A label on all nodes, besides those of a kubelet (os, arch, hostname, zone).
    pub fn label(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(key.into(), value.into());
        self
    }

    /// A taint on all nodes; `effect` is `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    pub fn taint(mut self, key: impl Into<String>, value: impl Into<String>, effect: impl Into<String>) -> Self {
        let value = Some(value.into()).filter(|value: &String| !value.is_empty());
        self.taints.push(Taint { key: key.into(), value, effect: effect.into(), time_added: None });
        self
    }

    /// Capacity, and allocatable, of each node.
    pub fn capacity(mut self, cpu: impl Into<String>, memory: impl Into<String>, pods: u32) -> Self {
        (self.cpu, self.memory, self.pods) = (cpu.into(), memory.into(), pods);
        self
    }

    /// Renews each node's Lease and Ready condition at this interval, as kubelets do. Off by default: at thousands of nodes it is most of
    /// the idle load, and the test cluster's controller-manager waits a day for a heartbeat. Read once, at the start.
    pub fn heartbeats(mut self, every: Duration) -> Self {
        self.heartbeat = Some(every);
        self
    }

    /// How many writes may be in flight at once, 64 by default. Read once, at the start.
    pub fn parallel_writes(mut self, writes: usize) -> Self {
        self.parallel_writes = writes;
        self
    }

    /// The Node objects, each with its address.
    pub(super) fn nodes(&self, mut next_address: impl FnMut() -> Ipv4Addr) -> Vec<(Node, Ipv4Addr)> {
        let block = |list: &[String], index: usize| list.get(index * list.len() / self.names.len().max(1)).cloned();
        self.names
            .iter()
            .enumerate()
            .map(|(index, name)| {
                let address = next_address();
                let version = block(&self.kubelet_versions, index).unwrap_or_default();
                let architecture = block(&self.architectures, index).unwrap_or_else(|| "amd64".into());
                let zone = (!self.zones.is_empty()).then(|| self.zones[index % self.zones.len()].as_str());
                (self.node(name, address, &version, &architecture, zone), address)
            })
            .collect()
    }

    fn node(&self, name: &str, address: Ipv4Addr, version: &str, architecture: &str, zone: Option<&str>) -> Node {
        let mut labels = BTreeMap::from(
            [("kubernetes.io/os", "linux"), ("kubernetes.io/arch", architecture), ("kubernetes.io/hostname", name)]
                .map(|(key, value)| (key.to_owned(), value.to_owned())),
        );
        labels.extend(zone.map(|zone| ("topology.kubernetes.io/zone".to_owned(), zone.to_owned())));
        labels.extend(self.labels.clone());
        let resources = BTreeMap::from(
            [
                ("cpu", self.cpu.clone()),
                ("memory", self.memory.clone()),
                ("pods", self.pods.to_string()),
                ("ephemeral-storage", "50Gi".into()),
            ]
            .map(|(key, value)| (key.to_owned(), Quantity(value))),
        );
        let typed = |type_: &str, address: String| NodeAddress { type_: type_.into(), address };
        Node {
            metadata: ObjectMeta { name: Some(name.into()), labels: Some(labels), ..ObjectMeta::default() },
            spec: Some(NodeObjectSpec {
                taints: (!self.taints.is_empty()).then(|| self.taints.clone()),
                ..NodeObjectSpec::default()
            }),
            status: Some(NodeStatus {
                capacity: Some(resources.clone()),
                allocatable: Some(resources),
                addresses: Some(vec![typed("InternalIP", address.to_string()), typed("Hostname", name.into())]),
                conditions: Some(conditions(NodeHealth::Up, Timestamp::now())),
                daemon_endpoints: Some(NodeDaemonEndpoints::default()),
                node_info: Some(NodeSystemInfo {
                    architecture: architecture.into(),
                    operating_system: "linux".into(),
                    os_image: "Debian GNU/Linux 12 (bookworm)".into(),
                    kernel_version: "6.1.0-40-amd64".into(),
                    container_runtime_version: "containerd://2.4.2".into(),
                    kubelet_version: with_v(version),
                    machine_id: identity(name, "machine"),
                    system_uuid: identity(name, "system"),
                    boot_id: identity(name, "boot"),
                    ..NodeSystemInfo::default()
                }),
                ..NodeStatus::default()
            }),
        }
    }
}

impl From<&str> for NodeSpec {
    fn from(name: &str) -> Self {
        Self::named([name])
    }
}

/// A version as kubelet writes it.
pub(super) fn with_v(version: &str) -> String {
    if version.starts_with('v') { version.into() } else { format!("v{version}") }
}

/// A node's conditions: as its kubelet writes them, or as the node lifecycle controller does when the kubelet is silent.
pub(super) fn conditions(health: NodeHealth, at: Timestamp) -> Vec<NodeCondition> {
    [
        ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
    ]
    .into_iter()
    .map(|(type_, status, reason, message)| {
        let (status, reason, message) = match health {
            NodeHealth::Up => (status, reason, message),
            NodeHealth::Lost | NodeHealth::Removed => {
                ("Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status.")
            }
        };
        NodeCondition {
            type_: type_.into(),
            status: status.into(),
            reason: Some(reason.into()),
            message: Some(message.into()),
            last_heartbeat_time: Some(Time(at)),
            last_transition_time: Some(Time(at)),
        }
    })
    .collect()
}

/// A stable identity of a node, in the form of a UUID.
fn identity(node: &str, kind: &str) -> String {
    let digest = Sha256::digest(format!("{kind}/{node}").as_bytes());
    let hex: Vec<String> = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    [&hex[..4], &hex[4..6], &hex[6..8], &hex[8..10], &hex[10..]].map(<[String]>::concat).join("-")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodes::addresses;

    fn versions(spec: &NodeSpec) -> Vec<String> {
        spec.nodes(addresses::next_node)
            .into_iter()
            .map(|(node, _)| node.status.unwrap().node_info.unwrap().kubelet_version)
            .collect()
    }

    #[test]
    fn kubelet_versions_come_in_equal_blocks() {
        let spec = NodeSpec::count(5).kubelet_versions(["1.34.4", "v1.37.2"]);
        assert_eq!(versions(&spec), ["v1.34.4", "v1.34.4", "v1.34.4", "v1.37.2", "v1.37.2"]);
    }

    #[test]
    fn zones_are_dealt_in_turn() {
        let zones: Vec<_> = NodeSpec::count(3)
            .zones(["a", "b"])
            .nodes(addresses::next_node)
            .into_iter()
            .map(|(node, _)| node.metadata.labels.unwrap().remove("topology.kubernetes.io/zone").unwrap())
            .collect();
        assert_eq!(zones, ["a", "b", "a"]);
    }

    #[test]
    fn every_node_is_ready_and_has_an_address_of_its_own() {
        let nodes = NodeSpec::count(300).nodes(addresses::next_node);
        let addresses: std::collections::BTreeSet<_> = nodes.iter().map(|(_, address)| *address).collect();
        assert_eq!(addresses.len(), 300);
        for (node, _) in nodes {
            let conditions = node.status.unwrap().conditions.unwrap();
            assert!(conditions.iter().any(|c| c.type_ == "Ready" && c.status == "True"));
        }
    }

    #[test]
    fn an_identity_has_the_form_of_a_uuid() {
        let lengths: Vec<_> = identity("node-1", "boot").split('-').map(str::len).collect();
        assert_eq!(lengths, [8, 4, 4, 4, 12]);
    }
}
