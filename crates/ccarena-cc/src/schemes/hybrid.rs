//! Hybrid congestion control: CUBIC decides per acknowledgement, and a learner now and then multiplies the window,
//! `cwnd = 2^a · cwnd` (Abbasloo et al., "Classic Meets Modern: a Pragmatic Learning-Based Congestion Control for the
//! Internet" (Orca), SIGCOMM 2020).
//!
//! Time is divided into monitoring time periods (MTP). [`orca`](super::orca) asks the learner at the end of each;
//! [`hyvar`](super::hyvar) lets a state reasoner choose the next length and whether the learner is asked at all.
//!
//! Where the papers are silent:
//! - A period ends with the first acknowledgement at or after its end: before it there is nothing new to observe.
//! - The observation holds the last ten *periods*, whether or not the learner was asked. A report covers the time since
//!   the learner was last asked, which is what its action is rewarded for.
//! - An action counts only when one was asked for: not before the first packet, nor twice.
//! - After an action CUBIC begins a new epoch at the new window.
//! - A datapath that hears of the controller only now and then runs CUBIC itself, if it is to be Linux's, and the
//!   controller hears of it once per period (`adopt_window`).
//! - No action lifts the window far beyond what the path has ever held: a learner that explores would otherwise have
//!   millions of segments in flight, where a socket's send buffer ends this.

mod monitor;

use self::monitor::{LARGEST, Monitor};
use super::cubic::Cubic;
use crate::controller::{
    AckInfo, Action, ActionError, Controller, Extrapolation, LearnedController, LearnedSpec, LossInfo, SentInfo,
};
use crate::scheme::{Config, Param};
use crate::types::{Bytes, Dur, Rate, Time};

/// Periods in the observation.
pub const HISTORY: usize = 10;
/// Quantities observed per period.
const SERIES: usize = 7;
/// Largest |a|: the window is at most quartered or quadrupled.
const MAX_ACTION: f32 = 2.0;

/// What the hybrids observe, report and take. One layout for all of them: the policy of one can be run in another.
pub const SPEC: LearnedSpec = LearnedSpec {
    id: "hyvar-1",
    observation_len: HISTORY * SERIES,
    observation: &[
        "throughput_ratio[10]",
        "delivery_ratio[10]",
        "rtt_ratio[10]",
        "srtt_ratio[10]",
        "loss_ratio[10]",
        "window_ratio[10]",
        "interval_ratio[10]",
    ],
    observation_bounds: &[
        (0.0, 1.0),
        (0.0, LARGEST as f32),
        (0.0, LARGEST as f32),
        (0.0, LARGEST as f32),
        (0.0, 1.0),
        (0.0, LARGEST as f32),
        (0.0, LARGEST as f32),
    ],
    actions: &[],
    bounds: (-MAX_ACTION, MAX_ACTION),
    report: &[
        "case",
        "action",
        "throughput_mbps",
        "throughput_max_mbps",
        "loss_mbps",
        "loss_ratio",
        "lost_packets",
        "rtt_ms",
        "rtt_min_ms",
        "srtt_ms",
        "queueing_delay_ms",
        "cwnd_packets",
        "mtp_ms",
        "mtp_least_ms",
        "mtp_most_ms",
        "periods",
        "interval_ms",
        "acked_packets",
        "time_s",
    ],
};
const REPORT: usize = 19;

pub(crate) const MAX_ACTION_PARAM: Param = Param {
    name: "max_action",
    default: MAX_ACTION as f64,
    min: 0.0,
    max: MAX_ACTION as f64,
    doc: "what an action of 2, the largest, means: the window changes by 2^max_action at most (not in the slides)",
};
pub(crate) const WINDOW_LIMIT_PARAM: Param = Param {
    name: "window_limit",
    default: 2.0,
    min: 1.0,
    max: 1000.0,
    doc: "no action lifts the window beyond this many times highest throughput x smoothed RTT (not in the slides)",
};
pub(crate) const PACING_GAIN_PARAM: Param = Param {
    name: "pacing_gain",
    default: 0.0,
    min: 0.0,
    max: 10.0,
    doc: "pacing rate in windows per smoothed RTT; 0 is CUBIC's ACK clocking (not in the slides)",
};

