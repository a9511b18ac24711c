//! The life of one container as a pure state machine: state, behaviour and time in, the next state and the next wake-up out.
//!
//! Nothing here reads a clock or talks to a server. Time is a [`Moment`]: the time since the agent's start.

use std::time::Duration;

use super::facts::Restart;
use super::script::{Behaviour, StartFailure};

/// A point in time, counted from the agent's start.
pub(super) type Moment = Duration;

/// How long `ErrImagePull` is shown before `ImagePullBackOff`. A kubelet alternates between the two; the agent settles, which saves writes.
const ERR_IMAGE_PULL_SHOWN: Duration = Duration::from_millis(500);
/// Restart back-off: a tenth of kubelet's (10 s, doubled up to 300 s).
const BACK_OFF_FIRST: Duration = Duration::from_secs(1);
const BACK_OFF_MAX: Duration = Duration::from_secs(30);

/// Where a container is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Stage {
    /// Init containers run first.
    #[default]
    Waiting,
    /// The image is on its way: `ContainerCreating`.
    Pulling { since: Moment },
    /// The pull failed: `ErrImagePull`, then `ImagePullBackOff`.
    PullFailing { since: Moment, message: String },
    /// The process runs.
    Running { since: Moment },
    /// The process ended and is restarted at `until`: `CrashLoopBackOff`.
    BackOff { since: Moment, until: Moment, because: Ending },
    /// The process ended and stays ended.
    Stopped,
}

/// The part of a behaviour that ends processes. When it changes, a back-off that it caused is over.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Ending {
    start_fails: Option<StartFailure>,
    crash_after: Option<Duration>,
    completes_after: Option<Duration>,
}

impl Ending {
    fn of(behaviour: &Behaviour) -> Self {
        Self {
            start_fails: behaviour.start_fails.clone(),
            crash_after: behaviour.crash_after,
            completes_after: behaviour.completes_after,
        }
    }
}

/// How the last process ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Exit {
    pub(super) started: Moment,
    pub(super) finished: Moment,
    pub(super) code: i32,
    pub(super) message: Option<String>,
}

/// One container's state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Container {
    pub(super) stage: Stage,
    pub(super) restarts: u32,
    pub(super) last_exit: Option<Exit>,
    pub(super) ready: bool,
}

impl Container {
    pub(super) fn is_running(&self) -> bool {
        matches!(self.stage, Stage::Running { .. })
    }

    /// Ended for good, with success.
    pub(super) fn succeeded(&self) -> bool {
        self.stage == Stage::Stopped && self.last_exit.as_ref().is_some_and(|exit| exit.code == 0)
    }

    /// Ended for good, without success.
    pub(super) fn failed(&self) -> bool {
        self.stage == Stage::Stopped && !self.succeeded()
    }

    /// Whether `ImagePullBackOff` is due (else `ErrImagePull`).
    pub(super) fn pull_backs_off(since: Moment, now: Moment) -> bool {
        now >= since + ERR_IMAGE_PULL_SHOWN
    }

