use std::collections::VecDeque;

use super::startup::FullPipe;
use super::*;
use crate::events::{RateSample, RecoveryState};

const MSS: u64 = 1448;

/// BBR over one link with an unlimited queue: every segment is acknowledged at once, the return path is pure delay.
struct Path {
    bbr: Bbr,
    rate: Rate,
    rtt: Dur,
    now: Time,
    next_send: Time,
    link_free: Time,
    delivered: Bytes,
    delivered_at: Time,
    flying: VecDeque<Packet>,
    /// Segments in a row of which the first is lost.
    drop_every: u64,
    sent: u64,
    lost: u64,
}

struct Packet {
    arrives: Time,
    sent: Time,
    delivered: Bytes,
    delivered_at: Time,
    lost: bool,
}

impl Path {
    fn new(mbps: f64, rtt_ms: u64, config: &Config) -> Self {
        let mut full = config.clone();
        full.params = crate::scheme::complete_params(&SCHEME, &config.params).unwrap();
        Self {
            bbr: Bbr::new(&full),
            rate: Rate::from_mbps(mbps),
            rtt: Dur::from_millis(rtt_ms),
            now: Time::ZERO,
            next_send: Time::ZERO,
            link_free: Time::ZERO,
            delivered: Bytes(0),
            delivered_at: Time::ZERO,
            flying: VecDeque::new(),
            drop_every: u64::MAX,
            sent: 0,
            lost: 0,
        }
    }

    fn in_flight(&self) -> Bytes {
        Bytes(self.flying.len() as u64 * MSS)
    }

    fn run_until(&mut self, end: Time) {
        while self.now < end {
            let may_send = self.in_flight() + Bytes(MSS) <= self.bbr.window();
            let next_ack = self.flying.front().map_or(Time::NEVER, |p| p.arrives);
            if may_send && self.next_send.max(self.now) <= next_ack {
                self.now = self.next_send.max(self.now);
                self.send();
            } else {
                self.now = next_ack;
                self.receive();
            }
        }
    }

    fn send(&mut self) {
        let prior_in_flight = self.in_flight();
        self.bbr.on_sent(&SentInfo { now: self.now, bytes: Bytes(MSS), prior_in_flight, ..SentInfo::default() });
        if prior_in_flight == Bytes(0) {
            self.delivered_at = self.now;
        }
        self.next_send = self.now + self.bbr.pacing.rate.time_for(MSS);
        self.link_free = self.link_free.max(self.now) + self.rate.time_for(MSS);
        self.sent += 1;
        self.flying.push_back(Packet {
            arrives: self.link_free + self.rtt,
            sent: self.now,
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            lost: self.sent % self.drop_every == 0,
        });
    }

    /// The acknowledgement of the next delivered packet, and the losses before it.
    fn receive(&mut self) {
        let prior_in_flight = self.in_flight();
        let mut lost = Bytes(0);
        while let Some(packet) = self.flying.pop_front() {
            if packet.lost {
                lost += Bytes(MSS);
                self.lost += 1;
                continue;
            }
            self.now = packet.arrives;
            self.delivered += Bytes(MSS);
            self.delivered_at = self.now;
            let in_flight = self.in_flight();
            if lost > Bytes(0) {
                let loss =
                    LossInfo { now: self.now, lost, in_flight, delivered: self.delivered, ..LossInfo::default() };
                self.bbr.on_loss(&loss);
            }
            let interval = self.now.since(packet.delivered_at);
            self.bbr.on_ack(&AckInfo {
                now: self.now,
                acked: Bytes(MSS),
                acked_packets: 1,
                rtt: Some(self.now.since(packet.sent)),
                srtt: self.now.since(packet.sent),
                prior_in_flight,
                in_flight,
                delivered: self.delivered,
                lost,
                rate: Some(RateSample {
                    delivered: self.delivered - packet.delivered,
                    interval,
                    prior_delivered: packet.delivered,
                    app_limited: false,
                }),
                recovery: RecoveryState::Open,
                ..AckInfo::default()
            });
            return;
        }
    }

    fn bandwidth_mbps(&self) -> f64 {
        self.bbr.bandwidth() as f64 / BW_UNIT as f64 * MSS as f64 * 8.0
    }
}

#[test]
fn gains_are_the_kernels() {
    // 2.89, 0.34 and 2, times 256.
    assert_eq!((HIGH_GAIN, DRAIN_GAIN, CWND_GAIN), (739, 88, 512));
}

#[test]
fn the_first_rate_is_the_initial_window_per_millisecond_and_then_per_round_trip() {
    let mut path = Path::new(10.0, 40, &Config::default());
    // 10 segments of 1448 bytes per ms, times 739/256, times 0.99.
    let expected = 10.0 * 1448.0 * 8.0 * 1e3 * 739.0 / 256.0 * 0.99;
    assert!((path.bbr.pacing.rate.0 as f64 / expected - 1.0).abs() < 1e-4);
    path.bbr.set_pacing_rate(Dur::from_millis(40), HIGH_GAIN);
    assert!((path.bbr.pacing.rate.0 as f64 / (expected / 40.0) - 1.0).abs() < 1e-4);
}

