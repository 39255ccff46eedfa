//! Any events in, sane answers out.

use ccarena_cc::{Config, all_schemes, build};
use proptest::prelude::*;

use super::*;
use crate::intf::{
    BASE_CUBIC, BASE_HOLD, CA_RECOVERY, EVENT_LISTED, EVENT_REPORT, FLAG_ASKED, FLAG_EPISODE, FLAG_PERIOD,
    FLAG_RECOVERY,
};

const MSS: u32 = 1448;

fn driver(scheme: &'static str, flow: usize) -> Driver {
    let mut controller = build(scheme, &Config::default()).unwrap();
    let decider = controller.learned().map(|_| Decider::Outside);
    Driver { flow, controller, mss: MSS, decider, settings: Vec::new(), keeps_reports: true }
}

prop_compose! {
    fn report()(
        wait_ns in 0_u64..500_000_000,
        (flags, situation) in (0_u32..1 << 14, any::<u16>()),
        (acked, lost, sent) in (0_u32..5000, 0_u32..200, 0_u32..5000),
        (rtt_count, rtt_us, spread) in (0_u32..500, 0_u32..5_000_000, 0_u32..1_000_000),
        (rate_bytes, rate_us, ca_state) in (any::<u64>(), any::<u32>(), 0_u32..6),
        (in_flight, prior, advertised) in (0_u32..1 << 20, 0_u32..1 << 20, any::<u32>()),
        backwards in prop::bool::weighted(0.05),
    ) -> Event {
        Event {
            now_ns: if backwards { 0 } else { wait_ns },
            kind: EVENT_REPORT,
            flags,
            situation,
            period_ns: wait_ns / 2,
            acked_packets: acked,
            acked_bytes: u64::from(acked) * u64::from(MSS),
            lost_packets: lost,
            lost_bytes: u64::from(lost) * u64::from(MSS),
            sent_bytes: u64::from(sent) * u64::from(MSS),
            sent_packets: u64::from(sent),
            rtt_count,
            rtt_sum_us: u64::from(rtt_count) * u64::from(rtt_us + spread / 2),
            rtt_min_us: rtt_us,
            rtt_last_us: rtt_us + spread,
            min_rtt_us: rtt_us / 2,
            srtt_us: rtt_us,
            rto_us: 200_000,
            rate_bytes: rate_bytes >> 20,
            rate_interval_us: rate_us,
            ca_state,
            in_flight_packets: in_flight,
            prior_in_flight_packets: prior,
            advertised_kbps: advertised,
            mss: MSS,
            ..Event::default()
        }
    }
}

