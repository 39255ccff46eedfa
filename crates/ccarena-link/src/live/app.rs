//! Applications: how many bytes a flow may have written by when.

use ccarena_cc::{Bytes, Dur, Rate, Time};
use ccarena_net::scenario;

/// A running application. As in the simulator, amounts of [`Stream`](Self::Stream) come in whole segments.
#[derive(Clone, Debug)]
pub enum App {
    /// Always more to send.
    Bulk,
    /// `rate`, forever or in periods of `on` and `off`.
    Stream {
        /// While on.
        rate: Rate,
        /// Length of the sending part of a period.
        on: Dur,
        /// Length of the silent part; zero for a constant rate.
        off: Dur,
        /// Bytes of a segment.
        mss: u64,
    },
    /// Data up to `quota` in each slot; what the socket has not sent when the slot ends counts for the next one.
    Capped {
        /// Bytes per slot.
        quota: u64,
        /// Length of a slot.
        slot: Dur,
        /// Slots that have begun.
        begun: u64,
        /// Bytes allowed so far.
        allowed: u64,
    },
    /// One transfer after the other.
    Transfers {
        /// Bytes of each.
        sizes: Vec<u64>,
        /// Time from start to start.
        gap: Dur,
        /// Start times of those that have begun.
        begun: Vec<Time>,
        /// Bytes allowed so far.
        allowed: u64,
        /// Durations of finished ones.
        completion: Vec<Dur>,
    },
}

/// Amount without a limit.
const UNLIMITED: u64 = u64::MAX;

impl App {
    /// The application of `flow`, not yet begun.
    #[must_use]
    pub fn new(flow: &scenario::Flow) -> Self {
        let mss = u64::from(flow.mss_bytes.max(1));
        match &flow.app {
            scenario::App::Bulk => Self::Bulk,
            &scenario::App::Cbr { rate } => Self::Stream { rate, on: Dur(1), off: Dur::ZERO, mss },
            &scenario::App::OnOff { rate, on, off } => Self::Stream { rate, on: on.max(Dur(1)), off, mss },
            &scenario::App::Capped { rate, slot } => {
                let slot = slot.max(Dur(1));
                Self::Capped { quota: rate.bytes_in(slot).0.max(1), slot, begun: 0, allowed: 0 }
            }
            scenario::App::Transfers { sizes_bytes, gap } => Self::Transfers {
                sizes: sizes_bytes.clone(),
                gap: *gap,
                begun: Vec::new(),
                allowed: 0,
                completion: Vec::new(),
            },
        }
    }

    /// Bytes that may have been written `elapsed` after the start, and how long after it to ask next. So far `written`
    /// bytes were written, of which `unsent` wait in the socket and `unacked` are not acknowledged.
    pub fn advance(&mut self, elapsed: Dur, written: u64, unsent: u64, unacked: u64) -> (u64, Dur) {
        match self {
            Self::Bulk => (UNLIMITED, Dur::MAX),
            &mut Self::Stream { rate, on, off, mss } => stream(elapsed, rate, on, off, mss),
            Self::Capped { quota, slot, begun, allowed } => {
                let slots = elapsed.0 / slot.0 + 1;
                if slots > *begun {
                    *begun = slots;
                    *allowed = written - unsent.min(written) + *quota;
                }
                (*allowed, *slot * slots)
            }
            Self::Transfers { sizes, gap, begun, allowed, completion } => {
                if completion.len() < begun.len() && written >= *allowed && unacked == 0 {
                    completion.push(elapsed - Dur(begun[completion.len()].0));
                }
                let next = begun.len();
                if next == sizes.len() || completion.len() < next {
                    return (*allowed, Dur::MAX);
                }
                let due = *gap * next as u64;
                if elapsed < due {
                    return (*allowed, due);
                }
                begun.push(Time(elapsed.0));
                *allowed = allowed.saturating_add(sizes[next].max(1));
                (*allowed, Dur::MAX)
            }
        }
    }

