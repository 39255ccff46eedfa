//! The event-driven, packet-level simulator: real transport machinery, many flows over many links, deterministic.
//!
//! [`Sim`] runs one scenario in virtual time. [`worlds`] steps many of them side by side for training, [`trials`] scores
//! whole runs.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests compare with the platform's functions"))]

pub mod app;
mod arrivals;
pub mod build;
mod delivery;
pub mod domain;
mod far_end;
pub mod files;
mod helpers;
mod numbers;
pub mod oracle;
mod pacer;
pub mod packet;
pub mod privileged;
pub mod receiver;
mod reduction;
pub mod reordering;
mod result;
pub mod rewards;
pub mod rollout;
mod rtt;
pub mod schedule;
pub mod scoreboard;
pub mod sender;
pub mod sim;
pub mod steps;
pub mod trajectory;
pub mod trials;
pub mod world;
pub mod worlds;

pub use build::SimError;
pub use domain::Domain;
pub use files::Files;
pub use privileged::PRIVILEGED;
pub use rollout::{Draw, RolloutOut};
pub use sim::{Sim, Stop};
pub use steps::StepOut;
pub use trials::Trials;
pub use world::{Source, World, WorldError};
pub use worlds::Worlds;
