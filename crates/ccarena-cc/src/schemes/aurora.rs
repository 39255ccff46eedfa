//! `aurora`: a rate that a learner alone steers, once per monitor interval (Jay et al., "A Deep Reinforcement Learning
//! Perspective on Internet Congestion Control", ICML 2019). At the end of an interval with action a
//!
//! ```text
//! rate × (1 + δa) if a ≥ 0,   rate / (1 − δa) otherwise        (equation 1)
//! ```
//!
//! and the learner sees latency gradient, latency ratio and sending ratio of the last ten intervals (§4.1).
//!
//! Where the paper is silent, or differs:
//! - An interval ends with the first acknowledgement one smoothed RTT after its start, and counts what is sent and
//!   acknowledged in between. The latency gradient is the slope of a least-squares line through its RTT samples, as in PCC
//!   Vivace.
//! - Actions are bounded; the paper's are not.
//! - The rate starts at one initial window per RTT, which is taken for 100 ms before the first sample. A window of some RTTs
//!   of sending bounds what a stalled flow has in flight.
//! - The transport repairs losses; they have no effect of their own on the rate.

use super::hybrid::continuous;
use crate::controller::{AckInfo, Action, ActionError, Controller, LearnedController, LearnedSpec, LossInfo, SentInfo};
use crate::scheme::{Config, Param, Scheme};
use crate::types::{Bytes, Dur, Rate, Time};

/// Registry entry.
pub const SCHEME: Scheme = Scheme {
    name: "aurora",
    summary: "Aurora: a rate that a learner multiplies once per round trip",
    params: &[
        Param {
            name: "delta",
            default: 0.025,
            min: 0.0,
            max: 0.1,
            doc: "δ, the change of rate per unit of action (the paper: 0.025)",
        },
        Param {
            name: "interval_rtts",
            default: 1.0,
            min: 0.1,
            max: 10.0,
            doc: "length of a monitor interval in smoothed RTTs (not in the paper)",
        },
        Param {
            name: "min_mbps",
            default: 0.1,
            min: 0.01,
            max: 1000.0,
            doc: "lowest rate in Mbit/s (not in the paper)",
        },
        Param {
            name: "max_mbps",
            default: 1000.0,
            min: 0.1,
            max: 100_000.0,
            doc: "highest rate in Mbit/s, where that is not below the lowest (not in the paper)",
        },
        Param {
            name: "window_rtts",
            default: 2.0,
            min: 1.0,
            max: 100.0,
            doc: "most that may be in flight, in smoothed RTTs of sending (not in the paper)",
        },
    ],
    learned: true,
    weight_above: None,
    requirement: false,
    build: |config| Box::new(Aurora::new(config)),
};

/// Intervals in the observation.
const HISTORY: usize = 10;
const SERIES: usize = 3;
const REPORT: usize = 14;
/// RTT before there is a sample.
const INITIAL_RTT: Dur = Dur::from_millis(100);
/// Fewest and most segments in the window.
const SMALLEST_WINDOW: f64 = 2.0;
const LARGEST_WINDOW: f64 = (1 << 24) as f64;
/// Features go no further, whatever happens to a path.
const LARGEST: f64 = 1e6;

/// What Aurora observes, reports and takes.
pub const SPEC: LearnedSpec = LearnedSpec {
    id: "aurora-1",
    observation_len: HISTORY * SERIES,
    observation: &["latency_gradient[10]", "latency_ratio[10]", "send_ratio[10]"],
    observation_bounds: &[(-LARGEST as f32, LARGEST as f32), (0.0, LARGEST as f32), (0.0, LARGEST as f32)],
    actions: &[],
    bounds: (-10.0, 10.0),
    report: &[
        "action",
        "rate_mbps",
        "throughput_mbps",
        "loss_ratio",
        "sent_packets",
        "acked_packets",
        "lost_packets",
        "rtt_ms",
        "rtt_min_ms",
        "queueing_delay_ms",
        "latency_gradient",
        "send_ratio",
        "interval_ms",
        "time_s",
    ],
};

