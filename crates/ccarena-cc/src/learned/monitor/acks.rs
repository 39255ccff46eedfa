//! Values of single acknowledgements, and sums of them that few specs name.

use std::collections::VecDeque;

use super::Parts;
use crate::events::{AckInfo, LossInfo, RateSample, SentInfo};
use crate::types::{Bytes, Dur, Time};

/// Content of the newest acknowledgement.
#[derive(Clone, Copy, Debug, Default)]
pub struct Newest {
    /// Time of its arrival; the first packet's time before there was one.
    pub at: Time,
    /// Bytes in flight after it.
    pub in_flight: Bytes,
    /// The last delivery-rate sample.
    pub rate: Option<RateSample>,
    /// Delivery-rate sample of its own.
    pub rate_sampled: Option<RateSample>,
    /// RTT sample of its own.
    pub rtt: Option<Dur>,
    /// The last RTT sample; zero before the first.
    pub rtt_last: Dur,
    /// Smallest and smoothed RTT; zero before the first sample.
    pub rtt_min: Dur,
    /// See `rtt_min`.
    pub srtt: Dur,
    /// RTT variation.
    pub variation: Variation,
    /// Time since the acknowledgement before it.
    pub gap: Option<Dur>,
    /// First byte not yet acknowledged cumulatively, and first byte not yet sent.
    pub una: u64,
    /// See `una`.
    pub nxt: u64,
    /// Retransmitted segments in flight.
    pub retransmitted: u32,
    /// The segment that its RTT sample is of, if departures are kept.
    pub segment: Option<Segment>,
    /// The last such segment, with the time of its acknowledgement.
    pub segment_last: Option<Segment>,
}

impl Newest {
    pub(super) fn on_ack(&mut self, ack: &AckInfo, segment: Option<Segment>) {
        let (at, before) = (ack.now, self.at);
        let gap = self.acked().then(|| at.since(before));
        let mut variation = self.variation;
        if let Some(rtt) = ack.rtt {
            variation.add(rtt);
        }
        if ack.rttvar > Dur::ZERO {
            variation.seconds = ack.rttvar.as_secs_f64();
        }
        *self = Self {
            at,
            in_flight: ack.in_flight,
            rate: ack.rate.or(self.rate),
            rate_sampled: ack.rate,
            rtt: ack.rtt,
            rtt_last: ack.rtt.unwrap_or(self.rtt_last),
            rtt_min: if ack.min_rtt == Dur::MAX { Dur::ZERO } else { ack.min_rtt },
            srtt: ack.srtt,
            variation,
            gap,
            una: ack.snd_una,
            nxt: ack.snd_nxt,
            retransmitted: ack.retransmitted,
            segment,
            segment_last: segment.or(self.segment_last),
        };
    }

    pub(super) fn on_sent(&mut self, sent: &SentInfo) {
        self.in_flight = sent.prior_in_flight + sent.bytes;
        if !sent.retransmission {
            self.nxt = self.nxt.max(sent.snd_nxt + sent.bytes.0);
        }
        self.retransmitted = self.retransmitted.saturating_add(sent.retransmission.into());
    }

    pub(super) fn on_loss(&mut self, loss: &LossInfo) {
        self.in_flight = loss.in_flight;
        if loss.in_flight == Bytes(0) {
            self.retransmitted = 0;
        }
    }

    /// Returns whether there has been an acknowledgement.
    fn acked(&self) -> bool {
        self.una > 0 || self.rtt_last > Dur::ZERO
    }
}

/// Smoothed deviation of RTT samples (RTTVAR of RFC 6298, section 2), in seconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Variation {
    srtt: f64,
    /// The deviation; zero before the first sample.
    pub seconds: f64,
}

impl Variation {
    fn add(&mut self, rtt: Dur) {
        let rtt = rtt.as_secs_f64();
        if self.srtt <= 0.0 {
            *self = Self { srtt: rtt, seconds: rtt / 2.0 };
        } else {
            self.seconds += ((self.srtt - rtt).abs() - self.seconds) / 4.0;
            self.srtt += (rtt - self.srtt) / 8.0;
        }
    }
}

/// Sums of one stretch of time.
#[derive(Clone, Copy, Debug, Default)]
pub struct AckSums {
    /// Delivery-rate samples, and how many of them were limited by the application.
    pub rates: f64,
    /// See `rates`.
    pub app_limited: f64,
    /// Sum of the delivery-rate samples in bit/s.
    pub rate_bps: f64,
    /// Segments that acknowledgements report as marked by ECN.
    pub marked: u64,
}

impl AckSums {
    fn add(&mut self, other: &Self) {
        self.rates += other.rates;
        self.app_limited += other.app_limited;
        self.rate_bps += other.rate_bps;
        self.marked = self.marked.saturating_add(other.marked);
    }
}

/// Sums of the last period and of the time since the decider was last asked.
#[derive(Clone, Copy, Debug, Default)]
pub struct SumsOfAcks {
    present: AckSums,
    period: AckSums,
    span: AckSums,
}

impl SumsOfAcks {
    pub(super) fn on_ack(&mut self, ack: &AckInfo) {
        self.present.marked = self.present.marked.saturating_add(ack.ecn_ce.into());
        if let Some(sample) = ack.rate.filter(|sample| sample.interval > Dur::ZERO) {
            self.present.rates += 1.0;
            self.present.app_limited += f64::from(u8::from(sample.app_limited));
            self.present.rate_bps += sample.delivered.0 as f64 * 8.0 / sample.interval.as_secs_f64();
        }
    }

