//! A token-bucket policer before a link's queue: packets beyond a rate are dropped or marked at once, none waits (RFC 2475
//! §2.3.3.3; Flach et al., "An Internet-Wide Analysis of Traffic Policing", SIGCOMM 2016).

use ccarena_cc::types::{Rate, Time};

use crate::queues::{Item, Marks};
use crate::token_bucket::TokenBucket;

/// A policer, as a scenario describes it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PolicerSpec {
    /// Rate at which the bucket fills, above zero.
    pub rate: Rate,
    /// Bytes that the bucket holds; it begins full.
    pub burst_bytes: u64,
    /// Packets beyond the rate are marked if their flow takes marks (ECN), instead of dropped.
    pub marks: bool,
}

/// A policer at work.
#[derive(Clone, Copy, Debug)]
pub struct Policer {
    may_mark: bool,
    bucket: TokenBucket,
    /// Packets dropped so far.
    pub policed_packets: u64,
    /// Marks so far.
    pub marks: Marks,
}

impl Policer {
    /// Returns a policer whose bucket is full.
    #[must_use]
    pub fn new(spec: PolicerSpec) -> Self {
        let bucket = TokenBucket::new(spec.rate, spec.burst_bytes);
        Self { may_mark: spec.marks, bucket, policed_packets: 0, marks: Marks::default() }
    }

    /// Returns whether a packet of `bytes` that arrives at `now` is within the rate. Times do not go back.
    pub fn conforms(&mut self, bytes: u32, now: Time) -> bool {
        self.bucket.takes(bytes, now)
    }

    /// Marks a packet beyond the rate, if packets are to be marked and this one may be. Returns whether it is.
    pub fn mark<T: Item>(&mut self, packet: &mut T) -> bool {
        self.may_mark && self.marks.mark(packet)
    }
}

#[cfg(test)]
mod tests {
    use ccarena_cc::types::Dur;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Tests that in no interval more passes than the bucket holds and the rate fills.
        #[test]
        fn no_more_passes_than_rate_and_burst(
            mbps in 1_u64..100, burst in 1500_u64..50_000, sends in prop::collection::vec((0_u64..2_000_000, 40_u32..1500), 1..200),
        ) {
            let spec = PolicerSpec { rate: Rate(mbps * 1_000_000), burst_bytes: burst, marks: false };
            let mut policer = Policer::new(spec);
            let (mut now, mut passed) = (Time::ZERO, Vec::<(Time, u64)>::new());
            for (gap, bytes) in sends {
                now = now + Dur(gap);
                if policer.conforms(bytes, now) {
                    passed.push((now, u64::from(bytes)));
                }
                for from in 0..passed.len() {
                    let sum: u64 = passed[from..].iter().map(|p| p.1).sum();
                    prop_assert!(sum <= burst + spec.rate.bytes_in(now.since(passed[from].0)).0 + 1);
                }
            }
            prop_assert!(!passed.is_empty());
        }
    }

    #[test]
    fn a_bucket_refills_to_the_byte() {
        let mut policer = Policer::new(PolicerSpec { rate: Rate(8_000_000), burst_bytes: 1000, marks: false });
        assert!(policer.conforms(1000, Time::ZERO) && !policer.conforms(1, Time(999)));
        assert!(policer.conforms(1, Time(1000)) && !policer.conforms(1, Time(1000)));
        assert!(!policer.conforms(1001, Time(10_000_000_000)), "more than the bucket holds never passes");
    }
}
