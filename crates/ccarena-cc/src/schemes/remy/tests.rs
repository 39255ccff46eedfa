use super::*;

/// Two rules by the gap between arrivals, and one for the memory of the start.
const RULES: &str = r#"{"axes": ["rec_rec_ewma", "rtt_ratio"], "tree": {"lower": [0, 0], "upper": [16384, 16384], "children": [
    {"lower": [0, 0], "upper": [16384, 0.9], "leaf": {"window_increment": 4, "window_multiple": 1, "intersend_ms": 2}},
    {"lower": [0, 0.9], "upper": [0.5, 16384], "leaf": {"window_increment": 0, "window_multiple": 0.5, "intersend_ms": 4}},
    {"lower": [0.5, 0.9], "upper": [16384, 16384], "leaf": {"window_increment": -1, "window_multiple": 1, "intersend_ms": 0}}]}}"#;

fn at(ms: f64) -> Time {
    Time((ms * 1e6) as u64)
}

fn remy() -> Remy {
    let rules = Some(Arc::new(Rules::parse(RULES).unwrap()));
    Remy::new(&Config { mss: 1000, rules, ..Config::default() })
}

fn send(remy: &mut Remy, number: u64, ms: f64) {
    remy.on_sent(&SentInfo { now: at(ms), number, ..SentInfo::default() });
}

fn ack(remy: &mut Remy, numbers: &[u64], ms: f64) {
    numbers.iter().for_each(|&number| remy.on_packet_acked(number));
    remy.on_ack(&AckInfo { now: at(ms), ..AckInfo::default() });
}

#[test]
fn the_rule_of_the_zero_memory_counts_at_the_start_and_at_the_first_acknowledgement() {
    let mut remy = remy();
    // 8000 bits in 2 ms.
    assert_eq!((remy.window(), remy.pacing_rate()), (Bytes(4000), Some(Rate(4_000_000))));
    send(&mut remy, 0, 1.0);
    ack(&mut remy, &[0], 11.0);
    assert_eq!(remy.rat.window, 8);
}

#[test]
fn an_acknowledgement_of_several_segments_is_one_look_up_with_all_of_them_remembered() {
    let mut remy = remy();
    (0..4).for_each(|number| send(&mut remy, number, 1.0 + number as f64));
    ack(&mut remy, &[0], 11.0);
    ack(&mut remy, &[1, 2], 14.0);
    // Gaps of 3 ms and 0 ms: 7/8 of 3/8. One look-up halves 8, two would leave 2.
    let memory = *remy.rat.remembered().memory();
    assert_eq!((memory[1], remy.rat.window, remy.rat.gap_ms), (0.328_125, 4, 4.0));
    assert_eq!((memory[0], memory[2]), (0.234_375, 11.0 / 10.0));
    // An acknowledgement of nothing new changes nothing; nor does a lost segment that arrives later.
    ack(&mut remy, &[], 15.0);
    remy.on_packet_lost(3);
    ack(&mut remy, &[3], 16.0);
    assert_eq!(remy.rat.window, 4);
}

#[test]
fn a_window_of_zero_is_looked_up_again_and_one_segment_may_always_leave() {
    let mut remy = remy();
    (0..40).for_each(|number| send(&mut remy, number, 1.0 + 8.0 * number as f64));
    (0..40).for_each(|number| ack(&mut remy, &[number], 11.0 + 8.0 * number as f64));
    assert_eq!((remy.rat.window, remy.window(), remy.pacing_rate()), (0, Bytes(1000), None));
}

#[test]
fn a_sender_begins_anew_after_an_idle_time() {
    let mut remy = remy();
    (0..3).for_each(|number| send(&mut remy, number, 1.0 + number as f64));
    (0..3).for_each(|number| ack(&mut remy, &[number], 11.0 + number as f64));
    let window = remy.rat.window;
    remy.on_idle_restart(at(100.0), Dur::from_millis(10), Dur::from_millis(200));
    assert_eq!(remy.rat.window, window);
    remy.on_idle_restart(at(400.0), Dur::from_millis(300), Dur::from_millis(200));
    assert_eq!((remy.rat.window, *remy.rat.remembered().memory()), (4, [0.0; 6]));
}
