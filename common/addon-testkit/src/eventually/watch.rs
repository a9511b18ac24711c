//! Waiting for one object by a watch: no polling, and no state between two polls is missed.

use std::fmt::Debug;
use std::time::Duration;

use anyhow::bail;
use futures::StreamExt;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use super::dump;
use crate::nodes::backoff::Quick;

/// What the watch and the error need of a kind.
pub trait Watchable: Resource + Clone + Debug + DeserializeOwned + Serialize + Send + 'static {}

impl<K: Resource + Clone + Debug + DeserializeOwned + Serialize + Send + 'static> Watchable for K {}

/// Waits until the object is there and the condition holds; returns the object in that state. The error shows the object as last seen.
///
/// Several quick changes may still be seen as one, and the first state seen is the one at the time of the call.
pub async fn wait_for<K: Watchable>(
    api: Api<K>,
    name: &str,
    what: &str,
    timeout: Duration,
    mut holds: impl FnMut(&K) -> bool,
) -> anyhow::Result<K> {
    let seen = follow(api, name, what, timeout, |object| object.is_some_and(&mut holds)).await?;
    seen.ok_or_else(|| anyhow::anyhow!("{name} is gone"))
}

/// Waits until the object is not there.
pub async fn wait_until_gone<K: Watchable>(api: Api<K>, name: &str, timeout: Duration) -> anyhow::Result<()> {
    follow(api, name, &format!("{name} is gone"), timeout, |object| object.is_none()).await?;
    Ok(())
}

async fn follow<K: Watchable>(
    api: Api<K>,
    name: &str,
    what: &str,
    timeout: Duration,
    mut holds: impl FnMut(Option<&K>) -> bool,
) -> anyhow::Result<Option<K>> {
    let deadline = Instant::now() + timeout;
    let mut changes = watcher::watch_object(api, name).backoff(Quick::default()).boxed();
    let mut last: Option<Option<K>> = None;
    let mut trouble = None;
    while let Ok(change) = tokio::time::timeout_at(deadline, changes.next()).await {
        match change {
            Some(Ok(object)) if holds(object.as_ref()) => return Ok(object),
            Some(Ok(object)) => (last, trouble) = (Some(object), None),
            Some(Err(error)) => trouble = Some(error.to_string()),
            None => break,
        }
    }
    let seen = match &last {
        Some(Some(object)) => dump::yaml(object),
        Some(None) => format!("{name} is not there"),
        None => "nothing: the watch did not answer".to_owned(),
    };
    let trouble = trouble.map(|error| format!("\nthe watch: {error}")).unwrap_or_default();
    bail!("not within {timeout:?}: {what}\nseen last: {seen}{trouble}")
}
