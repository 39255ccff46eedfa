//! The controller trait and the events it answers.

use std::sync::Arc;

pub use crate::action::{Action, ActionError};
use crate::learned::LearnedSpec;
use crate::learned::clocks::{Reasoning, Verdict};
pub use crate::signal::Signal;
use crate::types::{Bytes, Dur, Rate, Requirement, Time};

/// What the transport is doing about losses and marks (Linux's `tcp_ca_state`, without Disorder).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RecoveryState {
    /// No loss is being repaired.
    #[default]
    Open,
    /// Window reduction after an ECN echo (RFC 3168 §6.1.2), until a window of data is acknowledged. Growth pauses.
    Reduction,
    /// Fast recovery: a loss was detected by acknowledgements. Window growth pauses.
    Recovery,
    /// After a retransmission timeout, until everything sent before it is acknowledged.
    Loss,
}

impl RecoveryState {
    /// The window is on its way down and does not grow (`tcp_in_cwnd_reduction`).
    #[must_use]
    #[inline]
    pub const fn reducing(self) -> bool {
        matches!(self, Self::Reduction | Self::Recovery)
    }
}

/// A delivery-rate sample (draft-cheng-iccrg-delivery-rate-estimation, Linux's `struct rate_sample`).
#[derive(Clone, Copy, Debug, Default)]
pub struct RateSample {
    /// Bytes delivered over `interval`.
    pub delivered: Bytes,
    /// The longer of the send and the acknowledgement phase.
    pub interval: Dur,
    /// The flow's total of delivered bytes when the sampled packet was sent.
    pub prior_delivered: Bytes,
    /// The sampled packet was sent while the application, not the window, was the limit.
    pub app_limited: bool,
}

/// One acknowledgement has arrived and the transport has booked it.
#[derive(Clone, Copy, Debug, Default)]
pub struct AckInfo {
    /// The time of arrival.
    pub now: Time,
    /// Bytes that this acknowledgement reports as delivered for the first time, cumulatively or selectively.
    pub acked: Bytes,
    /// The same in segments (a short last segment counts as one).
    pub acked_packets: u32,
    /// RTT of the most recently sent segment that this acknowledgement covers (Linux's `rtt_us` for congestion
    /// control); none if only retransmitted segments were acknowledged.
    pub rtt: Option<Dur>,
    /// Smallest RTT seen on the connection; [`Dur::MAX`] before the first sample.
    pub min_rtt: Dur,
    /// Smoothed RTT (RFC 6298); zero before the first sample.
    pub srtt: Dur,
    /// Bytes in flight before this acknowledgement.
    pub prior_in_flight: Bytes,
    /// Bytes in flight after it, losses that it revealed taken off.
    pub in_flight: Bytes,
    /// Total of delivered bytes, this acknowledgement included.
    pub delivered: Bytes,
    /// Bytes newly marked lost by this acknowledgement.
    pub lost: Bytes,
    /// Delivery-rate sample, if one could be taken.
    pub rate: Option<RateSample>,
    /// First byte not yet cumulatively acknowledged.
    pub snd_una: u64,
    /// First byte not yet sent.
    pub snd_nxt: u64,
    /// The window was what limited sending in the last round trip (Linux's `is_cwnd_limited`).
    pub cwnd_limited: bool,
    /// Loss recovery, after this acknowledgement.
    pub recovery: RecoveryState,
    /// Packets that this acknowledgement reports as ECN congestion-experienced.
    pub ecn_ce: u32,
    /// What routers said to this flow, as echoed by the receiver.
    pub signal: Signal,
}

/// Segments have been marked lost, or the receiver has echoed a congestion mark (`ecn`, with nothing lost).
#[derive(Clone, Copy, Debug, Default)]
pub struct LossInfo {
    /// When.
    pub now: Time,
    /// Bytes newly marked lost.
    pub lost: Bytes,
    /// The same in segments.
    pub lost_packets: u32,
    /// Bytes in flight after the marking.
    pub in_flight: Bytes,
    /// This is the first loss of a recovery episode: the one that multiplicative decrease answers.
    pub new_episode: bool,
    /// Not a loss but an ECN echo (RFC 3168 §6.1.2): once per window of data, `new_episode` set.
    pub ecn: bool,
    /// Total of delivered bytes.
    pub delivered: Bytes,
    /// First byte not yet sent.
    pub snd_nxt: u64,
}

