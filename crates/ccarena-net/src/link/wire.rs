//! The wire behind a queue: propagation, and what makes packets late on it.

use ccarena_cc::types::{Dur, Time};

use crate::impairments::{Befalls, ImpairedStats, Impairments};
use crate::rng::Stream;

/// The host at the other end of a link, which sleeps.
#[derive(Clone, Copy, Debug)]
struct Wakes {
    /// Length of its sleep.
    period: Dur,
    /// Time at which it wakes next.
    next: Time,
    /// Time at which it took the newest packet. Packets of one waking follow one another, whatever
    /// flows they are of.
    newest: Time,
}

/// Lateness of packets beyond the propagation delay.
#[derive(Debug, Default)]
struct Late {
    /// Mean lateness in nanoseconds, and where it comes from.
    jitter: Option<(f64, Stream)>,
    /// Packets reach the other end when its host wakes.
    wakes: Option<Wakes>,
}

/// Impairments, and what has come of them.
#[derive(Debug)]
struct Impaired {
    impairments: Impairments,
    stats: ImpairedStats,
    /// Arrival of the newest packet that did not stay behind.
    newest: Time,
}

/// The wire of a link.
#[derive(Debug)]
pub struct Wire {
    delay: Dur,
    /// Most wires have neither.
    late: Option<Box<Late>>,
    impaired: Option<Box<Impaired>>,
}

impl Wire {
    /// A wire on which every packet takes `delay`.
    pub fn new(delay: Dur) -> Self {
        Self { delay, late: None, impaired: None }
    }

    /// Makes packets late by `mean` on average.
    pub fn set_jitter(&mut self, mean: Dur, stream: Stream) {
        if mean > Dur::ZERO {
            self.late.get_or_insert_default().jitter = Some((mean.0 as f64, stream));
        }
    }

    /// Packets arrive when the host at the other end wakes: `period` and the jitter after it woke last, first at `first`.
    pub fn set_wakes(&mut self, period: Dur, first: Time) {
        if period > Dur::ZERO {
            self.late.get_or_insert_default().wakes = Some(Wakes { period, next: first, newest: Time::ZERO });
        }
    }

    /// Packets may come late, twice or damaged: they go by [`launch`](Self::launch) from now on.
    pub fn set_impairments(&mut self, impairments: Impairments) {
        let impaired = Impaired { impairments, stats: ImpairedStats::default(), newest: Time::ZERO };
        self.impaired = Some(Box::new(impaired));
    }

    /// Returns whether packets go by [`launch`](Self::launch).
    #[inline]
    pub fn is_impaired(&self) -> bool {
        self.impaired.is_some()
    }

    /// Returns the counts of impaired packets.
    pub fn stats(&self) -> ImpairedStats {
        self.impaired.as_ref().map(|impaired| impaired.stats).unwrap_or_default()
    }

    /// Returns the arrival at the other end of a packet that leaves at `now`; `previous` is the
    /// arrival of the one before it.
    #[inline]
    pub fn arrival(&mut self, now: Time, previous: impl FnOnce() -> Option<Time>) -> Time {
        let at = now + self.delay;
        match &mut self.late {
            None => at,
            Some(late) => late.arrival(at, previous),
        }
    }

    /// The same for a wire with impairments, and what befalls the packet.
    pub fn launch(&mut self, now: Time) -> (Time, Befalls) {
        let newest = self.impaired.as_ref().map(|impaired| impaired.newest);
        let at = self.arrival(now, || newest);
        let Some(Impaired { impairments, stats, newest }) = self.impaired.as_deref_mut() else {
            return (at, Befalls::default());
        };
        *newest = at;
        let befalls = impairments.draw();
        if befalls.corrupted {
            stats.corrupted_packets += 1;
        } else {
            stats.reordered_packets += u64::from(befalls.late.is_some());
            stats.duplicated_packets += u64::from(befalls.twice);
        }
        (at + befalls.late.unwrap_or(Dur::ZERO), befalls)
    }
}

impl Late {
    /// Returns when a packet arrives that would at `at`.
    fn arrival(&mut self, at: Time, previous: impl FnOnce() -> Option<Time>) -> Time {
        let mut late =
            || self.jitter.as_mut().map_or(Dur::ZERO, |(mean, stream)| Dur(stream.exponential(*mean) as u64));
        if let Some(Wakes { period, next, newest }) = &mut self.wakes {
            // Of a long silence no more than the phase at its end matters.
            let asleep = at.since(*next).0 / period.0;
            if asleep > 1000 {
                *next = *next + *period * (asleep - 1);
            }
            while *next < at {
                *next = *next + *period + late();
            }
            *newest = (*next).max(*newest + Dur(1));
            return *newest;
        }
        let late = late();
        previous().map_or(at + late, |p| p.max(at + late))
    }
}
