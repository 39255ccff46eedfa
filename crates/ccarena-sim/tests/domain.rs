//! Domain randomisation: what is made of recordings, and that it is drawn anew by the seed alone.
#![expect(clippy::unwrap_used, reason = "a test that fails panics; clippy.toml exempts test functions, not helpers")]

use std::collections::BTreeMap;

use ccarena_cc::Rate;
use ccarena_net::conditions::Source;
use ccarena_net::queues::QueueSpec;
use ccarena_net::scenario::Link;
use ccarena_net::{Scenario, ServiceSpec};
use ccarena_sim::Domain;
use serde_json::{Value, json};

fn domain(link: Value) -> Domain {
    read(link).unwrap()
}

fn read(link: Value) -> serde_json::Result<Domain> {
    let mut all = json!({
        "kinds": {"trace": 3, "constant": 1}, "rate_mbps": [2, 40], "step_s": 1, "presets": [],
        "traces": ["a", "b"], "rtt_ms": [10, 120], "buffer_bdp": null, "buffer_packets": [50, 1000], "loss": 0,
        "signal": 0, "router_headroom": 1,
    });
    all.as_object_mut().unwrap().extend(link.as_object().unwrap().clone());
    let learner = json!({"scheme": "hyvar", "desired_mbps": 10_000});
    serde_json::from_value(json!({"episode_s": 10, "link": all, "learner": learner}))
}

fn augmented() -> Domain {
    domain(json!({
        "augment": {"length_s": 60, "stretch": [0.5, 2], "mean_mbps": [0.2, 20], "grid_ms": [1, 8], "outages": 0.5,
                    "outage_every_s": [2, 30], "outage_s": [0.05, 1]},
        "uplinks": 0.5, "delayed_acks": 0.5, "unlimited": 0.25,
    }))
}

const DRAWS: u64 = 400;

#[test]
fn media_are_drawn_by_their_weights_within_their_ranges() {
    let wifi = |params: Value| json!({"access": "wifi", "weight": 2, "params": params});
    let grants = json!({"access": "grants", "weight": 1, "params": {"grant_ms": [2, 12]}});
    let of = |media: Value| json!({"kinds": {"constant": 1}, "rate_mbps": [20, 40], "media": media});
    let domain = domain(of(json!([wifi(json!({"packets": [8, 64], "retry": 0.2})), grants])));
    let mut counts = BTreeMap::new();
    for episode in 0..DRAWS {
        let scenario = domain.draw(1, 0, episode);
        let ServiceSpec::Access(access) = &scenario.links[0].service else { continue };
        let name = access.kind.description().name;
        *counts.entry(name).or_insert(0_u64) += 1;
        assert!(matches!(*access.rate, ServiceSpec::Constant(rate) if (20.0..=40.0).contains(&rate.as_mbps())));
        let (param, range) = if name == "wifi" { ("packets", 8.0..=64.0) } else { ("grant_ms", 2.0..=12.0) };
        assert!(
            range.contains(&access.params.get(param))
                && (name != "wifi" || (access.params.get("retry") - 0.2).abs() < 1e-9)
        );
        let document = scenario.to_json();
        assert_eq!(Scenario::from_json(&document).unwrap().links, scenario.links);
    }
    assert!((160..240).contains(&counts["wifi"]) && (70..130).contains(&counts["grants"]), "{counts:?}");

    let refused = |media: Value| serde_json::from_value::<ccarena_sim::domain::Medium>(media).unwrap_err().to_string();
    assert!(refused(wifi(json!({"retry": [0.1, 2]}))).starts_with("wifi.retry is 0.1 to 2; expected 0 to 0.9"));
    let absences = refused(wifi(json!({"absent_every_s": [0, 10], "absent_ms": 100})));
    assert!(absences.starts_with("wifi.absent_ms: expected at most half of absent_every_s"), "{absences}");
    assert!(refused(wifi(json!({"slots": 1}))).starts_with("wifi has no parameter \"slots\""));
}

