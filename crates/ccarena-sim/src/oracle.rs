//! A sender that knows a link's capacity and the fate of its packets one round trip late; fluid, or whole packets.
//! The causal one knows of the capacity only what its own packets showed.
//!
//! What it does, and why it is a bound, stands at its figures, `ccarena.eval.heldout.oracle`.

/// Packets in the first round trip of a sender that infers the capacity (RFC 6928).
const INITIAL_PACKETS: f64 = 10.0;

/// Bytes so far at the start of each slot, and after the last one: `[slots + 1]` each.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Totals {
    /// Sent.
    pub sent: Vec<f64>,
    /// Served.
    pub served: Vec<f64>,
    /// Dropped at the queue's limit.
    pub lost: Vec<f64>,
    /// Waiting.
    pub queue: Vec<f64>,
}

/// Sender of the oracle: the amount in flight, and its granularity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sender {
    /// Age of its news in slots, at least one: the round trip.
    pub late: usize,
    /// Part of the known capacity, times the round trip, that it keeps in flight.
    pub gain: f64,
    /// Bytes that are sent at once, or 0 for a fluid. With packets, at least one is in flight.
    /// After a round trip without a packet, one is sent beyond the window, so that the end of an
    /// outage is noticed.
    pub packet: f64,
    /// Flag that the part of a packet that a slot leaves over is sent with the next one's. Without it, a sender of
    /// 2.7 packets per slot sends 2.
    pub carries: bool,
    /// Slots over whose mean it takes the capacity from its own packets; 0 if it is told the capacity. A slot that was
    /// busy throughout shows its capacity. Another one shows that the link served what came, so the sender keeps its
    /// estimate unless more was served. Until it knows of a busy slot, its window doubles per round trip.
    pub infers: usize,
}

/// Capacity as a sender that [infers](Sender::infers) it estimates it, slot by slot.
struct Estimate {
    /// Sums of the estimates before each slot.
    sums: Vec<f64>,
    /// First slot that was busy throughout.
    busy_from: Option<usize>,
}

impl Estimate {
    /// Adds a slot that served `leaving` of at most `most` bytes and left `queued`.
    fn add(&mut self, leaving: f64, most: f64, queued: f64, window: usize) {
        let slot = self.sums.len() - 1;
        let busy = queued > 0.0 || (most > 0.0 && leaving >= most);
        if busy {
            self.busy_from.get_or_insert(slot);
        }
        let estimate = if busy { most } else { self.mean(slot, window).max(leaving) };
        self.sums.push(self.sums[slot] + estimate);
    }

    /// Mean of the `window` slots before slot `end`.
    fn mean(&self, end: usize, window: usize) -> f64 {
        let start = end.saturating_sub(window);
        (self.sums[end] - self.sums[start]) / (end - start).max(1) as f64
    }
}

/// Runs it over slots that serve `served_most` bytes at most, of which it hears `known` unless it infers them. The queue
/// holds `limit` bytes. Slots beyond the shorter one are left out.
#[must_use]
pub fn one_rtt_late(served_most: &[f64], known: &[f64], sender: Sender, limit: f64) -> Totals {
    let Sender { gain, packet, carries, infers, .. } = sender;
    let late = sender.late.max(1);
    let whole = |bytes: f64| if packet > 0.0 { (bytes / packet + 1e-9).floor() * packet } else { bytes };
    let mut run = Totals { sent: vec![0.0], served: vec![0.0], lost: vec![0.0], queue: vec![0.0] };
    let (mut sent, mut served, mut lost, mut queued) = (0.0, 0.0, 0.0, 0.0);
    let (mut credit, mut silent) = (0.0_f64, 0);
    let mut estimate = Estimate { sums: vec![0.0], busy_from: None };
    for (t, (most, _)) in served_most.iter().zip(known).enumerate() {
        let mut offered = 0.0;
        let told = t.checked_sub(late).map(|then| match infers {
            0 => gain * known[then],
            _ if estimate.busy_from.is_some_and(|slot| slot <= then) => gain * estimate.mean(then + 1, infers),
            _ => (2.0 * estimate.mean(then + 1, infers)).max(INITIAL_PACKETS * packet / late as f64),
        });
        if let Some(heard) = told {
            // Entry k of the totals is what had happened before slot k.
            let in_flight = sent - whole(run.served[t - late + 1]) - run.lost[t - late + 1];
            credit = (credit + heard).min(if carries { heard + packet } else { heard.max(packet) });
            offered = whole((heard * late as f64 - in_flight).min(credit)).max(0.0);
            silent = if offered > 0.0 { 0 } else { silent + 1 };
            if offered < packet && (in_flight < packet || silent >= late) {
                (offered, silent) = (packet, 0);
            }
            credit = (credit - offered).max(0.0);
        }
        sent += offered;
        // Within a slot fluid leaves as it comes: what is served now needs no place in the queue.
        let leaving = (queued + offered).min(*most);
        let left = queued + offered - leaving;
        let mut dropped = (left - limit).max(0.0);
        if dropped > 0.0 && packet > 0.0 {
            dropped = ((dropped / packet - 1e-9).ceil() * packet).min(offered);
        }
        queued = left - dropped;
        served += leaving;
        lost += dropped;
        if infers > 0 {
            estimate.add(leaving, *most, queued, infers);
        }
        run.sent.push(sent);
        run.served.push(served);
        run.lost.push(lost);
        run.queue.push(queued);
    }
    run
}

