//! What routers do to a flow of the bridge: losses, marks, silence, lies. Takes root.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that fails panics; clippy.toml exempts test functions, not helpers"
)]

mod common;
#[path = "../../ccarena-link/tests/common/real_time.rs"]
mod real_time;

use std::collections::BTreeSet;
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use ccarena_kernel::intf::{
    BASE_HOLD, CA_LOSS, CA_RECOVERY, EVENT_CLOSED, FLAG_ECN, FLAG_EPISODE, FLAG_LEFT, FLAG_RECOVERY, FLAG_RESTART,
    FLAG_TIMEOUT,
};
use ccarena_kernel::{Answer, Datapath, Event, Options, TcpOption};
use common::wire::{Meddle, RECEIVER, Wire, mend, payload, tcp_at};
use common::{MSS, Sink, Unconnected, able, clock, namespace_cookie, write};
use real_time::real_time;

const SEGMENT: usize = MSS as usize;

fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What `send` writes over the wire; the events, and how long it took. `answer` makes answers of events.
fn transfer(
    wire: &Wire,
    send: impl FnOnce(&mut TcpStream) + Send,
    desired_kbps: Option<u32>,
    mut answer: impl FnMut(&Event) -> Option<Answer> + Send,
) -> (Vec<Event>, Duration) {
    let deadline = Duration::from_secs(60);
    let option = if desired_kbps.is_some() { TcpOption::Namespaces } else { TcpOption::Off };
    let options = Options { deadline, option, wcc: false, ..Options::default() };
    let path = &Datapath::load(&options).unwrap_or_else(|e| panic!("{e}"));
    let name = path.congestion_control("any");
    thread::scope(|scope| {
        let daemon = scope.spawn(move || {
            let (mut all, give_up) = (Vec::<Event>::new(), clock() + Duration::from_secs(60));
            while all.last().is_none_or(|e| e.kind != EVENT_CLOSED) {
                assert!(clock() < give_up, "the flow did not close: {:?}", all.last());
                let from = all.len();
                path.poll(Duration::from_millis(10), |event| all.push(*event)).unwrap();
                for event in all[from..].iter().filter(|e| e.kind != EVENT_CLOSED) {
                    if let Some(answer) = answer(event) {
                        let known = if answer.report == 0 { event.sequence } else { answer.report };
                        let numbered = Answer { sequence: event.sequence + 1, report: known, ..answer };
                        path.answer(event.cookie, &numbered).unwrap();
                    }
                }
            }
            all
        });
        let sink = wire.receivers.run(|| {
            path.add_namespace(namespace_cookie()).unwrap();
            Sink::at(RECEIVER, 0)
        });
        let sink = sink.unwrap();
        let send = || {
            path.add_namespace(namespace_cookie()).unwrap();
            let socket = Unconnected::new(name);
            let cookie = socket.cookie();
            if let Some(kbps) = desired_kbps {
                path.set_desired(cookie, kbps).unwrap();
            }
            let begun = clock();
            let mut stream = socket.connect(sink.address);
            send(&mut stream);
            begun
        };
        let begun = wire.senders.run(send).unwrap();
        sink.finish();
        (daemon.join().unwrap(), clock() - begun)
    })
}

/// A window of `packets` that loses half at a loss.
fn window(packets: u32) -> Answer {
    Answer { window_packets: packets, base: BASE_HOLD, beta: 500, ..Answer::default() }
}

/// Drops the first transmission of every `every`th full segment, counting in `dropped`.
fn lose_every(every: u64, dropped: &Arc<AtomicU64>) -> Meddle {
    let (dropped, mut seen, mut highest) = (Arc::clone(dropped), 0, None::<u32>);
    Box::new(move |packet| {
        if payload(packet) == 0 {
            return true;
        }
        let tcp = tcp_at(packet);
        let number = u32::from_be_bytes(packet[tcp + 4..tcp + 8].try_into().unwrap());
        if highest.is_some_and(|h| number.wrapping_sub(h) as i32 <= 0) {
            return true;
        }
        highest = Some(number);
        seen += 1;
        let keep = seen % every != 0;
        dropped.fetch_add(u64::from(!keep), Ordering::Relaxed);
        keep
    })
}

