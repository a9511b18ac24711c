//! Optional heartbeats of the simulated nodes: their Lease and the times in their conditions, renewed with bounded parallelism.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, Patch, PatchParams};
use kube::{Client, Error};
use serde_json::json;
use tokio::sync::watch;

use super::world::{NodeHealth, World};

/// The namespace that the API server makes for node Leases.
const LEASES: &str = "kube-node-lease";
const PARALLEL: usize = 16;
/// kubelet's own `nodeLeaseDurationSeconds`.
const LEASE_SECONDS: i32 = 40;

/// Renews the heartbeats of all nodes whose kubelet lives, until it is aborted.
pub(super) async fn run(client: Client, world: Arc<watch::Sender<World>>, every: Duration) {
    let mut ticks = tokio::time::interval(every);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let nodes = world.borrow().nodes.clone();
        let up: Vec<String> =
            nodes.iter().filter(|(_, node)| node.health == NodeHealth::Up).map(|(name, _)| name.clone()).collect();
        futures::stream::iter(up)
            .for_each_concurrent(PARALLEL, |name| {
                let (client, world) = (client.clone(), world.clone());
                async move {
                    // It may have been lost while others were renewed.
                    if world.borrow().nodes.get(&name).is_none_or(|node| node.health != NodeHealth::Up) {
                        return;
                    }
                    if let Err(error) = renew(client, &name).await {
                        tracing::warn!(node = %name, %error, "a heartbeat of a simulated node failed");
                    }
                }
            })
            .await;
    }
}

async fn renew(client: Client, name: &str) -> Result<(), Error> {
    let now = Timestamp::now();
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": { "name": name },
        "spec": { "holderIdentity": name, "leaseDurationSeconds": LEASE_SECONDS, "renewTime": MicroTime(now) },
    });
    let leases: Api<Lease> = Api::namespaced(client.clone(), LEASES);
    leases.patch(name, &PatchParams::apply("kubelet").force(), &Patch::Apply(lease)).await?;
    let beat: Vec<_> = ["MemoryPressure", "DiskPressure", "PIDPressure", "Ready"]
        .into_iter()
        .map(|condition| json!({ "type": condition, "lastHeartbeatTime": now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string() }))
        .collect();
    let nodes: Api<Node> = Api::all(client);
    nodes
        .patch_status(name, &PatchParams::default(), &Patch::Strategic(json!({ "status": { "conditions": beat } })))
        .await?;
    Ok(())
}
