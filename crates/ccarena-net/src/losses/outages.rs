//! Outages of a link.

use ccarena_cc::types::{Dur, Time};

use crate::rng::Stream;

/// Times at which a link loses everything.
#[derive(Clone, Debug)]
pub struct Outages {
    /// Mean times on and off in nanoseconds.
    on: f64,
    off: f64,
    stream: Stream,
    /// The state now, and until when it lasts.
    is_on: bool,
    until: Time,
}

impl Outages {
    /// Returns a link that is on first, for `on` on average, then off for `off` on average, and so
    /// on.
    #[must_use]
    pub fn new(on: Dur, off: Dur, mut stream: Stream) -> Self {
        let (on, off) = (on.0 as f64, off.0 as f64);
        let until = Time(stream.exponential(on) as u64);
        Self { on, off, stream, is_on: true, until }
    }

    /// Returns whether the link is off at `now`, which does not go back.
    pub(super) fn is_off(&mut self, now: Time) -> bool {
        while self.until <= now {
            self.is_on = !self.is_on;
            let mean = if self.is_on { self.on } else { self.off };
            self.until = self.until + Dur((self.stream.exponential(mean) as u64).max(1));
        }
        !self.is_on
    }
}
