//! Random scenarios: nothing panics, stalls, is lost without trace or is counted twice, and the same seed gives the same
//! bytes.
#![expect(clippy::unwrap_used, reason = "a test that fails panics; clippy.toml exempts test functions, not helpers")]

mod common;

use ccarena_cc::{Time, all_schemes};
use ccarena_net::Scenario;
use ccarena_net::queues::{Kind, LimitRule};
use ccarena_sim::{Sim, packet::Link, sim::Flow};
use common::{build, fingerprint, run};
use proptest::prelude::*;
use serde_json::{Value, json};

const DURATION_S: f64 = 8.0;
const MSS: u64 = 1448;

fn service() -> impl Strategy<Value = Value> {
    prop_oneof![
        (0.3..30.0_f64).prop_map(|mbps| json!({"type": "constant", "rate_mbps": mbps})),
        (0.3..5.0_f64, 5.0..30.0_f64, 0.1..3.0_f64)
            .prop_map(|(a, b, s)| json!({"type": "random_steps", "min_mbps": a, "max_mbps": b, "period_s": s})),
        // With an outage in the middle.
        (1.0..20.0_f64).prop_map(|mbps| json!({"type": "steps", "steps": [
            {"at_s": 0, "rate_mbps": mbps}, {"at_s": 2, "rate_mbps": 0}, {"at_s": 4, "rate_mbps": mbps / 2.0}]})),
        (any::<u32>(), 0..10_000_u32)
            .prop_map(|(s, o)| json!({"type": "cellular", "preset": "lte-driving", "seed": s, "offset_ms": o})),
    ]
}

/// Any discipline, as mahimahi has it if that differs, marking if it can.
fn queue() -> impl Strategy<Value = Value> {
    let limit = prop_oneof![
        (1..200_u32).prop_map(|n| ("packets", json!(n))),
        (1..100_000_u32).prop_map(|n| ("bytes", json!(n))),
        (0.1..3.0_f64).prop_map(|n| ("bdp", json!(n))),
    ];
    (0..Kind::ALL.len(), limit, any::<bool>(), any::<bool>()).prop_map(|(kind, (limit, amount), mahimahi, ecn)| {
        let discipline = Kind::ALL[kind].discipline();
        let mut queue = json!({"type": discipline.name});
        if discipline.limit != LimitRule::Unlimited {
            queue[limit] = amount;
        }
        if mahimahi && discipline.mahimahi {
            queue["compat"] = json!("mahimahi");
        } else if discipline.params.iter().any(|p| p.name == "ecn") {
            queue["ecn"] = json!(ecn);
        }
        queue
    })
}

/// A delay that does not change on most links.
fn delay() -> impl Strategy<Value = Value> {
    let steps = (prop::collection::vec((0.001..3.0_f64, 0.0..80.0_f64), 1..6), any::<bool>());
    let steps = steps.prop_map(|(gaps, keep_order)| {
        let mut at = 0.0;
        let step = |(gap, ms): (f64, f64)| {
            let step = json!({"at_s": at, "delay_ms": ms});
            at += gap;
            step
        };
        json!({"steps": gaps.into_iter().map(step).collect::<Vec<_>>(), "keep_order": keep_order})
    });
    prop_oneof![2 => (0.0..60.0_f64).prop_map(|ms| json!(ms)), 1 => steps]
}

/// Packets that stay behind, come twice or are damaged: none on most links.
fn impairments() -> impl Strategy<Value = Value> {
    let chance = || {
        let drawn = (0.0..0.3_f64, 0.0..0.9_f64);
        prop::option::weighted(0.5, drawn.prop_map(|(p, c)| json!({"probability": p, "correlation": c})))
    };
    let reorder = (chance(), 0.0..200.0_f64).prop_map(|(chance, late)| {
        chance.map(|mut chance| {
            chance["late_ms"] = json!(late);
            chance
        })
    });
    let all = (reorder, chance(), chance()).prop_map(
        |(reorder, duplicate, corrupt)| json!({"reorder": reorder, "duplicate": duplicate, "corrupt": corrupt}),
    );
    let policer = (0.5..20.0_f64, 3000..100_000_u32, any::<bool>()).prop_map(|(mbps, burst, marks)| {
        json!({"policer":
            {"rate_mbps": mbps, "burst_bytes": burst, "action": if marks { "mark" } else { "drop" }}})
    });
    prop_oneof![3 => Just(json!({})), 2 => all, 1 => policer]
}

