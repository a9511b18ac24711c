//! The agent: one task that plays kubelet for the pods of all simulated nodes.
//!
//! One watch of all bound pods, one queue of pods to look at, one heap of wake-ups, and a bounded number of writes in flight; at most one
//! of them per pod. What to write is decided by [`step`]; the agent only carries it out, and tries again with back-off when that fails.
//!
//! It must never panic and never end before its handle is dropped: an error is logged and tried again.

use std::cmp::Reverse;
use std::collections::hash_map::{DefaultHasher, Entry as MapEntry};
use std::collections::{BinaryHeap, HashMap, HashSet, VecDeque};
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use kube::api::{Api, ApiResource};
use kube::runtime::{WatchStreamExt, watcher};
use tokio::sync::watch;
use tokio::time::Instant;

use super::addresses;
use super::backoff::{self, Quick};
use super::container::Moment;
use super::facts::{Observed, PodFacts, SlimPod};
use super::pod::{Desired, PodState, step};
use super::status::{self, WallClock};
use super::world::World;
use super::write::{Outcome, Write, Written};

type Uid = Arc<str>;

const MOST_RETRY_DELAY: Duration = Duration::from_secs(5);

/// One pod in the agent's store.
struct Entry {
    facts: PodFacts,
    state: PodState,
    /// Hash of the last patch that the server took.
    written: Option<u64>,
    /// The last deletion went through: only finalizers keep the object.
    deleted: bool,
    work: Work,
    failures: u32,
    not_before: Moment,
}

/// What is going on for a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    Idle,
    /// It is in the queue.
    Queued,
    /// A write is in flight.
    Writing,
    /// A write is in flight, and something changed meanwhile.
    Overtaken,
}

pub(super) struct Agent {
    client: Client,
    resource: ApiResource,
    world: watch::Receiver<World>,
    current: World,
    pods: HashMap<Uid, Entry>,
    queue: VecDeque<Uid>,
    wakeups: BinaryHeap<Reverse<(Moment, Uid)>>,
    in_flight: FuturesUnordered<futures::future::BoxFuture<'static, Written>>,
    parallel_writes: usize,
    started: Instant,
    clock: WallClock,
    /// Pods seen by the relist in progress.
    listed: Option<HashSet<Uid>>,
}

impl Agent {
    pub(super) fn new(client: Client, world: watch::Receiver<World>, parallel_writes: usize) -> Self {
        let current = world.borrow().clone();
        Self {
            client,
            resource: ApiResource::erase::<Pod>(&()),
            world,
            current,
            pods: HashMap::new(),
            queue: VecDeque::new(),
            wakeups: BinaryHeap::new(),
            in_flight: FuturesUnordered::new(),
            parallel_writes: parallel_writes.max(1),
            started: Instant::now(),
            clock: WallClock { start: Timestamp::now() },
            listed: None,
        }
    }

    /// Runs until the world's last sender is gone; normally it is aborted before.
    pub(super) async fn run(mut self) {
        let pods: Api<SlimPod> = Api::all_with(self.client.clone(), &self.resource);
        let bound = watcher::Config::default().fields("spec.nodeName!=");
        let mut events = watcher(pods, bound).backoff(Quick::default()).boxed();
        loop {
            self.start_writes();
            let wake = self.wakeups.peek().map(|Reverse((at, _))| self.started + *at);
            tokio::select! {
                event = events.next() => match event {
                    Some(Ok(event)) => self.observe(event),
                    Some(Err(error)) => tracing::warn!(%error, "the watch of the simulated nodes' pods failed; it is tried again"),
                    None => return tracing::error!("the watch of the simulated nodes' pods ended"),
                },
                Some(written) = self.in_flight.next(), if !self.in_flight.is_empty() => self.settle(written),
                changed = self.world.changed() => match changed {
                    Ok(()) => self.follow_world(),
                    Err(_) => return,
                },
                () = tokio::time::sleep_until(wake.unwrap_or(self.started)), if wake.is_some() => self.wake_up(),
            }
        }
    }

    fn now(&self) -> Moment {
        self.started.elapsed()
    }

    fn observe(&mut self, event: watcher::Event<SlimPod>) {
        match event {
            watcher::Event::Init => self.listed = Some(HashSet::new()),
            watcher::Event::InitApply(pod) | watcher::Event::Apply(pod) => self.apply(pod),
            watcher::Event::Delete(pod) => {
                if let Some(uid) = pod.metadata.uid {
                    self.pods.remove(uid.as_str());
                }
            }
            watcher::Event::InitDone => {
                if let Some(listed) = self.listed.take() {
                    self.pods.retain(|uid, _| listed.contains(uid));
                }
            }
        }
    }