    /// Lets the container go as far as it gets by `now`; returns when to look again, if ever.
    pub(super) fn advance(&mut self, behaviour: &Behaviour, restart: Restart, now: Moment) -> Option<Moment> {
        // Bounded: each turn moves on in the life cycle, and a back-off always takes time.
        loop {
            match &self.stage {
                Stage::Waiting | Stage::Stopped => return None,
                Stage::Pulling { since } => {
                    let due = *since + behaviour.pull_takes.unwrap_or_default();
                    if now < due {
                        return Some(due);
                    }
                    match &behaviour.pull_fails {
                        Some(message) => self.stage = Stage::PullFailing { since: now, message: message.clone() },
                        None => self.start(behaviour, restart, now),
                    }
                }
                Stage::PullFailing { since, message } => {
                    if behaviour.pull_fails.as_ref() == Some(message) {
                        return (!Self::pull_backs_off(*since, now)).then_some(*since + ERR_IMAGE_PULL_SHOWN);
                    }
                    self.stage = Stage::Pulling { since: now };
                }
                Stage::Running { since } => {
                    let since = *since;
                    let crash = behaviour.crash_after.map(|after| since + after);
                    let end = behaviour.completes_after.map(|after| since + after);
                    if crash.is_some_and(|due| now >= due) {
                        self.exit(behaviour, restart, Exit { started: since, finished: now, code: 1, message: None });
                    } else if end.is_some_and(|due| now >= due) {
                        self.exit(behaviour, restart, Exit { started: since, finished: now, code: 0, message: None });
                    } else {
                        let ready = (!behaviour.never_ready).then(|| since + behaviour.ready_after.unwrap_or_default());
                        self.ready = ready.is_some_and(|due| now >= due);
                        return [crash, end, ready].into_iter().flatten().filter(|due| *due > now).min();
                    }
                }
                Stage::BackOff { until, because, .. } => {
                    if *because == Ending::of(behaviour) && now < *until {
                        return Some(*until);
                    }
                    self.restarts += 1;
                    self.start(behaviour, restart, now);
                }
            }
        }
    }

    fn start(&mut self, behaviour: &Behaviour, restart: Restart, now: Moment) {
        match &behaviour.start_fails {
            Some(failure) => {
                let exit = Exit {
                    started: now,
                    finished: now,
                    code: failure.exit_code,
                    message: Some(failure.message.clone()),
                };
                self.exit(behaviour, restart, exit);
            }
            None => self.stage = Stage::Running { since: now },
        }
    }

    fn exit(&mut self, behaviour: &Behaviour, restart: Restart, exit: Exit) {
        let again = match restart {
            Restart::Always => true,
            Restart::OnFailure => exit.code != 0,
            Restart::Never => false,
        };
        let now = exit.finished;
        self.stage = if again {
            Stage::BackOff { since: now, until: now + back_off(self.restarts), because: Ending::of(behaviour) }
        } else {
            Stage::Stopped
        };
        self.ready = false;
        self.last_exit = Some(exit);
    }
}