fn link() -> impl Strategy<Value = Value> {
    let bursts = (0.0..0.1_f64, 0.05..1.0_f64, 0.1..1.0_f64)
        .prop_map(|(p, r, bad)| json!({"type": "gilbert_elliott", "p": p, "r": r, "loss_bad": bad}));
    let slots =
        (0.5..500.0_f64, 0.0..0.2_f64).prop_map(|(ms, p)| json!({"type": "slots", "slot_ms": ms, "probability": p}));
    let loss = prop_oneof![3 => Just(json!(0)), 2 => (0.0..0.3_f64).prop_map(|p| json!(p)), 1 => bursts, 1 => slots];
    let jitter = prop_oneof![3 => Just(0.0), 1 => 0.0..5.0_f64];
    let outages = prop_oneof![
        4 => Just(Value::Null),
        1 => (0.5..3.0_f64, 0.01..0.5_f64).prop_map(|(on, off)| json!({"on_s": on, "off_s": off})),
    ];
    let parts = (service(), queue(), delay(), loss, jitter, outages, any::<bool>(), impairments());
    parts.prop_map(|(service, queue, delay, loss, late, outages, router, impairments)| {
        let link = json!({"service": service, "queue": queue, "delay_ms": delay, "loss": loss, "jitter_ms": late,
            "outages": outages, "router": router});
        with(link, &impairments)
    })
}

fn app() -> impl Strategy<Value = Value> {
    prop_oneof![
        3 => Just(json!({"type": "bulk"})),
        1 => (0.1..10.0_f64).prop_map(|r| json!({"type": "cbr", "rate_mbps": r})),
        1 => (0.1..10.0_f64, 0.1..2.0_f64, 0.1..2.0_f64)
            .prop_map(|(r, on, off)| json!({"type": "onoff", "rate_mbps": r, "on_s": on, "off_s": off})),
        1 => (0.01..10.0_f64, 5.0..300.0_f64)
            .prop_map(|(r, slot)| json!({"type": "capped", "rate_mbps": r, "slot_ms": slot})),
        1 => (prop::collection::vec(1..300_000_u32, 1..5), 0.0..1.0_f64)
            .prop_map(|(sizes, gap)| json!({"type": "transfers", "sizes_bytes": sizes, "gap_s": gap})),
    ]
}

/// Which links data and acknowledgements cross.
fn path() -> impl Strategy<Value = (Vec<&'static str>, Vec<&'static str>)> {
    prop_oneof![
        Just((vec!["link0"], vec![])),
        Just((vec!["link0", "link1"], vec![])),
        Just((vec!["link0"], vec!["link2"])),
        Just((vec!["link1", "link0"], vec!["link2", "link0"])),
    ]
}

/// A receiver that acknowledges as QUIC's do, TCP with or without offload, and the least timeout.
fn transport() -> impl Strategy<Value = Value> {
    let quic = (1..20_u32, 1.0..50.0_f64, 0.0..1.0_f64).prop_map(|(packets, delay, fraction)| {
        json!({"ack_policy":
            {"type": "quic", "packets": packets, "max_delay_ms": delay, "rtt_fraction": fraction}})
    });
    let bursts = (1..65_536_u32).prop_map(|bytes| json!({"burst_bytes": bytes}));
    let kind = prop_oneof![3 => Just(json!({})), 1 => quic, 1 => bursts];
    (kind, prop_oneof![3 => Just(200.0), 1 => 1.0..2000.0_f64]).prop_map(|(mut options, min_rto)| {
        options["min_rto_ms"] = json!(min_rto);
        options
    })
}

/// `flow` with `options`, whose acknowledgements are selective and delayed if they are QUIC's.
fn with(mut flow: Value, options: &Value) -> Value {
    for (key, value) in options.as_object().unwrap() {
        flow[key] = value.clone();
    }
    if flow.get("ack_policy").is_some() {
        flow["sack"] = json!(true);
        flow["delayed_ack"] = json!(true);
    }
    flow
}

