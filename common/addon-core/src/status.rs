//! The status of a resource: what people and tools read.

use k8s_openapi::{
    apimachinery::pkg::apis::meta::v1::{Condition, Time},
    jiff::Timestamp,
};
use serde_json::{Value, json};

use crate::{
    addon::{Desired, Observed},
    api::AddonStatus,
    finding::{Finding, Severity},
    health::Health,
    object::Object,
};

/// The most findings in a status.
const MAX_FINDINGS: usize = 20;
/// The most related objects in a status.
const MAX_OBJECTS: usize = 50;
/// The longest text of a condition, in bytes.
const MAX_MESSAGE: usize = 1024;
/// How long a workload may be unavailable outside a rollout before that is a failure, in seconds.
const UNAVAILABLE_DEADLINE: i64 = 60;

/// The status to write, where it differs from the stored one, and in how many seconds to look again. `applying` says
/// what is being written, if anything is.
pub fn status(
    resource: &Object,
    observed: &Observed,
    desired: &Desired,
    applying: Option<&str>,
) -> (Option<Value>, Option<u32>) {
    let stored = &resource.value()["status"];
    let (status, again_in) = compute(resource, observed, desired, applying);
    let status = json!(status);
    ((*stored != status).then_some(status), again_in)
}

fn compute(
    resource: &Object,
    observed: &Observed,
    desired: &Desired,
    applying: Option<&str>,
) -> (AddonStatus, Option<u32>) {
    let mut errors: Vec<(String, String)> = desired
        .findings
        .iter()
        .filter(|finding| finding.is_error())
        .map(|finding| (finding.code.clone(), finding.to_string()))
        .collect();
    let stalled = errors.first().cloned();
    let waits: Vec<_> =
        desired.objects.iter().filter_map(|desired| observed.failures.get(&desired.object.key())).collect();
    errors.extend(waits.iter().filter(|it| it.is_error).map(|it| (it.reason.clone(), it.message.clone())));

    let health: Vec<_> = desired.workloads.iter().map(|key| (key, observed.get(key).map(Health::of))).collect();
    let mut again_in = None;
    for (key, health) in &health {
        let Some(health) = health else { continue };
        if let Some((reason, message)) = &health.failed {
            errors.push((reason.clone(), format!("{key}: {message}")));
        } else if let Some(since) = health.unavailable_since {
            let seconds = observed.now.as_second() - since.as_second();
            if seconds >= UNAVAILABLE_DEADLINE {
                errors.push(("Unavailable".into(), format!("{key}: too few pods are available since {since}")));
            } else {
                again_in = u32::try_from(UNAVAILABLE_DEADLINE - seconds).ok();
            }
        }
    }
    errors.dedup();

    let missing =
        health.iter().find(|(_, health)| health.is_none()).map(|(key, _)| format!("{key} does not exist yet"));
    let unavailable = health
        .iter()
        .find(|(_, health)| health.as_ref().is_some_and(|it| !it.available))
        .map(|(key, _)| format!("{key}: too few pods are available"));
    let rolling = health
        .iter()
        .find_map(|(key, health)| health.as_ref()?.rolling.as_ref().map(|rolling| format!("{key}: {rolling}")));
    let applying = applying.map(|what| {
        waits.iter().find(|it| !it.is_error).map_or_else(|| format!("applying: {what}"), |it| it.message.clone())
    });

    let available = match (&missing, &unavailable) {
        _ if health.is_empty() => ("Unknown", "Unknown", "the state of the add-on is not known".to_owned()),
        (Some(message), _) => ("False", "NotInstalled", message.clone()),
        (None, Some(message)) => ("False", "Unavailable", message.clone()),
        (None, None) => ("True", "AsExpected", "the add-on serves".to_owned()),
    };
    let degraded = match errors.first() {
        Some((reason, _)) => ("True", reason.as_str(), joined(&errors)),
        None => ("False", "AsExpected", "nothing is wrong".to_owned()),
    };
    let progressing = match (&applying, &rolling, &stalled) {
        (_, _, Some((reason, _))) => {
            ("False", reason.as_str(), "nothing is written until the errors are gone".to_owned())
        }
        (Some(message), _, _) => ("True", "Applying", message.clone()),
        (None, Some(message), _) => ("True", "RollingOut", message.clone()),
        (None, None, None) => ("False", "AsExpected", "everything is applied".to_owned()),
    };
    let upgradeable = match (degraded.0, progressing.0) {
        ("True", _) => ("False", "Degraded", "the add-on is degraded".to_owned()),
        (_, "True") => ("False", "Progressing", "a change is under way".to_owned()),
        _ => ("True", "AsExpected", "another version can be asked for".to_owned()),
    };
    let reconciling = (progressing.0, progressing.1, progressing.2.clone());
    let stall = match &stalled {
        Some((reason, message)) => ("True", reason.as_str(), message.clone()),
        None => ("False", "AsExpected", "nothing has to be done by hand".to_owned()),
    };

    let generation = resource.integer("/metadata/generation");
    let stored: AddonStatus = serde_json::from_value(resource.value()["status"].clone()).unwrap_or_default();
    let healthy = available.0 == "True" && errors.is_empty();
    let phase = match (errors.is_empty(), progressing.0, healthy) {
        (false, _, _) => "Failed",
        (true, "False", true) => "Current",
        _ => "InProgress",
    };
    let conditions = [
        ("Available", available),
        ("Progressing", progressing),
        ("Degraded", degraded),
        ("Upgradeable", upgradeable),
        ("Reconciling", reconciling),
        ("Stalled", stall),
    ];
    let status = AddonStatus {
        observed_generation: generation,
        healthy,
        phase: phase.to_owned(),
        errors: errors.iter().take(MAX_FINDINGS).map(|(_, message)| bounded(message)).collect(),
        conditions: conditions
            .into_iter()
            .map(|(name, it)| condition(name, it, generation, &stored.conditions, observed.now))
            .collect(),
        version: desired.version.clone(),
        package: desired.package.clone(),
        findings: findings(&desired.findings),
        related_objects: desired.objects.iter().take(MAX_OBJECTS).map(|desired| desired.object.key()).collect(),
    };
    (status, again_in)
}

