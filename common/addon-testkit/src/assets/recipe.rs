//! The table of recipes: one row says how one binary is built from Go modules. A further binary is a further row.

use std::fmt::Write as _;

use sha2::{Digest, Sha256};

use super::error::AssetError;

/// Raise this when the way modules are generated or built changes, so that nothing built the old way is used.
const FORMAT: u32 = 1;

/// Link flags of every binary: no symbol table, no debug data.
const STRIP: &str = "-s -w";

/// Where a binary's code comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// A command of `k8s.io/kubernetes`, which cannot be installed by itself: its go.mod asks for staging modules at
    /// v0.0.0. All commands of one version share one generated module.
    Kubernetes {
        /// Import path of the main package.
        package: &'static str,
    },
    /// A library that needs a `main` of one line.
    Wrapped {
        /// The module that is required.
        module: &'static str,
        /// The package that is imported.
        import: &'static str,
        /// The statement in `main`.
        call: &'static str,
    },
    /// A command that `go install` builds as it is.
    Installed {
        /// The module, which carries the version.
        module: &'static str,
        /// Import path of the main package.
        package: &'static str,
    },
}

/// Which version of a binary belongs to a Kubernetes version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Versioning {
    /// The Kubernetes version itself.
    Kubernetes,
    /// Always this one.
    Pinned(&'static str),
    /// Only the caller knows; the example is for messages.
    Asked(&'static str),
}

/// How one binary is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recipe {
    /// The name of the binary, as `KUBEBUILDER_ASSETS` has it.
    pub name: &'static str,
    /// Where its code comes from.
    pub source: Source,
    /// Which version is taken.
    pub versioning: Versioning,
}

/// Every binary that can be asked for.
pub const RECIPES: &[Recipe] = &[
    Recipe {
        name: "etcd",
        source: Source::Wrapped {
            module: "go.etcd.io/etcd/server/v3",
            import: "go.etcd.io/etcd/server/v3/etcdmain",
            call: "etcdmain.Main(os.Args)",
        },
        versioning: Versioning::Pinned("3.7.3"),
    },
    kubernetes("kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver"),
    kubernetes("kube-controller-manager", "k8s.io/kubernetes/cmd/kube-controller-manager"),
    kubernetes("kube-scheduler", "k8s.io/kubernetes/cmd/kube-scheduler"),
    kubernetes("kube-proxy", "k8s.io/kubernetes/cmd/kube-proxy"),
    kubernetes("kubelet", "k8s.io/kubernetes/cmd/kubelet"),
    kubernetes("kubeadm", "k8s.io/kubernetes/cmd/kubeadm"),
    kubernetes("kubectl", "k8s.io/kubernetes/cmd/kubectl"),
    Recipe {
        name: "coredns",
        source: Source::Installed { module: "github.com/coredns/coredns", package: "github.com/coredns/coredns" },
        versioning: Versioning::Asked("1.12.1"),
    },
];

/// What a control plane without nodes consists of.
pub const CONTROL_PLANE: &[&str] = &["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"];

const fn kubernetes(name: &'static str, package: &'static str) -> Recipe {
    Recipe { name, source: Source::Kubernetes { package }, versioning: Versioning::Kubernetes }
}

impl Recipe {
    /// The row of that name.
    pub fn named(name: &str) -> Result<&'static Self, AssetError> {
        RECIPES.iter().find(|recipe| recipe.name == name).ok_or_else(|| AssetError::UnknownAsset {
            name: name.to_owned(),
            known: RECIPES.iter().map(|recipe| recipe.name).collect::<Vec<_>>().join(", "),
        })
    }

    /// The link flags for a version. They are part of Go's cache key: a change here costs a new link of everything.
    pub fn ldflags(&self, version: &Version) -> String {
        match self.source {
            Source::Kubernetes { .. } => {
                let prefix = "k8s.io/component-base/version";
                let Version { major, minor, .. } = version;
                format!(
                    "{STRIP} -X {prefix}.gitVersion=v{version} -X {prefix}.gitMajor={major} -X {prefix}.gitMinor={minor}"
                )
            }
            Source::Wrapped { .. } | Source::Installed { .. } => STRIP.to_owned(),
        }
    }

    /// Ten hex digits over everything that decides what is built, so that a changed recipe is a new binary.
    pub fn digest(&self, version: &Version) -> String {
        let text = format!("{FORMAT}\n{}\n{:?}\n{version}\n{}", self.name, self.source, self.ldflags(version));
        Sha256::digest(text).iter().take(5).fold(String::new(), |mut hex, byte| {
            // Writing to a String cannot fail.
            let _ = write!(hex, "{byte:02x}");
            hex
        })
    }
}

/// A release version: three numbers, nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Version {
    /// The first number.
    pub major: u32,
    /// The second number.
    pub minor: u32,
    /// The third number.
    pub patch: u32,
}

impl Version {
    /// Reads `1.34.4` or `v1.34.4`.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.strip_prefix('v').unwrap_or(text).split('.').map(|part| part.parse().ok());
        let version = Self { major: parts.next()??, minor: parts.next()??, patch: parts.next()?? };
        parts.next().is_none().then_some(version)
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const V1_34_4: Version = Version { major: 1, minor: 34, patch: 4 };

    #[test]
    fn a_version_is_three_numbers_with_or_without_a_v() {
        assert_eq!(Version::parse("1.34.4"), Some(V1_34_4));
        assert_eq!(Version::parse("v1.34.4"), Some(V1_34_4));
        for bad in ["", "1.34", "1.34.4.1", "1.34.x", "1.34.4-rc.1", "latest"] {
            assert_eq!(Version::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn the_digest_changes_with_every_part_of_a_recipe_and_with_the_version() {
        let recipe = *Recipe::named("kube-scheduler").unwrap();
        let digest = recipe.digest(&V1_34_4);
        assert_eq!(digest, recipe.digest(&V1_34_4), "the same recipe has the same digest");
        let renamed = Recipe { name: "scheduler", ..recipe };
        let moved = Recipe { source: Source::Kubernetes { package: "k8s.io/kubernetes/cmd/other" }, ..recipe };
        let unstamped = Recipe { source: Source::Installed { module: "m", package: "m/p" }, ..recipe };
        for changed in [renamed, moved, unstamped] {
            assert_ne!(digest, changed.digest(&V1_34_4), "{changed:?}");
        }
        assert_ne!(digest, recipe.digest(&Version { patch: 5, ..V1_34_4 }));
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_names_there_are() {
        let message = Recipe::named("kube-dns").unwrap_err().to_string();
        assert!(
            message.contains("kube-dns") && message.contains("kube-apiserver, kube-controller-manager"),
            "{message}"
        );
    }

    #[test]
    fn names_in_the_table_are_unique_and_the_control_plane_has_a_recipe_each() {
        let names: std::collections::BTreeSet<_> = RECIPES.iter().map(|recipe| recipe.name).collect();
        assert_eq!(names.len(), RECIPES.len());
        assert!(CONTROL_PLANE.iter().all(|name| names.contains(name)));
    }
}
