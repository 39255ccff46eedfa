//! The sender: loss detection, recovery, timers, pacing and delivery-rate samples as in Linux, around a controller.
//!
//! Follows `tcp_ack`, `tcp_fastretrans_alert`, `tcp_write_xmit` and `tcp_timer.c` of Linux 6.x. Sequence numbers count
//! segments. Departures: no reordering estimate (paths here keep order, so the threshold stays at three), no CWR state,
//! F-RTO only in its timestamp form (Eifel, RFC 3522), a tail-loss probe's repair is always taken as a loss.

use ccarena_cc::controller::RecoveryState;
use ccarena_cc::{AckInfo, Bytes, Controller, Dur, LossInfo, Rate, RateSample, SentInfo, Time};

use crate::app::AppState;
use crate::packet::{Ack, Block};
use crate::rtt::RttEstimator;
use crate::scoreboard::{Scoreboard, Segment};

/// Duplicate acknowledgements or sacked segments that mean loss at once (`tcp_reordering`).
const REORDERING: u32 = 3;
/// Least slack of a tail-loss probe: two ticks at HZ 250 (`TCP_TIMEOUT_MIN`).
const PROBE_SLACK: Dur = Dur::from_millis(8);
/// Slack of a probe for a lone segment, whose acknowledgement may be delayed (`tcp_rto_min`).
const LONE_PROBE_SLACK: Dur = Dur::from_millis(200);
/// Longest retransmission timeout (`TCP_RTO_MAX`).
const RTO_MAX: Dur = Dur::from_millis(120_000);

/// What a segment that the sender emits carries.
#[derive(Clone, Copy, Debug)]
pub struct Emission {
    /// Segment number.
    pub seq: u32,
    /// Payload bytes.
    pub payload: u32,
    /// What the application wants, for routers to lower.
    pub desired: Rate,
}

/// Options of a sender that are the scenario's business.
#[derive(Clone, Copy, Debug)]
pub struct SenderOptions {
    /// Maximum payload of a segment in bytes.
    pub mss: u32,
    /// Selective acknowledgements are in use.
    pub sack: bool,
    /// The receiver's window in segments.
    pub receive_window: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Timer {
    Off,
    Retransmit,
    Probe,
    Reorder,
}

/// Counters of a flow, in segments.
#[derive(Clone, Copy, Debug, Default)]
pub struct SenderStats {
    /// Transmissions, retransmissions included.
    pub sent: u64,
    /// Retransmissions.
    pub retransmitted: u64,
    /// Segments marked lost.
    pub lost: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Sum and number of RTT samples.
    pub rtt_sum: Dur,
    /// Number of RTT samples.
    pub rtt_count: u64,
}

/// What one acknowledgement has delivered, gathered over its segments.
#[derive(Clone, Copy, Debug)]
struct Delivery {
    now: Time,
    packets: u32,
    /// Send times of the first and the last never-retransmitted segment it covers cumulatively.
    first_acked: Time,
    last_acked: Time,
    /// The same for selectively covered ones.
    first_sacked: Time,
    last_sacked: Time,
    retransmitted_acked: bool,
    /// The most recently sent segment it covers (`tcp_rate_skb_delivered`).
    newest: Option<(Segment, u32)>,
}

impl Delivery {
    fn new(now: Time) -> Self {
        Self {
            now,
            packets: 0,
            first_acked: Time::NEVER,
            last_acked: Time::NEVER,
            first_sacked: Time::NEVER,
            last_sacked: Time::NEVER,
            retransmitted_acked: false,
            newest: None,
        }
    }

    #[inline]
    fn book(&mut self, seq: u32, segment: &Segment) {
        self.packets += 1;
        if self.newest.is_none_or(|(n, s)| (segment.sent, seq) > (n.sent, s)) {
            self.newest = Some((*segment, seq));
        }
    }

