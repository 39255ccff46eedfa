//! Conversion of a decision interval's sums into the calls that a controller expects, in its order.
//!
//! Approximations of what sums do not contain:
//! - An interval's acknowledgements come as one per RTT sample (at most [`PIECES`]), evenly over the interval. The first
//!   carries the least RTT, the others are equal, so that minimum and mean are the measured ones.
//! - A period that the datapath has judged ends with the last of them.
//! - Packets sent in the interval count as sent before what arrived in it, at the controller's current rate. The first of
//!   them left at the previous rate. Controllers that do not track packets get one call with the last packet, which counts
//!   the others ([`SentInfo::unreported`]). Without the count, a controller that follows the pacer would drift from it.
//! - Of packets under way, those acknowledged or lost are the oldest.
//! - Growth by what was acknowledged in the interval before a loss is left out, as in recovery.

use std::collections::VecDeque;

use ccarena_cc::learned::clocks::{Decision, Length};
use ccarena_cc::{AckInfo, Bytes, Controller, Dur, LossInfo, Rate, RateSample, RecoveryState, SentInfo, Signal, Time};

use crate::intf::{
    CA_CWR, CA_LOSS, CA_RECOVERY, Event, FLAG_APP_LIMITED, FLAG_ASKED, FLAG_CWND_LIMITED, FLAG_ECN, FLAG_EPISODE,
    FLAG_LEFT, FLAG_PERIOD, FLAG_QUIET, FLAG_RATE_APP_LIMITED, FLAG_RECOVERY, FLAG_RESTART, FLAG_SPURIOUS,
    FLAG_TIMEOUT, RATE_UNLIMITED,
};

/// Most acknowledgements that an interval is divided into.
const PIECES: u32 = 64;
/// Packets leave in pairs, and what left before the end of an interval is a matter of one or two: the times told keep the
/// rate unless they are more packets' times off.
const SLACK: u64 = 3;
/// Most transmissions that an interval is divided into: beyond, something has gone wrong with the counts.
const TRANSMISSIONS: u64 = 1 << 16;

/// State of a socket as its controller knows it.
#[derive(Debug)]
pub struct Feed {
    /// Payload of a segment, as the controller counts windows.
    mss: u64,
    /// Time of [`Event::now_ns`] that is the controller's zero.
    zero_ns: u64,
    /// Time of the last event.
    at: Time,
    snd_una: u64,
    delivered: u64,
    in_flight: Bytes,
    /// Transmissions so far, and their payload.
    sent: u64,
    sent_bytes: u64,
    /// Time of the last packet that the controller knows of.
    sent_at: Time,
    /// Numbers of packets under way, for controllers that track packets.
    outstanding: Option<VecDeque<u64>>,
}

impl Feed {
    /// A feed for `controller`, built for segments of `mss` bytes, whose time zero is `zero_ns`.
    #[must_use]
    pub fn new(controller: &mut dyn Controller, mss: u32, zero_ns: u64) -> Self {
        Self {
            mss: u64::from(mss.max(1)),
            zero_ns,
            at: Time::ZERO,
            snd_una: 0,
            delivered: 0,
            in_flight: Bytes(0),
            sent: 0,
            sent_bytes: 0,
            outstanding: controller.packet_tracker().map(|_| VecDeque::new()),
            sent_at: Time::ZERO,
        }
    }

    /// The controller's time of an event.
    #[must_use]
    pub fn time(&self, now_ns: u64) -> Time {
        Time(now_ns.saturating_sub(self.zero_ns)).max(self.at)
    }

    /// Returns the time of the last event.
    #[must_use]
    pub fn at(&self) -> Time {
        self.at
    }

    fn packets(&self, packets: u32) -> Bytes {
        Bytes(u64::from(packets) * self.mss)
    }

