//! Parts of figures that go through all packets of a run. `ccarena/eval/measure` defines the figures and calls these.

use std::borrow::Cow;

mod of_flows;
mod queue;

pub use of_flows::{
    Gone, Packets, Pauses, Percentiles, Shares, Sums, Within, percentiles as percentiles_of_flows,
    sums as sums_of_flows,
};
pub use queue::{time_in_queue_length_ns, time_over_delay_ns};

/// Returns the element at index floor(q n) of the n sorted values for each share q; no values give none. NaN is the largest.
#[must_use]
pub fn percentiles(values: &[f64], shares: &[f64]) -> Option<Vec<f64>> {
    let mut keys: Vec<u64> = values.iter().map(|&value| key(value)).collect();
    Some(nth(&mut keys, shares)?.into_iter().map(value).collect())
}

/// Returns the same of other values, which it puts into another order.
fn nth<T: Ord + Copy>(values: &mut [T], shares: &[f64]) -> Option<Vec<T>> {
    let last = values.len().checked_sub(1)?;
    let at = |share: f64| ((share * (last + 1) as f64) as usize).min(last);
    let mut wanted: Vec<usize> = shares.iter().map(|&share| at(share)).collect();
    wanted.sort_unstable();
    let mut from = 0;
    for index in wanted {
        // Each selection leaves smaller elements before its place, so the next one begins behind it.
        if let Some(rest) = values.get_mut(from..).filter(|_| index >= from) {
            rest.select_nth_unstable(index - from);
            from = index + 1;
        }
    }
    shares.iter().map(|&share| values.get(at(share)).copied()).collect()
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
    let mut packets: Vec<(i64, i64)> = arrival_ns.iter().copied().zip(departure_ns.iter().copied()).collect();
    packets.sort_by_key(|packet| packet.0);
    let mut signals = Signals::new(pauses_after_ns, gone_ns);
    for (arrival, departure) in packets {
        signals.take(arrival, departure);
    }
    signals.spans()
}

/// The signal delays of packets, which it takes in the order of their arrivals.
struct Signals<'a> {
    pauses_after_ns: Option<i64>,
    gone_ns: Cow<'a, [i64]>,
    /// Each millisecond with an arrival: its number, the least departure in ns, and the milliseconds since the one before.
    seen: Vec<(i64, i64, i64)>,
    /// End of the millisecond of the last arrival.
    until_ns: i64,
    before_ns: i64,
    left_ns: i64,
}

impl<'a> Signals<'a> {
    fn new(pauses_after_ns: Option<i64>, gone_ns: &'a [i64]) -> Self {
        let mut gone_ns = Cow::Borrowed(gone_ns);
        if pauses_after_ns.is_some() && !gone_ns.is_sorted() {
            gone_ns.to_mut().sort_unstable();
        }
        Signals { pauses_after_ns, gone_ns, seen: Vec::new(), until_ns: i64::MIN, before_ns: 0, left_ns: i64::MIN }
    }

    /// Forgets the packets.
    fn restart(&mut self) {
        self.seen.clear();
        (self.until_ns, self.before_ns, self.left_ns) = (i64::MIN, 0, i64::MIN);
    }

    fn take(&mut self, arrival_ns: i64, departure_ns: i64) {
        match self.seen.last_mut() {
            Some((_, least_ns, _)) if arrival_ns < self.until_ns => *least_ns = departure_ns.min(*least_ns),
            last => {
                let at = ms(arrival_ns);
                let in_time = self.pauses_after_ns.is_none_or(|after| arrival_ns <= self.left_ns.saturating_add(after));
                let since = last.map(|(before, ..)| at - *before);
                let goes_on = in_time || self.gone_within(self.before_ns, arrival_ns);
                self.seen.push((at, departure_ns, since.filter(|_| goes_on).unwrap_or(1)));
                self.until_ns = (at + 1) * NS_PER_MS;
            }
        }
        self.before_ns = arrival_ns;
        self.left_ns = self.left_ns.max(departure_ns);
    }

    fn gone_within(&self, from_ns: i64, to_ns: i64) -> bool {
        let before = |at_ns: i64| self.gone_ns.partition_point(|&gone| gone < at_ns);
        before(from_ns) < before(to_ns)
    }

    fn spans(self) -> Vec<Span> {
        let mut earliest = i64::MAX;
        let mut spans: Vec<Span> = self
            .seen
            .into_iter()
            .rev()
            .map(|(at, least_ns, count)| {
                earliest = earliest.min(ms(least_ns));
                Span { low: earliest - at, count }
            })
            .collect();
        spans.reverse();
        spans
    }
}

const NS_PER_MS: i64 = 1_000_000;

const fn ms(ns: i64) -> i64 {
    ns.div_euclid(NS_PER_MS)
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
