//! Carrying out one action: one request, with its preconditions.

use addon_core::{
    Object, ObjectKey,
    plan::{Access, Action},
    schema::{Kind, kind_of},
};
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use kube::{
    Api, Client,
    api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions},
};
use serde_json::{Value, json};

use crate::{
    cache::from_dynamic,
    client::{CallError, api, timed},
    failure::Attempt,
};

/// What came of an action.
pub(crate) enum Outcome {
    /// The object as the API server stored it.
    Stored(Object),
    /// The object is gone, or goes.
    Deleted,
    /// The right is there.
    Confirmed,
    /// The right is not there yet.
    Unconfirmed,
}

/// Sends an action.
pub(crate) async fn send(client: &Client, manager: &str, action: &Action) -> Result<Outcome, CallError> {
    let target = action.target();
    match action {
        Action::Apply { body, force, .. } => {
            let params = PatchParams { force: *force, ..PatchParams::apply(manager) };
            patch(client, &target, &params, &Patch::Apply(body.value())).await
        }
        Action::RemoveItems { patch: operations, .. } => {
            let operations = serde_json::from_value(operations.clone()).map_err(kube::Error::SerdeError)?;
            let params = PatchParams { field_manager: Some(manager.to_owned()), ..PatchParams::default() };
            patch(client, &target, &params, &Patch::<Value>::Json(operations)).await
        }
        Action::Delete { uid, resource_version, .. } => {
            let preconditions =
                Preconditions { uid: Some(uid.clone()), resource_version: Some(resource_version.clone()) };
            let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::background() };
            let kind = kind(&target)?;
            match timed(api(client, kind, &target.namespace).delete(&target.name, &params)).await {
                Ok(_) => Ok(Outcome::Deleted),
                Err(CallError::Kube(kube::Error::Api(status))) if status.code == 404 => Ok(Outcome::Deleted),
                Err(error) => Err(error),
            }
        }
        Action::ConfirmAccess(access) => confirm(client, access).await,
    }
}

/// What an action attempts, to describe its failure.
pub(crate) fn attempt(action: &Action) -> Option<(Attempt<'static>, ObjectKey)> {
    let target = action.target();
    let verbs: &[&str] = match action {
        Action::Apply { .. } | Action::RemoveItems { .. } => &["patch", "create"],
        Action::Delete { .. } => &["delete"],
        Action::ConfirmAccess(_) => &["create"],
    };
    let kind = match action {
        Action::ConfirmAccess(_) => &REVIEW,
        _ => kind_of(&target.group, &target.kind)?,
    };
    Some((Attempt { verbs, kind, what: target.qualified_name() }, target))
}

const REVIEW: Kind = Kind {
    group: "authorization.k8s.io",
    version: "v1",
    kind: "SubjectAccessReview",
    plural: "subjectaccessreviews",
    namespaced: false,
};

async fn patch(
    client: &Client,
    target: &ObjectKey,
    params: &PatchParams,
    patch: &Patch<impl serde::Serialize + std::fmt::Debug>,
) -> Result<Outcome, CallError> {
    let kind = kind(target)?;
    let stored = timed(api(client, kind, &target.namespace).patch(&target.name, params, patch)).await?;
    from_dynamic(stored, kind).map(Outcome::Stored).ok_or_else(|| unknown(target))
}

/// Writes a resource's status.
pub(crate) async fn write_status(
    client: &Client,
    manager: &str,
    kind: &Kind,
    subject: &ObjectKey,
    status: &Value,
) -> Result<Object, CallError> {
    let body = json!({
        "apiVersion": crate::client::api_version(kind),
        "kind": kind.kind,
        "metadata": {"name": subject.name, "namespace": subject.namespace},
        "status": status,
    });
    let params = PatchParams::apply(manager).force();
    let call = api(client, kind, &subject.namespace);
    let stored = timed(call.patch_status(&subject.name, &params, &Patch::Apply(&body))).await?;
    from_dynamic(stored, kind).ok_or_else(|| unknown(subject))
}

/// Reads one object; `None` where there is none.
pub(crate) async fn get(client: &Client, key: &ObjectKey) -> Result<Option<Object>, CallError> {
    let kind = kind(key)?;
    let found = timed(api(client, kind, &key.namespace).get_opt(&key.name)).await?;
    Ok(found.and_then(|object| from_dynamic(object, kind)))
}

async fn confirm(client: &Client, access: &Access) -> Result<Outcome, CallError> {
    let attributes = ResourceAttributes {
        verb: Some(access.verb.clone()),
        group: Some(access.group.clone()),
        resource: Some(access.resource.clone()),
        ..ResourceAttributes::default()
    };
    let review = SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: Some(access.user()),
            resource_attributes: Some(attributes),
            ..SubjectAccessReviewSpec::default()
        },
        ..SubjectAccessReview::default()
    };
    let answer = timed(Api::all(client.clone()).create(&PostParams::default(), &review)).await?;
    let allowed = answer.status.is_some_and(|status| status.allowed);
    Ok(if allowed { Outcome::Confirmed } else { Outcome::Unconfirmed })
}

fn kind(key: &ObjectKey) -> Result<&'static Kind, CallError> {
    kind_of(&key.group, &key.kind).ok_or_else(|| unknown(key))
}

fn unknown(key: &ObjectKey) -> CallError {
    CallError::Kube(kube::Error::Discovery(kube::error::DiscoveryError::MissingKind(key.to_string())))
}
