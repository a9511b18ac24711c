//! `cargo xtask test`: every tier of tests that this machine allows, with a closing summary of what ran, how long it
//! took, and what did not run and why.
//!
//! Everything is compiled in one go, then each test binary is run by itself: so its tier decides when and how often. What
//! a tier cannot have (binaries of a control plane, say) makes it skipped with the reason, never failed and never silent.

mod api;
mod libtest;
mod report;
mod targets;

use std::{
    io::Write as _,
    process::ExitCode,
    time::{Duration, Instant},
};

use addon_testkit::assets::{Asset, DEFAULT_KUBERNETES};
use anyhow::Result;
use clap::{Args, ValueEnum};

use self::{
    libtest::Outcome,
    report::{Report, Row},
    targets::{Target, Targets},
};

/// Run the tests: every tier that this machine allows
///
/// pure: unit tests, documentation tests, and integration tests of crates that start no cluster. Needs Rust only.
///
/// api: integration tests of crates that depend on addon-testkit, once for each Kubernetes version, against a real
/// control plane on loopback. Its binaries come from KUBEBUILDER_ASSETS, or are built from Go modules first and kept. An
/// integration test of such a crate that starts no cluster may be declared pure in its Cargo.toml, by its name in the
/// list `pure-tests` of `[package.metadata.xtask]`.
///
/// A tier that the machine does not allow is skipped, and the summary says why; with CI=true that is a failure. The last
/// line says how many tests passed, failed and were skipped. Exit code: 0 all passed, 1 some failed, 2 they could not run
/// (they do not compile, for example).
///
/// Examples: `cargo xtask test --tier pure`, `cargo xtask test -- corefile` (tests with corefile in their name),
/// `cargo xtask test --tier api --kubernetes 1.34.4 -- --nocapture drift`.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Run also what takes long: tests that are marked as ignored (thousands of nodes, soaks, measurements)
    #[arg(long)]
    full: bool,
    /// Run only this tier; may be given several times
    #[arg(long, value_enum)]
    tier: Vec<Tier>,
    /// Kubernetes version that the api tier runs on; may be given several times
    #[arg(long, value_name = "VERSION", default_values = DEFAULT_KUBERNETES)]
    kubernetes: Vec<String>,
    /// Given to each test binary: a part of the names of the tests to run, or an option such as --nocapture
    #[arg(last = true)]
    filter: Vec<String>,
}

/// What tests need, in the order in which they run: cheap first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Tier {
    /// Nothing but Rust
    Pure,
    /// The binaries of a control plane
    Api,
}

/// What one run of a tier is about.
struct Session<'a> {
    targets: &'a Targets,
    /// What every test binary gets.
    filter: Vec<String>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    for version in &arguments.kubernetes {
        // Said before minutes are spent on compiling.
        Asset::parse("kube-apiserver", version)?;
    }
    let mut report = Report::default();
    let (targets, took) = timed(Targets::compile);
    let targets = targets?;
    report.compiled = took;
    let mut filter = arguments.filter.clone();
    if arguments.full {
        filter.push("--include-ignored".to_owned());
    }
    let session = Session { targets: &targets, filter };
    let wanted = |tier| arguments.tier.is_empty() || arguments.tier.contains(&tier);
    if wanted(Tier::Pure) {
        session.pure(&mut report)?;
    }
    if wanted(Tier::Api) {
        api::run(&session, &arguments.kubernetes, &mut report)?;
    }
    let skipping_fails = std::env::var("CI").is_ok_and(|ci| ci == "true");
    report.print(skipping_fails);
    Ok(if report.is_good(skipping_fails) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl Session<'_> {
    fn pure(&self, report: &mut Report) -> Result<()> {
        let mut row = Row::new("pure");
        for target in self.of(Tier::Pure)? {
            row.add(&target.label(), self.run(target, &[], "pure")?);
        }
        headline("documentation tests", "pure");
        let (outcome, took) = timed(|| libtest::run(&mut targets::documentation_tests(&self.filter)));
        row.add("documentation", (outcome?, took));
        report.rows.push(row);
        Ok(())
    }

    /// The test binaries of a tier that have something to run.
    fn of(&self, tier: Tier) -> Result<Vec<&Target>> {
        let mut chosen = Vec::new();
        for target in self.targets.iter().filter(|target| target.tier == tier) {
            if libtest::count(&mut target.command(&self.filter))? > 0 {
                chosen.push(target);
            }
        }
        Ok(chosen)
    }

    fn run(&self, target: &Target, environment: &[(&str, &str)], tier: &str) -> Result<(Outcome, Duration)> {
        headline(&target.label(), tier);
        let mut command = target.command(&self.filter);
        command.envs(environment.iter().copied());
        let (outcome, took) = timed(|| libtest::run(&mut command));
        Ok((outcome?, took))
    }
}

/// What comes now, between the outputs of test binaries.
fn headline(what: &str, tier: &str) {
    // A closed stdout shows when the tests print.
    let _ = writeln!(std::io::stdout(), "\n== {tier}: {what}");
}

fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    let result = work();
    (result, start.elapsed())
}
