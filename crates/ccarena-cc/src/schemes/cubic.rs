//! `cubic`: CUBIC, RFC 9438, as Linux 6's `net/ipv4/tcp_cubic.c`, with HyStart.
//!
//! After a reduction the window follows W(t) = C (t - K)^3 + W_max (RFC 9438 equation 1), C = 0.4: concave up to the
//! window of the last loss, then convex. Where Reno would be faster, Reno's estimate leads (section 4.3).
//!
//! Integers are scaled as in the kernel, so that windows come out the same. Time is in 1/1024 s. The curve is evaluated
//! in jiffies of 4 ms (HZ = 250) and at most once in each. The minimum RTT is added in advance, as in RFC 9438's t +
//! RTT.
//! Departures from the kernel:
//! - K is an exact cube root; `cubic_root` looks up and refines, with a mean error of 0.195 %.
//! - The curve stops growing 256 s from K; the kernel's product overflows later.
//! - Windows and thresholds: see `cwnd`.

mod hystart;

use self::hystart::HyStart;
use super::aimd::ABE;
use super::cwnd::Cwnd;
use crate::controller::{Controller, TransportNeeds};
use crate::elementary;
use crate::events::{AckInfo, LossInfo, SentInfo};
use crate::feedback::Feedback;
use crate::param::Param;
use crate::scheme::{Config, Scheme};
use crate::types::{Bytes, Dur, Time};

/// Registry entry.
pub const SCHEME: Scheme = Scheme {
    name: "cubic",
    summary: "CUBIC with HyStart, as Linux does it (RFC 9438)",
    params: &[
        Param { name: "hystart", default: 1.0, min: 0.0, max: 1.0, doc: "1: leave slow start by HyStart, 0: by loss" },
        Param {
            name: "fast_convergence",
            default: 1.0,
            min: 0.0,
            max: 1.0,
            doc: "1: a flow that loses below its last maximum yields more (RFC 9438 section 4.7)",
        },
        Param {
            name: "reno_friendly",
            default: 1.0,
            min: 0.0,
            max: 1.0,
            doc: "1: never slower than Reno would be (RFC 9438 section 4.3)",
        },
        ABE,
    ],
    learned: false,
    rules: false,
    weight_above: None,
    requirement: false,
    alias_of: None,
    feedback: Feedback::None,
    build: |config| Box::new(Cubic::new(config)),
};

/// Jiffies per second of the kernel that this is held against (`HZ`).
const HZ: u64 = 250;
const JIFFY_NS: u64 = 1_000_000_000 / HZ;
/// beta_cubic = 717/1024, about 0.7 (RFC 9438 section 4.6).
const BETA: u64 = 717;
const BETA_SCALE: u64 = 1024;
/// Part of the window that a mark leaves with ABE, about 0.85 (RFC 8511 section 3.1).
const ABE_LEAVES: u64 = 870;
/// C = 0.4, times 1024 (`bic_scale`); times 10 it is `cube_rtt_scale`, for the kernel's nominal RTT of 100 ms.
const C_SCALED: u64 = 410;
/// (segments -> K^3) in (1/1024 s)^3 (`cube_factor`).
const CUBE_FACTOR: u64 = (1 << 40) / C_SCALED;
/// Acknowledged segments per segment of Reno's growth are `window * RENO_SCALE / 8` (`beta_scale`): RFC 9438's
/// alpha_cubic = 3 (1 - beta) / (1 + beta), inverted.
const RENO_SCALE: u64 = 8 * (BETA_SCALE + BETA) / 3 / (BETA_SCALE - BETA);
/// Farthest from K that the curve is evaluated, in 1/1024 s: the largest power of two whose scaled cube fits 64 bits.
const FARTHEST: u64 = 1 << 18;

/// The controller, on its own or beneath a learner ([`crate::learned::bases`]).
pub(crate) struct Cubic {
    cwnd: Cwnd,
    curve: Curve,
    /// Smallest RTT since the start or the last timeout; zero before the first sample (`delay_min`).
    delay_min: Dur,
    last_sent: Time,
    hystart: Option<HyStart>,
    fast_convergence: bool,
    abe: bool,
}