fn back_off(restarts: u32) -> Duration {
    BACK_OFF_FIRST.saturating_mul(1 << restarts.min(10)).min(BACK_OFF_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn pulling() -> Container {
        Container { stage: Stage::Pulling { since: ms(0) }, ..Container::default() }
    }

    fn start_fails(message: &str) -> Behaviour {
        Behaviour { start_fails: Some(StartFailure { message: message.into(), exit_code: 2 }), ..Behaviour::default() }
    }

    #[test]
    fn without_a_rule_a_container_runs_and_is_ready_at_once() {
        let mut container = pulling();
        assert_eq!(container.advance(&Behaviour::default(), Restart::Always, ms(5)), None);
        assert_eq!(container.stage, Stage::Running { since: ms(5) });
        assert!(container.ready);
    }

    #[test]
    fn a_slow_pull_wakes_when_the_image_is_there_and_readiness_counts_from_the_start() {
        let behaviour = Behaviour { pull_takes: Some(ms(100)), ready_after: Some(ms(50)), ..Behaviour::default() };
        let mut container = pulling();
        assert_eq!(container.advance(&behaviour, Restart::Always, ms(10)), Some(ms(100)));
        assert_eq!(container.advance(&behaviour, Restart::Always, ms(100)), Some(ms(150)));
        assert!(!container.ready);
        assert_eq!(container.advance(&behaviour, Restart::Always, ms(150)), None);
        assert!(container.ready);
    }

    #[test]
    fn a_failing_pull_shows_the_error_then_the_back_off_then_recovers_at_once_with_the_rule() {
        let broken = Behaviour { pull_fails: Some("not found".into()), ..Behaviour::default() };
        let mut container = pulling();
        assert_eq!(container.advance(&broken, Restart::Always, ms(0)), Some(ms(500)));
        assert!(!Container::pull_backs_off(ms(0), ms(499)));
        assert_eq!(container.advance(&broken, Restart::Always, ms(500)), None);
        assert!(Container::pull_backs_off(ms(0), ms(500)));
        container.advance(&Behaviour::default(), Restart::Always, ms(700));
        assert_eq!(container.stage, Stage::Running { since: ms(700) });
    }

    #[test]
    fn a_container_that_cannot_start_is_restarted_with_a_growing_back_off_and_count() {
        let mut container = pulling();
        let mut now = ms(0);
        let mut seen = Vec::new();
        for _ in 0..7 {
            let wake = container.advance(&start_fails("boom"), Restart::Always, now).unwrap();
            seen.push((container.restarts, wake.saturating_sub(now).as_secs()));
            now = wake;
        }
        assert_eq!(seen, [(0, 1), (1, 2), (2, 4), (3, 8), (4, 16), (5, 30), (6, 30)]);
        let exit = container.last_exit.unwrap();
        assert_eq!((exit.code, exit.message.as_deref()), (2, Some("boom")));
    }

    #[test]
    fn a_back_off_ends_as_soon_as_its_cause_is_gone_but_not_for_an_unrelated_change() {
        let mut container = pulling();
        container.advance(&start_fails("boom"), Restart::Always, ms(0));
        let unrelated = Behaviour { ready_after: Some(ms(5)), ..start_fails("boom") };
        assert_eq!(container.advance(&unrelated, Restart::Always, ms(10)), Some(ms(1000)));
        container.advance(&Behaviour::default(), Restart::Always, ms(20));
        assert_eq!((container.stage, container.restarts), (Stage::Running { since: ms(20) }, 1));
    }

    #[test]
    fn start_and_pull_failures_leave_a_running_container_alone() {
        let mut container = pulling();
        container.advance(&Behaviour::default(), Restart::Always, ms(0));
        let broken = Behaviour { pull_fails: Some("gone".into()), ..start_fails("boom") };
        container.advance(&broken, Restart::Always, ms(10));
        assert!(container.is_running() && container.ready);
    }

    #[test]
    fn never_ready_takes_readiness_away_and_its_end_gives_it_back() {
        let mut container = pulling();
        container.advance(&Behaviour::default(), Restart::Always, ms(0));
        let never = Behaviour { never_ready: true, ..Behaviour::default() };
        assert_eq!(container.advance(&never, Restart::Always, ms(10)), None);
        assert!(!container.ready && container.is_running());
        container.advance(&Behaviour::default(), Restart::Always, ms(20));
        assert!(container.ready);
    }

    #[test]
    fn a_crash_is_due_after_each_start() {
        let behaviour = Behaviour { crash_after: Some(ms(100)), ..Behaviour::default() };
        let mut container = pulling();
        assert_eq!(container.advance(&behaviour, Restart::Always, ms(0)), Some(ms(100)));
        assert!(container.ready);
        assert_eq!(container.advance(&behaviour, Restart::Always, ms(100)), Some(ms(1100)));
        assert!(!container.ready && !container.is_running());
        assert_eq!(container.advance(&behaviour, Restart::Always, ms(1100)), Some(ms(1200)));
        assert!(container.ready && container.restarts == 1);
    }

    #[test]
    fn the_restart_policy_decides_what_an_exit_means() {
        let completes = Behaviour { completes_after: Some(ms(0)), ..Behaviour::default() };
        let crashes = Behaviour { crash_after: Some(ms(0)), ..Behaviour::default() };
        for (behaviour, restart, succeeded, failed) in [
            (&completes, Restart::Never, true, false),
            (&completes, Restart::OnFailure, true, false),
            (&completes, Restart::Always, false, false),
            (&crashes, Restart::Never, false, true),
            (&crashes, Restart::OnFailure, false, false),
        ] {
            let mut container = pulling();
            container.advance(behaviour, restart, ms(0));
            assert_eq!((container.succeeded(), container.failed()), (succeeded, failed), "{restart:?}");
        }
    }
}
