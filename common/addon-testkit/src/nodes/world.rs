//! The state that tests change and the agent follows: the script's rules and the nodes there are.
//!
//! It is one value in a watch channel, so that the agent never misses a change and a test never waits for the agent.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;

use super::script::Rules;

/// Rules and nodes; both behind `Arc`, so that following a change costs a pointer.
#[derive(Clone, Debug, Default)]
pub(super) struct World {
    pub(super) rules: Arc<Rules>,
    pub(super) nodes: Arc<BTreeMap<String, SimulatedNode>>,
}

/// One node as the agent sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SimulatedNode {
    pub(super) address: Ipv4Addr,
    pub(super) health: NodeHealth,
}

/// Whether a node's kubelet lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NodeHealth {
    /// The kubelet acts.
    Up,
    /// The kubelet is silent: nothing on the node proceeds or ends.
    Lost,
    /// The Node object is gone: its pods are removed from the API, as the pod garbage collector does.
    Removed,
}
