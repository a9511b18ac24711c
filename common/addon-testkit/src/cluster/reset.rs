//! Brings a shared cluster back to how it was right after its start, whatever tests made in it.
//!
//! Every listable kind is looked at, also those that a test brought along, so no list of kinds has to be kept up to date.
//! What was there after the start stays, by name; what Kubernetes itself adds later stays by rule. Objects that were there
//! from the start and were *changed* are not repaired: a test must not edit what belongs to the control plane.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::{
    core::v1::{Namespace, NamespaceSpec},
    rbac::v1::{ClusterRoleBinding, RoleBinding, Subject},
};
use kube::{
    Api, Client, Discovery, ResourceExt as _,
    api::{ApiResource, DeleteParams, DynamicObject, ListParams, PartialObjectMeta, Patch, PatchParams, PostParams},
    core::discovery::{Scope, verbs},
};
use serde_json::json;

use super::{TestCluster, error::ClusterError};

/// A reset takes well under a second; a namespace that hangs is an error worth reading.
const PATIENCE: Duration = Duration::from_mins(1);

const POLL: Duration = Duration::from_millis(50);

/// So long an object may take to go before its finalizers are taken off: nobody is left who would do it.
const FINALIZER_PATIENCE: Duration = Duration::from_millis(500);

const PARALLEL: usize = 8;

/// Kinds that the caller keeps (nodes, by name and their companions), or that are no state (events).
const KEPT_RESOURCES: &[&str] = &["nodes", "csinodes", "events", "componentstatuses"];

/// Kinds that follow other objects and go with them: waited for, never deleted.
const FOLLOWING_RESOURCES: &[&str] = &["ipaddresses"];

/// Namespaces that the API server makes, sometimes after it is ready.
const KEPT_NAMESPACES: &[&str] = &["default", "kube-system", "kube-public", "kube-node-lease"];

/// These decide about requests; they go first, or they may refuse the rest.
const ADMISSION_GROUP: &str = "admissionregistration.k8s.io";

/// One object: resource with its group, namespace, name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    resource: String,
    namespace: Option<String>,
    name: String,
}

impl std::fmt::Display for Key {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(formatter, "{} {namespace}/{}", self.resource, self.name),
            None => write!(formatter, "{} {}", self.resource, self.name),
        }
    }
}

/// What was there right after the start.
pub(super) struct Baseline {
    objects: BTreeSet<Key>,
}

struct Found {
    key: Key,
    resource: ApiResource,
    namespaced: bool,
    object: PartialObjectMeta<DynamicObject>,
}

impl Baseline {
    pub(super) async fn record(client: &Client) -> Result<Self, ClusterError> {
        let mut objects: BTreeSet<Key> = list_everything(client).await?.into_iter().map(|found| found.key).collect();
        // kube-controller-manager makes the accounts of its controllers one by one, as they start. Its bindings name all
        // of them from the beginning.
        let roles: Api<RoleBinding> = Api::all(client.clone());
        let cluster_roles: Api<ClusterRoleBinding> = Api::all(client.clone());
        let failed = || ClusterError::request("listing role bindings");
        let mut subjects = Vec::<Subject>::new();
        for binding in roles.list(&ListParams::default()).await.map_err(failed())? {
            subjects.extend(binding.subjects.unwrap_or_default());
        }
        for binding in cluster_roles.list(&ListParams::default()).await.map_err(failed())? {
            subjects.extend(binding.subjects.unwrap_or_default());
        }
        objects.extend(subjects.into_iter().filter(|subject| subject.kind == "ServiceAccount").map(|subject| Key {
            resource: "serviceaccounts".to_owned(),
            namespace: subject.namespace,
            name: subject.name,
        }));
        Ok(Self { objects })
    }

    fn keeps(&self, found: &Found) -> bool {
        let Key { resource, namespace, name } = &found.key;
        let in_kept_namespace = || namespace.as_deref().is_none_or(|namespace| KEPT_NAMESPACES.contains(&namespace));
        KEPT_RESOURCES.contains(&found.resource.plural.as_str())
            || self.objects.contains(&found.key)
            || match resource.as_str() {
                "namespaces" => KEPT_NAMESPACES.contains(&name.as_str()),
                "serviceaccounts" => name == "default" && in_kept_namespace(),
                "configmaps" => {
                    (name == "kube-root-ca.crt" && in_kept_namespace())
                        || name == "kube-apiserver-legacy-service-account-token-tracking"
                }
                // Heartbeats of nodes, and the API server's own identity.
                "leases.coordination.k8s.io" => {
                    namespace.as_deref() == Some("kube-node-lease") || name.starts_with("apiserver-")
                }
                _ => false,
            }
    }
}