impl Cubic {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            cwnd: Cwnd::new(config),
            curve: Curve { reno_friendly: config.param("reno_friendly") >= 0.5, ..Curve::default() },
            delay_min: Dur::ZERO,
            last_sent: Time::ZERO,
            hystart: (config.param("hystart") >= 0.5).then(HyStart::default),
            fast_convergence: config.param("fast_convergence") >= 0.5,
            abe: config.param(ABE.name) >= 0.5,
        }
    }

    /// `config` says what Linux's CUBIC does.
    #[cfg(feature = "policies")]
    pub(crate) fn is_linux(config: &Config) -> bool {
        let mut params = SCHEME.params.iter();
        config.slow_start && params.all(|p| (config.param(p.name) >= 0.5) == (p.default >= 0.5))
    }

    /// The window is `window`, to which another CUBIC has brought it.
    pub(crate) fn set_window(&mut self, window: Bytes) {
        self.cwnd.set_bytes(window);
    }

    /// Multiplies the window by `factor` from outside, but not to more than `most` segments. A new epoch begins there:
    /// the curve heads for the W_max of the last loss, or probes if the window is beyond it. A factor that leaves the
    /// window as it is changes nothing.
    #[cfg(feature = "policies")]
    pub(crate) fn scale(&mut self, factor: f64, most: u32) {
        if self.cwnd.scale(factor, most) {
            self.curve.epoch_start = None;
        }
    }

    /// The same, of which neither the curve nor slow start learns.
    #[cfg(feature = "policies")]
    pub(crate) fn scale_alone(&mut self, factor: f64, most: u32) {
        self.cwnd.set_alone(factor, most);
    }

    /// The window in segments.
    pub(crate) fn segments(&self) -> u32 {
        self.cwnd.segments()
    }

    /// Takes the RTT sample (`cubictcp_acked`).
    #[inline]
    fn on_rtt(&mut self, ack: &AckInfo, rtt: Dur) {
        // In the second after a reduction samples still hold the queue that caused it.
        if self.curve.epoch_start.is_some_and(|start| jiffies(ack.now).saturating_sub(start) < HZ) {
            return;
        }
        let rtt = rtt.max(Dur::from_micros(1));
        if self.delay_min == Dur::ZERO || rtt < self.delay_min {
            self.delay_min = rtt;
        }
        if self.cwnd.in_slow_start() {
            if let Some(hystart) = &mut self.hystart {
                if hystart.on_sample(ack, rtt, self.delay_min, &self.cwnd) {
                    self.cwnd.end_slow_start();
                }
            }
        }
    }

    /// Ends the epoch and returns the threshold (`cubictcp_recalc_ssthresh`; RFC 9438 sections 4.6 and 4.7).
    fn end_epoch(&mut self) -> u32 {
        let window = u64::from(self.cwnd.segments());
        self.curve.epoch_start = None;
        self.curve.last_max = if window < self.curve.last_max && self.fast_convergence {
            window * (BETA_SCALE + BETA) / (2 * BETA_SCALE)
        } else {
            window
        };
        (window * BETA / BETA_SCALE) as u32
    }
}

impl Controller for Cubic {
    fn on_ack(&mut self, ack: &AckInfo) {
        if let Some(rtt) = ack.rtt {
            self.on_rtt(ack, rtt);
        }
        if !self.cwnd.may_grow(ack) {
            return;
        }
        let mut acked = ack.acked_packets;
        if self.cwnd.in_slow_start() {
            acked = self.cwnd.slow_start(acked);
            if acked == 0 {
                return;
            }
        }
        let per_growth = self.curve.update(jiffies(ack.now), self.cwnd.segments(), acked, self.delay_min);
        self.cwnd.additive_increase(per_growth.into(), acked.into());
    }

    fn on_loss(&mut self, loss: &LossInfo) {
        if loss.new_episode {
            let marked = (u64::from(self.cwnd.segments()) * ABE_LEAVES / BETA_SCALE) as u32;
            let threshold = self.end_epoch();
            // RFC 8511 is about congestion avoidance.
            let gentle = self.abe && loss.ecn && !self.cwnd.in_slow_start();
            self.cwnd.reduce(if gentle { marked } else { threshold });
        }
    }

    /// A timeout forgets the curve, the minimum RTT and HyStart's finding (`cubictcp_state`).
    fn on_timeout(&mut self, loss: &LossInfo) {
        let threshold = loss.new_episode.then(|| self.end_epoch());
        self.cwnd.collapse(loss, threshold);
        self.curve = Curve { reno_friendly: self.curve.reno_friendly, ..Curve::default() };
        self.delay_min = Dur::ZERO;
        if let Some(hystart) = &mut self.hystart {
            hystart.restart(loss.now, loss.snd_nxt);
        }
    }

    fn on_sent(&mut self, sent: &SentInfo) {
        if sent.prior_in_flight == Bytes(0) {
            self.curve.skip_idle(jiffies(self.last_sent.max(sent.last_sent)), jiffies(sent.now));
        }
        self.last_sent = sent.now;
    }

    fn transport(&self) -> TransportNeeds {
        TransportNeeds::WINDOW
    }

    fn on_spurious_loss(&mut self, _now: Time) {
        self.cwnd.undo();
    }

    fn on_idle_restart(&mut self, _now: Time, idle: Dur, rto: Dur) {
        self.cwnd.restart(idle, rto);
    }

    fn window(&self) -> Bytes {
        self.cwnd.bytes()
    }

