//! Router for every flow that requests a signal: `router: true` of a link. Each scheme gets the signals of its own
//! router, with the defaults, and of no other.
//!
//! The division between schemes of different routers on one link is not defined: none of the papers treats it.

use ccarena_cc::Signal;
use ccarena_cc::types::Time;

use super::{Description, Header, FeedbackRouter, Kind, Marker, AcctRouter, Params, Router, RouterSpec, Sight};

/// Registry entry.
pub const ROUTER: Description = Description {
    name: "any",
    summary: "signals to each scheme as its own router would, with the defaults: the meaning of `true`",
    params: &[],
    on_the_wire: true,
};

/// The routers of the schemes that have sent something.
pub struct Any {
    /// Router without faults. It counts all flows, and so exists from the beginning.
    acct: AcctRouter,
    abc: Option<Marker>,
    xcp: Option<FeedbackRouter>,
}

impl Any {
    pub(super) fn of(_params: &Params) -> Self {
        Self { acct: AcctRouter::of(&defaults(Kind::AcctRouter)), abc: None, xcp: None }
    }
}

fn defaults(kind: Kind) -> Params {
    RouterSpec::new(kind, &std::collections::BTreeMap::new()).params
}

impl Router for Any {
    #[inline]
    fn on_arrival(&mut self, packet: &Header<'_>, now: Time, backlog_bytes: u64) {
        self.acct.on_arrival(packet, now, backlog_bytes);
        match *packet.signal {
            Signal::Marks { .. } if self.abc.is_none() => self.abc = Some(Marker::of(&defaults(Kind::Marker))),
            Signal::Window { .. } if self.xcp.is_none() => {
                self.xcp = Some(FeedbackRouter::of(&defaults(Kind::FeedbackRouter)));
            }
            _ => {}
        }
        if let Some(xcp) = &mut self.xcp {
            xcp.on_arrival(packet, now, backlog_bytes);
        }
    }

    #[inline]
    fn on_departure(&mut self, packet: &mut Header<'_>, sight: &mut Sight<'_>) {
        self.acct.on_departure(packet, sight);
        if let Some(abc) = &mut self.abc {
            abc.on_departure(packet, sight);
        }
        if let Some(xcp) = &mut self.xcp {
            xcp.on_departure(packet, sight);
        }
    }
}
