//! The `CoreDNS` resource.

#![allow(clippy::duplicated_attributes)] // each printed column has a type of its own

use addon_framework::core::api::{AddonStatus, CommonSpec};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The cluster's DNS server. Every field may be left out.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "addons.x-k8s.io",
    version = "v1alpha1",
    kind = "CoreDNS",
    plural = "coredns",
    singular = "coredns",
    namespaced,
    status = "AddonStatus",
    doc = "CoreDNS is the cluster's DNS server: which version runs, with which Corefile, and how it is doing.",
    category = "addons",
    validation = Rule::new("!(has(self.spec) && has(self.spec.version) && has(self.spec.channel))")
        .message("version and channel exclude each other"),
    printcolumn(name = "Version", type_ = "string", json_path = ".status.version.current"),
    printcolumn(name = "Desired", type_ = "string", json_path = ".status.version.desired"),
    printcolumn(
        name = "Available",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Available\")].status"
    ),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Degraded\")].reason",
        priority = 1
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct CoreDNSSpec {
    /// What all add-ons have in common.
    #[serde(flatten)]
    pub common: CommonSpec,
    /// The cluster's domain, e.g. `cluster.local`. Found from the cluster where it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "dnsDomain")]
    #[schemars(length(max = 253))]
    pub dns_domain: Option<String>,
    /// The address of the DNS Service. Found from the cluster where it is left out; cannot be changed later.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "dnsIP")]
    #[schemars(length(max = 45))]
    pub dns_ip: Option<String>,
    /// The whole Corefile, used as it is. Where it is left out: that of ConfigMap `coredns` where there is one, else
    /// the package's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 262_144))]
    pub corefile: Option<String>,
    /// Number of pods. Where it is left out: 2 at first, then whatever an autoscaler or a person sets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1000))]
    pub replicas: Option<i32>,
}
