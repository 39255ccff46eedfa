use std::collections::BTreeMap;

use proptest::prelude::*;

use super::super::testing::{Packet, setting};
use super::super::{Ecn, Kind};
use super::*;

fn queue(given: &[(&str, f64)]) -> DualPi2<Packet> {
    let given: BTreeMap<&str, f64> = given.iter().copied().collect();
    DualPi2::new(&QueueSpec::new(Kind::DualPi2, None, &given, false).expect("valid"), &setting(0))
}

fn packet(id: u32, ecn: Ecn) -> Packet {
    Packet { id, bytes: 1500, ecn }
}

fn at_ms(ms: f64) -> Time {
    Time::ZERO + Dur::from_secs_f64(ms / 1e3)
}

/// Puts `count` packets of `ecn` in at `now`.
fn fill(queue: &mut DualPi2<Packet>, ecn: Ecn, count: u32, now: Time) {
    let mut drops = Vec::new();
    (0..count).for_each(|id| queue.enqueue(packet(id, ecn), now, &mut drops));
    assert!(drops.is_empty());
}

#[test]
fn ect1_and_ce_go_first_and_each_queue_keeps_its_order() {
    let mut queue = queue(&[("step_ms", 1_000.0)]);
    let mut drops = Vec::new();
    for (id, ecn) in (0..).zip([Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ce, Ecn::Ect1, Ecn::NotEct]) {
        queue.enqueue(packet(id, ecn), Time::ZERO, &mut drops);
    }
    let left: Vec<u32> = std::iter::from_fn(|| queue.dequeue(Time::ZERO, &mut drops)).map(|p| p.id).collect();
    assert_eq!(left, [1, 3, 4, 0, 2, 5]);
    let counts: Vec<_> = queue.parts().iter().map(|part| (part.name, part.delays.count())).collect();
    assert_eq!(counts, [("l4s", 3), ("classic", 3)]);
}

#[test]
fn the_base_probability_follows_the_delay_of_the_longer_queue() {
    // 40 classic packets from 0 ms on and one of the L queue: at the updates their heads have waited 16, 32 and 48 ms.
    let mut queue = queue(&[]);
    fill(&mut queue, Ecn::Ect0, 40, Time::ZERO);
    fill(&mut queue, Ecn::Ect1, 1, at_ms(10.0));
    let (mut p, mut before) = (0.0, 0.0);
    for n in 1..=3 {
        let delay = 0.016 * f64::from(n);
        p += 0.16 * (delay - 0.015) + 3.2 * (delay - before);
        before = delay;
        queue.pi.catch_up(at_ms(16.0 * f64::from(n)), queue.heads());
        assert!((queue.pi.probability - p).abs() < 1e-12, "{} and not {p}", queue.pi.probability);
    }
}

proptest! {
    /// Tests that after a silence of any length the probability is the one that single updates give.
    #[test]
    fn missed_updates_are_made_up_for(
        arrivals in prop::collection::vec(0_u64..2_000, 0..3), gap_ms in 1_u64..60_000, drop_overload: bool, p in 0.0..1.0_f64,
    ) {
        let given = [("drop_overload", f64::from(u8::from(drop_overload)))];
        let (mut once, mut stepwise) = (queue(&given), queue(&given));
        let start = at_ms(2_000.0);
        for each in [&mut once, &mut stepwise] {
            each.pi.probability = p.min(each.pi.most);
            each.pi.next_update = start;
            each.pi.delay_s = 0.1;
        }
        let heads = (arrivals.first().map(|&ms| at_ms(ms as f64)), arrivals.get(1).map(|&ms| at_ms(ms as f64)));
        once.pi.catch_up(start + Dur::from_millis(gap_ms), heads);
        for ms in 0..=gap_ms {
            stepwise.pi.catch_up(start + Dur::from_millis(ms), heads);
        }
        prop_assert_eq!(once.pi.probability.to_bits(), stepwise.pi.probability.to_bits());
        prop_assert_eq!((once.pi.next_update, once.pi.delay_s), (stepwise.pi.next_update, stepwise.pi.delay_s));
    }
}

