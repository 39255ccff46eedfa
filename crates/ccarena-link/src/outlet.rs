//! Output of packets: one by one below a rate, above it as many at once as a network card would join.

use ccarena_cc::types::{Dur, Time};
use ccarena_net::Item;

use crate::datagram::Datagram;
use crate::offload::Run;
use crate::tun::Tun;

/// Bytes due in [`TALLY`] from which packets are joined: 400 Mbit/s, about as much as mahimahi carries. Below, the receiver
/// sees, and acknowledges, each packet, as over mahimahi.
const MANY_BYTES: u64 = 100_000;
const TALLY: Dur = Dur::from_millis(2);

/// Longest time after the first packet at which a packet of the same write may be due: the order of a network card's
/// interrupt moderation.
const WITHIN: Dur = Dur::from_micros(50);

/// A device that packets leave by.
pub(crate) struct Outlet {
    tun: Tun,
    /// Packets to be written at once, and when they were due.
    run: Run,
    due: Vec<Time>,
    /// Bytes due since the tally began, and whether the one before was of many.
    bytes: u64,
    since: Time,
    many: bool,
}

impl Outlet {
    pub fn new(tun: Tun) -> Self {
        Self { tun, run: Run::default(), due: Vec::new(), bytes: 0, since: Time::ZERO, many: false }
    }

    /// Hands `packet` to the kernel, or keeps it until [`flush`](Self::flush) at the latest. `told` learns when packets
    /// were due that have been handed over, and whether the kernel took them.
    #[inline]
    pub fn put(&mut self, packet: Datagram, due: Time, mut told: impl FnMut(&[Time], bool)) {
        let many = self.tally(u64::from(packet.bytes()), due);
        let in_time = self.due.first().is_none_or(|&first| due <= first + WITHIN);
        let left = if in_time { self.run.push(packet).err() } else { Some(packet) };
        if let Some(packet) = left {
            self.flush(&mut told);
            // An empty run takes any packet.
            let _ = self.run.push(packet);
        }
        self.due.push(due);
        if !many {
            self.flush(&mut told);
        }
    }

    /// Hands over what is kept.
    pub fn flush(&mut self, mut told: impl FnMut(&[Time], bool)) {
        if let Some(written) = self.run.write(|pieces| self.tun.write(pieces)) {
            // A device that is down refuses packets, as a cable that is cut loses them.
            told(&self.due, written.is_ok());
            self.run.clear();
            self.due.clear();
        }
    }

    /// Counts a packet by when it is due, which does not depend on when we wake. Whether packets are many.
    fn tally(&mut self, bytes: u64, due: Time) -> bool {
        if due >= self.since + TALLY {
            // Over a longer time than that, what was many has become few.
            self.many = self.bytes >= MANY_BYTES && due < self.since + TALLY * 2;
            (self.bytes, self.since) = (0, due);
        }
        self.bytes += bytes;
        self.many
    }
}