/// Turns increments into totals, as the datapath reports them.
fn accumulate(events: &[Event]) -> Vec<Event> {
    let mut total = Event { now_ns: 1_000_000_000, ..Event::default() };
    events
        .iter()
        .enumerate()
        .map(|(k, event)| {
            total.now_ns += event.now_ns;
            total.sent_bytes += event.sent_bytes;
            total.sent_packets += event.sent_packets;
            total.snd_nxt += event.sent_bytes;
            total.delivered_bytes += event.acked_bytes;
            total.delivered_packets += u64::from(event.acked_packets);
            total.snd_una = (total.snd_una + event.acked_bytes).min(total.snd_nxt);
            Event {
                cookie: 7,
                sequence: k as u64 + 1,
                now_ns: if event.now_ns == 0 { 0 } else { total.now_ns },
                sent_bytes: total.sent_bytes,
                sent_packets: total.sent_packets,
                delivered_bytes: total.delivered_bytes,
                delivered_packets: total.delivered_packets,
                prior_delivered_packets: total.delivered_packets.saturating_sub(u64::from(event.in_flight_packets)),
                snd_una: total.snd_una,
                snd_nxt: total.snd_nxt,
                ..*event
            }
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn whatever_is_reported_the_answer_is_sane(events in prop::collection::vec(report(), 1..60)) {
        for scheme in all_schemes() {
            let mut daemon = Daemon::new(1_000_000_000, 1, Box::new(|_| None));
            daemon.take_over(7, driver(scheme.name, 0), 1_000_000_000);
            let mut sequence = 1;
            for event in accumulate(&events) {
                let mut decided = Vec::new();
                let reply = daemon.on_event(&event, &mut |d| {
                    assert!(d.observation.iter().chain(d.report).all(|x| x.is_finite()));
                    decided.push(d.now);
                });
                prop_assert_eq!(reply.is_none(), event.flags & FLAG_QUIET != 0, "{}", scheme.name);
                if let Some((cookie, answer)) = reply {
                    sequence += 1;
                    prop_assert_eq!((cookie, answer.sequence, answer.report), (7, sequence, event.sequence));
                    let hybrid = ["hyvar", "orca"].contains(&scheme.name);
                    prop_assert_eq!(answer.base, if hybrid { BASE_CUBIC } else { BASE_HOLD }, "{}", scheme.name);
                    prop_assert_eq!(answer.reasoner[0] > 0, scheme.name == "hyvar", "{}", scheme.name);
                    prop_assert!(answer.window_packets >= 1 && answer.beta <= 1000, "{}: {:?}", scheme.name, answer);
                    prop_assert_eq!((answer.multiplier, answer.interval_us >= 100 || !hybrid), (1000, true));
                }
                prop_assert!(decided.is_empty() || scheme.learned);
                // A timer that is due runs, and is over.
                let now = Time(event.now_ns.saturating_sub(1_000_000_000));
                sequence += daemon.on_timers(now, &mut |_| ()).len() as u64;
                prop_assert!(daemon.next_timer() > now, "{}", scheme.name);
            }
        }
    }
}

#[test]
fn a_period_that_the_datapath_judged_is_decided_on_as_it_says() {
    let mut daemon = Daemon::new(0, 1, Box::new(|_| None));
    daemon.take_over(7, driver("hyvar", 0), 0);
    let mut tell = |now_ns: u64, flags: u32, rtt_us: u32| {
        let packets = now_ns / 1_000_000;
        let event = Event {
            cookie: 7,
            kind: EVENT_REPORT,
            sequence: now_ns / 1_000_000,
            now_ns,
            flags,
            situation: 4,
            period_ns: 15_000_000,
            acked_packets: 10,
            acked_bytes: 10 * u64::from(MSS),
            delivered_packets: packets,
            sent_bytes: (packets + 10) * u64::from(MSS),
            sent_packets: packets + 10,
            snd_una: packets * u64::from(MSS),
            snd_nxt: (packets + 10) * u64::from(MSS),
            rtt_count: 1,
            rtt_sum_us: rtt_us.into(),
            rtt_min_us: rtt_us,
            srtt_us: rtt_us,
            min_rtt_us: 20_000,
            mss: MSS,
            window_packets: 20,
            ..Event::default()
        };
        let mut decided = 0;
        let reply = daemon.on_event(&event, &mut |_| decided += 1);
        (decided, reply.map(|(_, answer)| answer.interval_us))
    };
    // A queue, in which the controller's own clock would ask.
    assert_eq!(tell(30_000_000, FLAG_QUIET, 60_000), (0, None), "recovery has begun, say");
    assert_eq!(tell(90_000_000, FLAG_QUIET | FLAG_PERIOD, 60_000), (0, None));
    // None, in which it would not.
    assert_eq!(tell(95_000_000, FLAG_PERIOD | FLAG_ASKED, 20_000), (1, Some(15_000)));
    assert_eq!(tell(200_000_000, FLAG_QUIET, 60_000), (0, None));
}

#[test]
fn a_socket_that_opens_gets_a_driver_and_loses_it_when_it_closes() {
    let mut daemon = Daemon::new(0, 2, Box::new(|event| (event.local_port == 1).then(|| driver("reno", 1))));
    let opened = Event { cookie: 9, kind: EVENT_OPENED, local_port: 1, ..Event::default() };
    let (cookie, answer) = daemon.on_event(&opened, &mut |_| ()).unwrap();
    assert_eq!((cookie, answer.sequence, answer.window_packets, answer.alpha), (9, 1, 10, 10_000));
    assert!(daemon.on_event(&Event { cookie: 10, local_port: 2, ..opened }, &mut |_| ()).is_none());
    assert_eq!(daemon.sockets(), 1);
    let closed = Event { kind: EVENT_CLOSED, lost_packets: 3, sequence: 1, ..opened };
    assert!(daemon.on_event(&closed, &mut |_| ()).is_none(), "nothing more to say");
    assert_eq!((daemon.sockets(), daemon.flows[1].lost_packets), (0, 3));
}

#[test]
fn a_program_outside_decides_and_its_action_is_answered() {
    let mut daemon = Daemon::new(0, 1, Box::new(|_| None));
    daemon.take_over(7, driver("acct", 0), 0);
    let (cookie, answer) = daemon.act(0, 4.0, Time(5)).unwrap().unwrap();
    assert_eq!((cookie, answer.alpha, answer.interval_us), (7, 5000, crate::intf::INTERVAL_WINDOW));
    assert!(daemon.act(0, 15.0, Time(5)).is_err());
    assert_eq!(daemon.act(1, 0.0, Time(5)).unwrap(), None);
    let mut decisions = 0;
    for k in 1..=5_u64 {
        let event = Event {
            cookie: 7,
            sequence: k,
            kind: EVENT_REPORT,
            now_ns: k * 20_000_000,
            acked_packets: 10,
            delivered_packets: 10 * k,
            sent_packets: 10 * (k + 1),
            sent_bytes: 14480 * (k + 1),
            snd_una: k * 14480,
            snd_nxt: (k + 1) * 14480,
            rtt_count: 10,
            rtt_sum_us: 200_000,
            rtt_min_us: 20_000,
            min_rtt_us: 20_000,
            srtt_us: 20_000,
            ..Event::default()
        };
        daemon.on_event(&event, &mut |d| {
            assert_eq!((d.flow, d.observation.len(), d.report.len()), (0, 66, 16));
            decisions += 1;
        });
    }
    assert_eq!((decisions, daemon.flows[0].decisions), (4, 4));
    assert_eq!(daemon.flows[0].reports.len(), 4 * 16);
}

/// A report of a flow at 20 ms: number `k`, `at_ms` after the start, window and threshold as given.
fn periodic(k: u64, at_ms: u64, window: u32, threshold: u32) -> Event {
    Event {
        cookie: 7,
        sequence: k,
        kind: EVENT_REPORT,
        now_ns: at_ms * 1_000_000,
        acked_packets: 50,
        acked_bytes: 50 * u64::from(MSS),
        delivered_packets: 50 * k,
        sent_bytes: 50 * (k + 1) * u64::from(MSS),
        sent_packets: 50 * (k + 1),
        rtt_count: 25,
        rtt_sum_us: 25 * 20_000,
        rtt_min_us: 20_000,
        min_rtt_us: 20_000,
        srtt_us: 20_000,
        window_packets: window,
        ssthresh_packets: threshold,
        ..Event::default()
    }
}

#[test]
fn the_kernels_cubic_is_scaled_where_it_is() {
    let mut daemon = Daemon::new(0, 1, Box::new(|_| None));
    let params = [("window_limit".to_owned(), 1000.0)].into();
    let controller = build("orca", &Config { params, ..Config::default() }).unwrap();
    let first = daemon.take_over(7, Driver { controller, ..driver("orca", 0) }, 0);
    assert_eq!(
        (first.base, first.multiplier, first.interval_us, first.ssthresh_packets),
        (BASE_CUBIC, 1000, 20_000, 0)
    );
    let mut decisions = 0;
    let mut tell = |daemon: &mut Daemon<'_>, event: Event| {
        let (_, answer) = daemon.on_event(&event, &mut |_| decisions += 1).unwrap();
        (answer.multiplier, answer.interval_us)
    };
    // The first packet begins the period.
    assert_eq!(tell(&mut daemon, periodic(1, 0, 100, 80)), (1000, 20_000));
    // An early report, as of a loss, leaves the rest of the period.
    assert_eq!(tell(&mut daemon, periodic(2, 5, 120, 80)), (1000, 15_000));
    assert_eq!(tell(&mut daemon, periodic(3, 20, 200, 80)), (1000, 20_000), "due, and whoever decides is thinking");
    let (_, answer) = daemon.act(0, 1.0, Time(21_000_000)).unwrap().unwrap();
    assert_eq!((answer.multiplier, answer.interval_us, answer.report), (2000, 20_000, 3));
    assert_eq!(daemon.act(0, 1.0, Time(22_000_000)).unwrap().unwrap().1.multiplier, 1000, "nobody has asked");
    // In recovery, what it heads for counts.
    let lossy = Event { ca_state: CA_RECOVERY, flags: FLAG_RECOVERY | FLAG_EPISODE, ..periodic(4, 40, 90, 280) };
    assert_eq!(tell(&mut daemon, lossy), (1000, 20_000));
    let (_, answer) = daemon.act(0, -1.0, Time(41_000_000)).unwrap().unwrap();
    assert_eq!((answer.multiplier, answer.window_packets), (500, 140));
    assert_eq!(decisions, 2);
}

#[test]
fn another_cubic_than_the_kernels_stays_in_user_space() {
    let params = [("hystart".to_owned(), 0.0)].into();
    let controller = build("hyvar", &Config { params, ..Config::default() }).unwrap();
    let mut daemon = Daemon::new(0, 1, Box::new(|_| None));
    let answer = daemon.take_over(7, Driver { controller, ..driver("hyvar", 0) }, 0);
    assert_eq!((answer.base, answer.multiplier), (BASE_HOLD, 1000));
}

#[test]
fn what_an_application_wants_is_told_in_time() {
    let mut daemon = Daemon::new(1000, 1, Box::new(|_| None));
    let settings = vec![(Time(50), FlowSetting::Weight(3.0))];
    daemon.take_over(7, Driver { settings, ..driver("wcc-ai", 0) }, 1000);
    assert_eq!(daemon.next_timer(), Time(50));
    assert!(daemon.on_timers(Time(49), &mut |_| ()).is_empty());
    assert_eq!(daemon.on_timers(Time(50), &mut |_| ()).len(), 1);
    assert_eq!(daemon.next_timer(), Time::NEVER);
}

#[test]
fn the_datapath_reports_as_often_as_the_window_wants() {
    let spec = r#"{
        "learned": 1, "name": "timed", "clock": {"kind": "timer", "period_ms": 20}, "base": "none",
        "act": {"kind": "window", "bounds": [2, 100]}, "observe": {"signals": ["since_ack_ms"]}, "report": ["time_s"]
    }"#;
    let interval_us = |window: f32, srtt_us: u32, delivered_packets: u64| {
        let controller = ccarena_cc::Spec::parse(spec).unwrap().controller(&Config::default()).unwrap();
        let decider = Some(Decider::Constant(ccarena_cc::Action::Continuous(window.into())));
        let mut daemon = Daemon::new(0, 1, Box::new(|_| None));
        daemon.take_over(7, Driver { controller, decider, ..driver("acct", 0) }, 0);
        let sent_bytes = u64::from(MSS);
        let event = Event { kind: EVENT_REPORT, sent_bytes, mss: MSS, srtt_us, delivered_packets, ..Event::default() };
        let event = Event { cookie: 7, sent_packets: 1, ..event };
        daemon.on_event(&event, &mut |_| ()).unwrap().1.interval_us
    };
    assert_eq!(interval_us(100.0, 20_000, 3000), 5000, "four reports to a decision");
    assert_eq!(interval_us(100.0, 20_000, 1000), 100, "a burst at the start of a flow");
    assert_eq!(interval_us(10.0, 20_000, 3000), 1, "every ACK of a small window");
    assert_eq!(interval_us(10.0, 1_000, 3000), 100, "but not hundreds of thousands per second");
}

