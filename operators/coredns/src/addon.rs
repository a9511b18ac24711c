//! What should be: from a `CoreDNS` resource and a snapshot of the cluster to objects.

use addon_framework::core::{
    Addon, Desired, Finding, Object, ObjectKey, Observed, Severity, Version,
    addon::Watch,
    adopt,
    api::{API_VERSION, CommonSpec, GROUP},
    catalog::{Catalog, Resolution, Wanted},
    package::Package,
    render::{self, ADDON_LABEL, Settings},
    schema::{Kind, kind_of},
};
use serde_json::{Map, Value, json};

use crate::{
    api::CoreDNSSpec,
    config,
    discover::{self, Cluster, SERVICE},
    live::{Config, Live, NAME, WORKLOAD, workload},
    package,
};

/// The kind of the resource.
pub const KIND: Kind =
    Kind { group: GROUP, version: API_VERSION, kind: "CoreDNS", plural: "coredns", namespaced: true };
/// The name of the roles.
const ROLE: &str = "system:coredns";
/// Arguments that typed fields or the package set.
const OWN_ARGUMENTS: [&str; 3] = ["-conf", "-dns.port", "-p"];

/// The CoreDNS add-on.
#[derive(Debug)]
pub struct CoreDns {
    catalog: Catalog,
    packages: Vec<Package>,
}

impl CoreDns {
    /// The add-on with the catalogue and the packages that are embedded in the binary.
    pub fn embedded() -> Result<Self, String> {
        Ok(Self { catalog: package::catalog()?, packages: package::packages()? })
    }

    /// The manifests, newest first.
    pub fn packages(&self) -> &[Package] {
        &self.packages
    }
}

