//! Real control planes and simulated nodes for tests of add-on operators.
//!
//! Nothing here is a mock: [`TestCluster`] is etcd, kube-apiserver, kube-controller-manager and kube-scheduler as
//! processes of this machine, with binaries that [`assets`] finds or builds.

pub mod assets;
pub mod audit;
pub mod cluster;
pub mod eventually;
pub mod manifests;
pub mod nodes;
pub mod proxy;

pub use cluster::{ClusterGuard, Program, TestCluster};
