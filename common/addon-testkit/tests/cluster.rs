//! The control plane itself: it starts in every default version, and its API server stops and comes back.

use std::time::Instant;

use addon_testkit::{
    TestCluster,
    assets::{Asset, Assets, DEFAULT_KUBERNETES},
};
use anyhow::Result;
use k8s_openapi::api::core::v1::Service;
use kube::Api;

/// Versions whose binaries are there; the newest is built if it is not.
fn versions() -> Result<Vec<&'static str>> {
    let assets = Assets::from_env()?;
    let newest = DEFAULT_KUBERNETES.last().copied();
    let mut versions = Vec::new();
    for version in DEFAULT_KUBERNETES {
        let there = Asset::control_plane(version)?.iter().all(|asset| assets.find(asset).is_some());
        if there || Some(*version) == newest {
            versions.push(*version);
        } else {
            eprintln!("skipped: no binaries of Kubernetes {version}; `cargo xtask assets` builds them");
        }
    }
    Ok(versions)
}

#[tokio::test]
async fn a_cluster_of_each_version_starts_serves_and_goes_away_with_its_folder() -> Result<()> {
    for version in versions()? {
        let start = Instant::now();
        let cluster = TestCluster::builder().kubernetes(version).start().await?;
        eprintln!("Kubernetes {version}: started in {:.1} s", start.elapsed().as_secs_f32());
        let services: Api<Service> = Api::namespaced(cluster.client(), "default");
        let address = services.get("kubernetes").await?.spec.and_then(|spec| spec.cluster_ip);
        assert_eq!(address.as_deref(), Some("10.96.0.1"));
        assert!(std::env::var_os("KUBEBUILDER_ASSETS").is_some() || cluster.version() == version);
        let folder = cluster.folder().to_path_buf();
        assert!(folder.exists());
        drop(cluster);
        assert!(!folder.exists(), "{} is left", folder.display());
    }
    Ok(())
}
