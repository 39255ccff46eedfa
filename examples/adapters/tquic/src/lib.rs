//! A controller of ccarena as tquic's congestion control.
//!
//! ```
//! use std::sync::Arc;
//! use ccarena_cc::{Config, Source};
//!
//! let control = ccarena_tquic::Factory::new(Source::Scheme("cubic"), Config::default())?;
//! let mut config = tquic::Config::new()?;
//! config.set_congestion_controller_factory(Arc::new(control));
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```

// A file of its own, for programs that copy it.
include!("adapter.rs");

#[cfg(test)]
#[path = "../../parity.rs"]
mod parity;
#[cfg(test)]
mod tests;
