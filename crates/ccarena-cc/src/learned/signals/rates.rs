//! Rates and amounts.

use super::delays::{TICK, elapsed_ms, rtt_ms};
use super::{Arguments, HUGE, OVER, Signal, View};
use crate::learned::monitor::{Parts, Segment, ratio};
use crate::types::{Bytes, Dur};

/// Natural scale of rates: 1 is 100 Mbit/s.
const MBPS: f64 = 0.01;

pub const SIGNALS: &[Signal] = &[
    Signal::new("throughput_mbps", "Mbit/s", "acknowledged bytes over time", throughput)
        .bounds(0.0, HUGE)
        .natural(0.0, MBPS, 0.0, 4.0)
        .options(OVER),
    Signal::new("throughput_max_mbps", "Mbit/s", "highest throughput of any period so far", |v, _| {
        v.measured.throughput_max / 1e6
    })
    .bounds(0.0, HUGE)
    .natural(0.0, MBPS, 0.0, 4.0)
    .source("Orca (thr_max)"),
    Signal::new(
        "throughput_lately_mbps",
        "Mbit/s",
        "highest throughput of any period of the last 10 to 15 s",
        |v, _| v.measured.throughput_lately / 1e6,
    )
    .bounds(0.0, HUGE)
    .natural(0.0, MBPS, 0.0, 4.0)
    .user_space(),
    Signal::new("throughput_ratio", "1", "throughput over the highest of any period so far", throughput_ratio)
        .natural(0.0, 1.0, 0.0, 1.0)
        .options(OVER)
        .source("Orca, Hyvar"),
    Signal::new("throughput_per_rtt_mbps", "Mbit/s", "bytes acknowledged in the period over its mean RTT", |v, _| {
        per_rtt(v) / 1e6
    })
    .bounds(0.0, HUGE)
    .natural(0.0, MBPS, 0.0, 4.0)
    .source("ACCT"),
    Signal::new("throughput_per_rtt_MBps", "MB/s", "the same in 10^6 bytes per second", |v, _| per_rtt(v) / 8e6)
        .bounds(0.0, HUGE)
        .natural(0.0, 0.3, 0.0, 4.0)
        .source("ACCT"),
    Signal::new("delivery_rate_mbps", "Mbit/s", "the transport's newest delivery-rate sample", delivery_rate)
        .bounds(0.0, HUGE)
        .natural(0.0, MBPS, 0.0, 4.0)
        .needs(Parts::NEWEST)
        .each(|n, _| n.rate_sampled.map(|sample| mbps(sample.delivered.0, sample.interval)))
        .source("draft-cheng-iccrg-delivery-rate-estimation"),
    Signal::new("delivery_rate_mean_mbps", "Mbit/s", "mean of the transport's delivery-rate samples; 0 without one", |v, _| {
        let sums = v.monitor.ack_sums(v.measured.is_span);
        ratio(sums.rate_bps, sums.rates) / 1e6
    })
    .bounds(0.0, HUGE)
    .natural(0.0, MBPS, 0.0, 4.0)
    .needs(Parts::ACKS)
    .source("Orca, Astraea"),
    Signal::new(
        "ack_delivery_mbps",
        "Mbit/s",
        "bytes acknowledged since the newest acknowledged segment left, over the time since the acknowledgement before its \
         departure",
        |v, a| v.monitor.newest().segment_last.map_or(0.0, |s| delivered_mbps(&s, a.options)),
    )
    .bounds(0.0, HUGE)
    .natural(0.0, MBPS, 0.0, 4.0)
    .options(TICK)
    .needs(Parts::DEPARTURES)
    .each(|n, options| n.segment.map(|s| delivered_mbps(&s, options)))
    .source("Indigo"),
    Signal::new(
        "ack_send_mbps",
        "Mbit/s",
        "bytes sent since the newest acknowledged segment left, its own included, over its RTT",
        |v, a| v.monitor.newest().segment_last.map_or(0.0, |s| sent_mbps(&s, a.options)),
    )
    .bounds(0.0, HUGE)
    .natural(0.0, MBPS, 0.0, 4.0)
    .options(TICK)
    .needs(Parts::DEPARTURES)
    .each(|n, options| n.segment.map(|s| sent_mbps(&s, options)))
    .source("Indigo"),
    Signal::new("app_limited_ratio", "1", "delivery-rate samples that the application limited, over all", |v, _| {
        let sums = v.monitor.ack_sums(v.measured.is_span);
        ratio(sums.app_limited, sums.rates)
    })
    .bounds(0.0, 1.0)
    .natural(0.0, 1.0, 0.0, 1.0)
    .needs(Parts::ACKS)
    .source("draft-cheng-iccrg-delivery-rate-estimation"),
    Signal::new("delivery_ratio", "1", "throughput over the window per smallest RTT: 1 with empty queues", |v, _| {
        ratio(v.measured.throughput() * v.measured.rtt_min.as_secs_f64(), v.window_bytes() * 8.0)
    })
    .natural(0.0, 1.0, 0.0, 2.0)
    .source("Hyvar (RTT_min as a unit)"),
    Signal::new("delivered_bytes", "bytes", "bytes acknowledged", |v, a| {
        v.recent(a).map_or(v.measured.acked.0, |(t, _)| t.acked) as f64
    })
    .bounds(0.0, HUGE)
    .natural(0.0, 1e-5, 0.0, 4.0)
    .options(OVER)
    .source("Sprout"),
    Signal::new("acked_packets", "segments", "segments acknowledged", |v, a| {
        v.recent(a).map_or(f64::from(v.measured.acked_packets), |(t, _)| t.acked_packets as f64)
    })
    .bounds(0.0, 1e10)
    .natural(0.0, 0.01, 0.0, 4.0)
    .options(OVER),
    Signal::new("send_rate_mbps", "Mbit/s", "bytes sent over time, retransmissions included", send_rate)
        .bounds(0.0, HUGE)
        .natural(0.0, MBPS, 0.0, 4.0)
        .needs(Parts::SENT)
        .options(OVER)
        .source("Indigo, Aurora"),
    Signal::new("sent_packets", "segments", "segments sent, retransmissions included", |v, a| {
        v.recent(a).map_or(f64::from(v.measured.sent_packets), |(t, _)| t.sent_packets as f64)
    })
    .bounds(0.0, 1e10)
    .natural(0.0, 0.01, 0.0, 4.0)
    .needs(Parts::SENT)
    .options(OVER),
    Signal::new("send_ratio", "1", "segments sent over segments acknowledged, of which one at least", send_ratio)
        .natural(1.0, 2.0, -2.0, 4.0)
        .needs(Parts::SENT)
        .options(OVER)
        .source("Aurora (sending ratio)"),
];

