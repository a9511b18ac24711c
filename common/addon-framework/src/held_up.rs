//! Objects whose last request failed: why, and when each is tried again.

use std::collections::{BTreeMap, BTreeSet};

use addon_core::{ObjectKey, addon::Failure};
use tokio::time::Instant;

use crate::backoff::Backoff;

/// Every object that is held up. The longer a failure lasts, the longer the waits between two tries.
#[derive(Debug, Default)]
pub(crate) struct HeldUp(BTreeMap<ObjectKey, Entry>);

#[derive(Debug)]
struct Entry {
    failure: Failure,
    backoff: Backoff,
    until: Instant,
}

impl HeldUp {
    /// Notes a failure. `backoff` is that of a first failure.
    pub(crate) fn note(&mut self, key: ObjectKey, failure: Failure, backoff: Backoff) {
        let known = self.0.remove(&key);
        if failure.is_error && known.as_ref().is_none_or(|known| known.failure != failure) {
            tracing::warn!(object = %key, reason = failure.reason, "{}", failure.message);
        }
        let mut backoff = known.map_or(backoff, |known| known.backoff);
        let until = Instant::now() + backoff.next().unwrap_or_default();
        self.0.insert(key, Entry { failure, backoff, until });
    }

    /// Notes a success.
    pub(crate) fn clear(&mut self, key: &ObjectKey) {
        self.0.remove(key);
    }

    /// Whether it is too early for another try at that time.
    pub(crate) fn is_waiting(&self, key: &ObjectKey, now: Instant) -> bool {
        self.0.get(key).is_some_and(|entry| entry.until > now)
    }

    /// Forgets what no one wants any more: nothing would ever clear it, nor could it become due.
    pub(crate) fn retain(&mut self, wanted: &BTreeSet<ObjectKey>) {
        self.0.retain(|key, _| wanted.contains(key));
    }

    /// When the next object may be tried that could not at that time. What could and was not waits for others.
    pub(crate) fn next_after(&self, now: Instant) -> Option<Instant> {
        self.0.values().map(|entry| entry.until).filter(|until| *until > now).min()
    }

    /// The failures.
    pub(crate) fn failures(&self) -> impl Iterator<Item = (ObjectKey, Failure)> {
        self.0.iter().map(|(key, entry)| (key.clone(), entry.failure.clone()))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn key(name: &str) -> ObjectKey {
        ObjectKey::new("", "ConfigMap", "n", name)
    }

    fn failed(held_up: &mut HeldUp, name: &str) {
        let failure = Failure { reason: "Invalid".into(), message: "no".into(), is_error: true };
        held_up.note(key(name), failure, Backoff::new(Duration::from_secs(1), Duration::from_secs(4)));
    }

    #[tokio::test(start_paused = true)]
    async fn each_object_waits_for_itself_and_longer_each_time() {
        let mut held_up = HeldUp::default();
        failed(&mut held_up, "a");
        let now = Instant::now();
        assert!(held_up.is_waiting(&key("a"), now) && !held_up.is_waiting(&key("b"), now));
        let first = held_up.next_after(now).unwrap() - now;
        tokio::time::advance(first).await;
        let now = Instant::now();
        assert!(!held_up.is_waiting(&key("a"), now));
        assert_eq!(held_up.next_after(now), None, "what is due and not done waits for others: no wake-up by itself");
        failed(&mut held_up, "a");
        assert!(held_up.next_after(now).unwrap() - now > first);
        held_up.clear(&key("a"));
        assert_eq!(held_up.next_after(now), None);
    }

    #[tokio::test(start_paused = true)]
    async fn an_object_that_no_one_wants_any_more_wakes_no_one() {
        let mut held_up = HeldUp::default();
        failed(&mut held_up, "old");
        failed(&mut held_up, "new");
        held_up.retain(&[key("new")].into());
        assert_eq!(held_up.failures().map(|(key, _)| key.name).collect::<Vec<_>>(), ["new"]);
        held_up.retain(&BTreeSet::new());
        assert_eq!(held_up.next_after(Instant::now()), None);
    }
}
