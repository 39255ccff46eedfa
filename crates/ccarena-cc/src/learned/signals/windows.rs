//! Windows, rates that are in force, and what is in flight.

use super::{Arguments, HUGE, Signal, View};
use crate::learned::monitor::{Parts, ratio};

pub const SIGNALS: &[Signal] = &[
    Signal::new("cwnd_packets", "segments", "the window", |v, _| v.segments())
        .bounds(0.0, 1e9)
        .natural(0.0, 0.01, 0.0, 4.0),
    Signal::new("window_ratio", "1", "window over highest throughput x smallest RTT", |v, _| {
        ratio(v.window_bytes() * 8.0, v.measured.throughput_max * v.measured.rtt_min.as_secs_f64())
    })
    .natural(0.0, 0.5, 0.0, 3.0)
    .source("Orca, Hyvar"),
    Signal::new("rate_mbps", "Mbit/s", "the pacing rate; without pacing window per smoothed RTT", |v, _| {
        v.base.rate_bps() / 1e6
    })
    .bounds(0.0, HUGE)
    .natural(0.0, 0.01, 0.0, 4.0),
    Signal::new("twnd_packets", "segments", "window that fills the smallest RTT at the advertised rate", |v, _| {
        v.target()
    })
    .bounds(0.0, 1e9)
    .natural(0.0, 0.01, 0.0, 4.0)
    .needs(Parts::ADVERTISED)
    .source("ACCT equation 1"),
    Signal::new(
        "target_ratio",
        "1",
        "window over the one that fills the smallest RTT at the advertised rate",
        |v, _| v.segments() / v.target(),
    )
    .bounds(0.0, HUGE)
    .natural(0.0, 1.0, 0.0, 4.0)
    .needs(Parts::ADVERTISED)
    .source("ACCT"),
    Signal::new("inflight_packets", "segments", "segments in flight", |v, _| {
        v.monitor.newest().in_flight.0 as f64 / v.mss
    })
    .bounds(0.0, 1e12)
    .natural(0.0, 0.01, 0.0, 4.0)
    .needs(Parts::NEWEST)
    .source("Sage, Astraea"),
    Signal::new("outstanding_packets", "segments", "segments sent and not acknowledged cumulatively", |v, _| {
        let newest = v.monitor.newest();
        newest.nxt.saturating_sub(newest.una) as f64 / v.mss
    })
    .bounds(0.0, 1e12)
    .natural(0.0, 0.01, 0.0, 4.0)
    .needs(Parts::NEWEST)
    .source("Astraea (packets_out)"),
    Signal::new("retransmitted_packets", "segments", "retransmitted segments in flight", |v, _| {
        f64::from(v.monitor.newest().retransmitted)
    })
    .bounds(0.0, 1e10)
    .natural(0.0, 0.1, 0.0, 4.0)
    .needs(Parts::NEWEST)
    .source("Astraea (retrans_out)"),
    Signal::new("inflight_ratio", "1", "bytes in flight over the window", inflight_ratio)
        .natural(0.0, 1.0, 0.0, 2.0)
        .needs(Parts::NEWEST)
        .source("Astraea"),
];

fn inflight_ratio(v: &View<'_>, _: Arguments<'_>) -> f64 {
    ratio(v.monitor.newest().in_flight.0 as f64, v.window_bytes())
}
