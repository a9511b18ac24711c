//! Starts a control plane, step by step, and says which step failed and why.

use std::{
    net::{IpAddr, Ipv4Addr, TcpListener},
    path::Path,
    sync::Mutex,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use k8s_openapi::api::core::v1::ServiceAccount;
use kube::{Api, Client, Config};

use super::{
    Components, Settings, TestCluster, certificates,
    components::{AUDIT_POLICY, Layout},
    error::ClusterError,
    kubeconfig::{self, Identity},
    reset::Baseline,
    supervisor::{Component, Folder, log_path, tail},
};
use crate::assets::{Assets, ControlPlane, DEFAULT_KUBERNETES};

/// Chooses the Kubernetes version of test clusters that do not choose their own.
const VERSION_VARIABLE: &str = "ADDON_TEST_KUBERNETES";

/// Below the range from which the kernel takes ports of outgoing connections and below node ports, so that the port of a
/// stopped API server is still free when it is started again.
const PORTS: std::ops::Range<u16> = 20_000..30_000;

/// A slow, busy machine is no failure; a component that ended is noticed at once anyway.
const PATIENCE: Duration = Duration::from_mins(2);

const POLL: Duration = Duration::from_millis(20);

/// Another process may take the port between the look and the start.
const PORT_ATTEMPTS: usize = 3;

/// What a test cluster shall be like; everything has a default.
#[derive(Clone, Default)]
#[must_use]
pub struct Builder {
    kubernetes: Option<String>,
    assets: Option<Assets>,
    settings: Settings,
}

impl Builder {
    /// The Kubernetes version, such as `1.34.4`. Default: `ADDON_TEST_KUBERNETES`, else the newest that is known.
    pub fn kubernetes(mut self, version: impl Into<String>) -> Self {
        self.kubernetes = Some(version.into());
        self
    }

    /// Where binaries come from. Default: as the environment says.
    pub fn assets(mut self, assets: Assets) -> Self {
        self.assets = Some(assets);
        self
    }

    /// The range of ClusterIPs. Default: `10.96.0.0/12`, as kubeadm has it.
    pub fn service_cidr(mut self, cidr: impl Into<String>) -> Self {
        self.settings.service_cidr = cidr.into();
        self
    }

    /// The range that nodes get their pod ranges from, a /24 each. Default: `10.240.0.0/12`, room for 4,096 nodes.
    pub fn pod_cidr(mut self, cidr: impl Into<String>) -> Self {
        self.settings.pod_cidr = cidr.into();
        self
    }

    /// One more argument of kube-apiserver; the last of the same name counts.
    pub fn apiserver_argument(mut self, argument: impl Into<String>) -> Self {
        self.settings.apiserver.push(argument.into());
        self
    }

    /// One more argument of kube-controller-manager; the last of the same name counts.
    pub fn controller_manager_argument(mut self, argument: impl Into<String>) -> Self {
        self.settings.controller_manager.push(argument.into());
        self
    }

    /// One more argument of kube-scheduler; the last of the same name counts.
    pub fn scheduler_argument(mut self, argument: impl Into<String>) -> Self {
        self.settings.scheduler.push(argument.into());
        self
    }

    /// Starts the control plane and returns once it is ready: /readyz answers, and the default ServiceAccounts are there.
    pub async fn start(self) -> Result<TestCluster, ClusterError> {
        let kubernetes = self.kubernetes.unwrap_or_else(|| match std::env::var(VERSION_VARIABLE) {
            Ok(version) if !version.is_empty() => version,
            _ => newest().to_owned(),
        });
        let assets = self.assets.map_or_else(Assets::from_env, Ok)?;
        let asked = kubernetes.clone();
        // The first build takes minutes: not on a thread of the runtime.
        let programs = tokio::task::spawn_blocking(move || assets.control_plane(&asked))
            .await
            .map_err(|error| ClusterError::Io { action: "build", path: "assets".into(), source: error.into() })??;
        let start = Instant::now();
        let cluster = start_components(self.settings, programs).await?;
        let version = &cluster.version;
        if version.trim_start_matches('v') != kubernetes.trim_start_matches('v') {
            // A folder of ready binaries says no versions: better to know than to refuse.
            tracing::warn!(asked = %kubernetes, %version, "the ready binaries are of another Kubernetes version");
        }
        tracing::info!(%version, url = %cluster.url(), seconds = start.elapsed().as_secs_f32(), "test cluster is ready");
        Ok(cluster)
    }
}

/// The newest Kubernetes version that is built by default.
fn newest() -> &'static str {
    DEFAULT_KUBERNETES[DEFAULT_KUBERNETES.len() - 1]
}

