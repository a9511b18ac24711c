//! Packages: a folder of plain YAML that `kubectl apply -k` takes as it stands, and metadata beside it.
//!
//! ```text
//! metadata/package.yaml      what the package is, which fields are set by what, who owns which field
//! manifests/kustomization.yaml
//! manifests/*.yaml           what is applied
//! ```
//!
//! Nothing is a template. What varies is set on the parsed objects: the metadata declares for each setting the fields
//! that take its value.

use std::collections::BTreeMap;

use semver::VersionReq;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::{object::Object, path::FieldPath, version::Version, yaml};

/// The largest file of a package, in bytes.
const MAX_FILE: usize = 1 << 20;
/// The most files of a package.
const MAX_FILES: usize = 64;

/// A parsed package.
#[derive(Clone, Debug)]
pub struct Package {
    /// What `metadata/package.yaml` says.
    pub metadata: Metadata,
    /// The objects, in the order of the files' names.
    pub objects: Vec<Object>,
    /// `sha256:<hex>` of the content: the same files give the same digest, wherever they come from.
    pub digest: String,
}

/// What a package says of itself.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Metadata {
    /// The add-on's name.
    pub name: String,
    /// The versions of the add-on that these manifests fit.
    pub versions: VersionReq,
    /// Setting -> the fields that take its value.
    #[serde(default)]
    pub setters: BTreeMap<String, Vec<FieldRef>>,
    /// Who owns which field.
    #[serde(default)]
    pub fields: Fields,
    /// ConfigMaps that are immutable and get a name with a hash of their content, written `ConfigMap/name`.
    #[serde(default)]
    pub hashed: Vec<String>,
}

/// The classes of fields. What is in none of them belongs to whoever set it last, by the resource's conflict policy.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Fields {
    /// Repaired when others change them.
    #[serde(default)]
    pub enforced: Vec<FieldRef>,
    /// Sent once, and left to whoever changes them.
    #[serde(default)]
    pub defaulted: Vec<FieldRef>,
    /// Lists in which nothing but our own items may stand.
    #[serde(default)]
    pub exclusive: Vec<FieldRef>,
}

/// A field of an object of the package, written `Kind/name path`; `Kind/*` stands for every object of a kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct FieldRef {
    /// The object, as `Kind/name`.
    pub source: String,
    /// The field.
    pub path: FieldPath,
}

/// A package that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{file}: {problem}")]
pub struct PackageError {
    file: String,
    problem: String,
}

impl Package {
    /// Reads a package from its files, given as path and text.
    pub fn from_files(files: &[(&str, &str)]) -> Result<Self, PackageError> {
        let fail = |file: &str, problem: String| PackageError { file: file.to_owned(), problem };
        if files.len() > MAX_FILES {
            return Err(fail(".", format!("{} files, and at most {MAX_FILES} are read", files.len())));
        }
        let files: BTreeMap<_, _> = files.iter().copied().collect();
        let mut metadata = None;
        let mut objects: Vec<Object> = Vec::new();
        for (path, text) in &files {
            if text.len() > MAX_FILE {
                return Err(fail(path, format!("{} bytes, and at most {MAX_FILE} are read", text.len())));
            }
            match *path {
                "metadata/package.yaml" => {
                    metadata = Some(yaml::from_str::<Metadata>(text).map_err(|error| fail(path, error.to_string()))?);
                }
                "manifests/kustomization.yaml" => {}
                _ if path.starts_with("manifests/") => {
                    objects.extend(yaml::documents::<Object>(text).map_err(|error| fail(path, error.to_string()))?);
                }
                _ => return Err(fail(path, "neither metadata nor a manifest".into())),
            }
        }
        let metadata = metadata.ok_or_else(|| fail("metadata/package.yaml", "missing".into()))?;
        let package = Self { metadata, objects, digest: digest(&files) };
        package.validate().map_err(|problem| fail("metadata/package.yaml", problem))?;
        Ok(package)
    }

    /// Whether these manifests fit a version of the add-on.
    pub fn fits(&self, version: &Version) -> bool {
        version.is_in(&self.metadata.versions)
    }

