//! Network parts on a packet's way: queues, link services, traces, routers that signal to senders,
//! and ACCT's option on the wire; and the scenario document.
//!
//! Everything here is pure: time is an argument, randomness comes from counter-based streams
//! ([`rng`]), and the only functions that read a file are [`trace::load`] and [`conditions::load`].

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests compare with the platform's functions"))]

pub mod accecn;
pub mod apps;
pub mod catalogue;
pub mod cellular;
pub mod conditions;
pub mod delays;
pub mod ecn;
pub mod figures;
pub mod histogram;
pub mod impairments;
pub mod link;
pub mod link_models;
pub mod log;
pub mod losses;
mod noise;
pub mod policer;
pub mod queues;
pub mod rate_datagram;
pub mod reshape;
pub mod resources;
pub mod result;
pub mod rng;
pub mod routers;
pub mod scenario;
pub mod series;
pub mod service;
pub mod stepped;
pub mod tcp_option;
pub mod token_bucket;
pub mod trace;
pub mod transmissions;

pub use ecn::Ecn;
pub use link::{Carried, Link};
pub use queues::{Item, Queue, QueueSpec};
pub use resources::{Demand, Limits, ResourceError};
pub use routers::AcctRouter;
pub use scenario::{Scenario, ScenarioError};
pub use service::{Service, ServiceError, ServiceSpec};
pub use trace::{Trace, TraceError};