impl TestCluster {
    /// Deletes what tests made, everywhere, and returns once it is gone: workloads, pods (at once), configuration, RBAC
    /// objects, custom resources and their definitions, namespaces. Nodes stay. Finalizers that nobody handles are taken
    /// off. What was there right after the start stays as it is now.
    pub async fn reset(&self) -> Result<(), ClusterError> {
        let client = self.client();
        let start = Instant::now();
        let mut clean_before = true;
        loop {
            let found = list_everything(&client).await?;
            let left: Vec<Found> = found.into_iter().filter(|found| !self.baseline.keeps(found)).collect();
            if left.is_empty() {
                // Controllers may make one more object from what they saw before: look twice if there was something.
                if clean_before {
                    return Ok(());
                }
                clean_before = true;
            } else {
                clean_before = false;
                if start.elapsed() > PATIENCE {
                    let left = left.iter().map(|found| found.key.to_string()).collect::<Vec<_>>().join(", ");
                    return Err(ClusterError::NotPristine { seconds: PATIENCE.as_secs(), left });
                }
                let (first, rest): (Vec<_>, Vec<_>) =
                    left.into_iter().partition(|found| found.resource.group == ADMISSION_GROUP);
                let unhandled = start.elapsed() > FINALIZER_PATIENCE;
                // Those that have to wait: namespaces and definitions that still have objects.
                let objects = || rest.iter().map(|found| &found.key);
                let occupied: BTreeSet<String> = objects()
                    .filter_map(|key| key.namespace.clone())
                    .chain(objects().map(|key| key.resource.clone()))
                    .collect();
                for objects in [first, rest] {
                    stream::iter(objects)
                        .map(|found| remove(&client, found, unhandled, &occupied))
                        .buffer_unordered(PARALLEL)
                        .try_collect::<()>()
                        .await?;
                }
            }
            tokio::time::sleep(POLL).await;
        }
    }
}

async fn list_everything(client: &Client) -> Result<Vec<Found>, ClusterError> {
    let discovery =
        Discovery::new(client.clone()).run_aggregated().await.map_err(ClusterError::request("discovering kinds"))?;
    let resources: Vec<_> = discovery
        .groups()
        .flat_map(kube::discovery::ApiGroup::resources_by_stability)
        .filter(|(_, capabilities)| {
            capabilities.supports_operation(verbs::LIST) && capabilities.supports_operation(verbs::DELETE)
        })
        .map(|(resource, capabilities)| (resource, capabilities.scope == Scope::Namespaced))
        .collect();
    stream::iter(resources)
        .map(|(resource, namespaced)| list(client, resource, namespaced))
        .buffer_unordered(PARALLEL)
        .try_concat()
        .await
}

async fn list(client: &Client, resource: ApiResource, namespaced: bool) -> Result<Vec<Found>, ClusterError> {
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let objects = match api.list_metadata(&ListParams::default()).await {
        Ok(objects) => objects.items,
        // Its definition has just been deleted.
        Err(kube::Error::Api(status)) if status.code == 404 => Vec::new(),
        Err(error) => return Err(ClusterError::request(format!("listing {}", resource.plural))(error)),
    };
    let plural = match resource.group.as_str() {
        "" => resource.plural.clone(),
        group => format!("{}.{group}", resource.plural),
    };
    let found = |object: PartialObjectMeta<DynamicObject>| Found {
        key: Key { resource: plural.clone(), namespace: object.namespace(), name: object.name_any() },
        resource: resource.clone(),
        namespaced,
        object,
    };
    Ok(objects.into_iter().map(found).collect())
}

/// Deletes one object; takes its finalizers off if it was told to go before and `unhandled` says that nobody cares.
async fn remove(
    client: &Client,
    found: Found,
    unhandled: bool,
    occupied: &BTreeSet<String>,
) -> Result<(), ClusterError> {
    let Found { key, resource, namespaced, object } = found;
    let follows = FOLLOWING_RESOURCES.contains(&resource.plural.as_str())
        || object.labels().contains_key("kube-aggregator.kubernetes.io/automanaged");
    if follows {
        return Ok(());
    }
    let api: Api<DynamicObject> = match object.namespace() {
        Some(namespace) if namespaced => Api::namespaced_with(client.clone(), &namespace, &resource),
        _ => Api::all_with(client.clone(), &resource),
    };
    let going = object.metadata.deletion_timestamp.is_some();
    let waits = occupied.contains(&key.name);
    let result = if waits && (is_definition(&resource) || (going && resource.plural == "namespaces")) {
        // The API server looks only every five seconds whether the objects of a definition that goes are gone, so they
        // go first. Objects of a namespace go best when nothing can be made in it any more, so it is told first.
        Ok(())
    } else if going && resource.plural == "namespaces" {
        finalize(client, &key.name).await
    } else if going && unhandled && !object.finalizers().is_empty() && !is_definition(&resource) {
        let patch = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
        api.patch_metadata(&key.name, &PatchParams::default(), &patch).await.map(drop)
    } else if going && resource.plural != "pods" {
        Ok(())
    } else {
        api.delete(&key.name, &DeleteParams::background().grace_period(0)).await.map(drop)
    };
    match result {
        // Gone already; changed in this moment by somebody else; or refused by admission rules that are themselves on
        // their way out. The next round sees it again, and what never goes is named in the end.
        Err(kube::Error::Api(status)) => {
            tracing::debug!(%key, code = status.code, message = %status.message, "not removed yet");
            Ok(())
        }
        other => other.map_err(ClusterError::request(format!("removing {key}"))),
    }
}

/// Ends a namespace that is empty and going. Its controller would do the same, but only five seconds later: it waits for
/// API servers that may not know yet, and here is only one.
async fn finalize(client: &Client, name: &str) -> Result<(), kube::Error> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let mut namespace = namespaces.get(name).await?;
    namespace.spec = Some(NamespaceSpec { finalizers: Some(Vec::new()) });
    namespaces.replace_subresource("finalize", name, &PostParams::default(), &namespace).await.map(drop)
}

/// The finalizer of a definition is handled by the API server: without it, custom resources would stay in etcd.
fn is_definition(resource: &ApiResource) -> bool {
    resource.plural == "customresourcedefinitions"
}
