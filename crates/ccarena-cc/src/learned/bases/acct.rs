//! The window rules of ACCT's sender (Kheirkhah et al., "ACCT: An Intelligent Congestion Control Mechanism for Future
//! Internet", §II-B and §II-C): additive increase α/w, halving at a loss, and a reset to the advertised rate at the end of
//! a decision period with too much delay.
//!
//! Departures from the paper. Each is an option; the paper's own rule is `reduce_at: 1, slack: 0, jitter_slack: 0,
//! pacing_gain: 0, min_window: 1`. With that rule the delay must exceed the budget for a whole window before anything
//! happens. On constant links the delay then stays within the budget four fifths of the time even at α = 1.
//! - `reduce_at`: the window reduction acts at a fraction of the budget.
//! - `slack`: it leaves part of a segment beyond the target: whole segments are sent, and a delayed ACK holds one back.
//! - `jitter_slack`: delay that a reduction does not cure is not this flow's queue but the link's own jitter (a cellular
//!   scheduler's, say). Each interval over the budget in a row leaves one segment more, up to this many; after
//!   `PATIENCE` intervals a full reduction asks again whose delay it is.
//! - `pacing_gain`: within the budget the window is spread over the round trip. Over it, where service comes in bursts,
//!   ACK clocking uses opportunities that pacing would miss.
//! - `silent_at` (off): where the bottleneck is silent (Blue) nothing but loss ends the growth, so that any α ≥ 1 fills its
//!   buffer. From this fraction of the budget on, the window is brought to the share of it that fills the smallest RTT.
//! - `min_window`: no reduction goes below two segments (RFC 5681's floor), below which delayed ACKs stall the flow.
//! - the window grows only while it is what limits sending, as in Linux (`tcp_is_cwnd_limited`).

use super::{Base, BaseEntry, Lever, over, paced, per_rtt};
use crate::controller::Extrapolation;
use crate::events::{AckInfo, LossInfo, RecoveryState};
use crate::feedback::Feedback;
use crate::learned::monitor::Measured;
use crate::param::Param;
use crate::types::{Bytes, Dur, Rate, Time};

/// Registry entry.
pub const ACCT: BaseEntry = BaseEntry {
    name: "acct",
    doc: "additive increase α/w, halving at a loss, and a reset to the advertised rate after a period with too much delay",
    source: "Kheirkhah et al., ACCT, sections II-B and II-C",
    levers: &[Lever::Alpha, Lever::Window],
    options: &[
        Param { name: "budget_ms", default: 5.0, min: 0.1, max: 1000.0, doc: "queueing delay budget DB in ms" },
        Param {
            name: "reduce_at",
            default: 0.15,
            min: 0.05,
            max: 10.0,
            doc: "fraction of the budget at which the window is reset to the target",
        },
        Param { name: "min_window", default: 2.0, min: 1.0, max: 100.0, doc: "smallest window in segments" },
        Param {
            name: "slack",
            default: 0.75,
            min: 0.0,
            max: 100.0,
            doc: "segments beyond the target that a reduction leaves",
        },
        Param {
            name: "jitter_slack",
            default: 8.0,
            min: 0.0,
            max: 100.0,
            doc: "most segments that periods over the budget in a row add to the slack",
        },
        Param {
            name: "pacing_gain",
            default: 1.1,
            min: 0.0,
            max: 10.0,
            doc: "pacing rate within the budget, in windows per smoothed RTT; 0 is ACK clocking always",
        },
        Param {
            name: "silent_at",
            default: 0.0,
            min: 0.0,
            max: 10.0,
            doc: "fraction of the budget at which a window below the target (Blue) gives up its queue; 0 is never",
        },
    ],
    takes_rate: true,
    feedback: Feedback::None,
    kernel: true,
    build: |parts| {
        let o = parts.options;
        let budget_s = o[0] / 1e3;
        let base = Acct {
            cwnd: f64::from(parts.config.initial_window.max(1)),
            alpha: 1.0,
            mss: u64::from(parts.config.mss),
            srtt: Dur::ZERO,
            over_budget: 0,
            pacing_gain: o[5],
            min_window: o[2],
            budget: Dur::from_secs_f64(budget_s),
            reduce_at: Dur::from_secs_f64(budget_s * o[1]),
            slack: o[3],
            jitter_slack: o[4],
            silent_at: (o[6] > 0.0).then(|| Dur::from_secs_f64(budget_s * o[6])),
        };
        over(base, parts.plan)
    },
};

