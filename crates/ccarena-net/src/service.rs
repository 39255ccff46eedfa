//! Services of links: constant rate, steps, random steps, the delivery opportunities of a trace, or a medium that is shared.

pub mod access;
mod levels;
mod opportunities;
mod shaped;

use std::path::Path;

use ccarena_cc::types::{Dur, Rate, Time};

use crate::cellular;
use crate::reshape::Reshape;
use crate::rng;
use crate::stepped::Stepped;
use crate::trace::{Trace, TraceError};
use access::{Access as _, AccessSpec, AnyAccess};
use levels::{AnySource, Constant, Levels, RandomSteps, listed};
use opportunities::Opportunities;
use shaped::Shaped;
pub use shaped::ShaperSpec;

/// A link's service as a scenario describes it.
#[derive(Clone, Debug, PartialEq)]
pub enum ServiceSpec {
    /// One rate, above zero.
    Constant(Rate),
    /// Each rate from its time on; the first at time zero, times increasing. Zero is an outage.
    Steps(Vec<(Time, Rate)>),
    /// A new rate every `period`, uniform between `min` and `max`.
    RandomSteps {
        /// Lowest rate, above zero.
        min: Rate,
        /// Highest rate.
        max: Rate,
        /// Time for which a rate holds.
        period: Dur,
    },
    /// Delivery opportunities of a mahimahi trace.
    Trace {
        /// File, resolved by the loader that [`Service::new`] is given.
        file: String,
        /// Start of the run in the trace.
        offset: Dur,
        /// Changes to the trace.
        reshape: Option<Reshape>,
    },
    /// Rates of the link's conditions trace.
    Conditions,
    /// A generated cellular trace.
    Cellular {
        /// Name of a preset in [`cellular`].
        preset: String,
        /// Seed of the generator; derived from the run's seed if none.
        seed: Option<u64>,
        /// Start of the run in the trace.
        offset: Dur,
    },
    /// A shared medium.
    Access(AccessSpec),
}

impl ServiceSpec {
    /// Returns whether its rates are those of the link's conditions trace.
    #[must_use]
    pub fn replays_conditions(&self) -> bool {
        match self {
            Self::Conditions => true,
            Self::Access(access) => *access.rate == Self::Conditions,
            _ => false,
        }
    }
}

impl Default for ServiceSpec {
    fn default() -> Self {
        Self::Constant(Rate(48_000_000))
    }
}

/// A service that cannot be built from its description.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ServiceError {
    /// The trace is missing or bad.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The conditions trace is no complement of the link's other fields.
    #[error("{0}")]
    Conditions(String),
    /// No preset of that name.
    #[error("{0}")]
    Preset(String),
    /// The rate of a medium is not known for all time.
    #[error("the rate of a medium is a service of another type; expected constant, steps, random_steps or conditions")]
    Medium,
}

/// The service of one link.
#[derive(Clone, Debug)]
pub struct Service(Kind);

#[derive(Clone, Debug)]
enum Kind {
    Constant(Levels<Constant>),
    Steps(Levels<Stepped<Rate>>),
    RandomSteps(Levels<RandomSteps>),
    Trace(Opportunities),
    Access(Box<AnyAccess>),
    Shaped(Box<Shaped>),
}

/// Evaluates `$body` with `$s` bound to whatever kind of service `$kind` is.
macro_rules! each {
    ($kind:expr, $s:ident => $body:expr) => {
        match $kind {
            Kind::Constant($s) => $body,
            Kind::Steps($s) => $body,
            Kind::RandomSteps($s) => $body,
            Kind::Trace($s) => $body,
            Kind::Access($s) => $body,
            Kind::Shaped($s) => $body,
        }
    };
}

impl Service {
    /// Builds the service that `spec` describes.
    ///
    /// `seed` is this link's own ([`rng::derive`] with [`rng::Purpose::Service`] and the link's index). A generated trace
    /// lasts `duration`. `load` finds the trace of a file name: [`crate::trace::load`], or a cache of it.
    ///
    /// # Errors
    /// If the trace cannot be loaded or the preset is unknown.
    pub fn new(
        spec: &ServiceSpec,
        seed: u64,
        duration: Dur,
        load: impl FnOnce(&Path) -> Result<Trace, TraceError>,
    ) -> Result<Self, ServiceError> {
        Ok(match spec {
            ServiceSpec::Constant(rate) => Self::constant(*rate),
            ServiceSpec::Steps(steps) => Self::steps(steps),
            ServiceSpec::RandomSteps { min, max, period } => Self::random_steps(*min, *max, *period, seed),
            ServiceSpec::Trace { file, offset, reshape: None } => Self::trace(&load(Path::new(file))?, *offset),
            ServiceSpec::Trace { file, offset, reshape: Some(reshape) } => {
                Self::trace(&reshape.apply(&load(Path::new(file))?, *offset, file)?, Dur::ZERO)
            }
            ServiceSpec::Conditions => {
                return Err(ServiceError::Conditions("the rates of a conditions trace belong to a link".into()));
            }
            ServiceSpec::Cellular { preset, seed: own, offset } => {
                let found = cellular::find_preset(preset).map_err(|e| ServiceError::Preset(e.to_string()))?;
                let seed = own.unwrap_or_else(|| rng::derive(seed, rng::Purpose::Cellular, 0));
                Self::trace(&Trace::from_ms(cellular::generate(found, duration, seed), preset)?, *offset)
            }
            ServiceSpec::Access(access) => Self::access(access, rates(&access.rate, seed)?, seed),
        })
    }

