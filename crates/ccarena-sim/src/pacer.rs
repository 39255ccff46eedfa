//! Pacing in bursts, as TCP does it by itself (`tcp_pacing_check`, `tcp_update_skb_after_send`).

use ccarena_cc::{Dur, Rate, Time};

/// Segments that one offloaded packet holds at most: 64 kB.
const MOST: u32 = 44;

/// Time at which the next burst may leave.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pacer {
    next: Time,
    /// Time and size of the last burst.
    last: Time,
    bytes: u64,
}

impl Pacer {
    /// Returns the time at which the next burst may leave.
    #[inline]
    pub fn next(&self) -> Time {
        self.next
    }

    /// Returns the same if the present rate counts from the last burst on, whatever the rate was then.
    pub fn next_at(&self, rate: Rate) -> Time {
        if self.bytes == 0 { Time::ZERO } else { self.last + rate.time_for(self.bytes) }
    }

    /// Segments of a burst: about 1 ms at the pacing rate (`tcp_tso_autosize` with `sk_pacing_shift` 10).
    pub fn burst(rate: Rate, mss: u32, least: u32) -> u32 {
        let segments = ((rate.0 / 8) >> 10) / u64::from(mss.max(1));
        u32::try_from(segments).unwrap_or(u32::MAX).clamp(least.clamp(1, MOST), MOST)
    }

    /// A burst of `bytes` has left at `now`: the next one waits as long as it takes, less half of that at most for having
    /// been late.
    pub fn on_burst(&mut self, now: Time, rate: Rate, bytes: u64) {
        let length = rate.time_for(bytes);
        let credit = if self.next == Time::ZERO { Dur::ZERO } else { now.since(self.next) };
        self.next = now + (length - credit.min(length / 2));
        (self.last, self.bytes) = (now, bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_rate_though_timers_are_late() {
        let (rate, mut pacer, mut now) = (Rate::from_mbps(8.0), Pacer::default(), Time(1));
        for _ in 0..1000 {
            pacer.on_burst(now, rate, 2000);
            now = pacer.next() + Dur::from_micros(300);
        }
        assert!(now.0.abs_diff(2_000_000_000) < 3_000_000, "{now}");
    }

    #[test]
    fn the_newest_rate_counts_from_the_last_burst_on() {
        let (rate, mut pacer) = (Rate::from_mbps(8.0), Pacer::default());
        assert_eq!(pacer.next_at(rate), Time::ZERO);
        pacer.on_burst(Time(5_000_000), rate, 1000);
        // Late: no credit for that.
        pacer.on_burst(Time(9_000_000), rate, 1000);
        assert_eq!(pacer.next_at(rate), Time(10_000_000));
        assert_eq!(pacer.next_at(Rate::from_mbps(2.0)), Time(13_000_000));
    }

    #[test]
    fn a_burst_is_a_millisecond_within_limits() {
        assert_eq!(Pacer::burst(Rate::from_mbps(1.0), 1448, 1), 1);
        assert_eq!(Pacer::burst(Rate::from_mbps(1.0), 1448, 2), 2);
        assert_eq!(Pacer::burst(Rate::from_mbps(100.0), 1448, 2), 8);
        assert_eq!(Pacer::burst(Rate::from_mbps(10_000.0), 1448, 2), 44);
    }
}
