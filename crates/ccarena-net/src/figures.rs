//! Parts of figures that go through all packets of a run. `ccarena/eval/measure` defines the figures and calls these.

/// Returns the element at index floor(q n) of the n sorted values for each share q; no values give none. NaN is the largest.
#[must_use]
pub fn percentiles(values: &[f64], shares: &[f64]) -> Option<Vec<f64>> {
    let last = values.len().checked_sub(1)?;
    let mut keys: Vec<u64> = values.iter().map(|&value| key(value)).collect();
    let at = |share: f64| ((share * values.len() as f64) as usize).min(last);
    let mut wanted: Vec<usize> = shares.iter().map(|&share| at(share)).collect();
    wanted.sort_unstable();
    let mut from = 0;
    for index in wanted {
        // Each selection leaves smaller elements before its place, so the next one begins behind it.
        if let Some(rest) = keys.get_mut(from..).filter(|_| index >= from) {
            rest.select_nth_unstable(index - from);
            from = index + 1;
        }
    }
    Some(shares.iter().map(|&share| keys.get(at(share)).map_or(f64::NAN, |&key| value(key))).collect())
}

const SIGN: u64 = 1 << 63;

/// Returns a number that is in the order of the floats, in which NaN of any sign is the largest.
fn key(value: f64) -> u64 {
    let bits = value.to_bits();
    if value.is_nan() {
        u64::MAX
    } else if bits & SIGN == 0 {
        bits | SIGN
    } else {
        !bits
    }
}

fn value(key: u64) -> f64 {
    f64::from_bits(if key & SIGN == 0 { !key } else { key & !SIGN })
}

/// Returns the rows of `flow` in the order of their flows, those of one flow in their own order: a radix sort by bytes.
#[must_use]
pub fn rows_by_flow(flow: &[u32]) -> Vec<i64> {
    let mut rows: Vec<i64> = (0..flow.len() as i64).collect();
    let most = flow.iter().copied().max().unwrap_or(0);
    let of = |row: i64| flow.get(row as usize).copied().unwrap_or(0);
    for shift in (0..u32::BITS).step_by(8).take_while(|&shift| most >> shift > 0) {
        let digit = |row: i64| (of(row) >> shift & 0xff) as usize;
        let mut next = [0_usize; 256];
        for &row in &rows {
            next[digit(row)] += 1;
        }
        let mut before = 0;
        for count in &mut next {
            before += std::mem::replace(count, before);
        }
        let mut sorted = vec![0; rows.len()];
        for &row in &rows {
            let place = &mut next[digit(row)];
            if let Some(slot) = sorted.get_mut(*place) {
                *slot = row;
            }
            *place += 1;
        }
        rows = sorted;
    }
    rows
}

/// Milliseconds between two arrivals, over which the signal delay falls by 1 ms per ms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Least delay in it, ms.
    pub low: i64,
    /// Number of milliseconds.
    pub count: i64,
}

/// Returns the signal delays between the first and the last arrival (mahimahi's definition, in whole milliseconds).
///
/// A pause of the application is left out: the time before an arrival that comes later than `pauses_after_ns` behind
/// the last departure, unless a packet went (`gone_ns`) meanwhile.
#[must_use]
pub fn signal_spans(
    arrival_ns: &[i64],
    departure_ns: &[i64],
    pauses_after_ns: Option<i64>,
    gone_ns: &[i64],
) -> Vec<Span> {
    let packets = arrival_ns.iter().copied().zip(departure_ns.iter().copied());
    if arrival_ns.is_sorted() {
        return spans_of(packets, pauses_after_ns, gone_ns);
    }
    let mut sorted: Vec<(i64, i64)> = packets.collect();
    sorted.sort_by_key(|packet| packet.0);
    spans_of(sorted.into_iter(), pauses_after_ns, gone_ns)
}

fn spans_of(packets: impl Iterator<Item = (i64, i64)>, pauses_after_ns: Option<i64>, gone_ns: &[i64]) -> Vec<Span> {
    let mut gone = gone_ns.to_vec();
    gone.sort_unstable();
    let gone_within = |from: i64, to: i64| gone.partition_point(|&at| at < from) < gone.partition_point(|&at| at < to);
    let ms = |ns: i64| ns.div_euclid(1_000_000);
    // Until later arrivals are known, `low` of a millisecond is its own first departure.
    let (mut spans, mut ats): (Vec<Span>, Vec<i64>) = (Vec::new(), Vec::new());
    let (mut at, mut before, mut left) = (i64::MIN, 0, i64::MIN);
    for (arrival, departure) in packets {
        match spans.last_mut() {
            Some(last) if at == ms(arrival) => last.low = last.low.min(ms(departure)),
            last => {
                let in_time = pauses_after_ns.is_none_or(|after| arrival <= left.saturating_add(after));
                let goes_on = last.is_some() && (in_time || gone_within(before, arrival));
                spans.push(Span { low: ms(departure), count: if goes_on { ms(arrival) - at } else { 1 } });
                at = ms(arrival);
                ats.push(at);
            }
        }
        (before, left) = (arrival, left.max(departure));
    }
    let mut earliest = i64::MAX;
    for (span, at) in spans.iter_mut().zip(ats).rev() {
        earliest = earliest.min(span.low);
        span.low = earliest - at;
    }
    spans
}