    /// `rate` for ever.
    #[must_use]
    pub fn constant(rate: Rate) -> Self {
        Self(Kind::Constant(Levels::new(Constant(rate))))
    }

    /// Each rate from its time on; before the first time, and if there are none, the link stands still.
    #[must_use]
    pub fn steps(steps: &[(Time, Rate)]) -> Self {
        Self::stepped(listed(steps))
    }

    /// Rates that may repeat; some are above zero if they do.
    #[must_use]
    pub fn stepped(rates: Stepped<Rate>) -> Self {
        Self(Kind::Steps(Levels::new(rates)))
    }

    /// Changes the rate of steps to `rate` from `now` on; the packet in service, if any, began at `start`. Returns whether it
    /// is a service of steps.
    pub fn follow(&mut self, now: Time, rate: Rate, start: Time) -> bool {
        let Kind::Steps(levels) = &mut self.0 else { return false };
        levels.follow(now, rate, start);
        true
    }

    /// The service that `spec` describes, with the `rates` of the link's conditions trace.
    #[must_use]
    pub fn replaying(spec: &ServiceSpec, rates: Stepped<Rate>, seed: u64) -> Self {
        match spec {
            ServiceSpec::Access(access) => Self::access(access, AnySource::Steps(rates), seed),
            _ => Self::stepped(rates),
        }
    }

    fn access(spec: &AccessSpec, rates: AnySource, seed: u64) -> Self {
        let stream = rng::Stream::new(seed, rng::Purpose::Access, 0);
        Self(Kind::Access(Box::new(AnyAccess::new(spec.kind, &spec.params, Levels::new(rates), stream))))
    }

    /// A rate uniform in `min`..=`max`, redrawn every `period` (at least 1 µs) from time zero on.
    #[must_use]
    pub fn random_steps(min: Rate, max: Rate, period: Dur, seed: u64) -> Self {
        Self(Kind::RandomSteps(Levels::new(RandomSteps::new(min, max, period, seed))))
    }

    /// The opportunities of `trace`, from `offset` into it on.
    #[must_use]
    pub fn trace(trace: &Trace, offset: Dur) -> Self {
        Self(Kind::Trace(Opportunities::new(trace, offset)))
    }

    /// The service behind the shaper that `spec` describes.
    #[must_use]
    pub fn shaped(self, spec: ShaperSpec) -> Self {
        Self(Kind::Shaped(Box::new(Shaped::new(self, spec))))
    }

    /// Served by delivery opportunities, which take a packet from the queue when they come, not when it starts.
    #[must_use]
    pub fn is_trace(&self) -> bool {
        match &self.0 {
            Kind::Trace(_) => true,
            Kind::Shaped(s) => s.service.is_trace(),
            _ => false,
        }
    }

    fn is_access(&self) -> bool {
        matches!(self.0, Kind::Access(_))
    }

    /// Returns whether a packet is in transmission from when its service starts until it has left.
    #[must_use]
    pub fn transmits_at_once(&self) -> bool {
        matches!(self.0, Kind::Constant(_) | Kind::Steps(_) | Kind::RandomSteps(_))
    }

    /// Returns when a packet of `bytes` IP bytes, whose service starts at `start`, has left;
    /// [`Time::NEVER`] if it never does.
    ///
    /// `backlogged`: the packet waited behind one that left at `start`, and may use the rest of that one's delivery
    /// opportunity. Otherwise it arrived at `start` to an idle link, where a trace gives it only opportunities strictly
    /// later. `arrival` returns when it reached the link, which matters where packets share transmissions. Called once per
    /// packet, in order of service.
    #[inline(always)]
    pub fn departure(&mut self, start: Time, bytes: u32, backlogged: bool, arrival: impl FnOnce() -> Time) -> Time {
        match &mut self.0 {
            Kind::Constant(s) => s.departure(start, bytes),
            Kind::Trace(s) => s.departure(start, bytes, backlogged),
            Kind::Steps(s) => s.departure(start, bytes),
            Kind::RandomSteps(s) => s.departure(start, bytes),
            Kind::Access(s) => s.departure(arrival(), bytes),
            Kind::Shaped(s) => s.departure(start, bytes, backlogged, arrival()),
        }
    }