    #[inline]
    fn acked(&mut self, seq: u32, segment: &Segment) {
        self.book(seq, segment);
        if segment.ever_retransmitted() {
            self.retransmitted_acked = true;
        } else {
            self.last_acked = segment.sent;
            if self.first_acked == Time::NEVER {
                self.first_acked = segment.sent;
            }
        }
    }

    fn sacked(&mut self, seq: u32, segment: &Segment) {
        self.book(seq, segment);
        if !segment.ever_retransmitted() {
            self.last_sacked = segment.sent;
            if self.first_sacked == Time::NEVER {
                self.first_sacked = segment.sent;
            }
        }
    }

    /// RTT for the timeout and RTT for congestion control (`tcp_clean_rtx_queue`, `tcp_ack_update_rtt`).
    fn rtt(&self, echo: Time) -> Option<(Dur, Dur)> {
        let since = |t: Time| (t != Time::NEVER).then(|| self.now.since(t));
        let sequence = if self.retransmitted_acked { None } else { since(self.first_acked) };
        let last = if self.retransmitted_acked { None } else { since(self.last_acked) };
        let congestion = since(self.last_sacked).or(last);
        match (sequence.or(since(self.first_sacked)), congestion) {
            (Some(s), Some(c)) => Some((s, c)),
            // Only retransmitted segments: the echoed timestamp tells which transmission was heard (RFC 7323 §4.1).
            _ if self.retransmitted_acked && echo > Time::ZERO => {
                let rtt = self.now.since(echo);
                Some((rtt, rtt))
            }
            _ => None,
        }
    }
}

/// The sending side of a flow.
pub struct Sender {
    board: Scoreboard,
    controller: Box<dyn Controller>,
    /// The application that feeds it.
    pub app: AppState,
    options: SenderOptions,
    rtt: RttEstimator,
    owns_recovery: bool,
    signals: bool,

    recovery: RecoveryState,
    /// Recovery ends when this segment is acknowledged (`high_seq`).
    high: u32,
    /// First retransmission of the episode (`retrans_stamp`), for the Eifel test.
    episode_start: Time,
    undo_marker: bool,

    /// The controller's window and pacing, read after each of its events; window in segments.
    window: u32,
    pacing: Option<Rate>,
    /// Proportional rate reduction (RFC 6937).
    prr_delivered: u32,
    prr_out: u32,
    prior_window: u32,
    prr_window: u32,

    delivered: u32,
    delivered_at: Time,
    first_sent: Time,
    last_sent: Time,
    /// Delivered count at which the application-limited phase ends; zero if there is none.
    app_limited_until: u32,
    /// Latest delivered transmission (`rack.mstamp`, `rack.end_seq`) and its RTT.
    rack: (Time, u32),
    rack_rtt: Dur,

    /// Window validation (`tcp_cwnd_validate`).
    window_limited: bool,
    most_outstanding: u32,
    usage_mark: u32,

    timer: Timer,
    timer_at: Time,
    backoff: u32,
    probe_high: Option<(u32, bool)>,

    /// When the next burst may start, and the timer that is set while something waits for it.
    pace_at: Time,
    pace_timer: Time,
    burst: u32,
    app_at: Time,
    stopped: bool,

