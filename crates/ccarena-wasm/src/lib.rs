//! WebAssembly modules as congestion controllers.
//!
//! A module exports the functions of `ccarena.h`. [`Module::load`] checks it, and [`Module::controller`] makes the
//! controller of one flow: an instance with a memory of its own. A controller that traps, takes too long or answers with
//! nonsense gives up ([`Controller::failure`](ccarena_cc::Controller::failure)), and nothing else is touched.
//!
//! Modules import one function, a seeded source of random numbers. They have no clock and no files, and all their
//! arithmetic gives the same bits on all machines. Without the feature `engine`, modules are refused.

pub mod abi;
pub mod about;
mod cache;
pub mod limits;

#[cfg(feature = "engine")]
mod controller;
#[cfg(feature = "engine")]
mod describe;
#[cfg(feature = "engine")]
mod instance;
#[cfg(feature = "engine")]
mod module;

#[cfg(not(feature = "engine"))]
mod absent;

pub use about::{About, Parameter};
#[cfg(not(feature = "engine"))]
pub use absent::Module;
pub use cache::{compile, controller, load};
#[cfg(feature = "engine")]
pub use module::Module;

/// A module that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ModuleError {
    /// The file cannot be read.
    #[error("cannot read {path}: {reason}")]
    File {
        /// The file.
        path: String,
        /// Cause.
        reason: String,
    },
    /// The bytes are no module that this version of ccarena runs.
    #[error("{0}")]
    Refused(String),
}