    /// Acknowledgements matter to it.
    #[must_use]
    pub fn waits_for_acknowledgements(&self) -> bool {
        matches!(self, Self::Transfers { .. })
    }

    /// Returns the durations of finished transfers.
    #[must_use]
    pub fn completion(&self) -> &[Dur] {
        if let Self::Transfers { completion, .. } = self { completion } else { &[] }
    }
}

fn stream(elapsed: Dur, rate: Rate, on: Dur, off: Dur, mss: u64) -> (u64, Dur) {
    let period = on + off;
    let constant = off == Dur::ZERO;
    let sending = if constant { elapsed } else { on * (elapsed.0 / period.0) + Dur((elapsed.0 % period.0).min(on.0)) };
    let segments = rate.bytes_in(sending).0 / mss;
    // When the next segment is complete, in sending time and then in elapsed time.
    let need = rate.time_for((segments + 1).saturating_mul(mss));
    let next = if constant || need == Dur::MAX {
        need
    } else {
        let full = (need.0.max(1) - 1) / on.0;
        period * full + Dur(need.0 - full * on.0)
    };
    (Bytes(segments * mss).0, next.max(elapsed + Dur(1)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ccarena_net::scenario::Flow;

    fn app(app: scenario::App) -> App {
        App::new(&Flow { app, mss_bytes: 1000, ..Flow::default() })
    }

    const MS: fn(u64) -> Dur = Dur::from_millis;

    #[test]
    fn constant_rate_keeps_its_rate() {
        let mut app = app(scenario::App::Cbr { rate: Rate::from_mbps(8.0) });
        let mut at = Dur::ZERO;
        for k in 0..500 {
            let (allowed, next) = app.advance(at, allowed_before(k), 0, 0);
            assert_eq!((allowed, next), (k * 1000, MS(k + 1)));
            at = next;
        }
    }

    fn allowed_before(k: u64) -> u64 {
        k.saturating_sub(1) * 1000
    }

    #[test]
    fn on_off_sends_in_its_on_time_only() {
        let mut app = app(scenario::App::OnOff { rate: Rate::from_mbps(8.0), on: MS(20), off: MS(80) });
        let (mut at, mut before) = (Dur::ZERO, 0);
        while at < MS(1000) {
            let (allowed, next) = app.advance(at, 0, 0, 0);
            assert!(allowed == before || at.0 % MS(100).0 <= MS(20).0, "{at}");
            (at, before) = (next, allowed);
        }
        assert_eq!(before, 200_000);
    }

    #[test]
    fn a_slot_allows_its_quota_and_no_more() {
        let mut app = app(scenario::App::Capped { rate: Rate::from_mbps(0.24), slot: MS(100) });
        assert_eq!(app.advance(MS(0), 0, 0, 0), (3000, MS(100)));
        assert_eq!(app.advance(MS(50), 3000, 2000, 3000), (3000, MS(100)));
        assert_eq!(app.advance(MS(100), 3000, 2000, 2000), (4000, MS(200)), "two thirds are still to be sent");
    }

    #[test]
    fn transfers_follow_one_another() {
        let mut app = app(scenario::App::Transfers { sizes_bytes: vec![2500, 1000], gap: MS(10) });
        assert_eq!(app.advance(MS(1), 0, 0, 0), (2500, Dur::MAX));
        assert_eq!(app.advance(MS(2), 2500, 0, 1000), (2500, Dur::MAX));
        assert_eq!(app.advance(MS(5), 2500, 0, 0), (2500, MS(10)));
        assert_eq!(app.completion(), [MS(4)]);
        assert_eq!(app.advance(MS(10), 2500, 0, 0), (3500, Dur::MAX));
        assert_eq!(app.advance(MS(30), 3500, 0, 0), (3500, Dur::MAX));
        assert_eq!(app.completion(), [MS(4), MS(20)]);
    }
}
