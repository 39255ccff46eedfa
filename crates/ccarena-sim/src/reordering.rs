//! A sender's knowledge of reordering: how far packets were displaced, and how long RACK waits for them.
//!
//! Follows `tcp_check_sack_reordering`, `tcp_dsack_seen`, `tcp_rack_reo_wnd` and `tcp_rack_update_reo_wnd` of Linux 6.18
//! (RFC 8985 §6.2, steps 3 and 4).

use ccarena_cc::Dur;

/// Sacked segments that mean loss at once while no reordering was seen (`tcp_reordering`).
const THRESHOLD: u32 = 3;
/// Largest distance that is remembered (`tcp_max_reordering`).
const MOST: u32 = 300;
/// Recoveries for which a wider window stays (`TCP_RACK_RECOVERY_THRESH`).
const RECOVERIES: u8 = 16;

/// State of one sender.
#[derive(Clone, Copy, Debug)]
pub struct Reordering {
    /// Largest distance in segments at which one arrived behind a later one (`tp->reordering`).
    distance: u32,
    /// Acknowledgements that told of reordering (`tp->reord_seen`).
    seen: u32,
    /// Segments that the receiver reported as duplicates (`tp->dsack_dups`).
    duplicates: u32,
    /// The window in quarters of the least RTT (`rack.reo_wnd_steps`), and the recoveries for which it stays so wide
    /// (`rack.reo_wnd_persist`).
    steps: u8,
    persist: u8,
    /// A duplicate that reordering may have caused has arrived, and the window has not been widened for it
    /// (`rack.dsack_seen`).
    pending: bool,
    /// Delivered count when the window was last widened (`rack.last_delivered`).
    widened_at: u32,
}

impl Default for Reordering {
    fn default() -> Self {
        Self { distance: THRESHOLD, seen: 0, duplicates: 0, steps: 1, persist: 0, pending: false, widened_at: 0 }
    }
}

impl Reordering {
    /// Acknowledgements that told of reordering.
    #[must_use]
    pub fn seen(&self) -> u32 {
        self.seen
    }

    /// Segments that the receiver reported as duplicates.
    #[must_use]
    pub fn duplicates(&self) -> u32 {
        self.duplicates
    }

    /// Sacked segments, or duplicate acknowledgements, that mean loss at once.
    #[must_use]
    pub fn threshold(&self) -> u32 {
        self.distance
    }

    /// Segments were displaced by more than usual: the window grows with whatever arrives, in order or not
    /// (`tcp_may_raise_cwnd`).
    #[must_use]
    pub fn is_high(&self) -> bool {
        self.distance > THRESHOLD
    }

    /// Segment `low` has arrived after that before `high`, and was sent once (`tcp_check_sack_reordering`).
    pub fn on_behind(&mut self, low: u32, high: u32) {
        if low < high {
            self.distance = self.distance.max(high - low).min(MOST);
            self.seen += 1;
        }
    }

    /// More duplicate acknowledgements than segments under way: those of a receiver without SACK
    /// (`tcp_check_reno_reordering`).
    pub fn on_too_many_duplicates(&mut self, distance: u32) {
        self.distance = distance.min(MOST);
        self.seen += 1;
    }

    /// The receiver reports a segment that it had before; `probe` if that was a tail-loss probe, `sent_again` in all.
    /// False if the network must have duplicated it (`tcp_dsack_seen`).
    pub fn on_duplicate(&mut self, probe: bool, sent_again: u64) -> bool {
        self.duplicates += 1;
        if u64::from(self.duplicates) > sent_again {
            return false;
        }
        self.pending |= self.seen > 0 && !probe;
        true
    }

    /// Once per acknowledgement whose newest segment was sent at the delivered count `prior`; it is `delivered` now
    /// (`tcp_rack_update_reo_wnd`).
    #[inline]
    pub fn on_delivered(&mut self, prior: u32, delivered: u32) {
        if prior == 0 {
            return;
        }
        // Once per round trip.
        if std::mem::take(&mut self.pending) && prior >= self.widened_at {
            self.steps = self.steps.saturating_add(1);
            self.widened_at = delivered;
            self.persist = RECOVERIES;
        } else if self.persist == 0 {
            self.steps = 1;
        }
    }

    /// A recovery has ended, and nothing of it was undone (`tcp_try_undo_recovery`).
    pub fn on_recovery_end(&mut self) {
        self.persist = self.persist.saturating_sub(1);
    }

