//! The objects that explain a failed wait, as tables and YAML bounded in size. It never fails: what cannot be read is named instead.

use std::fmt::Write;
use std::time::Duration;

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::core::v1::{ContainerStatus, Event, Node, Pod};
use kube::api::{Api, ApiResource, DynamicObject, ListParams};
use kube::{Client, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The time for one list: a dump of an unreachable cluster must not hang.
const LIMIT: Duration = Duration::from_secs(5);
const MOST_ROWS: usize = 40;
const MOST_OBJECTS: usize = 5;
const MOST_LINES: usize = 120;

/// What to show.
#[derive(Clone, Debug, Default)]
pub(super) struct Dump {
    pub(super) namespaces: Vec<String>,
    pub(super) resources: Vec<(ApiResource, Option<String>)>,
    pub(super) nodes: bool,
}

impl Dump {
    /// Reads and renders everything.
    pub(super) async fn render(&self, client: &Client) -> String {
        let mut out = String::new();
        if self.nodes {
            section(&mut out, "nodes", list(Api::<Node>::all(client.clone())).await.map(|all| nodes(&all)));
        }
        for namespace in &self.namespaces {
            let title = |what: &str| format!("{what} in {namespace}");
            let pods_seen = list(Api::<Pod>::namespaced(client.clone(), namespace)).await;
            section(&mut out, &title("pods"), pods_seen.map(|all| pods(&all)));
            let seen = list(Api::<Deployment>::namespaced(client.clone(), namespace)).await;
            section(&mut out, &title("deployments"), seen.map(|all| deployments(&all)));
            let seen = list(Api::<DaemonSet>::namespaced(client.clone(), namespace)).await;
            section(&mut out, &title("daemonsets"), seen.map(|all| daemonsets(&all)));
            let seen = list(Api::<Event>::namespaced(client.clone(), namespace)).await;
            section(&mut out, &title("events, newest last"), seen.map(events));
        }
        for (resource, namespace) in &self.resources {
            let api: Api<DynamicObject> = match namespace {
                Some(namespace) => Api::namespaced_with(client.clone(), namespace, resource),
                None => Api::all_with(client.clone(), resource),
            };
            let seen = list(api).await.map(|all| {
                let more = all.len().saturating_sub(MOST_OBJECTS);
                let mut shown: Vec<_> = all.iter().take(MOST_OBJECTS).map(yaml).collect();
                shown.extend((more > 0).then(|| format!("... and {more} more\n")));
                shown.join("---\n")
            });
            section(&mut out, &resource.plural, seen);
        }
        out
    }
}

async fn list<K: Clone + DeserializeOwned + std::fmt::Debug>(api: Api<K>) -> Result<Vec<K>, String> {
    match tokio::time::timeout(LIMIT, api.list(&ListParams::default())).await {
        Ok(Ok(list)) => Ok(list.items),
        Ok(Err(error)) => Err(format!("cannot be listed: {error}\n")),
        Err(_) => Err(format!("no answer within {LIMIT:?}\n")),
    }
}

fn section(out: &mut String, title: &str, content: Result<String, String>) {
    let content = content.unwrap_or_else(|error| error);
    let content = if content.is_empty() { "none\n" } else { &content };
    // Writing to a String cannot fail.
    let _ = write!(out, "--- {title}\n{content}");
}

/// Compact YAML of one object: without managed fields, and cut after some lines.
pub(super) fn yaml(object: &impl Serialize) -> String {
    let mut value = match serde_json::to_value(object) {
        Ok(value) => value,
        Err(error) => return format!("cannot be shown: {error}\n"),
    };
    if let Some(metadata) = value.get_mut("metadata").and_then(serde_json::Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    let text = serde_saphyr::to_string(&value).unwrap_or_else(|_| format!("{value}\n"));
    let lines = text.lines().count();
    if lines <= MOST_LINES {
        return text;
    }
    let mut cut: String = text.lines().take(MOST_LINES).flat_map(|line| [line, "\n"]).collect();
    let _ = writeln!(cut, "... and {} more lines", lines - MOST_LINES);
    cut
}

/// A table with aligned columns; the first row is its head. Long tables are cut.
fn table<const N: usize>(head: [&str; N], rows: Vec<[String; N]>) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let more = rows.len().saturating_sub(MOST_ROWS);
    let mut all = vec![head.map(ToOwned::to_owned)];
    all.extend(rows.into_iter().take(MOST_ROWS));
    let mut widths = [0; N];
    for row in &all {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut out = String::new();
    for row in &all {
        let line: Vec<_> = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        let _ = writeln!(out, "{}", line.join("  ").trim_end());
    }
    if more > 0 {
        let _ = writeln!(out, "... and {more} more");
    }
    out
}

fn number(n: Option<i32>) -> String {
    n.unwrap_or_default().to_string()
}

fn nodes(all: &[Node]) -> String {
    let rows = all.iter().map(|node| {
        let status = node.status.as_ref();
        let ready = status.and_then(|s| s.conditions.as_ref()?.iter().find(|c| c.type_ == "Ready"));
        let taints = node.spec.as_ref().and_then(|s| s.taints.as_ref());
        let taints: Vec<_> = taints.into_iter().flatten().map(|t| format!("{}:{}", t.key, t.effect)).collect();
        [
            node.name_any(),
            ready.map(|c| c.status.clone()).unwrap_or_default(),
            status.and_then(|s| s.node_info.as_ref()).map(|i| i.kubelet_version.clone()).unwrap_or_default(),
            taints.join(","),
        ]
    });
    table(["NODE", "READY", "KUBELET", "TAINTS"], rows.collect())
}

fn pods(all: &[Pod]) -> String {
    let rows = all.iter().map(|pod| {
        let status = pod.status.clone().unwrap_or_default();
        let ready = status.conditions.iter().flatten().find(|c| c.type_ == "Ready");
        let scheduled = status.conditions.iter().flatten().find(|c| c.type_ == "PodScheduled" && c.status != "True");
        let mut states: Vec<_> =
            status.init_container_statuses.iter().chain(&status.container_statuses).flatten().map(container).collect();
        states.extend(scheduled.and_then(|c| c.message.clone()));
        let deleting = if pod.metadata.deletion_timestamp.is_some() { ", deleting" } else { "" };
        [
            pod.name_any(),
            pod.spec.as_ref().and_then(|s| s.node_name.clone()).unwrap_or_default(),
            format!("{}{deleting}", status.phase.unwrap_or_default()),
            ready.map(|c| c.status.clone()).unwrap_or_default(),
            states.join("; "),
        ]
    });
    table(["POD", "NODE", "PHASE", "READY", "CONTAINERS"], rows.collect())
}

fn container(status: &ContainerStatus) -> String {
    let ContainerStatus { name, image, restart_count, .. } = status;
    let state = status.state.clone().unwrap_or_default();
    let word = if let Some(waiting) = state.waiting {
        let reason = waiting.reason.unwrap_or_default();
        waiting.message.map_or(reason.clone(), |message| format!("{reason} ({message})"))
    } else if let Some(ended) = state.terminated {
        format!("exit {}", ended.exit_code)
    } else if state.running.is_some() {
        if status.ready { "ready".into() } else { "running, not ready".into() }
    } else {
        "no state".into()
    };
    let last = status.last_state.as_ref().and_then(|last| last.terminated.as_ref());
    let last = last.map(|l| format!(", last exit {} {}", l.exit_code, l.message.clone().unwrap_or_default()));
    format!("{name} [{image}] {word}, restarts {restart_count}{}", last.unwrap_or_default())
}

fn conditions<'a>(all: impl Iterator<Item = (&'a str, &'a str, Option<&'a str>)>) -> String {
    all.map(|(type_, status, reason)| format!("{type_}={status}({})", reason.unwrap_or_default()))
        .collect::<Vec<_>>()
        .join(" ")
}

