//! Real control planes and simulated nodes for tests of add-on operators.
//!
//! Nothing here is a mock: [`TestCluster`] is etcd, kube-apiserver, kube-controller-manager and kube-scheduler as
//! processes of this machine, with binaries that [`assets`] finds or builds. They end with the test process, however it
//! ends.
//!
//! ```no_run
//! # async fn test() -> anyhow::Result<()> {
//! use addon_testkit::{TestCluster, audit::By, proxy::Proxy};
//!
//! // One cluster for all tests of a binary, as if just started; `TestCluster::start()` for one of its own.
//! let cluster = TestCluster::shared().await?;
//! let namespace = cluster.temp_namespace().await?;
//!
//! // The operator's own rights, through a proxy that stops everything after its third write.
//! let kubeconfig = cluster.kubeconfig_for(&namespace, "default").await?;
//! let proxy = Proxy::start(&kubeconfig).await?;
//! let recorder = cluster.recorder();
//! let hold = proxy.hold_after_writes(3);
//! let operator = cluster.run("operator", "target/debug/operator".as_ref(), &[], proxy.kubeconfig())?;
//! hold.reached().await;
//! operator.kill().await?;
//! assert_eq!(recorder.writes(By::ServiceAccount(&namespace, "default")).await?.len(), 3);
//! # Ok(())
//! # }
//! ```
//!
//! Two variables of the environment matter: `ADDON_TEST_KUBERNETES` chooses the Kubernetes version of clusters that do not
//! choose their own, and `KUBEBUILDER_ASSETS` names a folder of ready binaries.

pub mod assets;
pub mod audit;
pub mod cluster;
pub mod eventually;
pub mod manifests;
pub mod nodes;
pub mod proxy;

pub use cluster::{ClusterGuard, Program, TestCluster};
