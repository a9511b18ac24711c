//! `cargo xtask bench idle`: what an operator costs that installs one add-on and then has nothing to do.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use addon_testkit::{
    Program, TestCluster,
    assets::{Assets, DEFAULT_KUBERNETES},
    audit::{By, Request},
    nodes::{NodeSpec, SimulatedNodes},
};
use anyhow::{Context as _, Result, bail};
use k8s_openapi::jiff::Timestamp;
use serde::Serialize;
use tokio::signal::unix::{SignalKind, signal};

use super::{
    Format,
    measure::{Subject, applied, is_creation, median, milliseconds, now},
    table,
};
use crate::workspace;

/// Nodes for the one figure that needs running pods.
const NODES: usize = 3;

/// Measure what an operator costs: its start, its first resource, and then having nothing to do
///
/// Builds the release binary, starts a control plane on loopback and runs the operator with the rights that it ships
/// with. Times come from the API server's audit log and are the median of several runs; memory, writes and requests come
/// from one idle phase with the add-on Available on simulated nodes. Measure on a machine that does nothing else.
///
/// Figures go to stdout, progress to stderr.
#[derive(clap::Args)]
pub(super) struct Arguments {
    /// How figures are printed
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    output: Format,
    /// How long the idle phase lasts
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..))]
    seconds: u32,
    /// How often each time is measured
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// Kubernetes version; the default is the one that the Go operators were measured on
    #[arg(long, value_name = "VERSION", default_value = DEFAULT_KUBERNETES[0])]
    kubernetes: String,
    /// Show the requests behind the times: when each arrived, and how long its answer took
    #[arg(long)]
    trace: bool,
}

/// One line of output. Times are medians.
#[derive(Debug, Serialize)]
pub(super) struct Figures {
    pub(super) operator: &'static str,
    start_ms: f64,
    applied_ms: f64,
    available_ms: f64,
    drift_ms: f64,
    requests: f64,
    /// None where there is no /proc.
    rss_mib: Option<f64>,
    peak_rss_mib: Option<f64>,
    binary_mib: f64,
    writes_60s: f64,
    requests_per_min: f64,
}

pub(super) fn run(arguments: &Arguments) -> Result<()> {
    let built = workspace::build_operators(true)?;
    let subjects = [Subject {
        operator: "coredns",
        program: "coredns-operator",
        definition: "crds/coredns.addons.x-k8s.io.yaml",
        folder: "operators/coredns",
        sample: "samples/coredns.yaml",
        deployment: "coredns",
    }];
    let binaries = [built.coredns];
    tokio::runtime::Runtime::new()?.block_on(async {
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        tokio::select! {
            result = measure_all(arguments, &subjects, &binaries) => result,
            _ = interrupt.recv() => bail!("stopped"),
            _ = terminate.recv() => bail!("stopped"),
        }
    })
}

async fn measure_all(arguments: &Arguments, subjects: &[Subject], binaries: &[PathBuf]) -> Result<()> {
    let mut all = Vec::new();
    for (subject, binary) in subjects.iter().zip(binaries) {
        say(&format!("{}: starting Kubernetes {}", subject.operator, arguments.kubernetes));
        let builder = TestCluster::builder().kubernetes(&arguments.kubernetes).assets(Assets::from_env()?);
        let cluster = builder.start().await?;
        let figures = Bench { cluster: &cluster, subject, binary, arguments }.measure().await?;
        if arguments.output == Format::Json {
            println!("{}", serde_json::to_string(&figures)?);
        }
        all.push(figures);
    }
    if arguments.output == Format::Text {
        print!("{}", table::render(&all)?);
    }
    Ok(())
}

/// One operator on one cluster.
struct Bench<'a> {
    cluster: &'a TestCluster,
    subject: &'a Subject,
    binary: &'a PathBuf,
    arguments: &'a Arguments,
}

/// What the idle phase shows.
struct Idle {
    memory: Option<(u64, u64)>,
    writes: usize,
    requests: usize,
}