/// Returns the slots until the bytes that were accepted by the end of each slot are served; those to the end of the run if they
/// never are. `accepted` and `served` are totals, as in [`Totals`].
#[must_use]
pub fn waits(accepted: &[f64], served: &[f64]) -> Vec<i64> {
    let last = served.len().saturating_sub(1);
    let (mut at, mut before) = (0, f64::NEG_INFINITY);
    let after = accepted.iter().enumerate().skip(1);
    after
        .map(|(slot, &bytes)| {
            // A millionth of a byte absorbs the rounding of two sums that are equal in exact arithmetic.
            let wanted = bytes - 1e-6;
            // Totals rise, except for rounding.
            if wanted < before {
                at = served.partition_point(|&bytes| bytes < wanted);
            }
            before = wanted;
            while served.get(at).is_some_and(|&bytes| bytes < wanted) {
                at += 1;
            }
            at.min(last).saturating_sub(slot) as i64
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_hears_of_a_change_a_round_trip_later() {
        let capacity = [10.0, 10.0, 10.0, 4.0, 4.0, 4.0, 4.0];
        let sender = Sender { late: 2, gain: 1.0, packet: 0.0, carries: false, infers: 0 };
        let run = one_rtt_late(&capacity, &capacity, sender, f64::INFINITY);
        assert_eq!(run.sent, [0.0, 0.0, 0.0, 10.0, 20.0, 30.0, 30.0, 30.0], "the queue that it made drains first");
        assert_eq!(run.queue, [0.0, 0.0, 0.0, 0.0, 6.0, 12.0, 8.0, 4.0]);
        let short = one_rtt_late(&capacity, &capacity, sender, 5.0);
        assert_eq!((short.queue[5], short.lost[7]), (5.0, 7.0), "what a short queue cannot hold is lost");
    }

    #[test]
    fn who_infers_finds_a_rate_by_the_queue_that_it_makes() {
        let capacity: Vec<f64> = (0..4000).map(|t| if t < 2000 { 10.0 } else { 40.0 }).collect();
        let rates = |gain, infers| {
            let sender = Sender { late: 20, gain, packet: 1.0, carries: true, infers };
            let run = one_rtt_late(&capacity, &capacity, sender, 100.0);
            let rate = |from: usize, to: usize| (run.served[to] - run.served[from]) / (to - from) as f64;
            (rate(1000, 2000), rate(3000, 4000))
        };
        let (before, after) = rates(1.1, 20);
        assert!(before > 9.5 && after > 38.0, "a gain above 1 finds the new rate: {before} {after}");
        let (before, after) = rates(1.0, 20);
        assert!(before > 9.0 && after < 12.0, "without a queue, nothing shows the rise: {before} {after}");
        assert!(rates(1.0, 0).1 > 38.0, "a sender that is told knows");
    }

    #[test]
    fn who_infers_knows_nothing_but_what_its_packets_showed() {
        let late = 7;
        let capacity: Vec<f64> = (0..600_u64).map(|t| (t / 50 * 37 % 11 + t % 3) as f64).collect();
        for gain in [0.7, 1.0, 1.3] {
            let sender = Sender { late, gain, packet: 1.0, carries: true, infers: 20 };
            let run = |capacity: &[f64], known: &[f64]| one_rtt_late(capacity, known, sender, 60.0);
            let whole = run(&capacity, &capacity);
            assert!(whole.served[600] > 0.0, "it sends");
            assert_eq!(run(&capacity, &[f64::NAN; 600]), whole, "nobody tells it");
            let idle = |t: usize| whole.queue[t + 1] == 0.0 && whole.served[t + 1] - whole.served[t] < capacity[t];
            let more: Vec<f64> = capacity.iter().enumerate().map(|(t, c)| if idle(t) { 9.0 * c } else { *c }).collect();
            assert_ne!(more, capacity);
            assert_eq!(run(&more, &more), whole, "capacity that no packet met is not known");
            for change in [100, 251, 400] {
                let later: Vec<f64> =
                    capacity.iter().enumerate().map(|(t, c)| if t < change { *c } else { 1.0 }).collect();
                let sent = run(&later, &later).sent;
                assert_eq!(
                    sent[..=change + late],
                    whole.sent[..=change + late],
                    "a change is known a round trip later"
                );
            }
        }
    }

    #[test]
    fn a_part_of_a_packet_is_sent_later() {
        let capacity = [2.5; 100];
        let sent = |carries| {
            let sender = Sender { late: 10, gain: 1.0, packet: 1.0, carries, infers: 0 };
            one_rtt_late(&capacity, &capacity, sender, f64::INFINITY).sent[100]
        };
        // 225 have room; what is served in part counts as in flight, so that the window holds a little back.
        assert_eq!((sent(false), sent(true)), (180.0, 221.0), "of 90 slots with 2.5 packets each");
    }

    /// Searched for each slot by itself, over totals that rounding lets fall now and then.
    #[test]
    fn waits_are_those_of_a_search_for_each_slot() {
        let mut state = 7_u64;
        let mut draw = |most: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % most
        };
        for slots in [0, 1, 2, 50, 400] {
            let (mut accepted, mut served) = (vec![0.0], vec![0.0]);
            for slot in 0..slots {
                let came = accepted[slot] + draw(4) as f64 * 700.0 - draw(2) as f64 * 1e-7;
                accepted.push(came);
                served.push((served[slot] + draw(3) as f64 * 900.0).min(came.max(served[slot])));
            }
            let last = served.len() - 1;
            let searched = |(slot, &bytes): (usize, &f64)| {
                let done = served.iter().position(|&gone| gone >= bytes - 1e-6).unwrap_or(last);
                done.min(last).saturating_sub(slot) as i64
            };
            let expected: Vec<i64> = accepted.iter().enumerate().skip(1).map(searched).collect();
            assert_eq!(waits(&accepted, &served), expected);
        }
    }
}
