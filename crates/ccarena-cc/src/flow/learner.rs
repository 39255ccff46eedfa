//! The learned side of a flow: its decider, and what it decided.

use std::sync::Arc;

use super::{Flow, Host, Need, Refused};
use crate::controller::Controller;
use crate::decider::{BindError, Decider, Outside, trained_params};
use crate::learned::LearnedController;
use crate::learned::monitor::Parts;
use crate::policy::Policy;
use crate::scheme::Config;
use crate::types::Time;

/// Name of an artifact in messages, as its bytes have none.
const ARTIFACT: &str = "artifact";

/// Decider of a flow, and what it decided.
#[derive(Default)]
pub(super) struct Learner {
    decider: Option<Decider>,
    decisions: u64,
    outside: Outside,
    reports: Option<Reports>,
}

/// Reports of a learned scheme, one row per decision.
struct Reports {
    row: Vec<f32>,
    rows: Vec<f32>,
}

/// Builds the flow that `policy` decides for.
pub(super) fn flow(policy: Arc<Policy>, config: &Config, host: &Host, now: Time) -> Result<Flow, Refused> {
    let spec = Arc::clone(&policy.trained().spec);
    let interface = spec.interface();
    let params = trained_params(&policy, ARTIFACT, interface, &config.params)?;
    let config = Config { params, feedback: host.marks, ..config.clone() };
    let mut controller = spec.controller(&config)?;
    let signal = |need: Need| part(need).and_then(|part| spec.signal_with(part));
    host.check(&interface.name, controller.as_mut(), spec.feedback(), signal)?;
    let learned = controller.learned().ok_or(BindError::Missing)?;
    let decider = Decider::policy(policy, ARTIFACT, learned)?;
    Ok(Flow::new(controller, Some(decider), now))
}

/// The part of a flow's measurements that takes a need from signals.
const fn part(need: Need) -> Option<Parts> {
    match need {
        Need::EveryPacket => Some(Parts::SENT),
        Need::RateSamples => Some(Parts::NEWEST),
        Need::Marks(_) => Some(Parts::MARKS),
        Need::RouterRates => Some(Parts::ADVERTISED),
        Need::PacketNumbers | Need::RouterHeaders | Need::L4s => None,
    }
}

impl Learner {
    /// Has a decision made if one is due, and returns whether it was.
    #[inline]
    pub(super) fn ask(&mut self, controller: &mut dyn Controller, now: Time) -> bool {
        let due = self.decider.is_some() && controller.learned().is_some_and(LearnedController::take_decision);
        if due {
            self.decide(controller, now);
        }
        due
    }

    /// Has a decision made.
    pub(super) fn decide(&mut self, controller: &mut dyn Controller, now: Time) {
        let (Some(decider), Some(learned)) = (&mut self.decider, controller.learned()) else { return };
        self.decisions += 1;
        if let Some(Reports { row, rows }) = &mut self.reports {
            learned.report(row);
            rows.extend_from_slice(row);
        }
        decider.decide(learned, now);
        self.outside.count(decider);
    }

    pub(super) fn decider(&self) -> Option<&Decider> {
        self.decider.as_ref()
    }

    /// Removes the decider.
    pub(super) fn leave(&mut self) {
        self.decider = None;
    }
}

impl Flow {
    /// A flow of `controller`, for which `decider` decides, at `now` for the first time.
    #[must_use]
    pub fn new(controller: Box<dyn Controller>, decider: Option<Decider>, now: Time) -> Self {
        let mut flow = Self::of(controller);
        flow.learner.decider = decider;
        if let (Some(decider), Some(learned)) = (&mut flow.learner.decider, flow.controller.learned()) {
            decider.decide(learned, now);
        }
        flow
    }

    /// Keeps the report of each decision from now on, which takes memory.
    pub fn keep_reports(&mut self) {
        if let Some(learned) = self.controller.learned() {
            let row = vec![0.0; learned.interface().report.len()];
            self.learner.reports = Some(Reports { row, rows: Vec::new() });
        }
    }

    /// Returns the reports so far, row by row; nothing unless they are [kept](Self::keep_reports).
    #[must_use]
    pub fn reports(&self) -> &[f32] {
        self.learner.reports.as_ref().map_or(&[], |reports| &reports.rows)
    }

    /// Returns the number of decisions after the first one.
    #[must_use]
    pub fn decisions(&self) -> u64 {
        self.learner.decisions
    }

    /// Returns how many decisions had observations that training did not see.
    #[must_use]
    pub fn outside(&self) -> Outside {
        self.learner.outside
    }

    /// Returns the decider of a learned scheme.
    #[must_use]
    pub fn decider(&self) -> Option<&Decider> {
        self.learner.decider()
    }
}
