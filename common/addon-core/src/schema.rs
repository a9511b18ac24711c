//! What the API server's schemas say about the kinds that add-ons are made of: plural names, scope, and how lists and
//! maps merge (`x-kubernetes-list-type`, `x-kubernetes-list-map-keys`, `x-kubernetes-map-type` in
//! kubernetes/kubernetes: `api/openapi-spec/v3`).

use crate::path::{FieldPath, Segment};

/// A kind of object that the framework can read and write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// API group; empty for the core group.
    pub group: &'static str,
    /// API version that is used.
    pub version: &'static str,
    /// Kind, e.g. `Deployment`.
    pub kind: &'static str,
    /// Plural name in URLs, e.g. `deployments`.
    pub plural: &'static str,
    /// Whether its objects live in a namespace.
    pub namespaced: bool,
}

const fn kind(
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    plural: &'static str,
    namespaced: bool,
) -> Kind {
    Kind { group, version, kind, plural, namespaced }
}

/// Every built-in kind that the framework handles.
pub const KINDS: &[Kind] = &[
    kind("", "v1", "ConfigMap", "configmaps", true),
    kind("", "v1", "Service", "services", true),
    kind("", "v1", "ServiceAccount", "serviceaccounts", true),
    kind("apps", "v1", "DaemonSet", "daemonsets", true),
    kind("apps", "v1", "Deployment", "deployments", true),
    kind("apps", "v1", "ReplicaSet", "replicasets", true),
    kind("networking.k8s.io", "v1", "IPAddress", "ipaddresses", false),
    kind("networking.k8s.io", "v1", "ServiceCIDR", "servicecidrs", false),
    kind("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", true),
    kind("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", false),
    kind("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding", "clusterrolebindings", false),
    kind("rbac.authorization.k8s.io", "v1", "Role", "roles", true),
    kind("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings", true),
];

/// Finds a built-in kind.
pub fn kind_of(group: &str, kind: &str) -> Option<&'static Kind> {
    KINDS.iter().find(|known| known.group == group && known.kind == kind)
}

/// How a field merges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Merge {
    /// An object whose members have owners of their own.
    Granular,
    /// A list whose items are told apart by these members.
    Keyed(&'static [&'static str]),
    /// A list that is a set of values.
    Set,
    /// A value that has one owner as a whole.
    Atomic,
}

/// Lists with keys, by the names of their parents below a pod spec.
const POD_LISTS: &[(&str, &[&str])] = &[
    ("containers", &["name"]),
    ("initContainers", &["name"]),
    ("volumes", &["name"]),
    ("imagePullSecrets", &["name"]),
    ("hostAliases", &["ip"]),
    ("topologySpreadConstraints", &["topologyKey", "whenUnsatisfiable"]),
    ("containers.env", &["name"]),
    ("containers.ports", &["containerPort", "protocol"]),
    ("containers.volumeMounts", &["mountPath"]),
    ("initContainers.env", &["name"]),
    ("initContainers.ports", &["containerPort", "protocol"]),
    ("initContainers.volumeMounts", &["mountPath"]),
];

/// Maps that have one owner as a whole, below a pod spec.
const POD_ATOMS: &[&str] = &[
    "nodeSelector",
    "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution",
    "topologySpreadConstraints.labelSelector",
    "containers.env.valueFrom.fieldRef",
    "containers.env.valueFrom.configMapKeyRef",
    "containers.env.valueFrom.secretKeyRef",
    "containers.env.valueFrom.resourceFieldRef",
    "initContainers.env.valueFrom.fieldRef",
];

/// Where a kind keeps its pod spec.
pub fn pod_spec_path(kind: &str) -> Option<&'static str> {
    match kind {
        "Deployment" | "DaemonSet" | "ReplicaSet" | "StatefulSet" | "Job" => Some("spec.template.spec"),
        "Pod" => Some("spec"),
        _ => None,
    }
}

/// [`pod_spec_path`] as a JSON pointer.
pub fn pod_spec_pointer(kind: &str) -> Option<String> {
    pod_spec_path(kind).map(|path| format!("/{}", path.replace('.', "/")))
}

/// How the list or map at `path` of an object of this kind merges.
pub fn merge_of(kind: &str, path: &FieldPath, is_list: bool) -> Merge {
    let names: Vec<&str> = path
        .segments()
        .iter()
        .filter_map(|segment| match segment {
            Segment::Field(name) => Some(name.as_str()),
            _ => None,
        })
        .collect();
    let names = names.join(".");
    if is_list { list(kind, &names) } else { map(kind, &names) }
}

fn list(kind: &str, names: &str) -> Merge {
    match (kind, names) {
        ("Service", "spec.ports") => return Merge::Keyed(&["port", "protocol"]),
        ("ServiceAccount", "secrets") => return Merge::Keyed(&["name"]),
        (_, "metadata.finalizers") => return Merge::Set,
        (_, "metadata.ownerReferences") => return Merge::Keyed(&["uid"]),
        (_, "status.conditions") => return Merge::Keyed(&["type"]),
        _ => {}
    }
    below_pod_spec(kind, names)
        .and_then(|below| POD_LISTS.iter().find(|(list, _)| *list == below))
        .map_or(Merge::Atomic, |(_, keys)| Merge::Keyed(keys))
}

fn map(kind: &str, names: &str) -> Merge {
    let atomic = match kind {
        "Service" | "Deployment" | "DaemonSet" | "PodDisruptionBudget" => names == "spec.selector",
        "ClusterRoleBinding" | "RoleBinding" => names == "roleRef",
        _ => false,
    } || below_pod_spec(kind, names).is_some_and(|below| POD_ATOMS.contains(&below));
    if atomic { Merge::Atomic } else { Merge::Granular }
}

fn below_pod_spec<'a>(kind: &str, names: &'a str) -> Option<&'a str> {
    names.strip_prefix(pod_spec_path(kind)?)?.strip_prefix('.')
}
