//! `acct`: the sender of ACCT (Kheirkhah et al., "ACCT: An Intelligent Congestion Control Mechanism for Future
//! Internet", §II-B and §II-C). Routers advertise a rate; a learned agent sets the aggressiveness α once per window.
//!
//! Departures from the paper. Each is a parameter; the paper's own rule is `reduce_at: 1, slack: 0, jitter_slack: 0,
//! pacing_gain: 0, min_window: 1`. With it the delay stays within the budget four fifths of the time on constant links
//! even at α = 1, because the delay must exceed the budget for a whole window before anything happens.
//! - `reduce_at`: the window reduction acts at a fraction of the budget.
//! - `slack`: it leaves part of a segment beyond the target: whole segments are sent, and a delayed ACK holds one back.
//! - `jitter_slack`: delay that a reduction does not cure is not this flow's queue but the link's own jitter (a cellular
//!   scheduler's, say). Each interval over the budget in a row leaves one segment more, up to this many; after
//!   `PATIENCE` intervals a full reduction asks again whose delay it is.
//! - `pacing_gain`: within the budget the window is spread over the round trip. Over it, where service comes in bursts,
//!   ACK clocking uses opportunities that pacing would miss.
//! - `min_window`: no reduction goes below two segments (RFC 5681's floor), below which delayed ACKs stall the flow.
//! - the window grows only while it is what limits sending, as in Linux (`tcp_is_cwnd_limited`).

use crate::controller::{
    AckInfo, Action, ActionError, Controller, Extrapolation, LearnedController, LearnedSpec, LossInfo, RecoveryState,
};
use crate::scheme::{Config, Param, Scheme};
use crate::types::{Bytes, Dur, Rate, Time};

/// Registry entry.
pub const SCHEME: Scheme = Scheme {
    name: "acct",
    summary: "ACCT's sender: additive increase α/w with a learned α, window reset to the advertised rate",
    params: &[
        Param {
            name: "budget_ms",
            default: 5.0,
            min: 0.1,
            max: 1000.0,
            doc: "queueing delay budget DB in ms (paper §III)",
        },
        Param {
            name: "reduce_at",
            default: 0.15,
            min: 0.05,
            max: 10.0,
            doc: "fraction of the budget at which the window is reset to the target (the paper: 1)",
        },
        Param {
            name: "min_window",
            default: 2.0,
            min: 1.0,
            max: 100.0,
            doc: "smallest window in segments (not in the paper)",
        },
        Param {
            name: "slack",
            default: 0.75,
            min: 0.0,
            max: 100.0,
            doc: "segments beyond the target that a reduction leaves (the paper: 0)",
        },
        Param {
            name: "jitter_slack",
            default: 8.0,
            min: 0.0,
            max: 100.0,
            doc: "most segments that intervals over the budget in a row add to the slack (the paper: 0)",
        },
        Param {
            name: "pacing_gain",
            default: 1.1,
            min: 0.0,
            max: 10.0,
            doc: "pacing rate within the budget, in windows per smoothed RTT; 0 is ACK clocking always (the paper)",
        },
        Param { name: "initial_alpha", default: 1.0, min: 1.0, max: 100.0, doc: "α until the first action" },
    ],
    learned: true,
    weight_above: None,
    requirement: false,
    build: |config| Box::new(Acct::new(config)),
};

/// Intervals over the budget after which a reduction leaves no jitter slack, to see whether the delay is the flow's own.
const PATIENCE: u32 = 16;

/// Length of the time series in the observation.
const HISTORY: usize = 8;
const ZONES: usize = 4;
const OBSERVATION: usize = HISTORY * (3 + ZONES) + 2;

/// Rates and ratios in the observation go no further, whatever happens to a path.
const LARGEST: f64 = 1e9;

/// The values of α (paper eq. 4).
pub const ACTIONS: [f32; 15] = [1., 2., 3., 4., 5., 10., 20., 30., 40., 50., 60., 70., 80., 90., 100.];

