//! `dctcp`: Data Center TCP (RFC 8257; Alizadeh et al., "Data Center TCP (DCTCP)", SIGCOMM 2010), as Linux's
//! `net/ipv4/tcp_dctcp.c`.
//!
//! The sender keeps alpha, the average share of marked packets. A window with a mark is followed by a reduction of
//! alpha/2, once per window of data. Everything else is NewReno's ([`reno`](super::reno)): growth, and the answer to losses.
//! It needs to know of each marked packet ([`Feedback::Changes`]). With less it is NewReno, as `dctcp_reno` in Linux.
//!
//! Fixed point as in the kernel: alpha in 1/1024.
//!
//! Departures from the kernel:
//! - The reduction uses alpha as of the acknowledgement before the one that echoes. The kernel takes that one in first.
//! - Windows and thresholds: see `cwnd`.

use super::aimd::{Aimd, NEWRENO};
use super::cwnd::Cwnd;
use crate::controller::Controller;
use crate::events::{AckInfo, LossInfo};
use crate::feedback::Feedback;
use crate::param::Param;
use crate::scheme::{Config, Scheme};
use crate::types::{Bytes, Time};

/// Registry entry.
pub const SCHEME: Scheme = Scheme {
    name: "dctcp",
    summary: "DCTCP: reduces the window by half of the share of marked packets (RFC 8257)",
    params: &[
        Param {
            name: "shift_g",
            default: 4.0,
            min: 0.0,
            max: 10.0,
            doc: "gain of alpha's average as a power of two: g = 1/2^shift_g (`dctcp_shift_g`)",
        },
        Param {
            name: "alpha_on_init",
            default: 1024.0,
            min: 0.0,
            max: 1024.0,
            doc: "alpha at the start in 1/1024 (`dctcp_alpha_on_init`)",
        },
    ],
    learned: false,
    rules: false,
    weight_above: None,
    requirement: false,
    alias_of: None,
    feedback: Feedback::Changes,
    build,
};

/// alpha of 1 (`DCTCP_MAX_ALPHA`).
const ONE: u64 = 1024;

fn build(config: &Config) -> Box<dyn Controller> {
    if config.feedback < SCHEME.feedback {
        return Box::new(Aimd::new(config, NEWRENO));
    }
    Box::new(Dctcp {
        cwnd: Cwnd::new(config),
        alpha: config.param("alpha_on_init") as u64,
        shift_g: config.param("shift_g") as u32,
        acked: 0,
        marked: 0,
        round_end: 0,
        is_repairing: false,
    })
}

struct Dctcp {
    cwnd: Cwnd,
    alpha: u64,
    shift_g: u32,
    /// Segments of this window of data that have arrived, and those of them that were marked.
    acked: u64,
    marked: u64,
    /// The window of data ends when what is before this byte is acknowledged (`next_seq`).
    round_end: u64,
    /// Losses are being repaired, and the window was halved for them.
    is_repairing: bool,
}

impl Dctcp {
    /// Takes the share of marked segments into alpha, once per window of data (RFC 8257 §3.3, `dctcp_update_alpha`).
    fn update_alpha(&mut self, ack: &AckInfo) {
        self.acked += u64::from(ack.acked_packets);
        self.marked += u64::from(ack.ecn_ce);
        if ack.snd_una < self.round_end {
            return;
        }
        // Below 2^shift_g alpha goes to zero at once (`min_not_zero`).
        let decay = if self.alpha >> self.shift_g == 0 { self.alpha } else { self.alpha >> self.shift_g };
        let share = (self.marked << (10 - self.shift_g)) / self.acked.max(1);
        self.alpha = (self.alpha - decay + share).min(ONE);
        (self.acked, self.marked, self.round_end) = (0, 0, ack.snd_nxt);
    }

