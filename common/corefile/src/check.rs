//! Judges a Corefile as CoreDNS of a given release would, before it has to.
//!
//! An **error** is what makes that CoreDNS refuse to start; a **warning** is a file that starts but does not do what it
//! says; a **note** is worth knowing. Nothing is opened, resolved or contacted: files of the pod, names that are looked
//! up at the start and addresses of the host are taken to be there.

mod advice;
mod dispenser;
mod distance;
mod finding;
mod own;
mod plugin;
mod regex;
mod servers;
mod values;

pub use finding::{Code, Finding, Severity};

use crate::env::Environment;
use crate::error::{ErrorKind, ParseError};
use crate::expand::{ExpandOptions, ExpandWarning, Expanded, ExpandedServer, Word, expand_source};
use crate::files::{Entry, FileSource};
use crate::knowledge::{Knowledge, Plugin, Release};
use crate::limits::Limits;
use crate::source::Source;
use crate::tree::Corefile;
use crate::version::Version;
use dispenser::Refusal;
use plugin::{Site, Use};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

/// The probes of the pods, to be held against `health` and `ready`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Probes {
    /// Port of the liveness probe, if there is one over HTTP.
    pub liveness: Option<u16>,
    /// Port of the readiness probe, if there is one over HTTP.
    pub readiness: Option<u16>,
}

/// What a check needs to know beyond the text.
///
/// ```
/// use corefile::{CheckOptions, Version, check};
/// let text = ".:53 {\n    ready {\n        moniter until-ready\n    }\n    forward . /etc/resolv.conf\n}\n";
/// assert!(!check("Corefile", text, &CheckOptions::new(Version::new(1, 14, 2))).is_refused());
///
/// let report = check("Corefile", text, &CheckOptions::new(Version::new(1, 14, 6)));
/// let finding = report.refusal().unwrap();
/// assert_eq!((finding.position.line, finding.position.column), (3, 9));
/// assert_eq!(finding.message, "plugin/ready: unknown property 'moniter'");
/// assert_eq!(finding.remedy.as_deref(), Some("did you mean 'monitor'?"));
/// ```
#[derive(Clone)]
pub struct CheckOptions<'a> {
    release: Release,
    node_cache: bool,
    files: Option<&'a dyn FileSource>,
    environment: Environment,
    probes: Probes,
    cluster_dns: Vec<IpAddr>,
    resolv_conf: Option<&'a str>,
}

impl<'a> CheckOptions<'a> {
    /// A check for that release of CoreDNS: no files, no environment variables, no probes.
    pub fn new(version: Version) -> Self {
        Self {
            release: Knowledge::get().release(version),
            node_cache: false,
            files: None,
            environment: Environment::new(),
            probes: Probes::default(),
            cluster_dns: Vec::new(),
            resolv_conf: None,
        }
    }

    /// A check for the image of NodeLocal DNS cache of that tag, with the CoreDNS inside and its fewer plugins. None if
    /// the tag is older than what is known.
    ///
    /// ```
    /// use corefile::{CheckOptions, Version, check};
    /// let options = CheckOptions::for_node_cache(Version::new(1, 26, 4)).unwrap();
    /// let report = check("Corefile", "cluster.local:53 {\n    kubernetes\n}\n", &options);
    /// assert!(report.refusal().unwrap().message.contains("Unknown directive 'kubernetes'"));
    /// ```
    pub fn for_node_cache(tag: Version) -> Option<Self> {
        let version = Knowledge::get().node_cache_coredns(tag)?;
        Some(Self { node_cache: true, ..Self::new(version) })
    }

    /// Where imported files come from.
    #[must_use]
    pub fn files(mut self, files: &'a dyn FileSource) -> Self {
        self.files = Some(files);
        self
    }

    /// The environment variables of the container.
    #[must_use]
    pub fn environment(mut self, environment: Environment) -> Self {
        self.environment = environment;
        self
    }

    /// The probes of the pods.
    #[must_use]
    pub fn probes(mut self, probes: Probes) -> Self {
        self.probes = probes;
        self
    }

    /// The addresses of the cluster's DNS Service: a Corefile behind it must not forward to it.
    #[must_use]
    pub fn cluster_dns(mut self, addresses: Vec<IpAddr>) -> Self {
        self.cluster_dns = addresses;
        self
    }

