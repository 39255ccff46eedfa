//! `bbr`: BBR version 1 (Cardwell et al., "BBR: Congestion-Based Congestion Control", ACM Queue 14(5), 2016), as
//! Linux's `net/ipv4/tcp_bbr.c`.
//!
//! A model of the path, its bottleneck bandwidth (largest delivery rate of ten round trips) and its minimum RTT (of ten
//! seconds), sets pacing rate and window; each is a gain times the model. A file for each mode: `startup` (and drain),
//! `probe_bw`, `probe_rtt`. `long_term` watches for a token-bucket policer, `aggregation` for bunched acknowledgements,
//! `window` sets the window, through loss recovery too.
//!
//! Integers are scaled as in the kernel: bandwidth in segments per microsecond times 2^24, gains times 2^8.
//!
//! Departures from the kernel:
//! - Amounts delivered are counted in bytes, so a delivery rate may be a fraction of a segment more precise.
//! - Timestamps are in nanoseconds, not in jiffies.
//! - `TCP_INIT_CWND` is the configured initial window.
//! - Without slow start the flow begins in PROBE_BW with the pipe taken as full; the kernel has no such mode.

mod aggregation;
mod long_term;
pub(super) mod max_filter;
mod probe_bw;
mod probe_rtt;
mod startup;
mod window;

use self::aggregation::Aggregation;
use self::long_term::LongTerm;
use self::max_filter::MaxFilter;
use self::probe_bw::Cycle;
use self::probe_rtt::MinRtt;
use self::startup::FullPipe;
use self::window::Window;
use crate::controller::{Controller, TransportNeeds};
use crate::events::{AckInfo, LossInfo, RateSample, SentInfo};
use crate::feedback::Feedback;
use crate::param::Param;
use crate::scheme::{Config, Scheme};
use crate::types::{Bytes, Dur, Rate, Time};

/// Registry entry.
pub const SCHEME: Scheme = Scheme {
    name: "bbr",
    summary: "BBR version 1, as Linux does it (ACM Queue 14(5), 2016)",
    params: &[Param {
        name: "long_term",
        default: 1.0,
        min: 0.0,
        max: 1.0,
        doc: "1: detect token-bucket policers by long-term sampling, as Linux does; 0: do not",
    }],
    learned: false,
    rules: false,
    weight_above: None,
    requirement: false,
    alias_of: None,
    feedback: Feedback::None,
    build: |config| Box::new(Bbr::new(config)),
};

/// Segments per microsecond, times [`BW_UNIT`].
type Bandwidth = u64;
/// A gain of 1 (`BBR_UNIT`).
type Gain = u64;

const BW_SCALE: u32 = 24;
const BW_UNIT: u64 = 1 << BW_SCALE;
const GAIN_SCALE: u32 = 8;
const UNIT: Gain = 1 << GAIN_SCALE;
/// 2/ln 2: the smallest gain that doubles the rate each round (`bbr_high_gain`).
const HIGH_GAIN: Gain = UNIT * 2885 / 1000 + 1;
/// ln 2/2: drains in one round what [`HIGH_GAIN`] queued (`bbr_drain_gain`).
const DRAIN_GAIN: Gain = UNIT * 1000 / 2885;
/// Tolerates delayed and stretched acknowledgements (`bbr_cwnd_gain`).
const CWND_GAIN: Gain = UNIT * 2;
/// Rounds that the bandwidth filter looks back (`bbr_bw_rtts`).
const BANDWIDTH_ROUNDS: u64 = 10;
/// Percent of the estimated bandwidth that is paced at, so that queues shrink (`bbr_pacing_margin_percent`).
const PACED_PERCENT: u64 = 99;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// Ramp up to fill the pipe.
    Startup,
    /// Drain the queue that ramping up left.
    Drain,
    /// Probe for bandwidth in a cycle of gains.
    ProbeBw,
    /// Cut the flight to see the minimum RTT.
    ProbeRtt,
}

struct Bbr {
    mode: Mode,
    pacing_gain: Gain,
    cwnd_gain: Gain,

    bandwidth: MaxFilter,
    min_rtt: MinRtt,
    rounds: Rounds,
    full_pipe: FullPipe,
    cycle: Cycle,
    long_term: LongTerm,
    aggregation: Aggregation,

    window: Window,
    pacing: Pacing,
    /// The flow resumes from idle: no PROBE_RTT until something is acknowledged (`idle_restart`).
    idle_restart: bool,
    /// Time of the last acknowledgement.
    now: Time,
    delivered: Bytes,
    mss: u64,
    /// [`BW_UNIT`] per segment, by byte.
    units_per_byte: f64,
}

