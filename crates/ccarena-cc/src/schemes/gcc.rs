//! `gcc`: Google Congestion Control for real-time media (draft-ietf-rmcat-gcc-02).
//!
//! Two controllers compute a rate, and the lower one holds. The delay-based one (section 5) estimates whether one-way
//! delays grow, and compares the trend with a threshold that adapts. It moves its rate up slowly, or down to 0.85 of what
//! arrives. The loss-based one (section 6) moves its rate by the share of packets lost.
//!
//! Departures from the draft:
//! - Delays are round-trip times, whose differences are those of one-way delays while the way back has no queue.
//! - The arrival-time filter is the trend line that WebRTC has used since 2017 instead of the Kalman filter: the slope of
//!   smoothed, accumulated delay variation over the last 20 groups, times the number of groups (60 at most), times 4. The
//!   threshold's gains are those of that filter.
//! - The rate is that of payload, and packets are paced at it; WebRTC's pacer sends at 2.5 times the rate.
//! - A loss report covers at least a second. A timeout counts as one in which everything was lost.
//! - Congestion marks have no effect.
//!
//! Of RFC 8867's test cases, it meets the expectations of 5.1 (variable capacity), 5.2 (with two flows) and 5.4 (competing
//! flows). Beside a long TCP flow (5.6) it gets nearly nothing, which the case does not want.

use std::collections::VecDeque;

use crate::controller::{Controller, TransportNeeds};
use crate::elementary;
use crate::events::{AckInfo, LossInfo};
use crate::feedback::Feedback;
use crate::param::Param;
use crate::scheme::{Config, Scheme};
use crate::types::{Bytes, Dur, Rate, Time};

/// Registry entry.
pub const SCHEME: Scheme = Scheme {
    name: "gcc",
    summary: "GCC: real-time media by the trend of delays and by losses (draft-ietf-rmcat-gcc-02)",
    params: &[Param {
        name: "initial_rate_mbps",
        default: 0.3,
        min: 0.05,
        max: 10_000.0,
        doc: "first rate in Mbit/s (WebRTC's default)",
    }],
    learned: false,
    rules: false,
    weight_above: None,
    requirement: false,
    alias_of: None,
    feedback: Feedback::None,
    build: |config| Box::new(Gcc::new(config)),
};

/// Packets sent within this time are one group (section 5.2, `burst_time`).
const GROUP_MS: f64 = 5.0;
/// Groups of the trend line, weight of the past in the smoothed delay, most groups that count, and the gain.
const TREND_GROUPS: usize = 20;
const SMOOTHING: f64 = 0.9;
const MOST_GROUPS: f64 = 60.0;
const TREND_GAIN: f64 = 4.0;
/// First, least and largest threshold in ms, the trend's excess beyond which it does not adapt, and its gains per ms up and
/// down (section 5.4, `del_var_th`).
const THRESHOLD_MS: f64 = 12.5;
const THRESHOLD_RANGE_MS: (f64, f64) = (6.0, 600.0);
const THRESHOLD_IGNORES_MS: f64 = 15.0;
const THRESHOLD_GAINS: (f64, f64) = (0.0087, 0.039);
const THRESHOLD_STEP_MS: f64 = 100.0;
/// Time above the threshold that counts as overuse (`overuse_time_th`).
const OVERUSE_MS: f64 = 10.0;
/// Growth of the rate in a second far from convergence, and share of the arriving rate after overuse (section 5.5).
const GROWTH: f64 = 1.08;
const BETA: f64 = 0.85;
/// The rate is at most this multiple of the arriving rate (section 5.5).
const MOST_OF_ARRIVING: f64 = 1.5;
/// Weight of a new value in the mean of arriving rates at overuse (section 5.5: 0.95 for the past).
const CONVERGENCE_GAIN: f64 = 0.05;
/// Period over which the arriving rate is measured (section 5.5: 0.5 to 1 s).
const MEASURED: Dur = Dur::from_millis(500);
/// Frames per second, and bytes of a packet, that additive increase is computed for (section 5.5).
const FRAMES_PER_S: f64 = 30.0;
const PACKET_BYTES: f64 = 1200.0;
/// Loss below which the rate grows, above which it falls, growth, and time of a report (section 6).
const LOW_LOSS: f64 = 0.02;
const HIGH_LOSS: f64 = 0.1;
const LOSS_GROWTH: f64 = 1.05;
const REPORT: Dur = Dur::from_millis(1000);
/// Least and largest rate in bit/s.
const RATES: (f64, f64) = (5_000.0, 1e11);
/// Fewest segments in the window, and its length in round-trip times: pacing is what limits.
const SMALLEST_WINDOW: f64 = 4.0;
const WINDOW_RTTS: f64 = 2.0;

