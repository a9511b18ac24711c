//! Simulated nodes: Node objects, and one agent that plays kubelet for the pods bound to them.
//!
//! To the control plane they are nodes like others: the scheduler binds pods to them, the agent reports the status a kubelet would report,
//! and finishes deletions. Nothing runs. What pods do (fail, pull slowly, never get ready) and what happens to nodes is scripted by the
//! test, while it runs, through [`Script`] and the methods of [`SimulatedNodes`].
//!
//! # Why not kwok
//!
//! kwok does the same from stages in YAML, and was measured first: it is fast enough (5,000 nodes, a DaemonSet ready on all of them in
//! about 30 s). This agent exists because a test changes its mind while it runs ("this image fails; now it does not"), which stages can
//! only express through annotations on each object; because kwok costs two minutes of a Go build; because kwok leaves the pods of a lost
//! node ready; and because a pure function (`pod.rs`) can be tested by direct calls. What made kwok fast is kept: nodes are created Ready,
//! no heartbeats, one watch for all pods, bounded parallel writes, one write where nothing is to be waited for.
//!
//! # How it differs from a kubelet
//!
//! * States that last no time are not written: without a rule a pod goes from Pending to Ready in one write. Use `slow_pull` or
//!   `ready_after` to make the states between visible.
//! * Restart back-off is a tenth of kubelet's (1 s, doubled up to 30 s), and ends at once when the rule that caused it changes.
//!   `ErrImagePull` is shown once, before `ImagePullBackOff`.
//! * No probes, volumes, Secrets or ConfigMaps: a pod whose ConfigMap is missing runs. No events, no logs, no exec.
//! * A deleted pod is gone at once unless `stop_takes` says otherwise.
//! * Pods with readiness gates are reported ready without looking at the gates.
//!
//! # Invariants
//!
//! * The agent never lists or watches per node, and has at most one write per pod in flight.
//! * It never touches a pod on a node that it does not simulate.
//! * It does not panic: errors are logged and tried again. It stops when [`SimulatedNodes`] is dropped; the objects stay.

mod addresses;
mod agent;
pub(crate) mod backoff;
mod container;
mod facts;
mod heartbeat;
mod pod;
mod script;
mod spec;
mod status;
mod world;
mod write;

use std::net::Ipv4Addr;
use std::sync::Arc;

use anyhow::{Context, bail};
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinSet;

pub use script::{Rule, RuleId, Script};
pub use spec::NodeSpec;
use world::{NodeHealth, SimulatedNode, World};

/// Node objects created at once.
const PARALLEL_CREATES: usize = 32;

/// Simulated nodes of one cluster. Dropping it stops their agent, not the objects.
///
/// ```no_run
/// # async fn example(client: kube::Client) -> anyhow::Result<()> {
/// use addon_testkit::nodes::{NodeSpec, Rule, SimulatedNodes};
///
/// let nodes = SimulatedNodes::start(client, NodeSpec::count(5).kubelet_versions(["1.34.4", "1.37.2"])).await?;
/// let broken = nodes.script().add(Rule::image("coredns:1.99").fails_to_start("no such plugin", 1));
/// // ... the rollout stops ...
/// nodes.script().remove(broken);
/// // ... and recovers at once.
/// nodes.lose_node("node-3").await?;
/// # Ok(()) }
/// ```
#[must_use = "dropping it stops the nodes"]
pub struct SimulatedNodes {
    client: Client,
    script: Script,
    /// Aborts its tasks when dropped.
    tasks: JoinSet<()>,
}

impl std::fmt::Debug for SimulatedNodes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SimulatedNodes").field("script", &self.script).finish_non_exhaustive()
    }
}

impl SimulatedNodes {
    /// Creates the nodes and starts their agent.
    pub async fn start(client: Client, spec: NodeSpec) -> anyhow::Result<Self> {
        let world = Arc::new(watch::Sender::new(World::default()));
        let (heartbeat, parallel_writes) = (spec.heartbeat, spec.parallel_writes);
        let mut nodes = Self { client, script: Script { world: world.clone() }, tasks: JoinSet::new() };
        let objects = nodes.announce(&spec);
        let agent = agent::Agent::new(nodes.client.clone(), world.subscribe(), parallel_writes);
        nodes.tasks.spawn(agent.run());
        nodes.create(objects).await?;
        if let Some(every) = heartbeat {
            nodes.tasks.spawn(heartbeat::run(nodes.client.clone(), world, every));
        }
        Ok(nodes)
    }

    /// The script of what pods do; clones of it may be handed around.
    pub fn script(&self) -> &Script {
        &self.script
    }