/// Shares of packets of `ecn` that are marked and dropped at a base probability of `p`.
fn shares(given: &[(&str, f64)], p: f64, ecn: Ecn) -> (f64, f64) {
    const COUNT: u32 = 40_000;
    let mut queue = queue(&[given, &[("step_ms", 10_000.0), ("update_ms", 1_000.0)]].concat());
    queue.pi.probability = p;
    let (mut marked, mut drops) = (0, Vec::new());
    for id in 0..COUNT {
        // Ten packets wait, so that the queue is never too short for marks.
        queue.enqueue(packet(id, ecn), Time::ZERO, &mut drops);
        if id >= 10 && queue.len_packets() > 10 {
            marked += u32::from(queue.dequeue(Time::ZERO, &mut drops).is_some_and(|p| p.is_marked()));
        }
    }
    (f64::from(marked) / f64::from(COUNT), drops.len() as f64 / f64::from(COUNT))
}

#[test]
fn classic_packets_are_marked_or_dropped_by_the_square_and_others_by_the_coupled_probability() {
    for (p, coupling) in [(0.05, 2.0), (0.2, 2.0), (0.3, 3.0), (0.5, 2.0)] {
        let given = [("coupling", coupling)];
        let near = |share: f64, expected: f64| (share - expected).abs() < 4.0 * (0.25_f64 / 40_000.0).sqrt();
        let (marked, dropped) = shares(&given, p, Ecn::Ect0);
        assert!(near(marked, p * p) && dropped == 0.0, "{p}: {marked}");
        let (marked, dropped) = shares(&given, p, Ecn::NotEct);
        // A dropped packet makes place for the next one in the same call.
        assert!(near(dropped, p * p) && marked == 0.0, "{p}: {dropped}");
        let (marked, dropped) = shares(&given, p, Ecn::Ect1);
        assert!(near(marked, coupling * p) && dropped == 0.0, "{p}: {marked}");
    }
}

#[test]
fn in_overload_both_queues_drop_by_the_square_and_the_l_queue_marks_the_rest() {
    let near = |share: f64, expected: f64| (share - expected).abs() < 0.01;
    for ecn in [Ecn::NotEct, Ecn::Ect0] {
        let (marked, dropped) = shares(&[], 0.6, ecn);
        assert!(near(dropped, 0.36) && marked == 0.0, "{ecn:?}: {dropped} dropped, {marked} marked");
    }
    let (marked, dropped) = shares(&[], 0.6, Ecn::Ect1);
    assert!(near(dropped, 0.36) && near(marked, 0.64), "{dropped} dropped, {marked} marked");
}

#[test]
fn the_l_queue_marks_what_has_waited_beyond_the_step() {
    let marked_after = |given: &[(&str, f64)], ms: f64| {
        let mut queue = queue(given);
        fill(&mut queue, Ecn::Ect1, 2, Time::ZERO);
        queue.dequeue(at_ms(ms), &mut Vec::new()).is_some_and(|p| p.is_marked())
    };
    assert!(!marked_after(&[], 1.0) && marked_after(&[], 1.001));
    assert!(!marked_after(&[("step_packets", 2.0)], 5.0) && marked_after(&[("step_packets", 1.0)], 5.0));
    let ramp = Native { from: Dur::from_micros(800), ramp: Dur::from_micros(400), packets: 0 };
    let percent = |us| (ramp.probability(Dur::from_micros(us), 0) * 100.0).round() as u32;
    assert_eq!([percent(800), percent(900), percent(1000), percent(1200)], [0, 25, 50, 100]);
}