struct Gcc {
    trend: Trend,
    detector: Detector,
    control: RateControl,
    losses: Losses,
    arriving: Arriving,
    srtt: Dur,
    mss: u64,
}

impl Gcc {
    fn new(config: &Config) -> Self {
        let first = config.param("initial_rate_mbps") * 1e6;
        Self {
            trend: Trend::default(),
            detector: Detector { threshold: THRESHOLD_MS, ..Detector::default() },
            control: RateControl::new(first),
            losses: Losses { rate: f64::INFINITY, acked: 0.0, lost: 0.0, since: Time::ZERO },
            arriving: Arriving::default(),
            srtt: Dur::from_millis(100),
            mss: u64::from(config.mss.max(1)),
        }
    }

    /// Rate in bit/s: the lower of both (section 6).
    fn rate(&self) -> f64 {
        self.control.rate.min(self.losses.rate).clamp(RATES.0, RATES.1)
    }
}

/// Usage of the path, as the detector signals it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Usage {
    #[default]
    Normal,
    Over,
    Under,
}

/// Slope of the delay (sections 5.2 and 5.3).
#[derive(Default)]
struct Trend {
    /// Send time of the first packet of the group that is open, send and arrival time of its last; in ms.
    open: Option<(f64, f64, f64)>,
    /// The same two of the last packet of the group before it.
    last: Option<(f64, f64)>,
    /// Sum of delay variations, and its smoothed value.
    sum: f64,
    smoothed: f64,
    groups: f64,
    /// Arrival times and smoothed delays of the last groups.
    points: VecDeque<(f64, f64)>,
}

impl Trend {
    /// Takes a packet's send and arrival time. Returns the time from the group before to the one that it closes, and the
    /// trend, both in ms.
    fn on_packet(&mut self, sent: f64, arrived: f64) -> Option<(f64, f64)> {
        let Some((first, last_sent, _)) = self.open else {
            self.open = Some((sent, sent, arrived));
            return None;
        };
        if sent < last_sent {
            // An older packet tells nothing.
            return None;
        }
        if sent - first <= GROUP_MS {
            self.open = Some((first, sent, arrived));
            return None;
        }
        let closed = self.open.replace((sent, sent, arrived)).map(|(_, sent, arrived)| (sent, arrived));
        let (previous, closed) = (std::mem::replace(&mut self.last, closed)?, closed?);
        let between = closed.1 - previous.1;
        self.groups = (self.groups + 1.0).min(MOST_GROUPS);
        self.sum += between - (closed.0 - previous.0);
        self.smoothed = SMOOTHING * self.smoothed + (1.0 - SMOOTHING) * self.sum;
        self.points.push_back((closed.1, self.smoothed));
        if self.points.len() > TREND_GROUPS {
            self.points.pop_front();
        }
        Some((between, self.slope() * self.groups * TREND_GAIN))
    }

    /// Least-squares slope of the last groups; zero before there are enough.
    fn slope(&self) -> f64 {
        if self.points.len() < TREND_GROUPS {
            return 0.0;
        }
        let n = self.points.len() as f64;
        let (x, y) = self.points.iter().fold((0.0, 0.0), |sum, point| (sum.0 + point.0 / n, sum.1 + point.1 / n));
        let (above, below) = self.points.iter().fold((0.0, 0.0), |sum, point| {
            let d = point.0 - x;
            (sum.0 + d * (point.1 - y), sum.1 + d * d)
        });
        if below > 0.0 { above / below } else { 0.0 }
    }
}

/// Overuse detector (section 5.4).
#[derive(Default)]
struct Detector {
    threshold: f64,
    /// Time for which the trend has been above it, and the trend before.
    above_ms: f64,
    before: f64,
    usage: Usage,
}