#[test]
fn losses_are_counted_and_the_window_is_led_down() {
    real_time(|| {
        let _alone = alone();
        if !able() {
            return;
        }
        let dropped = Arc::new(AtomicU64::new(0));
        let wire = Wire::new(lose_every(400, &dropped));
        // One answer for good: what happens after it is the kernel's.
        let mut answered = false;
        let once =
            |_: &Event| (!std::mem::replace(&mut answered, true)).then_some(Answer { interval_us: 100, ..window(64) });
        let (events, _) = transfer(&wire, |stream| write(stream, 1000 * SEGMENT), None, once);
        let dropped = dropped.load(Ordering::Relaxed);
        assert_eq!(dropped, 2);
        let lost: u64 = events.iter().map(|e| e.lost_bytes).sum();
        assert_eq!(lost, dropped * MSS, "{events:?}");
        assert_eq!(events[events.len() - 1].retransmitted_bytes, dropped * MSS);
        let episodes: Vec<_> = events.iter().filter(|e| e.flags & FLAG_EPISODE != 0).collect();
        assert_eq!(episodes.len(), 2);
        assert!(episodes.iter().all(|e| e.flags & FLAG_RECOVERY != 0), "{episodes:?}");
        let left: Vec<_> = events.iter().filter(|e| e.flags & FLAG_LEFT != 0).collect();
        assert_eq!(left.len(), 2, "{left:?}");
        assert_eq!(episodes.iter().map(|e| e.ssthresh_packets).collect::<Vec<_>>(), [32, 16]);
        assert_eq!(left.iter().map(|e| e.window_packets).collect::<Vec<_>>(), [32, 16]);
        // Proportional rate reduction: about one segment out for two that arrive, none beyond the window before.
        let in_recovery: Vec<_> =
            events.iter().filter(|e| e.ca_state == CA_RECOVERY && e.sequence < left[0].sequence).collect();
        assert!(
            !in_recovery.is_empty() && in_recovery.iter().all(|e| (31..=64).contains(&e.window_packets)),
            "{in_recovery:?}"
        );
        assert!(in_recovery.is_sorted_by(|a, b| a.window_packets >= b.window_packets), "{in_recovery:?}");
    });
}

#[test]
fn an_answer_that_knows_of_no_loss_does_not_undo_it() {
    let _alone = alone();
    if !able() {
        return;
    }
    let dropped = Arc::new(AtomicU64::new(0));
    let wire = Wire::new(lose_every(400, &dropped));
    // Its reports end with the first: it never hears of the loss.
    let deaf = |event: &Event| Some(Answer { report: event.sequence.min(1), ..window(64) });
    let (events, _) = transfer(&wire, |stream| write(stream, 700 * SEGMENT), None, deaf);
    let at = events.iter().position(|e| e.flags & FLAG_EPISODE != 0).unwrap();
    assert!(events[2..at].iter().all(|e| e.window_packets == 64));
    let after: Vec<_> = events[at..].iter().filter(|e| e.flags & FLAG_LEFT != 0 || e.ca_state < 2).collect();
    assert!(!after.is_empty() && after.iter().all(|e| e.window_packets == 32), "{after:?}");
}

#[test]
fn a_loss_found_by_a_probe_is_an_episode_too() {
    let _alone = alone();
    if !able() {
        return;
    }
    let dropped = Arc::new(AtomicU64::new(0));
    let wire = Wire::new(lose_every(20, &dropped));
    // The last of 20 is lost. The tail loss probe (RFC 8985 section 7) repairs it, and Linux learns so from the next
    // flight: it enters and leaves CWR within one ACK, which leaves no time to lead the window down.
    let twice = |stream: &mut TcpStream| {
        write(stream, 20 * SEGMENT);
        thread::sleep(Duration::from_millis(300));
        write(stream, 5 * SEGMENT);
    };
    let mut answered = false;
    let once = |_: &Event| (!std::mem::replace(&mut answered, true)).then_some(window(40));
    let (events, _) = transfer(&wire, twice, None, once);
    assert_eq!(dropped.load(Ordering::Relaxed), 1);
    let episodes: Vec<_> = events.iter().filter(|e| e.flags & FLAG_EPISODE != 0).collect();
    assert_eq!(episodes.len(), 1, "{episodes:?}");
    assert_eq!(episodes[0].flags & (FLAG_RECOVERY | FLAG_LEFT | FLAG_TIMEOUT), FLAG_RECOVERY | FLAG_LEFT);
    assert_eq!((episodes[0].window_packets, episodes[0].ssthresh_packets), (20, 20), "{episodes:?}");
}

