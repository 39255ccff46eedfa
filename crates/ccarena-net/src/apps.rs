//! Applications: the sources of flows' data, one file each.
//!
//! An application knows no clock and no socket. Told the time, what has left and what has arrived, it says how many
//! bytes may have been written and when it wants to be asked again. The simulator, kernel TCP and QUIC drive the same
//! state machines, so that they cannot differ.
//!
//! A new application is a file with an [`Application`], its `mod` and its line in `applications!`. Those of
//! [`arrivals`] expand into flows instead.

pub mod arrivals;
mod bulk;
mod capped;
mod cbr;
mod media;
mod on_off;
mod request_response;
pub mod sizes;
mod transfers;
mod video;

use ccarena_cc::reader::{At, Object, Result};
use ccarena_cc::{Dur, Rate, Time};
use serde_json::Value;

pub use self::bulk::Bulk;
pub use self::capped::Capped;
pub use self::cbr::Cbr;
pub use self::media::Media;
pub use self::on_off::OnOff;
pub use self::request_response::RequestResponse;
pub use self::transfers::Transfers;
pub use self::video::Video;

/// Amount without a limit.
pub const UNLIMITED: u64 = u64::MAX;

/// Progress of the transport, as the application sees it.
#[derive(Clone, Copy, Debug, Default)]
pub struct View {
    /// Time since the flow's start.
    pub elapsed: Dur,
    /// Bytes that have left the host, if it [needs](Needs) them.
    pub sent: u64,
    /// Bytes that are acknowledged, all before them too, if it needs them.
    pub acknowledged: u64,
    /// Rate that the controller allows, if it is needed: the window per smoothed RTT, at most the pacing rate; none before
    /// there is an RTT.
    pub rate: Option<Rate>,
}

/// Rate that a controller allows: `window` bytes per smoothed RTT, at most its pacing rate; none before there is an RTT.
#[must_use]
pub fn allowed_rate(window: u64, srtt: Dur, pacing: Option<Rate>) -> Option<Rate> {
    let bits = u128::from(window) * 8 * 1_000_000_000;
    let rate = Rate(u64::try_from(bits / u128::from(srtt.0.max(1))).unwrap_or(u64::MAX));
    (srtt > Dur::ZERO).then(|| pacing.map_or(rate, |pacing| pacing.min(rate)))
}

/// Answer of an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Bytes that may have been written so far, in all.
    pub allowed: u64,
    /// Time since the flow's start to ask again.
    pub next: Dur,
}

/// Parts of a [`View`] that an application reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// Bytes that have left.
    pub sent: bool,
    /// Bytes that are acknowledged. It is then asked at acknowledgements too, and each of its offers is a message: the
    /// last segment may be short, and QUIC gives it a stream of its own.
    pub acknowledged: bool,
    /// Rate that the controller allows.
    pub rate: bool,
    /// Times at which its messages are at the receiver whole, in its results ([`Outcome::with_arrivals`]).
    pub arrivals: bool,
}

impl Needs {
    /// Nothing.
    pub const NONE: Self = Self { sent: false, acknowledged: false, rate: false, arrivals: false };
}

/// Results of an application.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Durations of finished transfers.
    pub completion: Vec<Dur>,
    /// Further values by name, each a column of a table.
    pub columns: Vec<(&'static str, Vec<f64>)>,
    /// Ends of its messages in bytes, if it needs their arrivals.
    pub ends: Vec<u64>,
}

impl Outcome {
    /// Adds column `arrived_s`: the time from `start` at which each message was at the receiver whole, below zero if it was
    /// not.
    #[must_use]
    pub fn with_arrivals(mut self, start: Time, arrival: impl Fn(usize, u64) -> Option<Time>) -> Self {
        if !self.ends.is_empty() {
            let since = |at: Time| at.since(start).as_secs_f64();
            let arrived = self.ends.iter().enumerate().map(|(number, &end)| arrival(number, end).map_or(-1.0, since));
            self.columns.push(("arrived_s", arrived.collect()));
        }
        self
    }
}