async fn start_components(settings: Settings, programs: ControlPlane) -> Result<TestCluster, ClusterError> {
    let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let folder = Folder::create()?;
    let pki = folder.path().join("pki");
    std::fs::create_dir(&pki).map_err(ClusterError::io("create", &pki))?;
    certificates::write(&pki, server_names(address))?;
    certificates::write_file(&folder.path().join("audit-policy.yaml"), AUDIT_POLICY)?;

    let mut attempt = 1;
    let mut port = free_port(address)?;
    let mut etcd = {
        let layout = Layout { folder: folder.path(), address, port, settings: &settings };
        let mut etcd = Component::start("etcd", folder.path(), &programs.etcd, &layout.etcd())?;
        let socket = layout.etcd_socket();
        wait("etcd's socket", "etcd", folder.path(), async || {
            etcd.check()?;
            Ok(std::fs::exists(&socket).unwrap_or(false).then_some(()).ok_or_else(String::new))
        })
        .await?;
        etcd
    };
    tracing::debug!("etcd listens");

    let (apiserver, config) = loop {
        let layout = Layout { folder: folder.path(), address, port, settings: &settings };
        write_kubeconfigs(&layout)?;
        let config = kubeconfig::read(&admin_kubeconfig(folder.path())).await?;
        let mut apiserver = start_apiserver(&layout, &programs)?;
        match wait_for_readyz(&config, &mut apiserver, Some(&mut etcd), folder.path()).await {
            Ok(()) => break (apiserver, config),
            Err(ClusterError::Exited { log, .. })
                if attempt < PORT_ATTEMPTS && log.contains("address already in use") =>
            {
                tracing::debug!(port, "the port was taken meanwhile, trying another one");
                attempt += 1;
                port = free_port(address)?;
            }
            Err(error) => return Err(error),
        }
    };
    tracing::debug!("the API server is ready");

    let layout = Layout { folder: folder.path(), address, port, settings: &settings };
    let start =
        |name, program: &Path, arguments: Vec<String>| Component::start(name, folder.path(), program, &arguments);
    let mut controller_manager =
        start("kube-controller-manager", &programs.controller_manager, layout.controller_manager())?;
    let scheduler = start("kube-scheduler", &programs.scheduler, layout.scheduler())?;
    let client = client(&config)?;
    for namespace in ["default", "kube-system"] {
        wait_for_default_account(&client, namespace, folder.path(), || controller_manager.check()).await?;
    }
    let baseline = Baseline::record(&client).await?;
    let version = client.apiserver_version().await.map_err(ClusterError::request("reading the server version"))?;

    let admin = admin_kubeconfig(folder.path());
    let components = Components {
        scheduler: Some(scheduler),
        controller_manager: Some(controller_manager),
        apiserver: Some(apiserver),
        etcd: Some(etcd),
    };
    let cluster = TestCluster {
        components: Mutex::new(components),
        folder,
        settings,
        programs,
        address,
        port,
        config,
        admin,
        version: version.git_version.trim_start_matches('v').to_owned(),
        baseline,
        counter: std::sync::atomic::AtomicU64::new(0),
    };
    cluster.check()?;
    Ok(cluster)
}

