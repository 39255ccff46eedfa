//! An IP packet in the emulator, in a buffer that is used again.

use std::cell::{Cell, RefCell};
use std::net::Ipv4Addr;

use ccarena_cc::Signal;
use ccarena_cc::types::{Rate, Time};
use ccarena_net::{Carried, Ecn, Item, rate_datagram, rng, tcp_option};

use crate::checksum::{Unsummed, updated};
use crate::ipv6;
use crate::tun::MTU;

/// Buffers that a thread keeps for later; a burst needs no more.
const SPARE_BUFFERS: usize = 4096;

type Buffer = Box<[u8; MTU]>;

thread_local! {
    static SPARE: RefCell<Vec<Buffer>> = const { RefCell::new(Vec::new()) };
    static HELD: Cell<usize> = const { Cell::new(0) };
}

/// Memory that one packet takes, with what keeps it.
pub(crate) const PACKET_BYTES: usize = MTU + 256;

/// Returns the number of live packets that this thread has read or copied.
pub(crate) fn held() -> usize {
    HELD.get()
}

fn buffer() -> Buffer {
    HELD.set(HELD.get() + 1);
    SPARE.with_borrow_mut(Vec::pop).unwrap_or_else(|| Box::new([0; MTU]))
}

/// An IP packet on its way.
pub struct Datagram {
    /// Buffer of the packet; none once dropped.
    buffer: Option<Buffer>,
    length: u16,
    /// Missing part of its transport's checksum; none if it is complete.
    unsummed: Option<Unsummed>,
    /// Number of links of its route that it has left.
    pub(crate) hop: u16,
    /// Number of its route in the fabric that carries it.
    pub(crate) route: u32,
    flow: u32,
    key: u64,
    arrival: Time,
}

impl Datagram {
    /// A packet that `fill` writes, and whose length it gives. It is of flow 0 until [`set_flow`](Self::set_flow).
    pub(crate) fn made(unsummed: Option<Unsummed>, fill: impl FnOnce(&mut [u8; MTU]) -> usize) -> Self {
        let mut buffer = buffer();
        let length = fill(&mut buffer) as u16;
        Self { buffer: Some(buffer), length, unsummed, hop: 0, route: 0, flow: 0, key: 0, arrival: Time::ZERO }
    }

    /// A copy of the first [`MTU`] of `bytes`, for tests and tools.
    #[must_use]
    pub fn copy_of(bytes: &[u8]) -> Self {
        let bytes = &bytes[..bytes.len().min(MTU)];
        Self::made(None, |buffer| {
            buffer[..bytes.len()].copy_from_slice(bytes);
            bytes.len()
        })
    }

    /// A second copy of the packet, at the same place.
    pub(crate) fn duplicate(&self) -> Self {
        let bytes = self.packet();
        let mut copy = Self::made(self.unsummed, |buffer| {
            buffer[..bytes.len()].copy_from_slice(bytes);
            bytes.len()
        });
        (copy.hop, copy.route, copy.flow, copy.key, copy.arrival) =
            (self.hop, self.route, self.flow, self.key, self.arrival);
        copy
    }

    /// Makes it a packet of flow number `flow`.
    pub(crate) fn set_flow(&mut self, flow: u32) {
        self.flow = flow;
        self.key = u64::from(flow);
    }

    /// Tells its flow apart by addresses, protocol and ports, for queues that keep flows apart.
    pub(crate) fn set_flow_from_headers(&mut self) {
        self.key = flow_key(self.packet());
    }

    /// The IP packet.
    #[must_use]
    #[inline]
    pub fn packet(&self) -> &[u8] {
        self.buffer.as_ref().map_or(&[], |b| &b[..usize::from(self.length)])
    }

    /// Returns the missing part of its transport's checksum, if any.
    #[inline]
    pub(crate) fn unsummed(&self) -> Option<Unsummed> {
        self.unsummed
    }

    #[inline]
    fn packet_mut(&mut self) -> &mut [u8] {
        self.buffer.as_mut().map_or(&mut [], |b| &mut b[..usize::from(self.length)])
    }

    /// Source and destination, if it is an IPv4 packet, or the IPv4 addresses that those of an IPv6 packet
    /// [stand beside](crate::ipv6).
    #[must_use]
    #[inline]
    pub fn addresses(&self) -> Option<(Ipv4Addr, Ipv4Addr)> {
        let header = self.packet().get(..20)?;
        match header[0] >> 4 {
            4 => {
                let address = |at: usize| Ipv4Addr::new(header[at], header[at + 1], header[at + 2], header[at + 3]);
                Some((address(12), address(16)))
            }
            6 => {
                let address = |from: usize| ipv6::stands_beside(self.packet().get(from..from + 16)?);
                Some((address(8)?, address(24)?))
            }
            _ => None,
        }
    }

