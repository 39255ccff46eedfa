//! The queue of monitor intervals: which packet belongs to which, and what the path has made of it.
//!
//! At most a round of useful intervals and a filler at either end are in the queue. Acknowledged packets are booked at
//! the acknowledgement event after their own, with the RTT and the time of their own: the filter needs both.
//!
//! Departures from both code bases:
//! - Packets are counted, not bytes: all but a transfer's last are full segments. All of them get acknowledged, so an
//!   interval is complete when the last one is accounted for, without slack.
//! - There, an interval that never completes stops the controller for good. Here, useful intervals are dropped undecided
//!   when one of them has been waited for far too long, or when its samples are many and unreliable.

use std::collections::VecDeque;

use super::interval::{Interval, Purpose, Statistics};
use super::reliability::{Event, Reliability};
use super::variant::Variant;
use crate::types::{Dur, Time};

/// A closed interval is given up after this many smoothed RTTs and packets' times at its rate, and a second.
const PATIENCE: u64 = 10;

/// Outcome of an acknowledgement for the controller.
#[derive(Debug)]
pub(super) enum Outcome {
    /// Results are missing.
    Wait,
    /// All useful intervals are complete: see [`Monitor::results`].
    Results,
    /// The intervals are useless: the control tries again as if it had not asked.
    Nothing,
}

/// Monitor intervals in order of sending.
#[derive(Debug)]
pub(super) struct Monitor {
    intervals: VecDeque<Interval>,
    useful: usize,
    /// Results of the useful intervals that were complete last. Their memory is kept.
    results: Vec<Statistics>,
    /// Packets acknowledged at the event before, and since.
    booked_next: Vec<u64>,
    arrived: Vec<u64>,
    event: Event,
    reliability: Reliability,
    variant: Variant,
    packet_bits: f64,
}

impl Monitor {
    pub(super) fn new(variant: Variant, packet_bits: f64) -> Self {
        Self {
            intervals: VecDeque::new(),
            useful: 0,
            results: Vec::new(),
            booked_next: Vec::new(),
            arrived: Vec::new(),
            event: Event::default(),
            reliability: Reliability::default(),
            variant,
            packet_bits,
        }
    }

    /// The interval that packets now belong to.
    pub(super) fn newest(&self) -> Option<&Interval> {
        self.intervals.back()
    }

    /// Returns the results of the last [`Outcome::Results`], in order of sending.
    pub(super) fn results(&self) -> &[Statistics] {
        &self.results
    }

    /// Intervals that results are waited for.
    pub(super) fn useful(&self) -> usize {
        self.useful
    }

    /// Returns whether the packet sent now opens an interval. `has_rtt`: there has been an RTT sample.
    #[inline]
    pub(super) fn wants_interval(&mut self, now: Time, has_rtt: bool) -> bool {
        let Some(newest) = self.intervals.back_mut() else { return true };
        has_rtt && (self.useful == 0 || (newest.is_useful() && newest.ends(now, &self.variant)))
    }

    pub(super) fn open(&mut self, interval: Interval) {
        self.useful += usize::from(interval.is_useful());
        self.intervals.push_back(interval);
    }

    #[inline]
    pub(super) fn on_sent(&mut self, number: u64, now: Time) {
        if let Some(newest) = self.intervals.back_mut() {
            newest.on_sent(number, now);
        }
    }

    fn owner(&mut self, number: u64) -> Option<&mut Interval> {
        self.intervals.iter_mut().find(|i| i.is_useful() && i.owns(number))
    }

    #[inline]
    pub(super) fn on_packet_acked(&mut self, number: u64) {
        if self.owner(number).is_some() {
            self.arrived.push(number);
        }
    }

    pub(super) fn on_packet_lost(&mut self, number: u64) {
        if let Some(owner) = self.owner(number) {
            owner.on_lost();
        }
    }

    /// An acknowledgement event: books the packets of the one before it.
    pub(super) fn on_event(&mut self, event: Event) -> Outcome {
        if self.useful == 0 {
            self.arrived.clear();
            self.booked_next.clear();
            return Outcome::Wait;
        }
        let mut booking = std::mem::take(&mut self.booked_next);
        let booked = self.event;
        for number in booking.drain(..) {
            let reliable = self.reliability.judge(&booked, &event);
            if let Some(owner) = self.owner(number) {
                owner.on_acked(number, &booked, reliable);
            }
        }
        self.booked_next = std::mem::replace(&mut self.arrived, booking);
        self.event = event;
        self.conclude(&event)
    }

    fn conclude(&mut self, event: &Event) -> Outcome {
        let useful = || self.intervals.iter().filter(|i| i.is_useful());
        if useful().all(|i| i.is_complete(event.now, &self.variant)) {
            if !useful().all(Interval::is_valid) {
                self.forget_useful();
                return Outcome::Nothing;
            }
            self.results.clear();
            let useful = self.intervals.iter().filter(|i| i.is_useful());
            self.results.extend(useful.map(|i| i.statistics(self.packet_bits, event.srtt_us)));
            self.forget_useful();
            return Outcome::Results;
        }
        if self.is_stuck(event) {
            self.forget_useful();
            self.reliability = Reliability::default();
            return Outcome::Nothing;
        }
        Outcome::Wait
    }

    /// The first result that is missing is not going to come.
    fn is_stuck(&self, event: &Event) -> bool {
        let missing = |i: &&Interval| i.is_useful() && !i.is_complete(event.now, &self.variant);
        let Some(interval) = self.intervals.iter().find(missing) else { return false };
        let packet_s = self.packet_bits / interval.rate;
        let patience = Dur::from_secs_f64(event.srtt_us / 1e6 + packet_s) * PATIENCE + Dur::from_millis(1000);
        let closed = self.intervals.back().is_some_and(|newest| !std::ptr::eq(newest, interval));
        (closed && event.now.since(interval.last_sent()) > patience) || interval.is_hopeless(event.now, &self.variant)
    }

    /// Drops the useful intervals and what was sent between them; a filler at the end goes on.
    fn forget_useful(&mut self) {
        while self.useful > 0 {
            match self.intervals.pop_front() {
                Some(interval) => self.useful -= usize::from(interval.is_useful()),
                None => self.useful = 0,
            }
        }
    }

    /// Drops all intervals: the next packet opens one.
    pub(super) fn forget_all(&mut self) {
        self.intervals.clear();
        self.useful = 0;
    }
}

/// Length of an interval: `factor` times the minimum RTT, where the variant sets a least base.
pub(super) fn duration(variant: &Variant, factor: f64, min_rtt: Dur) -> Dur {
    // A minimum RTT counts from its whole milliseconds on.
    let whole_ms = Dur::from_millis(min_rtt.0 / 1_000_000);
    let base = if whole_ms >= variant.shortest_base { min_rtt } else { variant.shortest_base };
    Dur::from_secs_f64(base.as_secs_f64() * factor)
}

impl Interval {
    /// An interval that fills the time until results are in.
    pub(super) fn filler(rate: f64, start_rtt_us: f64) -> Self {
        Self::new(rate, Purpose::Filler, start_rtt_us, Dur::ZERO)
    }
}
