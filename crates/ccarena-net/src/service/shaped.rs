//! A token-bucket shaper before a service: packets beyond a rate wait (RFC 2475 2.3.3.2; tc-tbf(8)).

use ccarena_cc::types::{Dur, Rate, Time};

use super::{Service, capped};
use crate::token_bucket::TokenBucket;

/// Bytes of the bucket of a peak rate: a packet on Ethernet, as tc-tbf's `mtu`.
const PEAK_BYTES: u64 = 1500;

/// Time in which a shaped link's capacity is the lesser of the service's and the shaper's.
const WINDOW: Dur = Dur::from_millis(100);

/// A shaper, as a scenario describes it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ShaperSpec {
    /// Rate at which the bucket fills, above zero.
    pub rate: Rate,
    /// Bytes that the bucket holds; it begins full.
    pub burst_bytes: u64,
    /// Rate at which the burst leaves; none is at once.
    pub peak: Option<Rate>,
}

/// A service behind a shaper.
#[derive(Clone, Debug)]
pub struct Shaped {
    pub service: Service,
    rate: Rate,
    bucket: TokenBucket,
    peak: Option<TokenBucket>,
    /// Time at which the shaper let the newest packet pass.
    passed: Time,
}

impl Shaped {
    pub fn new(service: Service, spec: ShaperSpec) -> Self {
        let bucket = TokenBucket::new(spec.rate, spec.burst_bytes);
        let peak = spec.peak.map(|peak| TokenBucket::new(peak, PEAK_BYTES));
        Self { service, rate: spec.rate, bucket, peak, passed: Time::ZERO }
    }

    /// The same as [`Service::departure`].
    pub fn departure(&mut self, start: Time, bytes: u32, backlogged: bool, arrival: Time) -> Time {
        // A service may take packets before those ahead have left, as one that sends aggregates does.
        let from = if self.service.is_access() { arrival.max(self.passed) } else { start };
        let mut ready = self.bucket.ready(bytes, from);
        if let Some(peak) = &mut self.peak {
            ready = ready.max(peak.ready(bytes, from));
            peak.take(bytes, ready);
        }
        self.bucket.take(bytes, ready);
        self.passed = ready;
        self.service.departure(start.max(ready), bytes, backlogged && ready <= start, || ready)
    }

    pub fn shaped_rate(&self) -> Rate {
        self.rate
    }

    pub fn rate(&mut self, now: Time) -> Rate {
        self.service.rate(now).min(self.rate)
    }

    pub fn capacity_bytes(&self, from: Time, to: Time) -> u64 {
        let most = self.rate.bytes_in(WINDOW).0;
        capped(|from, to| self.service.capacity_bytes(from, to), most, WINDOW, from, to)
    }
}
