//! The `api` tier: integration tests against a real control plane, once for each Kubernetes version.

use std::{path::PathBuf, process::Command};

use addon_testkit::assets::{Asset, AssetError, Assets};
use anyhow::{Context as _, Result};

use super::{
    Session, Tier, libtest,
    report::{Report, Row, Skipped},
    timed,
};

/// Chooses the Kubernetes version in addon-testkit.
const VERSION_VARIABLE: &str = "ADDON_TEST_KUBERNETES";

pub(super) fn run(session: &Session<'_>, versions: &[String], report: &mut Report) -> Result<()> {
    let targets = session.of(Tier::Api)?;
    if targets.is_empty() {
        return Ok(()); // the filter leaves none, so nothing has to be built for them
    }
    let assets = Assets::from_env()?;
    let versions = ready_version()?.map_or_else(|| versions.to_vec(), |version| vec![version]);
    // All of them first, with progress: a test that needs another version would build it in silence.
    let mut ready = Vec::new();
    for version in versions {
        let name = format!("api, Kubernetes {version}");
        let (there, took) = timed(|| Asset::control_plane(&version).and_then(|wanted| assets.ensure(&wanted)));
        report.assets += took;
        match there {
            Ok(_) => ready.push((name, version)),
            Err(error) if is_limit(&error) => {
                let mut tests = 0;
                for target in &targets {
                    tests += libtest::count(&mut target.command(&session.filter))?;
                }
                report.skipped.push(Skipped { tier: name, tests, reason: error.to_string() });
            }
            Err(error) => return Err(error).with_context(|| format!("the binaries of Kubernetes {version}")),
        }
    }
    for (name, version) in ready {
        let mut row = Row::new(&name);
        for target in &targets {
            row.add(&target.label(), session.run(target, &[(VERSION_VARIABLE, &version)], &name)?);
        }
        report.rows.push(row);
    }
    Ok(())
}

/// The version of a folder of ready binaries, which cannot be chosen. An incomplete folder is reported by whoever needs
/// what it lacks.
fn ready_version() -> Result<Option<String>> {
    let Some(folder) = std::env::var_os("KUBEBUILDER_ASSETS").filter(|folder| !folder.is_empty()) else {
        return Ok(None);
    };
    let program = PathBuf::from(folder).join("kube-apiserver");
    if !program.is_file() {
        return Ok(None);
    }
    let output = Command::new(&program).arg("--version").output().with_context(|| program.display().to_string())?;
    let text = String::from_utf8_lossy(&output.stdout);
    // `Kubernetes v1.34.4`, perhaps with a vendor's suffix
    let version = text.trim().rsplit(' ').next().unwrap_or_default().trim_start_matches('v');
    let version = version.split(['-', '+']).next().unwrap_or_default();
    Ok(Some(version.to_owned()).filter(|version| !version.is_empty()))
}

/// Whether it is the machine or its network that does not allow it, and nothing of ours.
fn is_limit(error: &AssetError) -> bool {
    matches!(
        error,
        AssetError::GoMissing { .. }
            | AssetError::GoTooOld { .. }
            | AssetError::ModuleRefused { .. }
            | AssetError::Unreachable { .. }
            | AssetError::NotInFolder { .. }
    )
}
