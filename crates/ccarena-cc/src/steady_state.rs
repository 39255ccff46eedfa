//! A long flow in its steady state, made up: what measures the cost of a controller drives it with this.

use std::hint::black_box;

use crate::{AckInfo, Bytes, Controller, Dur, LossInfo, RateSample, RecoveryState, SentInfo, Time};

const MSS: u64 = 1448;
const SPACING_NS: u64 = 120_000;
const RTT_NS: u64 = 24_000_000;
/// Segments in flight.
pub const WINDOW: u64 = 200;
const LOSS_EVERY: u64 = 20_000;

/// Event of the made-up flow.
#[derive(Clone, Copy, Debug)]
pub enum Event {
    /// A loss.
    Loss(LossInfo),
    /// An acknowledgement. Window and pacing rate are read after it.
    Ack(AckInfo),
    /// A segment that leaves in answer to an acknowledgement.
    Sent(SentInfo),
}

/// Drives `controller` with `acks` acknowledgements, and the segments that leave in answer.
pub fn drive(controller: &mut dyn Controller, acks: u64) {
    events(acks, |event| match event {
        Event::Loss(loss) => controller.on_loss(&loss),
        Event::Ack(ack) => {
            controller.on_ack(black_box(&ack));
            black_box((controller.window(), controller.pacing_rate()));
        }
        Event::Sent(sent) => controller.on_sent(black_box(&sent)),
    });
}

/// Calls `on_event` with the events of `acks` acknowledgements.
///
/// A window of 200 segments at 100 Mbit/s, one acknowledgement per segment, delays that vary by a millisecond, one loss
/// episode in 20 000: what a simulated flow looks like once it has settled.
#[inline]
pub fn events(acks: u64, mut on_event: impl FnMut(Event)) {
    let mut recovery_end = 0;
    for i in 1..=acks {
        let time = Time(RTT_NS + i * SPACING_NS);
        let delivered = Bytes(i * MSS);
        let in_flight = Bytes((WINDOW - 1) * MSS);
        if i % LOSS_EVERY == 0 {
            recovery_end = i + WINDOW;
            on_event(Event::Loss(LossInfo {
                now: time,
                lost: Bytes(MSS),
                lost_packets: 1,
                in_flight,
                new_episode: true,
                delivered,
                snd_nxt: delivered.0 + in_flight.0,
                ..LossInfo::default()
            }));
        }
        let rtt = Dur(RTT_NS + (i.wrapping_mul(0x9e37_79b9) & 0xf_ffff));
        on_event(Event::Ack(AckInfo {
            now: time,
            acked: Bytes(MSS),
            acked_packets: 1,
            rtt: Some(rtt),
            min_rtt: Dur(RTT_NS),
            srtt: Dur(RTT_NS + 500_000),
            prior_in_flight: in_flight + Bytes(MSS),
            in_flight,
            delivered,
            rate: Some(RateSample {
                delivered: Bytes(WINDOW * MSS),
                interval: rtt,
                prior_delivered: Bytes(delivered.0.saturating_sub(WINDOW * MSS)),
                app_limited: false,
            }),
            snd_una: delivered.0,
            snd_nxt: delivered.0 + in_flight.0,
            cwnd_limited: true,
            recovery: if i < recovery_end { RecoveryState::Recovery } else { RecoveryState::Open },
            ..AckInfo::default()
        }));
        on_event(Event::Sent(SentInfo {
            now: time,
            bytes: Bytes(MSS),
            prior_in_flight: in_flight,
            snd_nxt: delivered.0 + in_flight.0,
            number: i,
            ..SentInfo::default()
        }));
    }
}
