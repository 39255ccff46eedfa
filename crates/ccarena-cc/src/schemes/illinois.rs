//! `illinois`: TCP-Illinois (Liu, Başar and Srikant, Performance Evaluation 65, 2008), as Linux's
//! `net/ipv4/tcp_illinois.c`.
//!
//! Losses decide when to reduce, delay by how much. Per round trip the window grows by alpha: 10 while the mean
//! queueing delay is near zero, and down to 0.3 as it nears its maximum. A loss takes beta of it, 1/8 at small delays
//! and 1/2 at large ones. Below `win_thresh` segments it is Reno.
//!
//! Fixed point as in the kernel: alpha in 1/128, beta in 1/64, times in microseconds.
//!
//! Departures from the kernel:
//! - Growth counts the segments that the acknowledgement delivers, selectively too; `pkts_acked` counts cumulatively
//!   acknowledged ones.
//! - Products are taken in 64 bits, so that very large windows do not overflow.
//! - Windows and thresholds: see `cwnd`.

use super::cwnd::Cwnd;
use crate::controller::Controller;
use crate::events::{AckInfo, LossInfo};
use crate::feedback::Feedback;
use crate::param::Param;
use crate::scheme::{Config, Scheme};
use crate::types::Dur;

/// Registry entry.
pub const SCHEME: Scheme = Scheme {
    name: "illinois",
    summary: "Illinois: AIMD whose steps follow the queueing delay, as Linux does it (Perform. Eval. 65, 2008)",
    params: &[
        Param {
            name: "win_thresh",
            default: 15.0,
            min: 0.0,
            max: 1e6,
            doc: "window in segments from which the steps adapt (`win_thresh`)",
        },
        Param {
            name: "theta",
            default: 5.0,
            min: 1.0,
            max: 255.0,
            doc: "round trips of low delay before alpha returns to its maximum (`theta`)",
        },
    ],
    learned: false,
    rules: false,
    weight_above: None,
    requirement: false,
    alias_of: None,
    feedback: Feedback::None,
    build: |config| Box::new(Illinois::new(config)),
};

const ALPHA_SHIFT: u32 = 7;
const ALPHA_SCALE: u64 = 1 << ALPHA_SHIFT;
/// Least alpha, about 0.3.
const ALPHA_MIN: u64 = 3 * ALPHA_SCALE / 10;
const ALPHA_MAX: u64 = 10 * ALPHA_SCALE;
const ALPHA_BASE: u64 = ALPHA_SCALE;
/// Larger RTTs count as this, 3.3 s (`RTT_MAX`).
const RTT_MAX: u64 = u32::MAX as u64 / ALPHA_MAX;

const BETA_SHIFT: u32 = 6;
const BETA_SCALE: u64 = 1 << BETA_SHIFT;
const BETA_MIN: u64 = BETA_SCALE / 8;
const BETA_MAX: u64 = BETA_SCALE / 2;
const BETA_BASE: u64 = BETA_MAX;

struct Illinois {
    cwnd: Cwnd,
    delays: Delays,
    steps: Steps,
    /// The round trip ends when what follows this byte is acknowledged (`end_seq`).
    round_end: u64,
    /// Acknowledged segments since the window last grew (`snd_cwnd_cnt`).
    credit: u64,
    win_thresh: u32,
}

/// RTTs in us.
#[derive(Debug)]
struct Delays {
    /// Sums of the round trip (`sum_rtt`, `cnt_rtt`).
    sum: u64,
    count: u64,
    /// Extremes of the connection (`base_rtt`, `max_rtt`).
    base: u64,
    max: u64,
}

/// The window's steps and how they came about.
#[derive(Debug)]
struct Steps {
    /// Additive increase, in 1/128 segments per round trip.
    alpha: u64,
    /// Multiplicative decrease, in 1/64.
    beta: u64,
    /// The delay has been above the low threshold (`rtt_above`).
    above: bool,
    /// Round trips below it since then (`rtt_low`).
    low: u64,
    theta: u64,
}

impl Illinois {
    /// `tcp_illinois_init`.
    fn new(config: &Config) -> Self {
        Self {
            cwnd: Cwnd::new(config),
            delays: Delays { sum: 0, count: 0, base: 0x7fff_ffff, max: 0 },
            steps: Steps {
                alpha: ALPHA_MAX,
                beta: BETA_BASE,
                above: false,
                low: 0,
                theta: config.param("theta") as u64,
            },
            round_end: 0,
            credit: 0,
            win_thresh: config.param("win_thresh") as u32,
        }
    }

