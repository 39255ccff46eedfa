//! The simulator's figures: packets per second and core, against a bare event loop with a binary heap, and how the cost
//! of a packet grows with flows, links and window.
//!
//! `cargo run --release -p ccarena-sim --example packets [-- [--json FILE] [--heap PROGRAM] [--targets] [NAME]]`: cases
//! whose names hold NAME, with `--targets` those alone that have a target; with `--json` the figures also go to FILE, a
//! JSON object per line, as `bench/simulator.py` reads them.
//!
//! `packets --scenarios FILE` measures nothing: it runs each scenario of FILE, a JSON document per line, for its counts.
//!
//! The event loop runs in a process of its own: in this program, or with `--heap` in PROGRAM, which is this one as it was
//! built otherwise. So two builds of the simulator are held against one and the same loop.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use ccarena_cc::{Dur, PolicySpec, Rate, Time, all_schemes};
use ccarena_net::ServiceSpec;
use ccarena_net::queues::{Limit, QueueSpec};
use ccarena_net::scenario::{Flow, Link, Scenario};
use ccarena_net::service::access::{AccessSpec, Kind};
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

/// Seconds of computing by this thread, since the machine may be shared; seconds of the clock where the system does not
/// say.
fn now() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let computed = text.split(' ').next().and_then(|ns| ns.parse::<u64>().ok()).map(Duration::from_nanos);
    computed.or_else(|| SystemTime::UNIX_EPOCH.elapsed().ok()).unwrap_or_default().as_secs_f64()
}

/// What a scenario was measured at.
struct Measured {
    /// Million packets per second: the best of the rounds, since the machine may be shared.
    rate: f64,
    /// Of the bare event loop's that ran just before it: the median of the rounds.
    of_heap: f64,
}

const ROUNDS: usize = 5;

/// Packets that left a link, per second, of runs of `packets` packets each, beside the event loop of the program `heap`.
fn measure(scenario: &Scenario, packets: u64, heap: &Path) -> Result<Measured, Box<dyn std::error::Error>> {
    let (mut best, mut ratios) = (0.0_f64, Vec::new());
    for _ in 0..ROUNDS {
        let heap = rate_of_heap_loop(heap)?;
        let mut sim = Sim::new(scenario, &Files::default(), false)?;
        let left = |sim: &Sim| sim.links().iter().map(|link| link.stats.delivered_packets).sum::<u64>();
        let start = now();
        let mut end = Time::ZERO;
        while left(&sim) < packets {
            end = end + Dur::from_millis(100);
            sim.run_until(end);
        }
        let rate = left(&sim) as f64 / (now() - start) / 1e6;
        best = best.max(rate);
        ratios.push(rate / heap);
    }
    ratios.sort_unstable_by(f64::total_cmp);
    Ok(Measured { rate: best, of_heap: ratios[ROUNDS / 2] })
}

/// Million packets per second of the event loop in `program`.
fn rate_of_heap_loop(program: &Path) -> Result<f64, Box<dyn std::error::Error>> {
    let done = Command::new(program).arg(HEAP_LOOP).output().map_err(|e| format!("{}: {e}", program.display()))?;
    let rate = String::from_utf8_lossy(&done.stdout).trim().parse();
    rate.map_err(|_| format!("{} {HEAP_LOOP}: expected a rate; is it this example?", program.display()).into())
}

/// Runs the scenarios in `file`, a line each, to their ends.
fn run_all(file: &Path) -> Result<(), Box<dyn std::error::Error>> {
    for line in std::fs::read_to_string(file)?.lines() {
        let scenario = Scenario::parse(line)?;
        let mut sim = Sim::new(&scenario, &Files::default(), false)?;
        sim.run_until(Time(scenario.duration.0));
        drop(sim.take_result(&scenario));
    }
    Ok(())
}

/// The argument on which this program runs the event loop alone and prints its rate.
const HEAP_LOOP: &str = "--heap-loop";

/// Three events per packet (arrival, departure, acknowledgement) of one flow with a fixed window over one bottleneck,
/// in one binary heap: what a simulator costs before it simulates anything.
#[inline(never)]
fn heap_loop(packets: u64) -> f64 {
    const WINDOW: u64 = 333;
    const SERVICE_NS: u64 = 120_000;
    const PROPAGATION_NS: u64 = 10_000_000;
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
    done as f64 / (now() - start) / 1e6
}

