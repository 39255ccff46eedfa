//! Traces made out of traces: a piece of a recording, stretched in time, brought to another rate, on a coarser clock and
//! with outages. A few recordings thus stand for many links.

use ccarena_cc::types::{Dur, Rate};

use crate::rng::Stream;
use crate::trace::{OPPORTUNITY_BYTES, Trace, TraceError, TraceErrorKind};

/// Changes to a trace, in this order.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reshape {
    /// Length of the piece that is used, from an offset on; all if none.
    pub length: Option<Dur>,
    /// Every time is multiplied by this.
    pub stretch: f64,
    /// Each opportunity is left out or repeated, at random, so that the mean rate becomes this.
    pub mean: Option<Rate>,
    /// Times are rounded up to multiples of this many milliseconds.
    pub grid_ms: u32,
    /// Hardly any opportunities now and then.
    pub outages: Option<Outages>,
    /// Seed of its random parts.
    pub seed: u64,
}

/// Outages that are put into a trace.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outages {
    /// Mean time from one to the next.
    pub every: Dur,
    /// Mean length.
    pub mean: Dur,
    /// Rate during an outage, evenly spaced: recorders that keep a session alive see about a packet
    /// per second.
    pub rate: Rate,
}

impl Default for Reshape {
    fn default() -> Self {
        Self { length: None, stretch: 1.0, mean: None, grid_ms: 1, outages: None, seed: 0 }
    }
}

/// No reshaped trace has more opportunities, nor more outages: an hour at 33 Mbit/s.
const MOST: u64 = 10_000_000;

impl Reshape {
    /// The trace that results from `trace` between `offset` and `length` later, both before they are stretched.
    ///
    /// What an outage would leave without any opportunity is left as it is.
    ///
    /// # Errors
    /// If its times are longer than a trace can say, or more than [`MOST`] would be made.
    pub fn apply(&self, trace: &Trace, offset: Dur, name: &str) -> Result<Trace, TraceError> {
        let made = self.estimate(trace);
        if made > MOST {
            return Err(TraceError {
                file: name.into(),
                line: None,
                kind: TraceErrorKind::TooMany { made, most: MOST },
            });
        }
        let stream = &mut Stream::keyed(self.seed);
        let (times, length_ms) = self.piece(trace, offset);
        let times = self.with_mean(times, length_ms, stream);
        let mut left = self.without_outages(times, length_ms, stream);
        // A trace repeats after its last opportunity: one at the end of the piece keeps its length.
        if left.last().is_some_and(|&last| last < length_ms) {
            left.push(length_ms);
        }
        let grid = f64::from(self.grid_ms.max(1));
        let ms: Vec<u32> = left.iter().map(|t| ((t / grid).ceil() * grid) as u32).collect();
        Trace::from_ms(ms, name)
    }

    /// The mean number of opportunities, or outages, at most.
    fn estimate(&self, trace: &Trace) -> u64 {
        let period = f64::from(trace.duration_ms());
        let length = self.length.map_or(period, Dur::as_millis_f64);
        let piece = trace.opportunities_ms().len() as f64 * (length / period + 1.0);
        let packets = |rate: Rate| rate.0 as f64 * length * self.stretch / 8e3 / f64::from(OPPORTUNITY_BYTES);
        let outages = self.outages.map_or(0.0, |o| {
            let each = o.every.as_millis_f64().max(1.0) + o.mean.as_millis_f64().max(1.0);
            packets(o.rate) + length * self.stretch / each
        });
        (piece.max(self.mean.map_or(0.0, packets)) + outages) as u64
    }

    /// Times of the piece in ms from its start, stretched, and its length.
    fn piece(&self, trace: &Trace, offset: Dur) -> (Vec<f64>, f64) {
        let all = trace.opportunities_ms();
        let period = f64::from(trace.duration_ms());
        let length = self.length.map_or(period, |l| l.as_millis_f64().max(1.0));
        let start = offset.as_millis_f64() % period;
        let first = all.partition_point(|&ms| f64::from(ms) < start);
        let mut times = Vec::new();
        for k in first.. {
            let t = f64::from(all[k % all.len()]) + period * (k / all.len()) as f64 - start;
            if t > length {
                break;
            }
            times.push(t * self.stretch);
        }
        // A piece without any opportunity is a link that stands still but for one.
        if times.is_empty() {
            times.push(length * self.stretch);
        }
        (times, length * self.stretch)
    }

    fn with_mean(&self, times: Vec<f64>, length_ms: f64, stream: &mut Stream) -> Vec<f64> {
        let Some(mean) = self.mean else { return times };
        let wanted = mean.0 as f64 * length_ms / 8e3 / f64::from(OPPORTUNITY_BYTES);
        let each = wanted / times.len() as f64;
        let mut out = Vec::with_capacity(wanted as usize + 1);
        for t in times {
            for _ in 0..each as u32 + u32::from(stream.chance(each.fract())) {
                out.push(t);
            }
        }
        if out.is_empty() { vec![length_ms] } else { out }
    }

