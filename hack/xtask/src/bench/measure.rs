//! One operator under measurement: bringing it into a known state, and reading times from the audit log.

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use addon_testkit::{
    Program, TestCluster,
    audit::{By, Recorder, Request},
    manifests,
};
use anyhow::{Context as _, Result, bail};
use k8s_openapi::{api::apps::v1::Deployment, jiff::Timestamp};
use kube::{
    Api,
    api::{DynamicObject, PostParams},
    runtime::wait::await_condition,
};

use super::idle::round;
use crate::workspace;

/// Where operators and their operands live.
const NAMESPACE: &str = "kube-system";
/// The API group of all add-ons.
const GROUP: &str = "addons.x-k8s.io";
/// No request for so long means: done. Far above any pause between two requests of one reconcile.
const QUIET: Duration = Duration::from_secs(2);
const PATIENCE: Duration = Duration::from_mins(1);
const POLL: Duration = Duration::from_millis(200);

/// An operator, and how its add-on is asked for.
pub(super) struct Subject {
    pub(super) operator: &'static str,
    /// Its binary and its ServiceAccount.
    pub(super) program: &'static str,
    /// The file of its CustomResourceDefinition.
    pub(super) definition: &'static str,
    pub(super) folder: &'static str,
    pub(super) sample: &'static str,
    /// What is tampered with.
    pub(super) deployment: &'static str,
}

/// A resource that was just created.
pub(super) struct Created {
    api: Api<DynamicObject>,
    name: String,
}

impl Subject {
    pub(super) fn user(&self) -> By<'static> {
        By::ServiceAccount(NAMESPACE, self.program)
    }

    /// A cluster as if just started, with the definition and the operator's rights; returns its kubeconfig.
    pub(super) async fn prepare(&self, cluster: &TestCluster) -> Result<PathBuf> {
        cluster.reset().await?;
        let client = cluster.client();
        manifests::apply(&client, &workspace::read(self.definition)?).await?;
        manifests::apply(&client, &workspace::read(&format!("{}/deploy/rbac.yaml", self.folder))?).await?;
        Ok(cluster.kubeconfig_for(NAMESPACE, self.program).await?)
    }

    pub(super) async fn create(&self, cluster: &TestCluster) -> Result<Created> {
        let path = format!("{}/{}", self.folder, self.sample);
        let client = cluster.client();
        let applied = manifests::apply(&client, &workspace::read(&path)?).await?;
        let resource = applied.first().with_context(|| format!("{path} is empty"))?;
        let name = resource.metadata.name.clone().context("a stored object has a name")?;
        Ok(Created { api: manifests::api_of(&client, resource).await?, name })
    }

    /// Waits until the operator has asked for nothing for a while and `ready` says that this is what was waited for;
    /// returns its requests.
    pub(super) async fn settle(
        &self,
        cluster: &TestCluster,
        recorder: &Recorder<'_>,
        operator: &mut Program,
        ready: impl Fn(&[Request]) -> bool,
    ) -> Result<Vec<Request>> {
        let start = Instant::now();
        let mut seen = 0;
        let mut since = Instant::now();
        loop {
            tokio::time::sleep(POLL).await;
            operator.check()?;
            let requests = recorder.requests(self.user()).await?;
            if requests.len() != seen || !ready(&requests) {
                (seen, since) = (requests.len(), Instant::now());
            }
            if since.elapsed() > QUIET {
                return Ok(requests);
            }
            if start.elapsed() > PATIENCE {
                let log = cluster.log(self.program).unwrap_or_default();
                bail!("{} does not come to rest within {} s; its log:\n{log}", self.operator, PATIENCE.as_secs());
            }
        }
    }

    /// Foreign change stored -> repaired.
    pub(super) async fn drift(&self, cluster: &TestCluster, operator: &mut Program, run: u32) -> Result<f64> {
        let recorder = cluster.recorder();
        let deployments: Api<Deployment> = Api::namespaced(cluster.client(), NAMESPACE);
        let mut deployment = deployments.get(self.deployment).await?;
        let template = deployment.spec.as_mut().and_then(|spec| spec.template.spec.as_mut());
        let container = template.and_then(|pod| pod.containers.first_mut()).context("a Deployment has a container")?;
        container.image = Some(format!("example.com/foreign:{run}"));
        let params = PostParams { field_manager: Some("kubectl-set".to_owned()), ..PostParams::default() };
        deployments.replace(self.deployment, &params, &deployment).await?;
        let is_repair = |request: &Request| is_applied(request) && request.resource == "deployments";
        let requests = self.settle(cluster, &recorder, operator, |requests| requests.iter().any(is_repair)).await?;
        let repair = requests.iter().find(|request| is_repair(request)).context("the change was repaired")?;
        let writes = recorder.writes(By::Anyone).await?;
        let change = writes.iter().find(|it| it.resource == "deployments" && it.verb == "update" && it.code == 200);
        let change = change.filter(|change| change.subresource.is_empty()).context("the audit log lacks the change")?;
        Ok(milliseconds(change.answered, repair.answered))
    }
}

