//! Measurements of a flow for its clock, signals and base: sums over the present period and since the last request to
//! the decider, and the state of the flow.
//!
//! The sums are always kept. Everything else is a [part](Parts), which costs only specs that name a signal that needs
//! it.

mod acks;
mod line;
mod recent;
mod samples;

use self::acks::Acks;
pub use self::acks::{AckSums, Newest, Segment};
use self::line::Line;
pub use self::recent::{Horizon, Recent, Totals, times};
pub use self::samples::{Gaps, Samples};
use crate::events::{AckInfo, LossInfo, SentInfo};
use crate::types::{Bytes, Dur, Rate, Time};

/// Parts that are measured beyond sums.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parts(u16);

impl Parts {
    /// Sums alone.
    pub const NONE: Self = Self(0);
    /// A line through the RTT samples, whose mean is then that of the line's sums.
    pub const LINE: Self = Self(1);
    /// The RTT samples themselves.
    pub const SAMPLES: Self = Self(2);
    /// Times between acknowledgements.
    pub const GAPS: Self = Self(4);
    /// Totals over recent stretches of time.
    pub const RECENT: Self = Self(8);
    /// The newest acknowledgement: when it came, what is in flight, its delivery-rate sample.
    pub const NEWEST: Self = Self(16);
    /// Part with what is sent.
    pub const SENT: Self = Self(64);
    /// The rate that routers advertise, which the flow then asks for.
    pub const ADVERTISED: Self = Self(32);
    /// Sums of what single acknowledgements say: delivery-rate samples and ECN marks.
    pub const ACKS: Self = Self(128 | Self::NEWEST.0);
    /// Departures of segments, for rates since the acknowledged one left.
    pub const DEPARTURES: Self = Self(256 | Self::NEWEST.0);
    /// Counts of marked packets (ECN).
    pub const MARKS: Self = Self(512 | Self::ACKS.0);

    /// Both.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns whether all of `other` is in it.
    #[must_use]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// Sums of one stretch of time.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    start: Time,
    acked: Bytes,
    acked_packets: u32,
    lost: Bytes,
    lost_packets: u32,
    sent: Bytes,
    sent_packets: u32,
    rtt_ns: u64,
    rtt_count: u32,
    line: Line,
}

impl Sums {
    fn add(&mut self, other: &Self) {
        self.acked += other.acked;
        self.acked_packets = self.acked_packets.saturating_add(other.acked_packets);
        self.lost += other.lost;
        self.lost_packets = self.lost_packets.saturating_add(other.lost_packets);
        self.sent += other.sent;
        self.sent_packets = self.sent_packets.saturating_add(other.sent_packets);
        self.rtt_ns = self.rtt_ns.saturating_add(other.rtt_ns);
        self.rtt_count = self.rtt_count.saturating_add(other.rtt_count);
        self.line.add_line(&other.line);
    }
}

/// The results of a stretch of time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Measured {
    /// Length of the interval.
    pub interval: Dur,
    /// Bytes acknowledged.
    pub acked: Bytes,
    /// Segments acknowledged.
    pub acked_packets: u32,
    /// Bytes marked lost.
    pub lost: Bytes,
    /// Segments marked lost.
    pub lost_packets: u32,
    /// Bytes sent, retransmissions included.
    pub sent: Bytes,
    /// Segments sent, retransmissions included.
    pub sent_packets: u32,
    /// Mean RTT, if there was a sample.
    pub rtt_sampled: Option<Dur>,
    /// Mean RTT; the mean before it if there was no sample, zero if there never was one.
    pub rtt: Dur,
    /// Mean RTT of the period before.
    pub rtt_before: Dur,
    /// Smallest RTT of the flow; zero before the first sample.
    pub rtt_min: Dur,
    /// Smoothed RTT; zero before the first sample.
    pub srtt: Dur,
    /// Highest throughput of any period so far, in bit/s.
    pub throughput_max: f64,
    /// Highest throughput of the periods that ended in the last [`LATELY`], in bit/s.
    pub throughput_lately: f64,
    /// Slope of a least-squares line through the RTT samples, in seconds per second.
    pub slope: f64,
    /// Periods that it consists of, and the least and the greatest length that was chosen for them.
    pub periods: u32,
    /// See `periods`.
    pub length_least: Dur,
    /// See `periods`.
    pub length_most: Dur,
    /// RTT samples.
    pub rtt_samples: u32,
    /// Flag that it is the time since the last request to the decider, not one period.
    pub is_span: bool,
}