/// The figures that have a bound: short name, name, scenario, what it has to reach.
fn bounded_cases() -> Vec<(&'static str, &'static str, Scenario, Goal)> {
    let constant = |mbps: f64| ServiceSpec::Constant(Rate::from_mbps(mbps));
    let cellular = ServiceSpec::Cellular { preset: "lte-driving".into(), seed: Some(1), offset: Dur::ZERO };
    let bdp = Limit::Bdp(1.0);
    let mut every_packet = scenario(constant(100.0), bdp, 10, 1, "reno");
    every_packet.flows[0].delayed_ack = false;
    vec![
        ("cubic", REFERENCE, scenario(constant(100.0), bdp, 10, 1, "cubic"), Goal::Rate(10.0, Some(1.75))),
        (
            "reno-ack-per-packet",
            "1 reno, an ACK per packet, 100 Mbit/s, 20 ms, 1 BDP of buffer",
            every_packet,
            Goal::Rate(6.0, Some(1.2)),
        ),
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
            Goal::Rate(8.0, Some(1.65)),
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
        (
            "cubic-10000-flows",
            "10000 cubic, 100 Gbit/s, 20 ms, 1 BDP of buffer",
            scenario(constant(100_000.0), bdp, 10, 10_000, "cubic"),
            Goal::OfCase(REFERENCE, 1.0 / 3.0),
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

/// What grows, how large it is, and a scenario of that size: flows of CUBIC that share a link, links of a parking lot that
/// one flow crosses and another one each, the window of one flow in packets.
fn growing_cases() -> Vec<(&'static str, u64, Scenario)> {
    let shared = |flows: usize, mbps: f64| {
        scenario(ServiceSpec::Constant(Rate::from_mbps(mbps)), Limit::Bdp(1.0), 10, flows, "cubic")
    };
    let mut cases = Vec::new();
    for flows in [1, 10, 100, 1000, 10_000] {
        cases.push(("flows", flows as u64, shared(flows, 10.0 * flows as f64)));
    }
    for links in [1, 2, 5, 10, 20, 50] {
        let mut case = shared(links + 1, 100.0);
        case.links = (0..links).map(|i| Link { name: format!("link{i}"), ..case.links[0].clone() }).collect();
        case.flows[0].path = (0..links).collect();
        for i in 0..links {
            case.flows[i + 1].path = vec![i];
        }
        cases.push(("links", links as u64, case));
    }
    for mbps in [1.0, 10.0, 100.0, 1000.0, 10_000.0] {
        let case = shared(1, mbps);
        // What is under way and what is queued behind it, when the buffer is full.
        let window = 2 * case.bdp_bytes(0, Rate::from_mbps(mbps)) / 1500;
        cases.push(("window", window, case));
    }
    cases
}

/// Resident memory of this process in bytes; none where the system does not say.
fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? * 1024)
}

/// Memory of each of many flows that share a link, in kB, after half a second; none where the system does not say.
fn memory_per_flow() -> Result<Option<f64>, Box<dyn std::error::Error>> {
    const FLOWS: usize = 10_000;
    let case = scenario(ServiceSpec::Constant(Rate::from_mbps(100_000.0)), Limit::Bdp(1.0), 10, FLOWS, "cubic");
    let before = resident_bytes();
    let mut sim = Sim::new(&case, &Files::default(), false)?;
    sim.run_until(Time::from_secs_f64(0.5));
    let bytes = resident_bytes().zip(before).map(|(after, before)| after.saturating_sub(before));
    Ok(bytes.map(|bytes| bytes as f64 / FLOWS as f64 / 1e3))
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
        best = best.min(now() - start);
    }
    Ok(best)
}

/// The figures as they are measured: a line of the table each, and with `--json` one of the file.
struct Sheet {
    file: Option<File>,
    /// Million packets per second, by case.
    rates: BTreeMap<String, f64>,
}

