//! Interface of all bases.

use crate::controller::{Extrapolation, FlowSetting, PacketTracker, RouterAssisted, TransportNeeds};
use crate::events::{AckInfo, LossInfo, SentInfo};
use crate::learned::monitor::Measured;
use crate::types::{Bytes, Dur, Rate, Time};

/// Lever that an actuator moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lever {
    /// The window.
    Window,
    /// The rate.
    Rate,
    /// Lever α of an additive increase α/w.
    Alpha,
    /// The pacing rate in windows per smoothed RTT.
    Pacing,
    /// The upper bound of the window.
    Cap,
    /// The scheme that runs.
    Choice,
}

/// Window and rate of a flow at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Held {
    /// The window in segments.
    pub segments: f64,
    /// The rate in bit/s.
    pub rate_bps: f64,
}

/// Base that moves window and rate between decisions; its methods are those of a [`Controller`](crate::Controller), and
/// the levers.
pub trait Base: Send + Sync {
    /// An acknowledgement has been booked.
    fn on_ack(&mut self, ack: &AckInfo);

    /// Segments have been marked lost.
    fn on_loss(&mut self, _loss: &LossInfo) {}

    /// The retransmission timer has expired.
    fn on_timeout(&mut self, _loss: &LossInfo) {}

    /// A segment leaves.
    fn on_sent(&mut self, _sent: &SentInfo) {}

    /// See [`Controller::transport`](crate::controller::Controller::transport); rate samples for signals are no need of
    /// the base.
    fn transport(&self) -> TransportNeeds {
        TransportNeeds::WINDOW
    }

    /// See [`Controller::on_spurious_loss`](crate::Controller::on_spurious_loss).
    fn on_spurious_loss(&mut self, _now: Time) {}

    /// See [`Controller::on_idle_restart`](crate::Controller::on_idle_restart).
    fn on_idle_restart(&mut self, _now: Time, _idle: Dur, _rto: Dur) {}

    /// Base's part of [`Controller::on_recovery_end`](crate::Controller::on_recovery_end).
    fn on_recovery_end(&mut self, _now: Time, _in_flight: Bytes) {}

    /// Base's part of [`Controller::on_timer`](crate::Controller::on_timer).
    fn on_timer(&mut self, _now: Time) {}

    /// Base's part of [`Controller::next_timer`](crate::Controller::next_timer).
    fn next_timer(&self) -> Time {
        Time::NEVER
    }

    /// Base's part of [`Controller::packet_tracker`](crate::Controller::packet_tracker).
    fn packet_tracker(&mut self) -> Option<&mut dyn PacketTracker> {
        None
    }

    /// Base's part of [`Controller::router_assisted`](crate::Controller::router_assisted).
    fn router_assisted(&self) -> Option<&dyn RouterAssisted> {
        None
    }

    /// Base's part of [`Adjustable::set`](crate::controller::Adjustable::set).
    fn set(&mut self, _setting: FlowSetting) {}

    /// A decision period has ended at `now`; `target` is the window in segments that fills the smallest RTT at the
    /// advertised rate.
    fn on_period(&mut self, _now: Time, _ended: &Measured, _target: f64) {}

    /// Bytes that may be in flight.
    fn window(&self) -> Bytes;

    /// The same in segments, as it is reckoned.
    fn segments(&self) -> f64;

    /// See [`Controller::pacing_rate`](crate::Controller::pacing_rate).
    fn pacing_rate(&self) -> Option<Rate>;

    /// Each acknowledgement changes the pacing rate.
    fn paces(&self) -> bool {
        true
    }

    /// The rate in bit/s: that of pacing, or the window per smoothed RTT; zero before there is one.
    fn rate_bps(&self) -> f64;

    /// See [`Controller::min_burst_segments`](crate::Controller::min_burst_segments).
    fn min_burst_segments(&self) -> u32 {
        2
    }

    /// See [`Controller::slow_start_threshold`](crate::Controller::slow_start_threshold).
    fn slow_start_threshold(&self) -> Option<Bytes> {
        None
    }

    /// Returns how a datapath moves the window for `left`, the rest of the period; `per_window` if a window of data
    /// ends it.
    fn extrapolation(&self, _left: Dur, _per_window: bool) -> Extrapolation {
        Extrapolation::HOLD
    }

    /// See [`Extrapolated::adopt_window`](crate::controller::Extrapolated::adopt_window).
    fn adopt_window(&mut self, _window: Bytes) -> bool {
        false
    }

    /// Returns window and rate as the actions so far have made them, and those of another controller at the last
    /// decision, if the base follows one: what leads from the first to the second counts as the action.
    fn moved(&self) -> Option<[Held; 2]> {
        None
    }

    /// The decider is asked: a base that [follows](Self::moved) another controller goes where that one is now.
    fn decided(&mut self) {}

    /// [`Lever::Window`]: multiplies the window, but lifts it to no more than `most` segments.
    fn scale_window(&mut self, _factor: f64, _most: u32) {}

    /// [`Lever::Rate`]: the rate is `bps` from now on.
    fn set_rate(&mut self, _bps: f64) {}

    /// [`Lever::Alpha`].
    fn set_alpha(&mut self, _alpha: f32) {}

    /// [`Lever::Pacing`]: the pacing rate is `windows` per smoothed RTT from now on.
    fn set_pacing_gain(&mut self, _windows: f64) {}

    /// [`Lever::Cap`]: the window is `segments` at most from now on.
    fn set_cap(&mut self, _segments: f64) {}

    /// [`Lever::Choice`]: scheme number `index` runs from now on.
    fn choose(&mut self, _index: usize) {}
}

/// RTT before there is a sample.
pub(super) const INITIAL_RTT: Dur = Dur::from_millis(100);

/// `srtt`, and before there is a sample 100 ms.
#[inline]
pub fn initial_rtt(srtt: Dur) -> Dur {
    if srtt == Dur::ZERO { INITIAL_RTT } else { srtt }
}
