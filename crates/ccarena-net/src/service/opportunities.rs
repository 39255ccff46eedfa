//! Service by delivery opportunities: mahimahi's `LinkQueue`, in the terms of one departure per packet.
//!
//! An opportunity carries [`OPPORTUNITY_BYTES`]; a packet costs its IP bytes plus [`OVERHEAD_BYTES`]. Opportunities of a
//! millisecond come before its arrivals. A partly sent packet carries over to the next opportunity; what a packet leaves
//! of an opportunity serves packets that already wait, and is lost otherwise.

use std::sync::Arc;

use ccarena_cc::types::{Dur, Rate, Time};

use crate::trace::{OPPORTUNITY_BYTES, OVERHEAD_BYTES, Trace};

const MS_NS: i64 = 1_000_000;

/// The end of time for a trace (146 years): instants up to here plus a trace's length fit in an `i64`.
const HORIZON_NS: u64 = 1 << 62;

/// Window in which a router measures the capacity of a trace.
const WINDOW_NS: i64 = 100 * MS_NS;

/// A position in the endlessly repeated trace. Times are signed: an offset puts the pass at hand before the run's start.
#[derive(Clone, Copy, Debug)]
struct Cursor {
    /// Start of this pass through the trace.
    pass_ns: i64,
    index: usize,
    /// Time of the opportunity at `index`.
    time_ns: i64,
}

/// A time in the repeated trace: whole passes before it, counted from the one in which the run starts, and the rest.
#[derive(Clone, Copy)]
struct InTrace {
    passes: u64,
    rest_ns: u64,
}

impl InTrace {
    fn is_later_than(self, ms: u32) -> bool {
        u64::from(ms) * (MS_NS as u64) < self.rest_ns
    }
}

/// The service of a trace.
#[derive(Clone, Debug)]
pub struct Opportunities {
    trace: Arc<[u32]>,
    period_ns: i64,
    offset_ns: i64,
    /// The next opportunity for packets.
    next: Cursor,
    /// Bytes that the last packet left of the opportunity at which it departed.
    left_bytes: u32,
    /// First opportunity after `now` and after the look-back window's start, and the number between.
    head: Cursor,
    tail: Cursor,
    within: u64,
    cached: (u64, Rate),
}

impl Opportunities {
    pub fn new(trace: &Trace, offset: Dur) -> Self {
        let period_ns = i64::from(trace.duration_ms()) * MS_NS;
        let offset_ns = i64::try_from(offset.0).unwrap_or(i64::MAX) % period_ns;
        let trace = trace.opportunities_ms().clone();
        let start = Cursor { pass_ns: -offset_ns, index: 0, time_ns: i64::from(trace[0]) * MS_NS - offset_ns };
        // Two passes back, so that the look-back window of 100 ms is full at the start: the link was there before the run.
        let passes = WINDOW_NS / period_ns + 1;
        let before = Cursor {
            pass_ns: start.pass_ns - passes * period_ns,
            time_ns: start.time_ns - passes * period_ns,
            ..start
        };
        let mut this = Self {
            trace,
            period_ns,
            offset_ns,
            next: start,
            left_bytes: 0,
            head: before,
            tail: before,
            within: 0,
            cached: (0, Rate(0)),
        };
        this.next = this.first_after(this.next, -1);
        this
    }

    #[inline]
    pub fn departure(&mut self, start: Time, bytes: u32, backlogged: bool) -> Time {
        if start.0 > HORIZON_NS {
            return Time::NEVER;
        }
        let start_ns = start.0 as i64;
        if !backlogged {
            self.left_bytes = 0;
            if self.next.time_ns <= start_ns {
                self.next = self.first_after(self.next, start_ns);
            }
        }
        let mut need = bytes + OVERHEAD_BYTES;
        if need <= self.left_bytes {
            self.left_bytes -= need;
            return start;
        }
        need -= self.left_bytes;
        while need > OPPORTUNITY_BYTES {
            need -= OPPORTUNITY_BYTES;
            self.next = self.advance(self.next);
        }
        let at = Time(self.next.time_ns as u64);
        self.left_bytes = OPPORTUNITY_BYTES - need;
        self.next = self.advance(self.next);
        at
    }

