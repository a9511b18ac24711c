//! Checks on a rendered set as a whole: what no single object shows.

use crate::{finding::Finding, object::Object, schema};

/// Workloads run as ServiceAccounts that are in the set, and bindings bind ServiceAccounts that are in the set.
///
/// A Deployment whose account is not the one bound runs on its caches until it restarts, and then fails
/// (kubernetes/kops PR #9374).
pub fn service_accounts(objects: &[Object]) -> Vec<Finding> {
    let accounts: Vec<(&str, &str)> = objects
        .iter()
        .filter(|object| object.kind() == "ServiceAccount")
        .map(|object| (object.namespace(), object.name()))
        .collect();
    let bound: Vec<(&str, &str)> = objects
        .iter()
        .filter(|object| matches!(object.kind(), "ClusterRoleBinding" | "RoleBinding"))
        .flat_map(|binding| binding.value()["subjects"].as_array().into_iter().flatten())
        .filter(|subject| subject["kind"] == "ServiceAccount")
        .map(|subject| {
            (subject["namespace"].as_str().unwrap_or_default(), subject["name"].as_str().unwrap_or_default())
        })
        .collect();
    let mut findings = Vec::new();
    for object in objects {
        let Some(account) = pod_account(object) else { continue };
        let problem = if !accounts.contains(&(object.namespace(), account)) {
            "which is not part of the add-on"
        } else if !bound.is_empty() && !bound.contains(&(object.namespace(), account)) {
            "which no binding of the add-on binds"
        } else {
            continue;
        };
        findings.push(
            Finding::error("ServiceAccountMismatch", format!("pods run as ServiceAccount `{account}`, {problem}"))
                .object(object.key())
                .field(".spec.template.spec.serviceAccountName")
                .remedy("patch the bindings and the workload alike"),
        );
    }
    findings
}

/// The ServiceAccount that a workload's pods run as.
pub fn pod_account(object: &Object) -> Option<&str> {
    let pod_spec = object.value().pointer(&schema::pod_spec_pointer(object.kind())?)?;
    Some(pod_spec.get("serviceAccountName").and_then(|name| name.as_str()).unwrap_or("default"))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn set(account: &str, subject: &str) -> Vec<Object> {
        let object = |value: Value| Object::new(value).unwrap();
        vec![
            object(
                json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "dns", "namespace": "n"}}),
            ),
            object(
                json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "idle", "namespace": "n"}}),
            ),
            object(json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
                "metadata": {"name": "dns"}, "subjects": [{"kind": "ServiceAccount", "name": subject, "namespace": "n"}]})),
            object(
                json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "dns", "namespace": "n"},
                "spec": {"template": {"spec": {"serviceAccountName": account}}}}),
            ),
        ]
    }

    #[test]
    fn the_workloads_account_is_the_one_that_is_bound() {
        assert_eq!(service_accounts(&set("dns", "dns")), []);
        for (account, subject, part) in
            [("other", "dns", "not part of the add-on"), ("dns", "other", "no binding"), ("idle", "dns", "no binding")]
        {
            let findings = service_accounts(&set(account, subject));
            assert_eq!(findings.len(), 1);
            assert!(findings[0].message.contains(part), "{}", findings[0]);
        }
    }
}