fn flow() -> impl Strategy<Value = Value> {
    let schemes: Vec<_> = all_schemes().iter().filter(|s| !s.rules).collect();
    let switches = (prop::bool::weighted(0.8), prop::bool::weighted(0.8), prop::bool::weighted(0.8), any::<bool>());
    let shares = (0.6..5.0_f64, prop::option::of(0.0..5.0_f64));
    let times = (0.0..3.0_f64, prop::option::weighted(0.3, 3.0..7.0_f64));
    (0..schemes.len(), path(), app(), switches, times, shares, 1..40_u32, transport()).prop_map(
        move |(
            i,
            (path, back),
            app,
            (sack, delayed, slow_start, ecn),
            (start, stop),
            (weight, min),
            window,
            options,
        )| {
            let requirement = min.map(|a| json!({"min_mbps": a, "max_mbps": 1.5 * a + 0.01}));
            // An index for ACCT; where actions are continuous, a window or a rate that is pushed down a little.
            let action = if schemes[i].name == "acct" { 3.0 } else { -0.2 };
            let policy = if schemes[i].learned { json!({"constant": action}) } else { Value::Null };
            let flow = json!({"scheme": schemes[i].name, "path": path, "return_path": back, "app": app, "sack": sack,
                "delayed_ack": delayed, "slow_start": slow_start, "start_s": start, "stop_s": stop,
                "initial_window": window, "policy": policy, "ecn": ecn, "weight": weight,
                "requirement": requirement});
            with(flow, &options)
        },
    )
}

fn scenario() -> impl Strategy<Value = Value> {
    (prop::collection::vec(link(), 3), prop::collection::vec(flow(), 1..5), any::<u32>()).prop_map(
        |(links, flows, seed)| {
            json!({"duration_s": DURATION_S, "seed": seed, "links": links, "flows": flows,
                "record": {"packets": true, "reports": true}})
        },
    )
}

/// No router, or one of any kind.
fn router() -> impl Strategy<Value = Value> {
    let often = prop_oneof![Just(0.0), 0.0..300.0_f64];
    let lacks = (often.clone(), often, 0.0..0.5_f64, 0..8_u32, 0.0..0.5_f64);
    prop_oneof![
        Just(json!(false)),
        Just(json!(true)),
        Just(json!("acct")),
        lacks.prop_map(|(every, late, noise, bits, missing)| json!({"type": "acct", "every_ms": every,
            "late_ms": late, "noise": noise, "bits": bits, "missing": missing})),
        Just(json!("abc")),
        Just(json!("xcp")),
    ]
}

/// Drop-tail links that lead nowhere else, besides those that acknowledgements cross, and more flows than elsewhere that
/// listen to routers. Where delays are whole milliseconds, as the opportunities of traces are, packets arrive and leave at
/// the same time.
fn single_hops() -> impl Strategy<Value = Value> {
    let limit = prop_oneof![
        (1..100_u32).prop_map(|n| json!({"type": "droptail", "packets": n})),
        (1..100_000_u32).prop_map(|n| json!({"type": "droptail", "bytes": n})),
    ];
    let listener = prop::option::weighted(0.6, prop::sample::select(vec!["acct", "abc", "xcp"]));
    let paths = prop::collection::vec((prop::bool::weighted(0.7), prop::bool::weighted(0.3), listener), 5);
    let wakes = prop_oneof![4 => Just(0.0), 1 => 0.1..20.0_f64];
    let links = prop::collection::vec((limit, router()), 2);
    let parts = (scenario(), links, paths, wakes, any::<bool>());
    parts.prop_map(|(mut document, links, paths, wakes, whole)| {
        let round = |value: &mut Value| *value = json!(value.as_f64().unwrap_or(7.0).round());
        for (link, (limit, router)) in document["links"].as_array_mut().unwrap().iter_mut().zip(links) {
            link["queue"] = limit;
            link["router"] = router;
            link["wakes_ms"] = json!(wakes);
            if whole {
                round(&mut link["delay_ms"]);
                link["jitter_ms"] = json!(0);
            }
        }
        for (flow, (first, back, listener)) in document["flows"].as_array_mut().unwrap().iter_mut().zip(paths) {
            if let Some(scheme) = listener {
                flow["scheme"] = json!(scheme);
                flow["policy"] = if scheme == "acct" { json!({"constant": 3}) } else { Value::Null };
            }
            flow["path"] = json!([if first { "link0" } else { "link1" }]);
            flow["return_path"] = if back { json!(["link2"]) } else { json!([]) };
            if whole {
                round(&mut flow["start_s"]);
            }
        }
        document
    })
}

/// What has happened so far, link by link and flow by flow.
fn so_far(sim: &Sim) -> String {
    let links: Vec<_> = sim.links().iter().map(|l| (l.stats, l.backlog_packets(), l.backlog_bytes())).collect();
    let flows: Vec<_> = sim.flows().iter().map(|f| (f.sender.stats, f.decisions)).collect();
    format!("{links:?} {flows:?} {:?} {}", sim.wire_bytes(), sim.data_packets())
}

