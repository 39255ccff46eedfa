//! Signal of ACCT on the wire: an experimental TCP option (RFC 6994) of 8 bytes that carries a
//! rate.
//!
//! ```text
//! +--------+--------+--------+--------+--------+--------+--------+--------+
//! |  254   |   8    |  experiment id  |          rate in kbit/s           |
//! +--------+--------+--------+--------+--------+--------+--------+--------+
//! ```
//!
//! The sender writes the rate that its application desires into an [`Experiment::Advertisement`]. Each router on the
//! path lowers it to its offer ([`lower`]), and the receiver returns what arrived as an [`Experiment::Echo`]. All
//! integers are in network byte order; [`NO_LIMIT`] is "as much as there is". If an experiment's option is repeated,
//! the first counts, as for the kernel's `bpf_load_hdr_opt`.

use std::net::{IpAddr, SocketAddr};
use std::ops::Range;

use ccarena_cc::types::Rate;

/// Advertised rate of a sender whose application takes all that there is.
pub const NO_LIMIT: u32 = u32::MAX;
/// Length of the option in bytes.
pub const LENGTH: usize = 8;

const KIND: u8 = 254;
const END_OF_LIST: u8 = 0;
const NO_OPERATION: u8 = 1;
const TCP: u8 = 6;
/// Offset of the checksum in the TCP header (RFC 9293 §3.1).
const CHECKSUM: usize = 16;

/// Kind of the option: its experiment id of 16 bits (RFC 6994 §3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Experiment {
    /// Option on data: the rate that the sender requests, lowered by every router that offers less.
    Advertisement = 0xACC7,
    /// Option on acknowledgements: the advertisement as it arrived.
    Echo = 0xACC8,
}

/// A rate that a packet carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Advertised {
    /// Rate as written: any value, 0 and [`NO_LIMIT`] included.
    pub kbps: u32,
    /// Place of the four bytes of the rate, in the packet and in its TCP header.
    at: usize,
    tcp: usize,
}

impl Advertised {
    /// The rate to act on; None for [`NO_LIMIT`].
    #[must_use]
    pub fn rate(self) -> Option<Rate> {
        rate(self.kbps)
    }
}

/// A rate on the wire: whole kbit/s that do not exceed it, but at least 1. What 32 bits do not hold is [`NO_LIMIT`].
#[must_use]
pub fn kbps(rate: Rate) -> u32 {
    u32::try_from(rate.0 / 1000).unwrap_or(NO_LIMIT).max(1)
}

/// A rate from the wire, None for [`NO_LIMIT`]. A router that writes 0 stops nobody: 0 reads as 1 kbit/s.
#[must_use]
pub fn rate(kbps: u32) -> Option<Rate> {
    (kbps != NO_LIMIT).then(|| Rate(u64::from(kbps.max(1)) * 1000))
}

/// The option as bytes, to stand in a TCP header.
#[must_use]
pub fn option(experiment: Experiment, kbps: u32) -> [u8; LENGTH] {
    let ([a, b], [w, x, y, z]) = ((experiment as u16).to_be_bytes(), kbps.to_be_bytes());
    [KIND, LENGTH as u8, a, b, w, x, y, z]
}

/// The rate that an IP packet advertises; None if it is anything but a whole TCP segment with the option.
#[must_use]
pub fn advertised(packet: &[u8]) -> Option<Advertised> {
    find(packet, Experiment::Advertisement)
}

/// The rate that an IP packet echoes, as [`advertised`].
#[must_use]
pub fn echoed(packet: &[u8]) -> Option<Advertised> {
    find(packet, Experiment::Echo)
}

/// A router's part: lowers the rate that an IP packet advertises to `offer`, and keeps its TCP checksum as right (or as
/// wrong) as it was. True if the packet changed; a packet without an advertisement, or with a lower one, is left alone.
pub fn lower(packet: &mut [u8], offer: Rate) -> bool {
    let (Some(found), offer) = (advertised(packet), kbps(offer)) else { return false };
    if offer >= found.kbps {
        return false;
    }
    // RFC 1624, equation 3: HC' = ~(~HC + ~m + m'), m being the 16-bit words that the rate touches: three of them if
    // it begins at an odd offset of the TCP header.
    let odd = (found.at - found.tcp) % 2;
    let words = found.at - odd..found.at + 4 + odd;
    let checksum = found.tcp + CHECKSUM..found.tcp + CHECKSUM + 2;
    let kept = u32::from(!sum(&packet[checksum.clone()]));
    let before = u32::from(!sum(&packet[words.clone()]));
    packet[found.at..found.at + 4].copy_from_slice(&offer.to_be_bytes());
    let after = fold(kept + before + u32::from(sum(&packet[words])));
    packet[checksum].copy_from_slice(&(!after).to_be_bytes());
    true
}

