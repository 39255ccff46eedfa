//! What QUIC under our controllers costs: bulk data on the loopback beside the same stack with its own CUBIC, and an
//! acknowledgement under each heuristic.
//!
//! `cargo run --profile extension -p ccarena-quic --example transfer [-- --json FILE]`: with `--json` the figures also go to FILE,
//! a JSON object per line, as `bench/quic.py` reads them.

use std::error::Error;
use std::fs::File;
use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use ccarena_cc::{Config, Dur, Rate, Requirement, Time, all_schemes, registry};
use ccarena_net::Ecn;
use ccarena_quic::clock::Clock;
use ccarena_quic::host::{Host, Link, Peer, Reactor};
use ccarena_quic::steering::{Driver, Steering};
use ccarena_quic::transport::{self, LARGEST_MTU, Settings, Streams};
use ccarena_quic::udp::{SEND_BUFFER, Udp};
use ccarena_quic::{streams, tls};
use noq_proto::congestion::{ControllerFactory, CubicConfig};
use noq_proto::{Dir, Event, StreamId};
use serde_json::{Value, json};

const ROUNDS: usize = 7;
const BULK: Duration = Duration::from_millis(1000);
const TURN: Dur = Dur::from_millis(20);
const ACKS: u64 = 100_000;
/// Packets under way, and acknowledged at a time, as RFC 9000 asks for.
const WINDOW: u64 = 200;
const PER_ACK: u64 = 2;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut file = match arguments.as_slice() {
        [] => None,
        [flag, path] if flag == "--json" => Some(File::create(path)?),
        _ => return Err("expected no argument, or --json FILE".into()),
    };
    for figure in [bulk()?, acks()?].concat() {
        println!("{figure}");
        if let Some(file) = &mut file {
            writeln!(file, "{figure}")?;
        }
    }
    Ok(())
}

fn driver(scheme: &str) -> Result<Driver, ccarena_cc::BuildError> {
    let requirement = Some(Requirement { min: Rate::from_mbps(50.0), max: Rate::from_mbps(80.0) });
    let config = Config { mss: LARGEST_MTU.into(), requirement, ..Config::default() };
    let controller = registry::build(scheme, &config)?;
    Ok(Driver { controller, decider: None, settings: Vec::new(), keeps_reports: false, from: Time::ZERO })
}

/// Reads and counts, or writes without end.
enum End {
    Sink(Arc<AtomicU64>),
    Source(Option<StreamId>),
}

impl Peer for End {
    fn on_event(&mut self, link: &mut Link<'_>, event: Event) {
        match self {
            Self::Sink(bytes) => {
                bytes.fetch_add(streams::discard(link.stack, &event, |_| {}), Ordering::Relaxed);
            }
            Self::Source(stream) if matches!(event, Event::Connected) => *stream = link.stack.streams().open(Dir::Uni),
            Self::Source(_) => {}
        }
    }

    fn write(&mut self, link: &mut Link<'_>) {
        if let Self::Source(Some(stream)) = self {
            while streams::write(link.stack, *stream, u64::MAX).is_some() {}
        }
    }
}

/// Turns until `over`.
fn spin(mut reactor: Reactor<End>, over: &AtomicBool) {
    while !over.load(Ordering::Relaxed) {
        let until = reactor.now() + TURN;
        if reactor.turn(until, &[]).is_err() {
            break;
        }
    }
}

