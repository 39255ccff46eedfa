//! `fixed`: a constant window. The probe of the link model's golden test.

use crate::controller::{Controller, TransportNeeds};
use crate::events::{AckInfo, LossInfo};
use crate::feedback::Feedback;
use crate::param::Param;
use crate::scheme::{Config, Scheme};
use crate::types::Bytes;

/// Registry entry.
pub const SCHEME: Scheme = Scheme {
    name: "fixed",
    summary: "a constant window that nothing changes",
    params: &[Param { name: "window", default: 10.0, min: 1.0, max: 1e7, doc: "the window in segments" }],
    learned: false,
    rules: false,
    weight_above: None,
    requirement: false,
    alias_of: None,
    feedback: Feedback::None,
    build: |config| Box::new(Fixed::new(config)),
};

struct Fixed {
    window: Bytes,
}

impl Fixed {
    fn new(config: &Config) -> Self {
        Self { window: Bytes(config.param("window") as u64 * u64::from(config.mss)) }
    }
}

impl Controller for Fixed {
    fn on_ack(&mut self, _ack: &AckInfo) {}
    fn on_loss(&mut self, _loss: &LossInfo) {}
    fn on_timeout(&mut self, _loss: &LossInfo) {}

    fn window(&self) -> Bytes {
        self.window
    }

    fn transport(&self) -> TransportNeeds {
        TransportNeeds { owns_recovery: true, ..TransportNeeds::default() }
    }
}
