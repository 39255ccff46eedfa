//! Bulk data of which a limited amount leaves in each slot.

use ccarena_cc::reader::{MIN_MBPS, Object, Result};
use ccarena_cc::{Dur, Rate};
use serde_json::{Value, json};

use super::{Application, Needs, Offer, Running, Start, View};

/// Slots of Hercules' session limiter.
const DEFAULT_SLOT: Dur = Dur::from_millis(100);
const MAX_SLOT_MS: f64 = 100_000.0;

/// Bulk data of which at most `rate`·`slot` leaves in each slot; what is not sent in a slot is not made up for (the
/// session limiter of Hercules' experiments). Segments are as many equal parts of that as the segment size needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capped {
    /// Payload per time at most.
    pub rate: Rate,
    /// Length of a slot.
    pub slot: Dur,
}

impl Capped {
    fn quota(&self) -> u64 {
        self.rate.bytes_in(self.slot).0.max(1)
    }

    fn segments(&self, mss: u32) -> u64 {
        self.quota().div_ceil(mss.max(1).into())
    }
}

impl Application for Capped {
    const NAME: &'static str = "capped";
    const FIELDS: &'static [&'static str] = &["rate_mbps", "slot_ms"];
    const NEEDS: Needs = Needs { sent: true, ..Needs::NONE };

    fn read(o: &Object<'_>) -> Result<Self> {
        let rate = o.require("rate_mbps", "a rate in Mbit/s")?.mbps(MIN_MBPS)?;
        Ok(Self { rate, slot: o.or("slot_ms", DEFAULT_SLOT, |at| at.millis(1.0, MAX_SLOT_MS))? })
    }

    fn write(&self) -> Value {
        json!({"rate_mbps": self.rate.as_mbps(), "slot_ms": self.slot.as_millis_f64()})
    }

    fn packets(&self, seconds: f64, mss: f64) -> f64 {
        // At least a packet per slot.
        self.rate.0 as f64 / 8.0 * seconds / mss + seconds / self.slot.as_secs_f64().max(1e-9) + 1.0
    }

    /// The parts of a slot's amount are equal, so that the cap is met exactly at any rate.
    fn segment_bytes(&self, mss: u32) -> u32 {
        u32::try_from(self.quota() / self.segments(mss)).unwrap_or(mss).max(1)
    }

    fn start(&self, start: &Start) -> Option<Box<dyn Running>> {
        let quota = self.segments(start.mss) * u64::from(self.segment_bytes(start.mss));
        Some(Box::new(Slots { quota, slot: self.slot.max(Dur(1)), begun: 0, allowed: 0 }))
    }
}

#[derive(Debug)]
struct Slots {
    /// Bytes per slot.
    quota: u64,
    slot: Dur,
    begun: u64,
    allowed: u64,
}

impl Running for Slots {
    fn advance(&mut self, view: &View) -> Offer {
        let slots = view.elapsed.0 / self.slot.0 + 1;
        if slots > self.begun {
            self.begun = slots;
            self.allowed = view.sent + self.quota;
        }
        Offer { allowed: self.allowed, next: self.slot * slots }
    }
}
