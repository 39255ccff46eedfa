//! Bound on the timer calls of a controller that a user wrote.
//!
//! A timer that is always due, or due again after a nanosecond, would otherwise hold the clock of a simulation still.

use crate::{Dur, Time};

/// Most calls within [`WITHIN`]: one each 10 µs, more often than full packets leave at 1 Gbit/s.
pub const MOST: u32 = 1_000;
/// Time in which [`MOST`] calls are allowed.
pub const WITHIN: Dur = Dur::from_millis(10);

/// Count of a controller's timer calls.
#[derive(Clone, Copy, Debug, Default)]
pub struct TimerCalls {
    since: Time,
    calls: u32,
}

impl TimerCalls {
    /// Counts a call at `now`, whose time the controller gave by `field`.
    ///
    /// # Errors
    /// The reason why the controller is not called any more, if it has been called too often.
    #[inline]
    pub fn count(&mut self, now: Time, field: &str) -> Result<(), String> {
        if now.since(self.since) >= WITHIN {
            *self = Self { since: now, calls: 0 };
        }
        self.calls += 1;
        if self.calls > MOST {
            return Err(format!(
                "more than {MOST} calls within {} ms; name a later time in {field}",
                WITHIN.as_millis_f64()
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calls(step: Dur) -> Result<(), String> {
        let mut counted = TimerCalls::default();
        (1..20_000).try_for_each(|call| counted.count(Time::ZERO + step * call, "timer_s"))
    }

    #[test]
    fn a_timer_may_fire_each_ten_microseconds_and_no_oftener() {
        assert_eq!(calls(Dur::from_micros(10)), Ok(()));
        for often in [Dur::ZERO, Dur(1), Dur::from_micros(9)] {
            let said = calls(often).unwrap_err();
            assert_eq!(said, "more than 1000 calls within 10 ms; name a later time in timer_s");
        }
    }
}
