//! Exponential backoff with jitter.

use std::{
    hash::{BuildHasher, RandomState},
    time::Duration,
};

/// Waits that double from `first` to `most`, each shortened by up to a quarter so that clients spread out.
#[derive(Clone, Debug)]
pub(crate) struct Backoff {
    first: Duration,
    most: Duration,
    next: Duration,
}

impl Backoff {
    pub(crate) const fn new(first: Duration, most: Duration) -> Self {
        Self { first, most, next: first }
    }

    /// For watches: quick at first, so that an API server that restarts is noticed, and never more than 5 s, so that a
    /// CustomResourceDefinition that appears is.
    pub(crate) const fn of_watches() -> Self {
        Self::new(Duration::from_millis(100), Duration::from_secs(5))
    }

    /// For writes to one object.
    pub(crate) const fn of_writes() -> Self {
        Self::new(Duration::from_millis(100), Duration::from_secs(30))
    }

    /// For things that are about to become true, e.g. a right that was just granted.
    pub(crate) const fn of_waits() -> Self {
        Self::new(Duration::from_millis(5), Duration::from_secs(2))
    }
}

impl Iterator for Backoff {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let wait = self.next;
        self.next = (wait * 2).min(self.most);
        // The hasher's keys are random, and all the randomness that is needed.
        let shortened = u32::try_from(RandomState::new().hash_one(()) % 256).unwrap_or(0);
        Some(wait.saturating_sub(wait / 1024 * shortened))
    }
}

impl kube::runtime::utils::Backoff for Backoff {
    fn reset(&mut self) {
        self.next = self.first;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_most_and_jitter_shortens_them_by_at_most_a_quarter() {
        let waits: Vec<_> = Backoff::new(Duration::from_millis(100), Duration::from_millis(350)).take(4).collect();
        for (wait, most) in waits.iter().zip([100, 200, 350, 350]) {
            assert!(*wait <= Duration::from_millis(most) && *wait >= Duration::from_millis(most * 3 / 4), "{waits:?}");
        }
    }
}
