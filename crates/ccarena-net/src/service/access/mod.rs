//! Access to a shared medium: when a link may use the rate that it has. One file holds each kind; adding one costs that
//! file and a line in `accesses!`.

use std::collections::BTreeMap;

use ccarena_cc::types::{Dur, Rate, Time};

use super::ServiceSpec;
use super::levels::{AnySource, Levels};
pub use crate::queues::{Param, Params, Refusal};
use crate::rng::Stream;

/// IP bytes of a full packet, of which a medium carries most.
const FULL_BYTES: u32 = 1500;

/// A registered kind of access, for listings and for the scenario's checks.
#[derive(Clone, Copy, Debug)]
pub struct Description {
    /// Name in a scenario.
    pub name: &'static str,
    /// One line: when packets leave, and its source.
    pub summary: &'static str,
    /// Meaning of its rate.
    pub rate: &'static str,
    /// Parameters, each of which has a default.
    pub params: &'static [Param],
    /// Check of the parameters against each other, after each alone.
    pub check: fn(&Params) -> Result<(), Refusal>,
}

/// Service of a shared medium. A packet's departure follows from the packets before it, as with any service.
pub trait Access {
    /// Returns when a packet of `bytes` leaves that reached the link at `arrival`; [`Time::NEVER`] if it never does.
    /// Called once per packet, in order of service.
    fn departure(&mut self, arrival: Time, bytes: u32) -> Time;

    /// Returns the rate at which full packets that always wait would leave at `now`, in the long run.
    fn rate(&mut self, now: Time) -> Rate;

    /// Returns the bytes that this rate gives in [`from`, `to`); additive over adjoining intervals.
    fn capacity_bytes(&self, from: Time, to: Time) -> u64;

    /// Returns the part of a packet's delay that is its own transmission.
    fn serialisation(&self, now: Time, bytes: u32) -> Dur;
}

/// A kind of access with its parameters, checked.
#[derive(Clone, Debug, PartialEq)]
pub struct AccessSpec {
    /// Kind of access.
    pub kind: Kind,
    /// Parameters, complete.
    pub params: Params,
    /// Rate of the medium: a [constant](ServiceSpec::Constant), [steps](ServiceSpec::Steps),
    /// [random steps](ServiceSpec::RandomSteps) or that of the link's [conditions trace](ServiceSpec::Conditions).
    pub rate: Box<ServiceSpec>,
}

impl AccessSpec {
    /// Access of `kind` to a medium with `rate`; parameters that are not `given` have their defaults.
    ///
    /// # Errors
    /// If parameters do not fit one another.
    pub fn new(kind: Kind, given: &BTreeMap<&str, f64>, rate: ServiceSpec) -> Result<Self, Refusal> {
        let params = Params::new(kind.description().params, given);
        (kind.description().check)(&params)?;
        Ok(Self { kind, params, rate: Box::new(rate) })
    }

    /// Returns the length of its slots, if it has any.
    #[must_use]
    pub fn slot(&self) -> Option<Dur> {
        Some(self.params.millis("slot_ms")).filter(|&slot| slot > Dur::ZERO)
    }
}

/// `file: Type` for each kind of access, by name.
macro_rules! accesses {
    ($($file:ident: $access:ident),* $(,)?) => {
        $(mod $file; pub use $file::$access;)*

        /// Kind of access.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Kind {
            $(#[doc = concat!("[`", stringify!($access), "`].")] $access,)*
        }

        impl Kind {
            /// All of them, by name.
            pub const ALL: &[Self] = &[$(Self::$access),*];

            /// Returns its registry entry.
            #[must_use]
            pub const fn description(self) -> &'static Description {
                match self {
                    $(Self::$access => &$file::ACCESS,)*
                }
            }
        }

        /// Access of any kind.
        #[derive(Clone, Debug)]
        pub enum AnyAccess {
            $(#[doc = concat!("[`", stringify!($access), "`].")] $access($access),)*
        }

        impl AnyAccess {
            /// Builds the access of `kind` to a medium with these `rates`; it draws from `stream`.
            pub(super) fn new(kind: Kind, params: &Params, rates: Levels<AnySource>, stream: Stream) -> Self {
                match kind {
                    $(Kind::$access => Self::$access($access::new(params, rates, stream)),)*
                }
            }
        }

        impl Access for AnyAccess {
            #[inline]
            fn departure(&mut self, arrival: Time, bytes: u32) -> Time {
                match self {
                    $(Self::$access(access) => access.departure(arrival, bytes),)*
                }
            }

            fn rate(&mut self, now: Time) -> Rate {
                match self {
                    $(Self::$access(access) => access.rate(now),)*
                }
            }

            fn capacity_bytes(&self, from: Time, to: Time) -> u64 {
                match self {
                    $(Self::$access(access) => access.capacity_bytes(from, to),)*
                }
            }

            fn serialisation(&self, now: Time, bytes: u32) -> Dur {
                match self {
                    $(Self::$access(access) => access.serialisation(now, bytes),)*
                }
            }
        }
    };
}

accesses! {
    grants: Grants,
    wifi: Wifi,
}

/// All kinds of access, by name.
pub fn all() -> impl Iterator<Item = &'static Description> {
    Kind::ALL.iter().map(|kind| kind.description())
}

/// Returns the kind called `name`.
#[must_use]
pub fn find(name: &str) -> Option<Kind> {
    Kind::ALL.iter().copied().find(|kind| kind.description().name == name)
}

#[cfg(test)]
mod tests;
