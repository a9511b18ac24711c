//! Runs a test binary: its output passes through as it comes, and is counted on the way.
//!
//! libtest has no stable machine-readable output; its closing lines have been the same for ten years and are what is read.

use std::{
    io::{Read as _, Write},
    process::{Command, ExitStatus, Stdio},
};

use anyhow::{Context as _, Result, bail};

/// What came of the tests of one binary.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Outcome {
    pub(super) passed: usize,
    pub(super) failed: usize,
    pub(super) ignored: usize,
    /// The names of those that failed.
    pub(super) failures: Vec<String>,
}

/// Counts while output passes through.
#[derive(Default)]
struct Counter {
    outcome: Outcome,
    /// Seen since the last closing line: passed, failed, ignored. What counts if none comes.
    open: Option<[usize; 3]>,
}

/// Runs it, shows its output, and counts. That tests fail is an outcome, not an error.
pub(super) fn run(command: &mut Command) -> Result<Outcome> {
    run_into(&mut std::io::stdout(), command)
}

fn run_into(output: &mut impl Write, command: &mut Command) -> Result<Outcome> {
    let program = command.get_program().display().to_string();
    let mut child = command.stdout(Stdio::piped()).spawn().with_context(|| format!("{program} cannot be run"))?;
    let mut pipe = child.stdout.take().context("the test's stdout is a pipe")?;
    let mut counter = Counter::default();
    let (mut chunk, mut line) = (vec![0; 8192], Vec::new());
    loop {
        let size = pipe.read(&mut chunk).with_context(|| format!("the output of {program} cannot be read"))?;
        if size == 0 {
            break;
        }
        // Not line by line: with one thread, libtest says which test runs before the line is complete.
        output.write_all(&chunk[..size]).and_then(|()| output.flush()).context("stdout cannot be written to")?;
        for part in chunk[..size].split_inclusive(|byte| *byte == b'\n') {
            line.extend_from_slice(part);
            if line.ends_with(b"\n") {
                counter.read(String::from_utf8_lossy(&line).trim_end());
                line.clear();
            }
        }
    }
    let status = child.wait().with_context(|| format!("{program} cannot be waited for"))?;
    Ok(counter.end(status))
}

/// How many tests it would run or skip as ignored.
pub(super) fn count(command: &mut Command) -> Result<usize> {
    let program = command.get_program().display().to_string();
    let output = command.args(["--list", "--format", "terse"]).output();
    let output = output.with_context(|| format!("{program} cannot be run"))?;
    if !output.status.success() {
        // Such as an unknown option after `--`.
        bail!("{program} does not list its tests: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).lines().filter(|line| line.ends_with(": test")).count())
}

impl Outcome {
    /// Adds what came of another binary.
    pub(super) fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.ignored += other.ignored;
        self.failures.extend(other.failures);
    }
}

impl Counter {
    fn read(&mut self, line: &str) {
        if let Some(counts) = line.strip_prefix("test result: ") {
            self.open = None;
            self.outcome.passed += number_before(counts, " passed");
            self.outcome.failed += number_before(counts, " failed");
            self.outcome.ignored += number_before(counts, " ignored");
        } else if line.starts_with("running ") && (line.ends_with(" tests") || line.ends_with(" test")) {
            self.open = Some([0; 3]);
        } else if let Some((name, result)) = line.strip_prefix("test ").and_then(|rest| rest.rsplit_once(" ... ")) {
            let [passed, failed, ignored] = self.open.get_or_insert_default();
            match result {
                "ok" => *passed += 1,
                "FAILED" => {
                    *failed += 1;
                    self.outcome.failures.push(name.to_owned());
                }
                result if result.starts_with("ignored") => *ignored += 1,
                _ => {}
            }
        }
    }

    /// A binary that crashed has no closing line: what it was doing counts as one failure.
    fn end(self, status: ExitStatus) -> Outcome {
        let Self { mut outcome, open } = self;
        if let Some([passed, failed, ignored]) = open {
            outcome.passed += passed;
            outcome.failed += failed;
            outcome.ignored += ignored;
        }
        if !status.success() && (open.is_some() || outcome.failed == 0) {
            outcome.failed += 1;
            outcome.failures.push(format!("(ended with {status})"));
        }
        outcome
    }
}

/// `3` from `ok. 3 passed; 0 failed` and ` passed`.
fn number_before(text: &str, word: &str) -> usize {
    let number = text.split_once(word).and_then(|(before, _)| before.rsplit(' ').next());
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Outcome {
        let mut shown = Vec::new();
        let outcome = run_into(&mut shown, Command::new("/bin/sh").args(["-c", script])).unwrap();
        assert!(shown.starts_with(b"running 3 tests\n"), "the output passes through");
        outcome
    }

    #[test]
    fn results_of_one_output_add_up_and_failures_are_named() {
        let outcome = shell(
            "echo 'running 3 tests'; echo 'test a::b ... ok'; echo 'test a::c ... FAILED'
             echo 'test result: FAILED. 1 passed; 1 failed; 1 ignored; 0 measured; 2 filtered out; finished in 0.01s'
             echo 'test result: ok. 12 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out'; exit 101",
        );
        assert_eq!((outcome.passed, outcome.failed, outcome.ignored), (13, 1, 1));
        assert_eq!(outcome.failures, ["a::c"]);
    }

    #[test]
    fn a_test_binary_that_crashes_is_a_failure_though_it_counted_none() {
        let outcome = shell(
            "echo 'running 3 tests'; echo 'test a ... ok'; echo 'test b ... ignored, slow'
             echo 'test c has been running for over 60 seconds'; kill -s KILL $$",
        );
        assert_eq!((outcome.passed, outcome.failed, outcome.ignored), (1, 1, 1));
        assert!(outcome.failures[0].contains("signal"), "{outcome:?}");
    }

    #[test]
    fn only_tests_are_counted_in_a_list() {
        let list = "echo 'a::b: test'; echo 'c: test'; echo 'd: benchmark'";
        assert_eq!(count(Command::new("/bin/sh").args(["-c", list])).unwrap(), 2);
        let error = count(Command::new("/bin/sh").args(["-c", "echo 'no such option' >&2; exit 101"])).unwrap_err();
        assert!(error.to_string().contains("no such option"), "{error}");
    }
}
