//! Worlds: the same whatever the threads and the batch, restored exactly, and moved by no bad action.
#![expect(clippy::unwrap_used, reason = "a test that fails panics; clippy.toml exempts test functions, not helpers")]

use ccarena_cc::ActionError;
use ccarena_sim::rewards::{Column, ColumnReward, Reward};
use ccarena_sim::{Domain, Source, StepOut, WorldError, Worlds};
use serde_json::json;

fn source() -> Source {
    let domain: Domain = serde_json::from_value(json!({
        "episode_s": [0.5, 2.0],
        "link": {
            "kinds": {"constant": 1, "random_steps": 1, "cellular": 1},
            "rate_mbps": [2, 40], "step_s": [0.2, 1], "presets": ["lte-driving"], "traces": [], "rtt_ms": [10, 80],
            "buffer_bdp": [0.5, 3], "buffer_packets": null, "loss": [0, 0.02], "signal": 0.8, "router_headroom": 1,
        },
        "cross_traffic": {"probability": 0.5, "schemes": ["cubic", "bbr"], "flows": [1, 2]},
        "learner": {"scheme": "acct", "desired_mbps": 10000},
    }))
    .unwrap();
    Source::Domain(Box::new(domain))
}

struct Batch {
    worlds: Worlds,
    observations: Vec<f32>,
    reports: Vec<f32>,
    truncated: Vec<bool>,
    last: Vec<f32>,
    rewards: Vec<f32>,
    intervals_s: Vec<f32>,
    /// Rows whose next step begins an episode; empty if episodes follow in the same step.
    held: Vec<bool>,
    step: u32,
}

/// A reward of a report alone: the alpha in force less ten times the lost packets, in the green zone.
fn reward(worlds: &Worlds) -> ColumnReward {
    let column = |name| worlds.interface().report.iter().position(|column| column == name).unwrap();
    let columns = ["zone", "alpha", "previous_alpha", "delay_ratio", "lost_packets"];
    let actions = worlds.interface().actions.iter().map(|&action| f64::from(action)).collect();
    let reward = Reward::find("acct", &[10.0, 1.0, 10.0], actions).unwrap();
    ColumnReward::new(reward, columns.map(|name| Column::Report(column(name))).to_vec()).unwrap()
}

impl Batch {
    fn new(count: usize, seed: u64, threads: usize) -> Self {
        let mut worlds = Worlds::new(source(), count, seed, threads, 1).unwrap();
        let (width, report) = (worlds.interface().observation_len, worlds.interface().report.len());
        let mut observations = vec![0.0; count * width];
        worlds.reset(None, &mut observations).unwrap();
        Self {
            worlds,
            observations,
            reports: vec![0.0; count * report],
            truncated: vec![false; count],
            last: vec![0.0; count * width],
            rewards: vec![0.0; count],
            intervals_s: vec![0.0; count],
            held: Vec::new(),
            step: 0,
        }
    }

    /// Steps with actions that depend on world and step only.
    fn step(&mut self) {
        let actions: Vec<f32> =
            (0..self.truncated.len() as u32).map(|w| ((w * 7 + self.step * 3) % 15) as f32).collect();
        self.step += 1;
        self.try_step(&actions).unwrap();
    }

    fn try_step(&mut self, actions: &[f32]) -> Result<(), WorldError> {
        let out = StepOut {
            observations: &mut self.observations,
            reports: &mut self.reports,
            intervals_s: &mut self.intervals_s,
            rewards: &mut self.rewards,
            truncated: &mut self.truncated,
            final_observations: &mut self.last,
            held: &mut self.held,
            ..StepOut::default()
        };
        let reward = reward(&self.worlds);
        self.worlds.step(actions, Some(&reward), out)
    }