    fn apply(&mut self, pod: SlimPod) {
        let Some(Observed { facts, pod_ip, finished }) = Observed::read(pod) else { return };
        if !self.current.nodes.contains_key(&facts.node) && self.world.has_changed().unwrap_or(false) {
            // A node is in the world before it is in the API: its first pod may be quicker than the news of it.
            self.follow_world();
        }
        let Some(node) = self.current.nodes.get(&facts.node).copied() else { return };
        let uid: Uid = facts.uid.as_str().into();
        if let Some(listed) = &mut self.listed {
            listed.insert(uid.clone());
        }
        let now = self.now();
        match self.pods.entry(uid.clone()) {
            MapEntry::Occupied(mut known) => {
                // The echo of our own writes changes nothing that we decide by.
                if known.get().facts == facts {
                    return;
                }
                known.get_mut().facts = facts;
            }
            MapEntry::Vacant(new) => {
                let address = match pod_ip.and_then(|ip| ip.parse().ok()) {
                    Some(address) => address,
                    None if facts.host_network => node.address,
                    None => addresses::next_pod(),
                };
                new.insert(Entry {
                    state: PodState::accept(&facts, address, finished, now),
                    facts,
                    written: None,
                    deleted: false,
                    work: Work::Idle,
                    failures: 0,
                    not_before: Moment::ZERO,
                });
            }
        }
        self.enqueue(&uid);
    }

    /// Another script concerns every pod, another node its pods.
    fn follow_world(&mut self) {
        let new = self.world.borrow_and_update().clone();
        let old = std::mem::replace(&mut self.current, new);
        let rules_changed = old.rules != self.current.rules;
        let concerned: Vec<Uid> = self
            .pods
            .iter()
            .filter(|(_, pod)| {
                rules_changed || old.nodes.get(&pod.facts.node) != self.current.nodes.get(&pod.facts.node)
            })
            .map(|(uid, _)| uid.clone())
            .collect();
        for uid in &concerned {
            self.enqueue(uid);
        }
    }

    fn wake_up(&mut self) {
        let now = self.now();
        while let Some(Reverse((at, _))) = self.wakeups.peek() {
            if *at > now {
                break;
            }
            if let Some(Reverse((_, uid))) = self.wakeups.pop() {
                self.enqueue(&uid);
            }
        }
    }

    fn enqueue(&mut self, uid: &Uid) {
        let Some(pod) = self.pods.get_mut(uid) else { return };
        match pod.work {
            Work::Idle => {
                pod.work = Work::Queued;
                self.queue.push_back(uid.clone());
            }
            Work::Writing => pod.work = Work::Overtaken,
            Work::Queued | Work::Overtaken => {}
        }
    }

    fn start_writes(&mut self) {
        while self.in_flight.len() < self.parallel_writes {
            let Some(uid) = self.queue.pop_front() else { return };
            if let Some(write) = self.look_at(&uid) {
                self.in_flight.push(Box::pin(write.send(self.client.clone(), self.resource.clone(), uid)));
            }
        }
    }

    /// Moves one pod on, and says what to write, if anything.
    fn look_at(&mut self, uid: &Uid) -> Option<Write> {
        let now = self.now();
        let pod = self.pods.get_mut(uid)?;
        pod.work = Work::Idle;
        let node = self.current.nodes.get(&pod.facts.node).copied()?;
        if now < pod.not_before {
            self.wakeups.push(Reverse((pod.not_before, uid.clone())));
            return None;
        }
        let step = step(&pod.facts, node.health, &mut pod.state, &self.current.rules, now);
        if let Some(at) = step.wake {
            self.wakeups.push(Reverse((at, uid.clone())));
        }
        let status = match step.desired {
            Desired::Leave => return None,
            Desired::Gone if pod.deleted => return None,
            Desired::Gone => {
                pod.work = Work::Writing;
                return Some(Write::delete(&pod.facts));
            }
            Desired::Report => status::full(&pod.facts, &pod.state, node, now, self.clock),
            Desired::NotReady => status::not_ready(&pod.state, self.clock),
        };
        let patch = status::patch(uid, &status);
        let mut hasher = DefaultHasher::new();
        patch.to_string().hash(&mut hasher);
        let hash = hasher.finish();
        if pod.written == Some(hash) {
            return None;
        }
        pod.work = Work::Writing;
        Some(Write::status(&pod.facts, patch, hash))
    }

    fn settle(&mut self, Written { uid, outcome }: Written) {
        let now = self.now();
        let Some(pod) = self.pods.get_mut(&uid) else { return };
        let mut again = pod.work == Work::Overtaken;
        pod.work = Work::Idle;
        match outcome {
            Outcome::Reported(hash) => {
                pod.written = Some(hash);
                pod.failures = 0;
            }
            Outcome::Deleted => {
                pod.deleted = true;
                pod.failures = 0;
            }
            // Its end comes by the watch.
            Outcome::NotThere => again = false,
            Outcome::Failed => {
                let delay = backoff::delay(pod.failures, MOST_RETRY_DELAY);
                pod.failures += 1;
                pod.not_before = now + delay;
                again = true;
            }
        }
        if again {
            self.enqueue(&uid);
        }
    }
}
