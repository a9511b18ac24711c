//! Runs `go`, says on the way that it is still going on, and turns its failures into causes with a remedy.

use std::{
    ffi::OsString,
    io::{self, Read},
    path::Path,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use super::{Progress, error::AssetError};

/// A build of minutes without a word looks like a hang.
const HEARTBEAT: Duration = Duration::from_secs(10);

/// How many lines of output a message of failure keeps.
const KEPT_LINES: usize = 15;

/// `go`, on behalf of one asset.
pub(super) struct Go<'a> {
    pub(super) search_path: Option<&'a OsString>,
    pub(super) environment: Vec<(&'static str, OsString)>,
    /// The asset and its version, for messages.
    pub(super) label: String,
    /// `label`, with how many there are and are left.
    pub(super) position: String,
    pub(super) progress: &'a Progress,
}

/// What `go` printed.
pub(super) struct Output {
    pub(super) success: bool,
    pub(super) stdout: String,
    pub(super) stderr: String,
}

impl Go<'_> {
    /// Runs `go` to its end; that it fails is an error.
    pub(super) fn run(&self, folder: &Path, arguments: &[&str], doing: &str) -> Result<(), AssetError> {
        let output = self.output(folder, arguments, doing)?;
        if output.success {
            return Ok(());
        }
        Err(self.failed(folder, arguments, &format!("{}\n{}", output.stderr, output.stdout)))
    }

    /// Runs `go` to its end and gives what it printed, also if it failed.
    pub(super) fn output(&self, folder: &Path, arguments: &[&str], doing: &str) -> Result<Output, AssetError> {
        let mut command = Command::new("go");
        command.args(arguments).current_dir(folder).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // No workspace file around the cache folder may change what is built.
        command.env("GOWORK", "off");
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        if let Some(path) = self.search_path {
            command.env("PATH", path);
        }
        let mut child = command.spawn().map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => AssetError::GoMissing { what: self.label.clone() },
            _ => AssetError::Io { action: "run", path: "go".into(), source },
        })?;
        // Both pipes are drained while it runs: a full pipe would stop it.
        let stdout = drain(child.stdout.take());
        let stderr = drain(child.stderr.take());
        let start = Instant::now();
        let mut next = HEARTBEAT;
        let status = loop {
            if let Some(status) = child.try_wait().map_err(AssetError::io("wait for", "go"))? {
                break status;
            }
            if start.elapsed() >= next {
                (self.progress)(&format!("{}: still {doing}, {} s", self.position, start.elapsed().as_secs()));
                next += HEARTBEAT;
            }
            thread::sleep(Duration::from_millis(30));
        };
        Ok(Output { success: status.success(), stdout: join(stdout), stderr: join(stderr) })
    }

    /// Says why `go` failed, from what it printed.
    pub(super) fn failed(&self, folder: &Path, arguments: &[&str], output: &str) -> AssetError {
        let what = self.label.clone();
        if let Some((needed, found)) = too_old(output) {
            return AssetError::GoTooOld { what, needed, found };
        }
        if let Some(cause) = unreachable(output) {
            return AssetError::Unreachable { what, cause };
        }
        if let Some((module, cause)) = refused(output) {
            return AssetError::ModuleRefused { what, module, cause };
        }
        AssetError::GoFailed {
            what,
            command: format!("go {}", arguments.join(" ")),
            folder: folder.to_path_buf(),
            output: last_lines(output, KEPT_LINES),
        }
    }

    /// The error for a module that was not delivered, whatever Go said about it.
    pub(super) fn not_delivered(&self, module: &str, output: &str) -> AssetError {
        let what = self.label.clone();
        match unreachable(output) {
            Some(cause) => AssetError::Unreachable { what, cause },
            None => AssetError::ModuleRefused { what, module: module.to_owned(), cause: one_line(output) },
        }
    }
}

fn drain(pipe: Option<impl Read + Send + 'static>) -> thread::JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            // What was read before an error is still worth showing.
            let _ = pipe.read_to_end(&mut bytes);
        }
        bytes
    })
}

fn join(handle: thread::JoinHandle<Vec<u8>>) -> String {
    String::from_utf8_lossy(&handle.join().unwrap_or_default()).into_owned()
}

fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<_> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}

/// What Go said over several lines, fit for the middle of a sentence.
fn one_line(text: &str) -> String {
    last_lines(text, 3).split_whitespace().collect::<Vec<_>>().join(" ").trim_end_matches('.').to_owned()
}

/// `go: go.mod requires go >= 1.26.0 (running go 1.25.1; GOTOOLCHAIN=local)`
fn too_old(output: &str) -> Option<(String, String)> {
    let (_, rest) = output.split_once("requires go >= ")?;
    let (needed, rest) = rest.split_once(' ')?;
    let (_, rest) = rest.split_once("running go ")?;
    let found = rest.split([';', ')']).next()?;
    Some((needed.to_owned(), found.to_owned()))
}

fn unreachable(output: &str) -> Option<String> {
    const SIGNS: &[&str] =
        &["dial tcp", "no such host", "connection refused", "i/o timeout", "TLS handshake timeout", "502 Bad Gateway"];
    output.lines().find(|line| SIGNS.iter().any(|sign| line.contains(sign))).map(|line| line.trim().to_owned())
}

fn refused(output: &str) -> Option<(String, String)> {
    const SIGNS: &[&str] = &[
        "403 Forbidden",
        "404 Not Found",
        "410 Gone",
        "unknown revision",
        "no matching versions",
        "invalid version",
        "module lookup disabled",
        "checksum mismatch",
        "SECURITY ERROR",
    ];
    let line = output.lines().find(|line| SIGNS.iter().any(|sign| line.contains(sign)))?.trim();
    let module = line.split([' ', ':']).find(|word| word.contains('@') && word.contains('.'));
    Some((module.unwrap_or("a module").to_owned(), line.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_go_is_recognised_with_both_versions() {
        let output =
            "go: errors parsing go.mod:\ngo: go.mod requires go >= 1.26.0 (running go 1.25.1; GOTOOLCHAIN=local)\n";
        assert_eq!(too_old(output), Some(("1.26.0".to_owned(), "1.25.1".to_owned())));
        assert_eq!(too_old("go: something else"), None);
    }

    #[test]
    fn a_refused_module_is_named_with_what_was_said() {
        let output = "go: k8s.io/kubernetes@v1.99.0: reading https://example.test/x.info: 404 Not Found\n";
        let (module, cause) = refused(output).unwrap();
        assert_eq!(module, "k8s.io/kubernetes@v1.99.0");
        assert!(cause.contains("404 Not Found"));
    }

    #[test]
    fn an_unreachable_source_is_not_called_a_refusal() {
        let output = "go: a.b/c@v1.0.0: Get \"https://example.test/\": dial tcp: lookup example.test: no such host\n";
        assert!(unreachable(output).is_some());
    }
}
