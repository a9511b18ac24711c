//! The frame of every operator: command line, logs, signals and the event loop.

use std::{process::ExitCode, sync::Arc, time::Duration};

use addon_core::{Addon, Version};
use anyhow::Context as _;
use clap::Parser;
use futures::future::join_all;
use kube::Client;
use tokio::{
    signal::unix::{SignalKind, signal},
    time::{Instant, sleep, sleep_until},
};
use tracing_subscriber::EnvFilter;

use crate::{
    backoff::Backoff,
    cache::{Cache, Scope},
    client::{connect, timed},
    reconcile::Reconciler,
};

/// Streaming lists are on by default in API servers from this version on (KEP-3157): one request per watch in place
/// of two.
const STREAMING_LISTS: Version = Version::new(1, 34, 0);

/// How often a lost API server is asked for its version: it may come back as a newer one.
const VERSION_RETRY: Duration = Duration::from_secs(5);

/// Command line of an operator.
#[derive(Clone, Debug, Parser)]
#[command(
    version,
    about = "Installs and keeps one cluster add-on as its resource says.",
    after_help = "The API server is the one of KUBECONFIG, of ~/.kube/config, or of the pod the operator runs in."
)]
pub struct Options {
    /// The namespace whose resources count, and in which the add-on lives. Whoever may write there controls every node.
    #[arg(long, env = "ADDON_NAMESPACE", default_value = "kube-system")]
    pub namespace: String,

    /// How logs are written, to stderr.
    #[arg(long, env = "ADDON_LOG_FORMAT", value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,

    /// What is logged: a level, or levels by module as in `info,kube=debug`.
    #[arg(long, env = "ADDON_LOG", default_value = "info")]
    pub log: String,
}

/// How logs are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// An operator's whole main: reads the command line, then runs until SIGTERM or SIGINT.
pub fn main(addon: impl Addon + 'static) -> ExitCode {
    let options = Options::parse();
    if let Err(error) = start_logs(&options) {
        eprintln!("error: {error:#}");
        return ExitCode::from(2);
    }
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            tracing::error!("cannot start: {error}");
            return ExitCode::FAILURE;
        }
    };
    match runtime.block_on(run(Arc::new(addon), options)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn start_logs(options: &Options) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(&options.log).with_context(|| format!("--log {}", options.log))?;
    let logs = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_target(false);
    match options.log_format {
        LogFormat::Text => logs.with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr())).init(),
        LogFormat::Json => logs.json().flatten_event(true).init(),
    }
    Ok(())
}

async fn run(addon: Arc<dyn Addon>, options: Options) -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let client = connect().await.context("no API server is configured; set KUBECONFIG or run in a pod")?;
    let work = async {
        let kubernetes = server_version(&client).await;
        tracing::info!(addon = addon.name(), %kubernetes, namespace = options.namespace, "started");
        operate(addon, client, options.namespace, kubernetes).await;
    };
    tokio::select! {
        () = work => {}
        _ = terminate.recv() => tracing::info!("stopped by SIGTERM"),
        _ = interrupt.recv() => tracing::info!("stopped by SIGINT"),
    }
    Ok(())
}

/// Asks for the API server's version until it answers.
async fn server_version(client: &Client) -> Version {
    let mut waits = Backoff::of_watches();
    let mut told = String::new();
    loop {
        let problem = match timed(client.apiserver_version()).await {
            Ok(info) => match info.git_version.parse() {
                Ok(version) => return version,
                Err(error) => format!("the API server's version is not understood: {error}"),
            },
            Err(error) => format!("the API server cannot be reached: {error}"),
        };
        if told != problem {
            tracing::warn!("{problem}; it is tried again");
            told = problem;
        }
        sleep(waits.next().unwrap_or(Duration::from_secs(5))).await;
    }
}

/// Watches and reconciles, for ever.
async fn operate(addon: Arc<dyn Addon>, client: Client, namespace: String, kubernetes: Version) {
    let streaming = kubernetes >= STREAMING_LISTS;
    let cache = Arc::new(Cache::default());
    let mut scopes = vec![Scope::all(addon.resource())];
    scopes.extend(addon.watches().iter().map(|watch| Scope::new(watch, &namespace)));
    for scope in &scopes {
        cache.expect(scope);
    }
    let watches = join_all(scopes.into_iter().map(|scope| cache.follow(&client, scope, streaming)));
    let mut reconciler = Reconciler::new(addon, client.clone(), cache.clone(), namespace, kubernetes);
    let reconciles = async {
        let mut lost = false;
        loop {
            lost |= cache.was_lost();
            if lost && let Ok(info) = timed(client.apiserver_version()).await {
                lost = false;
                reconciler.serve(info.git_version.parse().ok());
            }
            let ask_again = lost.then(|| Instant::now() + VERSION_RETRY);
            let again = reconciler.run().await.into_iter().chain(ask_again).min();
            tokio::select! {
                () = cache.changed() => {}
                () = at(again) => {}
            }
        }
    };
    tokio::join!(watches, reconciles);
}

/// Waits until the time, or for ever.
async fn at(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}
