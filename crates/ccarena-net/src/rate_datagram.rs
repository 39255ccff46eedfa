//! Signal of ACCT beside a protocol that encrypts its headers: a UDP datagram of 8 bytes with the
//! addresses and ports of the connection.
//!
//! ```text
//! +--------+--------+--------+--------+--------+--------+--------+--------+
//! |   8    |  254   |  experiment id  |          rate in kbit/s           |
//! +--------+--------+--------+--------+--------+--------+--------+--------+
//! ```
//!
//! The sender sends one ahead of its packets now and then. Routers lower the rate in it as in the TCP option
//! ([`tcp_option`](crate::tcp_option), whose experiment id and rates these are). The first byte has QUIC's fixed bit
//! clear, and RFC 9443 assigns it to no protocol. A reader of the socket can therefore tell the two apart (RFC 9000
//! §17.2, §17.3). The receiver returns what arrived in a QUIC DATAGRAM frame (RFC 9221), whose content is the same 8
//! bytes with the id of an echo.
//!
//! On its way to the receiver the rate is neither encrypted nor authenticated. On the path anybody can lower it, as in
//! the TCP option, and a host that can send from the sender's address can forge it. A sender believes no echo above its
//! own request.

use std::ops::Range;

use ccarena_cc::types::Rate;

use crate::tcp_option::{Experiment, fold, kbps, sum};

/// Length of the datagram in bytes.
pub const LENGTH: usize = 8;
const FIRST: [u8; 2] = [LENGTH as u8, 254];
const UDP: u8 = 17;
const HEADER: usize = 8;
/// Offset of the checksum in the UDP header (RFC 768).
const CHECKSUM: usize = 6;

/// The datagram, or the frame's content.
#[must_use]
pub fn write(experiment: Experiment, kbps: u32) -> [u8; LENGTH] {
    let ([a, b], [w, x, y, z]) = ((experiment as u16).to_be_bytes(), kbps.to_be_bytes());
    [FIRST[0], FIRST[1], a, b, w, x, y, z]
}

/// The rate in kbit/s that `payload` carries; none if it is anything else.
#[must_use]
pub fn read(experiment: Experiment, payload: &[u8]) -> Option<u32> {
    let &[first, second, a, b, ref rate @ ..] = payload else { return None };
    let known = [first, second] == FIRST && [a, b] == (experiment as u16).to_be_bytes() && payload.len() == LENGTH;
    known.then(|| rate.iter().fold(0, |n, &byte| n << 8 | u32::from(byte)))
}

/// A router's part: lowers the rate of an IPv4 packet that is such a datagram to `offer`, and keeps the checksum as right (or
/// as wrong) as it was. True if the packet changed.
pub fn lower(packet: &mut [u8], offer: Rate) -> bool {
    let (Some(udp), offer) = (datagram(packet), kbps(offer)) else { return false };
    let rate = udp.start + HEADER + 4..udp.end;
    if read(Experiment::Advertisement, &packet[udp.start + HEADER..udp.end]).is_none_or(|written| offer >= written) {
        return false;
    }
    let checksum = udp.start + CHECKSUM..udp.start + CHECKSUM + 2;
    let present = packet[checksum.clone()] != [0, 0];
    // RFC 1624, equation 3.
    let kept = u32::from(!sum(&packet[checksum.clone()])) + u32::from(!sum(&packet[rate.clone()]));
    packet[rate.clone()].copy_from_slice(&offer.to_be_bytes());
    let right = !fold(kept + u32::from(sum(&packet[rate])));
    if present {
        // Zero would be "no checksum"; both zeros are one number (RFC 768).
        packet[checksum].copy_from_slice(&(if right == 0 { 0xffff } else { right }).to_be_bytes());
    }
    true
}

/// Returns the place of the signal in an IPv4 packet that is a whole UDP datagram of the right
/// length.
fn datagram(packet: &[u8]) -> Option<Range<usize>> {
    const MORE_OR_OFFSET: u16 = 0x3fff;
    let u16_at = |at: usize| Some(u16::from_be_bytes(packet.get(at..at + 2)?.try_into().ok()?));
    let start = usize::from(packet.first()? & 0xf) * 4;
    let end = start + HEADER + LENGTH;
    let v4 = packet[0] >> 4 == 4 && start >= 20 && *packet.get(9)? == UDP && u16_at(6)? & MORE_OR_OFFSET == 0;
    let whole = usize::from(u16_at(2)?) == end && end <= packet.len();
    (v4 && whole && usize::from(u16_at(start + 4)?) == HEADER + LENGTH).then_some(start..end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn checksum(packet: &[u8]) -> u16 {
        let (addresses, udp) = (&packet[12..20], &packet[20..]);
        fold(u32::from(sum(addresses)) + u32::from(UDP) + udp.len() as u32 + u32::from(sum(udp)))
    }

    fn packet(kbps: u32, ports: [u8; 4]) -> Vec<u8> {
        let mut packet = vec![0x45, 0, 0, 36, 0, 0, 0x40, 0, 64, UDP, 0, 0, 100, 64, 0, 1, 100, 65, 0, 1];
        packet.extend(ports);
        packet.extend([0, 16, 0, 0]);
        packet.extend(write(Experiment::Advertisement, kbps));
        let right = !checksum(&packet);
        packet[26..28].copy_from_slice(&(if right == 0 { 0xffff } else { right }).to_be_bytes());
        packet
    }

    proptest! {
        #[test]
        fn lowering_keeps_the_checksum_and_never_raises(written: u32, ports: [u8; 4], offer in 0_u64..9_000_000_000_000) {
            let mut lowered = packet(written, ports);
            prop_assert_eq!(checksum(&lowered), 0xffff);
            let changed = lower(&mut lowered, Rate(offer));
            prop_assert_eq!(changed, kbps(Rate(offer)) < written);
            let left = read(Experiment::Advertisement, &lowered[28..]);
            prop_assert_eq!(left, Some(written.min(kbps(Rate(offer)))));
            prop_assert_eq!(checksum(&lowered), 0xffff);
        }

        #[test]
        fn any_other_packet_is_left_alone(bytes in prop::collection::vec(any::<u8>(), 0..60), cut in 0_usize..36) {
            let mut other = bytes.clone();
            prop_assert!(!lower(&mut other, Rate(1000)) && other == bytes);
            let mut short = packet(9, [1; 4])[..cut].to_vec();
            prop_assert!(!lower(&mut short, Rate(1000)));
        }
    }

    #[test]
    fn a_datagram_without_a_checksum_keeps_none() {
        let mut without = packet(9, [1; 4]);
        without[26..28].fill(0);
        assert!(lower(&mut without, Rate(2_000)));
        assert_eq!((&without[26..28], read(Experiment::Advertisement, &without[28..])), (&[0, 0][..], Some(2)));
        assert_eq!(read(Experiment::Echo, &without[28..]), None);
    }
}
