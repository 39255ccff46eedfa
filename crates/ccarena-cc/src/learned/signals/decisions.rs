//! Decisions and their periods.

use super::{Arguments, HUGE, LARGEST, Range, Signal, View};
use crate::backends::Backend;
use crate::learned::monitor::{Parts, ratio};
use crate::types::Dur;

pub const SIGNALS: &[Signal] = &[
    Signal::new("last_action", "action", "the action in force, as what the actuator made of it", |v, a| {
        of_actuator(&v.action, a)
    })
    .bounds(-LARGEST, LARGEST)
    .range(Range::Action)
    .live(),
    Signal::new("action_before", "action", "the action that was in force in the interval before", |v, a| {
        of_actuator(&v.action_before, a)
    })
    .bounds(-LARGEST, LARGEST)
    .range(Range::Action),
    Signal::new("interval_ms", "ms", "length of the period; in a report the time since the last decision", |v, _| {
        v.measured.interval.as_millis_f64()
    })
    .bounds(0.0, HUGE)
    .natural(0.0, 0.01, 0.0, 4.0),
    Signal::new("interval_ratio", "1", "length of the period in smallest RTTs; 0 before a sample", |v, _| {
        v.measured.of_rtt_min(v.measured.interval)
    })
    .natural(0.0, 0.2, 0.0, 2.0)
    .source("Hyvar"),
    Signal::new("case", "index", "the reasoner's case of the period, 1 to 4; 0 for other clocks", |v, _| {
        f64::from(v.case)
    })
    .bounds(0.0, 255.0)
    .natural(0.0, 0.25, 0.0, 1.0)
    .source("Hyvar"),
    Signal::new(
        "mtp_ms",
        "ms",
        "the length that is chosen for the next period; 0 if the clock chooses none",
        |v, _| v.next_length.as_millis_f64(),
    )
    .bounds(0.0, HUGE)
    .natural(0.0, 0.01, 0.0, 4.0)
    .source("Hyvar")
    .user_space(),
    Signal::new("mtp_least_ms", "ms", "the least length of the periods since the last decision", |v, _| {
        v.measured.length_least.as_millis_f64()
    })
    .bounds(0.0, HUGE)
    .natural(0.0, 0.01, 0.0, 4.0)
    .source("Hyvar")
    .user_space(),
    Signal::new("mtp_most_ms", "ms", "the greatest length of the periods since the last decision", |v, _| {
        v.measured.length_most.as_millis_f64()
    })
    .bounds(0.0, HUGE)
    .natural(0.0, 0.01, 0.0, 4.0)
    .source("Hyvar")
    .user_space(),
    Signal::new("periods", "1", "periods since the last decision", |v, _| f64::from(v.measured.periods))
        .bounds(0.0, 1e10)
        .natural(0.0, 0.1, 0.0, 4.0)
        .source("Hyvar")
        .user_space(),
    Signal::new("time_s", "s", "time since the start of the run", |v, _| v.now.as_secs_f64())
        .bounds(0.0, HUGE)
        .natural(0.0, 0.01, 0.0, 4.0)
        .user_space(),
    Signal::new("since_ack_ms", "ms", "time since the newest acknowledgement", since_ack)
        .bounds(0.0, HUGE)
        .natural(0.0, 0.01, 0.0, 4.0)
        .needs(Parts::NEWEST)
        .source("Sprout")
        .user_space(),
    Signal::new("ack_gap_ms", "ms", "mean time between acknowledgements; 0 without two", |v, _| {
        v.monitor.gaps().map_or(0.0, |g| g.moments(v.measured.is_span).0 * 1e3)
    })
    .bounds(0.0, HUGE)
    .natural(0.0, 0.1, 0.0, 4.0)
    .needs(Parts::GAPS.and(Parts::NEWEST))
    .each(|n, _| n.gap.map(Dur::as_millis_f64))
    .source("Remy")
    .user_space(),
    Signal::new("ack_dispersion", "1", "deviation of the times between acknowledgements over their mean", |v, _| {
        v.monitor.gaps().map_or(0.0, |g| dispersion(g.moments(v.measured.is_span)))
    })
    .natural(0.0, 0.5, 0.0, 4.0)
    .needs(Parts::GAPS)
    .source("packet dispersion")
    .not_on(&[Backend::Bridge, Backend::Kernel]),
];

/// The action of the actuator whose index is the last option.
fn of_actuator(actions: &[f32], arguments: Arguments<'_>) -> f64 {
    let index = arguments.options.last().copied().unwrap_or_default() as usize;
    actions.get(index).copied().map_or(0.0, f64::from)
}

fn since_ack(v: &View<'_>, _: Arguments<'_>) -> f64 {
    v.now.since(v.monitor.newest().at).as_millis_f64()
}

/// Coefficient of variation; zero if the mean is.
fn dispersion((mean, deviation): (f64, f64)) -> f64 {
    ratio(deviation, mean)
}
