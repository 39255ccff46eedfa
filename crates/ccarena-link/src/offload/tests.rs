use ccarena_net::tcp_option;
use proptest::prelude::*;
use proptest::sample::Index;

use super::*;

/// A long TCP segment and what else tells how it is cut.
#[derive(Clone, Debug)]
struct Long {
    v6: bool,
    class: u8,
    id: u16,
    ip_options: usize,
    sequence: u32,
    flags: u8,
    options: Vec<u8>,
    payload: Vec<u8>,
    size: usize,
}

fn long() -> impl Strategy<Value = Long> {
    let ip = (any::<bool>(), any::<u8>(), any::<u16>(), prop_oneof![4 => Just(0), 1 => 1..=10_usize]);
    let tcp = (any::<u32>(), prop_oneof![3 => Just(ACK), 1 => Just(ACK | PSH), 2 => any::<u8>()], 0..=10_usize);
    let sizes = prop_oneof![1..100_usize, 1_300..=1_360_usize];
    (ip, tcp, sizes, 0..40_000_usize, any::<u64>()).prop_map(|(ip, tcp, size, length, seed)| {
        let (v6, class, id, ip_options) = ip;
        let (sequence, flags, words) = tcp;
        let byte = |i: usize| (ccarena_net::rng::mix(seed ^ i as u64) & 0xff) as u8;
        let payload = (0..length.min(size * 400)).map(byte).collect();
        Long { v6, class, id, ip_options, sequence, flags, options: (0..words * 4).map(byte).collect(), payload, size }
    })
}

/// The internet checksum (RFC 1071), word by word.
fn sum(bytes: &[u8]) -> u16 {
    folded(bytes.chunks(2).map(|w| u32::from(w[0]) << 8 | w.get(1).map_or(0, |&b| u32::from(b))).sum())
}

impl Long {
    /// The packet that carries the bytes `range` of the payload as packet number `index`, its TCP checksum complete or not.
    fn packet(&self, index: usize, range: Range<usize>, complete: bool) -> Vec<u8> {
        let (is_first, is_last) = (range.start == 0, range.end == self.payload.len());
        let payload = &self.payload[range.clone()];
        let length = (20 + self.options.len() + payload.len()) as u16;
        let mut packet = if self.v6 {
            let [a, b] = length.to_be_bytes();
            let mut head = vec![0x60 | self.class >> 4, self.class << 4, 0, 9, a, b, TCP, 64];
            head.extend((0..32_u8).map(|i| i * 7));
            head
        } else {
            let header = 20 + 4 * self.ip_options;
            let [a, b] = (length + header as u16).to_be_bytes();
            let [c, d] = self.id.wrapping_add(index as u16).to_be_bytes();
            let mut head = vec![0x40 | (header / 4) as u8, self.class, a, b, c, d, 0x40, 0, 64, TCP, 0, 0];
            head.extend([100, 64, 0, 1, 100, 65, 0, 1]);
            head.resize(header, 1);
            let checksum = !sum(&head);
            put(&mut head, 10, checksum);
            head
        };
        let tcp = packet.len();
        let sequence = self.sequence.wrapping_add(range.start as u32).to_be_bytes();
        let flags = self.flags & if is_last { 0xff } else { !0x09 } & if is_first { 0xff } else { 0x7f };
        packet.extend([0x13, 0x89, 0, 80]);
        packet.extend(sequence);
        packet.extend([1, 2, 3, 4, (((20 + self.options.len()) / 4) << 4) as u8, flags, 0x10, 0, 0, 0, 0, 7]);
        packet.extend(&self.options);
        packet.extend(payload);
        let addresses = if self.v6 { &packet[8..40] } else { &packet[12..20] };
        let pseudo = u32::from(sum(addresses)) + 6 + u32::from(length);
        let checksum = if complete { !folded(pseudo + u32::from(sum(&packet[tcp..]))) } else { folded(pseudo) };
        put(&mut packet, tcp + 16, checksum);
        packet
    }

    fn tcp(&self) -> usize {
        if self.v6 { 40 } else { 20 + 4 * self.ip_options }
    }

    /// Returns the packet as a device hands it over.
    fn read(&self, complete: bool) -> Vec<u8> {
        let header = Header {
            flags: u8::from(!complete),
            kind: if self.v6 { 4 } else { 1 } | if self.flags & CWR != 0 { 0x80 } else { 0 },
            headers: 64,
            segment: self.size as u16,
            sum_from: if complete { 0 } else { self.tcp() as u16 },
            sum_at: if complete { 0 } else { 16 },
        };
        [&header.write()[..], &self.packet(0, 0..self.payload.len(), complete)].concat()
    }

    /// Returns the packets that the kernel would have handed over without offloads.
    fn packets(&self) -> Vec<Vec<u8>> {
        let all = self.payload.len();
        let count = all.div_ceil(self.size).max(1);
        (0..count).map(|i| self.packet(i, i * self.size..all.min((i + 1) * self.size), true)).collect()
    }
}

fn datagrams(read: &[u8]) -> Vec<Datagram> {
    Segments::of(read).map(Iterator::collect).unwrap_or_default()
}

