//! What a failed call means to the user.

use addon_core::{addon::Failure, schema::Kind};
use kube::core::Status;

use crate::client::CallError;

/// What was attempted.
pub(crate) struct Attempt<'a> {
    pub(crate) verbs: &'a [&'a str],
    pub(crate) kind: &'a Kind,
    /// `namespace/name`, or less.
    pub(crate) what: String,
}

/// Describes a failed call: one message with object, cause and remedy. A missing right names the rule.
pub(crate) fn describe(error: &CallError, attempt: &Attempt<'_>) -> Failure {
    let Attempt { verbs, kind, what } = attempt;
    let verb = verbs.join(" and ");
    let subject = format!("{} {what}", kind.kind);
    let CallError::Kube(kube::Error::Api(status)) = error else {
        return Failure {
            reason: "ApiServerUnreachable".into(),
            message: format!("cannot {verb} {}: {error}; it is tried again", subject.trim()),
            is_error: true,
        };
    };
    let (reason, message) = match status.code {
        403 => ("Forbidden", forbidden(status, verbs, kind, &subject)),
        404 if what.is_empty() => (
            "KindNotServed",
            format!("the API server does not serve {}.{}; apply the CustomResourceDefinition", kind.plural, kind.group),
        ),
        409 if is_field_conflict(status) => ("FieldConflict", format!("{subject}: {}", status.message)),
        409 => ("Conflict", format!("{subject}: {}; it is planned anew", status.message)),
        422 => ("Invalid", format!("the API server refuses {subject}: {}", status.message)),
        code => ("RequestFailed", format!("cannot {verb} {subject}: {code} {}; it is tried again", status.message)),
    };
    // A lost race is no fault: the next plan is made from what is live then.
    Failure { reason: reason.into(), message, is_error: reason != "Conflict" }
}

/// Whether another field manager holds what was to be applied: it will do so at the next try, too.
fn is_field_conflict(status: &Status) -> bool {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    causes.into_iter().any(|cause| cause.reason == "FieldManagerConflict")
}

/// Whether asking again without a change elsewhere is of no use.
pub(crate) fn is_definite(error: &CallError) -> bool {
    matches!(error, CallError::Kube(kube::Error::Api(status)) if matches!(status.code, 403 | 404))
}

fn forbidden(status: &Status, verbs: &[&str], kind: &Kind, subject: &str) -> String {
    // An escalation is refused with the rules that the operator itself would need.
    if let Some((_, rules)) = status.message.split_once("not currently held:") {
        return format!(
            "{subject} grants rights that the operator does not hold: {}; add them to the operator's ClusterRole",
            rules.split_whitespace().collect::<Vec<_>>().join(" ")
        );
    }
    format!(
        "the operator may not {} {subject}; add to its role the rule {{apiGroups: [\"{}\"], resources: [{}], verbs: [{}]}}",
        verbs.join(" and "),
        kind.group,
        kind.plural,
        verbs.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use addon_core::schema::kind_of;

    use super::*;

    fn described(code: u16, message: &str, what: &str) -> Failure {
        let status = Status { code, message: message.into(), ..Status::default() };
        let error = CallError::Kube(kube::Error::Api(Box::new(status)));
        let kind = kind_of("apps", "Deployment").unwrap();
        describe(&error, &Attempt { verbs: &["list", "watch"], kind, what: what.into() })
    }

    #[test]
    fn a_missing_right_names_the_rule() {
        assert_eq!(
            described(403, "no", "kube-system/coredns").message,
            "the operator may not list and watch Deployment kube-system/coredns; add to its role the rule \
             {apiGroups: [\"apps\"], resources: [deployments], verbs: [list, watch]}"
        );
        let escalation = "user \"x\" is attempting to grant RBAC permissions not currently held:\n{APIGroups:[\"\"], Verbs:[\"list\"]}";
        assert!(described(403, escalation, "x").message.contains("not hold: {APIGroups:[\"\"], Verbs:[\"list\"]}"));
    }

    #[test]
    fn a_lost_race_is_no_error_and_an_invalid_object_is() {
        assert!(!described(409, "changed", "x").is_error);
        assert!(described(422, "bad", "x").is_error);
        assert_eq!(described(404, "", "").reason, "KindNotServed");
        assert!(
            describe(
                &CallError::Timeout,
                &Attempt { verbs: &["get"], kind: kind_of("", "Service").unwrap(), what: "a".into() }
            )
            .message
            .contains("no answer")
        );
    }
}
