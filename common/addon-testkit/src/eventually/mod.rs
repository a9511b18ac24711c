//! Waiting for a state of the cluster, and watching that a state does not come.
//!
//! A test never sleeps for a fixed time: it says what it waits for. When that does not come, the error says what was awaited, what was
//! seen last, and shows the objects that explain it ([`Eventually`]).

mod dump;
mod watch;

use std::fmt::Display;
use std::time::Duration;

use anyhow::bail;
use k8s_openapi::NamespaceResourceScope;
use kube::api::ApiResource;
use kube::{Client, Resource};
use tokio::time::Instant;

use dump::Dump;
pub use watch::{wait_for, wait_until_gone};

/// The pause between two checks.
const INTERVAL: Duration = Duration::from_millis(50);

/// What one check found.
pub enum Verdict<T> {
    /// It holds.
    Holds(T),
    /// It does not, and this was seen instead.
    NotYet(String),
    /// It could not be found out.
    Unknown(String),
}

/// What a check may return: `bool`, `Option<T>`, `()`, a [`Verdict`], or a `Result` of any of these.
///
/// So `Ok(false)` and `Ok(None)` are not yet, and a check can say what it sees by `anyhow::ensure!` and `Ok(())`.
pub trait Check {
    /// What the wait returns.
    type Value;
    /// The finding.
    fn verdict(self) -> Verdict<Self::Value>;
}

impl<T> Check for Verdict<T> {
    type Value = T;
    fn verdict(self) -> Verdict<T> {
        self
    }
}

impl Check for () {
    type Value = ();
    fn verdict(self) -> Verdict<()> {
        Verdict::Holds(())
    }
}

impl Check for bool {
    type Value = ();
    fn verdict(self) -> Verdict<()> {
        if self { Verdict::Holds(()) } else { Verdict::NotYet("false".into()) }
    }
}

impl<T> Check for Option<T> {
    type Value = T;
    fn verdict(self) -> Verdict<T> {
        self.map_or_else(|| Verdict::NotYet("nothing".into()), Verdict::Holds)
    }
}

impl<C: Check, E: Display> Check for Result<C, E> {
    type Value = C::Value;
    fn verdict(self) -> Verdict<C::Value> {
        match self {
            Ok(check) => check.verdict(),
            // `{:#}` prints the chain of an anyhow error.
            Err(error) => Verdict::Unknown(format!("{error:#}")),
        }
    }
}

