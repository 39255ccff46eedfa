//! The guard of a policy: metadata `guard` of an artifact, a box of observations and a bound of actions.
//!
//! The guard holds every action to its bound. An observation outside the box trips it: what is promised of the policy is
//! promised inside the box alone, so the host decides who takes over. `ccarena certify --guard` writes it.

use serde_json::Value;

use super::error::PolicyError;
use crate::action::{Action, Numbers};

/// Lower and upper bound of one number.
type Interval = (f32, f32);

/// Box of observations and bound of actions of a policy.
#[derive(Clone, Debug, PartialEq)]
pub struct Guard {
    observation: Vec<Interval>,
    action: Vec<Interval>,
    /// Action taken instead of each discrete one: itself, or the nearest value within the bound.
    instead: Vec<u32>,
}

impl Guard {
    /// Parses the metadata: a JSON object with `observation` and `action`, each with the lists `low` and `high`. In
    /// `observation`, of `width` entries, null is no bound. `actions` are the values of discrete ones, or else `bounds` those
    /// of each number.
    pub(super) fn parse(text: &str, width: usize, actions: &[f32], bounds: &[Interval]) -> Result<Self, PolicyError> {
        // One value of discrete actions, or one number of each actuator.
        let numbers = bounds.len().max(1);
        let expected = format!(
            "a JSON object with `observation`, `low` and `high` of {width} finite numbers or null each, and `action`, `low` \
             and `high` of {numbers}, low <= high, with an action of the policy between them"
        );
        let error = |found: String| PolicyError::Metadata { key: "guard", found, expected: expected.clone() };
        let value: Value = serde_json::from_str(text).map_err(|e| error(format!("no JSON ({e})")))?;
        let refused = || error(super::graph::short(&value));
        let keys = value.as_object().ok_or_else(refused)?;
        if keys.keys().any(|key| key != "observation" && key != "action") {
            return Err(refused());
        }
        let observation = intervals(keys.get("observation"), width, true).ok_or_else(refused)?;
        let action = intervals(keys.get("action"), numbers, false).ok_or_else(refused)?;
        let overlaps = |((low, high), (least, most)): (&Interval, &Interval)| low <= most && high >= least;
        let instead = instead(actions, action[0]);
        if !action.iter().zip(bounds).all(overlaps) || instead.len() != actions.len() {
            return Err(refused());
        }
        Ok(Self { observation, action, instead })
    }

    /// The box: the least and the greatest raw value for each entry of an observation; infinite without a bound.
    #[must_use]
    pub fn observation(&self) -> &[(f32, f32)] {
        &self.observation
    }

    /// The bound of each number of a continuous action, or that of the value of a discrete one.
    #[must_use]
    pub fn action(&self) -> &[(f32, f32)] {
        &self.action
    }

    /// Index of the action taken for each discrete one; empty if actions are continuous.
    #[must_use]
    pub fn instead(&self) -> &[u32] {
        &self.instead
    }

    /// True if an entry of the raw `observation` is outside the box, or no number.
    #[must_use]
    pub fn is_tripped(&self, observation: &[f32]) -> bool {
        !observation.iter().zip(&self.observation).all(|(x, (low, high))| x >= low && x <= high)
    }

    /// Holds `action` to the bound.
    #[must_use]
    pub fn bounded(&self, action: Action) -> Action {
        match action {
            Action::Discrete(index) => Action::Discrete(*self.instead.get(index as usize).unwrap_or(&index)),
            Action::Continuous(numbers) => Action::Continuous(numbers.within(&self.action)),
        }
    }
}

/// The intervals of `low` and `high`, `count` numbers each; none unless low <= high. `open`: null is no bound.
fn intervals(value: Option<&Value>, count: usize, open: bool) -> Option<Vec<Interval>> {
    let ends = value?.as_object()?;
    let numbers = |key: &str, none: f32| -> Option<Vec<f32>> {
        let number = |x: &Value| {
            if open && x.is_null() {
                return Some(none);
            }
            x.as_f64().map(|x| x as f32).filter(|x| x.is_finite())
        };
        ends.get(key)?.as_array()?.iter().map(number).collect()
    };
    let (low, high) = numbers("low", f32::NEG_INFINITY).zip(numbers("high", f32::INFINITY))?;
    let fit = ends.len() == 2 && low.len() == count && high.len() == count;
    let intervals: Vec<Interval> = low.into_iter().zip(high).collect();
    (fit && intervals.iter().all(|(low, high)| low <= high)).then_some(intervals)
}

