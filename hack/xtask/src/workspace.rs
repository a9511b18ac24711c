//! The workspace's own folder and binaries.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, bail};

/// The newest Kubernetes minor that the tests run on.
pub(crate) const NEWEST_KUBERNETES: &str = "1.37.2";

/// The operators' binaries.
pub(crate) struct Operators {
    pub(crate) coredns: PathBuf,
}

/// The workspace's folder.
pub(crate) fn root() -> PathBuf {
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask.ancestors().nth(2).unwrap_or(xtask).to_owned()
}

/// Reads a file of the workspace.
pub(crate) fn read(path: &str) -> Result<String> {
    fs::read_to_string(root().join(path)).with_context(|| path.to_owned())
}

/// cargo, with the arguments, in the workspace.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(arguments).current_dir(root());
    forget_package(&mut cargo);
    cargo
}

/// Takes away what `cargo run` says about the package that this program belongs to. Some build scripts (that of `ring`)
/// ask to be run again when it changes: everything that needs TLS would be compiled anew, and once more by the next cargo.
pub(crate) fn forget_package(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_NAME"].iter().any(|prefix| text.starts_with(prefix)) {
            command.env_remove(&name);
        }
    }
}

/// Builds the operators, with cargo's own progress shown.
pub(crate) fn build_operators(release: bool) -> Result<Operators> {
    // All of the workspace for tests, so that dependencies are compiled once; the operator alone, with no features but
    // its own, where its size and memory are measured.
    let mut build = cargo(if release {
        &["build", "--release", "--package", "coredns-operator"]
    } else {
        &["build", "--workspace"]
    });
    let status = build.status().context("cargo cannot be run")?;
    if !status.success() {
        bail!("the operators cannot be built: cargo ended with {status}");
    }
    let profile = if release { "release" } else { "debug" };
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    Ok(Operators { coredns: target.join(profile).join("coredns-operator") })
}