/// A segment is being sent.
#[derive(Clone, Copy, Debug, Default)]
pub struct SentInfo {
    /// When.
    pub now: Time,
    /// Its payload.
    pub bytes: Bytes,
    /// Bytes in flight before it.
    pub prior_in_flight: Bytes,
    /// First byte not yet sent, this segment excluded.
    pub snd_nxt: u64,
    /// The application, not the window, has limited sending: delivery-rate samples are marked.
    pub app_limited: bool,
    /// When the one before it left; a transport that tells of every segment may leave it at zero.
    pub last_sent: Time,
    /// The same data was sent before.
    pub retransmission: bool,
    /// Payload of the segments that left since the call before and were not told, and their number. A datapath that
    /// reports sums tells of the last segment alone; one that tells of each leaves both at zero.
    pub untold: Bytes,
    /// Segments that hold the `untold` bytes.
    pub untold_packets: u32,
    /// Which transmission of the flow it is, from zero on, retransmissions counted (QUIC's packet number). Set for
    /// controllers that [track packets](Controller::tracks_packets) alone.
    pub number: u64,
}

/// How a datapath that hears from its controller only now and then moves the window in between.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Extrapolation {
    /// Segments that the window grows by while one window of data is acknowledged, as long as it is what limits sending.
    pub increase: f64,
    /// Part of the window that a loss episode leaves.
    pub decrease: f64,
    /// Nothing but losses matters within a window of data: reports once per window suffice.
    pub per_window: bool,
    /// None of these: the datapath's own CUBIC moves the window for so long, at most [`Extrapolation::LONGEST`], and then
    /// reports. It is told how the controller has scaled the window, not where to.
    pub cubic: Option<Dur>,
    /// With `cubic`: the options of clock `reasoner`, by which the datapath may judge periods itself. It then reports each
    /// and says what it found ([`LearnedController::adopt_verdict`]), but waits for an answer only where the decider is asked.
    pub reasoner: Option<Reasoning>,
    /// Reports are wanted at least so often, for decisions that wait for none.
    pub report: Option<Dur>,
}

impl Extrapolation {
    /// However long a decision takes, the datapath is heard so often.
    pub const LONGEST: Dur = Dur::from_millis(10_000);

    /// The window stays.
    pub const HOLD: Self =
        Self { increase: 0.0, decrease: 1.0, per_window: false, cubic: None, reasoner: None, report: None };
}

/// Turns acknowledgements, losses and time into a window and a pacing rate.
///
/// Order: the transport books an acknowledgement, calls [`on_loss`](Self::on_loss) if it marks segments lost, then
/// [`on_ack`](Self::on_ack), then reads [`window`](Self::window) and [`pacing_rate`](Self::pacing_rate). During
/// [`RecoveryState::Recovery`] a transport that does proportional rate reduction (RFC 6937) steers towards `window()`
/// unless [`owns_recovery`](Self::owns_recovery).
pub trait Controller: Send + Sync {
    /// An acknowledgement has been booked.
    fn on_ack(&mut self, ack: &AckInfo);

    /// Segments have been marked lost, once per marking; `new_episode` tells the first of a recovery.
    fn on_loss(&mut self, loss: &LossInfo);

    /// The retransmission timer has expired; everything in flight counts as lost.
    fn on_timeout(&mut self, loss: &LossInfo);

    /// A segment leaves.
    fn on_sent(&mut self, _sent: &SentInfo) {}

    /// Whether [`on_sent`](Self::on_sent) has to be called for segments that leave while others are in flight, and not
    /// only for the first after silence (Linux's `CA_EVENT_TX_START`).
    fn hears_every_segment(&self) -> bool {
        true
    }

    /// The scheme asks for [`on_packet_acked`](Self::on_packet_acked), [`on_packet_lost`](Self::on_packet_lost) and
    /// [`SentInfo::number`]; window and pacing rate are then read after [`on_sent`](Self::on_sent) as well.
    fn tracks_packets(&self) -> bool {
        false
    }

    /// Whether it looks at [`AckInfo::rate`]; a transport that need not take delivery-rate samples remembers less.
    fn takes_rate_samples(&self) -> bool {
        true
    }

    /// Transmission `number` has arrived; called for each that an acknowledgement reports, before its
    /// [`on_ack`](Self::on_ack).
    fn on_packet_acked(&mut self, _number: u64) {}

    /// Transmission `number` counts as lost; called before [`on_loss`](Self::on_loss) or
    /// [`on_timeout`](Self::on_timeout).
    fn on_packet_lost(&mut self, _number: u64) {}

    /// The last loss episode was spurious (Eifel, DSACK): what it reduced may be restored.
    fn on_spurious_loss(&mut self, _now: Time) {}

