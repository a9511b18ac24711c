//! What a Corefile could gain from its release. Nothing here is needed, so nothing is done unasked.

use crate::edit::EditError;
use crate::tree::Corefile;
use crate::version::Version;

/// A line that kubeadm's default of the time has and this file has not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Suggestion {
    /// `loop`: stop when queries come back.
    Loop,
    /// `ready`: tell when all plugins are ready.
    Ready,
    /// `lameduck 5s` in `health`: go on answering for a while at shutdown.
    Lameduck,
    /// `max_concurrent 1000` in `forward`: bound the memory that slow upstreams cost.
    MaxConcurrent,
}

impl Suggestion {
    /// Why one would want it.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Loop => "loop stops CoreDNS when its own queries come back, instead of running out of memory",
            Self::Ready => "ready tells Kubernetes when the pod can answer",
            Self::Lameduck => "lameduck keeps a pod answering until its Service has forgotten it",
            Self::MaxConcurrent => "max_concurrent bounds the memory that slow upstreams cost",
        }
    }

    /// What a file could gain from a release.
    ///
    /// ```
    /// use corefile::{Suggestion, Version};
    /// let file = corefile::parse(".:53 {\n    health\n    ready\n    loop\n    forward . /etc/resolv.conf\n}\n")?;
    /// let all = Suggestion::for_file(&file, Version::new(1, 14, 7));
    /// assert_eq!(all, [Suggestion::Lameduck, Suggestion::MaxConcurrent]);
    /// let better = all[0].apply(&file)?;
    /// assert_eq!(better.health().unwrap().lameduck.as_deref(), Some("5s"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn for_file(file: &Corefile, version: Version) -> Vec<Self> {
        let has = |plugin: &str| file.servers().any(|server| server.directive(plugin).is_some());
        let lacks = |plugin: &str, property: &str| {
            let uses = file.servers().filter_map(|server| server.directive(plugin)).collect::<Vec<_>>();
            !uses.is_empty() && uses.iter().all(|directive| directive.property(property).is_none())
        };
        let all = [
            (Self::Loop, has("forward") && !has("loop")),
            (Self::Ready, version >= Version::new(1, 5, 0) && !has("ready")),
            (Self::Lameduck, lacks("health", "lameduck")),
            (Self::MaxConcurrent, version >= Version::new(1, 6, 9) && lacks("forward", "max_concurrent")),
        ];
        all.into_iter().filter(|(_, wanted)| *wanted).map(|(suggestion, _)| suggestion).collect()
    }

    /// The file with that line in it: in the first server it fits in.
    pub fn apply(self, file: &Corefile) -> Result<Corefile, EditError> {
        let (plugin, property) = match self {
            Self::Loop => ("forward", None),
            Self::Ready => ("", None),
            Self::Lameduck => ("health", Some("lameduck 5s")),
            Self::MaxConcurrent => ("forward", Some("max_concurrent 1000")),
        };
        let fits = |server: &crate::tree::Server<'_>| plugin.is_empty() || server.directive(plugin).is_some();
        let server = file.servers().find(fits).ok_or(EditError::NotHere)?;
        let mut edit = file.edit();
        match (property, server.directive(plugin)) {
            (Some(line), Some(directive)) => edit.append_property(directive, line),
            _ => edit.append(server, if self == Self::Loop { "loop" } else { "ready" }),
        };
        edit.finish()
    }
}
