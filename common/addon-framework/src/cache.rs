//! What the cluster looks like: one watch per kind, kept in memory, with our own writes put in at once.

use std::{
    collections::{BTreeMap, BTreeSet},
    convert::Infallible,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use addon_core::{
    Object, ObjectKey,
    addon::{Failure, Watch},
    schema::Kind,
};
use futures::{Stream, StreamExt, pin_mut};
use kube::{
    Client,
    api::DynamicObject,
    runtime::{WatchStreamExt, utils::Backoff as _, watcher, watcher::Event},
};
use tokio::{sync::Notify, time::sleep};

use crate::{
    backoff::Backoff,
    client::{CallError, api, api_version},
    failure::{Attempt, describe, is_definite},
};

/// The live objects of all watches.
#[derive(Debug, Default)]
pub(crate) struct Cache {
    state: Mutex<State>,
    changed: Notify,
    /// Whether a connection was lost since it was last asked.
    lost: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    objects: BTreeMap<ObjectKey, Arc<Object>>,
    /// Watches that have not seen everything yet, by group and kind.
    pending: BTreeSet<ObjectKey>,
    /// Watches that cannot be had, e.g. for want of a right.
    failures: BTreeMap<ObjectKey, Failure>,
}

/// What is watched where.
#[derive(Clone, Debug)]
pub(crate) struct Scope {
    pub(crate) kind: Kind,
    pub(crate) namespace: String,
    pub(crate) name: Option<&'static str>,
    pub(crate) keep: fn(&Object) -> bool,
}

impl Scope {
    /// The watch of an add-on, for an operator of this namespace.
    pub(crate) fn new(watch: &Watch, namespace: &str) -> Self {
        let namespace = if watch.kind.namespaced { namespace } else { "" };
        Self { kind: *watch.kind, namespace: namespace.into(), name: watch.name, keep: watch.keep }
    }

    /// Every object of a kind, in all namespaces.
    pub(crate) fn all(kind: Kind) -> Self {
        Self { kind, namespace: String::new(), name: None, keep: |_| true }
    }

    /// The key of the watch itself: an object without a name.
    fn key(&self) -> ObjectKey {
        ObjectKey::new(self.kind.group, self.kind.kind, &self.namespace, "")
    }

    fn holds(&self, key: &ObjectKey) -> bool {
        key.group == self.kind.group && key.kind == self.kind.kind
    }
}

impl Cache {
    /// Keeps `scope` up to date for as long as the future runs.
    pub(crate) async fn follow(&self, client: &Client, scope: Scope, streaming: bool) -> Infallible {
        let mut config = watcher::Config::default();
        if let Some(name) = scope.name {
            config = config.fields(&format!("metadata.name={name}"));
        }
        if streaming {
            config = config.streaming_lists();
        }
        let mut waits = Backoff::of_watches();
        loop {
            let api = api(client, &scope.kind, &scope.namespace);
            let events = watcher(api, config.clone()).backoff(Backoff::of_watches());
            self.take(&scope, events, &mut waits).await;
            sleep(waits.next().unwrap_or_default()).await;
        }
    }

    /// Takes events until one says that the watch cannot be had. A watch that is refused when it goes on would never say
    /// that it is allowed again; one that starts anew does.
    async fn take(
        &self,
        scope: &Scope,
        events: impl Stream<Item = watcher::Result<Event<DynamicObject>>>,
        waits: &mut Backoff,
    ) {
        pin_mut!(events);
        let mut listed = BTreeMap::new();
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Init) => listed.clear(),
                Ok(Event::InitApply(object)) => {
                    if let Some(object) = read(object, scope) {
                        listed.insert(object.key(), Arc::new(object));
                    }
                }
                Ok(Event::InitDone) => {
                    waits.reset();
                    self.replace(scope, std::mem::take(&mut listed));
                }
                Ok(Event::Apply(object)) => {
                    if let Some(object) = read(object, scope) {
                        self.record(object);
                    }
                }
                Ok(Event::Delete(object)) => {
                    if let Some(object) = read(object, scope) {
                        self.vanish(&object);
                    }
                }
                Err(error) => {
                    if self.fail(scope, error) {
                        return;
                    }
                }
            }
        }
    }

    /// Declares a watch before it starts, so that nothing is decided without it.
    pub(crate) fn expect(&self, scope: &Scope) {
        self.state().pending.insert(scope.key());
    }

    /// Puts an object in, be it from a watch or from the answer to a write, unless what is there is newer.
    pub(crate) fn record(&self, object: Object) {
        let mut state = self.state();
        let key = object.key();
        if state.objects.get(&key).is_none_or(|known| !is_older(&object, known)) {
            state.objects.insert(key, Arc::new(object));
            drop(state);
            self.changed.notify_one();
        }
    }

    /// Takes an object out that was deleted by us.
    pub(crate) fn forget(&self, key: &ObjectKey) {
        self.state().objects.remove(key);
    }

    /// Takes an object out that a watch says is gone, unless what is there is newer.
    fn vanish(&self, object: &Object) {
        let mut state = self.state();
        let key = object.key();
        if state.objects.get(&key).is_some_and(|known| !is_older(object, known)) {
            state.objects.remove(&key);
            drop(state);
            self.changed.notify_one();
        }
    }

    /// Resolves when something changed since the last call.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// What is known, or `None` until every watch has seen everything.
    pub(crate) fn objects(&self) -> Option<BTreeMap<ObjectKey, Arc<Object>>> {
        let state = self.state();
        state.pending.is_empty().then(|| state.objects.clone())
    }

    /// The objects of one kind, whatever else is known yet.
    pub(crate) fn of_kind(&self, kind: &Kind) -> Vec<Arc<Object>> {
        let state = self.state();
        let of_kind = state.objects.iter().filter(|(key, _)| key.group == kind.group && key.kind == kind.kind);
        of_kind.map(|(_, object)| object.clone()).collect()
    }

    /// Whether a connection was lost since the last call: the API server may be another one now.
    pub(crate) fn was_lost(&self) -> bool {
        self.lost.swap(false, Ordering::Relaxed)
    }

    /// The watches that cannot be had.
    pub(crate) fn failures(&self) -> BTreeMap<ObjectKey, Failure> {
        self.state().failures.clone()
    }

    fn replace(&self, scope: &Scope, listed: BTreeMap<ObjectKey, Arc<Object>>) {
        let mut state = self.state();
        state.objects.retain(|key, _| !scope.holds(key));
        state.objects.extend(listed);
        state.pending.remove(&scope.key());
        if state.failures.remove(&scope.key()).is_some() {
            tracing::info!(kind = scope.kind.kind, "watching again");
        }
        drop(state);
        self.changed.notify_one();
    }

    /// Notes an error. Returns whether asking again in the same way is of no use.
    fn fail(&self, scope: &Scope, error: watcher::Error) -> bool {
        self.lost.store(true, Ordering::Relaxed);
        let error = match error {
            watcher::Error::InitialListFailed(error)
            | watcher::Error::WatchStartFailed(error)
            | watcher::Error::WatchFailed(error) => CallError::Kube(error),
            watcher::Error::WatchError(status) => CallError::Kube(kube::Error::Api(status)),
            watcher::Error::NoResourceVersion => return false,
        };
        // Where everything of a namespace is watched there is no name to tell.
        let what = match (scope.namespace.as_str(), scope.name) {
            ("", name) => name.unwrap_or_default().to_owned(),
            (namespace, Some(name)) => format!("{namespace}/{name}"),
            (namespace, None) => format!("in namespace {namespace}"),
        };
        let what = if matches!(&error, CallError::Kube(kube::Error::Api(status)) if status.code == 404) {
            String::new()
        } else {
            what
        };
        let failure = describe(&error, &Attempt { verbs: &["list", "watch"], kind: &scope.kind, what });
        let mut state = self.state();
        // An expired watch and a lost connection are everyday; they heal by themselves, and nothing could be written.
        let known =
            is_definite(&error) && state.failures.insert(scope.key(), failure.clone()).as_ref() == Some(&failure);
        drop(state);
        if !known {
            tracing::warn!(kind = scope.kind.kind, "{}", failure.message);
            self.changed.notify_one();
        }
        is_definite(&error)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads what a watch gives; `None` for what is not kept.
fn read(object: DynamicObject, scope: &Scope) -> Option<Object> {
    let object = from_dynamic(object, &scope.kind)?;
    (scope.keep)(&object).then_some(object)
}

/// An object of a known kind; lists leave kind and version out of their items.
pub(crate) fn from_dynamic(object: DynamicObject, kind: &Kind) -> Option<Object> {
    let mut value = serde_json::to_value(object).ok()?;
    value["apiVersion"] = api_version(kind).into();
    value["kind"] = kind.kind.into();
    Object::new(value).ok()
}

/// Whether `object` was read before `known` was. Resource versions are numbers that grow (KEP-5504).
fn is_older(object: &Object, known: &Object) -> bool {
    match (object.resource_version().parse::<u64>(), known.resource_version().parse::<u64>()) {
        (Ok(ours), Ok(theirs)) => ours < theirs,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use addon_core::schema::kind_of;
    use serde_json::json;

    use super::*;

    fn service(version: &str) -> Object {
        let metadata = json!({"name": "dns", "namespace": "n", "resourceVersion": version});
        Object::new(json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata})).unwrap()
    }

    fn scope() -> Scope {
        Scope { kind: *kind_of("", "Service").unwrap(), namespace: "n".into(), name: None, keep: |_| true }
    }

    #[test]
    fn nothing_is_known_until_every_watch_has_seen_everything() {
        let cache = Cache::default();
        cache.expect(&scope());
        cache.record(service("1"));
        assert!(cache.objects().is_none());
        cache.replace(&scope(), BTreeMap::new());
        assert_eq!(cache.objects().map(|objects| objects.len()), Some(0), "a list replaces what was known");
    }

    #[test]
    fn an_older_event_does_not_undo_a_newer_write() {
        let cache = Cache::default();
        let version = |cache: &Cache| {
            let objects = cache.objects().unwrap();
            objects.values().next().map(|object| object.resource_version().to_owned())
        };
        cache.record(service("9"));
        cache.record(service("8"));
        cache.vanish(&service("8"));
        assert_eq!(version(&cache).as_deref(), Some("9"));
        cache.record(service("10"));
        assert_eq!(version(&cache).as_deref(), Some("10"));
        cache.vanish(&service("11"));
        assert_eq!(version(&cache), None);
    }
}
