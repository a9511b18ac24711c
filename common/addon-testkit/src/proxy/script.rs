//! What the proxy shall do to the traffic: rules, a count of writes, and one gate that can be shut.
//!
//! Every request passes through the same three places: before it is forwarded (rules: fail, delay), after the answer to
//! a write was received (the count, which may shut the gate), and with every piece of an answer (the gate). Answers that
//! are stale and watch events that are dropped are further faults: a `Fault` for the first place, or for the third.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use http::StatusCode;
use tokio::sync::watch;

use super::Asked;

type Predicate = Arc<dyn Fn(&Asked) -> bool + Send + Sync>;

/// What happens to a request that a rule matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// It is answered with this status and never forwarded.
    Fail(StatusCode),
    /// It is forwarded later.
    Delay(Duration),
}

#[derive(Clone)]
struct Rule {
    matches: Predicate,
    fault: Fault,
}

#[derive(Default)]
pub(super) struct Script {
    rules: Mutex<Vec<Rule>>,
    writes: AtomicUsize,
    /// The count of writes at which the gate is shut.
    hold_at: Mutex<Option<usize>>,
    /// Whether the gate is shut.
    held: watch::Sender<bool>,
    /// A write is forwarded only when the one before it was answered: "after the n-th" would mean nothing otherwise.
    pub(super) one_write: tokio::sync::Mutex<()>,
}

impl Script {
    pub(super) fn add(&self, matches: impl Fn(&Asked) -> bool + Send + Sync + 'static, fault: Fault) {
        lock(&self.rules).push(Rule { matches: Arc::new(matches), fault });
    }

    pub(super) fn clear(&self) {
        lock(&self.rules).clear();
    }

    /// The faults of every rule that matches, in the order in which the rules were made.
    pub(super) fn faults(&self, asked: &Asked) -> Vec<Fault> {
        // The predicates run without the lock: they may make rules themselves.
        let rules = lock(&self.rules).clone();
        rules.iter().filter(|rule| (rule.matches)(asked)).map(|rule| rule.fault).collect()
    }

    pub(super) fn writes(&self) -> usize {
        self.writes.load(Ordering::SeqCst)
    }

    /// Counts a write that was answered; shuts the gate if it is the one.
    pub(super) fn count_write(&self) {
        let count = self.writes.fetch_add(1, Ordering::SeqCst) + 1;
        if lock(&self.hold_at).take_if(|at| count >= *at).is_some() {
            self.held.send_replace(true);
        }
    }

    /// Shuts the gate after so many more writes.
    pub(super) fn hold_after(&self, writes: usize) -> watch::Receiver<bool> {
        let receiver = self.held.subscribe();
        if writes == 0 {
            self.held.send_replace(true);
        } else {
            *lock(&self.hold_at) = Some(self.writes() + writes);
        }
        receiver
    }

    /// Opens the gate.
    pub(super) fn release(&self) {
        lock(&self.hold_at).take();
        self.held.send_replace(false);
    }

    pub(super) fn is_held(&self) -> bool {
        *self.held.borrow()
    }

    /// Returns once the gate is open.
    pub(super) async fn pass(&self) {
        // An error would mean that the sender is gone, which lives as long as `self`.
        let _ = self.held.subscribe().wait_for(|held| !held).await;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
