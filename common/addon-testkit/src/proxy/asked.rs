//! What a request that passes the proxy asks for, read from its method and path as the API server reads them.

use http::Method;

use crate::audit::{has_dry_run, is_state};

/// A request on its way to the API server. Rules of the proxy look at it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Asked {
    /// get, list, watch, create, update, patch, delete or deletecollection; for other paths the lower-case method.
    pub verb: String,
    /// Path and query.
    pub uri: String,
    /// API group; empty for the core group and for other paths.
    pub group: String,
    /// The plural name of the kind; empty for other paths.
    pub resource: String,
    /// Empty for cluster-scoped kinds and lists of all namespaces.
    pub namespace: String,
    /// Empty for lists and creations.
    pub name: String,
    /// Such as `status`; empty if none.
    pub subresource: String,
    /// Whether nothing is to be stored.
    pub dry_run: bool,
}

impl Asked {
    pub(super) fn new(method: &Method, uri: &str) -> Self {
        let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
        let mut asked = Self { uri: uri.to_owned(), dry_run: has_dry_run(uri), ..Self::default() };
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        let (group, rest) = match parts.as_slice() {
            ["api", _version, rest @ ..] => ("", rest),
            ["apis", group, _version, rest @ ..] => (*group, rest),
            _ => ("", &[][..]),
        };
        let (namespace, rest) = match rest {
            // A namespace itself has no more parts than its name, and the two subresources that it has.
            ["namespaces", _] | ["namespaces", _, "status" | "finalize"] => ("", rest),
            ["namespaces", namespace, rest @ ..] => (*namespace, rest),
            rest => ("", rest),
        };
        group.clone_into(&mut asked.group);
        namespace.clone_into(&mut asked.namespace);
        for (part, field) in rest.iter().zip([&mut asked.resource, &mut asked.name, &mut asked.subresource]) {
            (*part).clone_into(field);
        }
        let watches = query.split('&').any(|pair| matches!(pair, "watch=true" | "watch=1" | "watch"));
        let one = !asked.name.is_empty();
        asked.verb = match *method {
            _ if asked.resource.is_empty() => method.as_str().to_ascii_lowercase(),
            Method::POST => "create".to_owned(),
            Method::PUT => "update".to_owned(),
            Method::DELETE if !one => "deletecollection".to_owned(),
            Method::GET if watches => "watch".to_owned(),
            Method::GET if !one => "list".to_owned(),
            _ => method.as_str().to_ascii_lowercase(),
        };
        asked
    }

    /// Whether it is meant to change what is stored: the recorder's [definition](crate::audit::Request::is_write).
    pub fn is_write(&self) -> bool {
        matches!(self.verb.as_str(), "create" | "update" | "patch" | "delete" | "deletecollection")
            && !self.dry_run
            && is_state(&self.group, &self.resource, &self.subresource)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(method: &Method, uri: &str) -> (String, String, String, bool) {
        let asked = Asked::new(method, uri);
        let object = format!("{}/{}/{}", asked.resource, asked.name, asked.subresource);
        (asked.verb.clone(), asked.namespace.clone(), object, asked.is_write())
    }

    fn is(verb: &str, namespace: &str, object: &str, write: bool) -> (String, String, String, bool) {
        (verb.into(), namespace.into(), object.into(), write)
    }

    #[test]
    fn paths_are_read_as_the_api_server_reads_them() {
        let apps = "/apis/apps/v1/namespaces/kube-system/deployments";
        assert_eq!(asked(&Method::GET, apps), is("list", "kube-system", "deployments//", false));
        assert_eq!(
            asked(&Method::GET, &format!("{apps}?watch=true")),
            is("watch", "kube-system", "deployments//", false)
        );
        let one = format!("{apps}/coredns");
        assert_eq!(asked(&Method::PATCH, &one), is("patch", "kube-system", "deployments/coredns/", true));
        let status = format!("{one}/status");
        assert_eq!(asked(&Method::PUT, &status), is("update", "kube-system", "deployments/coredns/status", true));
        assert_eq!(asked(&Method::DELETE, apps), is("deletecollection", "kube-system", "deployments//", true));
        assert_eq!(asked(&Method::POST, "/api/v1/namespaces"), is("create", "", "namespaces//", true));
        assert_eq!(asked(&Method::GET, "/api/v1/namespaces/a"), is("get", "", "namespaces/a/", false));
        assert_eq!(asked(&Method::GET, "/version"), is("get", "", "//", false));
    }

    #[test]
    fn dry_runs_leases_and_reviews_are_no_writes() {
        for uri in [
            "/api/v1/namespaces/a/services?dryRun=All&fieldManager=x",
            "/apis/coordination.k8s.io/v1/namespaces/a/leases",
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
            "/api/v1/namespaces/a/serviceaccounts/b/token",
        ] {
            assert!(!Asked::new(&Method::POST, uri).is_write(), "{uri}");
        }
    }
}
