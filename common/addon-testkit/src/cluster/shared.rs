//! One cluster for all tests of one test binary: one test at a time, each on a cluster as if just started.

use std::ops::Deref;

use tokio::sync::{MappedMutexGuard, Mutex, MutexGuard};

use super::{TestCluster, error::ClusterError};

/// Never dropped, as statics are: the supervisors notice the end of the process. tokio's lock belongs to no runtime, and
/// the cluster holds nothing that belongs to one, so each test may bring its own.
static SHARED: Mutex<Option<TestCluster>> = Mutex::const_new(None);

/// The shared cluster, for this test alone until it is dropped.
pub struct ClusterGuard(MappedMutexGuard<'static, TestCluster>);

impl Deref for ClusterGuard {
    type Target = TestCluster;

    fn deref(&self) -> &TestCluster {
        &self.0
    }
}

impl TestCluster {
    /// The cluster that all tests of this binary share, started by the first of them. Waits until no other test has it,
    /// then [resets](Self::reset) it. A cluster that an earlier test broke is replaced.
    pub async fn shared() -> Result<ClusterGuard, ClusterError> {
        let mut shared = SHARED.lock().await;
        let mut usable = false;
        if let Some(cluster) = &*shared {
            usable = cluster.check().is_ok();
            if usable && !cluster.serves() {
                usable = cluster.start_apiserver().await.is_ok();
            }
        }
        if usable {
            if let Some(cluster) = &*shared {
                cluster.reset().await?;
            }
        } else {
            drop(shared.take()); // before its successor starts: memory and files of two are not needed
            *shared = Some(Self::start().await?);
        }
        match MutexGuard::try_map(shared, Option::as_mut) {
            Ok(guard) => Ok(ClusterGuard(guard)),
            Err(_) => Err(ClusterError::State { state: "not there", remedy: "start it first" }),
        }
    }
}
