//! HyStart: leaves slow start before it overflows the queue (Ha and Rhee, "Taming the elephants: new TCP slow start",
//! Computer Networks 2011; Linux's `hystart_update`).
//!
//! Two detectors, each round trip: acknowledgements that keep arriving closely spaced for half the minimum RTT mean
//! that a window fills the path (ACK train); eight samples that all lie an eighth of the minimum RTT above it mean a
//! queue (delay increase).

use crate::events::AckInfo;
use crate::schemes::cwnd::Cwnd;
use crate::types::{Dur, Time};

/// Segments below which nothing is detected (`hystart_low_window`).
const LOW_WINDOW: u32 = 16;
/// Acknowledgements at most this far apart belong to one train (`hystart_ack_delta_us`).
const TRAIN_GAP: Dur = Dur::from_millis(2);
/// Samples per round before delay is judged (`HYSTART_MIN_SAMPLES`).
const MIN_SAMPLES: u32 = 8;
/// Bounds of the delay threshold (`HYSTART_DELAY_MIN`, `HYSTART_DELAY_MAX`).
const DELAY_MIN: Dur = Dur::from_millis(4);
const DELAY_MAX: Dur = Dur::from_millis(16);
/// `sk_gso_max_size` in bytes.
const GSO_MAX_SIZE: u64 = 65_536;

#[derive(Clone, Debug)]
pub(super) struct HyStart {
    found: bool,
    /// The round ends when this byte is passed.
    round_end: u64,
    round_start: Time,
    train_end: Time,
    round_rtt: Dur,
    samples: u32,
}

impl Default for HyStart {
    fn default() -> Self {
        Self {
            found: false,
            round_end: 0,
            round_start: Time::ZERO,
            train_end: Time::ZERO,
            round_rtt: Dur::MAX,
            samples: 0,
        }
    }
}

impl HyStart {
    /// Begins anew: a timeout has put the flow back into slow start.
    pub(super) fn restart(&mut self, now: Time, snd_nxt: u64) {
        self.found = false;
        self.begin_round(now, snd_nxt);
    }

    fn begin_round(&mut self, now: Time, snd_nxt: u64) {
        *self = Self { found: self.found, round_end: snd_nxt, round_start: now, train_end: now, ..Self::default() };
    }

    /// Takes an RTT sample in slow start; true if slow start should end.
    pub(super) fn on_sample(&mut self, ack: &AckInfo, rtt: Dur, delay_min: Dur, cwnd: &Cwnd) -> bool {
        if self.found {
            return false;
        }
        if ack.snd_una > self.round_end {
            self.begin_round(ack.now, ack.snd_nxt);
        }
        if cwnd.segments() < LOW_WINDOW {
            return false;
        }
        self.found = self.train_is_long(ack, delay_min, cwnd) | self.delay_has_grown(rtt, delay_min);
        self.found
    }

    fn train_is_long(&mut self, ack: &AckInfo, delay_min: Dur, cwnd: &Cwnd) -> bool {
        if ack.now.since(self.train_end) > TRAIN_GAP {
            return false;
        }
        self.train_end = ack.now;
        // Half, because slow start is not paced.
        ack.now.since(self.round_start) > (delay_min + aggregation_delay(ack.srtt, cwnd)) / 2
    }

    fn delay_has_grown(&mut self, rtt: Dur, delay_min: Dur) -> bool {
        self.round_rtt = self.round_rtt.min(rtt);
        if self.samples < MIN_SAMPLES {
            self.samples += 1;
            return false;
        }
        self.round_rtt > delay_min + (delay_min / 8).clamp(DELAY_MIN, DELAY_MAX)
    }
}

/// Returns the delay of segmentation offload, up to 1 ms: four of the largest bursts at the rate of slow start, two
/// windows per smoothed RTT (`hystart_ack_delay`, `tcp_update_pacing_rate`).
fn aggregation_delay(srtt: Dur, cwnd: &Cwnd) -> Dur {
    let window_bytes = u64::from(cwnd.segments()) * cwnd.mss();
    (srtt * (4 * GSO_MAX_SIZE) / (2 * window_bytes)).min(Dur::from_millis(1))
}
