//! Tests of the pod state machine by direct calls: no clock, no server.

use std::net::Ipv4Addr;
use std::time::Duration;

use k8s_openapi::api::core::v1::PodStatus;
use k8s_openapi::jiff::Timestamp;

use super::*;
use crate::nodes::script::Rule;
use crate::nodes::status::{self, WallClock};
use crate::nodes::world::SimulatedNode;

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A pod, its history and its script: what the agent holds for one pod.
struct Scene {
    facts: PodFacts,
    state: PodState,
    rules: Rules,
    health: NodeHealth,
}

impl Scene {
    fn new(images: &[&str], rules: &[Rule]) -> Self {
        let container = |(n, image): (usize, &&str)| ContainerFacts {
            name: format!("c{n}"),
            image: (*image).into(),
            restartable: false,
        };
        let facts = PodFacts {
            uid: "uid-1".into(),
            namespace: "ns".into(),
            name: "pod".into(),
            node: "node-1".into(),
            containers: images.iter().enumerate().map(container).collect(),
            ..PodFacts::default()
        };
        Self::of(facts, rules)
    }

    fn of(facts: PodFacts, list: &[Rule]) -> Self {
        let mut rules = Rules::default();
        for rule in list {
            rules.add(rule.clone());
        }
        let state = PodState::accept(&facts, Ipv4Addr::new(10, 128, 0, 1), false, ms(0));
        Self { facts, state, rules, health: NodeHealth::Up }
    }

    fn at(&mut self, now: Moment) -> Step {
        step(&self.facts, self.health, &mut self.state, &self.rules, now)
    }

    fn status(&self, now: Moment) -> PodStatus {
        let node = SimulatedNode { address: Ipv4Addr::new(10, 240, 0, 1), health: self.health };
        status::full(&self.facts, &self.state, node, now, WallClock { start: Timestamp::UNIX_EPOCH })
    }

    /// Phase, Ready condition and the waiting reasons: what one line of `kubectl get pods` says.
    fn line(&self, now: Moment) -> String {
        let status = self.status(now);
        let ready = status.conditions.unwrap().into_iter().find(|c| c.type_ == "Ready").unwrap().status;
        let all = status.init_container_statuses.into_iter().chain(status.container_statuses).flatten();
        let containers: Vec<_> = all
            .map(|c| {
                let state = c.state.unwrap();
                let word = if let Some(waiting) = state.waiting {
                    waiting.reason.unwrap()
                } else if let Some(terminated) = state.terminated {
                    terminated.reason.unwrap()
                } else {
                    "Running".into()
                };
                format!("{word}/{}", c.restart_count)
            })
            .collect();
        format!("{} {ready} {}", status.phase.unwrap(), containers.join(" "))
    }
}

#[test]
fn a_pod_goes_from_pending_over_running_to_ready() {
    let mut scene = Scene::new(&["a"], &[Rule::everything().slow_pull(ms(100)).ready_after(ms(50))]);
    let mut lines = Vec::new();
    let mut now = Some(ms(0));
    while let Some(at) = now {
        let step = scene.at(at);
        assert_eq!(step.desired, Desired::Report);
        lines.push(scene.line(at));
        now = step.wake;
    }
    assert_eq!(lines, ["Pending False ContainerCreating/0", "Running False Running/0", "Running True Running/0"]);
}

#[test]
fn a_ready_pod_reports_everything_a_kubelet_does() {
    let mut scene = Scene::new(&["registry.k8s.io/coredns:1"], &[]);
    scene.at(secs(5));
    let status = scene.status(secs(5));
    assert_eq!((status.pod_ip.as_deref(), status.host_ip.as_deref()), (Some("10.128.0.1"), Some("10.240.0.1")));
    let conditions = status.conditions.unwrap();
    let types: Vec<_> = conditions.iter().map(|c| (c.type_.as_str(), c.status.as_str())).collect();
    assert_eq!(
        types,
        [
            ("PodReadyToStartContainers", "True"),
            ("Initialized", "True"),
            ("ContainersReady", "True"),
            ("Ready", "True")
        ]
    );
    let container = &status.container_statuses.unwrap()[0];
    assert!(container.ready && container.started == Some(true));
    assert!(container.image_id.starts_with("registry.k8s.io/coredns@sha256:"));
    assert!(container.container_id.as_ref().unwrap().starts_with("containerd://"));
    let running = container.state.as_ref().unwrap().running.as_ref().unwrap();
    assert_eq!(running.started_at.as_ref().unwrap().0, Timestamp::from_second(5).unwrap());
}

