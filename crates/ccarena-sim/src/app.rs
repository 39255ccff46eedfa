//! Applications: when data becomes available to send.

use ccarena_cc::{Dur, Rate, Time};

/// Source of a flow's data. Amounts are in segments of the flow's maximum size.
#[derive(Clone, Debug)]
pub enum App {
    /// Always more to send.
    Bulk,
    /// `rate` of payload, forever or in periods of `on` followed by `off`.
    Stream {
        /// While on.
        rate: Rate,
        /// Length of the sending part of a period.
        on: Dur,
        /// Length of the silent part; zero for a constant rate.
        off: Dur,
    },
    /// Bulk data of which at most `segments` leave in each `slot`; what is not sent in a slot is not made up for.
    Capped {
        /// Segments per slot.
        segments: u32,
        /// Length of a slot.
        slot: Dur,
    },
    /// Transfers of given sizes, `gap` from one start to the next or as soon as the one before has completed.
    Transfers {
        /// Payload bytes of each.
        sizes: Vec<u64>,
        /// Time from start to start.
        gap: Dur,
    },
}

/// The running state of an application.
#[derive(Clone, Debug)]
pub struct AppState {
    app: App,
    start: Time,
    mss: u64,
    /// Segments made available so far.
    available: u32,
    /// Transfers: (first segment after it, when it was asked for, short last segment's bytes).
    transfers: Vec<(u32, Time, u32)>,
    completed: usize,
    /// Completion times of finished transfers.
    pub completion: Vec<Dur>,
}

/// Amount without a limit: far from the wrap of 32-bit segment numbers.
const UNLIMITED: u32 = 1 << 31;

impl AppState {
    /// An application that starts at `start` and writes segments of `mss` bytes.
    #[must_use]
    pub fn new(app: App, start: Time, mss: u32) -> Self {
        let available = if matches!(app, App::Bulk) { UNLIMITED } else { 0 };
        Self {
            app,
            start,
            mss: u64::from(mss.max(1)),
            available,
            transfers: Vec::new(),
            completed: 0,
            completion: Vec::new(),
        }
    }

    /// Segments that may have been sent so far.
    #[inline]
    #[must_use]
    pub fn available(&self) -> u32 {
        self.available
    }

    /// Payload bytes of segment `seq`: the last one of a transfer may be short.
    #[inline]
    #[must_use]
    pub fn segment_bytes(&self, seq: u32) -> u32 {
        if self.transfers.is_empty() {
            return self.mss as u32;
        }
        let i = self.transfers.partition_point(|t| t.0 <= seq);
        match self.transfers.get(i) {
            Some(&(end, _, short)) if seq + 1 == end => short,
            _ => self.mss as u32,
        }
    }

    /// Makes available what is due at `now`, when `sent` segments have been sent; returns when to be called again.
    pub fn advance(&mut self, now: Time, sent: u32) -> Time {
        match &self.app {
            App::Bulk => Time::NEVER,
            &App::Stream { rate, on, off } => {
                let period = on + off;
                let elapsed = now.since(self.start);
                let sent_time = |t: Dur| {
                    if off == Dur::ZERO { t } else { on * (t.0 / period.0) + Dur((t.0 % period.0).min(on.0)) }
                };
                let total = rate.bytes_in(sent_time(elapsed)).0 / self.mss;
                self.available = u32::try_from(total).unwrap_or(UNLIMITED).min(UNLIMITED);
                // When the next segment is complete, measured in sending time and mapped back to elapsed time.
                let need = rate.time_for((u64::from(self.available) + 1) * self.mss);
                let next = if off == Dur::ZERO || on == Dur::ZERO {
                    need
                } else {
                    let full = (need.0.max(1) - 1) / on.0;
                    Dur(full * period.0) + Dur(need.0 - full * on.0)
                };
                (self.start + next).max(Time(now.0 + 1))
            }
            &App::Capped { segments, slot } => {
                self.available = sent.saturating_add(segments).min(UNLIMITED);
                let slots = now.since(self.start).0 / slot.0.max(1) + 1;
                self.start + slot * slots
            }
            App::Transfers { sizes, gap } => {
                let begun = self.transfers.len();
                if begun < sizes.len() && begun == self.completed {
                    let due = self.start + *gap * begun as u64;
                    if now < due {
                        return due;
                    }
                    let segments = sizes[begun].div_ceil(self.mss).max(1);
                    let short = (sizes[begun].max(1) - (segments - 1) * self.mss) as u32;
                    let end =
                        self.available.saturating_add(u32::try_from(segments).unwrap_or(UNLIMITED)).min(UNLIMITED);
                    self.transfers.push((end, now, short));
                    self.available = end;
                }
                Time::NEVER
            }
        }
    }

