//! A constant bit rate in turns with silence.

use ccarena_cc::reader::{MIN_MBPS, Object, Result};
use ccarena_cc::{Dur, Rate};
use serde_json::{Value, json};

use super::{Application, Offer, Running, Start, View};

/// A constant bit rate of payload in turns with silence, sending first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OnOff {
    /// Payload per time while on.
    pub rate: Rate,
    /// Length of sending.
    pub on: Dur,
    /// Length of silence.
    pub off: Dur,
}

impl Application for OnOff {
    const NAME: &'static str = "onoff";
    const FIELDS: &'static [&'static str] = &["rate_mbps", "on_s", "off_s"];

    fn read(o: &Object<'_>) -> Result<Self> {
        Ok(Self {
            rate: o.require("rate_mbps", "a rate in Mbit/s")?.mbps(MIN_MBPS)?,
            on: o.require("on_s", "seconds that it sends")?.seconds(0.001)?,
            off: o.require("off_s", "seconds that it is silent")?.seconds(0.0)?,
        })
    }

    fn write(&self) -> Value {
        json!({"rate_mbps": self.rate.as_mbps(), "on_s": self.on.as_secs_f64(), "off_s": self.off.as_secs_f64()})
    }

    fn packets(&self, seconds: f64, mss: f64) -> f64 {
        self.rate.0 as f64 / 8.0 * seconds / mss + 1.0
    }

    fn start(&self, start: &Start) -> Option<Box<dyn Running>> {
        Some(Box::new(Stream::new(self.rate, self.on, self.off, start.mss)))
    }
}

/// Whole segments at a rate, forever or in periods.
#[derive(Debug)]
pub(super) struct Stream {
    rate: Rate,
    on: Dur,
    off: Dur,
    mss: u64,
}

impl Stream {
    pub fn new(rate: Rate, on: Dur, off: Dur, mss: u32) -> Self {
        Self { rate, on: on.max(Dur(1)), off, mss: mss.max(1).into() }
    }
}

impl Running for Stream {
    fn advance(&mut self, view: &View) -> Offer {
        let (Self { rate, on, off, mss }, elapsed) = (&*self, view.elapsed);
        let (period, constant) = (*on + *off, *off == Dur::ZERO);
        let sending =
            if constant { elapsed } else { *on * (elapsed.0 / period.0) + Dur((elapsed.0 % period.0).min(on.0)) };
        let segments = rate.bytes_in(sending).0 / mss;
        // Time at which the next segment is complete, in sending time and then in elapsed time.
        let need = rate.time_for((segments + 1).saturating_mul(*mss));
        let next = if constant || need == Dur::MAX {
            need
        } else {
            let full = (need.0.max(1) - 1) / on.0;
            period * full + Dur(need.0 - full * on.0)
        };
        Offer { allowed: segments * mss, next: next.max(elapsed + Dur(1)) }
    }
}