impl Measured {
    /// `bytes` over the interval in bit/s.
    #[must_use]
    pub fn per_second(&self, bytes: Bytes) -> f64 {
        if self.interval == Dur::ZERO { 0.0 } else { bytes.0 as f64 * 8.0 / self.interval.as_secs_f64() }
    }

    /// Acknowledged bytes over the interval in bit/s.
    #[must_use]
    pub fn throughput(&self) -> f64 {
        self.per_second(self.acked)
    }

    /// Lost bytes over lost and acknowledged ones.
    #[must_use]
    pub fn loss_ratio(&self) -> f64 {
        ratio(self.lost.0 as f64, (self.lost + self.acked).0 as f64)
    }

    /// Packets in the queue, by Little's law: acknowledged ones per second times sRTT − RTT_min.
    #[must_use]
    pub fn queued_packets(&self) -> f64 {
        let delay = Dur(self.srtt.0.saturating_sub(self.rtt_min.0));
        ratio(f64::from(self.acked_packets) * delay.as_secs_f64(), self.interval.as_secs_f64())
    }

    /// R̂: smoothed over smallest RTT; 1 before there is a sample.
    #[must_use]
    pub fn srtt_ratio(&self) -> f64 {
        if self.rtt_min == Dur::ZERO || self.srtt == Dur::ZERO { 1.0 } else { self.of_rtt_min(self.srtt) }
    }

    /// `t` in smallest RTTs.
    #[must_use]
    pub fn of_rtt_min(&self, t: Dur) -> f64 {
        ratio(t.as_secs_f64(), self.rtt_min.as_secs_f64())
    }

    /// Mean RTT of its samples; without any the smallest RTT of the flow.
    #[must_use]
    pub fn rtt_or_min(&self) -> Dur {
        if self.rtt_min == Dur::ZERO { Dur::ZERO } else { self.rtt_sampled.unwrap_or(self.rtt_min) }
    }

    /// Mean queueing delay of its samples (ACCT's σ, equation 2); zero without any.
    #[must_use]
    pub fn delay_or_zero(&self) -> Dur {
        self.rtt_or_min() - self.rtt_min
    }
}

/// Reach of a maximum that forgets: at least this time, and at most half of it more.
pub const LATELY: Dur = Dur::from_millis(10_000);

/// A maximum that forgets.
#[derive(Clone, Debug, Default)]
struct Lately {
    /// Time at which the newest of three parts of the time began, half of [`LATELY`] each.
    since: Time,
    parts: [f64; 3],
}

impl Lately {
    fn add(&mut self, value: f64, now: Time) {
        while now.since(self.since) >= LATELY / 2 {
            // After a long silence nothing of before it is left, and the parts begin anew.
            let silent = now.since(self.since) >= LATELY * 2;
            self.since = if silent { now } else { self.since + LATELY / 2 };
            self.parts = if silent { [0.0; 3] } else { [0.0, self.parts[0], self.parts[1]] };
        }
        self.parts[0] = self.parts[0].max(value);
    }

    fn max(&self) -> f64 {
        self.parts.iter().copied().fold(0.0, f64::max)
    }
}

/// x / y; zero if y is.
#[must_use]
pub fn ratio(x: f64, y: f64) -> f64 {
    if y > 0.0 { x / y } else { 0.0 }
}

/// Value that acknowledgements feed: one of the [derived](super::derived) signals.
pub trait Tap: Send + Sync + std::fmt::Debug {
    /// An acknowledgement has been booked.
    fn on_ack(&mut self, newest: &Newest);

    /// Returns its value at the end of a period.
    fn value(&self, now: Time) -> f64;

    /// The next acknowledgement after `now` belongs to another period.
    fn end_period(&mut self, now: Time);
}

/// Parts that few specs name.
#[derive(Debug)]
struct Rest {
    parts: Parts,
    samples: Samples,
    gaps: Gaps,
    recent: Recent,
    acks: Acks,
    /// Derived signals that each acknowledgement feeds: the observation's and the report's.
    taps: [Vec<Box<dyn Tap>>; 2],
}

