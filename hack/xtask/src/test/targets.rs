//! The test binaries of the workspace: compiled by one call of cargo, and sorted into tiers.
//!
//! One call for the whole workspace, because cargo unites the features of what it builds together: with a call for each
//! crate, dependencies would be compiled again and again.

use std::{
    collections::BTreeMap,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;

use super::Tier;
use crate::workspace;

/// Who depends on this crate starts clusters in integration tests.
const TESTKIT: &str = "addon-testkit";

/// Every test binary, in a stable order.
pub(super) struct Targets(Vec<Target>);

/// One test binary.
#[derive(Debug)]
pub(super) struct Target {
    package: String,
    /// `lib`, `bin`, `test` and so on, as cargo calls it.
    kind: String,
    name: String,
    executable: PathBuf,
    /// Where cargo would run it.
    folder: PathBuf,
    pub(super) tier: Tier,
}

impl Targets {
    /// Compiles all tests; cargo shows its progress and the compiler's messages on stderr.
    pub(super) fn compile() -> Result<Self> {
        let packages = packages()?;
        let messages = "--message-format=json-render-diagnostics";
        let mut cargo = workspace::cargo(&["test", "--workspace", "--no-run", messages]);
        let mut child = cargo.stdout(Stdio::piped()).spawn().context("cargo cannot be run")?;
        let mut targets = Vec::new();
        for line in BufReader::new(child.stdout.take().context("cargo's stdout is a pipe")?).lines() {
            let line = line.context("cargo's messages cannot be read")?;
            // Messages of other kinds lack the fields.
            let Ok(built) = serde_json::from_str::<Built>(&line) else { continue };
            let package = packages.get(&built.manifest_path).filter(|_| built.profile.test);
            targets.extend(package.map(|package| package.target(built)));
        }
        let status = child.wait().context("cargo cannot be waited for")?;
        if !status.success() {
            bail!("the tests do not compile: `cargo test --workspace --no-run` ended with {status}");
        }
        targets.sort_by(|a, b| (&a.package, &a.kind, &a.name).cmp(&(&b.package, &b.kind, &b.name)));
        Ok(Self(targets))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Target> {
        self.0.iter()
    }
}

impl Target {
    /// For people: `addon-core (lib)`, or `corefile tests/parse`.
    pub(super) fn label(&self) -> String {
        match self.kind.as_str() {
            "test" => format!("{} tests/{}", self.package, self.name),
            kind => format!("{} ({kind})", self.package),
        }
    }

    /// As cargo would run it, but not told about its package: a test may itself call cargo.
    pub(super) fn command(&self, arguments: &[String]) -> Command {
        let mut command = Command::new(&self.executable);
        command.args(arguments).current_dir(&self.folder);
        workspace::forget_package(&mut command);
        command
    }
}

/// The documentation tests of the workspace, which only cargo can run.
pub(super) fn documentation_tests(arguments: &[String]) -> Command {
    let mut cargo = workspace::cargo(&["test", "--quiet", "--workspace", "--doc", "--"]);
    cargo.args(arguments);
    cargo
}

/// The packages of the workspace by the path of their manifest.
fn packages() -> Result<BTreeMap<PathBuf, Package>> {
    let output = workspace::cargo(&["metadata", "--no-deps", "--format-version", "1"])
        .stderr(Stdio::inherit())
        .output()
        .context("cargo cannot be run")?;
    if !output.status.success() {
        bail!("the workspace cannot be read: `cargo metadata` ended with {}", output.status);
    }
    let workspace: Metadata = serde_json::from_slice(&output.stdout).context("`cargo metadata` is not understood")?;
    Ok(workspace.packages.into_iter().map(|package| (package.manifest_path.clone(), package)).collect())
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    manifest_path: PathBuf,
    dependencies: Vec<Dependency>,
    #[serde(default)]
    metadata: Option<PackageMetadata>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
}

#[derive(Deserialize)]
struct PackageMetadata {
    #[serde(default)]
    xtask: Declared,
}

/// `[package.metadata.xtask]`.
#[derive(Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Declared {
    #[serde(default)]
    pure_tests: Vec<String>,
}

impl Package {
    fn target(&self, built: Built) -> Target {
        let Built { executable, target: CargoTarget { kind, name }, .. } = built;
        let kind = kind.into_iter().next().unwrap_or_default();
        let tier = self.tier(&kind, &name);
        let folder = self.manifest_path.parent().unwrap_or(Path::new(".")).to_owned();
        Target { package: self.name.clone(), kind, name, executable, folder, tier }
    }

    /// A test in the wrong tier of the two possible ones costs time; it is never left out.
    fn tier(&self, kind: &str, name: &str) -> Tier {
        let has_clusters =
            self.name == TESTKIT || self.dependencies.iter().any(|dependency| dependency.name == TESTKIT);
        let declared_pure =
            self.metadata.as_ref().is_some_and(|metadata| metadata.xtask.pure_tests.iter().any(|pure| pure == name));
        if kind == "test" && has_clusters && !declared_pure { Tier::Api } else { Tier::Pure }
    }
}

/// cargo's message about something that can be run.
#[derive(Deserialize)]
struct Built {
    manifest_path: PathBuf,
    target: CargoTarget,
    profile: CargoProfile,
    executable: PathBuf,
}

#[derive(Deserialize)]
struct CargoTarget {
    kind: Vec<String>,
    name: String,
}

#[derive(Deserialize)]
struct CargoProfile {
    test: bool,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn package(name: &str, dependencies: &[&str], pure: &[&str]) -> Package {
        let dependencies: Vec<_> = dependencies.iter().map(|name| json!({ "name": name, "req": "*" })).collect();
        let metadata = json!({ "xtask": { "pure-tests": pure } });
        let mut package = json!({ "name": name, "manifest_path": "/w/Cargo.toml", "metadata": metadata });
        package["dependencies"] = dependencies.into();
        serde_json::from_value(package).unwrap()
    }

    #[test]
    fn integration_tests_of_crates_with_clusters_are_of_the_api_tier() {
        assert_eq!(package(TESTKIT, &[], &[]).tier("test", "cluster"), Tier::Api);
        assert_eq!(package("an-operator", &["kube", TESTKIT], &[]).tier("test", "install"), Tier::Api);
        assert_eq!(package("corefile", &["proptest"], &[]).tier("test", "parse"), Tier::Pure);
    }

    #[test]
    fn unit_tests_and_declared_tests_are_pure() {
        let operator = package("an-operator", &[TESTKIT], &["render"]);
        assert_eq!(operator.tier("lib", "render"), Tier::Pure);
        assert_eq!(operator.tier("bin", "an-operator"), Tier::Pure);
        assert_eq!(operator.tier("test", "render"), Tier::Pure);
        assert_eq!(operator.tier("test", "rendering"), Tier::Api);
    }

    #[test]
    fn a_package_without_metadata_is_understood() {
        let text = r#"{"name": "a", "manifest_path": "/a/Cargo.toml", "dependencies": [], "metadata": null}"#;
        assert_eq!(serde_json::from_str::<Package>(text).unwrap().tier("lib", "a"), Tier::Pure);
    }
}