    /// The window less alpha/2 of it (RFC 8257 §3.3, `dctcp_ssthresh`).
    fn reduced(&self) -> u32 {
        let window = u64::from(self.cwnd.segments());
        (window - ((window * self.alpha) >> 11)) as u32
    }
}

impl Controller for Dctcp {
    fn on_ack(&mut self, ack: &AckInfo) {
        self.update_alpha(ack);
        if self.cwnd.may_grow(ack) {
            self.cwnd.grow_as_reno(ack.acked_packets);
        }
    }

    /// A loss within a reduction for marks is answered, too (RFC 8257 §3.5, `dctcp_react_to_loss`).
    fn on_loss(&mut self, loss: &LossInfo) {
        if loss.ecn {
            if loss.new_episode {
                self.cwnd.reduce(self.reduced());
            }
        } else if loss.new_episode || !self.is_repairing {
            self.is_repairing = true;
            self.cwnd.reduce(self.cwnd.segments() / 2);
        }
    }

    fn on_recovery_end(&mut self, _now: Time, _in_flight: Bytes) {
        self.is_repairing = false;
    }

    fn on_timeout(&mut self, loss: &LossInfo) {
        let threshold = loss.new_episode.then(|| self.cwnd.segments() / 2);
        self.cwnd.collapse(loss, threshold);
    }

    linux_window!();
}

#[cfg(test)]
mod tests {
    use super::super::testing::Flow;
    use super::*;
    use crate::types::Dur;

    const RTT: Dur = Dur::from_millis(10);

    fn flow(segments: u32) -> Flow {
        let config =
            Config { initial_window: segments, slow_start: false, feedback: Feedback::Changes, ..Config::default() };
        Flow::new("dctcp", &config)
    }

    /// Acknowledges a window of data of which `marked` segments were marked.
    fn round(flow: &mut Flow, marked: u64) {
        for segment in 0..flow.window() {
            flow.ack_marked(1, u32::from(segment < marked), RTT / 100, RTT);
        }
    }

    #[test]
    fn a_mark_halves_at_first_and_takes_less_as_the_share_falls() {
        let mut flow = flow(100);
        flow.echo();
        assert_eq!(flow.window(), 50, "alpha begins at 1 (RFC 8257 §3.3)");
        flow.recovery = crate::RecoveryState::Reduction;
        // alpha = (1 - 1/16) alpha + 1/16 F: after n windows of F = 0.1 it is 0.1 + 0.9 (15/16)^n.
        for _ in 0..60 {
            round(&mut flow, 5);
        }
        let expected = 0.1 + 0.9 * (15.0_f64 / 16.0).powi(60);
        flow.echo();
        let taken = 1.0 - flow.window() as f64 / 50.0;
        assert!((taken - expected / 2.0).abs() < 0.02, "{taken} of the window for alpha = {expected}");
    }

    #[test]
    fn no_marks_bring_alpha_to_zero_and_full_marks_to_one() {
        let mut flow = flow(64);
        flow.recovery = crate::RecoveryState::Reduction;
        for _ in 0..400 {
            round(&mut flow, 0);
        }
        flow.echo();
        assert_eq!(flow.window(), 64, "alpha is zero");
        for _ in 0..400 {
            round(&mut flow, 64);
        }
        flow.echo();
        assert!(flow.window() <= 33, "alpha is one: {}", flow.window());
    }

    #[test]
    fn a_loss_halves_whatever_alpha_is() {
        let mut flow = flow(80);
        flow.recovery = crate::RecoveryState::Reduction;
        for _ in 0..400 {
            round(&mut flow, 0);
        }
        flow.lose(true);
        assert_eq!(flow.window(), 40);
    }

    #[test]
    fn without_the_feedback_it_is_newreno() {
        let mut flow = Flow::avoiding("dctcp", 40);
        for _ in 0..30 {
            flow.round(1, RTT);
        }
        let window = flow.window();
        flow.echo();
        assert_eq!(flow.window(), window / 2);
    }
}
