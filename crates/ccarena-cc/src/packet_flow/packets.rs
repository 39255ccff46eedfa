//! State of each packet in flight, for delivery-rate samples and loss episodes.
//!
//! Follows draft-cheng-iccrg-delivery-rate-estimation (Linux's `tcp_rate.c`).

use std::collections::VecDeque;

use crate::events::RateSample;
use crate::types::{Bytes, Dur, Time};

/// A stack declares lost what is so far below the newest packet that has arrived (RFC 9002 §6.1.1).
const THRESHOLD: u64 = 3;
/// More packet numbers than a sender skips (RFC 9000 §21.4): a gap as large is another number space.
const LARGEST_GAP: u64 = 1 << 10;

/// A packet that was sent.
#[derive(Clone, Copy, Debug)]
pub struct Packet {
    /// Number of the packet.
    pub number: u64,
    /// Time of sending.
    pub sent: Time,
    /// Bytes of the packet.
    pub bytes: u64,
    /// Bytes sent before it.
    pub offset: u64,
    delivered: u64,
    delivered_at: Time,
    first_sent: Time,
    app_limited: bool,
    /// Flag that it is taken to hold frames that were lost.
    repeats: bool,
    outstanding: bool,
}

/// All that are on their way, by number and so by time of sending.
#[derive(Clone, Debug, Default)]
pub struct Packets {
    /// The first one is outstanding.
    list: VecDeque<Packet>,
    /// Least number that the next packet may have; none before the first one.
    next: Option<u64>,
    /// Number of the last packet, if it lay beyond a gap. Were it of another number space, the next one would not.
    beyond: Option<u64>,
    /// Bytes sent so far.
    pub sent: u64,
    /// Bytes on their way.
    pub in_flight: u64,
    /// Bytes delivered so far.
    pub delivered: u64,
    /// Packets on their way that are taken to hold lost frames: stacks send those before new ones (RFC 9000 §13.3), and
    /// do not say in which packets.
    pub retransmitted: u32,
    /// Bytes that are lost and not yet sent again.
    to_repeat: u64,
    delivered_at: Time,
    first_sent: Time,
    /// Delivered bytes until which samples are limited by the application; zero if they are not.
    app_limited_until: u64,
}

impl Packets {
    /// Reports that packet `number` of `bytes` leaves at `now`. Returns false if its number belongs to the handshake.
    pub fn send(&mut self, number: u64, bytes: u64, now: Time) -> bool {
        let next = self.next.unwrap_or(number);
        let follows = |before: u64| number >= before && number - before <= LARGEST_GAP;
        if !follows(next) {
            let is_second = number > next && self.beyond.is_some_and(follows);
            self.beyond = (number > next).then_some(number);
            if !is_second {
                return false;
            }
        }
        self.beyond = None;
        if self.in_flight == 0 {
            self.first_sent = now;
            self.delivered_at = now;
        }
        let packet = Packet {
            number,
            sent: now,
            bytes,
            offset: self.sent,
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_sent: self.first_sent,
            app_limited: self.app_limited_until > 0,
            repeats: self.to_repeat > 0,
            outstanding: true,
        };
        self.retransmitted += u32::from(packet.repeats);
        self.to_repeat = self.to_repeat.saturating_sub(bytes);
        self.list.push_back(packet);
        self.next = Some(number + 1);
        self.sent += bytes;
        self.in_flight += bytes;
        true
    }

    /// Removes packet `number` from those in flight, if it is one.
    fn take(&mut self, number: u64) -> Option<Packet> {
        let index = self.list.binary_search_by_key(&number, |packet| packet.number).ok()?;
        let packet = self.list.get_mut(index).filter(|packet| packet.outstanding)?;
        packet.outstanding = false;
        let taken = *packet;
        self.in_flight -= taken.bytes;
        self.retransmitted -= u32::from(taken.repeats);
        while self.list.front().is_some_and(|packet| !packet.outstanding) {
            self.list.pop_front();
        }
        Some(taken)
    }

    /// Reports that packet `number` has arrived. Returns it, or none if it was not in flight.
    pub fn acknowledge(&mut self, number: u64, now: Time) -> Option<Packet> {
        let packet = self.take(number)?;
        self.delivered += packet.bytes;
        self.delivered_at = now;
        Some(packet)
    }

    /// Reports that packet `number` is lost. Returns it, or none if it was not in flight.
    pub fn lose(&mut self, number: u64) -> Option<Packet> {
        let packet = self.take(number)?;
        self.to_repeat += packet.bytes;
        Some(packet)
    }

    /// Returns the number of the first packet in flight that was sent at `sent`.
    pub fn sent_at(&self, sent: Time) -> Option<u64> {
        let index = self.list.partition_point(|packet| packet.sent < sent);
        let at = self.list.range(index..).take_while(|packet| packet.sent == sent);
        at.into_iter().find(|packet| packet.outstanding).map(|packet| packet.number)
    }

    /// Returns the number of the newest packet in flight up to `number`.
    pub fn newest_to(&self, number: u64) -> Option<u64> {
        let end = self.list.partition_point(|packet| packet.number <= number);
        self.list.range(..end).rfind(|packet| packet.outstanding).map(|packet| packet.number)
    }

    /// Returns the number of the oldest packet in flight, if it was sent by `sent`.
    pub fn oldest_by(&self, sent: Time) -> Option<u64> {
        self.list.front().filter(|packet| packet.sent <= sent).map(|packet| packet.number)
    }

