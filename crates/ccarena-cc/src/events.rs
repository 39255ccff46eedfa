//! Events that a transport reports to a controller.

use crate::signal::Signal;
use crate::types::{Bytes, Dur, Time};

/// Recovery state of the transport after losses and marks (Linux's `tcp_ca_state`, without Disorder).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RecoveryState {
    /// No loss is being repaired.
    #[default]
    Open,
    /// Window reduction after an ECN echo (RFC 3168 §6.1.2), until a window of data is acknowledged. Growth pauses.
    Reduction,
    /// Fast recovery: a loss was detected by acknowledgements. Window growth pauses.
    Recovery,
    /// State after a retransmission timeout, until everything sent before it is acknowledged.
    Loss,
}

impl RecoveryState {
    /// The window is on its way down and does not grow (`tcp_in_cwnd_reduction`).
    #[must_use]
    #[inline]
    pub const fn reducing(self) -> bool {
        matches!(self, Self::Reduction | Self::Recovery)
    }
}

/// A delivery-rate sample (draft-cheng-iccrg-delivery-rate-estimation, Linux's `struct rate_sample`).
#[derive(Clone, Copy, Debug, Default)]
pub struct RateSample {
    /// Bytes delivered over `interval`.
    pub delivered: Bytes,
    /// The longer of the send and the acknowledgement phase.
    pub interval: Dur,
    /// The flow's total of delivered bytes when the sampled packet was sent.
    pub prior_delivered: Bytes,
    /// The sampled packet was sent while the application, not the window, was the limit.
    pub app_limited: bool,
}

/// One acknowledgement has arrived and the transport has booked it.
#[derive(Clone, Copy, Debug, Default)]
pub struct AckInfo {
    /// The time of arrival.
    pub now: Time,
    /// Bytes that this acknowledgement reports as delivered for the first time, cumulatively or selectively.
    pub acked: Bytes,
    /// The same in segments (a short last segment counts as one).
    pub acked_packets: u32,
    /// RTT of the most recently sent segment that this acknowledgement covers (Linux's `rtt_us` for congestion
    /// control); none if only retransmitted segments were acknowledged.
    pub rtt: Option<Dur>,
    /// Smallest RTT seen on the connection; [`Dur::MAX`] before the first sample.
    pub min_rtt: Dur,
    /// Smoothed RTT (RFC 6298); zero before the first sample.
    pub srtt: Dur,
    /// Smoothed deviation of RTT samples (RFC 6298's RTTVAR), if the transport reports sums of samples; else zero.
    pub rttvar: Dur,
    /// Bytes in flight before this acknowledgement.
    pub prior_in_flight: Bytes,
    /// Bytes in flight after it, losses that it revealed taken off.
    pub in_flight: Bytes,
    /// Total of delivered bytes, this acknowledgement included.
    pub delivered: Bytes,
    /// Bytes newly marked lost by this acknowledgement.
    pub lost: Bytes,
    /// Delivery-rate sample, if one could be taken.
    pub rate: Option<RateSample>,
    /// First byte not yet cumulatively acknowledged.
    pub snd_una: u64,
    /// First byte not yet sent.
    pub snd_nxt: u64,
    /// Retransmitted segments in flight (Linux's `retrans_out`).
    pub retransmitted: u32,
    /// The window was what limited sending in the last round trip (Linux's `is_cwnd_limited`).
    pub cwnd_limited: bool,
    /// Loss recovery, after this acknowledgement.
    pub recovery: RecoveryState,
    /// Packets that this acknowledgement reports as ECN congestion-experienced.
    pub ecn_ce: u32,
    /// The routers' signal to this flow, as echoed by the receiver.
    pub signal: Signal,
}

/// Segments have been marked lost, or the receiver has echoed a congestion mark (`ecn`, with nothing lost).
#[derive(Clone, Copy, Debug, Default)]
pub struct LossInfo {
    /// The time of the event.
    pub now: Time,
    /// Bytes newly marked lost.
    pub lost: Bytes,
    /// The same in segments.
    pub lost_packets: u32,
    /// Bytes in flight after the marking.
    pub in_flight: Bytes,
    /// Flag of the first loss of a recovery episode: multiplicative decrease answers this one.
    pub new_episode: bool,
    /// Flag of an ECN echo instead of a loss (RFC 3168 §6.1.2): once per window of data, with `new_episode` set.
    pub ecn: bool,
    /// Total of delivered bytes.
    pub delivered: Bytes,
    /// First byte not yet sent.
    pub snd_nxt: u64,
}

/// A segment is being sent.
#[derive(Clone, Copy, Debug, Default)]
pub struct SentInfo {
    /// The time of the event.
    pub now: Time,
    /// Payload of the packet.
    pub bytes: Bytes,
    /// Bytes in flight before it.
    pub prior_in_flight: Bytes,
    /// First byte not yet sent, this segment excluded.
    pub snd_nxt: u64,
    /// The application, not the window, has limited sending: delivery-rate samples are marked.
    pub app_limited: bool,
    /// Time at which the segment before it left; a transport that reports every segment may leave it at zero.
    pub last_sent: Time,
    /// The same data was sent before.
    pub retransmission: bool,
    /// Payload of the segments that left since the last call without a call of their own. A datapath that reports sums
    /// calls for the last segment only; one that calls for each segment leaves this at zero.
    pub unreported: Bytes,
    /// Segments that hold the `unreported` bytes.
    pub unreported_packets: u32,
    /// Number of the transmission within the flow, from zero, retransmissions counted (QUIC's packet number). Set only
    /// for controllers with a [packet tracker](crate::controller::PacketTracker).
    pub number: u64,
}
