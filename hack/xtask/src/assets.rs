//! `cargo xtask assets`: the binaries of a test cluster, built once and kept.

use addon_testkit::assets::{Asset, Assets, CONTROL_PLANE, DEFAULT_KUBERNETES};
use anyhow::Result;
use clap::Args;

/// Build what a test cluster is made of from Go modules, or find it in the cache
///
/// Without flags: etcd, kube-apiserver, kube-controller-manager and kube-scheduler for every default Kubernetes version.
/// Binaries are kept in $XDG_CACHE_HOME/addon-operators/assets (or ~/.cache/addon-operators/assets) by name, version and
/// recipe, so a second call returns at once. Needs `go`, unless KUBEBUILDER_ASSETS names a folder that has the binaries.
///
/// The path of each binary goes to stdout, progress to stderr.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Kubernetes version to build for, such as 1.34.4; may be given several times
    #[arg(long, value_name = "VERSION", default_values = DEFAULT_KUBERNETES)]
    kubernetes: Vec<String>,
    /// Build only this binary: etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kube-proxy, kubelet,
    /// kubeadm, kubectl, or coredns@VERSION; may be given several times
    #[arg(long, value_name = "NAME[@VERSION]")]
    only: Vec<String>,
    /// Print one folder for each Kubernetes version, which has the binaries under their plain names (a value for
    /// KUBEBUILDER_ASSETS), instead of one path for each binary
    #[arg(long)]
    print_dir: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let assets = Assets::from_env()?;
    let names: Vec<&str> = match arguments.only.as_slice() {
        [] => CONTROL_PLANE.to_vec(),
        only => only.iter().map(String::as_str).collect(),
    };
    let mut sets = Vec::new();
    for kubernetes in &arguments.kubernetes {
        // Also where no binary of it is asked for: a wrong version is a mistake of the caller.
        Asset::parse("kube-apiserver", kubernetes)?;
        let wanted = names.iter().map(|name| Asset::parse(name, kubernetes)).collect::<Result<Vec<_>, _>>()?;
        sets.push((kubernetes, wanted));
    }
    // Every name and version was understood before the first of minutes is spent.
    let mut printed = Vec::new();
    for (kubernetes, wanted) in sets {
        let paths = assets.ensure(&wanted)?;
        let lines = if arguments.print_dir { vec![assets.link_set(kubernetes, &wanted)?] } else { paths };
        for line in lines {
            if !printed.contains(&line) {
                println!("{}", line.display());
                printed.push(line);
            }
        }
    }
    Ok(())
}