    /// Capacity as a router sees it at `now`, which does not go back: the current rate, or for a trace the
    /// opportunities of the last 100 ms.
    #[inline]
    pub fn rate(&mut self, now: Time) -> Rate {
        each!(&mut self.0, s => s.rate(now))
    }

    /// Bytes that could have been delivered in [`from`, `to`), for utilisation: additive over adjoining intervals.
    /// A shared medium could deliver what full packets that always wait get in the long run. A shaped service could
    /// deliver, in each 100 ms, the lesser of its own capacity and the shaped rate.
    #[must_use]
    pub fn capacity_bytes(&self, from: Time, to: Time) -> u64 {
        if to <= from {
            return 0;
        }
        each!(&self.0, s => s.capacity_bytes(from, to))
    }

    /// Returns [`capacity_bytes`](Self::capacity_bytes) of each of `count` adjoining intervals of length `bin` from time zero
    /// on.
    #[must_use]
    pub fn capacity_of_bins(&self, bin: Dur, count: u64) -> Vec<u64> {
        match &self.0 {
            Kind::Trace(s) => s.capacity_of_bins(bin, count),
            _ => (0..count).map(|k| self.capacity_bytes(Time(k * bin.0), Time((k + 1) * bin.0))).collect(),
        }
    }

    /// The time that `bytes` take at the rate in force at `now`: the part of a packet's delay that is not queueing. Zero
    /// for a trace, and while the rate is zero.
    #[must_use]
    #[inline]
    pub fn serialisation(&self, now: Time, bytes: u32) -> Dur {
        match &self.0 {
            Kind::Constant(s) => s.serialisation(now, bytes),
            Kind::Steps(s) => s.serialisation(now, bytes),
            Kind::RandomSteps(s) => s.serialisation(now, bytes),
            Kind::Trace(_) => Dur::ZERO,
            Kind::Access(s) => s.serialisation(now, bytes),
            Kind::Shaped(s) => s.service.serialisation(now, bytes),
        }
    }

    /// The mean rate that a limit in bandwidth-delay products refers to: of the whole trace, of the first `duration` of
    /// steps and of a shared medium, the expectation of random steps.
    #[must_use]
    pub fn mean_rate(&self, duration: Dur) -> Rate {
        match &self.0 {
            Kind::Constant(s) => s.source.0,
            Kind::Steps(s) => {
                let pass = s.source.period().unwrap_or(duration);
                Rate::of(s.capacity_bytes(Time::ZERO, Time::ZERO + pass), pass)
            }
            Kind::RandomSteps(s) => s.source.mean(),
            Kind::Trace(s) => s.mean_rate(),
            Kind::Access(s) => Rate::of(s.capacity_bytes(Time::ZERO, Time::ZERO + duration), duration),
            Kind::Shaped(s) => s.service.mean_rate(duration).min(s.shaped_rate()),
        }
    }
}

/// Returns the rates of a medium.
fn rates(spec: &ServiceSpec, seed: u64) -> Result<AnySource, ServiceError> {
    Ok(match spec {
        ServiceSpec::Constant(rate) => AnySource::Constant(Constant(*rate)),
        ServiceSpec::Steps(steps) => AnySource::Steps(listed(steps)),
        ServiceSpec::RandomSteps { min, max, period } => {
            AnySource::RandomSteps(RandomSteps::new(*min, *max, *period, seed))
        }
        _ => return Err(ServiceError::Medium),
    })
}

/// Returns the bytes that `capacity` gives in [`from`, `to`) if each window of time, of length `window`, has `most` at most;
/// additive over adjoining intervals.
fn capped(capacity: impl Fn(Time, Time) -> u64, most: u64, window: Dur, from: Time, to: Time) -> u64 {
    let upto = |start: Time, t: Time| {
        let share = u128::from(most) * u128::from(t.since(start).0) / u128::from(window.0.max(1));
        capacity(start, t).min(u64::try_from(share).unwrap_or(u64::MAX))
    };
    let mut start = Time::ZERO + window * (from.0 / window.0);
    let before = upto(start, from);
    let mut sum = 0_u64;
    while to.since(start) > window {
        sum = sum.saturating_add(upto(start, start + window));
        start = start + window;
    }
    sum.saturating_add(upto(start, to)) - before
}

#[cfg(test)]
mod tests;