fn mbps(bytes: u64, stretch: Dur) -> f64 {
    if stretch == Dur::ZERO { 0.0 } else { bytes as f64 * 8.0 / stretch.as_secs_f64() / 1e6 }
}

/// `bytes` over a time of at least one tick of the clock.
fn per_ms(bytes: u64, ms: f64, options: &[f64]) -> f64 {
    let least = options.first().copied().unwrap_or(0.0);
    ratio(bytes as f64 * 8.0 / 1e3, ms.max(least))
}

fn delivered_mbps(segment: &Segment, options: &[f64]) -> f64 {
    per_ms(segment.delivered, elapsed_ms(segment.delivered_at, segment.acked_at, options), options)
}

fn sent_mbps(segment: &Segment, options: &[f64]) -> f64 {
    per_ms(segment.sent, rtt_ms(segment, options), options)
}

fn throughput(v: &View<'_>, a: Arguments<'_>) -> f64 {
    v.recent(a).map_or_else(|| v.measured.throughput() / 1e6, |(t, stretch)| mbps(t.acked, stretch))
}

fn throughput_ratio(v: &View<'_>, a: Arguments<'_>) -> f64 {
    let bps = v.recent(a).map_or_else(|| v.measured.throughput(), |(t, stretch)| mbps(t.acked, stretch) * 1e6);
    ratio(bps, v.measured.throughput_max)
}

fn per_rtt(v: &View<'_>) -> f64 {
    let rtt = v.measured.rtt_or_min();
    if rtt == Dur::ZERO { 0.0 } else { v.measured.acked.0 as f64 * 8.0 / rtt.as_secs_f64() }
}

fn delivery_rate(v: &View<'_>, _: Arguments<'_>) -> f64 {
    v.monitor.newest().rate.map_or(0.0, |sample| mbps(sample.delivered.0, sample.interval))
}

fn send_rate(v: &View<'_>, a: Arguments<'_>) -> f64 {
    let of_period = |bytes: Bytes| v.measured.per_second(bytes) / 1e6;
    v.recent(a).map_or_else(|| of_period(v.measured.sent), |(t, stretch)| mbps(t.sent, stretch))
}

fn send_ratio(v: &View<'_>, a: Arguments<'_>) -> f64 {
    match v.recent(a) {
        Some((t, _)) => t.sent_packets as f64 / t.acked_packets.max(1) as f64,
        None => f64::from(v.measured.sent_packets) / f64::from(v.measured.acked_packets.max(1)),
    }
}