    #[inline]
    pub fn rate(&mut self, now: Time) -> Rate {
        let now_ns = now.0.min(HORIZON_NS) as i64;
        if now_ns - self.head.time_ns > WINDOW_NS {
            // Nobody asked for a whole window: what the cursors would count on the way is out of it again.
            self.tail = self.first_after(self.tail, now_ns - WINDOW_NS);
            self.head = self.tail;
            self.within = 0;
        }
        while self.head.time_ns <= now_ns {
            self.head = self.advance(self.head);
            self.within += 1;
        }
        while self.tail.time_ns <= now_ns - WINDOW_NS {
            self.tail = self.advance(self.tail);
            self.within -= 1;
        }
        if self.cached.0 != self.within {
            self.cached = (self.within, Rate::of(self.within * u64::from(OPPORTUNITY_BYTES), Dur(WINDOW_NS as u64)));
        }
        self.cached.1
    }

    pub fn capacity_bytes(&self, from: Time, to: Time) -> u64 {
        (self.before(to) - self.before(from)).saturating_mul(u64::from(OPPORTUNITY_BYTES))
    }

    /// Returns the bytes of each of `count` adjoining intervals of length `bin` from time zero on.
    pub fn capacity_of_bins(&self, bin: Dur, count: u64) -> Vec<u64> {
        let (mut pass, mut from, mut before) = (0, 0, self.before(Time::ZERO));
        let bytes = |k| {
            let at = self.in_trace(Time(bin.0.saturating_mul(k + 1)));
            if at.passes > pass {
                (pass, from) = (at.passes, 0);
            }
            // The next edge is seldom far: a search of the whole trace would miss the caches.
            let mut step = 1;
            while self.trace.get(from + step - 1).is_some_and(|&ms| at.is_later_than(ms)) {
                from += step;
                step *= 2;
            }
            let rest = self.trace.get(from..(from + step).min(self.trace.len())).unwrap_or_default();
            from += rest.partition_point(|&ms| at.is_later_than(ms));
            let until = self.before_in(at, from);
            let passed = until - before;
            before = until;
            passed.saturating_mul(u64::from(OPPORTUNITY_BYTES))
        };
        (0..count).map(bytes).collect()
    }

    pub fn mean_rate(&self) -> Rate {
        Rate::of(self.trace.len() as u64 * u64::from(OPPORTUNITY_BYTES), Dur(self.period_ns as u64))
    }

    /// Opportunities earlier than `t`, counted from the start of the trace's pass in which the run starts.
    fn before(&self, t: Time) -> u64 {
        let at = self.in_trace(t);
        self.before_in(at, self.trace.partition_point(|&ms| at.is_later_than(ms)))
    }

    fn in_trace(&self, t: Time) -> InTrace {
        let since_pass_ns = t.0.saturating_add(self.offset_ns as u64);
        let period_ns = self.period_ns as u64;
        InTrace { passes: since_pass_ns / period_ns, rest_ns: since_pass_ns % period_ns }
    }

    /// Opportunities earlier than the time `at`, of which `in_pass` are in its pass.
    fn before_in(&self, at: InTrace, in_pass: usize) -> u64 {
        // Opportunities at a pass's very end share their instant with the start of the next pass.
        let at_seam = if at.rest_ns == 0 && at.passes > 0 { self.at_end() } else { 0 };
        at.passes * self.trace.len() as u64 + in_pass as u64 - at_seam
    }

    /// Returns the number of opportunities at the trace's last millisecond.
    fn at_end(&self) -> u64 {
        let last = self.trace[self.trace.len() - 1];
        (self.trace.len() - self.trace.partition_point(|&ms| ms < last)) as u64
    }

    #[inline]
    fn advance(&self, mut c: Cursor) -> Cursor {
        c.index += 1;
        if c.index == self.trace.len() {
            c.index = 0;
            c.pass_ns += self.period_ns;
        }
        c.time_ns = c.pass_ns + i64::from(self.trace[c.index]) * MS_NS;
        c
    }

    /// The first opportunity later than `t_ns`, not before `c`: whole passes are skipped, so that a long silence costs
    /// one pass at most.
    fn first_after(&self, mut c: Cursor, t_ns: i64) -> Cursor {
        let passes = (t_ns - c.pass_ns) / self.period_ns - 1;
        if passes > 0 {
            c.pass_ns += passes * self.period_ns;
            c.time_ns += passes * self.period_ns;
        }
        while c.time_ns <= t_ns {
            c = self.advance(c);
        }
        c
    }
}
