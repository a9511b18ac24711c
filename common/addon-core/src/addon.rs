//! What an operator supplies, and what it decides from.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use k8s_openapi::jiff::Timestamp;

use crate::{
    api::Conflicts,
    finding::Finding,
    object::{Object, ObjectKey},
    package::Fields,
    path::FieldPath,
    schema::Kind,
    version::Version,
};

pub use crate::api::VersionStatus;

/// An add-on: pure functions over a snapshot.
pub trait Addon: Send + Sync {
    /// The add-on's name, e.g. `coredns`; also in label keys and in the name of the field manager.
    fn name(&self) -> &'static str;

    /// The kind of its resource in `addons.x-k8s.io`.
    fn resource(&self) -> Kind;

    /// What is watched besides the resource itself.
    fn watches(&self) -> Vec<Watch>;

    /// Objects outside the watches that are needed to decide, given what is known so far. Asked again until it names
    /// nothing new.
    fn lookups(&self, resource: &Object, observed: &Observed) -> Vec<ObjectKey>;

    /// The kinds, and the names where they are fixed, that [`Addon::lookups`] may name.
    fn looks_up(&self) -> Vec<(&'static Kind, Option<&'static str>)>;

    /// What should be, or the findings that say why nothing is done.
    fn desire(&self, resource: &Object, observed: &Observed) -> Desired;

    /// The field manager's name.
    fn field_manager(&self) -> String {
        format!("{}/{}", crate::api::GROUP, self.name())
    }
}

/// Objects of one kind that are watched.
#[derive(Clone, Debug)]
pub struct Watch {
    /// The kind.
    pub kind: &'static Kind,
    /// The one name that is watched; `None` for all of the namespace, or of the cluster.
    pub name: Option<&'static str>,
    /// What of the watched is kept in memory.
    pub keep: fn(&Object) -> bool,
}

/// A snapshot of all that a decision depends on.
#[derive(Clone, Debug)]
pub struct Observed {
    /// Version of the API server.
    pub kubernetes: Version,
    /// The namespace whose resources count, and in which the add-on lives.
    pub namespace: String,
    /// Every resource of the add-on's kind, in any namespace.
    pub resources: Vec<Arc<Object>>,
    /// What is watched.
    pub live: BTreeMap<ObjectKey, Arc<Object>>,
    /// What was looked up; `None` for what does not exist.
    pub lookups: BTreeMap<ObjectKey, Option<Object>>,
    /// What the API server made of earlier writes.
    pub answers: BTreeMap<ObjectKey, Answer>,
    /// Access that was confirmed, by [`crate::plan::Access`] id.
    pub confirmed: BTreeSet<String>,
    /// Requests that failed and were not made since with success.
    pub failures: BTreeMap<ObjectKey, Failure>,
    /// The time of the decision.
    pub now: Timestamp,
}

/// What the API server made of a write: the defaults and normal forms that no one outside can know.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The object that was sent.
    pub sent: Object,
    /// The fields that were sent, as the server gave them back.
    pub projection: serde_json::Value,
}

/// A request that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Reason in CamelCase.
    pub reason: String,
    /// What happened, and the remedy.
    pub message: String,
    /// Whether it is a failure to the user; a wait that is normal is none.
    pub is_error: bool,
}

impl Observed {
    /// The live object of this identity, watched or looked up.
    pub fn get(&self, key: &ObjectKey) -> Option<&Object> {
        match self.live.get(key) {
            Some(object) => Some(object),
            None => self.lookups.get(key)?.as_ref(),
        }
    }

    /// The live object of a core kind in the operator's namespace.
    pub fn core(&self, kind: &str, name: &str) -> Option<&Object> {
        self.get(&ObjectKey::new("", kind, &self.namespace, name))
    }
}

/// What should be.
#[derive(Clone, Debug, Default)]
pub struct Desired {
    /// Versions.
    pub version: VersionStatus,
    /// Digest of the package.
    pub package: Option<String>,
    /// The workloads whose health is the add-on's, known also where the rest is not.
    pub workloads: Vec<ObjectKey>,
    /// The objects.
    pub objects: Vec<DesiredObject>,
    /// The package's classes of fields.
    pub fields: Fields,
    /// What happens to fields of no class that someone else has set.
    pub conflicts: Conflicts,
    /// What is to be said. An error keeps everything from being written.
    pub findings: Vec<Finding>,
    /// When to look again although nothing that is watched changes, in seconds.
    pub again_in: Option<u32>,
}

/// An object that should be.
#[derive(Clone, Debug)]
pub struct DesiredObject {
    /// How the package's metadata names it: `Kind/name`.
    pub source: String,
    /// The object.
    pub object: Object,
    /// Fields that the user set in the resource: always enforced.
    pub asked: BTreeSet<FieldPath>,
    /// Whether the live object is left as it is until the user asks for a change.
    pub deferred: bool,
}