    fn without_outages(&self, times: Vec<f64>, length_ms: f64, stream: &mut Stream) -> Vec<f64> {
        let Some(Outages { every, mean, rate }) = self.outages else { return times };
        let gap = f64::from(OPPORTUNITY_BYTES) * 8e3 / rate.0 as f64;
        let mut out = Vec::with_capacity(times.len());
        let (mut start, mut end, mut left) = (0.0, 0.0, 0.0);
        for &t in &times {
            while t >= end && end < length_ms {
                start = end + stream.exponential(every.as_millis_f64().max(1.0));
                end = start + stream.exponential(mean.as_millis_f64().max(1.0));
                left = start + gap;
            }
            // What is left of the outages up to here, before what comes after them.
            while left < end.min(t) {
                out.push(left);
                left += gap;
            }
            if t < start || t >= end {
                out.push(t);
            }
        }
        if out.is_empty() { times } else { out }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two opportunities per millisecond for ten seconds: 24 Mbit/s.
    fn steady() -> Trace {
        Trace::from_ms((1..=10_000).flat_map(|ms| [ms, ms]).collect::<Vec<u32>>(), "steady").unwrap()
    }

    fn mbps(trace: &Trace) -> f64 {
        trace.opportunities_ms().len() as f64 * f64::from(OPPORTUNITY_BYTES) * 8e-3 / f64::from(trace.duration_ms())
    }

    #[test]
    fn more_than_a_machine_can_hold_is_refused_before_it_is_made() {
        let late = Trace::from_ms(vec![u32::MAX], "late").unwrap();
        let said = |shape: Reshape, trace: &Trace| shape.apply(trace, Dur::ZERO, "a").unwrap_err().to_string();
        let fast = Reshape { mean: Some(Rate::from_mbps(100.0)), ..Reshape::default() };
        assert!(
            said(fast, &late).starts_with("a: the reshaped trace would have about 35696204"),
            "{}",
            said(fast, &late)
        );
        let outages = Outages { every: Dur::from_millis(1), mean: Dur::from_millis(1), rate: Rate(0) };
        let often = Reshape { outages: Some(outages), ..Reshape::default() };
        assert!(said(often, &late).contains("about 214748"), "{}", said(often, &late));
        let long = Reshape { length: Some(Dur::from_secs_f64(1e6)), ..Reshape::default() };
        assert!(said(long, &steady()).contains("about 2000020000 opp"), "{}", said(long, &steady()));
    }

    #[test]
    fn nothing_asked_for_changes_nothing() {
        let trace = steady();
        assert_eq!(Reshape::default().apply(&trace, Dur::ZERO, "same").unwrap(), trace);
    }

    #[test]
    fn a_piece_is_cut_stretched_and_put_on_a_grid() {
        let shape = Reshape { length: Some(Dur::from_millis(2000)), stretch: 1.5, grid_ms: 4, ..Reshape::default() };
        // It goes on where the recording begins again.
        let trace = shape.apply(&steady(), Dur::from_millis(9000), "piece").unwrap();
        assert!(trace.duration_ms().abs_diff(3000) <= 4, "{}", trace.duration_ms());
        assert!(trace.opportunities_ms().iter().all(|ms| ms % 4 == 0));
        assert!((mbps(&trace) - 24.0 / 1.5).abs() < 0.3, "{}", mbps(&trace));
    }

    #[test]
    fn the_mean_rate_is_what_was_asked_for() {
        for (asked, within) in [(0.2, 0.06), (3.0, 0.3), (40.0, 1.0)] {
            let shape = Reshape { mean: Some(Rate::from_mbps(asked)), seed: 7, ..Reshape::default() };
            let trace = shape.apply(&steady(), Dur::ZERO, "rate").unwrap();
            assert!((mbps(&trace) - asked).abs() < within, "{asked}: {}", mbps(&trace));
            assert_eq!(shape.apply(&steady(), Dur::ZERO, "rate").unwrap(), trace, "the same seed");
            let other = Reshape { seed: 8, ..shape }.apply(&steady(), Dur::ZERO, "rate").unwrap();
            assert_ne!(other, trace, "another seed");
        }
    }

    #[test]
    fn outages_take_their_share() {
        let (every, mean) = (Dur::from_millis(900), Dur::from_millis(100));
        let outages = Some(Outages { every, mean, rate: Rate(0) });
        let shape = Reshape { outages, seed: 3, ..Reshape::default() };
        let trace = shape.apply(&steady(), Dur::ZERO, "outages").unwrap();
        let longest = trace.opportunities_ms().windows(2).map(|w| w[1] - w[0]).max();
        assert!(longest > Some(50), "{longest:?} ms");
        assert!((0.8..0.98).contains(&(mbps(&trace) / 24.1)), "{}", mbps(&trace));
        let always = |rate| Outages { every: Dur(1), mean: Dur::from_millis(1 << 40), rate };
        let nothing = Reshape { outages: Some(always(Rate(0))), ..shape };
        assert!(nothing.apply(&steady(), Dur::ZERO, "none").is_ok(), "what would be nothing stays");
        let little = Reshape { outages: Some(always(Rate::from_mbps(0.12))), ..shape };
        let trace = little.apply(&steady(), Dur::ZERO, "little").unwrap();
        assert!((mbps(&trace) - 0.12).abs() < 0.01, "ten packets per second are left: {}", mbps(&trace));
    }
}
