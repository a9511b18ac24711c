//! Renders a pod's state as the status that a kubelet would report, and as the patch that carries it.

use k8s_openapi::api::core::v1::{
    ContainerState, ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting, ContainerStatus, HostIP,
    PodCondition, PodIP, PodStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::container::{Container, Exit, Moment, Stage};
use super::facts::{ContainerFacts, PodFacts};
use super::pod::{Flag, PodState};
use super::world::SimulatedNode;

/// Turns moments into times of day.
#[derive(Clone, Copy, Debug)]
pub(super) struct WallClock {
    /// The agent's start.
    pub(super) start: Timestamp,
}

impl WallClock {
    pub(super) fn at(self, moment: Moment) -> Time {
        // Whole seconds, as the API stores them: the same moment renders the same before and after a round trip.
        let seconds = i64::try_from(moment.as_secs()).unwrap_or(i64::MAX);
        let at = self.start.as_second().saturating_add(seconds);
        Time(Timestamp::from_second(at).unwrap_or(self.start))
    }
}

/// The whole status of a pod on a healthy node.
pub(super) fn full(pod: &PodFacts, state: &PodState, node: SimulatedNode, now: Moment, clock: WallClock) -> PodStatus {
    let render = |facts: &[ContainerFacts], lives: &[Container], waits: &str| -> Option<Vec<ContainerStatus>> {
        let all: Vec<_> =
            facts.iter().zip(lives).map(|(facts, life)| container(pod, facts, life, waits, now, clock)).collect();
        (!all.is_empty()).then_some(all)
    };
    let waits = if state.initialized.value { "ContainerCreating" } else { "PodInitializing" };
    let node_ip = node.address.to_string();
    // The address comes with the sandbox: also for a pod whose image is not there yet.
    let pod_ip = state.address.to_string();
    PodStatus {
        phase: Some(state.phase().into()),
        conditions: Some(conditions(pod, state, clock)),
        init_container_statuses: render(&pod.init_containers, &state.init, "PodInitializing"),
        container_statuses: render(&pod.containers, &state.main, waits),
        host_ip: Some(node_ip.clone()),
        host_ips: Some(vec![HostIP { ip: node_ip }]),
        pod_ip: Some(pod_ip.clone()),
        pod_ips: Some(vec![PodIP { ip: pod_ip }]),
        start_time: Some(clock.at(state.accepted)),
        ..PodStatus::default()
    }
}

/// The one condition that the node lifecycle controller writes when a kubelet is silent.
pub(super) fn not_ready(state: &PodState, clock: WallClock) -> PodStatus {
    PodStatus { conditions: Some(vec![condition("Ready", state.ready, None, clock)]), ..PodStatus::default() }
}

/// A strategic merge patch of the status, which keeps the scheduler's condition and other writers' ones. The uid makes it fail on a
/// successor of the same name.
pub(super) fn patch(uid: &str, status: &PodStatus) -> Value {
    let mut status = json!(status);
    if let Some(conditions) = status.get_mut("conditions").and_then(Value::as_array_mut) {
        for condition in conditions.iter_mut().filter_map(Value::as_object_mut) {
            // Conditions are merged by type: what is absent now must be removed by name.
            for field in ["reason", "message"] {
                condition.entry(field).or_insert(Value::Null);
            }
        }
    }
    json!({ "metadata": { "uid": uid }, "status": status })
}

fn conditions(pod: &PodFacts, state: &PodState, clock: WallClock) -> Vec<PodCondition> {
    let unready = |facts: &[ContainerFacts], lives: &[Container]| -> Vec<String> {
        facts.iter().zip(lives).filter(|(_, life)| !life.ready).map(|(facts, _)| facts.name.clone()).collect()
    };
    let completed = state.phase() == "Succeeded";
    let not_ready = if completed {
        ("PodCompleted", None)
    } else {
        let names = unready(&pod.containers, &state.main).join(" ");
        ("ContainersNotReady", Some(format!("containers with unready status: [{names}]")))
    };
    let started = Flag { value: true, since: state.accepted };
    vec![
        condition("PodReadyToStartContainers", started, None, clock),
        condition("Initialized", state.initialized, Some(("ContainersNotInitialized", None)), clock),
        condition("ContainersReady", state.containers_ready, Some(not_ready.clone()), clock),
        condition("Ready", state.ready, Some(not_ready), clock),
    ]
}

fn condition(type_: &str, flag: Flag, unless: Option<(&str, Option<String>)>, clock: WallClock) -> PodCondition {
    let (reason, message) = match unless {
        Some((reason, message)) if !flag.value => (Some(reason.to_owned()), message),
        _ => (None, None),
    };
    PodCondition {
        type_: type_.into(),
        status: if flag.value { "True" } else { "False" }.into(),
        last_transition_time: Some(clock.at(flag.since)),
        reason,
        message,
        ..PodCondition::default()
    }
}

fn container(
    pod: &PodFacts,
    facts: &ContainerFacts,
    life: &Container,
    waits: &str,
    now: Moment,
    clock: WallClock,
) -> ContainerStatus {
    let ContainerFacts { name, image, .. } = facts;
    let waiting = |reason: &str, message: Option<String>| ContainerState {
        waiting: Some(ContainerStateWaiting { reason: Some(reason.into()), message }),
        ..ContainerState::default()
    };
    let terminated = |exit: &Exit| ContainerState {
        terminated: Some(ContainerStateTerminated {
            container_id: Some(container_id(pod, name, life.restarts)),
            exit_code: exit.code,
            reason: Some(if exit.code == 0 { "Completed" } else { "Error" }.into()),
            message: exit.message.clone(),
            started_at: Some(clock.at(exit.started)),
            finished_at: Some(clock.at(exit.finished)),
            ..ContainerStateTerminated::default()
        }),
        ..ContainerState::default()
    };
    let state = match &life.stage {
        Stage::Waiting => waiting(waits, None),
        Stage::Pulling { .. } => waiting("ContainerCreating", None),
        Stage::PullFailing { since, message } if Container::pull_backs_off(*since, now) => {
            waiting("ImagePullBackOff", Some(format!("Back-off pulling image \"{image}\": ErrImagePull: {message}")))
        }
        Stage::PullFailing { message, .. } => waiting("ErrImagePull", Some(message.clone())),
        Stage::Running { since } => ContainerState {
            running: Some(ContainerStateRunning { started_at: Some(clock.at(*since)) }),
            ..ContainerState::default()
        },
        Stage::BackOff { since, until, .. } => {
            let PodFacts { namespace, name: pod_name, uid, .. } = pod;
            let seconds = until.saturating_sub(*since).as_secs();
            let message =
                format!("back-off {seconds}s restarting failed container={name} pod={pod_name}_{namespace}({uid})");
            waiting("CrashLoopBackOff", Some(message))
        }
        Stage::Stopped => life.last_exit.as_ref().map(terminated).unwrap_or_default(),
    };
    let created = life.is_running() || life.last_exit.is_some();
    ContainerStatus {
        name: name.clone(),
        image: image.clone(),
        image_id: if created { image_id(image) } else { String::new() },
        container_id: created.then(|| container_id(pod, name, life.restarts)),
        ready: life.ready,
        started: Some(life.is_running()),
        restart_count: i32::try_from(life.restarts).unwrap_or(i32::MAX),
        last_state: life.last_exit.as_ref().filter(|_| life.stage != Stage::Stopped).map(terminated),
        state: Some(state),
        ..ContainerStatus::default()
    }
}

fn container_id(pod: &PodFacts, container: &str, restarts: u32) -> String {
    format!("containerd://{}", hex(&format!("{}/{container}/{restarts}", pod.uid)))
}

/// The same image text has the same digest on every node.
fn image_id(image: &str) -> String {
    let repository = image.rsplit_once('@').map_or(image, |(repository, _)| repository);
    let repository = match repository.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => name,
        _ => repository,
    };
    format!("{repository}@sha256:{}", hex(image))
}

