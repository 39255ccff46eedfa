//! Time that a queue spends at each length, and above a delay.

use std::borrow::Cow;

/// Returns the time in [from, to) during which exactly k packets were queued, for k = 0, 1, ...; the last is not 0, or the only
/// one. A packet is queued from its arrival until its own transmission starts.
#[must_use]
pub fn time_in_queue_length_ns(
    arrival_ns: &[i64],
    departure_ns: &[i64],
    sending_ns: &[u32],
    from_ns: i64,
    to_ns: i64,
) -> Vec<i64> {
    let to_ns = to_ns.max(from_ns);
    let packets = arrival_ns.iter().zip(departure_ns).zip(sending_ns);
    let leave = packets.map(|((&arrival, departure), &own)| (departure - i64::from(own)).max(arrival)).collect();
    let (enter, leave) = (sorted(Cow::Borrowed(arrival_ns)), sorted(Cow::Owned(leave)));
    let mut spent = vec![0_i64];
    let (mut length, mut before_ns, mut entering) = (0_usize, from_ns, enter.iter().copied().peekable());
    let mut stay = |length: usize, until_ns: i64| {
        let until_ns = until_ns.clamp(from_ns, to_ns);
        if length >= spent.len() {
            spent.resize(length + 1, 0);
        }
        spent[length] += until_ns - before_ns;
        before_ns = until_ns;
    };
    for &leaves_ns in leave.iter() {
        // Arrivals of an instant come before its departures, so that the length never falls below 0.
        while let Some(enters_ns) = entering.next_if(|&enters_ns| enters_ns <= leaves_ns) {
            stay(length, enters_ns);
            length += 1;
        }
        stay(length, leaves_ns);
        length -= 1;
    }
    stay(length, to_ns);
    let most = spent.iter().rposition(|&ns| ns != 0).unwrap_or(0);
    spent.truncate(most + 1);
    spent
}

/// Returns the times in their order; a FIFO's are in it already.
fn sorted(mut times_ns: Cow<'_, [i64]>) -> Cow<'_, [i64]> {
    if !times_ns.is_sorted() {
        times_ns.to_mut().sort_unstable();
    }
    times_ns
}

/// Returns the time in [from, to) with more than `budget_ns` of work in the queue: the time until all earlier packets have
/// left.
#[must_use]
pub fn time_over_delay_ns(arrival_ns: &[i64], departure_ns: &[i64], budget_ns: i64, from_ns: i64, to_ns: i64) -> i64 {
    if arrival_ns.is_sorted() {
        let next_ns = arrival_ns.iter().copied().skip(1).chain([i64::MAX]);
        return over_ns(
            arrival_ns.iter().copied().zip(departure_ns.iter().copied()),
            next_ns,
            budget_ns,
            from_ns,
            to_ns,
        );
    }
    let mut packets: Vec<(i64, i64)> = arrival_ns.iter().copied().zip(departure_ns.iter().copied()).collect();
    packets.sort_by_key(|packet| packet.0);
    let next_ns = packets.iter().map(|packet| packet.0).skip(1).chain([i64::MAX]);
    over_ns(packets.iter().copied(), next_ns, budget_ns, from_ns, to_ns)
}

/// Returns the same of packets (arrival, departure) in the order of their arrivals, and the arrival after each.
fn over_ns(
    packets: impl Iterator<Item = (i64, i64)>,
    next_ns: impl Iterator<Item = i64>,
    budget_ns: i64,
    from_ns: i64,
    to_ns: i64,
) -> i64 {
    let (mut empty_ns, mut over_ns) = (i64::MIN, 0);
    for ((arrival_ns, departure_ns), next_ns) in packets.zip(next_ns) {
        empty_ns = empty_ns.max(departure_ns);
        // Between two arrivals the work falls by 1 s/s, so that it is over the budget first and within it afterwards.
        let until_ns = next_ns.min(empty_ns - budget_ns).clamp(from_ns, to_ns);
        over_ns += (until_ns - arrival_ns.clamp(from_ns, to_ns)).max(0);
    }
    over_ns
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn times_are_those_of_every_instant(
            packets in prop::collection::vec((0_i64..40, 0_i64..20, 0_u32..6), 0..30),
            (from, length, budget) in (0_i64..30, 0_i64..40, 0_i64..12),
        ) {
            let (arrival, departure): (Vec<i64>, Vec<i64>) = packets.iter().map(|p| (p.0, p.0 + p.1)).unzip();
            let sending: Vec<u32> = packets.iter().map(|p| p.2).collect();
            let to = from + length;
            let mut expected = vec![0; packets.len() + 1];
            let mut over = 0;
            for now in from..to {
                let queued = packets.iter().filter(|p| p.0 <= now && now < p.0 + p.1 - i64::from(p.2)).count();
                expected[queued] += 1;
                let work = packets.iter().filter(|p| p.0 <= now).map(|p| p.0 + p.1 - now).max().unwrap_or(0);
                over += i64::from(work > budget);
            }
            let spent = time_in_queue_length_ns(&arrival, &departure, &sending, from, to);
            prop_assert!(spent.len() == 1 || spent.last() != Some(&0));
            expected.truncate(expected.iter().rposition(|&ns| ns != 0).unwrap_or(0) + 1);
            prop_assert_eq!(spent, expected);
            prop_assert_eq!(time_over_delay_ns(&arrival, &departure, budget, from, to), over);
        }
    }
}