    /// `rtt_reset`.
    fn begin_round(&mut self, snd_nxt: u64) {
        self.round_end = snd_nxt;
        self.delays.count = 0;
        self.delays.sum = 0;
    }

    /// Once per round trip (`update_params`).
    fn update(&mut self) {
        if self.cwnd.segments() < self.win_thresh {
            self.steps.alpha = ALPHA_BASE;
            self.steps.beta = BETA_BASE;
        } else if let Some(mean) = self.delays.sum.checked_div(self.delays.count) {
            let (mean, max) = (mean - self.delays.base, self.delays.max - self.delays.base);
            self.steps.alpha = self.steps.alpha(mean, max);
            self.steps.beta = beta(mean, max);
        }
    }

    /// `tcp_illinois_ssthresh`.
    fn reduced(&self) -> u32 {
        let window = u64::from(self.cwnd.segments());
        (window - ((window * self.steps.beta) >> BETA_SHIFT)) as u32
    }
}

impl Delays {
    /// `tcp_illinois_acked`.
    fn sample(&mut self, rtt: Dur) {
        let rtt = rtt.as_micros().min(RTT_MAX);
        self.base = self.base.min(rtt);
        self.max = self.max.max(rtt);
        self.count += 1;
        self.sum += rtt;
    }
}

impl Steps {
    /// Additive increase at a mean queueing delay of `mean`, `max` being the largest so far (`alpha`; equation 4 of the
    /// paper: a convex curve through the maximum at d1 = `max`/100 and the minimum at `max`).
    fn alpha(&mut self, mean: u64, max: u64) -> u64 {
        let low = max / 100;
        if mean <= low {
            if !self.above {
                return ALPHA_MAX;
            }
            // One good round trip is not enough for a sudden increase.
            self.low += 1;
            if self.low < self.theta {
                return self.alpha;
            }
            self.low = 0;
            self.above = false;
            return ALPHA_MAX;
        }
        self.above = true;
        let (max, mean) = (max - low, mean - low);
        (max * ALPHA_MAX) / (max + mean * (ALPHA_MAX - ALPHA_MIN) / ALPHA_MIN)
    }
}

/// Multiplicative decrease (`beta`): the minimum up to a tenth of the largest delay, the maximum from eight tenths,
/// linear between.
fn beta(mean: u64, max: u64) -> u64 {
    let low = max / 10;
    if mean <= low {
        return BETA_MIN;
    }
    let high = 8 * max / 10;
    if mean >= high || high <= low {
        return BETA_MAX;
    }
    (BETA_MIN * high - BETA_MAX * low + (BETA_MAX - BETA_MIN) * mean) / (high - low)
}

impl Controller for Illinois {
    /// `tcp_illinois_cong_avoid`.
    fn on_ack(&mut self, ack: &AckInfo) {
        if let Some(rtt) = ack.rtt {
            self.delays.sample(rtt);
        }
        if !self.cwnd.may_raise(ack) {
            return;
        }
        if ack.snd_una > self.round_end {
            self.update();
            self.begin_round(ack.snd_nxt);
        }
        if !self.cwnd.is_limiting(ack) {
            return;
        }
        if self.cwnd.in_slow_start() {
            self.cwnd.slow_start(ack.acked_packets);
            return;
        }
        // About alpha / window per acknowledged segment.
        let window = u64::from(self.cwnd.segments());
        self.credit += u64::from(ack.acked_packets);
        let delta = (self.credit * self.steps.alpha) >> ALPHA_SHIFT;
        if delta >= window {
            self.cwnd.grow((delta / window) as u32);
            self.credit = 0;
        }
    }

    fn on_loss(&mut self, loss: &LossInfo) {
        if loss.new_episode {
            self.cwnd.reduce(self.reduced());
            self.credit = 0;
        }
    }

    /// A timeout resets the steps (`tcp_illinois_state`), after they have set the threshold.
    fn on_timeout(&mut self, loss: &LossInfo) {
        let threshold = loss.new_episode.then(|| self.reduced());
        self.cwnd.collapse(loss, threshold);
        self.credit = 0;
        self.steps = Steps { alpha: ALPHA_BASE, beta: BETA_BASE, above: false, low: 0, ..self.steps };
        self.begin_round(loss.snd_nxt);
    }

    linux_window!();
}

#[cfg(test)]
mod tests {
    use super::super::testing::Flow;
    use super::*;
    use crate::events::RecoveryState;

    const RTT: Dur = Dur::from_millis(50);