/// What a finished period looks like to whoever chooses the next one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sight {
    /// R̂: smoothed RTT over the smallest one.
    pub(crate) rtt_ratio: f64,
    /// Lost bytes over lost and acknowledged ones.
    pub(crate) loss_ratio: f64,
}

/// What follows from a period.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Verdict {
    /// Which of the reasoner's cases it was; 0 for none of them.
    pub(crate) case: u8,
    /// The learner is asked.
    pub(crate) ask: bool,
    /// Length of the next period.
    pub(crate) mtp: Dur,
}

/// Chooses the length of periods and when the learner is asked.
pub(crate) trait Selector: Send + Sync {
    /// The first period's length.
    fn first(&self) -> Dur;

    /// Judges the period that has just ended.
    fn judge(&mut self, sight: Sight) -> Verdict;
}

/// A hybrid controller.
pub(crate) struct Hybrid<S> {
    cubic: Cubic,
    /// A datapath's CUBIC would do.
    is_linux: bool,
    /// It does, and `cubic` has its window alone.
    remote: bool,
    selector: S,
    monitor: Monitor,
    mtp: Dur,
    /// When the present period ends; unknown before the first packet.
    period_end: Option<Time>,
    /// The report is due to be taken; an answer to it is awaited.
    decision_due: bool,
    asked: bool,
    action: f32,
    max_action: f32,
    window_limit: f64,
    pacing_gain: f64,
    mss: f64,
    srtt: Dur,
    history: [[f32; HISTORY]; SERIES],
    report: [f32; REPORT],
}

impl<S: Selector> Hybrid<S> {
    pub(crate) fn new(config: &Config, selector: S) -> Self {
        Self {
            cubic: Cubic::new(config),
            is_linux: Cubic::is_linux(config),
            remote: false,
            monitor: Monitor::new(),
            mtp: selector.first(),
            selector,
            period_end: None,
            decision_due: false,
            asked: false,
            action: 0.0,
            max_action: config.param(MAX_ACTION_PARAM.name) as f32,
            window_limit: config.param(WINDOW_LIMIT_PARAM.name),
            pacing_gain: config.param(PACING_GAIN_PARAM.name),
            mss: f64::from(config.mss.max(1)),
            srtt: Dur::ZERO,
            history: [[0.0; HISTORY]; SERIES],
            report: [0.0; REPORT],
        }
    }

    /// Ends the present period at `now`; the next one begins.
    fn end_period(&mut self, now: Time) {
        let window_bytes = self.cubic.window().0 as f64;
        let period = self.monitor.end_period(now, self.mtp);
        for (series, value) in self.history.iter_mut().zip(period.observation(window_bytes)) {
            series.rotate_left(1);
            series[HISTORY - 1] = value as f32;
        }
        let verdict = self.selector.judge(Sight { rtt_ratio: period.srtt_ratio(), loss_ratio: period.loss_ratio() });
        self.mtp = verdict.mtp;
        self.period_end = Some(now + self.mtp);
        if verdict.ask {
            self.write_report(now, verdict.case);
            self.decision_due = true;
            self.asked = true;
        }
    }

    /// The largest window that an action may lead to; an initial window in any case.
    fn most_segments(&self) -> u32 {
        let bits = self.window_limit * self.monitor.throughput_max() * self.srtt.as_secs_f64();
        ((bits / 8.0 / self.mss) as u32).max(10)
    }

    /// Reports the time since the last report.
    fn write_report(&mut self, now: Time, case: u8) {
        let span = self.monitor.end_span(now);
        self.report = [
            f32::from(case),
            self.action,
            span.throughput_mbps() as f32,
            span.throughput_max_mbps() as f32,
            span.loss_mbps() as f32,
            span.loss_ratio() as f32,
            span.lost_packets as f32,
            span.rtt.as_millis_f64() as f32,
            span.rtt_min.as_millis_f64() as f32,
            span.srtt.as_millis_f64() as f32,
            (span.rtt - span.rtt_min).as_millis_f64() as f32,
            self.cubic.segments() as f32,
            self.mtp.as_millis_f64() as f32,
            span.mtp_least.as_millis_f64() as f32,
            span.mtp_most.as_millis_f64() as f32,
            span.periods as f32,
            span.interval.as_millis_f64() as f32,
            span.acked_packets as f32,
            now.as_secs_f64() as f32,
        ];
    }
}

