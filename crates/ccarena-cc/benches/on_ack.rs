//! What an acknowledgement costs each registered scheme, in nanoseconds: `cargo bench -p ccarena-cc [-- NAME ...]`.
//!
//! In the steady state of a long flow (`ccarena_cc::steady_state`). The time includes `on_sent`, `window()` and
//! `pacing_rate()`, and making up the events: `fixed`, which does nothing, shows what that takes.

use std::time::Duration;

use ccarena_cc::{Config, all_schemes, build, steady_state};

const ACKS: u64 = 200_000;
/// The best of this many short runs, so that other work on the machine shows little.
const RUNS: usize = 40;

fn main() -> Result<(), ccarena_cc::BuildError> {
    println!("{:<12} {:>10}", "scheme", "ns/ack");
    // Names after `--` choose schemes; cargo adds `--bench`.
    let wanted: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    for scheme in all_schemes().iter().filter(|s| wanted.is_empty() || wanted.iter().any(|w| w == s.name)) {
        let best =
            (0..RUNS).map(|_| run(scheme.name)).collect::<Result<Vec<_>, _>>()?.into_iter().min().unwrap_or_default();
        println!("{:<12} {:>10.2}", scheme.name, best.as_nanos() as f64 / ACKS as f64);
    }
    Ok(())
}

fn run(scheme: &str) -> Result<Duration, ccarena_cc::BuildError> {
    let mut controller = build(scheme, &Config::default())?;
    let start = now();
    steady_state::drive(controller.as_mut(), ACKS);
    Ok(start.elapsed())
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures wall-clock time")]
fn now() -> std::time::Instant {
    std::time::Instant::now()
}
