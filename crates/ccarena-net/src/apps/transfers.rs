//! Transfers of given sizes, one after the other, whose completion times are recorded.

use ccarena_cc::Dur;
use ccarena_cc::reader::{At, Object, Result};
use serde_json::{Value, json};

use super::sizes::MAX_BYTES;
use super::{Application, Needs, Offer, Outcome, Running, Start, View};

/// One transfer after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transfers {
    /// Payload of each.
    pub sizes_bytes: Vec<u64>,
    /// Time from the start of one to the start of the next, which waits for the end of the one before.
    pub gap: Dur,
}

impl Application for Transfers {
    const NAME: &'static str = "transfers";
    const FIELDS: &'static [&'static str] = &["sizes_bytes", "gap_s"];
    const NEEDS: Needs = Needs { acknowledged: true, ..Needs::NONE };

    fn read(o: &Object<'_>) -> Result<Self> {
        let sizes = o.require("sizes_bytes", "a list of sizes in bytes")?;
        let items = sizes.list("a list of sizes in bytes")?;
        if items.is_empty() {
            return sizes.fail("at least one size in bytes");
        }
        let sizes_bytes = items.iter().map(|at: &At<'_>| at.whole(1, MAX_BYTES)).collect::<Result<_>>()?;
        Ok(Self { sizes_bytes, gap: o.or("gap_s", Dur::ZERO, |at| at.seconds(0.0))? })
    }

    fn write(&self) -> Value {
        json!({"sizes_bytes": self.sizes_bytes, "gap_s": self.gap.as_secs_f64()})
    }

    fn packets(&self, _: f64, mss: f64) -> f64 {
        self.sizes_bytes.iter().map(|&s| (s as f64 / mss).ceil().max(1.0)).sum()
    }

    fn start(&self, _: &Start) -> Option<Box<dyn Running>> {
        let (sizes, gap) = (self.sizes_bytes.clone(), self.gap);
        Some(Box::new(Sequence { sizes, gap, current: Current::default(), begun: 0 }))
    }
}

#[derive(Debug)]
struct Sequence {
    sizes: Vec<u64>,
    gap: Dur,
    begun: usize,
    current: Current,
}

impl Running for Sequence {
    fn advance(&mut self, view: &View) -> Offer {
        let Self { sizes, gap, begun, current } = self;
        current.acknowledged(view);
        let waits = Offer { allowed: current.allowed, next: Dur::MAX };
        let Some(&size) = sizes.get(*begun).filter(|_| current.asked.is_none()) else { return waits };
        let due = *gap * *begun as u64;
        if view.elapsed < due {
            return Offer { next: due, ..waits };
        }
        *begun += 1;
        current.begin(view.elapsed, size);
        Offer { allowed: current.allowed, ..waits }
    }

    fn outcome(&self) -> Outcome {
        Outcome { completion: self.current.completion.clone(), ..Outcome::default() }
    }
}

/// The transfer under way, and how long those before it took.
#[derive(Debug, Default)]
pub(super) struct Current {
    /// Bytes offered so far, up to its end.
    pub allowed: u64,
    /// Time of its begin; none if there is none under way.
    pub asked: Option<Dur>,
    /// Durations of finished ones.
    pub completion: Vec<Dur>,
}

impl Current {
    /// Begins one of `size` bytes.
    pub fn begin(&mut self, now: Dur, size: u64) {
        self.asked = Some(now);
        self.allowed = self.allowed.saturating_add(size.max(1));
    }

    /// Ends it if all of it is acknowledged; whether it has ended now.
    pub fn acknowledged(&mut self, view: &View) -> bool {
        let ended = self.asked.filter(|_| view.acknowledged >= self.allowed);
        if let Some(asked) = ended {
            self.completion.push(view.elapsed - asked);
            self.asked = None;
        }
        ended.is_some()
    }
}
