//! What was asked of the API server: a recorder that reads its audit log.
//!
//! The log has every request with its answer's code, also those that a client library makes unseen. The recorder only
//! reads; it changes nothing about how a request is served.

use std::{
    fmt,
    io::{Read as _, Seek as _, SeekFrom},
    path::{Path, PathBuf},
    time::Duration,
};

use k8s_openapi::{apimachinery::pkg::apis::meta::v1::MicroTime, jiff::Timestamp};
use serde::Deserialize;

use crate::cluster::{ClusterError, TestCluster};

/// The log of a request is written before or shortly after its answer is sent; this is far more than it takes.
const PATIENCE: Duration = Duration::from_secs(20);

const POLL: Duration = Duration::from_millis(5);

/// How often the log is asked to catch up: handlers that answered just before the first time have come back by the second.
const BARRIERS: u32 = 2;

/// Whose requests are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By<'a> {
    /// A user name, exactly.
    User(&'a str),
    /// A ServiceAccount: namespace and name.
    ServiceAccount(&'a str, &'a str),
    /// The beginning of a User-Agent header.
    UserAgent(&'a str),
    /// Everybody, the control plane included.
    Anyone,
}

/// One request, as the API server saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// When it arrived.
    pub time: Timestamp,
    /// When it was answered; for a watch, when the answer began.
    pub answered: Timestamp,
    /// get, list, watch, create, update, patch, delete, deletecollection, or the lower-case method of other paths.
    pub verb: String,
    /// Path and query.
    pub uri: String,
    /// API group; empty for the core group and for other paths.
    pub group: String,
    /// The plural name of the kind; empty for other paths.
    pub resource: String,
    /// Empty for cluster-scoped kinds and lists of all namespaces.
    pub namespace: String,
    /// Empty for lists.
    pub name: String,
    /// Such as `status`; empty if none.
    pub subresource: String,
    /// The HTTP status code of the answer.
    pub code: u16,
    /// Who asked.
    pub user: String,
    /// The User-Agent header.
    pub user_agent: String,
    /// Whether nothing was to be stored.
    pub dry_run: bool,
}

impl Request {
    /// Whether it was meant to change what is stored: no dry run, no Lease, no review or token (which store nothing).
    pub fn is_write(&self) -> bool {
        matches!(self.verb.as_str(), "create" | "update" | "patch" | "delete" | "deletecollection")
            && !self.dry_run
            && is_state(&self.group, &self.resource, &self.subresource)
    }
}

/// Whether requests for this resource can change what users see as the state of the cluster.
pub(crate) fn is_state(group: &str, resource: &str, subresource: &str) -> bool {
    resource != "leases" && subresource != "token" && !matches!(group, "authorization.k8s.io" | "authentication.k8s.io")
}

impl fmt::Display for Request {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.resource.is_empty() {
            write!(formatter, "{} {}", self.verb, self.uri)?;
        } else {
            write!(formatter, "{} {}", self.verb, self.resource)?;
            for (mark, part) in [('.', &self.group), ('/', &self.subresource), (' ', &self.namespace)] {
                if !part.is_empty() {
                    write!(formatter, "{mark}{part}")?;
                }
            }
            if !self.name.is_empty() {
                let mark = if self.namespace.is_empty() { ' ' } else { '/' };
                write!(formatter, "{mark}{}", self.name)?;
            }
        }
        write!(formatter, " -> {}{}", self.code, if self.dry_run { " (dry run)" } else { "" })
    }
}

/// Sees every request that arrives after it was made.
pub struct Recorder<'a> {
    cluster: &'a TestCluster,
    log: PathBuf,
    offset: u64,
    since: Timestamp,
}

impl TestCluster {
    /// Starts recording: requests that arrive from now on are seen.
    pub fn recorder(&self) -> Recorder<'_> {
        let log = self.audit_log();
        // Whatever arrives from now on is logged behind what is there now.
        let offset = length(&log);
        Recorder { cluster: self, log, offset, since: Timestamp::now() }
    }
}

impl Recorder<'_> {
    /// The requests of `by` since the recorder was made that have been answered, in the order of their answers. A watch
    /// counts when it begins.
    pub async fn requests(&self, by: By<'_>) -> Result<Vec<Request>, ClusterError> {
        for _ in 0..BARRIERS {
            self.barrier().await?;
        }
        let events = self.events()?;
        Ok(events
            .into_iter()
            .filter_map(|event| event.into_request(self.since))
            .filter(|request| by.made(request))
            .collect())
    }

    /// Those of the [requests](Self::requests) that were meant to [change](Request::is_write) something.
    pub async fn writes(&self, by: By<'_>) -> Result<Vec<Request>, ClusterError> {
        let mut requests = self.requests(by).await?;
        requests.retain(Request::is_write);
        Ok(requests)
    }

    /// Makes a request of its own and waits until it is in the log, so that earlier ones are there too.
    async fn barrier(&self) -> Result<(), ClusterError> {
        let action = "asking for a mark in the audit log";
        let mark = self.cluster.unique("mark") + "-"; // mark-1- is no part of mark-10-
        let from = length(&self.log);
        let request = http::Request::get(format!("/version?{mark}"))
            .body(Vec::new())
            .map_err(|error| ClusterError::request(action)(kube::Error::HttpError(error)))?;
        match self.cluster.client().request_text(request).await {
            Ok(_) => {}
            // A stopped API server writes nothing any more: what is there is all there is.
            Err(kube::Error::Service(_) | kube::Error::HyperError(_)) => return Ok(()),
            Err(error) => return Err(ClusterError::request(action)(error)),
        }
        let seen = async {
            while !self.text(from)?.contains(&mark) {
                tokio::time::sleep(POLL).await;
            }
            Ok(())
        };
        tokio::time::timeout(PATIENCE, seen).await.unwrap_or_else(|_| {
            let source = std::io::Error::new(std::io::ErrorKind::TimedOut, "a request that was answered is not in it");
            Err(ClusterError::Io { action: "follow", path: self.log.clone(), source })
        })
    }

    fn text(&self, from: u64) -> Result<String, ClusterError> {
        let mut text = Vec::new();
        let mut file = std::fs::File::open(&self.log).map_err(ClusterError::io("open", &self.log))?;
        file.seek(SeekFrom::Start(from))
            .and_then(|_| file.read_to_end(&mut text))
            .map_err(ClusterError::io("read", &self.log))?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    fn events(&self) -> Result<Vec<Event>, ClusterError> {
        let text = self.text(self.offset)?;
        // A last line without its end is still being written.
        let complete = text.rfind('\n').map_or("", |end| &text[..end]);
        complete
            .lines()
            .map(|line| {
                serde_json::from_str(line)
                    .map_err(|error| ClusterError::io("understand a line of", &self.log)(error.into()))
            })
            .collect()
    }
}

