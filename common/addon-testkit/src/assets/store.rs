//! Where binaries are kept, and the one way to get them.

use std::{
    ffi::OsString,
    fs::{self, File, TryLockError},
    path::{Path, PathBuf},
    process,
    time::Instant,
};

use super::{
    Asset, ControlPlane, Progress,
    error::AssetError,
    golang::Go,
    module, progress_on_stderr,
    recipe::{Source, Versioning},
};

/// The cache of binaries, or a folder of ready ones.
#[derive(Clone)]
pub struct Assets {
    root: PathBuf,
    ready: Option<PathBuf>,
    search_path: Option<OsString>,
    progress: Progress,
}

impl Assets {
    /// As the environment says: `KUBEBUILDER_ASSETS`, else the cache in `XDG_CACHE_HOME` or `~/.cache`.
    pub fn from_env() -> Result<Self, AssetError> {
        let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        let cache = set("XDG_CACHE_HOME")
            .map(PathBuf::from)
            .or_else(|| set("HOME").map(|home| Path::new(&home).join(".cache")))
            .ok_or(AssetError::NoCacheFolder)?;
        let assets = Self::in_folder(cache.join("addon-operators").join("assets"));
        Ok(Self { ready: set("KUBEBUILDER_ASSETS").map(PathBuf::from), ..assets })
    }

    /// A cache in that folder, whatever the environment says.
    pub fn in_folder(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into(), ready: None, search_path: None, progress: progress_on_stderr() }
    }

    /// Takes binaries of Kubernetes and etcd from this folder instead of building them, as `KUBEBUILDER_ASSETS` does.
    #[must_use]
    pub fn with_ready_folder(self, folder: impl Into<PathBuf>) -> Self {
        Self { ready: Some(folder.into()), ..self }
    }

    /// Looks for `go` in this `PATH` instead of the process's own.
    #[must_use]
    pub fn with_search_path(self, path: impl Into<OsString>) -> Self {
        Self { search_path: Some(path.into()), ..self }
    }

    /// Sends progress elsewhere than to stderr.
    #[must_use]
    pub fn with_progress(self, progress: Progress) -> Self {
        Self { progress, ..self }
    }

    /// The binary if it is there already; builds nothing.
    pub fn find(&self, asset: &Asset) -> Option<PathBuf> {
        let path = self.ready_path(asset).unwrap_or_else(|| self.path(asset));
        path.is_file().then_some(path)
    }

    /// The binaries in the order asked for; those that are missing are built, one after the other.
    pub fn ensure(&self, wanted: &[Asset]) -> Result<Vec<PathBuf>, AssetError> {
        let missing = wanted.iter().filter(|asset| self.find(asset).is_none()).count();
        let mut number = 0;
        let mut paths = Vec::new();
        for asset in wanted {
            if let Some(path) = self.find(asset) {
                paths.push(path);
                continue;
            }
            if let (Some(folder), Some(_)) = (&self.ready, self.ready_path(asset)) {
                return Err(AssetError::NotInFolder { folder: folder.clone(), name: asset.name().to_owned() });
            }
            number += 1;
            paths.push(self.build(asset, number, missing)?);
        }
        Ok(paths)
    }

    /// The binaries of a control plane of that Kubernetes version.
    pub fn control_plane(&self, kubernetes: &str) -> Result<ControlPlane, AssetError> {
        let mut paths = self.ensure(&Asset::control_plane(kubernetes)?)?.into_iter();
        // One path for each asset, in the order of CONTROL_PLANE.
        let mut next = || paths.next().unwrap_or_default();
        Ok(ControlPlane { etcd: next(), apiserver: next(), controller_manager: next(), scheduler: next() })
    }

    /// A folder with these binaries under their plain names, fit for `KUBEBUILDER_ASSETS`. Builds nothing.
    pub fn link_set(&self, kubernetes: &str, wanted: &[Asset]) -> Result<PathBuf, AssetError> {
        if let Some(folder) = &self.ready {
            return Ok(folder.clone());
        }
        let folder = self.root.join("sets").join(format!("kubernetes-{kubernetes}"));
        fs::create_dir_all(&folder).map_err(AssetError::io("create", &folder))?;
        for asset in wanted {
            let (link, temporary) = (folder.join(asset.name()), folder.join(temporary_name(asset)));
            std::os::unix::fs::symlink(self.path(asset), &temporary).map_err(AssetError::io("link", &temporary))?;
            fs::rename(&temporary, &link).map_err(AssetError::io("rename to", &link))?;
        }
        Ok(folder)
    }

    fn path(&self, asset: &Asset) -> PathBuf {
        let Asset { recipe, version } = asset;
        let folder = format!("{}-{version}-{}", recipe.name, recipe.digest(version));
        self.root.join("bin").join(folder).join(recipe.name)
    }

    /// Where the binary has to be if a folder of ready binaries is used. A binary whose version only the caller knows is
    /// never taken from there: the folder says no versions.
    fn ready_path(&self, asset: &Asset) -> Option<PathBuf> {
        match asset.recipe.versioning {
            Versioning::Asked(_) => None,
            Versioning::Kubernetes | Versioning::Pinned(_) => Some(self.ready.as_ref()?.join(asset.name())),
        }
    }

    fn build(&self, asset: &Asset, number: usize, total: usize) -> Result<PathBuf, AssetError> {
        let label = asset.to_string();
        let position = format!("{label} ({number} of {total})");
        let work = self.root.join("work").join(match asset.recipe.source {
            Source::Kubernetes { .. } => format!("kubernetes-{}", asset.version),
            Source::Wrapped { .. } | Source::Installed { .. } => format!("{}-{}", asset.name(), asset.version),
        });
        fs::create_dir_all(&work).map_err(AssetError::io("create", &work))?;
        let _lock = self.lock(&work, &position)?;
        let target = self.path(asset);
        if target.is_file() {
            return Ok(target); // another process built it while this one waited for the lock
        }
        let start = Instant::now();
        (self.progress)(&format!("{position}: building (minutes, unless Go has it cached)"));
        let folder = target.parent().unwrap_or(&self.root);
        fs::create_dir_all(folder).map_err(AssetError::io("create", folder))?;
        let environment = vec![("CGO_ENABLED", "0".into())];
        let mut go =
            Go { search_path: self.search_path.as_ref(), environment, label, position, progress: &self.progress };
        let temporary = folder.join(temporary_name(asset));
        compile(&mut go, asset, &work, &temporary)?;
        fs::rename(&temporary, &target).map_err(AssetError::io("rename to", &target))?;
        let (seconds, left) = (start.elapsed().as_secs_f32(), total - number);
        (self.progress)(&format!("{}: built in {seconds:.1} s, {left} left", go.position));
        Ok(target)
    }

    /// Waits until no other process builds in this work folder. The lock ends with the file handle, also by SIGKILL.
    fn lock(&self, work: &Path, position: &str) -> Result<File, AssetError> {
        let path = work.with_added_extension("lock");
        let file = File::create(&path).map_err(AssetError::io("create", &path))?;
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) => {
                (self.progress)(&format!("{position}: waiting for another process that builds the same"));
            }
            Err(TryLockError::Error(source)) => return Err(AssetError::Io { action: "lock", path, source }),
        }
        file.lock().map_err(AssetError::io("lock", path))?;
        Ok(file)
    }
}

