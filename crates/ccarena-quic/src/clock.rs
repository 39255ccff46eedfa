//! The stack's instants as times of a run.

use std::time::{Duration, Instant};

use ccarena_cc::{Dur, Time};
use ccarena_link::clock;

/// Translates between the stack's instants and times since a zero.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    zero: Instant,
}

impl Clock {
    /// A clock whose zero was at `zero_ns` of [`clock::now_ns`], which must not be in the future.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the clock; all else is given instants")]
    pub fn new(zero_ns: u64) -> Self {
        let now = Instant::now();
        let ago = Duration::from_nanos(clock::now_ns().saturating_sub(zero_ns));
        Self { zero: now.checked_sub(ago).unwrap_or(now) }
    }

    /// A clock whose zero is now.
    #[must_use]
    pub fn starting() -> Self {
        Self::new(clock::now_ns())
    }

    /// A clock whose zero is at `time` of this one.
    #[must_use]
    pub fn from(&self, time: Time) -> Self {
        Self { zero: self.instant(time).unwrap_or(self.zero) }
    }

    /// Now, for the stack.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the clock; all else is given instants")]
    pub fn now(&self) -> Instant {
        Instant::now()
    }

    /// The time at `instant`; zero before zero.
    #[must_use]
    pub fn time(&self, instant: Instant) -> Time {
        Time(nanoseconds(instant.saturating_duration_since(self.zero)).0)
    }

    /// The instant at `time`; none for [`Time::NEVER`] and what the machine cannot count to.
    #[must_use]
    pub fn instant(&self, time: Time) -> Option<Instant> {
        (time != Time::NEVER).then(|| self.zero.checked_add(Duration::from_nanos(time.0))).flatten()
    }
}

/// A length of time of the standard library.
#[must_use]
pub fn nanoseconds(duration: Duration) -> Dur {
    Dur(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}
