//! A trial of the window, to see whose the queue is: what it measures, and what that says.

use super::estimates::Estimates;
use super::numbers::Numbers;
use crate::elementary;
use crate::types::{Dur, Time};

/// Longest push, in multiples of its length at an unchanged RTT.
const PATIENCE: u64 = 3;
/// Shortest time of a round trip, and of what is measured over it: a few periods.
const SHORTEST: Dur = Dur::from_millis(10);
/// An RTT that has fallen by this factor ends a trial early.
const OVER: f64 = 4.0;
/// Successes that a packet train counts as for each factor of e in its rate, and the most that one train counts as: rising
/// capacity makes a train fast, too, so that one alone does not decide.
const TRAIN: f64 = 2.0;
/// Least time of a packet train in seconds: half of a period.
const TRAIN_S: f64 = 5e-3;

/// A drain or a push.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trial {
    /// Window, and the one before, in packets.
    pub window: f64,
    pub before: f64,
    /// RTT in seconds before.
    pub rtt: f64,
    /// Rate before, in packets per second, by Little's law: an average would still know of better times.
    rate: f64,
    /// Time from which its effect is visible, and its end.
    seen_from: Time,
    pub until: Time,
    /// Packets that are still to come back before the first one of a push, and half of that one: until then it has no effect.
    returning: f64,
    /// The packets of a push that leave at once.
    pub train: Option<Train>,
    /// Least RTT in seconds since it began.
    lowest: f64,
    /// Measured effect: least RTT in seconds, RTT times time, time, packets delivered.
    pub least: f64,
    delays: f64,
    seconds: f64,
    packets: f64,
}

/// A few packets that leave at once, and whose rate tells.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Train {
    /// Packets after the first one.
    packets: f64,
    /// Times at which the first and the newest one came back.
    first: Time,
    newest: Time,
}

impl Trial {
    fn new(now: Time, seen: &Estimates, (window, before): (f64, f64), rtt: f64) -> Self {
        let round_trip = Dur::from_secs_f64(rtt).max(SHORTEST);
        Self {
            window,
            before,
            rtt,
            rate: (before / rtt).max(1.0),
            seen_from: now + round_trip,
            until: now + round_trip + seen.round_trip().max(SHORTEST),
            returning: 0.0,
            train: None,
            lowest: f64::INFINITY,
            least: f64::INFINITY,
            delays: 0.0,
            seconds: 0.0,
            packets: 0.0,
        }
    }

    /// Leaves less than a window without its queue.
    pub fn drain(now: Time, numbers: &Numbers, seen: &Estimates, window: f64, rtt_min: f64) -> Self {
        let rtt = (rtt_min + seen.standing()).max(rtt_min);
        let left = (window * rtt_min / rtt * numbers.drain).max(2.0).min(window);
        Self::new(now, seen, (left, window), rtt)
    }

    /// Takes half of the queue away if all of it is the flow's own, and costs little if it is not.
    pub fn half_drain(now: Time, seen: &Estimates, window: f64, rtt_min: f64) -> Self {
        let rtt = seen.rtt.as_secs_f64().max(rtt_min);
        let left = (window * (rtt + rtt_min) / (2.0 * rtt)).max(2.0).min(window);
        Self::new(now, seen, (left, window), rtt)
    }

    /// Holds a larger window. What is in flight has to come back before anything of it can be seen, and while others fill the
    /// queue that takes longer than it has before.
    pub fn push(now: Time, seen: &Estimates, windows: (f64, f64), rtt: f64) -> Self {
        let trial = Self::new(now, seen, windows, rtt);
        let latest = now + trial.until.since(now) * PATIENCE;
        Self { seen_from: latest, until: latest, returning: seen.in_flight + 0.5, ..trial }
    }

    /// The same with few packets, all of which leave at once.
    pub fn train(now: Time, seen: &Estimates, (window, before): (f64, f64), rtt: f64) -> Self {
        let train = Train { packets: window - before - 1.0, first: now, newest: now };
        Self { train: Some(train), ..Self::push(now, seen, (window, before), rtt) }
    }

