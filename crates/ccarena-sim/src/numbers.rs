//! Numbers of a flow's transmissions, for controllers that account packet by packet. They are
//! QUIC's (RFC 9000 §12.3): a retransmission is a new packet.

use std::collections::VecDeque;
use std::ops::Range;

use ccarena_cc::Controller;

/// The number of the last transmission of each segment under way.
#[derive(Debug, Default)]
pub struct Numbers {
    next: u64,
    /// First segment in `last`, which holds the number of each segment's last transmission.
    first: u32,
    last: VecDeque<u64>,
    acked: Vec<u64>,
}

impl Numbers {
    /// Numbers a transmission of segment `seq`, which follows the last one or repeats an earlier one.
    pub fn next(&mut self, seq: u32) -> u64 {
        let number = self.next;
        self.next += 1;
        let index = seq.wrapping_sub(self.first) as usize;
        match self.last.get_mut(index) {
            Some(last) => *last = number,
            None => self.last.push_back(number),
        }
        number
    }

    fn get(&self, seq: u32) -> Option<u64> {
        self.last.get(seq.wrapping_sub(self.first) as usize).copied()
    }

    /// Remembers that segments have newly arrived.
    pub fn acked(&mut self, segments: Range<u32>) {
        for seq in segments {
            self.acked.extend(self.get(seq));
        }
    }

    /// Tells the controller what has newly arrived, in the order of sending, and forgets segments before `una`.
    pub fn tell_acked(&mut self, controller: &mut dyn Controller, una: u32) {
        self.acked.sort_unstable();
        if let Some(packets) = controller.packet_tracker() {
            self.acked.iter().for_each(|&number| packets.on_packet_acked(number));
        }
        self.acked.clear();
        let done = una.wrapping_sub(self.first) as usize;
        self.last.drain(..done.min(self.last.len()));
        self.first = una;
    }

    /// Tells the controller that the last transmission of `seq` counts as lost.
    pub fn tell_lost(&self, controller: &mut dyn Controller, seq: u32) {
        if let (Some(number), Some(packets)) = (self.get(seq), controller.packet_tracker()) {
            packets.on_packet_lost(number);
        }
    }
}