    /// Every object that the metadata names exists, and every field that a setting goes to.
    fn validate(&self) -> Result<(), String> {
        let sources: Vec<_> = self.objects.iter().map(source_of).collect();
        let known = |source: &str| {
            sources.iter().any(|known| known == source)
                || source.strip_suffix("/*").is_some_and(|kind| self.objects.iter().any(|object| object.kind() == kind))
        };
        let fields = &self.metadata.fields;
        let refs = self.metadata.setters.values().flatten().chain(&fields.enforced).chain(&fields.defaulted);
        for reference in refs.chain(&fields.exclusive) {
            if !known(&reference.source) {
                return Err(format!("there is no {}", reference.source));
            }
        }
        if let Some(missing) = self.metadata.hashed.iter().find(|source| !known(source)) {
            return Err(format!("there is no {missing}"));
        }
        for (setting, references) in &self.metadata.setters {
            for reference in references {
                let mut object = self.objects[sources
                    .iter()
                    .position(|source| *source == reference.source)
                    .ok_or_else(|| format!("setting {setting}: {} is no single object", reference.source))?]
                .clone();
                if !reference.path.set(object.value_mut(), serde_json::Value::Null) {
                    return Err(format!("setting {setting}: {} has no {}", reference.source, reference.path));
                }
            }
        }
        Ok(())
    }
}

/// How the metadata names an object: `Kind/name`.
pub(crate) fn source_of(object: &Object) -> String {
    format!("{}/{}", object.kind(), object.name())
}

/// The digest of a package's files: of each path and text, with their lengths, in the order of the paths.
fn digest(files: &BTreeMap<&str, &str>) -> String {
    let mut hash = Sha256::new();
    for (path, text) in files {
        for part in [path, text] {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part.as_bytes());
        }
    }
    format!("sha256:{}", hex(&hash.finalize()))
}

/// Lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The first ten hexadecimal digits of the SHA-256 of a value's JSON, whose maps are sorted.
pub(crate) fn short_hash(value: &serde_json::Value) -> String {
    hex(&Sha256::digest(value.to_string().as_bytes()))[..10].to_owned()
}

impl FieldRef {
    /// Whether this names the field of that object, or one around it.
    pub fn covers(&self, source: &str, path: &FieldPath) -> bool {
        let same = self.source == source || self.source.strip_suffix('*').is_some_and(|kind| source.starts_with(kind));
        same && self.path.covers(path)
    }
}

impl TryFrom<String> for FieldRef {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let (source, path) = text
            .split_once(' ')
            .filter(|(source, _)| source.split('/').filter(|part| !part.is_empty()).count() == 2)
            .ok_or_else(|| format!("`{text}` is no field of an object (expected `Kind/name path.of.field`)"))?;
        let path = path.trim().parse().map_err(|error: crate::path::BadPath| error.to_string())?;
        Ok(Self { source: source.to_owned(), path })
    }
}

impl From<FieldRef> for String {
    fn from(reference: FieldRef) -> Self {
        format!("{} {}", reference.source, reference.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const METADATA: &str = "name: dns\nversions: '>=1.0.0'\nhashed: [ConfigMap/dns]\n";
    const MANIFEST: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: dns}\ndata: {a: b}\n---\n";

    fn read(metadata: &str) -> Result<Package, PackageError> {
        Package::from_files(&[("metadata/package.yaml", metadata), ("manifests/dns.yaml", MANIFEST)])
    }

    #[test]
    fn the_digest_is_of_the_content_alone() {
        let one = read(METADATA).unwrap();
        let two =
            Package::from_files(&[("manifests/dns.yaml", MANIFEST), ("metadata/package.yaml", METADATA)]).unwrap();
        assert_eq!(one.digest, two.digest);
        assert_ne!(one.digest, read(&format!("{METADATA}# x\n")).unwrap().digest);
        assert_eq!(one.objects.len(), 1);
    }

    #[test]
    fn metadata_that_names_nothing_is_refused() {
        for (extra, problem) in [
            ("setters: {x: [ConfigMap/other data.a]}", "no ConfigMap/other"),
            ("setters: {x: ['ConfigMap/dns data.list[name=a].b']}", "has no"),
            ("fields: {enforced: [Deployment/* spec]}", "no Deployment/*"),
            ("fields: {enforced: [spec]}", "no field of an object"),
            ("surprise: 1", "surprise"),
        ] {
            let error = read(&format!("{METADATA}{extra}\n")).unwrap_err().to_string();
            assert!(error.starts_with("metadata/package.yaml: ") && error.contains(problem), "{error}");
        }
    }

    #[test]
    fn a_manifest_that_is_no_object_is_refused_by_file() {
        let files = [("metadata/package.yaml", METADATA), ("manifests/bad.yaml", "kind: ConfigMap\n")];
        let error = Package::from_files(&files).unwrap_err().to_string();
        assert!(error.starts_with("manifests/bad.yaml: ") && error.contains("apiVersion"), "{error}");
    }
}