#[test]
fn three_rounds_without_a_quarter_more_fill_the_pipe() {
    let mut pipe = FullPipe::default();
    for bandwidth in [100, 125, 157, 157, 160, 161] {
        assert!(!pipe.reached);
        pipe.on_round(bandwidth);
    }
    assert!(pipe.reached);

    let mut pipe = FullPipe::default();
    for bandwidth in [100, 101, 102, 125, 126, 127] {
        pipe.on_round(bandwidth);
    }
    assert!(!pipe.reached, "a quarter more starts the count anew");
}

#[test]
fn startup_finds_the_bandwidth_and_drain_the_minimum_rtt() {
    let mut path = Path::new(50.0, 40, &Config::default());
    path.run_until(Time::from_secs_f64(1.0));
    assert_eq!(path.bbr.mode, Mode::ProbeBw);
    let mbps = path.bandwidth_mbps();
    assert!((mbps - 50.0).abs() < 0.5, "{mbps}");
    let min_rtt = path.bbr.min_rtt.value().as_millis_f64();
    assert!((min_rtt - 40.23).abs() < 0.05, "{min_rtt}");
}

#[test]
fn the_link_stays_full_and_its_queue_short() {
    let mut path = Path::new(20.0, 40, &Config::default());
    path.run_until(Time::from_secs_f64(2.0));
    let before = path.delivered;
    let mut longest = 0;
    for step in 1..=600 {
        path.run_until(Time::from_secs_f64(2.0) + Dur::from_millis(10) * step);
        longest = longest.max(path.flying.len());
    }
    let mbps = Rate::of((path.delivered - before).0, Dur::from_millis(6000)).as_mbps();
    assert!(mbps > 19.4, "{mbps}");
    // 70 segments are the bandwidth-delay product; a quarter more while probing.
    assert!(longest < 100, "{longest}");
}

#[test]
fn the_cycle_goes_through_its_gains_in_order_a_round_trip_each() {
    let mut path = Path::new(50.0, 40, &Config::default());
    path.run_until(Time::from_secs_f64(1.0));
    let mut seen = Vec::new();
    let mut last = None;
    for step in 0..1200 {
        path.run_until(Time::from_secs_f64(1.0) + Dur::from_millis(1) * step);
        if last != Some(path.bbr.cycle.probes()) || last.is_none() {
            last = Some(path.bbr.cycle.probes());
            seen.push((step, path.bbr.pacing_gain));
        }
    }
    let starts: Vec<_> = seen.iter().filter(|(_, gain)| *gain == UNIT * 5 / 4).map(|(step, _)| *step).collect();
    assert!(starts.len() >= 3, "{seen:?}");
    for pair in starts.windows(2) {
        // Eight phases; the one that drains may end early.
        assert!((270..=380).contains(&(pair[1] - pair[0])), "{seen:?}");
    }
    let after_probing: Vec<_> = seen.iter().filter(|(_, gain)| *gain == UNIT * 3 / 4).collect();
    assert!(after_probing.len() >= 2, "{seen:?}");
}

#[test]
fn the_cycle_starts_at_a_random_phase_but_never_by_draining() {
    let mut phases = [0; 8];
    for seed in 0..700 {
        let mut cycle = Cycle::new(seed);
        let mut twin = Cycle::new(seed);
        for _ in 0..2 {
            cycle.restart(Time::ZERO);
            twin.restart(Time::ZERO);
            assert_eq!(cycle.phase(), twin.phase(), "the same seed draws the same phases");
        }
        phases[cycle.phase()] += 1;
    }
    assert_eq!(phases[1], 0);
    assert!(phases.iter().enumerate().all(|(i, n)| i == 1 || (60..140).contains(n)), "{phases:?}");
}

#[test]
fn ten_seconds_without_a_new_minimum_cut_the_flight_for_a_fifth_of_a_second() {
    let mut path = Path::new(20.0, 40, &Config::default());
    // From here on the path is longer, so that no sample reaches the old minimum.
    path.run_until(Time::from_secs_f64(2.0));
    path.rtt = Dur::from_millis(45);
    let (mut first, mut last) = (None, None);
    for step in 0..1500 {
        let now = Time::from_secs_f64(2.0) + Dur::from_millis(10) * step;
        path.run_until(now);
        if path.bbr.mode == Mode::ProbeRtt {
            first.get_or_insert(now);
            last = Some(now);
            assert!(path.bbr.window.packets() <= 4);
            assert!(path.bbr.min_rtt.limited_at(path.delivered), "samples of packets sent now are not the path's");
        }
    }
    let (first, last) = (first.unwrap(), last.unwrap());
    assert!((10.0..12.1).contains(&first.as_secs_f64()), "{first}");
    let length = last.since(first).as_millis_f64();
    assert!((200.0..=400.0).contains(&length), "{length} ms");
    assert!((path.bbr.min_rtt.value().as_millis_f64() - 45.6).abs() < 0.1);
    assert_eq!(path.bbr.mode, Mode::ProbeBw);
    assert!(!path.bbr.min_rtt.limited_at(path.delivered));
    assert!(path.bandwidth_mbps() > 19.5);
}