    /// Counters.
    pub stats: SenderStats,
}

impl Sender {
    /// A sender whose application `app` is driven by [`on_app`](Self::on_app).
    #[must_use]
    pub fn new(controller: Box<dyn Controller>, app: AppState, options: SenderOptions) -> Self {
        let owns_recovery = controller.owns_recovery();
        let signals = controller.desired_rate().is_some();
        let mut sender = Self {
            board: Scoreboard::default(),
            controller,
            app,
            options,
            rtt: RttEstimator::default(),
            owns_recovery,
            signals,
            recovery: RecoveryState::Open,
            high: 0,
            episode_start: Time::NEVER,
            undo_marker: false,
            window: 0,
            pacing: None,
            prr_delivered: 0,
            prr_out: 0,
            prior_window: 1,
            prr_window: 0,
            delivered: 0,
            delivered_at: Time::ZERO,
            first_sent: Time::ZERO,
            last_sent: Time::NEVER,
            app_limited_until: 0,
            rack: (Time::ZERO, 0),
            rack_rtt: Dur::ZERO,
            window_limited: false,
            most_outstanding: 0,
            usage_mark: 0,
            timer: Timer::Off,
            timer_at: Time::NEVER,
            backoff: 0,
            probe_high: None,
            pace_at: Time::ZERO,
            pace_timer: Time::NEVER,
            burst: 0,
            app_at: Time::NEVER,
            stopped: false,
            stats: SenderStats::default(),
        };
        sender.read_controller();
        sender
    }

    /// The controller.
    pub fn controller(&mut self) -> &mut dyn Controller {
        self.controller.as_mut()
    }

    /// Reads window and pacing after something other than an event of this sender has changed the controller.
    #[inline]
    pub fn read_controller(&mut self) {
        self.window = u32::try_from(self.controller.window().0).unwrap_or(u32::MAX) / self.options.mss;
        self.window = self.window.max(1);
        self.pacing = self.controller.pacing_rate();
    }

    /// Sends nothing more.
    pub fn stop(&mut self) {
        self.stopped = true;
    }

    /// Smallest RTT so far.
    #[must_use]
    pub fn min_rtt(&self) -> Dur {
        self.rtt.min()
    }

    /// Segments in flight.
    #[must_use]
    pub fn in_flight(&self) -> u32 {
        self.board.in_flight()
    }

    /// The window in segments, proportional rate reduction applied.
    #[must_use]
    #[inline]
    pub fn window(&self) -> u32 {
        if self.recovery == RecoveryState::Recovery && !self.owns_recovery { self.prr_window } else { self.window }
    }

    /// Everything that was made available is acknowledged.
    #[must_use]
    pub fn idle(&self) -> bool {
        self.board.outstanding() == 0
    }

    /// When something is due here without an acknowledgement.
    #[must_use]
    #[inline]
    pub fn next_timer(&self) -> Time {
        if self.stopped {
            return Time::NEVER;
        }
        self.timer_at.min(self.app_at).min(self.pace_timer).min(self.controller.next_timer())
    }

    /// Handles every timer that is due, then sends what may be sent.
    pub fn on_timer(&mut self, now: Time, mut emit: impl FnMut(Emission)) {
        if self.controller.next_timer() <= now {
            self.controller.on_timer(now);
            self.read_controller();
        }
        if self.app_at <= now {
            self.app_at = self.app.advance(now);
        }
        if self.timer_at <= now {
            match self.timer {
                Timer::Off => self.timer_at = Time::NEVER,
                Timer::Retransmit => self.on_timeout(now),
                Timer::Probe => self.on_probe(now, &mut emit),
                Timer::Reorder => {
                    self.timer_at = Time::NEVER;
                    self.timer = Timer::Off;
                    let lost = self.detect_losses(now);
                    self.after_losses(now, lost, 0, false);
                    self.rearm(now, true);
                }
            }
        }
        self.send(now, emit);
    }

    /// The application has started or something for it is due.
    pub fn on_app(&mut self, now: Time) {
        self.app_at = self.app.advance(now);
    }

