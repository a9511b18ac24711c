//! The binaries that a test cluster is made of: found, or built from Go modules and kept in the user's cache folder.
//!
//! No container image and no release archive is needed: a Go toolchain is. Only what is asked for is built. A binary is
//! kept under its name, version and recipe digest; it appears by a rename, so a half-written one is never run, and a lock
//! file lets two processes ask for the same thing at once. `KUBEBUILDER_ASSETS`, the ecosystem's name for a folder of
//! ready binaries, is used instead where it is set.
//!
//! This module never deletes a binary and never looks at a folder that it did not make, except `KUBEBUILDER_ASSETS`.

mod error;
mod golang;
mod module;
mod recipe;
mod store;

use std::{fmt, io::Write as _, path::PathBuf, sync::Arc};

pub use self::{
    error::AssetError,
    recipe::{CONTROL_PLANE, RECIPES, Recipe, Source, Version, Versioning},
    store::Assets,
};

/// The Kubernetes versions that are built when none is named, oldest first.
pub const DEFAULT_KUBERNETES: &[&str] = &["1.34.4", "1.37.2"];

/// Takes one line of progress at a time.
pub type Progress = Arc<dyn Fn(&str) + Send + Sync>;

/// Progress on stderr, past the capture of the test harness: a first build takes minutes, and silence looks like a hang.
pub fn progress_on_stderr() -> Progress {
    // Nothing can be done about a closed stderr.
    Arc::new(|line| drop(writeln!(std::io::stderr(), "assets: {line}")))
}

/// One binary in one version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asset {
    recipe: &'static Recipe,
    version: Version,
}

impl Asset {
    /// Reads `kubelet`, or `coredns@1.12.1`. Where the recipe follows Kubernetes, the version of Kubernetes is taken.
    pub fn parse(text: &str, kubernetes: &str) -> Result<Self, AssetError> {
        let (name, version) = match text.split_once('@') {
            Some((name, version)) => (name, Some(version)),
            None => (text, None),
        };
        let recipe = Recipe::named(name)?;
        let (version, example) = match (version, recipe.versioning) {
            (Some(version), Versioning::Asked(example) | Versioning::Pinned(example)) => (version, example),
            (Some(version), Versioning::Kubernetes) => (version, DEFAULT_KUBERNETES[0]),
            (None, Versioning::Kubernetes) => (kubernetes, DEFAULT_KUBERNETES[0]),
            (None, Versioning::Pinned(version)) => (version, version),
            (None, Versioning::Asked(example)) => {
                return Err(AssetError::VersionMissing { name: name.to_owned(), example: example.to_owned() });
            }
        };
        let version = Version::parse(version).ok_or_else(|| AssetError::BadVersion {
            name: name.to_owned(),
            version: version.to_owned(),
            example: example.to_owned(),
        })?;
        Ok(Self { recipe, version })
    }

    /// What the API-server tier of tests needs for one Kubernetes version.
    pub fn control_plane(kubernetes: &str) -> Result<Vec<Self>, AssetError> {
        CONTROL_PLANE.iter().map(|name| Self::parse(name, kubernetes)).collect()
    }

    /// The name of the binary.
    pub fn name(&self) -> &'static str {
        self.recipe.name
    }

    /// The version of the binary.
    pub fn version(&self) -> Version {
        self.version
    }
}

impl fmt::Display for Asset {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}", self.recipe.name, self.version)
    }
}

/// The binaries of one control plane.
#[derive(Debug, Clone)]
pub struct ControlPlane {
    /// etcd
    pub etcd: PathBuf,
    /// kube-apiserver
    pub apiserver: PathBuf,
    /// kube-controller-manager
    pub controller_manager: PathBuf,
    /// kube-scheduler
    pub scheduler: PathBuf,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_asset_follows_kubernetes_or_its_pin_or_what_is_asked() {
        let parse = |text| Asset::parse(text, "1.34.4").map(|asset| asset.to_string());
        assert_eq!(parse("kubelet").unwrap(), "kubelet 1.34.4");
        assert_eq!(parse("kubelet@1.36.1").unwrap(), "kubelet 1.36.1");
        assert_eq!(parse("etcd").unwrap(), "etcd 3.7.3");
        assert_eq!(parse("coredns@1.13.1").unwrap(), "coredns 1.13.1");
        assert!(parse("coredns").unwrap_err().to_string().contains("coredns@VERSION"));
        assert!(parse("kubelet@newest").unwrap_err().to_string().contains("`newest`"));
    }
}
