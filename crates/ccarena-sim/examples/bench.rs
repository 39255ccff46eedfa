//! The simulator's figures: packets per second and core, against a bare event loop with a binary heap.
//!
//! `cargo run --release -p ccarena-sim --example bench [-- NAME]`

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::Instant;

use ccarena_cc::{Dur, PolicySpec, Rate, Time, all_schemes};
use ccarena_net::ServiceSpec;
use ccarena_net::queues::{Limit, QueueSpec};
use ccarena_net::scenario::{Flow, Link, Scenario};
use ccarena_sim::{Files, Sim};

fn scenario(service: ServiceSpec, queue: Limit, delay_ms: u64, flows: usize, scheme: &str) -> Scenario {
    Scenario {
        duration: Dur::from_millis(3_600_000),
        links: vec![Link {
            service,
            queue: QueueSpec::droptail(queue),
            delay: Dur::from_millis(delay_ms),
            ..Link::default()
        }],
        flows: (0..flows)
            .map(|i| Flow { name: format!("flow{i}"), scheme: scheme.into(), ..Flow::default() })
            .collect(),
        ..Scenario::default()
    }
}

#[expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
fn now() -> Instant {
    Instant::now()
}

/// Million packets per second: the best of five runs of `packets` packets each, since the machine may be shared.
fn measure(scenario: &Scenario, packets: u64) -> Result<f64, Box<dyn std::error::Error>> {
    let mut best = 0.0_f64;
    for _ in 0..5 {
        let mut sim = Sim::new(scenario, &Files::default(), false)?;
        let start = now();
        let mut end = Time::ZERO;
        while sim.data_packets < packets {
            end = end + Dur::from_millis(500);
            sim.run_until(end);
        }
        best = best.max(sim.data_packets as f64 / start.elapsed().as_secs_f64() / 1e6);
    }
    Ok(best)
}

/// Three events per packet (arrival, departure, acknowledgement) of one flow with a fixed window over one bottleneck,
/// in one binary heap: what a simulator costs before it simulates anything.
#[inline(never)]
fn heap_loop(packets: u64) -> f64 {
    const WINDOW: u64 = 333;
    const SERVICE_NS: u64 = 120_000;
    const PROPAGATION_NS: u64 = 10_000_000;
    let mut best = 0.0_f64;
    for _ in 0..5 {
        let start = now();
        let mut heap = BinaryHeap::with_capacity(2048);
        for seq in 0..WINDOW {
            heap.push(Reverse((0_u64, 0_u8, seq)));
        }
        let (mut free_at, mut done, mut next) = (0_u64, 0_u64, WINDOW);
        while done < packets {
            let Some(Reverse((at, kind, seq))) = heap.pop() else { break };
            match kind {
                0 => {
                    free_at = free_at.max(at) + SERVICE_NS;
                    heap.push(Reverse((free_at, 1, seq)));
                }
                1 => heap.push(Reverse((at + 2 * PROPAGATION_NS, 2, seq))),
                _ => {
                    done += 1;
                    heap.push(Reverse((at, 0, next)));
                    next += 1;
                }
            }
        }
        best = best.max(done as f64 / start.elapsed().as_secs_f64() / 1e6);
    }
    best
}

/// The figures that have a bound: name, scenario, what it has to reach.
fn bounded_cases() -> Vec<(&'static str, Scenario, Goal)> {
    let constant = |mbps: f64| ServiceSpec::Constant(Rate::from_mbps(mbps));
    let cellular = ServiceSpec::Cellular { preset: "lte-driving".into(), seed: Some(1), offset: Dur::ZERO };
    let bdp = Limit::Bdp(1.0);
    vec![
        (REFERENCE, scenario(constant(100.0), bdp, 10, 1, "cubic"), Goal::Rate(10.0)),
        (
            "1 cubic, cellular trace, 100 packets",
            scenario(cellular, Limit::Packets(100), 20, 1, "cubic"),
            Goal::Rate(8.0),
        ),
        ("100 cubic, 1 Gbit/s, 20 ms, 1 BDP", scenario(constant(1000.0), bdp, 10, 100, "cubic"), Goal::Rate(8.0)),
        ("1 cubic, 10 Gbit/s, 20 ms, 1 BDP", scenario(constant(10_000.0), bdp, 10, 1, "cubic"), Goal::None),
        (
            "1000 cubic, 10 Gbit/s, 20 ms, 1 BDP",
            scenario(constant(10_000.0), bdp, 10, 1000, "cubic"),
            Goal::OfCase("1 cubic, 10 Gbit/s, 20 ms, 1 BDP", 0.5),
        ),
    ]
}

