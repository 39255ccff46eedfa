//! Uplink by grants: a modem requests room for what waits, and sends it in the slots that it is granted. So do LTE and 5G
//! (3GPP TS 36.321 and TS 38.321, 5.4.4 scheduling request and 5.4.5 buffer status reporting) and cable modems (DOCSIS 3.1
//! MAC, CM-SP-MULPIv3.1: request, MAP, grant; White, Sundaresan and Briscoe, draft-white-tsvwg-lld, for its delays and
//! for proactive grants).
//!
//! Time is divided into slots, and a packet leaves at the end of the slot in which its last byte is sent. What arrives
//! while granted data is still to be sent is reported with that data (buffer status report, piggyback request). Otherwise
//! the modem waits for its next request opportunity. A report covers all that has arrived by then. Slots that begin a
//! grant's delay after it carry what was reported. Slots may also have proactive bytes, which carry what has arrived,
//! reported or not.
//!
//! Departures:
//! - One modem: what others are granted is not in the rate. Requests do not collide, and none is lost.
//! - LTE's scheduling request is one bit, and a first small grant asks for the amount. Here every request says it.
//! - A retransmission (HARQ of TS 38.321, 5.4.2) takes no room of other slots; packets keep their order (RLC, PDCP).

use std::collections::VecDeque;

use ccarena_cc::types::{Dur, Rate, Time};

use super::{Access, Description, Param, Params, Refusal};
use crate::rng::{Stream, unit};
use crate::service::capped;
use crate::service::levels::{AnySource, Levels};

/// Most retransmissions of a slot (maxHARQ-Tx of 3GPP TS 36.331 is at most 28, commonly 4 or 5).
const RETRANSMISSIONS: u64 = 8;
/// Slots without room for a byte after which a link counts as silent: rates so low would be looked through for ever.
const EMPTY_SLOTS: u32 = 1_000_000;

const fn param(name: &'static str, default: f64, min: f64, max: f64, doc: &'static str) -> Param {
    Param { name, default, min, max, doc }
}

/// Registry entry.
pub const ACCESS: Description = Description {
    name: "grants",
    summary: "sends in slots that were requested and granted: the uplink of LTE, 5G and DOCSIS (TS 36.321, TS 38.321)",
    rate: "the rate of slots that are full in Mbit/s",
    params: &[
        param("slot_ms", 1.0, 0.1, 1000.0, "time between slots in ms: 1 in LTE, 0.5 to 5 in 5G, 2 (a MAP) in DOCSIS"),
        param("request_ms", 5.0, 0.0, 1000.0, "time between request opportunities in ms: 1 to 80 in LTE; 0 is at any time"),
        param("grant_ms", 8.0, 0.0, 1000.0, "time from a request to its slot in ms: 8 in LTE, 2 to 10 in 5G and DOCSIS"),
        param("grant_bytes", 0.0, 0.0, 1e9, "most bytes of a grant; 0 is what a slot holds"),
        param("proactive_bytes", 0.0, 0.0, 1e9, "bytes of each slot that are granted without a request"),
        param("retry", 0.0, 0.0, 0.9, "probability that a slot's data is sent again"),
        param("retry_ms", 8.0, 0.1, 1000.0, "time until it is sent again in ms: 8 in LTE"),
    ],
    check: |params| {
        let (grant, proactive) = (params.get("grant_bytes"), params.get("proactive_bytes"));
        if grant > 0.0 && proactive > grant {
            let expected = format!("at most grant_bytes, which is {grant}");
            return Err(Refusal { param: "proactive_bytes", expected });
        }
        Ok(())
    },
};

/// Service of a modem that sends in granted slots.
#[derive(Clone, Debug)]
pub struct Grants {
    rates: Levels<AnySource>,
    slot: Dur,
    request: Dur,
    /// Time of the first request opportunity.
    phase: Dur,
    grant: Dur,
    /// Most bytes of a slot, and bytes that need no request.
    most: u64,
    proactive: u64,
    retry: f64,
    retry_after: Dur,
    retries: Stream,
    /// Newest arrival, and the newest report.
    arrived: Time,
    reported: Time,
    /// Runs of slots with granted data that are not known to be over: the first and the last slot.
    granted: VecDeque<(u64, u64)>,
    /// The slot that is being filled, its bytes, and how many are taken.
    filling: Option<Filling>,
    /// Departure of the newest packet.
    newest: Time,
}

#[derive(Clone, Copy, Debug)]
struct Filling {
    slot: u64,
    bytes: u64,
    taken: u64,
}

impl Grants {
    pub(super) fn new(params: &Params, rates: Levels<AnySource>, mut stream: Stream) -> Self {
        let request = params.millis("request_ms");
        let bytes = |name| params.get(name) as u64;
        Self {
            rates,
            slot: params.millis("slot_ms"),
            request,
            phase: Dur((stream.next_f64() * request.0 as f64) as u64),
            grant: params.millis("grant_ms"),
            most: if bytes("grant_bytes") == 0 { u64::MAX } else { bytes("grant_bytes") },
            proactive: bytes("proactive_bytes"),
            retry: params.get("retry"),
            retry_after: params.millis("retry_ms"),
            retries: Stream::keyed(stream.next_u64()),
            arrived: Time::ZERO,
            reported: Time::ZERO,
            granted: VecDeque::new(),
            filling: None,
            newest: Time::ZERO,
        }
    }

