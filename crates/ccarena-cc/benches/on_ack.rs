//! What an acknowledgement costs each registered scheme, in nanoseconds: `cargo bench -p ccarena-cc [-- NAME ...]`.
//!
//! A window of 200 segments at 100 Mbit/s, one acknowledgement per segment, one loss episode in 20 000: the steady state
//! of a simulated flow. The time includes `on_sent`, `window()` and `pacing_rate()`, and making up the events: `fixed`,
//! which does nothing, shows what that takes.

use std::hint::black_box;
use std::time::Duration;

use ccarena_cc::{
    AckInfo, Bytes, Config, Dur, LossInfo, RateSample, RecoveryState, SentInfo, Time, all_schemes, build,
};

const ACKS: u64 = 200_000;
/// The best of this many short runs, so that other work on the machine shows little.
const RUNS: usize = 40;
const MSS: u64 = 1448;
const SPACING_NS: u64 = 120_000;
const RTT_NS: u64 = 24_000_000;
const LOSS_EVERY: u64 = 20_000;

fn main() -> Result<(), ccarena_cc::BuildError> {
    println!("{:<12} {:>10}", "scheme", "ns/ack");
    // Names after `--` choose schemes; cargo adds `--bench`.
    let wanted: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    for scheme in all_schemes().iter().filter(|s| wanted.is_empty() || wanted.iter().any(|w| w == s.name)) {
        let best =
            (0..RUNS).map(|_| run(scheme.name)).collect::<Result<Vec<_>, _>>()?.into_iter().min().unwrap_or_default();
        println!("{:<12} {:>10.2}", scheme.name, best.as_nanos() as f64 / ACKS as f64);
    }
    Ok(())
}

fn run(scheme: &str) -> Result<Duration, ccarena_cc::BuildError> {
    let mut controller = build(scheme, &Config::default())?;
    let mut recovery_end = 0;
    let start = now();
    for i in 1..=ACKS {
        let time = Time(RTT_NS + i * SPACING_NS);
        let delivered = Bytes(i * MSS);
        let in_flight = Bytes(199 * MSS);
        if i % LOSS_EVERY == 0 {
            recovery_end = i + 200;
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
        // Delays that vary by a millisecond, as a queue's do.
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
                delivered: Bytes(200 * MSS),
                interval: rtt,
                prior_delivered: delivered - Bytes(200 * MSS),
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
    Ok(start.elapsed())
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures wall-clock time")]
fn now() -> std::time::Instant {
    std::time::Instant::now()
}