/// Mbit/s that one connection brings over the loopback under `scheme`, or under the stack's own CUBIC.
fn goodput(scheme: Option<&str>) -> Result<f64, Box<dyn Error>> {
    let clock = Clock::starting();
    let streams = Streams { unidirectional: 1, ..Streams::default() };
    let settings = Settings { streams, ..Settings::default() };
    let loopback = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let (bytes, over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));

    let steering = Steering::of_receiver(clock, settings.mtu, None)?;
    let mut server = tls::Identity::generate()?.config()?;
    server.transport_config(transport::config(&settings, Arc::new(steering.clone())));
    let udp = Udp::bind(loopback, Ecn::NotEct, SEND_BUFFER)?;
    let remote = udp.address()?;
    let mut once = Some((Arc::new(server), steering, End::Sink(Arc::clone(&bytes))));
    let config = once.as_ref().map(|(config, ..)| Arc::clone(config)).ok_or("no configuration")?;
    let sink = Host::new(udp, clock, Some((config, Box::new(move |_| once.take()))));
    let sinks = Reactor::new(clock, vec![sink])?;

    let steering = Steering::new(driver(scheme.unwrap_or("cubic"))?, clock, settings.mtu, None);
    let factory: Arc<dyn ControllerFactory + Send + Sync> = match scheme {
        Some(_) => Arc::new(steering.clone()),
        None => Arc::new(CubicConfig::default()),
    };
    let mut client = tls::client(None)?;
    client.transport_config(transport::config(&settings, factory));
    let mut source = Host::new(Udp::bind(loopback, Ecn::NotEct, SEND_BUFFER)?, clock, None);
    source.connect(client, remote, steering, End::Source(None))?;
    let sources = Reactor::new(clock, vec![source])?;

    std::thread::scope(|scope| {
        scope.spawn(|| spin(sinks, &over));
        scope.spawn(|| spin(sources, &over));
        // The handshake and slow start are not measured.
        std::thread::sleep(BULK / 4);
        let (before, began) = (bytes.load(Ordering::Relaxed), clock.time(clock.now()));
        std::thread::sleep(BULK);
        let (after, ended) = (bytes.load(Ordering::Relaxed), clock.time(clock.now()));
        over.store(true, Ordering::Relaxed);
        Ok((after - before) as f64 * 8e-6 / ended.since(began).as_secs_f64())
    })
}

/// Both in turn, so that other work on the machine disturbs both: the median of the rounds' ratios.
fn bulk() -> Result<Vec<Value>, Box<dyn Error>> {
    let (mut ours, mut stacks, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        ours.push(goodput(Some("cubic"))?);
        stacks.push(goodput(None)?);
        ratios.push(ours[ours.len() - 1] / stacks[stacks.len() - 1]);
    }
    let what = "bulk data on the loopback";
    Ok(vec![
        json!({"name": "bulk", "what": format!("{what}, under our CUBIC"), "value": median(ours), "unit": "Mbit/s"}),
        json!({"name": "bulk-stack", "what": format!("{what}, under the stack's own"), "value": median(stacks), "unit": "Mbit/s"}),
        json!({"name": "bulk-ratio", "what": "the first over the second, in turn", "value": median(ratios), "unit": "×", "at_least": 0.9}),
    ])
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// ns that an acknowledgement of two packets takes, sending them included, under the heuristic that takes longest.
fn acks() -> Result<Vec<Value>, Box<dyn Error>> {
    let mut costs = Vec::new();
    for scheme in all_schemes() {
        let mut driver = driver(scheme.name)?;
        if driver.controller.learned().is_none() {
            costs.push((acknowledge(driver), scheme.name));
        }
    }
    costs.sort_by(|a, b| a.0.total_cmp(&b.0));
    let Some((dearest, name)) = costs.last() else { return Err("there is no heuristic".into()) };
    let what = format!("an acknowledgement of two packets: the dearest heuristic, `{name}`");
    let cubic = costs.iter().find(|(_, name)| *name == "cubic").map_or(f64::NAN, |(ns, _)| *ns);
    Ok(vec![
        json!({"name": "ack-cubic", "what": "an acknowledgement of two packets under `cubic`", "value": cubic / 1e3, "unit": "µs"}),
        json!({"name": "ack", "what": what, "value": dearest / 1e3, "unit": "µs", "at_most": 1.0}),
    ])
}

fn acknowledge(driver: Driver) -> f64 {
    let clock = Clock::starting();
    let steering = Steering::new(driver, clock, LARGEST_MTU, None);
    let (rtt, spacing) = (Dur::from_millis(24), Dur::from_micros(120));
    let at = |number: u64| Time(1) + spacing * number;
    steering.begin(Time(1));
    (0..WINDOW).for_each(|number| steering.on_sent(at(number), LARGEST_MTU.into(), number));
    let mut best = f64::INFINITY;
    let mut next = WINDOW;
    for _ in 0..5 {
        let before = clock.time(clock.now());
        for _ in 0..ACKS / 5 {
            let now = at(next) + rtt - spacing * WINDOW;
            for number in next..next + PER_ACK {
                steering.on_acked(now, number - WINDOW);
            }
            steering.settle(now, Some(rtt));
            steering.advance(now);
            for number in next..next + PER_ACK {
                steering.on_sent(now, LARGEST_MTU.into(), number);
            }
            next += PER_ACK;
        }
        let spent = clock.time(clock.now()).since(before);
        best = best.min(spent.0 as f64 / (ACKS / 5) as f64);
    }
    best
}
