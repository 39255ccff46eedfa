//! Decisions from made-up results.

use super::super::utility::{Gate, Terms};
use super::super::variant::{HERCULES, USPACE};
use super::*;

const TERMS: Terms = Terms {
    loss: 11.35,
    latency: 25.0,
    deviation_per_us: 0.0,
    gate: Gate::Open,
    gradient_threshold: 0.02,
    deviation_threshold_us: 500.0,
    spares_decreases: true,
    measured_rate: false,
    requirement: None,
    requirement_scales_loss: false,
    requirement_at_nominal_rate: false,
};

fn limits(pairs: usize, votes_up: usize, votes_down: usize) -> Limits {
    Limits { initial_bps: 10e6, start_cap_bps: None, ceiling_bps: None, pairs, votes_up, votes_down }
}

/// A control and a made-up path that charges `losses` for a rate.
struct Trial {
    control: RateControl,
    utility: Utility,
}

impl Trial {
    fn new(variant: Variant, limits: Limits, starting: bool) -> Self {
        let terms = Terms { spares_decreases: variant.asymmetric, ..TERMS };
        Self { control: RateControl::new(limits, variant, starting, 7), utility: Utility::new(terms) }
    }

    /// One decision; `worth` gives the outcome of each trial.
    fn decide(&mut self, worth: impl Fn(usize, Statistics) -> Statistics) -> f64 {
        let mut results = Vec::new();
        while let Some((rate, increase)) = self.control.next_trial(results.len()) {
            results.push(worth(
                results.len() / 2,
                Statistics { rate, sent_rate: rate, increase, ..Statistics::default() },
            ));
        }
        self.control.decide(&results, &mut self.utility);
        self.control.rate()
    }

    /// One decision where each pair of probes votes as given.
    fn vote(&mut self, ups: &[bool]) -> f64 {
        self.decide(|pair, s| Statistics { loss: if s.increase == ups[pair] { 0.0 } else { 0.5 }, ..s })
    }
}

fn near(value: f64, expected: f64) -> bool {
    (value / expected - 1.0).abs() < 1e-9
}

#[test]
fn starting_doubles_and_goes_back() {
    let free = |_, s| s;
    let lossy = |_, s| Statistics { loss: 0.5, ..s };
    let mut hercules = Trial::new(HERCULES, limits(2, 2, 2), true);
    assert!(near(hercules.decide(free), 20e6) && near(hercules.decide(free), 40e6));
    assert!(near(hercules.decide(lossy), 20e6) && !hercules.control.is_starting());
    let mut uspace = Trial::new(USPACE, limits(3, 2, 3), true);
    assert!(near(uspace.decide(free), 20e6) && near(uspace.decide(lossy), 10e6));
    let mut undoubled = Trial::new(HERCULES, limits(2, 2, 2), true);
    assert!(near(undoubled.decide(lossy), 10e6));
}

#[test]
fn starting_stops_at_its_cap() {
    let capped = Limits { start_cap_bps: Some(15.9e6), ..limits(2, 2, 2) };
    let mut trial = Trial::new(HERCULES, capped, true);
    assert!(near(trial.decide(|_, s| s), 15.9e6) && trial.control.is_starting());
    assert!(near(trial.decide(|_, s| s), 15.9e6) && !trial.control.is_starting());
}

#[test]
fn inflation_ends_starting() {
    let hercules = Trial::new(HERCULES, limits(2, 2, 2), true).control;
    assert!(hercules.inflated(40e3, 31e3, 1e3, 20e3));
    assert!(!hercules.inflated(40e3, 29e3, 1e3, 20e3), "within half");
    assert!(!hercules.inflated(30e3, 31e3, 1e3, 20e3), "falling");
    let uspace = Trial::new(USPACE, limits(3, 2, 3), true).control;
    assert!(uspace.inflated(40e3, 25e3, 1e3, 20e3));
    assert!(!uspace.inflated(40e3, 25e3, 10e3, 20e3), "RTTs vary");
    assert!(!uspace.inflated(21e3, 20.1e3, 0.0, 20e3), "by less than a timer's granularity");
}

#[test]
fn probes_come_in_pairs_around_the_centre() {
    let mut control = Trial::new(HERCULES, limits(3, 2, 2), false).control;
    let mut orders = [0, 0];
    for _ in 0..200 {
        for pair in 0..3 {
            let trials = [control.next_trial(2 * pair).unwrap(), control.next_trial(2 * pair + 1).unwrap()];
            assert_ne!(trials[0].1, trials[1].1);
            for (rate, up) in trials {
                assert!(near(rate, if up { 10.5e6 } else { 9.5e6 }));
            }
            orders[usize::from(trials[0].1)] += 1;
        }
        assert_eq!(control.next_trial(6), None);
    }
    assert!(orders.iter().all(|&n| n > 240), "{orders:?}");
}