#[test]
fn the_window_grows_by_what_arrives_bunched_up_to_a_tenth_of_a_second() {
    let mut path = Path::new(20.0, 40, &Config::default());
    path.run_until(Time::from_secs_f64(2.0));
    assert!(path.bbr.aggregation_packets() <= 2);
    let bunch = |packets: u32, path: &Path| AckInfo {
        now: path.now,
        acked_packets: packets,
        rate: Some(RateSample { interval: Dur::from_millis(40), ..RateSample::default() }),
        ..AckInfo::default()
    };
    path.bbr.rounds.starts = false;
    path.bbr.update_aggregation(&bunch(30, &path));
    let packets = path.bbr.aggregation_packets();
    assert!((28..=32).contains(&packets), "{packets}");

    // No more than the window counts, nor than 0.1 s of 20 Mbit/s, 172 segments.
    path.bbr.update_aggregation(&bunch(5000, &path));
    assert_eq!(path.bbr.aggregation_packets(), path.bbr.window.packets().min(172));

    // It is forgotten two slots of five rounds after the link has caught up, which takes 3 s.
    for _ in 0..18 {
        path.now = path.now + Dur::from_millis(400);
        path.bbr.rounds.starts = true;
        path.bbr.update_aggregation(&bunch(1, &path));
    }
    assert_eq!(path.bbr.aggregation_packets(), 1);
}

#[test]
fn a_late_start_is_no_reason_to_probe_for_the_minimum_rtt() {
    let mut path = Path::new(20.0, 40, &Config::default());
    path.now = Time::from_secs_f64(60.0);
    path.run_until(Time::from_secs_f64(60.3));
    assert_ne!(path.bbr.mode, Mode::ProbeRtt);
}

#[test]
fn recovery_conserves_packets_for_a_round_and_then_restores_the_window() {
    let mut path = Path::new(20.0, 40, &Config::default());
    path.run_until(Time::from_secs_f64(2.0));
    let before = path.bbr.window.packets();
    let mut ack = AckInfo {
        now: path.now,
        acked: Bytes(MSS),
        acked_packets: 1,
        rtt: None,
        prior_in_flight: Bytes(51 * MSS),
        in_flight: Bytes(40 * MSS),
        delivered: path.delivered,
        lost: Bytes(10 * MSS),
        recovery: RecoveryState::Recovery,
        ..AckInfo::default()
    };
    path.bbr.on_loss(&LossInfo { now: path.now, lost: ack.lost, new_episode: true, ..LossInfo::default() });
    path.bbr.on_ack(&ack);
    assert_eq!(path.bbr.window.packets(), 41, "what is in flight, and one for the one acknowledged");
    ack.lost = Bytes(0);
    ack.recovery = RecoveryState::Open;
    path.bbr.on_ack(&ack);
    assert_eq!(path.bbr.window.packets(), before);
}

#[test]
fn a_timeout_starts_from_one_segment_and_leaves_the_model() {
    let mut path = Path::new(20.0, 40, &Config::default());
    path.run_until(Time::from_secs_f64(2.0));
    let bandwidth = path.bbr.bandwidth();
    path.bbr.on_timeout(&LossInfo {
        now: path.now,
        new_episode: true,
        delivered: path.delivered,
        ..LossInfo::default()
    });
    assert_eq!((path.bbr.window.packets(), path.bbr.bandwidth()), (1, bandwidth));
}

#[test]
fn steady_heavy_loss_looks_like_a_policer_unless_that_is_switched_off() {
    let policed = |long_term: f64| {
        let config = Config { params: [("long_term".to_string(), long_term)].into(), ..Config::default() };
        let mut path = Path::new(20.0, 40, &config);
        path.drop_every = 4;
        path.run_until(Time::from_secs_f64(3.0));
        path.bbr.long_term.policed_bandwidth().is_some()
    };
    assert!(policed(1.0));
    assert!(!policed(0.0));
}

#[test]
fn without_slow_start_it_probes_from_the_start() {
    let path = Path::new(20.0, 40, &Config { slow_start: false, ..Config::default() });
    assert_eq!(path.bbr.mode, Mode::ProbeBw);
    assert_eq!(path.bbr.cwnd_gain, CWND_GAIN);
    assert!(path.bbr.pacing.rate > Rate(0));
}
