//! What passes between an operator and the API server: recorded exactly, and stopped or spoilt exactly.

use std::{path::PathBuf, pin::pin, time::Duration};

use addon_testkit::{
    ClusterGuard, TestCluster,
    audit::{By, Request},
    proxy::Proxy,
};
use anyhow::{Context as _, Result};
use futures::{StreamExt as _, TryStreamExt as _, future::select};
use k8s_openapi::api::{
    coordination::v1::Lease,
    core::v1::{ConfigMap, ServiceAccount},
    rbac::v1::{PolicyRule, Role, RoleBinding, RoleRef, Subject},
};
use kube::{
    Api, Client,
    api::{DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams, WatchEvent, WatchParams},
};
use serde_json::json;

fn named(name: &str) -> ObjectMeta {
    ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() }
}

fn config_map(name: &str) -> ConfigMap {
    ConfigMap { metadata: named(name), ..ConfigMap::default() }
}

/// A ServiceAccount `operator` that may do everything with ConfigMaps and Leases of its namespace.
async fn operator(cluster: &TestCluster) -> Result<(String, PathBuf)> {
    let namespace = cluster.temp_namespace().await?;
    let client = cluster.client();
    let create = PostParams::default();
    let account = ServiceAccount { metadata: named("operator"), ..ServiceAccount::default() };
    Api::namespaced(client.clone(), &namespace).create(&create, &account).await?;
    let rule = PolicyRule {
        api_groups: Some(vec![String::new(), "coordination.k8s.io".to_owned()]),
        resources: Some(vec!["configmaps".to_owned(), "leases".to_owned()]),
        verbs: vec!["*".to_owned()],
        ..PolicyRule::default()
    };
    let role = Role { metadata: named("operator"), rules: Some(vec![rule]) };
    Api::namespaced(client.clone(), &namespace).create(&create, &role).await?;
    let subject = Subject {
        kind: "ServiceAccount".to_owned(),
        name: "operator".to_owned(),
        namespace: Some(namespace.clone()),
        ..Subject::default()
    };
    let role_ref = RoleRef {
        api_group: "rbac.authorization.k8s.io".to_owned(),
        kind: "Role".to_owned(),
        name: "operator".to_owned(),
    };
    let binding = RoleBinding { metadata: named("operator"), role_ref, subjects: Some(vec![subject]) };
    Api::namespaced(client, &namespace).create(&create, &binding).await?;
    let kubeconfig = cluster.kubeconfig_for(&namespace, "operator").await?;
    Ok((namespace, kubeconfig))
}

fn texts(requests: &[Request], namespace: &str) -> Vec<String> {
    requests.iter().map(|request| request.to_string().replace(namespace, "NS")).collect()
}

async fn shared() -> Result<(ClusterGuard, String, PathBuf)> {
    let cluster = TestCluster::shared().await?;
    let (namespace, kubeconfig) = operator(&cluster).await?;
    Ok((cluster, namespace, kubeconfig))
}

