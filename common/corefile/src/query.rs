//! What operators ask of a Corefile: which zones the cluster answers for, and where the probes are.
//!
//! Snippets of the same file are seen; other imported files only through [`Corefile::expand`]. Environment references
//! are not replaced: a zone that is one comes out as written.

use crate::expand::{ExpandOptions, Expanded, ExpandedPlugin, ExpandedServer, Word};
use crate::tree::Corefile;
use crate::zone::ServerKey;
use std::collections::HashSet;

/// The `health` plugin: the process is alive.
///
/// ```
/// let file = corefile::parse(".:53 {\n    health :8081 {\n        lameduck 20s\n    }\n}\n")?;
/// let health = file.health().unwrap();
/// assert_eq!((health.address.as_str(), health.port), (":8081", 8081));
/// assert_eq!(health.lameduck.as_deref(), Some("20s"));
/// # Ok::<(), corefile::ParseError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HealthEndpoint {
    /// Where it listens, as written; `:8080` if nothing is.
    pub address: String,
    /// The port of that address; 8080 if it has none or an unreadable one.
    pub port: u16,
    /// How long the process goes on at shutdown: a Go duration, as written. None if the option is not there.
    pub lameduck: Option<String>,
}

/// The `ready` plugin: all plugins are ready.
///
/// ```
/// assert_eq!(corefile::parse(".:53 {\n    ready\n}\n")?.ready().unwrap().port, 8181);
/// assert!(corefile::parse(".:53 {\n    health\n}\n")?.ready().is_none());
/// # Ok::<(), corefile::ParseError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadyEndpoint {
    /// Where it listens, as written; `:8181` if nothing is.
    pub address: String,
    /// The port of that address; 8181 if it has none or an unreadable one.
    pub port: u16,
}

impl Expanded {
    /// See [`Corefile::kubernetes_zones`].
    pub fn kubernetes_zones(&self) -> Vec<String> {
        let mut zones = Vec::new();
        let mut seen = HashSet::new();
        for server in &self.servers {
            for plugin in server.plugins.iter().filter(|plugin| plugin.name == "kubernetes") {
                let arguments: Vec<&str> = plugin.arguments().map(Word::text).collect();
                let keys = if arguments.is_empty() { server.key_texts() } else { arguments };
                for zone in keys.into_iter().filter_map(|key| ServerKey::read(key).ok()).flat_map(|key| key.zones) {
                    if seen.insert(zone.clone()) {
                        zones.push(zone);
                    }
                }
            }
        }
        zones
    }

    /// See [`Corefile::cluster_domain`].
    pub fn cluster_domain(&self) -> Option<String> {
        self.kubernetes_zones().into_iter().find(|zone| {
            let is_under = |parent: &str| zone == parent || zone.ends_with(&format!(".{parent}"));
            zone != "." && !is_under("in-addr.arpa") && !is_under("ip6.arpa")
        })
    }

    /// See [`Corefile::health`].
    pub fn health(&self) -> Option<HealthEndpoint> {
        let plugin = self.plugins("health").next()?;
        let (address, port) = plugin.listener(":8080", 8080);
        let lameduck = plugin.words.windows(2).find(|pair| pair[0].text() == "lameduck");
        Some(HealthEndpoint { address, port, lameduck: lameduck.map(|pair| pair[1].text().to_owned()) })
    }

    /// See [`Corefile::ready`].
    pub fn ready(&self) -> Option<ReadyEndpoint> {
        let (address, port) = self.plugins("ready").next()?.listener(":8181", 8181);
        Some(ReadyEndpoint { address, port })
    }

    /// All uses of a plugin, in all servers.
    ///
    /// ```
    /// let file = corefile::parse("a.org {\n log\n}\nb.org {\n log\n}\n")?;
    /// assert_eq!(file.expand(&corefile::ExpandOptions::new())?.plugins("log").count(), 2);
    /// # Ok::<(), corefile::ParseError>(())
    /// ```
    pub fn plugins(&self, name: &str) -> impl Iterator<Item = &ExpandedPlugin> {
        self.servers.iter().flat_map(|server| &server.plugins).filter(move |plugin| plugin.name == name)
    }
}

impl ExpandedServer {
    fn key_texts(&self) -> Vec<&str> {
        self.keys.iter().map(|(key, _)| key.as_str()).collect()
    }
}

impl ExpandedPlugin {
    /// The words on the line of the name, up to a block.
    pub fn arguments(&self) -> impl Iterator<Item = &Word> {
        let on_line = self.words.windows(2).take_while(|pair| pair[0].is_followed_on_line_by(&pair[1]));
        on_line.map(|pair| &pair[1]).take_while(|word| word.text() != "{")
    }

    fn listener(&self, default: &str, default_port: u16) -> (String, u16) {
        let address = self.arguments().next().map_or(default, Word::text);
        let port = address.rsplit_once(':').and_then(|(_, port)| port.parse().ok()).unwrap_or(default_port);
        (address.to_owned(), port)
    }
}

impl Corefile {
    /// The zones that the `kubernetes` plugin answers for: its arguments, or the zones of its server. Lower case, without
    /// final dot (the root is `.`); network ranges come out as the reverse zones CoreDNS makes of them.
    ///
    /// ```
    /// let file = corefile::parse("Cluster.Local.:53 10.96.0.0/12 {\n    kubernetes\n}\n")?;
    /// assert_eq!(file.kubernetes_zones()[..2], ["cluster.local", "96.10.in-addr.arpa"]);
    /// # Ok::<(), corefile::ParseError>(())
    /// ```
    pub fn kubernetes_zones(&self) -> Vec<String> {
        self.seen_alone().map(|expanded| expanded.kubernetes_zones()).unwrap_or_default()
    }

    /// The cluster's domain: the first of [`Self::kubernetes_zones`] that is no reverse zone.
    ///
    /// ```
    /// let file = corefile::parse(".:53 {\n    kubernetes in-addr.arpa k8s.example.org. ip6.arpa\n}\n")?;
    /// assert_eq!(file.cluster_domain().as_deref(), Some("k8s.example.org"));
    /// # Ok::<(), corefile::ParseError>(())
    /// ```
    pub fn cluster_domain(&self) -> Option<String> {
        self.seen_alone()?.cluster_domain()
    }

    /// The `health` plugin, if any server has it. It listens once for the whole process.
    pub fn health(&self) -> Option<HealthEndpoint> {
        self.seen_alone()?.health()
    }

    /// The `ready` plugin, if any server has it.
    pub fn ready(&self) -> Option<ReadyEndpoint> {
        self.seen_alone()?.ready()
    }

    fn seen_alone(&self) -> Option<Expanded> {
        self.expand(&ExpandOptions::new().skip_missing_imports()).ok()
    }
}