fn deployments(all: &[Deployment]) -> String {
    let rows = all.iter().map(|deployment| {
        let status = deployment.status.clone().unwrap_or_default();
        let shown = status.conditions.iter().flatten();
        [
            deployment.name_any(),
            number(deployment.spec.as_ref().and_then(|s| s.replicas)),
            number(status.updated_replicas),
            number(status.ready_replicas),
            number(status.available_replicas),
            conditions(shown.map(|c| (c.type_.as_str(), c.status.as_str(), c.reason.as_deref()))),
        ]
    });
    table(["DEPLOYMENT", "WANTED", "UPDATED", "READY", "AVAILABLE", "CONDITIONS"], rows.collect())
}

fn daemonsets(all: &[DaemonSet]) -> String {
    let rows = all.iter().map(|set| {
        let status = set.status.clone().unwrap_or_default();
        [
            set.name_any(),
            status.desired_number_scheduled.to_string(),
            number(status.updated_number_scheduled),
            status.number_ready.to_string(),
            number(status.number_available),
        ]
    });
    table(["DAEMONSET", "WANTED", "UPDATED", "READY", "AVAILABLE"], rows.collect())
}

fn events(mut all: Vec<Event>) -> String {
    let time = |event: &Event| {
        let micro = event.event_time.as_ref().map(|t| t.0);
        event.last_timestamp.as_ref().map(|t| t.0).or(micro)
    };
    all.sort_by_key(time);
    let skipped = all.len().saturating_sub(MOST_ROWS);
    let rows = all.iter().skip(skipped).map(|event| {
        let object = &event.involved_object;
        [
            format!("{}/{}", object.kind.clone().unwrap_or_default(), object.name.clone().unwrap_or_default()),
            event.reason.clone().unwrap_or_default(),
            event.message.clone().unwrap_or_default().trim_end().replace('\n', " "),
        ]
    });
    table(["OBJECT", "REASON", "MESSAGE"], rows.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_aligned_and_cut() {
        let rows = |n: usize| (0..n).map(|i| [format!("pod-{i}"), "x".into()]).collect();
        assert_eq!(table(["POD", "NODE"], rows(1)), "POD    NODE\npod-0  x\n");
        assert!(table(["POD", "NODE"], rows(50)).ends_with("... and 10 more\n"));
        assert_eq!(table(["POD", "NODE"], rows(0)), "");
    }

    #[test]
    fn yaml_leaves_managed_fields_out_and_is_cut() {
        let shown = yaml(&serde_json::json!({"metadata": {"name": "a", "managedFields": [{"manager": "x"}]}}));
        assert!(shown.contains("name: a") && !shown.contains("manager"), "{shown}");
        let long = yaml(&(0..500).collect::<Vec<_>>());
        assert!(long.ends_with("... and 380 more lines\n"), "{long}");
    }

    #[test]
    fn a_crash_looping_pod_is_one_line_with_its_reason_and_last_exit() {
        let pod: Pod = serde_json::from_value(serde_json::json!({
            "metadata": {"name": "dns-1"}, "spec": {"nodeName": "node-1", "containers": []},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "False"}], "containerStatuses": [{
                "name": "dns", "image": "coredns:1", "imageID": "", "ready": false, "restartCount": 3,
                "state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": {"terminated": {"exitCode": 1, "message": "boom"}}}]}
        }))
        .unwrap();
        let shown = pods(&[pod]);
        let line = shown.lines().nth(1).unwrap();
        assert_eq!(
            line,
            "dns-1  node-1  Running  False  dns [coredns:1] CrashLoopBackOff, restarts 3, last exit 1 boom"
        );
    }
}
