//! The CoreDNS that is in the cluster: what it runs, who made it, and where its configuration comes from.

use addon_framework::core::{Object, ObjectKey, Observed, Version, adopt, fields::Owners, version::Image};
use serde_json::{Map, Value};

/// The Deployment's name.
pub(crate) const WORKLOAD: &str = "coredns";
/// The name of ServiceAccount, container and of the ConfigMap that people edit.
pub(crate) const NAME: &str = "coredns";
/// On a Deployment that was taken over: the version that it had.
pub(crate) const ADOPTED: &str = "addons.x-k8s.io/adopted";
/// On a ConfigMap of ours: the ConfigMap that its content comes from.
pub(crate) const FROM: &str = "addons.x-k8s.io/from";
/// Where the configuration is mounted.
const FOLDER: &str = "/etc/coredns";

/// The CoreDNS that is in the cluster.
#[derive(Debug, Default)]
pub(crate) struct Live<'a> {
    pub(crate) key: String,
    pub(crate) image: &'a str,
    /// The version that the live Deployment asks for.
    pub(crate) version: Option<Version>,
    /// Whether another installer made its pods.
    pub(crate) is_foreign: bool,
    /// The version that stays where the spec asks for none, since another installer chose it.
    pub(crate) kept: Option<Version>,
    /// The configuration that is not ours to make up.
    pub(crate) config: Config<'a>,
}

/// Configuration that another installer, or a person, has written.
#[derive(Debug, Default)]
pub(crate) enum Config<'a> {
    /// There is none: the package's is used.
    #[default]
    Package,
    /// The content of a ConfigMap, and the name of the one that it was first read from.
    Kept { from: &'a str, data: &'a Map<String, Value> },
    /// The pods mount a ConfigMap that is not there, or has no Corefile.
    Unknown { name: &'a str },
}

impl<'a> Live<'a> {
    /// Reads it from a snapshot.
    pub(crate) fn of(observed: &'a Observed, manager: &str) -> Self {
        let key = workload(observed);
        let Some(deployment) = observed.get(&key) else {
            return Self { config: kept(observed, NAME).unwrap_or_default(), ..Self::default() };
        };
        let image = container(deployment)["image"].as_str().unwrap_or_default();
        let version = Image::parse(image).version();
        let is_foreign = adopt::is_foreign_workload(deployment, observed, manager);
        let kept_version = if is_foreign { version.clone() } else { adopted(deployment, manager) };
        let config = if is_foreign { foreign_config(deployment, observed) } else { own_config(deployment, observed) };
        Self { key: key.to_string(), image, version, is_foreign, kept: kept_version, config }
    }
}

/// The Deployment.
pub(crate) fn workload(observed: &Observed) -> ObjectKey {
    ObjectKey::new("apps", "Deployment", &observed.namespace, WORKLOAD)
}

/// The container that is CoreDNS.
fn container(deployment: &Object) -> &Value {
    let containers = deployment.value()["spec"]["template"]["spec"]["containers"].as_array();
    containers.into_iter().flatten().find(|container| container["name"] == NAME).unwrap_or(&Value::Null)
}

/// The version that was taken over, as we wrote it: what others write there counts for nothing.
fn adopted(deployment: &Object, manager: &str) -> Option<Version> {
    let is_ours = Owners::of(deployment).held_by(manager).iter().any(|path| path.to_string().contains(ADOPTED));
    deployment.annotation(ADOPTED).filter(|_| is_ours)?.parse().ok()
}

/// The content of a ConfigMap with a Corefile.
fn kept<'a>(observed: &'a Observed, name: &'a str) -> Option<Config<'a>> {
    let data = observed.core("ConfigMap", name)?.value()["data"].as_object()?;
    data.get("Corefile").is_some_and(Value::is_string).then_some(Config::Kept { from: name, data })
}

/// The ConfigMap that the pods mount as configuration.
fn mounted(deployment: &Object) -> Option<&str> {
    let mounts = container(deployment)["volumeMounts"].as_array()?;
    let mount = mounts
        .iter()
        .find(|mount| mount["mountPath"].as_str().is_some_and(|path| path.trim_end_matches('/') == FOLDER))?;
    let volumes = deployment.value()["spec"]["template"]["spec"]["volumes"].as_array()?;
    volumes.iter().find(|volume| volume["name"] == mount["name"])?["configMap"]["name"].as_str()
}

/// Of another installer's pods: what they mount.
fn foreign_config<'a>(deployment: &'a Object, observed: &'a Observed) -> Config<'a> {
    match mounted(deployment) {
        Some(name) => kept(observed, name).unwrap_or(Config::Unknown { name }),
        None => kept(observed, NAME).unwrap_or_default(),
    }
}

/// Of our own pods: the ConfigMap that their configuration came from, or, when that is gone, the configuration itself.
fn own_config<'a>(deployment: &'a Object, observed: &'a Observed) -> Config<'a> {
    let ours = mounted(deployment).and_then(|name| observed.core("ConfigMap", name));
    let from = ours.and_then(|config_map| config_map.annotation(FROM));
    let there = kept(observed, from.unwrap_or(NAME)).or_else(|| kept(observed, NAME));
    let data = ours.and_then(|config_map| config_map.value()["data"].as_object());
    match (there, from, data) {
        (Some(there), _, _) => there,
        (None, Some(from), Some(data)) => Config::Kept { from, data },
        (None, _, _) => Config::Package,
    }
}