    /// Begins at `event`, in the middle of a connection: nothing before it will be reported.
    pub fn join(&mut self, event: &Event) {
        self.at = self.time(event.now_ns);
        self.sent_at = self.at;
        self.snd_una = event.snd_una;
        self.delivered = event.delivered_packets;
        self.in_flight = self.packets(event.in_flight_packets);
        (self.sent, self.sent_bytes) = (event.sent_packets, event.sent_bytes);
        if let Some(outstanding) = &mut self.outstanding {
            outstanding.clear();
            outstanding.extend(self.sent.saturating_sub(event.in_flight_packets.into())..self.sent);
        }
    }

    /// Tells `controller` of `event`; `after` is called after each acknowledgement, when a decision may be due.
    pub fn tell(
        &mut self,
        event: &Event,
        controller: &mut dyn Controller,
        mut after: impl FnMut(&mut dyn Controller, Time),
    ) {
        let now = self.time(event.now_ns);
        let flagged = |flag: u32| event.flags & flag != 0;
        if flagged(FLAG_RESTART) {
            let rto = Dur::from_micros(u64::from(event.rto_us));
            controller.on_idle_restart(self.at, Dur(event.idle_ns), rto);
        }
        self.tell_sent(event, now, controller);
        if flagged(FLAG_QUIET | FLAG_PERIOD) {
            if let Some(learned) = controller.learned() {
                learned.adopt_decision(None);
            }
        }
        if flagged(FLAG_SPURIOUS) {
            controller.on_spurious_loss(now);
        }
        if flagged(FLAG_LEFT) {
            controller.on_recovery_end(now, self.packets(event.in_flight_packets));
        }
        self.tell_losses(event, now, controller);
        self.tell_acks(event, now, controller, &mut after);
        self.at = now;
        self.snd_una = self.snd_una.max(event.snd_una);
        self.in_flight = self.packets(event.in_flight_packets);
    }

    fn tell_sent(&mut self, event: &Event, now: Time, controller: &mut dyn Controller) {
        let count = event.sent_packets.saturating_sub(self.sent).min(TRANSMISSIONS);
        if count == 0 {
            return;
        }
        let bytes = event.sent_bytes.saturating_sub(self.sent_bytes);
        let first = event.sent_packets.saturating_sub(count);
        // Payload that leaves with packet `k` of the interval and after it.
        let left = |k: u64| bytes - part(bytes, k, count);
        let first_called = if self.outstanding.is_some() { 0 } else { count - 1 };
        for k in first_called..count {
            let number = first + k;
            let spacing = controller.pacing_rate().map_or(Dur::ZERO, |rate| rate.time_for(self.mss));
            let slack = spacing * SLACK;
            let earliest = Time(self.at.0.saturating_sub(slack.0));
            let unreported = if k == first_called { k } else { 0 };
            self.sent_at = (self.sent_at + spacing * (unreported + 1)).clamp(earliest, now + slack);
            controller.on_sent(&SentInfo {
                now: self.sent_at,
                bytes: Bytes(left(k) - left(k + 1)),
                prior_in_flight: self.in_flight + Bytes((k - first_called) * self.mss),
                snd_nxt: event.snd_nxt.saturating_sub(left(k)).max(self.snd_una),
                app_limited: event.flags & FLAG_APP_LIMITED != 0,
                last_sent: Time::ZERO,
                retransmission: false,
                unreported: Bytes(part(bytes, unreported, count)),
                unreported_packets: unreported as u32,
                number,
            });
            if let Some(outstanding) = &mut self.outstanding {
                outstanding.push_back(number);
            }
        }
        (self.sent, self.sent_bytes) = (event.sent_packets, event.sent_bytes);
    }