/// Returns the index of the nearest value within the bound for each of `actions`, of equally near ones the first. Empty if
/// no value is.
fn instead(actions: &[f32], (low, high): Interval) -> Vec<u32> {
    let distance = |a: f32, b: f32| (f64::from(a) - f64::from(b)).abs();
    let allowed = || actions.iter().enumerate().filter(|(_, x)| (low..=high).contains(*x));
    let nearest = |x: &f32| allowed().min_by(|a, b| distance(*a.1, *x).total_cmp(&distance(*b.1, *x)));
    actions.iter().filter_map(|x| nearest(x).map(|(index, _)| index as u32)).collect()
}

impl Numbers {
    /// Holds each number to its interval.
    fn within(self, intervals: &[Interval]) -> Self {
        let mut held = self;
        held.iter_mut().zip(intervals).for_each(|(x, (low, high))| *x = x.max(*low).min(*high));
        held
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guard(text: &str, actions: &[f32], bounds: &[Interval]) -> Result<Guard, String> {
        Guard::parse(text, 2, actions, bounds).map_err(|e| e.to_string())
    }

    const BOX: &str = r#""observation": {"low": [0, null], "high": [2, 3.5]}"#;

    #[test]
    fn an_observation_outside_the_box_trips_it() {
        let guard =
            guard(&format!(r#"{{{BOX}, "action": {{"low": [-1], "high": [0.5]}}}}"#), &[], &[(-2.0, 2.0)]).unwrap();
        assert_eq!(guard.observation(), [(0.0, 2.0), (f32::NEG_INFINITY, 3.5)]);
        assert!(!guard.is_tripped(&[0.0, -1e30]) && !guard.is_tripped(&[2.0, 3.5]));
        for outside in [[-0.1, 0.0], [2.1, 0.0], [1.0, 3.6], [f32::NAN, 0.0]] {
            assert!(guard.is_tripped(&outside), "{outside:?}");
        }
    }

    #[test]
    fn actions_are_held_to_the_bound() {
        let text = format!(r#"{{{BOX}, "action": {{"low": [-1, 0], "high": [0.5, 0]}}}}"#);
        let both = guard(&text, &[], &[(-2.0, 2.0), (-1.0, 1.0)]).unwrap();
        let held = |numbers: &[f32]| both.bounded(Action::Continuous(Numbers::of(numbers)));
        assert_eq!(held(&[2.0, 1.0]), Action::Continuous(Numbers::of(&[0.5, 0.0])));
        assert_eq!(held(&[-0.25, 0.0]), Action::Continuous(Numbers::of(&[-0.25, 0.0])));
        let text = format!(r#"{{{BOX}, "action": {{"low": [2], "high": [5]}}}}"#);
        let one_of = guard(&text, &[1.0, 4.0, 2.0, 9.0], &[]).unwrap();
        assert_eq!(one_of.instead(), [2, 1, 2, 1]);
        assert_eq!(one_of.bounded(Action::Discrete(3)), Action::Discrete(1));
    }

    #[test]
    fn a_guard_that_does_not_fit_is_refused() {
        let action = r#""action": {"low": [0], "high": [1]}"#;
        for (text, bounds) in [
            ("x".to_string(), (-2.0, 2.0)),
            ("{}".into(), (-2.0, 2.0)),
            (format!("{{{BOX}}}"), (-2.0, 2.0)),
            (format!(r#"{{{BOX}, {action}, "more": 1}}"#), (-2.0, 2.0)),
            (format!(r#"{{"observation": {{"low": [0], "high": [1]}}, {action}}}"#), (-2.0, 2.0)),
            (format!(r#"{{"observation": {{"low": [0, 1], "high": [1, 0]}}, {action}}}"#), (-2.0, 2.0)),
            (format!(r#"{{{BOX}, "action": {{"low": [null], "high": [1]}}}}"#), (-2.0, 2.0)),
            (format!(r#"{{{BOX}, "action": {{"low": [0], "high": [1e39]}}}}"#), (-2.0, 2.0)),
            (format!("{{{BOX}, {action}}}"), (2.0, 3.0)),
        ] {
            let error = guard(&text, &[], &[bounds]).unwrap_err();
            assert!(error.contains("metadata `guard`") && error.contains("2 finite numbers or null"), "{error}");
        }
        let error = guard(&format!("{{{BOX}, {action}}}"), &[2.0, 3.0], &[]).unwrap_err();
        assert!(error.contains("with an action of the policy between them"), "{error}");
    }
}
