//! From what is known to what is written: plan, carry out what is due, plan anew, until nothing is due.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use addon_core::{
    Addon, ObjectKey, Observed, Plan, Version,
    addon::{Answer, Failure},
    fields, plan,
    plan::Action,
};
use futures::future::join_all;
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use tokio::time::Instant;

use crate::{
    backoff::Backoff,
    cache::Cache,
    client::CallError,
    failure::{Attempt, describe},
    held_up::HeldUp,
    request::{self, Outcome},
};

/// The most rounds of planning without a rest: more than any plan has waves.
const ROUNDS: usize = 16;
/// The rest after that.
const REST: Duration = Duration::from_secs(1);

/// More than this often in this time is no longer a repair but a fight.
const FIGHT_ROUNDS: u32 = 5;
const FIGHT_WINDOW: Duration = Duration::from_mins(1);

/// Reconciles the add-on's resources. Remembers only what a restart may forget.
pub(crate) struct Reconciler {
    addon: Arc<dyn Addon>,
    client: Client,
    cache: Arc<Cache>,
    namespace: String,
    kubernetes: Version,
    answers: BTreeMap<ObjectKey, Answer>,
    confirmed: BTreeSet<String>,
    held_up: HeldUp,
    taken_back: BTreeMap<ObjectKey, (Instant, u32)>,
}

impl Reconciler {
    pub(crate) fn new(
        addon: Arc<dyn Addon>,
        client: Client,
        cache: Arc<Cache>,
        namespace: String,
        kubernetes: Version,
    ) -> Self {
        Self {
            addon,
            client,
            cache,
            namespace,
            kubernetes,
            answers: BTreeMap::new(),
            confirmed: BTreeSet::new(),
            held_up: HeldUp::default(),
            taken_back: BTreeMap::new(),
        }
    }

    /// Goes on with an API server that may have another version than before.
    pub(crate) fn serve(&mut self, kubernetes: Option<Version>) {
        if let Some(kubernetes) = kubernetes.filter(|version| *version != self.kubernetes) {
            tracing::info!(%kubernetes, "the API server has another version");
            self.kubernetes = kubernetes;
        }
    }

    /// Does all that is due. Returns when to look again although nothing happens, if at all.
    pub(crate) async fn run(&mut self) -> Option<Instant> {
        for _ in 0..ROUNDS {
            let observed = self.observe().await?;
            let plans = if observed.failures.keys().any(|key| key.name.is_empty()) {
                plan::hold_all(&observed)
            } else {
                plan::plan_all(self.addon.as_ref(), &observed)
            };
            self.held_up.retain(&wanted(&plans, &observed));
            let now = Instant::now();
            let mut busy = false;
            for plan in &plans {
                busy |= self.carry_out(plan, now).await;
            }
            if !busy {
                let timers = plans.iter().filter_map(|plan| plan.again_in);
                let timers = timers.map(|seconds| now + Duration::from_secs(seconds.into()));
                return timers.chain(self.held_up.next_after(now)).min();
            }
        }
        // Someone undoes what is written: go on, but let others have their turn.
        Some(Instant::now() + REST)
    }

    /// The snapshot to decide from; `None` while it is incomplete for no reason that could be told.
    async fn observe(&mut self) -> Option<Observed> {
        let watches = self.cache.failures();
        let live = match self.cache.objects() {
            Some(live) => live,
            None if watches.is_empty() => return None,
            None => BTreeMap::new(),
        };
        let resources = self.cache.of_kind(&self.addon.resource());
        let mut failures = watches;
        // Whether a look-up fails is found out anew.
        failures.extend(self.held_up.failures().filter(|(key, _)| !key.name.is_empty()));
        let mut observed = Observed {
            kubernetes: self.kubernetes.clone(),
            namespace: self.namespace.clone(),
            resources,
            live,
            lookups: BTreeMap::new(),
            answers: self.answers.clone(),
            confirmed: self.confirmed.clone(),
            failures,
            now: Timestamp::now(),
        };
        self.look_up(&mut observed).await;
        Some(observed)
    }

    /// Reads what the add-on needs besides its watches, until it needs nothing more.
    async fn look_up(&mut self, observed: &mut Observed) {
        loop {
            let Some(resource) = plan::elect(observed) else { return };
            let wanted = self.addon.lookups(resource, observed);
            let missing: Vec<_> = wanted.into_iter().filter(|key| !observed.lookups.contains_key(key)).collect();
            if missing.is_empty() {
                return;
            }
            let client = &self.client;
            let read = join_all(missing.iter().map(|key| request::get(client, key))).await;
            for (key, result) in missing.into_iter().zip(read) {
                // A failed look-up holds everything up: it is a watch in all but name.
                let nameless = ObjectKey { name: String::new(), ..key.clone() };
                match result {
                    Ok(found) => {
                        self.held_up.clear(&nameless);
                        observed.lookups.insert(key, found);
                    }
                    Err(error) => {
                        let failure = describe_lookup(&error, &key);
                        self.held_up.note(nameless.clone(), failure.clone(), Backoff::of_writes());
                        observed.failures.insert(nameless, failure);
                        observed.lookups.insert(key, None);
                    }
                }
            }
        }
    }

    /// Carries out the first wave, or writes the status where nothing is due. Returns whether to plan anew.
    async fn carry_out(&mut self, plan: &Plan, now: Instant) -> bool {
        let due: Vec<&Action> = plan
            .waves
            .first()
            .map(|wave| &wave.actions)
            .into_iter()
            .flatten()
            .filter(|action| !self.held_up.is_waiting(&action.target(), now))
            .collect();
        if due.is_empty() {
            return self.write_status(plan, now).await;
        }
        let manager = self.addon.field_manager();
        let client = &self.client;
        let results = join_all(due.iter().map(|action| request::send(client, &manager, action))).await;
        for (action, result) in due.into_iter().zip(results) {
            self.take(action, result);
        }
        true
    }

