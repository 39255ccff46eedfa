//! The receiver: reassembly, selective acknowledgement and delayed acknowledgement as Linux does them.

use ccarena_cc::{Dur, Rate, Time};

use crate::packet::{Ack, Block, Packet, SACK_BLOCKS};

/// Segments acknowledged at once when a connection starts (Linux's `TCP_MAX_QUICKACKS`).
const QUICK_ACKS: u32 = 16;
/// Longest delay of an acknowledgement (Linux's `TCP_DELACK_MIN`, which its timer starts from).
const DELAYED_ACK: Dur = Dur::from_millis(40);

/// Receiver state. Sequence numbers count segments.
#[derive(Debug)]
pub struct Receiver {
    next: u32,
    /// Blocks received beyond `next`, in order, disjoint and not adjacent.
    beyond: Vec<Block>,
    /// A segment of each recently changed block, the latest first.
    recent: Vec<u32>,
    sack: bool,
    delayed: bool,
    quick: u32,
    unacknowledged: u32,
    /// Timestamp to echo: of the segment that last advanced the left edge of the acknowledged window.
    echo: Time,
    advertised: Rate,
    /// When a delayed acknowledgement is due.
    pub ack_due: Time,
    /// Payload bytes received for the first time.
    pub goodput_bytes: u64,
    /// Segments that had been received before.
    pub duplicates: u64,
}

impl Receiver {
    /// A receiver that acknowledges selectively and with delay if asked to.
    #[must_use]
    pub fn new(sack: bool, delayed: bool) -> Self {
        Self {
            next: 0,
            beyond: Vec::new(),
            recent: Vec::new(),
            sack,
            delayed,
            quick: QUICK_ACKS,
            unacknowledged: 0,
            echo: Time::ZERO,
            advertised: Rate(u64::MAX),
            ack_due: Time::NEVER,
            goodput_bytes: 0,
            duplicates: 0,
        }
    }

    /// A data segment with `payload` bytes arrives; returns the acknowledgement if one leaves now.
    #[inline]
    pub fn on_data(&mut self, packet: &Packet, payload: u32, now: Time) -> Option<Ack> {
        self.advertised = packet.advertised;
        if packet.seq == self.next && self.beyond.is_empty() {
            self.next += 1;
            self.goodput_bytes += u64::from(payload);
            if self.unacknowledged == 0 {
                self.echo = packet.sent;
            }
            self.unacknowledged += 1;
            if self.unacknowledged >= 2 || !self.delayed || self.quick > 0 {
                return Some(self.acknowledge());
            }
            self.ack_due = now + DELAYED_ACK;
            return None;
        }
        self.on_out_of_order(packet, payload)
    }

    /// The delayed acknowledgement, when it is due.
    pub fn on_timer(&mut self) -> Ack {
        self.acknowledge()
    }

    /// RFC 5681 §4.2: acknowledge at once what is out of order or fills a gap.
    #[cold]
    fn on_out_of_order(&mut self, packet: &Packet, payload: u32) -> Option<Ack> {
        let seq = packet.seq;
        let at = self.beyond.partition_point(|b| b.1 <= seq);
        let known = self.beyond.get(at).is_some_and(|b| b.0 <= seq);
        if seq < self.next || known {
            self.duplicates += 1;
            self.quick = self.quick.max(QUICK_ACKS);
            return Some(self.acknowledge());
        }
        self.goodput_bytes += u64::from(payload);
        if seq == self.next {
            if self.unacknowledged == 0 {
                self.echo = packet.sent;
            }
            self.next += 1;
            if self.beyond.first().is_some_and(|b| b.0 == self.next) {
                self.next = self.beyond.remove(0).1;
            }
            self.recent.retain(|&s| s >= self.next);
        } else {
            self.insert(at, seq);
        }
        Some(self.acknowledge())
    }

    fn insert(&mut self, at: usize, seq: u32) {
        let joins_left = at > 0 && self.beyond[at - 1].1 == seq;
        let joins_right = self.beyond.get(at).is_some_and(|b| b.0 == seq + 1);
        let block = match (joins_left, joins_right) {
            (true, true) => {
                let right = self.beyond.remove(at);
                self.beyond[at - 1].1 = right.1;
                self.beyond[at - 1]
            }
            (true, false) => {
                self.beyond[at - 1].1 = seq + 1;
                self.beyond[at - 1]
            }
            (false, true) => {
                self.beyond[at].0 = seq;
                self.beyond[at]
            }
            (false, false) => {
                self.beyond.insert(at, (seq, seq + 1));
                (seq, seq + 1)
            }
        };
        self.recent.retain(|s| !(block.0..block.1).contains(s));
        self.recent.insert(0, seq);
        self.recent.truncate(SACK_BLOCKS + 1);
    }

    fn acknowledge(&mut self) -> Ack {
        self.unacknowledged = 0;
        self.ack_due = Time::NEVER;
        self.quick = self.quick.saturating_sub(1);
        let mut ack = Ack {
            cumulative: self.next,
            sacked: 0,
            blocks: [(0, 0); SACK_BLOCKS],
            echo: self.echo,
            advertised: self.advertised,
        };
        if self.sack && !self.beyond.is_empty() {
            for &seq in self.recent.iter().take(SACK_BLOCKS) {
                let at = self.beyond.partition_point(|b| b.1 <= seq);
                if let Some(&block) = self.beyond.get(at) {
                    ack.blocks[usize::from(ack.sacked)] = block;
                    ack.sacked += 1;
                }
            }
        }
        ack
    }

    /// Next segment expected.
    #[must_use]
    pub fn next(&self) -> u32 {
        self.next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(seq: u32) -> Packet {
        Packet {
            arrival: Time::ZERO,
            sent: Time(u64::from(seq)),
            advertised: Rate(1),
            flow: 0,
            seq,
            bytes: 1500,
            hop: 0,
            is_ack: false,
        }
    }

    #[test]
    fn acknowledges_every_second_segment_after_the_quick_ones() {
        let mut r = Receiver::new(true, true);
        let acks = (0..116).filter(|&s| r.on_data(&packet(s), 1448, Time(0)).is_some()).count();
        assert_eq!(acks, 16 + 50);
        assert!(r.on_data(&packet(116), 1448, Time(7)).is_none());
        assert_eq!(r.ack_due, Time(7) + DELAYED_ACK);
        assert_eq!(r.on_timer().cumulative, 117);
    }

    #[test]
    fn reports_the_latest_blocks_first_and_closes_gaps() {
        let mut r = Receiver::new(true, false);
        let mut last = None;
        for s in [0, 2, 4, 6, 8, 5] {
            last = r.on_data(&packet(s), 1000, Time(0));
        }
        let ack = last.expect("out of order is acknowledged at once");
        assert_eq!((ack.cumulative, ack.sacked), (1, 3));
        assert_eq!(ack.blocks, [(4, 7), (8, 9), (2, 3)]);
        let ack = r.on_data(&packet(1), 1000, Time(0)).expect("a filled gap is acknowledged at once");
        assert_eq!((ack.cumulative, ack.sacked, ack.blocks[0]), (3, 2, (4, 7)));
        assert_eq!(r.goodput_bytes, 7000);
    }
}
