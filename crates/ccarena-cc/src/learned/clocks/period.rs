//! Periods of one length.

use super::{Clock, ClockEntry, Length};
use crate::param::Param;
use crate::types::Dur;

const PERIOD: Param =
    Param { name: "period_ms", default: 20.0, min: 1.0, max: 10_000.0, doc: "length of a period in ms" };

/// Ends with an acknowledgement.
pub const FIXED: ClockEntry = ClockEntry {
    name: "fixed",
    doc: "every `period_ms`, with the first acknowledgement at or after that: before it there is nothing new to observe",
    source: "Abbasloo et al., Orca, SIGCOMM 2020 (20 ms)",
    options: &[PERIOD],
    kernel: true,
    build: |options| Box::new(One(Length::Acked(Dur::from_secs_f64(options[0] / 1e3)))),
};

/// Ends with an acknowledgement, on a coarse clock.
pub const TICKS: ClockEntry = ClockEntry {
    name: "ticks",
    doc: "with the first acknowledgement more than `period_ms` after the one that began the period, on a clock of whole \
          `tick_ms`; the first period begins with the first acknowledgement",
    source: "Yan et al., Pantheon/Indigo, ATC 2018: its published code (10 ms on a clock of whole ms)",
    options: &[
        Param { default: 10.0, ..PERIOD },
        Param { name: "tick_ms", default: 1.0, min: 0.01, max: 1000.0, doc: "resolution of the clock in ms" },
    ],
    kernel: true,
    build: |options| {
        let [period, tick] = [options[0], options[1]].map(|ms| Dur::from_secs_f64(ms / 1e3).max(Dur(1)));
        Box::new(One(Length::Ticks { period, tick }))
    },
};

/// Ends on time.
pub const TIMER: ClockEntry = ClockEntry {
    name: "timer",
    doc: "every `period_ms` by a timer, whether or not acknowledgements come: a decision during an outage is possible",
    source: "Winstein et al., Sprout, NSDI 2013 (20 ms); Yan et al., Pantheon/Indigo, ATC 2018 (10 ms)",
    options: &[PERIOD],
    kernel: true,
    build: |options| Box::new(One(Length::Timed(Dur::from_secs_f64(options[0] / 1e3)))),
};

struct One(Length);

impl Clock for One {
    fn first(&self) -> Length {
        self.0
    }
}