/// What ACCT observes (paper eq. 3), reports and takes.
pub const SPEC: LearnedSpec = LearnedSpec {
    id: "acct-1",
    observation_len: OBSERVATION,
    observation: &[
        "throughput_MBps[8]",
        "delay_ratio[8]",
        "zone_green[8]",
        "zone_yellow[8]",
        "zone_red[8]",
        "zone_blue[8]",
        "window_ratio[8]",
        "loss_rate_pps",
        "previous_action",
    ],
    observation_bounds: &[
        (0.0, LARGEST as f32),
        (0.0, LARGEST as f32),
        (0.0, 1.0),
        (0.0, 1.0),
        (0.0, 1.0),
        (0.0, 1.0),
        (0.0, LARGEST as f32),
        (0.0, LARGEST as f32),
        (ACTIONS[0], ACTIONS[ACTIONS.len() - 1]),
    ],
    actions: &ACTIONS,
    bounds: (1.0, 100.0),
    report: &[
        "zone",
        "alpha",
        "previous_alpha",
        "lost_packets",
        "throughput_mbps",
        "rtt_ms",
        "rtt_min_ms",
        "queueing_delay_ms",
        "delay_ratio",
        "cwnd_packets",
        "twnd_packets",
        "advertised_mbps",
        "interval_ms",
        "acked_packets",
        "loss_rate_pps",
        "time_s",
    ],
};

/// The operating zone (paper §II-B, Fig. 2a), a complete partition by rate and delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Zone {
    /// Below the advertised rate, delay within the budget.
    Green,
    /// At or above it, within the budget: where ACCT wants to stay.
    Yellow,
    /// At or above it, over the budget.
    Red,
    /// Below it and yet over the budget: the bottleneck does not signal.
    Blue,
}

impl Zone {
    fn of(cwnd: f64, twnd: f64, delay: Dur, budget: Dur) -> Self {
        match (cwnd < twnd, delay < budget) {
            (true, true) => Self::Green,
            (false, true) => Self::Yellow,
            (false, false) => Self::Red,
            (true, false) => Self::Blue,
        }
    }
}

/// What one window of data has measured.
#[derive(Clone, Copy, Debug, Default)]
struct Interval {
    start: Time,
    acked: Bytes,
    acked_packets: u32,
    lost_packets: u32,
    rtt_sum_ns: u64,
    rtt_count: u32,
}

struct Acct {
    mss: u64,
    wire_bytes: f64,
    budget: Dur,
    reduce_at: Dur,
    min_window: f64,
    slack: f64,
    jitter_slack: f64,
    /// Intervals over the budget in a row, modulo [`PATIENCE`].
    over_budget: u32,
    pacing_gain: f64,
    srtt: Dur,
    desired: Rate,

    /// Congestion and target window in segments.
    cwnd: f64,
    twnd: f64,
    advertised: Rate,
    rtt_min: Dur,
    alpha: f32,
    previous_alpha: f32,

    /// The interval ends when this byte is acknowledged.
    mark: u64,
    interval: Interval,
    decision_due: bool,

    throughput: [f32; HISTORY],
    delay_ratio: [f32; HISTORY],
    zones: [[f32; HISTORY]; ZONES],
    window_ratio: [f32; HISTORY],
    loss_rate: f32,
    report: [f32; 16],
}

impl Acct {
    fn new(config: &Config) -> Self {
        let budget_s = config.param("budget_ms") / 1e3;
        Self {
            mss: u64::from(config.mss),
            wire_bytes: f64::from(config.mss + config.header_bytes),
            budget: Dur::from_secs_f64(budget_s),
            reduce_at: Dur::from_secs_f64(budget_s * config.param("reduce_at")),
            min_window: config.param("min_window"),
            slack: config.param("slack"),
            jitter_slack: config.param("jitter_slack"),
            over_budget: 0,
            pacing_gain: config.param("pacing_gain"),
            srtt: Dur::ZERO,
            desired: config.desired_rate,
            cwnd: f64::from(config.initial_window.max(1)),
            twnd: f64::MAX,
            advertised: config.desired_rate,
            rtt_min: Dur::MAX,
            alpha: config.param("initial_alpha") as f32,
            previous_alpha: config.param("initial_alpha") as f32,
            mark: 0,
            interval: Interval::default(),
            decision_due: false,
            throughput: [0.0; HISTORY],
            delay_ratio: [0.0; HISTORY],
            zones: [[0.0; HISTORY]; ZONES],
            window_ratio: [0.0; HISTORY],
            loss_rate: 0.0,
            report: [0.0; 16],
        }
    }