/// Time at which `progress`, in order, first reaches `end`.
#[must_use]
pub fn reached(progress: &[(Time, u64)], end: u64) -> Option<Time> {
    progress.get(progress.partition_point(|step| step.1 < end)).map(|step| step.0)
}

/// A running application.
pub trait Running: Send + Sync + std::fmt::Debug {
    /// Brings it to `view`.
    fn advance(&mut self, view: &View) -> Offer;

    /// Returns the results so far.
    fn outcome(&self) -> Outcome {
        Outcome::default()
    }
}

/// Facts of the flow that an application starts on.
#[derive(Clone, Copy, Debug)]
pub struct Start {
    /// Payload bytes of a full segment.
    pub mss: u32,
    /// Seed of random numbers.
    pub seed: u64,
    /// Propagation delay of its acknowledgements.
    pub return_delay: Dur,
}

/// Description of an application, as a scenario has it.
pub trait Application: Sized {
    /// Value of `type` in a scenario.
    const NAME: &'static str;
    /// Fields beside `type`.
    const FIELDS: &'static [&'static str];
    /// Parts of the view that it reads.
    const NEEDS: Needs = Needs::NONE;

    /// Reads its fields.
    ///
    /// # Errors
    /// The first field at fault.
    fn read(o: &Object<'_>) -> Result<Self>;

    /// Returns the document with every default, without `type`.
    fn write(&self) -> Value;

    /// Packets of `mss` bytes that it has to send within `seconds`.
    fn packets(&self, seconds: f64, mss: f64) -> f64;

    /// Payload bytes of its full segments, at most `mss`.
    fn segment_bytes(&self, mss: u32) -> u32 {
        mss
    }

    /// Starts it; none if there is always more to send.
    fn start(&self, start: &Start) -> Option<Box<dyn Running>>;
}

macro_rules! applications {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// Application of a flow.
        #[derive(Clone, Debug, PartialEq)]
        pub enum App {
            $($(#[$doc])* $name($name)),*
        }

        impl App {
            /// The names of all applications.
            pub const NAMES: &'static [&'static str] = &[$($name::NAME),*];

            /// The applications with their fields; and what arrives.
            pub fn all() -> impl Iterator<Item = (&'static str, &'static [&'static str])> {
                let arrivals = arrivals::ALL.iter().map(|a| (a.name, a.fields));
                [$(($name::NAME, $name::FIELDS)),*].into_iter().chain(arrivals)
            }

            /// Fields of the application called `kind`.
            fn fields(kind: &str) -> Option<&'static [&'static str]> {
                match kind {
                    $($name::NAME => Some($name::FIELDS),)*
                    _ => None,
                }
            }

            /// Reads the fields of the application called `kind`; none if there is no such.
            fn of_kind(kind: &str, o: &Object<'_>) -> Result<Option<Self>> {
                Ok(match kind {
                    $($name::NAME => Some(Self::$name($name::read(o)?)),)*
                    _ => None,
                })
            }

            /// The normalised document.
            #[must_use]
            pub fn write(&self) -> Value {
                let (kind, mut document) = match self { $(Self::$name(app) => ($name::NAME, app.write())),* };
                document["type"] = kind.into();
                document
            }

            /// Parts of the view that it reads.
            #[must_use]
            pub fn needs(&self) -> Needs {
                match self { $(Self::$name(_) => $name::NEEDS),* }
            }

            /// Packets of `mss` bytes that it has to send within `seconds`.
            #[must_use]
            pub fn packets(&self, seconds: f64, mss: f64) -> f64 {
                match self { $(Self::$name(app) => app.packets(seconds, mss)),* }
            }

            /// Payload bytes of its full segments, at most `mss`.
            #[must_use]
            pub fn segment_bytes(&self, mss: u32) -> u32 {
                match self { $(Self::$name(app) => app.segment_bytes(mss)),* }
            }

            /// Starts it; none if there is always more to send.
            #[must_use]
            pub fn start(&self, start: &Start) -> Option<Box<dyn Running>> {
                match self { $(Self::$name(app) => app.start(start)),* }
            }
        }
    };
}

