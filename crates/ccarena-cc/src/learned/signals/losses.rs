//! Losses.

use super::{Arguments, HUGE, OVER, Signal, View};
use crate::backends::Backend;
use crate::learned::monitor::{Parts, ratio};
use crate::types::Dur;

pub const SIGNALS: &[Signal] = &[
    Signal::new("loss_ratio", "1", "lost bytes over lost and acknowledged ones", |v, a| match v.recent(a) {
        Some((t, _)) => ratio(t.lost as f64, t.lost.saturating_add(t.acked) as f64),
        None => v.measured.loss_ratio(),
    })
    .bounds(0.0, 1.0)
    .natural(0.0, 10.0, 0.0, 3.0)
    .options(OVER)
    .source("Orca, Hyvar"),
    Signal::new("packet_loss_ratio", "1", "lost segments over lost and acknowledged ones", packet_loss_ratio)
        .bounds(0.0, 1.0)
        .natural(0.0, 10.0, 0.0, 3.0)
        .options(OVER)
        .source("Aurora"),
    Signal::new("lost_packets", "segments", "segments marked lost", |v, a| {
        v.recent(a).map_or(f64::from(v.measured.lost_packets), |(t, _)| t.lost_packets as f64)
    })
    .bounds(0.0, 1e10)
    .natural(0.0, 0.1, 0.0, 4.0)
    .options(OVER),
    Signal::new("loss_rate_pps", "segments/s", "segments marked lost over time", loss_rate)
        .bounds(0.0, HUGE)
        .natural(0.0, 0.01, 0.0, 4.0)
        .options(OVER)
        .source("ACCT"),
    Signal::new("loss_mbps", "Mbit/s", "lost bytes over time", |v, _| v.measured.per_second(v.measured.lost) / 1e6)
        .bounds(0.0, HUGE)
        .natural(0.0, 0.1, 0.0, 4.0)
        .source("Orca"),
    Signal::new("ce_packets", "segments", "segments marked with congestion experienced (CE)", |v, a| marked(v, a).0)
        .bounds(0.0, 1e10)
        .natural(0.0, 0.1, 0.0, 4.0)
        .options(OVER)
        .needs(Parts::MARKS)
        .source("RFC 3168, RFC 9768")
        .not_on(&[Backend::Quic, Backend::Kernel]),
    Signal::new("ce_ratio", "1", "segments marked with congestion experienced (CE) over acknowledged ones", |v, a| {
        let (marked, acked) = marked(v, a);
        ratio(marked, acked)
    })
    .bounds(0.0, 1.0)
    .natural(0.0, 1.0, 0.0, 1.0)
    .options(OVER)
    .needs(Parts::MARKS)
    .source("RFC 8257")
    .not_on(&[Backend::Quic, Backend::Kernel]),
];

fn packet_loss_ratio(v: &View<'_>, a: Arguments<'_>) -> f64 {
    let of_period = (f64::from(v.measured.lost_packets), f64::from(v.measured.acked_packets));
    let (lost, acked) = v.recent(a).map_or(of_period, |(t, _)| (t.lost_packets as f64, t.acked_packets as f64));
    ratio(lost, acked + lost)
}

fn loss_rate(v: &View<'_>, a: Arguments<'_>) -> f64 {
    let of_period = (f64::from(v.measured.lost_packets), v.measured.interval);
    let (lost, stretch) = v.recent(a).map_or(of_period, |(t, stretch)| (t.lost_packets as f64, stretch));
    if stretch == Dur::ZERO { 0.0 } else { lost / stretch.as_secs_f64() }
}

/// Marked and acknowledged segments.
fn marked(v: &View<'_>, a: Arguments<'_>) -> (f64, f64) {
    let of_period = (v.monitor.ack_sums(v.measured.is_span).marked as f64, f64::from(v.measured.acked_packets));
    v.recent(a).map_or(of_period, |(t, _)| (t.marked_packets as f64, t.acked_packets as f64))
}
