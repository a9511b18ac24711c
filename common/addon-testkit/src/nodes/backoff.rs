//! Back-off of the testkit's own requests: quick to come back, because a test cluster's API server is restarted on purpose and nobody
//! else is waiting for it.

use std::time::Duration;

use kube::runtime::utils::Backoff;

const FIRST: Duration = Duration::from_millis(100);
const MOST_WATCH_DELAY: Duration = Duration::from_secs(1);

/// The delay after this many failures in a row.
pub(super) fn delay(failures: u32, most: Duration) -> Duration {
    FIRST.saturating_mul(1 << failures.min(10)).min(most)
}

/// For watches.
#[derive(Default)]
pub(crate) struct Quick {
    failures: u32,
}

impl Iterator for Quick {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let delay = delay(self.failures, MOST_WATCH_DELAY);
        self.failures = self.failures.saturating_add(1);
        Some(delay)
    }
}

impl Backoff for Quick {
    fn reset(&mut self) {
        self.failures = 0;
    }
}
