//! The shared framework of add-on operators: everything that talks to the API server.
//!
//! An operator's main is one call of [`main`] with its [`Addon`](addon_core::Addon). One event loop watches what the
//! add-on depends on (module `cache`), asks the pure core for a plan, and carries out the actions that are due
//! (module `request`), until nothing is left to do.
//!
//! Invariants: nothing is decided here; every call has a timeout; a failure of one object holds up no other; nothing is
//! written while what is known is incomplete.

mod backoff;
mod cache;
mod client;
mod failure;
mod held_up;
mod reconcile;
mod request;
mod runtime;

pub use addon_core as core;
pub use runtime::{Options, main};
