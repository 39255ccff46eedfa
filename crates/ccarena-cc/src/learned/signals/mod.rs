//! Signals: what a decider sees and a report tells.
//!
//! A signal is one function from a [`View`] to a number, and one entry in the list of its file. Values are raw, in the
//! signal's unit, and held to its bounds; a network sees `clip((x - offset) * scale, clip.0, clip.1)`, with the entry's
//! natural numbers unless a spec gives others.

mod decisions;
mod delays;
mod losses;
mod rates;
mod surroundings;
mod windows;

use super::bases::base::Base;
use super::monitor::{Measured, Monitor, Newest, Parts, Totals, times};
use crate::action::MOST_NUMBERS;
use crate::backends::Backend;
use crate::param::Param;
use crate::types::{Dur, Requirement, Time};

/// Input from which a signal is computed.
pub struct View<'a> {
    /// End of the period.
    pub now: Time,
    /// Results of the period; in a report those since the last request to the decider.
    pub measured: &'a Measured,
    /// State of the flow.
    pub monitor: &'a Monitor,
    /// Window and rate.
    pub base: &'a dyn Base,
    /// Payload of a segment in bytes, and the same with headers.
    pub mss: f64,
    /// See `mss`.
    pub wire_bytes: f64,
    /// The action in force by actuator, and the one that was in force in the interval before.
    pub action: [f32; MOST_NUMBERS],
    /// See `action`.
    pub action_before: [f32; MOST_NUMBERS],
    /// Kind of the period, for clocks with several kinds.
    pub case: u8,
    /// The length that is chosen for the next period; zero if the clock chooses none.
    pub next_length: Dur,
    /// The flow's weight.
    pub weight: f64,
    /// The application's requirement.
    pub requirement: Option<Requirement>,
    /// Values of parameters and inputs.
    pub params: &'a [f64],
    /// Values of derived signals by their places.
    pub derived: &'a [Option<f64>],
}

/// Arguments of one signal in a spec.
#[derive(Clone, Copy, Debug)]
pub struct Arguments<'a> {
    /// The options' values in the entry's order.
    pub options: &'a [f64],
    /// Channel of the signal.
    pub channel: usize,
}

impl View<'_> {
    /// Totals over the stretch that `over_ms` or `over_rtts` (the first two options) say, with its length; none for the
    /// period.
    #[must_use]
    pub fn recent(&self, arguments: Arguments<'_>) -> Option<(Totals, Dur)> {
        let [over_ms, over_rtts, ..] = arguments.options else { return None };
        let stretch = if *over_ms > 0.0 {
            Dur::from_secs_f64(over_ms / 1e3)
        } else if *over_rtts > 0.0 {
            times(self.monitor.srtt, *over_rtts)
        } else {
            return None;
        };
        self.monitor.recent().map(|recent| (recent.since(self.now, stretch), stretch))
    }

    /// The window in segments.
    #[must_use]
    pub fn segments(&self) -> f64 {
        self.base.segments()
    }

    /// The window in bytes.
    #[must_use]
    pub fn window_bytes(&self) -> f64 {
        self.base.window().0 as f64
    }

    /// The target window in segments (ACCT's twnd).
    #[must_use]
    pub fn target(&self) -> f64 {
        self.monitor.target(self.wire_bytes)
    }
}

/// Value function of a signal at the end of a period.
pub type Read = fn(&View<'_>, Arguments<'_>) -> f64;

/// Value function of a signal at an acknowledgement; none if that has no sample.
pub type Each = fn(&Newest, &[f64]) -> Option<f64>;

/// Value function of a derived signal: its option is its place.
pub(super) fn derived(v: &View<'_>, a: Arguments<'_>) -> f64 {
    let place = a.options.first().map_or(0, |place| *place as usize);
    v.derived.get(place).copied().flatten().unwrap_or(0.0)
}

