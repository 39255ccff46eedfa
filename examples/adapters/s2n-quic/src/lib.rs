//! A controller of ccarena as s2n-quic's congestion control.
//!
//! ```
//! use ccarena_cc::{Config, Source};
//! use s2n_quic::Client;
//!
//! let control = ccarena_s2n_quic::Factory::new(Source::Scheme("cubic"), Config::default())?;
//! let builder = Client::builder().with_congestion_controller(control)?;
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```

// A file of its own, for programs that copy it.
include!("adapter.rs");

#[cfg(test)]
#[path = "../../parity.rs"]
mod parity;
#[cfg(test)]
mod tests;