#[test]
fn a_timeout_is_told_before_any_acknowledgement() {
    real_time(|| {
        let _alone = alone();
        if !able() {
            return;
        }
        // The 300th packet is the last for half a second.
        let (mut seen, mut silent_until) = (0, None);
        let wire = Wire::new(Box::new(move |packet| {
            seen += u32::from(payload(packet) > 0);
            if seen == 300 && silent_until.is_none() {
                silent_until = Some(clock() + Duration::from_millis(700));
            }
            silent_until.is_none_or(|until| clock() > until)
        }));
        let (events, time) = transfer(
            &wire,
            |stream| write(stream, 1000 * SEGMENT),
            None,
            |e| {
                // As a controller would: one segment after a timeout.
                Some(window(if e.ca_state == CA_LOSS && e.flags & FLAG_TIMEOUT != 0 { 1 } else { 40 }))
            },
        );
        let timeouts: Vec<_> = events.iter().filter(|e| e.flags & FLAG_TIMEOUT != 0).collect();
        assert!(!timeouts.is_empty(), "{events:?}");
        assert_eq!(timeouts.iter().filter(|e| e.flags & FLAG_EPISODE != 0).count(), 1, "{timeouts:?}");
        assert!(timeouts.iter().all(|e| e.ca_state == CA_LOSS && e.window_packets <= 2), "{timeouts:?}");
        assert!(timeouts[0].lost_packets >= 30, "{:?}", timeouts[0]);
        assert!(events.iter().any(|e| e.flags & FLAG_LEFT != 0));
        assert!(time < Duration::from_secs(5), "{time:?}");
    });
}

#[test]
fn marks_are_counted_and_answered_once_per_window() {
    let _alone = alone();
    if !able() {
        return;
    }
    let mut seen = 0;
    let wire = Wire::new(Box::new(move |packet| {
        // ECT(0), RFC 3168 section 5.
        if payload(packet) > 0 && packet[1] & 3 == 2 {
            seen += 1;
            if (300..310).contains(&seen) {
                packet[1] |= 3;
                mend(packet);
            }
        }
        true
    }));
    for end in [&wire.senders, &wire.receivers] {
        end.sysctl("net.ipv4.tcp_ecn", "1").unwrap();
    }
    let (events, _) = transfer(&wire, |stream| write(stream, 800 * SEGMENT), None, |_| Some(window(40)));
    assert!(events.iter().map(|e| e.ce_packets).sum::<u32>() >= 10, "{events:?}");
    let episodes: Vec<_> = events.iter().filter(|e| e.flags & FLAG_EPISODE != 0).collect();
    assert_eq!(episodes.len(), 1, "{episodes:?}");
    assert_ne!(episodes[0].flags & FLAG_ECN, 0, "{episodes:?}");
    assert_eq!(events.iter().map(|e| e.lost_bytes).sum::<u64>(), 0);
}

#[test]
fn a_restart_after_idle_time_is_told() {
    real_time(|| {
        let _alone = alone();
        if !able() {
            return;
        }
        let wire = Wire::new(Box::new(|_| true));
        let pausing = |stream: &mut TcpStream| {
            write(stream, 200 * SEGMENT);
            thread::sleep(Duration::from_millis(800));
            write(stream, 200 * SEGMENT);
        };
        let (events, _) = transfer(&wire, pausing, None, |_| None);
        let restarts: Vec<_> = events.iter().filter(|e| e.flags & FLAG_RESTART != 0).collect();
        assert_eq!(restarts.len(), 1, "{restarts:?}");
        assert!((700_000_000..900_000_000).contains(&restarts[0].idle_ns), "{restarts:?}");
        // Three retransmission timeouts of 210 ms halve it three times, down to the initial window at the most. How large it was
        // depends on when HyStart, which goes by the RTT, ended slow start.
        let before = events.iter().rfind(|e| e.sequence < restarts[0].sequence).unwrap().window_packets;
        let after = restarts[0].window_packets;
        assert!(before > 20 && (10..=(before / 4).max(10)).contains(&after), "{before} {after}");
    });
}

