//! Marks: the one place where disciplines mark packets, and their counts.

use std::ops::Add;

use serde::Serialize;

use super::Item;
use crate::ecn::Ecn;

/// Counts of marks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Marks {
    /// Packets with ECT(0) that were marked.
    #[serde(rename = "marked_ect0_packets")]
    pub ect0: u64,
    /// Packets with ECT(1) that were marked.
    #[serde(rename = "marked_ect1_packets")]
    pub ect1: u64,
    /// Packets that were dropped because their transport takes no marks.
    #[serde(rename = "dropped_not_ect_packets")]
    pub refused: u64,
}

impl Marks {
    /// Marks `item`. Returns false if its transport takes no marks: it is to be dropped (RFC 3168 §5).
    ///
    /// A packet that an earlier queue has marked stays marked, and does not count.
    #[inline]
    pub fn mark<T: Item>(&mut self, item: &mut T) -> bool {
        match item.ecn() {
            Ecn::NotEct => {
                self.refused += 1;
                return false;
            }
            Ecn::Ce => return true,
            Ecn::Ect0 => self.ect0 += 1,
            Ecn::Ect1 => self.ect1 += 1,
        }
        item.mark();
        true
    }
}

impl Add for Marks {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { ect0: self.ect0 + other.ect0, ect1: self.ect1 + other.ect1, refused: self.refused + other.refused }
    }
}