/// Measures a flow.
#[derive(Debug)]
pub struct Monitor {
    period: Sums,
    /// Smallest RTT; zero before the first sample.
    pub rtt_min: Dur,
    /// Smoothed RTT; zero before the first sample.
    pub srtt: Dur,
    /// More than sums is measured at an acknowledgement.
    has_more: bool,
    has_line: bool,
    /// [`on_sent`](Self::on_sent) is to be called.
    pub counts_sent: bool,
    rest: Option<Box<Rest>>,
    /// The rate that the application wants.
    pub desired: Rate,
    /// The lowest of that and what routers advertise.
    pub advertised: Rate,
    /// The period that has ended last, and the periods before it since the last report.
    finished: Sums,
    span: Sums,
    periods: u32,
    length_least: Dur,
    length_most: Dur,
    /// Highest throughput of any period so far, in bit/s.
    pub throughput_max: f64,
    lately: Lately,
    rtt: Dur,
    rtt_before: Dur,
}

impl Monitor {
    /// One that measures `parts`, the recent past over up to `horizon`, and feeds `taps`.
    #[must_use]
    pub fn new(parts: Parts, horizon: Horizon, desired: Rate, taps: [Vec<Box<dyn Tap>>; 2]) -> Self {
        let rest =
            parts.has(Parts::SAMPLES) | parts.has(Parts::GAPS) | parts.has(Parts::RECENT) | parts.has(Parts::NEWEST);
        Self {
            period: Sums::default(),
            rtt_min: Dur::ZERO,
            srtt: Dur::ZERO,
            has_more: rest || parts.has(Parts::LINE),
            has_line: parts.has(Parts::LINE),
            counts_sent: rest || parts.has(Parts::SENT),
            rest: rest.then(|| {
                Box::new(Rest {
                    parts,
                    samples: Samples::default(),
                    gaps: Gaps::default(),
                    recent: Recent::new(horizon),
                    acks: Acks::default(),
                    taps,
                })
            }),
            desired,
            advertised: desired,
            finished: Sums::default(),
            span: Sums::default(),
            periods: 0,
            length_least: Dur::MAX,
            length_most: Dur::ZERO,
            throughput_max: 0.0,
            lately: Lately::default(),
            rtt: Dur::ZERO,
            rtt_before: Dur::ZERO,
        }
    }

    /// Periods begin at `now`: the first packet leaves.
    pub fn start(&mut self, now: Time) {
        self.period.start = now;
        if let Some(rest) = &mut self.rest {
            rest.acks.newest.at = now;
        }
    }

    /// An acknowledgement has been booked.
    #[inline(always)]
    pub fn on_ack(&mut self, ack: &AckInfo) {
        self.period.acked += ack.acked;
        self.period.acked_packets = self.period.acked_packets.saturating_add(ack.acked_packets);
        if let Some(rtt) = ack.rtt {
            self.period.rtt_ns = self.period.rtt_ns.saturating_add(rtt.0);
            self.period.rtt_count = self.period.rtt_count.saturating_add(1);
        }
        if ack.min_rtt != Dur::MAX {
            self.rtt_min = ack.min_rtt;
        }
        self.srtt = ack.srtt;
        if let Some(rate) = ack.signal.rate() {
            self.advertised = rate.min(self.desired).max(Rate(1));
        }
        if self.has_more {
            self.measure_more(ack);
        }
    }

    #[inline]
    fn measure_more(&mut self, ack: &AckInfo) {
        if let (true, Some(rtt)) = (self.has_line, ack.rtt) {
            self.period.line.add(ack.now, rtt);
        }
        if let Some(rest) = &mut self.rest {
            rest.on_ack(ack);
        }
    }

    /// Segments have been marked lost.
    pub fn on_loss(&mut self, loss: &LossInfo) {
        self.period.lost += loss.lost;
        self.period.lost_packets = self.period.lost_packets.saturating_add(loss.lost_packets);
        if let Some(rest) = &mut self.rest {
            rest.on_loss(loss);
        }
    }

    /// A segment leaves, or is the last of several.
    #[inline]
    pub fn on_sent(&mut self, sent: &SentInfo) {
        self.period.sent += sent.bytes + sent.unreported;
        self.period.sent_packets = self.period.sent_packets.saturating_add(1).saturating_add(sent.unreported_packets);
        if let Some(rest) = &mut self.rest {
            rest.on_sent(sent, self.srtt);
        }
    }

