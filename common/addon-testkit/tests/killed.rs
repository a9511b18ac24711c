//! However the test process ends, no process and no folder of its cluster is left.

#![allow(clippy::unwrap_used)] // in helpers of tests a panic is the message

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Stdio},
    time::{Duration, Instant},
};

use addon_testkit::TestCluster;

/// Set for a copy of this test binary that holds a cluster; says how it shall end.
const HELPER: &str = "ADDON_TESTKIT_HOLD_CLUSTER";

/// Not an expectation: only the end of waiting for something that never happens.
const PATIENCE: Duration = Duration::from_mins(1);

/// The test process that gets killed: it starts a cluster, says where it is, and waits.
#[tokio::test]
async fn helper_that_holds_a_cluster() {
    let Ok(end) = std::env::var(HELPER) else { return };
    let cluster = TestCluster::start().await.unwrap();
    println!("\nfolder={}", cluster.folder().display());
    assert!(end != "panic", "a test that fails while its cluster runs");
    std::future::pending::<()>().await;
}

struct Helper {
    child: Child,
    /// Kept open: a closed pipe would end the helper another way.
    _output: BufReader<ChildStdout>,
    folder: PathBuf,
    pids: Vec<u32>,
}

fn hold_a_cluster(end: &str) -> Helper {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "helper_that_holds_a_cluster", "--nocapture"])
        .env(HELPER, end)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    let folder = loop {
        line.clear();
        assert_ne!(output.read_line(&mut line).unwrap(), 0, "the helper ended before it had a cluster");
        if let Some(folder) = line.trim().strip_prefix("folder=") {
            break PathBuf::from(folder);
        }
    };
    let pids = pids_in(&folder);
    Helper { child, _output: output, folder, pids }
}

fn pids_in(folder: &Path) -> Vec<u32> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let files = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let files = files.filter(|path| path.extension().is_some_and(|extension| extension == "pid"));
    files.filter_map(|path| fs::read_to_string(path).ok()?.trim().parse().ok()).collect()
}

/// Processes of the group that have not ended. A zombie has ended.
fn alive_in_group(group: u32) -> Vec<String> {
    let processes = fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    processes
        .filter_map(|pid| {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            // pid (name) state parent group
            let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
            let (state, _parent, its_group) = (fields.next()?, fields.next()?, fields.next()?);
            (its_group == group.to_string() && state != "Z").then_some(stat)
        })
        .collect()
}

fn assert_nothing_is_left(helper: &Helper) {
    let start = Instant::now();
    loop {
        let alive: Vec<_> = helper.pids.iter().flat_map(|pid| alive_in_group(*pid)).collect();
        if alive.is_empty() && !helper.folder.exists() {
            return;
        }
        let exists = helper.folder.exists();
        assert!(start.elapsed() < PATIENCE, "left: {alive:?}, folder {}: {exists}", helper.folder.display());
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_test_process_that_is_killed_leaves_no_process_and_no_folder() {
    let mut helper = hold_a_cluster("wait");
    assert_eq!(helper.pids.len(), 4, "etcd and three Kubernetes components");
    assert!(helper.pids.iter().all(|pid| !alive_in_group(*pid).is_empty()));
    helper.child.kill().unwrap();
    helper.child.wait().unwrap();
    assert_nothing_is_left(&helper);
}

#[test]
fn a_test_process_that_is_interrupted_leaves_no_process_and_no_folder() {
    let mut helper = hold_a_cluster("wait");
    let pid = helper.child.id().to_string();
    assert!(Command::new("/bin/sh").args(["-c", &format!("kill -s TERM {pid}")]).status().unwrap().success());
    helper.child.wait().unwrap();
    assert_nothing_is_left(&helper);
}

#[test]
fn a_test_that_panics_leaves_no_process_and_no_folder() {
    let mut helper = hold_a_cluster("panic");
    assert!(!helper.child.wait().unwrap().success());
    assert_nothing_is_left(&helper);
}
