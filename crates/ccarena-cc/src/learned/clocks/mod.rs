//! Clocks: when a decision period ends, and whether the decider is then asked.

mod period;
mod reasoner;
mod round_trip;
mod window;

pub use self::reasoner::ReasonerOptions;
use super::monitor::Measured;
use crate::param::Param;
use crate::types::Dur;

/// Length of a period.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Length {
    /// End at the first acknowledgement after this time.
    Acked(Dur),
    /// End at the first acknowledgement more than `period` after that which began it, on a clock of whole `tick`s. The
    /// first one begins with an acknowledgement.
    Ticks {
        /// Length of the period.
        period: Dur,
        /// Resolution of the clock.
        tick: Dur,
    },
    /// Exactly so much time, whether or not acknowledgements come.
    Timed(Dur),
    /// End at the first acknowledgement after this number of smoothed round trips.
    RoundTrips(f64),
    /// End when the first data sent in the period is acknowledged.
    Window,
}

/// A clock's decision on a period that has ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Decision {
    /// Kind of the period, for clocks with several kinds; 0 otherwise.
    pub case: u8,
    /// The decider is asked.
    pub ask: bool,
    /// The next period.
    pub next: Length,
}

/// Divides time into periods.
pub trait Clock: Send + Sync {
    /// The first period, which begins with the first packet.
    fn first(&self) -> Length;

    /// Judges the period that has just ended.
    fn judge(&mut self, _ended: &Measured) -> Decision {
        Decision { case: 0, ask: true, next: self.first() }
    }

    /// The clock as a datapath can run it.
    fn in_datapath(&self) -> Option<DatapathClock> {
        None
    }
}

/// A clock that a datapath can run in the controller's place, with its options.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum DatapathClock {
    /// Clock `reasoner`.
    Reasoner(ReasonerOptions),
}

/// A registered clock.
pub struct ClockEntry {
    /// Name in a spec.
    pub name: &'static str,
    /// Description.
    pub doc: &'static str,
    /// Source of the design.
    pub source: &'static str,
    /// Options of the clock.
    pub options: &'static [Param],
    /// A program in the kernel can run it.
    pub kernel: bool,
    /// Builds one from the options' values in order.
    pub build: fn(&[f64]) -> Box<dyn Clock>,
}

/// All clocks, by name.
pub const CLOCKS: &[ClockEntry] =
    &[period::FIXED, reasoner::REASONER, round_trip::ROUND_TRIP, period::TICKS, period::TIMER, window::WINDOW];