fn length(log: &Path) -> u64 {
    std::fs::metadata(log).map_or(0, |metadata| metadata.len())
}

impl By<'_> {
    fn made(self, request: &Request) -> bool {
        match self {
            By::User(user) => request.user == user,
            By::ServiceAccount(namespace, name) => {
                request.user.strip_prefix("system:serviceaccount:").and_then(|rest| rest.split_once(':'))
                    == Some((namespace, name))
            }
            By::UserAgent(agent) => request.user_agent.starts_with(agent),
            By::Anyone => true,
        }
    }
}

/// The part of an audit event that is used.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Event {
    stage: String,
    verb: String,
    #[serde(rename = "requestURI")]
    request_uri: String,
    user: User,
    #[serde(default)]
    user_agent: String,
    #[serde(default)]
    object_ref: ObjectRef,
    response_status: Option<ResponseStatus>,
    request_received_timestamp: MicroTime,
    stage_timestamp: MicroTime,
}

#[derive(Deserialize)]
struct User {
    #[serde(default)]
    username: String,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct ObjectRef {
    resource: String,
    namespace: String,
    name: String,
    api_group: String,
    subresource: String,
}

#[derive(Deserialize)]
struct ResponseStatus {
    #[serde(default)]
    code: u16,
}

impl Event {
    /// The request, if this event is the one that stands for it: long-running requests are logged when they begin and
    /// again when they end.
    fn into_request(self, since: Timestamp) -> Option<Request> {
        let code = self.response_status.map_or(0, |status| status.code);
        let began_before = self.verb == "watch" && self.stage == "ResponseComplete" && code < 400;
        let counts = match self.stage.as_str() {
            "ResponseStarted" => self.verb == "watch",
            "ResponseComplete" | "Panic" => !began_before,
            _ => false,
        };
        let time = self.request_received_timestamp.0;
        (counts && time >= since).then(|| Request {
            time,
            answered: self.stage_timestamp.0,
            verb: self.verb,
            dry_run: has_dry_run(&self.request_uri),
            uri: self.request_uri,
            group: self.object_ref.api_group,
            resource: self.object_ref.resource,
            namespace: self.object_ref.namespace,
            name: self.object_ref.name,
            subresource: self.object_ref.subresource,
            code,
            user: self.user.username,
            user_agent: self.user_agent,
        })
    }
}

/// Whether the query asks for a dry run.
pub(crate) fn has_dry_run(uri: &str) -> bool {
    uri.split_once('?').is_some_and(|(_, query)| query.split('&').any(|pair| pair.starts_with("dryRun=")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(stage: &str, verb: &str, code: u16) -> Event {
        serde_json::from_value(serde_json::json!({
            "stage": stage, "verb": verb, "requestURI": "/api/v1/namespaces/a/services?dryRun=All&x=y",
            "user": { "username": "system:serviceaccount:kube-system:coredns-operator" },
            "objectRef": { "resource": "services", "namespace": "a", "name": "b" },
            "responseStatus": { "code": code }, "requestReceivedTimestamp": "2026-01-02T03:04:05.000006Z",
            "stageTimestamp": "2026-01-02T03:04:05.000009Z",
        }))
        .unwrap()
    }

    #[test]
    fn a_watch_counts_once_when_it_begins_and_a_refused_one_when_it_ends() {
        let count = |stage, code| event(stage, "watch", code).into_request(Timestamp::UNIX_EPOCH).is_some();
        assert!(count("ResponseStarted", 200));
        assert!(!count("ResponseComplete", 200));
        assert!(count("ResponseComplete", 403));
    }

    #[test]
    fn a_request_from_before_the_recorder_does_not_count() {
        let later = "2026-01-02T03:04:05.000007Z".parse().unwrap();
        assert_eq!(event("ResponseComplete", "create", 201).into_request(later), None);
    }

    #[test]
    fn a_dry_run_a_lease_and_a_review_are_no_writes() {
        let request = event("ResponseComplete", "create", 201).into_request(Timestamp::UNIX_EPOCH).unwrap();
        assert!(request.dry_run && !request.is_write());
        assert_eq!(request.to_string(), "create services a/b -> 201 (dry run)");
        assert!(By::ServiceAccount("kube-system", "coredns-operator").made(&request));
        let write = Request { dry_run: false, ..request };
        assert!(write.is_write());
        assert!(!Request { resource: "leases".into(), ..write.clone() }.is_write());
        assert!(!Request { group: "authorization.k8s.io".into(), ..write }.is_write());
    }
}
