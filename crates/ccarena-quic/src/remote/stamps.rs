//! Packets at one end of a flow: when each passed, and by what the other end knows it again.

use std::collections::HashMap;

use ccarena_cc::Time;

/// A datagram that left or came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Time at this end.
    pub at: Time,
    /// Last 8 bytes of the datagram: of a QUIC packet they are half of its authentication tag (RFC 9001 §5.3), which is
    /// as good as random.
    pub tag: u64,
    /// UDP payload in bytes.
    pub bytes: u16,
}

impl Stamp {
    /// The stamp of a datagram.
    #[must_use]
    pub fn new(at: Time, payload: &[u8]) -> Self {
        let tag = payload.last_chunk().map_or(0, |last| u64::from_le_bytes(*last));
        Self { at, tag, bytes: u16::try_from(payload.len()).unwrap_or(u16::MAX) }
    }
}

/// Data of a flow that arrived.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Arrived {
    /// Datagrams.
    pub packets: Vec<Stamp>,
    /// Payload of streams: time and bytes, each byte once.
    pub payload: Vec<(Time, u32)>,
    /// Streams that came whole: number and time.
    pub whole: Vec<(u64, Time)>,
}

impl Arrived {
    /// Adds payload that came at `now`.
    pub fn add_payload(&mut self, now: Time, bytes: u64) {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        match self.payload.last_mut() {
            Some((at, sum)) if *at == now => *sum = sum.saturating_add(bytes),
            _ if bytes > 0 => self.payload.push((now, bytes)),
            _ => {}
        }
    }

    /// Appends what came on the same connection later.
    pub fn append(&mut self, later: &mut Self) {
        self.packets.append(&mut later.packets);
        self.payload.append(&mut later.payload);
        self.whole.append(&mut later.whole);
    }

    /// Entries, which take memory.
    #[must_use]
    pub fn len(&self) -> usize {
        self.packets.len() + self.payload.len() + self.whole.len()
    }

    /// Returns whether nothing came.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Datagrams by tag; of one that came twice, the first.
    #[must_use]
    pub fn by_tag(&self) -> HashMap<u64, Time> {
        let mut found = HashMap::with_capacity(self.packets.len());
        for stamp in &self.packets {
            found.entry(stamp.tag).or_insert(stamp.at);
        }
        found
    }
}

/// Flows as bytes: of each the lengths of its three lists, then the lists, all numbers little-endian.
#[must_use]
pub fn encode(flows: &[Arrived]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for flow in flows {
        for length in [flow.packets.len(), flow.payload.len(), flow.whole.len()] {
            bytes.extend_from_slice(&(length as u64).to_le_bytes());
        }
        for stamp in &flow.packets {
            bytes.extend_from_slice(&stamp.at.0.to_le_bytes());
            bytes.extend_from_slice(&stamp.tag.to_le_bytes());
            bytes.extend_from_slice(&stamp.bytes.to_le_bytes());
        }
        for (at, count) in &flow.payload {
            bytes.extend_from_slice(&at.0.to_le_bytes());
            bytes.extend_from_slice(&count.to_le_bytes());
        }
        for (stream, at) in &flow.whole {
            bytes.extend_from_slice(&stream.to_le_bytes());
            bytes.extend_from_slice(&at.0.to_le_bytes());
        }
    }
    bytes
}

/// Reads `flows` flows; none if `bytes` are not exactly these.
#[must_use]
pub fn decode(bytes: &[u8], flows: usize) -> Option<Vec<Arrived>> {
    let mut rest = bytes;
    let found = (0..flows).map(|_| decode_flow(&mut rest)).collect::<Option<Vec<_>>>()?;
    rest.is_empty().then_some(found)
}

fn decode_flow(rest: &mut &[u8]) -> Option<Arrived> {
    let [packets, payload, whole] = [u64_of(rest)?, u64_of(rest)?, u64_of(rest)?];
    // Each entry takes bytes, so that a length beyond them ends the reading soon.
    let list = |length: u64, bytes: u64, rest: &[u8]| (length <= rest.len() as u64 / bytes).then_some(length);
    let stamp = |rest: &mut &[u8]| {
        Some(Stamp { at: Time(u64_of(rest)?), tag: u64_of(rest)?, bytes: u16::from_le_bytes(take(rest)?) })
    };
    let packets = (0..list(packets, 18, rest)?).map(|_| stamp(rest)).collect::<Option<_>>()?;
    let amount = |rest: &mut &[u8]| Some((Time(u64_of(rest)?), u32::from_le_bytes(take(rest)?)));
    let payload = (0..list(payload, 12, rest)?).map(|_| amount(rest)).collect::<Option<_>>()?;
    let stream = |rest: &mut &[u8]| Some((u64_of(rest)?, Time(u64_of(rest)?)));
    let whole = (0..list(whole, 16, rest)?).map(|_| stream(rest)).collect::<Option<_>>()?;
    Some(Arrived { packets, payload, whole })
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (first, others) = rest.split_first_chunk()?;
    *rest = others;
    Some(*first)
}

fn u64_of(rest: &mut &[u8]) -> Option<u64> {
    take(rest).map(u64::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn arrived() -> impl Strategy<Value = Arrived> {
        let stamp =
            (any::<u64>(), any::<u64>(), any::<u16>()).prop_map(|(at, tag, bytes)| Stamp { at: Time(at), tag, bytes });
        let payload = (any::<u64>(), any::<u32>()).prop_map(|(at, bytes)| (Time(at), bytes));
        let whole = (any::<u64>(), any::<u64>()).prop_map(|(stream, at)| (stream, Time(at)));
        let lists = (
            prop::collection::vec(stamp, 0..9),
            prop::collection::vec(payload, 0..9),
            prop::collection::vec(whole, 0..9),
        );
        lists.prop_map(|(packets, payload, whole)| Arrived { packets, payload, whole })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(flows in prop::collection::vec(arrived(), 0..5)) {
            let bytes = encode(&flows);
            prop_assert_eq!(decode(&bytes, flows.len() + 1), None);
            prop_assert_eq!(decode(&bytes, flows.len()), Some(flows));
        }

        #[test]
        fn nothing_makes_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), flows in 0_usize..40) {
            let _ = decode(&bytes, flows);
        }
    }

    #[test]
    fn the_first_of_two_copies_counts() {
        let stamp = |at, payload: &[u8]| Stamp::new(Time(at), payload);
        let packets = vec![stamp(5, b"xx12345678"), stamp(7, b"yy12345678"), stamp(6, b"short")];
        let found = Arrived { packets, ..Arrived::default() }.by_tag();
        assert_eq!(found[&u64::from_le_bytes(*b"12345678")], Time(5));
        assert_eq!((found.len(), found[&0]), (2, Time(6)));
    }
}
