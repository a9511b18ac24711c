//! What can go wrong when a binary is fetched or built: each message names the thing, the cause and what to do.

use std::path::PathBuf;

/// Why a binary is not there.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AssetError {
    /// No such row in the table of recipes.
    #[error("no recipe builds `{name}`; there are recipes for: {known}")]
    UnknownAsset {
        /// The name asked for.
        name: String,
        /// Every name that has a recipe.
        known: String,
    },
    /// The version is not of the form 1.2.3.
    #[error("`{version}` is not a version of {name}: write it as major.minor.patch, for example {example}")]
    BadVersion {
        /// The asset asked for.
        name: String,
        /// What was given as its version.
        version: String,
        /// A version that would be understood.
        example: String,
    },
    /// The recipe has no version of its own and none was given.
    #[error("{name} needs a version: write {name}@VERSION, for example {name}@{example}")]
    VersionMissing {
        /// The asset asked for.
        name: String,
        /// A version that would be understood.
        example: String,
    },
    /// `KUBEBUILDER_ASSETS` is set, but its folder lacks the binary.
    #[error(
        "KUBEBUILDER_ASSETS points to {folder}, which has no `{name}`: \
         put the binary there, or unset the variable so that it is built",
        folder = folder.display()
    )]
    NotInFolder {
        /// The folder that the variable names.
        folder: PathBuf,
        /// The binary that is not in it.
        name: String,
    },
    /// There is no `go` to build with.
    #[error(
        "{what} has to be built, but there is no `go` in PATH: install Go (https://go.dev/dl), \
         or set KUBEBUILDER_ASSETS to a folder that has the binaries"
    )]
    GoMissing {
        /// The asset and its version.
        what: String,
    },
    /// The `go` that is there is older than the module demands.
    #[error("{what} needs Go {needed} or newer, but `go` is {found}: install a newer Go, or ask for an older version")]
    GoTooOld {
        /// The asset and its version.
        what: String,
        /// The Go version that the module asks for.
        needed: String,
        /// The Go version that was found.
        found: String,
    },
    /// The module source does not serve the module, or not this version of it.
    #[error(
        "{what}: the module source refused {module}: {cause}. \
         Ask for a version that is served, or point GOPROXY at a source that has it"
    )]
    ModuleRefused {
        /// The asset and its version.
        what: String,
        /// The module and version that was refused.
        module: String,
        /// Go's own words.
        cause: String,
    },
    /// The module source could not be reached.
    #[error("{what}: the module source could not be reached: {cause}. Check the network and GOPROXY, then try again")]
    Unreachable {
        /// The asset and its version.
        what: String,
        /// Go's own words.
        cause: String,
    },
    /// Go failed for another reason.
    #[error("{what}: `{command}` failed in {folder}:\n{output}", folder = folder.display())]
    GoFailed {
        /// The asset and its version.
        what: String,
        /// The command line.
        command: String,
        /// Where it ran.
        folder: PathBuf,
        /// The last lines that it printed.
        output: String,
    },
    /// Neither `XDG_CACHE_HOME` nor `HOME` says where the cache is.
    #[error("no cache folder: set XDG_CACHE_HOME or HOME")]
    NoCacheFolder,
    /// A file operation failed.
    #[error("cannot {action} {path}: {source}", path = path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which file or folder.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
}

impl AssetError {
    pub(super) fn io(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { action, path, source }
    }
}
