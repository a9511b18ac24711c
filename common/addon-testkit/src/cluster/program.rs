//! A program under test, e.g. an operator, that runs beside the control plane and ends with it.

use std::{
    ffi::OsStr,
    fs,
    path::Path,
    process::{Command, ExitStatus},
    time::Duration,
};

use super::{ClusterError, TestCluster, supervisor::Component};

/// A running program. Dropping it kills it.
pub struct Program {
    name: &'static str,
    component: Component,
}

impl TestCluster {
    /// Starts a program against this cluster: `kubeconfig` becomes its `KUBECONFIG`. Its output is [`log`](Self::log) of
    /// its name, over all its starts.
    pub fn run(
        &self,
        name: &'static str,
        program: &Path,
        arguments: &[&str],
        kubeconfig: &Path,
    ) -> Result<Program, ClusterError> {
        let arguments: Vec<String> = arguments.iter().map(|&argument| argument.to_owned()).collect();
        let environment = [("KUBECONFIG", kubeconfig.as_os_str()), ("NO_COLOR", OsStr::new("1"))];
        let component = Component::start_with(name, self.folder(), program, &arguments, &environment)?;
        Ok(Program { name, component })
    }
}

impl Program {
    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.component.pid()
    }

    /// Ends it by SIGKILL and returns once it is gone.
    pub async fn kill(self) -> Result<(), ClusterError> {
        self.component.stop().await
    }

    /// Asks it to end by SIGTERM and waits until it has.
    pub async fn terminate(mut self) -> Result<ExitStatus, ClusterError> {
        // The program was not waited for yet, so its number is still its own.
        Command::new("kill")
            .args(["-s", "TERM", &self.pid().to_string()])
            .status()
            .map_err(ClusterError::io("run", "kill"))?;
        loop {
            if let Some(status) = self.component.ended()? {
                return Ok(status);
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// An error, with the end of its log, if it has ended.
    pub fn check(&mut self) -> Result<(), ClusterError> {
        self.component.check()
    }

    /// Resident memory now and at its peak, in KiB, as Linux counts it; `None` elsewhere.
    pub fn memory(&self) -> Option<(u64, u64)> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).ok()?;
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            line.trim_start_matches(':').trim().trim_end_matches(" kB").parse().ok()
        };
        Some((field("VmRSS")?, field("VmHWM")?))
    }
}

impl std::fmt::Debug for Program {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Program").field("name", &self.name).field("pid", &self.pid()).finish_non_exhaustive()
    }
}
