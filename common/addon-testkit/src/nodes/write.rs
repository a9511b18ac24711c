//! One write of the agent to the API server: a status patch or the final deletion of a pod, with a time limit and a typed outcome.

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use kube::api::{Api, ApiResource, DeleteParams, Patch, PatchParams, Preconditions};
use serde_json::Value;

use super::facts::{PodFacts, SlimPod};

/// A write that takes longer is given up and tried again.
const LIMIT: Duration = Duration::from_secs(15);

/// A write that is due.
pub(super) struct Write {
    namespace: String,
    name: String,
    change: Change,
}

enum Change {
    Status { patch: Value, hash: u64 },
    Delete { uid: String },
}

/// A write that was tried.
pub(super) struct Written {
    pub(super) uid: Arc<str>,
    pub(super) outcome: Outcome,
}

/// What became of a write.
pub(super) enum Outcome {
    /// The server took the patch with this hash.
    Reported(u64),
    /// The server took the deletion.
    Deleted,
    /// The pod is gone.
    NotThere,
    /// Anything else: try again.
    Failed,
}

impl Write {
    pub(super) fn status(pod: &PodFacts, patch: Value, hash: u64) -> Self {
        Self { namespace: pod.namespace.clone(), name: pod.name.clone(), change: Change::Status { patch, hash } }
    }

    /// As kubelet does once the containers are stopped: no grace left, and only this very pod.
    pub(super) fn delete(pod: &PodFacts) -> Self {
        Self {
            namespace: pod.namespace.clone(),
            name: pod.name.clone(),
            change: Change::Delete { uid: pod.uid.clone() },
        }
    }

    /// Carries it out. Errors are logged here and become an outcome.
    pub(super) async fn send(self, client: Client, resource: ApiResource, uid: Arc<str>) -> Written {
        let Self { namespace, name, change } = self;
        let pods: Api<SlimPod> = Api::namespaced_with(client, &namespace, &resource);
        let request = async {
            match change {
                Change::Status { patch, hash } => pods
                    .patch_status(&name, &PatchParams::default(), &Patch::Strategic(patch))
                    .await
                    .map(|_| Outcome::Reported(hash)),
                Change::Delete { uid } => {
                    let preconditions = Preconditions { uid: Some(uid), ..Preconditions::default() };
                    let now = DeleteParams::default().grace_period(0).preconditions(preconditions);
                    pods.delete(&name, &now).await.map(|_| Outcome::Deleted)
                }
            }
        };
        let outcome = match tokio::time::timeout(LIMIT, request).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(kube::Error::Api(status))) if status.code == 404 => Outcome::NotThere,
            // Other writers were quicker, or another pod has the name now: then the watch ends the retries.
            Ok(Err(kube::Error::Api(status))) if status.code == 409 => {
                tracing::debug!(pod = %name, namespace = %namespace, %status, "a write of a simulated node met a conflict");
                Outcome::Failed
            }
            Ok(Err(error)) => {
                tracing::warn!(pod = %name, namespace = %namespace, %error, "a write of a simulated node failed; it is tried again");
                Outcome::Failed
            }
            Err(_) => {
                tracing::warn!(pod = %name, namespace = %namespace, "a write of a simulated node took too long; it is tried again");
                Outcome::Failed
            }
        };
        Written { uid, outcome }
    }
}
