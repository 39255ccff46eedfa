//! State of the path: rates, delays, losses, and what is in flight.

use super::numbers::Numbers;
use crate::elementary;
use crate::events::{AckInfo, LossInfo, SentInfo};
use crate::types::{Dur, Time};

/// Weight of an acknowledgement in the average of packets that one is for, and the most that count: what comes after a gap is
/// no habit of the receiver.
const PER_ACK: f64 = 0.05;
const MOST_PER_ACK: f64 = 4.0;

/// A minimum over the last stretch of time: between half of it and all of it.
#[derive(Clone, Copy, Debug)]
pub struct RecentMin {
    present: Dur,
    before: Dur,
    since: Time,
}

impl Default for RecentMin {
    fn default() -> Self {
        Self { present: Dur::MAX, before: Dur::MAX, since: Time::ZERO }
    }
}

impl RecentMin {
    /// `keeps` is whether nothing is forgotten for now.
    pub fn add(&mut self, now: Time, x: Dur, stretch: Dur, keeps: bool) {
        if keeps {
            self.since = now;
        } else if now.since(self.since) >= stretch / 2 {
            // Nothing came for a whole stretch: what is remembered is older than that.
            self.before = if now.since(self.since) >= stretch { Dur::MAX } else { self.present };
            (self.present, self.since) = (Dur::MAX, now);
        }
        self.present = self.present.min(x);
    }

    /// [`Dur::MAX`] before there is one.
    pub fn get(&self) -> Dur {
        self.present.min(self.before)
    }
}

/// Averages and minima.
#[derive(Clone, Debug, Default)]
pub struct Estimates {
    mss: f64,
    /// Averages of delivered packets per second, and the variance of the fast one about the slow one.
    pub fast: f64,
    pub slow: f64,
    variance: f64,
    /// Smoothed packets per acknowledgement; zero before there is one.
    per_ack: f64,
    /// Length of the last tick in ms.
    tick_ms: f64,
    /// Time over which the averages have been taken.
    pub averaged: f64,
    /// Smoothed share of lost packets.
    pub loss: f64,
    lost: f64,
    /// Smallest RTT of the last `base_s`; that of about a round trip.
    base: RecentMin,
    standing: RecentMin,
    /// Newest RTT; zero before there is one.
    pub rtt: Dur,
    pub srtt: Dur,
    /// Time at which an RTT was last as small as the smallest.
    pub touched: Time,
    /// Time of the last acknowledgement.
    pub heard: Time,
    /// Extra queueing delay of the oldest packet in flight over the newest one, in seconds: it has waited that much
    /// longer already.
    overdue: f64,
    /// Packets in flight.
    pub in_flight: f64,
    /// The window was what limited sending, in this tick.
    limited: bool,
}

impl Estimates {
    pub fn new(mss: u32) -> Self {
        Self { mss: f64::from(mss.max(1)), ..Self::default() }
    }

    /// `held_up` is whether others hold the queue up, so that it is never empty and the smallest RTT cannot be seen.
    #[inline]
    pub fn on_ack(&mut self, ack: &AckInfo, base_s: f64, held_up: bool) {
        self.heard = ack.now;
        self.in_flight = ack.in_flight.0 as f64 / self.mss;
        self.srtt = ack.srtt;
        self.limited |= ack.cwnd_limited;
        if ack.acked_packets > 0 {
            let before = self.per_ack.max(1.0);
            self.per_ack = before + PER_ACK * (f64::from(ack.acked_packets).min(MOST_PER_ACK) - before);
        }
        let Some(rtt) = ack.rtt else { return };
        self.rtt = rtt;
        self.base.add(ack.now, rtt, Dur::from_secs_f64(base_s), held_up);
        self.standing.add(ack.now, rtt, ack.srtt + ack.srtt / 2, false);
        let base = self.base.get();
        // Links that serve in whole milliseconds touch it only nearly.
        if rtt <= base + (base / 50).max(Dur::from_millis(1)) {
            self.touched = ack.now;
        }
    }

    pub fn on_loss(&mut self, loss: &LossInfo) {
        self.lost += f64::from(loss.lost_packets);
        self.in_flight = loss.in_flight.0 as f64 / self.mss;
    }

    pub fn on_sent(&mut self, sent: &SentInfo) {
        // Nothing is heard of a first packet before a round trip.
        if sent.prior_in_flight.0 == 0 {
            self.heard = self.heard.max(sent.now + self.rtt);
        }
        self.in_flight = (sent.prior_in_flight.0 + sent.bytes.0) as f64 / self.mss;
    }