#[tokio::test]
async fn the_recorder_sees_every_request_of_a_user_once_and_knows_the_writes() -> Result<()> {
    let (cluster, namespace, kubeconfig) = shared().await?;
    let client = TestCluster::client_with(&kubeconfig).await?;
    let configs: Api<ConfigMap> = Api::namespaced(client.clone(), &namespace);
    let leases: Api<Lease> = Api::namespaced(client.clone(), &namespace);
    let everywhere: Api<ConfigMap> = Api::all(client);
    configs.list(&ListParams::default()).await?; // before the recorder: not seen

    let recorder = cluster.recorder();
    let version = configs.list(&ListParams::default()).await?.metadata.resource_version.context("a version")?;
    let mut events = pin!(configs.watch(&WatchParams::default().fields("metadata.name=a"), &version).await?);
    let create = PostParams::default();
    configs.create(&PostParams { dry_run: true, ..PostParams::default() }, &config_map("a")).await?;
    let created = configs.create(&create, &config_map("a")).await?;
    assert!(matches!(events.try_next().await?, Some(WatchEvent::Added(_))));
    configs.create(&create, &config_map("a")).await.unwrap_err();
    let patch = Patch::Apply(json!({ "apiVersion": "v1", "kind": "ConfigMap", "data": { "k": "v" } }));
    configs.patch("a", &PatchParams::apply("operator"), &patch).await?;
    configs.replace("a", &create, &ConfigMap { data: created.data, ..config_map("a") }).await?;
    leases.create(&create, &Lease { metadata: named("leader"), ..Lease::default() }).await?;
    configs.get("missing").await.unwrap_err();
    everywhere.list(&ListParams::default()).await.unwrap_err();
    configs.delete("a", &DeleteParams::default()).await?;
    cluster.client().apiserver_version().await?; // somebody else: not seen

    let operator = By::ServiceAccount(&namespace, "operator");
    let requests = recorder.requests(operator).await?;
    let expected = [
        "list configmaps NS -> 200",
        "watch configmaps NS/a -> 200",
        "create configmaps NS/a -> 201 (dry run)",
        "create configmaps NS/a -> 201",
        "create configmaps NS/a -> 409",
        "patch configmaps NS/a -> 200",
        "update configmaps NS/a -> 200",
        "create leases.coordination.k8s.io NS/leader -> 201",
        "get configmaps NS/missing -> 404",
        "list configmaps -> 403",
        "delete configmaps NS/a -> 200",
    ];
    assert_eq!(texts(&requests, &namespace), expected);
    let writes = recorder.writes(operator).await?;
    assert_eq!(texts(&writes, &namespace), [expected[3], expected[4], expected[5], expected[6], expected[10]]);
    Ok(())
}

#[tokio::test]
async fn the_proxy_holds_everything_after_exactly_the_nth_write() -> Result<()> {
    let (cluster, namespace, kubeconfig) = shared().await?;
    for n in [1, 3] {
        let proxy = Proxy::start(&kubeconfig).await?;
        let through: Api<ConfigMap> = Api::namespaced(TestCluster::client_with(proxy.kubeconfig()).await?, &namespace);
        let recorder = cluster.recorder();
        let hold = proxy.hold_after_writes(n);
        // All at once, as a hasty operator would.
        let names: Vec<_> = (0..5).map(|number| format!("after-{n}-{number}")).collect();
        let create = PostParams::default();
        let objects: Vec<_> = names.iter().map(|name| config_map(name)).collect();
        let mut answered = 0;
        {
            let mut writes =
                futures::stream::iter(&objects).map(|object| through.create(&create, object)).buffer_unordered(5);
            let mut reached = pin!(hold.reached());
            loop {
                tokio::select! {
                    biased;
                    write = writes.next() => answered += usize::from(write.context("a write")?.is_ok()),
                    () = &mut reached => break,
                }
            }
        } // and here the operator is gone, with connections that hang
        assert!(proxy.is_held() && proxy.writes() == n);
        assert!(answered < n, "the answer to the last write is kept back: {answered} of {n} were seen");
        let there: Api<ConfigMap> = Api::namespaced(cluster.client(), &namespace);
        let there = there.list(&ListParams::default()).await?;
        let made =
            there.items.iter().filter(|object| object.metadata.name.as_ref().is_some_and(|it| names.contains(it)));
        assert_eq!(made.count(), n);
        assert_eq!(recorder.writes(By::ServiceAccount(&namespace, "operator")).await?.len(), n);
        let path = proxy.kubeconfig().to_path_buf();
        drop(proxy);
        assert!(!path.exists());
    }
    Ok(())
}

#[tokio::test]
async fn a_released_proxy_hands_over_what_it_kept_back() -> Result<()> {
    let (_cluster, namespace, kubeconfig) = shared().await?;
    let proxy = Proxy::start(&kubeconfig).await?;
    let through: Api<ConfigMap> = Api::namespaced(TestCluster::client_with(proxy.kubeconfig()).await?, &namespace);
    let hold = proxy.hold_after_writes(1);
    let object = config_map("kept-back");
    let create = PostParams::default();
    let write = pin!(through.create(&create, &object));
    let release = async {
        hold.reached().await;
        proxy.release();
    };
    let (written, ()) = futures::join!(write, release);
    written?;
    through.get("kept-back").await?;
    Ok(())
}

