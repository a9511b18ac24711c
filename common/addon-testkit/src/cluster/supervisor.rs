//! Child processes that cannot outlive the test process, however it ends: by return, panic, interrupt or SIGKILL.
//!
//! Each component is started through `/bin/sh` in a process group of its own. A watcher in that group reads a pipe whose
//! only writer is the test process; at end of file it kills the whole group. The kernel closes the pipe in every case, so
//! no handler has to run. A second kind of supervisor removes the temp dir once all groups are gone.
//!
//! Nothing is ever killed by name, and by number only from inside the group itself: a number that was used again by
//! another process cannot be hit.

use std::{
    fs::{self, OpenOptions},
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, ExitStatus, Stdio},
    time::Duration,
};

use super::error::ClusterError;

/// `$1` is the pid file, the rest is the component's command line. The watcher keeps the group's number in use for as long
/// as it lives. `kill 0` means the caller's own group.
const COMPONENT: &str = r#"
echo $$ > "$1"; shift
exec 3<&0 </dev/null
( trap '' HUP INT TERM; while read -r line <&3; do :; done; kill -s KILL 0 ) &
exec 3<&-
exec "$@"
"#;

/// `$1` is the temp dir. Waits for the end of file, then for the groups (each is killed by its own watcher), then removes
/// the dir. The wait has an end: zombies that nobody collects keep a group alive.
const REAPER: &str = r#"
trap '' HUP INT TERM
while read -r line; do :; done
tries=0
for file in "$1"/*.pid; do
    while kill -s 0 -- "-$(cat "$file" 2>/dev/null)" 2>/dev/null && [ "$tries" -lt 200 ]; do
        tries=$((tries + 1)); sleep 0.05
    done
done
rm -rf -- "$1"
"#;

/// How many lines of a log an error carries.
const LOG_LINES: usize = 20;

/// A running component of the cluster.
pub(super) struct Component {
    name: &'static str,
    child: Child,
    lifeline: Option<ChildStdin>,
    log: PathBuf,
}

impl Component {
    /// Starts `program` with its output appended to `NAME.log` in `folder`.
    pub(super) fn start(
        name: &'static str,
        folder: &Path,
        program: &Path,
        arguments: &[String],
    ) -> Result<Self, ClusterError> {
        Self::start_with(name, folder, program, arguments, &[])
    }

    /// Starts `program` with environment variables besides those of the test process.
    pub(super) fn start_with(
        name: &'static str,
        folder: &Path,
        program: &Path,
        arguments: &[String],
        environment: &[(&str, &std::ffi::OsStr)],
    ) -> Result<Self, ClusterError> {
        let log = log_path(folder, name);
        let open = || OpenOptions::new().create(true).append(true).open(&log).map_err(ClusterError::io("open", &log));
        let mut child = Command::new("/bin/sh")
            .args(["-c", COMPONENT, name])
            .arg(folder.join(format!("{name}.pid")))
            .arg(program)
            .args(arguments)
            .envs(environment.iter().copied())
            .current_dir(folder)
            .stdin(Stdio::piped())
            .stdout(open()?)
            .stderr(open()?)
            .process_group(0)
            .spawn()
            .map_err(ClusterError::io("run", program))?;
        let lifeline = child.stdin.take();
        Ok(Self { name, child, lifeline, log })
    }

    /// An error if the component has ended.
    pub(super) fn check(&mut self) -> Result<(), ClusterError> {
        match self.child.try_wait().map_err(ClusterError::io("wait for", self.name))? {
            None => Ok(()),
            Some(status) => Err(self.exited(status)),
        }
    }

    /// The process id of the program itself.
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// How the program ended, once it has.
    pub(super) fn ended(&mut self) -> Result<Option<ExitStatus>, ClusterError> {
        self.child.try_wait().map_err(ClusterError::io("wait for", self.name))
    }

    fn exited(&self, status: ExitStatus) -> ClusterError {
        ClusterError::Exited { component: self.name, status: status.to_string(), log: tail(&self.log) }
    }

    /// Kills the component's group and returns once it has exited, so that its port is free.
    pub(super) async fn stop(mut self) -> Result<(), ClusterError> {
        drop(self.lifeline.take());
        while self.child.try_wait().map_err(ClusterError::io("wait for", self.name))?.is_none() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    }
}

impl Drop for Component {
    fn drop(&mut self) {
        drop(self.lifeline.take());
        // Collected, so that no zombie stays; nothing can be done about an error here.
        let _ = self.child.wait();
        // Its number may soon be another's, for whom the reaper shall not wait.
        let _ = fs::remove_file(self.log.with_extension("pid"));
    }
}

/// A temp dir that goes away with the test process, after every component of it.
pub(super) struct Folder {
    path: PathBuf,
    reaper: Child,
}

impl Folder {
    pub(super) fn create() -> Result<Self, ClusterError> {
        let temp = std::env::temp_dir();
        let path = tempfile::Builder::new()
            .prefix("addon-test-")
            .tempdir()
            .map_err(ClusterError::io("create a folder in", temp))?
            .keep();
        let reaper = Command::new("/bin/sh")
            .args(["-c", REAPER, "addon-test-reaper"])
            .arg(&path)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .map_err(|source| {
                let _ = fs::remove_dir_all(&path);
                ClusterError::Io { action: "run", path: "/bin/sh".into(), source }
            })?;
        Ok(Self { path, reaper })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(self.reaper.stdin.take());
        let _ = self.reaper.wait();
    }
}

pub(super) fn log_path(folder: &Path, component: &str) -> PathBuf {
    folder.join(format!("{component}.log"))
}

/// The last lines of a log, or why there are none.
pub(super) fn tail(log: &Path) -> String {
    match fs::read(log) {
        Ok(bytes) => {
            let text = String::from_utf8_lossy(&bytes);
            let lines: Vec<_> = text.lines().collect();
            lines[lines.len().saturating_sub(LOG_LINES)..].join("\n")
        }
        Err(error) => format!("(no log: {error})"),
    }
}