#[test]
fn votes_decide() {
    let moved = |variant, limits, ups: &[bool]| {
        let rate = Trial::new(variant, limits, false).vote(ups);
        if near(rate, 10e6) { 0.0 } else { (rate - 10e6).signum() }
    };
    let cases: [(Limits, &[bool], f64); 11] = [
        (limits(2, 2, 2), &[true, true], 1.0),
        (limits(2, 2, 2), &[true, false], 0.0),
        (limits(2, 2, 2), &[false, false], -1.0),
        (limits(3, 2, 2), &[true, false, true], 1.0),
        (limits(3, 2, 2), &[true, false, false], -1.0),
        (limits(3, 2, 2), &[false, false, false], -1.0),
        (limits(3, 2, 3), &[true, false, true], 1.0),
        (limits(3, 2, 3), &[true, true, true], 1.0),
        (limits(3, 2, 3), &[true, false, false], 0.0),
        (limits(3, 2, 3), &[false, true, false], 0.0),
        (limits(3, 2, 3), &[false, false, false], -1.0),
    ];
    for (limits, ups, direction) in cases {
        assert!((moved(HERCULES, limits, ups) - direction).abs() < 0.5, "{limits:?} {ups:?}");
    }
}

#[test]
fn too_few_results_decide_nothing() {
    let mut trial = Trial::new(HERCULES, limits(2, 2, 2), false);
    let (rate, increase) = trial.control.next_trial(0).unwrap();
    let result = Statistics { rate, sent_rate: rate, increase, ..Statistics::default() };
    trial.control.decide(&[result; 3], &mut trial.utility);
    assert!(near(trial.control.rate(), 10e6));
}

#[test]
fn the_first_move_is_from_the_winning_probe() {
    // The bound binds: 5 % beyond the probe's 5 %.
    assert!(near(Trial::new(HERCULES, limits(2, 2, 2), false).vote(&[true, true]), 10e6 * 1.05 * 1.05));
    assert!(near(Trial::new(HERCULES, limits(2, 2, 2), false).vote(&[false, false]), 10e6 * 0.95 * 0.95));
}

#[test]
fn moving_goes_on_while_it_pays_and_one_step_back_when_not() {
    let mut trial = Trial::new(HERCULES, limits(2, 2, 2), false);
    let first = trial.vote(&[true, true]);
    let second = trial.decide(|_, s| s);
    assert!(second > first);
    let third = trial.decide(|_, s| s);
    assert!(third > second);
    assert!(near(trial.decide(|_, s| Statistics { loss: 0.5, ..s }), second));
    assert_eq!(trial.control.mode, Mode::Probing);

    let mut uspace = Trial::new(USPACE, limits(3, 2, 3), false);
    let first = uspace.vote(&[true; 3]);
    // A steep fall of the utility undoes as large a step as the bound allows.
    let back = uspace.decide(|_, s| Statistics { loss: 0.5, ..s });
    assert!(back < first && uspace.control.mode == Mode::Probing, "{back}");
}

#[test]
fn descent_goes_on_while_there_is_latency_to_shed() {
    let mut trial = Trial::new(HERCULES, limits(2, 2, 2), false);
    let congested = |_, s| Statistics { gradient: 0.1, samples: 50, ..s };
    // Both probes see the queue grow; the lower one is spared the charge and wins.
    let mut rate = trial.decide(congested);
    for _ in 0..4 {
        let next = trial.decide(congested);
        assert!(next < rate, "{next} after {rate}");
        rate = next;
    }
    // The queue shrinks: once more it pays, compared with what the last interval would have been charged, then no more.
    assert!(trial.decide(|_, s| s) < rate);
    let lowest = trial.control.rate();
    assert!(trial.decide(|_, s| s) > lowest);
    assert_eq!(trial.control.mode, Mode::Probing);
}

#[test]
fn ceiling_and_floor_stop_moves() {
    let bounded = Limits { ceiling_bps: Some(10.6e6), ..limits(2, 2, 2) };
    let mut trial = Trial::new(HERCULES, bounded, false);
    assert!(near(trial.vote(&[true, true]), 10.6e6) && trial.control.mode == Mode::Probing);
    assert!(near(trial.vote(&[true, true]), 10.6e6) && trial.control.mode == Mode::Probing);

    let small = Limits { initial_bps: 5.2e3, ..limits(2, 2, 2) };
    let mut trial = Trial::new(HERCULES, small, false);
    assert!(near(trial.vote(&[false, false]), 5e3) && trial.control.mode == Mode::Probing);
    assert!(near(trial.vote(&[true, false]), 5e3));
    assert!(trial.control.is_starting(), "a flow at the floor starts anew");
}