/// What one monitor interval has measured.
#[derive(Clone, Copy, Debug, Default)]
struct Interval {
    start: Time,
    sent_packets: u32,
    acked: Bytes,
    acked_packets: u32,
    lost_packets: u32,
    line: Line,
}

/// Sums for a least-squares line through RTT samples, in seconds, time from the first of them.
#[derive(Clone, Copy, Debug, Default)]
struct Line {
    first: Time,
    n: f64,
    t: f64,
    tt: f64,
    rtt: f64,
    t_rtt: f64,
}

impl Line {
    fn add(&mut self, now: Time, rtt: Dur) {
        if self.n == 0.0 {
            self.first = now;
        }
        let (t, rtt) = (now.since(self.first).as_secs_f64(), rtt.as_secs_f64());
        self.n += 1.0;
        self.t += t;
        self.tt += t * t;
        self.rtt += rtt;
        self.t_rtt += t * rtt;
    }

    fn mean(&self) -> Option<Dur> {
        (self.n > 0.0).then(|| Dur::from_secs_f64(self.rtt / self.n))
    }

    /// Seconds of RTT per second; zero without two samples at different times.
    fn slope(&self) -> f64 {
        let spread = self.n * self.tt - self.t * self.t;
        if spread > 1e-12 { (self.n * self.t_rtt - self.t * self.rtt) / spread } else { 0.0 }
    }
}

struct Aurora {
    mss: f64,
    delta: f64,
    interval_rtts: f64,
    window_rtts: f64,
    initial_window: f64,
    /// In bit/s of payload.
    least: f64,
    most: f64,
    rate: f64,
    rtt: Option<Dur>,
    rtt_min: Dur,
    srtt: Dur,
    interval: Option<Interval>,
    decision_due: bool,
    asked: bool,
    action: f32,
    history: [[f32; HISTORY]; SERIES],
    report: [f32; REPORT],
}

impl Aurora {
    fn new(config: &Config) -> Self {
        let least = config.param("min_mbps") * 1e6;
        let mut aurora = Self {
            mss: f64::from(config.mss.max(1)),
            delta: config.param("delta"),
            interval_rtts: config.param("interval_rtts"),
            window_rtts: config.param("window_rtts"),
            initial_window: f64::from(config.initial_window.max(1)),
            least,
            most: (config.param("max_mbps") * 1e6).max(least),
            rate: 0.0,
            rtt: None,
            rtt_min: Dur::MAX,
            srtt: Dur::ZERO,
            interval: None,
            decision_due: false,
            asked: false,
            action: 0.0,
            history: [[0.0; HISTORY]; SERIES],
            report: [0.0; REPORT],
        };
        aurora.set_rate(aurora.initial_rate(INITIAL_RTT));
        aurora
    }

    fn initial_rate(&self, rtt: Dur) -> f64 {
        self.initial_window * self.mss * 8.0 / rtt.max(Dur(1)).as_secs_f64()
    }

    fn set_rate(&mut self, rate: f64) {
        self.rate = rate.clamp(self.least, self.most);
    }

    fn smoothed_rtt(&self) -> Dur {
        if self.srtt == Dur::ZERO { INITIAL_RTT } else { self.srtt }
    }

    fn finish_interval(&mut self, now: Time) {
        let i = self.interval.replace(Interval { start: now, ..Interval::default() }).unwrap_or_default();
        let rtt = i.line.mean().or(self.rtt);
        self.rtt = rtt;
        let rtt = rtt.unwrap_or_default();
        let rtt_min = if self.rtt_min == Dur::MAX { rtt } else { self.rtt_min };
        let length = now.since(i.start);
        let slope = i.line.slope().clamp(-LARGEST, LARGEST);
        let ratio = if rtt_min == Dur::ZERO { 1.0 } else { rtt.as_secs_f64() / rtt_min.as_secs_f64() };
        let send_ratio = f64::from(i.sent_packets) / f64::from(i.acked_packets.max(1));
        for (series, x) in self.history.iter_mut().zip([slope, ratio, send_ratio]) {
            series.rotate_left(1);
            series[HISTORY - 1] = x.min(LARGEST) as f32;
        }
        let seconds = length.as_secs_f64();
        let throughput = if length == Dur::ZERO { 0.0 } else { i.acked.0 as f64 * 8.0 / seconds };
        let ended = f64::from(i.acked_packets) + f64::from(i.lost_packets);
        self.report = [
            self.action,
            (self.rate / 1e6) as f32,
            (throughput / 1e6) as f32,
            if ended > 0.0 { (f64::from(i.lost_packets) / ended) as f32 } else { 0.0 },
            i.sent_packets as f32,
            i.acked_packets as f32,
            i.lost_packets as f32,
            rtt.as_millis_f64() as f32,
            rtt_min.as_millis_f64() as f32,
            (rtt - rtt_min).as_millis_f64() as f32,
            slope as f32,
            send_ratio as f32,
            length.as_millis_f64() as f32,
            now.as_secs_f64() as f32,
        ];
    }
}