/// Packet-timed round trips.
#[derive(Debug, Default)]
struct Rounds {
    count: u64,
    /// The acknowledgement at hand begins a round (`round_start`).
    starts: bool,
    /// A packet sent when this much was delivered ends the round (`next_rtt_delivered`).
    end: Bytes,
}

#[derive(Debug, Default)]
struct Pacing {
    rate: Rate,
    /// Bandwidth from which `rate` was computed.
    bandwidth: Bandwidth,
    gain: Gain,
    /// The initial rate is from an RTT sample, not from the nominal one (`has_seen_rtt`).
    from_rtt: bool,
    ns_per_byte: f64,
    /// Time at which pacing releases the next packet (`tcp_wstamp_ns`).
    next_departure: Time,
}

impl Bbr {
    fn new(config: &Config) -> Self {
        let mut bbr = Self {
            mode: Mode::Startup,
            pacing_gain: HIGH_GAIN,
            cwnd_gain: HIGH_GAIN,
            bandwidth: MaxFilter::default(),
            min_rtt: MinRtt::default(),
            rounds: Rounds::default(),
            full_pipe: FullPipe::default(),
            cycle: Cycle::new(config.seed),
            long_term: LongTerm::new(config.param("long_term") >= 0.5),
            aggregation: Aggregation::default(),
            window: Window::new(config),
            pacing: Pacing::default(),
            idle_restart: false,
            now: Time::ZERO,
            delivered: Bytes(0),
            mss: u64::from(config.mss.max(1)),
            units_per_byte: BW_UNIT as f64 / f64::from(config.mss.max(1)),
        };
        // The nominal RTT before there is a sample (`bbr_init_pacing_rate_from_rtt`).
        bbr.init_pacing_rate(Dur::from_millis(1));
        if !config.slow_start {
            bbr.full_pipe.reached = true;
            bbr.enter_probe_bw();
            bbr.update_gains();
        }
        bbr
    }

    /// `bbr_bw`: the policed rate if there is one, else the filter's maximum.
    #[inline]
    fn bandwidth(&self) -> Bandwidth {
        self.long_term.policed_bandwidth().unwrap_or(self.bandwidth.max())
    }

    fn in_packets(&self, bytes: Bytes) -> u64 {
        bytes.0.div_ceil(self.mss)
    }

    /// `bbr_update_bw`.
    #[inline]
    fn update_bandwidth(&mut self, ack: &AckInfo, lost_packets: u64) {
        self.rounds.starts = false;
        let Some(sample) = valid_sample(ack) else { return };
        if sample.prior_delivered >= self.rounds.end {
            self.rounds.end = ack.delivered;
            self.rounds.count += 1;
            self.rounds.starts = true;
            self.window.end_conservation();
        }
        let app_limited = sample.app_limited || self.min_rtt.limited_at(sample.prior_delivered);
        self.sample_long_term(lost_packets, app_limited);

        // In floating point, which divides faster; exact as long as the kernel's product fits 53 bits.
        let scaled = sample.delivered.0 as f64 * self.units_per_byte;
        let bandwidth = Bandwidth::from((scaled / sample.interval.as_micros() as f64) as u32);
        // A sample limited by the application says little about the path, unless it is larger than the estimate.
        if !app_limited || bandwidth >= self.bandwidth.max() {
            self.bandwidth.update(BANDWIDTH_ROUNDS, self.rounds.count, bandwidth);
        }
        if self.rounds.starts && !app_limited {
            self.full_pipe.on_round(self.bandwidth.max());
        }
    }

    /// `bbr_update_gains`.
    #[inline]
    fn update_gains(&mut self) {
        (self.pacing_gain, self.cwnd_gain) = match self.mode {
            Mode::Startup => (HIGH_GAIN, HIGH_GAIN),
            Mode::Drain => (DRAIN_GAIN, HIGH_GAIN),
            Mode::ProbeBw if self.long_term.policed_bandwidth().is_some() => (UNIT, CWND_GAIN),
            Mode::ProbeBw => (self.cycle.gain(), CWND_GAIN),
            Mode::ProbeRtt => (UNIT, UNIT),
        };
    }

    /// `bbr_reset_mode`.
    fn leave_probe_rtt(&mut self) {
        if self.full_pipe.reached {
            self.enter_probe_bw();
        } else {
            self.mode = Mode::Startup;
        }
    }

    /// `bbr_set_pacing_rate`.
    #[inline]
    fn set_pacing_rate(&mut self, srtt: Dur, gain: Gain) {
        if !self.pacing.from_rtt && srtt > Dur::ZERO {
            self.pacing.from_rtt = true;
            self.init_pacing_rate(srtt);
        }
        let bandwidth = self.bandwidth();
        if bandwidth == 0 || (bandwidth, gain) == (self.pacing.bandwidth, self.pacing.gain) {
            return;
        }
        let rate = self.rate_of(bandwidth, gain);
        if self.full_pipe.reached || rate > self.pacing.rate {
            self.pace(rate);
            (self.pacing.bandwidth, self.pacing.gain) = (bandwidth, gain);
        }
    }