fn hex(text: &str) -> String {
    use std::fmt::Write;
    Sha256::digest(text.as_bytes()).iter().fold(String::with_capacity(64), |mut hex, byte| {
        // Writing to a String cannot fail.
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_id_names_the_repository_without_tag() {
        for (image, repository) in [
            ("registry.k8s.io/coredns/coredns:v1.14.6", "registry.k8s.io/coredns/coredns"),
            ("localhost:5000/coredns", "localhost:5000/coredns"),
            ("coredns@sha256:00", "coredns"),
        ] {
            let id = image_id(image);
            let (name, digest) = id.split_once("@sha256:").unwrap();
            assert_eq!((name, digest.len()), (repository, 64), "{image}");
        }
    }

    #[test]
    fn a_patch_removes_the_reason_of_a_condition_that_has_none_any_more() {
        let state = |value| PodStatus {
            conditions: Some(vec![condition(
                "Ready",
                Flag { value, since: Moment::ZERO },
                Some(("ContainersNotReady", Some("why".into()))),
                WallClock { start: Timestamp::UNIX_EPOCH },
            )]),
            ..PodStatus::default()
        };
        let unready = patch("u", &state(false));
        assert_eq!(unready["metadata"]["uid"], "u");
        assert_eq!(unready["status"]["conditions"][0]["reason"], "ContainersNotReady");
        let ready = &patch("u", &state(true))["status"]["conditions"][0];
        assert_eq!((&ready["reason"], ready.get("message")), (&Value::Null, Some(&Value::Null)));
    }
}
