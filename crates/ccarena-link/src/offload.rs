//! Segmentation offload: one read or write of a TUN device carries many packets of a TCP flow, without checksums.
//!
//! A device with `IFF_VNET_HDR` puts a [`Header`] before each packet. It says whether the transport's checksum is still
//! to be completed, and whether the packet stands for several. Such a packet is a TCP segment longer than the MTU.
//! [`Segments`] cuts it as the kernel would have (`tcp_gso_segment` of net/ipv4/tcp_offload.c). A [`Run`] makes it of
//! packets as the kernel's GRO does (`tcp_gro_receive`, ibid.).

use std::io::IoSlice;
use std::num::NonZeroU16;
use std::ops::Range;

use crate::checksum::{Unsummed, folded, resummed, updated};
use crate::datagram::Datagram;
use crate::tun::MTU;

/// Length of a [`Header`] in bytes.
pub(crate) const HEADER_BYTES: usize = 10;

/// Room for whatever the kernel hands over at once: an IPv6 header and the longest payload.
pub(crate) const LONGEST_READ: usize = HEADER_BYTES + 40 + u16::MAX as usize;

const NEEDS_CHECKSUM: u8 = 1;
const ALONE: u8 = 0;
const TCP_OF_IPV4: u8 = 1;
const TCP_OF_IPV6: u8 = 4;
/// The first packet has CWR set.
const WITH_ECN: u8 = 0x80;

const TCP: u8 = 6;
/// Offsets in the TCP header (RFC 9293 §3.1).
const SEQUENCE: usize = 4;
const FLAGS: usize = 13;
const CHECKSUM: usize = 16;
const FIN: u8 = 0x01;
const PSH: u8 = 0x08;
const ACK: u8 = 0x10;
const ECE: u8 = 0x40;
const CWR: u8 = 0x80;

/// Most packets that are written as one.
const MOST_JOINED: usize = 64;
const LONGEST_HEADERS: usize = 40 + 60;

/// `struct virtio_net_hdr` of linux/virtio_net.h, in the machine's byte order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Header {
    pub flags: u8,
    pub kind: u8,
    pub headers: u16,
    pub segment: u16,
    pub sum_from: u16,
    pub sum_at: u16,
}

impl Header {
    pub fn read(bytes: [u8; HEADER_BYTES]) -> Self {
        let word = |at: usize| u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
        let [flags, kind, ..] = bytes;
        Self { flags, kind, headers: word(2), segment: word(4), sum_from: word(6), sum_at: word(8) }
    }

    pub fn write(self) -> [u8; HEADER_BYTES] {
        let mut bytes = [self.flags, self.kind, 0, 0, 0, 0, 0, 0, 0, 0];
        for (at, word) in bytes[2..].chunks_exact_mut(2).zip([self.headers, self.segment, self.sum_from, self.sum_at]) {
            at.copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }

    /// The checksum of `packet` that the header leaves to be completed.
    fn unsummed(self, packet: &[u8]) -> Option<Unsummed> {
        let found = Unsummed { from: NonZeroU16::new(self.sum_from)?, at: self.sum_at };
        (self.flags & NEEDS_CHECKSUM != 0 && found.field().end <= packet.len()).then_some(found)
    }

    fn of_one(unsummed: Option<Unsummed>) -> Self {
        unsummed.map_or_else(Self::default, |u| Self {
            flags: NEEDS_CHECKSUM,
            sum_from: u.from.get(),
            sum_at: u.at,
            ..Self::default()
        })
    }
}

/// The packets that one read stands for.
pub(crate) struct Segments<'a> {
    packet: &'a [u8],
    unsummed: Option<Unsummed>,
    cut: Option<Cut>,
    /// The next one's number, and how many there are.
    next: usize,
    count: usize,
}