impl Detector {
    fn detect(&mut self, between_ms: f64, trend: f64) -> Usage {
        if trend > self.threshold {
            self.above_ms += between_ms;
            if self.above_ms > OVERUSE_MS && trend >= self.before {
                self.above_ms = 0.0;
                self.usage = Usage::Over;
            }
        } else {
            self.above_ms = 0.0;
            self.usage = if trend < -self.threshold { Usage::Under } else { Usage::Normal };
        }
        self.before = trend;
        self.adapt(between_ms, trend.abs());
        self.usage
    }

    fn adapt(&mut self, between_ms: f64, trend: f64) {
        if trend - self.threshold > THRESHOLD_IGNORES_MS {
            return;
        }
        let gain = if trend < self.threshold { THRESHOLD_GAINS.1 } else { THRESHOLD_GAINS.0 };
        self.threshold += gain * (trend - self.threshold) * between_ms.clamp(0.0, THRESHOLD_STEP_MS);
        self.threshold = self.threshold.clamp(THRESHOLD_RANGE_MS.0, THRESHOLD_RANGE_MS.1);
    }
}

/// State of the rate control (section 5.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Hold,
    Increase,
    Decrease,
}

/// Delay-based rate (section 5.5).
struct RateControl {
    rate: f64,
    state: State,
    updated: Option<Time>,
    /// Mean of the arriving rates at overuse in kbit/s, and their variance over the mean.
    mean: Option<f64>,
    variance: f64,
}

impl RateControl {
    fn new(rate: f64) -> Self {
        Self { rate, state: State::Increase, updated: None, mean: None, variance: 0.4 }
    }

    fn update(&mut self, now: Time, usage: Usage, arriving: Option<f64>, rtt: Dur) {
        self.state = match (usage, self.state) {
            (Usage::Over, _) => State::Decrease,
            (Usage::Under, _) | (Usage::Normal, State::Decrease) => State::Hold,
            (Usage::Normal, _) => State::Increase,
        };
        let passed = self.updated.replace(now).map_or(0.0, |before| now.since(before).as_secs_f64());
        let Some(arriving) = arriving else { return };
        match self.state {
            State::Hold => {}
            State::Increase => {
                if self.mean.is_some_and(|mean| arriving / 1e3 > mean + 3.0 * self.deviation(mean)) {
                    self.mean = None;
                }
                let grown = match self.mean {
                    Some(_) => self.rate + Self::additive(self.rate, passed, rtt),
                    None => self.rate * elementary::powf(GROWTH, passed.min(1.0)),
                };
                // A rate that the application leaves unused is no reason to fall.
                self.rate = grown.min((MOST_OF_ARRIVING * arriving).max(self.rate)).clamp(RATES.0, RATES.1);
            }
            State::Decrease => {
                self.remember(arriving / 1e3);
                self.rate = self.rate.min(BETA * arriving).max(RATES.0);
            }
        }
    }

    /// Half a packet per response time.
    fn additive(rate: f64, passed: f64, rtt: Dur) -> f64 {
        let per_frame = rate / FRAMES_PER_S;
        let packet = per_frame / (per_frame / (PACKET_BYTES * 8.0)).ceil().max(1.0);
        let response = 0.1 + rtt.as_secs_f64();
        (0.5 * (passed / response).min(1.0) * packet).max(1000.0 * passed.min(1.0))
    }

    fn deviation(&self, mean: f64) -> f64 {
        (self.variance * mean).sqrt()
    }

    fn remember(&mut self, kbps: f64) {
        let before = self.mean.filter(|&mean| kbps >= mean - 3.0 * self.deviation(mean)).unwrap_or(kbps);
        let mean = before + CONVERGENCE_GAIN * (kbps - before);
        let difference = (mean - kbps).powi(2) / mean.max(1.0);
        self.variance = ((1.0 - CONVERGENCE_GAIN) * self.variance + CONVERGENCE_GAIN * difference).clamp(0.4, 2.5);
        self.mean = Some(mean);
    }
}

/// Loss-based rate (section 6), infinite before the first report with losses.
struct Losses {
    rate: f64,
    acked: f64,
    lost: f64,
    since: Time,
}