impl<S: Selector> Controller for Hybrid<S> {
    fn on_ack(&mut self, ack: &AckInfo) {
        if !self.remote {
            self.cubic.on_ack(ack);
        }
        self.srtt = ack.srtt;
        self.monitor.on_ack(ack);
        if self.period_end.is_some_and(|end| ack.now >= end) {
            self.end_period(ack.now);
        }
    }

    fn on_loss(&mut self, loss: &LossInfo) {
        self.monitor.on_loss(loss);
        if !self.remote {
            self.cubic.on_loss(loss);
        }
    }

    fn on_timeout(&mut self, loss: &LossInfo) {
        self.monitor.on_loss(loss);
        if !self.remote {
            self.cubic.on_timeout(loss);
        }
    }

    fn on_sent(&mut self, sent: &SentInfo) {
        if self.period_end.is_none() {
            self.monitor.start(sent.now);
            self.period_end = Some(sent.now + self.mtp);
        }
        if !self.remote {
            self.cubic.on_sent(sent);
        }
    }

    fn on_spurious_loss(&mut self, now: Time) {
        if !self.remote {
            self.cubic.on_spurious_loss(now);
        }
    }

    fn on_idle_restart(&mut self, now: Time, idle: Dur, rto: Dur) {
        if !self.remote {
            self.cubic.on_idle_restart(now, idle, rto);
        }
    }

    fn window(&self) -> Bytes {
        self.cubic.window()
    }

    fn pacing_rate(&self) -> Option<Rate> {
        let paced = self.pacing_gain > 0.0 && self.srtt > Dur::ZERO;
        paced.then(|| {
            let bits = self.pacing_gain * f64::from(self.cubic.segments()) * self.mss * 8.0;
            Rate((bits / self.srtt.as_secs_f64()) as u64).max(Rate(1))
        })
    }

    fn slow_start_threshold(&self) -> Option<Bytes> {
        self.cubic.slow_start_threshold()
    }

    fn extrapolation(&self, now: Time) -> Extrapolation {
        let left = self.period_end.map_or(self.mtp, |end| end.since(now));
        Extrapolation { cubic: self.is_linux.then_some(left), ..Extrapolation::HOLD }
    }

    fn adopt_window(&mut self, window: Bytes) {
        self.remote = true;
        self.cubic.set_window(window);
    }

    fn learned(&mut self) -> Option<&mut dyn LearnedController> {
        Some(self)
    }
}

impl<S: Selector> LearnedController for Hybrid<S> {
    fn spec(&self) -> &'static LearnedSpec {
        &SPEC
    }

    fn take_decision(&mut self) -> bool {
        std::mem::take(&mut self.decision_due)
    }

    fn end_interval(&mut self, now: Time) {
        self.monitor.end_period(now, self.mtp);
        self.period_end = self.period_end.map(|_| now + self.mtp);
        self.write_report(now, 0);
        self.decision_due = false;
        self.asked = false;
    }

    fn observe(&self, out: &mut [f32]) {
        for (slot, x) in out.iter_mut().zip(self.history.iter().flatten()) {
            *slot = *x;
        }
    }

    fn report(&self, out: &mut [f32]) {
        for (slot, x) in out.iter_mut().zip(self.report) {
            *slot = x;
        }
    }

    fn act(&mut self, action: Action, _now: Time) -> Result<(), ActionError> {
        let a = continuous(action, SPEC.bounds)? * (self.max_action / MAX_ACTION);
        if std::mem::take(&mut self.asked) {
            self.action = a;
            self.cubic.scale(f64::from(a).exp2(), self.most_segments());
        }
        Ok(())
    }
}

/// The value of a continuous `action` within `bounds`.
pub(crate) fn continuous(action: Action, bounds: (f32, f32)) -> Result<f32, ActionError> {
    match action {
        Action::Discrete(_) => Err(ActionError::WrongKind { expected: "continuous" }),
        Action::Continuous(a) if !a.is_finite() => Err(ActionError::NotFinite(a)),
        Action::Continuous(a) if !(bounds.0..=bounds.1).contains(&a) => Err(ActionError::OutOfRange {
            got: a.to_string(),
            expected: format!("a number from {} to {}", bounds.0, bounds.1),
        }),
        Action::Continuous(a) => Ok(a),
    }
}

#[cfg(test)]
mod tests;
