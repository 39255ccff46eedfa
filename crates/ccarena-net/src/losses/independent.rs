//! Independent loss: every packet is lost with one probability.

use ccarena_cc::types::Time;

use super::{Description, LossSpec, Param, Process};
use crate::rng::Stream;

/// Name of its parameter.
pub const PROBABILITY: &str = "probability";

/// Registry entry of this process.
pub const PROCESS: Description = Description {
    name: "independent",
    summary: "loses each packet with one probability, independent of others (Bernoulli)",
    params: &[Param { name: PROBABILITY, default: 0.0, min: 0.0, max: 1.0, doc: "probability of each packet" }],
    required: &[PROBABILITY],
    by_time: false,
};

/// Loss of each packet with one probability.
#[derive(Clone, Debug)]
pub struct Independent {
    probability: f64,
    stream: Stream,
}

impl Independent {
    pub(super) fn new(spec: &LossSpec, stream: Stream) -> Self {
        Self { probability: spec.params.get(PROBABILITY), stream }
    }
}

impl Process for Independent {
    #[inline(always)]
    fn loses(&mut self, _: Time) -> bool {
        self.stream.chance(self.probability)
    }
}