    /// The text of the node's resolv.conf.
    #[must_use]
    pub fn resolv_conf(mut self, text: &'a str) -> Self {
        self.resolv_conf = Some(text);
        self
    }

    pub(crate) fn version(&self) -> Version {
        self.release.rules_of
    }

    fn has_plugin(&self, name: &str) -> bool {
        let knowledge = Knowledge::get();
        knowledge.has_plugin(name, self.version()) && (!self.node_cache || knowledge.node_cache_has_plugin(name))
    }
}

/// The outcome of a check.
#[derive(Debug, Clone)]
pub struct Report {
    /// The release whose rules were used.
    pub release: Release,
    /// What was found, by file and place.
    pub findings: Vec<Finding>,
    refusal: Option<Finding>,
}

impl Report {
    /// Whether CoreDNS would refuse to start.
    pub fn is_refused(&self) -> bool {
        self.refusal.is_some()
    }

    /// The error that CoreDNS would stop at, of all that were found.
    pub fn refusal(&self) -> Option<&Finding> {
        self.refusal.as_ref()
    }
}

/// A server as it was set up.
struct ServerUses<'a> {
    server: &'a ExpandedServer,
    keys: Vec<servers::Key<'a>>,
    /// The zones of those keys, in lower case.
    zones: Vec<String>,
    plugins: Vec<(&'static Plugin, Vec<Use<'a>>)>,
}

impl<'a> ServerUses<'a> {
    fn uses(&self, plugin: &str) -> &[Use<'a>] {
        self.plugins.iter().find(|(known, _)| known.name == plugin).map_or(&[], |(_, uses)| uses)
    }
}

/// Judges a text. Its name is where it lies in the pod, so that imports are found; errors show it.
///
/// ```
/// use corefile::{CheckOptions, Severity, Version, check};
/// let text = ".:53 {\n    forward . 1.1.1.1 {\n        max_concurrent 1000\n    }\n}\n";
/// let report = check("Corefile", text, &CheckOptions::new(Version::new(1, 6, 7)));
/// assert_eq!(report.findings[0].severity, Severity::Error);
/// assert_eq!(report.findings[0].to_string(), "\
/// error[plugin-setup]: plugin/forward: unknown property 'max_concurrent'
///   --> Corefile:3:9
///    |
///  3 |         max_concurrent 1000
///    |         ^^^^^^^^^^^^^^
///    = help: 'max_concurrent' needs CoreDNS 1.6.9 or newer: upgrade first or remove the line
/// ");
/// ```
pub fn check(name: &str, text: &str, options: &CheckOptions<'_>) -> Report {
    match Source::read(name, text, &Limits::default()) {
        Ok(source) => check_source(&Arc::new(source), options),
        Err(error) => report(options, vec![refused_parse(&error, name, text, options)]),
    }
}

impl Corefile {
    /// Judges this file. See [`check()`].
    ///
    /// ```
    /// use corefile::{CheckOptions, Version};
    /// let file = corefile::parse(".:53 {\n    cache 0\n}\n")?;
    /// assert!(file.check(&CheckOptions::new(Version::new(1, 14, 7))).is_refused());
    /// # Ok::<(), corefile::ParseError>(())
    /// ```
    pub fn check(&self, options: &CheckOptions<'_>) -> Report {
        check_source(&self.source, options)
    }
}

fn check_source(source: &Arc<Source>, options: &CheckOptions<'_>) -> Report {
    let mut findings = Vec::new();
    let expanded = match expand_as_coredns(source, options) {
        Ok(expanded) => expanded,
        Err(error) => {
            findings.push(refused_parse(&error, &source.name, &source.text, options));
            return report(options, findings);
        }
    };
    warn_of_expansion(&expanded, &mut findings);
    let keys = servers::check_keys(&expanded, options, &mut findings);
    if findings.iter().all(|finding| finding.severity != Severity::Error) {
        let servers = set_up(&expanded, keys, options, &mut findings);
        servers::check_ports(&servers, &mut findings);
        servers::check_overlaps(&servers, options, &mut findings);
        servers::check_companions(&servers, options, &mut findings);
        servers::check_listeners(&servers, options, &mut findings);
        advice::give(&servers, options, &mut findings);
    }
    advice::about_release(&source.name, options, &mut findings);
    report(options, findings)
}

