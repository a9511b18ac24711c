//! A real control plane for one test, or for all tests of one binary: etcd, kube-apiserver, kube-controller-manager and
//! kube-scheduler as processes of this machine, on loopback, with an authority of their own and RBAC on.
//!
//! A cluster must never outlive the process that started it, must never assume a port, and must never touch anything
//! outside its own temp dir.

mod builder;
mod certificates;
mod components;
mod error;
pub(crate) mod kubeconfig;
mod program;
mod reset;
mod shared;
mod supervisor;

use std::{
    fs,
    net::IpAddr,
    path::{Path, PathBuf},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use k8s_openapi::api::{
    authentication::v1::{TokenRequest, TokenRequestSpec},
    core::v1::{Namespace, ServiceAccount},
};
use kube::{
    Api, Client, Config, ResourceExt as _,
    api::{ObjectMeta, PostParams},
};

pub use self::{builder::Builder, error::ClusterError, program::Program, shared::ClusterGuard};
use self::{
    components::{AUDIT_LOG, Layout},
    kubeconfig::Identity,
    reset::Baseline,
    supervisor::{Component, Folder, log_path},
};
use crate::assets::ControlPlane;

/// Longer than any test; the API server's own default is an hour.
const TOKEN_SECONDS: i64 = 24 * 3600;

/// A running control plane. Dropping it kills its processes and removes its files.
pub struct TestCluster {
    // Fields are dropped in this order: processes before the folder they work in.
    components: Mutex<Components>,
    folder: Folder,
    settings: Settings,
    programs: ControlPlane,
    address: IpAddr,
    port: u16,
    config: Config,
    admin: PathBuf,
    version: String,
    baseline: Baseline,
    counter: AtomicU64,
}

/// Those who ask go before those who answer: no log fills with errors on the way down.
struct Components {
    scheduler: Option<Component>,
    controller_manager: Option<Component>,
    apiserver: Option<Component>,
    etcd: Option<Component>,
}

#[derive(Clone)]
struct Settings {
    service_cidr: String,
    pod_cidr: String,
    apiserver: Vec<String>,
    controller_manager: Vec<String>,
    scheduler: Vec<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            service_cidr: "10.96.0.0/12".to_owned(),
            pod_cidr: "10.240.0.0/12".to_owned(),
            apiserver: Vec::new(),
            controller_manager: Vec::new(),
            scheduler: Vec::new(),
        }
    }
}

impl TestCluster {
    /// Starts a control plane with every default.
    pub async fn start() -> Result<Self, ClusterError> {
        Self::builder().start().await
    }

    /// Starts a control plane that differs from the defaults.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// A client with all rights. It belongs to the runtime of the caller: each `#[tokio::test]` makes its own.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    #[allow(clippy::expect_used)] // the very same configuration made a client when the cluster was started
    pub fn client(&self) -> Client {
        builder::client(&self.config).expect("the configuration made a client before")
    }

    /// The configuration of [`client`](Self::client), for a client with other settings.
    pub fn config(&self) -> Config {
        self.config.clone()
    }

    /// A client with the credentials of a kubeconfig. It never repeats a request by itself.
    pub async fn client_with(kubeconfig: &Path) -> Result<Client, ClusterError> {
        builder::client(&kubeconfig::read(kubeconfig).await?)
    }

    /// The kubeconfig of an administrator, in the temp dir of the cluster.
    pub fn kubeconfig(&self) -> &Path {
        &self.admin
    }

    /// The URL of the API server.
    pub fn url(&self) -> String {
        self.layout().url()
    }

