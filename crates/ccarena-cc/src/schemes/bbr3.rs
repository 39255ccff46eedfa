//! `bbr3`: BBR version 3 (draft-ietf-ccwg-bbr-06, "BBR Congestion Control"). Section numbers (§) are the draft's, and so
//! are the names of functions and variables, without their prefixes and in Rust's case.
//!
//! Version 1's model, bandwidth and minimum RTT, gets bounds on the flight: a long-term one that probing finds with at
//! most 2 % of loss (`inflight_longterm`), and short-term ones that every loss lowers between probes (`bw_shortterm`,
//! `inflight_shortterm`). Probes are rare enough for Reno and CUBIC to coexist.
//!
//! Files: `sample` (packets under way and their acknowledgements), `path` (rounds, bandwidth, aggregation), `startup`
//! (and drain), `probe_bw`, `probe_rtt`, `congestion` (losses, marks, undo), `control` (pacing rate, quantum, window).
//!
//! Departures from the draft, the first four as in Linux's v3 tree (github.com/google/bbr, `net/ipv4/tcp_bbr.c`):
//! - Marks cut `inflight_shortterm` by a third of their smoothed share; the draft leaves the answer open (§3.7). They
//!   end a probe when more than half of a flight is marked, and end Startup after two such rounds. Linux does so up to
//!   5 ms of RTT only, with an exact echo. Here it happens at any RTT. Shares are exact with AccECN; the echo of RFC 3168
//!   lasts until the sender answers, which overstates them. Linux probes again as soon as marks cease; here the next
//!   regular probe comes.
//! - After a timeout `inflight_shortterm` starts from the window before it (`bbr_set_state`), not from the one segment left.
//! - A loss that a tail-loss probe has repaired counts as one lost segment (`bbr_run_loss_probe_recovery`).
//! - The state for undoing a spurious recovery is saved when recovery begins, as in Linux. The draft saves it at the
//!   first loss of every round (`NoteLoss`), which would overwrite it within the episode.
//! - `lost_prefix` (§5.5.10.2) is not negative, as in Linux: the loss rate may have been too high before the packet.
//! - The test whether the flight has reached `inflight_longterm` (§5.3.3.9) uses the flight before the acknowledgement,
//!   as in Linux: a window that is full at the bound is below it afterwards.
//! - The controller does not know whether acknowledgements are selective: the rules for selective ones always apply.
//! - The initial pacing rate is computed again from the first RTT sample, as in Linux: the draft computes it once.
//! - An acknowledgement without a delivery-rate sample moves the window alone.
//! - A cycle that ProbeRTT ends advances the bandwidth filter (§5.5.6), too. The draft and Linux skip the advance if
//!   the cycle's last sample is limited, even by ProbeRTT alone. In a deep queue, as after a fall of the capacity, five
//!   round trips take longer than ProbeRTT's interval. ProbeRTT then ends every cycle, and the filter would keep the
//!   old rate and the queue for ever. The draft's own test ("Decreasing Bandwidth 10x") requires that the filter
//!   forgets. Behind more than some five seconds of queue it still does not, as in the draft and in Linux: every packet
//!   is then sent within a round trip of a ProbeRTT, so every sample is limited, and ProbeRTT interrupts the round whose
//!   end would advance the filter.
//! - Without slow start the flow begins in ProbeBW with the pipe taken as full; the draft has no such mode.
//!
//! Where Linux departs from the draft, the draft is followed:
//!
//! - DRAIN paces at 0.5 (0.35 in Linux), DOWN at 0.9 (0.91), and DRAIN lasts three rounds at most;
//! - flights are compared as they are (not as of the next departure);
//! - aggregation is not bounded by 100 ms;
//! - a sample without round does not reset the full-pipe estimator;
//! - bursts do not grow at small RTTs.

mod congestion;
mod control;
mod path;
mod probe_bw;
mod probe_rtt;
mod sample;
mod startup;

use self::congestion::{Ecn, ShortTerm, Undo};
use self::control::Control;
use self::path::{Aggregation, MaxBw, Rounds};
use self::probe_bw::Probe;
use self::probe_rtt::MinRtt;
use self::sample::{Packets, Sample};
use self::startup::{FullBw, StartupLoss};
use crate::controller::{Controller, PacketTracker, TransportNeeds};
use crate::events::{AckInfo, LossInfo, SentInfo};
use crate::feedback::Feedback;
use crate::scheme::{Config, Scheme};
use crate::types::{Bytes, Dur, Rate, Time};

