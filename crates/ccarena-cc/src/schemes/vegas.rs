//! `vegas`: TCP Vegas (Brakmo and Peterson, IEEE JSAC 13(8), 1995), as Linux's `net/ipv4/tcp_vegas.c`.
//!
//! Once per round trip, Diff = window · (RTT - baseRTT) / baseRTT estimates the segments queued at the bottleneck; the
//! window moves by one segment to keep it between alpha and beta, and slow start ends above gamma. As the kernel says of
//! itself: loss recovery is Linux's own, slow start grows in every round trip, the RTT is the smallest of the round
//! trip (delayed acknowledgements), and an idle flow starts measuring anew.
//!
//! RTTs are in microseconds plus one, as in the kernel, which keeps them above zero.
//!
//! Departures from the kernel:
//! - The Disorder state, in which the kernel falls back to Reno, is not visible here.
//! - Diff is computed in 64 bits; the kernel's 32 overflow where window times queueing delay is above 2^32 us.
//! - Windows and thresholds: see `cwnd`.

use super::cwnd::Cwnd;
use crate::controller::Controller;
use crate::events::{AckInfo, LossInfo, RecoveryState, SentInfo};
use crate::feedback::Feedback;
use crate::param::Param;
use crate::scheme::{Config, Scheme};
use crate::types::{Bytes, Dur};

/// Registry entry.
pub const SCHEME: Scheme = Scheme {
    name: "vegas",
    summary: "Vegas: keeps a few segments queued, as Linux does it (JSAC 13(8), 1995)",
    params: &[
        Param { name: "alpha", default: 2.0, min: 0.0, max: 1e4, doc: "fewest segments queued (`alpha`)" },
        Param { name: "beta", default: 4.0, min: 0.0, max: 1e4, doc: "most segments queued (`beta`)" },
        Param { name: "gamma", default: 1.0, min: 0.0, max: 1e4, doc: "segments queued that end slow start (`gamma`)" },
    ],
    learned: false,
    rules: false,
    weight_above: None,
    requirement: false,
    alias_of: None,
    feedback: Feedback::None,
    build: |config| Box::new(Vegas::new(config)),
};

/// "No RTT yet" (`0x7fffffff` in the kernel).
const UNKNOWN: u64 = 0x7fff_ffff;
/// Largest number of samples in a round trip that may all be of delayed acknowledgements.
const FEW_SAMPLES: u32 = 2;

struct Vegas {
    cwnd: Cwnd,
    /// Congestion is sought by delay (`doing_vegas_now`); if not, the window grows as Reno's.
    enabled: bool,
    /// No recovery, as of the last event (`TCP_CA_Open`).
    open: bool,
    /// The round trip ends when what follows this byte is acknowledged (`beg_snd_nxt`).
    round_end: u64,
    /// RTT samples of the round trip (`cntRTT`) and their minimum (`minRTT`), in us.
    samples: u32,
    round_rtt: u64,
    /// Smallest RTT since the start or the last idle time (`baseRTT`), in us.
    base_rtt: u64,
    alpha: u64,
    beta: u64,
    gamma: u64,
}

impl Vegas {
    /// `tcp_vegas_init`.
    fn new(config: &Config) -> Self {
        Self {
            cwnd: Cwnd::new(config),
            enabled: true,
            open: true,
            round_end: 0,
            samples: 0,
            round_rtt: UNKNOWN,
            base_rtt: UNKNOWN,
            alpha: config.param("alpha") as u64,
            beta: config.param("beta") as u64,
            gamma: config.param("gamma") as u64,
        }
    }

    /// `vegas_enable`: the next round trip begins at `snd_nxt`, and no RTT of an earlier one counts.
    fn enable(&mut self, snd_nxt: u64) {
        self.enabled = true;
        self.begin_round(snd_nxt);
    }

    fn begin_round(&mut self, snd_nxt: u64) {
        self.round_end = snd_nxt;
        self.samples = 0;
        self.round_rtt = UNKNOWN;
    }

    /// `tcp_vegas_pkts_acked`.
    fn sample(&mut self, rtt: Dur) {
        let rtt = rtt.as_micros() + 1;
        self.base_rtt = self.base_rtt.min(rtt);
        self.round_rtt = self.round_rtt.min(rtt);
        self.samples += 1;
    }

    /// `tcp_vegas_state` on leaving Open.
    fn disable(&mut self) {
        self.enabled = false;
        self.open = false;
    }

    /// The round trip's decision (`tcp_vegas_cong_avoid` with samples enough).
    fn decide(&mut self, acked: u32) {
        let window = u64::from(self.cwnd.segments());
        // What would be in flight at this rate without a queue, and what is queued: the papers' Diff.
        let target = window * self.base_rtt / self.round_rtt;
        let diff = window * (self.round_rtt - self.base_rtt) / self.base_rtt;
        if self.cwnd.in_slow_start() {
            if diff > self.gamma {
                // One more, since integer truncation would leave the link a little idle.
                self.cwnd.lower_to(window.min(target + 1) as u32);
            } else {
                self.cwnd.slow_start(acked);
            }
        } else if diff > self.beta {
            self.cwnd.lower_to((window - 1) as u32);
        } else if diff < self.alpha {
            self.cwnd.grow(1);
        }
        self.cwnd.raise_threshold();
    }
}