impl Sheet {
    fn rate(&mut self, key: &str, what: &str, got: Measured, goal: &Goal, scheme: Option<&str>) -> std::io::Result<()> {
        let Measured { rate, of_heap } = got;
        self.rates.insert(what.into(), rate);
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
                "{:<48} {cost:8.2} times that of \"{other}\" (target {:.1})",
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
    if args.next_if(|word| word == HEAP_LOOP).is_some() {
        println!("{}", heap_loop(1_000_000));
        return Ok(());
    }
    if args.next_if(|word| word == "--scenarios").is_some() {
        return run_all(Path::new(&args.next().ok_or("--scenarios: expected a file")?));
    }
    let file = match args.next_if(|word| word == "--json") {
        Some(_) => Some(File::create(args.next().ok_or("--json: expected a file")?)?),
        None => None,
    };
    let heap = match args.next_if(|word| word == "--heap") {
        Some(_) => PathBuf::from(args.next().ok_or("--heap: expected a program")?),
        None => std::env::current_exe()?,
    };
    let targets = args.next_if(|word| word == "--targets").is_some();
    let only = args.next();
    let wanted = |name: &str| only.as_deref().is_none_or(|o| name.contains(o));
    let other = |name: &str| !targets && wanted(name);
    let mut sheet = Sheet { file, rates: BTreeMap::new() };
    // First, while no other case has left freed memory behind, which flows would take without a trace.
    let name = "memory of each of 10000 flows";
    if other(name) {
        if let Some(kb) = memory_per_flow()? {
            println!("{name:<48} {kb:8.1} kB");
            sheet.write(&json!({"name": "memory-per-flow", "what": format!("{name}, 100 Gbit/s"), "value": kb,
                "unit": "kB"}))?;
        }
    }
    for (key, name, case, goal) in bounded_cases().into_iter().filter(|c| wanted(c.1)) {
        sheet.rate(key, name, measure(&case, 3_000_000, &heap)?, &goal, None)?;
    }
    for scheme in all_schemes().iter().filter(|s| s.name != "cubic" && !s.rules) {
        let name = format!("1 {}, 100 Mbit/s, 20 ms, 1 BDP of buffer", scheme.name);
        if other(&name) {
            let link = ServiceSpec::Constant(Rate::from_mbps(100.0));
            let mut case = scenario(link, Limit::Bdp(1.0), 10, 1, scheme.name);
            // A learned scheme decides all the time, always the same.
            case.flows[0].policy =
                scheme.learned.then_some(PolicySpec::Constant(vec![if scheme.name == "aurora" { 0.1 } else { 0.0 }]));
            let rate = measure(&case, 1_000_000, &heap)?;
            sheet.rate(&format!("scheme-{}", scheme.name), &name, rate, &Goal::None, Some(scheme.name))?;
        }
    }
    for &kind in Kind::ALL {
        let medium = kind.description().name;
        let name = format!("1 cubic, {medium} of 100 Mbit/s, 20 ms, 1 BDP of buffer");
        if wanted(&name) {
            let rate = ServiceSpec::Constant(Rate::from_mbps(100.0));
            let service = AccessSpec::new(kind, &BTreeMap::new(), rate).map_err(|refusal| refusal.expected)?;
            let case = scenario(ServiceSpec::Access(service), Limit::Bdp(1.0), 10, 1, "cubic");
            let rate = measure(&case, 1_000_000, &heap)?;
            sheet.rate(&format!("medium-{medium}"), &name, rate, &Goal::OfCase(REFERENCE, 1.0 / 1.3), None)?;
        }
    }
    let name = "2 wcc-ai, 10 Gbit/s: computing for 10 s";
    if wanted(name) {
        let seconds = wcc_scenario()?;
        println!("{name:<48} {seconds:8.2} s (target 15)");
        sheet.write(&json!({"name": "wcc-10gbit", "what": name, "value": seconds, "unit": "s", "at_most": 15.0}))?;
    }
    for (what, size, case) in growing_cases() {
        let name = format!("cost of a packet on a link: {what} {size}");
        if other(&name) {
            let Measured { rate, of_heap } = measure(&case, 1_000_000, &heap)?;
            println!("{name:<48} {:8.0} ns   {:5.2} of the heap loop's", 1e3 / rate, 1.0 / of_heap);
            sheet.write(&json!({"name": format!("growth/{what}/{size}"), "what": format!("{what}: {size}"),
                "value": 1e3 / rate, "unit": "ns", "growth": true,
                "ratio": {"value": 1.0 / of_heap, "of": HEAP}}))?;
        }
    }
    Ok(())
}