    /// An acknowledgement arrives (`tcp_ack`). Sending what it allows is the caller's next step ([`send`](Self::send)).
    #[inline]
    pub fn on_ack(&mut self, ack: &Ack, now: Time) {
        let una = self.board.una();
        if ack.cumulative < una || ack.cumulative > self.board.nxt() {
            return;
        }
        let advanced = ack.cumulative > una;
        let prior_in_flight = self.board.in_flight();
        let mut delivery = Delivery::new(now);
        let clean = advanced && ack.sacked == 0 && self.recovery == RecoveryState::Open && self.board.clean();
        if clean {
            delivery.packets = ack.cumulative - una;
            let newest = self.board.get(ack.cumulative - 1);
            delivery.first_acked = self.board.get(una).sent;
            delivery.last_acked = newest.sent;
            delivery.newest = Some((newest, ack.cumulative - 1));
            self.board.acknowledge_clean(ack.cumulative);
        } else {
            self.book(ack, advanced, &mut delivery);
        }
        if advanced {
            self.backoff = 0;
            if self.app.waits_for_acknowledgements() && self.app.acknowledged(ack.cumulative, now) {
                self.app_at = self.app.advance(now);
            }
        }
        let rtt = delivery.rtt(ack.echo).map(|(sequence, congestion)| {
            self.rtt.sample(sequence, congestion);
            self.stats.rtt_sum += congestion;
            self.stats.rtt_count += 1;
            congestion
        });
        let rate = self.sample_rate(&delivery);
        let mut lost = 0;
        if !clean {
            self.try_undo(ack, advanced, now);
            if self.options.sack {
                lost = self.detect_losses(now);
            } else {
                lost = self.detect_losses_without_sack(advanced);
            }
            self.after_losses(now, lost, delivery.packets, advanced);
        }
        self.on_probe_acknowledged(ack.cumulative, now);
        if advanced {
            self.rearm(now, true);
        }
        self.call_controller(&delivery, rtt, rate, ack, advanced, lost, prior_in_flight);
    }

    /// Books an acknowledgement that may carry news of losses.
    #[cold]
    fn book(&mut self, ack: &Ack, advanced: bool, delivery: &mut Delivery) {
        if !self.options.sack {
            if advanced {
                let before = self.board.sacked();
                self.board.acknowledge_without_sack(ack.cumulative, |seq, s| delivery.acked(seq, s));
                delivery.packets -= delivery.packets.saturating_sub(1).min(before);
            } else if self.board.outstanding() > 0 && self.board.count_duplicate() {
                delivery.packets += 1;
            }
            return;
        }
        if advanced {
            self.board.acknowledge(ack.cumulative, |seq, s| delivery.acked(seq, s));
        }
        // The most recent block comes first; older ones repeat what is known, in case acknowledgements were lost.
        let blocks: &[Block] = &ack.blocks[..usize::from(ack.sacked)];
        for &block in blocks.iter().rev() {
            self.board.sack(block, |seq, s| delivery.sacked(seq, s));
        }
    }

    /// Takes a delivery-rate sample (`tcp_rate_gen`) and moves the RACK clock (`tcp_rack_advance`).
    #[inline]
    fn sample_rate(&mut self, delivery: &Delivery) -> Option<RateSample> {
        let (newest, seq) = delivery.newest?;
        let now = delivery.now;
        self.delivered += delivery.packets;
        self.delivered_at = now;
        if self.app_limited_until > 0 && self.delivered > self.app_limited_until {
            self.app_limited_until = 0;
        }
        let rtt = now.since(newest.sent);
        if !(newest.ever_retransmitted() && rtt < self.rtt.min()) {
            self.rack = self.rack.max((newest.sent, seq + 1));
            self.rack_rtt = rtt;
        }
        self.first_sent = newest.sent;
        let interval = newest.sent.since(newest.first_sent).max(now.since(newest.delivered_at));
        if interval < self.rtt.min() || interval == Dur::ZERO {
            return None;
        }
        let mss = u64::from(self.options.mss);
        Some(RateSample {
            delivered: Bytes(u64::from(self.delivered - newest.delivered) * mss),
            interval,
            prior_delivered: Bytes(u64::from(newest.delivered) * mss),
            app_limited: newest.app_limited(),
        })
    }