#[test]
fn conditions_traces_are_drawn_with_their_delay_and_without_what_they_give() {
    let all = json!({"file": "a.csv", "mean_mbps": 12.5, "delay_ms": 20.25, "loss": true});
    let delays = json!({"file": "b.csv", "mean_mbps": null, "delay_ms": 7, "loss": false});
    let kinds = json!({"constant": 1, "conditions": 3});
    let drawn = domain(json!({"kinds": kinds, "loss": 0.01, "conditions": [all, delays]}));
    let (mut counts, mut starts) = (BTreeMap::new(), BTreeMap::new());
    for episode in 0..DRAWS {
        let scenario = drawn.draw(1, 0, episode);
        let Link { conditions, service, delay, loss, .. } = &scenario.links[0];
        let file = conditions.as_ref().map_or("none", |spec| match &spec.source {
            Source::File(file) => file.as_str(),
            Source::Model { name, .. } => name,
        });
        *counts.entry(file.to_string()).or_insert(0) += 1;
        starts.insert(scenario.seed, file.to_string());
        let given = (*service == ServiceSpec::Conditions, delay.as_millis_f64(), loss.as_independent().unwrap());
        match file {
            "a.csv" => assert_eq!(given, (true, 20.25, 0.0)),
            "b.csv" => assert_eq!(given, (false, 7.0, 0.01)),
            _ => assert!(!given.0 && (5.0..=60.0).contains(&given.1) && given.2 > 0.0),
        }
        assert_eq!(Scenario::from_json(&scenario.to_json()).unwrap().links, scenario.links);
    }
    assert!((80..120).contains(&counts["none"]) && (120..180).contains(&counts["b.csv"]), "{counts:?}");
    assert_eq!(starts.len() as u64, DRAWS, "each episode starts elsewhere, by its seed");
    let without = |kinds: Value| domain(json!({"kinds": kinds})).draw(1, 0, 5);
    assert_eq!(without(json!({"constant": 1})), without(json!({"constant": 1, "conditions": 3})), "nothing is drawn");
}

#[test]
fn recordings_become_many_links() {
    let domain = augmented();
    let (mut traces, mut outages, mut uplinks, mut delayed, mut unlimited) = (0.0, 0.0, 0.0, 0.0, 0.0);
    let mut slow = 0.0;
    for episode in 0..DRAWS {
        let scenario = domain.draw(1, 0, episode);
        let flow = &scenario.flows[0];
        delayed += f64::from(u8::from(flow.delayed_ack));
        unlimited += f64::from(u8::from(scenario.links[0].queue == QueueSpec::infinite()));
        let ServiceSpec::Trace { reshape, .. } = &scenario.links[0].service else {
            assert_eq!(scenario.links.len(), 1, "only recordings come with a second one for acknowledgements");
            continue;
        };
        let reshape = reshape.unwrap();
        let mean = reshape.mean.unwrap();
        assert!((Rate::from_mbps(0.199)..=Rate::from_mbps(20.01)).contains(&mean), "{mean:?}");
        assert!((0.5..=2.0).contains(&reshape.stretch) && (1..=8).contains(&reshape.grid_ms));
        traces += 1.0;
        slow += f64::from(u8::from(mean < Rate::from_mbps(2.0)));
        outages += f64::from(u8::from(reshape.outages.is_some()));
        if let [_, uplink] = &scenario.links[..] {
            let ServiceSpec::Trace { reshape: Some(own), .. } = &uplink.service else { panic!("a recording as well") };
            assert_eq!((own.mean, &flow.path, &flow.return_path), (None, &vec![0], &vec![1]));
            uplinks += 1.0;
        }
    }
    let draws = DRAWS as f64;
    for (name, share, expected) in [
        ("recordings", traces / draws, 0.75),
        ("below the geometric mean", slow / traces, 0.5),
        ("outages", outages / traces, 0.5),
        ("uplinks", uplinks / traces, 0.5),
        ("delayed acknowledgements", delayed / draws, 0.5),
        ("unlimited queues", unlimited / draws, 0.25),
    ] {
        assert!((share - expected).abs() < 0.1, "{name}: {share}");
    }
}

