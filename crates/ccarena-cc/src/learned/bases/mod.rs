//! Bases: what moves window and rate between decisions.

mod acct;
pub mod base;
mod cubic;
mod levered;
mod none;
mod prague;
pub mod schemes;

pub use self::base::{Base, Lever, initial_rtt};
use self::levered::Levered;
use super::composed::Composed;
use super::plan::Plan;
use crate::controller::Controller;
use crate::feedback::Feedback;
use crate::param::Param;
use crate::scheme::Config;
use crate::types::{Dur, Rate};

/// Arguments of a base's constructor.
pub struct Parts<'a> {
    /// The flow's configuration.
    pub config: &'a Config,
    /// The options' values in the entry's order.
    pub options: &'a [f64],
    /// Flag that an action sets the rate; else the window is what moves.
    pub by_rate: bool,
    /// Everything else of the spec.
    pub plan: Plan,
}

/// A registered base.
pub struct BaseEntry {
    /// Name in a spec.
    pub name: &'static str,
    /// Description.
    pub doc: &'static str,
    /// Source of the design.
    pub source: &'static str,
    /// Levers that can be moved besides [`EVERYWHERE`].
    pub levers: &'static [Lever],
    /// Options of the base.
    pub options: &'static [Param],
    /// Flag that it takes an advertised rate.
    pub takes_rate: bool,
    /// Feedback of marks that it needs.
    pub feedback: Feedback,
    /// A program in the kernel can run it.
    pub kernel: bool,
    /// Builds the controller over it.
    pub build: fn(Parts<'_>) -> Box<dyn Controller>,
}

impl BaseEntry {
    /// Returns whether `lever` moves something.
    #[must_use]
    pub fn has(&self, lever: Lever) -> bool {
        self.levers.contains(&lever) || EVERYWHERE.contains(&lever)
    }
}

/// All bases, by name.
pub const BASES: &[BaseEntry] = &[acct::ACCT, cubic::CUBIC, none::NONE, prague::PRAGUE];

/// Levers of every base.
pub const EVERYWHERE: &[Lever] = &[Lever::Pacing, Lever::Cap];

/// The controller over `base`.
fn over<B: Base + 'static>(base: B, plan: Plan) -> Box<dyn Controller> {
    if plan.actuators.iter().any(|a| EVERYWHERE.contains(&a.lever)) {
        let mss = plan.mss;
        return Box::new(Composed::new(Levered::new(base, mss), plan));
    }
    Box::new(Composed::new(base, plan))
}

/// `windows` of `segments` per `srtt` as a pacing rate; none without pacing or before there is an RTT.
fn paced(windows: f64, segments: f64, mss: f64, srtt: Dur) -> Option<Rate> {
    let paced = windows > 0.0 && srtt > Dur::ZERO;
    paced.then(|| {
        let bits = windows * segments * mss * 8.0;
        Rate((bits / srtt.as_secs_f64()) as u64).max(Rate(1))
    })
}

/// `segments` per `srtt` in bit/s; zero before there is an RTT.
fn per_rtt(segments: f64, mss: f64, srtt: Dur) -> f64 {
    if srtt == Dur::ZERO { 0.0 } else { segments * mss * 8.0 / srtt.as_secs_f64() }
}
