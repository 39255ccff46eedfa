//! Documents in the simulator: timers that need no acknowledgements, several learners, and privileged state.
#![expect(clippy::unwrap_used, reason = "a test that fails panics; clippy.toml exempts test functions, not helpers")]

use std::sync::Arc;

use ccarena_net::Scenario;
use ccarena_sim::{Domain, PRIVILEGED, Source, StepOut, World, WorldError, Worlds};
use serde_json::{Value, json};

fn document(clock: Value, act: Value, base: &str) -> Value {
    json!({
        "learned": 1, "name": "own", "clock": clock, "act": act, "base": base,
        "observe": {"history": 2, "signals": ["throughput_mbps", "since_ack_ms", "cwnd_packets"]},
        "report": ["interval_ms", "acked_packets", "since_ack_ms", "time_s", "last_action"],
    })
}

fn timer(ms: f64) -> Value {
    document(json!({"kind": "timer", "period_ms": ms}), json!({"kind": "window", "bounds": [2, 500]}), "none")
}

fn source(scenario: Value) -> Arc<Source> {
    Arc::new(Source::Scenario(Box::new(Scenario::from_json(&scenario).unwrap())))
}

/// Steps with one action; the last report.
fn step(world: &mut World, actions: &[f32]) -> (Vec<f32>, bool) {
    let mut report = Vec::new();
    let over = world.step(actions, |_, row| report = row.to_vec()).unwrap();
    (report, over)
}

#[test]
fn a_timer_decides_during_an_outage() {
    let mut world = World::new(
        source(json!({
            "duration_s": 3,
            "links": [{"service": {"type": "steps", "steps": [
                {"at_s": 0, "rate_mbps": 12}, {"at_s": 1, "rate_mbps": 0}, {"at_s": 2, "rate_mbps": 12}]}, "delay_ms": 10}],
            "flows": [{"scheme": timer(20.0)}],
        })),
        1,
        0,
    )
    .unwrap();
    let (mut decisions, mut longest) = (0, 0.0_f32);
    let last_s = loop {
        let (report, over) = step(&mut world, &[20.0]);
        decisions += 1;
        assert!((report[0] - 20.0).abs() < 1e-3, "interval {} ms at decision {decisions}", report[0]);
        longest = longest.max(report[2]);
        if over {
            break report[3];
        }
    };
    assert_eq!(decisions, 150, "one per 20 ms of 3 s");
    assert!(longest > 900.0, "{longest} ms without an acknowledgement");
    assert!((last_s - 3.0).abs() < 1e-3, "{last_s}");
}

#[test]
fn an_action_of_a_timer_takes_effect_at_once() {
    let mut world = World::new(
        source(json!({
            "duration_s": 2,
            "links": [{"service": {"type": "constant", "rate_mbps": 100}, "delay_ms": 10}],
            "flows": [{"scheme": timer(100.0)}],
        })),
        1,
        0,
    )
    .unwrap();
    let mut acked = Vec::new();
    for window in [10.0, 10.0, 10.0, 40.0, 40.0] {
        acked.push(step(&mut world, &[window]).0[1]);
    }
    // Five round trips of a window each, but for the first, which has no acknowledgement in its first 20 ms.
    assert!((acked[2] - 50.0).abs() <= 10.0 && (acked[4] - 200.0).abs() <= 40.0, "{acked:?}");
}

#[test]
fn privileged_state_has_capacity_queue_competitors_and_fairness() {
    let fixed =
        document(json!({"kind": "fixed", "period_ms": 100}), json!({"kind": "window", "bounds": [2, 500]}), "none");
    let mut world = World::new(
        source(json!({
            "duration_s": 20,
            "links": [{"service": {"type": "constant", "rate_mbps": 12}, "delay_ms": 10, "queue": {"type": "infinite"}}],
            "flows": [{"scheme": fixed}, {"scheme": "fixed", "params": {"window": 60}, "start_s": 5}],
        })),
        1,
        0,
    )
    .unwrap();
    let column = |row: &[f32], name: &str| f64::from(row[PRIVILEGED.iter().position(|n| *n == name).unwrap()]);
    let mut privileged = vec![0.0; PRIVILEGED.len()];
    let mut run = |world: &mut World, steps: usize| {
        for _ in 0..steps {
            let before = world.before();
            step(world, &[60.0]);
            world.write_privileged(&before, 0, &mut privileged);
        }
        privileged.clone()
    };
    // 60 packets of 1500 bytes, of which 20 fill the path: the link is full, and 40 wait, 1 ms each.
    let alone = run(&mut world, 30);
    assert!((column(&alone, "capacity_mbps") - 12.0).abs() < 0.2, "{alone:?}");
    assert!((column(&alone, "own_mbps") - 12.0).abs() < 0.3, "{alone:?}");
    assert!((column(&alone, "queue_packets") - 40.0).abs() <= 2.0, "{alone:?}");
    assert!((column(&alone, "queue_ms") - 40.0).abs() <= 2.0, "{alone:?}");
    assert!(
        (column(&alone, "flows") - 1.0).abs() < 1e-9 && column(&alone, "competitors_mbps").abs() < 1e-9,
        "{alone:?}"
    );
    assert!((column(&alone, "jain") - 1.0).abs() < 1e-6 && (column(&alone, "base_rtt_ms") - 20.0).abs() < 1e-3);
    // The other one has the same window, so they share alike.
    let shared = run(&mut world, 100);
    assert!((column(&shared, "flows") - 2.0).abs() < 1e-9, "{shared:?}");
    assert!((column(&shared, "fair_share_mbps") - 6.0).abs() < 0.1, "{shared:?}");
    assert!((column(&shared, "competitors_mbps") - 6.0).abs() < 0.6, "{shared:?}");
    assert!(column(&shared, "jain") > 0.98, "{shared:?}");
    assert!((column(&shared, "learners_mean_mbps") - column(&shared, "own_mbps")).abs() < 1e-6);
}

