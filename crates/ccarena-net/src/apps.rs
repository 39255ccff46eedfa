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
mod on_off;
mod request_response;
pub mod sizes;
mod transfers;

use ccarena_cc::reader::{At, Object, Result};
use ccarena_cc::{Dur, Rate};
use serde_json::Value;

pub use self::bulk::Bulk;
pub use self::capped::Capped;
pub use self::cbr::Cbr;
pub use self::on_off::OnOff;
pub use self::request_response::RequestResponse;
pub use self::transfers::Transfers;

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
}

/// Results of an application.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Durations of finished transfers.
    pub completion: Vec<Dur>,
    /// Further values by name, each a column of a table.
    pub columns: Vec<(&'static str, Vec<f64>)>,
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
    const NEEDS: Needs = Needs { sent: false, acknowledged: false, rate: false };

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
}

impl Source {
    /// Starts `app`.
    #[must_use]
    pub fn new(app: &App, start: &Start) -> Self {
        Self { running: app.start(start), needs: app.needs() }
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
        match &mut self.running {
            Some(running) => running.advance(view),
            None => Offer { allowed: UNLIMITED, next: Dur::MAX },
        }
    }

    /// Returns the results so far.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        self.running.as_ref().map(|running| running.outcome()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
