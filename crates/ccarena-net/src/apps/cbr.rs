//! A constant bit rate of payload.

use ccarena_cc::reader::{MIN_MBPS, Object, Result};
use ccarena_cc::{Dur, Rate};
use serde_json::{Value, json};

use super::on_off::Stream;
use super::{Application, Running, Start};

/// A constant bit rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cbr {
    /// Payload per time.
    pub rate: Rate,
}

impl Application for Cbr {
    const NAME: &'static str = "cbr";
    const FIELDS: &'static [&'static str] = &["rate_mbps"];

    fn read(o: &Object<'_>) -> Result<Self> {
        Ok(Self { rate: o.require("rate_mbps", "a rate in Mbit/s")?.mbps(MIN_MBPS)? })
    }

    fn write(&self) -> Value {
        json!({"rate_mbps": self.rate.as_mbps()})
    }

    fn packets(&self, seconds: f64, mss: f64) -> f64 {
        self.rate.0 as f64 / 8.0 * seconds / mss + 1.0
    }

    fn start(&self, start: &Start) -> Option<Box<dyn Running>> {
        Some(Box::new(Stream::new(self.rate, Dur(1), Dur::ZERO, start.mss)))
    }
}