/// Periods over the budget after which a reduction leaves no jitter slack, to see whether the delay is the flow's own.
const PATIENCE: u32 = 16;

/// No action lifts the window beyond so many segments (`snd_cwnd_clamp`).
const LARGEST_WINDOW: u32 = 1 << 24;

struct Acct {
    /// Window in segments.
    cwnd: f64,
    alpha: f64,
    mss: u64,
    srtt: Dur,
    /// Periods over the budget in a row, modulo [`PATIENCE`].
    over_budget: u32,
    pacing_gain: f64,
    min_window: f64,
    budget: Dur,
    reduce_at: Dur,
    slack: f64,
    jitter_slack: f64,
    silent_at: Option<Dur>,
}

impl Base for Acct {
    #[inline]
    fn on_ack(&mut self, ack: &AckInfo) {
        self.srtt = ack.srtt;
        if ack.recovery != RecoveryState::Recovery && ack.cwnd_limited {
            self.cwnd += self.alpha * f64::from(ack.acked_packets) / self.cwnd;
        }
    }

    fn on_loss(&mut self, loss: &LossInfo) {
        if loss.new_episode {
            self.cwnd = (self.cwnd / 2.0).max(self.min_window);
        }
    }

    fn on_timeout(&mut self, _loss: &LossInfo) {
        self.cwnd = 1.0;
    }

    /// Periodic window reduction (§II-B). Below the target (Blue), where the reset would raise the window, `silent_at` alone
    /// reduces.
    fn on_period(&mut self, _now: Time, ended: &Measured, advertised: f64) {
        let delay = ended.delay_or_zero();
        self.over_budget = if delay < self.budget { 0 } else { self.over_budget % PATIENCE + 1 };
        let patience = f64::from(self.over_budget.saturating_sub(1)).min(self.jitter_slack);
        let target = (advertised + self.slack + patience).max(self.min_window);
        if self.cwnd >= target && delay >= self.reduce_at {
            self.cwnd = target;
        } else if self.cwnd < advertised && self.silent_at.is_some_and(|least| delay >= least) {
            let unqueued = self.cwnd / ended.of_rtt_min(ended.rtt_or_min()).max(1.0);
            self.cwnd = (unqueued + self.slack + patience).max(self.min_window).min(self.cwnd);
        }
    }

    #[inline]
    fn window(&self) -> Bytes {
        Bytes(self.cwnd.max(1.0) as u64 * self.mss)
    }

    fn segments(&self) -> f64 {
        self.cwnd
    }

    #[inline]
    fn pacing_rate(&self) -> Option<Rate> {
        if self.over_budget > 0 {
            return None;
        }
        paced(self.pacing_gain, self.cwnd.max(1.0), self.mss as f64, self.srtt)
    }

    fn rate_bps(&self) -> f64 {
        self.pacing_rate().map_or_else(|| per_rtt(self.cwnd, self.mss as f64, self.srtt), |rate| rate.0 as f64)
    }

    fn min_burst_segments(&self) -> u32 {
        1
    }

    /// α holds until the next decision.
    fn extrapolation(&self, _left: Dur, per_window: bool) -> Extrapolation {
        Extrapolation { increase: self.alpha, decrease: 0.5, per_window, ..Extrapolation::HOLD }
    }

    fn adopt_window(&mut self, window: Bytes) -> bool {
        self.cwnd = (window.0 as f64 / self.mss as f64).max(1.0);
        true
    }

    fn scale_window(&mut self, factor: f64, most: u32) {
        let most = f64::from(most.min(LARGEST_WINDOW)).max(self.cwnd);
        self.cwnd = (self.cwnd * factor).min(most).max(self.min_window);
    }

    fn set_alpha(&mut self, alpha: f32) {
        self.alpha = f64::from(alpha);
    }
}
