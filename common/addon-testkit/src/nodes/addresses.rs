//! Addresses of simulated nodes and pods. Nothing answers at them.
//!
//! The counters are the process's, not the cluster's: two sets of nodes in one cluster never share an address, and two clusters do not mind.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU32, Ordering};

/// 10.64.0.0/12.
const FIRST_NODE: u32 = u32::from_be_bytes([10, 64, 0, 1]);
/// 10.240.0.0/12, the pod range of a test cluster; not from the /24 of the pod's node.
const FIRST_POD: u32 = u32::from_be_bytes([10, 240, 0, 1]);
/// All of a /12 but its first and last address.
const COUNT: u32 = (1 << 20) - 2;

/// An address for a node.
pub(super) fn next_node() -> Ipv4Addr {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    next(&NEXT, FIRST_NODE)
}

/// An address for a pod; after a million pods they come again.
pub(super) fn next_pod() -> Ipv4Addr {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    next(&NEXT, FIRST_POD)
}

fn next(counter: &AtomicU32, first: u32) -> Ipv4Addr {
    Ipv4Addr::from(first + counter.fetch_add(1, Ordering::Relaxed) % COUNT)
}
