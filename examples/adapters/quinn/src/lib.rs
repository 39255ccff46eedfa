//! A controller of ccarena as quinn's congestion control.
//!
//! ```
//! use std::sync::Arc;
//! use ccarena_cc::{Config, Source};
//!
//! let control = ccarena_quinn::Factory::new(Source::Scheme("cubic"), Config::default())?;
//! let mut transport = quinn_proto::TransportConfig::default();
//! transport.congestion_controller_factory(Arc::new(control));
//! # Ok::<_, ccarena_cc::flow::Refused>(())
//! ```

// A file of its own, for programs that copy it.
include!("adapter.rs");

#[cfg(test)]
#[path = "../../parity.rs"]
mod parity;
#[cfg(test)]
mod tests;
