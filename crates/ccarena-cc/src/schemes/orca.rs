//! `orca`: CUBIC, whose window a learner multiplies at the end of every monitoring time period, all of one length (Abbasloo,
//! Yen and Chao, "Classic Meets Modern: a Pragmatic Learning-Based Congestion Control for the Internet", SIGCOMM 2020).
//!
//! Departure: observation and reward are those of Hyvar's slides, so that the two differ in when the learner acts and in
//! nothing else.

use super::cubic;
use super::hybrid::{Hybrid, MAX_ACTION_PARAM, PACING_GAIN_PARAM, Selector, Sight, Verdict, WINDOW_LIMIT_PARAM};
use crate::scheme::{Param, Scheme};
use crate::types::Dur;

/// Registry entry.
pub const SCHEME: Scheme = Scheme {
    name: "orca",
    summary: "Orca: CUBIC, and a learner that scales its window at the end of every period of fixed length",
    params: &[
        Param {
            name: "mtp_ms",
            default: 20.0,
            min: 10.0,
            max: 200.0,
            doc: "monitoring time period in ms (20 ms as in the experiments of the Orca paper)",
        },
        MAX_ACTION_PARAM,
        WINDOW_LIMIT_PARAM,
        PACING_GAIN_PARAM,
        cubic::SCHEME.params[0],
        cubic::SCHEME.params[1],
        cubic::SCHEME.params[2],
    ],
    learned: true,
    weight_above: None,
    requirement: false,
    build: |config| Box::new(Hybrid::new(config, Fixed(Dur::from_secs_f64(config.param("mtp_ms") / 1e3)))),
};

/// One length, and the learner is asked always.
struct Fixed(Dur);

impl Selector for Fixed {
    fn first(&self) -> Dur {
        self.0
    }

    fn judge(&mut self, _sight: Sight) -> Verdict {
        Verdict { case: 0, ask: true, mtp: self.0 }
    }
}
