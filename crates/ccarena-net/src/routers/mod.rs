//! Routers that signal to senders, at the head of a link (its field `router`). One file holds each; adding one
//! costs that file and a line in `routers!`.

use std::collections::BTreeMap;

use ccarena_cc::Signal;
use ccarena_cc::types::{Rate, Time};

pub use crate::queues::{Param, Params};
use crate::rng::Stream;
use crate::service::Service;

/// A registered kind of router, for listings and for the scenario's checks.
#[derive(Clone, Copy, Debug)]
pub struct Description {
    /// Name in a scenario.
    pub name: &'static str,
    /// One line: what it tells whom, and its source.
    pub summary: &'static str,
    /// Parameters of the router.
    pub params: &'static [Param],
    /// The emulator can write what it says into packets of real TCP.
    pub on_the_wire: bool,
}

/// State of its link that a router sees as a packet leaves.
pub struct Sight<'a> {
    /// Current time.
    pub now: Time,
    /// The link's service.
    pub service: &'a mut Service,
    /// IP bytes that still wait behind the packet.
    pub backlog_bytes: u64,
}

/// Parts of a packet that a router sees.
#[derive(Debug)]
pub struct Header<'a> {
    /// The flow it counts for: a small number.
    pub flow: u32,
    /// IP bytes.
    pub bytes: u32,
    /// Request of its sender, as changed by previous routers; this router may change it too.
    pub signal: &'a mut Signal,
}

impl Header<'_> {
    /// The router offers its flow `rate`.
    #[inline]
    pub fn offer(&mut self, rate: Rate) {
        if let Signal::Rate(least) = &mut self.signal {
            *least = rate.min(*least);
        }
    }
}

/// Treatment of a link's packets by a router.
pub trait Router: Send + Sync {
    /// `packet` reaches the queue, in which `backlog_bytes` wait.
    fn on_arrival(&mut self, packet: &Header<'_>, now: Time, backlog_bytes: u64);

    /// `packet` leaves: what is written now does not age in the queue that it is about.
    fn on_departure(&mut self, packet: &mut Header<'_>, sight: &mut Sight<'_>);

    /// Takes the source of random numbers, before the first packet, for a router that draws.
    fn draws_from(&mut self, _stream: Stream) {}
}

/// A router of any kind. That of trainings is known to the compiler, as the commonest [queue](crate::queues::AnyQueue) is.
pub enum AnyRouter {
    /// Router of trainings.
    Acct(Box<AcctRouter>),
    /// Any other.
    Other(Box<dyn Router>),
}

impl Router for AnyRouter {
    #[inline]
    fn on_arrival(&mut self, packet: &Header<'_>, now: Time, backlog_bytes: u64) {
        match self {
            Self::Acct(router) => router.on_arrival(packet, now, backlog_bytes),
            Self::Other(router) => router.on_arrival(packet, now, backlog_bytes),
        }
    }

    #[inline]
    fn on_departure(&mut self, packet: &mut Header<'_>, sight: &mut Sight<'_>) {
        match self {
            Self::Acct(router) => router.on_departure(packet, sight),
            Self::Other(router) => router.on_departure(packet, sight),
        }
    }

    fn draws_from(&mut self, stream: Stream) {
        match self {
            Self::Acct(router) => router.draws_from(stream),
            Self::Other(router) => router.draws_from(stream),
        }
    }
}

/// A kind of router with its parameters, checked.
#[derive(Clone, Debug, PartialEq)]
pub struct RouterSpec {
    /// Kind of router.
    pub kind: Kind,
    /// Parameters, complete.
    pub params: Params,
}

impl RouterSpec {
    /// A router of `kind`; parameters that are not `given` have their defaults.
    #[must_use]
    pub fn new(kind: Kind, given: &BTreeMap<&str, f64>) -> Self {
        Self { kind, params: Params::new(kind.description().params, given) }
    }
}

impl Default for RouterSpec {
    /// One for every flow that requests a signal.
    fn default() -> Self {
        Self::new(Kind::Any, &BTreeMap::new())
    }
}

/// `file: Type` for each kind, by name.
macro_rules! routers {
    ($($file:ident: $router:ident),* $(,)?) => {
        $(pub mod $file; pub use $file::$router;)*

        /// Kind of router.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Kind {
            $(#[doc = concat!("[`", stringify!($router), "`].")] $router,)*
        }

        impl Kind {
            /// All of them, by name.
            pub const ALL: &[Self] = &[$(Self::$router),*];

            /// Returns its registry entry.
            #[must_use]
            pub const fn description(self) -> &'static Description {
                match self {
                    $(Self::$router => &$file::ROUTER,)*
                }
            }
        }

        /// Builds the router that `spec` describes; what it draws comes from `stream`.
        #[must_use]
        pub fn build(spec: &RouterSpec, stream: Stream) -> AnyRouter {
            let mut router = match spec.kind {
                Kind::AcctRouter => AnyRouter::Acct(Box::new(AcctRouter::of(&spec.params))),
                $(#[allow(unreachable_patterns, reason = "the one above is among them")]
                Kind::$router => AnyRouter::Other(Box::new($router::of(&spec.params))),)*
            };
            router.draws_from(stream);
            router
        }
    };
}

routers! {
    abc: Marker,
    acct: AcctRouter,
    any: Any,
    xcp: FeedbackRouter,
}

/// All kinds, by name.
pub fn all() -> impl Iterator<Item = &'static Description> {
    Kind::ALL.iter().map(|kind| kind.description())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_sorted_and_build_with_their_defaults() {
        let names: Vec<_> = all().map(|d| d.name).collect();
        assert!(names.is_sorted_by(|a, b| a < b), "{names:?}");
        for &kind in Kind::ALL {
            let description = kind.description();
            let _router = build(&RouterSpec::new(kind, &BTreeMap::new()), Stream::keyed(1));
            assert!(!description.summary.is_empty());
            for p in description.params {
                assert!((p.min..=p.max).contains(&p.default), "{}.{}", description.name, p.name);
            }
        }
    }
}