    /// RACK (RFC 8985). Returns the number of segments newly marked lost.
    fn detect_losses(&mut self, now: Time) -> u32 {
        if self.rack.0 == Time::ZERO && self.rack.1 == 0 {
            return 0;
        }
        let at_once = self.recovery != RecoveryState::Open || self.board.sacked() >= REORDERING;
        // `tcp_rack_reo_wnd`
        let reordering = if at_once { Dur::ZERO } else { (self.rtt.min() / 4).min(self.rtt.smoothed()) };
        let (marked, again) = self.board.detect_losses(self.rack, self.rack_rtt + reordering, now);
        if again != Time::NEVER {
            self.timer = Timer::Reorder;
            self.timer_at = again;
        }
        marked
    }

    /// NewReno (RFC 6582, `tcp_newreno_mark_lost`).
    fn detect_losses_without_sack(&mut self, advanced: bool) -> u32 {
        let due = match self.recovery {
            RecoveryState::Open => self.board.sacked() >= REORDERING,
            RecoveryState::Recovery => advanced,
            RecoveryState::Loss => false,
        };
        let una = self.board.una();
        u32::from(due && una < self.board.nxt() && self.board.mark_lost(una))
    }

    /// The state machine of `tcp_fastretrans_alert`, after an acknowledgement or the reordering timer.
    fn after_losses(&mut self, now: Time, lost: u32, delivered: u32, advanced: bool) {
        self.stats.lost += u64::from(lost);
        if self.recovery != RecoveryState::Open && self.board.una() >= self.high {
            self.end_recovery(now);
        }
        let starts = self.recovery == RecoveryState::Open && self.board.lost() > 0;
        if starts {
            self.recovery = RecoveryState::Recovery;
            self.high = self.board.nxt();
            self.episode_start = Time::NEVER;
            self.undo_marker = true;
            self.probe_high = None;
            self.prior_window = self.window.max(1);
            self.prr_delivered = 0;
            self.prr_out = 0;
        }
        if lost > 0 || starts {
            let loss = self.loss_info(now, lost, starts);
            self.controller.on_loss(&loss);
            self.read_controller();
        }
        if self.recovery == RecoveryState::Recovery {
            self.reduce(delivered, lost, advanced);
        }
    }

    /// Proportional rate reduction (RFC 6937, `tcp_cwnd_reduction`).
    fn reduce(&mut self, delivered: u32, lost: u32, advanced: bool) {
        let in_flight = self.board.in_flight();
        self.prr_delivered += delivered;
        let mut quota = if in_flight > self.window {
            let due = (u64::from(self.window) * u64::from(self.prr_delivered)).div_ceil(u64::from(self.prior_window));
            u32::try_from(due).unwrap_or(u32::MAX).saturating_sub(self.prr_out)
        } else {
            let more = self.prr_delivered.saturating_sub(self.prr_out).max(delivered);
            (more + u32::from(advanced && lost == 0)).min(self.window - in_flight)
        };
        quota = quota.max(u32::from(self.prr_out == 0));
        self.prr_window = in_flight + quota;
    }

    fn end_recovery(&mut self, now: Time) {
        self.recovery = RecoveryState::Open;
        self.undo_marker = false;
        if !self.options.sack {
            self.board.reset_duplicates();
        }
        let in_flight = self.bytes(self.board.in_flight());
        self.controller.on_recovery_end(now, in_flight);
        self.read_controller();
    }

    /// Eifel (RFC 3522, `tcp_try_undo_loss`, `tcp_try_undo_recovery`): the echoed timestamp is older than the first
    /// retransmission, so the original had arrived.
    fn try_undo(&mut self, ack: &Ack, advanced: bool, now: Time) {
        if !(advanced && self.undo_marker && self.episode_start != Time::NEVER && ack.echo < self.episode_start) {
            return;
        }
        let recovered = self.board.una() >= self.high;
        if self.recovery == RecoveryState::Loss || (self.recovery == RecoveryState::Recovery && recovered) {
            self.board.unmark_losses();
            self.controller.on_spurious_loss(now);
            self.end_recovery(now);
        }
    }