impl Controller for Aurora {
    fn on_ack(&mut self, ack: &AckInfo) {
        let first = self.srtt == Dur::ZERO && ack.srtt > Dur::ZERO;
        self.srtt = ack.srtt;
        self.rtt_min = ack.min_rtt;
        if first {
            self.set_rate(self.initial_rate(ack.srtt));
        }
        let length = Dur::from_secs_f64(self.smoothed_rtt().as_secs_f64() * self.interval_rtts);
        let Some(interval) = &mut self.interval else { return };
        if let Some(rtt) = ack.rtt {
            interval.line.add(ack.now, rtt);
        }
        interval.acked += ack.acked;
        interval.acked_packets = interval.acked_packets.saturating_add(ack.acked_packets);
        if ack.now >= interval.start + length.max(Dur(1)) {
            self.finish_interval(ack.now);
            self.decision_due = true;
            self.asked = true;
        }
    }

    fn on_loss(&mut self, loss: &LossInfo) {
        if let Some(interval) = &mut self.interval {
            interval.lost_packets = interval.lost_packets.saturating_add(loss.lost_packets);
        }
    }

    fn on_timeout(&mut self, loss: &LossInfo) {
        self.on_loss(loss);
    }

    fn on_sent(&mut self, sent: &SentInfo) {
        let interval = self.interval.get_or_insert_with(|| Interval { start: sent.now, ..Interval::default() });
        interval.sent_packets = interval.sent_packets.saturating_add(1);
    }

    fn window(&self) -> Bytes {
        let segments = self.window_rtts * self.rate * self.smoothed_rtt().as_secs_f64() / 8.0 / self.mss;
        Bytes(segments.clamp(SMALLEST_WINDOW, LARGEST_WINDOW) as u64 * self.mss as u64)
    }

    fn pacing_rate(&self) -> Option<Rate> {
        Some(Rate(self.rate as u64).max(Rate(1)))
    }

    fn min_burst_segments(&self) -> u32 {
        1
    }

    fn owns_recovery(&self) -> bool {
        true
    }

    fn learned(&mut self) -> Option<&mut dyn LearnedController> {
        Some(self)
    }
}