/// Division of a long TCP segment into several.
#[derive(Clone, Copy)]
struct Cut {
    shape: Shape,
    /// Payload of all but the last.
    size: usize,
    /// The checksum field as the whole segment would have it, completed or not: the pseudo-header's sum.
    sum: u16,
}

/// Places of the parts of an IP packet with a TCP segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shape {
    is_v4: bool,
    /// Length of the IP header, options included.
    tcp: usize,
    /// Length of both headers.
    headers: usize,
}

impl<'a> Segments<'a> {
    /// Parses `bytes` as a device handed them over; none if the kernel does not hand over such.
    pub fn of(bytes: &'a [u8]) -> Option<Self> {
        let (header, packet) = bytes.split_first_chunk::<HEADER_BYTES>()?;
        let header = Header::read(*header);
        let mut segments = Self { packet, unsummed: header.unsummed(packet), cut: None, next: 0, count: 1 };
        if header.kind == ALONE {
            return Some(segments).filter(|s| (1..=MTU).contains(&s.packet.len()));
        }
        let shape = Shape::of(packet)?;
        let kind = if shape.is_v4 { TCP_OF_IPV4 } else { TCP_OF_IPV6 };
        let size = Some(usize::from(header.segment)).filter(|&size| size > 0 && header.kind & !WITH_ECN == kind)?;
        let (payload, checksum) = (packet.len() - shape.headers, shape.tcp + CHECKSUM);
        if shape.headers + size.min(payload) > MTU {
            return None;
        }
        let sum = match segments.unsummed {
            Some(unsummed) if unsummed.field().start == checksum => word(packet, checksum),
            Some(_) => return None,
            None => shape.pseudo_header(packet),
        };
        segments.unsummed = Some(shape.unsummed()?);
        segments.count = payload.div_ceil(size).max(1);
        segments.cut = Some(Cut { shape, size, sum });
        Some(segments)
    }

    /// Writes packet number `index` into `buffer`; its length.
    fn cut(&self, index: usize, Cut { shape, size, sum }: Cut, buffer: &mut [u8; MTU]) -> usize {
        let (is_first, is_last) = (index == 0, index + 1 == self.count);
        let Shape { tcp, headers, .. } = shape;
        let from = headers + index * size;
        let payload = &self.packet[from..self.packet.len().min(from + size)];
        let length = headers + payload.len();
        buffer[..headers].copy_from_slice(&self.packet[..headers]);
        buffer[headers..length].copy_from_slice(payload);
        shape.resize(buffer, length, index as u16);
        let sequence = u32::from_be_bytes([0, 1, 2, 3].map(|i| buffer[tcp + SEQUENCE + i]));
        let sequence = sequence.wrapping_add((index * size) as u32);
        buffer[tcp + SEQUENCE..tcp + SEQUENCE + 4].copy_from_slice(&sequence.to_be_bytes());
        let flags = &mut buffer[tcp + FLAGS];
        *flags &= if is_last { 0xff } else { !(FIN | PSH) };
        *flags &= if is_first { 0xff } else { !CWR };
        let sum = resummed(sum, self.packet.len() - tcp, length - tcp);
        put(buffer, tcp + CHECKSUM, sum);
        length
    }
}

impl Iterator for Segments<'_> {
    type Item = Datagram;

    #[inline]
    fn next(&mut self) -> Option<Datagram> {
        let index = self.next;
        if index == self.count {
            return None;
        }
        self.next += 1;
        Some(Datagram::made(self.unsummed, |buffer| match self.cut {
            Some(cut) => self.cut(index, cut, buffer),
            None => {
                buffer[..self.packet.len()].copy_from_slice(self.packet);
                self.packet.len()
            }
        }))
    }
}

