//! Learned controllers as specs: when a flow decides, what it sees, what it moves and over what.
//!
//! A [`Spec`] names a [clock](clocks), [signals], an [actuator](actuators) and a [base](bases) out of the
//! registries here. [`Composed`](composed::Composed) is the one controller that runs any of them. What a spec names
//! is resolved once, when a flow is built ([`plan`]): an acknowledgement looks up no name and pays for no signal that the
//! spec leaves out. The shipped learned schemes are specs themselves ([`shipped`]).

pub mod actuators;
pub mod bases;
pub mod clocks;
pub mod composed;
pub mod controller;
pub mod derived;
pub mod interface;
pub mod monitor;
pub mod number;
pub mod plan;
pub mod resolved;
pub mod shipped;
pub mod signals;
pub mod spec;
pub mod start;
#[cfg(test)]
mod tests;
pub mod watched;

pub use controller::LearnedController;
pub use interface::{Entry, Interface, ParamSpec};
pub use number::Number;
pub use spec::Spec;

/// The version of the spec that this crate reads and writes.
pub const VERSION: u64 = 1;
