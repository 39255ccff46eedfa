use super::parity::{self, Adapter, MTU, policy};
use super::*;

struct Quinn(State);

impl Quinn {
    fn at(&self, time: Time) -> Instant {
        self.0.origin + Duration::from_nanos(time.0)
    }
}

impl Adapter for Quinn {
    fn on_sent(&mut self, now: Time, _: u64) {
        let now = self.at(now);
        self.0.on_sent(now, MTU.into());
    }

    fn on_ack(&mut self, now: Time, acked: &[(u64, Time)], lost: &[(u64, Time)], in_flight: u64, srtt: Dur) {
        let now = self.at(now);
        for &(_, sent) in acked {
            let sent = self.at(sent);
            self.0.on_ack(now, sent, srtt);
        }
        self.0.on_end_acks(in_flight, false);
        if let Some(&(_, sent)) = lost.last() {
            let sent = self.at(sent);
            self.0.on_congestion(now, sent, false, lost.len() as u64 * u64::from(MTU));
        }
    }

    fn window(&mut self) -> u64 {
        self.0.window();
        self.0.flow.window()
    }
}

#[test]
fn the_same_acknowledgements_give_the_same_windows() {
    for source in [Source::Scheme("cubic"), Source::Scheme("bbr"), Source::Scheme("vivace"), policy("hyvar")] {
        let exact = parity::flow(&source, &HOST);
        let mut adapter = Quinn(State::new(parity::flow(&source, &HOST), Instant::now(), MTU));
        let losses = parity::check(&mut adapter, exact, true, 0.0);
        assert!(losses > 0 || !matches!(source, Source::Scheme("cubic")), "{source:?} lost nothing");
    }
}

#[test]
fn several_packets_may_leave_at_once() {
    let mut state = State::new(parity::flow(&Source::Scheme("cubic"), &HOST), Instant::now(), MTU);
    state.on_sent(Instant::now(), 3 * u64::from(MTU) + 40);
    assert_eq!((state.number, state.flow.counts().sent_packets), (4, 4));
    // quinn does not count the last one, a bare acknowledgement, as in flight.
    state.on_end_acks(3 * u64::from(MTU), false);
    assert_eq!(state.flow.in_flight(), 3 * u64::from(MTU));
}

#[test]
fn a_pacing_rate_bounds_the_window_by_the_smoothed_rtt() {
    let mut state = State::new(parity::flow(&Source::Scheme("vivace"), &HOST), Instant::now(), MTU);
    assert_eq!(state.window(), state.flow.window() + 1, "no RTT yet");
    let (sent, rtt) = (state.origin + Duration::from_secs(1), Dur::from_millis(5));
    state.on_sent(sent, MTU.into());
    state.on_ack(sent + Duration::from_nanos(rtt.0), sent, rtt);
    state.on_end_acks(0, false);
    let (window, rate) = (state.window(), state.flow.pacing_rate().unwrap());
    assert_eq!(window, rate.bytes_in(rtt).0.clamp(LEAST_PACKETS * u64::from(MTU), state.flow.window()) + 1);
}

#[test]
fn a_slow_handshake_is_no_queue() {
    let at = |state: &State, ms: u64| state.origin + Duration::from_millis(ms);
    let control = Factory::new(policy("hyvar"), Config::default()).unwrap();
    let connection = Arc::new(control).build(Instant::now(), MTU).into_any().downcast::<Connection>().unwrap();
    let mut state = connection.state();
    let before = state.window();
    // As on a path of 40 ms: the client's first packet, the end of its handshake, whose acknowledgement is read late, and a
    // window of data, whose acknowledgements come by two.
    let (mut sent, full) = (vec![(0, 42, 1)], u64::from(MTU));
    sent.push((44, 296, 1));
    sent.extend((0..5).map(|pair| (295, 337 + pair, 2)));
    let mut events: Vec<_> =
        sent.iter().flat_map(|&(from, to, count)| [(from, false, from, count), (to, true, from, count)]).collect();
    events.sort_unstable();
    let mut srtt = Dur::from_millis(333);
    for (ms, acked, from, count) in events {
        let (now, from) = (at(&state, ms), at(&state, from));
        if !acked {
            state.on_sent(now, count * full);
            continue;
        }
        (0..count).for_each(|_| state.on_ack(now, from, srtt));
        let in_flight = state.flow.in_flight();
        state.on_end_acks(in_flight, false);
        state.window();
        let sample = Dur::from_millis(ms) - Dur(nanoseconds(from - state.origin).0);
        srtt = if ms == 42 { sample } else { (srtt * 7 + sample) / 8 };
    }
    assert_eq!(state.flow.flow().decisions(), 0, "no decision without a queue");
    assert!(state.window() > before, "{} bytes", state.window());
}

#[test]
fn a_packet_fits_into_the_window_though_packets_have_grown() {
    let mut state = State::new(parity::flow(&Source::Scheme("cubic"), &HOST), Instant::now(), MTU);
    let now = state.origin + Duration::from_secs(1);
    state.on_sent(now, MTU.into());
    state.on_congestion(now + Duration::from_secs(1), now, true, MTU.into());
    state.mtu = 9000;
    assert!(state.window() > 9000);
}

#[test]
fn a_controller_whose_signals_quinn_lacks_is_refused() {
    let refused = |source| Factory::new(source, Config::default()).unwrap_err().to_string();
    assert!(refused(Source::Scheme("abc")).contains("a header in packets that routers change"));
    assert!(refused(Source::Scheme("prague")).contains("counts of packets marked by ECN"));
    assert!(refused(policy("acct")).contains("rates that routers advertise"));
    assert!(refused(Source::Scheme("cubik")).contains("cubic"));
}
