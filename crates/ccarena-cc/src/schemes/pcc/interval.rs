//! A monitor interval: a run of packets sent at one rate, and what became of them.

use super::reliability::Event;
use super::samples::Samples;
use super::variant::Variant;
use crate::types::{Dur, Time};

/// An interval that has lasted this long needs fewer samples.
pub(super) const LONG: Dur = Dur::from_millis(100);
/// Bits of the packet that the spacing of samples is reckoned with, and that the first ones of an ACK train carry.
const METRIC_PACKET_BITS: f64 = 1500.0 * 8.0;
/// An interval with this many samples, too few of them reliable, is not going to get better.
const HOPELESS: u64 = 200;

/// Purpose of an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// The control waits for its result.
    Useful {
        /// Flag that it tries a higher rate.
        increase: bool,
    },
    /// Sent while results are waited for.
    Filler,
}

/// A monitor interval.
#[derive(Clone, Debug)]
pub(super) struct Interval {
    /// Rate of sending, in bit/s.
    pub(super) rate: f64,
    pub(super) purpose: Purpose,
    /// Smoothed RTT when it began (at its first acknowledgement, once there is one).
    pub(super) start_rtt_us: f64,
    duration: Dur,
    extended: bool,
    /// First and last packet number; none before the first packet.
    numbers: Option<(u64, u64)>,
    first_sent: Time,
    last_sent: Time,
    sent: u64,
    acked: u64,
    lost: u64,
    samples: Samples,
    /// Samples, unreliable ones included.
    seen: u64,
    first_ack: Option<Time>,
    last_ack: Time,
}

/// Results of a complete interval: what utilities are made of.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Statistics {
    /// Rate that it was to be sent at, in bit/s.
    pub(super) rate: f64,
    /// Rate that it was sent at.
    pub(super) sent_rate: f64,
    /// Rate at which acknowledgements came; none if they came at once.
    pub(super) ack_rate: Option<f64>,
    /// Flag that it tried a higher rate.
    pub(super) increase: bool,
    /// Fraction lost.
    pub(super) loss: f64,
    /// Reliable RTT samples.
    pub(super) samples: u64,
    pub(super) mean_rtt_us: f64,
    pub(super) gradient: f64,
    pub(super) gradient_error: f64,
    pub(super) deviation_us: f64,
    /// Fall of the smoothed RTT over the interval.
    pub(super) deflation_us: f64,
}

impl Interval {
    pub(super) fn new(rate: f64, purpose: Purpose, start_rtt_us: f64, duration: Dur) -> Self {
        Self {
            rate,
            purpose,
            start_rtt_us,
            duration,
            extended: false,
            numbers: None,
            first_sent: Time::ZERO,
            last_sent: Time::ZERO,
            sent: 0,
            acked: 0,
            lost: 0,
            samples: Samples::default(),
            seen: 0,
            first_ack: None,
            last_ack: Time::ZERO,
        }
    }

    pub(super) fn is_useful(&self) -> bool {
        self.purpose != Purpose::Filler
    }

    pub(super) fn owns(&self, number: u64) -> bool {
        self.numbers.is_some_and(|(first, last)| (first..=last).contains(&number))
    }

    /// Returns when its last packet left.
    pub(super) fn last_sent(&self) -> Time {
        self.last_sent
    }

    #[inline]
    pub(super) fn on_sent(&mut self, number: u64, now: Time) {
        match &mut self.numbers {
            Some((_, last)) => *last = number.max(*last),
            None => {
                self.numbers = Some((number, number));
                self.first_sent = now;
            }
        }
        self.last_sent = now;
        self.sent += 1;
    }

    pub(super) fn on_lost(&mut self) {
        self.lost += 1;
    }

    pub(super) fn on_acked(&mut self, number: u64, event: &Event, reliable: bool) {
        if self.first_ack.is_none() {
            self.first_ack = Some(event.now);
            self.start_rtt_us = event.srtt_us;
        }
        self.last_ack = event.now;
        self.acked += 1;
        self.seen += 1;
        if reliable {
            self.samples.add(number, event.rtt_us);
        }
    }

    fn has_enough_samples(&self, now: Time, variant: &Variant) -> bool {
        let samples = self.samples.count();
        samples >= variant.samples || (samples >= variant.samples_if_long && now.since(self.first_sent) >= LONG)
    }

    /// Returns whether the next packet opens another one. If too few samples are reliable, it is first extended once.
    pub(super) fn ends(&mut self, now: Time, variant: &Variant) -> bool {
        if !self.has_enough_samples(now, variant) || now.since(self.first_sent) < self.duration {
            return false;
        }
        // Four fifths of the samples.
        if self.extended || self.samples.count() * 5 > self.seen * 4 {
            return true;
        }
        self.duration = self.duration * 2;
        self.extended = true;
        false
    }

    /// The fate of all its packets is known, and it has samples enough.
    pub(super) fn is_complete(&self, now: Time, variant: &Variant) -> bool {
        self.acked + self.lost >= self.sent && self.has_enough_samples(now, variant)
    }

    /// The path or the receiver bunches all its acknowledgements.
    pub(super) fn is_hopeless(&self, now: Time, variant: &Variant) -> bool {
        self.seen >= HOPELESS && !self.has_enough_samples(now, variant)
    }

    /// Returns whether its packets left over some time, so that there is something to measure.
    pub(super) fn is_valid(&self) -> bool {
        self.last_sent > self.first_sent
    }

    /// The results, packets having `packet_bits` and the smoothed RTT being `srtt_us`.
    pub(super) fn statistics(&self, packet_bits: f64, srtt_us: f64) -> Statistics {
        let spacing_us = METRIC_PACKET_BITS / self.rate * 1e6;
        let fit = self.samples.fit(spacing_us);
        let sent_us = self.last_sent.since(self.first_sent).0 as f64 / 1e3;
        let acked_us = self.first_ack.map_or(0.0, |first| self.last_ack.since(first).0 as f64 / 1e3);
        let acked_bits = self.acked as f64 * packet_bits;
        let train_bits = if acked_bits > METRIC_PACKET_BITS { acked_bits - METRIC_PACKET_BITS } else { acked_bits };
        Statistics {
            rate: self.rate,
            sent_rate: self.sent as f64 * packet_bits / (sent_us + spacing_us) * 1e6,
            ack_rate: (self.samples.count() >= 2 && acked_us > 0.0).then(|| train_bits / acked_us * 1e6),
            increase: self.purpose == Purpose::Useful { increase: true },
            loss: self.lost as f64 / self.sent.max(1) as f64,
            samples: self.samples.count(),
            mean_rtt_us: fit.mean_us,
            gradient: fit.gradient,
            gradient_error: fit.error,
            deviation_us: fit.deviation_us,
            deflation_us: (self.start_rtt_us - srtt_us).max(0.0),
        }
    }
}
