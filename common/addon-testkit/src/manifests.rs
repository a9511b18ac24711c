//! Applying manifests as a person would with `kubectl apply --server-side`.

use std::time::Duration;

use anyhow::{Context as _, Result};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, Patch, PatchParams},
    core::GroupVersionKind,
    discovery::{Scope, pinned_kind},
    runtime::{conditions, wait::await_condition},
};

/// The field manager of whoever sets up a test.
const MANAGER: &str = "addon-testkit";
/// How long a CustomResourceDefinition may take until it is served.
const ESTABLISHED: Duration = Duration::from_secs(30);

/// Applies every document of a YAML text, in order, and waits until CustomResourceDefinitions are served.
pub async fn apply(client: &Client, yaml: &str) -> Result<Vec<DynamicObject>> {
    let documents: Vec<DynamicObject> = serde_saphyr::from_multiple(yaml).context("the manifests are no objects")?;
    let mut applied = Vec::new();
    for object in documents {
        let name = object.metadata.name.clone().context("a manifest has no name")?;
        let api = api_of(client, &object).await?;
        let params = PatchParams::apply(MANAGER).force();
        let stored =
            api.patch(&name, &params, &Patch::Apply(&object)).await.with_context(|| format!("applying {name}"))?;
        if stored.types.as_ref().is_some_and(|types| types.kind == "CustomResourceDefinition") {
            established(client, &name).await?;
        }
        applied.push(stored);
    }
    Ok(applied)
}

/// The API that an object belongs to.
pub async fn api_of(client: &Client, object: &DynamicObject) -> Result<Api<DynamicObject>> {
    let types = object.types.as_ref().context("a manifest has no kind")?;
    let gvk = GroupVersionKind::try_from(types).context("a manifest's apiVersion is none")?;
    let (resource, capabilities) =
        pinned_kind(client, &gvk).await.with_context(|| format!("{} is not served", types.kind))?;
    Ok(match (&capabilities.scope, &object.metadata.namespace) {
        (Scope::Namespaced, Some(namespace)) => Api::namespaced_with(client.clone(), namespace, &resource),
        (Scope::Namespaced, None) => Api::default_namespaced_with(client.clone(), &resource),
        (Scope::Cluster, _) => Api::all_with(client.clone(), &resource),
    })
}

/// A kind of our own API group, for reading its resources without a Rust type.
pub fn addon_resource(kind: &str, plural: &str) -> ApiResource {
    ApiResource {
        group: "addons.x-k8s.io".into(),
        version: "v1alpha1".into(),
        api_version: "addons.x-k8s.io/v1alpha1".into(),
        kind: kind.into(),
        plural: plural.into(),
    }
}

async fn established(client: &Client, name: &str) -> Result<()> {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let established = await_condition(definitions, name, conditions::is_crd_established());
    tokio::time::timeout(ESTABLISHED, established).await.with_context(|| format!("{name} is not served in time"))??;
    Ok(())
}