    /// Removes packets of the handshake: the stack has dealt with the arrival of packet `number`, and by
    /// its threshold an older one has either arrived or is lost.
    ///
    /// Such are the last packets of the handshake. Their numbers are a space of their own (RFC 9000 §12.3), which the stack
    /// does not name, and what becomes of them it does not tell. One with a number that the connection then skips would stay
    /// for ever, and no acknowledgement would seem to make progress.
    pub fn forget_handshake(&mut self, number: u64) {
        while let Some(oldest) = self.list.front().map(|packet| packet.number).filter(|n| n + THRESHOLD <= number) {
            self.take(oldest);
        }
    }

    /// Removes the packets that the stack, which has `in_flight` bytes on their way, does not count: bare
    /// acknowledgements, and those of the handshake whose keys are gone. They are the oldest that fit the difference.
    pub fn keep(&mut self, in_flight: u64) {
        let mut index = 0;
        while self.in_flight > in_flight {
            let fits = |packet: &&Packet| packet.outstanding && packet.bytes <= self.in_flight - in_flight;
            let Some(number) = self.list.range(index..).find(fits).map(|packet| packet.number) else { return };
            self.take(number);
            index = self.list.partition_point(|packet| packet.number < number);
        }
    }

    /// Returns the delivery-rate sample of an acknowledgement whose newest packet is `newest`, if it spans at least `min_rtt`.
    pub fn sample(&mut self, newest: &Packet, now: Time, min_rtt: Dur) -> Option<RateSample> {
        if self.delivered > self.app_limited_until {
            self.app_limited_until = 0;
        }
        self.first_sent = newest.sent;
        let interval = newest.sent.since(newest.first_sent).max(now.since(newest.delivered_at));
        (interval >= min_rtt && interval > Dur::ZERO).then(|| RateSample {
            delivered: Bytes(self.delivered - newest.delivered),
            interval,
            prior_delivered: Bytes(newest.delivered),
            app_limited: newest.app_limited,
        })
    }

    /// Reports that the application has left the window unused (`tcp_rate_check_app_limited`).
    pub fn on_app_limited(&mut self) {
        self.app_limited_until = (self.delivered + self.in_flight).max(1);
    }

    /// Returns whether the application limits sending, as far as known.
    pub fn is_app_limited(&self) -> bool {
        self.app_limited_until > 0
    }

    /// Returns the first byte that is still in flight.
    pub fn first_outstanding(&self) -> u64 {
        self.list.front().map_or(self.sent, |packet| packet.offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: fn(u64) -> Time = |ms| Time(ms * 1_000_000);

    #[test]
    fn a_sample_is_what_arrived_over_the_longer_of_its_two_phases() {
        let mut packets = Packets::default();
        for n in 0..10 {
            assert!(packets.send(n, 1000, MS(n)));
        }
        assert!(!packets.send(3, 1000, MS(10)), "a number of the handshake");
        for n in 0..10 {
            let packet = packets.acknowledge(n, MS(20 + 2 * n)).unwrap();
            let sample = packets.sample(&packet, MS(20 + 2 * n), Dur::from_millis(20)).unwrap();
            assert_eq!(sample.delivered, Bytes(1000 * (n + 1)));
            assert_eq!(sample.interval, Dur::from_millis(20 + 2 * n));
        }
        assert!(packets.acknowledge(3, MS(50)).is_none());
        assert_eq!((packets.in_flight, packets.delivered, packets.first_outstanding()), (0, 10_000, 10_000));
    }

    #[test]
    fn a_packet_of_the_handshake_does_not_stay() {
        let mut packets = Packets::default();
        // The handshake's number 0; the connection skips it and begins with 1.
        for n in 0..8 {
            assert!(packets.send(n, 1000, MS(n)));
        }
        for n in 1..6 {
            packets.acknowledge(n, MS(20 + n)).unwrap();
            packets.forget_handshake(n);
            assert_eq!(packets.first_outstanding() > 0, n >= THRESHOLD, "packet {n}");
        }
        assert_eq!((packets.first_outstanding(), packets.in_flight, packets.delivered), (6000, 2000, 5000));
        // A packet below the threshold may still arrive.
        packets.acknowledge(7, MS(30)).unwrap();
        packets.forget_handshake(7);
        assert_eq!(packets.first_outstanding(), 6000);
    }

    #[test]
    fn the_second_packet_beyond_a_gap_is_the_connections() {
        let mut packets = Packets::default();
        let sent = [
            (1, true),
            (2 + LARGEST_GAP, true),
            (9000, false),
            (1027, true),
            (9000, false),
            (9001, true),
            (9002, true),
        ];
        for (number, is_tracked) in sent {
            assert_eq!(packets.send(number, 1000, MS(1)), is_tracked, "packet {number}");
        }
        assert_eq!((packets.in_flight, packets.newest_to(u64::MAX)), (5000, Some(9002)));
    }

    proptest! {
        #[test]
        fn bytes_are_in_flight_delivered_or_lost(steps in prop::collection::vec((0_u8..3, 0_u64..40, 1_u64..2000), 1..400)) {
            let (mut packets, mut next, mut lost, mut now) = (Packets::default(), 7, 0, Time(1));
            for (what, number, bytes) in steps {
                now = Time(now.0 + bytes);
                match what {
                    0 => {
                        // Now and then a number is skipped.
                        next += 1 + number / 30;
                        prop_assert!(packets.send(next, bytes, now));
                    }
                    1 => drop(packets.acknowledge(next.saturating_sub(number), now)),
                    _ => lost += packets.lose(next.saturating_sub(number)).map_or(0, |p| p.bytes),
                }
                prop_assert_eq!(packets.in_flight + packets.delivered + lost, packets.sent);
                prop_assert!(packets.first_outstanding() <= packets.sent);
            }
        }
    }
}
