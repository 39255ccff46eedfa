//! Pacing at a controller's rate.
//!
//! As in QUICHE's `PacingSender` with its alarm granularity: what is due within a millisecond leaves now. A wake-up that
//! is late is made up for, by a millisecond at most.

use crate::types::{Dur, Rate, Time};

/// QUICHE's `kAlarmGranularity`.
const GRANULARITY: Dur = Dur::from_millis(1);

/// Pacer: the time at which the next packet is due.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pacer {
    due: Time,
}

impl Pacer {
    /// Returns the time at which the next packet is due.
    pub fn due(&self) -> Time {
        self.due
    }

    /// Returns the time from which the next packet may leave.
    pub fn opens(&self) -> Time {
        Time(self.due.0.saturating_sub(GRANULARITY.0))
    }

    /// A packet of `bytes` leaves at `now`.
    pub fn on_sent(&mut self, now: Time, bytes: u64, rate: Rate) {
        let earliest = Time(now.0.saturating_sub(GRANULARITY.0));
        let took = rate.time_for(bytes).0.min(Dur::from_millis(60_000).0);
        self.due = Time(self.due.max(earliest).0.saturating_add(took));
    }

    /// The rate has changed: what is due is no later than `bytes` at the new one take, so that a rise is felt at once.
    pub fn on_rate(&mut self, now: Time, bytes: u64, rate: Rate) {
        self.due = self.due.min(now + Dur(rate.time_for(bytes).0.min(Dur::from_millis(60_000).0)) + GRANULARITY);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_rate_though_wakes_are_late() {
        let (rate, mut pacer, mut now, mut sent) = (Rate::from_mbps(12.0), Pacer::default(), Time(1), 0);
        while now < Time(1_000_000_000) {
            while pacer.opens() <= now {
                pacer.on_sent(now, 1500, rate);
                sent += 1500;
            }
            now = pacer.due() + Dur::from_micros(200);
        }
        assert!(rate.bytes_in(Dur::from_millis(1000)).0.abs_diff(sent) < 6000, "{sent}");
    }

    #[test]
    fn a_pause_earns_no_burst() {
        let (rate, mut pacer) = (Rate::from_mbps(12.0), Pacer::default());
        let (now, mut count) = (Time(1_000_000_000), 0);
        while pacer.opens() <= now {
            pacer.on_sent(now, 1500, rate);
            count += 1;
        }
        assert!(count <= 3, "{count} packets of a millisecond each");
    }

    #[test]
    fn a_rise_of_the_rate_is_felt_at_once() {
        let mut pacer = Pacer::default();
        for _ in 0..4 {
            pacer.on_sent(Time(1), 1500, Rate(10_000));
        }
        assert!(pacer.due() > Time(3_000_000_000));
        pacer.on_rate(Time(1), 1500, Rate::from_mbps(12.0));
        assert!(pacer.due() < Time(3_000_000));
    }
}
