//! The wire behind a queue: propagation, and what makes packets late on it.

use ccarena_cc::types::{Dur, Time};

use crate::impairments::{Befalls, ImpairedStats, Impairments, ImpairmentsSpec};
use crate::rng::{Purpose, Stream};
use crate::stepped::{Cursor, Stepped};

/// Flight of a packet over an impaired wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flight {
    /// Arrival at the other end.
    pub at: Time,
    /// Flag that packets which leave later may arrive earlier.
    pub overtaken: bool,
    /// Impairments of the packet.
    pub befalls: Befalls,
}

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

/// A delay that varies.
#[derive(Clone, Debug)]
struct Varies {
    delays: Cursor<Dur>,
    longest: Dur,
    keep_order: bool,
    /// Latest arrival so far.
    newest: Time,
    /// Delay in force.
    present: Dur,
    /// Earliest arrival of any packet that leaves after the present step.
    earliest: Time,
}

/// Lateness of packets beyond a propagation delay that does not change.
#[derive(Debug, Default)]
struct Late {
    varies: Option<Varies>,
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

    /// Returns the longest propagation delay.
    pub fn longest_delay(&self) -> Dur {
        self.late.as_ref().and_then(|late| late.varies.as_ref()).map_or(self.delay, |varies| varies.longest)
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

    /// Replaces the propagation delay by `delays`. Unless packets `keep_order`, they go by [`launch`](Self::launch) from
    /// now on.
    pub fn set_delays(&mut self, delays: Stepped<Dur>, keep_order: bool) {
        let longest = delays.values().max().unwrap_or(Dur::ZERO);
        let mut varies = Varies {
            delays: Cursor::new(delays),
            longest,
            keep_order,
            newest: Time::ZERO,
            present: Dur::ZERO,
            earliest: Time::NEVER,
        };
        varies.look_ahead(Time::ZERO);
        self.late.get_or_insert_default().varies = Some(varies);
        if !keep_order {
            self.set_impairments(&ImpairmentsSpec::default(), |_| Stream::keyed(0));
        }
    }

    /// Changes the delay, which varies, to `delay` from `now` on.
    pub fn set_delay(&mut self, now: Time, delay: Dur) {
        let Some(varies) = self.late.as_mut().and_then(|late| late.varies.as_mut()) else { return };
        varies.delays.follow(now, delay);
        varies.longest = varies.longest.max(delay);
        varies.look_ahead(now);
    }

    /// Packets may come late, twice or damaged: they go by [`launch`](Self::launch) from now on.
    pub fn set_impairments(&mut self, spec: &ImpairmentsSpec, stream: impl Fn(Purpose) -> Stream) {
        let impairments = Impairments::new(spec, stream);
        self.impaired = Some(Box::new(Impaired { impairments, stats: ImpairedStats::default(), newest: Time::ZERO }));
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

    /// Counts a packet that has left.
    pub fn count(&mut self, befalls: Befalls) {
        if let Some(Impaired { stats, .. }) = self.impaired.as_deref_mut() {
            stats.count(befalls);
        }
    }

    /// Returns the arrival at the other end of a packet that leaves at `now`; `previous` is the
    /// arrival of the one before it.
    #[inline]
    pub fn arrival(&mut self, now: Time, previous: impl FnOnce() -> Option<Time>) -> Time {
        match self.late.as_deref_mut() {
            None => now + self.delay,
            // Jitter alone is common; questions about the others show in the simulator's rate.
            Some(Late { varies: None, jitter: Some((mean, stream)), wakes: None }) => {
                let at = now + self.delay + Dur(stream.exponential(*mean) as u64);
                previous().map_or(at, |p| p.max(at))
            }
            Some(late) => late.arrival(now, self.delay, previous),
        }
    }

    /// The same for a wire with impairments, and what befalls the packet.
    pub fn launch(&mut self, now: Time) -> Flight {
        let newest = self.impaired.as_ref().map(|impaired| impaired.newest);
        let at = self.arrival(now, || newest);
        let mut flight = Flight { at, overtaken: false, befalls: Befalls::default() };
        let Some(impaired) = self.impaired.as_deref_mut() else { return flight };
        flight.befalls = impaired.impairments.draw();
        flight.befalls.overtakes = at < impaired.newest;
        impaired.newest = impaired.newest.max(at);
        let may_overtake = self.late.as_ref().and_then(|late| late.varies.as_ref()).filter(|v| !v.keep_order);
        flight.overtaken =
            flight.befalls.late.is_some() || may_overtake.is_some_and(|v| v.earliest.min(now + v.present) < at);
        flight.at = at + flight.befalls.late.unwrap_or(Dur::ZERO);
        flight
    }
}

impl Varies {
    /// Returns the delay of a packet that leaves at `now`.
    fn at(&mut self, now: Time) -> Dur {
        let (delay, moved) = self.delays.at(now);
        if moved && !self.keep_order {
            self.look_ahead(now);
        }
        self.present = delay.unwrap_or(Dur::ZERO);
        self.present
    }

    fn look_ahead(&mut self, now: Time) {
        let mut until = None;
        let later = self.delays.later().take_while(|step| {
            let until = *until.get_or_insert(step.from);
            step.from < until.max(now) + self.longest
        });
        self.earliest = later.map(|step| step.from + step.value).min().unwrap_or(Time::NEVER);
    }
}

impl Late {
    /// Returns when a packet arrives that leaves at `now` and takes `delay` unless the delay varies.
    fn arrival(&mut self, now: Time, delay: Dur, previous: impl FnOnce() -> Option<Time>) -> Time {
        let mut at = now + delay;
        let mut keep_order = true;
        if let Some(varies) = &mut self.varies {
            at = now + varies.at(now);
            keep_order = varies.keep_order;
            if keep_order {
                at = at.max(varies.newest);
                varies.newest = at;
            }
        }
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
        if !keep_order {
            return at + late;
        }
        previous().map_or(at + late, |p| p.max(at + late))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Packets keep their order if that is asked for. Otherwise none arrives before a packet that left earlier and
        /// was not to be overtaken, and a delay is the one in force as the packet left.
        #[test]
        fn order_is_as_asked_for(
            steps in prop::collection::vec((1_u64..60, 0_u64..200), 1..8), looped: bool, keep_order: bool,
            gaps in prop::collection::vec(0_u64..30, 1..100), jitter in prop_oneof![Just(0_u64), 1_u64..20],
        ) {
            let mut at = 0;
            let rows: Vec<(Dur, Dur)> =
                steps.iter().map(|&(gap, delay)| { let row = (Dur(at), Dur(delay)); at += gap; row }).collect();
            let stepped = Stepped::new(rows, looped.then_some(Dur(at)), Dur(7));
            let mut wire = Wire::new(Dur(3));
            wire.set_delays(stepped.clone(), keep_order);
            wire.set_jitter(Dur(jitter), Stream::keyed(4));
            prop_assert_eq!(wire.is_impaired(), !keep_order);
            let (mut now, mut flights, mut previous) = (Time::ZERO, Vec::new(), Time::ZERO);
            for gap in gaps {
                now = now + Dur(gap);
                let delay = stepped.step(stepped.index(now)).unwrap().value;
                let flight = if keep_order {
                    let at = wire.arrival(now, || Some(previous));
                    Flight { at, overtaken: false, befalls: Befalls::default() }
                } else {
                    wire.launch(now)
                };
                previous = flight.at;
                prop_assert!(flight.at >= now + delay);
                if jitter == 0 && !keep_order {
                    prop_assert_eq!(flight.at, now + delay);
                }
                flights.push(flight);
            }
            for (i, early) in flights.iter().enumerate().filter(|(_, flight)| !flight.overtaken) {
                prop_assert!(flights[i..].iter().all(|late| late.at >= early.at), "{:?}", flights);
            }
        }
    }
}
