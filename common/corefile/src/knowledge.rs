//! What each CoreDNS release accepts and does: plugins, properties, known faults, changes of behaviour.
//!
//! All of it stands in one reviewed file, `data/knowledge.txt`, read once. A release newer than the newest in that file
//! is treated as the newest, and [`Knowledge::release`] says so.

mod arguments;
mod reader;

pub use arguments::{Arguments, Kind, Slot, Times};

use crate::version::Version;
use std::collections::HashMap;
use std::sync::OnceLock;

/// When something exists: from a release on, up to the one that removes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Lifetime {
    /// The first release that has it; `None` if it is older than the oldest release known here.
    pub since: Option<Version>,
    /// The first release without it.
    pub removed: Option<Version>,
}

impl Lifetime {
    /// Whether that release has it.
    pub fn covers(&self, version: Version) -> bool {
        self.since.is_none_or(|since| version >= since) && self.removed.is_none_or(|removed| version < removed)
    }
}

/// How many uses of a plugin in one server CoreDNS takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Uses {
    /// Any number.
    Each,
    /// One: a second use is refused.
    Once,
    /// One is read, further ones are passed over in silence.
    First,
    /// One: anything more is a wrong count of arguments.
    Only,
}

/// A plugin of CoreDNS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plugin {
    /// Its name.
    pub name: String,
    /// The releases that have it.
    pub lifetime: Lifetime,
    /// How often it may be used in a server.
    pub uses: Uses,
    /// What may stand behind its name.
    pub arguments: Arguments,
    /// What may stand in its block.
    pub properties: Vec<Property>,
    /// Whether it has rules that go beyond what is said here.
    pub has_own_rules: bool,
    /// Whether further words behind the arguments are read as a further use.
    pub takes_next: bool,
    /// Whether it may be taken out for a release that does not have it: answers stay the same.
    pub is_tuning: bool,
    no_block: Before,
    lax: Before,
    unread: Before,
}

/// Never, always, or before a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Before {
    Never,
    Always,
    Release(Version),
}

impl Before {
    fn holds(self, version: Version) -> bool {
        match self {
            Self::Never => false,
            Self::Always => true,
            Self::Release(release) => version < release,
        }
    }
}

impl Plugin {
    /// Whether that release looks for a block at all. If not, what stands in one is read as further uses.
    pub fn reads_block(&self, version: Version) -> bool {
        !self.no_block.holds(version)
    }

    /// Whether that release passes over unknown properties in silence.
    pub fn is_lax(&self, version: Version) -> bool {
        self.lax.holds(version)
    }

    /// Whether that release reads nothing behind the name.
    pub fn is_unread(&self, version: Version) -> bool {
        self.unread.holds(version)
    }

    /// The property of that name, whichever releases have it.
    pub fn property(&self, name: &str) -> Option<&Property> {
        self.properties.iter().find(|property| property.name == name)
    }

    /// How often that release takes it in one server. `forward` may be repeated only from 1.9.4.
    pub fn uses_in(&self, version: Version) -> Uses {
        if self.name == "forward" && version < Version::new(1, 9, 4) { Uses::Once } else { self.uses }
    }
}

/// A line in the block of a plugin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Property {
    /// Its name.
    pub name: String,
    /// The releases that have it.
    pub lifetime: Lifetime,
    /// What may stand behind its name.
    pub arguments: Arguments,
    /// Whether a second use is refused.
    pub unique: bool,
    /// Whether further words on the line are read as properties.
    pub takes_next: bool,
    /// Whether it may be taken out for a release that does not have it: answers stay the same.
    pub is_tuning: bool,
}

/// A release that should not be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadRelease {
    /// The release.
    pub version: Version,
    /// The next one without the fault.
    pub instead: Version,
    /// What is wrong.
    pub reason: String,
    /// Where that is reported.
    pub evidence: String,
}

/// Something that means another thing from a release on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The first release with the new behaviour.
    pub version: Version,
    /// The plugin concerned; none if every Corefile is.
    pub plugin: Option<String>,
    /// What changed.
    pub text: String,
    /// Where that is reported, if it is.
    pub evidence: Option<String>,
}

/// A port that a plugin opens once for the whole process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listener {
    /// The plugin.
    pub plugin: String,
    /// Where it listens unless told otherwise.
    pub default: String,
    /// Whether several servers may ask for it at one address.
    pub shared: bool,
}

/// A version, as far as it is known here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Release {
    /// The version that was asked for.
    pub asked: Version,
    /// The version whose rules hold.
    pub rules_of: Version,
}

impl Release {
    /// Whether the version is newer than everything known here, so that its rules are a guess.
    pub fn is_newer_than_known(&self) -> bool {
        self.asked > self.rules_of
    }
}