pub(super) fn start_apiserver(layout: &Layout<'_>, programs: &ControlPlane) -> Result<Component, ClusterError> {
    Component::start("kube-apiserver", layout.folder, &programs.apiserver, &layout.apiserver())
}

/// Waits for /readyz with a client of its own: a client that saw connection errors may wait before it tries again.
pub(super) async fn wait_for_readyz(
    config: &Config,
    apiserver: &mut Component,
    mut etcd: Option<&mut Component>,
    folder: &Path,
) -> Result<(), ClusterError> {
    let client = client(config)?;
    wait("/readyz", "kube-apiserver", folder, async || {
        etcd.as_mut().map_or(Ok(()), |etcd| etcd.check())?;
        apiserver.check()?;
        let request = http::Request::get("/readyz").body(Vec::new()).map_err(|error| ClusterError::Request {
            action: "asking /readyz".to_owned(),
            source: Box::new(kube::Error::HttpError(error)),
        })?;
        Ok(client.request_text(request).await.map(drop).map_err(|error| error.to_string()))
    })
    .await
}

/// Waits for the ServiceAccount that kube-controller-manager makes in every namespace.
pub(super) async fn wait_for_default_account(
    client: &Client,
    namespace: &str,
    folder: &Path,
    mut check: impl FnMut() -> Result<(), ClusterError>,
) -> Result<(), ClusterError> {
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), namespace);
    wait("the default ServiceAccount", "kube-controller-manager", folder, async || {
        check()?;
        Ok(accounts.get("default").await.map(drop).map_err(|error| error.to_string()))
    })
    .await
}

/// Repeats `attempt` until its inner result is good. An outer error ends the waiting.
async fn wait(
    what: &'static str,
    component: &'static str,
    folder: &Path,
    mut attempt: impl AsyncFnMut() -> Result<Result<(), String>, ClusterError>,
) -> Result<(), ClusterError> {
    let start = Instant::now();
    loop {
        let Err(last) = attempt().await? else { return Ok(()) };
        if start.elapsed() > PATIENCE {
            let log = tail(&log_path(folder, component));
            return Err(ClusterError::NotReady { what, seconds: start.elapsed().as_secs(), last, component, log });
        }
        tokio::time::sleep(POLL).await;
    }
}

/// A client that belongs to the runtime of the caller.
pub(super) fn client(config: &Config) -> Result<Client, ClusterError> {
    Client::try_from(config.clone()).map_err(ClusterError::request("making a client"))
}

pub(super) fn admin_kubeconfig(folder: &Path) -> std::path::PathBuf {
    folder.join("admin.kubeconfig")
}

fn write_kubeconfigs(layout: &Layout<'_>) -> Result<(), ClusterError> {
    let pki = layout.folder.join("pki");
    for name in ["admin", "controller-manager", "scheduler"] {
        let path = layout.folder.join(format!("{name}.kubeconfig"));
        let identity = Identity::Certificate { folder: &pki, name };
        kubeconfig::write(&path, &layout.url(), Some(&pki.join("ca.crt")), &identity)?;
    }
    Ok(())
}

/// The names by which pods, processes of this machine and the kubernetes Service reach the API server.
fn server_names(address: IpAddr) -> Vec<String> {
    let mut names = vec![address.to_string(), "localhost".to_owned(), "kubernetes".to_owned()];
    names.extend(["default", "default.svc", "default.svc.cluster.local"].map(|name| format!("kubernetes.{name}")));
    names
}

fn free_port(address: IpAddr) -> Result<u16, ClusterError> {
    // Two test processes that start together begin at different places.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.subsec_nanos());
    let size = u32::from(PORTS.end - PORTS.start);
    let offset = now.wrapping_add(std::process::id().wrapping_mul(7919)) % size;
    (0..size)
        .filter_map(|step| u16::try_from((offset + step) % size).ok())
        .map(|step| PORTS.start + step)
        .find(|port| TcpListener::bind((address, *port)).is_ok())
        .ok_or(ClusterError::NoPort { from: PORTS.start, to: PORTS.end, address })
}