#[tokio::test]
async fn watch_events_pass_the_proxy_one_by_one_as_they_happen() -> Result<()> {
    let (cluster, namespace, kubeconfig) = shared().await?;
    let proxy = Proxy::start(&kubeconfig).await?;
    let through: Api<ConfigMap> = Api::namespaced(TestCluster::client_with(proxy.kubeconfig()).await?, &namespace);
    let direct: Api<ConfigMap> = Api::namespaced(cluster.client(), &namespace);
    let version = through.list(&ListParams::default()).await?.metadata.resource_version.context("a version")?;
    let mut events = pin!(through.watch(&WatchParams::default(), &version).await?);
    for name in ["a", "b", "c"] {
        direct.create(&PostParams::default(), &config_map(name)).await?;
        // The watch is still open: a proxy that collected the answer first would hang here.
        match events.try_next().await? {
            Some(WatchEvent::Added(object)) => assert_eq!(object.metadata.name.as_deref(), Some(name)),
            other => panic!("expected {name}, not {other:?}"),
        }
    }
    Ok(())
}

#[tokio::test]
async fn an_injected_failure_reaches_the_operator_and_not_the_api_server() -> Result<()> {
    let (cluster, namespace, kubeconfig) = shared().await?;
    let proxy = Proxy::start(&kubeconfig).await?;
    let through: Api<ConfigMap> = Api::namespaced(TestCluster::client_with(proxy.kubeconfig()).await?, &namespace);
    proxy.fail_with(|asked| asked.verb == "create" && asked.resource == "configmaps", http::StatusCode::CONFLICT);
    let recorder = cluster.recorder();
    let create = PostParams::default();
    match through.create(&create, &config_map("a")).await {
        Err(kube::Error::Api(status)) => assert_eq!((status.code, status.reason.as_str()), (409, "Conflict")),
        other => panic!("expected a conflict, not {other:?}"),
    }
    assert_eq!(proxy.writes(), 0);
    assert!(recorder.writes(By::ServiceAccount(&namespace, "operator")).await?.is_empty());
    proxy.clear_faults();
    through.create(&create, &config_map("a")).await?;
    Ok(())
}

#[tokio::test]
async fn a_delayed_request_waits_while_others_pass() -> Result<()> {
    let (_cluster, namespace, kubeconfig) = shared().await?;
    let proxy = Proxy::start(&kubeconfig).await?;
    let through: Api<ConfigMap> = Api::namespaced(TestCluster::client_with(proxy.kubeconfig()).await?, &namespace);
    proxy.delay(|asked| asked.name == "slow", Duration::from_hours(1));
    let slow = pin!(through.get_opt("slow"));
    let fast = pin!(async {
        for _ in 0..5 {
            through.get_opt("fast").await?;
        }
        Ok::<_, kube::Error>(())
    });
    match select(slow, fast).await {
        futures::future::Either::Right((fast, _)) => Ok(fast?),
        futures::future::Either::Left((slow, _)) => panic!("the delayed request was answered: {slow:?}"),
    }
}

#[tokio::test]
async fn a_lost_api_server_is_a_lost_connection_through_the_proxy_too() -> Result<()> {
    let (cluster, namespace, kubeconfig) = shared().await?;
    let proxy = Proxy::start(&kubeconfig).await?;
    let client: Client = TestCluster::client_with(proxy.kubeconfig()).await?;
    let through: Api<ConfigMap> = Api::namespaced(client, &namespace);
    cluster.stop_apiserver().await?;
    let error = through.get("a").await.unwrap_err();
    assert!(!matches!(error, kube::Error::Api(_)), "no answer, not a bad one: {error:?}");
    cluster.start_apiserver().await?;
    assert!(through.get_opt("a").await?.is_none());
    Ok(())
}