    fn tell_losses(&mut self, event: &Event, now: Time, controller: &mut dyn Controller) {
        for _ in 0..event.lost_packets {
            let Some(number) = self.outstanding.as_mut().and_then(VecDeque::pop_front) else { break };
            if let Some(packets) = controller.packet_tracker() {
                packets.on_packet_lost(number);
            }
        }
        let flagged = |flag: u32| event.flags & flag != 0;
        let loss = LossInfo {
            now,
            lost: Bytes(event.lost_bytes),
            lost_packets: event.lost_packets,
            in_flight: self.packets(event.in_flight_packets),
            new_episode: flagged(FLAG_EPISODE),
            ecn: false,
            delivered: Bytes(event.delivered_packets.saturating_mul(self.mss)),
            snd_nxt: event.snd_nxt,
        };
        if flagged(FLAG_TIMEOUT) {
            controller.on_timeout(&loss);
        } else if flagged(FLAG_RECOVERY) || event.lost_packets > 0 {
            controller.on_loss(&LossInfo { new_episode: loss.new_episode && !flagged(FLAG_ECN), ..loss });
        }
        if flagged(FLAG_ECN) {
            controller.on_loss(&LossInfo { lost: Bytes(0), lost_packets: 0, ecn: true, ..loss });
        }
    }

    fn tell_acks(
        &mut self,
        event: &Event,
        now: Time,
        controller: &mut dyn Controller,
        after: &mut impl FnMut(&mut dyn Controller, Time),
    ) {
        for _ in 0..event.acked_packets {
            let Some(number) = self.outstanding.as_mut().and_then(VecDeque::pop_front) else { break };
            packet_acked(controller, number);
        }
        // Short segments and retransmissions make the counts drift: what is not in flight has arrived.
        while let Some(outstanding) = self.outstanding.as_mut().filter(|o| o.len() > event.in_flight_packets as usize) {
            let Some(number) = outstanding.pop_front() else { break };
            packet_acked(controller, number);
        }
        if event.acked_packets == 0 && event.rtt_count == 0 {
            return;
        }
        let pieces = event.rtt_count.min(event.acked_packets).clamp(1, PIECES);
        let (count, span) = (u64::from(pieces), now.since(self.at));
        let (una, delivered) = (self.snd_una, self.delivered);
        let progress = event.snd_una.saturating_sub(una);
        let arrived = event.delivered_packets.saturating_sub(delivered);
        let sample = (event.rate_bytes > 0 && event.rate_interval_us > 0).then(|| RateSample {
            delivered: Bytes(event.rate_bytes),
            interval: Dur::from_micros(u64::from(event.rate_interval_us)),
            prior_delivered: Bytes(event.prior_delivered_packets.saturating_mul(self.mss)),
            app_limited: event.flags & FLAG_RATE_APP_LIMITED != 0,
        });
        let in_flight = self.packets(event.in_flight_packets);
        for k in 1..=count {
            let share = |total: u64| part(total, k, count) - part(total, k - 1, count);
            let acked_packets = share(u64::from(event.acked_packets)) as u32;
            let at = self.at + Dur(part(span.0, k, count));
            let last = k == count;
            if last && event.flags & FLAG_PERIOD != 0 {
                if let Some(learned) = controller.learned() {
                    learned.adopt_decision(Some(decision(event)));
                }
            }
            controller.on_ack(&AckInfo {
                now: at,
                acked: Bytes(share(event.acked_bytes)),
                acked_packets,
                rtt: rtt(event, k, count),
                min_rtt: if event.min_rtt_us == 0 { Dur::MAX } else { micros(event.min_rtt_us) },
                srtt: micros(event.srtt_us),
                rttvar: micros(event.rttvar_us),
                prior_in_flight: self.packets(event.prior_in_flight_packets).max(in_flight),
                in_flight,
                delivered: Bytes((delivered + part(arrived, k, count)).saturating_mul(self.mss)),
                lost: if last { Bytes(event.lost_bytes) } else { Bytes(0) },
                rate: sample,
                snd_una: una + part(progress, k, count),
                snd_nxt: event.snd_nxt.max(event.snd_una),
                retransmitted: event.retransmitted_packets,
                cwnd_limited: event.flags & FLAG_CWND_LIMITED != 0,
                recovery: recovery(event.ca_state),
                ecn_ce: share(u64::from(event.ce_packets)) as u32,
                signal: advertised(event.advertised_kbps).map_or(Signal::None, Signal::Rate),
            });
            after(controller, at);
        }
        self.delivered = delivered.max(event.delivered_packets);
    }
}

