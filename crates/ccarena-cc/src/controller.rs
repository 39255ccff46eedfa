//! The controller trait, and the small traits that only some controllers implement.

use crate::events::{AckInfo, LossInfo, SentInfo};
#[cfg(feature = "policies")]
use crate::learned::LearnedController;
use crate::signal::Signal;
use crate::types::{Bytes, Dur, Rate, Requirement, Time};

/// Turns acknowledgements, losses and time into a window and a pacing rate.
///
/// Order: the transport books an acknowledgement, calls [`on_loss`](Self::on_loss) if it marks segments lost, then
/// [`on_ack`](Self::on_ack), then reads [`window`](Self::window) and [`pacing_rate`](Self::pacing_rate). During
/// [`RecoveryState::Recovery`](crate::events::RecoveryState::Recovery) a transport that does proportional rate reduction (RFC 6937) steers towards `window()`
/// unless the controller [owns recovery](TransportNeeds::owns_recovery).
pub trait Controller: Send + Sync {
    /// Needs of this controller that stay the same for the life of a flow. Transports read them once.
    fn transport(&self) -> TransportNeeds {
        TransportNeeds::default()
    }

    /// A segment leaves.
    fn on_sent(&mut self, _sent: &SentInfo) {}

    /// An acknowledgement has been booked.
    fn on_ack(&mut self, ack: &AckInfo);

    /// Segments have been marked lost, once per marking; `new_episode` marks the first call of a recovery.
    fn on_loss(&mut self, loss: &LossInfo);

    /// The retransmission timer has expired; everything in flight counts as lost.
    fn on_timeout(&mut self, loss: &LossInfo);

    /// The last loss episode was spurious (Eifel, DSACK): its reduction may be undone.
    fn on_spurious_loss(&mut self, _now: Time) {}

    /// Recovery, fast or after a timeout, has ended.
    fn on_recovery_end(&mut self, _now: Time, _in_flight: Bytes) {}

    /// Sending restarts after `idle` with nothing in flight, `rto` being the retransmission timeout (RFC 5681 §4.1).
    fn on_idle_restart(&mut self, _now: Time, _idle: Dur, _rto: Dur) {}

    /// The time that [`next_timer`](Self::next_timer) gave has come.
    fn on_timer(&mut self, _now: Time) {}

    /// Returns when to call [`on_timer`](Self::on_timer) next; [`Time::NEVER`] if not at all.
    fn next_timer(&self) -> Time {
        Time::NEVER
    }

    /// Bytes that may be in flight; never below one segment, unless the controller has [given up](Self::failure): then
    /// zero.
    fn window(&self) -> Bytes;

    /// Returns the reason why the controller has given up, as programs of strangers may. Its window is then zero, and the
    /// transport ends the flow.
    fn failure(&self) -> Option<&str> {
        None
    }

    /// The rate to pace at; none sends as the window allows.
    fn pacing_rate(&self) -> Option<Rate> {
        None
    }

    /// Fewest segments that a paced sender sends at once (Linux's `min_tso_segs`).
    fn min_burst_segments(&self) -> u32 {
        2
    }

    /// Slow-start threshold, if the scheme has one.
    fn slow_start_threshold(&self) -> Option<Bytes> {
        None
    }

    /// Calls [`on_ack`](Self::on_ack) and returns window and pacing rate, [`Rate::UNLIMITED`] if there is none. One call
    /// instead of three, whose result fits two registers, for a datapath that simulates millions of acknowledgements.
    fn answer(&mut self, ack: &AckInfo) -> (Bytes, Rate) {
        self.on_ack(ack);
        (self.window(), self.pacing_rate().unwrap_or(Rate::UNLIMITED))
    }

    /// The side that follows each transmission, for schemes that match acknowledgements to packets.
    fn packet_tracker(&mut self) -> Option<&mut dyn PacketTracker> {
        None
    }

    /// The side that asks routers, for router-assisted schemes.
    fn router_assisted(&self) -> Option<&dyn RouterAssisted> {
        None
    }

    /// The side whose settings an application may change while the flow runs.
    fn adjustable(&mut self) -> Option<&mut dyn Adjustable> {
        None
    }

    /// The side that lets a datapath move the window between reports.
    fn extrapolated(&mut self) -> Option<&mut dyn Extrapolated> {
        None
    }

    /// The learned side, for schemes whose actions come from outside.
    #[cfg(feature = "policies")]
    fn learned(&mut self) -> Option<&mut dyn LearnedController> {
        None
    }

    /// The spec that watches it ([`Spec::watch`](crate::learned::Spec::watch)), if one does: whoever takes its decisions
    /// finds in [`acted`](LearnedController::acted) what the controller has done, and answers nothing.
    #[cfg(feature = "policies")]
    fn watcher(&mut self) -> Option<&mut dyn LearnedController> {
        None
    }
}

