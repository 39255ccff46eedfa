//! Sender around a controller: loss detection, recovery, timers, pacing and delivery-rate samples
//! as in Linux.
//!
//! Follows `tcp_ack`, `tcp_fastretrans_alert`, `tcp_write_xmit` and `tcp_timer.c` of Linux 6.18.
//! Sequence numbers count segments. Departures:
//!
//! - a segment that arrives leaves the flight with all its transmissions (Linux counts a repetition of one that was not
//!   taken for lost until that is acknowledged, too);
//! - RACK's timer waits two ticks beyond the window, not two milliseconds;
//! - no send-buffer limit;
//! - timers are exact, not in ticks.

mod booking;
mod recovery;
mod sending;
#[cfg(test)]
mod tests;
mod timers;
mod undo;

use ccarena_cc::{AckInfo, Bytes, Controller, Dur, Rate, RateSample, RecoveryState, Signal, Time, TransportNeeds};
use ccarena_net::accecn::SenderCounters;
use ccarena_net::{Ecn, apps};

pub use self::sending::Leaving;
use self::undo::Undo;
use crate::app::AppState;
use crate::delivery::Delivery;
use crate::numbers::Numbers;
use crate::pacer::Pacer;
use crate::packet::{Ack, Block, Marks};
use crate::reduction::Reduction;
use crate::reordering::Reordering;
use crate::rtt::{RoundTrip, RttEstimator};
use crate::scoreboard::Scoreboard;

/// Content of a segment that the sender emits.
#[derive(Clone, Copy, Debug)]
pub struct Emission {
    /// Segment number.
    pub seq: u32,
    /// Payload bytes.
    pub payload: u32,
    /// Round-trip times that the sender knows.
    pub rtt: RoundTrip,
    /// Request to routers.
    pub signal: Signal,
    /// ECN code point.
    pub ecn: Ecn,
    /// Mark that tells the receiver of a window reduction (CWR).
    pub reduced: bool,
    /// Mark that a message ends here (PSH).
    pub pushed: bool,
}

/// Options of a sender that are the scenario's business.
#[derive(Clone, Copy, Debug)]
pub struct SenderOptions {
    /// Maximum payload of a segment in bytes.
    pub mss: u32,
    /// Selective acknowledgements are in use.
    pub sack: bool,
    /// Code point that new data leaves with.
    pub ecn: Ecn,
    /// Acknowledgements count marks (AccECN, RFC 9768).
    pub counts_marks: bool,
    /// The receiver's window in segments.
    pub receive_window: u32,
    /// RTT samples are of the newest segment, less the acknowledgement's delay (RFC 9002 §5.3).
    pub ack_delay: bool,
    /// Least variation that the retransmission timeout adds to the smoothed RTT.
    pub min_rto: Dur,
    /// Segments that segmentation offload sends in one go where the controller does not pace; one sends each by itself.
    pub burst: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Timer {
    Off,
    Retransmit,
    Probe,
    Reorder,
}

/// Event for the controller after an acknowledgement has been booked.
struct Booked {
    now: Time,
    packets: u32,
    rtt: Option<Dur>,
    rate: Option<RateSample>,
    lost: u32,
    marked: u32,
    prior_in_flight: u32,
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
    /// Window reductions for ECN echoes.
    pub ecn_reductions: u64,
    /// Sum and number of RTT samples.
    pub rtt_sum: Dur,
    /// Number of RTT samples.
    pub rtt_count: u64,
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
    /// Flag that the controller sends requests to routers, and its last request.
    signals: bool,
    request: Signal,
    every_segment: bool,
    /// Numbers of transmissions, for controllers that track packets.
    numbers: Option<Numbers>,

    recovery: RecoveryState,
    /// Recovery ends when this segment is acknowledged (`high_seq`).
    high: u32,
    reordering: Reordering,
    undo: Undo,
    /// The timeout may prove spurious by what arrives next (F-RTO, RFC 5682), and new data goes first to find out.
    frto: bool,
    new_data_first: bool,
    /// The next new segment tells the receiver of a reduction (`TCP_ECN_QUEUE_CWR`).
    tell_reduction: bool,
    /// Counters of marks of the last acknowledgement (AccECN).
    counters: SenderCounters,