/// Returns the element at index floor(q n) of the n sorted delays in `spans`: of each, low, low + 1, ... low + count - 1.
#[must_use]
pub fn percentile_of_spans(spans: &[Span], q: f64) -> Option<i64> {
    let total: i64 = spans.iter().map(|span| span.count).sum();
    if total == 0 {
        return None;
    }
    let wanted = ((q * total as f64) as i64).min(total - 1) + 1;
    let mut least = spans.iter().map(|span| span.low).min()?;
    let mut most = spans.iter().map(|span| span.low + span.count).max()?;
    let within = |ms: i64| spans.iter().map(|span| (ms - span.low + 1).min(span.count).max(0)).sum::<i64>();
    while most - least > MOST_COUNTED {
        let middle = least + (most - least) / 2;
        if within(middle) >= wanted {
            most = middle;
        } else {
            least = middle + 1;
        }
    }
    // Each step is the number of spans that begin at a value, less those that end there; a running sum counts the delays
    // of each value.
    let mut steps = vec![0_i64; (most - least + 2) as usize];
    let mut step = |at: i64, by: i64| {
        if let Some(slot) = steps.get_mut((at - least).max(0) as usize) {
            *slot += by;
        }
    };
    for span in spans {
        step(span.low, 1);
        step(span.low + span.count, -1);
    }
    let (mut of_value, mut seen) = (0, within(least - 1));
    for (ms, by) in (least..).zip(steps) {
        of_value += by;
        seen += of_value;
        if seen >= wanted {
            return Some(ms);
        }
    }
    Some(most)
}

/// Range of delays in ms whose values are counted one by one.
const MOST_COUNTED: i64 = 4096;

/// Returns the milliseconds from arrival to departure of each packet, less its own sending if given, plus `further_ms`.
#[must_use]
pub fn delays_ms(arrival_ns: &[i64], departure_ns: &[i64], sending_ns: Option<&[u32]>, further_ms: f64) -> Vec<f64> {
    let whole = arrival_ns.iter().zip(departure_ns).map(|(arrival, departure)| departure - arrival);
    match sending_ns {
        None => whole.map(|ns| ns as f64 / 1e6 + further_ms).collect(),
        Some(sending) => whole.zip(sending).map(|(ns, &own)| (ns - i64::from(own)) as f64 / 1e6 + further_ms).collect(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn percentiles_are_elements_of_the_sorted_values(
            values in prop::collection::vec(-1e9..1e9, 1..200),
            shares in prop::collection::vec(0.0..=1.0, 1..6),
        ) {
            let mut sorted = values.clone();
            sorted.sort_by(f64::total_cmp);
            let at = |q: f64| sorted[((q * values.len() as f64) as usize).min(values.len() - 1)];
            let expected: Vec<f64> = shares.iter().map(|&share| at(share)).collect();
            prop_assert_eq!(percentiles(&values, &shares), Some(expected));
        }

        #[test]
        fn rows_are_sorted_by_flow_and_stay_in_order(flow in prop::collection::vec(0_u32..70_000, 0..300)) {
            let mut expected: Vec<i64> = (0..flow.len() as i64).collect();
            expected.sort_by_key(|&row| flow[row as usize]);
            prop_assert_eq!(rows_by_flow(&flow), expected);
        }

        #[test]
        fn the_percentile_of_spans_is_that_of_their_delays(
            spans in prop::collection::vec((0_i64..20_000, 1_i64..5_000), 1..60),
            q in 0.0..=1.0,
        ) {
            let spans: Vec<Span> = spans.into_iter().map(|(low, count)| Span { low, count }).collect();
            let mut each: Vec<i64> = spans.iter().flat_map(|span| span.low..span.low + span.count).collect();
            each.sort_unstable();
            let expected = each[((q * each.len() as f64) as usize).min(each.len() - 1)];
            prop_assert_eq!(percentile_of_spans(&spans, q), Some(expected));
        }
    }

    #[test]
    fn nothing_has_no_percentile_and_nan_is_the_largest() {
        assert_eq!(percentiles(&[], &[0.5]), None);
        assert_eq!(percentile_of_spans(&[], 0.5), None);
        let seen = percentiles(&[1.0, -f64::NAN, -2.0, 0.0], &[0.99, 0.0, 0.25]).unwrap();
        assert!(seen[0].is_nan());
        assert_eq!(seen[1..], [-2.0, 0.0]);
    }

    #[test]
    fn signal_delays_grow_while_nothing_arrives() {
        let ns = |ms: i64| ms * 1_000_000;
        let (arrival, departure) = ([ns(1), ns(5)], [ns(3), ns(6)]);
        let spans = signal_spans(&arrival, &departure, None, &[]);
        assert_eq!(spans, [Span { low: 2, count: 1 }, Span { low: 1, count: 4 }]);
        let paused = signal_spans(&arrival, &departure, Some(ns(1)), &[]);
        assert_eq!(paused, [Span { low: 2, count: 1 }, Span { low: 1, count: 1 }]);
        assert_eq!(signal_spans(&arrival, &departure, Some(ns(1)), &[ns(2)]), spans);
    }
}
