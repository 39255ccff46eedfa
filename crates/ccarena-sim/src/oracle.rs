//! A sender that knows a link's capacity and the fate of its packets one round trip late; fluid, or whole packets.
//!
//! What it does, and why it is a bound, stands at its figures, `ccarena.eval.heldout.oracle`.

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
}

/// Runs it over slots that serve `served_most` bytes at most, of which it hears `known`; the queue holds `limit` bytes. Slots
/// beyond the shorter one are left out.
#[must_use]
pub fn one_rtt_late(served_most: &[f64], known: &[f64], sender: Sender, limit: f64) -> Totals {
    let Sender { gain, packet, carries, .. } = sender;
    let late = sender.late.max(1);
    let whole = |bytes: f64| if packet > 0.0 { (bytes / packet + 1e-9).floor() * packet } else { bytes };
    let mut run = Totals { sent: vec![0.0], served: vec![0.0], lost: vec![0.0], queue: vec![0.0] };
    let (mut sent, mut served, mut lost, mut queued) = (0.0, 0.0, 0.0, 0.0);
    let (mut credit, mut silent) = (0.0_f64, 0);
    for (t, (most, _)) in served_most.iter().zip(known).enumerate() {
        let mut offered = 0.0;
        if let Some(heard) = t.checked_sub(late).map(|then| gain * known[then]) {
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
        run.sent.push(sent);
        run.served.push(served);
        run.lost.push(lost);
        run.queue.push(queued);
    }
    run
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_hears_of_a_change_a_round_trip_later() {
        let capacity = [10.0, 10.0, 10.0, 4.0, 4.0, 4.0, 4.0];
        let sender = Sender { late: 2, gain: 1.0, packet: 0.0, carries: false };
        let run = one_rtt_late(&capacity, &capacity, sender, f64::INFINITY);
        assert_eq!(run.sent, [0.0, 0.0, 0.0, 10.0, 20.0, 30.0, 30.0, 30.0], "the queue that it made drains first");
        assert_eq!(run.queue, [0.0, 0.0, 0.0, 0.0, 6.0, 12.0, 8.0, 4.0]);
        let short = one_rtt_late(&capacity, &capacity, sender, 5.0);
        assert_eq!((short.queue[5], short.lost[7]), (5.0, 7.0), "what a short queue cannot hold is lost");
    }

    #[test]
    fn a_part_of_a_packet_is_sent_later() {
        let capacity = [2.5; 100];
        let sent = |carries| {
            let sender = Sender { late: 10, gain: 1.0, packet: 1.0, carries };
            one_rtt_late(&capacity, &capacity, sender, f64::INFINITY).sent[100]
        };
        // 225 have room; what is served in part counts as in flight, so that the window holds a little back.
        assert_eq!((sent(false), sent(true)), (180.0, 221.0), "of 90 slots with 2.5 packets each");
    }
}