/// `k` of `count` parts of `total`, rounded down.
fn part(total: u64, k: u64, count: u64) -> u64 {
    (u128::from(total) * u128::from(k) / u128::from(count.max(1))) as u64
}

fn packet_acked(controller: &mut dyn Controller, number: u64) {
    if let Some(packets) = controller.packet_tracker() {
        packets.on_packet_acked(number);
    }
}

/// Returns the program's decision on the period that ends with `event`.
fn decision(event: &Event) -> Decision {
    Decision {
        case: u8::try_from(event.situation).unwrap_or(u8::MAX),
        ask: event.flags & FLAG_ASKED != 0,
        next: Length::Acked(Dur(event.period_ns)),
    }
}

fn micros(us: u32) -> Dur {
    Dur::from_micros(u64::from(us))
}

/// The RTT of piece `k` of `count`: the least first, then what keeps the mean.
fn rtt(event: &Event, k: u64, count: u64) -> Option<Dur> {
    let samples = u64::from(event.rtt_count);
    let mean = event.rtt_sum_us.saturating_mul(1000).checked_div(samples)?;
    let least = micros(event.rtt_min_us).0.min(mean);
    Some(Dur(match (k, count) {
        (_, 1) => mean,
        (1, _) => least,
        _ => (mean.saturating_mul(count) - least) / (count - 1),
    }))
}

fn recovery(ca_state: u32) -> RecoveryState {
    match ca_state {
        CA_CWR => RecoveryState::Reduction,
        CA_RECOVERY => RecoveryState::Recovery,
        CA_LOSS => RecoveryState::Loss,
        _ => RecoveryState::Open,
    }
}

