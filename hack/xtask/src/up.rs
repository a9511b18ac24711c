//! `cargo xtask up`: a local cluster with the operator doing its job on it.

use std::{
    io::{IsTerminal as _, Write as _},
    path::Path,
    time::{Duration, Instant},
};

use addon_testkit::{
    Program, TestCluster,
    assets::{Assets, progress_on_stderr},
    manifests,
    nodes::{NodeSpec, SimulatedNodes},
};
use anyhow::{Context as _, Result, bail};
use kube::{Api, api::DynamicObject};
use tokio::signal::unix::{SignalKind, signal};

use crate::workspace;

/// Start a local cluster, and CoreDNS on it through its operator
///
/// Builds what is missing (the Kubernetes control plane from Go modules, the operator with cargo), starts a real control
/// plane with simulated nodes on loopback, installs the CRD, runs the operator as a process with the rights it ships
/// with, applies a sample and shows progress until it is Available. Ctrl-C stops everything and leaves nothing behind.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Stop after success; the exit code says whether it was one
    #[arg(long)]
    once: bool,
    /// Kubernetes version of the control plane
    #[arg(long, value_name = "VERSION", default_value = workspace::NEWEST_KUBERNETES)]
    kubernetes: String,
    /// Number of simulated nodes
    #[arg(long, default_value_t = 5)]
    nodes: usize,
    /// How long to wait for Available, in seconds
    #[arg(long, default_value_t = 120)]
    timeout: u64,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let operator = workspace::build_operators(false)?.coredns;
    tokio::runtime::Runtime::new()?.block_on(async {
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        tokio::select! {
            result = up(arguments, &operator) => result,
            _ = interrupt.recv() => {
                say("stopped");
                Ok(())
            }
            _ = terminate.recv() => {
                say("stopped");
                Ok(())
            }
        }
    })
}

async fn up(arguments: &Arguments, operator: &Path) -> Result<()> {
    let started = Instant::now();
    let assets = Assets::from_env()?.with_progress(progress_on_stderr());
    say(&format!("starting Kubernetes {}", arguments.kubernetes));
    let cluster = TestCluster::builder().kubernetes(&arguments.kubernetes).assets(assets).start().await?;
    say(&format!("control plane ready after {:.1} s, {} simulated nodes join", seconds(started), arguments.nodes));
    let version = arguments.kubernetes.trim_start_matches('v');
    let spec = NodeSpec::count(arguments.nodes).kubelet_version(version);
    let _nodes = SimulatedNodes::start(cluster.client(), spec).await?;
    let mut running = install(&cluster, operator).await?;
    say("operator runs; applying operators/coredns/samples/coredns.yaml");
    let client = cluster.client();
    let applied = manifests::apply(&client, &workspace::read("operators/coredns/samples/coredns.yaml")?).await?;
    let sample = applied.first().context("the sample is empty")?;
    let api = manifests::api_of(&client, sample).await?;
    let name = sample.metadata.name.as_deref().unwrap_or_default();
    available(&cluster, &api, name, &mut running, Duration::from_secs(arguments.timeout)).await?;
    say(&format!("CoreDNS is Available after {:.1} s", seconds(started)));
    if arguments.once {
        return Ok(());
    }
    let kubeconfig = cluster.kubeconfig().display();
    println!("\nexport KUBECONFIG={kubeconfig}\n\nThree things to try:\n");
    println!("  kubectl -n kube-system get coredns,deployments,services,configmaps");
    println!(
        "  kubectl -n kube-system set image deployment/coredns coredns=example.com/other:1   # taken back at once"
    );
    println!("  kubectl -n kube-system patch coredns coredns --type merge -p '{{\"spec\":{{\"replicas\":3}}}}'\n");
    println!(
        "The operator's log: {}\nCtrl-C stops everything.",
        cluster.folder().join("coredns-operator.log").display()
    );
    loop {
        tokio::time::sleep(Duration::from_secs(1)).await;
        running.check()?;
        cluster.check()?;
    }
}

/// Installs the CRD and the operator's rights, and runs the operator with exactly these.
pub(crate) async fn install(cluster: &TestCluster, operator: &Path) -> Result<Program> {
    let client = cluster.client();
    manifests::apply(&client, &workspace::read("crds/coredns.addons.x-k8s.io.yaml")?).await?;
    manifests::apply(&client, &workspace::read("operators/coredns/deploy/rbac.yaml")?).await?;
    let kubeconfig = cluster.kubeconfig_for("kube-system", "coredns-operator").await?;
    Ok(cluster.run("coredns-operator", operator, &[], &kubeconfig)?)
}

/// Shows what the status says until it says Available.
async fn available(
    cluster: &TestCluster,
    api: &Api<DynamicObject>,
    name: &str,
    operator: &mut Program,
    timeout: Duration,
) -> Result<()> {
    let deadline = Instant::now() + timeout;
    let mut shown = String::new();
    loop {
        let status = api.get_status(name).await?.data["status"].clone();
        let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
        let condition = |kind: &str| conditions.iter().find(|it| it["type"] == kind).cloned().unwrap_or_default();
        if condition("Available")["status"] == "True" && status["phase"] == "Current" {
            return Ok(());
        }
        let doing = ["Degraded", "Progressing"].iter().map(|kind| condition(kind)).find(|it| it["status"] == "True");
        let doing = doing.and_then(|it| it["message"].as_str().map(str::to_owned)).unwrap_or_default();
        if !doing.is_empty() && doing != shown {
            say(&doing);
            shown = doing;
        }
        operator.check()?;
        if Instant::now() > deadline {
            let log = cluster.log("coredns-operator").unwrap_or_default();
            bail!("not Available within {} s: {shown}\nthe operator's log:\n{log}", timeout.as_secs());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

fn seconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64()
}

/// Progress, to stderr.
fn say(text: &str) {
    let mut stderr = std::io::stderr();
    let mark = if stderr.is_terminal() { "\x1b[32m»\x1b[0m" } else { "»" };
    let _ = writeln!(stderr, "{mark} {text}");
}
