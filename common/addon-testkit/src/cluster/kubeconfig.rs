//! Kubeconfig files: written as JSON, which is YAML, so that no value needs quoting rules.

use std::path::Path;

use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use serde_json::json;

use super::{certificates::write_file, error::ClusterError};

/// How the bearer of a kubeconfig proves who it is.
pub(crate) enum Identity<'a> {
    /// The certificate and key of that name in the folder of certificates.
    Certificate {
        /// The folder of certificates.
        folder: &'a Path,
        /// The name of the pair.
        name: &'a str,
    },
    /// A bearer token.
    Token(&'a str),
    /// None: whoever listens at the server address knows.
    None,
}

/// Writes a kubeconfig with one cluster, one user and one context.
pub(crate) fn write(path: &Path, server: &str, ca: Option<&Path>, identity: &Identity<'_>) -> Result<(), ClusterError> {
    let user = match identity {
        Identity::Certificate { folder, name } => json!({
            "client-certificate": folder.join(format!("{name}.crt")),
            "client-key": folder.join(format!("{name}.key")),
        }),
        Identity::Token(token) => json!({ "token": token }),
        Identity::None => json!({}),
    };
    let mut cluster = json!({ "server": server });
    if let Some(ca) = ca {
        cluster["certificate-authority"] = json!(ca);
    }
    let kubeconfig = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{ "name": "test", "cluster": cluster }],
        "users": [{ "name": "test", "user": user }],
        "contexts": [{ "name": "test", "context": { "cluster": "test", "user": "test" } }],
        "current-context": "test",
    });
    write_file(path, &format!("{kubeconfig:#}\n"))
}

/// Reads a kubeconfig into a client configuration that never repeats a request by itself: a test sees what happened.
pub(crate) async fn read(path: &Path) -> Result<Config, ClusterError> {
    let unusable = |source| ClusterError::Kubeconfig { path: path.to_path_buf(), source: Box::new(source) };
    let kubeconfig = Kubeconfig::read_from(path).map_err(unusable)?;
    let mut config =
        Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.map_err(unusable)?;
    config.default_retry = false;
    Ok(config)
}