impl Created {
    /// Waits until its status says Available.
    pub(super) async fn available(&self, operator: &mut Program) -> Result<()> {
        let seen = await_condition(self.api.clone(), &self.name, |state: Option<&_>| state.is_some_and(is_available));
        let seen = tokio::time::timeout(PATIENCE, seen).await;
        operator.check()?;
        seen.with_context(|| format!("{} is not Available within {} s", self.name, PATIENCE.as_secs()))??;
        Ok(())
    }
}

fn is_available(resource: &DynamicObject) -> bool {
    let conditions = resource.data["status"]["conditions"].as_array();
    conditions.is_some_and(|all| all.iter().any(|it| it["type"] == "Available" && it["status"] == "True"))
}

/// The request that made it complete: the last write to an object other than the resource's own status.
pub(super) fn applied(requests: &[Request]) -> Option<&Request> {
    requests.iter().filter(|request| is_applied(request)).max_by_key(|request| request.answered)
}

/// Whether this request created the resource.
pub(super) fn is_creation(request: &Request) -> bool {
    request.group == GROUP && request.code == 201 && request.subresource.is_empty()
}

fn is_applied(request: &Request) -> bool {
    request.is_write() && request.code < 300 && request.group != GROUP && request.resource != "events"
}

pub(super) fn now() -> Timestamp {
    Timestamp::now()
}

pub(super) fn milliseconds(from: Timestamp, to: Timestamp) -> f64 {
    round(to.duration_since(from).as_secs_f64() * 1000.0)
}

/// The middle of some values; of an even number, the mean of the two in the middle.
pub(super) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match (values.get(middle), values.len() % 2) {
        (Some(value), 1) => *value,
        (Some(value), _) => round(f64::midpoint(values[middle - 1], *value)),
        (None, _) => f64::NAN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(verb: &str, group: &str, second: i64, code: u16) -> Request {
        let time = Timestamp::from_second(second).unwrap();
        Request {
            time,
            answered: time,
            verb: verb.into(),
            uri: String::new(),
            group: group.into(),
            resource: "deployments".into(),
            namespace: NAMESPACE.into(),
            name: "coredns".into(),
            subresource: String::new(),
            code,
            user: String::new(),
            user_agent: String::new(),
            dry_run: false,
        }
    }

    #[test]
    fn applied_is_the_last_good_write_that_is_no_status() {
        let all = [
            request("patch", "apps", 1, 201),
            request("patch", "apps", 2, 200),
            request("patch", "apps", 3, 409),
            request("get", "apps", 4, 200),
            request("patch", GROUP, 5, 200),
        ];
        assert_eq!(applied(&all), Some(&all[1]));
        assert_eq!(applied(&all[2..]), None);
    }

    #[test]
    fn the_median_of_an_even_number_lies_between() {
        assert!((median(vec![30.0, 10.0, 20.0]) - 20.0).abs() < f64::EPSILON);
        assert!((median(vec![40.0, 10.0, 20.0, 30.0]) - 25.0).abs() < f64::EPSILON);
    }
}
