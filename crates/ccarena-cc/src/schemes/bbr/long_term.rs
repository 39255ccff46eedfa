//! Long-term sampling: two intervals in a row with much loss and the same throughput look like a token-bucket policer
//! (Flach et al., "An Internet-wide analysis of traffic policing", SIGCOMM 2016); its rate is then kept to for a while.

use super::{BW_UNIT, Bandwidth, Bbr, GAIN_SCALE, Mode, UNIT};
use crate::types::{Bytes, Time};

/// Rounds in an interval, at least (`bbr_lt_intvl_min_rtts`); four times as many at most.
const MIN_ROUNDS: u32 = 4;
/// Lost per delivered that makes an interval lossy, times 2^8: 20 % (`bbr_lt_loss_thresh`).
const LOSS_THRESHOLD: u64 = 50;
/// Two intervals agree within 1/8 (`bbr_lt_bw_ratio`) or 4 kbit/s (`bbr_lt_bw_diff`).
const AGREE_RATIO: u64 = UNIT / 8;
const AGREE_BITS_PER_S: u64 = 4_000;
/// Rounds that a policed rate is kept to (`bbr_lt_bw_max_rtts`).
const MAX_ROUNDS: u32 = 48;

#[derive(Debug)]
pub(super) struct LongTerm {
    enabled: bool,
    sampling: bool,
    policed: bool,
    /// Bandwidth of the last interval, or the policed rate; zero if none.
    bandwidth: Bandwidth,
    rounds: u32,
    /// Time at the start of the interval.
    start: Time,
    start_delivered: Bytes,
    start_lost: Bytes,
    /// Total marked lost (`tp->lost`).
    lost: Bytes,
}

impl LongTerm {
    pub(super) fn new(enabled: bool) -> Self {
        Self {
            enabled,
            sampling: false,
            policed: false,
            bandwidth: 0,
            rounds: 0,
            start: Time::ZERO,
            start_delivered: Bytes(0),
            start_lost: Bytes(0),
            lost: Bytes(0),
        }
    }

    #[inline]
    pub(super) fn policed_bandwidth(&self) -> Option<Bandwidth> {
        self.policed.then_some(self.bandwidth)
    }

    pub(super) fn on_lost(&mut self, lost: Bytes) {
        self.lost += lost;
    }

    /// `bbr_reset_lt_bw_sampling`.
    pub(super) fn reset(&mut self, now: Time, delivered: Bytes) {
        self.bandwidth = 0;
        self.policed = false;
        self.sampling = false;
        self.begin_interval(now, delivered);
    }

    fn begin_interval(&mut self, now: Time, delivered: Bytes) {
        self.start = now;
        self.start_delivered = delivered;
        self.start_lost = self.lost;
        self.rounds = 0;
    }
}

impl Bbr {
    /// `bbr_lt_bw_sampling`.
    #[inline]
    pub(super) fn sample_long_term(&mut self, lost_packets: u64, app_limited: bool) {
        if self.long_term.policed {
            self.use_policed_bandwidth();
        } else if self.long_term.sampling || (self.long_term.enabled && lost_packets > 0) {
            self.continue_interval(lost_packets, app_limited);
        }
    }

    fn use_policed_bandwidth(&mut self) {
        if self.mode == Mode::ProbeBw && self.rounds.starts {
            self.long_term.rounds += 1;
            if self.long_term.rounds >= MAX_ROUNDS {
                self.long_term.reset(self.now, self.delivered);
                self.enter_probe_bw();
            }
        }
    }

    fn continue_interval(&mut self, lost_packets: u64, app_limited: bool) {
        let lt = &mut self.long_term;
        if !lt.sampling {
            // The first loss: the policer's saved tokens are used up.
            lt.begin_interval(self.now, self.delivered);
            lt.sampling = true;
        }
        if app_limited {
            lt.reset(self.now, self.delivered);
            return;
        }
        lt.rounds += u32::from(self.rounds.starts);
        if lt.rounds < MIN_ROUNDS {
            return;
        }
        if lt.rounds > 4 * MIN_ROUNDS {
            lt.reset(self.now, self.delivered);
            return;
        }
        // An interval ends with a loss, when the tokens are used up again.
        if lost_packets == 0 {
            return;
        }
        let lost = (lt.lost - lt.start_lost).0;
        let delivered = (self.delivered - lt.start_delivered).0;
        let elapsed_us = self.now.since(lt.start).as_micros() / 1000 * 1000;
        if delivered == 0 || lost << GAIN_SCALE < LOSS_THRESHOLD * delivered || elapsed_us == 0 {
            return;
        }
        let scaled = u128::from(delivered) * u128::from(BW_UNIT) / u128::from(self.mss);
        let bandwidth = u64::try_from(scaled / u128::from(elapsed_us)).unwrap_or(u64::MAX).min(u64::from(u32::MAX));
        self.end_interval(bandwidth);
    }

    /// `bbr_lt_bw_interval_done`.
    fn end_interval(&mut self, bandwidth: Bandwidth) {
        let previous = self.long_term.bandwidth;
        let difference = bandwidth.abs_diff(previous);
        let agree = difference * UNIT <= AGREE_RATIO * previous || self.rate_of(difference, UNIT).0 <= AGREE_BITS_PER_S;
        if previous > 0 && agree {
            self.long_term.bandwidth = (bandwidth + previous) / 2;
            self.long_term.policed = true;
            self.long_term.rounds = 0;
            self.pacing_gain = UNIT;
        } else {
            self.long_term.bandwidth = bandwidth;
            self.long_term.begin_interval(self.now, self.delivered);
        }
    }
}