    #[expect(clippy::too_many_arguments, reason = "one call site: the pieces of AckInfo that on_ack has at hand")]
    #[inline]
    fn call_controller(
        &mut self,
        delivery: &Delivery,
        rtt: Option<Dur>,
        rate: Option<RateSample>,
        ack: &Ack,
        advanced: bool,
        lost: u32,
        prior_in_flight: u32,
    ) {
        let info = AckInfo {
            now: delivery.now,
            acked: self.bytes(delivery.packets),
            acked_packets: delivery.packets,
            rtt,
            min_rtt: self.rtt.min(),
            srtt: self.rtt.smoothed(),
            prior_in_flight: self.bytes(prior_in_flight),
            in_flight: self.bytes(self.board.in_flight()),
            delivered: self.bytes(self.delivered),
            lost: self.bytes(lost),
            rate,
            snd_una: self.bytes(self.board.una()).0,
            snd_nxt: self.bytes(self.board.nxt()).0,
            // Growth needs forward progress as well (`tcp_may_raise_cwnd`).
            cwnd_limited: advanced && self.is_window_limited(),
            recovery: self.recovery,
            ecn_ce: 0,
            advertised: (self.signals && ack.advertised != Rate(u64::MAX)).then_some(ack.advertised),
        };
        self.controller.on_ack(&info);
        self.read_controller();
    }

    /// `tcp_is_cwnd_limited`.
    #[inline]
    fn is_window_limited(&self) -> bool {
        let slow_start =
            self.controller.slow_start_threshold().is_some_and(|threshold| self.bytes(self.window) < threshold);
        self.window_limited || (slow_start && self.window < 2 * self.most_outstanding)
    }

    #[inline]
    fn bytes(&self, segments: u32) -> Bytes {
        Bytes(u64::from(segments) * u64::from(self.options.mss))
    }

    fn loss_info(&self, now: Time, lost: u32, new_episode: bool) -> LossInfo {
        LossInfo {
            now,
            lost: self.bytes(lost),
            lost_packets: lost,
            in_flight: self.bytes(self.board.in_flight()),
            new_episode,
            delivered: self.bytes(self.delivered),
            snd_nxt: self.bytes(self.board.nxt()).0,
        }
    }

    /// `tcp_retransmit_timer`, `tcp_enter_loss`.
    fn on_timeout(&mut self, now: Time) {
        if self.board.outstanding() == 0 {
            self.timer = Timer::Off;
            self.timer_at = Time::NEVER;
            return;
        }
        self.stats.timeouts += 1;
        if !self.options.sack {
            self.board.reset_duplicates();
        }
        let lost = self.board.mark_all_lost(now - self.rack_rtt);
        self.stats.lost += u64::from(lost);
        // A timeout within an episode does not reduce again (`tcp_enter_loss`).
        let new_episode = match self.recovery {
            RecoveryState::Open => true,
            RecoveryState::Recovery => self.board.una() >= self.high,
            RecoveryState::Loss => self.board.una() >= self.high || self.backoff == 0,
        };
        if self.recovery == RecoveryState::Open {
            self.episode_start = Time::NEVER;
        }
        self.undo_marker = true;
        self.recovery = RecoveryState::Loss;
        self.high = self.board.nxt();
        self.probe_high = None;
        let info = self.loss_info(now, lost, new_episode);
        self.controller.on_timeout(&info);
        self.read_controller();
        self.backoff = (self.backoff + 1).min(16);
        self.set_retransmit_timer(now);
    }

    /// `tcp_send_loss_probe` (RFC 8985 §7.3): new data if there is some, else the last segment again.
    fn on_probe(&mut self, now: Time, emit: &mut impl FnMut(Emission)) {
        if self.probe_high.is_none() && self.board.outstanding() > 0 {
            let fresh = self.may_send_new();
            if fresh {
                self.transmit_new(now, emit);
            } else {
                let last = self.board.nxt() - 1;
                self.retransmit(last, now, emit);
            }
            self.probe_high = Some((self.board.nxt(), !fresh));
        }
        self.set_retransmit_timer(now);
    }