    /// The controller's window and pacing, read after each of its events; window in bytes and in segments.
    window_bytes: Bytes,
    window: u32,
    pacing: Option<Rate>,
    reduction: Reduction,
    /// Most segments in flight after a timeout, whatever the controller's window (`tcp_enter_loss`: what is still in
    /// flight, and one). The controller's next acknowledgement or timer ends it.
    loss_window: u32,

    delivered: u32,
    delivered_at: Time,
    first_sent: Time,
    last_sent: Time,
    last_stamp: Time,
    /// Delivered count at which the application-limited phase ends; zero if there is none.
    app_limited_until: u32,
    /// Latest delivered transmission (`rack.mstamp`, `rack.end_seq`) and its RTT.
    rack: (Time, u32),
    rack_rtt: Dur,
    /// Flag that RACK has not looked for losses since (`rack.advanced`).
    rack_advanced: bool,

    /// Window validation (`tcp_cwnd_validate`).
    window_limited: bool,
    most_outstanding: u32,
    usage_mark: u32,

    timer: Timer,
    timer_at: Time,
    /// Doublings of the timeout, until there is an RTT sample; timeouts since `una` last moved.
    backoff: u32,
    timeouts: u32,
    probe_high: Option<(u32, bool)>,

    pacer: Pacer,
    /// Flag that each packet is paced ([`TransportNeeds::paces_each`]).
    paces_each: bool,
    /// Set while something waits for the pacer.
    pace_timer: Time,
    app_at: Time,
    stopped: bool,

    /// Counters.
    pub stats: SenderStats,
}

impl Sender {
    /// A sender whose application `app` is driven by [`on_app`](Self::on_app).
    #[must_use]
    pub fn new(mut controller: Box<dyn Controller>, app: AppState, mut options: SenderOptions) -> Self {
        let TransportNeeds { every_segment, rate_samples, owns_recovery, paces_each, l4s } = controller.transport();
        if l4s && options.counts_marks {
            options.ecn = Ecn::Ect1;
        }
        let signals = controller.router_assisted().is_some();
        let numbers = controller.packet_tracker().map(|_| Numbers::default());
        let every_segment = every_segment || numbers.is_some();
        let mut sender = Self {
            board: Scoreboard::new(numbers.is_some(), rate_samples),
            controller,
            app,
            options,
            rtt: RttEstimator::new(options.min_rto),
            owns_recovery,
            signals,
            request: Signal::None,
            every_segment,
            numbers,
            recovery: RecoveryState::Open,
            high: 0,
            reordering: Reordering::default(),
            undo: Undo::default(),
            frto: false,
            new_data_first: false,
            tell_reduction: false,
            counters: if options.ack_delay { SenderCounters::quic() } else { SenderCounters::default() },
            window_bytes: Bytes(u64::MAX),
            window: 1,
            pacing: None,
            reduction: Reduction::default(),
            loss_window: u32::MAX,
            delivered: 0,
            delivered_at: Time::ZERO,
            first_sent: Time::ZERO,
            last_sent: Time::NEVER,
            last_stamp: Time::ZERO,
            app_limited_until: 0,
            rack: (Time::ZERO, 0),
            rack_rtt: Dur::ZERO,
            rack_advanced: false,
            window_limited: false,
            most_outstanding: 0,
            usage_mark: 0,
            timer: Timer::Off,
            timer_at: Time::NEVER,
            backoff: 0,
            timeouts: 0,
            probe_high: None,
            pacer: Pacer::default(),
            paces_each,
            pace_timer: Time::NEVER,
            app_at: Time::NEVER,
            stopped: false,
            stats: SenderStats::default(),
        };
        sender.read_controller();
        sender
    }

    /// Returns whether its packets are of L4S (RFC 9331).
    #[must_use]
    pub fn sends_l4s(&self) -> bool {
        self.options.ecn == Ecn::Ect1
    }

    /// The controller.
    pub fn controller(&mut self) -> &mut dyn Controller {
        self.controller.as_mut()
    }

