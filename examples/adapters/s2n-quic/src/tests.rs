use super::parity::{self, Adapter, MTU, policy};
use super::*;

impl Adapter for State {
    fn on_sent(&mut self, now: Time, number: u64) {
        assert_eq!(State::on_sent(self, now, MTU.into(), false), number);
    }

    fn on_ack(&mut self, now: Time, acked: &[(u64, Time)], lost: &[(u64, Time)], _: u64, srtt: Dur) {
        self.srtt = srtt;
        self.flow.on_window_limited();
        lost.iter().for_each(|&(number, _)| self.on_lost(now, number, false));
        let newest = acked.iter().map(|&(number, _)| number).max().unwrap();
        State::on_ack(self, now, newest, acked.len() as u64 * u64::from(MTU));
    }

    fn window(&mut self) -> u64 {
        State::window(self)
    }
}

#[test]
fn the_same_acknowledgements_give_the_same_windows() {
    // Behind a hole, which packets a sum covers is a guess, and so what a delivery rate is taken of.
    for (scheme, share) in [("cubic", 0.0), ("bbr", 0.02)] {
        let flow = || parity::flow(&Source::Scheme(scheme), &HOST);
        let losses = parity::check(&mut State::new(flow(), MTU), flow(), false, share);
        assert!(losses > 0 || scheme != "cubic", "{scheme} lost nothing");
    }
}

#[test]
fn an_acknowledgement_whose_newest_packet_is_bare_covers_those_before_it() {
    let mut state = State::new(parity::flow(&Source::Scheme("cubic"), &HOST), MTU);
    for number in 1..=3 {
        assert_eq!(State::on_sent(&mut state, Time(1), MTU.into(), false), number);
    }
    let bare = state.on_bare();
    assert_eq!(State::on_sent(&mut state, Time(2), MTU.into(), false), 4);
    State::on_ack(&mut state, Time(50), bare, 3 * u64::from(MTU));
    assert_eq!((state.flow.in_flight(), state.flow.counts().delivered_bytes), (MTU.into(), 3 * u64::from(MTU)));
}

#[test]
fn discarded_packets_are_in_flight_no_more() {
    let mut state = State::new(parity::flow(&Source::Scheme("cubic"), &HOST), MTU);
    for number in 1..=3 {
        assert_eq!(State::on_sent(&mut state, Time(1), 1200, true), number);
    }
    let connection = Connection(Arc::new(Mutex::new(state)));
    connection.discard(1200);
    assert_eq!(connection.bytes_in_flight(), 2400);
}

#[test]
fn a_controller_whose_signals_s2n_quic_lacks_is_refused() {
    let refused = |source| Factory::new(source, Config::default()).unwrap_err().to_string();
    assert!(refused(Source::Scheme("abc")).contains("a header in packets that routers change"));
    assert!(refused(Source::Scheme("prague")).contains("packets that leave as ECT(1)"));
    assert!(refused(policy("acct")).contains("rates that routers advertise"));
}
