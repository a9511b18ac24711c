//! What a kubelet does with one pod next: a pure function of the pod's facts, its history, the script and the time.
//!
//! [`step`] is called whenever any of them may have changed and may be called too often: it then asks for the same again, and the agent
//! writes only what differs from the last write.

use std::net::Ipv4Addr;
use std::time::Duration;

use super::container::{Container, Moment, Stage};
use super::facts::{ContainerFacts, PodFacts, Restart};
use super::script::{Behaviour, Rules};
use super::world::NodeHealth;

/// A pod's history on its node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PodState {
    pub(super) accepted: Moment,
    pub(super) address: Ipv4Addr,
    pub(super) init: Vec<Container>,
    pub(super) main: Vec<Container>,
    pub(super) initialized: Flag,
    pub(super) containers_ready: Flag,
    pub(super) ready: Flag,
    stopping_since: Option<Moment>,
    /// On a lost node: whether it was ready when the node was lost.
    lost_when_ready: Option<bool>,
    /// It had ended before the agent saw it first: only deletion is left.
    finished_before: bool,
}

/// A condition's value and its last transition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Flag {
    pub(super) value: bool,
    pub(super) since: Moment,
}

impl Flag {
    fn set(&mut self, value: bool, now: Moment) {
        if self.value != value {
            *self = Self { value, since: now };
        }
    }
}

/// What the API server should be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Desired {
    /// Nothing, now.
    Leave,
    /// The whole status, as `status::full` renders it from the state.
    Report,
    /// Only that the pod is not ready: the node lifecycle controller's part when the kubelet is silent.
    NotReady,
    /// Delete it for good.
    Gone,
}

/// The outcome of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) desired: Desired,
    pub(super) wake: Option<Moment>,
}

impl PodState {
    /// A pod the kubelet has just seen.
    pub(super) fn accept(facts: &PodFacts, address: Ipv4Addr, finished: bool, now: Moment) -> Self {
        let no = Flag { value: false, since: now };
        Self {
            accepted: now,
            address,
            init: vec![Container::default(); facts.init_containers.len()],
            main: vec![Container::default(); facts.containers.len()],
            initialized: no,
            containers_ready: no,
            ready: no,
            stopping_since: None,
            lost_when_ready: None,
            finished_before: finished,
        }
    }

    /// The pod's phase, as kubelet derives it from its containers.
    pub(super) fn phase(&self) -> &'static str {
        if self.init.iter().any(Container::failed) {
            return "Failed";
        }
        let not_started =
            |c: &Container| matches!(c.stage, Stage::Waiting | Stage::Pulling { .. } | Stage::PullFailing { .. });
        if !self.initialized.value || self.main.iter().any(not_started) {
            "Pending"
        } else if self.main.iter().all(|c| c.stage == Stage::Stopped) {
            if self.main.iter().any(Container::failed) { "Failed" } else { "Succeeded" }
        } else {
            "Running"
        }
    }

    fn ended(&self) -> bool {
        self.finished_before || matches!(self.phase(), "Failed" | "Succeeded")
    }
}

/// Moves the pod on to `now`.
pub(super) fn step(facts: &PodFacts, health: NodeHealth, state: &mut PodState, rules: &Rules, now: Moment) -> Step {
    let leave = Step { desired: Desired::Leave, wake: None };
    if health == NodeHealth::Up {
        state.lost_when_ready = None;
    }
    match health {
        NodeHealth::Removed => Step { desired: Desired::Gone, wake: None },
        NodeHealth::Lost => {
            let was_ready = *state.lost_when_ready.get_or_insert(state.ready.value);
            state.ready.set(false, now);
            if was_ready { Step { desired: Desired::NotReady, wake: None } } else { leave }
        }
        NodeHealth::Up => match facts.deleted_with_grace {
            Some(grace) => stop(facts, state, rules, grace, now),
            None if state.finished_before => leave,
            None => {
                let wake = if state.ended() { None } else { run(facts, state, rules, now) };
                Step { desired: Desired::Report, wake }
            }
        },
    }
}

fn stop(facts: &PodFacts, state: &mut PodState, rules: &Rules, grace: Duration, now: Moment) -> Step {
    let since = *state.stopping_since.get_or_insert(now);
    let running = |(_, container): &(&ContainerFacts, &Container)| container.is_running();
    let all = || facts.init_containers.iter().zip(&state.init).chain(facts.containers.iter().zip(&state.main));
    let takes = all()
        .filter(running)
        .filter_map(|(container, _)| rules.behaviour(facts, container).stop_takes)
        .max()
        .unwrap_or_default()
        .min(grace);
    let due = since + takes;
    if now >= due {
        return Step { desired: Desired::Gone, wake: None };
    }
    for container in state.init.iter_mut().chain(&mut state.main) {
        container.ready = false;
    }
    state.containers_ready.set(false, now);
    state.ready.set(false, now);
    Step { desired: Desired::Report, wake: Some(due) }
}

fn run(facts: &PodFacts, state: &mut PodState, rules: &Rules, now: Moment) -> Option<Moment> {
    let mut wake: Option<Moment> = None;
    let mut initialized = true;
    for (container, life) in facts.init_containers.iter().zip(&mut state.init) {
        if !initialized {
            break;
        }
        let mut behaviour = rules.behaviour(facts, container);
        let restart = match (container.restartable, facts.restart) {
            (true, _) => Restart::Always,
            (false, Restart::Never) => Restart::Never,
            (false, _) => Restart::OnFailure,
        };
        if !container.restartable {
            behaviour.completes_after.get_or_insert_default();
        }
        advance(life, &behaviour, restart, now, &mut wake);
        initialized = if container.restartable { life.is_running() || life.restarts > 0 } else { life.succeeded() };
    }
    // Once initialized, a sidecar's restart does not take it back.
    let initialized = initialized || state.initialized.value;
    state.initialized.set(initialized, now);
    if initialized {
        for (container, life) in facts.containers.iter().zip(&mut state.main) {
            advance(life, &rules.behaviour(facts, container), facts.restart, now, &mut wake);
        }
    }
    let sidecars = facts
        .init_containers
        .iter()
        .zip(&state.init)
        .filter(|(container, _)| container.restartable)
        .map(|(_, life)| life);
    let ready = initialized && state.main.iter().chain(sidecars).all(|life| life.ready);
    state.containers_ready.set(ready, now);
    state.ready.set(ready, now);
    wake
}

fn advance(life: &mut Container, behaviour: &Behaviour, restart: Restart, now: Moment, wake: &mut Option<Moment>) {
    if life.stage == Stage::Waiting {
        life.stage = Stage::Pulling { since: now };
    }
    let next = life.advance(behaviour, restart, now);
    *wake = [*wake, next].into_iter().flatten().min();
}

#[cfg(test)]
#[path = "pod_tests.rs"]
mod tests;