proptest! {
    /// While packets wait in both queues, neither falls behind its share by more than a few packets.
    #[test]
    fn neither_queue_starves(percent in 0_u32..=100, sizes in prop::collection::vec((40_u32..1500, 40_u32..1500), 20..300)) {
        let given = [("classic_percent", f64::from(percent)), ("step_ms", 10_000.0), ("update_ms", 1_000.0)];
        let (mut queue, mut drops, mut sent) = (queue(&given), Vec::new(), [0_i64; 2]);
        let (mut l4s, mut classic) = (sizes.iter().map(|s| s.0).cycle(), sizes.iter().map(|s| s.1).cycle());
        for _ in 0..3 {
            queue.enqueue(Packet { id: 0, bytes: l4s.next().unwrap(), ecn: Ecn::Ect1 }, Time::ZERO, &mut drops);
            queue.enqueue(Packet { id: 0, bytes: classic.next().unwrap(), ecn: Ecn::Ect0 }, Time::ZERO, &mut drops);
        }
        let share = i64::from(percent);
        for _ in 0..4 * sizes.len() {
            let out = queue.dequeue(Time::ZERO, &mut drops).expect("both are full");
            let class = usize::from(!out.ecn.is_l4s());
            sent[class] += i64::from(out.bytes);
            let next = if class == 0 { &mut l4s as &mut dyn Iterator<Item = u32> } else { &mut classic };
            queue.enqueue(Packet { bytes: next.next().unwrap(), ..out }, Time::ZERO, &mut drops);
            let ahead = sent[0] * share - sent[1] * (100 - share);
            let (first, packet) = (1500 * (2 * share - 100), 1500);
            prop_assert!(ahead <= share * packet - first && ahead >= -(100 - share) * packet - first, "{sent:?}");
        }
        prop_assert!(drops.is_empty());
    }
}

#[test]
fn a_time_shifted_fifo_gives_the_l_queue_a_head_start() {
    let mut queue = queue(&[("shift_ms", 30.0), ("step_ms", 1_000.0)]);
    fill(&mut queue, Ecn::Ect0, 1, Time::ZERO);
    fill(&mut queue, Ecn::Ect1, 1, at_ms(30.0));
    fill(&mut queue, Ecn::Ect1, 1, at_ms(30.001));
    let mut next = || queue.dequeue(at_ms(31.0), &mut Vec::new()).map(|p| p.ecn);
    assert_eq!([next(), next(), next(), next()], [Some(Ecn::Ect1), Some(Ecn::Ect0), Some(Ecn::Ect1), None]);
}

/// Runs sources that do not listen at `per_ms` packets of ECT(1) and of ECT(0) into a link of one packet per ms.
/// Returns the queue, and the number of drops.
fn unresponsive(given: &[(&str, f64)], per_ms: [f64; 2], ms: u32) -> (DualPi2<Packet>, usize) {
    let (mut queue, mut drops, mut sent) = (queue(given), Vec::new(), [0.0; 2]);
    for t in 0..ms {
        let now = at_ms(f64::from(t));
        for (class, ecn) in [Ecn::Ect1, Ecn::Ect0].into_iter().enumerate() {
            sent[class] += per_ms[class];
            while sent[class] >= 1.0 {
                sent[class] -= 1.0;
                queue.enqueue(packet(t, ecn), now, &mut drops);
            }
        }
        queue.dequeue(now, &mut drops);
    }
    (queue, drops.len())
}

#[test]
fn an_unresponsive_overload_is_dropped_and_keeps_the_delay_or_fills_the_queue_as_configured() {
    // 1.5 times the rate: a third is to be dropped.
    let (queue, dropped) = unresponsive(&[], [1.2, 0.3], 20_000);
    assert!((dropped as f64 / 10_000.0 - 1.0).abs() < 0.1, "{dropped}");
    assert!(queue.len_packets() < 100, "{}", queue.len_packets());
    assert!((queue.pi.probability - (1.0_f64 / 3.0).sqrt()).abs() < 0.1, "{}", queue.pi.probability);
    // Without drops of the L queue all wait until the limit.
    let (queue, dropped) = unresponsive(&[("drop_overload", 0.0)], [1.2, 0.0], 20_000);
    assert_eq!((dropped, queue.pi.probability), (0, 0.5));
    assert!(queue.len_packets() > 3_900);
}

#[test]
fn a_classic_overload_leaves_the_l_queue_its_low_delay() {
    let (queue, _) = unresponsive(&[], [0.2, 1.0], 20_000);
    let [l4s, classic] = &queue.parts;
    assert!(l4s.delays.percentile(99) <= Dur::from_millis(1), "{:?}", l4s.delays.percentile(99));
    assert!(classic.delays.percentile(50) > Dur::from_millis(5), "{:?}", classic.delays.percentile(50));
}
