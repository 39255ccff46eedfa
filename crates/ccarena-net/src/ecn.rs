//! Explicit congestion notification: the two bits that each IP packet has for it.

/// ECN code point of a packet (RFC 3168 §5 and RFC 8311 §2). Its value is the field in the headers of IPv4 and IPv6.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Ecn {
    /// No transport that reacts to marks: a queue drops instead.
    #[default]
    NotEct = 0b00,
    /// ECN-capable, and asks for low latency (L4S, RFC 9331 §4.1).
    Ect1 = 0b01,
    /// ECN-capable, with marks that mean as much as losses do (RFC 3168).
    Ect0 = 0b10,
    /// Congestion experienced: a queue has marked it.
    Ce = 0b11,
}

impl Ecn {
    /// All of them, by value.
    pub const ALL: [Self; 4] = [Self::NotEct, Self::Ect1, Self::Ect0, Self::Ce];

    /// Returns the code point in the two low bits of `bits`.
    #[inline]
    #[must_use]
    pub const fn from_bits(bits: u8) -> Self {
        match bits & 0b11 {
            0b00 => Self::NotEct,
            0b01 => Self::Ect1,
            0b10 => Self::Ect0,
            _ => Self::Ce,
        }
    }

    /// Returns whether queues may mark the packet instead of dropping it.
    #[inline]
    #[must_use]
    pub const fn is_capable(self) -> bool {
        !matches!(self, Self::NotEct)
    }

    /// Returns whether an L4S queue takes the packet (RFC 9331 §5.1).
    #[inline]
    #[must_use]
    pub const fn is_l4s(self) -> bool {
        matches!(self, Self::Ect1 | Self::Ce)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_points_are_the_bits_of_the_header() {
        for (bits, ecn) in (0_u8..).zip(Ecn::ALL) {
            assert_eq!((ecn as u8, Ecn::from_bits(bits), Ecn::from_bits(bits | 0xfc)), (bits, ecn, ecn));
            // RFC 9331 §5.1 and RFC 3168 §5: CE shares a bit with both ECTs.
            assert_eq!((ecn.is_l4s(), ecn.is_capable()), (bits & 1 == 1, bits != 0));
        }
    }
}