impl Addon for CoreDns {
    fn name(&self) -> &'static str {
        "coredns"
    }

    fn resource(&self) -> Kind {
        KIND
    }

    fn watches(&self) -> Vec<Watch> {
        fn all(_: &Object) -> bool {
            true
        }
        // kubeadm's and kubelet's settings, and whatever has a Corefile, be it another installer's or our own.
        fn config_map(object: &Object) -> bool {
            matches!(object.name(), "kubeadm-config" | "kubelet-config")
                || object.value()["data"]["Corefile"].is_string()
                || is_ours(object)
        }
        fn is_ours(object: &Object) -> bool {
            object.label(ADDON_LABEL) == Some("coredns") || object.label("k8s-app") == Some("kube-dns")
        }
        let watch = |group, kind, name, keep| kind_of(group, kind).map(|kind| Watch { kind, name, keep });
        [
            watch("", "ServiceAccount", Some(NAME), all),
            watch("rbac.authorization.k8s.io", "ClusterRole", Some(ROLE), all),
            watch("rbac.authorization.k8s.io", "ClusterRoleBinding", Some(ROLE), all),
            watch("", "ConfigMap", None, config_map),
            watch("", "Service", Some(SERVICE), all),
            watch("apps", "Deployment", Some(WORKLOAD), all),
            // They keep the ConfigMaps that a rollback needs.
            watch("apps", "ReplicaSet", None, is_ours),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    fn lookups(&self, resource: &Object, observed: &Observed) -> Vec<ObjectKey> {
        spec_of(resource).map(|spec| discover::lookups(&spec, observed)).unwrap_or_default()
    }

    fn looks_up(&self) -> Vec<(&'static Kind, Option<&'static str>)> {
        let kind = |group, kind, name| kind_of(group, kind).map(|kind| (kind, name));
        [
            kind("networking.k8s.io", "ServiceCIDR", Some("kubernetes")),
            kind("networking.k8s.io", "IPAddress", None),
            kind("", "Service", Some("kubernetes")),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    fn desire(&self, resource: &Object, observed: &Observed) -> Desired {
        let live = Live::of(observed, &self.field_manager());
        let mut desired = Desired { workloads: vec![workload(observed)], ..Desired::default() };
        desired.version.current = live.version.as_ref().map(Version::to_string);
        desired.version.recommended = self.catalog.recommended(&observed.kubernetes).map(Version::to_string);
        if let Err(finding) = self.fill(&mut desired, resource, observed, &live) {
            desired.findings.push(*finding);
        }
        desired
    }
}

impl CoreDns {
    fn fill(
        &self,
        desired: &mut Desired,
        resource: &Object,
        observed: &Observed,
        live: &Live<'_>,
    ) -> Result<(), Box<Finding>> {
        let spec = spec_of(resource)?;
        let version = self.version(&spec.common, observed, live, &mut desired.findings)?;
        desired.version.desired = Some(version.to_string());
        let package = self.packages.iter().find(|package| package.fits(&version)).ok_or_else(|| {
            Finding::error("NoPackage", format!("there are no manifests for CoreDNS {version}"))
                .field(".spec.version")
                .remedy("ask for 1.11.0 or newer")
        })?;
        desired.package = Some(package.digest.clone());
        desired.fields = package.metadata.fields.clone();
        desired.conflicts = spec.common.conflicts;
        let cluster = discover::cluster(&spec, observed).map_err(|unknown| {
            desired.again_in = unknown.again_in;
            unknown.finding
        })?;
        desired.findings.extend(cluster.findings.iter().cloned());

        let render = |spec: &CoreDNSSpec, version: &Version| {
            render::render(package, &self.settings(spec, version, &cluster, observed, live)?)
        };
        let rendered = render(&spec, &version)?;
        desired.findings.extend(config::check(&rendered, &version, &cluster.dns_ip));
        // What an empty spec would give: of a Deployment that another installer made, at the version that it has. Where
        // that is unknown, a version that is asked for is another one.
        let plain_version = live.version.as_ref().filter(|_| live.is_foreign).unwrap_or(&version);
        let mut plain = CoreDNSSpec::default();
        let asks_version = spec.common.asks_version();
        if live.is_foreign && live.version.is_none() && asks_version {
            plain.common.images.tag = Some("unknown".into());
        }
        let plain = render(&plain, plain_version)?;
        let set: Vec<_> =
            set_by(&spec).iter().filter_map(|name| package.metadata.setters.get(*name)).flatten().cloned().collect();
        let (objects, findings) = adopt::desired(rendered, &plain, &set, observed, &self.field_manager());
        let stays = objects.iter().any(|object| object.deferred);
        if live.is_foreign && live.version.is_none() && !asks_version {
            let severity = if stays { Severity::Warning } else { Severity::Error };
            desired.findings.push(version_unknown(live, severity));
        }
        if let (Config::Unknown { name }, None, false) = (&live.config, &spec.corefile, stays) {
            desired.findings.push(
                Finding::error("CorefileUnknown", format!("the pods mount ConfigMap {name}, which has no Corefile"))
                    .object(live.key.clone())
                    .remedy("set spec.corefile"),
            );
        }
        desired.findings.extend(findings);
        desired.objects = objects;
        Ok(())
    }

    /// The version to run. An installation that was taken over keeps its own until the spec says otherwise.
    fn version(
        &self,
        spec: &CommonSpec,
        observed: &Observed,
        live: &Live<'_>,
        findings: &mut Vec<Finding>,
    ) -> Result<Version, Box<Finding>> {
        let wanted = spec.wanted()?;
        let kept = live.kept.as_ref().filter(|_| wanted == Wanted::Recommended);
        let Some(kept) = kept else {
            let resolution = self.catalog.resolve(&observed.kubernetes, wanted)?;
            findings.extend(resolution.findings);
            return Ok(resolution.version);
        };
        let text = kept.to_string();
        let Resolution { version, recommended, findings: about } =
            self.catalog.resolve(&observed.kubernetes, Wanted::Exact(&text))?;
        findings.extend(about);
        if let Some(recommended) = recommended.filter(|recommended| *recommended != version.upstream()) {
            findings.push(
                Finding::note(
                    "OtherVersionRecommended",
                    format!(
                        "CoreDNS {version} was taken over and stays; {recommended} is recommended for this cluster"
                    ),
                )
                .remedy(format!("set spec.version to {recommended}, or spec.channel to stable")),
            );
        }
        Ok(version)
    }

    fn settings(
        &self,
        spec: &CoreDNSSpec,
        version: &Version,
        cluster: &Cluster,
        observed: &Observed,
        live: &Live<'_>,
    ) -> Result<Settings, Box<Finding>> {
        let common = &spec.common;
        let mut values = std::collections::BTreeMap::from([
            ("image", json!(common.images.reference(&self.catalog, version))),
            ("clusterDomain", json!(cluster.domain)),
            ("clusterIP", json!(cluster.dns_ip)),
        ]);
        let mut set = |name, value: Option<Value>| {
            if let Some(value) = value {
                values.insert(name, value);
            }
        };
        if let Some((from, data)) = configuration(spec, &live.config) {
            let files = data.keys().map(|key| json!({"key": key, "path": key})).collect::<Vec<_>>();
            set("configFrom", from.map(|from| json!(from)));
            set("configFiles", Some(json!(files)));
            set("config", Some(json!(data)));
        }
        set("replicas", spec.replicas.map(|replicas| json!(replicas)));
        set("resources", common.resources.as_ref().map(|resources| json!(resources)));
        set("tolerations", common.tolerations.as_ref().map(|tolerations| json!(tolerations)));
        set("priorityClassName", common.priority_class_name.as_ref().map(|name| json!(name)));
        set("pullPolicy", common.images.pull_policy.map(|policy| json!(policy)));
        let secrets = &common.images.pull_secrets;
        let secrets = || secrets.iter().map(|name| json!({ "name": name })).collect::<Vec<_>>();
        set("pullSecrets", (!common.images.pull_secrets.is_empty()).then(|| json!(secrets())));
        if !common.node_selector.is_empty() {
            let mut selector = common.node_selector.clone();
            // CoreDNS has no image for Windows nodes.
            selector.insert("kubernetes.io/os".into(), "linux".into());
            set("nodeSelector", Some(json!(selector)));
        }
        if !common.extra_args.is_empty() {
            set("args", Some(json!(arguments(&common.extra_args)?)));
        }
        set("adopted", live.kept.as_ref().filter(|_| !common.asks_version()).map(|version| json!(version.to_string())));
        Ok(Settings {
            namespace: observed.namespace.clone(),
            values,
            labels: common.labels.clone(),
            annotations: common.annotations.clone(),
            patches: common.patches.clone(),
        })
    }
}

/// The resource's spec.
fn spec_of(resource: &Object) -> Result<CoreDNSSpec, Box<Finding>> {
    let spec = resource.value().get("spec").cloned().unwrap_or_else(|| json!({}));
    serde_json::from_value(spec).map_err(|error| {
        Box::new(Finding::error("BadSpec", format!("the spec cannot be read: {error}")).field(".spec"))
    })
}

/// The settings that a spec sets, whatever it sets them to.
fn set_by(spec: &CoreDNSSpec) -> Vec<&'static str> {
    let common = &spec.common;
    [
        ("replicas", spec.replicas.is_some()),
        ("resources", common.resources.is_some()),
        ("tolerations", common.tolerations.is_some()),
        ("priorityClassName", common.priority_class_name.is_some()),
        ("pullPolicy", common.images.pull_policy.is_some()),
        ("pullSecrets", !common.images.pull_secrets.is_empty()),
        ("nodeSelector", !common.node_selector.is_empty()),
        ("args", !common.extra_args.is_empty()),
    ]
    .into_iter()
    .filter_map(|(name, is_set)| is_set.then_some(name))
    .collect()
}

/// The content of the ConfigMap and where it comes from, where it is not the package's: the spec's Corefile over what
/// there is, since a Corefile may name files beside it.
fn configuration<'a>(spec: &CoreDNSSpec, config: &Config<'a>) -> Option<(Option<&'a str>, Map<String, Value>)> {
    let (from, mut data) = match config {
        Config::Kept { from, data } => (Some(*from), (*data).clone()),
        Config::Package | Config::Unknown { .. } => (None, Map::new()),
    };
    if let Some(corefile) = &spec.corefile {
        data.insert("Corefile".into(), json!(corefile));
    }
    (!data.is_empty()).then_some((from, data))
}

/// The container's arguments with the user's behind the package's.
fn arguments(extra: &[String]) -> Result<Vec<&str>, Box<Finding>> {
    let name = |argument: &str| format!("-{}", argument.trim_start_matches('-').split('=').next().unwrap_or_default());
    if let Some(taken) = extra.iter().find(|argument| OWN_ARGUMENTS.contains(&name(argument).as_str())) {
        return Err(Box::new(
            Finding::error("ArgumentTaken", format!("`{taken}` is set by the operator"))
                .field(".spec.extraArgs")
                .remedy("leave it out"),
        ));
    }
    Ok(["-conf", "/etc/coredns/Corefile"].into_iter().chain(extra.iter().map(String::as_str)).collect())
}

fn version_unknown(live: &Live<'_>, severity: Severity) -> Finding {
    let message = format!("the running image `{}` does not tell its version; it stays", live.image);
    Finding { severity, ..Finding::warning("VersionUnknown", message) }
        .object(live.key.clone())
        .remedy("set spec.version to the version that runs")
}