    /// `twnd = R_net · RTT_min` (eq. 1), in segments as they are on the wire, since routers advertise link rates.
    fn update_target(&mut self) {
        if self.rtt_min != Dur::MAX {
            self.twnd = self.advertised.0 as f64 * self.rtt_min.as_secs_f64() / 8.0 / self.wire_bytes;
        }
    }

    fn finish_interval(&mut self, now: Time) {
        let i = self.interval;
        let rtt = Dur(i.rtt_sum_ns.checked_div(u64::from(i.rtt_count)).unwrap_or(self.rtt_min.0));
        let (rtt, rtt_min) = if self.rtt_min == Dur::MAX { (Dur::ZERO, Dur::ZERO) } else { (rtt, self.rtt_min) };
        let delay = rtt - rtt_min; // σ, eq. 2
        let zone = Zone::of(self.cwnd, self.twnd, delay, self.budget);
        let length = now.since(i.start);
        let per_second = |x: f64, t: Dur| if t == Dur::ZERO { 0.0 } else { x / t.as_secs_f64() };
        let throughput_bps = per_second(i.acked.0 as f64 * 8.0, rtt);
        let delay_ratio = (delay.as_secs_f64() / self.budget.as_secs_f64()).min(LARGEST) as f32;
        let window_ratio = (self.cwnd / self.twnd).min(LARGEST) as f32;
        self.loss_rate = per_second(f64::from(i.lost_packets), length).min(LARGEST) as f32;

        push(&mut self.throughput, (throughput_bps / 8e6).min(LARGEST) as f32);
        push(&mut self.delay_ratio, delay_ratio);
        push(&mut self.window_ratio, window_ratio);
        for (k, series) in self.zones.iter_mut().enumerate() {
            push(series, f32::from(u8::from(k == zone as usize)));
        }
        self.report = [
            f32::from(zone as u8),
            self.alpha,
            self.previous_alpha,
            i.lost_packets as f32,
            (throughput_bps / 1e6) as f32,
            rtt.as_millis_f64() as f32,
            rtt_min.as_millis_f64() as f32,
            delay.as_millis_f64() as f32,
            delay_ratio,
            self.cwnd as f32,
            self.twnd.min(1e9) as f32,
            self.advertised.as_mbps() as f32,
            length.as_millis_f64() as f32,
            i.acked_packets as f32,
            self.loss_rate,
            now.as_secs_f64() as f32,
        ];
        // Periodic window reduction (§II-B). Never below the target (Blue), where the reset would raise the window.
        self.over_budget = if delay < self.budget { 0 } else { self.over_budget % PATIENCE + 1 };
        let patience = f64::from(self.over_budget.saturating_sub(1)).min(self.jitter_slack);
        let target = (self.twnd + self.slack + patience).max(self.min_window);
        if self.cwnd >= target && delay >= self.reduce_at {
            self.cwnd = target;
        }
        self.previous_alpha = self.alpha;
        self.interval = Interval { start: now, ..Interval::default() };
        self.decision_due = true;
    }
}

/// Appends `x` to a series, oldest first.
fn push(series: &mut [f32; HISTORY], x: f32) {
    series.rotate_left(1);
    series[HISTORY - 1] = x;
}