/// All that is known about CoreDNS's releases.
///
/// ```
/// use corefile::{Knowledge, Version};
/// let knowledge = Knowledge::get();
/// assert!(knowledge.has_plugin("view", Version::new(1, 10, 0)));
/// assert!(!knowledge.has_plugin("view", Version::new(1, 9, 4)));
/// let forward = knowledge.plugin("forward").unwrap();
/// assert!(!forward.property("next").unwrap().lifetime.covers(Version::new(1, 11, 3)));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Knowledge {
    releases: Vec<Version>,
    plugins: Vec<Plugin>,
    /// Where in `plugins` each name is.
    places: HashMap<String, usize>,
    bad: Vec<BadRelease>,
    changes: Vec<Change>,
    listeners: Vec<Listener>,
    node_cache: Vec<(Version, Version, Version)>,
    node_cache_plugins: Vec<String>,
}

impl Knowledge {
    /// The knowledge that comes with this library.
    pub fn get() -> &'static Self {
        static KNOWLEDGE: OnceLock<Knowledge> = OnceLock::new();
        // A line that cannot be read is left out; a test sees to it that there is none.
        KNOWLEDGE.get_or_init(|| reader::read(include_str!("../data/knowledge.txt")).0)
    }

    /// The releases known, oldest first.
    pub fn releases(&self) -> &[Version] {
        &self.releases
    }

    /// The newest release known.
    pub fn newest(&self) -> Version {
        self.releases.last().copied().unwrap_or(Version::new(1, 0, 0))
    }

    /// How far a version is known.
    ///
    /// ```
    /// use corefile::{Knowledge, Version};
    /// let knowledge = Knowledge::get();
    /// let unheard_of = knowledge.release(Version::new(9, 0, 0));
    /// assert!(unheard_of.is_newer_than_known());
    /// assert_eq!(unheard_of.rules_of, knowledge.newest());
    /// ```
    pub fn release(&self, version: Version) -> Release {
        Release { asked: version, rules_of: version.min(self.newest()) }
    }

    /// All plugins, of all releases, in the order in which CoreDNS sets them up.
    pub fn plugins(&self) -> &[Plugin] {
        &self.plugins
    }

    /// The plugin of that name.
    pub fn plugin(&self, name: &str) -> Option<&Plugin> {
        self.plugin_place(name).map(|place| &self.plugins[place])
    }

    /// The place of a plugin in [`Self::plugins`].
    pub(crate) fn plugin_place(&self, name: &str) -> Option<usize> {
        self.places.get(name).copied()
    }

    /// Whether the image of that release has the plugin.
    pub fn has_plugin(&self, name: &str, version: Version) -> bool {
        self.plugin(name).is_some_and(|plugin| plugin.lifetime.covers(self.release(version).rules_of))
    }

    /// Why that release should not be used, if there is a reason.
    ///
    /// ```
    /// use corefile::{Knowledge, Version};
    /// let bad = Knowledge::get().bad_release(Version::new(1, 12, 0)).unwrap();
    /// assert_eq!((bad.instead, bad.evidence.as_str()), (Version::new(1, 12, 1), "coredns/coredns#7177"));
    /// assert!(Knowledge::get().bad_release(Version::new(1, 12, 1)).is_none());
    /// ```
    pub fn bad_release(&self, version: Version) -> Option<&BadRelease> {
        self.bad.iter().find(|bad| bad.version == version)
    }

    /// The changes met on the way from one release to a newer one.
    ///
    /// ```
    /// use corefile::{Knowledge, Version};
    /// let changes = Knowledge::get().changes(Version::new(1, 14, 2), Version::new(1, 14, 6));
    /// assert!(changes.iter().any(|change| change.plugin.as_deref() == Some("ready")));
    /// ```
    pub fn changes(&self, from: Version, to: Version) -> Vec<&Change> {
        self.changes.iter().filter(|change| from < change.version && change.version <= to).collect()
    }

    /// The ports opened once for the whole process.
    pub fn listeners(&self) -> &[Listener] {
        &self.listeners
    }

    /// The CoreDNS inside a node-cache image of that tag: the newest known one for a newer tag, none for an older one.
    ///
    /// ```
    /// use corefile::{Knowledge, Version};
    /// let knowledge = Knowledge::get();
    /// assert_eq!(knowledge.node_cache_coredns(Version::new(1, 26, 4)), Some(Version::new(1, 11, 3)));
    /// assert_eq!(knowledge.node_cache_coredns(Version::new(1, 22, 9)), Some(Version::new(1, 7, 0)));
    /// ```
    pub fn node_cache_coredns(&self, tag: Version) -> Option<Version> {
        self.node_cache.iter().rev().find(|(first, ..)| tag >= *first).map(|(_, _, inside)| *inside)
    }

    /// Whether node-cache has the plugin: its list is much shorter than that of CoreDNS.
    pub fn node_cache_has_plugin(&self, name: &str) -> bool {
        self.node_cache_plugins.iter().any(|plugin| plugin == name)
    }
}