fn compile(go: &mut Go<'_>, asset: &Asset, work: &Path, target: &Path) -> Result<(), AssetError> {
    let ldflags = asset.recipe.ldflags(&asset.version);
    let output = target.to_string_lossy();
    let build = |go: &Go<'_>, package: &str| {
        go.run(work, &["build", "-trimpath", "-ldflags", &ldflags, "-o", &output, package], "building").map(drop)
    };
    match asset.recipe.source {
        Source::Kubernetes { package } => {
            module::kubernetes(go, work, &asset.version)?;
            build(go, package)
        }
        Source::Wrapped { module, import, call } => {
            module::wrapped(go, work, asset.name(), (module, import, call), &asset.version)?;
            build(go, ".")
        }
        Source::Installed { module: _, package } => {
            // `go install` names the file itself: it gets a folder of its own, from which the binary is moved.
            let folder = target.with_added_extension("d");
            fs::create_dir_all(&folder).map_err(AssetError::io("create", &folder))?;
            go.environment.push(("GOBIN", folder.clone().into()));
            let package_at = format!("{package}@v{}", asset.version);
            go.run(work, &["install", "-trimpath", "-ldflags", &ldflags, &package_at], "building")?;
            let built = folder.join(package.rsplit('/').next().unwrap_or(package));
            fs::rename(&built, target).map_err(AssetError::io("move", built))?;
            fs::remove_dir_all(&folder).map_err(AssetError::io("remove", folder))
        }
    }
}

fn temporary_name(asset: &Asset) -> String {
    format!(".{}.{}", asset.name(), process::id())
}
