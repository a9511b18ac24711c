//! The command lines of the control plane: what is set, and why it differs from a production cluster.

use std::{net::IpAddr, path::Path};

use super::Settings;

/// Audit: metadata of every request, once it is answered. The recorder reads it.
pub(super) const AUDIT_POLICY: &str = "\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
";

/// The log that the policy above fills.
pub(super) const AUDIT_LOG: &str = "audit.jsonl";

/// What the API server says is its address. It refuses a loopback address here; nothing connects to this one, which is
/// reserved for documentation (RFC 5737).
const ADVERTISED: &str = "192.0.2.1";

/// Writes are not throttled on the client side: a test of thousands of nodes would measure the throttle.
const UNTHROTTLED: [&str; 2] = ["--kube-api-qps=5000", "--kube-api-burst=10000"];

pub(super) struct Layout<'a> {
    pub(super) folder: &'a Path,
    pub(super) address: IpAddr,
    pub(super) port: u16,
    pub(super) settings: &'a Settings,
}

impl Layout<'_> {
    fn file(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    fn pki(&self, name: &str) -> String {
        self.file(&format!("pki/{name}"))
    }

    pub(super) fn url(&self) -> String {
        format!("https://{}", std::net::SocketAddr::new(self.address, self.port))
    }

    /// etcd's socket: a file has no port that could be taken.
    pub(super) fn etcd_socket(&self) -> String {
        self.file("etcd.sock")
    }

    pub(super) fn etcd(&self) -> Vec<String> {
        let client = format!("unix://{}", self.etcd_socket());
        let peer = format!("unix://{}", self.file("etcd-peer.sock"));
        vec![
            format!("--data-dir={}", self.file("etcd")),
            format!("--listen-client-urls={client}"),
            format!("--advertise-client-urls={client}"),
            format!("--listen-peer-urls={peer}"),
            format!("--initial-advertise-peer-urls={peer}"),
            format!("--initial-cluster=default={peer}"),
            "--logger=zap".to_owned(),
            "--log-level=warn".to_owned(),
            // The data dies with the test: durability would only cost time.
            "--unsafe-no-fsync".to_owned(),
        ]
    }

    pub(super) fn apiserver(&self) -> Vec<String> {
        let mut arguments = vec![
            format!("--etcd-servers=unix://{}", self.etcd_socket()),
            format!("--bind-address={}", self.address),
            format!("--secure-port={}", self.port),
            format!("--advertise-address={ADVERTISED}"),
            "--authorization-mode=Node,RBAC".to_owned(),
            "--enable-admission-plugins=NodeRestriction".to_owned(),
            "--allow-privileged=true".to_owned(),
            format!("--client-ca-file={}", self.pki("ca.crt")),
            format!("--tls-cert-file={}", self.pki("apiserver.crt")),
            format!("--tls-private-key-file={}", self.pki("apiserver.key")),
            format!("--kubelet-client-certificate={}", self.pki("apiserver-kubelet-client.crt")),
            format!("--kubelet-client-key={}", self.pki("apiserver-kubelet-client.key")),
            // Node names do not resolve on a test machine.
            "--kubelet-preferred-address-types=InternalIP".to_owned(),
            "--service-account-issuer=https://kubernetes.default.svc.cluster.local".to_owned(),
            format!("--service-account-key-file={}", self.pki("service-accounts.pub")),
            format!("--service-account-signing-key-file={}", self.pki("service-accounts.key")),
            format!("--service-cluster-ip-range={}", self.settings.service_cidr),
            format!("--audit-policy-file={}", self.file("audit-policy.yaml")),
            format!("--audit-log-path={}", self.file(AUDIT_LOG)),
            // Megabytes; a rotation would hide requests from a recorder.
            "--audit-log-maxsize=100000".to_owned(),
            "--profiling=false".to_owned(),
        ];
        arguments.extend(self.settings.apiserver.iter().cloned());
        arguments
    }

    pub(super) fn controller_manager(&self) -> Vec<String> {
        let mut arguments = vec![
            format!("--kubeconfig={}", self.file("controller-manager.kubeconfig")),
            "--use-service-account-credentials=true".to_owned(),
            "--leader-elect=false".to_owned(),
            // No port: nobody asks it, and a port could be taken.
            "--secure-port=0".to_owned(),
            format!("--service-account-private-key-file={}", self.pki("service-accounts.key")),
            format!("--root-ca-file={}", self.pki("ca.crt")),
            format!("--cluster-signing-cert-file={}", self.pki("ca.crt")),
            format!("--cluster-signing-key-file={}", self.pki("ca.key")),
            "--allocate-node-cidrs=true".to_owned(),
            format!("--cluster-cidr={}", self.settings.pod_cidr),
            format!("--service-cluster-ip-range={}", self.settings.service_cidr),
            // Simulated nodes have no leases to renew: without this all of them are lost after 40 s.
            "--node-monitor-grace-period=24h".to_owned(),
        ];
        arguments.extend(UNTHROTTLED.map(str::to_owned));
        arguments.extend(self.settings.controller_manager.iter().cloned());
        arguments
    }

    pub(super) fn scheduler(&self) -> Vec<String> {
        let mut arguments = vec![
            format!("--kubeconfig={}", self.file("scheduler.kubeconfig")),
            "--leader-elect=false".to_owned(),
            "--secure-port=0".to_owned(),
        ];
        arguments.extend(UNTHROTTLED.map(str::to_owned));
        arguments.extend(self.settings.scheduler.iter().cloned());
        arguments
    }
}