    /// The version that the API server says it has, such as `1.34.4`.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The folder of the cluster's files, which is removed with it. Tests may put files of their own there.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The log of a component: `etcd`, `kube-apiserver`, `kube-controller-manager` or `kube-scheduler`.
    pub fn log(&self, component: &str) -> Result<String, ClusterError> {
        let path = log_path(self.folder.path(), component);
        let bytes = fs::read(&path).map_err(ClusterError::io("read", path))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// A kubeconfig with the rights of a ServiceAccount, which must exist. Its token lasts longer than any test.
    pub async fn kubeconfig_for(&self, namespace: &str, service_account: &str) -> Result<PathBuf, ClusterError> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client(), namespace);
        let spec = TokenRequestSpec { expiration_seconds: Some(TOKEN_SECONDS), ..TokenRequestSpec::default() };
        let request = TokenRequest { spec, ..TokenRequest::default() };
        let action = format!("asking for a token of ServiceAccount {namespace}/{service_account}");
        let answer = accounts
            .create_token_request(service_account, &PostParams::default(), &request)
            .await
            .map_err(ClusterError::request(action))?;
        let token = answer.status.map(|status| status.token).unwrap_or_default();
        // A new file for each call: a process that still reads the old one is not surprised.
        let name = self.unique(&format!("{namespace}-{service_account}"));
        let path = self.folder.path().join(format!("{name}.kubeconfig"));
        kubeconfig::write(&path, &self.url(), Some(&self.ca()), &Identity::Token(&token))?;
        Ok(path)
    }

    /// Creates a namespace with a name of its own and returns the name, once its default ServiceAccount is there.
    pub async fn temp_namespace(&self) -> Result<String, ClusterError> {
        let namespaces: Api<Namespace> = Api::all(self.client());
        let metadata = ObjectMeta { generate_name: Some("test-".to_owned()), ..ObjectMeta::default() };
        let namespace = namespaces
            .create(&PostParams::default(), &Namespace { metadata, ..Namespace::default() })
            .await
            .map_err(ClusterError::request("creating a namespace"))?
            .name_any();
        builder::wait_for_default_account(&self.client(), &namespace, self.folder(), || self.check()).await?;
        Ok(namespace)
    }

    /// Kills the API server and returns once it has exited. What it stored stays.
    pub async fn stop_apiserver(&self) -> Result<(), ClusterError> {
        let apiserver = self.components().apiserver.take();
        match apiserver {
            Some(apiserver) => apiserver.stop().await,
            None => Err(ClusterError::State { state: "stopped already", remedy: "start it first" }),
        }
    }

    /// Starts the API server again, on the same port, and returns once it is ready.
    pub async fn start_apiserver(&self) -> Result<(), ClusterError> {
        let layout = self.layout();
        let (mut apiserver, mut etcd) = {
            let mut components = self.components();
            if components.apiserver.is_some() {
                return Err(ClusterError::State { state: "running already", remedy: "stop it first" });
            }
            (builder::start_apiserver(&layout, &self.programs)?, components.etcd.take())
        };
        let result = builder::wait_for_readyz(&self.config, &mut apiserver, etcd.as_mut(), layout.folder).await;
        let mut components = self.components();
        components.etcd = etcd;
        result?;
        components.apiserver = Some(apiserver);
        Ok(())
    }

    /// An error with the end of its log if a component has ended by itself.
    pub fn check(&self) -> Result<(), ClusterError> {
        let mut components = self.components();
        let Components { scheduler, controller_manager, apiserver, etcd } = &mut *components;
        [etcd, apiserver, controller_manager, scheduler].into_iter().flatten().try_for_each(Component::check)
    }

    /// Whether the API server was not stopped.
    fn serves(&self) -> bool {
        self.components().apiserver.is_some()
    }

    fn components(&self) -> MutexGuard<'_, Components> {
        // A panicking test must still be able to stop its cluster.
        self.components.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn layout(&self) -> Layout<'_> {
        let (address, port, settings) = (self.address, self.port, &self.settings);
        Layout { folder: self.folder.path(), address, port, settings }
    }

    /// The API server's audit log, which the recorder reads.
    pub(crate) fn audit_log(&self) -> PathBuf {
        self.folder.path().join(AUDIT_LOG)
    }

    /// A name that this cluster has not used before.
    pub(crate) fn unique(&self, prefix: &str) -> String {
        format!("{prefix}-{}", self.counter.fetch_add(1, Ordering::Relaxed))
    }

    fn ca(&self) -> PathBuf {
        self.folder.path().join("pki").join("ca.crt")
    }
}