impl LearnedController for Aurora {
    fn spec(&self) -> &'static LearnedSpec {
        &SPEC
    }

    fn take_decision(&mut self) -> bool {
        std::mem::take(&mut self.decision_due)
    }

    fn end_interval(&mut self, now: Time) {
        self.finish_interval(now);
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
        let a = continuous(action, SPEC.bounds)?;
        if std::mem::take(&mut self.asked) {
            self.action = a;
            let step = self.delta * f64::from(a);
            self.set_rate(if a >= 0.0 { self.rate * (1.0 + step) } else { self.rate / (1.0 - step) });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Flow;
    use super::*;

    const RTT: Dur = Dur::from_millis(40);

    /// Acknowledges a packet every 10 ms until a decision is due; how many it took.
    fn until_decision(flow: &mut Flow, rtt: impl Fn(u32) -> Dur) -> u32 {
        for n in 1..1000 {
            flow.ack(1, Dur::from_millis(10), rtt(n));
            if flow.controller.learned().unwrap().take_decision() {
                return n;
            }
        }
        panic!("no decision in 1000 acknowledgements");
    }

    fn started() -> Flow {
        let mut flow = Flow::new("aurora", &Config::default());
        flow.send(Bytes(0));
        until_decision(&mut flow, |_| RTT);
        flow
    }

    fn act(flow: &mut Flow, a: f32) {
        let now = flow.now;
        flow.controller.learned().unwrap().act(Action::Continuous(a), now).unwrap();
    }

    fn rate_mbps(flow: &Flow) -> f64 {
        flow.controller.pacing_rate().unwrap().as_mbps()
    }

    fn report(flow: &mut Flow, name: &str) -> f64 {
        let mut report = [0.0; REPORT];
        flow.controller.learned().unwrap().report(&mut report);
        f64::from(report[SPEC.report.iter().position(|n| *n == name).unwrap()])
    }

    #[test]
    fn the_rate_starts_at_an_initial_window_per_rtt() {
        let mut flow = Flow::new("aurora", &Config::default());
        assert!((rate_mbps(&flow) - 10.0 * 1448.0 * 8.0 / 0.1 / 1e6).abs() < 1e-6);
        flow.send(Bytes(0));
        flow.ack(1, RTT, RTT);
        assert!((rate_mbps(&flow) - 10.0 * 1448.0 * 8.0 / 0.04 / 1e6).abs() < 1e-6);
    }

    #[test]
    fn an_action_multiplies_the_rate_and_its_opposite_takes_that_back() {
        let mut flow = started();
        let before = rate_mbps(&flow);
        act(&mut flow, 4.0);
        assert!((rate_mbps(&flow) / before - 1.1).abs() < 1e-6);
        act(&mut flow, 4.0);
        assert!((rate_mbps(&flow) / before - 1.1).abs() < 1e-6, "an action that nobody asked for counts nothing");
        until_decision(&mut flow, |_| RTT);
        act(&mut flow, -4.0);
        assert!((rate_mbps(&flow) / before - 1.0).abs() < 1e-6);
    }

    #[test]
    fn an_interval_is_a_round_trip_and_reports_what_it_saw() {
        let mut flow = started();
        act(&mut flow, 0.0);
        for _ in 0..6 {
            flow.send(Bytes(0));
        }
        // RTTs grow by 1 ms per 10 ms.
        let acks = until_decision(&mut flow, |n| RTT + Dur::from_millis(u64::from(n)));
        assert_eq!(acks, 5, "the smoothed RTT has risen above 40 ms");
        assert!((report(&mut flow, "interval_ms") - 50.0).abs() < 1e-3);
        assert!((report(&mut flow, "rtt_ms") - 43.0).abs() < 1e-3);
        assert!((report(&mut flow, "latency_gradient") - 0.1).abs() < 1e-5);
        assert!((report(&mut flow, "send_ratio") - 6.0 / 5.0).abs() < 1e-6);
        assert!((report(&mut flow, "throughput_mbps") - 5.0 * 1448.0 * 8.0 / 0.05 / 1e6).abs() < 1e-4);
        let mut observation = [0.0; HISTORY * SERIES];
        flow.controller.learned().unwrap().observe(&mut observation);
        assert!((observation[HISTORY - 1] - 0.1).abs() < 1e-5);
        assert!((observation[3 * HISTORY - 1] - 1.2).abs() < 1e-6);
    }

    #[test]
    fn losses_are_counted_and_do_nothing_else() {
        let mut flow = started();
        let before = (rate_mbps(&flow), flow.window());
        flow.lose(true);
        flow.lose(false);
        flow.time_out(true);
        assert_eq!((rate_mbps(&flow), flow.window()), before);
        let acks = until_decision(&mut flow, |_| RTT);
        assert!((report(&mut flow, "loss_ratio") - 3.0 / (3.0 + f64::from(acks))).abs() < 1e-6);
    }

    #[test]
    fn the_rate_stays_within_its_bounds() {
        let mut flow = started();
        for (a, bound) in [(10.0, 1000.0), (-10.0, 0.1)] {
            for _ in 0..200 {
                act(&mut flow, a);
                until_decision(&mut flow, |_| RTT);
            }
            assert!((rate_mbps(&flow) - bound).abs() < 1e-9);
        }
    }
}