    /// Recovery, fast or after a timeout, has ended.
    fn on_recovery_end(&mut self, _now: Time, _in_flight: Bytes) {}

    /// Sending restarts after `idle` with nothing in flight, `rto` being the retransmission timeout (RFC 5681 §4.1).
    fn on_idle_restart(&mut self, _now: Time, _idle: Dur, _rto: Dur) {}

    /// The time that [`next_timer`](Self::next_timer) gave has come.
    fn on_timer(&mut self, _now: Time) {}

    /// When to call [`on_timer`](Self::on_timer) next; [`Time::NEVER`] if not at all.
    fn next_timer(&self) -> Time {
        Time::NEVER
    }

    /// Bytes that may be in flight; never below one segment.
    fn window(&self) -> Bytes;

    /// The rate to pace at; none sends as the window allows.
    fn pacing_rate(&self) -> Option<Rate> {
        None
    }

    /// An acknowledgement has been booked ([`on_ack`](Self::on_ack)): window and pacing rate after it, which is
    /// [`Rate::UNLIMITED`] if there is none. One call instead of three, whose answer fits two registers, for a datapath
    /// that simulates millions of them; no scheme has one of its own.
    fn answer(&mut self, ack: &AckInfo) -> (Bytes, Rate) {
        self.on_ack(ack);
        (self.window(), self.pacing_rate().unwrap_or(Rate::UNLIMITED))
    }

    /// Fewest segments that a paced sender sends at once (Linux's `min_tso_segs`).
    fn min_burst_segments(&self) -> u32 {
        2
    }

    /// Slow-start threshold, if the scheme has one.
    fn slow_start_threshold(&self) -> Option<Bytes> {
        None
    }

    /// The scheme steers the window through recovery itself (Linux's `cong_control`): no proportional rate reduction.
    fn owns_recovery(&self) -> bool {
        false
    }

    /// How to move the window from `now` on until the controller is asked again; what it then says holds.
    fn extrapolation(&self, _now: Time) -> Extrapolation {
        Extrapolation::HOLD
    }

    /// The datapath that runs CUBIC for the controller ([`Extrapolation::cubic`]) has reached `window`, or heads for it
    /// in recovery. From now on the controller's window is that, and its own actions alone change it.
    fn adopt_window(&mut self, _window: Bytes) {}

    /// The rate that the application wants, written into packets for routers to lower; none if the scheme takes no
    /// advertised rate.
    fn desired_rate(&self) -> Option<Rate> {
        None
    }

    /// The header that a packet leaves with, for routers to change. A scheme always gives the same kind.
    fn request(&self) -> Signal {
        self.desired_rate().map_or(Signal::None, Signal::Rate)
    }

    /// The application now wants `rate`.
    fn set_desired_rate(&mut self, _rate: Rate) {}

    /// The flow now has `weight`, which the scheme takes (`weight_above`).
    fn set_weight(&mut self, _weight: f64) {}

    /// The application now requires `requirement`, if anything.
    fn set_requirement(&mut self, _requirement: Option<Requirement>) {}

    /// The learned side, for schemes whose actions come from outside.
    fn learned(&mut self) -> Option<&mut dyn LearnedController> {
        None
    }
}

/// A controller whose actions come from a [decider](crate::decider): it reports at the end of each decision interval and holds the last
/// action until the next.
pub trait LearnedController {
    /// What it observes, reports and takes.
    fn spec(&self) -> &Arc<LearnedSpec>;

    /// True once after each decision interval: an action is due.
    fn take_decision(&mut self) -> bool;

    /// A datapath judges periods for the controller ([`Extrapolation::reasoner`]): if it gives a verdict, the present one
    /// ends with the next acknowledgement. From the first call on no period ends in another way.
    fn adopt_verdict(&mut self, _verdict: Option<Verdict>) {}

    /// Ends the interval at `now` with what it has measured so far: for an episode that is cut off.
    fn end_interval(&mut self, now: Time);

    /// Writes the observation (`spec().observation_len` values; a shorter `out` gets the first of them).
    fn observe(&self, out: &mut [f32]);

    /// Writes the last interval's report (`spec().report.len()` values).
    fn report(&self, out: &mut [f32]);

    /// Puts `action` in force at `now`.
    ///
    /// # Errors
    /// If the action is outside the action space, not finite or of the wrong kind; the old one then stays in force.
    fn act(&mut self, action: Action, now: Time) -> Result<(), ActionError>;
}
