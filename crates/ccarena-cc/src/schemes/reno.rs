//! `reno`: NewReno, RFC 5681 and RFC 6582, as Linux's `tcp_reno_cong_avoid` and `tcp_reno_ssthresh`.
//!
//! Slow start grows by one segment per acknowledged segment, congestion avoidance by one per window of them; a loss
//! episode halves. RFC 6582's partial acknowledgements are the transport's. `abe` is FreeBSD's option
//! (`net.inet.tcp.cc.abe`); Linux has none. Departures: see `cwnd`.

use super::aimd::{ABE, Aimd, NEWRENO};
use crate::feedback::Feedback;
use crate::scheme::Scheme;

/// Registry entry.
pub const SCHEME: Scheme = Scheme {
    name: "reno",
    summary: "NewReno: slow start and additive increase, halved by a loss episode (RFC 5681, RFC 6582)",
    params: &[ABE],
    learned: false,
    rules: false,
    weight_above: None,
    requirement: false,
    alias_of: None,
    feedback: Feedback::None,
    build: |config| Box::new(Aimd::new(config, NEWRENO)),
};

#[cfg(test)]
mod tests {
    use super::super::testing::{Flow, MSS};
    use crate::events::RecoveryState;
    use crate::scheme::Config;
    use crate::types::{Bytes, Dur, Time};

    const RTT: Dur = Dur::from_millis(50);

    #[test]
    fn slow_start_doubles_per_round_trip_up_to_the_threshold() {
        let mut flow = Flow::new("reno", &Config::default());
        for expected in [20, 40, 80] {
            flow.round(2, RTT);
            assert_eq!(flow.window(), expected);
        }
        flow.lose(true);
        flow.time_out(true);
        assert_eq!((flow.window(), flow.threshold()), (1, 20), "40 by the loss, then 20 by the timeout");
        for expected in [2, 4, 8, 16, 20] {
            flow.round(1, RTT);
            assert_eq!(flow.window(), expected);
        }
    }

    #[test]
    fn avoidance_adds_a_segment_per_round_trip_whatever_the_acknowledgements_cover() {
        for per_ack in [1, 2, 5] {
            let mut flow = Flow::avoiding("reno", 10);
            // Ten windows of segments are 10 + 11 + ... + 19 = 145.
            for _ in 0..150 / per_ack {
                flow.ack(per_ack, RTT / 10, RTT);
            }
            assert_eq!(flow.window(), 20, "{per_ack} segments per acknowledgement");
        }
    }

    #[test]
    fn a_loss_episode_halves_once_and_growth_pauses_until_it_ends() {
        let mut flow = Flow::avoiding("reno", 21);
        flow.lose(true);
        flow.lose(false);
        assert_eq!((flow.window(), flow.threshold()), (10, 10));
        flow.recovery = RecoveryState::Recovery;
        flow.round(1, RTT);
        assert_eq!(flow.window(), 10);
        flow.recovery = RecoveryState::Open;
        flow.round(1, RTT);
        assert_eq!(flow.window(), 11);
    }

    #[test]
    fn with_abe_an_echo_takes_a_fifth_and_a_loss_a_half() {
        let params = [("abe".to_string(), 1.0)].into();
        let config = Config { params, initial_window: 100, slow_start: false, ..Config::default() };
        let mut flow = Flow::new("reno", &config);
        flow.echo();
        assert_eq!(flow.window(), 80, "RFC 8511 §3.1");
        flow.lose(true);
        assert_eq!(flow.window(), 40);
        let mut plain = Flow::avoiding("reno", 100);
        plain.echo();
        assert_eq!(plain.window(), 50, "RFC 3168 §6.1.2");
    }

    #[test]
    fn the_threshold_stays_at_two_segments() {
        let mut flow = Flow::avoiding("reno", 3);
        flow.lose(true);
        flow.lose(true);
        assert_eq!((flow.window(), flow.threshold()), (2, 2));
    }

    #[test]
    fn a_timeout_reduces_the_threshold_once_per_episode() {
        let mut flow = Flow::avoiding("reno", 40);
        flow.time_out(true);
        flow.time_out(false);
        assert_eq!((flow.window(), flow.threshold()), (1, 20));
        flow.controller.on_spurious_loss(flow.now);
        assert_eq!((flow.window(), flow.threshold()), (40, 40));
        flow.controller.on_spurious_loss(flow.now);
        assert_eq!(flow.window(), 40, "an undo counts once");
    }

    #[test]
    fn only_a_window_that_limits_grows() {
        let mut flow = Flow::avoiding("reno", 10);
        flow.cwnd_limited = false;
        flow.round(1, RTT);
        flow.round(1, RTT);
        assert_eq!(flow.window(), 10);
    }

    #[test]
    fn idleness_halves_per_timeout_down_to_the_initial_window() {
        let rto = Dur::from_millis(200);
        for (idle_ms, expected) in [(200, 80), (201, 40), (401, 20), (601, 10), (60_000, 10)] {
            let mut flow = Flow::new("reno", &Config::default());
            for _ in 0..3 {
                flow.round(1, RTT);
            }
            flow.controller.on_idle_restart(Time::ZERO, Dur::from_millis(idle_ms), rto);
            assert_eq!(flow.window(), expected, "idle for {idle_ms} ms");
            assert_eq!(flow.controller.window(), Bytes(expected * MSS));
        }
    }
}