    /// `tcp_process_tlp_ack`: a probe that repaired a loss hides it; one reduction is due.
    #[inline]
    fn on_probe_acknowledged(&mut self, cumulative: u32, now: Time) {
        let Some((high, repeated)) = self.probe_high else { return };
        if cumulative >= high {
            self.probe_high = None;
            if repeated && self.recovery == RecoveryState::Open {
                let info = self.loss_info(now, 0, true);
                self.controller.on_loss(&info);
                self.controller.on_recovery_end(now, info.in_flight);
                self.read_controller();
            }
        }
    }

    /// `tcp_set_xmit_timer`: a tail-loss probe if one is due, else the retransmission timer.
    #[inline]
    fn rearm(&mut self, now: Time, may_probe: bool) {
        if self.timer == Timer::Reorder && self.timer_at != Time::NEVER {
            return;
        }
        if self.board.outstanding() == 0 {
            self.timer = Timer::Off;
            self.timer_at = Time::NEVER;
            return;
        }
        let rto = self.rto();
        let probe = may_probe
            && self.options.sack
            && self.recovery == RecoveryState::Open
            && self.probe_high.is_none()
            && self.board.sacked() == 0;
        if probe {
            let slack = if self.board.outstanding() == 1 { LONE_PROBE_SLACK } else { PROBE_SLACK };
            let timeout =
                if self.rtt.smoothed() == Dur::ZERO { Dur::from_millis(1000) } else { self.rtt.smoothed() * 2 + slack };
            if timeout < rto {
                self.timer = Timer::Probe;
                self.timer_at = now + timeout;
                return;
            }
        }
        self.timer = Timer::Retransmit;
        self.timer_at = now + rto;
    }

    fn set_retransmit_timer(&mut self, now: Time) {
        self.timer = Timer::Retransmit;
        self.timer_at = now + self.rto();
    }

    #[inline]
    fn rto(&self) -> Dur {
        if self.backoff == 0 { self.rtt.timeout() } else { (self.rtt.timeout() * (1 << self.backoff)).min(RTO_MAX) }
    }

    #[inline]
    fn may_send_new(&self) -> bool {
        self.board.nxt() < self.app.available() && self.board.outstanding() < self.options.receive_window
    }

    /// Sends what window, pacing and application allow (`tcp_write_xmit`, `tcp_xmit_retransmit_queue`).
    #[inline]
    pub fn send(&mut self, now: Time, mut emit: impl FnMut(Emission)) {
        if self.board.outstanding() == 0 && self.last_sent != Time::NEVER && self.may_send_new() {
            let idle = now.since(self.last_sent);
            if idle > self.rto() {
                self.controller.on_idle_restart(now, idle, self.rto());
                self.read_controller();
            }
        }
        let nxt = self.board.nxt();
        let (mut limited, mut sent) = (false, 0);
        self.pace_timer = Time::NEVER;
        loop {
            if self.board.in_flight() >= self.window() {
                limited = true;
                break;
            }
            if self.pacing.is_some() && self.burst == 0 {
                if now < self.pace_at && (self.board.lost() > 0 || self.may_send_new()) {
                    self.pace_timer = self.pace_at;
                    break;
                }
                self.start_burst();
            }
            if let Some(seq) = self.board.next_retransmission() {
                self.retransmit(seq, now, &mut emit);
            } else if self.may_send_new() {
                self.transmit_new(now, &mut emit);
            } else {
                break;
            }
            sent += 1;
            if let Some(rate) = self.pacing {
                self.burst -= 1;
                if self.burst == 0 {
                    self.pace(now, rate, sent);
                    sent = 0;
                }
            }
        }
        if let Some(rate) = self.pacing {
            if sent > 0 {
                self.pace(now, rate, sent);
            }
            self.burst = 0;
        }
        self.validate_window(limited);
        if !limited && !self.may_send_new() && self.board.lost() == 0 {
            // `tcp_rate_check_app_limited`
            self.app_limited_until = (self.delivered + self.board.in_flight()).max(1);
        }
        if self.board.nxt() > nxt && (self.timer_at == Time::NEVER || self.timer == Timer::Probe) {
            self.rearm(now, true);
        } else if self.timer_at == Time::NEVER && self.board.outstanding() > 0 {
            self.set_retransmit_timer(now);
        }
    }

