//! A proxy on loopback between an operator process and the API server, which makes faults happen at an exact point.
//!
//! The operator gets a kubeconfig that points here, by plain HTTP/1.1; the proxy asks the API server with the
//! credentials of the kubeconfig it was given. Watches pass unbuffered. Connections that are upgraded (exec, attach,
//! port-forward) do not pass.
//!
//! The proxy has a thread of its own: it goes on when the test blocks.

mod asked;
mod forward;
mod script;

use std::{
    convert::Infallible,
    fs,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::{Path, PathBuf},
    sync::Arc,
    thread::{self, JoinHandle},
    time::Duration,
};

use http::StatusCode;
use tokio::sync::oneshot;

pub use self::asked::Asked;
use self::script::{Fault, Script};
use crate::cluster::{
    ClusterError,
    kubeconfig::{self, Identity},
};

/// A running proxy. Dropping it closes every connection through it.
pub struct Proxy {
    address: SocketAddr,
    kubeconfig: PathBuf,
    script: Arc<Script>,
    stop: Option<oneshot::Sender<Infallible>>,
    thread: Option<JoinHandle<()>>,
}

impl Proxy {
    /// Starts a proxy that asks with the credentials of `kubeconfig`. Its own kubeconfig is written beside that file.
    pub async fn start(kubeconfig: &Path) -> Result<Self, ClusterError> {
        let config = kubeconfig::read(kubeconfig).await?;
        let failed = || ClusterError::io("start a proxy for", kubeconfig);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(failed())?;
        listener.set_nonblocking(true).map_err(failed())?;
        let address = listener.local_addr().map_err(failed())?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed())?;
        let script = Arc::new(Script::default());
        let (stop, stopped) = oneshot::channel();
        let (ready, is_ready) = oneshot::channel();
        let served = forward::serve(listener, config, Arc::clone(&script), ready, stopped);
        let thread = thread::Builder::new()
            .name("test-proxy".to_owned())
            .spawn(move || runtime.block_on(served))
            .map_err(failed())?;
        let path = kubeconfig.with_added_extension(format!("proxy-{}", address.port()));
        let proxy = Self { address, kubeconfig: path, script, stop: Some(stop), thread: Some(thread) };
        let answer = is_ready.await.unwrap_or_else(|_| Err("its thread ended".to_owned()));
        answer.map_err(|error| failed()(std::io::Error::other(error)))?;
        kubeconfig::write(&proxy.kubeconfig, &proxy.url(), None, &Identity::None)?;
        Ok(proxy)
    }

    /// The kubeconfig that leads through the proxy.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Where the proxy listens.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// How many [writes](Asked::is_write) the API server has answered, well or not.
    pub fn writes(&self) -> usize {
        self.script.writes()
    }

    /// Lets `writes` more writes through. When the API server has answered the last of them, nothing passes any more, in
    /// either direction: the answer is kept back, connections hang, and [`Hold::reached`] returns. With 0 that is now.
    /// From this call on the writes are counted; they pass one at a time.
    pub fn hold_after_writes(&self, writes: usize) -> Hold {
        Hold { held: self.script.hold_after(writes) }
    }

    /// Whether nothing passes.
    pub fn is_held(&self) -> bool {
        self.script.is_held()
    }

    /// Ends a hold, or takes back one that is not reached yet.
    pub fn release(&self) {
        self.script.release();
    }

    /// Answers matching requests with this status; they never reach the API server. A predicate with a state can count.
    pub fn fail_with(&self, predicate: impl Fn(&Asked) -> bool + Send + Sync + 'static, status: StatusCode) {
        self.script.add(predicate, Fault::Fail(status));
    }

    /// Forwards matching requests so much later.
    pub fn delay(&self, predicate: impl Fn(&Asked) -> bool + Send + Sync + 'static, duration: Duration) {
        self.script.add(predicate, Fault::Delay(duration));
    }

    /// Takes back every failure and delay.
    pub fn clear_faults(&self) {
        self.script.clear();
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic in the thread has been reported by the thread.
            let _ = thread.join();
        }
        // It goes with the cluster's folder otherwise.
        let _ = fs::remove_file(&self.kubeconfig);
    }
}

/// The end of what passes, asked for with [`Proxy::hold_after_writes`].
#[derive(Debug)]
#[must_use]
pub struct Hold {
    held: tokio::sync::watch::Receiver<bool>,
}

impl Hold {
    /// Returns once nothing passes any more; never, if so many writes are not made.
    pub async fn reached(mut self) {
        if self.held.wait_for(|held| *held).await.is_err() {
            // The proxy is gone, and with it everything that could pass.
        }
    }
}
