//! What the APIs of all add-ons have in common: the fields of a spec, and the status.

use std::{borrow::Cow, collections::BTreeMap};

use k8s_openapi::{
    api::core::v1::{ResourceRequirements, Toleration},
    apimachinery::pkg::apis::meta::v1::Condition,
};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    catalog::{Catalog, Wanted},
    finding::Finding,
    object::ObjectKey,
    version::Version,
};

/// The API group of all add-ons.
pub const GROUP: &str = "addons.x-k8s.io";
/// The version of the API.
pub const API_VERSION: &str = "v1alpha1";

/// The fields that every add-on's spec has.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CommonSpec {
    /// Version to run, e.g. `1.14.7`. With neither `version` nor `channel`: what the catalogue recommends for this
    /// cluster; an installation that was taken over keeps its version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub version: Option<String>,
    /// Channel to follow in place of a version: `stable` is what the catalogue recommends for this cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub channel: Option<String>,
    /// Where images come from, for mirrors and private builds. The version stays what `version` says.
    #[serde(default, skip_serializing_if = "Images::is_default")]
    pub images: Images,
    /// Patches on the rendered objects, applied in order. Each is `{target, patch}`, with a strategic merge patch or a
    /// list of JSON patch operations, or a partial object. A patch that matches nothing is an error.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "free_form_objects", length(max = 64))]
    pub patches: Vec<Value>,
    /// What happens to fields that someone else has set: `Fail` reports them and writes nothing, `Preserve` leaves
    /// them, `Overwrite` takes them. Fields that the add-on depends on are always repaired, and resources, replicas and
    /// tolerations are always left to whoever changed them.
    #[serde(default, skip_serializing_if = "Conflicts::is_default")]
    pub conflicts: Conflicts,
    /// Labels for the workload and its pods.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Annotations for the workload and its pods.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Nodes to run on, in addition to `kubernetes.io/os: linux`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub node_selector: BTreeMap<String, String>,
    /// Tolerations of the pods, in place of the package's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tolerations: Option<Vec<Toleration>>,
    /// Requests and limits of the main container, in place of the package's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceRequirements>,
    /// Priority class of the pods, in place of the package's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority_class_name: Option<String>,
    /// Further arguments of the main container, for what no field covers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub extra_args: Vec<String>,
}

/// Where images come from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Images {
    /// Registry, with or without a path, in place of the upstream one; the rest of the name stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registry: Option<String>,
    /// Whole repository, in place of the upstream one and of `registry`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository: Option<String>,
    /// Tag, in place of the version's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// Digest, e.g. `sha256:...`, in addition to the tag.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// Names of Secrets for pulling.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pull_secrets: Vec<String>,
    /// Pull policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pull_policy: Option<PullPolicy>,
}

/// When an image is pulled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PullPolicy {
    /// At every start.
    Always,
    /// Where the node does not have it.
    IfNotPresent,
    /// Never.
    Never,
}

/// What happens to fields that someone else has set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Conflicts {
    /// Report them and write nothing.
    #[default]
    Fail,
    /// Leave them.
    Preserve,
    /// Take them.
    Overwrite,
}

impl Images {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// The image to run for a version.
    pub fn reference(&self, catalog: &Catalog, version: &Version) -> String {
        let repository: Cow<'_, str> = match (&self.repository, &self.registry) {
            (Some(repository), _) => repository.into(),
            (None, Some(registry)) => {
                let path = catalog.image.split_once('/').map_or(catalog.image.as_str(), |(_, path)| path);
                format!("{}/{path}", registry.trim_end_matches('/')).into()
            }
            (None, None) => catalog.image.as_str().into(),
        };
        // A vendor's `+` may stand in a version, never in a tag.
        let tag = self.tag.clone().unwrap_or_else(|| format!("{}{version}", catalog.tag_prefix).replace('+', "-"));
        match &self.digest {
            Some(digest) => format!("{repository}:{tag}@{digest}"),
            None => format!("{repository}:{tag}"),
        }
    }
}

impl Conflicts {
    #[allow(clippy::trivially_copy_pass_by_ref)] // the shape that serde asks for
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl CommonSpec {
    /// Whether the spec says which version is to run.
    pub fn asks_version(&self) -> bool {
        self.version.is_some() || self.channel.is_some()
    }

    /// The version that is asked for.
    pub fn wanted(&self) -> Result<Wanted<'_>, Box<Finding>> {
        match (&self.version, &self.channel) {
            (Some(_), Some(_)) => Err(Box::new(
                Finding::error("VersionAndChannel", "both a version and a channel are set")
                    .field(".spec.channel")
                    .remedy("keep one of the two"),
            )),
            (Some(version), None) => Ok(Wanted::Exact(version)),
            (None, Some(channel)) => Ok(Wanted::Channel(channel)),
            (None, None) => Ok(Wanted::Recommended),
        }
    }
}

fn free_form_objects(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "array", "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}})
}

/// The status of every add-on. Bounded in size, whatever the size of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AddonStatus {
    /// The generation of the spec that this status is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Whether the add-on serves and nothing is wrong.
    pub healthy: bool,
    /// `Current`, `InProgress` or `Failed`.
    pub phase: String,
    /// What keeps the spec from being carried out, one line each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<String>,
    /// Available, Progressing, Degraded, Upgradeable, Reconciling, Stalled.
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// Versions.
    pub version: VersionStatus,
    /// Digest of the package that is applied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub package: Option<String>,
    /// What was found, errors first; at most 20.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Finding>,
    /// The objects of the add-on.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub related_objects: Vec<ObjectKey>,
}

/// The versions of an add-on in a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VersionStatus {
    /// What should run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub desired: Option<String>,
    /// What the live workload asks for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current: Option<String>,
    /// What the catalogue recommends for this cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recommended: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registry_repository_tag_and_digest_are_levels_of_their_own() {
        let catalog = Catalog::from_yaml(
            "addon: dns\nimage: registry.k8s.io/coredns/coredns\ntagPrefix: v\nkubernetes: {}\nversions: []\n",
        )
        .unwrap();
        let image = |images: Images, version: &str| images.reference(&catalog, &version.parse().unwrap());
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(image(Images::default(), "1.12.1"), "registry.k8s.io/coredns/coredns:v1.12.1");
        let registry = Images { registry: some("mirror:5000/k8s/"), ..Images::default() };
        assert_eq!(image(registry.clone(), "1.12.1"), "mirror:5000/k8s/coredns/coredns:v1.12.1");
        let repository = Images { repository: some("mirror/dns"), digest: some("sha256:a"), ..registry };
        assert_eq!(image(repository, "1.12.1"), "mirror/dns:v1.12.1@sha256:a");
        let tag = Images { tag: some("1.12.1-own"), ..Images::default() };
        assert_eq!(image(tag, "1.12.1"), "registry.k8s.io/coredns/coredns:1.12.1-own");
        assert_eq!(image(Images::default(), "1.12.1+x1"), "registry.k8s.io/coredns/coredns:v1.12.1-x1");
    }
}
