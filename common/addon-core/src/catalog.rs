//! The catalogue of an add-on: one data file that answers "which version for this Kubernetes?".

use std::collections::BTreeMap;

use semver::VersionReq;
use serde::Deserialize;

use crate::{finding::Finding, version::Version, yaml};

/// What is known of an add-on's releases.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Catalog {
    /// The add-on's name, e.g. `coredns`.
    pub addon: String,
    /// The image without tag, e.g. `registry.k8s.io/coredns/coredns`.
    pub image: String,
    /// What stands before the version in the image's tag: `v` or nothing.
    #[serde(default)]
    pub tag_prefix: String,
    /// Kubernetes minor -> what is recommended there, by patch release, lowest first.
    kubernetes: BTreeMap<String, Vec<Line>>,
    /// The releases, in ascending order.
    versions: Vec<Release>,
}

/// What is recommended from one patch release of Kubernetes on.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Line {
    /// The patch release from which the line holds.
    #[serde(default)]
    from_patch: u64,
    /// The version that we recommend.
    recommended: Version,
}

/// One release of an add-on.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Release {
    /// Its version.
    pub version: Version,
    /// The Kubernetes versions that it is offered for.
    pub kubernetes: VersionReq,
    /// Why it should not be used, where there is a reason.
    #[serde(default)]
    pub known_bad: Option<KnownBad>,
}

/// Why a release should not be used.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct KnownBad {
    /// What goes wrong.
    pub reason: String,
    /// Where it was reported.
    pub evidence: String,
    /// What to use instead.
    pub instead: Version,
}

/// How a version is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted<'a> {
    /// Exactly this one.
    Exact(&'a str),
    /// What the channel names: `stable` is the recommendation for the cluster.
    Channel(&'a str),
    /// What the catalogue recommends for the cluster.
    Recommended,
}

/// A version that was found, and what is to be said about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolution {
    /// The version to run, with the suffix that was asked for.
    pub version: Version,
    /// What the catalogue recommends for this cluster.
    pub recommended: Option<Version>,
    /// What is to be said about the version.
    pub findings: Vec<Finding>,
}

/// The one channel there is.
const STABLE: &str = "stable";

impl Catalog {
    /// Reads a catalogue and checks it: versions ascend, recommendations are listed, offered and not known to be bad.
    pub fn from_yaml(text: &str) -> Result<Self, String> {
        let catalog: Self = yaml::from_str(text).map_err(|error| error.to_string())?;
        for pair in catalog.versions.windows(2) {
            if pair[0].version >= pair[1].version {
                return Err(format!("{} is listed after {}", pair[1].version, pair[0].version));
            }
        }
        for (minor, lines) in &catalog.kubernetes {
            for line in lines {
                let kubernetes: Version = format!("{minor}.{}", line.from_patch)
                    .parse()
                    .map_err(|_| format!("`{minor}` is no Kubernetes minor (expected e.g. `1.34`)"))?;
                let fits = catalog
                    .release(&line.recommended)
                    .is_some_and(|release| release.known_bad.is_none() && kubernetes.is_in(&release.kubernetes));
                if !fits {
                    return Err(format!("{minor} recommends {}, which is not offered for it", line.recommended));
                }
            }
        }
        Ok(catalog)
    }

    /// Every release, in ascending order.
    pub fn releases(&self) -> &[Release] {
        &self.versions
    }

    /// The release of these three numbers.
    pub fn release(&self, version: &Version) -> Option<&Release> {
        self.versions.iter().find(|release| release.version == version.upstream())
    }

    /// The recommended version for a cluster. A minor newer than all known is treated as the newest known.
    pub fn recommended(&self, kubernetes: &Version) -> Option<&Version> {
        let known = self.kubernetes.iter().filter_map(|(minor, lines)| {
            let minor: Version = format!("{minor}.0").parse().ok()?;
            (minor <= Version::new(kubernetes.major, kubernetes.minor, 0)).then_some((minor, lines))
        });
        let (minor, lines) = known.max_by(|(a, _), (b, _)| a.cmp(b))?;
        let patch = if minor.minor == kubernetes.minor { kubernetes.patch } else { u64::MAX };
        lines.iter().rev().find(|line| line.from_patch <= patch).map(|line| &line.recommended)
    }

    /// The version to run on a cluster, or the one finding that says why there is none.
    pub fn resolve(&self, kubernetes: &Version, wanted: Wanted<'_>) -> Result<Resolution, Box<Finding>> {
        let recommended = self.recommended(kubernetes).cloned();
        let mut findings = Vec::new();
        let version = match wanted {
            Wanted::Exact(text) => self.exact(kubernetes, text, &mut findings)?,
            Wanted::Channel(STABLE) | Wanted::Recommended => recommended.clone().ok_or_else(|| {
                Finding::error("NoVersion", format!("no {} is known for Kubernetes {kubernetes}", self.addon))
                    .remedy("set spec.version")
            })?,
            Wanted::Channel(other) => {
                return Err(Box::new(
                    Finding::error("UnknownChannel", format!("there is no channel `{other}`"))
                        .field(".spec.channel")
                        .remedy("use `stable`, or set spec.version"),
                ));
            }
        };
        if let Some(bad) = self.release(&version).and_then(|release| release.known_bad.as_ref()) {
            findings.push(
                Finding::warning(
                    "KnownBadVersion",
                    format!("{} {version}: {} ({})", self.addon, bad.reason, bad.evidence),
                )
                .remedy(format!("use {}", bad.instead)),
            );
        }
        Ok(Resolution { version, recommended, findings })
    }

