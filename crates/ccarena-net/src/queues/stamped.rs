//! Packets with the time at which they arrived, for disciplines that measure sojourn times.

use ccarena_cc::types::Time;

use super::Item;
use crate::ecn::Ecn;

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
    fn ecn(&self) -> Ecn {
        self.item.ecn()
    }

    #[inline]
    fn mark(&mut self) {
        self.item.mark();
    }
}