    /// A recovery was undone since all that it repeated was duplicate (`tcp_try_undo_dsack`).
    pub fn on_undone_by_duplicates(&mut self) {
        self.persist = (self.persist + 1).min(RECOVERIES);
    }

    /// The timer has expired in spite of `sacked` segments: the distance was overestimated (`tcp_enter_loss`).
    pub fn on_timeout(&mut self, sacked: u32) {
        if sacked >= THRESHOLD {
            self.distance = self.distance.min(THRESHOLD);
        }
    }

    /// Time that RACK grants a segment beyond the RTT (`tcp_rack_reo_wnd`): none before reordering was seen if the sender
    /// is `repairing` losses or so many are `sacked`.
    #[must_use]
    #[inline]
    pub fn window(&self, repairing: bool, sacked: u32, min_rtt: Dur, smoothed: Dur) -> Dur {
        if self.seen == 0 && (repairing || sacked >= self.distance) {
            return Dur::ZERO;
        }
        Dur((min_rtt.0 / 4).saturating_mul(u64::from(self.steps))).min(smoothed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Dur = Dur::from_millis(40);

    #[test]
    fn three_sacked_segments_mean_loss_until_reordering_is_seen() {
        let mut r = Reordering::default();
        assert_eq!(r.window(false, 2, RTT, RTT * 2), Dur::from_millis(10));
        assert_eq!(r.window(false, 3, RTT, RTT * 2), Dur::ZERO);
        assert_eq!(r.window(true, 0, RTT, RTT * 2), Dur::ZERO);
        r.on_behind(7, 7);
        assert_eq!((r.seen(), r.threshold()), (0, 3), "in order");
        r.on_behind(7, 9);
        assert_eq!((r.seen(), r.threshold(), r.is_high()), (1, 3, false));
        assert_eq!(r.window(true, 30, RTT, RTT * 2), Dur::from_millis(10));
        r.on_behind(7, 19);
        r.on_behind(7, 9);
        assert_eq!((r.seen(), r.threshold(), r.is_high()), (3, 12, true));
        r.on_behind(0, 5000);
        assert_eq!(r.threshold(), MOST);
        r.on_timeout(2);
        assert_eq!(r.threshold(), MOST);
        r.on_timeout(3);
        assert_eq!(r.threshold(), 3);
    }

    #[test]
    fn duplicates_widen_the_window_once_per_round_trip_for_sixteen_recoveries() {
        let mut r = Reordering::default();
        assert!(r.on_duplicate(false, 1));
        assert!(!r.pending, "no reordering was seen");
        r.on_behind(1, 9);
        assert!(!r.on_duplicate(false, 1), "the network's");
        assert!(r.on_duplicate(true, 9) && !r.pending, "a probe's");
        let steps = |r: &Reordering| r.window(true, 9, RTT, RTT * 100).0 / Dur::from_millis(10).0;
        assert!(r.on_duplicate(false, 9) && r.pending);
        r.on_delivered(0, 50);
        assert!(r.pending, "an acknowledgement that delivers nothing widens nothing");
        r.on_delivered(50, 100);
        assert_eq!((steps(&r), r.pending), (2, false));
        assert!(r.on_duplicate(false, 9));
        r.on_delivered(99, 120);
        assert_eq!((steps(&r), r.pending), (2, false), "the same round trip");
        assert!(r.on_duplicate(false, 9));
        r.on_delivered(100, 150);
        assert_eq!(steps(&r), 3);
        assert_eq!(r.window(true, 9, RTT, Dur::from_millis(25)), Dur::from_millis(25), "the smoothed RTT at most");
        for _ in 0..RECOVERIES {
            r.on_delivered(200, 210);
            assert_eq!(steps(&r), 3);
            r.on_recovery_end();
        }
        r.on_undone_by_duplicates();
        r.on_delivered(200, 210);
        assert_eq!(steps(&r), 3, "an undone recovery holds it a little longer");
        r.on_recovery_end();
        r.on_delivered(200, 210);
        assert_eq!(steps(&r), 1);
        (0..300).for_each(|k| {
            assert!(r.on_duplicate(false, 1000));
            r.on_delivered(1000 + k, 1000 + k);
        });
        assert_eq!(steps(&r), 255);
    }
}