    /// `packets` were delivered in a tick of `dt` seconds.
    pub fn see(&mut self, now: Time, seen: &Estimates, packets: f64, dt: f64) {
        let rtt = seen.rtt.as_secs_f64();
        self.lowest = self.lowest.min(rtt);
        let mut packets = packets;
        if self.returning > 0.0 {
            self.returning -= packets;
            if self.returning > 0.0 {
                return;
            }
            (self.seen_from, self.until) = (now, now + seen.srtt.max(SHORTEST));
            let Some(train) = &mut self.train else { return };
            // The first of it has come, and others may have in the same tick. Where it is slow, that takes longer.
            (train.first, self.until) = (now, now + seen.srtt.max(SHORTEST) * PATIENCE);
            packets = -self.returning - 0.5;
        }
        if rtt * OVER < self.rtt {
            // The RTT of before was an outage's, or the queue is gone: what was to be seen can be seen.
            (self.seen_from, self.until) =
                (self.seen_from.min(now), self.until.min(now + seen.round_trip().max(SHORTEST)));
        }
        if now < self.seen_from {
            return;
        }
        self.least = self.least.min(rtt);
        self.delays += rtt * dt;
        self.seconds += dt;
        self.packets += packets;
        if let Some(train) = &mut self.train {
            if packets > 0.0 {
                train.newest = now;
            }
            if self.packets >= train.packets {
                self.until = now;
            }
        }
    }

    /// Share of the queue that was the flow's own: of its own queue the RTT falls to `after` with the window, as far as the
    /// smallest RTT; of a share of it by as much less.
    pub fn share(&self, after: f64, rtt_min: f64) -> f64 {
        let alone = (self.rtt * self.window / self.before).max(rtt_min);
        // With a handful of packets there is nothing to drain, and the RTT moves by itself.
        (self.rtt - after).min(self.rtt - alone) / (self.rtt - alone).max(0.05 * self.rtt)
    }

