//! Learned controllers as documents: when a flow decides, what it sees, what it moves and over what.
//!
//! A [`Document`] names a [clock](clocks), [signals], an [actuator](actuators) and a [base](bases) out of the
//! registries here. [`Composed`](composed::Composed) is the one controller that runs any of them. What a document names
//! is resolved once, when a flow is built ([`plan`]): an acknowledgement looks up no name and pays for no signal that the
//! document leaves out. The shipped learned schemes are documents themselves ([`shipped`]).

pub mod actuators;
pub mod bases;
pub mod clocks;
pub mod composed;
pub mod controller;
pub mod document;
pub mod monitor;
pub mod number;
pub mod plan;
pub mod resolved;
pub mod shipped;
pub mod signals;
pub mod spec;
#[cfg(test)]
mod tests;

pub use controller::LearnedController;
pub use document::Document;
pub use number::Number;
pub use spec::{Entry, LearnedSpec, ParamSpec};

/// The version of the document that this crate reads and writes.
pub const VERSION: u64 = 1;
