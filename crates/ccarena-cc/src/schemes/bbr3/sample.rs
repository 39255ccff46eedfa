//! Samples of acknowledgements (§4.1): packets under way with the state when they were sent, and the sample of the
//! newest acknowledged one.

use std::collections::VecDeque;

use super::{Bandwidth, Bbr3};
use crate::events::{AckInfo, SentInfo};
use crate::types::Dur;

/// A host that leaves out more numbers at once begins anew.
const MOST_LEFT_OUT: u64 = 1 << 12;

/// A packet under way (`P`).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Packet {
    pub(super) size: u64,
    /// Flight right after it was sent.
    pub(super) tx_in_flight: u64,
    /// Totals of lost and of marked bytes when it was sent.
    pub(super) lost: u64,
    pub(super) marked: u64,
    /// Sent while the application or ProbeRTT limited the flight, and while the application did.
    pub(super) app_limited: bool,
    pub(super) by_application: bool,
}

/// The sample of one acknowledgement (`RS`).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sample {
    /// Delivery rate; none if it was measured over too short a time, or nothing new was delivered.
    pub(super) rate: Option<Delivery>,
    pub(super) newly_acked: u64,
    pub(super) rtt: Option<Dur>,
    /// Flight right after the newest packet was sent, and what was lost and marked since then.
    pub(super) tx_in_flight: u64,
    pub(super) lost: u64,
    pub(super) marked: u64,
    /// The application or ProbeRTT limited the flight, and the application did.
    pub(super) app_limited: bool,
    pub(super) by_application: bool,
}

/// Rate and amount of a delivery.
#[derive(Clone, Copy, Debug)]
pub(super) struct Delivery {
    pub(super) delivery_rate: Bandwidth,
    pub(super) delivered: u64,
    pub(super) prior_delivered: u64,
}

/// Packets under way by number, and the totals that samples are differences of.
#[derive(Debug, Default)]
pub(super) struct Packets {
    /// Number of the first of `under_way`; those that have arrived or are lost are none.
    first: u64,
    under_way: VecDeque<Option<Packet>>,
    /// Newest packet acknowledged since the last sample.
    newest: Option<(u64, Packet)>,
    /// Packets newly marked lost: news if an event of loss follows.
    pub(super) lost_now: Vec<(u64, Packet)>,
    pub(super) lost: u64,
    pub(super) marked: u64,
    /// Packets sent until this much is delivered were held back by ProbeRTT (`C.app_limited`).
    held_back_until: Option<u64>,
}

impl Packets {
    /// `OnPacketSent`.
    pub(super) fn on_sent(&mut self, sent: &SentInfo) {
        // A tail-loss probe repeats a packet, which need not be lost for that.
        self.lost_now.clear();
        if !self.make_room(sent.number) {
            return;
        }
        let size = sent.bytes.0;
        self.under_way.push_back(Some(Packet {
            size,
            tx_in_flight: sent.prior_in_flight.0 + size,
            lost: self.lost,
            marked: self.marked,
            app_limited: sent.app_limited || self.held_back(),
            by_application: sent.app_limited,
        }));
    }

    /// Makes `number` the next packet's. Hosts may leave numbers out (RFC 9000 §21.4); one that is not new is left alone.
    fn make_room(&mut self, number: u64) -> bool {
        let next = self.first.saturating_add(self.under_way.len() as u64);
        if self.under_way.is_empty() || number.saturating_sub(next) > MOST_LEFT_OUT {
            self.under_way.clear();
            self.first = number;
        } else {
            (next..number).for_each(|_| self.under_way.push_back(None));
        }
        number >= next || self.under_way.is_empty()
    }

    fn take(&mut self, number: u64) -> Option<Packet> {
        let index = usize::try_from(number.checked_sub(self.first)?).ok()?;
        let packet = self.under_way.get_mut(index)?.take();
        while let Some(None) = self.under_way.front() {
            self.under_way.pop_front();
            self.first = self.first.saturating_add(1);
        }
        packet
    }

    pub(super) fn on_acked(&mut self, number: u64) {
        if let Some(packet) = self.take(number) {
            self.newest = self.newest.filter(|n| n.0 > number).or(Some((number, packet)));
        }
    }

    pub(super) fn on_lost(&mut self, number: u64) {
        if let Some(packet) = self.take(number) {
            self.lost_now.push((number, packet));
        }
    }

    /// `MarkConnectionAppLimited`, for what is sent until `delivered` is reached.
    pub(super) fn hold_back_until(&mut self, delivered: u64) {
        self.held_back_until = Some(delivered.max(1));
    }

    pub(super) fn held_back(&self) -> bool {
        self.held_back_until.is_some()
    }
}

impl Bbr3 {
    /// `GenerateRateSample` (§4.1.2.3).
    pub(super) fn generate_rate_sample(&mut self, ack: &AckInfo) -> Sample {
        let packets = &mut self.packets;
        packets.held_back_until = packets.held_back_until.filter(|&until| ack.delivered.0 <= until);
        packets.marked += u64::from(ack.ecn_ce) * self.smss;
        let rate = ack.rate.filter(|r| r.interval >= Dur::from_micros(1) && ack.acked.0 > 0);
        let by_application = ack.rate.is_some_and(|r| r.app_limited);
        let mut sample = Sample {
            rate: rate.map(|r| Delivery {
                delivery_rate: r.delivered.0 as f64 / r.interval.as_secs_f64(),
                delivered: r.delivered.0,
                prior_delivered: r.prior_delivered.0,
            }),
            newly_acked: ack.acked.0,
            rtt: ack.rtt,
            app_limited: by_application,
            by_application,
            ..Sample::default()
        };
        if let Some((_, newest)) = packets.newest.take() {
            sample.tx_in_flight = newest.tx_in_flight;
            sample.lost = packets.lost - newest.lost;
            sample.marked = packets.marked - newest.marked;
            sample.app_limited |= newest.app_limited;
            sample.by_application |= newest.by_application;
        }
        sample
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Bytes;

    fn sizes(numbers: &[u64], asked: &[u64]) -> Vec<Option<u64>> {
        let mut packets = Packets::default();
        for number in numbers {
            packets.on_sent(&SentInfo {
                number: *number,
                bytes: Bytes(number.wrapping_add(1000)),
                ..SentInfo::default()
            });
        }
        asked.iter().map(|number| packets.take(*number).map(|packet| packet.size)).collect()
    }

    #[test]
    fn packets_are_found_by_numbers_that_a_host_may_leave_out() {
        assert_eq!(sizes(&[5, 6, 9, 10], &[9, 8, 5, 10]), [Some(1009), None, Some(1005), Some(1010)]);
        assert_eq!(sizes(&[5, 6, 6, 5], &[5, 6, 6]), [Some(1005), Some(1006), None], "a number that is not new");
        assert_eq!(sizes(&[5, u64::MAX - 1], &[5, u64::MAX - 1]), [None, Some(998)], "too many left out");
    }
}
