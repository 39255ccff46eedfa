//! Totals over the recent past: the last so many milliseconds or round trips.

use std::collections::VecDeque;

use crate::types::{Dur, Time};

/// Totals of what has been sent, acknowledged and lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Bytes acknowledged.
    pub acked: u64,
    /// Segments acknowledged.
    pub acked_packets: u64,
    /// Segments that acknowledgements report as marked by ECN.
    pub marked_packets: u64,
    /// Bytes marked lost.
    pub lost: u64,
    /// Segments marked lost.
    pub lost_packets: u64,
    /// Bytes sent.
    pub sent: u64,
    /// Segments sent.
    pub sent_packets: u64,
}

impl Totals {
    fn zip(self, other: Self, f: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            acked: f(self.acked, other.acked),
            acked_packets: f(self.acked_packets, other.acked_packets),
            marked_packets: f(self.marked_packets, other.marked_packets),
            lost: f(self.lost, other.lost),
            lost_packets: f(self.lost_packets, other.lost_packets),
            sent: f(self.sent, other.sent),
            sent_packets: f(self.sent_packets, other.sent_packets),
        }
    }
}

/// Horizon of the past: the longer of both.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Horizon {
    /// A time.
    pub time: Dur,
    /// Smoothed round trips.
    pub round_trips: f64,
    /// The shortest stretch that is asked for, in the same units, on which the resolution depends; zero if none is.
    pub least_time: Dur,
    /// See `least_time`.
    pub least_round_trips: f64,
}

impl Horizon {
    /// Takes in a stretch of `time` or `round_trips`, whichever is above zero.
    pub fn reach(&mut self, time: Dur, round_trips: f64) {
        self.time = self.time.max(time);
        self.round_trips = self.round_trips.max(round_trips);
        if time > Dur::ZERO && (self.least_time == Dur::ZERO || time < self.least_time) {
            self.least_time = time;
        }
        if round_trips > 0.0 && (self.least_round_trips <= 0.0 || round_trips < self.least_round_trips) {
            self.least_round_trips = round_trips;
        }
    }

    fn length(&self, srtt: Dur) -> Dur {
        self.time.max(times(srtt, self.round_trips))
    }

    /// A stretch begins within a 32nd of it.
    fn step(&self, srtt: Dur) -> Dur {
        let (time, trips) = (self.least_time, times(srtt, self.least_round_trips));
        let least = if time == Dur::ZERO || (trips > Dur::ZERO && trips < time) { trips } else { time };
        least / 32
    }
}

/// `round_trips` of `srtt`.
#[must_use]
pub fn times(srtt: Dur, round_trips: f64) -> Dur {
    Dur::from_secs_f64(srtt.as_secs_f64() * round_trips)
}

/// Most marks: with the resolution above, enough unless RTTs fall to a small part of what they were.
const MARKS: usize = 4096;

/// Running totals with marks in the past.
#[derive(Clone, Debug)]
pub struct Recent {
    horizon: Horizon,
    now: Totals,
    /// Totals as they were just before a time, in order.
    marks: VecDeque<(Time, Totals)>,
}

impl Recent {
    /// One that looks back as far as `horizon`.
    #[must_use]
    pub fn new(horizon: Horizon) -> Self {
        Self { horizon, now: Totals::default(), marks: VecDeque::new() }
    }

    /// Counts what happens at `now`.
    pub fn add(&mut self, now: Time, srtt: Dur, part: Totals) {
        let due = self.marks.back().is_none_or(|last| now >= last.0 + self.horizon.step(srtt));
        if due {
            let oldest = now - self.horizon.length(srtt);
            // The newest mark before the horizon stays: a stretch of the whole horizon begins there.
            while self.marks.len() >= MARKS || self.marks.get(1).is_some_and(|second| second.0 <= oldest) {
                self.marks.pop_front();
            }
            self.marks.push_back((now, self.now));
        }
        self.count(part);
    }

    /// Counts what happens at the time of the call before.
    pub fn count(&mut self, part: Totals) {
        self.now = self.now.zip(part, u64::saturating_add);
    }

    /// Returns the totals of the last `stretch` before `now`.
    #[must_use]
    pub fn since(&self, now: Time, stretch: Dur) -> Totals {
        let from = now - stretch;
        let begin = self.marks.partition_point(|mark| mark.0 <= from);
        self.marks.get(begin).map_or_else(Totals::default, |mark| self.now.zip(mark.1, u64::saturating_sub))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn acked(bytes: u64) -> Totals {
        Totals { acked: bytes, ..Totals::default() }
    }

    #[test]
    fn a_stretch_counts_what_happened_in_it() {
        let mut horizon = Horizon::default();
        horizon.reach(Dur::from_millis(100), 0.0);
        horizon.reach(Dur::from_millis(1000), 0.0);
        let mut recent = Recent::new(horizon);
        assert_eq!(recent.since(Time(5), Dur::from_millis(100)), Totals::default());
        for ms in 0..5000_u64 {
            recent.add(Time(ms * 1_000_000), Dur::ZERO, acked(10));
        }
        let now = Time(5000 * 1_000_000);
        for (ms, expected) in [(100, 1000.0), (1000, 10_000.0)] {
            let found = recent.since(now, Dur::from_millis(ms)).acked as f64;
            assert!((found / expected - 1.0).abs() < 1.0 / 20.0, "{found} in {ms} ms; expected {expected}");
        }
        assert!(recent.marks.len() < 400, "{} marks", recent.marks.len());
        let later = Time(5200 * 1_000_000);
        assert_eq!(recent.since(later, Dur::from_millis(100)), Totals::default(), "silence");
    }
}