    /// The application now wants `rate`.
    pub fn set_desired(&mut self, rate: Rate) {
        self.desired = rate.max(Rate(1));
        self.advertised = self.advertised.min(self.desired);
    }

    /// The window that fills the smallest RTT at the advertised rate (ACCT's twnd, equation 1), in segments of
    /// `wire_bytes`, since routers advertise link rates; endless before there is an RTT.
    #[must_use]
    pub fn target(&self, wire_bytes: f64) -> f64 {
        if self.rtt_min == Dur::ZERO {
            return f64::MAX;
        }
        self.advertised.0 as f64 * self.rtt_min.as_secs_f64() / 8.0 / wire_bytes
    }

    /// Ends a period for which `length` was chosen; zero if the clock chose none. [`end_span`](Self::end_span) or
    /// [`extend_span`](Self::extend_span) is next.
    pub fn end_period(&mut self, now: Time, length: Dur) -> Measured {
        self.finished = std::mem::replace(&mut self.period, Sums { start: now, ..Sums::default() });
        let measured = self.measured(&self.finished, now);
        self.throughput_max = self.throughput_max.max(measured.throughput());
        self.lately.add(measured.throughput(), now);
        self.rtt_before = self.rtt;
        self.rtt = measured.rtt;
        if let Some(rest) = &mut self.rest {
            rest.samples.end_period();
            rest.gaps.end_period();
            rest.acks.sums.end_period();
        }
        Measured {
            throughput_max: self.throughput_max,
            throughput_lately: self.lately.max(),
            periods: 1,
            length_least: length,
            length_most: length,
            ..measured
        }
    }

    /// The period that has just ended, whose length was chosen as `length`, is not reported by itself.
    pub fn extend_span(&mut self, length: Dur) {
        if self.periods == 0 {
            self.span = self.finished;
        } else {
            self.span.add(&self.finished);
        }
        self.periods = self.periods.saturating_add(1);
        self.length_least = self.length_least.min(length);
        self.length_most = self.length_most.max(length);
    }

    /// Ends the time since the decider was last asked at `now`: the period `ended` and what came before it.
    pub fn end_span(&mut self, ended: &Measured, now: Time) -> Measured {
        if self.periods == 0 {
            return Measured { is_span: true, ..*ended };
        }
        self.extend_span(ended.length_most);
        Measured {
            periods: std::mem::take(&mut self.periods),
            length_least: std::mem::replace(&mut self.length_least, Dur::MAX),
            length_most: std::mem::replace(&mut self.length_most, Dur::ZERO),
            is_span: true,
            ..self.measured(&self.span, now)
        }
    }

    /// The report is written: the span's samples are no longer wanted.
    pub fn forget_span(&mut self) {
        if let Some(rest) = &mut self.rest {
            rest.samples.forget_span();
            rest.gaps.forget_span();
            rest.acks.sums.forget_span();
        }
    }

    fn measured(&self, sums: &Sums, now: Time) -> Measured {
        // The line's sums are in floating point, so its mean is the one that belongs to its slope.
        let sampled =
            if self.has_line { sums.line.mean() } else { sums.rtt_ns.checked_div(u64::from(sums.rtt_count)).map(Dur) };
        Measured {
            interval: now.since(sums.start),
            acked: sums.acked,
            acked_packets: sums.acked_packets,
            lost: sums.lost,
            lost_packets: sums.lost_packets,
            sent: sums.sent,
            sent_packets: sums.sent_packets,
            rtt_sampled: sampled,
            rtt_samples: sums.rtt_count,
            rtt: sampled.unwrap_or(self.rtt),
            rtt_before: self.rtt_before,
            rtt_min: self.rtt_min,
            srtt: self.srtt,
            throughput_max: self.throughput_max,
            throughput_lately: self.lately.max(),
            slope: if self.has_line { sums.line.slope() } else { 0.0 },
            ..Measured::default()
        }
    }

    /// RTT samples, if they are kept.
    #[must_use]
    pub fn samples(&self) -> Option<&Samples> {
        self.rest.as_ref().map(|rest| &rest.samples)
    }

