//! Every command of README.md works as it stands there.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use addon_testkit::{
    TestCluster,
    assets::{Asset, Assets, progress_on_stderr},
    nodes::{NodeSpec, SimulatedNodes},
};
use anyhow::{Context as _, Result, ensure};

/// The test command: this very test is a part of it.
const TESTS: &str = "cargo xtask test";
/// The command that goes on until it is stopped.
const UP: &str = "cargo xtask up";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The lines of the README's shell blocks, block by block.
fn blocks() -> Result<Vec<Vec<String>>> {
    let text = fs::read_to_string(root().join("README.md"))?;
    let blocks = text.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
    Ok(blocks.map(|block| block.lines().map(str::to_owned).collect()).collect())
}

/// Runs lines in one shell, as a person would paste them.
fn paste(lines: &[String], variables: &[(&str, &Path)]) -> Result<()> {
    // What was put into the background ends with the shell that started it.
    let script = format!("set -eux\ntrap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n{}\n", lines.join("\n"));
    let mut shell = Command::new("bash");
    shell.args(["-c", &script]).current_dir(root()).stdin(Stdio::null());
    // cargo sets these for this test; a cargo that inherits them takes its dependencies for changed.
    for (name, _) in env::vars_os() {
        if ["CARGO_MANIFEST_", "CARGO_PKG_"].iter().any(|prefix| name.to_string_lossy().starts_with(prefix)) {
            shell.env_remove(name);
        }
    }
    for (name, value) in variables {
        shell.env(name, value);
    }
    let status = shell.status().context("bash cannot be run")?;
    ensure!(status.success(), "{status}:\n{script}");
    Ok(())
}

#[test]
fn the_first_command_sets_everything_up() -> Result<()> {
    let up = blocks()?.into_iter().flatten().find(|line| line == UP).context("the README has no `up`")?;
    paste(&[format!("{up} --once")], &[])
}

#[test]
fn the_second_command_is_what_ci_runs() -> Result<()> {
    ensure!(blocks()?.concat().iter().any(|line| line == TESTS));
    ensure!(fs::read_to_string(root().join(".ci/run"))?.lines().any(|line| line.ends_with(TESTS)));
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_commands_for_ones_own_cluster_work_on_a_cluster() -> Result<()> {
    let cluster = TestCluster::shared().await?;
    let _nodes = SimulatedNodes::start(cluster.client(), NodeSpec::count(2)).await?;
    let assets = Assets::from_env()?.with_progress(progress_on_stderr());
    let kubectl = assets.link_set(cluster.version(), &[Asset::parse("kubectl", cluster.version())?])?;
    let mut folders = vec![kubectl];
    folders.extend(env::split_paths(&env::var_os("PATH").unwrap_or_default()));
    let path = PathBuf::from(env::join_paths(folders)?);
    let lines: Vec<_> = blocks()?.into_iter().filter(|block| block[0] != UP && block[0] != TESTS).flatten().collect();
    ensure!(lines.len() >= 8, "{lines:?}");
    let kubeconfig = cluster.kubeconfig().to_owned();
    tokio::task::spawn_blocking(move || paste(&lines, &[("KUBECONFIG", &kubeconfig), ("PATH", &path)])).await?
}
