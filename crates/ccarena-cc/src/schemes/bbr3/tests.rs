//! The draft's rules, and the test cases of its appendix A where one flow alone shows them.

use std::collections::VecDeque;

use super::*;
use crate::events::{RateSample, RecoveryState};

const MSS: u64 = 1448;

/// BBR over one drop-tail link: every segment that fits is acknowledged at once, the return path is pure delay. A gap in
/// what arrives is a loss.
struct Path {
    bbr: Bbr3,
    rate: Rate,
    rtt: Dur,
    /// Segments that the queue holds.
    buffer: u64,
    /// Every so many segments the application has nothing to send for a while.
    app_limited: bool,
    /// Packets are marked while more than this waits.
    mark_above: Dur,
    now: Time,
    next_send: Time,
    link_free: Time,
    delivered: u64,
    delivered_at: Time,
    srtt: Dur,
    flying: VecDeque<Packet>,
    number: u64,
    lost: u64,
    /// Recovery lasts until this number is acknowledged.
    recovery_end: Option<u64>,
}

struct Packet {
    number: u64,
    arrives: Time,
    sent: Time,
    delivered: u64,
    delivered_at: Time,
    lost: bool,
    marked: bool,
}

impl Path {
    fn new(mbps: f64, rtt_ms: u64, buffer: u64) -> Self {
        Self::of(&Config::default(), mbps, rtt_ms, buffer)
    }

    fn of(config: &Config, mbps: f64, rtt_ms: u64, buffer: u64) -> Self {
        Self {
            bbr: Bbr3::new(config),
            rate: Rate::from_mbps(mbps),
            rtt: Dur::from_millis(rtt_ms),
            buffer,
            app_limited: false,
            mark_above: Dur::MAX,
            now: Time::from_secs_f64(1.0),
            next_send: Time::ZERO,
            link_free: Time::ZERO,
            delivered: 0,
            delivered_at: Time::ZERO,
            srtt: Dur::ZERO,
            flying: VecDeque::new(),
            number: 0,
            lost: 0,
            recovery_end: None,
        }
    }

    fn in_flight(&self) -> u64 {
        self.flying.len() as u64 * MSS
    }

    /// Bandwidth-delay product in bytes.
    fn bdp(&self) -> f64 {
        self.rate.0 as f64 / 8.0 * self.rtt.as_secs_f64()
    }

    fn step(&mut self) {
        let may_send = self.in_flight() + MSS <= self.bbr.control.cwnd;
        let next_ack = self.flying.front().map_or(Time::NEVER, |p| p.arrives);
        if may_send && self.next_send.max(self.now) <= next_ack {
            self.now = self.next_send.max(self.now);
            self.send();
        } else {
            self.now = self.now.max(next_ack);
            self.receive();
        }
    }

    fn run_until(&mut self, end: Time) {
        while self.now < end {
            self.step();
        }
    }

    /// Runs until the state is `state`; its time.
    fn run_to(&mut self, state: State) -> Time {
        let limit = self.now + Dur::from_millis(60_000);
        while self.bbr.state != state {
            self.step();
            assert!(self.now < limit, "no {state:?} within a minute: {:?}", self.bbr.state);
        }
        self.now
    }

    fn run_while(&mut self, state: State) {
        while self.bbr.state == state {
            self.step();
        }
    }

    fn send(&mut self) {
        let prior_in_flight = Bytes(self.in_flight());
        self.bbr.on_sent(&SentInfo {
            now: self.now,
            bytes: Bytes(MSS),
            prior_in_flight,
            number: self.number,
            app_limited: self.app_limited,
            ..SentInfo::default()
        });
        if prior_in_flight == Bytes(0) {
            self.delivered_at = self.now;
        }
        self.next_send = self.now + self.bbr.control.pacing_rate.time_for(MSS);
        let waits = self.link_free.since(self.now);
        let lost = waits.0 >= self.rate.time_for(MSS * self.buffer).0;
        if !lost {
            self.link_free = self.link_free.max(self.now) + self.rate.time_for(MSS);
        }
        self.flying.push_back(Packet {
            number: self.number,
            arrives: self.link_free + self.rtt,
            sent: self.now,
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            lost,
            marked: waits > self.mark_above,
        });
        self.number += 1;
    }