/// The packet with its checksum completed.
fn completed(packet: &Datagram) -> Vec<u8> {
    let mut bytes = packet.packet().to_vec();
    if let Some(unsummed) = packet.unsummed() {
        let checksum = !sum(&bytes[usize::from(unsummed.from.get())..]);
        put(&mut bytes, unsummed.field().start, checksum);
    }
    bytes
}

/// Returns what would be written to devices.
fn written(packets: impl IntoIterator<Item = Datagram>) -> Vec<Vec<u8>> {
    let (mut run, mut out) = (Run::default(), Vec::new());
    let mut flush = |run: &mut Run| {
        out.extend(run.write(|pieces| pieces.iter().flat_map(|p| p.iter().copied()).collect::<Vec<u8>>()));
        run.clear();
    };
    for packet in packets {
        if let Err(packet) = run.push(packet) {
            flush(&mut run);
            assert!(run.push(packet).is_ok(), "an empty run takes any packet");
        }
    }
    flush(&mut run);
    out
}

fn bytes(packets: &[Datagram]) -> Vec<(Vec<u8>, Option<Unsummed>)> {
    packets.iter().map(|p| (p.packet().to_vec(), p.unsummed())).collect()
}

proptest! {
    #[test]
    fn a_long_segment_is_cut_into_the_packets_that_it_stands_for(long in long(), complete: bool) {
        let packets = datagrams(&long.read(complete));
        prop_assert_eq!(packets.iter().map(completed).collect::<Vec<_>>(), long.packets());
    }

    #[test]
    fn what_is_joined_is_what_was_cut(
        long in long(),
        gaps in prop::collection::vec(any::<Index>(), 0..6),
        flips in prop::collection::vec((any::<Index>(), 0..100_usize, 0..8_u32), 0..3),
    ) {
        let mut packets = datagrams(&long.read(false));
        for gap in gaps {
            if packets.len() > 1 {
                packets.remove(gap.index(packets.len()));
            }
        }
        for (which, at, bit) in &flips {
            let count = packets.len();
            let packet = &mut packets[which.index(count)];
            let (mut bytes, unsummed) = (packet.packet().to_vec(), packet.unsummed());
            if let Some(byte) = bytes.get_mut(*at) {
                *byte ^= 1 << bit;
            }
            *packet = Datagram::made(unsummed, |buffer| {
                buffer[..bytes.len()].copy_from_slice(&bytes);
                bytes.len()
            });
        }
        let before = bytes(&packets);
        let joined: Vec<_> = written(packets).iter().flat_map(|read| datagrams(read)).collect();
        prop_assert_eq!(bytes(&joined), before);
    }

    #[test]
    fn what_continues_is_joined(long in long(), gap in any::<Index>()) {
        let long = Long { flags: long.flags & (ECE | PSH | FIN) | ACK, ip_options: 0, ..long };
        let mut packets = datagrams(&long.read(false));
        prop_assume!(packets.len() > 2);
        // As many as one write may hold, on either side of the gap.
        let most = MOST_JOINED.min((65_535 - long.tcp() - 20 - long.options.len()) / long.size);
        let gap = gap.index(packets.len() - 1);
        packets.remove(gap);
        let expected = gap.div_ceil(most) + (packets.len() - gap).div_ceil(most);
        prop_assert_eq!(written(packets).len(), expected);
    }

    #[test]
    fn any_bytes_are_survived_and_nothing_that_is_valid_is_lost(
        long in long(),
        header: [u8; HEADER_BYTES],
        kinds in (any::<bool>(), any::<bool>(), any::<bool>()),
        flips in prop::collection::vec((0..80_usize, any::<u8>()), 0..6),
        length in any::<Index>(),
    ) {
        let (own_header, whole, alone) = kinds;
        let mut read = long.read(false);
        if !own_header {
            read[..HEADER_BYTES].copy_from_slice(&header);
        }
        if alone {
            read[1] = ALONE;
        }
        for (at, to) in flips {
            if let Some(byte) = read.get_mut(at) {
                *byte = to;
            }
        }
        if !whole {
            read.truncate(length.index(read.len() + 1));
        }
        let packets = datagrams(&read);
        if let Some(packet) = read.get(HEADER_BYTES..).filter(|p| read[1] == ALONE && (1..=MTU).contains(&p.len())) {
            prop_assert_eq!(packets.len(), 1);
            prop_assert_eq!(packets[0].packet(), packet);
        }
        let before = bytes(&packets);
        let after: Vec<_> = written(packets).iter().flat_map(|read| datagrams(read)).collect();
        prop_assert_eq!(bytes(&after), before);
    }

    #[test]
    fn a_rate_is_lowered_in_a_packet_whose_checksum_is_not_complete(kbps in 2..u32::MAX, payload in 1..3_000_usize) {
        use ccarena_cc::{Rate, Signal};
        use ccarena_net::Carried;
        let options = tcp_option::option(tcp_option::Experiment::Advertisement, kbps).to_vec();
        let long = Long {
            v6: false, class: 0, id: 1, ip_options: 0, sequence: 5, flags: ACK, options,
            payload: vec![9; payload], size: 1_000,
        };
        for mut packet in datagrams(&long.read(false)) {
            packet.set_signal(Signal::Rate(Rate(1_000)));
            let bytes = completed(&packet);
            prop_assert_eq!(tcp_option::advertised(&bytes).map(|a| a.kbps), Some(1));
            prop_assert!(tcp_option::checksum_holds(&bytes));
        }
    }
}
