//! From a package and settings to the objects that are to be.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::{
    finding::Finding,
    object::Object,
    package::{Package, short_hash, source_of},
    patch, schema,
};

/// The label on every object of an add-on, with the add-on's name as value.
pub const ADDON_LABEL: &str = "addons.x-k8s.io/addon";

/// What varies between two renderings of a package.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// The namespace for everything that lives in one.
    pub namespace: String,
    /// Values for the package's setters. A setting that is not there leaves the package's own value.
    pub values: BTreeMap<&'static str, Value>,
    /// Labels for the workloads and their pods.
    pub labels: BTreeMap<String, String>,
    /// Annotations for the workloads and their pods.
    pub annotations: BTreeMap<String, String>,
    /// The user's patches, as in `spec.patches`.
    pub patches: Vec<Value>,
}

/// An object that is to be, and how the package's metadata names it.
#[derive(Clone, Debug, PartialEq)]
pub struct Rendered {
    /// `Kind/name` as in the package: without a hash.
    pub source: String,
    /// The object.
    pub object: Object,
}

/// Renders a package: settings, then labels and annotations, then patches, then hashed names.
pub fn render(package: &Package, settings: &Settings) -> Result<Vec<Rendered>, Box<Finding>> {
    let mut objects = package.objects.clone();
    for object in &mut objects {
        place(object, &settings.namespace);
    }
    set_values(package, settings, &mut objects)?;
    for object in objects.iter_mut().filter(|object| schema::pod_spec_path(object.kind()).is_some()) {
        for (map, entries) in [("labels", &settings.labels), ("annotations", &settings.annotations)] {
            if !entries.is_empty() {
                let metadata = json!({ map: entries });
                let change = json!({ "metadata": metadata, "spec": { "template": { "metadata": metadata }}});
                let kind = object.kind().to_owned();
                patch::merge(&kind, &crate::FieldPath::default(), object.value_mut(), &change);
            }
        }
    }
    patch::apply_all(&mut objects, &settings.patches)?;
    let sources: Vec<_> = objects.iter().map(source_of).collect();
    for object in &mut objects {
        object.set_metadata("labels", ADDON_LABEL, &package.metadata.name);
    }
    hash_names(package, &sources, &mut objects);
    Ok(sources.into_iter().zip(objects).map(|(source, object)| Rendered { source, object }).collect())
}

/// Puts an object, and the ServiceAccounts that it binds, into the namespace.
fn place(object: &mut Object, namespace: &str) {
    let namespaced = schema::kind_of(object.group(), object.kind()).is_none_or(|kind| kind.namespaced);
    if namespaced {
        object.value_mut()["metadata"]["namespace"] = json!(namespace);
    }
    if let Some(subjects) = object.value_mut().get_mut("subjects").and_then(Value::as_array_mut) {
        for subject in subjects.iter_mut().filter(|subject| subject["kind"] == "ServiceAccount") {
            subject["namespace"] = json!(namespace);
        }
    }
}

fn set_values(package: &Package, settings: &Settings, objects: &mut [Object]) -> Result<(), Box<Finding>> {
    for (name, value) in &settings.values {
        let references = package.metadata.setters.get(*name).ok_or_else(|| {
            Finding::error("UnknownSetting", format!("package {} has no setting `{name}`", package.digest))
                .remedy("use a package that declares it under `setters`")
        })?;
        for reference in references {
            for object in objects.iter_mut().filter(|object| source_of(object) == reference.source) {
                reference.path.set(object.value_mut(), value.clone());
            }
        }
    }
    Ok(())
}

/// Makes ConfigMaps immutable under a name with a hash of their content, and pod templates refer to that name: so that
/// configuration and workload change, and go back, as one.
fn hash_names(package: &Package, sources: &[String], objects: &mut [Object]) {
    let mut renamed = BTreeMap::new();
    for (object, source) in objects.iter_mut().zip(sources) {
        if package.metadata.hashed.contains(source) {
            let old = object.name().to_owned();
            let content = json!([object.value().get("data"), object.value().get("binaryData")]);
            let new = format!("{old}-{}", short_hash(&content));
            object.value_mut()["metadata"]["name"] = json!(new);
            object.value_mut()["immutable"] = json!(true);
            renamed.insert(old, new);
        }
    }
    for object in objects.iter_mut() {
        let pointer = schema::pod_spec_pointer(object.kind());
        if let Some(pod_spec) = pointer.and_then(|pointer| object.value_mut().pointer_mut(&pointer)) {
            rename_config_maps(pod_spec, &renamed);
        }
    }
}