    /// The acknowledgement of the next delivered packet, and the losses before it.
    fn receive(&mut self) {
        let prior_in_flight = Bytes(self.in_flight());
        let mut lost_packets = 0;
        while let Some(packet) = self.flying.pop_front() {
            if packet.lost {
                self.bbr.on_packet_lost(packet.number);
                lost_packets += 1;
                continue;
            }
            self.delivered += MSS;
            self.delivered_at = self.now;
            self.bbr.on_packet_acked(packet.number);
            self.acknowledge(&packet, prior_in_flight, lost_packets);
            return;
        }
    }

    fn acknowledge(&mut self, packet: &Packet, prior_in_flight: Bytes, lost_packets: u32) {
        let (in_flight, delivered) = (Bytes(self.in_flight()), Bytes(self.delivered));
        let lost = Bytes(u64::from(lost_packets) * MSS);
        self.lost += u64::from(lost_packets);
        if self.recovery_end.is_some_and(|end| packet.number >= end) {
            self.recovery_end = None;
            self.bbr.on_recovery_end(self.now, in_flight);
        }
        if lost_packets > 0 {
            let new_episode = self.recovery_end.is_none();
            // What is repaired takes another round trip.
            self.recovery_end = Some(self.number);
            let now = self.now;
            self.bbr.on_loss(&LossInfo {
                now,
                lost,
                lost_packets,
                in_flight,
                new_episode,
                delivered,
                ..LossInfo::default()
            });
        }
        let rtt = self.now.since(packet.sent);
        self.srtt = if self.srtt == Dur::ZERO { rtt } else { (self.srtt * 7 + rtt) / 8 };
        self.bbr.on_ack(&AckInfo {
            now: self.now,
            acked: Bytes(MSS),
            acked_packets: 1,
            rtt: Some(rtt),
            srtt: self.srtt,
            prior_in_flight,
            in_flight,
            delivered,
            lost,
            rate: Some(RateSample {
                delivered: Bytes(self.delivered - packet.delivered),
                interval: self.now.since(packet.delivered_at),
                prior_delivered: Bytes(packet.delivered),
                app_limited: self.app_limited,
            }),
            cwnd_limited: prior_in_flight.0 + MSS > self.bbr.control.cwnd,
            recovery: if self.recovery_end.is_some() { RecoveryState::Recovery } else { RecoveryState::Open },
            ecn_ce: u32::from(packet.marked),
            ..AckInfo::default()
        });
    }

    fn bandwidth_mbps(&self) -> f64 {
        self.bbr.max_bw.get() * 8e-6
    }
}

/// A.1, A.3: three rounds without a quarter more end Startup, a flight of one bandwidth-delay product ends Drain.
#[test]
fn a_plateau_of_bandwidth_ends_startup_and_an_empty_queue_drain() {
    let mut path = Path::new(50.0, 40, 10_000);
    let start = path.now;
    path.run_to(State::Drain);
    assert!(path.bbr.full_bw.reached && path.bbr.full_bw.now);
    assert!((path.bandwidth_mbps() / 50.0 - 1.0).abs() < 0.02, "{} Mbit/s", path.bandwidth_mbps());
    // From 10 segments per round trip to 173 by doubling, and three rounds without growth.
    let rounds = path.now.since(start).as_millis_f64() / 40.0;
    assert!((6.0..14.0).contains(&rounds), "{rounds} rounds");
    assert_eq!(path.bbr.state.gains(), (0.5, 2.0));
    path.run_while(State::Drain);
    assert!(path.bbr.state.is_probe_bw());
    let flight = path.in_flight() as f64 / path.bdp();
    assert!(flight <= 1.05, "{flight} BDP");
    assert_eq!(path.bbr.inflight_longterm, INFINITE, "nothing was lost");
}

/// A.4: where the bandwidth was overestimated, Drain ends after three rounds.
#[test]
fn drain_ends_after_three_rounds() {
    let mut path = Path::new(50.0, 40, 10_000);
    // Drain begins a tenth of a second later; the queue is then too slow to drain in time.
    path.run_until(Time::from_secs_f64(1.45));
    path.rate = Rate::from_mbps(10.0);
    path.run_to(State::Drain);
    let round = path.bbr.rounds.count;
    path.run_while(State::Drain);
    assert_eq!(path.bbr.state, State::ProbeBwDown);
    assert_eq!(path.bbr.rounds.count - round, 4);
    assert!(path.in_flight() as f64 > 1.2 * path.bdp());
}

