//! QUIC under our controllers.
//!
//! [`steering`] puts any controller of the registry, and its decider, behind the congestion-control interface
//! of the stack (`noq-proto`); [`host`] moves the datagrams of a socket's connections. [`get`] and [`serve`] are a client
//! and a server of data, [`run`] runs a scenario over the emulator and [`remote`] over a real path.

pub mod agenda;
pub mod clock;
pub mod control;
pub mod decide;
pub mod get;
pub mod host;
pub mod metrics;
pub mod offer;
pub mod operate;
pub mod qlog;
pub mod remote;
pub mod request;
pub mod run;
pub mod serve;
pub mod steering;
pub mod streams;
pub mod tls;
pub mod transport;
pub mod udp;