/// A rate on the wire: none if no option has come, everything if no router lowered it.
fn advertised(kbps: u32) -> Option<Rate> {
    match kbps {
        0 => None,
        RATE_UNLIMITED => Some(Rate(u64::MAX)),
        kbps => Some(Rate(u64::from(kbps) * 1000)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::testing::Recorder;
    use crate::intf::EVENT_REPORT;

    fn event() -> Event {
        Event {
            kind: EVENT_REPORT,
            now_ns: 1_010_000_000,
            acked_packets: 10,
            acked_bytes: 10_000,
            delivered_packets: 10,
            sent_bytes: 20_000,
            sent_packets: 20,
            snd_una: 10_000,
            snd_nxt: 20_000,
            rtt_count: 5,
            rtt_sum_us: 5 * 24_000,
            rtt_min_us: 20_000,
            min_rtt_us: 20_000,
            srtt_us: 23_000,
            mss: 1000,
            in_flight_packets: 10,
            prior_in_flight_packets: 12,
            rate_bytes: 10_000,
            rate_interval_us: 10_000,
            ..Event::default()
        }
    }

    #[test]
    fn pieces_add_up_and_keep_minimum_and_mean() {
        let mut recorder = Recorder { tracks: true, ..Recorder::default() };
        let mut feed = Feed::new(&mut recorder, 1000, 1_000_000_000);
        let mut decisions = 0;
        feed.tell(&event(), &mut recorder, |_, _| decisions += 1);
        let acks = &recorder.acks;
        assert_eq!((acks.len(), decisions, recorder.sent.len()), (5, 5, 20));
        assert_eq!(acks.iter().map(|a| a.acked.0).sum::<u64>(), 10_000);
        assert_eq!(acks.iter().map(|a| a.acked_packets).sum::<u32>(), 10);
        let rtts: Vec<u64> = acks.iter().filter_map(|a| a.rtt).map(|r| r.0).collect();
        assert_eq!(rtts, [20_000_000, 25_000_000, 25_000_000, 25_000_000, 25_000_000]);
        assert!(acks.is_sorted_by_key(|a| (a.now, a.snd_una, a.delivered)));
        assert_eq!((acks[4].now, acks[4].snd_una), (Time(10_000_000), 10_000));
    }

    #[test]
    fn every_segment_counts_as_sent_whoever_is_told() {
        // Ten of the segments are short.
        let short = Event { sent_bytes: 25_000, sent_packets: 30, ..event() };
        for (tracks, calls) in [(true, 30), (false, 2)] {
            let mut recorder = Recorder { tracks, ..Recorder::default() };
            let mut feed = Feed::new(&mut recorder, 1000, 0);
            feed.tell(&event(), &mut recorder, |_, _| ());
            feed.tell(&short, &mut recorder, |_, _| ());
            feed.tell(&short, &mut recorder, |_, _| ());
            let sent = &recorder.sent;
            let packets: u64 = sent.iter().map(|s| 1 + u64::from(s.unreported_packets)).sum();
            let bytes: u64 = sent.iter().map(|s| (s.bytes + s.unreported).0).sum();
            assert_eq!((sent.len(), packets, bytes), (calls, 30, 25_000), "tracks: {tracks}");
        }
    }

    #[test]
    fn a_call_for_many_segments_has_the_time_of_the_last() {
        let mut recorder = Recorder { pacing: Some(Rate(8_000_000)), ..Recorder::default() };
        let mut feed = Feed::new(&mut recorder, 1000, 1_000_000_000);
        // 1 ms per segment: the twenty left within 20 ms, and the report came after 30.
        feed.tell(&Event { now_ns: 1_030_000_000, ..event() }, &mut recorder, |_, _| ());
        assert_eq!(recorder.sent[0].now, Time(20_000_000));
    }

    #[test]
    fn losses_precede_acknowledgements_and_tell_their_episode_once() {
        let mut recorder = Recorder::default();
        let mut feed = Feed::new(&mut recorder, 1000, 0);
        let lossy = Event { flags: FLAG_RECOVERY | FLAG_EPISODE, lost_packets: 2, lost_bytes: 2000, ..event() };
        feed.tell(&lossy, &mut recorder, |_, _| ());
        feed.tell(&Event { lost_packets: 1, flags: 0, ..lossy }, &mut recorder, |_, _| ());
        let episodes: Vec<(bool, bool, u32)> =
            recorder.losses.iter().map(|l| (l.new_episode, l.ecn, l.lost_packets)).collect();
        assert_eq!(episodes, [(true, false, 2), (false, false, 1)]);
        feed.tell(&Event { flags: FLAG_ECN | FLAG_EPISODE, ..event() }, &mut recorder, |_, _| ());
        assert!(recorder.losses[2].ecn && recorder.losses[2].new_episode);
        feed.tell(&Event { flags: FLAG_TIMEOUT | FLAG_EPISODE, ..event() }, &mut recorder, |_, _| ());
        assert_eq!(recorder.timeouts.len(), 1);
    }

    #[test]
    fn every_tracked_packet_is_acknowledged_or_lost_once() {
        let mut recorder = Recorder { tracks: true, ..Recorder::default() };
        let mut feed = Feed::new(&mut recorder, 1000, 0);
        feed.tell(&Event { lost_packets: 3, ..event() }, &mut recorder, |_, _| ());
        assert_eq!(recorder.lost_numbers, [0, 1, 2]);
        assert_eq!(recorder.acked_numbers, (3..13).collect::<Vec<u64>>());
        feed.tell(&Event { in_flight_packets: 0, acked_packets: 1, ..event() }, &mut recorder, |_, _| ());
        assert_eq!(recorder.acked_numbers.len() + recorder.lost_numbers.len(), 20, "nothing stays under way for ever");
    }
}