#[test]
fn the_fallback_is_as_fast_as_the_kernels_cubic() {
    real_time(|| {
        let _alone = alone();
        if !able() {
            return;
        }
        let many = |stream: &mut TcpStream| write(stream, 4000 * SEGMENT);
        let rate = |run: &dyn Fn(&Wire) -> Duration| {
            let wire = Wire::new(lose_every(350, &Arc::default()));
            run(&wire).as_secs_f64()
        };
        let fallback = rate(&|wire| transfer(wire, many, None, |_| None).1);
        let kernels = rate(&|wire| {
            let sink = wire.receivers.run(|| Sink::at(RECEIVER, 0)).unwrap();
            let send = || {
                let begun = clock();
                many(&mut Unconnected::new("cubic").connect(sink.address));
                begun
            };
            let begun = wire.senders.run(send).unwrap();
            sink.finish();
            clock() - begun
        });
        println!("4000 segments, each 350th lost: fallback {fallback:.3} s, kernel {kernels:.3} s");
        assert!((0.7..1.4).contains(&(fallback / kernels)), "fallback {fallback} s, kernel {kernels} s");
    });
}

/// The option in a packet's TCP header, if the sender wrote one there.
fn option_at(packet: &[u8]) -> Option<usize> {
    let tcp = tcp_at(packet);
    let end = tcp + usize::from(packet[tcp + 12] >> 4) * 4;
    packet[tcp + 20..end].windows(4).position(|w| w == [254, 8, 0xac, 0xc7]).map(|at| tcp + 20 + at)
}

#[test]
fn a_lying_router_changes_no_more_than_what_is_heard() {
    real_time(|| {
        let _alone = alone();
        if !able() {
            return;
        }
        for zeros in [false, true] {
            let expected = if zeros { vec![0, 1, ASKED_KBPS] } else { vec![0, ASKED_KBPS] };
            let said = Arc::new(Mutex::new(BTreeSet::from_iter(expected)));
            let wire = Wire::new(liar(zeros, &said));
            let answer = Answer { desired_kbps: ASKED_KBPS, ..window(50) };
            let (events, time) =
                transfer(&wire, |stream| write(stream, 3000 * SEGMENT), Some(ASKED_KBPS), |_| Some(answer));
            let (said, heard) =
                (said.lock().unwrap(), events.iter().map(|e| e.advertised_kbps).collect::<BTreeSet<_>>());
            assert!(heard.len() > 20, "{heard:?}");
            assert!(heard.is_subset(&said), "{:?}", heard.difference(&said).collect::<Vec<_>>());
            // 60 windows of 50 segments at 10 ms, and no loss.
            assert!(time < Duration::from_secs(3), "{time:?}");
            assert_eq!(events.iter().map(|e| e.lost_bytes).sum::<u64>(), 0);
        }
    });
}

/// The rate that the sender writes.
const ASKED_KBPS: u32 = 50_000;

/// Writes another lie into every option, and those that can be heard into `said`: well-formed, and no more than was asked
/// for. Zero is heard as 1.
fn liar(zeros: bool, said: &Arc<Mutex<BTreeSet<u32>>>) -> Meddle {
    let (said, mut random) = (Arc::clone(said), 1_u64);
    Box::new(move |packet| {
        let Some(at) = option_at(packet) else { return true };
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let noise = (random >> 32) as u32;
        match noise % 8 {
            0 if zeros => packet[at + 4..at + 8].fill(0),
            1 => packet[at + 4..at + 8].fill(255),
            // Wrong lengths: too short, none, past the header's end.
            2 => packet[at + 1] = (noise >> 8) as u8 % 8,
            3 => packet[at + 1] = 9 + (noise >> 8) as u8 % 240,
            // Another experiment, another kind.
            4 => packet[at + 2] ^= 1 + (noise >> 8) as u8 % 255,
            5 => packet[at] = 253,
            // A rate, another in every packet.
            _ => {
                let rate = if noise & 8 == 0 { 2 + noise % ASKED_KBPS } else { noise.max(2) };
                if rate <= ASKED_KBPS {
                    said.lock().unwrap().insert(rate);
                }
                packet[at + 4..at + 8].copy_from_slice(&rate.to_be_bytes());
            }
        }
        mend(packet);
        true
    })
}