/// A.2: heavy loss ends Startup though the application limits every sample, and says how much fits.
#[test]
fn loss_ends_startup() {
    let mut path = Path::new(50.0, 40, 30);
    path.app_limited = true;
    path.run_while(State::Startup);
    assert!(path.now < Time::from_secs_f64(2.0), "{}", path.now);
    assert!(path.lost > 6);
    assert!(path.bbr.full_bw.reached && path.bbr.full_bw.now);
    assert_ne!(path.bbr.inflight_longterm, INFINITE);
    assert_eq!(path.bbr.undo.state, Some(State::Startup));
    let bound = path.bbr.inflight_longterm as f64 / path.bdp();
    assert!((0.9..1.6).contains(&bound), "{bound} BDP");
}

/// A.7: without loss, samples that the application limits end neither Startup nor a probe.
#[test]
fn application_limited_samples_say_nothing() {
    let mut path = Path::new(50.0, 40, 10_000);
    path.app_limited = true;
    path.run_until(Time::from_secs_f64(4.0));
    assert_eq!(path.bbr.state, State::Startup);
    path.app_limited = false;
    path.run_to(State::ProbeBwUp);
    path.app_limited = true;
    path.run_until(path.now + Dur::from_millis(2500));
    assert_eq!(path.bbr.state, State::ProbeBwUp);
}

/// §5.3.3: DOWN, CRUISE, REFILL for a round, UP until nothing more is gained, after 2 to 3 s or 63 rounds.
#[test]
fn the_cycle_goes_through_its_phases() {
    let mut path = Path::new(50.0, 100, 10_000);
    let down = path.run_to(State::ProbeBwCruise);
    assert_eq!(path.bbr.state.gains(), (1.0, 2.0));
    let refill = path.run_to(State::ProbeBwRefill);
    let waited = refill.since(down).as_secs_f64();
    assert!((2.0..3.2).contains(&waited), "{waited} s");
    let rounds = path.bbr.rounds.count;
    let up = path.run_to(State::ProbeBwUp);
    assert_eq!(path.bbr.rounds.count, rounds + 1);
    assert!(up.since(refill) >= path.rtt);
    assert_eq!(path.bbr.state.gains(), (1.25, 2.25));
    path.run_to(State::ProbeBwDown);
    assert!(path.bbr.rounds.count >= rounds + 4, "three rounds without growth");
    assert!(path.in_flight() as f64 > 1.1 * path.bdp());
    assert_eq!(path.bbr.state.gains(), (0.9, 2.0));
    path.run_to(State::ProbeBwCruise);
    assert!(path.in_flight() as f64 <= 1.03 * path.bdp(), "drained");
    // A small window is probed as often as Reno would lose: 12 segments, every 12 round trips.
    let mut path = Path::new(7.0, 20, 10_000);
    let down = path.run_to(State::ProbeBwDown);
    let waited = path.run_to(State::ProbeBwRefill).since(down).as_secs_f64() / 0.02;
    assert!((9.0..20.0).contains(&waited), "{waited} round trips");
}

/// The wait is random, but the same seed waits alike.
#[test]
fn waits_are_spread_over_a_second() {
    let mut waits = Vec::new();
    for seed in 0..200 {
        let (mut probe, mut twin) = (Probe::new(seed), Probe::new(seed));
        probe.pick_wait();
        twin.pick_wait();
        assert_eq!((probe.wait, probe.rounds_since_up), (twin.wait, twin.rounds_since_up));
        assert!(probe.rounds_since_up <= 1);
        waits.push(probe.wait.as_secs_f64());
    }
    assert!(waits.iter().all(|w| (2.0..3.0).contains(w)));
    let mean = waits.iter().sum::<f64>() / 200.0;
    assert!((2.4..2.6).contains(&mean), "{mean} s");
}

