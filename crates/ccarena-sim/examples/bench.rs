//! The simulator's figures: packets per second and core, against a bare event loop with a binary heap.
//!
//! `cargo run --release -p ccarena-sim --example bench [-- [--json FILE] [NAME]]`: cases whose names hold NAME; with
//! `--json` the figures also go to FILE, a JSON object per line, as `bench/simulator.py` reads them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::fs::File;
use std::io::Write as _;
use std::time::Instant;

use ccarena_cc::{Dur, PolicySpec, Rate, Time, all_schemes};
use ccarena_net::ServiceSpec;
use ccarena_net::queues::{Limit, QueueSpec};
use ccarena_net::scenario::{Flow, Link, Scenario};
use ccarena_sim::{Files, Sim};
use serde_json::{Value, json};

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

/// The figures that have a bound: short name, name, scenario, what it has to reach.
fn bounded_cases() -> Vec<(&'static str, &'static str, Scenario, Goal)> {
    let constant = |mbps: f64| ServiceSpec::Constant(Rate::from_mbps(mbps));
    let cellular = ServiceSpec::Cellular { preset: "lte-driving".into(), seed: Some(1), offset: Dur::ZERO };
    let bdp = Limit::Bdp(1.0);
    vec![
        ("cubic", REFERENCE, scenario(constant(100.0), bdp, 10, 1, "cubic"), Goal::Rate(10.0, Some(0.9))),
        (
            "cubic-cellular",
            "1 cubic, cellular trace, 100 packets of buffer",
            scenario(cellular, Limit::Packets(100), 20, 1, "cubic"),
            Goal::Rate(8.0, None),
        ),
        (
            "cubic-100-flows",
            "100 cubic, 1 Gbit/s, 20 ms, 1 BDP of buffer",
            scenario(constant(1000.0), bdp, 10, 100, "cubic"),
            Goal::Rate(8.0, None),
        ),
        (
            "cubic-10gbit",
            "1 cubic, 10 Gbit/s, 20 ms, 1 BDP of buffer",
            scenario(constant(10_000.0), bdp, 10, 1, "cubic"),
            Goal::None,
        ),
        (
            "cubic-1000-flows",
            "1000 cubic, 10 Gbit/s, 20 ms, 1 BDP of buffer",
            scenario(constant(10_000.0), bdp, 10, 1000, "cubic"),
            Goal::OfCase("1 cubic, 10 Gbit/s, 20 ms, 1 BDP of buffer", 0.5),
        ),
    ]
}

/// One flow of CUBIC: what other cases are compared with.
const REFERENCE: &str = "1 cubic, 100 Mbit/s, 20 ms, 1 BDP of buffer";

enum Goal {
    None,
    /// Million packets per second, and of the bare event loop's.
    Rate(f64, Option<f64>),
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

/// The figures as they are measured: a line of the table each, and with `--json` one of the file.
struct Sheet {
    file: Option<File>,
    heap: f64,
    /// Million packets per second, by case.
    rates: BTreeMap<String, f64>,
}

impl Sheet {
    fn rate(&mut self, key: &str, what: &str, rate: f64, goal: &Goal, scheme: Option<&str>) -> std::io::Result<()> {
        self.rates.insert(what.into(), rate);
        let of_heap = rate / self.heap;
        let of_cubic =
            self.rates.get(REFERENCE).map_or(String::new(), |r| format!("{:5.2} of one CUBIC flow", rate / r));
        println!("{what:<48} {rate:8.2} M packets/s   {of_heap:5.2} of the heap loop   {of_cubic} {}", goal.text());
        let mut line = json!({"name": key, "what": what, "value": rate, "unit": "M packets/s",
            "ratio": {"value": of_heap, "of": HEAP}});
        if let Some(scheme) = scheme {
            line["scheme"] = scheme.into();
        }
        if let Goal::Rate(target, share) = goal {
            line["at_least"] = (*target).into();
            if let Some(share) = share {
                line["ratio"]["at_least"] = (*share).into();
            }
        }
        self.write(&line)?;
        if let (Goal::OfCase(other, share), true) = (goal, self.rates.contains_key(goal.other())) {
            let cost = self.rates[*other] / rate;
            println!(
                "{:<48} {cost:8.2} times that of \"{other}\" (target {:.0})",
                "  its cost per packet",
                1.0 / share
            );
            self.write(&json!({"name": format!("{key}-cost"), "value": cost, "unit": "×", "at_most": 1.0 / share,
                "what": format!("cost per packet of \"{what}\" over that of \"{other}\"")}))?;
        }
        Ok(())
    }

    fn write(&mut self, line: &Value) -> std::io::Result<()> {
        self.file.as_mut().map_or(Ok(()), |file| writeln!(file, "{line}"))
    }
}

const HEAP: &str = "a bare event loop with a binary heap";

impl Goal {
    fn text(&self) -> String {
        match self {
            Goal::Rate(target, _) => format!("(target {target:.0})"),
            _ => String::new(),
        }
    }

    /// The case that this one is compared with; empty is none.
    fn other(&self) -> &'static str {
        if let Goal::OfCase(other, _) = self { other } else { "" }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1).peekable();
    let file = match args.next_if(|word| word == "--json") {
        Some(_) => Some(File::create(args.next().ok_or("--json: expected a file")?)?),
        None => None,
    };
    let only = args.next();
    let wanted = |name: &str| only.as_deref().is_none_or(|o| name.contains(o));
    let heap = heap_loop(3_000_000);
    println!("{HEAP:<48} {heap:8.2} M packets/s");
    let mut sheet = Sheet { file, heap, rates: BTreeMap::new() };
    for (key, name, case, goal) in bounded_cases().into_iter().filter(|c| wanted(c.1)) {
        sheet.rate(key, name, measure(&case, 3_000_000)?, &goal, None)?;
    }
    for scheme in all_schemes().iter().filter(|s| s.name != "cubic") {
        let name = format!("1 {}, 100 Mbit/s, 20 ms, 1 BDP of buffer", scheme.name);
        if wanted(&name) {
            let link = ServiceSpec::Constant(Rate::from_mbps(100.0));
            let mut case = scenario(link, Limit::Bdp(1.0), 10, 1, scheme.name);
            // A learned scheme decides all the time, always the same.
            case.flows[0].policy =
                scheme.learned.then_some(PolicySpec::Constant(if scheme.name == "aurora" { 0.1 } else { 0.0 }));
            let rate = measure(&case, 1_000_000)?;
            sheet.rate(&format!("scheme-{}", scheme.name), &name, rate, &Goal::None, Some(scheme.name))?;
        }
    }
    let name = "2 wcc-ai, 10 Gbit/s: computing for 10 s";
    if wanted(name) {
        let seconds = wcc_scenario()?;
        println!("{name:<48} {seconds:8.2} s (target 15)");
        sheet.write(&json!({"name": "wcc-10gbit", "what": name, "value": seconds, "unit": "s", "at_most": 15.0}))?;
    }
    Ok(())
}
