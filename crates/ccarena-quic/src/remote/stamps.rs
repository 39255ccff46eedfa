//! Packets at one end of a flow: when each passed, and by what the other end knows it again.

use std::collections::HashMap;

use ccarena_cc::Time;
use ccarena_link::tcp::Sample;

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

/// Record of a flow at one of its ends.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Seen {
    /// Datagrams.
    pub packets: Vec<Stamp>,
    /// Payload that arrived: time and bytes, each byte once.
    pub payload: Vec<(Time, u32)>,
    /// Streams that arrived whole: number and time.
    pub whole: Vec<(u64, Time)>,
    /// States of a sender of the kernel's TCP.
    pub samples: Vec<Sample>,
    /// Report of a sender, in JSON (`outcome::Report`).
    pub report: Vec<u8>,
}

impl Seen {
    /// Adds payload that came at `now`.
    pub fn add_payload(&mut self, now: Time, bytes: u64) {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        match self.payload.last_mut() {
            Some((at, sum)) if *at == now => *sum = sum.saturating_add(bytes),
            _ if bytes > 0 => self.payload.push((now, bytes)),
            _ => {}
        }
    }

    /// Appends a later part of the record.
    pub fn append(&mut self, later: &mut Self) {
        self.packets.append(&mut later.packets);
        self.payload.append(&mut later.payload);
        self.whole.append(&mut later.whole);
        self.samples.append(&mut later.samples);
        self.report.append(&mut later.report);
    }

    /// Entries, which take memory.
    #[must_use]
    pub fn len(&self) -> usize {
        self.packets.len() + self.payload.len() + self.whole.len() + self.samples.len()
    }

    /// Returns whether the record has no entry.
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

/// Flows as bytes: of each the lengths of its five lists, then the lists, all numbers little-endian.
#[must_use]
pub fn encode(flows: &[Seen]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for flow in flows {
        let lists = [flow.packets.len(), flow.payload.len(), flow.whole.len(), flow.samples.len(), flow.report.len()];
        for length in lists {
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
        for sample in &flow.samples {
            bytes.extend_from_slice(&sample.at.0.to_le_bytes());
            bytes.extend_from_slice(&sample.rtt_us.to_le_bytes());
            bytes.extend_from_slice(&sample.retransmitted.to_le_bytes());
        }
        bytes.extend_from_slice(&flow.report);
    }
    bytes
}

/// Reads `flows` flows; none if `bytes` are not exactly these.
#[must_use]
pub fn decode(bytes: &[u8], flows: usize) -> Option<Vec<Seen>> {
    let mut rest = bytes;
    let found = (0..flows).map(|_| decode_flow(&mut rest)).collect::<Option<Vec<_>>>()?;
    rest.is_empty().then_some(found)
}

fn decode_flow(rest: &mut &[u8]) -> Option<Seen> {
    let [packets, payload, whole] = [u64_of(rest)?, u64_of(rest)?, u64_of(rest)?];
    let [samples, report] = [u64_of(rest)?, u64_of(rest)?];
    // Each entry takes bytes, so that a length beyond them ends the reading soon.
    let list = |length: u64, bytes: u64, rest: &[u8]| (length <= rest.len() as u64 / bytes).then_some(length);
    let stamp = |rest: &mut &[u8]| {
        Some(Stamp { at: Time(u64_of(rest)?), tag: u64_of(rest)?, bytes: u16::from_le_bytes(take(rest)?) })
    };
    let packets = (0..list(packets, 18, rest)?).map(|_| stamp(rest)).collect::<Option<_>>()?;
    let amount = |rest: &mut &[u8]| Some((Time(u64_of(rest)?), u32_of(rest)?));
    let payload = (0..list(payload, 12, rest)?).map(|_| amount(rest)).collect::<Option<_>>()?;
    let stream = |rest: &mut &[u8]| Some((u64_of(rest)?, Time(u64_of(rest)?)));
    let whole = (0..list(whole, 16, rest)?).map(|_| stream(rest)).collect::<Option<_>>()?;
    let sample = |rest: &mut &[u8]| {
        Some(Sample { at: Time(u64_of(rest)?), rtt_us: u32_of(rest)?, retransmitted: u32_of(rest)? })
    };
    let samples = (0..list(samples, 16, rest)?).map(|_| sample(rest)).collect::<Option<_>>()?;
    let (report, others) = rest.split_at_checked(usize::try_from(report).ok()?)?;
    let report = report.to_vec();
    *rest = others;
    Some(Seen { packets, payload, whole, samples, report })
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (first, others) = rest.split_first_chunk()?;
    *rest = others;
    Some(*first)
}

fn u32_of(rest: &mut &[u8]) -> Option<u32> {
    take(rest).map(u32::from_le_bytes)
}

fn u64_of(rest: &mut &[u8]) -> Option<u64> {
    take(rest).map(u64::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn seen() -> impl Strategy<Value = Seen> {
        let stamp =
            (any::<u64>(), any::<u64>(), any::<u16>()).prop_map(|(at, tag, bytes)| Stamp { at: Time(at), tag, bytes });
        let payload = (any::<u64>(), any::<u32>()).prop_map(|(at, bytes)| (Time(at), bytes));
        let whole = (any::<u64>(), any::<u64>()).prop_map(|(stream, at)| (stream, Time(at)));
        let sample = (any::<u64>(), any::<u32>(), any::<u32>()).prop_map(|(at, rtt_us, retransmitted)| Sample {
            at: Time(at),
            rtt_us,
            retransmitted,
        });
        let lists = (
            prop::collection::vec(stamp, 0..9),
            prop::collection::vec(payload, 0..9),
            prop::collection::vec(whole, 0..9),
            prop::collection::vec(sample, 0..9),
            prop::collection::vec(any::<u8>(), 0..9),
        );
        lists.prop_map(|(packets, payload, whole, samples, report)| Seen { packets, payload, whole, samples, report })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(flows in prop::collection::vec(seen(), 0..5)) {
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
        let found = Seen { packets, ..Seen::default() }.by_tag();
        assert_eq!(found[&u64::from_le_bytes(*b"12345678")], Time(5));
        assert_eq!((found.len(), found[&0]), (2, Time(6)));
    }
}
