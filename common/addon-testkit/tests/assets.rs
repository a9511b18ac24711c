//! Getting binaries: with a stand-in for `go` that writes down what it is asked, so that nothing is downloaded or built.

#![allow(clippy::unwrap_used)] // in helpers of tests a panic is the message

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
    sync::{Arc, Mutex},
};

use addon_testkit::assets::{Asset, AssetError, Assets};
use tempfile::TempDir;

/// Set for a copy of this test binary that only says what it finds.
const ASK_ENVIRONMENT: &str = "ADDON_TESTKIT_ASK_ENVIRONMENT";

/// A folder with a `go` of a few lines. `MODE` is a line of shell that runs first.
struct FakeGo {
    folder: TempDir,
}

impl FakeGo {
    fn new(mode: &str) -> Self {
        let folder = TempDir::new().unwrap();
        let go_mod = folder.path().join("their.mod");
        fs::write(&go_mod, "module k8s.io/kubernetes\n\ngo 1.26.0\n\nreplace k8s.io/api => ./staging/src/k8s.io/api\n")
            .unwrap();
        let script = format!(
            "#!/bin/sh\necho \"$@\" >> '{calls}'\n{mode}\n\
             case \"$1 $2\" in\n\
             'mod download') printf '{{\"GoMod\":\"%s\"}}' '{go_mod}';;\n\
             build*) while [ $# -gt 1 ]; do [ \"$1\" = -o ] && echo binary > \"$2\"; shift; done;;\n\
             esac\n",
            calls = folder.path().join("calls").display(),
            go_mod = go_mod.display(),
        );
        let program = folder.path().join("go");
        fs::write(&program, script).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        Self { folder }
    }

    fn path(&self) -> String {
        format!("{}:/usr/bin:/bin", self.folder.path().display())
    }

    fn calls(&self, command: &str) -> usize {
        let calls = fs::read_to_string(self.folder.path().join("calls")).unwrap_or_default();
        calls.lines().filter(|line| line.starts_with(command)).count()
    }
}

fn cache() -> (TempDir, Assets, Arc<Mutex<Vec<String>>>) {
    let folder = TempDir::new().unwrap();
    let lines = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&lines);
    let progress = Arc::new(move |line: &str| sink.lock().unwrap().push(line.to_owned()));
    let assets = Assets::in_folder(folder.path()).with_progress(progress);
    (folder, assets, lines)
}

fn asset(name: &str) -> Asset {
    Asset::parse(name, "1.34.4").unwrap()
}

#[test]
fn without_go_the_message_names_the_binary_and_both_remedies() {
    let (_folder, assets, _) = cache();
    let empty = TempDir::new().unwrap();
    let error = assets.with_search_path(empty.path()).ensure(&[asset("kube-apiserver")]).unwrap_err();
    assert!(matches!(error, AssetError::GoMissing { .. }), "{error:?}");
    let message = error.to_string();
    for part in ["kube-apiserver 1.34.4", "no `go` in PATH", "install Go", "KUBEBUILDER_ASSETS"] {
        assert!(message.contains(part), "{part}: {message}");
    }
}

#[test]
fn a_go_that_is_too_old_is_named_with_the_version_that_is_needed() {
    let (_folder, assets, _) = cache();
    let go = FakeGo::new("echo 'go: go.mod requires go >= 1.26.0 (running go 1.21.3; GOTOOLCHAIN=local)' >&2; exit 1");
    let error = assets.with_search_path(go.path()).ensure(&[asset("kube-apiserver")]).unwrap_err().to_string();
    assert!(error.contains("needs Go 1.26.0 or newer, but `go` is 1.21.3"), "{error}");
}

#[test]
fn a_refused_module_is_named_with_what_the_source_said() {
    let (_folder, assets, _) = cache();
    let refusal = r#"printf '{"Error":"k8s.io/kubernetes@v1.34.4: reading x: 403 Forbidden"}'; exit 1"#;
    let go = FakeGo::new(&format!("[ \"$2\" = download ] && {{ {refusal}; }}"));
    let error = assets.with_search_path(go.path()).ensure(&[asset("kubelet")]).unwrap_err().to_string();
    assert!(error.contains("refused k8s.io/kubernetes@v1.34.4") && error.contains("403 Forbidden"), "{error}");
    assert!(error.contains("GOPROXY"), "{error}");
}

