//! The pure core of the add-on framework.
//!
//! Everything an add-on operator decides is decided here, by functions of their arguments: which version of an add-on
//! fits a cluster ([`catalog`]), what its objects look like ([`package`], [`mod@render`], [`patch`]), what has to change and
//! who owns it today ([`fields`], [`mod@plan`]), and what to tell the user ([`finding`], [`status`]).
//!
//! Invariant: no I/O, no clock, no randomness, no Kubernetes client. The same input gives the same bytes.

pub mod addon;
pub mod adopt;
pub mod api;
pub mod catalog;
pub mod check;
pub mod fields;
pub mod finding;
pub mod health;
pub mod object;
pub mod package;
pub mod patch;
pub mod path;
pub mod plan;
pub mod rbac;
pub mod render;
pub mod schema;
pub mod status;
pub mod version;
pub mod yaml;

pub use addon::{Addon, Desired, Observed, VersionStatus};
pub use finding::{Finding, Severity};
pub use object::{Object, ObjectKey};
pub use path::FieldPath;
pub use plan::{Action, Plan, Wave};
pub use version::Version;
