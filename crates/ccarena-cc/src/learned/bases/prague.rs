//! Base that runs Prague per acknowledgement; actions scale its window now and then.
//!
//! An action moves the window alone: Prague goes on from it, with its alpha and its round trips. After slow start the
//! threshold follows a window that falls below it, so that no slow start leads back. Without counts of marks Prague is
//! NewReno, as the scheme is.

use super::schemes::{self, Member};
use super::{Base, BaseEntry, Lever, over, per_rtt};
use crate::controller::{Controller, TransportNeeds};
use crate::events::{AckInfo, LossInfo};
use crate::schemes::prague::{Prague, SCHEME};
use crate::types::{Bytes, Dur, Rate, Time};

/// Registry entry.
pub const PRAGUE: BaseEntry = BaseEntry {
    name: "prague",
    doc: "Prague per acknowledgement, which leaves as ECT(1); an action moves its window, and Prague goes on from there",
    source: "draft-briscoe-iccrg-prague-congestion-control",
    levers: &[Lever::Window],
    options: SCHEME.params,
    takes_rate: false,
    feedback: SCHEME.feedback,
    kernel: false,
    build: |parts| {
        let mut config = parts.config.clone();
        let given = SCHEME.params.iter().zip(parts.options);
        config.params = given.map(|(param, value)| (param.name.to_string(), *value)).collect();
        if config.feedback < SCHEME.feedback {
            return schemes::build(Member { scheme: &SCHEME, config }, Vec::new(), parts.plan);
        }
        let mss = f64::from(config.mss.max(1));
        over(OverPrague { prague: Prague::new(&config), srtt: Dur::ZERO, mss }, parts.plan)
    },
};

struct OverPrague {
    prague: Prague,
    srtt: Dur,
    mss: f64,
}

impl Base for OverPrague {
    fn on_ack(&mut self, ack: &AckInfo) {
        self.prague.on_ack(ack);
        self.srtt = ack.srtt;
    }

    fn on_loss(&mut self, loss: &LossInfo) {
        self.prague.on_loss(loss);
    }

    fn on_timeout(&mut self, loss: &LossInfo) {
        self.prague.on_timeout(loss);
    }

    fn transport(&self) -> TransportNeeds {
        self.prague.transport()
    }

    fn on_spurious_loss(&mut self, now: Time) {
        self.prague.on_spurious_loss(now);
    }

    fn on_recovery_end(&mut self, now: Time, in_flight: Bytes) {
        self.prague.on_recovery_end(now, in_flight);
    }

    fn window(&self) -> Bytes {
        self.prague.window()
    }

    fn segments(&self) -> f64 {
        self.prague.segments()
    }

    fn pacing_rate(&self) -> Option<Rate> {
        self.prague.pacing_rate()
    }

    fn rate_bps(&self) -> f64 {
        self.pacing_rate().map_or_else(|| per_rtt(self.segments(), self.mss, self.srtt), |rate| rate.0 as f64)
    }

    fn min_burst_segments(&self) -> u32 {
        self.prague.min_burst_segments()
    }

    fn slow_start_threshold(&self) -> Option<Bytes> {
        self.prague.slow_start_threshold()
    }

    fn scale_window(&mut self, factor: f64, most: u32) {
        self.prague.scale(factor, f64::from(most));
    }
}
