//! Reports of a host, and the check that they are enough for a controller.

use crate::controller::Controller;
use crate::feedback::Feedback;
use crate::signal::Signal;

/// Abilities of a host beyond acknowledgements, losses, timeouts and timers; none by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Host {
    /// Calls of `on_sent` for each packet, and not only for the first after silence.
    pub every_packet: bool,
    /// Numbers of packets: [`SentInfo::number`](crate::SentInfo::number), `on_packet_acked` and `on_packet_lost`.
    pub packet_numbers: bool,
    /// Delivery-rate samples: [`AckInfo::rate`](crate::AckInfo::rate).
    pub rate_samples: bool,
    /// Congestion marks (ECN): [`AckInfo::ecn_ce`](crate::AckInfo::ecn_ce) and
    /// [`LossInfo::ecn`](crate::LossInfo::ecn).
    pub marks: Feedback,
    /// Rates that routers advertise, and packets that ask them for one: [`Signal::Rate`].
    pub router_rates: bool,
    /// The other headers for routers: [`Signal::Marks`] and [`Signal::Window`].
    pub router_headers: bool,
    /// Packets leave as ECT(1) (RFC 9331) if the controller [needs](crate::TransportNeeds::l4s) it.
    pub l4s: bool,
}

/// A report that a controller needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Need of [`Host::every_packet`].
    EveryPacket,
    /// Need of [`Host::packet_numbers`].
    PacketNumbers,
    /// Need of [`Host::rate_samples`].
    RateSamples,
    /// Need of [`Host::marks`].
    Marks(Feedback),
    /// Need of [`Host::router_rates`].
    RouterRates,
    /// Need of [`Host::router_headers`].
    RouterHeaders,
    /// Need of [`Host::l4s`].
    L4s,
}

impl Need {
    /// The name in messages.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::EveryPacket => "a report of each packet that leaves",
            Self::PacketNumbers => "the numbers of packets that leave, arrive and are lost",
            Self::RateSamples => "delivery-rate samples",
            Self::Marks(Feedback::Accurate) => "counts of packets marked by ECN",
            Self::Marks(Feedback::Changes) => "an echo of every change between marked and unmarked packets (ECN)",
            Self::Marks(_) => "echoes of congestion marks (ECN)",
            Self::RouterRates => "rates that routers advertise",
            Self::RouterHeaders => "a header in packets that routers change",
            Self::L4s => "packets that leave as ECT(1)",
        }
    }

    /// The least value of the field of [`Host`] that says so.
    #[must_use]
    pub const fn field(self) -> &'static str {
        match self {
            Self::EveryPacket => "every_packet: true",
            Self::PacketNumbers => "packet_numbers: true",
            Self::RateSamples => "rate_samples: true",
            Self::Marks(Feedback::Accurate) => "marks: Feedback::Accurate",
            Self::Marks(Feedback::Changes) => "marks: Feedback::Changes",
            Self::Marks(_) => "marks: Feedback::Classic",
            Self::RouterRates => "router_rates: true",
            Self::RouterHeaders => "router_headers: true",
            Self::L4s => "l4s: true",
        }
    }
}

/// A host that does not give what a controller needs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("scheme {scheme:?} needs {}{}, which this host does not give: choose another scheme, or let the host give it and say so (`Host` with `{}`)", .need.title(), for_signal(.signal), .need.field())]
pub struct Lacking {
    /// The scheme.
    pub scheme: String,
    /// The report.
    pub need: Need,
    /// The first signal of the spec that needs it, if one does.
    pub signal: Option<&'static str>,
}

fn for_signal(signal: &Option<&'static str>) -> String {
    signal.map_or_else(String::new, |signal| format!(" for its signal {signal:?}"))
}

impl Host {
    /// A host that gives everything.
    pub const ALL: Self = Self {
        every_packet: true,
        packet_numbers: true,
        rate_samples: true,
        marks: Feedback::Accurate,
        router_rates: true,
        router_headers: true,
        l4s: true,
    };

    /// Returns whether it gives `need`.
    #[must_use]
    pub fn gives(&self, need: Need) -> bool {
        match need {
            Need::EveryPacket => self.every_packet,
            Need::PacketNumbers => self.packet_numbers,
            Need::RateSamples => self.rate_samples,
            Need::Marks(least) => self.marks >= least,
            Need::RouterRates => self.router_rates,
            Need::RouterHeaders => self.router_headers,
            Need::L4s => self.l4s,
        }
    }

    /// Checks that it gives what `controller` of `scheme` needs. `signal` names the spec's signal that has a need.
    pub(super) fn check(
        &self,
        scheme: &str,
        controller: &mut dyn Controller,
        feedback: Feedback,
        signal: impl Fn(Need) -> Option<&'static str>,
    ) -> Result<(), Lacking> {
        let transport = controller.transport();
        let asks = controller.router_assisted().map(|routers| routers.request());
        let needs = [
            (transport.every_segment, Need::EveryPacket),
            (controller.packet_tracker().is_some(), Need::PacketNumbers),
            (transport.rate_samples, Need::RateSamples),
            (feedback > Feedback::None, Need::Marks(feedback)),
            (matches!(asks, Some(Signal::Rate(_))), Need::RouterRates),
            (matches!(asks, Some(Signal::Marks { .. } | Signal::Window { .. })), Need::RouterHeaders),
            (transport.l4s, Need::L4s),
        ];
        let lacking = needs.into_iter().find(|(needed, need)| *needed && !self.gives(*need));
        lacking.map_or(Ok(()), |(_, need)| Err(Lacking { scheme: scheme.into(), need, signal: signal(need) }))
    }
}