#[test]
fn a_draw_is_a_scenario_that_reads_back_equal() {
    let domain = augmented();
    for episode in 0..40 {
        let scenario = domain.draw(7, 3, episode);
        assert_eq!(domain.draw(7, 3, episode), scenario, "the same seed, world and episode");
        let read = Scenario::from_json(&scenario.to_json()).unwrap();
        assert_eq!((&read.links, read.seed), (&scenario.links, scenario.seed));
    }
    assert_ne!(domain.draw(8, 3, 0), domain.draw(7, 3, 0));
}

#[test]
fn what_is_not_asked_for_is_not_drawn() {
    let plain = domain(json!({}));
    for episode in 0..40 {
        let scenario = plain.draw(1, 0, episode);
        assert_eq!(scenario.links.len(), 1);
        assert!(scenario.flows[0].delayed_ack);
        assert!(!matches!(scenario.links[0].service, ServiceSpec::Trace { reshape: Some(_), .. }));
    }
}

#[test]
fn cross_traffic_may_be_of_the_learners_own_kind() {
    let mut domain = domain(json!({}));
    domain.learner.drawn = serde_json::from_value(json!({"alpha": [1.1, 2]})).unwrap();
    domain.cross_traffic =
        serde_json::from_value(json!({"probability": 0.5, "schemes": ["cubic", "self"], "flows": [1, 3]})).unwrap();
    let (mut alone, mut own, mut cubic) = (0, 0, 0);
    for episode in 0..DRAWS {
        let flows = domain.draw(1, 0, episode).flows;
        alone += u32::from(flows.len() == 1);
        let (first, others) = flows.split_first().unwrap();
        let (like, unlike): (Vec<_>, Vec<_>) = others.iter().partition(|flow| flow.scheme == "hyvar");
        assert!(like.iter().all(|flow| flow.params == first.params && flow.app.is_bulk()));
        assert!(like.iter().all(|flow| flow.start.0 > 0 && flow.start.as_secs_f64() < 5.0));
        assert!(unlike.iter().all(|flow| flow.scheme == "cubic" && !flow.params.contains_key("alpha")));
        (own, cubic) = (own + like.len(), cubic + unlike.len());
    }
    assert!((DRAWS / 3..2 * DRAWS / 3).contains(&u64::from(alone)), "{alone} of {DRAWS} alone");
    assert!(own > 100 && cubic > 100, "{own} of its own, {cubic} of CUBIC");
}