    /// Reads window and pacing after something other than an event of this sender has changed the controller.
    #[inline]
    pub fn read_controller(&mut self) {
        let pacing = self.controller.pacing_rate().unwrap_or(Rate::UNLIMITED);
        self.take_answer((self.controller.window(), pacing));
    }

    #[inline]
    fn take_answer(&mut self, (window, pacing): (Bytes, Rate)) {
        // Most acknowledgements leave the window as it is: no division then.
        if window != self.window_bytes {
            self.window_bytes = window;
            self.window = (u32::try_from(window.0).unwrap_or(u32::MAX) / self.options.mss).max(1);
            if window == Bytes(0) {
                self.end();
            }
        }
        self.pacing = (pacing != Rate::UNLIMITED).then_some(pacing);
    }

    /// The controller has given up: nothing leaves any more, whatever the recovery allows.
    #[cold]
    fn end(&mut self) {
        (self.window, self.owns_recovery) = (0, true);
        self.stop();
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

    /// Knowledge of reordering on the path.
    #[must_use]
    pub fn reordering(&self) -> &Reordering {
        &self.reordering
    }

    /// Segments in flight.
    #[must_use]
    pub fn in_flight(&self) -> u32 {
        self.board.in_flight()
    }

    /// The window in segments, proportional rate reduction and the bound after a timeout applied.
    #[must_use]
    #[inline]
    pub fn window(&self) -> u32 {
        match self.recovery {
            RecoveryState::Loss => self.window.min(self.loss_window),
            RecoveryState::Recovery | RecoveryState::Reduction if !self.owns_recovery => self.reduction.window(),
            _ => self.window,
        }
    }

    /// Everything that was made available is acknowledged.
    #[must_use]
    pub fn idle(&self) -> bool {
        self.board.outstanding() == 0
    }

    /// Returns the time of the next event here without an acknowledgement.
    #[must_use]
    #[inline]
    pub fn next_timer(&self) -> Time {
        if self.stopped {
            return Time::NEVER;
        }
        self.timer_at.min(self.app_at).min(self.pace_timer).min(self.controller.next_timer())
    }

    /// Runs the controller's timer if it is due; whether it was.
    pub fn on_controller_timer(&mut self, now: Time) -> bool {
        let due = self.controller.next_timer() <= now;
        if due {
            self.controller.on_timer(now);
            self.loss_window = u32::MAX;
            self.read_controller();
        }
        due
    }

    /// Handles every timer that is due. What that sends, to be followed by what else may be [sent](Self::send).
    pub fn on_timer(&mut self, now: Time) -> Option<Leaving> {
        self.on_controller_timer(now);
        if self.app_at <= now {
            self.on_app(now);
        }
        if self.timer_at <= now {
            match self.timer {
                Timer::Off => self.timer_at = Time::NEVER,
                Timer::Retransmit => self.on_timeout(now),
                Timer::Probe => return self.on_probe(now),
                Timer::Reorder => self.on_reorder_timeout(now),
            }
        }
        None
    }

    /// The application has started or something for it is due.
    pub fn on_app(&mut self, now: Time) {
        let rate = || apps::allowed_rate(self.window_bytes.0, self.rtt.smoothed(), self.pacing);
        let rate = if self.app.needs().rate { rate() } else { None };
        self.app_at = self.app.advance(now, self.board.nxt(), self.board.una(), rate);
    }

    /// Takes an acknowledgement (`tcp_ack`), its `options` and the routers' `signal`. The caller then sends what it allows
    /// ([`send`](Self::send)).
    #[inline(always)]
    pub fn on_ack(&mut self, ack: &Ack, options: &[Block], signal: Signal, now: Time) {
        let una = self.board.una();
        if ack.cumulative > self.board.nxt() {
            return;
        }
        if ack.cumulative < una {
            self.on_old(ack, options, now);
            return;
        }
        let advanced = ack.cumulative > una;
        let plain = advanced
            && ack.sacked == 0
            && self.recovery == RecoveryState::Open
            && ack.marks == Marks::NONE
            && self.board.clean();
        if plain { self.on_progress(ack, signal, now) } else { self.on_news(ack, options, signal, now) }
    }

    /// Segments that were all sent once are acknowledged in order, and nothing else is told: most acknowledgements.
    #[inline(always)]
    fn on_progress(&mut self, ack: &Ack, signal: Signal, now: Time) {
        let (una, last, prior_in_flight) = (self.board.una(), ack.cumulative - 1, self.board.in_flight());
        let (first, newest) = (self.board.get(una), self.board.get(last));
        self.board.acknowledge_clean(ack.cumulative);
        if let Some(numbers) = &mut self.numbers {
            numbers.acked(una..ack.cumulative);
        }
        self.on_advance(now);
        let rtt = self.sample_rtt(now.since(first.sent), now.since(newest.sent), ack.delay);
        let packets = ack.cumulative - una;
        let rate = self.sample_rate(now, packets, (newest, last), Some((newest.sent, last)));
        if self.probe_high.is_some() {
            self.on_probe_acknowledged(ack, true, &Delivery::new(now, ack.echo, self.high, Dur::ZERO));
        }
        self.set_timer(now);
        if let Some(numbers) = &mut self.numbers {
            numbers.tell_acked(self.controller.as_mut(), ack.cumulative);
        }
        self.call_controller(
            Booked { now, packets, rtt: Some(rtt), rate, lost: 0, marked: 0, prior_in_flight },
            signal,
            true,
        );
    }

    /// An acknowledgement that may carry news of losses, or that makes no progress.
    #[inline(never)]
    fn on_news(&mut self, ack: &Ack, options: &[Block], signal: Signal, now: Time) {
        let blocks = &options[..usize::from(ack.sacked)];
        let una = self.board.una();
        let advanced = ack.cumulative > una;
        let prior_in_flight = self.board.in_flight();
        let mut delivery = Delivery::new(now, ack.echo, self.high, self.rtt.min());
        self.book(ack, blocks, &mut delivery);
        if advanced {
            self.on_advance(now);
        }
        let rtt = delivery.rtt(advanced).map(|(sequence, newest)| self.sample_rtt(sequence, newest, ack.delay));
        let newest = delivery.newest;
        let rate = newest.and_then(|newest| self.sample_rate(now, delivery.packets, newest, delivery.latest));
        if let Some((segment, _)) = newest {
            self.reordering.on_delivered(segment.delivered, self.delivered);
        }
        if self.probe_high.is_some() {
            self.on_probe_acknowledged(ack, advanced, &delivery);
        }
        let marked = self.count_marks(ack, options, &delivery);
        let (lost, timer_set) = self.alert(ack, una, marked, &delivery);
        if !timer_set && (advanced || self.sacked_after_head(&delivery)) {
            self.set_timer(now);
        }
        if let Some(numbers) = &mut self.numbers {
            numbers.tell_acked(self.controller.as_mut(), ack.cumulative);
        }
        let progress = advanced || (delivery.sacked && self.reordering.is_high());
        let marked = marked.unwrap_or(0);
        let booked = Booked { now, packets: delivery.delivered(), rtt, rate, lost, marked, prior_in_flight };
        self.call_controller(booked, signal, progress);
    }

    /// An acknowledgement that a later one has overtaken: its blocks may still be news (`old_ack` of `tcp_ack`).
    #[cold]
    fn on_old(&mut self, ack: &Ack, options: &[Block], now: Time) {
        if ack.sacked == 0 || !self.options.sack {
            return;
        }
        let blocks = &options[..usize::from(ack.sacked)];
        let mut delivery = Delivery::new(now, ack.echo, self.high, self.rtt.min());
        self.book(ack, blocks, &mut delivery);
        self.delivered += delivery.packets;
        self.advance_rack(delivery.latest, now);
        let marked = (ack.marks == Marks::ECHO).then_some(0);
        self.alert(ack, ack.cumulative, marked, &delivery);
    }

    /// Returns the newly marked segments, if an acknowledgement tells of marks. An echo stands for all that it delivers, as
    /// in Linux (`tcp_count_delivered_ce`).
    fn count_marks(&mut self, ack: &Ack, options: &[Block], delivery: &Delivery) -> Option<u32> {
        let packets = delivery.delivered();
        let Some(ace) = ack.marks.accurate() else { return (ack.marks == Marks::ECHO).then_some(packets) };
        let payload = self.bytes(packets).0;
        let marked = self.counters.take(ace, ack.read_option(options).as_ref(), packets, payload, self.options.mss);
        (marked > 0).then_some(marked)
    }

    /// Something is acknowledged cumulatively.
    #[inline]
    fn on_advance(&mut self, now: Time) {
        self.timeouts = 0;
        if self.app.needs().acknowledged {
            self.on_app(now);
        }
    }

    /// Takes an RTT sample: of the timeout's segment and of the newest one. Returns the controller's.
    #[inline]
    fn sample_rtt(&mut self, sequence: Dur, newest: Dur, delay: Dur) -> Dur {
        self.backoff = 0;
        let (sequence, sample) =
            if self.options.ack_delay { self.without_delay(newest, delay) } else { (sequence, newest) };
        self.rtt.sample(sequence, newest, self.board.una(), self.board.nxt());
        self.stats.rtt_sum += sample;
        self.stats.rtt_count += 1;
        sample
    }

    /// The newest segment's RTT for the timeout and for the controller, less the acknowledgement's delay unless that makes
    /// it less than the smallest so far (RFC 9002 §5.3).
    fn without_delay(&self, rtt: Dur, delay: Dur) -> (Dur, Dur) {
        let least = self.rtt.min().min(rtt);
        let adjusted = if rtt >= least + delay { rtt - delay } else { rtt };
        (adjusted, adjusted)
    }

    /// Segments sent after the first outstanding one was last sent have arrived: the timeout starts anew, though nothing
    /// is acknowledged cumulatively (`tcp_clean_rtx_queue`).
    #[inline]
    fn sacked_after_head(&self, delivery: &Delivery) -> bool {
        delivery.first_sacked != Time::NEVER && delivery.first_sacked < self.board.get(self.board.una()).sent
    }

    #[inline(always)]
    fn call_controller(&mut self, booked: Booked, signal: Signal, progress: bool) {
        let Booked { now, packets, rtt, rate, lost, marked, prior_in_flight } = booked;
        let mut info = AckInfo {
            now,
            acked: self.bytes(packets),
            acked_packets: packets,
            rtt,
            min_rtt: self.rtt.min(),
            srtt: self.rtt.smoothed(),
            rttvar: Dur::ZERO,
            prior_in_flight: self.bytes(prior_in_flight),
            in_flight: self.bytes(self.board.in_flight()),
            delivered: self.bytes(self.delivered),
            lost: self.bytes(lost),
            rate,
            snd_una: self.bytes(self.board.una()).0,
            snd_nxt: self.bytes(self.board.nxt()).0,
            retransmitted: self.board.retransmitted(),
            // Growth needs progress as well (`tcp_may_raise_cwnd`).
            cwnd_limited: progress && self.is_window_limited(),
            recovery: self.recovery,
            ecn_ce: marked,
            signal: Signal::None,
        };
        if self.signals {
            info.signal = signal;
        }
        let answer = self.controller.answer(&info);
        self.loss_window = u32::MAX;
        self.take_answer(answer);
    }

    /// Returns whether its controller reads what routers write.
    pub(crate) const fn reads_signals(&self) -> bool {
        self.signals
    }

    /// `tcp_is_cwnd_limited`.
    #[inline]
    fn is_window_limited(&self) -> bool {
        self.window_limited || (self.window < 2 * self.most_outstanding && self.in_slow_start())
    }

    fn in_slow_start(&self) -> bool {
        self.controller.slow_start_threshold().is_some_and(|threshold| self.bytes(self.window) < threshold)
    }

    #[inline]
    fn bytes(&self, segments: u32) -> Bytes {
        Bytes(u64::from(segments) * u64::from(self.options.mss))
    }

    #[inline]
    fn may_send_new(&self) -> bool {
        self.board.nxt() < self.app.available() && self.board.outstanding() < self.options.receive_window
    }
}
