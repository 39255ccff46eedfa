//! Worlds: the same whatever the threads and the batch, restored exactly, and moved by no bad action.
#![expect(clippy::unwrap_used, reason = "a test that fails panics; clippy.toml exempts test functions, not helpers")]

use ccarena_cc::ActionError;
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
    step: u32,
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
            truncated: &mut self.truncated,
            final_observations: &mut self.last,
            privileged: &mut [],
        };
        self.worlds.step(actions, out)
    }

    /// The first `count` worlds' observations and reports, as bits.
    fn bits(&self, count: usize) -> Vec<u32> {
        let n = self.truncated.len();
        let rows = |v: &[f32]| v[..v.len() / n * count].iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        [rows(&self.observations), rows(&self.reports), self.truncated[..count].iter().map(|&t| u32::from(t)).collect()]
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
fn held_worlds_stay_where_they_are() {
    let (mut batch, mut alone) = (Batch::new(3, 5, 2), Batch::new(3, 5, 1));
    batch.step();
    alone.step();
    let (state, before) = (batch.worlds.state(), batch.bits(3));
    let actions = [1.0, 2.0, 3.0];
    let out = |b: &mut Batch, held: &[bool]| {
        let out = StepOut {
            observations: &mut b.observations,
            reports: &mut b.reports,
            truncated: &mut b.truncated,
            final_observations: &mut b.last,
            privileged: &mut [],
        };
        b.worlds.step_others(&actions, held, out)
    };
    out(&mut batch, &[true; 3]).unwrap();
    assert_eq!((batch.worlds.state(), batch.bits(3)), (state, before.clone()), "nobody has moved");
    out(&mut batch, &[false, true, true]).unwrap();
    out(&mut alone, &[]).unwrap();
    assert_eq!(batch.bits(1), alone.bits(1), "the first world has moved as without the others");
    assert_ne!(batch.bits(3), alone.bits(3));
    out(&mut batch, &[true, false, false]).unwrap();
    assert_eq!(batch.bits(3), alone.bits(3), "and now the others");
    assert!(matches!(out(&mut batch, &[true]), Err(WorldError::Length { name: "held", .. })));
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
            privileged: &mut [],
        };
        worlds.step(actions, out)
    };
    step(&mut worlds, &[-2.0, 0.3]).unwrap();
    let state = worlds.state();
    for bad in [-2.1, 2.1, f32::NAN] {
        assert!(matches!(step(&mut worlds, &[0.0, bad]), Err(WorldError::Action { index: 1, .. })), "{bad}");
    }
    assert_eq!(worlds.state(), state, "no world has moved");
}
