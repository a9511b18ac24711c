//! The Corefile, the configuration language of CoreDNS: lossless parse, imports and environment as CoreDNS sees them.
//!
//! Two views of one text:
//!
//! - [`parse`] gives the **syntax tree of one file** ([`Corefile`]): every byte is kept, printing gives back what was
//!   read, [`Corefile::edit`] changes single lines and leaves the rest alone. Imports and environment references stay
//!   as they are written.
//! - [`Corefile::expand`] gives the **text that CoreDNS would run** ([`Expanded`]): snippets and imported files in
//!   place, environment references replaced. Its errors are CoreDNS's own, with line and column.
//!
//! [`Knowledge`] says what each CoreDNS release accepts, and [`check()`] judges a text as that release would;
//! [`migrate()`] takes it from one release to another.
//!
//! The crate is pure: no network, no clock, no file system (files and environment are given by the caller). No input
//! makes it panic or hang; time and memory grow linearly with the input, within [`Limits`].
//!
//! ```
//! let file = corefile::parse("\
//! .:53 {
//!     errors
//!     health {
//!        lameduck 5s
//!     }
//!     kubernetes cluster.local in-addr.arpa ip6.arpa
//!     forward . /etc/resolv.conf
//! }
//! ")?;
//! assert_eq!(file.cluster_domain().as_deref(), Some("cluster.local"));
//! assert_eq!(file.health().unwrap().lameduck.as_deref(), Some("5s"));
//! assert!(file.ready().is_none());
//! # Ok::<(), corefile::ParseError>(())
//! ```

mod check;
mod edit;
mod env;
mod error;
mod expand;
mod files;
mod knowledge;
mod kubeadm;
mod lexer;
mod limits;
mod migrate;
mod node;
mod parser;
mod query;
mod source;
mod span;
mod tree;
mod version;
mod zone;

pub use check::{CheckOptions, Code, Finding, Probes, Report, Severity, check};
pub use edit::{Edit, EditError, write_word};
pub use env::{Environment, environment_references};
pub use error::{ErrorKind, ParseError};
pub use expand::{ExpandOptions, ExpandWarning, Expanded, ExpandedPlugin, ExpandedServer, Word, expand};
pub use files::{Entry, FileSource, MemoryFiles};
pub use knowledge::{
    Arguments, BadRelease, Change, Kind, Knowledge, Lifetime, Listener, Plugin, Property, Release, Slot, Times, Uses,
};
pub use kubeadm::KubeadmDefault;
pub use limits::Limits;
pub use migrate::{Held, Migration, Notice, NoticeKind, Reason, Suggestion, migrate};
pub use parser::{parse, parse_named, parse_with};
pub use query::{HealthEndpoint, ReadyEndpoint};
pub use span::{Position, Span};
pub use tree::{Corefile, Directive, Server, Snippet};
pub use version::{Version, VersionError};
pub use zone::{KeyError, ServerKey, Transport};
