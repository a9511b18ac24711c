//! A few clusters for all tests of one test binary: each test has one to itself, as if just started.

use std::ops::Deref;

use tokio::sync::{MappedMutexGuard, Mutex, MutexGuard, Semaphore, SemaphorePermit};

use super::{TestCluster, error::ClusterError};

/// Tests mostly wait for pods, so two of them run side by side on two cores.
const CLUSTERS: usize = 2;

/// Never dropped, as statics are: the supervisors notice the end of the process. tokio's lock belongs to no runtime, and
/// the cluster holds nothing that belongs to one, so each test may bring its own.
static SHARED: [Mutex<Option<TestCluster>>; CLUSTERS] = [const { Mutex::const_new(None) }; CLUSTERS];

/// Counts the clusters that no test has.
static FREE: Semaphore = Semaphore::const_new(CLUSTERS);

/// A shared cluster, for this test alone until it is dropped.
pub struct ClusterGuard {
    // Dropped in this order: whoever gets the permit finds the cluster free.
    cluster: MappedMutexGuard<'static, TestCluster>,
    _permit: SemaphorePermit<'static>,
}

impl Deref for ClusterGuard {
    type Target = TestCluster;

    fn deref(&self) -> &TestCluster {
        &self.cluster
    }
}

impl TestCluster {
    /// One of the clusters that the tests of this binary share, started by the first test that needs it. Waits until one
    /// is free, then [resets](Self::reset) it. A cluster that an earlier test broke is replaced.
    pub async fn shared() -> Result<ClusterGuard, ClusterError> {
        const NONE: ClusterError = ClusterError::State { state: "not there", remedy: "start it first" };
        let permit = FREE.acquire().await.map_err(|_| NONE)?;
        let mut shared = SHARED.iter().find_map(|cluster| cluster.try_lock().ok()).ok_or(NONE)?;
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
            Ok(cluster) => Ok(ClusterGuard { cluster, _permit: permit }),
            Err(_) => Err(NONE),
        }
    }
}
