//! Proportional rate reduction (RFC 6937, `tcp_cwnd_reduction`): the way from the window before a loss to the one after.

/// The state of one recovery, in segments.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reduction {
    prior_window: u32,
    delivered: u32,
    sent: u32,
    window: u32,
}

impl Reduction {
    /// A recovery begins at `window` (`tcp_init_cwnd_reduction`).
    pub fn from_window(window: u32) -> Self {
        Self { prior_window: window.max(1), ..Self::default() }
    }

    /// The window for the time being.
    #[inline]
    pub fn window(&self) -> u32 {
        self.window
    }

    /// A segment was sent.
    #[inline]
    pub fn on_sent(&mut self) {
        self.sent += 1;
    }

    /// `delivered` segments have arrived, and `in_flight` remain; the window goes to `target`. `progress`: cumulatively,
    /// and nothing more was lost.
    pub fn on_delivered(&mut self, delivered: u32, in_flight: u32, target: u32, progress: bool) {
        if delivered == 0 {
            return;
        }
        self.delivered += delivered;
        let quota = if in_flight > target {
            let due = (u64::from(target) * u64::from(self.delivered)).div_ceil(u64::from(self.prior_window.max(1)));
            u32::try_from(due).unwrap_or(u32::MAX).saturating_sub(self.sent)
        } else {
            let more = self.delivered.saturating_sub(self.sent).max(delivered);
            (more + u32::from(progress)).min(target - in_flight)
        };
        // A first retransmission leaves in any case.
        self.window = in_flight + quota.max(u32::from(self.sent == 0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_loss_in_a_window_of_ten_spreads_the_reduction_over_a_round_trip() {
        let mut r = Reduction::from_window(10);
        let (mut in_flight, mut sent) = (9, 0);
        for _ in 0..9 {
            in_flight -= 1;
            r.on_delivered(1, in_flight, 5, false);
            while in_flight < r.window() {
                in_flight += 1;
                sent += 1;
                r.on_sent();
            }
        }
        assert_eq!((in_flight, sent), (5, 5));
    }

    #[test]
    fn heavy_loss_is_repaired_by_slow_start() {
        let mut r = Reduction::from_window(100);
        r.on_delivered(2, 10, 50, true);
        assert_eq!(r.window(), 13);
        r.on_delivered(0, 10, 50, true);
        assert_eq!(r.window(), 13, "nothing delivered, nothing allowed");
    }
}
