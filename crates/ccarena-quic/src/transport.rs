//! The stack's settings.

use std::sync::Arc;
use std::time::Duration;

use ccarena_cc::Dur;
use noq_proto::congestion::ControllerFactory;
use noq_proto::{AckFrequencyConfig, TransportConfig, VarInt};

/// UDP payload that fits packets of 1500 bytes over IPv4.
pub const LARGEST_MTU: u16 = 1472;
/// RFC 9000 §14.1: QUIC runs over no path that takes less.
pub const SMALLEST_MTU: u16 = 1200;
/// Unacknowledged data that is kept for being sent again.
const SEND_WINDOW: u64 = 64 << 20;
/// A connection on which nothing comes for so long is over, if nothing else is said.
pub const IDLE: Dur = Dur::from_millis(30_000);
/// Frames with rates that wait to be read or sent, in bytes (`ccarena_net::rate_datagram`).
const DATAGRAMS: usize = 1 << 10;
/// Data of the handshake that has come out of order: RFC 9000 §7.5 wants no less, and ours takes no more.
const HANDSHAKE: usize = 4096;

/// Acknowledgement frequency of the peer (draft-ietf-quic-ack-frequency): after this many packets, or this time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Acks {
    /// Packets per acknowledgement.
    pub packets: u32,
    /// Longest delay; none leaves the peer's own.
    pub delay: Option<Dur>,
}

/// Settings that differ between connections.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// UDP payload of a full packet.
    pub mtu: u16,
    /// Acknowledgements requested from the peer; none leaves them at RFC 9000's every other packet.
    pub acks: Option<Acks>,
    /// Bytes that the peer may send beyond what was read; none has no limit.
    pub receive_window: Option<u64>,
    /// Bytes that the peer may send at first, on all streams together; none is `receive_window`.
    pub early_window: Option<u64>,
    /// Streams that the peer may have open at once, in both directions and in its own alone. Whoever allows them reads them.
    pub streams: Streams,
    /// The connection ends when nothing comes for so long; none is for ever.
    pub idle: Option<Dur>,
    /// The peer is asked for a sign of life after so long without one; none: never.
    pub keep_alive: Option<Dur>,
}

/// Streams of a peer.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Streams {
    /// Number of streams that carry data both ways.
    pub bidirectional: u32,
    /// Number of streams that carry the peer's data.
    pub unidirectional: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            mtu: LARGEST_MTU,
            acks: None,
            receive_window: None,
            early_window: None,
            streams: Streams::default(),
            idle: Some(IDLE),
            keep_alive: None,
        }
    }
}

/// The stack's configuration of a connection under `steering`.
#[must_use]
pub fn config(settings: &Settings, steering: Arc<dyn ControllerFactory + Send + Sync>) -> Arc<TransportConfig> {
    let mut config = TransportConfig::default();
    let window = |bytes: Option<u64>| bytes.and_then(|bytes| VarInt::from_u64(bytes).ok()).unwrap_or(VarInt::MAX);
    config
        .initial_mtu(settings.mtu)
        .min_mtu(settings.mtu)
        .mtu_discovery_config(None)
        .receive_window(window(settings.early_window.or(settings.receive_window)))
        .stream_receive_window(window(settings.receive_window))
        .send_window(SEND_WINDOW)
        .max_concurrent_uni_streams(VarInt::from_u32(settings.streams.unidirectional))
        .max_concurrent_bidi_streams(VarInt::from_u32(settings.streams.bidirectional))
        .crypto_buffer_size(HANDSHAKE)
        .datagram_receive_buffer_size(Some(DATAGRAMS))
        .datagram_send_buffer_size(DATAGRAMS)
        .max_idle_timeout(settings.idle.and_then(|silence| duration(silence).try_into().ok()))
        .keep_alive_interval(settings.keep_alive.map(duration))
        .congestion_controller_factory(steering);
    if let Some(acks) = settings.acks {
        let mut frequency = AckFrequencyConfig::default();
        frequency
            .ack_eliciting_threshold(VarInt::from_u32(acks.packets.max(1) - 1))
            .max_ack_delay(acks.delay.map(duration));
        config.ack_frequency_config(Some(frequency));
    }
    Arc::new(config)
}

fn duration(duration: Dur) -> Duration {
    Duration::from_nanos(duration.0)
}