impl Losses {
    fn report(&mut self, now: Time, current: f64) {
        if now.since(self.since) < REPORT {
            return;
        }
        let share = self.lost / (self.acked + self.lost).max(1.0);
        self.heed(share, current);
        (self.acked, self.lost, self.since) = (0.0, 0.0, now);
    }

    fn heed(&mut self, share: f64, current: f64) {
        if share > HIGH_LOSS {
            self.rate = self.rate.min(current) * (1.0 - 0.5 * share);
        } else if share < LOW_LOSS {
            self.rate = (self.rate * LOSS_GROWTH).min(RATES.1);
        }
        self.rate = self.rate.max(RATES.0);
    }
}

/// Rate at which packets arrive, over the last [`MEASURED`].
#[derive(Default)]
struct Arriving {
    delivered: VecDeque<(Time, u64)>,
}

impl Arriving {
    fn update(&mut self, now: Time, delivered: u64) {
        // A value per millisecond is enough, and bounds the memory.
        if self.delivered.back().is_none_or(|last| now.since(last.0) >= Dur::from_millis(1)) {
            self.delivered.push_back((now, delivered));
        }
        while self.delivered.get(1).is_some_and(|second| now.since(second.0) >= MEASURED) {
            self.delivered.pop_front();
        }
    }

    /// Returns the rate in bit/s; none before a whole period.
    fn rate(&self) -> Option<f64> {
        let (first, last) = (self.delivered.front()?, self.delivered.back()?);
        let length = last.0.since(first.0);
        (length >= MEASURED).then(|| (last.1 - first.1) as f64 * 8.0 / length.as_secs_f64())
    }
}

impl Controller for Gcc {
    fn on_ack(&mut self, ack: &AckInfo) {
        if ack.srtt > Dur::ZERO {
            self.srtt = ack.srtt;
        }
        self.arriving.update(ack.now, ack.delivered.0);
        self.losses.acked += f64::from(ack.acked_packets);
        let current = self.rate();
        self.losses.report(ack.now, current);
        let Some(rtt) = ack.rtt else { return };
        let arrived = ack.now.0 as f64 / 1e6;
        if let Some((between, trend)) = self.trend.on_packet(arrived - rtt.as_millis_f64(), arrived) {
            let usage = self.detector.detect(between, trend);
            self.control.update(ack.now, usage, self.arriving.rate(), self.srtt);
        }
    }

    fn on_loss(&mut self, loss: &LossInfo) {
        self.losses.lost += f64::from(loss.lost_packets);
    }

    fn on_timeout(&mut self, loss: &LossInfo) {
        if loss.new_episode {
            let current = self.rate();
            self.losses.heed(1.0, current);
        }
    }

    fn window(&self) -> Bytes {
        let bytes = self.rate() / 8.0 * self.srtt.as_secs_f64() * WINDOW_RTTS;
        Bytes((bytes / self.mss as f64).ceil().clamp(SMALLEST_WINDOW, (1 << 24) as f64) as u64 * self.mss)
    }

    fn pacing_rate(&self) -> Option<Rate> {
        Some(Rate(self.rate() as u64))
    }