impl Bench<'_> {
    async fn measure(&self) -> Result<Figures> {
        let runs = self.arguments.runs;
        let (mut started, mut requests, mut applied_after) = (Vec::new(), Vec::new(), Vec::new());
        for run in 1..=runs {
            self.say(&format!("run {run} of {runs}: first resource of an idle operator"));
            applied_after.push(self.first_resource().await?);
            self.say(&format!("run {run} of {runs}: start"));
            let (time, count) = self.start().await?;
            started.push(time);
            requests.push(count);
        }
        let spec = NodeSpec::count(NODES).kubelet_version(self.cluster.version());
        let _nodes = SimulatedNodes::start(self.cluster.client(), spec).await?;
        let mut available = Vec::new();
        for run in 1..runs {
            self.say(&format!("run {run} of {runs}: until Available, on {NODES} simulated nodes"));
            let (operator, time) = self.available().await?;
            available.push(time);
            operator.kill().await?; // or it would do the next one's work
        }
        self.say(&format!("run {runs} of {runs}: until Available, on {NODES} simulated nodes"));
        let (mut operator, time) = self.available().await?;
        available.push(time);
        let idle = self.idle(&mut operator).await?;
        self.say("foreign changes");
        let mut repaired = Vec::new();
        for run in 0..runs {
            repaired.push(self.subject.drift(self.cluster, &mut operator, run).await?);
        }
        operator.kill().await?;
        let per_minute = |count: usize| round(as_f64(count) * 60.0 / f64::from(self.arguments.seconds));
        Ok(Figures {
            operator: self.subject.operator,
            start_ms: median(started),
            applied_ms: median(applied_after),
            available_ms: median(available),
            drift_ms: median(repaired),
            requests: median(requests),
            rss_mib: idle.memory.map(|(now, _)| mebibytes(now * 1024)),
            peak_rss_mib: idle.memory.map(|(_, peak)| mebibytes(peak * 1024)),
            binary_mib: mebibytes(fs::metadata(self.binary).context("the operator's binary")?.len()),
            writes_60s: per_minute(idle.writes),
            requests_per_min: per_minute(idle.requests),
        })
    }

    /// Resource created -> all applied, the operator being idle.
    async fn first_resource(&self) -> Result<f64> {
        let kubeconfig = self.subject.prepare(self.cluster).await?;
        let recorder = self.cluster.recorder();
        let mut operator = self.run(&kubeconfig)?;
        self.subject.settle(self.cluster, &recorder, &mut operator, |requests| !requests.is_empty()).await?;
        self.subject.create(self.cluster).await?;
        let requests =
            self.subject.settle(self.cluster, &recorder, &mut operator, |requests| applied(requests).is_some()).await?;
        let done = applied(&requests).context("something was applied")?;
        let created = recorder.writes(By::Anyone).await?.into_iter().find(is_creation);
        let created = created.context("the audit log lacks the resource's creation")?;
        operator.kill().await?;
        self.trace(created.time, &requests);
        Ok(milliseconds(created.time, done.answered))
    }

    /// Process start -> all applied, the resource being there; and the number of requests until then.
    async fn start(&self) -> Result<(f64, f64)> {
        let kubeconfig = self.subject.prepare(self.cluster).await?;
        self.subject.create(self.cluster).await?;
        let recorder = self.cluster.recorder();
        let begun = now();
        let mut operator = self.run(&kubeconfig)?;
        let requests =
            self.subject.settle(self.cluster, &recorder, &mut operator, |requests| applied(requests).is_some()).await?;
        let done = applied(&requests).context("something was applied")?;
        let count = requests.iter().filter(|request| request.time <= done.time).count();
        operator.kill().await?;
        self.trace(begun, &requests);
        Ok((milliseconds(begun, done.answered), as_f64(count)))
    }

    async fn idle(&self, operator: &mut Program) -> Result<Idle> {
        let recorder = self.cluster.recorder();
        let seconds = self.arguments.seconds;
        for passed in 0..seconds {
            if passed % 15 == 0 {
                self.say(&format!("idle, {} s left", seconds - passed));
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
            operator.check()?;
        }
        let memory = operator.memory();
        let requests = recorder.requests(self.subject.user()).await?;
        for request in &requests {
            self.say(&format!("while idle: {request}"));
        }
        let writes = requests.iter().filter(|request| request.is_write()).count();
        Ok(Idle { memory, writes, requests: requests.len() })
    }

    /// Resource created -> its status says Available.
    async fn available(&self) -> Result<(Program, f64)> {
        let kubeconfig = self.subject.prepare(self.cluster).await?;
        let recorder = self.cluster.recorder();
        let mut operator = self.run(&kubeconfig)?;
        self.subject.settle(self.cluster, &recorder, &mut operator, |requests| !requests.is_empty()).await?;
        let (begin, start) = (now(), Instant::now());
        let created = self.subject.create(self.cluster).await?;
        created.available(&mut operator).await?;
        let took = start.elapsed().as_secs_f64() * 1000.0;
        self.trace(begin, &recorder.requests(By::Anyone).await?);
        self.subject.settle(self.cluster, &recorder, &mut operator, |requests| applied(requests).is_some()).await?;
        Ok((operator, round(took)))
    }

    fn run(&self, kubeconfig: &Path) -> Result<Program> {
        Ok(self.cluster.run(self.subject.program, self.binary, &[], kubeconfig)?)
    }

    /// Shows requests with the milliseconds since `begin`.
    fn trace(&self, begin: Timestamp, requests: &[Request]) {
        for request in requests.iter().filter(|request| self.arguments.trace && request.time >= begin) {
            let (arrived, took) = (milliseconds(begin, request.time), milliseconds(request.time, request.answered));
            self.say(&format!("{arrived:>8.1} ms +{took:>6.1} ms  {request}"));
        }
    }

    fn say(&self, text: &str) {
        say(&format!("{}: {text}", self.subject.operator));
    }
}

fn say(text: &str) {
    eprintln!("bench: {text}");
}

/// One decimal: more would only look exact.
pub(super) fn round(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

#[allow(clippy::cast_precision_loss)] // counts and sizes here are far below 2^52
fn mebibytes(bytes: u64) -> f64 {
    round(bytes as f64 / f64::from(1 << 20))
}

fn as_f64(count: usize) -> f64 {
    u32::try_from(count).map_or(f64::INFINITY, f64::from)
}