/// One flow of CUBIC: what other cases are compared with.
const REFERENCE: &str = "1 cubic, 100 Mbit/s, 20 ms, 1 BDP";

enum Goal {
    None,
    /// Million packets per second.
    Rate(f64),
    /// At least this share of another case's packets per second.
    OfCase(&'static str, f64),
}

/// Two WCC flows on 10 Gbit/s, as in the paper's testbed: seconds for 10 s, the best of five.
fn wcc_scenario() -> Result<f64, Box<dyn std::error::Error>> {
    let mut case = scenario(ServiceSpec::Constant(Rate::from_mbps(10_000.0)), Limit::Bytes(2_000_000), 0, 2, "wcc-ai");
    case.links[0].delay = Dur::from_micros(20);
    case.flows[1].weight = 2.0;
    let mut best = f64::INFINITY;
    for _ in 0..5 {
        let mut sim = Sim::new(&case, &Files::default(), false)?;
        let start = now();
        sim.run_until(Time::from_secs_f64(10.0));
        best = best.min(start.elapsed().as_secs_f64());
    }
    Ok(best)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let only = std::env::args().nth(1);
    let wanted = |name: &str| only.as_deref().is_none_or(|o| name.contains(o));
    let heap = heap_loop(3_000_000);
    println!("{:<44} {heap:8.2} M packets/s", "bare event loop with a binary heap");
    let mut rates: BTreeMap<&str, f64> = BTreeMap::new();
    let report = |name: &str, rate: f64, rates: &BTreeMap<&str, f64>, goal: &str| {
        let of_cubic = rates.get(REFERENCE).map_or(String::new(), |r| format!("{:5.2} of one CUBIC flow", rate / r));
        println!("{name:<44} {rate:8.2} M packets/s   {:5.2} of the heap loop   {of_cubic} {goal}", rate / heap);
    };
    for (name, case, goal) in bounded_cases().into_iter().filter(|c| wanted(c.0)) {
        let rate = measure(&case, 3_000_000)?;
        rates.insert(name, rate);
        let goal = match goal {
            Goal::None => String::new(),
            Goal::Rate(target) => format!("(target {target:.0})"),
            Goal::OfCase(other, share) => {
                rates.get(other).map_or(String::new(), |r| format!("({:.2} of \"{other}\", target {share})", rate / r))
            }
        };
        report(name, rate, &rates, &goal);
    }
    for scheme in all_schemes().iter().filter(|s| s.name != "cubic") {
        let name = format!("1 {}, 100 Mbit/s, 20 ms, 1 BDP", scheme.name);
        if wanted(&name) {
            let link = ServiceSpec::Constant(Rate::from_mbps(100.0));
            let mut case = scenario(link, Limit::Bdp(1.0), 10, 1, scheme.name);
            // A learned scheme decides all the time, always the same.
            case.flows[0].policy =
                scheme.learned.then_some(PolicySpec::Constant(if scheme.name == "aurora" { 0.1 } else { 0.0 }));
            report(&name, measure(&case, 1_000_000)?, &rates, "");
        }
    }
    if wanted("wcc-ai scenario") {
        let seconds = wcc_scenario()?;
        println!("{:<44} {seconds:8.2} s of computing (target 15)", "2 wcc-ai, 10 Gbit/s, 10 s");
    }
    Ok(())
}
