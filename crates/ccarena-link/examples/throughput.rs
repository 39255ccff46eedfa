//! How much the emulator carries on this machine: one TCP flow over a link with 10 ms each way, at each rate given in
//! Mbit/s. `cargo run --release -p ccarena-link --example throughput -- [--seconds S] [--links N] [--bdp B] RATE...`
//!
//! With `--links N` there are N links at once, each with a network and an emulator of its own. Queues hold B (1)
//! bandwidth-delay products.

#[path = "../tests/common/mod.rs"]
mod common;

use std::thread;

use ccarena_cc::types::Dur;

fn main() {
    if let Err(error) = ccarena_link::namespace::become_root_in_user_namespace() {
        eprintln!("{error}");
        std::process::exit(1);
    }
    let (mut seconds, mut links, mut bdp, mut rates) = (5.0, 1, 1.0, Vec::new());
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let value = if argument.starts_with("--") { arguments.next().unwrap_or_default() } else { argument.clone() };
        let Ok(value) = value.parse::<f64>() else {
            eprintln!("{argument} {value}: expected a number");
            std::process::exit(2);
        };
        match argument.as_str() {
            "--seconds" => seconds = value,
            "--links" => links = value as usize,
            "--bdp" => bdp = value,
            _ => rates.push(value),
        }
    }
    println!("Mbit/s  goodput  RTT ms  CPU cores  us/packet  late us: p50     p99     max  valid");
    for rate in rates {
        thread::scope(|scope| {
            for _ in 0..links {
                scope.spawn(|| measure(rate, bdp, seconds));
            }
        });
    }
}

fn measure(mbps: f64, bdp: f64, seconds: f64) {
    let (flows, outcome) = common::run(&common::one_link(mbps, bdp, 1), seconds);
    let (late, counts) = (outcome.lateness, outcome.counts);
    let us = |d: Dur| d.0 as f64 / 1e3;
    println!(
        "{mbps:6}  {:7.1}  {:6.2}  {:9.3}  {:9.2}  {:12.0}  {:6.0}  {:6.0}  {}",
        flows[0].goodput_mbps,
        flows[0].rtt.as_secs_f64() * 1e3,
        counts.cpu.as_secs_f64() / seconds,
        us(counts.cpu) / counts.read.max(1) as f64,
        us(late.p50),
        us(late.p99),
        us(late.max),
        late.valid,
    );
}