    /// The rows of world number `world` among observations or reports.
    fn row<'a>(&self, array: &'a [f32], world: usize) -> &'a [f32] {
        let width = array.len() / self.truncated.len();
        &array[world * width..(world + 1) * width]
    }

    /// Returns as bits all that a step of the first `count` worlds wrote.
    fn bits(&self, count: usize) -> Vec<u32> {
        let n = self.truncated.len();
        let rows = |v: &[f32]| v[..v.len() / n * count].iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        let [observations, reports] = [&self.observations, &self.reports].map(|array| rows(array));
        let [rewards, intervals] = [&self.rewards, &self.intervals_s].map(|array| rows(array));
        [observations, reports, rewards, intervals, self.truncated[..count].iter().map(|&t| u32::from(t)).collect()]
            .concat()
    }
}

#[test]
fn threads_and_batch_size_change_nothing() {
    let mut batches = [Batch::new(12, 5, 1), Batch::new(12, 5, 2), Batch::new(3, 5, 2)];
    let mut episodes_ended = 0;
    for step in 0..150 {
        for batch in &mut batches {
            batch.step();
        }
        assert_eq!(batches[0].bits(12), batches[1].bits(12), "step {step}: 1 and 2 threads");
        assert_eq!(batches[0].bits(3), batches[2].bits(3), "step {step}: 12 and 3 worlds");
        episodes_ended += batches[0].truncated.iter().filter(|&&t| t).count();
    }
    assert!(episodes_ended > 12, "{episodes_ended} episodes ended");
}

#[test]
fn a_restored_run_goes_on_as_if_uninterrupted() {
    let mut original = Batch::new(6, 9, 2);
    for _ in 0..70 {
        original.step();
    }
    let state = original.worlds.state();
    let mut restored = Batch::new(6, 1, 1);
    restored.worlds.restore(&state, &mut restored.observations).unwrap();
    restored.step = original.step;
    assert_eq!(original.observations, restored.observations);
    for step in 0..70 {
        original.step();
        restored.step();
        assert_eq!(original.bits(6), restored.bits(6), "step {step} after the restoration");
    }
}

#[test]
fn held_rows_begin_their_episode_in_the_next_step() {
    let runs: Vec<Vec<Vec<u32>>> = [1, 2, 3].map(next_step_run).to_vec();
    assert!(runs[0] == runs[1] && runs[0] == runs[2], "threads change nothing");
    let mut batch = Batch::new(2, 5, 1);
    batch.held = vec![false];
    assert!(matches!(batch.try_step(&[1.0, 2.0]), Err(WorldError::Length { name: "held", found: 1, expected: 2 })));
}

/// Steps worlds whose episodes begin in the next step beside ones whose episodes follow at once, and compares them. Returns
/// what each step wrote.
fn next_step_run(threads: usize) -> Vec<Vec<u32>> {
    let (mut batch, mut at_once) = (Batch::new(3, 5, threads), Batch::new(3, 5, 1));
    batch.held = vec![false; 3];
    let (mut steps, mut held_rows) = (Vec::new(), 0);
    for k in 0..120 {
        let (held, actions) = (batch.held.clone(), [1.0, 2.0, (k % 15) as f32]);
        // A world on hold does not move: the other one catches up.
        let state = batch.worlds.state();
        batch.try_step(&actions).unwrap();
        if held.contains(&true) {
            held_rows += held.iter().filter(|held| **held).count();
            for world in (0..3).filter(|&world| held[world]) {
                assert!(!batch.held[world] && !batch.truncated[world]);
                assert!(batch.row(&batch.reports, world).iter().all(|x| *x == 0.0));
                assert_eq!((batch.rewards[world], batch.intervals_s[world]), (0.0, 0.0));
            }
            assert!(held != [true; 3] || state == batch.worlds.state());
            at_once.worlds.restore(&batch.worlds.state(), &mut at_once.observations).unwrap();
            for world in (0..3).filter(|&world| !batch.held[world]) {
                let shown = batch.row(&batch.observations, world);
                assert_eq!(
                    shown,
                    batch.row(&at_once.observations, world),
                    "the new episode's first, or as without a hold"
                );
            }
        } else {
            at_once.try_step(&actions).unwrap();
            assert_eq!(batch.truncated, at_once.truncated);
            assert_eq!(batch.held, batch.truncated);
            assert_eq!((&batch.reports, &batch.rewards), (&at_once.reports, &at_once.rewards));
            for world in 0..3 {
                let shown = if batch.held[world] { &at_once.last } else { &at_once.observations };
                assert_eq!(batch.row(&batch.observations, world), batch.row(shown, world));
            }
        }
        steps.push(batch.bits(3));
    }
    assert!(held_rows > 3, "{held_rows} rows were held");
    steps
}