#[test]
fn a_timer_asks_while_the_datapath_is_silent() {
    let spec = r#"{
        "learned": 1, "name": "timed", "clock": {"kind": "timer", "period_ms": 20}, "base": "none",
        "act": {"kind": "window", "bounds": [2, 100]}, "observe": {"signals": ["since_ack_ms"]}, "report": ["time_s"]
    }"#;
    let controller = ccarena_cc::Spec::parse(spec).unwrap().controller(&Config::default()).unwrap();
    let mut daemon = Daemon::new(0, 1, Box::new(|_| None));
    daemon.take_over(7, Driver { controller, decider: Some(Decider::Outside), ..driver("acct", 0) }, 0);
    assert_eq!(daemon.next_timer(), Time::NEVER, "nothing has been sent");
    let sent = Event { sent_bytes: u64::from(MSS), sent_packets: 1, ..Event::default() };
    let first = Event { cookie: 7, kind: EVENT_REPORT, mss: MSS, ..sent };
    let (_, answer) = daemon.on_event(&first, &mut |_| panic!("the period has just begun")).unwrap();
    assert_eq!((answer.base, answer.interval_us), (BASE_HOLD, 100), "every ACK of a small window reports");
    let mut silent_ms = Vec::new();
    for _ in 0..3 {
        let due = daemon.next_timer();
        let replies = daemon.on_timers(due, &mut |decision| silent_ms.push(decision.observation[0].round()));
        assert_eq!(replies.len(), 1);
    }
    assert_eq!(silent_ms, [20.0, 40.0, 60.0]);
    let (_, answer) = daemon.act(0, 50.0, Time(60_000_000)).unwrap().unwrap();
    assert_eq!(answer.window_packets, 50);
    assert_eq!(daemon.flows[0].decisions, 3);
}

