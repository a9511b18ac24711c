//! The connection to the API server, and a timeout around every call.

use std::{future::Future, time::Duration};

use addon_core::schema::Kind;
use hyper_timeout::TimeoutConnector;
use hyper_util::{
    client::legacy::{self, connect::HttpConnector},
    rt::TokioExecutor,
};
use kube::{
    Api, Client, Config,
    api::{ApiResource, DynamicObject},
    client::ConfigExt as _,
};
use tower::{BoxError, ServiceBuilder};

/// How long a call may take. kube has no timeout for answers, so a server that accepts and never answers would block
/// for ever.
const CALL: Duration = Duration::from_secs(10);

/// How long a connection may take, TLS included.
const CONNECT: Duration = Duration::from_secs(5);

/// A call that did not succeed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallError {
    #[error("no answer from the API server within {} s", CALL.as_secs())]
    Timeout,
    #[error(transparent)]
    Kube(#[from] kube::Error),
}

/// Connects as `KUBECONFIG`, `~/.kube/config` or the pod's ServiceAccount says.
///
/// This is kube's own stack with two differences. There are no retries: up to 15 of them, some minutes long, would hide
/// inside one call; the reconciler backs off per object instead. And Nagle's algorithm is off: it holds back the second
/// request on a connection until the API server's delayed acknowledgement, for 40 ms.
pub(crate) async fn connect() -> anyhow::Result<Client> {
    let config = Config::infer().await?;
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    let mut connector = TimeoutConnector::new(config.rustls_https_connector_with_connector(tcp)?);
    connector.set_connect_timeout(Some(CONNECT));
    connector.set_write_timeout(Some(CALL));
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .map_err(BoxError::from)
        .service(legacy::Client::builder(TokioExecutor::new()).build(connector));
    Ok(Client::new(service, config.default_namespace))
}

/// Runs a call, for no longer than it may take.
pub(crate) async fn timed<T>(call: impl Future<Output = kube::Result<T>>) -> Result<T, CallError> {
    match tokio::time::timeout(CALL, call).await {
        Ok(result) => Ok(result?),
        Err(_) => Err(CallError::Timeout),
    }
}

/// The API of a kind, in a namespace or, where that is empty, of the cluster.
pub(crate) fn api(client: &Client, kind: &Kind, namespace: &str) -> Api<DynamicObject> {
    let resource = ApiResource {
        group: kind.group.to_owned(),
        version: kind.version.to_owned(),
        api_version: api_version(kind),
        kind: kind.kind.to_owned(),
        plural: kind.plural.to_owned(),
    };
    if kind.namespaced && !namespace.is_empty() {
        Api::namespaced_with(client.clone(), namespace, &resource)
    } else {
        Api::all_with(client.clone(), &resource)
    }
}

/// `group/version`, or `version` alone for the core group.
pub(crate) fn api_version(kind: &Kind) -> String {
    if kind.group.is_empty() { kind.version.to_owned() } else { format!("{}/{}", kind.group, kind.version) }
}
