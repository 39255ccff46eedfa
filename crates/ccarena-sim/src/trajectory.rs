//! Trajectories: a flow in the terms of a spec that it runs, or that watches it.

use ccarena_cc::LearnedController;
use ccarena_net::result::Rows;

use crate::privileged::{Before, PRIVILEGED};
use crate::sim::{Follow, Sim};

/// Trajectory of a flow so far, a row per period: time in s, action during the period, observation at its end, report,
/// privileged state.
pub struct Trajectory {
    /// The flow runs the spec itself; else the spec watches it.
    is_own: bool,
    rows: Vec<f32>,
    width: usize,
    before: Before,
}

impl Trajectory {
    /// Returns the empty trajectory of a flow.
    #[must_use]
    pub fn new(is_own: bool) -> Self {
        Self { is_own, rows: Vec::new(), width: 0, before: Before::default() }
    }

    fn add(&mut self, now_s: f64, learned: &dyn LearnedController) {
        let interface = learned.interface();
        let acted = learned.acted();
        self.rows.push(now_s as f32);
        self.rows.extend_from_slice(&acted);
        let at = self.rows.len();
        self.rows.resize(at + interface.observation_len + interface.report.len(), 0.0);
        let (observation, report) = self.rows[at..].split_at_mut(interface.observation_len);
        learned.observe(observation);
        learned.report(report);
    }
}

impl Follow for Trajectory {
    fn follow(&mut self, sim: &mut Sim, index: usize, ended: bool) {
        let now_s = sim.now().as_secs_f64();
        let controller = sim.flow_mut(index).sender.controller();
        let due = if self.is_own { ended } else { controller.watcher().is_some_and(|w| w.take_decision()) };
        let learned = if self.is_own { controller.learned() } else { controller.watcher() };
        let Some(learned) = learned.filter(|_| due) else { return };
        let begun = self.rows.len();
        self.add(now_s, learned);
        let at = self.rows.len();
        self.rows.resize(at + PRIVILEGED.len(), 0.0);
        self.before.write(sim, index, &[index], &mut self.rows[at..]);
        self.before = Before::of(sim);
        self.width = self.rows.len() - begun;
    }

    fn finish(self: Box<Self>) -> Rows {
        Rows { values: self.rows, width: self.width }
    }
}
