use std::time::Duration;

use super::parity::{self, Adapter, MTU, policy};
use super::*;

/// The adapter as tquic calls it, and what tquic has in flight.
struct Tquic {
    state: State,
    rtt: RttEstimator,
    in_flight: u64,
}

impl Tquic {
    fn new(source: &Source<'_>) -> Self {
        let state = State::new(parity::flow(source, &HOST), Instant::now(), MTU);
        Self { state, rtt: RttEstimator::new(Duration::from_millis(333)), in_flight: 0 }
    }

    fn packet(&self, number: u64, sent: Time) -> SentPacket {
        let time_sent = self.at(sent);
        SentPacket { pkt_num: number, time_sent, sent_size: MTU.into(), in_flight: true, ..SentPacket::default() }
    }

    fn at(&self, time: Time) -> Instant {
        self.state.origin + Duration::from_nanos(time.0)
    }
}

impl Adapter for Tquic {
    fn on_sent(&mut self, now: Time, number: u64) {
        let mut packet = self.packet(number, now);
        self.state.on_sent(self.at(now), &mut packet, self.in_flight);
        self.in_flight += u64::from(MTU);
    }

    fn on_ack(&mut self, now: Time, acked: &[(u64, Time)], lost: &[(u64, Time)], _: u64, srtt: Dur) {
        let at = self.at(now);
        self.state.begin_ack(at, self.in_flight);
        // Its own smoothing is compared by the link's, which gives the value of the acknowledgement before.
        self.rtt = RttEstimator::new(Duration::from_nanos(srtt.0));
        for &(number, sent) in acked {
            self.in_flight -= u64::from(MTU);
            let mut packet = self.packet(number, sent);
            self.state.on_ack(&mut packet, at, false, &self.rtt, self.in_flight);
        }
        if let Some(&(number, sent)) = lost.last() {
            let bytes = lost.len() as u64 * u64::from(MTU);
            self.in_flight -= bytes;
            let packet = self.packet(number, sent);
            self.state.on_congestion_event(at, &packet, false, bytes, self.in_flight);
        }
        self.state.end_ack();
    }

    fn window(&mut self) -> u64 {
        self.state.congestion_window()
    }
}

#[test]
fn the_same_acknowledgements_give_the_same_windows() {
    for source in [Source::Scheme("cubic"), Source::Scheme("bbr"), Source::Scheme("vivace"), policy("hyvar")] {
        let losses = parity::check(&mut Tquic::new(&source), parity::flow(&source, &HOST), true, 0.0);
        assert!(losses > 0 || !matches!(source, Source::Scheme("cubic")), "{source:?} lost nothing");
    }
}

#[test]
fn tquic_builds_the_controller_with_the_size_that_it_tries_to_send() {
    let factory = Factory::new(Source::Scheme("cubic"), Config::default()).unwrap();
    let mut conf = RecoveryConfig::default();
    conf.max_datagram_size = MTU.into();
    let built = factory.build(&conf);
    assert_eq!((built.initial_window(), built.minimal_window()), (10 * u64::from(MTU), MTU.into()));
    assert_eq!((built.in_slow_start(), built.pacing_rate()), (true, None));
}

#[test]
fn a_lost_probe_of_the_mtu_is_in_flight_no_more() {
    let mut tquic = Tquic::new(&Source::Scheme("cubic"));
    (1..=3).for_each(|number| tquic.on_sent(Time(1), number));
    // tquic counts one of them no more, and says nothing.
    tquic.state.begin_ack(tquic.at(Time(2)), 2 * u64::from(MTU));
    assert_eq!(tquic.state.flow.in_flight(), 2 * u64::from(MTU));
}

#[test]
fn a_controller_whose_signals_tquic_lacks_is_refused() {
    let refused = |source| Factory::new(source, Config::default()).unwrap_err().to_string();
    assert!(refused(Source::Scheme("abc")).contains("a header in packets that routers change"));
    assert!(refused(Source::Scheme("dctcp")).contains("marked and unmarked packets"));
    assert!(refused(policy("acct")).contains("rates that routers advertise"));
}
