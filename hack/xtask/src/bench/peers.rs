//! What is compared with: the Go operators of kubernetes-sigs/cluster-addons at 83429da9 (2023-04).
//!
//! Their figures were measured once on a machine with 2 cores, Kubernetes 1.34.4 on loopback, no nodes, Go 1.26.8, with
//! times from the API server's audit log; a range where runs differed. They are constants because the Go operators need
//! patches to build today; on another machine only the order of magnitude compares.

/// One figure of one operator as it is printed, by the name of the figure in the JSON output.
pub(super) fn figure(operator: &str, figure: &str) -> Option<&'static str> {
    let (_, figures) = PEERS.iter().find(|(name, _)| *name == operator)?;
    figures.iter().find(|(name, _)| *name == figure).map(|(_, value)| *value)
}

type Figures = &'static [(&'static str, &'static str)];

/// No `available_ms`: they report healthy without a ready pod.
const PEERS: &[(&str, Figures)] = &[(
    "coredns",
    &[
        ("start_ms", "980"),
        ("applied_ms", "1040"),
        ("drift_ms", "40 to 110"),
        ("requests", "78"),
        ("rss_mib", "65"),
        ("peak_rss_mib", "94 to 113"),
        ("binary_mib", "43"),
        ("writes_60s", "0"),
        ("requests_per_min", "0"),
    ],
)];
