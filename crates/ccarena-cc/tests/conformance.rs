//! What every registered scheme promises, whatever the transport reports.
#![expect(clippy::unwrap_used, reason = "a test that fails panics; clippy.toml exempts test functions, not helpers")]

mod common;

use ccarena_cc::{Action, ActionError, BuildError, Config, Rate, Requirement, Scheme, all_schemes, build};
use common::{Flow, operation};
use proptest::prelude::*;

/// Any parameters within their bounds, as fractions of them.
fn config(scheme: &Scheme, fractions: &[f64], slow_start: bool, initial_window: u32) -> Config {
    let value = |(p, f): (&ccarena_cc::Param, &f64)| (p.name.to_string(), p.min + f * (p.max - p.min));
    let params = scheme.params.iter().zip(fractions.iter().cycle()).map(value).collect();
    let weight = 0.501 + 20.0 * fractions[0];
    let min = Rate::from_mbps(100.0 * fractions[1]);
    let requirement = (fractions[2] > 0.3).then(|| Requirement { min, max: min + Rate::from_mbps(1.0 + fractions[3]) });
    let feedback = scheme.feedback;
    Config { params, slow_start, initial_window, seed: 5, weight, requirement, feedback, ..Config::default() }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn invariants_hold_after_every_operation_and_results_repeat(
        operations in prop::collection::vec(operation(), 1..400),
        fractions in prop::collection::vec(0.0..=1.0, 4),
        slow_start: bool,
        initial_window in 1_u32..200,
    ) {
        for scheme in all_schemes() {
            let config = config(scheme, &fractions, slow_start, initial_window);
            let mut flow = Flow::new(build(scheme.name, &config).unwrap());
            let mut twin = Flow::new(build(scheme.name, &config).unwrap());
            for operation in &operations {
                flow.apply(operation);
                twin.apply(operation);
                let outcome = flow.check().map_err(|e| TestCaseError::fail(format!("{}: {e}", scheme.name)))?;
                prop_assert_eq!(outcome, twin.check()?, "{} does not repeat", scheme.name);
                let learned = flow.learned();
                prop_assert!(learned.iter().all(|x| x.is_finite()), "{}: {:?}", scheme.name, learned);
                prop_assert_eq!(learned, twin.learned());
            }
        }
    }

    #[test]
    fn a_refused_action_changes_nothing(
        operations in prop::collection::vec(operation(), 1..100),
        index in 15_u32..,
    ) {
        for scheme in all_schemes().iter().filter(|s| s.learned) {
            let mut flow = Flow::new(build(scheme.name, &Config::default()).unwrap());
            let mut twin = Flow::new(build(scheme.name, &Config::default()).unwrap());
            for operation in &operations {
                flow.apply(operation);
                twin.apply(operation);
                refuse_bad_actions(&mut flow, index);
                prop_assert_eq!(flow.check()?, twin.check()?);
                prop_assert_eq!(flow.learned(), twin.learned());
            }
        }
    }
}

fn refuse_bad_actions(flow: &mut Flow, index: u32) {
    let now = flow.now;
    let learned = flow.controller.learned().unwrap();
    let interface = std::sync::Arc::clone(learned.interface());
    let mut act = |action| learned.act(action, now).unwrap_err();
    if interface.actions.is_empty() {
        assert_eq!(act(Action::Discrete(0)), ActionError::WrongKind { expected: "continuous" });
        assert!(matches!(act(Action::Continuous(f32::NAN.into())), ActionError::NotFinite(_)));
        assert!(matches!(act(Action::Continuous(f32::INFINITY.into())), ActionError::NotFinite(_)));
        assert!(matches!(
            act(Action::Continuous((interface.bounds[0].1 + 1.0).into())),
            ActionError::OutOfRange { .. }
        ));
    } else {
        assert_eq!(act(Action::Continuous(f32::NAN.into())), ActionError::WrongKind { expected: "discrete" });
        let error = act(Action::Discrete(index.max(interface.actions.len() as u32)));
        assert!(matches!(error, ActionError::OutOfRange { .. }), "{error}");
    }
}

#[test]
fn names_are_unique_sorted_and_found() {
    let names: Vec<_> = all_schemes().iter().map(|s| s.name).collect();
    assert!(names.is_sorted_by(|a, b| a < b), "{names:?}");
    for scheme in all_schemes() {
        let mut built = build(scheme.name, &Config::default()).unwrap();
        assert_eq!(built.learned().is_some(), scheme.learned, "{}", scheme.name);
        assert!(!scheme.summary.is_empty());
    }
    let error = build("cubik", &Config::default()).err().unwrap();
    assert_eq!(error.to_string(), r#"unknown scheme "cubik"; did you mean "cubic"?"#);
}

#[test]
fn learned_schemes_say_what_they_observe() {
    for scheme in all_schemes().iter().filter(|s| s.learned) {
        let mut built = build(scheme.name, &Config::default()).unwrap();
        let interface = built.learned().unwrap().interface();
        let total: usize = interface.observation.iter().map(|entry| entry.length).sum();
        assert_eq!(total, interface.observation_len, "{}", scheme.name);
        assert!(interface.bounds.iter().all(|(low, high)| low < high), "{}", scheme.name);
    }
}

#[test]
fn parameters_that_a_scheme_does_not_take_are_refused() {
    for scheme in all_schemes() {
        let with = |name: &str, value: f64| {
            build(scheme.name, &Config { params: [(name.to_string(), value)].into(), ..Config::default() }).err()
        };
        assert!(matches!(with("no_such_parameter", 1.0), Some(BuildError::UnknownParam { .. })), "{}", scheme.name);
        for p in scheme.params {
            assert!((p.min..=p.max).contains(&p.default), "{}.{}", scheme.name, p.name);
            assert!(!p.doc.is_empty());
            for value in [p.min, p.default, p.max] {
                assert_eq!(with(p.name, value), None);
            }
            for value in [p.min - 1.0, p.max * 2.0 + 1.0, f64::NAN, f64::INFINITY] {
                let error = with(p.name, value);
                assert!(matches!(error, Some(BuildError::OutOfRange { .. })), "{}.{} = {value}", scheme.name, p.name);
            }
        }
    }
}