#[test]
fn a_binary_is_built_once_and_binaries_of_one_kubernetes_share_a_module() {
    let (_folder, assets, lines) = cache();
    let go = FakeGo::new("");
    let assets = assets.with_search_path(go.path());
    let wanted = [asset("kube-apiserver"), asset("kube-scheduler")];
    let first = assets.ensure(&wanted).unwrap();
    assert_eq!((go.calls("mod tidy"), go.calls("build")), (1, 2));
    assert_eq!(assets.ensure(&wanted).unwrap(), first);
    assert_eq!((go.calls("mod tidy"), go.calls("build")), (1, 2), "the second call builds nothing");
    let lines = lines.lock().unwrap().join("\n");
    assert!(lines.contains("kube-apiserver 1.34.4 (1 of 2): building") && lines.contains("1 left"), "{lines}");
}

#[test]
fn the_generated_module_replaces_staging_modules_by_the_published_ones() {
    let (folder, assets, _) = cache();
    let go = FakeGo::new("");
    assets.with_search_path(go.path()).ensure(&[asset("kube-scheduler")]).unwrap();
    let module = folder.path().join("work/kubernetes-1.34.4");
    let go_mod = fs::read_to_string(module.join("go.mod")).unwrap();
    assert!(
        go_mod.contains("go 1.26.0\n") && go_mod.contains("replace k8s.io/api => k8s.io/api v0.34.4\n"),
        "{go_mod}"
    );
    assert!(fs::read_to_string(module.join("tools.go")).unwrap().contains("_ \"k8s.io/kubernetes/cmd/kubelet\""));
}

#[test]
fn a_failed_build_leaves_no_binary_behind_and_the_next_call_tries_again() {
    let (_folder, assets, _) = cache();
    let broken = FakeGo::new(
        "[ \"$1\" = build ] && { while [ $# -gt 1 ]; do [ \"$1\" = -o ] && echo half > \"$2\"; shift; done; exit 1; }",
    );
    let wanted = [asset("kube-scheduler")];
    assets.clone().with_search_path(broken.path()).ensure(&wanted).unwrap_err();
    assert_eq!(assets.find(&wanted[0]), None);
    let good = FakeGo::new("");
    assert!(assets.with_search_path(good.path()).ensure(&wanted).unwrap()[0].is_file());
}

#[test]
fn two_that_ask_at_once_build_once() {
    let (_folder, assets, _) = cache();
    let go = FakeGo::new("[ \"$1\" = build ] && sleep 0.2");
    let assets = assets.with_search_path(go.path());
    std::thread::scope(|scope| {
        let asked: Vec<_> =
            (0..3).map(|_| scope.spawn(|| assets.ensure(&[asset("kube-scheduler")]).unwrap())).collect();
        let paths: Vec<_> = asked.into_iter().map(|thread| thread.join().unwrap()).collect();
        assert!(paths.iter().all(|path| *path == paths[0] && path[0].is_file()));
    });
    assert_eq!(go.calls("build"), 1);
}

#[test]
fn a_ready_folder_is_used_instead_and_says_what_it_lacks() {
    let (_folder, assets, _) = cache();
    let ready = TempDir::new().unwrap();
    fs::write(ready.path().join("etcd"), "").unwrap();
    let assets = assets.with_ready_folder(ready.path());
    assert_eq!(assets.ensure(&[asset("etcd")]).unwrap(), [ready.path().join("etcd")]);
    let error = assets.ensure(&[asset("kube-scheduler")]).unwrap_err().to_string();
    assert!(error.contains("kube-scheduler") && error.contains(&ready.path().display().to_string()), "{error}");
}

/// The other half of the next test, in a process of its own: the environment of this one cannot be changed safely.
#[test]
fn helper_that_says_where_etcd_is_found() {
    if std::env::var_os(ASK_ENVIRONMENT).is_some() {
        let found = Assets::from_env().unwrap().find(&asset("etcd"));
        println!("found={}", found.unwrap_or_default().display());
    }
}

#[test]
fn the_environment_decides_which_folder_is_looked_at() {
    let ask = |name: &str, folder: &Path| {
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "helper_that_says_where_etcd_is_found", "--nocapture"])
            .env_remove("KUBEBUILDER_ASSETS")
            .env(ASK_ENVIRONMENT, "1")
            .env("XDG_CACHE_HOME", "/nonexistent")
            .env(name, folder)
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let found = text.lines().find_map(|line| Some(line.split_once("found=")?.1)).unwrap();
        PathBuf::from(found)
    };
    let ready = TempDir::new().unwrap();
    fs::write(ready.path().join("etcd"), "").unwrap();
    assert_eq!(ask("KUBEBUILDER_ASSETS", ready.path()), ready.path().join("etcd"));

    let cache = TempDir::new().unwrap();
    let go = FakeGo::new("");
    let built = Assets::in_folder(cache.path().join("addon-operators/assets"))
        .with_search_path(go.path())
        .with_progress(Arc::new(|_| {}))
        .ensure(&[asset("etcd")])
        .unwrap();
    assert_eq!(ask("XDG_CACHE_HOME", cache.path()), built[0]);
}
