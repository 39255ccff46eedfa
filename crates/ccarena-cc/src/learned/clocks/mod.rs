//! Clocks: when a decision period ends, and whether the decider is then asked.

mod period;
mod reasoner;
mod round_trip;
mod window;

pub use self::reasoner::ReasonerOptions;
use super::monitor::Measured;
use crate::param::Param;
use crate::types::Dur;

/// How long a period lasts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Length {
    /// Until the first acknowledgement at or after so much time.
    Acked(Dur),
    /// Exactly so much time, whether or not acknowledgements come.
    Timed(Dur),
    /// Until the first acknowledgement so many smoothed round trips later.
    RoundTrips(f64),
    /// Until what is sent next, when it begins, is acknowledged.
    Window,
}

/// A clock's decision on a period that has ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Decision {
    /// What kind of period it was, for clocks that tell kinds; 0 otherwise.
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
    /// Its name in a spec.
    pub name: &'static str,
    /// What it is.
    pub doc: &'static str,
    /// Where it comes from.
    pub source: &'static str,
    /// Its options.
    pub options: &'static [Param],
    /// A program in the kernel can run it.
    pub kernel: bool,
    /// Builds one from the options' values in order.
    pub build: fn(&[f64]) -> Box<dyn Clock>,
}

/// All clocks, by name.
pub const CLOCKS: &[ClockEntry] =
    &[period::FIXED, reasoner::REASONER, round_trip::ROUND_TRIP, period::TIMER, window::WINDOW];
