//! How a live workload is doing, from its own status.

use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use crate::object::Object;

/// How a live workload is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    pub(crate) available: bool,
    pub(crate) rolling: Option<String>,
    pub(crate) failed: Option<(String, String)>,
    pub(crate) unavailable_since: Option<Timestamp>,
}

impl Health {
    /// Reads a workload's status.
    pub fn of(live: &Object) -> Self {
        let count = |pointer: &str| live.integer(pointer).unwrap_or(0);
        let condition = |name: &str| {
            live.value()["status"]["conditions"].as_array().into_iter().flatten().find(|it| it["type"] == name)
        };
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let available = condition("Available");
        let wanted = live.integer("/spec/replicas").unwrap_or(1);
        let (updated, all, ready) =
            (count("/status/updatedReplicas"), count("/status/replicas"), count("/status/availableReplicas"));
        let rolling = if count("/status/observedGeneration") < count("/metadata/generation") {
            Some("waiting for the controller to see the change".to_owned())
        } else if updated < wanted {
            Some(format!("{updated} of {wanted} pods updated"))
        } else if all > updated {
            Some(format!("{} old pods are still to go", all - updated))
        } else if ready < updated {
            Some(format!("{ready} of {updated} pods available"))
        } else {
            None
        };
        let progressing = condition("Progressing").filter(|it| it["status"] == "False");
        let replica_failure = condition("ReplicaFailure").filter(|it| it["status"] == "True");
        let paused = (live.value()["spec"]["paused"] == true && updated < wanted)
            .then(|| ("Paused".to_owned(), "it is paused by spec.paused, and has changes to roll out".to_owned()));
        let none = (wanted == 0).then(|| ("NoPods".to_owned(), "it is scaled to 0 pods".to_owned()));
        let failed = replica_failure.or(progressing).map(|it| (text(&it["reason"]), text(&it["message"])));
        let failed = failed.or(paused).or(none);
        // A Deployment of no pods calls itself available, and serves nobody.
        let is_available = available.is_some_and(|it| it["status"] == "True") && ready > 0;
        let since = available.filter(|_| !is_available).and_then(|it| it["lastTransitionTime"].as_str());
        Self { available: is_available, rolling, failed, unavailable_since: since.and_then(|it| it.parse().ok()) }
    }

    /// Whether all pods are of the wanted kind and serve.
    pub fn is_done(&self) -> bool {
        self.available && self.rolling.is_none() && self.failed.is_none()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A Deployment of generation 2 with its counts, and with conditions as type, status and reason.
    fn health(replicas: i64, [seen, all, updated, available]: [i64; 4], conditions: &[[&str; 3]]) -> Health {
        let conditions: Vec<_> = conditions
            .iter()
            .map(|[kind, status, reason]| {
                json!({"type": kind, "status": status, "reason": reason, "message": "why",
                    "lastTransitionTime": "2026-01-01T00:00:00Z"})
            })
            .collect();
        let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "dns", "generation": 2}, "spec": {"replicas": replicas},
            "status": {"observedGeneration": seen, "replicas": all, "updatedReplicas": updated,
                "availableReplicas": available, "conditions": conditions}});
        Health::of(&Object::new(deployment).unwrap())
    }

    const AVAILABLE: [&str; 3] = ["Available", "True", "MinimumReplicasAvailable"];

    #[test]
    fn it_is_done_when_all_pods_are_new_and_available() {
        assert!(health(2, [2, 2, 2, 2], &[AVAILABLE]).is_done());
        for (counts, why) in [
            ([1, 2, 2, 2], "waiting for the controller to see the change"),
            ([2, 3, 1, 2], "1 of 2 pods updated"),
            ([2, 3, 2, 3], "1 old pods are still to go"),
            ([2, 2, 2, 1], "1 of 2 pods available"),
        ] {
            let health = health(2, counts, &[AVAILABLE]);
            assert_eq!(health.rolling.as_deref(), Some(why));
            assert!(!health.is_done() && health.available);
        }
    }

    #[test]
    fn no_pod_is_not_available() {
        let none = health(0, [2, 0, 0, 0], &[AVAILABLE]);
        assert!(!none.available);
        assert_eq!(none.failed.map(|(reason, _)| reason).as_deref(), Some("NoPods"));
    }

    #[test]
    fn a_missed_deadline_and_a_refused_pod_are_failures() {
        let late = health(2, [2, 3, 1, 2], &[AVAILABLE, ["Progressing", "False", "ProgressDeadlineExceeded"]]);
        assert_eq!(late.failed, Some(("ProgressDeadlineExceeded".into(), "why".into())));
        let refused = health(2, [2, 0, 0, 0], &[["ReplicaFailure", "True", "FailedCreate"]]);
        assert_eq!(refused.failed, Some(("FailedCreate".into(), "why".into())));
        let down = health(2, [2, 2, 2, 0], &[["Available", "False", "MinimumReplicasUnavailable"]]);
        assert_eq!(down.unavailable_since, "2026-01-01T00:00:00Z".parse().ok());
    }
}
