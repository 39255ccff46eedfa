//! Changes of a link as it runs.

use ccarena_cc::types::{Rate, Time};

use super::{Carried, Link};
use crate::scenario::LinkChange;

impl<T: Carried> Link<T> {
    /// Changes the rate, delay or loss from `now` on, up to which everything has happened. What changes is one of steps, as
    /// [`make_changeable`](crate::Scenario::make_changeable) writes it; the rest stays. A packet in transmission goes on at
    /// the new rate.
    pub fn change(&mut self, now: Time, change: &LinkChange) {
        if let Some(rate) = change.rate {
            self.set_rate(now, rate);
        }
        if let Some(delay) = change.delay {
            self.wire.set_delay(now, delay);
        }
        if let (Some(probability), Some(losses)) = (change.loss, &mut self.losses) {
            losses.set_probability(now, probability);
        }
    }

    fn set_rate(&mut self, now: Time, rate: Rate) {
        let transmitting = self.transmitting();
        let start = if transmitting.is_some() { Time(self.departs.0 - self.serialisation.0) } else { now };
        if !self.service.follow(now, rate, start) {
            return;
        }
        if let Some(bytes) = transmitting {
            self.departs = self.service.departure(start, bytes, false, || start);
            self.serialisation = self.departs.since(start);
        }
    }
}