fn condition(
    name: &str,
    (status, reason, message): (&str, &str, String),
    generation: Option<i64>,
    stored: &[Condition],
    now: Timestamp,
) -> Condition {
    let same = stored.iter().find(|stored| stored.type_ == name && stored.status == status);
    // The API keeps whole seconds; what is compared with the stored status must do so too.
    let now = Timestamp::from_second(now.as_second()).unwrap_or(now);
    Condition {
        type_: name.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: bounded(&message),
        observed_generation: generation,
        last_transition_time: same.map_or(Time(now), |stored| stored.last_transition_time.clone()),
    }
}

fn findings(all: &[Finding]) -> Vec<Finding> {
    let mut shown: Vec<_> = all.iter().take(MAX_FINDINGS).cloned().collect();
    if all.len() > MAX_FINDINGS {
        shown.pop();
        let more = all.len() - shown.len();
        shown.push(Finding {
            severity: Severity::Note,
            ..Finding::note("MoreFindings", format!("{more} more findings"))
        });
    }
    for finding in &mut shown {
        finding.message = bounded(&finding.message);
    }
    shown
}

fn joined(errors: &[(String, String)]) -> String {
    const SHOWN: usize = 3;
    let mut text = errors.iter().take(SHOWN).map(|(_, message)| message.as_str()).collect::<Vec<_>>().join("; ");
    if errors.len() > SHOWN {
        text += &format!("; and {} more", errors.len() - SHOWN);
    }
    text
}

fn bounded(text: &str) -> String {
    if text.len() <= MAX_MESSAGE {
        return text.to_owned();
    }
    let mut end = MAX_MESSAGE - 3;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}...", &text[..end])
}
