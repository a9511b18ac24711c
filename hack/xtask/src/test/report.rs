//! What is said at the end: a line for each tier, what was skipped and why, what failed, and the numbers.

use std::{fmt, io::Write as _, time::Duration};

use super::libtest::Outcome;

/// Everything that ran and did not.
#[derive(Default)]
pub(super) struct Report {
    pub(super) compiled: Duration,
    pub(super) assets: Duration,
    pub(super) rows: Vec<Row>,
    pub(super) skipped: Vec<Skipped>,
}

/// One run of a tier.
pub(super) struct Row {
    name: String,
    outcome: Outcome,
    pub(super) time: Duration,
}

/// A tier that this machine does not allow.
pub(super) struct Skipped {
    pub(super) tier: String,
    pub(super) tests: usize,
    pub(super) reason: String,
}

impl Row {
    pub(super) fn new(name: &str) -> Self {
        Self { name: name.to_owned(), outcome: Outcome::default(), time: Duration::ZERO }
    }

    /// Adds what came of one test binary.
    pub(super) fn add(&mut self, label: &str, (outcome, took): (Outcome, Duration)) {
        let failures = outcome.failures.iter().map(|name| format!("{label}: {name}")).collect();
        self.outcome.add(Outcome { failures, ..outcome });
        self.time += took;
    }
}

impl Report {
    /// Whether nothing failed.
    pub(super) fn is_good(&self, skipping_fails: bool) -> bool {
        (self.skipped.is_empty() || !skipping_fails) && self.rows.iter().all(|row| row.outcome.failed == 0)
    }

    pub(super) fn print(&self, skipping_fails: bool) {
        let mut text = self.to_string();
        if skipping_fails && !self.skipped.is_empty() {
            text += "FAILED: with CI=true a tier that is skipped is a failure\n";
        }
        let sum = |count: fn(&Outcome) -> usize| self.rows.iter().map(|row| count(&row.outcome)).sum::<usize>();
        let skipped = sum(|it| it.ignored) + self.skipped.iter().map(|tier| tier.tests).sum::<usize>();
        // The last line, alone and plain: CI reads it.
        text += &format!("{} passed, {} failed, {skipped} skipped\n", sum(|it| it.passed), sum(|it| it.failed));
        // A closed stdout has nobody to be told.
        let _ = std::io::stdout().write_all(text.as_bytes());
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.rows.iter().map(|row| row.name.len()).max().unwrap_or(0).max("compile".len());
        writeln!(f, "\n{:width$}  tests  passed  failed  skipped      time", "tier")?;
        let mut step = |name: &str, time: Duration| {
            let seconds = time.as_secs_f64();
            writeln!(f, "{name:width$}  {:>5}  {:>6}  {:>6}  {:>7}  {seconds:>6.1} s", "", "", "", "")
        };
        step("compile", self.compiled)?;
        if self.assets.as_secs() > 0 {
            step("assets", self.assets)?;
        }
        for Row { name, outcome: Outcome { passed, failed, ignored, .. }, time } in &self.rows {
            let (tests, seconds) = (passed + failed + ignored, time.as_secs_f64());
            writeln!(f, "{name:width$}  {tests:>5}  {passed:>6}  {failed:>6}  {ignored:>7}  {seconds:>6.1} s")?;
        }
        for Skipped { tier, tests, reason } in &self.skipped {
            writeln!(f, "skipped: {tier} ({tests} tests): {reason}")?;
        }
        let ignored: usize = self.rows.iter().map(|row| row.outcome.ignored).sum();
        if ignored > 0 {
            writeln!(f, "skipped: tests that are marked as ignored ({ignored}): --full runs them")?;
        }
        for row in &self.rows {
            for failure in &row.outcome.failures {
                writeln!(f, "FAILED: {}: {failure}", row.name)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, passed: usize, failures: &[&str]) -> Row {
        let mut row = Row::new(name);
        let failures: Vec<_> = failures.iter().map(|&name| name.to_owned()).collect();
        let outcome = Outcome { passed, failed: failures.len(), ignored: 1, failures };
        row.add("a-crate tests/b", (outcome, Duration::from_millis(1_250)));
        row
    }

    #[test]
    fn the_report_names_what_failed_and_what_was_skipped() {
        let skipped =
            Skipped { tier: "api, Kubernetes 1.34.4".into(), tests: 7, reason: "there is no `go` in PATH".into() };
        let report = Report {
            compiled: Duration::from_secs(3),
            assets: Duration::ZERO,
            rows: vec![row("pure", 12, &[]), row("api, Kubernetes 1.37.2", 3, &["it_works"])],
            skipped: vec![skipped],
        };
        let expected = "
tier                    tests  passed  failed  skipped      time
compile                                                    3.0 s
pure                       13      12       0        1     1.2 s
api, Kubernetes 1.37.2      5       3       1        1     1.2 s
skipped: api, Kubernetes 1.34.4 (7 tests): there is no `go` in PATH
skipped: tests that are marked as ignored (2): --full runs them
FAILED: api, Kubernetes 1.37.2: a-crate tests/b: it_works
";
        assert_eq!(report.to_string(), expected);
    }

    #[test]
    fn a_skipped_tier_fails_only_where_skipping_does() {
        let skipped = || Skipped { tier: "api".into(), tests: 7, reason: "no `go`".into() };
        let report = Report { rows: vec![row("pure", 1, &[])], skipped: vec![skipped()], ..Report::default() };
        assert!(report.is_good(false));
        assert!(!report.is_good(true));
        let report = Report { rows: vec![row("pure", 1, &["a"])], ..Report::default() };
        assert!(!report.is_good(false));
    }
}