impl Shape {
    /// Parses a whole TCP segment in an IP packet without IPv6 extension headers; none for anything else.
    fn of(packet: &[u8]) -> Option<Self> {
        const MORE_OR_OFFSET: u16 = 0x3fff;
        let head = *packet.first().filter(|_| packet.len() >= 40)?;
        let (is_v4, tcp, protocol, length) = match head >> 4 {
            4 => (true, usize::from(head & 0xf) * 4, packet[9], usize::from(word(packet, 2))),
            6 => (false, 40, packet[6], 40 + usize::from(word(packet, 4))),
            _ => return None,
        };
        let is_fragment = is_v4 && word(packet, 6) & MORE_OR_OFFSET != 0;
        let headers = tcp + usize::from(*packet.get(tcp + 12)? >> 4) * 4;
        let fits = tcp >= 20 && headers >= tcp + 20 && headers <= packet.len() && length == packet.len();
        (fits && protocol == TCP && !is_fragment).then_some(Self { is_v4, tcp, headers })
    }

    fn unsummed(self) -> Option<Unsummed> {
        Some(Unsummed { from: NonZeroU16::new(self.tcp as u16)?, at: CHECKSUM as u16 })
    }

    /// The sum of the pseudo-header (RFC 9293 §3.1, RFC 8200 §8.1).
    fn pseudo_header(self, packet: &[u8]) -> u16 {
        let addresses = if self.is_v4 { 12..20 } else { 8..40 };
        let length = (packet.len() - self.tcp) as u32;
        let sum = packet[addresses].chunks_exact(2).map(|w| u32::from(word(w, 0))).sum::<u32>();
        folded(sum + u32::from(TCP) + length)
    }

    /// Makes `head`, which begins with an IP header, that of a packet of `length` bytes, `on` packets after its own.
    fn resize(self, head: &mut [u8], length: usize, on: u16) {
        if !self.is_v4 {
            put(head, 4, (length - 40) as u16);
            return;
        }
        let id = word(head, 4).wrapping_add(on);
        for (at, value) in [(2, length as u16), (4, id)] {
            let checksum = updated(word(head, 10), word(head, at), value);
            put(head, at, value);
            put(head, 10, checksum);
        }
    }
}

/// Packets that continue each other: segments of one TCP flow that can be written as one.
#[derive(Default)]
pub(crate) struct Run {
    packets: Vec<Datagram>,
    /// Shape of the first packet, if others may follow.
    shape: Option<Shape>,
    /// Payload of all.
    payload: usize,
}

impl Run {
    /// Adds `packet`, or gives it back if it does not continue the run. An empty run takes any packet.
    pub fn push(&mut self, packet: Datagram) -> Result<(), Datagram> {
        let Some(first) = self.packets.first() else {
            let shape = joinable(&packet).filter(|&shape| !ends(&packet, shape));
            self.payload = shape.map_or(0, |shape| packet.packet().len() - shape.headers);
            self.shape = shape;
            self.packets.push(packet);
            return Ok(());
        };
        let (Some(shape), Some(size)) = (self.shape, self.size()) else { return Err(packet) };
        let payload = packet.packet().len().saturating_sub(shape.headers);
        let fits = payload <= size
            && shape.headers + self.payload + payload <= usize::from(u16::MAX)
            && self.packets.len() < MOST_JOINED;
        if !fits || joinable(&packet) != Some(shape) || !self.continues(first, &packet, shape) {
            return Err(packet);
        }
        if payload < size || ends(&packet, shape) {
            self.shape = None;
        }
        self.payload += payload;
        self.packets.push(packet);
        Ok(())
    }

    /// Empties it.
    pub fn clear(&mut self) {
        self.packets.clear();
    }