/// A.21, §5.3.3.6: a probe that loses more than 2 % ends at once, sets the bound to what fitted, and the next one is
/// cautious: it ends as soon as the flight reaches the bound.
#[test]
fn loss_in_a_probe_bounds_the_flight_and_makes_the_next_one_cautious() {
    // Three tenths of a bandwidth-delay product: Startup and each probe overflow it.
    let mut path = Path::new(50.0, 40, 52);
    path.run_to(State::ProbeBwUp);
    // No ProbeRTT within this test.
    path.bbr.min_rtt.since_probe_stamp = Time::from_secs_f64(60.0);
    path.bbr.inflight_longterm = INFINITE;
    path.bbr.probe.prev_too_high = false;
    path.run_to(State::ProbeBwDown);
    assert!(path.bbr.probe.prev_too_high);
    assert_eq!(path.bbr.undo.state, Some(State::ProbeBwUp));
    let full = path.bdp() + 52.0 * MSS as f64;
    let bound = path.bbr.inflight_longterm as f64 / full;
    assert!((0.85..=1.05).contains(&bound), "{bound} of what fits");
    // Headroom is left while cruising.
    path.run_to(State::ProbeBwCruise);
    for _ in 0..400 {
        path.step();
        assert!(path.bbr.control.cwnd as f64 <= 0.85 * path.bbr.inflight_longterm as f64 + 1.0);
    }
    let lost = path.lost;
    path.run_to(State::ProbeBwUp);
    assert_eq!(path.lost, lost, "nothing is lost between probes");
    path.run_to(State::ProbeBwDown);
    assert!(path.bbr.probe.prev_precautionary && !path.bbr.probe.prev_too_high);
    assert!(path.in_flight() + 2 * MSS > path.bbr.inflight_longterm);
    let lost = path.lost;
    // It lost nothing: at once the next one, without cruising.
    path.run_to(State::ProbeBwRefill);
    if path.lost == lost {
        assert!(!path.bbr.probe.prev_precautionary);
    }
}

/// §5.5.10.2: the threshold is 2 % of the flight, and the bound is where losses crossed it.
#[test]
fn two_percent_of_a_flight_is_the_threshold() {
    for (losses, too_high) in [(1, false), (2, false), (3, true)] {
        let mut path = Path::new(50.0, 40, 10_000);
        path.run_to(State::ProbeBwUp);
        path.bbr.probe.is_sample = true;
        // A flight of 100 segments, of which some are lost.
        path.bbr.packets = Packets::default();
        for number in 0..100 {
            let prior_in_flight = Bytes(99 * MSS);
            let now = path.now;
            path.bbr.on_sent(&SentInfo { now, bytes: Bytes(MSS), prior_in_flight, number, ..SentInfo::default() });
        }
        (0..losses).for_each(|number| path.bbr.on_packet_lost(number));
        let delivered = Bytes(path.delivered);
        path.bbr.on_loss(&LossInfo {
            now: path.now,
            lost: Bytes(losses * MSS),
            lost_packets: losses as u32,
            new_episode: true,
            delivered,
            ..LossInfo::default()
        });
        assert_eq!(path.bbr.probe.prev_too_high, too_high, "{losses} of 100");
        assert_eq!(path.bbr.state == State::ProbeBwDown, too_high);
        if too_high {
            // 99 in flight before, two lost before: no prefix of the third fits. Beta times the target is 0.7 BDP.
            let expected = (99 * MSS).max((0.7 * path.bbr.bdp_multiple(path.bbr.bw, 1.0) as f64) as u64);
            assert_eq!(path.bbr.inflight_longterm, expected);
        }
    }
}

/// Tests §5.5.10.3: outside probes a round with loss lowers the short-term model by Beta, but not below what was
/// delivered.
#[test]
fn loss_between_probes_lowers_the_short_term_model_until_the_next_refill() {
    let mut path = Path::new(50.0, 100, 10_000);
    path.run_to(State::ProbeBwCruise);
    let before = path.bbr.bw;
    // The link is now slower than the flow sends, and its queue short.
    path.rate = Rate::from_mbps(25.0);
    path.buffer = 40;
    path.run_until(path.now + Dur::from_millis(1000));
    assert_eq!(path.bbr.state, State::ProbeBwCruise);
    let bw = path.bbr.short_term.bw * 8e-6;
    assert!((24.0..30.0).contains(&bw), "{bw} Mbit/s");
    assert!(path.bbr.bw < 0.65 * before && path.bbr.max_bw.get() > 0.95 * before, "the long-term model stays");
    assert!(path.bbr.short_term.inflight < INFINITE);
    path.run_to(State::ProbeBwRefill);
    assert!(path.bbr.short_term.bw.is_infinite());
    assert_eq!(path.bbr.short_term.inflight, INFINITE);
    // A.16: two cycles later the long-term model has followed.
    path.run_until(path.now + Dur::from_millis(8000));
    assert!((path.bandwidth_mbps() / 25.0 - 1.0).abs() < 0.03, "{} Mbit/s", path.bandwidth_mbps());
}