    /// The smoothed RTT, but not one that still knows of an outage.
    pub fn round_trip(&self) -> Dur {
        self.srtt.min(self.rtt * 2)
    }

    /// Smallest RTT in seconds; none before there is one.
    pub fn rtt_min(&self) -> Option<f64> {
        let base = self.base.get();
        (base != Dur::MAX).then(|| base.as_secs_f64().max(1e-6))
    }

    /// Queueing delay in seconds: that of the newest acknowledged packet, and what the next one has waited longer.
    pub fn queueing(&self) -> f64 {
        self.rtt.since_or_zero(self.base.get()) + self.overdue
    }

    /// Queueing delay that about a whole round trip did not fall below, in seconds.
    pub fn standing(&self) -> f64 {
        self.standing.get().since_or_zero(self.base.get())
    }

    /// A tick of `dt` seconds has ended, in which `packets` were delivered. Frozen averages stay as they are.
    pub fn tick(&mut self, numbers: &Numbers, now: Time, packets: f64, dt: f64, frozen: bool) {
        // Packets come back one by one, or in pairs where acknowledgements are delayed: later than that is overdue.
        let silence = now.since(self.heard).as_secs_f64() - 2.0 / self.slow.max(1.0);
        self.tick_ms = dt * 1e3;
        self.overdue = if self.in_flight > 0.0 { numbers.silence * silence.max(0.0) } else { 0.0 };
        let lost = std::mem::take(&mut self.lost);
        let limited = std::mem::take(&mut self.limited);
        let weight = |ms: f64| 1.0 - elementary::exp(-dt * 1e3 / ms);
        if packets + lost > 0.0 {
            self.loss += weight(numbers.slow_ms) * (lost / (packets + lost) - self.loss);
        }
        if frozen || (self.averaged == 0.0 && packets == 0.0) {
            return;
        }
        // Before a time constant has passed every tick counts the same.
        self.averaged += dt;
        let share = dt / self.averaged;
        let rate = packets / dt;
        // What an application did not send says nothing about the path.
        if !limited && packets > 0.0 && rate < self.fast {
            return;
        }
        // Over few packets an average says little.
        let fast = weight(self.fast_ms(numbers));
        let slow = weight(numbers.slow_ms + numbers.slow_packets * self.packet_ms());
        self.fast += fast.max(share) * (rate - self.fast);
        self.slow += slow.max(share) * (rate - self.slow);
        let deviation = self.fast - self.slow;
        self.variance += slow * (deviation * deviation - self.variance);
    }

    /// Standard deviation of the fast average about the slow one, in parts of that, less what single packets make of it. On a
    /// constant link, too, the average rises with each packet, or with each pair where acknowledgements are delayed, and falls
    /// until the next: a sawtooth, whose variance is a twelfth of its height's square. Ticks that see several of them at a time
    /// see less of it.
    pub fn variation(&self, numbers: &Numbers) -> f64 {
        let apart_ms = self.per_ack * self.packet_ms();
        let alone = (2.0 * (apart_ms / self.tick_ms.max(1e-3) - 1.0)).clamp(0.0, 1.0);
        let grain = numbers.grain + alone * (numbers.grain_slow - numbers.grain);
        let height = grain * apart_ms / self.fast_ms(numbers);
        let seen = self.variance.max(0.0) / self.slow.max(1.0).powi(2);
        (seen - height * height / 12.0).max(0.0).sqrt()
    }

    /// Packets per second that the path is expected to take, whose rate has that variation.
    pub fn rate(&self, numbers: &Numbers, variation: f64) -> f64 {
        let mean = numbers.mix * self.fast + (1.0 - numbers.mix) * self.slow;
        let trend = numbers.trend * (self.fast - self.slow).max(0.0);
        mean + trend + numbers.deviation * variation * self.slow.max(1.0)
    }

    /// Milliseconds per packet at the slow average.
    fn packet_ms(&self) -> f64 {
        1e3 / self.slow.max(1.0)
    }

    /// Time constant of the fast average.
    fn fast_ms(&self, numbers: &Numbers) -> f64 {
        numbers.fast_ms + numbers.fast_packets * self.packet_ms()
    }
}

trait Since {
    fn since_or_zero(self, earlier: Self) -> f64;
}

