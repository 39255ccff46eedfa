//! Packets at the ends of a flow: the sender's transmissions with their fates, and the acknowledgements that reached it.

use ccarena_cc::{Dur, Time};

/// Fate of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Fate {
    /// Still on its way when the run ended.
    #[default]
    UnderWay = 0,
    /// Received.
    Delivered = 1,
    /// Received with a mark (ECN).
    Marked = 2,
    /// Dropped by a queue.
    Dropped = 3,
    /// Lost at random or in an outage.
    Lost = 4,
    /// Damaged on a wire, and discarded at its end.
    Corrupted = 5,
    /// Dropped by a policer.
    Policed = 6,
}

/// Flag of an ECN-capable transport (RFC 3168 §5).
pub const ECN_CAPABLE: u8 = 1;
/// Flag of a sender that has reduced its window (CWR, RFC 3168 §6.1.2).
pub const REDUCED: u8 = 2;
/// Flag of a packet that asks for low latency: ECT(1) (RFC 9331 §4.1).
pub const LOW_LATENCY: u8 = 4;
/// Flag of a receiver that echoes a mark (ECE, RFC 3168 §6.1.3).
pub const ECHO: u8 = 1;

/// A data packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmission {
    /// Time at which the sender sent it.
    pub sent: Time,
    /// Time at which it reached the receiver; zero if it did not.
    pub arrived: Time,
    /// Time that it waited in queues.
    pub queueing: Dur,
    /// Number of its segment, from 0; a retransmission has that of the first transmission.
    pub sequence: u32,
    /// IP bytes.
    pub bytes: u32,
    /// Fate.
    pub fate: Fate,
    /// [`ECN_CAPABLE`], [`REDUCED`] and [`LOW_LATENCY`].
    pub flags: u8,
}

/// An acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heard {
    /// Time at which it reached the sender.
    pub time: Time,
    /// Send time of the segment whose timestamp it echoes.
    pub echo: Time,
    /// Next segment expected.
    pub cumulative: u32,
    /// Number of its selectively acknowledged blocks.
    pub sacked: u8,
    /// [`ECHO`].
    pub flags: u8,
}

/// Transmissions of a flow, in the order of sending, and the acknowledgements that its sender got.
#[derive(Clone, Debug, Default)]
pub struct TransmissionLog {
    /// Transmissions; no two have the same time and segment.
    pub packets: Vec<Transmission>,
    /// Acknowledgements.
    pub acks: Vec<Heard>,
    /// Blocks of all acknowledgements, one after the other: first segment, and the one after the last.
    pub blocks: Vec<(u32, u32)>,
    /// Index of the transmission that was found last.
    near: usize,
}

impl TransmissionLog {
    /// Returns the transmission of a segment at a time. Most are the one that was found last, or the one after it.
    pub fn find(&mut self, sent: Time, sequence: u32) -> Option<&mut Transmission> {
        let is_it = |packet: &Transmission| packet.sent == sent && packet.sequence == sequence;
        let close = (self.near..self.near + 2).find(|&at| self.packets.get(at).is_some_and(is_it));
        self.near = close.or_else(|| {
            let first = self.packets.partition_point(|packet| packet.sent < sent);
            let mut same = self.packets[first..].iter().take_while(|packet| packet.sent == sent);
            Some(first + same.position(is_it)?)
        })?;
        self.packets.get_mut(self.near)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transmission_is_found_by_time_and_segment() {
        let packet = |sent, sequence| Transmission {
            sent: Time(sent),
            arrived: Time::ZERO,
            queueing: Dur::ZERO,
            sequence,
            bytes: 1500,
            fate: Fate::UnderWay,
            flags: 0,
        };
        let packets = vec![packet(1, 0), packet(1, 1), packet(5, 2), packet(5, 0), packet(9, 3)];
        let mut log = TransmissionLog { packets: packets.clone(), ..TransmissionLog::default() };
        for each in packets.iter().chain(packets.iter().rev()).chain(packets.iter().step_by(2)) {
            assert_eq!(log.find(each.sent, each.sequence), Some(&mut { *each }));
        }
        assert_eq!(log.find(Time(1), 2), None);
        assert_eq!(log.find(Time(10), 3), None);
    }
}
