//! Runs as a page makes them, natively.
#![expect(clippy::unwrap_used, reason = "a test that fails panics; clippy.toml exempts test functions, not helpers")]

use ccarena_net::Scenario;
use ccarena_sim::{Files, Sim};
use ccarena_web::picture::Column;
use ccarena_web::run::{Given, Options, check};
use ccarena_web::{Problem, Run};
use serde_json::Value;

const SCENARIO: &str = "
duration_s: 4
links: [{service: {type: constant, rate_mbps: 20}, queue: {type: droptail, bdp: 1}, loss: 0.001}]
flows: [{scheme: cubic}, {scheme: bbr, start_s: 1}]
";

fn open(text: &str) -> Run {
    Run::open(text, Given::new(), Options::default()).unwrap()
}

fn column<'a>(columns: &[Column<'a>], group: &str, index: usize, name: &str) -> &'a [f64] {
    columns.iter().find(|c| (c.group, c.index, c.name) == (group, index, name)).unwrap().values
}

fn refused(text: &str, given: Given) -> Problem {
    let problems = check(text, given);
    assert_eq!(problems.len(), 1, "{text}");
    problems[0].clone()
}

/// The digest of the native simulator.
fn native(text: &str) -> String {
    let scenario = Scenario::from_json(&ccarena_web::document::read(text).unwrap()).unwrap();
    let mut sim = Sim::new(&scenario, &Files::default(), false).unwrap();
    sim.run_until(ccarena_cc::Time(scenario.duration.0));
    sim.take_result(&scenario).sealed(&scenario.record).digest
}

#[test]
fn steps_and_recordings_for_pictures_change_no_result() {
    for record in ["", "record: {series: true, bin_ms: 7}", "record: {packets: true}", "record: {transmissions: true}"]
    {
        let text = format!("{SCENARIO}{record}");
        let mut whole = open(&text);
        assert!(whole.advance(f64::INFINITY).unwrap().done);
        let mut stepped = Run::open(&text, Given::new(), Options { packets: true, ..Options::default() }).unwrap();
        for step in 1..=1300 {
            stepped.advance(f64::from(step) * 0.003_1).unwrap();
        }
        assert_eq!(whole.result().unwrap(), stepped.result().unwrap());
        assert_eq!(whole.result().unwrap().digest, native(&text), "{record}");
        let seeded = Run::open(&text, Given::new(), Options { seed: Some(9), ..Options::default() });
        let mut seeded = seeded.unwrap();
        seeded.advance(9.0).unwrap();
        assert_ne!(seeded.result().unwrap().digest, native(&text));
    }
}

#[test]
fn series_add_up_to_the_result() {
    let mut run = open(SCENARIO);
    run.advance(1.234_5).unwrap();
    assert_eq!(column(&run.series(), "", 0, "time_s").len(), 123, "a step that has not ended has no sample");
    let progress = run.advance(4.0).unwrap();
    let result: Value = serde_json::from_str(&run.result().unwrap().json).unwrap();
    let columns = run.series();
    let time_s = column(&columns, "", 0, "time_s");
    assert!((time_s[399] - 4.0).abs() < 1e-9 && time_s.len() == 400);
    assert!(columns.iter().all(|c| c.values.len() == 400));
    let sum = |group, index, name| column(&columns, group, index, name).iter().sum::<f64>();
    for index in 0..2 {
        let flow = &result["flows"][index];
        let bytes = sum("flows", index, "goodput_mbps") * 0.01 / 8e-6;
        assert!((bytes - flow["delivered_bytes"].as_f64().unwrap()).abs() < 1.0);
        assert!((sum("flows", index, "lost_packets") - flow["lost_packets"].as_f64().unwrap()).abs() < 0.5);
    }
    let link = &result["links"][0];
    for (name, key) in [("dropped_packets", "dropped_packets"), ("lost_packets", "lost_packets")] {
        assert!((sum("links", 0, name) - link[key].as_f64().unwrap()).abs() < 0.5, "{name}");
    }
    let carried = sum("links", 0, "throughput_mbps") * 0.01 / 8e-6;
    assert!((carried - link["delivered_bytes"].as_f64().unwrap()).abs() < 1.0);
    assert_eq!(progress.packets, link["delivered_packets"].as_u64().unwrap());
    assert!(column(&columns, "flows", 0, "rtt_ms").iter().any(|x| *x > 20.0));
    assert!(column(&columns, "links", 0, "queue_bytes").iter().any(|x| *x > 1e4));
}

#[test]
fn long_runs_have_longer_steps() {
    let text = "duration_s: 3600\nlinks: [{service: {type: constant, rate_mbps: 0.1}}]\nflows: [{scheme: reno}]";
    let mut run = open(text);
    run.advance(600.0).unwrap();
    assert_eq!(column(&run.series(), "", 0, "time_s").len(), 1000);
}

#[test]
fn packets_are_those_since_a_time_and_stay_after_the_result() {
    let mut run = Run::open(SCENARIO, Given::new(), Options { packets: true, ..Options::default() }).unwrap();
    run.advance(4.0).unwrap();
    let all = run.packets(0.0).unwrap();
    let departures = column(&all, "links", 0, "departure_s").to_vec();
    assert!(departures.is_sorted() && departures.len() > 1000);
    assert!(!column(&all, "links", 0, "lost_s").is_empty());
    let late = departures.iter().filter(|at| **at >= 3.0).count();
    run.result().unwrap();
    assert_eq!(column(&run.packets(3.0).unwrap(), "links", 0, "flow").len(), late);
    assert!(run.packets(1e9).unwrap().iter().all(|c| c.values.is_empty()));
    let problem = open(SCENARIO).packets(0.0).unwrap_err();
    assert_eq!(problem.message, "no packets are recorded; open the run with {packets: true}");
}