    /// Returns whether it is an IPv6 packet to many, such as the reports and solicitations that hosts send unasked.
    pub(crate) fn is_ipv6_multicast(&self) -> bool {
        // Multicast addresses begin with ff (RFC 4291 §2.7).
        self.packet().first().is_some_and(|head| head >> 4 == 6) && self.packet().get(24) == Some(&0xff)
    }
}

impl Drop for Datagram {
    fn drop(&mut self) {
        let Some(buffer) = self.buffer.take() else { return };
        // A thread that is ending has no spare buffers any more.
        let _ = HELD.try_with(|held| held.set(held.get().saturating_sub(1)));
        let _ = SPARE.try_with(|spare| {
            let mut spare = spare.borrow_mut();
            if spare.len() < SPARE_BUFFERS {
                spare.push(buffer);
            }
        });
    }
}

impl Item for Datagram {
    #[inline]
    fn bytes(&self) -> u32 {
        u32::from(self.length)
    }

    #[inline]
    fn flow(&self) -> u64 {
        self.key
    }

    /// Returns the last two bits of IPv4's second byte (RFC 3168 §5) or of IPv6's traffic class, which is bits 4 to 11 of
    /// its header (RFC 8200 §3).
    #[inline]
    fn ecn(&self) -> Ecn {
        match *self.packet() {
            [head, class, ..] if head >> 4 == 4 => Ecn::from_bits(class),
            [head, class, ..] if head >> 4 == 6 => Ecn::from_bits(class >> 4),
            _ => Ecn::NotEct,
        }
    }

    /// Sets both bits and keeps IPv4's checksum as right as it was; IPv6 has none.
    fn mark(&mut self) {
        match self.packet_mut() {
            [head, class, ..] if *head >> 4 == 6 => *class |= (Ecn::Ce as u8) << 4,
            [head, class, rest @ ..] if *head >> 4 == 4 => {
                let before = u16::from_be_bytes([*head, *class]);
                *class |= Ecn::Ce as u8;
                let after = u16::from_be_bytes([*head, *class]);
                if let Some([high, low]) = rest.get_mut(8..10) {
                    let checksum = updated(u16::from_be_bytes([*high, *low]), before, after);
                    [*high, *low] = checksum.to_be_bytes();
                }
            }
            _ => {}
        }
    }
}

impl Carried for Datagram {
    #[inline]
    fn flow_number(&self) -> u32 {
        self.flow
    }

    #[inline]
    fn arrival(&self) -> Time {
        self.arrival
    }

    #[inline]
    fn arrive(&mut self, now: Time) {
        self.arrival = now;
    }

    /// Any rate: what it asks stands in an option, which is read when a router has lowered it.
    fn signal(&self) -> Signal {
        Signal::Rate(Rate(u64::MAX))
    }

    fn set_signal(&mut self, signal: Signal) {
        let (Signal::Rate(rate), true) = (signal, signal != self.signal()) else { return };
        let field = self.unsummed.map(Unsummed::field);
        let packet = self.packet_mut();
        let kept = field.and_then(|at| Some((at.start, packet.get(at)?.first_chunk::<2>().copied()?)));
        if !tcp_option::lower(packet, rate) {
            rate_datagram::lower(packet, rate);
        }
        // A checksum to be completed later does not have the payload and the options in it yet.
        if let Some((at, checksum)) = kept {
            packet[at..at + 2].copy_from_slice(&checksum);
        }
    }
}

