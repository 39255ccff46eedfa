//! A long flow in its steady state, made up: what measures the cost of a controller drives it with this.

use std::hint::black_box;

use crate::{AckInfo, Bytes, Controller, Dur, LossInfo, RateSample, RecoveryState, SentInfo, Time};

const MSS: u64 = 1448;
const SPACING_NS: u64 = 120_000;
const RTT_NS: u64 = 24_000_000;
const WINDOW: u64 = 200;
const LOSS_EVERY: u64 = 20_000;

/// Drives `controller` with `acks` acknowledgements, and the segments that leave in answer.
///
/// A window of 200 segments at 100 Mbit/s, one acknowledgement per segment, delays that vary by a millisecond, one loss
/// episode in 20 000: what a simulated flow looks like once it has settled. Window and pacing rate are read after each.
pub fn drive(controller: &mut dyn Controller, acks: u64) {
    let mut recovery_end = 0;
    for i in 1..=acks {
        let time = Time(RTT_NS + i * SPACING_NS);
        let delivered = Bytes(i * MSS);
        let in_flight = Bytes((WINDOW - 1) * MSS);
        if i % LOSS_EVERY == 0 {
            recovery_end = i + WINDOW;
            controller.on_loss(&LossInfo {
                now: time,
                lost: Bytes(MSS),
                lost_packets: 1,
                in_flight,
                new_episode: true,
                delivered,
                snd_nxt: delivered.0 + in_flight.0,
                ..LossInfo::default()
            });
        }
        let rtt = Dur(RTT_NS + (i.wrapping_mul(0x9e37_79b9) & 0xf_ffff));
        controller.on_ack(black_box(&AckInfo {
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
        black_box((controller.window(), controller.pacing_rate()));
        controller.on_sent(black_box(&SentInfo {
            now: time,
            bytes: Bytes(MSS),
            prior_in_flight: in_flight,
            snd_nxt: delivered.0 + in_flight.0,
            ..SentInfo::default()
        }));
    }
}