#[test]
fn what_is_sent_is_signalled_as_it_was() {
    let spec = r#"{
        "learned": 1, "name": "sent", "clock": {"kind": "fixed", "period_ms": 20}, "base": "none",
        "act": {"kind": "window", "bounds": [2, 100]}, "observe": {"signals": ["send_ratio"]},
        "report": ["sent_packets", "send_rate_mbps", "send_ratio", {"signal": "sent_packets", "as": "recent", "over_ms": 40}]
    }"#;
    let controller = ccarena_cc::Spec::parse(spec).unwrap().controller(&Config::default()).unwrap();
    let mut daemon = Daemon::new(0, 1, Box::new(|_| None));
    daemon.take_over(7, Driver { controller, decider: Some(Decider::Outside), ..driver("acct", 0) }, 0);
    let mut last = Vec::new();
    for event in (0..20).map(|k| periodic(k, k * 10, 100, 80)) {
        daemon.on_event(&event, &mut |decision| last = decision.report.to_vec());
    }
    let mbps = 100.0 * f64::from(MSS) * 8.0 / 0.02 / 1e6;
    assert!((last[0] - 100.0).abs() < 0.5, "{last:?}");
    assert!((f64::from(last[1]) / mbps - 1.0).abs() < 1e-6, "{last:?}");
    assert!((last[3] / 200.0 - 1.0).abs() < 0.3, "{last:?}");
}