/// A hash of what the packets of a flow have in common. Fragments after the first have no ports: a fragmented datagram's
/// are left out of all.
fn flow_key(packet: &[u8]) -> u64 {
    let (addresses, protocol, ports) = match packet {
        [head, ..] if head >> 4 == 4 && packet.len() >= 20 => {
            // More fragments, or an offset: bytes 6 and 7 less "don't fragment" (RFC 791 §3.1).
            let fragment = packet[6] & 0x3f != 0 || packet[7] != 0;
            (&packet[12..20], packet[9], (!fragment).then_some(usize::from(head & 0xf) * 4))
        }
        [head, ..] if head >> 4 == 6 && packet.len() >= 40 => (&packet[8..40], packet[6], Some(40)),
        _ => return 0,
    };
    let has_ports = [libc::IPPROTO_TCP, libc::IPPROTO_UDP].contains(&i32::from(protocol));
    let ports = ports.filter(|_| has_ports).and_then(|at| packet.get(at..at + 4)).unwrap_or(&[]);
    let words = addresses.chunks(4).chain([ports]);
    words.fold(u64::from(protocol), |key, word| {
        let word = word.iter().fold(0, |word, &byte| (word << 8) | u64::from(byte));
        rng::mix(key ^ word)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn checksum(header: &[u8]) -> u16 {
        let mut sum: u32 = header.chunks(2).map(|w| u32::from(u16::from_be_bytes([w[0], w[1]]))).sum();
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        !(sum as u16)
    }

    fn ipv4(class: u8, rest: &[u8; 8]) -> Vec<u8> {
        let mut header = vec![0x45, class, 0, 28, 1, 2, 0x40, 0, 64, 6, 0, 0];
        header.extend(rest);
        let sum = checksum(&header);
        header[10..12].copy_from_slice(&sum.to_be_bytes());
        header.extend([0; 8]);
        header
    }

    proptest! {
        #[test]
        fn a_mark_keeps_the_checksum_right(class in any::<u8>(), rest in any::<[u8; 8]>()) {
            let mut packet = Datagram::copy_of(&ipv4(class, &rest));
            prop_assert_eq!(packet.ecn() as u8, class & 3);
            packet.mark();
            prop_assert_eq!(packet.ecn(), Ecn::Ce);
            prop_assert_eq!(packet.packet()[1], class | 3);
            // Both 0 and 0xffff stand for zero.
            prop_assert!([0, 0xffff].contains(&checksum(&packet.packet()[..20])));
        }

        #[test]
        fn a_mark_of_ipv6_changes_two_bits(class in any::<u8>(), flow_label in any::<[u8; 3]>()) {
            let mut header = [0; 40];
            header[..4].copy_from_slice(&[0x60 | class >> 4, class << 4 | flow_label[0] & 0xf, flow_label[1], flow_label[2]]);
            let mut packet = Datagram::copy_of(&header);
            prop_assert_eq!(packet.ecn() as u8, class & 3);
            packet.mark();
            header[1] |= 0x30;
            prop_assert_eq!((packet.ecn(), packet.packet()), (Ecn::Ce, &header[..]));
        }

        #[test]
        fn any_bytes_are_a_packet(bytes in prop::collection::vec(any::<u8>(), 0..100), version in 0_u8..16) {
            let mut bytes = bytes;
            if let Some(head) = bytes.first_mut() {
                *head = (*head & 0xf) | (version << 4);
            }
            let mut packet = Datagram::copy_of(&bytes);
            packet.set_flow_from_headers();
            packet.mark();
            packet.set_signal(Signal::Rate(Rate(1)));
            prop_assert_eq!(packet.bytes() as usize, bytes.len());
            prop_assert!(packet.addresses().is_none() || version == 4 || version == 6);
        }

        #[test]
        fn a_flow_is_its_addresses_and_ports(rest in any::<[u8; 8]>(), ports in any::<[u8; 4]>(), seq in any::<[u8; 4]>()) {
            let mut bytes = ipv4(0, &rest);
            let mut key = |ports: [u8; 4], seq: [u8; 4], fragment: u8| {
                bytes[7] = fragment;
                bytes[20..24].copy_from_slice(&ports);
                bytes[24..28].copy_from_slice(&seq);
                flow_key(&bytes)
            };
            let mut other = ports;
            other[3] ^= 1;
            prop_assert_eq!(key(ports, seq, 0), key(ports, [0; 4], 0));
            prop_assert_ne!(key(ports, seq, 0), key(other, seq, 0));
            prop_assert_eq!(key(ports, seq, 1), key(other, seq, 1));
        }
    }

    #[test]
    fn a_router_lowers_what_a_packet_advertises() {
        let option = tcp_option::option(tcp_option::Experiment::Advertisement, 5_000);
        let (from, to) = (([100, 64, 0, 1], 1).into(), ([100, 65, 0, 1], 2).into());
        let mut packet = Datagram::copy_of(&tcp_option::packet(from, to, &option, &[3; 1000]).unwrap());
        let advertised = |p: &Datagram| tcp_option::advertised(p.packet()).map(|a| a.kbps);
        for (offer, left) in [(9_000_000, 5_000), (3_000_000, 3_000), (4_000_000, 3_000)] {
            packet.set_signal(Signal::Rate(Rate(offer)));
            assert_eq!(advertised(&packet), Some(left));
            assert!(tcp_option::checksum_holds(packet.packet()));
        }
    }

    #[test]
    fn buffers_are_used_again() {
        let first = Datagram::copy_of(&[1; 40]);
        let address = first.packet().as_ptr();
        drop(first);
        assert_eq!(Datagram::copy_of(&[2; 40]).packet().as_ptr(), address);
    }
}