    fn transport(&self) -> TransportNeeds {
        TransportNeeds { owns_recovery: true, ..TransportNeeds::WINDOW }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Path;
    use super::*;

    fn config() -> Config {
        Config { params: [("initial_rate_mbps".to_string(), 0.3)].into(), ..Config::default() }
    }

    /// The trend after packets sent every 20 ms whose delay grows by `slope` ms per ms.
    fn trend(slope: f64) -> f64 {
        let mut trend = Trend::default();
        let packets = (0..200).map(|k| 20.0 * f64::from(k));
        packets.filter_map(|sent| trend.on_packet(sent, sent * (1.0 + slope) + 30.0)).last().unwrap().1
    }

    #[test]
    fn the_trend_is_the_slope_of_the_delay() {
        assert!(trend(0.0).abs() < 1e-9);
        // 60 groups, gain 4; slope per ms of arrival.
        assert!((trend(0.1) / (240.0 * 0.1 / 1.1) - 1.0).abs() < 0.01, "{}", trend(0.1));
        assert!(trend(-0.1) < -20.0);
    }

    #[test]
    fn packets_of_a_burst_are_one_group() {
        let mut trend = Trend::default();
        let closed = (0..100).filter(|&k| trend.on_packet(f64::from(k), f64::from(k)).is_some()).count();
        assert_eq!(closed, 15, "a group of 6 each 6 ms; the first two have none before them");
    }

    #[test]
    fn overuse_takes_time_and_a_trend_that_does_not_fall() {
        let mut detector = Detector { threshold: THRESHOLD_MS, ..Detector::default() };
        assert_eq!(detector.detect(8.0, 20.0), Usage::Normal);
        assert_eq!(detector.detect(8.0, 19.0), Usage::Normal, "it falls");
        assert_eq!(detector.detect(8.0, 21.0), Usage::Over);
        assert_eq!(detector.detect(8.0, 0.0), Usage::Normal);
        assert_eq!(detector.detect(8.0, -30.0), Usage::Under);
        let adapted = detector.threshold;
        detector.detect(8.0, 500.0);
        assert!((detector.threshold - adapted).abs() < 1e-12, "a spike does not move the threshold");
    }

    #[test]
    fn the_rate_grows_by_eight_percent_a_second_and_falls_to_what_arrives() {
        let mut control = RateControl::new(1e6);
        let second = |s: f64| Time::from_secs_f64(s);
        for tenth in 0..=10 {
            control.update(second(f64::from(tenth) / 10.0), Usage::Normal, Some(1e6), Dur::from_millis(50));
        }
        assert!((control.rate / 1.08e6 - 1.0).abs() < 1e-6, "{}", control.rate);
        control.update(second(1.1), Usage::Over, Some(1e6), Dur::from_millis(50));
        assert!((control.rate / 0.85e6 - 1.0).abs() < 1e-9);
        control.update(second(1.2), Usage::Normal, Some(0.85e6), Dur::from_millis(50));
        assert_eq!(control.state, State::Hold);
        // Near what arrived at overuse it adds half a packet per 150 ms.
        control.update(second(1.35), Usage::Normal, Some(0.9e6), Dur::from_millis(50));
        let packet = 0.85e6 / 30.0 / 3.0;
        assert!((control.rate - 0.85e6 - packet / 2.0).abs() < 1.0, "{}", control.rate);
        // Never beyond 1.5 of what arrives, and an application that sends less is no reason to fall.
        let before = control.rate;
        control.update(second(2.0), Usage::Normal, Some(1e5), Dur::from_millis(50));
        assert!((control.rate - before).abs() < 1e-9);
    }

    #[test]
    fn losses_above_a_tenth_reduce_the_rate_and_few_let_it_grow() {
        let mut losses = Losses { rate: 1e6, acked: 80.0, lost: 20.0, since: Time::ZERO };
        losses.report(Time::from_secs_f64(0.9), 1e6);
        assert!((losses.rate - 1e6).abs() < 1e-9, "a report covers a second");
        losses.report(Time::from_secs_f64(1.0), 1e6);
        assert!((losses.rate - 0.9e6).abs() < 1e-6);
        (losses.acked, losses.lost) = (95.0, 5.0);
        losses.report(Time::from_secs_f64(2.0), 1e6);
        assert!((losses.rate - 0.9e6).abs() < 1e-6);
        losses.acked = 100.0;
        losses.report(Time::from_secs_f64(3.0), 1e6);
        assert!((losses.rate - 0.945e6).abs() < 1e-6);
    }

    #[test]
    fn a_timeout_halves_the_rate_once() {
        let mut gcc = Gcc::new(&config());
        gcc.on_timeout(&LossInfo { new_episode: true, ..LossInfo::default() });
        gcc.on_timeout(&LossInfo::default());
        assert_eq!(gcc.pacing_rate(), Some(Rate(150_000)));
    }

    #[test]
    fn alone_it_fills_most_of_the_link_with_a_short_queue() {
        let mut path = Path::new("gcc", &config(), 2.0, Dur::from_millis(50));
        path.run(120.0);
        assert!((0.7..=1.0).contains(&path.utilisation()), "{}", path.utilisation());
        assert!(path.mean_queueing() < Dur::from_millis(100), "{}", path.mean_queueing());
    }
}