/// A.15: ten times the bandwidth are found within two probes, the bound's increments doubling each round.
#[test]
fn ten_times_the_bandwidth_is_found_soon() {
    let mut path = Path::new(10.0, 40, 60);
    path.run_to(State::ProbeBwUp);
    path.run_to(State::ProbeBwCruise);
    (path.rate, path.buffer) = (Rate::from_mbps(100.0), 300);
    let start = path.now;
    while path.bandwidth_mbps() < 95.0 {
        path.step();
        assert!(path.now.since(start) < Dur::from_millis(9000), "{} Mbit/s after 9 s", path.bandwidth_mbps());
    }
}

/// A.10: after five seconds without a lower RTT half a bandwidth-delay product is in flight for at least 200 ms; Startup
/// goes on after it if the pipe was not full (A.20).
#[test]
fn probe_rtt_halves_the_flight_every_five_seconds() {
    let mut path = Path::new(20.0, 40, 10_000);
    path.run_until(Time::from_secs_f64(3.0));
    // From here on the path is longer, so that no sample reaches the old minimum.
    path.rtt = Dur::from_millis(45);
    let mut entries = Vec::new();
    for _ in 0..2 {
        let entered = path.run_to(State::ProbeRtt);
        let target = path.bbr.probe_rtt_cwnd() as f64 / path.bdp();
        assert!((0.4..0.6).contains(&target), "{target} BDP");
        while path.bbr.state == State::ProbeRtt {
            assert!(path.bbr.control.cwnd <= path.bbr.probe_rtt_cwnd());
            assert!(path.bbr.packets.held_back());
            path.step();
        }
        assert_eq!(path.bbr.state, State::ProbeBwCruise, "drained already");
        let length = path.now.since(entered).as_millis_f64();
        assert!((200.0..360.0).contains(&length), "{length} ms");
        entries.push(entered);
    }
    let apart = entries[1].since(entries[0]).as_secs_f64();
    assert!((5.0..5.6).contains(&apart), "{apart} s");
    assert!((path.bbr.min_rtt.since_probe.as_millis_f64() - 45.6).abs() < 0.5);
    path.run_until(path.now + Dur::from_millis(1000));
    assert!((path.bandwidth_mbps() / 20.0 - 1.0).abs() < 0.03, "{} Mbit/s", path.bandwidth_mbps());

    let mut path = Path::new(20.0, 40, 10_000);
    path.app_limited = true;
    path.run_until(Time::from_secs_f64(2.0));
    path.rtt = Dur::from_millis(45);
    path.run_to(State::ProbeRtt);
    path.run_to(State::Startup);
}

/// A.11: an idle flow has drained the queue already.
#[test]
fn an_idle_flow_skips_probe_rtt() {
    let mut path = Path::new(20.0, 40, 10_000);
    path.run_to(State::ProbeBwCruise);
    while !path.flying.is_empty() {
        path.receive();
    }
    path.rtt = Dur::from_millis(45);
    path.now = path.now + Dur::from_millis(7000);
    (path.next_send, path.app_limited) = (path.now, true);
    path.send();
    assert!(path.bbr.idle_restart);
    let exact = path.bbr.bw * 8.0 * 0.99;
    assert!((path.bbr.control.pacing_rate.0 as f64 / exact - 1.0).abs() < 1e-6, "paces at the bandwidth");
    path.now = path.flying[0].arrives;
    path.receive();
    assert!(!path.bbr.idle_restart);
    assert_ne!(path.bbr.state, State::ProbeRtt);
}