    fn init_pacing_rate(&mut self, rtt: Dur) {
        let bandwidth = self.window.packets() * BW_UNIT / rtt.as_micros().max(1);
        self.pace(self.rate_of(bandwidth, HIGH_GAIN));
    }

    fn pace(&mut self, rate: Rate) {
        self.pacing.rate = rate;
        self.pacing.ns_per_byte = 8e9 / rate.0 as f64;
        self.window.set_burst(rate);
    }

    /// `bbr_bw_to_pacing_rate`; at least one bit per second.
    fn rate_of(&self, bandwidth: Bandwidth, gain: Gain) -> Rate {
        let scaled = bandwidth.saturating_mul(self.mss).saturating_mul(gain) >> GAIN_SCALE;
        let bytes_per_s = scaled.saturating_mul(1_000_000 / 100 * PACED_PERCENT) >> BW_SCALE;
        Rate(bytes_per_s.saturating_mul(8).max(1))
    }
}

/// The delivery-rate sample, unless it is over less than a microsecond.
#[inline]
fn valid_sample(ack: &AckInfo) -> Option<RateSample> {
    ack.rate.filter(|sample| sample.interval >= Dur::from_micros(1))
}

impl Controller for Bbr {
    /// `bbr_main`.
    fn on_ack(&mut self, ack: &AckInfo) {
        self.now = ack.now;
        self.delivered = ack.delivered;
        let lost_packets = if ack.lost == Bytes(0) { 0 } else { self.in_packets(ack.lost) };

        self.update_bandwidth(ack, lost_packets);
        self.update_aggregation(ack);
        if self.mode == Mode::ProbeBw && self.cycle_phase_is_over(ack, lost_packets) {
            self.cycle.advance(ack.now);
        }
        if matches!(self.mode, Mode::Startup | Mode::Drain) {
            self.check_drain(ack.in_flight);
        }
        self.update_min_rtt(ack);
        self.update_gains();
        self.set_pacing_rate(ack.srtt, self.pacing_gain);
        self.set_window(ack, lost_packets);
    }

    fn on_loss(&mut self, loss: &LossInfo) {
        self.long_term.on_lost(loss.lost);
        if loss.new_episode {
            self.window.save(self.mode);
        }
    }

    /// `tcp_enter_loss`, `bbr_set_state`.
    fn on_timeout(&mut self, loss: &LossInfo) {
        (self.now, self.delivered) = (loss.now, loss.delivered);
        self.long_term.on_lost(loss.lost);
        if loss.new_episode {
            self.window.save(self.mode);
        }
        let in_flight = self.in_packets(loss.in_flight);
        self.window.collapse(in_flight);
        self.full_pipe.forget_bandwidth();
        // A timeout counts as the end of a round, with a loss.
        self.rounds.starts = true;
        self.sample_long_term(1, false);
    }

    /// Follows the pacer; at the first packet after idle, `bbr_cwnd_event` with `CA_EVENT_TX_START`.
    fn on_sent(&mut self, sent: &SentInfo) {
        let length = Dur((sent.bytes.0 as f64 * self.pacing.ns_per_byte) as i64 as u64);
        self.pacing.next_departure = self.pacing.next_departure.max(sent.now) + length;
        if sent.prior_in_flight > Bytes(0) || !(sent.app_limited || self.min_rtt.limited_at(self.delivered)) {
            return;
        }
        self.now = sent.now;
        self.idle_restart = true;
        self.aggregation.restart(sent.now);
        match self.mode {
            Mode::ProbeBw => self.set_pacing_rate(Dur::ZERO, UNIT),
            Mode::ProbeRtt => self.check_probe_rtt_done(),
            Mode::Startup | Mode::Drain => {}
        }
    }

    /// `bbr_undo_cwnd`; the window itself returns when recovery ends.
    fn on_spurious_loss(&mut self, now: Time) {
        self.now = now;
        self.full_pipe.restart();
        self.long_term.reset(now, self.delivered);
    }

    fn window(&self) -> Bytes {
        Bytes(self.window.packets() * self.mss)
    }

    fn pacing_rate(&self) -> Option<Rate> {
        Some(self.pacing.rate)
    }

    fn transport(&self) -> TransportNeeds {
        TransportNeeds { owns_recovery: true, ..TransportNeeds::default() }
    }
}

#[cfg(test)]
mod tests;