    /// Everything before `snd_una` is acknowledged. Returns whether a transfer has completed.
    pub fn acknowledged(&mut self, snd_una: u32, now: Time) -> bool {
        let before = self.completed;
        while let Some(&(end, asked, _)) = self.transfers.get(self.completed) {
            if snd_una < end {
                break;
            }
            self.completion.push(now.since(asked));
            self.completed += 1;
        }
        self.completed > before
    }

    /// True if acknowledgements matter to the application.
    #[inline]
    #[must_use]
    pub fn waits_for_acknowledgements(&self) -> bool {
        matches!(self.app, App::Transfers { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constant_rate_keeps_its_rate() {
        let app = App::Stream { rate: Rate::from_mbps(8.0), on: Dur::from_millis(1), off: Dur::ZERO };
        let mut state = AppState::new(app, Time(1000), 1000);
        let mut next = state.advance(Time(1000), 0);
        for k in 1..=500 {
            assert_eq!(next, Time(1000 + k * 1_000_000));
            next = state.advance(next, 0);
            assert_eq!(u64::from(state.available()), k);
        }
    }

    #[test]
    fn on_off_sends_in_its_on_time_only() {
        let app = App::Stream { rate: Rate::from_mbps(8.0), on: Dur::from_millis(20), off: Dur::from_millis(80) };
        let mut state = AppState::new(app, Time::ZERO, 1000);
        let mut now = Time::ZERO;
        let mut times = Vec::new();
        while now < Time(1_000_000_000) {
            now = state.advance(now, 0);
            times.push(now.0 / 1_000_000 % 100);
        }
        assert_eq!(state.available(), 200);
        assert!(times[..200].iter().all(|&t| t <= 20));
    }

    #[test]
    fn what_a_slot_does_not_send_is_lost() {
        let mut state = AppState::new(App::Capped { segments: 3, slot: Dur::from_millis(100) }, Time(1000), 1000);
        assert_eq!(state.advance(Time(1000), 0), Time(100_001_000));
        assert_eq!(state.available(), 3);
        assert_eq!(state.advance(Time(100_001_000), 1), Time(200_001_000));
        assert_eq!(state.available(), 4, "two that were not sent are gone");
    }

    #[test]
    fn transfers_follow_one_another() {
        let mut state =
            AppState::new(App::Transfers { sizes: vec![2500, 1000], gap: Dur::from_millis(10) }, Time::ZERO, 1000);
        assert_eq!(state.advance(Time::ZERO, 0), Time::NEVER);
        assert_eq!((state.available(), state.segment_bytes(1), state.segment_bytes(2)), (3, 1000, 500));
        assert!(!state.acknowledged(2, Time(3_000_000)));
        assert!(state.acknowledged(3, Time(4_000_000)));
        assert_eq!(state.completion, [Dur::from_millis(4)]);
        assert_eq!(state.advance(Time(4_000_000), 0), Time(10_000_000));
        assert_eq!(state.advance(Time(10_000_000), 0), Time::NEVER);
        assert_eq!(state.available(), 4);
    }
}