fn domain(learners: u32) -> Source {
    let domain: Domain = serde_json::from_value(json!({
        "episode_s": 1.0,
        "link": {
            "kinds": {"constant": 1}, "rate_mbps": [10, 40], "step_s": 1, "presets": [], "traces": [], "rtt_ms": [10, 40],
            "buffer_bdp": 1, "buffer_packets": null, "loss": 0, "signal": 0, "router_headroom": 1,
        },
        "learner": {
            "scheme": document(json!({"kind": "timer", "period_ms": 50}), json!({"kind": "window_exp2"}), "cubic"),
            "count": learners, "desired_mbps": 10000,
        },
    }))
    .unwrap();
    Source::Domain(Box::new(domain))
}

#[test]
fn several_learners_have_a_row_each() {
    let (count, learners) = (3, 2);
    let run = |threads: usize| {
        let mut worlds = Worlds::new(domain(2), count, 7, threads, learners).unwrap();
        let (width, report, rows) =
            (worlds.interface().observation_len, worlds.interface().report.len(), count * learners);
        let mut observations = vec![0.0; rows * width];
        worlds.reset(None, &mut observations).unwrap();
        let (mut reports, mut privileged) = (vec![0.0; rows * report], vec![0.0; rows * PRIVILEGED.len()]);
        let (mut truncated, mut last) = (vec![false; rows], vec![0.0; rows * width]);
        let mut episodes = 0;
        for k in 0..50 {
            let actions: Vec<f32> = (0..rows).map(|row| ((row + k) % 3) as f32 * 0.2 - 0.2).collect();
            let out = StepOut {
                observations: &mut observations,
                reports: &mut reports,
                truncated: &mut truncated,
                final_observations: &mut last,
                privileged: &mut privileged,
                ..StepOut::default()
            };
            worlds.step(&actions, None, out).unwrap();
            episodes += truncated.iter().filter(|t| **t).count();
            for row in 0..rows {
                // A timer keeps learners in step; each row is that of its learner.
                assert!((reports[row * report] - 50.0).abs() < 1e-3, "{reports:?}");
                // Nobody has asked for an episode's first action.
                let expected = if k % 20 == 0 { 0.0 } else { actions[row] };
                assert!((reports[row * report + 4] - expected).abs() < 1e-6, "row {row}: {reports:?}");
            }
        }
        assert_eq!(episodes, 2 * rows, "an episode is 20 decisions");
        (observations, reports, privileged, worlds.state())
    };
    let (once, again) = (run(1), run(2));
    assert_eq!((&once.0, &once.1, &once.2), (&again.0, &again.1, &again.2), "threads change nothing");
    let mut restored = Worlds::new(domain(2), count, 1, 1, learners).unwrap();
    let mut observations = vec![0.0; once.0.len()];
    restored.restore(&once.3, &mut observations).unwrap();
    assert_eq!(observations, once.0);
}

#[test]
fn another_number_of_learners_is_refused() {
    let error = Worlds::new(domain(2), 2, 7, 1, 1).err().unwrap();
    assert!(matches!(error, WorldError::Learners { found: 2, .. }), "{error}");
    assert!(error.to_string().ends_with("expected exactly one"), "{error}");
    assert!(Worlds::new(domain(1), 2, 7, 1, 3).err().unwrap().to_string().ends_with("expected exactly 3"));
}

#[test]
fn a_document_in_a_domain_is_checked_where_it_stands() {
    let mut value = timer(20.0);
    value["clock"]["kind"] = json!("timr");
    let learner = json!({"scheme": value, "desired_mbps": 1});
    let error = serde_json::from_value::<ccarena_sim::domain::Learner>(learner).unwrap_err();
    assert_eq!(error.to_string(), r#"learner.scheme.clock.kind: unknown clock "timr"; did you mean "timer"?"#);
}
