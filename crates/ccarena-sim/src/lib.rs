//! The event-driven, packet-level simulator: real transport machinery, many flows over many links, deterministic.
//!
//! [`Sim`] runs one scenario in virtual time. [`worlds`] steps many of them side by side for training.

pub mod app;
pub mod build;
pub mod domain;
pub mod link;
pub mod packet;
pub mod receiver;
mod rtt;
pub mod schedule;
pub mod scoreboard;
pub mod sender;
pub mod sim;
pub mod worlds;

pub use build::{PolicyFn, Resources, SimError};
pub use domain::Domain;
pub use sim::{Decider, Sim, Stop};
pub use worlds::{Source, StepOut, World, WorldError, Worlds};
