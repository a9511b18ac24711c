//! coredns
