//! Loss by time: each packet is lost with the probability in force as it arrives, independently of others.

use ccarena_cc::types::{Dur, Time};

use super::{Description, LossSpec, Process};
use crate::rng::Stream;
use crate::stepped::{Cursor, Stepped};

/// Registry entry of this process.
pub const PROCESS: Description = Description {
    name: "steps",
    summary: "loses each packet with a probability that changes at given times, independent of others",
    params: &[],
    required: &[],
    by_time: true,
};

/// Loss with a probability by time.
#[derive(Clone, Debug)]
pub struct Steps {
    probabilities: Cursor<f64>,
    stream: Stream,
}

impl Steps {
    pub(super) fn new(spec: &LossSpec, stream: Stream) -> Self {
        Self::of(Stepped::new(spec.steps.as_slice(), None, Dur::ZERO), stream)
    }

    /// Returns loss with `probabilities`, of which there is one at least.
    #[must_use]
    pub fn of(probabilities: Stepped<f64>, stream: Stream) -> Self {
        Self { probabilities: Cursor::new(probabilities), stream }
    }
}

impl Steps {
    /// Changes the probability to `probability` from `now` on.
    pub fn follow(&mut self, now: Time, probability: f64) {
        self.probabilities.follow(now, probability);
    }
}

impl Process for Steps {
    fn loses(&mut self, now: Time) -> bool {
        let probability = self.probabilities.at(now).0.unwrap_or(0.0);
        self.stream.chance(probability)
    }
}