/// Checks until it holds, and returns what the check found; after `timeout` the error says what was seen last.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// use std::time::Duration;
/// use addon_testkit::eventually::eventually;
///
/// let mut asked = 0;
/// let found = eventually("the third answer", Duration::from_secs(10), || {
///     asked += 1;
///     let now = asked;
///     async move { (now == 3).then_some(now) }
/// })
/// .await;
/// assert_eq!(found.unwrap(), 3);
/// # });
/// ```
pub async fn eventually<C: Check>(
    what: &str,
    timeout: Duration,
    mut check: impl AsyncFnMut() -> C,
) -> anyhow::Result<C::Value> {
    let deadline = Instant::now() + timeout;
    let mut last = "nothing: the first check did not return".to_owned();
    loop {
        match tokio::time::timeout_at(deadline, check()).await.map(Check::verdict) {
            Ok(Verdict::Holds(value)) => return Ok(value),
            Ok(Verdict::NotYet(seen) | Verdict::Unknown(seen)) => last = seen,
            Err(_) => bail!("not within {timeout:?}: {what}\nseen last: {last}"),
        }
        if Instant::now() + INTERVAL >= deadline {
            bail!("not within {timeout:?}: {what}\nseen last: {last}");
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

/// Fails at once when it holds, and passes when it has not for this long. It also fails when no check could find out.
pub async fn never<C: Check>(
    what: &str,
    for_duration: Duration,
    mut check: impl AsyncFnMut() -> C,
) -> anyhow::Result<()> {
    let start = Instant::now();
    let deadline = start + for_duration;
    let mut unknown = Some("the first check did not return".to_owned());
    // One check is made in any case.
    loop {
        match tokio::time::timeout_at(deadline.max(Instant::now() + INTERVAL), check()).await.map(Check::verdict) {
            Ok(Verdict::Holds(_)) => bail!("must not happen, but did after {:?}: {what}", start.elapsed()),
            Ok(Verdict::NotYet(_)) => unknown = None,
            Ok(Verdict::Unknown(error)) => unknown = unknown.map(|_| error),
            Err(_) => {}
        }
        if Instant::now() >= deadline {
            break;
        }
        tokio::time::sleep(INTERVAL.min(deadline - Instant::now())).await;
    }
    match unknown {
        None => Ok(()),
        Some(error) => bail!("could not be observed for {for_duration:?}: {what}\nlast error: {error}"),
    }
}

/// Waits like [`eventually`], [`never()`] and [`wait_for`], and on failure shows the objects that explain it.
///
/// ```no_run
/// # async fn example(client: kube::Client) -> anyhow::Result<()> {
/// use addon_testkit::eventually::Eventually;
/// use k8s_openapi::api::{apps::v1::Deployment, core::v1::ConfigMap};
/// use kube::Api;
///
/// let wait = Eventually::new(&client).namespace("kube-system").objects::<ConfigMap>(&(), Some("kube-system"));
/// let api: Api<Deployment> = Api::namespaced(client.clone(), "kube-system");
/// wait.until("CoreDNS has two replicas", async || {
///     let seen = api.get("coredns").await?;
///     let ready = seen.status.and_then(|status| status.ready_replicas);
///     anyhow::ensure!(ready == Some(2), "ready: {ready:?}");
///     anyhow::Ok(())
/// })
/// .await?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
#[must_use]
pub struct Eventually {
    client: Client,
    timeout: Duration,
    dump: Dump,
}

impl Eventually {
    /// Waits up to 30 s, and shows nothing yet.
    pub fn new(client: &Client) -> Self {
        Self { client: client.clone(), timeout: Duration::from_secs(30), dump: Dump::default() }
    }

    /// How long to wait.
    pub fn within(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Shows this namespace's pods, Deployments, DaemonSets and events on failure.
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.dump.namespaces.push(namespace.into());
        self
    }

    /// Shows the nodes on failure.
    pub fn nodes(mut self) -> Self {
        self.dump.nodes = true;
        self
    }

    /// Shows the objects of this kind on failure, as YAML; without a namespace those of all.
    pub fn objects<K: Resource>(self, kind: &K::DynamicType, namespace: Option<&str>) -> Self {
        self.resource(ApiResource::erase::<K>(kind), namespace)
    }

    /// As [`Self::objects`], for kinds without a Rust type.
    pub fn resource(mut self, resource: ApiResource, namespace: Option<&str>) -> Self {
        self.dump.resources.push((resource, namespace.map(ToOwned::to_owned)));
        self
    }

    /// [`eventually`] with the dump.
    pub async fn until<C: Check>(&self, what: &str, check: impl AsyncFnMut() -> C) -> anyhow::Result<C::Value> {
        let result = eventually(what, self.timeout, check).await;
        self.explain(result).await
    }

    /// [`never()`] with the dump.
    pub async fn never<C: Check>(
        &self,
        what: &str,
        for_duration: Duration,
        check: impl AsyncFnMut() -> C,
    ) -> anyhow::Result<()> {
        let result = never(what, for_duration, check).await;
        self.explain(result).await
    }

    /// [`wait_for`] with the dump, in the namespace given.
    pub async fn wait_for<K>(
        &self,
        namespace: &str,
        name: &str,
        what: &str,
        holds: impl FnMut(&K) -> bool,
    ) -> anyhow::Result<K>
    where
        K: watch::Watchable + Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        let api = kube::Api::namespaced(self.client.clone(), namespace);
        let result = wait_for(api, name, what, self.timeout, holds).await;
        self.explain(result).await
    }

    /// The dump itself, for a test's own failure.
    pub async fn show(&self) -> String {
        self.dump.render(&self.client).await
    }

    async fn explain<T>(&self, result: anyhow::Result<T>) -> anyhow::Result<T> {
        match result {
            Ok(value) => Ok(value),
            Err(error) => bail!("{error:#}\n{}", self.show().await),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second() -> Duration {
        Duration::from_secs(1)
    }

    #[tokio::test(start_paused = true)]
    async fn a_timeout_says_what_was_awaited_and_what_was_seen_last() {
        let mut asked = 0;
        let error = eventually("the moon", second(), async || {
            asked += 1;
            anyhow::ensure!(asked > 1000, "only clouds");
            Ok(())
        })
        .await
        .unwrap_err();
        assert_eq!(error.to_string(), "not within 1s: the moon\nseen last: only clouds");
        assert_eq!(asked, 20);
    }

    #[tokio::test(start_paused = true)]
    async fn ok_false_and_ok_none_are_not_yet() {
        assert!(eventually("false", second(), async || anyhow::Ok(false)).await.is_err());
        assert!(eventually("none", second(), async || anyhow::Ok(None::<u8>)).await.is_err());
        assert_eq!(eventually("some", second(), async || anyhow::Ok(Some(1))).await.unwrap(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_check_that_hangs_ends_at_the_timeout() {
        let error = eventually("an answer", second(), async || std::future::pending::<bool>().await).await.unwrap_err();
        assert!(error.to_string().contains("did not return"), "{error}");
    }

    #[tokio::test(start_paused = true)]
    async fn never_fails_at_once_when_it_happens() {
        let start = Instant::now();
        let error = never("a restart", 100 * second(), async || start.elapsed() >= second()).await.unwrap_err();
        assert_eq!(error.to_string(), "must not happen, but did after 1s: a restart");
    }

    #[tokio::test(start_paused = true)]
    async fn never_passes_only_when_something_could_be_observed() {
        never("a restart", second(), async || false).await.unwrap();
        let error = never("a restart", second(), async || Err::<bool, _>("unreachable")).await.unwrap_err();
        assert!(error.to_string().contains("last error: unreachable"), "{error}");
    }
}
