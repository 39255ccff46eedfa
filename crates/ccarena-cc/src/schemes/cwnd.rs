//! The window of loss-based schemes, in segments: growth, reduction, undo and restart as Linux's TCP does them.
//!
//! RFC 5681 gives the rules; where it leaves a choice, or Linux makes another, this follows Linux:
//! - Growth counts acknowledged segments, so delayed acknowledgements do not slow it (RFC 3465 with no limit L).
//! - Only an acknowledgement that advances `snd_una` grows the window (`tcp_may_raise_cwnd` without reordering).
//! - Reduction starts from the window, where RFC 5681 equation (4) takes the flight size.
//!
//! Departures from Linux:
//! - `tcp_is_cwnd_limited` compares with the largest flight of the last round trip in slow start; this takes the
//!   flight before the acknowledgement, which is what the controller sees.
//! - A window left partly unused by the application for long does not decay (RFC 2861, `tcp_cwnd_application_limited`).

use crate::events::{AckInfo, LossInfo};
use crate::scheme::Config;
use crate::types::{Bytes, Dur};

/// "No threshold yet" (`TCP_INFINITE_SSTHRESH`).
const INFINITE: u32 = 0x7fff_ffff;
/// No window grows beyond this many segments (`snd_cwnd_clamp`).
const CLAMP: u32 = 1 << 24;

/// Congestion window and slow-start threshold.
#[derive(Clone, Debug)]
pub(crate) struct Cwnd {
    segments: u32,
    threshold: u32,
    /// Data acknowledged since the window last grew in congestion avoidance (`snd_cwnd_cnt`), in the caller's unit.
    credit: u64,
    /// State before the last reduction, for undoing it.
    prior: Option<Prior>,
    snd_una: u64,
    initial: u32,
    mss: u64,
}

#[derive(Clone, Copy, Debug)]
struct Prior {
    segments: u32,
    threshold: u32,
}

impl Cwnd {
    pub(crate) fn new(config: &Config) -> Self {
        let initial = config.initial_window.clamp(1, CLAMP);
        let fresh = if config.slow_start { INFINITE } else { initial };
        Self {
            segments: initial,
            threshold: config.carried.map_or(fresh, |carried| carried.threshold.max(2)),
            credit: 0,
            prior: None,
            snd_una: 0,
            initial: config.carried.map_or(initial, |carried| carried.restart_window.max(1)),
            mss: u64::from(config.mss.max(1)),
        }
    }

    pub(crate) fn segments(&self) -> u32 {
        self.segments
    }

    pub(crate) fn bytes(&self) -> Bytes {
        Bytes(u64::from(self.segments) * self.mss)
    }

    pub(crate) fn threshold_bytes(&self) -> Bytes {
        Bytes(u64::from(self.threshold) * self.mss)
    }

    pub(crate) fn mss(&self) -> u64 {
        self.mss
    }

    /// `tcp_in_slow_start`.
    #[inline]
    pub(crate) fn in_slow_start(&self) -> bool {
        self.segments < self.threshold
    }

    /// Slow start ends here (HyStart).
    pub(crate) fn end_slow_start(&mut self) {
        self.threshold = self.segments;
    }

    /// The scheme lowers the window itself, to two segments at the lowest, and the threshold with it
    /// (`tcp_vegas_ssthresh`).
    pub(crate) fn lower_to(&mut self, segments: u32) {
        self.segments = segments.clamp(2, CLAMP);
        self.threshold = self.threshold.min(self.segments);
    }

    /// The window times `factor`, rounded; raised to `most` segments at most, and not below two segments, or one if it is there. Whoever shrinks it does not mean
    /// slow start to bring it back, so the threshold follows down; nor the undoing of an earlier reduction. False if that
    /// leaves the window as it is.
    #[cfg(feature = "policies")]
    pub(crate) fn scale(&mut self, factor: f64, most: u32) -> bool {
        let most = most.clamp(self.segments, CLAMP.max(self.segments));
        let scaled = ((f64::from(self.segments) * factor).round() as u32).clamp(self.segments.min(2), most);
        if scaled == self.segments {
            return false;
        }
        if scaled < self.segments {
            self.threshold = self.threshold.min(scaled.max(2));
        }
        self.segments = scaled;
        self.credit = 0;
        self.prior = None;
        true
    }

    /// Sets the window to `bytes`.
    pub(crate) fn set_bytes(&mut self, bytes: Bytes) {
        self.segments = u32::try_from(bytes.0 / self.mss).unwrap_or(CLAMP).clamp(1, CLAMP);
    }

    /// Multiplies the window by `factor`, but lifts it to no more than `most` segments, and leaves the rest as it is: below
    /// the threshold slow start goes on.
    #[cfg(feature = "policies")]
    pub(crate) fn set_alone(&mut self, factor: f64, most: u32) {
        let most = most.clamp(self.segments, CLAMP.max(self.segments));
        self.segments = ((f64::from(self.segments) * factor).round() as u32).clamp(self.segments.min(2), most);
    }

    /// The threshold follows a window that has outgrown it.
    pub(crate) fn raise_threshold(&mut self) {
        self.threshold = self.current_threshold();
    }