    /// Times between acknowledgements, if they are measured.
    #[must_use]
    pub fn gaps(&self) -> Option<&Gaps> {
        self.rest.as_ref().map(|rest| &rest.gaps)
    }

    /// The recent past, if it is kept.
    #[must_use]
    pub fn recent(&self) -> Option<&Recent> {
        self.rest.as_ref().map(|rest| &rest.recent)
    }

    /// Returns whether delivery-rate samples are kept.
    #[must_use]
    pub fn keeps_rate(&self) -> bool {
        self.rest.as_ref().is_some_and(|rest| rest.parts.has(Parts::NEWEST))
    }

    /// The newest acknowledgement, if it is kept.
    #[must_use]
    pub fn newest(&self) -> Newest {
        self.rest.as_ref().map(|rest| rest.acks.newest).unwrap_or_default()
    }

    /// Sums of what single acknowledgements said, of the last period or of the span.
    #[must_use]
    pub fn ack_sums(&self, of_span: bool) -> AckSums {
        self.rest.as_ref().map(|rest| rest.acks.sums.of(of_span)).unwrap_or_default()
    }

    /// Returns the value of a derived signal that each acknowledgement feeds, at the end of a period.
    #[must_use]
    pub fn tapped(&self, of_report: bool, index: usize, now: Time) -> f64 {
        let taps = self.rest.as_ref().map(|rest| &rest.taps[usize::from(of_report)]);
        taps.and_then(|taps| taps.get(index)).map_or(0.0, |tap| tap.value(now))
    }

    /// Begins the next period of the derived signals that each acknowledgement feeds.
    pub fn end_taps(&mut self, of_report: bool, now: Time) {
        if let Some(rest) = &mut self.rest {
            rest.taps[usize::from(of_report)].iter_mut().for_each(|tap| tap.end_period(now));
        }
    }
}

impl Rest {
    #[inline(never)]
    fn on_ack(&mut self, ack: &AckInfo) {
        if self.parts.has(Parts::SAMPLES) {
            if let Some(rtt) = ack.rtt {
                self.samples.add(rtt);
            }
        }
        if self.parts.has(Parts::GAPS) {
            self.gaps.add(ack.now);
        }
        if self.parts.has(Parts::RECENT) {
            let part = Totals {
                acked: ack.acked.0,
                acked_packets: u64::from(ack.acked_packets),
                marked_packets: u64::from(ack.ecn_ce),
                ..Totals::default()
            };
            self.recent.add(ack.now, ack.srtt, part);
        }
        if self.parts.has(Parts::NEWEST) {
            self.acks.on_ack(ack, self.parts);
        }
        for tap in self.taps.iter_mut().flatten() {
            tap.on_ack(&self.acks.newest);
        }
    }

    fn on_loss(&mut self, loss: &LossInfo) {
        if self.parts.has(Parts::RECENT) {
            self.recent.count(Totals {
                lost: loss.lost.0,
                lost_packets: u64::from(loss.lost_packets),
                ..Totals::default()
            });
        }
        self.acks.newest.on_loss(loss);
    }

    fn on_sent(&mut self, sent: &SentInfo, srtt: Dur) {
        if self.parts.has(Parts::RECENT) {
            let (bytes, packets) = (sent.bytes + sent.unreported, 1 + u64::from(sent.unreported_packets));
            self.recent.add(sent.now, srtt, Totals { sent: bytes.0, sent_packets: packets, ..Totals::default() });
        }
        if self.parts.has(Parts::NEWEST) {
            self.acks.on_sent(sent, self.parts);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_maximum_that_forgets_reaches_back_10_to_15_seconds() {
        let second = |k: u64| Time::ZERO + Dur::from_millis(1000) * k;
        for shift in 0..12 {
            let mut lately = Lately::default();
            lately.add(1.0, second(shift));
            lately.add(5.0, second(shift + 1));
            let kept = (2..40).filter(|k| {
                lately.add(2.0, second(shift + k));
                lately.max() > 2.0
            });
            let last = kept.max().unwrap_or(0) - 1;
            assert!((9..=15).contains(&last), "{shift}: {last} s");
        }
        let mut lately = Lately::default();
        lately.add(5.0, second(1));
        lately.add(2.0, second(1000));
        assert!(lately.max() < 3.0, "a long silence");
    }
}