/// A registered signal.
pub struct Signal {
    /// Name in a spec.
    pub name: &'static str,
    /// Unit of its values.
    pub unit: &'static str,
    /// Suffixes of its channels' names; empty if it is one number.
    pub channels: &'static [&'static str],
    /// Values are held to these bounds.
    pub low: f64,
    /// See `low`.
    pub high: f64,
    /// Natural normalisation: `clip((x - offset) * scale, clip.0, clip.1)` is of the order of 1.
    pub offset: f64,
    /// See `offset`.
    pub scale: f64,
    /// See `offset`.
    pub clip: (f64, f64),
    /// Description.
    pub doc: &'static str,
    /// Source of the definition.
    pub source: &'static str,
    /// Options of the signal.
    pub options: &'static [Param],
    /// Parts that have to be measured for it.
    pub parts: Parts,
    /// Flag that it is not measured over a period: with a history of one it is read when the decider is asked.
    pub live: bool,
    /// Bounds of its values.
    pub range: Range,
    /// Backends that do not measure it.
    unmeasured: &'static [Backend],
    /// Value function.
    pub value: Read,
    /// Value at an acknowledgement, if it has one.
    pub each: Option<Each>,
}

/// Origin of a signal's bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Range {
    /// The entry.
    Own,
    /// The actuator; if there are several, the one that the spec names as `action`.
    Action,
    /// The input or run-time parameter that the spec names as `name`.
    Named,
}

/// Ratios go no further, whatever happens to a path.
pub(super) const LARGEST: f64 = 1e6;
/// Nor does anything else.
pub(super) const HUGE: f64 = 1e15;

/// The options of a signal that can be measured over another stretch than the period.
const OVER: &[Param] = &[
    Param {
        name: "over_ms",
        default: 0.0,
        min: 0.0,
        max: 10_000.0,
        doc: "the last so many milliseconds, not the period",
    },
    Param {
        name: "over_rtts",
        default: 0.0,
        min: 0.0,
        max: 100.0,
        doc: "the last so many smoothed RTTs, not the period",
    },
];

impl Signal {
    /// A number that every backend measures.
    const fn new(name: &'static str, unit: &'static str, doc: &'static str, value: Read) -> Self {
        Self {
            name,
            unit,
            channels: &[],
            low: 0.0,
            high: LARGEST,
            offset: 0.0,
            scale: 1.0,
            clip: (0.0, 4.0),
            doc,
            source: "common",
            options: &[],
            parts: Parts::NONE,
            live: false,
            range: Range::Own,
            unmeasured: &[],
            value,
            each: None,
        }
    }

    const fn bounds(self, low: f64, high: f64) -> Self {
        Self { low, high, ..self }
    }

    const fn natural(self, offset: f64, scale: f64, low: f64, high: f64) -> Self {
        Self { offset, scale, clip: (low, high), ..self }
    }

    const fn source(self, source: &'static str) -> Self {
        Self { source, ..self }
    }

    const fn options(self, options: &'static [Param]) -> Self {
        Self { options, ..self }
    }

    const fn needs(self, parts: Parts) -> Self {
        Self { parts, ..self }
    }

    const fn live(self) -> Self {
        Self { live: true, ..self }
    }

    const fn range(self, range: Range) -> Self {
        Self { range, ..self }
    }

    const fn not_on(self, unmeasured: &'static [Backend]) -> Self {
        Self { unmeasured, ..self }
    }

    /// A program in the kernel does not compute it.
    const fn user_space(self) -> Self {
        self.not_on(&[Backend::Kernel])
    }

    /// Adds a value at each acknowledgement.
    const fn each(self, each: Each) -> Self {
        Self { each: Some(each), ..self }
    }

    const fn channels(self, channels: &'static [&'static str]) -> Self {
        Self { channels, ..self }
    }

    /// The backends that measure it.
    pub fn backends(&self) -> impl Iterator<Item = Backend> {
        Backend::ALL.into_iter().filter(|backend| self.is_measured(*backend))
    }

    /// True if `backend` measures it.
    #[must_use]
    pub fn is_measured(&self, backend: Backend) -> bool {
        !self.unmeasured.contains(&backend)
    }

    /// Returns whether it can be measured over another stretch than the period.
    #[must_use]
    pub fn is_windowed(&self) -> bool {
        self.options.first().is_some_and(|o| o.name == OVER[0].name)
    }
}

/// All signals, in the order in which the documentation lists them.
pub fn all() -> impl Iterator<Item = &'static Signal> {
    [rates::SIGNALS, delays::SIGNALS, losses::SIGNALS, windows::SIGNALS, decisions::SIGNALS, surroundings::SIGNALS]
        .into_iter()
        .flatten()
}

/// The signal called `name`.
#[must_use]
pub fn find(name: &str) -> Option<&'static Signal> {
    all().find(|s| s.name == name)
}