    /// Hands `write` the bytes that the device takes: header and packet, in pieces.
    pub fn write<T>(&self, write: impl FnOnce(&[IoSlice<'_>]) -> T) -> Option<T> {
        let (first, last) = (self.packets.first()?, self.packets.last()?);
        let mut pieces = [IoSlice::new(&[]); 2 + MOST_JOINED];
        let Some(shape) = Shape::of(first.packet()).filter(|_| self.packets.len() > 1) else {
            let header = Header::of_one(first.unsummed()).write();
            return Some(write(&[IoSlice::new(&header), IoSlice::new(first.packet())]));
        };
        let Shape { is_v4, tcp, headers } = shape;
        let header = Header {
            kind: if is_v4 { TCP_OF_IPV4 } else { TCP_OF_IPV6 },
            headers: headers as u16,
            segment: (first.packet().len() - headers) as u16,
            ..Header::of_one(first.unsummed())
        };
        let (header, mut head) = (header.write(), [0; LONGEST_HEADERS]);
        head[..headers].copy_from_slice(&first.packet()[..headers]);
        shape.resize(&mut head, headers + self.payload, 0);
        head[tcp + FLAGS] = last.packet()[tcp + FLAGS];
        let sum = resummed(word(&head, tcp + CHECKSUM), first.packet().len() - tcp, headers - tcp + self.payload);
        put(&mut head, tcp + CHECKSUM, sum);
        (pieces[0], pieces[1]) = (IoSlice::new(&header), IoSlice::new(&head[..headers]));
        for (piece, packet) in pieces[2..].iter_mut().zip(&self.packets) {
            *piece = IoSlice::new(&packet.packet()[headers..]);
        }
        Some(write(&pieces[..2 + self.packets.len()]))
    }

    fn size(&self) -> Option<usize> {
        Some(self.packets.first()?.packet().len() - self.shape?.headers)
    }

    /// `packet`, of the same shape, is what follows: cutting the whole gives it back to the last bit.
    fn continues(&self, first: &Datagram, packet: &Datagram, Shape { is_v4, tcp, headers }: Shape) -> bool {
        let (a, b) = (first.packet(), packet.packet());
        let same = |range: Range<usize>| a[range.clone()] == b[range];
        let ip = if is_v4 {
            // Identifications count up.
            let id = word(a, 4).wrapping_add(self.packets.len() as u16);
            let checksum = updated(word(a, 10), word(a, 2), word(b, 2));
            let checksum = updated(checksum, word(a, 4), id);
            same(0..2) && word(b, 4) == id && same(6..10) && word(b, 10) == checksum && same(12..tcp)
        } else {
            same(0..4) && same(6..tcp)
        };
        let sequence = |p: &[u8]| u32::from_be_bytes([0, 1, 2, 3].map(|i| p[tcp + SEQUENCE + i]));
        ip && same(tcp..tcp + SEQUENCE)
            && sequence(b) == sequence(a).wrapping_add(self.payload as u32)
            && same(tcp + 8..tcp + FLAGS)
            && (a[tcp + FLAGS] ^ b[tcp + FLAGS]) & !(FIN | PSH) == 0
            && same(tcp + 14..tcp + CHECKSUM)
            && word(b, tcp + CHECKSUM) == resummed(word(a, tcp + CHECKSUM), a.len() - tcp, b.len() - tcp)
            && same(tcp + 18..headers)
    }
}

/// The shape of a data segment that may be one of several: no IPv4 options, no flags that say more than "data".
fn joinable(packet: &Datagram) -> Option<Shape> {
    let bytes = packet.packet();
    let shape = Shape::of(bytes).filter(|s| !(s.is_v4 && s.tcp > 20))?;
    let is_data = bytes[shape.tcp + FLAGS] & !(FIN | PSH | ECE) == ACK && bytes.len() > shape.headers;
    (is_data && packet.unsummed() == shape.unsummed()).then_some(shape)
}

/// Nothing may follow `packet` in a run: cutting keeps these flags for the last.
fn ends(packet: &Datagram, shape: Shape) -> bool {
    packet.packet()[shape.tcp + FLAGS] & (FIN | PSH) != 0
}

fn word(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn put(bytes: &mut [u8], at: usize, word: u16) {
    bytes[at..at + 2].copy_from_slice(&word.to_be_bytes());
}

#[cfg(test)]
mod tests;