/// What entered a link has left it or is in it; what flows sent has arrived, was lost or is on its way.
fn check_conservation(document: &Value, sim: &Sim) -> Result<(), TestCaseError> {
    for link in sim.links() {
        let s = link.stats;
        let gone = s.dropped_packets + s.lost_packets + link.policed_packets();
        let accounted = s.delivered_packets + gone + link.backlog_packets() as u64;
        prop_assert_eq!(s.arrived_packets, accounted, "{:?}", s);
    }
    let no_acks_on_links =
        document["flows"].as_array().unwrap().iter().all(|f| f["return_path"].as_array().unwrap().is_empty());
    if no_acks_on_links {
        let sent: u64 = sim.flows().iter().map(|f| f.sender.stats.sent).sum();
        let elsewhere: u64 = sim
            .links()
            .iter()
            .map(|l| {
                let gone = l.stats.dropped_packets + l.stats.lost_packets + l.policed_packets();
                gone + l.backlog_packets() as u64 + l.pipe.len() as u64
            })
            .sum();
        // Copies and damage between links make the sums of packets that are under way differ.
        let intact = |l: &Link| l.impaired().duplicated_packets + l.impaired().corrupted_packets == 0;
        if sim.links().iter().all(intact) {
            prop_assert_eq!(sent, sim.data_packets() + elsewhere);
        }
    }
    let wire_bytes = sim.wire_bytes();
    for (i, flow) in sim.flows().iter().enumerate() {
        let (s, r) = (flow.sender.stats, flow.receiver());
        prop_assert!(s.retransmitted <= s.sent);
        prop_assert!(r.goodput_bytes <= (s.sent - s.retransmitted) * MSS, "unique bytes only");
        prop_assert!(wire_bytes[i] >= r.goodput_bytes);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Links that can keep a timetable, beside the same without: acknowledgements of a flow that never starts would cross
    /// them.
    #[test]
    fn records_change_nothing_and_timetables_change_no_record(
        mut document in single_hops(),
        slice_ns in 1_000_000..3_000_000_000_u64,
    ) {
        let idle = json!({"scheme": "reno", "path": ["link2"], "return_path": [], "start_s": 2.0 * DURATION_S});
        document["flows"].as_array_mut().unwrap().push(idle);
        document["record"] = with(document["record"].take(), &json!({"packets": false, "series": false}));
        let (_, mut plain) = build(&document);
        let all = json!({"packets": true, "series": true, "transmissions": true});
        document["record"] = with(document["record"].take(), &all);
        let (scenario, mut booked) = build(&document);
        let last = document["flows"].as_array().unwrap().len() - 1;
        document["flows"][last]["return_path"] = json!(["link0", "link1"]);
        let (_, mut stepped) = build(&document);
        prop_assert!(!stepped.links()[0].keeps_timetable());
        if plain.links().iter().all(|link| !link.is_impaired()) {
            prop_assert!(plain.links()[0].keeps_timetable());
            prop_assert!(booked.links()[0].keeps_timetable());
        }
        let mut at = 0;
        while at < scenario.duration.0 {
            at = scenario.duration.0.min(at + slice_ns);
            for sim in [&mut stepped, &mut booked, &mut plain] {
                sim.run_until(Time(at));
            }
            prop_assert_eq!(so_far(&stepped), so_far(&plain), "by {} ns", at);
            prop_assert_eq!(so_far(&booked), so_far(&plain), "by {} ns", at);
            prop_assert_eq!(written(&booked), written(&stepped), "by {} ns", at);
        }
        prop_assert_eq!(received(&booked), received(&plain));
        prop_assert_eq!(recorded(&mut booked, &scenario), recorded(&mut stepped, &scenario));
    }
}

/// Amounts of what links have written down so far, and the latest entry.
fn written(sim: &Sim) -> String {
    let of = |link: &Link| {
        let log = link.log.as_ref().unwrap();
        let bins = link.series.as_ref().unwrap().bins.clone();
        (log.delivered.len(), log.delivered.last().copied(), log.dropped.len(), log.lost.len(), log.policed.len(), bins)
    };
    format!("{:?}", sim.links().iter().map(of).collect::<Vec<_>>())
}

/// Answers of receivers, applications and decisions at the end.
fn received(sim: &Sim) -> String {
    let of = |flow: &Flow| {
        let receiver = flow.receiver();
        let completion = flow.sender.app.outcome().completion;
        (receiver.goodput_bytes, receiver.duplicates, completion, flow.reports.clone())
    };
    format!("{:?}", sim.flows().iter().map(of).collect::<Vec<_>>())
}

/// Everything in the result of a run that has ended, as text.
fn recorded(sim: &mut Sim, scenario: &Scenario) -> String {
    let mut result = sim.take_result(scenario);
    let flows = result.flows.iter_mut().map(|flow| format!("{:?} {}", flow.take_arrays(), json!(flow)));
    let flows: Vec<_> = flows.collect();
    let links = result.links.iter_mut().map(|link| format!("{:?} {}", link.take_arrays(), json!(link)));
    format!("{flows:?} {:?}", links.collect::<Vec<_>>())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn packets_are_conserved_and_runs_repeat(document in scenario()) {
        let sim = run(&document, u64::MAX);
        check_conservation(&document, &sim)?;
        let again = run(&document, 77_777_777);
        prop_assert!(fingerprint(sim) == fingerprint(again), "the way the time is sliced must not matter");
    }

    /// A stopped flow drains: then every segment that arrived is either new or a duplicate, and nothing is under way.
    #[test]
    fn what_was_sent_is_delivered_once(mut document in scenario()) {
        document["duration_s"] = json!(120);
        for flow in document["flows"].as_array_mut().unwrap() {
            flow["stop_s"] = json!(5);
            flow["return_path"] = json!([]);
            flow["app"] = json!({"type": "bulk"});
        }
        let sim = run(&document, u64::MAX);
        check_conservation(&document, &sim)?;
        prop_assert!(sim.links().iter().all(|l| l.backlog_packets() == 0 && l.pipe.is_empty()));
        let unique: u64 = sim.flows().iter().map(|f| f.receiver().goodput_bytes / MSS).sum();
        let duplicates: u64 = sim.flows().iter().map(|f| f.receiver().duplicates).sum();
        let sum = |of: fn(&Link) -> u64| sim.links().iter().map(of).sum::<u64>();
        let gone = sum(|l| l.stats.dropped_packets + l.stats.lost_packets + l.policed_packets());
        let gone = gone + sum(|l| l.impaired().corrupted_packets);
        let sent: u64 = sim.flows().iter().map(|f| f.sender.stats.sent).sum();
        prop_assert_eq!(unique + duplicates + gone, sent + sum(|l| l.impaired().duplicated_packets));
    }

    /// Bulk data goes on arriving, whatever the scheme, the loss and the buffer. (With more loss than this seven losses of
    /// one segment in a row, which the timeout's backoff makes a pause of 30 s, are not rare enough.)
    #[test]
    fn bulk_flows_do_not_stall(
        scheme in (0..all_schemes().len()).prop_filter("it needs a rule file", |&i| !all_schemes()[i].rules),
        (loss, buffer, mbps) in (0.0..0.1_f64, 1..50_u32, 0.5..10.0_f64),
        (sack, delayed, back) in any::<(bool, bool, bool)>(),
        mut options in transport(),
        seed in any::<u32>(),
    ) {
        options["min_rto_ms"] = json!(options["min_rto_ms"].as_f64().unwrap().min(200.0));
        let scheme = &all_schemes()[scheme];
        let policy = if scheme.learned { json!({"constant": 0}) } else { Value::Null };
        let document = json!({
            "duration_s": 120, "seed": seed,
            "links": [
                {"service": {"type": "constant", "rate_mbps": mbps}, "queue": {"type": "droptail", "packets": buffer},
                 "loss": loss},
                {"service": {"type": "constant", "rate_mbps": 10}}],
            "flows": [with(json!({"scheme": scheme.name, "policy": policy, "path": ["link0"],
                "return_path": if back { json!(["link1"]) } else { json!([]) }, "sack": sack,
                "delayed_ack": delayed}), &options)],
        });
        let (_, mut sim) = build(&document);
        let mut before = 0;
        for quarter in 1..=4_u64 {
            sim.run_until(Time(quarter * 30_000_000_000));
            let delivered = sim.flows()[0].receiver().goodput_bytes;
            prop_assert!(delivered > before, "nothing arrived in 30 s: {:?}", sim.flows()[0].sender.stats);
            before = delivered;
        }
    }
}