#[test]
fn what_cannot_run_here_is_refused_with_its_path() {
    let flow = |fields: &str| format!("links: [{{service: {{type: constant, rate_mbps: 1}}}}]\nflows: [{{{fields}}}]");
    for (text, path, said) in [
        ("links: 3".to_owned(), Some("links"), "links: got 3; expected "),
        ("- 1".into(), None, "scenario: a scenario is a mapping with `links` and `flows`, found a list"),
        ("a: [".into(), None, "scenario, line 2, column 1: not valid YAML: "),
        (flow("scheme: cubik"), Some("flows[0].scheme"), "flows[0].scheme: unknown scheme \"cubik\"; did you mean"),
        (
            flow("scheme: cubic@hystart=0"),
            Some("flows[0].scheme"),
            "flows[0].scheme: a page reads no text of an entrant, as \"cubic@hystart=0\" is; write scheme: cubic and params: \
             {hystart: 0}, or make the page with: ccarena play SCENARIO.yaml",
        ),
        (
            flow("scheme: wcc-ai@weight=2"),
            Some("flows[0].scheme"),
            "flows[0].scheme: a page reads no text of an entrant, as \"wcc-ai@weight=2\" is; write its parts as fields of \
             the flow: name, scheme, policy, params, weight, requirement, ecn, l4s, rules, or make",
        ),
        (
            "{\"links\": [{\"service\": 98765432109876543210}]}".into(),
            None,
            "scenario, line 1, column 24: not valid YAML: a whole number of 20 digits; expected -9223372036854775808 to \
             18446744073709551615",
        ),
        (
            flow("scheme: mine, controller: {type: python, class: a.py:A}"),
            Some("flows[0].controller"),
            "flows[0].controller: a Python class does not run in a web page; expected a scheme, or run it with the command",
        ),
        (
            flow("scheme: mine, controller: {type: wasm, module: a.wasm}"),
            Some("flows[0].controller"),
            "flows[0].controller: a WebAssembly module does not run in a web page",
        ),
        (
            flow("scheme: theirs, foreign: {type: kernel, name: bbr}"),
            Some("flows[0].foreign"),
            "flows[0].foreign: a program",
        ),
        (flow("scheme: acct"), Some("flows[0].policy"), "flows[0].policy: "),
        (
            flow("scheme: acct, policy: mine"),
            Some("flows[0].policy"),
            "flows[0].policy: mine: cannot be read: no file of this name was given; none was; a page that has it is made by: \
             ccarena play SCENARIO.yaml",
        ),
        (
            flow("scheme: mine.json"),
            Some("flows[0].scheme"),
            "flows[0].scheme: mine.json: cannot be read: no file of this",
        ),
        (
            "links: [{service: {type: trace, file: a.trace}}]\nflows: [{scheme: reno}]".into(),
            Some("links[0].service"),
            "links[0].service: a.trace: ",
        ),
        (
            "links: [{conditions: {file: a.csv}}]\nflows: [{scheme: reno}]".into(),
            Some("links[0].conditions"),
            "links[0].conditions: a.csv: ",
        ),
        (
            "duration_s: 1e5\nlinks: [{service: {type: constant, rate_mbps: 9e4}}]\nflows: [{scheme: reno}]".into(),
            Some("duration_s"),
            "duration_s: the run asks for about 750.0 thousand million packets",
        ),
    ] {
        let problem = refused(&text, Given::new());
        assert!(problem.message.starts_with(said), "{text}: {}", problem.message);
        assert_eq!(problem.path.as_deref(), path, "{}", problem.message);
        assert!(!problem.message.contains("CCARENA_LIMITS"), "{}", problem.message);
    }
    let long = format!("# {}", "x".repeat(16_000_000));
    assert_eq!(refused(&long, Given::new()).message, "scenario: it has 16000002 bytes; expected at most 16000000");
    assert_eq!(open(SCENARIO).result().unwrap_err().message, "the run is at 0 s of 4 s; advance it to its end first");
    assert!(open(SCENARIO).advance(f64::NAN).unwrap_err().message.starts_with("untilS: not a number"));
}

#[test]
fn files_are_found_by_the_names_that_the_scenario_uses() {
    let spec = ccarena_cc::learned::shipped::find("acct").unwrap().to_json().to_string();
    let given = Given::from([
        ("home.trace".to_owned(), b"1\n3\n4\n".to_vec()),
        ("rates.csv".to_owned(), b"time_ms,rate_mbps,delay_ms\n0,8,30\n500,4,20\n".to_vec()),
        ("mine.json".to_owned(), spec.into_bytes()),
    ]);
    let text = "
duration_s: 3
links: [{service: {type: trace, file: home.trace}, router: true}, {conditions: {file: rates.csv}}]
flows: [{scheme: mine.json, policy: {constant: 1}}, {scheme: reno}]
";
    assert_eq!(check(text, given.clone()), []);
    let mut run = Run::open(text, given, Options::default()).unwrap();
    run.advance(3.0).unwrap();
    let result: Value = serde_json::from_str(&run.result().unwrap().json).unwrap();
    assert!(result["flows"][1]["rtt_min_ms"].as_f64().unwrap() >= 60.0, "10 ms and the trace's 20 ms, forth and back");
}
