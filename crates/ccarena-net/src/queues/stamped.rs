//! Packets with the time at which they arrived, for disciplines that measure sojourn times.

use ccarena_cc::types::Time;

use super::Item;

/// A packet and when it arrived.
#[derive(Debug)]
pub(super) struct Stamped<T> {
    pub item: T,
    pub arrival: Time,
}

impl<T: Item> Item for Stamped<T> {
    #[inline]
    fn bytes(&self) -> u32 {
        self.item.bytes()
    }

    #[inline]
    fn flow(&self) -> u64 {
        self.item.flow()
    }

    #[inline]
    fn ecn_capable(&self) -> bool {
        self.item.ecn_capable()
    }

    #[inline]
    fn mark(&mut self) {
        self.item.mark();
    }
}
