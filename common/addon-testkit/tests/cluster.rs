//! The control plane itself: it starts in every default version, it says why it does not, and its API server stops and
//! comes back.

use addon_testkit::{
    TestCluster,
    assets::{Asset, Assets, DEFAULT_KUBERNETES},
};
use anyhow::Result;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Service, ServiceAccount};
use kube::{
    Api,
    api::{ListParams, ObjectMeta, PostParams},
};

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

fn named(name: &str) -> ObjectMeta {
    ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() }
}

#[tokio::test]
async fn a_cluster_of_each_version_starts_serves_and_goes_away_with_its_folder() -> Result<()> {
    for version in versions()? {
        let start = std::time::Instant::now();
        let cluster = TestCluster::builder().kubernetes(version).start().await?;
        println!("Kubernetes {version}: started in {:.1} s", start.elapsed().as_secs_f32());
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

#[tokio::test]
async fn an_api_server_that_was_stopped_comes_back_at_the_same_address_with_what_was_stored() -> Result<()> {
    let cluster = TestCluster::builder().service_cidr("10.64.0.0/16").start().await?;
    let url = cluster.url();
    let configs: Api<ConfigMap> = Api::namespaced(cluster.client(), "default");
    let config = ConfigMap { metadata: named("kept"), ..ConfigMap::default() };
    configs.create(&PostParams::default(), &config).await?;

    cluster.stop_apiserver().await?;
    let error = configs.get("kept").await.unwrap_err();
    assert!(!matches!(error, kube::Error::Api(_)), "nobody answers: {error:?}");
    assert!(cluster.stop_apiserver().await.unwrap_err().to_string().contains("stopped already"));

    cluster.start_apiserver().await?;
    assert_eq!(cluster.url(), url);
    configs.get("kept").await?;
    assert!(cluster.start_apiserver().await.unwrap_err().to_string().contains("running already"));
    let services: Api<Service> = Api::namespaced(cluster.client(), "default");
    let address = services.get("kubernetes").await?.spec.and_then(|spec| spec.cluster_ip);
    assert_eq!(address.as_deref(), Some("10.64.0.1"), "the range of Services is as asked");
    Ok(())
}

#[tokio::test]
async fn a_kubeconfig_for_a_service_account_has_its_rights_and_no_more() -> Result<()> {
    use std::os::unix::fs::PermissionsExt as _;

    let cluster = TestCluster::shared().await?;
    let namespace = cluster.temp_namespace().await?;
    let path = cluster.kubeconfig_for(&namespace, "default").await?;
    assert_eq!(std::fs::metadata(&path)?.permissions().mode() & 0o777, 0o600);
    let client = TestCluster::client_with(&path).await?;
    let namespaces: Api<Namespace> = Api::all(client);
    match namespaces.list(&ListParams::default()).await {
        Err(kube::Error::Api(status)) => {
            let user = format!("system:serviceaccount:{namespace}:default");
            assert!(status.code == 403 && status.message.contains(&user), "{status:?}");
        }
        other => panic!("expected a refusal, not {other:?}"),
    }
    let error = cluster.kubeconfig_for(&namespace, "missing").await.unwrap_err().to_string();
    assert!(error.contains(&format!("{namespace}/missing")), "{error}");
    Ok(())
}

#[tokio::test]
async fn a_component_that_does_not_start_is_named_with_the_end_of_its_log() {
    let started = TestCluster::builder().apiserver_argument("--no-such-flag=1").start().await;
    let error = started.err().map(|error| error.to_string()).unwrap_or_default();
    assert!(error.contains("kube-apiserver ended by itself") && error.contains("--no-such-flag"), "{error}");
}

#[tokio::test]
async fn a_service_account_controller_runs_so_new_namespaces_get_their_account() -> Result<()> {
    let cluster = TestCluster::shared().await?;
    let namespace = cluster.temp_namespace().await?;
    let accounts: Api<ServiceAccount> = Api::namespaced(cluster.client(), &namespace);
    accounts.get("default").await?;
    Ok(())
}
