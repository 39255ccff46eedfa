//! Congestion controllers as pure state machines.
//!
//! A controller turns acknowledgements, losses and time into a window and a pacing rate ([`Controller`]). It reads no
//! clock, draws no randomness of its own and touches no socket. The same code therefore runs in the simulator, over a
//! Linux socket and inside a QUIC endpoint. [`registry`] lists all schemes; each is one file in [`schemes`], and the
//! learned ones are specs ([`learned`]).
//!
#![doc = include_str!("../README.md")]
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests compare with the platform's functions"))]

pub mod action;
pub mod backends;
#[cfg(feature = "policies")]
pub mod bounded;
pub mod build_error;
pub mod controller;
#[cfg(feature = "policies")]
pub mod decider;
pub mod elementary;
pub mod events;
pub mod feedback;
pub mod flow;
#[cfg(feature = "policies")]
pub mod learned;
pub mod operation;
pub mod packet_flow;
pub mod param;
#[cfg(feature = "policies")]
pub mod policy;
#[cfg(feature = "policies")]
pub mod reader;
pub mod registry;
#[cfg(feature = "policies")]
pub mod rules;
pub mod scheme;
pub mod schemes;
pub mod signal;
pub mod steady_state;
pub mod timer_calls;
pub mod types;

pub use action::{Action, ActionError};
pub use backends::Backend;
pub use controller::{
    Adjustable, Controller, Extrapolated, Extrapolation, FlowSetting, PacketTracker, RouterAssisted, TransportNeeds,
};
#[cfg(feature = "policies")]
pub use decider::{BindError, Decider, FlowError, Outside, Policies, PolicySpec};
pub use events::{AckInfo, LossInfo, RateSample, RecoveryState, SentInfo};
pub use feedback::Feedback;
pub use flow::{Flow, Host, Source};
#[cfg(feature = "policies")]
pub use learned::{Interface, LearnedController, Spec};
pub use param::Param;
pub use registry::{BuildError, build, find, schemes as all_schemes};
#[cfg(feature = "policies")]
pub use rules::Rules;
pub use scheme::{Config, Scheme};
pub use signal::Signal;
pub use timer_calls::TimerCalls;
pub use types::{Bytes, Dur, MOST_WEIGHT, Rate, Requirement, Time};

/// Runs the Rust of the page.
#[cfg(all(doctest, feature = "policies"))]
#[doc = include_str!("../../../docs/library.md")]
mod page {}