    fn start(&self, slot: u64) -> Time {
        Time::ZERO + self.slot * slot
    }

    /// Returns the first slot that begins at `t` or later.
    fn slot_from(&self, t: Time) -> u64 {
        t.0.div_ceil(self.slot.0)
    }

    /// Returns when the network learns of a packet that arrives at `arrival`.
    fn report(&mut self, arrival: Time) -> Time {
        if arrival > self.reported || self.granted.is_empty() {
            self.reported = self.next_report(arrival);
        }
        self.reported
    }

    /// Returns when it can be told of a packet that arrives at `arrival`.
    fn next_report(&mut self, arrival: Time) -> Time {
        let from = self.slot_from(arrival);
        while self.granted.front().is_some_and(|&(_, last)| last < from) {
            self.granted.pop_front();
        }
        if let Some(&(first, _)) = self.granted.front() {
            return self.start(first.max(from));
        }
        if self.request == Dur::ZERO {
            return arrival;
        }
        let periods = (arrival - self.phase).0.div_ceil(self.request.0);
        Time::ZERO + self.phase + self.request * periods
    }

    fn note_granted(&mut self, slot: u64) {
        match self.granted.back_mut() {
            Some((_, last)) if slot <= *last + 1 => *last = slot.max(*last),
            _ => self.granted.push_back((slot, slot)),
        }
    }

    /// Goes on to `slot`, or to the first slot after it that has room. None if there is none, or none near.
    fn fill(&mut self, slot: u64) -> Option<Filling> {
        let mut slot = slot;
        for _ in 0..EMPTY_SLOTS {
            let start = self.start(slot);
            let bytes = self.rates.capacity_bytes(start, start + self.slot).min(self.most);
            if bytes > 0 {
                let filling = Filling { slot, bytes, taken: 0 };
                self.filling = Some(filling);
                return Some(filling);
            }
            let next = self.rates.next_rate(start)?;
            slot = (next.0 / self.slot.0).max(slot + 1);
            if self.start(slot) == Time::NEVER {
                return None;
            }
        }
        None
    }

    /// Takes `bytes` from slots: from those that `arrival` allows what is proactive, from those that the report allows the
    /// rest. Returns the slot of the last byte.
    fn take(&mut self, arrival: Time, bytes: u32) -> Option<u64> {
        let mut left = u64::from(bytes);
        let reported = self.report(arrival) + self.grant;
        let eligible = self.slot_from(reported);
        let earliest = if self.proactive > 0 { self.slot_from(arrival) } else { eligible };
        let mut filling = match self.filling {
            Some(filling) if filling.slot >= earliest => filling,
            _ => self.fill(earliest)?,
        };
        loop {
            let granted = filling.slot >= eligible;
            let room = if granted { filling.bytes } else { filling.bytes.min(self.proactive) };
            let taken = room.saturating_sub(filling.taken).min(left);
            filling.taken += taken;
            left -= taken;
            if granted && taken > 0 {
                self.note_granted(filling.slot);
            }
            if left == 0 {
                self.filling = Some(filling);
                return Some(filling.slot);
            }
            filling = self.fill(filling.slot + 1)?;
        }
    }

    /// Returns how many times the data of `slot` is sent again.
    fn retransmissions(&self, slot: u64) -> u64 {
        if self.retry == 0.0 {
            return 0;
        }
        let (drawn, mut again) = (unit(self.retries.at(slot)), self.retry);
        let mut count = 0;
        while drawn < again && count < RETRANSMISSIONS {
            (count, again) = (count + 1, again * self.retry);
        }
        count
    }
}

impl Access for Grants {
    fn departure(&mut self, arrival: Time, bytes: u32) -> Time {
        // Disciplines that keep flows apart serve packets in another order than that of their arrivals.
        self.arrived = self.arrived.max(arrival);
        if self.newest != Time::NEVER {
            let slot = self.take(self.arrived, bytes);
            self.newest = slot.map_or(Time::NEVER, |slot| {
                let late = self.retry_after * self.retransmissions(slot);
                self.newest.max(self.start(slot + 1) + late)
            });
        }
        self.newest
    }

    fn rate(&mut self, now: Time) -> Rate {
        self.rates.rate(now).min(Rate::of(self.most, self.slot))
    }

    fn capacity_bytes(&self, from: Time, to: Time) -> u64 {
        let rates = |from, to| self.rates.capacity_bytes(from, to);
        if self.most == u64::MAX { rates(from, to) } else { capped(rates, self.most, self.slot, from, to) }
    }

    fn serialisation(&self, _: Time, _: u32) -> Dur {
        Dur::ZERO
    }
}
