//! Base that runs CUBIC per acknowledgement; actions scale its window now and then.
//!
//! If the papers are silent:
//!
//! - After an action CUBIC begins a new epoch at the new window.
//! - A datapath that rarely reports to the controller runs CUBIC itself, if it is to be Linux's, and reports its window
//!   once per period (`adopt_window`).

use super::{Base, BaseEntry, Lever, over, paced, per_rtt};
use crate::controller::{Controller, Extrapolation};
use crate::events::{AckInfo, LossInfo, SentInfo};
use crate::feedback::Feedback;
use crate::param::Param;
use crate::schemes::cubic::{self, Cubic};
use crate::types::{Bytes, Dur, Rate, Time};

/// Registry entry.
pub const CUBIC: BaseEntry = BaseEntry {
    name: "cubic",
    doc: "CUBIC with HyStart per acknowledgement; an action begins a new epoch at the new window",
    source: "Abbasloo et al., Orca, SIGCOMM 2020; RFC 9438",
    levers: &[Lever::Window],
    options: &[
        cubic::SCHEME.params[0],
        cubic::SCHEME.params[1],
        cubic::SCHEME.params[2],
        Param {
            name: "pacing_gain",
            default: 0.0,
            min: 0.0,
            max: 10.0,
            doc: "pacing rate in windows per smoothed RTT; 0 is CUBIC's ACK clocking",
        },
        Param {
            name: "new_epoch",
            default: 1.0,
            min: 0.0,
            max: 1.0,
            doc: "1: an action begins a new epoch, and no slow start leads back from a lower window; 0: it moves the window \
                  alone, as in Orca's published code",
        },
    ],
    takes_rate: false,
    feedback: Feedback::None,
    kernel: true,
    build: |parts| {
        let mut config = parts.config.clone();
        let given = CUBIC.options[..3].iter().zip(parts.options);
        config.params = given.map(|(param, value)| (param.name.to_string(), *value)).collect();
        let base = OverCubic {
            cubic: Cubic::new(&config),
            remote: false,
            srtt: Dur::ZERO,
            pacing_gain: parts.options[3],
            new_epoch: parts.options[4] >= 0.5,
            mss: f64::from(config.mss.max(1)),
            is_linux: Cubic::is_linux(&config) && parts.options[4] >= 0.5,
        };
        over(base, parts.plan)
    },
};

struct OverCubic {
    cubic: Cubic,
    /// A datapath's CUBIC runs, and `cubic` has its window alone.
    remote: bool,
    srtt: Dur,
    pacing_gain: f64,
    /// CUBIC learns of actions.
    new_epoch: bool,
    mss: f64,
    /// A datapath's CUBIC would do.
    is_linux: bool,
}

impl Base for OverCubic {
    #[inline]
    fn on_ack(&mut self, ack: &AckInfo) {
        if !self.remote {
            self.cubic.on_ack(ack);
        }
        self.srtt = ack.srtt;
    }

    fn on_loss(&mut self, loss: &LossInfo) {
        if !self.remote {
            self.cubic.on_loss(loss);
        }
    }

    fn on_timeout(&mut self, loss: &LossInfo) {
        if !self.remote {
            self.cubic.on_timeout(loss);
        }
    }

    #[inline]
    fn on_sent(&mut self, sent: &SentInfo) {
        if !self.remote {
            self.cubic.on_sent(sent);
        }
    }

    fn on_spurious_loss(&mut self, now: Time) {
        if !self.remote {
            self.cubic.on_spurious_loss(now);
        }
    }

    fn on_idle_restart(&mut self, now: Time, idle: Dur, rto: Dur) {
        if !self.remote {
            self.cubic.on_idle_restart(now, idle, rto);
        }
    }

    #[inline]
    fn window(&self) -> Bytes {
        self.cubic.window()
    }

    fn segments(&self) -> f64 {
        f64::from(self.cubic.segments())
    }

    #[inline]
    fn pacing_rate(&self) -> Option<Rate> {
        paced(self.pacing_gain, f64::from(self.cubic.segments()), self.mss, self.srtt)
    }

    fn paces(&self) -> bool {
        self.pacing_gain > 0.0
    }

    fn rate_bps(&self) -> f64 {
        per_rtt(self.segments(), self.mss, self.srtt) * if self.pacing_gain > 0.0 { self.pacing_gain } else { 1.0 }
    }

    fn slow_start_threshold(&self) -> Option<Bytes> {
        self.cubic.slow_start_threshold()
    }

    fn extrapolation(&self, left: Dur, _per_window: bool) -> Extrapolation {
        Extrapolation { cubic: self.is_linux.then_some(left.min(Extrapolation::LONGEST)), ..Extrapolation::HOLD }
    }

    fn adopt_window(&mut self, window: Bytes) -> bool {
        self.remote = true;
        self.cubic.set_window(window);
        true
    }

    fn scale_window(&mut self, factor: f64, most: u32) {
        if self.new_epoch {
            self.cubic.scale(factor, most);
        } else {
            self.cubic.scale_alone(factor, most);
        }
    }
}