/// Needs of a controller from the transport that carries it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransportNeeds {
    /// [`Controller::on_sent`] is called for every segment, and not only for the first after silence (Linux's
    /// `CA_EVENT_TX_START`).
    pub every_segment: bool,
    /// The controller reads [`AckInfo::rate`]; a transport that need not take delivery-rate samples remembers less.
    pub rate_samples: bool,
    /// The scheme steers the window through recovery itself (Linux's `cong_control`): no proportional rate reduction.
    pub owns_recovery: bool,
    /// A paced segment leaves by itself, and the newest rate says how long after the one before it. A transport that
    /// paces in bursts, each with the rate of its beginning, may leave it at that.
    pub paces_each: bool,
    /// Packets leave as ECT(1), and so enter queues for Low Latency, Low Loss and Scalable throughput (RFC 9331 §4).
    pub l4s: bool,
}

impl TransportNeeds {
    /// The needs of a scheme whose window moves as Linux's TCP moves it: acknowledgements and losses only.
    pub const WINDOW: Self =
        Self { every_segment: false, rate_samples: false, owns_recovery: false, paces_each: false, l4s: false };
}

impl TransportNeeds {
    /// The needs of either of two schemes.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            every_segment: self.every_segment || other.every_segment,
            rate_samples: self.rate_samples || other.rate_samples,
            owns_recovery: self.owns_recovery || other.owns_recovery,
            paces_each: self.paces_each || other.paces_each,
            l4s: self.l4s || other.l4s,
        }
    }
}

impl Default for TransportNeeds {
    /// Everything is reported, and the transport steers recovery.
    fn default() -> Self {
        Self { every_segment: true, rate_samples: true, ..Self::WINDOW }
    }
}

/// Follows single transmissions by [`SentInfo::number`]. For such a controller, window and pacing rate are also read after
/// [`Controller::on_sent`].
pub trait PacketTracker {
    /// Transmission `number` has arrived; called for each that an acknowledgement reports, before its
    /// [`on_ack`](Controller::on_ack).
    fn on_packet_acked(&mut self, number: u64);

    /// Transmission `number` counts as lost; called before [`on_loss`](Controller::on_loss) or
    /// [`on_timeout`](Controller::on_timeout).
    fn on_packet_lost(&mut self, number: u64);
}

/// Asks routers on the path for something.
pub trait RouterAssisted {
    /// The header that a packet leaves with, for routers to change. A scheme always gives the same kind.
    fn request(&self) -> Signal;
}

/// Takes changes of an application's settings while the flow runs.
pub trait Adjustable {
    /// Puts `setting` in force. A controller ignores a setting that means nothing to its scheme.
    fn set(&mut self, setting: FlowSetting);
}

/// A setting that an application may change while a flow runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FlowSetting {
    /// The rate that the application wants, written into packets for routers to lower.
    DesiredRate(Rate),
    /// The flow's weight among others, above the scheme's [bound](crate::scheme::Scheme::weight_above).
    Weight(f64),
    /// The rates to reach; none if the application has no requirement.
    Requirement(Option<Requirement>),
}

impl FlowSetting {
    /// Puts the setting in force at `controller`, if it takes settings.
    pub fn apply(self, controller: &mut dyn Controller) {
        if let Some(adjustable) = controller.adjustable() {
            adjustable.set(self);
        }
    }
}

/// Lets a datapath move the window between reports.
pub trait Extrapolated {
    /// Returns how to move the window from `now` until the next report.
    fn extrapolation(&self, now: Time) -> Extrapolation;

    /// The datapath that runs CUBIC for the controller ([`Extrapolation::cubic`]) has reached `window`, or heads for it
    /// in recovery; or the scheme in whose shadow the controller decides has. The controller goes on from this window.
    /// Returns false if it cannot.
    fn adopt_window(&mut self, _window: Bytes) -> bool {
        false
    }
}

/// Movement of the window between the reports of a datapath that reports only now and then.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Extrapolation {
    /// Segments that the window grows by while one window of data is acknowledged, as long as it limits sending.
    pub increase: f64,
    /// Part of the window that a loss episode leaves.
    pub decrease: f64,
    /// Flag that within a window of data only losses matter: one report per window is enough.
    pub per_window: bool,
    /// Instead of `increase` and `decrease`: the datapath's own CUBIC moves the window for this time, at most
    /// [`Extrapolation::LONGEST`], and then reports. The datapath gets the factor by which the controller scaled the
    /// window, not the window.
    pub cubic: Option<Dur>,
    /// Longest time between reports, for decisions that fall due without one.
    pub report: Option<Dur>,
}

impl Extrapolation {
    /// Longest time between reports, however long a decision interval lasts.
    pub const LONGEST: Dur = Dur::from_millis(10_000);

    /// The window stays.
    pub const HOLD: Self = Self { increase: 0.0, decrease: 1.0, per_window: false, cubic: None, report: None };

    /// The extrapolation of `controller` at `now`: the window stays if the controller has none of its own.
    pub fn of(controller: &mut dyn Controller, now: Time) -> Self {
        controller.extrapolated().map_or(Self::HOLD, |extrapolated| extrapolated.extrapolation(now))
    }
}