    fn exact(&self, kubernetes: &Version, text: &str, findings: &mut Vec<Finding>) -> Result<Version, Box<Finding>> {
        let refuse = |code, message: String| {
            Box::new(
                Finding::error(code, message)
                    .field(".spec.version")
                    .remedy(format!("use one of {}", self.offered(kubernetes))),
            )
        };
        let version: Version = text.parse().map_err(|error| refuse("UnknownVersion", format!("{error}")))?;
        let release = if let Some(release) = self.release(&version) {
            release
        } else {
            let newest = self.newest_patch_before(&version).ok_or_else(|| {
                refuse("UnknownVersion", format!("there is no {} {version} in the catalogue", self.addon))
            })?;
            findings.push(Finding::warning(
                "NewerThanCatalog",
                format!("{} {version} is newer than the catalogue; treated as {}", self.addon, newest.version),
            ));
            newest
        };
        if kubernetes.is_in(&release.kubernetes) {
            Ok(version)
        } else {
            Err(refuse(
                "VersionNotForKubernetes",
                format!(
                    "{} {version} is for Kubernetes {}, and this cluster is {kubernetes}",
                    self.addon, release.kubernetes
                ),
            ))
        }
    }

    /// The newest known release of the same minor, where `version` is newer than it.
    fn newest_patch_before(&self, version: &Version) -> Option<&Release> {
        self.versions
            .iter()
            .rfind(|release| release.version.minor_line() == version.minor_line())
            .filter(|newest| newest.version < version.upstream())
    }

    /// The versions offered for a cluster, for people.
    fn offered(&self, kubernetes: &Version) -> String {
        let offered: Vec<_> = self
            .versions
            .iter()
            .filter(|release| release.known_bad.is_none() && kubernetes.is_in(&release.kubernetes))
            .map(|release| match self.recommended(kubernetes) {
                Some(best) if *best == release.version => format!("{best} (recommended)"),
                _ => release.version.to_string(),
            })
            .collect();
        offered.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
addon: dns
image: registry.example/dns
kubernetes:
  "1.30": [{recommended: 1.1.0}, {fromPatch: 5, recommended: 1.1.3}]
  "1.31": [{recommended: 1.2.0}]
versions:
  - {version: 1.0.0, kubernetes: "<1.30"}
  - {version: 1.1.0, kubernetes: ">=1.20"}
  - {version: 1.1.3, kubernetes: ">=1.20"}
  - version: 1.1.4
    kubernetes: ">=1.20"
    knownBad: {reason: loses answers, evidence: example/dns#1, instead: 1.2.0}
  - {version: 1.2.0, kubernetes: ">=1.20"}
"#;

    fn resolve(kubernetes: &str, wanted: Wanted<'_>) -> Result<Resolution, Box<Finding>> {
        Catalog::from_yaml(TEXT).unwrap().resolve(&kubernetes.parse().unwrap(), wanted)
    }

    fn recommended(kubernetes: &str) -> String {
        resolve(kubernetes, Wanted::Recommended).unwrap().version.to_string()
    }

    #[test]
    fn the_recommendation_follows_the_patch_release() {
        assert_eq!(recommended("1.30.4"), "1.1.0");
        assert_eq!(recommended("1.30.5"), "1.1.3");
        assert_eq!(recommended("v1.30.9-gke.1"), "1.1.3");
        assert_eq!(recommended("1.31.0"), "1.2.0");
    }

    #[test]
    fn a_newer_kubernetes_is_treated_as_the_newest_known() {
        assert_eq!(recommended("1.44.0"), "1.2.0");
        assert_eq!(resolve("1.29.9", Wanted::Recommended).unwrap_err().code, "NoVersion");
    }

    #[test]
    fn a_vendors_suffix_is_kept() {
        let found = resolve("1.30.0", Wanted::Exact("v1.1.3-eksbuild.8")).unwrap();
        assert_eq!(found.version.to_string(), "1.1.3-eksbuild.8");
        assert!(found.findings.is_empty());
    }

    #[test]
    fn a_newer_patch_passes_with_a_finding_and_a_newer_minor_does_not() {
        assert_eq!(resolve("1.30.0", Wanted::Exact("1.2.7")).unwrap().findings[0].code, "NewerThanCatalog");
        for unknown in ["1.3.0", "1.1.2", "latest"] {
            let finding = resolve("1.30.0", Wanted::Exact(unknown)).unwrap_err();
            assert_eq!(finding.code, "UnknownVersion");
            assert_eq!(
                finding.remedy.as_deref(),
                Some("use one of 1.1.0 (recommended), 1.1.3, 1.2.0"),
                "the remedy lists what is offered"
            );
        }
    }

    #[test]
    fn a_version_for_another_kubernetes_is_refused() {
        assert_eq!(resolve("1.30.0", Wanted::Exact("1.0.0")).unwrap_err().code, "VersionNotForKubernetes");
    }

    #[test]
    fn a_bad_version_is_allowed_and_said() {
        let found = resolve("1.30.0", Wanted::Exact("1.1.4")).unwrap();
        assert_eq!(found.findings[0].code, "KnownBadVersion");
        assert_eq!(found.findings[0].remedy.as_deref(), Some("use 1.2.0"));
    }

    #[test]
    fn channels() {
        assert_eq!(resolve("1.30.0", Wanted::Channel("stable")).unwrap().version.to_string(), "1.1.0");
        assert_eq!(resolve("1.30.0", Wanted::Channel("beta")).unwrap_err().code, "UnknownChannel");
    }

    #[test]
    fn a_catalogue_that_recommends_a_bad_version_is_refused() {
        let text = TEXT.replace("[{recommended: 1.2.0}]", "[{recommended: 1.1.4}]");
        assert!(Catalog::from_yaml(&text).unwrap_err().contains("1.1.4"));
    }
}