fn report(options: &CheckOptions<'_>, mut findings: Vec<Finding>) -> Report {
    // Errors were found in the order in which CoreDNS meets them.
    let refusal = findings.iter().find(|finding| finding.severity == Severity::Error).cloned();
    findings.sort_by(|a, b| (&a.file, a.position.offset, a.severity).cmp(&(&b.file, b.position.offset, b.severity)));
    Report { release: options.release, findings, refusal }
}

fn expand_as_coredns(source: &Arc<Source>, options: &CheckOptions<'_>) -> Result<Expanded, ParseError> {
    let known = |plugin: &str| options.has_plugin(plugin);
    let mut expansion = ExpandOptions::new().environment(&options.environment).known_plugins(&known);
    if let Some(files) = options.files {
        expansion = expansion.files(files);
    }
    if options.version() < Version::new(1, 13, 0) {
        expansion = expansion.before_import_caps();
    }
    expand_source(source, &expansion)
}

fn refused_parse(error: &ParseError, name: &str, text: &str, options: &CheckOptions<'_>) -> Finding {
    let code = match error.kind {
        ErrorKind::UnknownDirective { .. } => Code::UnknownPlugin,
        _ if error.is_limit() => Code::Limit,
        _ => Code::Syntax,
    };
    let mut finding = Finding::at_position(code, &error.file, error.position, error.kind.to_string());
    let imported = if error.file == name { None } else { options.files.map(|files| files.entry(&error.file)) };
    let text = match &imported {
        None => text,
        Some(Entry::File(text)) => text,
        Some(_) => return finding,
    };
    finding.take_line(text, error);
    finding.remedy = advice::for_parse_error(error, text, options);
    finding
}

fn warn_of_expansion(expanded: &Expanded, findings: &mut Vec<Finding>) {
    for warning in &expanded.warnings {
        findings.push(match warning {
            ExpandWarning::NoMatch { pattern } | ExpandWarning::Skipped { pattern } => {
                let message = format!("no file matches '{}'", pattern.text());
                Finding::new(Code::ImportMatchesNothing, pattern, message)
            }
            ExpandWarning::UnsetVariable { name, word } => {
                let message = format!("the environment variable {name} is not set, so it is the empty string");
                Finding::new(Code::UnsetVariable, word, message)
                    .remedy("set it in the container, or write the value here")
            }
        });
    }
}

/// Sets all plugins up, plugin by plugin in CoreDNS's order, and each in one server after the other.
fn set_up<'a>(
    expanded: &'a Expanded,
    keys: Vec<Vec<servers::Key<'a>>>,
    options: &CheckOptions<'_>,
    findings: &mut Vec<Finding>,
) -> Vec<ServerUses<'a>> {
    let with_keys = expanded.servers.iter().zip(keys);
    let mut servers: Vec<ServerUses<'a>> = with_keys
        .map(|(server, keys)| ServerUses { server, zones: servers::zones_of(&keys), keys, plugins: Vec::new() })
        .collect();
    let knowledge = Knowledge::get();
    // By place of the plugin in CoreDNS's order, then by server: the words of all its uses there.
    let mut words: BTreeMap<(usize, usize), Vec<&Word>> = BTreeMap::new();
    for (number, server) in expanded.servers.iter().enumerate() {
        for used in &server.plugins {
            if let Some(place) = knowledge.plugin_place(&used.name) {
                words.entry((place, number)).or_default().extend(&used.words);
            }
        }
    }
    for ((place, number), words) in words {
        let plugin = &knowledge.plugins()[place];
        let server = &mut servers[number];
        advice::about_unread(plugin, server.server, options.version(), findings);
        let site = Site { version: options.version(), zones: &server.zones, placeholders: options.node_cache };
        match plugin::set_up(plugin, words, &site) {
            Ok(uses) => server.plugins.push((plugin, uses)),
            Err(refusal) => findings.push(refused_plugin(plugin, &refusal, server.server, options)),
        }
    }
    servers
}

fn refused_plugin(plugin: &Plugin, refusal: &Refusal, server: &ExpandedServer, options: &CheckOptions<'_>) -> Finding {
    let message = format!("plugin/{}: {}", plugin.name, refusal.message);
    let finding = Finding::new(Code::PluginSetup, &refusal.at, message);
    let by_name = plugin::remedy(plugin, refusal.at.text(), options.version())
        .filter(|_| refusal.message.starts_with("unknown property"));
    match by_name.or_else(|| advice::for_refusal(refusal, server, plugin)) {
        Some(remedy) => finding.remedy(remedy),
        None => finding,
    }
}