#[test]
fn stepping_again_without_a_change_reports_the_same() {
    let mut scene = Scene::new(&["a"], &[]);
    scene.at(secs(1));
    let first = scene.status(secs(1));
    let step = scene.at(secs(9));
    assert_eq!((step.wake, scene.status(secs(9))), (None, first));
}

#[test]
fn one_unready_container_keeps_the_pod_unready_and_is_named() {
    let mut scene = Scene::new(&["good", "bad"], &[Rule::image("bad").never_ready()]);
    scene.at(ms(0));
    assert_eq!(scene.line(ms(0)), "Running False Running/0 Running/0");
    let ready = scene.status(ms(0)).conditions.unwrap().pop().unwrap();
    assert_eq!(ready.message.as_deref(), Some("containers with unready status: [c1]"));
}

#[test]
fn a_container_that_fails_to_start_is_crash_looping_with_the_message_in_its_last_state() {
    let mut scene = Scene::new(&["bad"], &[Rule::image("bad").fails_to_start("loop detected", 3)]);
    let wake = scene.at(ms(0)).wake.unwrap();
    assert_eq!(scene.line(ms(0)), "Running False CrashLoopBackOff/0");
    scene.at(wake);
    assert_eq!(scene.line(wake), "Running False CrashLoopBackOff/1");
    let container = &scene.status(wake).container_statuses.unwrap()[0];
    let last = container.last_state.as_ref().unwrap().terminated.as_ref().unwrap();
    assert_eq!(
        (last.exit_code, last.message.as_deref(), last.reason.as_deref()),
        (3, Some("loop detected"), Some("Error"))
    );
    let waiting = container.state.as_ref().unwrap().waiting.as_ref().unwrap();
    assert_eq!(waiting.message.as_deref(), Some("back-off 2s restarting failed container=c0 pod=pod_ns(uid-1)"));
}

#[test]
fn an_image_that_cannot_be_pulled_goes_from_the_error_to_the_back_off_and_stays_pending() {
    let mut scene = Scene::new(&["bad"], &[Rule::image("bad").image_pull_fails("not found")]);
    let wake = scene.at(ms(0)).wake.unwrap();
    assert_eq!(scene.line(ms(0)), "Pending False ErrImagePull/0");
    assert_eq!(scene.at(wake).wake, None);
    assert_eq!(scene.line(wake), "Pending False ImagePullBackOff/0");
}

#[test]
fn a_changed_rule_is_followed_by_the_next_step() {
    let mut scene = Scene::new(&["bad"], &[Rule::image("bad").fails_to_start("boom", 1)]);
    scene.at(ms(0));
    scene.rules = Rules::default();
    scene.at(ms(10));
    assert_eq!(scene.line(ms(10)), "Running True Running/1");
}

#[test]
fn init_containers_run_one_after_the_other_before_the_rest() {
    let init = |name: &str| ContainerFacts { name: name.into(), image: name.into(), restartable: false };
    let facts = PodFacts {
        init_containers: vec![init("i0"), init("i1")],
        containers: vec![init("main")],
        ..PodFacts::default()
    };
    let mut scene = Scene::of(facts, &[Rule::image("i0").completes_after(ms(50)), Rule::image("i1").slow_pull(ms(30))]);
    assert_eq!(scene.at(ms(0)).wake, Some(ms(50)));
    assert_eq!(scene.line(ms(0)), "Pending False Running/0 PodInitializing/0 PodInitializing/0");
    assert_eq!(scene.at(ms(50)).wake, Some(ms(80)));
    assert_eq!(scene.line(ms(50)), "Pending False Completed/0 ContainerCreating/0 PodInitializing/0");
    assert_eq!(scene.at(ms(80)).wake, None);
    assert_eq!(scene.line(ms(80)), "Running True Completed/0 Completed/0 Running/0");
}

#[test]
fn a_sidecar_keeps_running_and_does_not_hold_the_pod_back() {
    let container = |name: &str, restartable| ContainerFacts { name: name.into(), image: name.into(), restartable };
    let facts = PodFacts {
        init_containers: vec![container("side", true)],
        containers: vec![container("main", false)],
        ..PodFacts::default()
    };
    let mut scene = Scene::of(facts, &[]);
    scene.at(ms(0));
    assert_eq!(scene.line(ms(0)), "Running True Running/0 Running/0");
}

