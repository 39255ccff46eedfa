//! A sender that knows a link's capacity and the fate of its packets one round trip late, over a fluid queue.
//!
//! What it does, and why it is a bound, stands at its figures, `ccarena.eval.heldout.oracle`.

/// Bytes so far at the start of each slot, and after the last one: `[slots + 1]` each.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Fluid {
    /// Sent.
    pub sent: Vec<f64>,
    /// Served.
    pub served: Vec<f64>,
    /// Dropped at the queue's limit.
    pub lost: Vec<f64>,
    /// Waiting.
    pub queue: Vec<f64>,
}

/// Runs it over slots that serve `served_most` bytes at most, of which it hears `known`, and keeps `gain` of that in flight;
/// news are `late` slots old, at least one, and the queue holds `limit` bytes. Slots beyond the shorter one are left out.
#[must_use]
pub fn one_rtt_late(served_most: &[f64], known: &[f64], late: usize, gain: f64, limit: f64) -> Fluid {
    let late = late.max(1);
    let mut run = Fluid { sent: vec![0.0], served: vec![0.0], lost: vec![0.0], queue: vec![0.0] };
    let (mut sent, mut served, mut lost, mut queued) = (0.0, 0.0, 0.0, 0.0);
    for (t, (most, _)) in served_most.iter().zip(known).enumerate() {
        let mut offered = 0.0;
        if let Some(heard) = t.checked_sub(late).map(|then| gain * known[then]) {
            // Entry k of the totals is what had happened before slot k.
            let allowed = run.served[t - late + 1] + run.lost[t - late + 1] + heard * late as f64 - sent;
            offered = allowed.max(0.0).min(heard);
        }
        sent += offered;
        // Within a slot fluid leaves as it comes: what is served now needs no place in the queue.
        let leaving = (queued + offered).min(*most);
        let left = queued + offered - leaving;
        let dropped = (left - limit).max(0.0);
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
        let run = one_rtt_late(&capacity, &capacity, 2, 1.0, f64::INFINITY);
        assert_eq!(run.sent, [0.0, 0.0, 0.0, 10.0, 20.0, 30.0, 30.0, 30.0], "the queue that it made drains first");
        assert_eq!(run.queue, [0.0, 0.0, 0.0, 0.0, 6.0, 12.0, 8.0, 4.0]);
        let short = one_rtt_late(&capacity, &capacity, 2, 1.0, 5.0);
        assert_eq!((short.queue[5], short.lost[7]), (5.0, 7.0), "what a short queue cannot hold is lost");
    }
}