    /// Returns whether `ack` may grow the window: [`may_raise`](Self::may_raise) and
    /// [`is_limiting`](Self::is_limiting).
    #[inline]
    pub(crate) fn may_grow(&mut self, ack: &AckInfo) -> bool {
        self.may_raise(ack) && self.is_limiting(ack)
    }

    /// `ack` makes progress, and the window is not on its way down (`tcp_may_raise_cwnd`, `tcp_in_cwnd_reduction`).
    #[inline]
    pub(crate) fn may_raise(&mut self, ack: &AckInfo) -> bool {
        let advanced = ack.snd_una > self.snd_una;
        self.snd_una = ack.snd_una;
        advanced && !ack.recovery.reducing()
    }

    /// The window is what limited sending (`tcp_is_cwnd_limited`).
    #[inline]
    pub(crate) fn is_limiting(&self, ack: &AckInfo) -> bool {
        ack.cwnd_limited || (self.in_slow_start() && self.bytes() < ack.prior_in_flight * 2)
    }

    /// Slow start, then one segment per window of acknowledged ones (`tcp_reno_cong_avoid`).
    #[inline]
    pub(crate) fn grow_as_reno(&mut self, acked: u32) {
        self.grow_by(acked, 1, 1);
    }

    /// Slow start, then `parts` out of `whole` of a segment per window of acknowledged ones.
    #[inline]
    pub(crate) fn grow_by(&mut self, acked: u32, parts: u64, whole: u64) {
        let left = if self.in_slow_start() { self.slow_start(acked) } else { acked };
        if left > 0 {
            self.additive_increase(u64::from(self.segments) * whole, u64::from(left) * parts);
        }
    }

    /// Grows by `acked` segments up to the threshold and returns those left over (`tcp_slow_start`).
    #[inline]
    pub(crate) fn slow_start(&mut self, acked: u32) -> u32 {
        let grown = self.segments.saturating_add(acked).min(self.threshold).min(CLAMP);
        let left = acked.saturating_sub(grown - self.segments);
        self.segments = grown;
        left
    }

    /// Grows by one segment for each `per_growth` of `acked`, in one unit (`tcp_cong_avoid_ai` counts segments).
    #[inline]
    pub(crate) fn additive_increase(&mut self, per_growth: u64, acked: u64) {
        let per_growth = per_growth.max(1);
        if self.credit >= per_growth {
            self.credit = 0;
            self.grow(1);
        }
        self.credit = self.credit.saturating_add(acked);
        if self.credit >= per_growth {
            let growth = self.credit / per_growth;
            self.credit -= growth * per_growth;
            self.grow(u32::try_from(growth).unwrap_or(CLAMP));
        }
    }

    /// Grows by `by` segments.
    pub(crate) fn grow(&mut self, by: u32) {
        self.segments = self.segments.saturating_add(by).min(CLAMP);
    }

    /// Fast recovery begins: the window falls to `threshold` (`tcp_init_cwnd_reduction`; the way there is the
    /// transport's proportional rate reduction).
    pub(crate) fn reduce(&mut self, threshold: u32) {
        self.remember();
        self.threshold = threshold.max(2);
        self.segments = self.segments.min(self.threshold);
        self.credit = 0;
    }

    /// A retransmission timeout: one segment more than what is still in flight, and the threshold falls to `threshold`
    /// if one is given, which is at the first timeout of an episode (`tcp_enter_loss`).
    pub(crate) fn collapse(&mut self, loss: &LossInfo, threshold: Option<u32>) {
        if let Some(threshold) = threshold {
            self.remember();
            self.threshold = threshold.max(2);
        }
        let flight = u32::try_from(loss.in_flight.0.div_ceil(self.mss)).unwrap_or(CLAMP);
        self.segments = flight.saturating_add(1).min(self.segments);
        self.credit = 0;
    }

    fn remember(&mut self) {
        self.prior = Some(Prior { segments: self.segments, threshold: self.current_threshold() });
    }

    /// `tcp_current_ssthresh`: three quarters of a window that has outgrown the threshold.
    fn current_threshold(&self) -> u32 {
        self.threshold.max((self.segments >> 1) + (self.segments >> 2))
    }

    /// The last reduction was unwarranted (`tcp_undo_cwnd_reduction`, `tcp_reno_undo_cwnd`).
    pub(crate) fn undo(&mut self) {
        if let Some(prior) = self.prior.take() {
            self.segments = self.segments.max(prior.segments);
            self.threshold = self.threshold.max(prior.threshold);
        }
    }

    /// Restart after idle: halve for each `rto` passed, down to the restart window (RFC 5681 section 4.1 restarts from
    /// there at once; the decay is `tcp_cwnd_restart`, RFC 2861).
    pub(crate) fn restart(&mut self, idle: Dur, rto: Dur) {
        if idle <= rto {
            return;
        }
        self.threshold = self.current_threshold();
        let floor = self.initial.min(self.segments);
        let halvings = ((idle.0 - 1) / rto.0.max(1)).min(31) as u32;
        self.segments = (self.segments >> halvings).max(floor);
        self.credit = 0;
    }
}