/// True if an IP packet is a whole TCP segment whose checksum is right (RFC 9293 §3.1, RFC 8200 §8.1).
#[must_use]
pub fn checksum_holds(packet: &[u8]) -> bool {
    segment(packet).is_some_and(|s| checksum(&packet[s.addresses], &packet[s.tcp]) == 0)
}

/// An IP packet of one TCP segment with these options (at most 40 bytes, padded to whole words) and a right
/// checksum; IPv4 if both addresses are. None if the options or the packet are too long.
#[must_use]
pub fn packet(source: SocketAddr, destination: SocketAddr, options: &[u8], payload: &[u8]) -> Option<Vec<u8>> {
    let header = 20 + options.len().next_multiple_of(4);
    let length = u16::try_from(header + payload.len()).ok().filter(|_| header <= 60)?;
    let mut packet = match (source, destination) {
        (SocketAddr::V4(from), SocketAddr::V4(to)) => {
            let [a, b] = length.checked_add(20)?.to_be_bytes();
            let mut ip = vec![0x45, 0, a, b, 0, 0, 0x40, 0, 64, TCP, 0, 0];
            ip.extend(from.ip().octets().into_iter().chain(to.ip().octets()));
            let sum = !sum(&ip);
            ip[10..12].copy_from_slice(&sum.to_be_bytes());
            ip
        }
        (from, to) => {
            let [a, b] = length.to_be_bytes();
            let octets = |a: SocketAddr| match a.ip() {
                IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
                IpAddr::V6(ip) => ip.octets(),
            };
            [&[0x60, 0, 0, 0, a, b, TCP, 64][..], &octets(from), &octets(to)].concat()
        }
    };
    let tcp = packet.len();
    packet.extend([source.port().to_be_bytes(), destination.port().to_be_bytes()].concat());
    packet.extend([0; 8]);
    packet.extend([(header << 2) as u8, 0x10, 0xff, 0xff, 0, 0, 0, 0]);
    packet.extend(options);
    packet.resize(tcp + header, END_OF_LIST);
    packet.extend(payload);
    let addresses = segment(&packet)?.addresses;
    let right = checksum(&packet[addresses], &packet[tcp..]);
    packet[tcp + CHECKSUM..tcp + CHECKSUM + 2].copy_from_slice(&right.to_be_bytes());
    Some(packet)
}

/// Places of a TCP segment and the two addresses of its pseudo-header in an IP packet.
struct Segment {
    addresses: Range<usize>,
    tcp: Range<usize>,
}

fn find(packet: &[u8], experiment: Experiment) -> Option<Advertised> {
    let Range { start: tcp, end } = segment(packet)?.tcp;
    let header = usize::from(packet.get(tcp + 12)? >> 4) * 4;
    let options_end = Some(tcp + header).filter(|&to| header >= 20 && to <= end)?;
    let mut at = tcp + 20;
    while at < options_end {
        match packet[at] {
            END_OF_LIST => return None,
            NO_OPERATION => at += 1,
            kind => {
                // The length counts kind and length: below 2 nothing that follows can be trusted.
                let length = packet[at + 1..options_end].first().map(|&l| usize::from(l)).filter(|&l| l >= 2)?;
                let option = packet[..options_end].get(at..at + length)?;
                if kind == KIND && length == LENGTH && option[2..4] == (experiment as u16).to_be_bytes() {
                    let kbps = option[4..].iter().fold(0, |n, &byte| n << 8 | u32::from(byte));
                    return Some(Advertised { kbps, at: at + 4, tcp });
                }
                at += length;
            }
        }
    }
    None
}

