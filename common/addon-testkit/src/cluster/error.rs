//! What can go wrong with a test cluster.

use std::path::PathBuf;

use crate::assets::AssetError;

/// Why a test cluster could not do what was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClusterError {
    /// A binary is missing and could not be built.
    #[error(transparent)]
    Assets(#[from] AssetError),
    /// The certificates of the cluster could not be made.
    #[error("cannot make the certificates of the test cluster: {0}")]
    Certificates(#[from] rcgen::Error),
    /// A file or process operation failed.
    #[error("cannot {action} {path}: {source}", path = path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which file or folder.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// A component ended although nobody asked it to.
    #[error("{component} ended by itself ({status}); its log ends with:\n{log}")]
    Exited {
        /// The component.
        component: &'static str,
        /// Its exit status.
        status: String,
        /// The last lines of its log.
        log: String,
    },
    /// Something did not become ready.
    #[error("{what} was not there after {seconds} s (last answer: {last}); the log of {component} ends with:\n{log}")]
    NotReady {
        /// What was waited for.
        what: &'static str,
        /// For how long.
        seconds: u64,
        /// What the last attempt said.
        last: String,
        /// The component that should have done it.
        component: &'static str,
        /// The last lines of its log.
        log: String,
    },
    /// The API server is stopped, or was not stopped before it was started again.
    #[error("the API server is {state}: {remedy}")]
    State {
        /// How it is.
        state: &'static str,
        /// What to do first.
        remedy: &'static str,
    },
    /// No free port was found.
    #[error("no free port between {from} and {to} on {address}: stop other test clusters")]
    NoPort {
        /// The first port that was tried.
        from: u16,
        /// The end of the range.
        to: u16,
        /// The address.
        address: std::net::IpAddr,
    },
    /// A request to the cluster failed.
    #[error("{action}: {source}")]
    Request {
        /// What was tried.
        action: String,
        /// The cause.
        source: Box<kube::Error>,
    },
    /// A kubeconfig was not understood.
    #[error("the kubeconfig {path} is not usable: {source}", path = path.display())]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: Box<kube::config::KubeconfigError>,
    },
    /// A reset left objects behind.
    #[error("these objects did not go away within {seconds} s: {left}")]
    NotPristine {
        /// How long the reset tried.
        seconds: u64,
        /// What is left.
        left: String,
    },
}

impl ClusterError {
    pub(crate) fn io(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { action, path, source }
    }

    pub(crate) fn request(action: impl Into<String>) -> impl FnOnce(kube::Error) -> Self {
        let action = action.into();
        move |source| Self::Request { action, source: Box::new(source) }
    }
}