    /// A flow at `segments` that has seen queueing delays from 0 to 100 ms and has then lived with `queueing_ms` for
    /// three round trips.
    fn settled(segments: u32, queueing_ms: u64) -> Flow {
        let mut flow = Flow::avoiding("illinois", segments);
        flow.cwnd_limited = false;
        flow.ack(1, RTT, RTT);
        flow.ack(1, RTT, RTT + Dur::from_millis(100));
        for _ in 0..3 {
            flow.round(1, RTT + Dur::from_millis(queueing_ms));
        }
        flow.cwnd_limited = true;
        flow
    }

    /// Growth over ten windows of segments, and what a loss leaves, in thousandths of the window.
    fn steps(queueing_ms: u64) -> (u64, u64) {
        let mut flow = settled(1000, queueing_ms);
        for _ in 0..10_000 {
            flow.ack(1, RTT / 1000, RTT + Dur::from_millis(queueing_ms));
        }
        let growth = flow.window() - 1000;
        let mut flow = settled(1000, queueing_ms);
        flow.lose(true);
        (growth, flow.window())
    }

    #[test]
    fn steps_follow_the_queueing_delay() {
        // At the largest delay 10 windows add 10 * 0.3, at none 100, each less the window's own growth meanwhile.
        let (growth, left) = steps(100);
        assert!((2..=3).contains(&growth), "{growth}");
        assert_eq!(left, 500);
        let mut flow = Flow::avoiding("illinois", 1000);
        for _ in 0..10_000 {
            flow.ack(1, RTT / 1000, RTT);
        }
        assert!((93..=100).contains(&(flow.window() - 1000)), "{}", flow.window());
        let before = flow.window();
        flow.lose(true);
        // Before any queueing delay was seen there is no telling: half, as a flow without samples.
        assert_eq!(flow.window(), before - before / 8);
        // 45 % of the largest delay is midway between a tenth and eight tenths: 5/16 are lost.
        assert!((685..=690).contains(&steps(45).1), "{}", steps(45).1);
    }

    #[test]
    fn the_curves_have_the_papers_corners() {
        let alpha = |mean| Steps { alpha: 0, beta: 0, above: true, low: 0, theta: 1 }.alpha(mean, 100_000);
        assert_eq!((alpha(0), alpha(1000), alpha(100_000)), (ALPHA_MAX, ALPHA_MAX, ALPHA_MIN));
        // k1 / (k2 + d) with d a tenth of the way: 10 / (1 + 0.1 * (10 - 0.297) / 0.297) = 2.34.
        assert!((2.3..2.4).contains(&(alpha(10_900) as f64 / ALPHA_SCALE as f64)), "{}", alpha(10_900));
        assert_eq!((beta(10_000, 100_000), beta(80_000, 100_000)), (BETA_MIN, BETA_MAX));
        assert_eq!(beta(45_000, 100_000), (BETA_MIN + BETA_MAX) / 2);
        assert_eq!((beta(0, 0), beta(1, 1)), (BETA_MIN, BETA_MAX));
    }

    #[test]
    fn low_delay_has_to_last_for_theta_round_trips() {
        let mut steps = Steps { alpha: ALPHA_MAX, beta: 0, above: false, low: 0, theta: 5 };
        assert_eq!(steps.alpha(0, 100_000), ALPHA_MAX, "never above");
        steps.alpha = steps.alpha(100_000, 100_000);
        for _ in 0..4 {
            assert_eq!(steps.alpha(0, 100_000), ALPHA_MIN);
        }
        assert_eq!(steps.alpha(0, 100_000), ALPHA_MAX);
    }

    #[test]
    fn small_windows_are_renos() {
        let mut flow = settled(12, 0);
        flow.lose(true);
        assert_eq!(flow.window(), 6);
    }

    #[test]
    fn an_echo_reduces_as_a_loss_does_and_growth_pauses() {
        let mut flow = settled(1000, 100);
        flow.echo();
        flow.lose(false);
        assert_eq!((flow.window(), flow.threshold()), (500, 500));
        flow.recovery = RecoveryState::Reduction;
        flow.round(1, RTT);
        assert_eq!(flow.window(), 500);
        flow.controller.on_spurious_loss(flow.now);
        assert_eq!(flow.window(), 1000);
    }

    #[test]
    fn a_timeout_sets_the_threshold_by_delay_and_then_forgets_it() {
        let mut flow = settled(1000, 0);
        flow.time_out(true);
        flow.time_out(false);
        assert_eq!((flow.window(), flow.threshold()), (1, 875));
        flow.controller.on_spurious_loss(flow.now);
        flow.lose(true);
        assert_eq!(flow.window(), 500, "beta is back at a half");
    }
}
