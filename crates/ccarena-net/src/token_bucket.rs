//! A token bucket (RFC 2697, tc-tbf(8)): tokens come at a rate, and it holds no more than a burst of them.

use ccarena_cc::types::{Dur, Rate, Time};

/// Nanoseconds times bits per second of one byte.
const BYTE: i128 = 8_000_000_000;

/// A token bucket.
#[derive(Clone, Copy, Debug)]
pub struct TokenBucket {
    rate: Rate,
    /// Tokens in bits per second times nanoseconds, exact, and when the bucket had them.
    most: i128,
    tokens: i128,
    at: Time,
}

impl TokenBucket {
    /// Returns a full bucket of `burst_bytes` that fills at `rate`.
    #[must_use]
    pub fn new(rate: Rate, burst_bytes: u64) -> Self {
        let most = i128::from(burst_bytes) * BYTE;
        Self { rate, most, tokens: most, at: Time::ZERO }
    }

    /// Takes the tokens of `bytes` if the bucket holds them at `now`, and returns whether it did. Times do not go back.
    #[must_use]
    pub fn takes(&mut self, bytes: u32, now: Time) -> bool {
        self.fill(now);
        let cost = i128::from(bytes) * BYTE;
        let enough = self.tokens >= cost;
        if enough {
            self.tokens -= cost;
        }
        enough
    }

    /// Returns when, from `now` on, the bucket holds the tokens of `bytes`, or is full. Times do not go back.
    #[must_use]
    pub fn ready(&mut self, bytes: u32, now: Time) -> Time {
        self.fill(now);
        let missing = (i128::from(bytes) * BYTE).min(self.most) - self.tokens;
        if missing <= 0 {
            return now;
        }
        let wait = missing.unsigned_abs().div_ceil(u128::from(self.rate.0.max(1)));
        now + Dur(u64::try_from(wait).unwrap_or(u64::MAX))
    }

    /// Takes the tokens of `bytes` at `now`, when it is [`ready`](Self::ready) for them. What is larger than the bucket
    /// leaves it in debt, so that the rate holds in the long run.
    pub fn take(&mut self, bytes: u32, now: Time) {
        self.fill(now);
        self.tokens -= i128::from(bytes) * BYTE;
    }

    fn fill(&mut self, now: Time) {
        let Dur(elapsed) = now.since(self.at);
        self.tokens = (self.tokens + i128::from(self.rate.0) * i128::from(elapsed)).min(self.most);
        self.at = self.at.max(now);
    }
}