impl Controller for Vegas {
    fn on_ack(&mut self, ack: &AckInfo) {
        if let Some(rtt) = ack.rtt {
            self.sample(rtt);
        }
        if !self.open && ack.recovery == RecoveryState::Open {
            self.open = true;
            self.enable(ack.snd_nxt);
        }
        if !self.cwnd.may_raise(ack) {
            return;
        }
        let ends_round = ack.snd_una > self.round_end;
        if self.enabled && !ends_round {
            if self.cwnd.in_slow_start() {
                self.cwnd.slow_start(ack.acked_packets);
            }
        } else if !self.enabled || self.samples <= FEW_SAMPLES {
            if self.cwnd.is_limiting(ack) {
                self.cwnd.grow_as_reno(ack.acked_packets);
            }
        } else {
            self.decide(ack.acked_packets);
        }
        if self.enabled && ends_round {
            self.begin_round(ack.snd_nxt);
        }
    }

    fn on_loss(&mut self, loss: &LossInfo) {
        if loss.new_episode {
            self.cwnd.reduce(self.cwnd.segments() / 2);
            self.disable();
        }
    }

    fn on_timeout(&mut self, loss: &LossInfo) {
        let threshold = loss.new_episode.then(|| self.cwnd.segments() / 2);
        self.cwnd.collapse(loss, threshold);
        self.disable();
    }

    /// The first packet after idle times starts over (`tcp_vegas_cwnd_event`, `CA_EVENT_TX_START`).
    fn on_sent(&mut self, sent: &SentInfo) {
        if sent.prior_in_flight == Bytes(0) {
            self.base_rtt = UNKNOWN;
            self.enable(sent.snd_nxt);
        }
    }

    linux_window!();
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Flow, Path};
    use super::*;

    const RTT: Dur = Dur::from_millis(50);

    /// Returns a flow in congestion avoidance at `segments`, the first round trip measured without a queue.
    fn measured(segments: u32) -> Flow {
        let mut flow = Flow::avoiding("vegas", segments);
        flow.round(1, RTT);
        flow
    }

    /// Returns the change in a round trip with `queued` segments of a window of 40 in the queue.
    fn change(queued: f64) -> i64 {
        let mut flow = measured(40);
        flow.round(1, RTT);
        let before = flow.window();
        let rtt = Dur::from_secs_f64(RTT.as_secs_f64() * (1.0 + (queued + 0.1) / before as f64));
        // The round trip in progress still holds samples without a queue.
        flow.round(1, rtt);
        let before = flow.window();
        flow.round(1, rtt);
        flow.window() as i64 - before as i64
    }

    #[test]
    fn the_window_moves_by_a_segment_outside_alpha_to_beta() {
        assert_eq!((change(0.0), change(1.0)), (1, 1));
        assert_eq!((change(2.0), change(3.0), change(4.0)), (0, 0, 0));
        assert_eq!((change(5.0), change(20.0)), (-1, -1));
    }

    #[test]
    fn between_two_and_four_segments_queue() {
        for mbps in [5.0, 20.0, 50.0] {
            let mut path = Path::new("vegas", &Config::default(), mbps, RTT);
            let queue = path.mean_queue_packets(120.0);
            assert!((2.0..=5.0).contains(&queue), "{queue} packets at {mbps} Mbit/s");
            assert!(path.utilisation() > 0.99, "{} at {mbps} Mbit/s", path.utilisation());
        }
    }

    #[test]
    fn slow_start_ends_when_more_than_gamma_queue() {
        let mut flow = Flow::new("vegas", &Config::default());
        for _ in 0..3 {
            flow.round(1, RTT);
        }
        assert_eq!(flow.window(), 80);
        flow.ack(1, RTT, RTT + RTT / 4);
        for _ in 0..4 {
            flow.round(1, RTT + RTT / 4);
        }
        // 4/5 of the window is what the rate fills without a queue.
        assert!(flow.threshold() < 1000, "{}", flow.threshold());
    }

    #[test]
    fn few_samples_grow_as_reno() {
        // Two acknowledgements per round trip, and a queue that Vegas would shrink for.
        let mut flow = measured(40);
        let before = flow.window();
        for _ in 0..10 {
            flow.round(20, RTT * 2);
        }
        assert!(flow.window() > before, "{} from {before}", flow.window());
    }

    #[test]
    fn a_loss_or_an_echo_halves_and_delay_counts_again_once_it_is_over() {
        for ecn in [false, true] {
            let mut flow = measured(40);
            let before = flow.window();
            if ecn {
                flow.echo();
            } else {
                flow.lose(true);
                flow.lose(false);
            }
            assert_eq!((flow.window(), flow.threshold()), (before / 2, before / 2));
            flow.recovery = if ecn { RecoveryState::Reduction } else { RecoveryState::Recovery };
            flow.round(1, RTT);
            assert_eq!(flow.window(), before / 2);
            flow.recovery = RecoveryState::Open;
            // The first round trip only measures; then a queue shrinks the window.
            flow.round(1, RTT * 2);
            for _ in 0..3 {
                flow.round(1, RTT * 2);
            }
            assert!(flow.window() < before / 2, "{}", flow.window());
        }
    }

    #[test]
    fn after_a_timeout_growth_is_renos_until_recovery_ends() {
        let mut flow = measured(40);
        flow.time_out(true);
        assert_eq!(flow.window(), 1);
        flow.recovery = RecoveryState::Loss;
        for expected in [2, 4, 8, 16, 20] {
            flow.round(1, RTT * 3);
            assert_eq!(flow.window(), expected);
        }
        flow.controller.on_spurious_loss(flow.now);
        assert!(flow.window() >= 40);
    }

    #[test]
    fn an_idle_flow_measures_its_base_rtt_anew() {
        let shrinks = |idle: bool| {
            let mut flow = measured(40);
            flow.send(if idle { Bytes(0) } else { Bytes(1) });
            // The path is now twice as long.
            for _ in 0..6 {
                flow.round(1, RTT * 2);
            }
            flow.window() < 40
        };
        assert!(shrinks(false) && !shrinks(true));
    }
}
