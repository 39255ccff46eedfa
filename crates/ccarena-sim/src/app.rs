//! A flow's application as the sender sees it: in segments.

use std::collections::VecDeque;

use ccarena_cc::{Rate, Time};
use ccarena_net::apps::{self, Needs, Offer, Outcome, Source, UNLIMITED, View};

/// The running application of a flow. Amounts are in segments of the flow's maximum size, of which the last of a message
/// may be short.
#[derive(Debug)]
pub struct AppState {
    source: Source,
    needs: Needs,
    start: Time,
    mss: u64,
    /// Segments made available so far, and their bytes.
    available: u32,
    bytes: u64,
    /// Ends of messages whose last segment is short, and which are not acknowledged.
    ends: VecDeque<End>,
    /// End of the last such message that is acknowledged.
    origin: End,
}

/// End of a message whose last segment is short.
#[derive(Clone, Copy, Debug, Default)]
struct End {
    /// First segment after it.
    segment: u32,
    /// Bytes up to it.
    bytes: u64,
    /// Bytes of its last segment.
    short: u32,
}

/// Segments without a limit: far from the wrap of 32-bit numbers.
const ENDLESS: u32 = 1 << 31;

impl AppState {
    /// An application that starts at `start` and writes segments of `mss` bytes.
    #[must_use]
    pub fn new(source: Source, start: Time, mss: u32) -> Self {
        let bulk = source.is_bulk();
        Self {
            needs: source.needs(),
            source,
            start,
            mss: u64::from(mss.max(1)),
            available: if bulk { ENDLESS } else { 0 },
            bytes: if bulk { UNLIMITED } else { 0 },
            ends: VecDeque::new(),
            origin: End::default(),
        }
    }

    /// Segments that may have been sent so far.
    #[inline]
    #[must_use]
    pub fn available(&self) -> u32 {
        self.available
    }

    /// Parts of the transport's progress that matter to it.
    #[inline]
    #[must_use]
    pub fn needs(&self) -> Needs {
        self.needs
    }

    /// Payload bytes of segment `seq`, which is not acknowledged.
    #[inline]
    #[must_use]
    pub fn segment_bytes(&self, seq: u32) -> u32 {
        if self.ends.is_empty() {
            return self.mss as u32;
        }
        let i = self.ends.partition_point(|end| end.segment <= seq);
        match self.ends.get(i) {
            Some(end) if seq + 1 == end.segment => end.short,
            _ => self.mss as u32,
        }
    }

    /// Returns whether all segments that are available are whole, and none ends a message.
    #[inline]
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.ends.is_empty() && !self.needs.acknowledged
    }

    /// Returns whether segment `seq` of `payload` bytes ends a message, as far as it is written: the PSH flag of Linux.
    #[inline]
    #[must_use]
    pub fn pushes(&self, seq: u32, payload: u32) -> bool {
        self.needs.acknowledged && (seq + 1 == self.available || u64::from(payload) < self.mss)
    }

    /// Results so far, without arrivals.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        self.source.outcome()
    }

    /// Results of a run in which the receiver had all segments before a number by some time, as `progress` says.
    #[must_use]
    pub fn outcome_with(&self, progress: &[(Time, u64)]) -> Outcome {
        let outcome = self.source.outcome();
        let (mut bytes, mut segments) = (0, 0);
        let ends: Vec<u64> = outcome
            .ends
            .iter()
            .map(|&end| {
                segments += (end - bytes).div_ceil(self.mss);
                bytes = end;
                segments
            })
            .collect();
        outcome.with_arrivals(self.start, |number, _| apps::reached(progress, ends[number]))
    }

    /// Makes available what is due at `now`, when the segments before `sent` have been sent and those before `acknowledged`
    /// acknowledged. Returns when to be called again.
    pub fn advance(&mut self, now: Time, sent: u32, acknowledged: u32, rate: Option<Rate>) -> Time {
        while let Some(&end) = self.ends.front().filter(|end| end.segment <= acknowledged) {
            self.origin = end;
            self.ends.pop_front();
        }
        let view = View {
            elapsed: now.since(self.start),
            sent: self.bytes_before(sent),
            acknowledged: self.bytes_before(acknowledged),
            rate,
        };
        let Offer { allowed, next } = self.source.advance(&view);
        self.make_available(allowed.saturating_sub(self.bytes));
        (self.start + next).max(Time(now.0 + 1))
    }

    /// A message, or part of a stream, of `bytes` more.
    fn make_available(&mut self, bytes: u64) {
        if bytes == 0 {
            return;
        }
        let segments = bytes.div_ceil(self.mss);
        let short = (bytes - (segments - 1) * self.mss) as u32;
        self.bytes += bytes;
        self.available = self.available.saturating_add(u32::try_from(segments).unwrap_or(ENDLESS)).min(ENDLESS);
        if u64::from(short) != self.mss {
            self.ends.push_back(End { segment: self.available, bytes: self.bytes, short });
        }
    }

    fn bytes_before(&self, segment: u32) -> u64 {
        let i = self.ends.partition_point(|end| end.segment <= segment);
        let from = i.checked_sub(1).and_then(|i| self.ends.get(i)).unwrap_or(&self.origin);
        from.bytes + u64::from(segment - from.segment) * self.mss
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ccarena_cc::Dur;
    use ccarena_net::apps::{App, Start, Transfers};

    #[test]
    fn messages_end_with_short_segments_and_complete_when_they_are_acknowledged() {
        let app = App::Transfers(Transfers { sizes_bytes: vec![2500, 1000, 1], gap: Dur::from_millis(10) });
        let start = Start { mss: 1000, seed: 1, return_delay: Dur::ZERO };
        let mut state = AppState::new(Source::new(&app, &start), Time::ZERO, 1000);
        assert_eq!(state.advance(Time::ZERO, 0, 0, None), Time::NEVER);
        assert_eq!((state.available(), state.segment_bytes(1), state.segment_bytes(2)), (3, 1000, 500));
        state.advance(Time(3_000_000), 3, 2, None);
        assert!(state.outcome().completion.is_empty());
        assert_eq!(state.advance(Time(4_000_000), 3, 3, None), Time(10_000_000));
        assert_eq!(state.outcome().completion, [Dur::from_millis(4)]);
        assert_eq!(state.advance(Time(10_000_000), 3, 3, None), Time::NEVER);
        assert_eq!((state.available(), state.segment_bytes(3)), (4, 1000));
        state.advance(Time(20_000_000), 4, 4, None);
        assert_eq!((state.available(), state.segment_bytes(4)), (5, 1));
        state.advance(Time(22_000_000), 5, 5, None);
        assert_eq!(state.outcome().completion.len(), 3);
    }
}