impl Since for Dur {
    fn since_or_zero(self, earlier: Self) -> f64 {
        if self == Self::MAX || earlier == Self::MAX { 0.0 } else { (self - earlier.min(self)).as_secs_f64() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn acked(seen: &mut Estimates, from_ms: u64, to_ms: u64, rtt_ms: u64) {
        acked_beside(seen, from_ms, to_ms, rtt_ms, false);
    }

    fn acked_beside(seen: &mut Estimates, from_ms: u64, to_ms: u64, rtt_ms: u64, held_up: bool) {
        for ms in from_ms..to_ms {
            let rtt = Dur::from_millis(rtt_ms);
            let now = Time::ZERO + Dur::from_millis(ms);
            seen.on_ack(
                &AckInfo { now, rtt: Some(rtt), srtt: rtt, cwnd_limited: true, ..AckInfo::default() },
                10.0,
                held_up,
            );
        }
    }

    #[test]
    fn a_path_that_has_become_longer_is_noticed() {
        let mut seen = Estimates::new(1448);
        acked(&mut seen, 0, 1000, 20);
        acked(&mut seen, 1000, 5000, 60);
        assert!((seen.standing() - 0.04).abs() < 1e-9, "for now it is a queue");
        acked(&mut seen, 5000, 22_000, 60);
        assert!((seen.rtt_min().unwrap() - 0.06).abs() < 1e-9, "the old minimum has expired");
        assert!(seen.standing().abs() < 1e-9);
    }

    #[test]
    fn a_queue_that_others_hold_up_is_not_taken_for_the_path() {
        let mut seen = Estimates::new(1448);
        acked(&mut seen, 0, 1000, 20);
        acked_beside(&mut seen, 1000, 60_000, 60, true);
        assert!((seen.rtt_min().unwrap() - 0.02).abs() < 1e-9, "remembered as long as they do");
        acked(&mut seen, 60_000, 80_000, 60);
        assert!((seen.rtt_min().unwrap() - 0.06).abs() < 1e-9, "forgotten afterwards");
    }

    #[test]
    fn frozen_averages_stay_and_others_follow() {
        let numbers = Numbers::DEFAULT;
        let mut seen = Estimates::new(1448);
        let mut second = |packets: f64, frozen: bool| {
            for ms in 0..100 {
                acked(&mut seen, ms, ms + 1, 20);
                seen.tick(&numbers, Time::ZERO + Dur::from_millis(ms), packets, 0.01, frozen);
            }
            (seen.fast, seen.slow)
        };
        let before = second(5.0, false);
        assert!((before.0 - 500.0).abs() < 1.0 && (before.1 - 500.0).abs() < 1.0, "{before:?}");
        assert_eq!(second(1.0, true), before);
        let after = second(1.0, false);
        assert!((after.0 - 100.0).abs() < 1.0 && after.1 < before.1, "{after:?}");
    }

    /// The variation after ten seconds in which `per_ack` packets come back together, `rate` in a second on average.
    fn variation(numbers: &Numbers, rate: u64, per_ack: u64) -> f64 {
        let mut seen = Estimates::new(1448);
        let mut came = 0;
        for tick in 1..1000 {
            let (now, before) = (Time::ZERO + Dur::from_millis(10 * tick), came);
            while (came + per_ack) * 1000 <= rate * tick * 10 {
                came += per_ack;
                let acked_packets = u32::try_from(per_ack).unwrap();
                seen.on_ack(&AckInfo { now, acked_packets, cwnd_limited: true, ..AckInfo::default() }, 10.0, false);
            }
            seen.tick(numbers, now, (came - before) as f64, 0.01, false);
        }
        seen.variation(numbers)
    }

    #[test]
    fn packets_that_come_one_after_the_other_are_no_variation_of_the_link() {
        let numbers = Numbers::DEFAULT;
        let without = Numbers { grain: 0.0, grain_slow: 0.0, ..numbers };
        for (rate, per_ack, most) in [(20, 1, 0.1), (60, 1, 0.1), (80, 2, 0.1), (300, 2, 0.85)] {
            let (seen, left) = (variation(&without, rate, per_ack), variation(&numbers, rate, per_ack));
            assert!(seen > 0.03 && left < most * seen, "{rate} packets/s, {per_ack} at a time: {left} of {seen}");
        }
        assert!(variation(&numbers, 80, 20) > 0.3, "that many at a time are the link's doing");
    }
}