/// A socket in the middle of its life, as the kernel lists it.
fn listed(cookie: u64, now_ns: u64) -> Event {
    Event {
        cookie,
        kind: EVENT_LISTED,
        sequence: 900,
        now_ns,
        sent_bytes: 9000 * u64::from(MSS),
        sent_packets: 9000,
        delivered_packets: 8900,
        snd_una: 8900 * u64::from(MSS),
        snd_nxt: 9000 * u64::from(MSS),
        in_flight_packets: 100,
        answer_sequence: 500,
        mss: MSS,
        ..Event::default()
    }
}

#[test]
fn sockets_are_those_that_the_kernel_lists() {
    let mut daemon = Daemon::new(0, 1, Box::new(|event| (event.cookie != 3).then(|| driver("vegas", 0))));
    for cookie in [1, 2, 3] {
        daemon.on_event(&Event { cookie, kind: EVENT_OPENED, now_ns: 10, ..Event::default() }, &mut |_| ());
    }
    // The end of 1 was lost, and the beginning of 4; 5 opened while the list was made; 3 is not ours.
    daemon.on_event(&Event { cookie: 5, kind: EVENT_OPENED, now_ns: 25, ..Event::default() }, &mut |_| ());
    let replies = daemon.reconcile(&[listed(2, 21), listed(3, 22), listed(4, 23)], 20);
    let mut living: Vec<u64> = daemon.cookies().collect();
    living.sort_unstable();
    assert_eq!(living, [2, 4, 5]);
    let answers: Vec<_> = replies.iter().map(|(cookie, answer)| (*cookie, answer.sequence, answer.report)).collect();
    assert_eq!(answers, [(4, 501, 900)], "the kernel takes the answer for a new one");
    assert!(daemon.reconcile(&[listed(2, 31), listed(3, 32), listed(4, 33)], 30).is_empty());
    assert_eq!(daemon.sockets(), 2);
    // Refused once is enough, until the socket has gone.
    assert!(daemon.on_event(&Event { kind: EVENT_REPORT, ..listed(3, 40) }, &mut |_| ()).is_none());
    assert_eq!(daemon.refused.len(), 1);
    daemon.reconcile(&[], 50);
    assert_eq!((daemon.sockets(), daemon.refused.len()), (0, 0));
}

