//! What simulated pods do: rules, matched per container, changed while the test runs.
//!
//! Rules are kept in order. For each container the behaviours of all matching rules are merged field by field, a later rule winning,
//! so that "everything is ready after a second" and "this image never is" combine. Without a rule a container starts at once and is
//! ready at once.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::facts::{ContainerFacts, PodFacts};
use super::world::World;

/// What a container does, as far as a rule says anything about it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Behaviour {
    pub(super) healthy: bool,
    pub(super) pull_takes: Option<Duration>,
    pub(super) pull_fails: Option<String>,
    pub(super) start_fails: Option<StartFailure>,
    pub(super) ready_after: Option<Duration>,
    pub(super) never_ready: bool,
    pub(super) crash_after: Option<Duration>,
    pub(super) completes_after: Option<Duration>,
    pub(super) stop_takes: Option<Duration>,
}

/// How a container dies when it cannot start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StartFailure {
    pub(super) message: String,
    pub(super) exit_code: i32,
}

impl Behaviour {
    /// Lays `later` over `self`.
    fn merge(&mut self, later: &Behaviour) {
        fn over<T: Clone>(field: &mut Option<T>, later: Option<&T>) {
            if let Some(value) = later {
                *field = Some(value.clone());
            }
        }
        if later.healthy {
            *self = Behaviour::default();
        }
        over(&mut self.pull_takes, later.pull_takes.as_ref());
        over(&mut self.pull_fails, later.pull_fails.as_ref());
        over(&mut self.start_fails, later.start_fails.as_ref());
        over(&mut self.crash_after, later.crash_after.as_ref());
        over(&mut self.completes_after, later.completes_after.as_ref());
        over(&mut self.stop_takes, later.stop_takes.as_ref());
        if later.ready_after.is_some() {
            self.ready_after = later.ready_after;
            self.never_ready = false;
        }
        self.never_ready |= later.never_ready;
    }
}

/// Which containers, and what they do. Conditions are combined with "and"; a rule without any matches every container.
///
/// ```
/// use std::time::Duration;
/// use addon_testkit::nodes::Rule;
///
/// let slow = Rule::image("coredns:1.14").namespace("kube-system").slow_pull(Duration::from_secs(5));
/// let broken = Rule::image("coredns:1.99").fails_to_start("plugin/loop: detected", 1);
/// let zone_wide = Rule::everything().label("k8s-app", "kube-dns").never_ready();
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use = "a rule does nothing until it is added to the script"]
pub struct Rule {
    image: Option<String>,
    node: Option<String>,
    namespace: Option<String>,
    labels: BTreeMap<String, String>,
    behaviour: Behaviour,
}

impl Rule {
    /// A rule for every container.
    pub fn everything() -> Self {
        Self::default()
    }

    /// A rule for containers whose image contains `part`.
    pub fn image(part: impl Into<String>) -> Self {
        Self { image: Some(part.into()), ..Self::default() }
    }

    /// Only pods on this node.
    pub fn node(mut self, name: impl Into<String>) -> Self {
        self.node = Some(name.into());
        self
    }

    /// Only pods in this namespace.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// Only pods with this label; may be called more than once.
    pub fn label(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(key.into(), value.into());
        self
    }

    /// The container's readiness probe passes this long after the container's start.
    pub fn ready_after(mut self, delay: Duration) -> Self {
        self.behaviour.ready_after = Some(delay);
        self.behaviour.never_ready = false;
        self
    }

    /// The container runs, but its readiness probe never passes. A container that was ready stops being it.
    pub fn never_ready(mut self) -> Self {
        self.behaviour.never_ready = true;
        self.behaviour.ready_after = None;
        self
    }

    /// Each start ends at once with this message and exit code: `CrashLoopBackOff` with a growing restart count. A container that runs
    /// already goes on running, as on a real node.
    pub fn fails_to_start(mut self, message: impl Into<String>, exit_code: i32) -> Self {
        self.behaviour.start_fails = Some(StartFailure { message: message.into(), exit_code });
        self
    }

    /// The image cannot be had: `ErrImagePull`, then `ImagePullBackOff` with this message. A container that runs already goes on running.
    pub fn image_pull_fails(mut self, message: impl Into<String>) -> Self {
        self.behaviour.pull_fails = Some(message.into());
        self
    }

    /// The container is in `ContainerCreating` for this long before it starts (or before the pull fails).
    pub fn slow_pull(mut self, takes: Duration) -> Self {
        self.behaviour.pull_takes = Some(takes);
        self
    }

    /// The container exits with code 1 this long after each start. One that runs longer than that already crashes now.
    pub fn crash_after(mut self, delay: Duration) -> Self {
        self.behaviour.crash_after = Some(delay);
        self
    }

    /// The container exits with code 0 this long after each start: the pod succeeds, unless its restart policy is Always.
    pub fn completes_after(mut self, delay: Duration) -> Self {
        self.behaviour.completes_after = Some(delay);
        self
    }

    /// A deleted pod whose containers run needs this long to stop, at most its grace period. The pod stops when its slowest container has.
    pub fn stop_takes(mut self, takes: Duration) -> Self {
        self.behaviour.stop_takes = Some(takes);
        self
    }

    /// Forgets what earlier rules say about the matching containers: an exception from a general rule.
    pub fn healthy(mut self) -> Self {
        self.behaviour = Behaviour { healthy: true, ..Behaviour::default() };
        self
    }

