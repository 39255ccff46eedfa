//! Loss by time slot: interference that lasts for a slot, whatever is sent in it (McEliece and Stark, "Channels with Block
//! Interference", IEEE Transactions on Information Theory 30(1), 1984).

use ccarena_cc::types::{Dur, Time};

use super::{Description, LossSpec, Param, Process};
use crate::rng::{Stream, unit};

/// Registry entry of this process.
pub const PROCESS: Description = Description {
    name: "slots",
    summary: "loses the packets of whole time slots, drawn independently (McEliece and Stark 1984)",
    params: &[
        Param { name: "slot_ms", default: 10.0, min: 0.001, max: 600_000.0, doc: "length of a slot in ms" },
        Param { name: "probability", default: 0.0, min: 0.0, max: 1.0, doc: "probability that a slot is bad" },
        Param { name: "loss", default: 1.0, min: 0.0, max: 1.0, doc: "probability of each packet in a bad slot" },
    ],
    required: &["slot_ms", "probability"],
    by_time: false,
};

/// Loss in time slots.
#[derive(Clone, Debug)]
pub struct Slots {
    slot: Dur,
    probability: f64,
    loss: f64,
    /// Draw of each slot, by the slot's number, and draws of packets.
    slots: Stream,
    packets: Stream,
}

impl Slots {
    pub(super) fn new(spec: &LossSpec, mut stream: Stream) -> Self {
        let packets = Stream::keyed(stream.next_u64());
        let slot = spec.params.millis("slot_ms").max(Dur(1));
        Self { slot, probability: spec.params.get("probability"), loss: spec.params.get("loss"), slots: stream, packets }
    }
}

impl Process for Slots {
    fn loses(&mut self, now: Time) -> bool {
        // Number 0 of the stream is the key of the other.
        let bad = unit(self.slots.at(1 + now.0 / self.slot.0)) < self.probability;
        bad && self.packets.chance(self.loss)
    }
}
