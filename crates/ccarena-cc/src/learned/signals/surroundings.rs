//! Signals from routers, and requests of the application or the operator.

use super::delays::BUDGET;
use super::{Arguments, HUGE, Range, Signal, View};
use crate::learned::monitor::Parts;
use crate::types::Dur;

pub const SIGNALS: &[Signal] = &[
    Signal::new("advertised_mbps", "Mbit/s", "rate that routers advertise; the desired one before any does", |v, _| {
        v.monitor.advertised.as_mbps()
    })
    .bounds(0.0, HUGE)
    .natural(0.0, 0.01, 0.0, 4.0)
    .needs(Parts::ADVERTISED)
    .source("ACCT"),
    Signal::new("zone", "one-hot", "operating zone, by window against target and delay against budget", |v, a| {
        f64::from(u8::from(zone(v, a) == a.channel))
    })
    .bounds(0.0, 1.0)
    .natural(0.0, 1.0, 0.0, 1.0)
    .options(&[BUDGET])
    .channels(&["green", "yellow", "red", "blue"])
    .needs(Parts::ADVERTISED)
    .source("ACCT section II-B"),
    Signal::new("zone_index", "index", "the same as a number: 0 green, 1 yellow, 2 red, 3 blue", |v, a| {
        zone(v, a) as f64
    })
    .bounds(0.0, 3.0)
    .natural(0.0, 1.0, 0.0, 3.0)
    .options(&[BUDGET])
    .needs(Parts::ADVERTISED)
    .source("ACCT section II-B"),
    Signal::new("weight", "1", "the flow's weight", |v, _| v.weight)
        .bounds(0.0, 1e6)
        .natural(0.0, 0.5, 0.0, 4.0)
        .live()
        .source("WCC")
        .user_space(),
    Signal::new(
        "required_min_mbps",
        "Mbit/s",
        "least rate that the application requires; 0 without a requirement",
        |v, _| v.requirement.map_or(0.0, |r| r.min.as_mbps()),
    )
    .bounds(0.0, HUGE)
    .natural(0.0, 0.01, 0.0, 4.0)
    .live()
    .source("Hercules")
    .user_space(),
    Signal::new(
        "required_max_mbps",
        "Mbit/s",
        "rate beyond which more is of no use; 0 without a requirement",
        |v, _| v.requirement.map_or(0.0, |r| r.max.as_mbps()),
    )
    .bounds(0.0, HUGE)
    .natural(0.0, 0.01, 0.0, 4.0)
    .live()
    .source("Hercules")
    .user_space(),
    Signal::new("input", "its own", "the value of the input or run-time parameter `name`", |v, a| {
        v.params.get(a.options.first().map_or(0, |k| *k as usize)).copied().unwrap_or(0.0)
    })
    .bounds(-HUGE, HUGE)
    .range(Range::Named)
    .live()
    .user_space(),
];

/// The operating zone (ACCT section II-B, Fig. 2a), a complete partition by rate and delay: green, below the target and
/// within the budget; yellow, not below and within; red, not below and over; blue, below and over, where the bottleneck
/// does not signal.
fn zone(v: &View<'_>, a: Arguments<'_>) -> usize {
    let budget = Dur::from_secs_f64(a.options[0] / 1e3);
    match (v.segments() < v.target(), v.measured.delay_or_zero() < budget) {
        (true, true) => 0,
        (false, true) => 1,
        (false, false) => 2,
        (true, false) => 3,
    }
}