    fn slow_start_threshold(&self) -> Option<Bytes> {
        Some(self.cwnd.threshold_bytes())
    }
}

/// W(t) of the present epoch, and Reno's estimate beside it (`struct bictcp`). Windows in segments, times in jiffies.
#[derive(Clone, Debug, Default)]
struct Curve {
    /// Acknowledged segments per segment of growth (`cnt`).
    per_growth: u32,
    /// W_max; zero before the first loss.
    last_max: u64,
    epoch_start: Option<u64>,
    /// Height of the plateau: W_max, or the window at the start of the epoch if that was larger.
    origin: u64,
    /// K, from the start of the epoch, in 1/1024 s.
    k: u64,
    /// W_est (RFC 9438 section 4.3), and the segments acknowledged since it last grew.
    reno_window: u64,
    reno_acked: u64,
    /// Time and window at which `per_growth` was last computed.
    updated: u64,
    updated_window: u32,
    reno_friendly: bool,
}

impl Curve {
    /// Acknowledged segments per segment of growth at `now` (`bictcp_update`).
    #[inline]
    fn update(&mut self, now: u64, window: u32, acked: u32, delay_min: Dur) -> u32 {
        self.reno_acked += u64::from(acked);
        if self.updated_window == window && now.wrapping_sub(self.updated) <= HZ / 32 {
            return self.per_growth;
        }
        self.recompute(now, window, acked, delay_min)
    }

    fn recompute(&mut self, now: u64, window: u32, acked: u32, delay_min: Dur) -> u32 {
        let segments = u64::from(window);
        if self.epoch_start.is_none() || self.updated != now {
            self.updated = now;
            self.updated_window = window;
            let start = match self.epoch_start {
                Some(start) => start,
                None => self.begin_epoch(now, segments, acked),
            };
            self.per_growth = self.follow_curve(now.saturating_sub(start), segments, delay_min);
        }
        if self.reno_friendly {
            self.follow_reno(segments);
        }
        // At most one segment per two acknowledged: 1.5 x per RTT (the upper bound of RFC 9438 section 4.2).
        self.per_growth = self.per_growth.max(2);
        self.per_growth
    }

    fn begin_epoch(&mut self, now: u64, window: u64, acked: u32) -> u64 {
        self.epoch_start = Some(now);
        self.reno_acked = u64::from(acked);
        self.reno_window = window;
        self.origin = self.last_max.max(window);
        // RFC 9438 equation 2: K = cbrt((W_max - cwnd_epoch) / C).
        self.k = cube_root(CUBE_FACTOR * (self.origin - window));
        now
    }

    /// RFC 9438 equation 1 at `elapsed` + RTT, as acknowledged segments per segment of growth.
    fn follow_curve(&self, elapsed: u64, window: u64, delay_min: Dur) -> u32 {
        let t = ((elapsed + delay_min.0.div_ceil(JIFFY_NS)) << 10) / HZ;
        let offset = t.abs_diff(self.k).min(FARTHEST);
        let delta = (C_SCALED * offset * offset * offset) >> 40;
        let target = if t < self.k { self.origin.saturating_sub(delta) } else { self.origin + delta };
        let per_growth = if target > window { window / (target - window) } else { 100 * window };
        // Before the first loss nothing is known about capacity: at least 5 % per RTT.
        let most = if self.last_max == 0 { 20 } else { u64::from(u32::MAX) };
        per_growth.min(most) as u32
    }

    /// RFC 9438 section 4.3.
    fn follow_reno(&mut self, window: u64) {
        let per_segment = (window * RENO_SCALE) >> 3;
        if self.reno_acked > per_segment {
            let growth = (self.reno_acked - 1) / per_segment.max(1);
            self.reno_acked -= growth * per_segment;
            self.reno_window += growth;
        }
        if self.reno_window > window {
            let per_growth = window / (self.reno_window - window);
            self.per_growth = self.per_growth.min(per_growth as u32);
        }
    }

    /// Sending pauses do not count as time on the curve (`cubictcp_cwnd_event`; RFC 9438 section 5.8).
    fn skip_idle(&mut self, last_sent: u64, now: u64) {
        if let Some(start) = &mut self.epoch_start {
            *start = (*start + now.saturating_sub(last_sent)).min(now);
        }
    }
}

#[inline]
fn jiffies(t: Time) -> u64 {
    t.0 / JIFFY_NS
}

/// The largest integer whose cube is at most `x`.
fn cube_root(x: u64) -> u64 {
    let cube = |r: u64| u128::from(r).pow(3);
    let mut root = elementary::cbrt(x as f64) as u64;
    // It may be off by an ulp.
    while cube(root) > u128::from(x) {
        root -= 1;
    }
    while cube(root + 1) <= u128::from(x) {
        root += 1;
    }
    root
}

#[cfg(test)]
mod tests;