#[test]
fn a_pod_that_never_restarts_succeeds_or_fails() {
    for (rule, line) in [
        (Rule::everything().completes_after(ms(10)), "Succeeded False Completed/0"),
        (Rule::everything().crash_after(ms(10)), "Failed False Error/0"),
    ] {
        let mut scene = Scene::new(&["a"], &[rule]);
        scene.facts.restart = Restart::Never;
        scene.at(ms(0));
        scene.at(ms(10));
        assert_eq!(scene.line(ms(10)), line);
        assert_eq!(scene.at(secs(100)), Step { desired: Desired::Report, wake: None });
    }
}

#[test]
fn a_deleted_pod_is_gone_at_once_without_a_rule() {
    let mut scene = Scene::new(&["a"], &[]);
    scene.at(ms(0));
    scene.facts.deleted_with_grace = Some(secs(30));
    assert_eq!(scene.at(ms(10)), Step { desired: Desired::Gone, wake: None });
}

#[test]
fn a_deleted_pod_that_takes_time_to_stop_is_unready_meanwhile() {
    let mut scene = Scene::new(&["a"], &[Rule::everything().stop_takes(secs(5))]);
    scene.at(secs(0));
    scene.facts.deleted_with_grace = Some(secs(30));
    assert_eq!(scene.at(secs(1)), Step { desired: Desired::Report, wake: Some(secs(6)) });
    assert_eq!(scene.line(secs(1)), "Running False Running/0");
    assert_eq!(scene.at(secs(6)).desired, Desired::Gone);
}

#[test]
fn stopping_takes_at_most_the_grace_period_and_no_time_when_nothing_runs() {
    let slow = Rule::everything().stop_takes(secs(100));
    let mut scene = Scene::new(&["a"], std::slice::from_ref(&slow));
    scene.at(secs(0));
    scene.facts.deleted_with_grace = Some(secs(30));
    assert_eq!(scene.at(secs(0)).wake, Some(secs(30)));

    let mut pending = Scene::new(&["a"], &[slow.slow_pull(secs(100))]);
    pending.at(secs(0));
    pending.facts.deleted_with_grace = Some(secs(30));
    assert_eq!(pending.at(secs(0)).desired, Desired::Gone);
}

#[test]
fn on_a_lost_node_a_ready_pod_is_unready_and_its_deletion_does_not_finish() {
    let mut scene = Scene::new(&["a"], &[]);
    scene.at(secs(0));
    scene.health = NodeHealth::Lost;
    let not_ready = Step { desired: Desired::NotReady, wake: None };
    assert_eq!(scene.at(secs(1)), not_ready);
    let ready = status::not_ready(&scene.state, WallClock { start: Timestamp::UNIX_EPOCH }).conditions.unwrap();
    assert_eq!((ready.len(), ready[0].type_.as_str(), ready[0].status.as_str()), (1, "Ready", "False"));
    scene.facts.deleted_with_grace = Some(secs(0));
    // Asked again, for instance after a failed write, it still wants the same.
    assert_eq!(scene.at(secs(50)), not_ready);
    scene.health = NodeHealth::Up;
    assert_eq!(scene.at(secs(60)).desired, Desired::Gone);
}

#[test]
fn on_a_lost_node_a_new_pod_stays_untouched_until_the_node_is_back() {
    let mut scene = Scene::new(&["a"], &[]);
    scene.health = NodeHealth::Lost;
    assert_eq!(scene.at(secs(1)), Step { desired: Desired::Leave, wake: None });
    scene.health = NodeHealth::Up;
    assert_eq!(scene.at(secs(2)).desired, Desired::Report);
    assert_eq!(scene.line(secs(2)), "Running True Running/0");
}

#[test]
fn on_a_removed_node_pods_go() {
    let mut scene = Scene::new(&["a"], &[]);
    scene.health = NodeHealth::Removed;
    assert_eq!(scene.at(secs(1)).desired, Desired::Gone);
}

#[test]
fn a_pod_that_had_ended_before_is_left_alone_until_it_is_deleted() {
    let mut scene = Scene::new(&["a"], &[]);
    scene.state = PodState::accept(&scene.facts, Ipv4Addr::new(10, 128, 0, 1), true, ms(0));
    assert_eq!(scene.at(ms(1)).desired, Desired::Leave);
    scene.facts.deleted_with_grace = Some(secs(30));
    assert_eq!(scene.at(ms(2)).desired, Desired::Gone);
}