    /// Returns the evidence of a push for competitors, in successes. If capacity varies, pushes succeed or fail by
    /// chance now and then, whoever fills the queue.
    pub fn evidence(&self, numbers: &Numbers, rtt_min: f64) -> f64 {
        let (rate, rtt) = (self.packets / self.seconds.max(1e-3), self.delays / self.seconds.max(1e-3));
        // Neither an outage nor a queue that others drain, or that rising capacity empties, says whose it was.
        let silent = self.packets == 0.0;
        let left = if self.train.is_some() { rtt } else { self.lowest };
        let emptied = left - rtt_min < numbers.push_least * (self.rtt - rtt_min);
        let grown = |part: f64| 1.0 + part * (self.window / self.before - 1.0);
        match &self.train {
            _ if silent || emptied => 0.0,
            // Alone a flow gets its train back as fast as the packets before; behind others it comes at the link's rate. In a queue
            // that a few flows of one kind could have made, that says less.
            Some(train) => {
                let rate = self.packets / train.newest.since(train.first).as_secs_f64().max(TRAIN_S);
                let queued = (self.rtt - rtt_min) * rate;
                let weight = (queued / numbers.train_queue).clamp(1e-3, 1.0);
                (TRAIN * elementary::ln(weight * rate / (self.rate * numbers.train_rate))).clamp(-1.0, TRAIN)
            }
            None if rate >= self.rate * grown(numbers.push_follows) && rtt <= self.rtt * grown(numbers.push_delay) => {
                1.0
            }
            None => -1.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::AckInfo;

    const RTT_MIN_S: f64 = 0.02;
    /// RTT before the trial: two packets in flight that take half a second.
    const RTT_S: f64 = 0.5;

    fn at(ms: u64) -> Time {
        Time::ZERO + Dur::from_millis(ms)
    }

    fn heard(seen: &mut Estimates, ms: u64, rtt_s: f64) {
        let rtt = Dur::from_secs_f64(rtt_s);
        seen.on_ack(&AckInfo { now: at(ms), rtt: Some(rtt), srtt: rtt, ..AckInfo::default() }, 30.0, true);
    }

    /// Returns the evidence of a train of six packets, one of which comes back every `gap_ms` after the two before it;
    /// none come back without `gap_ms`.
    fn evidence(gap_ms: Option<u64>, rtt_s: f64) -> f64 {
        evidence_by(&Numbers::DEFAULT, gap_ms, rtt_s)
    }

    fn evidence_by(numbers: &Numbers, gap_ms: Option<u64>, rtt_s: f64) -> f64 {
        let mut seen = Estimates::new(1448);
        heard(&mut seen, 0, RTT_S);
        seen.in_flight = 2.0;
        let mut trial = Trial::train(at(0), &seen, (8.0, 2.0), RTT_S);
        for ms in (10..).step_by(10).take_while(|ms| *ms < 10_000) {
            if at(ms) >= trial.until {
                return trial.evidence(numbers, RTT_MIN_S);
            }
            let of_before = f64::from(u8::from(ms == 250 || ms == 500));
            let of_train = |gap: u64| ms > 500 && (ms - 510) % gap == 0;
            let packets = of_before + gap_ms.map_or(0.0, |gap| f64::from(u8::from(of_train(gap))));
            heard(&mut seen, ms, if ms > 500 { rtt_s } else { RTT_S });
            trial.see(at(ms), &seen, packets, 0.01);
        }
        panic!("the trial does not end");
    }

    #[test]
    fn a_train_that_comes_back_at_the_flows_own_rate_speaks_against_others() {
        assert!(evidence(Some(250), 1.0) <= -1.0 + 1e-9, "alone, two packets per half second are the link's rate");
        assert!(evidence(Some(10), 0.5) >= TRAIN, "the link is 25 times as fast: others have the rest of it");
        let (slower, faster) = (evidence(Some(60), 0.5), evidence(Some(30), 0.5));
        assert!(slower < faster && faster < TRAIN, "{slower} {faster}");
    }

    #[test]
    fn a_train_counts_less_in_a_queue_that_a_few_flows_of_one_kind_make() {
        let by = |train_queue: f64| evidence_by(&Numbers { train_queue, ..Numbers::DEFAULT }, Some(30), 0.5);
        let queued = 1e3 / 30.0 * (RTT_S - RTT_MIN_S);
        let in_full = by(12.0);
        assert_eq!(in_full.to_bits(), by(queued - 1.0).to_bits(), "{queued} packets are enough");
        assert!((by(1.5 * queued) - (in_full - TRAIN * 1.5_f64.ln())).abs() < 0.2);
        assert!(by(100.0 * queued) <= -1.0 + 1e-9);
    }

    #[test]
    fn neither_silence_nor_an_emptied_queue_says_whose_it_was() {
        assert_eq!(evidence(None, RTT_S).to_bits(), 0, "an outage");
        assert_eq!(evidence(Some(10), RTT_MIN_S).to_bits(), 0, "capacity has risen");
    }

    /// Returns the evidence of a push that brings three times the rate at an unchanged RTT, except for one tick at
    /// `dip_s`.
    fn push(dip_s: f64) -> f64 {
        let mut seen = Estimates::new(1448);
        heard(&mut seen, 0, RTT_S);
        let mut trial = Trial::push(at(0), &seen, (60.0, 20.0), RTT_S);
        for ms in (10..10_000).step_by(10) {
            if at(ms) >= trial.until {
                break;
            }
            heard(&mut seen, ms, if ms == 100 { dip_s } else { RTT_S });
            trial.see(at(ms), &seen, 1.2, 0.01);
        }
        trial.evidence(&Numbers::DEFAULT, RTT_MIN_S)
    }

    #[test]
    fn a_push_during_which_others_drain_says_nothing() {
        assert_eq!(push(RTT_S).to_bits(), 1.0_f64.to_bits(), "somebody holds the queue up all the time");
        assert_eq!(push(RTT_MIN_S).to_bits(), 0, "flows of one kind drain at about the same time");
    }
}