/// The TCP segment that an IPv4 or IPv6 packet carries; None for other packets, truncated ones and fragments.
///
/// IPv6's hop-by-hop, routing and destination options are skipped; under a routing header the destination of the
/// pseudo-header is another (RFC 8200 §8.1), which does not matter to [`lower`].
fn segment(packet: &[u8]) -> Option<Segment> {
    let u16_at = |at: usize| Some(u16::from_be_bytes(packet.get(at..at + 2)?.try_into().ok()?));
    let (addresses, start, end) = match packet.first()? >> 4 {
        4 => {
            const MORE_OR_OFFSET: u16 = 0x3fff;
            let whole = u16_at(6)? & MORE_OR_OFFSET == 0 && *packet.get(9)? == TCP;
            let header = usize::from(packet[0] & 0xf) * 4;
            (12..20, Some(header).filter(|&h| whole && h >= 20)?, usize::from(u16_at(2)?))
        }
        6 => {
            let (mut next, mut start) = (*packet.get(6)?, 40);
            while let 0 | 43 | 60 = next {
                next = *packet.get(start)?;
                start += 8 + 8 * usize::from(*packet.get(start + 1)?);
            }
            (8..40, Some(start).filter(|_| next == TCP)?, 40 + usize::from(u16_at(4)?))
        }
        _ => return None,
    };
    (start + 20 <= end && end <= packet.len()).then_some(Segment { addresses, tcp: start..end })
}

/// The checksum of a TCP segment; 0 if it contains its own and that is right.
fn checksum(addresses: &[u8], tcp: &[u8]) -> u16 {
    !fold(u32::from(sum(addresses)) + u32::from(TCP) + tcp.len() as u32 + u32::from(sum(tcp)))
}

/// The one's complement sum of big-endian words (RFC 1071), an odd byte padded with zero.
pub(crate) fn sum(bytes: &[u8]) -> u16 {
    fold(bytes.chunks(2).map(|w| u32::from(w[0]) << 8 | w.get(1).map_or(0, |&b| u32::from(b))).sum())
}