applications! {
    /// Bulk data, as much as the controller allows.
    Bulk,
    /// A constant bit rate.
    Cbr,
    /// A constant bit rate in turns with silence.
    OnOff,
    /// Bulk data with a limit per slot.
    Capped,
    /// Transfers one after the other.
    Transfers,
    /// Responses with time to think between them.
    RequestResponse,
    /// Real-time media.
    Media,
    /// Adaptive video.
    Video,
}

impl Default for App {
    fn default() -> Self {
        Self::Bulk(Bulk)
    }
}

impl App {
    /// Returns whether there is always more to send.
    #[must_use]
    pub fn is_bulk(&self) -> bool {
        matches!(self, Self::Bulk(_))
    }

    /// Size of its only transfer; none if it is something else.
    #[must_use]
    pub fn only_transfer(&self) -> Option<u64> {
        match self {
            Self::Transfers(Transfers { sizes_bytes, .. }) if sizes_bytes.len() == 1 => sizes_bytes.first().copied(),
            _ => None,
        }
    }
}

/// Reads field `app` of a flow.
///
/// # Errors
/// The first field at fault.
pub fn read(at: &At<'_>) -> Result<Read> {
    let names: Vec<&str> = App::NAMES.iter().copied().chain(arrivals::ALL.iter().map(|a| a.name)).collect();
    let arrivals = |kind: &str| arrivals::ALL.iter().find(|a| a.name == kind);
    let fields = |kind: &str| App::fields(kind).or_else(|| arrivals(kind).map(|a| a.fields)).unwrap_or(&[]).to_vec();
    let (kind, o) = at.tagged("application", &names, fields)?;
    match (App::of_kind(kind, &o)?, arrivals(kind)) {
        (Some(app), _) => Ok(Read::One(app)),
        (None, Some(arrivals)) => Ok(Read::Many((arrivals.read)(&o)?)),
        (None, None) => at.fail(names.join(", ")),
    }
}

/// Field `app` of a flow as it was read.
pub enum Read {
    /// An application of one flow.
    One(App),
    /// Flows that arrive.
    Many(Box<dyn arrivals::Arrivals>),
}

/// Running applications as backends hold them: asks only for what is needed.
#[derive(Debug)]
pub struct Source {
    running: Option<Box<dyn Running>>,
    needs: Needs,
    /// Ends of messages, if their arrivals are needed.
    ends: Vec<u64>,
}

impl Source {
    /// Starts `app`.
    #[must_use]
    pub fn new(app: &App, start: &Start) -> Self {
        Self { running: app.start(start), needs: app.needs(), ends: Vec::new() }
    }

    /// Parts of the view that it reads.
    #[must_use]
    pub fn needs(&self) -> Needs {
        self.needs
    }

    /// Returns whether there is always more to send.
    #[must_use]
    pub fn is_bulk(&self) -> bool {
        self.running.is_none()
    }

    /// Brings it to `view`.
    pub fn advance(&mut self, view: &View) -> Offer {
        let Some(running) = &mut self.running else { return Offer { allowed: UNLIMITED, next: Dur::MAX } };
        let offer = running.advance(view);
        if self.needs.arrivals && offer.allowed > self.ends.last().copied().unwrap_or(0) {
            self.ends.push(offer.allowed);
        }
        offer
    }

    /// Returns the results so far.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        let outcome = self.running.as_ref().map(|running| running.outcome()).unwrap_or_default();
        Outcome { ends: self.ends.clone(), ..outcome }
    }
}

#[cfg(test)]
mod tests;
