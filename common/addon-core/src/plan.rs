//! The plan: what has to be written, in which order, and why. The same data is shown to people, approved by CI and
//! carried out by the controller.

mod object;
mod waves;

#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    addon::{Addon, Desired, Observed},
    api::VersionStatus,
    check,
    fields::FieldChange,
    finding::Finding,
    object::{Object, ObjectKey},
    status,
};

/// Everything that has to be done for one resource, and the status to write.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    /// The resource.
    pub subject: ObjectKey,
    /// Versions.
    pub version: VersionStatus,
    /// Digest of the package.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub package: Option<String>,
    /// What to write. A wave starts when the one before is done; then the plan is made anew.
    pub waves: Vec<Wave>,
    /// What is to be said; an error means that nothing is written.
    pub findings: Vec<Finding>,
    /// The status to write; absent where the stored one is right.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<Value>,
    /// When to plan again although nothing happened, in seconds from now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub again_in: Option<u32>,
}

/// Actions that do not depend on each other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Wave {
    /// What the wave is for.
    pub name: String,
    /// The actions, in a fixed order.
    pub actions: Vec<Action>,
}

/// One API request. Every action may be stopped before or after, and be planned anew.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "action", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Action {
    /// A server-side apply.
    Apply {
        /// The object.
        target: ObjectKey,
        /// What is sent; carries the uid of the object that was seen, so that a new one of the same name is refused.
        body: Object,
        /// Whether fields are taken from other owners; then the body carries the resource version that was seen.
        force: bool,
        /// What changes.
        changes: Vec<FieldChange>,
    },
    /// Removes items that do not belong into a list of ours, by a JSON patch that tests what it removes. Where none of
    /// ours is there, it puts them in at once.
    RemoveItems {
        /// The object.
        target: ObjectKey,
        /// JSON patch operations.
        patch: Value,
        /// What goes, and whose it was.
        changes: Vec<FieldChange>,
    },
    /// Asks the API server whether a ServiceAccount has a right, before pods that need it start.
    ConfirmAccess(Access),
    /// Deletes an object.
    Delete {
        /// The object.
        target: ObjectKey,
        /// The uid that was seen: a precondition.
        uid: String,
        /// The resource version that was seen: a precondition.
        resource_version: String,
    },
}

/// A right that pods need.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Access {
    /// Namespace of the ServiceAccount.
    pub namespace: String,
    /// Name of the ServiceAccount.
    pub service_account: String,
    /// Verb.
    pub verb: String,
    /// API group.
    pub group: String,
    /// Resource, in the plural.
    pub resource: String,
    /// The role that grants it, and its resource version.
    pub role: String,
}

impl Access {
    /// The user name of the ServiceAccount.
    pub fn user(&self) -> String {
        format!("system:serviceaccount:{}:{}", self.namespace, self.service_account)
    }

    /// What a confirmation is remembered by: another version of the role is to be confirmed anew.
    pub fn id(&self) -> String {
        format!("{} {} {}.{} {}", self.user(), self.verb, self.resource, self.group, self.role)
    }

    /// What a failure to confirm is remembered by.
    pub fn key(&self) -> ObjectKey {
        ObjectKey::new("", "ServiceAccount", &self.namespace, &self.service_account)
    }
}

impl Action {
    /// The object that the action is about.
    pub fn target(&self) -> ObjectKey {
        match self {
            Self::Apply { target, .. } | Self::RemoveItems { target, .. } | Self::Delete { target, .. } => {
                target.clone()
            }
            Self::ConfirmAccess(access) => access.key(),
        }
    }
}

/// Plans for every resource of the add-on that is in the cluster: the oldest in the namespace that counts gets its
/// add-on, the others are told why not.
pub fn plan_all(addon: &dyn Addon, observed: &Observed) -> Vec<Plan> {
    let elected = elect(observed);
    let plans = observed.resources.iter().map(|resource| {
        if resource.namespace() != observed.namespace {
            let finding = Finding::error(
                "WrongNamespace",
                format!(
                    "only resources in namespace {} count, since whoever writes one controls every node",
                    observed.namespace
                ),
            )
            .remedy(format!("create it in {}, or start the operator with --namespace", observed.namespace));
            refuse(resource, observed, finding)
        } else if elected.is_some_and(|elected| elected.uid() != resource.uid()) {
            let winner = elected.map(Object::name).unwrap_or_default();
            let finding = Finding::error("Superseded", format!("{winner} is older and defines the same add-on"))
                .remedy(format!("delete this one, or {winner}"));
            refuse(resource, observed, finding)
        } else {
            plan(addon, resource, observed)
        }
    });
    plans.collect()
}

/// Plans for the time when what is known is incomplete: nothing is written but the reason.
pub fn hold_all(observed: &Observed) -> Vec<Plan> {
    let failures = observed.failures.iter().filter(|(key, _)| key.name.is_empty());
    let findings: Vec<_> = failures.map(|(_, failure)| Finding::error(&failure.reason, &failure.message)).collect();
    let elected = elect(observed).into_iter();
    let hold = |resource| {
        conclude(resource, observed, Desired { findings: findings.clone(), ..Desired::default() }, Vec::new())
    };
    elected.map(hold).collect()
}

/// The resource that counts: the oldest in the namespace; of one age, the one with the lower uid.
pub fn elect(observed: &Observed) -> Option<&Object> {
    observed
        .resources
        .iter()
        .filter(|resource| resource.namespace() == observed.namespace)
        .min_by_key(|resource| (resource.text("/metadata/creationTimestamp"), resource.uid()))
        .map(AsRef::as_ref)
}

fn refuse(resource: &Object, observed: &Observed, finding: Finding) -> Plan {
    let desired = Desired { findings: vec![finding], ..Desired::default() };
    conclude(resource, observed, desired, Vec::new())
}

/// The plan for one resource.
pub fn plan(addon: &dyn Addon, resource: &Object, observed: &Observed) -> Plan {
    let mut desired = addon.desire(resource, observed);
    let set: Vec<Object> = desired.objects.iter().map(|desired| desired.object.clone()).collect();
    desired.findings.extend(check::service_accounts(&set));
    let manager = addon.field_manager();
    let mut actions = Vec::new();
    for object in desired.objects.iter().filter(|object| !object.deferred) {
        match object::plan(object, &desired, observed, &manager) {
            Ok(action) => actions.extend(action),
            Err(findings) => desired.findings.extend(findings),
        }
    }
    let blocked = desired.findings.iter().any(Finding::is_error);
    let waves = if blocked { Vec::new() } else { waves::arrange(actions, addon.name(), &desired, observed) };
    conclude(resource, observed, desired, waves)
}

fn conclude(resource: &Object, observed: &Observed, mut desired: Desired, waves: Vec<Wave>) -> Plan {
    desired.findings.sort();
    desired.findings.dedup();
    let applying = waves.first().map(|wave| wave.name.as_str()).filter(|name| *name != waves::CLEAN_UP);
    let (status, again_in) = status::status(resource, observed, &desired, applying);
    Plan {
        subject: resource.key(),
        version: desired.version,
        package: desired.package,
        waves,
        findings: desired.findings,
        status,
        again_in: [again_in, desired.again_in].into_iter().flatten().min(),
    }
}