/// Registry entry.
pub const SCHEME: Scheme = Scheme {
    name: "bbr3",
    summary: "BBR version 3: a model of the path, and bounds on the flight by loss (draft-ietf-ccwg-bbr-06)",
    params: &[],
    learned: false,
    rules: false,
    weight_above: None,
    requirement: false,
    alias_of: None,
    feedback: Feedback::None,
    build: |config| Box::new(Bbr3::new(config)),
};

/// Bytes per second.
type Bandwidth = f64;

/// No bound on a volume of data.
const INFINITE: u64 = u64::MAX;
/// `BBR.LossThresh`: the loss rate of a round trip that is too high.
const LOSS_THRESH: f64 = 0.02;
/// `BBR.Beta`: what a round trip with losses leaves of the short-term model at least.
const BETA: f64 = 0.7;
/// `BBR.Headroom`: the share of `inflight_longterm` that is left to others.
const HEADROOM: f64 = 0.15;
/// `BBR.MinPipeCwnd` in segments: keeps a receiver that acknowledges every other packet supplied.
const MIN_PIPE_SEGMENTS: u64 = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Startup,
    Drain,
    ProbeBwDown,
    ProbeBwCruise,
    ProbeBwRefill,
    ProbeBwUp,
    ProbeRtt,
}

impl State {
    /// `BBR.pacing_gain` and `BBR.cwnd_gain` (§5.6.1).
    const fn gains(self) -> (f64, f64) {
        match self {
            Self::Startup => (2.77, 2.0),
            Self::Drain => (0.5, 2.0),
            Self::ProbeBwDown => (0.9, 2.0),
            Self::ProbeBwCruise | Self::ProbeBwRefill => (1.0, 2.0),
            Self::ProbeBwUp => (1.25, 2.25),
            Self::ProbeRtt => (1.0, 0.5),
        }
    }

    /// `IsInAProbeBWState`.
    const fn is_probe_bw(self) -> bool {
        matches!(self, Self::ProbeBwDown | Self::ProbeBwCruise | Self::ProbeBwRefill | Self::ProbeBwUp)
    }

    /// `IsProbingBW`: sending faster to see whether it is delivered faster, which losses do not slow down at once.
    const fn is_probing(self) -> bool {
        matches!(self, Self::Startup | Self::ProbeBwRefill | Self::ProbeBwUp)
    }
}

struct Bbr3 {
    state: State,
    /// The transport's counters at the last event (`C`).
    now: Time,
    delivered: u64,
    in_flight: u64,
    smss: u64,
    initial_cwnd: u64,

    packets: Packets,
    rounds: Rounds,
    max_bw: MaxBw,
    /// `min(max_bw, bw_shortterm)`.
    bw: Bandwidth,
    min_rtt: MinRtt,
    aggregation: Aggregation,
    full_bw: FullBw,
    startup_loss: StartupLoss,
    /// The round in which Drain began.
    drain_start_round: u64,
    inflight_longterm: u64,
    probe: Probe,
    short_term: ShortTerm,
    ecn: Ecn,
    undo: Undo,
    control: Control,
    /// The flow resumes from idle: no ProbeRTT until something is acknowledged.
    idle_restart: bool,
}

impl Bbr3 {
    /// `OnInit` (§5.2.1).
    fn new(config: &Config) -> Self {
        let smss = u64::from(config.mss.max(1));
        let initial_cwnd = u64::from(config.initial_window.max(1)) * smss;
        let mut bbr = Self {
            state: State::Startup,
            now: Time::ZERO,
            delivered: 0,
            in_flight: 0,
            smss,
            initial_cwnd,
            packets: Packets::default(),
            rounds: Rounds::default(),
            max_bw: MaxBw::default(),
            bw: 0.0,
            min_rtt: MinRtt::default(),
            aggregation: Aggregation::default(),
            full_bw: FullBw::default(),
            startup_loss: StartupLoss::default(),
            drain_start_round: 0,
            inflight_longterm: INFINITE,
            probe: Probe::new(config.seed),
            short_term: ShortTerm::default(),
            ecn: Ecn::default(),
            undo: Undo::default(),
            control: Control::new(initial_cwnd),
            idle_restart: false,
        };
        // The nominal RTT before there is a sample.
        bbr.init_pacing_rate(Dur::from_millis(1));
        if !config.slow_start {
            bbr.full_bw.reached = true;
            bbr.start_probe_bw_down();
        }
        bbr
    }

