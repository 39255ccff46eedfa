use super::*;
use crate::flow::{Host, Source};
use crate::scheme::Config;
use proptest::prelude::*;

const MTU: u16 = 1200;
const MS: fn(u64) -> Time = |ms| Time(ms * 1_000_000);

fn packet_flow(scheme: &str) -> PacketFlow {
    let config = Config { mss: MTU.into(), ..Config::default() };
    PacketFlow::new(Flow::build(&Source::Scheme(scheme), &config, &Host::ALL, Time::ZERO).unwrap(), MTU)
}

/// A flow of ten packets, sent at 1, 2, ... 10 ms with the numbers 1 to 10.
fn ten(scheme: &str) -> PacketFlow {
    let mut flow = packet_flow(scheme);
    assert!((1..=10).all(|n| flow.on_sent(MS(n), n, MTU.into())));
    flow
}

#[test]
fn numbers_times_and_sums_of_bytes_are_the_same_packets() {
    let (mut numbers, mut times, mut sums) = (ten("bbr"), ten("bbr"), ten("bbr"));
    let packet = u64::from(MTU);
    for flow in [&mut numbers, &mut times, &mut sums] {
        flow.on_window_limited();
    }
    // The first two are lost.
    assert!((3..=6).all(|n| numbers.on_acked(MS(50), n)) && (1..=2).all(|n| numbers.on_lost(n)));
    assert!((3..=6).all(|n| times.on_acked_at(MS(50), MS(n))));
    times.on_lost_to(MS(2), 2 * packet);
    sums.on_acked_to(MS(50), 6, 4 * packet);
    sums.on_lost_to(MS(2), 2 * packet);
    for flow in [&mut numbers, &mut times, &mut sums] {
        assert!(flow.is_unsettled() && flow.settle(MS(50), Dur::from_millis(44)) && !flow.is_unsettled());
        assert_eq!((flow.in_flight(), flow.counts().lost_packets), (4 * packet, 2));
        assert_eq!(flow.counts().delivered_bytes, 4 * packet);
    }
    let answers = |flow: &PacketFlow| (flow.window(), flow.pacing_rate(), flow.rtt());
    assert_eq!(answers(&numbers), answers(&times));
    assert_eq!(answers(&numbers), answers(&sums));
}

#[test]
fn the_rtt_of_a_handshake_is_no_queue() {
    // Answered after 60 ms, of which 20 ms are cryptography; the next packet after 250 ms, before which one more leaves.
    let sent = [(1, MS(1), MS(61)), (2, MS(62), MS(312)), (3, MS(300), MS(341)), (4, MS(313), MS(353))];
    let run = |mut flow: PacketFlow| {
        let mut smoothed = Vec::new();
        let mut events: Vec<_> = sent.iter().flat_map(|&(n, at, acked)| [(at, n, false), (acked, n, true)]).collect();
        events.sort_unstable();
        for (at, number, arrives) in events {
            if !arrives {
                assert!(flow.on_sent(at, number, MTU.into()));
                continue;
            }
            assert!(flow.on_acked(at, number) && flow.settle(at, Dur::ZERO));
            smoothed.push((flow.rtt().0.0 / 1_000_000, flow.counts().rtt_min.unwrap().0 / 1_000_000));
        }
        smoothed
    };
    assert_eq!(run(packet_flow("cubic").from_handshake()), [(60, 60), (60, 60), (41, 41), (40, 40)]);
    assert_eq!(run(packet_flow("cubic"))[1], (83, 60), "as the stack reports it");
}

#[test]
fn a_loss_counts_though_the_packet_was_taken_to_have_arrived() {
    let mut flow = ten("cubic");
    // The packets 1 and 3 have arrived; the sum says 3 and 2.
    flow.on_acked_to(MS(50), 3, 2 * u64::from(MTU));
    flow.on_lost_among(2);
    flow.settle(MS(50), Dur::from_millis(44));
    assert_eq!((flow.in_flight(), flow.counts().lost_packets), (7 * u64::from(MTU), 1));
    assert!(!flow.on_lost(1), "it stood for the lost one");
}

#[test]
fn packets_that_the_stack_does_not_count_are_forgotten() {
    let mut flow = ten("cubic");
    flow.on_sent(MS(11), 11, 40);
    flow.on_in_flight(10 * u64::from(MTU));
    assert_eq!(flow.in_flight(), 10 * u64::from(MTU), "the bare acknowledgement, not the oldest packet");
    assert!(flow.on_acked(MS(50), 1) && !flow.on_acked(MS(50), 11) && !flow.on_acked(MS(50), 1));
    assert!(!flow.on_acked_at(MS(50), MS(20)), "nothing left then");
}

#[test]
fn a_mark_without_a_time_belongs_to_the_newest_acknowledged_packet() {
    let mut flow = ten("cubic");
    let before = flow.window();
    for (number, reductions) in [(1, 1), (2, 1), (10, 1)] {
        flow.on_acked(MS(40 + number), number);
        flow.on_marked(1, None);
        flow.settle(MS(40 + number), Dur::from_millis(40));
        assert_eq!(flow.counts().ecn_reductions, reductions, "all were sent before the first reduction");
    }
    assert!(flow.window() < before);
}

proptest! {
    #[test]
    fn whatever_a_stack_reports_the_flow_stays_usable(
        steps in prop::collection::vec((0_u8..8, 0_u64..40, 0_u64..60_000), 1..150),
    ) {
        for scheme in ["cubic", "bbr", "vivace"] {
            let (mut flow, mut now, mut next) = (packet_flow(scheme), MS(1), 0);
            for &(what, number, bytes) in &steps {
                now = Time(now.0 + bytes * 100 + 1);
                match what {
                    0..=2 => {
                        next += 1;
                        flow.on_sent(now, next, MTU.into());
                    }
                    3 => flow.on_acked_to(now, number, bytes),
                    4 => {
                        flow.on_acked_at(now, Time(bytes));
                    }
                    5 => flow.on_lost_to(Time(now.0 - bytes), bytes),
                    6 => flow.on_in_flight(bytes),
                    _ => flow.on_marked(u32::MAX, Some(Time(bytes))),
                }
                if number % 3 == 0 {
                    flow.settle(now, Dur(bytes * 1000));
                }
                flow.on_timer(now);
                prop_assert!(flow.window() >= u64::from(MTU), "{}", scheme);
                prop_assert!(flow.in_flight() <= next * u64::from(MTU));
            }
        }
    }
}
