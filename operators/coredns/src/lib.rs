//! The CoreDNS operator: installs and upgrades the cluster's DNS server as a [`CoreDNS`](api::CoreDNS) resource says.
//!
//! The pure part of an operator is its whole: [`addon::CoreDns`] decides from a snapshot what should be, [`discover`]
//! finds the cluster's domain and DNS address, [`config`] judges the Corefile, [`package`] holds the manifests and the catalogue. Everything else is
//! the framework's.

pub mod addon;
pub mod api;
pub mod config;
pub mod discover;
mod live;
pub mod package;