/// A.14: four segments at least, at any bandwidth-delay product.
#[test]
fn four_segments_are_the_least_window() {
    let mut path = Path::new(0.2, 10, 100);
    path.run_until(Time::from_secs_f64(20.0));
    assert!(path.bbr.full_bw.reached);
    assert!(path.bbr.control.cwnd >= 4 * MSS);
    assert!((path.bandwidth_mbps() / 0.2 - 1.0).abs() < 0.02, "{} Mbit/s", path.bandwidth_mbps());
}

/// A.18: a recovery that proves spurious gives back model and state.
#[test]
fn a_spurious_loss_is_undone() {
    let mut path = Path::new(50.0, 40, 10_000);
    path.run_to(State::ProbeBwUp);
    for _ in 0..20 {
        path.step();
    }
    let window = path.bbr.control.cwnd;
    let lost: Vec<u64> = path.flying.iter().take(30).map(|p| p.number).collect();
    for &number in &lost {
        path.bbr.on_packet_lost(number);
    }
    let (in_flight, delivered) = (Bytes(path.in_flight() - 30 * MSS), Bytes(path.delivered));
    let now = path.now;
    path.bbr.on_loss(&LossInfo {
        now,
        lost_packets: 30,
        in_flight,
        new_episode: true,
        delivered,
        ..LossInfo::default()
    });
    assert_eq!(path.bbr.state, State::ProbeBwDown);
    assert_ne!(path.bbr.inflight_longterm, INFINITE);
    path.bbr.on_spurious_loss(path.now);
    assert_eq!(path.bbr.state, State::ProbeBwRefill);
    assert_eq!(path.bbr.inflight_longterm, INFINITE);
    assert!(path.bbr.control.cwnd >= window);
}

/// §5.6.4.4: a timeout leaves what is in flight and a segment, and the end of recovery the window before.
#[test]
fn a_timeout_leaves_one_segment_until_it_is_repaired() {
    let mut path = Path::new(50.0, 40, 10_000);
    path.run_to(State::ProbeBwCruise);
    let (window, bw) = (path.bbr.control.cwnd, path.bbr.bw);
    let now = path.now;
    path.bbr.on_timeout(&LossInfo { now, new_episode: true, ..LossInfo::default() });
    assert_eq!(path.bbr.control.cwnd, MSS);
    assert!((path.bbr.bw - bw).abs() < 1e-9 * bw, "the model stays");
    path.bbr.on_recovery_end(now, Bytes(0));
    assert_eq!(path.bbr.control.cwnd, window);
}

/// Marks bound the flight as losses do: they end Startup, and a probe, before anything is lost.
#[test]
fn marks_end_startup_and_probes() {
    let mut path = Path::new(50.0, 40, 10_000);
    path.mark_above = Dur::from_millis(2);
    path.run_to(State::Drain);
    assert_ne!(path.bbr.inflight_longterm, INFINITE);
    path.run_to(State::ProbeBwUp);
    path.bbr.inflight_longterm = INFINITE;
    path.run_to(State::ProbeBwDown);
    assert!(path.bbr.probe.prev_too_high);
    assert!(path.in_flight() as f64 <= 1.5 * path.bdp(), "{} BDP", path.in_flight() as f64 / path.bdp());
    assert_eq!(path.lost, 0);
    // While cruising a marked round takes a third of alpha.
    path.run_to(State::ProbeBwCruise);
    path.mark_above = Dur::ZERO;
    path.rate = Rate::from_mbps(40.0);
    path.run_until(path.now + Dur::from_millis(500));
    assert!(path.bbr.short_term.inflight < INFINITE);
    assert!(path.bbr.ecn.alpha > 0.1, "{}", path.bbr.ecn.alpha);
}

/// Tests that a segment repeated by a tail-loss probe need not be lost; a repaired one was.
#[test]
fn a_probe_of_the_tail_is_no_loss_but_its_repair_is_one() {
    let mut path = Path::new(50.0, 40, 10_000);
    path.run_to(State::ProbeBwCruise);
    let number = path.flying[0].number;
    path.bbr.on_packet_lost(number);
    path.send();
    assert!(path.bbr.packets.lost_now.is_empty());
    assert_eq!(path.bbr.packets.lost, 0);
    let (now, delivered) = (path.now, Bytes(path.delivered));
    path.bbr.on_loss(&LossInfo { now, new_episode: true, delivered, ..LossInfo::default() });
    assert!(path.bbr.short_term.loss_in_round);
}