#[test]
fn queues_and_marking_flows_are_drawn_as_a_scenario_has_them() {
    let queues = json!([{"type": "dualpi2", "coupling": 3}, {"type": "droptail"}, {"type": "fq_codel", "packets": 77}]);
    let mut drawn = domain(json!({"queues": queues}));
    drawn.learner.scheme = serde_json::from_value(json!("l4s")).unwrap();
    let schemes = json!(["prague", {"scheme": "cubic", "ecn": true, "params": {"abe": 1}}, "self"]);
    drawn.cross_traffic =
        serde_json::from_value(json!({"probability": 1, "schemes": schemes, "flows": [1, 1], "on_off": 0})).unwrap();
    let mut counts = BTreeMap::new();
    for episode in 0..DRAWS {
        let scenario = drawn.draw(1, 0, episode).to_json();
        let (queue, flows) = (&scenario["links"][0]["queue"], scenario["flows"].as_array().unwrap());
        *counts.entry(queue["type"].to_string()).or_insert(0) += 1;
        match queue["type"].as_str().unwrap() {
            "dualpi2" => assert_eq!((&queue["coupling"], &queue["packets"]), (&json!(3.0), &json!(10_000))),
            "droptail" => assert!((50..=1000).contains(&queue["packets"].as_u64().unwrap())),
            _ => assert_eq!(queue["packets"], 77),
        }
        let ecn = |flow: &Value| flow["ecn"].clone();
        assert!(flows.len() == 2 && ecn(&flows[0]) == "accurate", "a spec for L4S queues asks for counts of marks");
        *counts.entry(flows[1]["scheme"].to_string()).or_insert(0) += 1;
        let classic = flows[1]["scheme"] == "cubic";
        assert_eq!(ecn(&flows[1]), if classic { json!(true) } else { json!("accurate") });
        assert!(!classic || flows[1]["params"]["abe"] == 1.0);
        assert_eq!(flows[1]["app"]["type"], "bulk");
    }
    assert!(counts.len() == 6 && counts.values().all(|count| (90..180).contains(count)), "{counts:?}");

    let refused = |queue: Value| serde_json::from_value::<ccarena_sim::domain::Queue>(queue).unwrap_err().to_string();
    let coupling = refused(json!({"type": "dualpi2", "coupling": 0}));
    assert!(coupling.starts_with("link.queues.coupling: got 0; expected"), "{coupling}");
    let link = |link: Value| read(link).unwrap_err().to_string();
    assert!(link(json!({"queues": []})).starts_with("link.queues is empty"));
    let without = link(json!({"queues": [{"type": "drophead"}], "buffer_packets": null}));
    assert!(without.starts_with("link.buffer_bdp is missing"), "{without}");
    read(json!({"queues": [{"type": "drophead", "packets": 9}], "buffer_packets": null})).unwrap();
    let flow = |flow: Value| serde_json::from_value::<ccarena_sim::domain::Competitor>(flow).unwrap_err().to_string();
    let feedback = flow(json!({"scheme": "cubic", "ecn": "precise"}));
    assert!(feedback.starts_with("cross_traffic.schemes.ecn: got \"precise\"; expected"), "{feedback}");
}

/// What the routers of `DRAWS` episodes lack, and the rest of their links.
fn routers(single: Option<f64>) -> Vec<(BTreeMap<String, f64>, Link)> {
    let mut lacking =
        json!({"every_ms": [50, 600], "late_ms": [1, 250], "noise": [0.01, 0.3], "bits": [2, 6], "missing": 0.5});
    if let Some(single) = single {
        lacking["single"] = json!(single);
    }
    let domain = domain(json!({"signal": 1, "router": lacking}));
    let of_episode = |episode| {
        let scenario = domain.draw(1, 0, episode);
        let written = scenario.to_json();
        let lacks = |name: &&str| written["links"][0]["router"][*name].as_f64().filter(|x| *x > 0.0);
        let lacks = LACKS.iter().filter_map(|name| lacks(name).map(|x| ((*name).to_owned(), x))).collect();
        (lacks, Link { router: None, ..scenario.links[0].clone() })
    };
    (0..DRAWS).map(of_episode).collect()
}

const LACKS: [&str; 5] = ["every_ms", "late_ms", "noise", "bits", "missing"];

#[test]
fn a_router_may_lack_one_thing_alone() {
    let (all, some) = (routers(None), routers(Some(0.5)));
    assert_eq!(routers(Some(0.0)), all);
    let mut alone: BTreeMap<&str, f64> = BTreeMap::new();
    for ((everything, link), (lacks, same)) in all.iter().zip(&some) {
        assert_eq!((everything.len(), link), (LACKS.len(), same));
        assert!(
            lacks.iter().all(|(name, value)| everything.get(name) == Some(value)),
            "drawn as without the option: {lacks:?}"
        );
        if lacks.len() == LACKS.len() {
            continue;
        }
        let names: Vec<_> = lacks.keys().map(String::as_str).collect();
        let one = match names[..] {
            [one] => one,
            ["every_ms", of_measurements @ ("missing" | "noise")] => of_measurements,
            _ => panic!("{names:?}"),
        };
        *alone.entry(LACKS.iter().find(|name| **name == one).unwrap()).or_default() += 1.0 / DRAWS as f64;
    }
    assert_eq!(alone.len(), LACKS.len());
    assert!((alone.values().sum::<f64>() - 0.5).abs() < 0.1, "{alone:?}");
    assert!(alone.values().all(|share| (share - 0.1).abs() < 0.05), "{alone:?}");
}
