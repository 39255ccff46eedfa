//! The event-driven, packet-level simulator: real transport machinery, many flows over many links, deterministic.
//!
//! [`Sim`] runs one scenario in virtual time. [`worlds`] steps many of them side by side for training.

pub mod app;
pub mod build;
mod delivery;
pub mod domain;
mod numbers;
mod pacer;
pub mod packet;
pub mod receiver;
mod reduction;
mod rtt;
pub mod schedule;
pub mod scoreboard;
pub mod sender;
pub mod sim;
pub mod worlds;

pub use build::{Resources, SimError};
pub use ccarena_cc::policy::PolicyFn;
pub use domain::Domain;
pub use sim::{Decider, Sim, Stop};
pub use worlds::{Source, StepOut, World, WorldError, Worlds};
