//! Internet checksums: incomplete ones, and changes of complete ones.

use std::num::NonZeroU16;
use std::ops::Range;

/// A checksum of which only the pseudo-header's sum is written yet: to complete it, sum from `from` to the packet's end.
/// The payload may change without it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unsummed {
    /// First byte of the sum.
    pub from: NonZeroU16,
    /// Place of the checksum, counted from `from`.
    pub at: u16,
}

impl Unsummed {
    /// Place of the checksum in the packet.
    pub fn field(self) -> Range<usize> {
        let at = usize::from(self.from.get()) + usize::from(self.at);
        at..at + 2
    }
}

/// An internet checksum after one 16-bit word has changed (RFC 1624, equation 3).
pub(crate) fn updated(checksum: u16, before: u16, after: u16) -> u16 {
    !folded(u32::from(!checksum) + u32::from(!before) + u32::from(after))
}

/// A pseudo-header's sum after the length of its segment has changed.
pub(crate) fn resummed(sum: u16, before: usize, after: usize) -> u16 {
    folded(u32::from(sum) + u32::from(!(before as u16)) + after as u32)
}

/// The ones' complement sum of the 16-bit words of `sum`.
pub(crate) fn folded(mut sum: u32) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}