    /// The names of the nodes there are, lost ones included.
    pub fn names(&self) -> Vec<String> {
        let world = self.script.world.borrow();
        world
            .nodes
            .iter()
            .filter(|(_, node)| node.health != NodeHealth::Removed)
            .map(|(name, _)| name.clone())
            .collect()
    }

    /// Adds nodes; a plain name gives one with the defaults of [`NodeSpec`].
    pub async fn add_nodes(&self, spec: impl Into<NodeSpec>) -> anyhow::Result<()> {
        let nodes = self.announce(&spec.into());
        self.create(nodes).await
    }

    /// Makes nodes known to the agent, before they are in the API: a DaemonSet's pod may be there as soon as its node is.
    fn announce(&self, spec: &NodeSpec) -> Vec<(Node, Ipv4Addr)> {
        let nodes = spec.nodes(addresses::next_node);
        self.script.world.send_modify(|world| {
            let all = Arc::make_mut(&mut world.nodes);
            for (node, address) in &nodes {
                let name = node.metadata.name.clone().unwrap_or_default();
                all.insert(name, SimulatedNode { address: *address, health: NodeHealth::Up });
            }
        });
        nodes
    }

    async fn create(&self, nodes: Vec<(Node, Ipv4Addr)>) -> anyhow::Result<()> {
        let api = self.api();
        futures::stream::iter(nodes)
            .map(|(node, _)| {
                let api = api.clone();
                async move {
                    let name = node.metadata.name.as_deref().unwrap_or_default();
                    api.create(&PostParams::default(), &node)
                        .await
                        .with_context(|| format!("cannot create the simulated node {name}"))
                }
            })
            .buffer_unordered(PARALLEL_CREATES)
            .try_for_each(|_| async { Ok(()) })
            .await
    }

    /// The node's kubelet falls silent: all conditions Unknown, its pods not ready, nothing on it proceeds, deletions do not finish.
    ///
    /// The controller-manager adds the taints itself; the rest of the node lifecycle controller's part is done here, because it acts on
    /// missed heartbeats only. Pods become unready shortly after this returns.
    pub async fn lose_node(&self, name: &str) -> anyhow::Result<()> {
        self.set_health(name, NodeHealth::Lost)?;
        self.patch_status(name, json!({ "conditions": spec::conditions(NodeHealth::Lost, Timestamp::now()) })).await
    }

    /// The lost node's kubelet is back: Ready, and its pods go on from where they were.
    pub async fn restore_node(&self, name: &str) -> anyhow::Result<()> {
        self.patch_status(name, json!({ "conditions": spec::conditions(NodeHealth::Up, Timestamp::now()) })).await?;
        self.set_health(name, NodeHealth::Up)
    }

    /// The node reports another kubelet version, as after an upgrade in place; its pods keep running.
    pub async fn set_kubelet_version(&self, name: &str, version: &str) -> anyhow::Result<()> {
        self.known(name)?;
        self.patch_status(name, json!({ "nodeInfo": { "kubeletVersion": spec::with_v(version) } })).await
    }

    /// Deletes the Node object. Its pods are removed from the API at once, which the pod garbage collector does after a minute.
    pub async fn remove_node(&self, name: &str) -> anyhow::Result<()> {
        self.known(name)?;
        self.api()
            .delete(name, &DeleteParams::default())
            .await
            .with_context(|| format!("cannot delete the simulated node {name}"))?;
        // After the object: else the DaemonSet controller would put new pods on it meanwhile.
        self.set_health(name, NodeHealth::Removed)
    }

    fn api(&self) -> Api<Node> {
        Api::all(self.client.clone())
    }

    fn known(&self, name: &str) -> anyhow::Result<()> {
        let known = self.names();
        if !known.iter().any(|node| node == name) {
            let some: Vec<_> = known.iter().take(10).map(String::as_str).collect();
            bail!("there is no simulated node {name}; there are {}: {}", known.len(), some.join(", "));
        }
        Ok(())
    }

    fn set_health(&self, name: &str, health: NodeHealth) -> anyhow::Result<()> {
        self.known(name)?;
        self.script.world.send_modify(|world| {
            if let Some(node) = Arc::make_mut(&mut world.nodes).get_mut(name) {
                node.health = health;
            }
        });
        Ok(())
    }

    async fn patch_status(&self, name: &str, status: Value) -> anyhow::Result<()> {
        // Strategic: conditions are merged by type, so that those of other writers stay.
        let patch = Patch::Strategic(json!({ "status": status }));
        self.api()
            .patch_status(name, &PatchParams::default(), &patch)
            .await
            .with_context(|| format!("cannot change the status of the simulated node {name}"))?;
        Ok(())
    }
}
