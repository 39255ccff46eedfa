//! For tests that measure in real time.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::thread;
use std::time::Duration;

/// The share of the time that this machine's host gave to others from which nothing is measured in real time.
const STOLEN: f64 = 0.02;

/// Runs `test` until it passes, four times at most: a machine that others use, too, is now and then too late for what the
/// test says of rates and times. A fault of ours fails each time. If the machine's host took the processor away in each
/// attempt, nothing is proved either way: that is said loudly.
pub fn real_time(test: impl Fn()) {
    let name = thread::current().name().unwrap_or("test").to_owned();
    let mut fault = None;
    for _ in 0..4 {
        let before = times();
        let Err(panic) = catch_unwind(AssertUnwindSafe(&test)) else { return };
        let stolen = share(before, times());
        eprintln!(
            "AGAIN {name}: this machine may have been too busy; its host took {:.0} % of the time",
            100.0 * stolen
        );
        if stolen < STOLEN {
            fault = Some(panic);
        }
        thread::sleep(Duration::from_secs(1));
    }
    match fault {
        Some(panic) => resume_unwind(panic),
        None => eprintln!("SKIPPED {name}: in each attempt the host took the processor away from this machine"),
    }
}

/// Ticks of all processors so far: stolen by the host, and all (`steal` of proc_stat(5)); zeroes where that is not known.
fn times() -> (f64, f64) {
    let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let ticks: Vec<f64> = text.lines().next().unwrap_or_default().split(' ').filter_map(|t| t.parse().ok()).collect();
    (ticks.get(7).copied().unwrap_or(0.0), ticks.iter().take(8).sum())
}

fn share(before: (f64, f64), after: (f64, f64)) -> f64 {
    if after.1 > before.1 { (after.0 - before.0) / (after.1 - before.1) } else { 0.0 }
}