/// The members of a pod spec that name a ConfigMap.
const CONFIG_MAP_REFERENCES: [&str; 3] = ["configMap", "configMapRef", "configMapKeyRef"];

fn rename_config_maps(value: &mut Value, renamed: &BTreeMap<String, String>) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| rename_config_maps(item, renamed)),
        Value::Object(members) => {
            for (member, value) in members {
                if CONFIG_MAP_REFERENCES.contains(&member.as_str())
                    && let Some(name) = value.get_mut("name")
                    && let Some(new) = name.as_str().and_then(|name| renamed.get(name))
                {
                    *name = json!(new);
                } else {
                    rename_config_maps(value, renamed);
                }
            }
        }
        _ => {}
    }
}

/// The names of the ConfigMaps that an object's pods refer to.
pub fn config_maps_of(object: &Object) -> Vec<String> {
    fn collect(value: &Value, names: &mut Vec<String>) {
        match value {
            Value::Array(items) => items.iter().for_each(|item| collect(item, names)),
            Value::Object(members) => {
                for (member, value) in members {
                    match value.get("name").and_then(Value::as_str) {
                        Some(name) if CONFIG_MAP_REFERENCES.contains(&member.as_str()) => names.push(name.to_owned()),
                        _ => collect(value, names),
                    }
                }
            }
            _ => {}
        }
    }
    let mut names = Vec::new();
    let pointer = schema::pod_spec_pointer(object.kind());
    if let Some(value) = pointer.and_then(|pointer| object.value().pointer(&pointer)) {
        collect(value, &mut names);
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package() -> Package {
        Package::from_files(&[
            (
                "metadata/package.yaml",
                "name: dns\nversions: '>=1.0.0'\nhashed: [ConfigMap/dns]\n\
                 setters: {replicas: [Deployment/dns spec.replicas], config: ['ConfigMap/dns data.Corefile']}\n",
            ),
            (
                "manifests/all.yaml",
                "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: dns}\ndata: {Corefile: x}\n---\n\
                 apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: dns}\nspec:\n  template:\n    spec:\n      \
                 volumes: [{name: config, configMap: {name: dns}}, {name: other, configMap: {name: else}}]\n---\n\
                 apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {name: dns}\n\
                 subjects: [{kind: ServiceAccount, name: dns, namespace: kube-system}]\n",
            ),
        ])
        .unwrap()
    }

    fn settings(config: &str) -> Settings {
        Settings {
            namespace: "n".into(),
            values: [("replicas", json!(3)), ("config", json!(config))].into(),
            labels: [("team".to_owned(), "dns".to_owned())].into(),
            ..Settings::default()
        }
    }

    #[test]
    fn settings_go_to_their_fields_and_everything_into_the_namespace() {
        let rendered = render(&package(), &settings("y")).unwrap();
        let [config, deployment, binding] = &rendered[..] else { panic!("three objects") };
        assert_eq!(config.object.namespace(), "n");
        assert_eq!(deployment.object.value()["spec"]["replicas"], 3);
        assert_eq!(deployment.object.value()["spec"]["template"]["metadata"]["labels"]["team"], "dns");
        assert_eq!(binding.object.namespace(), "");
        assert_eq!(binding.object.value()["subjects"][0]["namespace"], "n");
        assert!(rendered.iter().all(|rendered| rendered.object.label(ADDON_LABEL) == Some("dns")));
    }

    #[test]
    fn another_configuration_has_another_name_and_the_workload_refers_to_it() {
        let name = |config: &str| {
            let rendered = render(&package(), &settings(config)).unwrap();
            assert_eq!(rendered[0].source, "ConfigMap/dns");
            assert_eq!(rendered[0].object.value()["immutable"], true);
            let name = rendered[0].object.name().to_owned();
            assert_eq!(config_maps_of(&rendered[1].object), [name.as_str(), "else"]);
            name
        };
        assert_ne!(name("a"), name("b"));
        assert_eq!(name("a"), name("a"));
    }

    #[test]
    fn a_setting_that_the_package_does_not_declare_is_an_error() {
        let settings = Settings { values: [("none", json!(1))].into(), ..Settings::default() };
        assert_eq!(render(&package(), &settings).unwrap_err().code, "UnknownSetting");
    }
}