    pub(super) fn end_period(&mut self) {
        self.period = std::mem::take(&mut self.present);
        self.span.add(&self.period);
    }

    pub(super) fn forget_span(&mut self) {
        self.span = AckSums::default();
    }

    /// Returns the sums of the last period or of the span.
    #[must_use]
    pub fn of(&self, of_span: bool) -> AckSums {
        if of_span { self.span } else { self.period }
    }
}

/// A segment that has been acknowledged.
#[derive(Clone, Copy, Debug, Default)]
pub struct Segment {
    /// Times of its departure and of its acknowledgement.
    pub sent_at: Time,
    /// See `sent_at`.
    pub acked_at: Time,
    /// Bytes sent since then, with its own.
    pub sent: u64,
    /// Bytes acknowledged since then.
    pub delivered: u64,
    /// Time of the newest acknowledgement at its departure; that of the first departure if there was none.
    pub delivered_at: Time,
}

#[derive(Clone, Copy, Debug)]
struct Departure {
    at: Time,
    /// First byte of the segment.
    seq: u64,
    /// Bytes sent before it.
    sent: u64,
    /// Bytes acknowledged before it, and when the newest acknowledgement had come.
    delivered: u64,
    delivered_at: Time,
}

/// Most departures that are kept.
const MOST: usize = 1 << 16;
/// Most departures that stand for segments that left without a call of their own.
const PIECES: u32 = 64;

/// Departures of the segments that may yet be acknowledged, as Indigo's datagrams and their acknowledgements carry them.
#[derive(Clone, Debug, Default)]
pub struct Departures {
    log: VecDeque<Departure>,
    sent: u64,
    delivered: u64,
    delivered_at: Option<Time>,
}

impl Departures {
    pub(super) fn on_sent(&mut self, sent: &SentInfo) {
        let since = *self.delivered_at.get_or_insert(sent.now);
        let before = self.log.back().map_or(sent.now, |last| last.at).min(sent.now);
        let pieces = sent.unreported_packets.min(PIECES);
        // Segments without a call of their own left evenly since the last call.
        for k in 0..pieces {
            let share = |total: u64, k: u32, of: u32| (u128::from(total) * u128::from(k) / u128::from(of)) as u64;
            let bytes = share(sent.unreported.0, k, pieces);
            let at = before + Dur(share(sent.now.since(before).0, k + 1, pieces + 1));
            self.push(at, sent.snd_nxt.saturating_sub(sent.unreported.0 - bytes), self.sent + bytes, since);
        }
        self.sent += sent.unreported.0;
        self.push(sent.now, sent.snd_nxt, self.sent, since);
        self.sent += sent.bytes.0;
    }

    fn push(&mut self, at: Time, seq: u64, sent: u64, delivered_at: Time) {
        if self.log.len() >= MOST {
            self.log.pop_front();
        }
        self.log.push_back(Departure { at, seq, sent, delivered: self.delivered, delivered_at });
    }

    pub(super) fn on_ack(&mut self, ack: &AckInfo) -> Option<Segment> {
        self.delivered += ack.acked.0;
        self.delivered_at = Some(ack.now);
        let sent_at = ack.now - ack.rtt?;
        let place = self.find(sent_at, ack.snd_una)?;
        // It is taken: the next sample of a burst is of the segment after it.
        let departure = self.log.drain(..=place).next_back()?;
        Some(Segment {
            sent_at,
            acked_at: ack.now,
            sent: self.sent - departure.sent,
            delivered: self.delivered - departure.delivered,
            delivered_at: departure.delivered_at,
        })
    }

    /// The departure nearest to `at`; of several at once the last that is acknowledged cumulatively. Transports round
    /// RTTs, and a burst has one time here.
    fn find(&self, at: Time, una: u64) -> Option<usize> {
        let later = self.log.partition_point(|d| d.at < at);
        let off = |place: usize| self.log.get(place).map_or(Dur::MAX, |d| d.at.since(at).max(at.since(d.at)));
        let nearest = if later > 0 && off(later - 1) < off(later) { later - 1 } else { later };
        let time = self.log.get(nearest)?.at;
        let first = self.log.partition_point(|d| d.at < time);
        let acked = self.log.range(first..).take_while(|d| d.at == time && d.seq < una).count();
        Some(first + acked.saturating_sub(1))
    }
}

/// Parts that this file measures of an acknowledgement.
#[derive(Clone, Debug, Default)]
pub(super) struct Acks {
    pub(super) newest: Newest,
    pub(super) sums: SumsOfAcks,
    departures: Departures,
}

impl Acks {
    pub(super) fn on_ack(&mut self, ack: &AckInfo, parts: Parts) {
        let segment = if parts.has(Parts::DEPARTURES) { self.departures.on_ack(ack) } else { None };
        self.newest.on_ack(ack, segment);
        if parts.has(Parts::ACKS) {
            self.sums.on_ack(ack);
        }
    }

    pub(super) fn on_sent(&mut self, sent: &SentInfo, parts: Parts) {
        self.newest.on_sent(sent);
        if parts.has(Parts::DEPARTURES) {
            self.departures.on_sent(sent);
        }
    }
}
