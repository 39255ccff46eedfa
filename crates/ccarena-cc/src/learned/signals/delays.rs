//! Round-trip times and queueing delays.

use super::{Arguments, HUGE, LARGEST, Signal, View};
use crate::learned::monitor::{Parts, Segment};
use crate::param::Param;
use crate::types::{Dur, Time};

/// Natural scale of delays: 1 is 100 ms.
const MS: f64 = 0.01;

/// Delay that ACCT's zones and ratio compare with the budget.
pub const BUDGET: Param =
    Param { name: "budget_ms", default: 5.0, min: 0.1, max: 1000.0, doc: "queueing delay budget in ms" };
const QUANTILE: Param = Param { name: "q", default: 0.95, min: 0.0, max: 1.0, doc: "which quantile, 0 to 1" };

pub const SIGNALS: &[Signal] = &[
    Signal::new("rtt_ms", "ms", "mean RTT; the mean before it without a sample", |v, _| v.measured.rtt.as_millis_f64())
        .bounds(0.0, HUGE)
        .natural(0.0, MS, 0.0, 4.0)
        .each(|n, _| n.rtt.map(Dur::as_millis_f64)),
    Signal::new("rtt_min_ms", "ms", "smallest RTT of the flow", |v, _| v.measured.rtt_min.as_millis_f64())
        .bounds(0.0, HUGE)
        .natural(0.0, MS, 0.0, 4.0)
        .each(|n, _| sampled(n.rtt_min)),
    Signal::new("srtt_ms", "ms", "smoothed RTT (RFC 6298)", |v, _| v.measured.srtt.as_millis_f64())
        .bounds(0.0, HUGE)
        .natural(0.0, MS, 0.0, 4.0)
        .each(|n, _| sampled(n.srtt)),
    Signal::new("rttvar_ms", "ms", "RTT variation: smoothed deviation of the RTT samples (RFC 6298)", |v, _| {
        v.monitor.newest().variation.seconds * 1e3
    })
    .bounds(0.0, HUGE)
    .natural(0.0, 0.1, 0.0, 4.0)
    .needs(Parts::NEWEST)
    .source("Sage")
    .user_space(),
    Signal::new("ack_rtt_ms", "ms", "RTT sample of the newest acknowledgement that has one", |v, a| {
        v.monitor.newest().segment_last.map_or(0.0, |s| rtt_ms(&s, a.options))
    })
    .bounds(0.0, HUGE)
    .natural(0.0, MS, 0.0, 4.0)
    .options(TICK)
    .needs(Parts::DEPARTURES)
    .each(|n, options| n.segment.map(|s| rtt_ms(&s, options)))
    .source("Indigo"),
    Signal::new("rtt_samples", "1", "RTT samples", |v, _| f64::from(v.measured.rtt_samples))
        .bounds(0.0, 1e10)
        .natural(0.0, 0.01, 0.0, 4.0)
        .source("Orca"),
    Signal::new("rtt_or_zero_ms", "ms", "mean RTT; 0 without a sample", |v, _| {
        v.measured.rtt_sampled.unwrap_or_default().as_millis_f64()
    })
    .bounds(0.0, HUGE)
    .natural(0.0, MS, 0.0, 4.0)
    .source("Astraea"),
    Signal::new("rtt_or_min_ms", "ms", "mean RTT; the smallest RTT without a sample", |v, _| {
        v.measured.rtt_or_min().as_millis_f64()
    })
    .bounds(0.0, HUGE)
    .natural(0.0, MS, 0.0, 4.0)
    .source("ACCT"),
    Signal::new(
        "rtt_quantile_ms",
        "ms",
        "quantile `q` of the RTT samples (nearest rank); the mean without any",
        |v, a| {
            let samples = v.monitor.samples();
            let quantile = samples.and_then(|s| s.quantile_ms(a.options[0], v.measured.is_span));
            quantile.unwrap_or(v.measured.rtt.as_millis_f64())
        },
    )
    .bounds(0.0, HUGE)
    .natural(0.0, MS, 0.0, 4.0)
    .options(&[QUANTILE])
    .needs(Parts::SAMPLES)
    .source("Sprout (5th percentile), Sage")
    .user_space(),
    Signal::new("rtt_ratio", "1", "mean over smallest RTT; 0 before a sample", |v, _| {
        v.measured.of_rtt_min(v.measured.rtt)
    })
    .natural(1.0, 1.0, 0.0, 4.0)
    .source("Orca, Hyvar"),
    Signal::new("latency_ratio", "1", "mean over smallest RTT; 1 before a sample", latency_ratio)
        .natural(1.0, 1.0, 0.0, 4.0)
        .source("Aurora (latency ratio)"),
    Signal::new("srtt_ratio", "1", "smoothed over smallest RTT; 1 before a sample", |v, _| v.measured.srtt_ratio())
        .natural(1.0, 1.0, 0.0, 4.0)
        .source("Hyvar (R̂)"),
    Signal::new("queueing_delay_ms", "ms", "mean less smallest RTT", |v, _| {
        (v.measured.rtt - v.measured.rtt_min).as_millis_f64()
    })
    .bounds(0.0, HUGE)
    .natural(0.0, MS, 0.0, 4.0)
    .each(|n, _| n.rtt.map(|rtt| (rtt - n.rtt_min).as_millis_f64())),
    Signal::new("delay_or_zero_ms", "ms", "mean less smallest RTT (ACCT's σ); 0 without a sample", |v, _| {
        v.measured.delay_or_zero().as_millis_f64()
    })
    .bounds(0.0, HUGE)
    .natural(0.0, MS, 0.0, 4.0)
    .source("ACCT equation 2"),
    Signal::new("delay_ratio", "1", "mean less smallest RTT, over the budget; 0 without a sample", |v, a| {
        v.measured.delay_or_zero().as_secs_f64() / Dur::from_secs_f64(a.options[0] / 1e3).as_secs_f64()
    })
    .bounds(0.0, HUGE)
    .natural(0.0, 0.5, 0.0, 5.0)
    .options(&[BUDGET])
    .source("ACCT"),
    Signal::new("latency_gradient", "s/s", "slope of a least-squares line through the RTT samples", |v, _| {
        v.measured.slope
    })
    .bounds(-LARGEST, LARGEST)
    .natural(0.0, 2.0, -2.0, 2.0)
    .needs(Parts::LINE)
    .source("Aurora, PCC Vivace"),
    Signal::new("rtt_gradient", "s/s", "change of mean RTT since the period before, over the period", rtt_gradient)
        .bounds(-LARGEST, LARGEST)
        .natural(0.0, 2.0, -2.0, 2.0)
        .source("Timely"),
];