#[test]
fn a_socket_whose_opening_was_lost_is_taken_up_by_its_first_report() {
    let mut daemon = Daemon::new(0, 1, Box::new(|_| Some(driver("vegas", 0))));
    let (_, answer) = daemon.on_event(&Event { kind: EVENT_REPORT, ..listed(8, 5) }, &mut |_| ()).unwrap();
    assert_eq!((daemon.sockets(), answer.sequence), (1, 501));
    assert!(daemon.on_event(&Event { kind: EVENT_CLOSED, ..listed(9, 6) }, &mut |_| ()).is_none());
    assert_eq!(daemon.sockets(), 1);
}

#[test]
fn what_was_before_a_daemon_joined_is_not_told_as_one_interval() {
    let mut recorder = crate::daemon::testing::Recorder { tracks: true, ..Default::default() };
    let mut feed = Feed::new(&mut recorder, MSS, 0);
    let joined = listed(7, 1_000_000_000);
    feed.join(&joined);
    let next = Event {
        kind: EVENT_REPORT,
        now_ns: 1_010_000_000,
        acked_packets: 10,
        acked_bytes: 10 * u64::from(MSS),
        delivered_packets: joined.delivered_packets + 10,
        snd_una: joined.snd_una + 10 * u64::from(MSS),
        sent_bytes: joined.sent_bytes + 12 * u64::from(MSS),
        sent_packets: joined.sent_packets + 12,
        snd_nxt: joined.snd_nxt + 12 * u64::from(MSS),
        in_flight_packets: 102,
        rtt_count: 1,
        rtt_sum_us: 20_000,
        rtt_min_us: 20_000,
        ..joined
    };
    feed.tell(&next, &mut recorder, |_, _| ());
    assert_eq!(recorder.sent.len(), 12);
    assert_eq!(recorder.acked_numbers, (8900..8910).collect::<Vec<u64>>(), "the oldest in flight");
    let [ack] = recorder.acks.as_slice() else { panic!("{:?}", recorder.acks) };
    assert_eq!((ack.acked.0, ack.now), (10 * u64::from(MSS), Time(1_010_000_000)));
}