impl Controller for Acct {
    fn on_ack(&mut self, ack: &AckInfo) {
        if let Some(rtt) = ack.rtt {
            self.interval.rtt_sum_ns = self.interval.rtt_sum_ns.saturating_add(rtt.0);
            self.interval.rtt_count += 1;
        }
        if let Some(rate) = ack.advertised {
            self.advertised = rate.min(self.desired).max(Rate(1));
        }
        self.rtt_min = ack.min_rtt;
        self.srtt = ack.srtt;
        self.update_target();
        self.interval.acked += ack.acked;
        self.interval.acked_packets += ack.acked_packets;
        if ack.recovery != RecoveryState::Recovery && ack.cwnd_limited {
            self.cwnd += f64::from(self.alpha) * f64::from(ack.acked_packets) / self.cwnd;
        }
        if ack.snd_una >= self.mark {
            if self.mark > 0 {
                self.finish_interval(ack.now);
            }
            self.mark = ack.snd_nxt.max(ack.snd_una + 1);
        }
    }

    fn on_loss(&mut self, loss: &LossInfo) {
        self.interval.lost_packets += loss.lost_packets;
        if loss.new_episode {
            self.cwnd = (self.cwnd / 2.0).max(self.min_window);
        }
    }

    fn on_timeout(&mut self, loss: &LossInfo) {
        self.interval.lost_packets += loss.lost_packets;
        self.cwnd = 1.0;
        self.mark = self.mark.min(loss.snd_nxt);
    }

    fn window(&self) -> Bytes {
        Bytes(self.cwnd.max(1.0) as u64 * self.mss)
    }

    fn pacing_rate(&self) -> Option<Rate> {
        let paced = self.over_budget == 0 && self.pacing_gain > 0.0 && self.srtt > Dur::ZERO;
        paced.then(|| {
            let bits = self.pacing_gain * self.cwnd.max(1.0) * self.mss as f64 * 8.0;
            Rate((bits / self.srtt.as_secs_f64()) as u64).max(Rate(1))
        })
    }

    fn min_burst_segments(&self) -> u32 {
        1
    }

    /// α holds for a window, whose end is the next decision.
    fn extrapolation(&self, _now: Time) -> Extrapolation {
        Extrapolation { increase: f64::from(self.alpha), decrease: 0.5, per_window: true, cubic: None }
    }

    fn desired_rate(&self) -> Option<Rate> {
        Some(self.desired)
    }

    fn set_desired_rate(&mut self, rate: Rate) {
        self.desired = rate.max(Rate(1));
        self.advertised = self.advertised.min(self.desired);
        self.update_target();
    }

    fn learned(&mut self) -> Option<&mut dyn LearnedController> {
        Some(self)
    }
}

impl LearnedController for Acct {
    fn spec(&self) -> &'static LearnedSpec {
        &SPEC
    }

    fn take_decision(&mut self) -> bool {
        std::mem::take(&mut self.decision_due)
    }

    fn end_interval(&mut self, now: Time) {
        self.finish_interval(now);
        self.decision_due = false;
    }

    fn observe(&self, out: &mut [f32]) {
        let series =
            [&self.throughput, &self.delay_ratio].into_iter().chain(self.zones.iter()).chain([&self.window_ratio]);
        let values = series.flatten().copied().chain([self.loss_rate, self.alpha]);
        for (slot, x) in out.iter_mut().zip(values) {
            *slot = x;
        }
    }

    fn report(&self, out: &mut [f32]) {
        for (slot, x) in out.iter_mut().zip(self.report) {
            *slot = x;
        }
    }

    fn act(&mut self, action: Action, _now: Time) -> Result<(), ActionError> {
        let Action::Discrete(index) = action else {
            return Err(ActionError::WrongKind { expected: "discrete" });
        };
        let Some(&alpha) = ACTIONS.get(index as usize) else {
            return Err(ActionError::OutOfRange {
                got: index.to_string(),
                expected: format!("an index from 0 to {}", ACTIONS.len() - 1),
            });
        };
        self.alpha = alpha;
        Ok(())
    }
}
