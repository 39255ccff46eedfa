//! What a hybrid measures: sums over the present period and over the time since the learner was last asked, and what is
//! known of the flow so far.

use super::SERIES;
use crate::controller::{AckInfo, LossInfo};
use crate::types::{Bytes, Dur, Time};

/// Sums of one stretch of time.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    start: Time,
    acked: Bytes,
    acked_packets: u32,
    lost: Bytes,
    lost_packets: u32,
    rtt_ns: u64,
    rtt_count: u32,
}

impl Sums {
    fn add(&mut self, other: &Self) {
        self.acked += other.acked;
        self.acked_packets = self.acked_packets.saturating_add(other.acked_packets);
        self.lost += other.lost;
        self.lost_packets = self.lost_packets.saturating_add(other.lost_packets);
        self.rtt_ns = self.rtt_ns.saturating_add(other.rtt_ns);
        self.rtt_count = self.rtt_count.saturating_add(other.rtt_count);
    }
}

/// The results of a stretch of time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Measured {
    pub(super) interval: Dur,
    acked: Bytes,
    pub(super) acked_packets: u32,
    lost: Bytes,
    pub(super) lost_packets: u32,
    /// Mean RTT; the mean before it if there was no sample, zero if there never was one.
    pub(super) rtt: Dur,
    pub(super) rtt_min: Dur,
    pub(super) srtt: Dur,
    /// Highest throughput of any period so far, in bit/s.
    throughput_max: f64,
    /// Periods that it consists of, and the least and the greatest length that was chosen for them.
    pub(super) periods: u32,
    pub(super) mtp_least: Dur,
    pub(super) mtp_most: Dur,
}

impl Measured {
    fn per_second(&self, bytes: Bytes) -> f64 {
        if self.interval == Dur::ZERO { 0.0 } else { bytes.0 as f64 * 8.0 / self.interval.as_secs_f64() }
    }

    fn throughput(&self) -> f64 {
        self.per_second(self.acked)
    }

    pub(super) fn throughput_mbps(&self) -> f64 {
        self.throughput() / 1e6
    }

    pub(super) fn throughput_max_mbps(&self) -> f64 {
        self.throughput_max / 1e6
    }

    pub(super) fn loss_mbps(&self) -> f64 {
        self.per_second(self.lost) / 1e6
    }

    /// Lost bytes over lost and acknowledged ones.
    pub(super) fn loss_ratio(&self) -> f64 {
        ratio(self.lost.0 as f64, (self.lost + self.acked).0 as f64)
    }

    /// R̂: smoothed over smallest RTT; 1 before there is a sample.
    pub(super) fn srtt_ratio(&self) -> f64 {
        if self.rtt_min == Dur::ZERO || self.srtt == Dur::ZERO { 1.0 } else { self.of_rtt_min(self.srtt) }
    }

    fn of_rtt_min(&self, t: Dur) -> f64 {
        ratio(t.as_secs_f64(), self.rtt_min.as_secs_f64())
    }

    /// The seven quantities of a period, without dimension, in the order of the observation. The slides' RTT and thr_max
    /// are the units; `delivery_ratio` is throughput over the window per smallest RTT, so 1 with empty queues.
    pub(super) fn observation(&self, window_bytes: f64) -> [f64; SERIES] {
        let rtt_min_s = self.rtt_min.as_secs_f64();
        [
            ratio(self.throughput(), self.throughput_max),
            ratio(self.throughput() * rtt_min_s, window_bytes * 8.0),
            self.of_rtt_min(self.rtt),
            self.srtt_ratio(),
            self.loss_ratio(),
            ratio(window_bytes * 8.0, self.throughput_max * rtt_min_s),
            self.of_rtt_min(self.interval),
        ]
        .map(|x| x.min(LARGEST))
    }
}

/// Ratios in the observation go no further, whatever happens to a path.
pub(super) const LARGEST: f64 = 1e6;

/// x / y; zero if y is.
fn ratio(x: f64, y: f64) -> f64 {
    if y > 0.0 { x / y } else { 0.0 }
}

/// Sums of the present period and of the finished periods since the last report.
#[derive(Clone, Debug)]
pub(super) struct Monitor {
    period: Sums,
    span: Sums,
    periods: u32,
    mtp_least: Dur,
    mtp_most: Dur,
    throughput_max: f64,
    rtt: Dur,
    rtt_min: Dur,
    srtt: Dur,
}

impl Monitor {
    pub(super) fn new() -> Self {
        Self {
            period: Sums::default(),
            span: Sums::default(),
            periods: 0,
            mtp_least: Dur::MAX,
            mtp_most: Dur::ZERO,
            throughput_max: 0.0,
            rtt: Dur::ZERO,
            rtt_min: Dur::ZERO,
            srtt: Dur::ZERO,
        }
    }

    /// Highest throughput of any period so far, in bit/s.
    pub(super) fn throughput_max(&self) -> f64 {
        self.throughput_max
    }

    /// The first packet leaves.
    pub(super) fn start(&mut self, now: Time) {
        self.period.start = now;
        self.span.start = now;
    }

    #[inline]
    pub(super) fn on_ack(&mut self, ack: &AckInfo) {
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
    }

    pub(super) fn on_loss(&mut self, loss: &LossInfo) {
        self.period.lost += loss.lost;
        self.period.lost_packets = self.period.lost_packets.saturating_add(loss.lost_packets);
    }

    /// Ends a period for which `mtp` was chosen.
    pub(super) fn end_period(&mut self, now: Time, mtp: Dur) -> Measured {
        let sums = std::mem::replace(&mut self.period, Sums { start: now, ..Sums::default() });
        let measured = self.measured(&sums, now);
        self.throughput_max = self.throughput_max.max(measured.throughput());
        self.rtt = measured.rtt;
        self.span.add(&sums);
        self.periods += 1;
        self.mtp_least = self.mtp_least.min(mtp);
        self.mtp_most = self.mtp_most.max(mtp);
        Measured { throughput_max: self.throughput_max, ..measured }
    }

    /// Ends the time since the last report, which consists of whole periods.
    pub(super) fn end_span(&mut self, now: Time) -> Measured {
        let sums = std::mem::replace(&mut self.span, Sums { start: now, ..Sums::default() });
        Measured {
            periods: std::mem::take(&mut self.periods),
            mtp_least: std::mem::replace(&mut self.mtp_least, Dur::MAX).min(self.mtp_most),
            mtp_most: std::mem::replace(&mut self.mtp_most, Dur::ZERO),
            ..self.measured(&sums, now)
        }
    }

    fn measured(&self, sums: &Sums, now: Time) -> Measured {
        let mean = sums.rtt_ns.checked_div(u64::from(sums.rtt_count)).map(Dur);
        Measured {
            interval: now.since(sums.start),
            acked: sums.acked,
            acked_packets: sums.acked_packets,
            lost: sums.lost,
            lost_packets: sums.lost_packets,
            rtt: mean.unwrap_or(self.rtt),
            rtt_min: self.rtt_min,
            srtt: self.srtt,
            throughput_max: self.throughput_max,
            ..Measured::default()
        }
    }
}