pub(crate) fn fold(sum: u32) -> u16 {
    let folded = (sum & 0xffff) + (sum >> 16);
    ((folded & 0xffff) + (folded >> 16)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(v6: bool, options: &[u8], payload: &[u8]) -> Vec<u8> {
        let address = |host: u8| match v6 {
            true => SocketAddr::from(([0xfd00, 0, 0, 0, 0, 0, 0, host.into()], 443)),
            false => SocketAddr::from(([100, 64, 0, host], 5001)),
        };
        packet(address(1), address(2), options, payload).unwrap()
    }

    #[test]
    fn the_layout_is_the_documented_one() {
        let packet = of(false, &option(Experiment::Advertisement, 0x0102_0304), b"x");
        assert_eq!(packet[40..48], [254, 8, 0xac, 0xc7, 1, 2, 3, 4]);
        assert_eq!(advertised(&packet), Some(Advertised { kbps: 0x0102_0304, at: 44, tcp: 20 }));
        assert_eq!(echoed(&packet), None);
        assert_eq!(echoed(&of(true, &option(Experiment::Echo, 7), b"")).and_then(Advertised::rate), Some(Rate(7_000)));
    }

    #[test]
    fn rates_are_whole_kilobits_and_never_zero() {
        assert_eq!([0, 1, 999, 1_999, 23_000_000].map(|r| kbps(Rate(r))), [1, 1, 1, 1, 23_000]);
        assert_eq!(kbps(Rate(u64::MAX)), NO_LIMIT);
        assert_eq!([rate(0), rate(1), rate(NO_LIMIT)], [Some(Rate(1_000)), Some(Rate(1_000)), None]);
        assert_eq!(rate(NO_LIMIT - 1), Some(Rate(4_294_967_294_000)));
    }

    #[test]
    fn options_around_it_are_skipped() {
        let wanted = option(Experiment::Advertisement, 5);
        let timestamps = [8, 10, 0, 0, 0, 1, 0, 0, 0, 2];
        let found = |options: &[&[u8]]| advertised(&of(false, &options.concat(), b"data")).map(|a| a.kbps);
        assert_eq!(found(&[&[1, 1], &timestamps, &[1], &wanted]), Some(5));
        assert_eq!(found(&[&option(Experiment::Echo, 9), &wanted]), Some(5), "another experiment");
        assert_eq!(found(&[&wanted, &option(Experiment::Advertisement, 3)]), Some(5), "the first counts");
        assert_eq!(found(&[&[254, 6, 0xac, 0xc7, 0, 1], &wanted]), Some(5), "another length is another option");
        for (what, options) in [
            ("past the end of the list", [&[0][..], &wanted].concat()),
            ("behind a length of zero", [&[3, 0][..], &wanted].concat()),
            ("behind a length of one", [&[3, 1][..], &wanted].concat()),
            ("behind a length past the header", [&[3, 200][..], &wanted].concat()),
            ("without its end", wanted[..4].to_vec()),
            ("without its length", [&[1, 1, 1][..], &[254]].concat()),
        ] {
            assert_eq!(found(&[&options]), None, "{what}");
        }
    }

    #[test]
    fn only_whole_tcp_segments_count() {
        let whole = of(false, &option(Experiment::Advertisement, 5), b"data");
        let with = |at: usize, byte: u8| {
            let mut packet = whole.clone();
            packet[at] = byte;
            advertised(&packet)
        };
        assert!(advertised(&whole).is_some());
        assert!((0..whole.len()).all(|to| advertised(&whole[..to]).is_none()), "truncated");
        assert_eq!(with(9, 17), None, "UDP");
        assert_eq!(with(7, 1), None, "a later fragment");
        assert_eq!(with(6, 0x20), None, "a first fragment");
        assert_eq!(with(0, 0x44), None, "an IPv4 header of 16 bytes");
        assert_eq!(with(32, 0x40), None, "a TCP header of 16 bytes");
        assert_eq!(with(32, 0xf0), None, "a TCP header past the packet");

        let mut hops = of(true, &option(Experiment::Advertisement, 5), b"data");
        hops.splice(40..40, [TCP, 0, 1, 4, 0, 0, 0, 0]);
        (hops[5], hops[6]) = (hops[5] + 8, 0);
        assert!(lower(&mut hops, Rate(2_000)) && checksum_holds(&hops));
        assert_eq!(advertised(&hops).map(|a| a.kbps), Some(2));
    }

    prop_compose! {
        /// A packet with an advertisement at an even or odd offset, and its rate.
        fn advertising()(
            v6: bool, pad in 0_usize..5, kbps: u32, ahead: bool, payload in prop::collection::vec(any::<u8>(), 0..64),
        ) -> (Vec<u8>, u32) {
            let other = option(Experiment::Echo, kbps ^ 0x55);
            let (pad, wanted) = (vec![NO_OPERATION; pad], option(Experiment::Advertisement, kbps));
            let options = [&pad[..], if ahead { &other } else { &[] }, &wanted];
            (of(v6, &options.concat(), &payload), kbps)
        }
    }

    proptest! {
        #[test]
        fn lowering_keeps_the_checksum_and_never_raises((mut packet, written) in advertising(), offer: u64, small: bool) {
            let offer = Rate(if small { offer % 9_000_000_000_000 } else { offer });
            prop_assert!(checksum_holds(&packet));
            let before = packet.clone();
            let changed = lower(&mut packet, offer);
            prop_assert_eq!(changed, kbps(offer) < written);
            prop_assert_eq!(changed, packet != before);
            prop_assert_eq!(advertised(&packet).map(|a| a.kbps), Some(written.min(kbps(offer))));
            prop_assert!(checksum_holds(&packet));
            let once = packet.clone();
            prop_assert!(!lower(&mut packet, offer), "a second time changes nothing");
            prop_assert_eq!(packet, once);
        }

        #[test]
        fn a_wrong_checksum_stays_wrong((mut packet, _) in advertising(), at: prop::sample::Index, flip in 1_u8..) {
            let tcp = segment(&packet).unwrap().tcp;
            packet[tcp.start + at.index(12)] ^= flip;
            prop_assert!(!checksum_holds(&packet));
            lower(&mut packet, Rate(1));
            prop_assert!(!checksum_holds(&packet));
        }

        #[test]
        fn noise_and_mutants_are_left_alone_unless_they_advertise(
            (valid, _) in advertising(), noise in prop::collection::vec(any::<u8>(), 0..120), from_valid: bool,
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4), cut: prop::sample::Index,
        ) {
            let mut packet = if from_valid { valid } else { noise };
            for (at, byte) in changes {
                let length = packet.len();
                if length > 0 { packet[at.index(length)] = byte; }
            }
            packet.truncate(if from_valid { packet.len() } else { cut.index(121) });
            let before = packet.clone();
            let (found, held) = (advertised(&packet), checksum_holds(&packet));
            let changed = lower(&mut packet, Rate(1));
            prop_assert_eq!(changed, found.is_some_and(|a| a.kbps > 1));
            prop_assert_eq!(changed, packet != before);
            prop_assert_eq!(checksum_holds(&packet), held);
        }
    }
}