/// Clock of the times that a signal is computed from.
pub(super) const TICK: &[Param] = &[Param {
    name: "tick_ms",
    default: 0.0,
    min: 0.0,
    max: 1000.0,
    doc: "resolution of the clock, which cuts each time; 0 is the transport's own",
}];

/// `later` less `earlier` in ms, on the clock that `options` give.
pub(super) fn elapsed_ms(earlier: Time, later: Time, options: &[f64]) -> f64 {
    match options {
        [tick, ..] if *tick > 0.0 => {
            let length = Dur::from_secs_f64(tick / 1e3).0.max(1);
            (later.0 / length).saturating_sub(earlier.0 / length) as f64 * tick
        }
        _ => later.since(earlier).as_millis_f64(),
    }
}

/// RTT sample of a segment.
pub(super) fn rtt_ms(segment: &Segment, options: &[f64]) -> f64 {
    elapsed_ms(segment.sent_at, segment.acked_at, options)
}

fn sampled(rtt: Dur) -> Option<f64> {
    (rtt > Dur::ZERO).then(|| rtt.as_millis_f64())
}

fn latency_ratio(v: &View<'_>, _: Arguments<'_>) -> f64 {
    let (rtt, min) = (v.measured.rtt, v.measured.rtt_min);
    if min == Dur::ZERO { 1.0 } else { rtt.as_secs_f64() / min.as_secs_f64() }
}

fn rtt_gradient(v: &View<'_>, _: Arguments<'_>) -> f64 {
    let seconds = v.measured.interval.as_secs_f64();
    let (now, before) = (v.measured.rtt, v.measured.rtt_before);
    if seconds <= 0.0 || before == Dur::ZERO { 0.0 } else { (now.as_secs_f64() - before.as_secs_f64()) / seconds }
}
