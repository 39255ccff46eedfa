//! Delays by time: each from its time on.

use ccarena_cc::reader::{At, Result};
use ccarena_cc::types::{Dur, Time};
use serde_json::{Value, json};

use super::{MAX_DELAY_MS, Process};
use crate::stepped::Stepped;

/// Each delay from its time on; the first at time zero, times increasing.
#[derive(Clone, Debug, PartialEq)]
pub struct Steps(Vec<(Dur, Dur)>);

impl Steps {
    /// Returns one delay for ever.
    #[must_use]
    pub fn constant(delay: Dur) -> Self {
        Self(vec![(Dur::ZERO, delay)])
    }

    /// Returns the same delays before `at`, and `delay` from then on.
    #[must_use]
    pub fn followed_by(&self, at: Time, delay: Dur) -> Self {
        let rows = Stepped::new(self.0.as_slice(), None, Dur::ZERO).followed_by(at, delay);
        Self(rows.rows().collect())
    }
}

impl Process for Steps {
    const NAME: &'static str = "steps";

    fn read(at: &At<'_>) -> Result<Self> {
        let steps = at.stepped("delay_ms", "a delay in ms", |at| at.millis(0.0, MAX_DELAY_MS))?;
        Ok(Self(steps.into_iter().map(|(from, delay)| (from.since(Time::ZERO), delay)).collect()))
    }

    fn write(&self) -> Value {
        let step = |(from, delay): &(Dur, Dur)| json!({"at_s": from.as_secs_f64(), "delay_ms": delay.as_millis_f64()});
        self.0.iter().map(step).collect()
    }

    fn stepped(&self) -> Stepped<Dur> {
        Stepped::new(self.0.as_slice(), None, Dur::ZERO)
    }
}