    fn matches(&self, pod: &PodFacts, container: &ContainerFacts) -> bool {
        self.image.as_ref().is_none_or(|part| container.image.contains(part.as_str()))
            && self.node.as_ref().is_none_or(|node| *node == pod.node)
            && self.namespace.as_ref().is_none_or(|namespace| *namespace == pod.namespace)
            && self.labels.iter().all(|(key, value)| pod.labels.get(key) == Some(value))
    }
}

/// Names a rule in the script it was added to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RuleId(u64);

/// The rules in force, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Rules {
    next: u64,
    list: Vec<(RuleId, Rule)>,
}

impl Rules {
    pub(super) fn add(&mut self, rule: Rule) -> RuleId {
        let id = RuleId(self.next);
        self.next += 1;
        self.list.push((id, rule));
        id
    }

    /// What the rules say about one container.
    pub(super) fn behaviour(&self, pod: &PodFacts, container: &ContainerFacts) -> Behaviour {
        let mut merged = Behaviour::default();
        for (_, rule) in self.list.iter().filter(|(_, rule)| rule.matches(pod, container)) {
            merged.merge(&rule.behaviour);
        }
        merged
    }
}

/// The handle by which a test scripts pods while they run. Clones change the same script.
///
/// Every change re-evaluates all pods at once: a container in back-off for a reason that no longer holds is started again without waiting.
#[derive(Clone, Debug)]
pub struct Script {
    pub(super) world: Arc<watch::Sender<World>>,
}

impl Script {
    /// Adds a rule after those there are.
    pub fn add(&self, rule: Rule) -> RuleId {
        let mut id = RuleId(u64::MAX);
        self.change(|rules| id = rules.add(rule));
        id
    }

    /// Puts another rule in the place of one; adds it where the old one is gone.
    pub fn replace(&self, id: RuleId, rule: Rule) {
        self.change(|rules| match rules.list.iter_mut().find(|(known, _)| *known == id) {
            Some(entry) => entry.1 = rule,
            None => rules.list.push((id, rule)),
        });
    }

    /// Removes a rule.
    pub fn remove(&self, id: RuleId) {
        self.change(|rules| rules.list.retain(|(known, _)| *known != id));
    }

    /// Removes every rule: all containers are healthy again.
    pub fn clear(&self) {
        self.change(|rules| rules.list.clear());
    }

    fn change(&self, change: impl FnOnce(&mut Rules)) {
        self.world.send_modify(|world| change(Arc::make_mut(&mut world.rules)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod() -> PodFacts {
        PodFacts {
            namespace: "kube-system".into(),
            node: "node-2".into(),
            labels: BTreeMap::from([("k8s-app".into(), "kube-dns".into())]),
            ..PodFacts::default()
        }
    }

    fn container(image: &str) -> ContainerFacts {
        ContainerFacts { name: "c".into(), image: image.into(), restartable: false }
    }

    fn behaviour(rules: &[Rule], image: &str) -> Behaviour {
        let mut all = Rules::default();
        for rule in rules {
            all.add(rule.clone());
        }
        all.behaviour(&pod(), &container(image))
    }

    #[test]
    fn a_rule_matches_only_where_all_its_conditions_hold() {
        let rule = || Rule::image("coredns:1.14").never_ready();
        for (rule, matches) in [
            (rule(), true),
            (rule().namespace("kube-system").node("node-2").label("k8s-app", "kube-dns"), true),
            (rule().namespace("default"), false),
            (rule().node("node-1"), false),
            (rule().label("k8s-app", "kube-proxy"), false),
            (rule().label("tier", "node"), false),
        ] {
            assert_eq!(
                behaviour(std::slice::from_ref(&rule), "registry.k8s.io/coredns:1.14.6").never_ready,
                matches,
                "{rule:?}"
            );
        }
        assert!(!behaviour(&[rule()], "registry.k8s.io/coredns:1.13.1").never_ready);
    }

    #[test]
    fn later_rules_win_field_by_field() {
        let second = Duration::from_secs(1);
        let merged = behaviour(
            &[
                Rule::everything().ready_after(second).slow_pull(second),
                Rule::image("a").slow_pull(2 * second),
                Rule::image("b").crash_after(second),
            ],
            "a",
        );
        assert_eq!((merged.ready_after, merged.pull_takes, merged.crash_after), (Some(second), Some(2 * second), None));
    }

    #[test]
    fn ready_after_and_never_ready_replace_each_other() {
        let second = Duration::from_secs(1);
        let never = Rule::everything().never_ready();
        let after = Rule::everything().ready_after(second);
        assert!(!behaviour(&[never.clone(), after.clone()], "a").never_ready);
        assert!(behaviour(&[after, never], "a").never_ready);
    }

    #[test]
    fn a_healthy_exception_forgets_earlier_rules_only() {
        let rules = [
            Rule::everything().fails_to_start("boom", 1),
            Rule::image("good").healthy(),
            Rule::image("good").slow_pull(Duration::from_secs(1)),
        ];
        assert!(behaviour(&rules, "bad").start_fails.is_some());
        let good = behaviour(&rules, "good");
        assert_eq!((good.start_fails, good.pull_takes), (None, Some(Duration::from_secs(1))));
    }
}