#[test]
fn an_episode_ends_after_the_most_decisions() {
    let mut batch = Batch::new(2, 5, 1);
    batch.worlds.limit_episodes(3);
    let ends: Vec<bool> = (0..9)
        .map(|_| {
            batch.step();
            batch.truncated[0] && batch.truncated[1]
        })
        .collect();
    assert_eq!(ends, [false, false, true, false, false, true, false, false, true]);
}

#[test]
fn bad_actions_are_refused_and_move_no_world() {
    let mut batch = Batch::new(4, 3, 2);
    batch.step();
    let (state, bits) = (batch.worlds.state(), batch.bits(4));
    for bad in [f32::NAN, f32::INFINITY, -1.0, 15.0, 0.5] {
        match batch.try_step(&[1.0, 2.0, 3.0, bad]) {
            Err(WorldError::Action { index: 3, source: ActionError::NotFinite(_) }) => assert!(!bad.is_finite()),
            Err(WorldError::Action { index: 3, source: ActionError::OutOfRange { .. } }) => assert!(bad.is_finite()),
            other => panic!("{bad}: {other:?}"),
        }
    }
    assert_eq!((state, bits), (batch.worlds.state(), batch.bits(4)));
    batch.step();
}

#[test]
fn states_that_do_not_fit_are_refused() {
    let mut batch = Batch::new(2, 3, 1);
    batch.step();
    let state = batch.worlds.state();
    let mut longer = state.clone();
    longer.push(0);
    for bad in [&state[..state.len() - 1], &[], &longer] {
        let error = batch.worlds.restore(bad, &mut batch.observations).unwrap_err();
        assert!(error.to_string().starts_with("saved environment state: "), "{error}");
    }
}

#[test]
fn continuous_actions_are_numbers_within_the_bounds() {
    let scenario = json!({
        "duration_s": 2,
        "links": [{"service": {"type": "constant", "rate_mbps": 12}, "delay_ms": 10}],
        "flows": [{"scheme": "orca", "base_rtt_ms": 20}],
    });
    let scenario = Box::new(ccarena_net::Scenario::from_json(&scenario).unwrap());
    let mut worlds = Worlds::new(Source::Scenario(scenario), 2, 1, 1, 1).unwrap();
    let (width, report) = (worlds.interface().observation_len, worlds.interface().report.len());
    let step = |worlds: &mut Worlds, actions: &[f32]| {
        let (mut observations, mut reports) = (vec![0.0; 2 * width], vec![0.0; 2 * report]);
        let out = StepOut {
            observations: &mut observations,
            reports: &mut reports,
            truncated: &mut [false; 2],
            final_observations: &mut vec![0.0; 2 * width],
            ..StepOut::default()
        };
        worlds.step(actions, None, out)
    };
    step(&mut worlds, &[-2.0, 0.3]).unwrap();
    let state = worlds.state();
    for bad in [-2.1, 2.1, f32::NAN] {
        assert!(matches!(step(&mut worlds, &[0.0, bad]), Err(WorldError::Action { index: 1, .. })), "{bad}");
    }
    assert_eq!(worlds.state(), state, "no world has moved");
}
