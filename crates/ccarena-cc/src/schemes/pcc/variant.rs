//! Differences between the two published code bases of the PCC family: PCC-Uspace (`master`, PCC Proteus' sender) and
//! the sender that the Hercules authors made of it.

use crate::types::Dur;

/// Constants and rules of one code base.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Variant {
    /// Shortest base of a monitor interval's length, whose base is the minimum RTT.
    pub(crate) shortest_base: Dur,
    /// Reliable RTT samples that an interval needs.
    pub(crate) samples: u64,
    /// Fewer suffice once it has lasted [`LONG`](super::interval::LONG).
    pub(crate) samples_if_long: u64,
    /// The packet whose sending opens an interval belongs to it.
    pub(crate) owns_opening_packet: bool,
    /// The initial rate is for an RTT of 100 ms and scales up with a shorter one.
    pub(crate) initial_rate_scales: bool,
    /// RTT inflation beyond the interval's first RTT that ends starting.
    pub(crate) start_tolerance: Tolerance,
    /// Target of a failed start or move.
    pub(crate) retreat: Retreat,
    /// A move down takes the utility of where it stands with latency penalties, though its result is judged without.
    pub(crate) asymmetric: bool,
    /// Lowest rate, in bit/s.
    pub(crate) floor_bps: f64,
    /// Smallest step, in bit/s and as a fraction of the rate.
    pub(crate) min_step_bps: f64,
    pub(crate) min_step_fraction: f64,
    /// Window in products of rate and RTT, and which RTT.
    pub(crate) window_gain: f64,
    pub(crate) window_rtt: WindowRtt,
}

/// Tolerance of starting for RTT inflation.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Tolerance {
    /// A fraction of the RTT.
    Fraction(f64),
    /// Number of RTT deviations, but at most a hundred RTTs.
    Deviations(f64),
}

/// Target of a retreat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Retreat {
    /// Rate before the last change.
    Previous,
    /// Starting: to half the rate. Moving: one step of the size that the last result suggests.
    Recomputed,
}

/// The RTT in the window's product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WindowRtt {
    /// The minimum: the window bounds the flow's own queue.
    Min,
    /// The smoothed: the window bounds what is sent into a path that has gone silent, and nothing else.
    Smoothed,
}

/// PCC-Uspace. Its sender has no window (sending stops at five fillers in a row, which needs a silent path).
pub(crate) const USPACE: Variant = Variant {
    shortest_base: Dur::ZERO,
    samples: 4,
    samples_if_long: 4,
    owns_opening_packet: true,
    initial_rate_scales: true,
    start_tolerance: Tolerance::Deviations(2.5),
    retreat: Retreat::Recomputed,
    asymmetric: false,
    floor_bps: 500e3,
    min_step_bps: 500e3,
    min_step_fraction: 0.0,
    window_gain: 2.5,
    window_rtt: WindowRtt::Smoothed,
};

/// The Hercules authors' sender, which their Vivace baseline uses as well. The window is 1.5 times their
/// `cwnd`, which is 1.5 products of rate and minimum RTT.
pub(crate) const HERCULES: Variant = Variant {
    shortest_base: Dur::from_millis(20),
    samples: 12,
    samples_if_long: 4,
    owns_opening_packet: false,
    initial_rate_scales: false,
    start_tolerance: Tolerance::Fraction(0.5),
    retreat: Retreat::Previous,
    asymmetric: true,
    floor_bps: 5e3,
    min_step_bps: 1e3,
    min_step_fraction: 0.01,
    window_gain: 2.25,
    window_rtt: WindowRtt::Min,
};
