//! Tests of the shipped specs against their sources.

mod aurora;
mod hybrid;
mod published;

use crate::action::Action;
use crate::schemes::testing::Flow;

fn due(flow: &mut Flow) -> bool {
    flow.controller.learned().unwrap().take_decision()
}

fn act(flow: &mut Flow, a: f32) {
    let now = flow.now;
    flow.controller.learned().unwrap().act(Action::Continuous(a.into()), now).unwrap();
}

/// The report's column `name`.
fn report(flow: &mut Flow, name: &str) -> f64 {
    let learned = flow.controller.learned().unwrap();
    let mut report = vec![0.0; learned.interface().report.len()];
    learned.report(&mut report);
    f64::from(report[learned.interface().report.iter().position(|n| n == name).unwrap()])
}