    fn take(&mut self, action: &Action, result: Result<Outcome, CallError>) {
        let Some((attempt, target)) = request::attempt(action) else { return };
        match result {
            Ok(Outcome::Stored(object)) => {
                log(action, &target);
                if let Action::Apply { body, .. } = action {
                    let sent = fields::leaves(body);
                    let projection = fields::projection(&object, sent.keys());
                    self.answers.insert(target.clone(), Answer { sent: body.clone(), projection });
                }
                match self.contended(action, &target) {
                    Some(failure) => self.held_up.note(target, failure, Backoff::of_writes()),
                    None => self.held_up.clear(&target),
                }
                self.cache.record(object);
            }
            Ok(Outcome::Deleted) => {
                log(action, &target);
                self.held_up.clear(&target);
                self.cache.forget(&target);
            }
            Ok(Outcome::Confirmed) => {
                if let Action::ConfirmAccess(access) = action {
                    self.confirmed.insert(access.id());
                }
                self.held_up.clear(&target);
            }
            Ok(Outcome::Unconfirmed) => {
                let failure = Failure {
                    reason: "WaitingForAccess".into(),
                    message: format!("waiting until {target} has its rights"),
                    is_error: false,
                };
                self.held_up.note(target, failure, Backoff::of_waits());
            }
            Err(error) => {
                self.held_up.note(target, describe(&error, &attempt), Backoff::of_writes());
            }
        }
    }

    /// Counts how often an object was taken back from others lately; too often is a fight, which slows down and is said.
    fn contended(&mut self, action: &Action, target: &ObjectKey) -> Option<Failure> {
        let (Action::Apply { changes, .. } | Action::RemoveItems { changes, .. }) = action else { return None };
        let taken = changes.iter().find(|change| change.owner.is_some() && change.old.is_some())?;
        let now = Instant::now();
        let (since, count) = self.taken_back.entry(target.clone()).or_insert((now, 0));
        if now - *since > FIGHT_WINDOW {
            (*since, *count) = (now, 0);
        }
        *count += 1;
        (*count > FIGHT_ROUNDS).then(|| Failure {
            reason: "Contended".into(),
            message: format!(
                "{target}: {} keeps changing {}, and it is taken back each time; make one of the two stop",
                taken.owner.as_deref().unwrap_or_default(),
                taken.path
            ),
            is_error: true,
        })
    }

    /// Writes the status, where it differs. Returns whether to plan anew.
    async fn write_status(&mut self, plan: &Plan, now: Instant) -> bool {
        let Some(status) = &plan.status else { return false };
        if self.held_up.is_waiting(&plan.subject, now) {
            return false;
        }
        let kind = self.addon.resource();
        match request::write_status(&self.client, &self.addon.field_manager(), &kind, &plan.subject, status).await {
            Ok(stored) => {
                log_status(&plan.subject, status);
                self.held_up.clear(&plan.subject);
                self.cache.record(stored);
            }
            // Deleted meanwhile: released, with nothing to do.
            Err(CallError::Kube(kube::Error::Api(status))) if status.code == 404 => {}
            Err(error) => {
                let what = plan.subject.qualified_name();
                let attempt = Attempt { verbs: &["patch"], kind: &kind, what: format!("{what} (its status)") };
                self.held_up.note(plan.subject.clone(), describe(&error, &attempt), Backoff::of_writes());
            }
        }
        false
    }
}

/// What may still be held up: what is planned to be written, and look-ups that failed just now.
fn wanted(plans: &[Plan], observed: &Observed) -> BTreeSet<ObjectKey> {
    let written = plans.iter().flat_map(|plan| &plan.waves).flat_map(|wave| &wave.actions).map(Action::target);
    let statuses = plans.iter().filter(|plan| plan.status.is_some()).map(|plan| plan.subject.clone());
    let looked_up = observed.failures.keys().filter(|key| key.name.is_empty()).cloned();
    written.chain(statuses).chain(looked_up).collect()
}

fn describe_lookup(error: &CallError, key: &ObjectKey) -> Failure {
    match addon_core::schema::kind_of(&key.group, &key.kind) {
        Some(kind) => describe(error, &Attempt { verbs: &["get"], kind, what: key.qualified_name() }),
        None => Failure { reason: "UnknownKind".into(), message: format!("{key}: {error}"), is_error: true },
    }
}

/// Says what was written, and who had changed what was repaired.
fn log(action: &Action, target: &ObjectKey) {
    match action {
        Action::Apply { changes, .. } | Action::RemoveItems { changes, .. } => {
            for change in changes.iter().filter(|change| change.owner.is_some()) {
                let owner = change.owner.as_deref().unwrap_or_default();
                tracing::info!(object = %target, field = %change.path, owner, "took back a field that {owner} had set");
            }
            tracing::info!(object = %target, fields = changes.len(), "applied");
        }
        Action::Delete { .. } => tracing::info!(object = %target, "deleted"),
        Action::ConfirmAccess(_) => {}
    }
}

fn log_status(subject: &ObjectKey, status: &serde_json::Value) {
    let phase = status["phase"].as_str().unwrap_or_default();
    let errors = status["errors"].as_array().map_or(0, Vec::len);
    tracing::info!(object = %subject, phase, errors, "status written");
}