    /// `UpdateModelAndState` (§5.2.3).
    fn update_model_and_state(&mut self, rs: &Sample, ack: &AckInfo) {
        self.update_latest_delivery_signals(rs);
        self.update_congestion_signals(rs, ack);
        self.update_ack_aggregation(rs);
        self.check_full_bw_reached(rs);
        self.check_startup_done(rs, ack);
        self.check_drain_done();
        self.update_probe_bw_cycle_phase(rs, ack);
        self.update_min_rtt(rs);
        self.check_probe_rtt(rs);
        self.advance_latest_delivery_signals(rs);
        self.bw = self.max_bw.get().min(self.short_term.bw);
    }

    /// `HandleRestartFromIdle` (§5.4.1).
    fn handle_restart_from_idle(&mut self, app_limited: bool) {
        if self.in_flight > 0 || !app_limited {
            return;
        }
        self.idle_restart = true;
        self.aggregation.restart(self.now);
        if self.state.is_probe_bw() {
            self.set_pacing_rate_with_gain(1.0);
        } else if self.state == State::ProbeRtt {
            self.check_probe_rtt_done();
        }
    }
}

impl Controller for Bbr3 {
    /// `UpdateOnACK` (§5.2.3).
    fn on_ack(&mut self, ack: &AckInfo) {
        self.now = ack.now;
        self.delivered = ack.delivered.0;
        self.in_flight = ack.in_flight.0;
        let rs = self.generate_rate_sample(ack);
        self.update_model_and_state(&rs, ack);
        self.set_pacing_rate(ack.srtt);
        self.set_send_quantum();
        self.set_cwnd(&rs);
    }

    /// `OnEnterFastRecovery` (§5.6.4.4) and `HandleLostPacket` (§5.5.10.2) for each lost packet.
    fn on_loss(&mut self, loss: &LossInfo) {
        self.follow(loss);
        if loss.ecn {
            // An echo is one of the marks that acknowledgements count.
            return;
        }
        self.enter_recovery();
        if loss.lost_packets == 0 {
            self.handle_loss_repaired_by_probe();
        }
        self.handle_lost_packets();
    }

    /// `OnEnterRTO` (§5.6.4.4).
    fn on_timeout(&mut self, loss: &LossInfo) {
        self.follow(loss);
        self.enter_recovery();
        self.full_bw.reset();
        if !self.state.is_probing() && self.short_term.inflight == INFINITE {
            self.short_term.inflight = self.control.cwnd.max(self.control.prior_cwnd);
        }
        self.handle_lost_packets();
        self.control.cwnd = (self.in_flight + self.smss).min(self.control.cwnd);
    }

    /// `OnTransmit` (§5.2.2) and `OnPacketSent` (§4.1.2.2).
    fn on_sent(&mut self, sent: &SentInfo) {
        self.now = sent.now;
        self.in_flight = sent.prior_in_flight.0;
        self.handle_restart_from_idle(sent.app_limited || self.packets.held_back());
        self.packets.on_sent(sent);
    }

    /// `HandleSpuriousLossDetection` (§5.5.11.2).
    fn on_spurious_loss(&mut self, now: Time) {
        self.now = now;
        self.handle_spurious_loss_detection();
    }

    fn on_recovery_end(&mut self, now: Time, in_flight: Bytes) {
        self.now = now;
        self.in_flight = in_flight.0;
        if std::mem::take(&mut self.control.in_recovery) {
            self.restore_cwnd();
        }
    }

    fn window(&self) -> Bytes {
        Bytes(self.control.cwnd)
    }

    fn pacing_rate(&self) -> Option<Rate> {
        Some(self.control.pacing_rate)
    }

    fn transport(&self) -> TransportNeeds {
        TransportNeeds { owns_recovery: true, ..TransportNeeds::default() }
    }

    fn packet_tracker(&mut self) -> Option<&mut dyn PacketTracker> {
        Some(self)
    }
}

impl PacketTracker for Bbr3 {
    fn on_packet_acked(&mut self, number: u64) {
        self.packets.on_acked(number);
    }

    fn on_packet_lost(&mut self, number: u64) {
        self.packets.on_lost(number);
    }
}

#[cfg(test)]
mod tests;