    /// A burst is what one segmentation-offload packet would carry: about 1 ms at the pacing rate
    /// (`tcp_tso_autosize` with `sk_pacing_shift` 10).
    fn start_burst(&mut self) {
        let rate = self.pacing.map_or(0, |r| r.0 / 8);
        let segments = (rate >> 10) / u64::from(self.options.mss);
        self.burst = u32::try_from(segments).unwrap_or(u32::MAX).clamp(self.controller.min_burst_segments().clamp(1, 44), 44);
    }

    /// `tcp_update_skb_after_send`: the next burst waits as long as this one takes, less half of it at most for having
    /// been late.
    fn pace(&mut self, now: Time, rate: Rate, segments: u32) {
        let length = rate.time_for(self.bytes(segments).0);
        let credit = if self.pace_at == Time::ZERO { Dur::ZERO } else { now.since(self.pace_at) };
        self.pace_at = now + (length - credit.min(length / 2));
    }

    /// `tcp_cwnd_validate`.
    #[inline]
    fn validate_window(&mut self, limited: bool) {
        let outstanding = self.board.outstanding();
        if self.board.una() >= self.usage_mark
            || limited
            || (!self.window_limited && outstanding > self.most_outstanding)
        {
            self.window_limited = limited;
            self.most_outstanding = outstanding;
            self.usage_mark = self.board.nxt();
        }
    }

    #[inline]
    fn transmit_new(&mut self, now: Time, emit: &mut impl FnMut(Emission)) {
        let seq = self.board.nxt();
        if self.board.outstanding() == 0 {
            self.first_sent = now;
            self.delivered_at = now;
        }
        self.tell_controller(now, false);
        let limited = self.app_limited_until > 0;
        self.board.push(Segment::new(now, self.first_sent, self.delivered_at, self.delivered, limited));
        self.emit(seq, now, emit);
    }

    fn retransmit(&mut self, seq: u32, now: Time, emit: &mut impl FnMut(Emission)) {
        if self.episode_start == Time::NEVER {
            self.episode_start = now;
        }
        self.tell_controller(now, true);
        let limited = self.app_limited_until > 0;
        self.board.retransmit(seq, Segment::new(now, self.first_sent, self.delivered_at, self.delivered, limited));
        self.stats.retransmitted += 1;
        self.emit(seq, now, emit);
    }

    #[inline]
    fn tell_controller(&mut self, now: Time, retransmission: bool) {
        self.controller.on_sent(&SentInfo {
            now,
            bytes: Bytes(u64::from(self.options.mss)),
            prior_in_flight: self.bytes(self.board.in_flight()),
            snd_nxt: self.bytes(self.board.nxt()).0,
            app_limited: self.app_limited_until > 0,
            retransmission,
        });
    }

    #[inline]
    fn emit(&mut self, seq: u32, now: Time, emit: &mut impl FnMut(Emission)) {
        self.last_sent = now;
        self.stats.sent += 1;
        if self.recovery == RecoveryState::Recovery {
            self.prr_out += 1;
        }
        let desired = if self.signals { self.controller.desired_rate() } else { None };
        emit(Emission { seq, payload: self.app.segment_bytes(seq), desired: desired.unwrap_or(Rate(u64::MAX)) });
    }
}
