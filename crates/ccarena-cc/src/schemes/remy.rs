//! `remy`: RemyCC, a window and a gap between segments that are looked up in a table of rules (Winstein and Balakrishnan,
//! "TCP ex Machina", SIGCOMM 2013). The rules come from a file ([`Rules`]).
//!
//! After all segments of an acknowledgement are in its memory, the sender looks the memory up once. The window becomes
//! window × multiple + increment, cut to whole segments, and the gap the rule's. There is no slow start: at the start the
//! memory is zero, and the first rule is applied to a window of zero (`rat.cc`).
//!
//! Departures from the authors' simulator:
//! - A segment's time of arrival is that of its acknowledgement; there acknowledgements take no time.
//! - The transport counts what is in flight and repairs losses. There the highest acknowledged number counts, and nothing
//!   is repaired.
//! - One segment may always be in flight. The gap is a pacing rate: kernel TCP and QUIC send about 1 ms of segments in one
//!   go, and a new gap begins with the next one. The simulator's gaps are exact.
//! - A sender begins anew after an idle time longer than the retransmission timeout; there an application says so.

mod memory;

use std::collections::BTreeMap;
use std::sync::Arc;

pub use self::memory::Remembered;
use crate::controller::{Controller, PacketTracker, TransportNeeds};
use crate::events::{AckInfo, LossInfo, SentInfo};
use crate::feedback::Feedback;
use crate::rules::Rules;
use crate::scheme::{Config, Scheme};
use crate::types::{Bytes, Dur, Rate, Time};

/// Registry entry.
pub const SCHEME: Scheme = Scheme {
    name: "remy",
    summary: "RemyCC: a window and a gap between segments from a table of rules (SIGCOMM 2013); `rules` names its file",
    params: &[],
    learned: false,
    rules: true,
    weight_above: None,
    requirement: false,
    alias_of: None,
    feedback: Feedback::None,
    build: |config| Box::new(Remy::new(config)),
};

/// The sender's decisions: memory, window and gap.
pub struct Rat {
    rules: Arc<Rules>,
    remembered: Remembered,
    /// Window in segments; it may be zero.
    pub window: u32,
    /// Least time between two segments in ms.
    pub gap_ms: f64,
}

impl Rat {
    /// A sender that begins.
    #[must_use]
    pub fn new(rules: Arc<Rules>) -> Self {
        let mut rat = Self { rules, remembered: Remembered::default(), window: 0, gap_ms: 0.0 };
        rat.decide();
        rat
    }

    /// Returns its memory.
    pub fn remembered(&mut self) -> &mut Remembered {
        &mut self.remembered
    }

    /// Looks the memory up, and returns the number of the rule that is now in force.
    pub fn decide(&mut self) -> usize {
        let rule = *self.rules.find(self.remembered.memory());
        (self.window, self.gap_ms) = (rule.window(self.window), rule.intersend_ms);
        rule.id
    }
}

struct Remy {
    rat: Rat,
    /// Time at which each transmission under way left, by its number.
    sent: BTreeMap<u64, Time>,
    /// Transmissions that the acknowledgement at hand reports: number, and time of leaving.
    arrived: Vec<(u64, Time)>,
    /// Highest number that has been acknowledged.
    highest: Option<u64>,
    mss: u64,
}

impl Remy {
    fn new(config: &Config) -> Self {
        let rules = config.rules.clone().unwrap_or_else(|| Arc::new(Rules::first()));
        let mss = u64::from(config.mss.max(1));
        Self { rat: Rat::new(rules), sent: BTreeMap::new(), arrived: Vec::new(), highest: None, mss }
    }
}

fn ms(time: Time) -> f64 {
    time.0 as f64 / 1e6
}

impl Controller for Remy {
    fn on_ack(&mut self, ack: &AckInfo) {
        if self.arrived.is_empty() {
            return;
        }
        // The number before this acknowledgement counts for all that it reports (`Rat::packets_received`).
        let before = self.highest;
        for (number, sent) in self.arrived.drain(..) {
            let ahead = before.map_or(number.saturating_add(1), |highest| number.saturating_sub(highest));
            self.rat.remembered.received(ms(sent), ms(ack.now), ahead.max(1) as f64);
            self.highest = self.highest.max(Some(number));
        }
        self.rat.decide();
        if self.rat.window == 0 {
            // A sender whose window is zero asks again before it sends (`Rat::send`).
            self.rat.decide();
        }
    }

    fn on_loss(&mut self, _loss: &LossInfo) {}

    fn on_timeout(&mut self, _loss: &LossInfo) {}

    fn on_sent(&mut self, sent: &SentInfo) {
        self.sent.insert(sent.number, sent.now);
    }

    fn on_idle_restart(&mut self, _now: Time, idle: Dur, rto: Dur) {
        if idle > rto {
            self.rat = Rat::new(Arc::clone(&self.rat.rules));
            self.sent.clear();
        }
    }

    fn transport(&self) -> TransportNeeds {
        TransportNeeds { every_segment: true, owns_recovery: true, paces_each: true, ..TransportNeeds::WINDOW }
    }

    fn window(&self) -> Bytes {
        Bytes(u64::from(self.rat.window.max(1)) * self.mss)
    }

    fn pacing_rate(&self) -> Option<Rate> {
        let bits = self.mss as f64 * 8.0;
        (self.rat.gap_ms > 0.0).then(|| Rate((bits * 1e3 / self.rat.gap_ms) as u64).max(Rate(1)))
    }

    fn min_burst_segments(&self) -> u32 {
        1
    }

    fn packet_tracker(&mut self) -> Option<&mut dyn PacketTracker> {
        Some(self)
    }
}

impl PacketTracker for Remy {
    fn on_packet_acked(&mut self, number: u64) {
        self.arrived.extend(self.sent.remove(&number).map(|sent| (number, sent)));
    }

    fn on_packet_lost(&mut self, number: u64) {
        self.sent.remove(&number);
    }
}

#[cfg(test)]
mod tests;
