//! Names of the parts that a program in the kernel knows.

/// Names that the program knows, in the order of the header's `enum`s.
pub const CLOCKS: &[&str] = &["window", "fixed", "rtt", "reasoner", "ticks", "timer"];
/// Names of the actuators, in the order of their numbers in the image.
pub const ACTUATORS: &[&str] =
    &["alpha", "window", "window_exp2", "window_factor", "window_ops", "rate", "rate_factor", "pacing_gain", "cap"];
/// Names of the bases, in the order of their numbers in the image.
pub const BASES: &[&str] = &["acct", "cubic", "none"];
/// Names of the signals, in the order of their numbers in the image.
pub const SIGNALS: &[&str] = &[
    "throughput_mbps",
    "throughput_max_mbps",
    "throughput_ratio",
    "throughput_per_rtt_mbps",
    "throughput_per_rtt_MBps",
    "delivery_ratio",
    "delivered_bytes",
    "acked_packets",
    "send_rate_mbps",
    "sent_packets",
    "send_ratio",
    "rtt_ms",
    "rtt_min_ms",
    "srtt_ms",
    "rtt_or_min_ms",
    "rtt_ratio",
    "latency_ratio",
    "srtt_ratio",
    "queueing_delay_ms",
    "delay_or_zero_ms",
    "delay_ratio",
    "rtt_gradient",
    "loss_ratio",
    "packet_loss_ratio",
    "lost_packets",
    "loss_rate_pps",
    "loss_mbps",
    "cwnd_packets",
    "window_ratio",
    "twnd_packets",
    "target_ratio",
    "advertised_mbps",
    "zone",
    "zone_index",
    "last_action",
    "action_before",
    "interval_ms",
    "interval_ratio",
    "case",
    "latency_gradient",
    "rate_mbps",
    "rtt_or_zero_ms",
    "rtt_samples",
    "inflight_packets",
    "inflight_ratio",
    "outstanding_packets",
    "retransmitted_packets",
    "delivery_rate_mbps",
    "delivery_rate_mean_mbps",
    "app_limited_ratio",
    "ack_rtt_ms",
    "ack_delivery_mbps",
    "ack_send_mbps",
];
/// Ways to derive a signal; see [`CLOCKS`].
pub const DERIVATIONS: &[&str] = &["constant", "signal", "quotient", "difference", "ewma", "min", "mean", "max"];
