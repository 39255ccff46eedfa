//! Settings of an operator for a policy, and the words of its records, which the kernel's program and QUIC endpoints share.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

/// Default of trips in a row after which a connection is handed to the fallback scheme.
pub const GUARD: u32 = 32;
/// All connections, as a [`share`].
pub const ALL: u64 = 1 << 32;
/// Records of ended connections that are kept; the oldest goes first.
pub const RECORDS: u64 = 16384;

/// Mover of a connection's window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// The policy decides and acts.
    #[default]
    Policy = 0,
    /// The policy decides, and the fallback scheme acts.
    Shadow = 1,
    /// The fallback scheme, to compare the policy with.
    Control = 2,
    /// The fallback scheme: the connection is not one of those that are compared.
    Apart = 3,
    /// The fallback scheme: the guard took the connection from the policy.
    HandedBack = 4,
}

impl Role {
    /// Names by number.
    pub const NAMES: [&str; 5] = ["policy", "shadow", "control", "apart", "handed_back"];

    /// Role of a connection with the number `hash`: `share` of those in the prefix get the policy. With all connections
    /// given to it, those outside the prefix are what it is compared with.
    #[must_use]
    pub fn of(within: bool, hash: u32, share: u64, shadow: bool) -> Self {
        match (within, u64::from(hash) < share) {
            (true, true) if shadow => Self::Shadow,
            (true, true) => Self::Policy,
            (true, false) => Self::Control,
            (false, _) if share >= ALL => Self::Control,
            (false, _) => Self::Apart,
        }
    }

    /// Returns its name in records.
    #[must_use]
    pub const fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }

    /// Returns whether the policy decides, whether it acts or not.
    #[must_use]
    pub const fn decides(self) -> bool {
        matches!(self, Self::Policy | Self::Shadow)
    }
}

/// Reason for the end of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The connection was closed.
    Closed = 1,
    /// The operator gave it another role.
    Moved = 2,
    /// Another policy took over.
    Replaced = 3,
    /// The guard handed it to the fallback scheme.
    Guard = 4,
}

impl Ending {
    /// Names by number; zero is a record that has not ended.
    pub const NAMES: [Option<&str>; 5] = [None, Some("closed"), Some("moved"), Some("replaced"), Some("guard")];

    /// Returns its name in records.
    #[must_use]
    pub const fn name(self) -> Option<&'static str> {
        Self::NAMES[self as usize]
    }
}

/// `of` connections, from 0 to 1, in units of 1 / [`ALL`]; none for a number that is no share.
#[must_use]
pub fn share(of: f64) -> Option<u64> {
    (0.0..=1.0).contains(&of).then(|| (of * ALL as f64).round() as u64)
}

/// Prefix of addresses, IPv4 or IPv6: IPv4's are mapped into IPv6 (RFC 4291 section 2.5.5.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    /// Bits of the address that are compared.
    pub address: u128,
    /// Mask of the bits that are.
    pub mask: u128,
}

/// A text that is no prefix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no prefix of addresses; expected one such as 10.0.0.0/8 or 2001:db8::/32, or an address")]
pub struct NoPrefix(pub String);

impl FromStr for Prefix {
    type Err = NoPrefix;

    fn from_str(text: &str) -> Result<Self, NoPrefix> {
        let refused = || NoPrefix(text.into());
        let (address, bits) = text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
        let (address, before) = match IpAddr::from_str(address).map_err(|_| refused())? {
            IpAddr::V4(v4) => (v4.to_ipv6_mapped(), 96),
            IpAddr::V6(v6) => (v6, 0),
        };
        let bits = bits.map_or(Ok(128 - before), |bits| bits.parse::<u32>().map_err(|_| refused()))?;
        let bits = before.checked_add(bits).filter(|bits| *bits <= 128).ok_or_else(refused)?;
        let mask = u128::MAX.checked_shl(128 - bits).unwrap_or(0);
        Ok(Self { address: u128::from(address) & mask, mask })
    }
}

impl Prefix {
    /// Returns whether `address` begins with it.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = match address {
            IpAddr::V4(v4) => v4.to_ipv6_mapped(),
            IpAddr::V6(v6) => v6,
        };
        u128::from(address) & self.mask == self.address
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (found, bits) = (Ipv6Addr::from(self.address).to_canonical(), self.mask.count_ones());
        write!(f, "{found}/{}", if found.is_ipv4() { bits.saturating_sub(96) } else { bits })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_are_those_of_both_families() {
        for (given, shown, within, without) in [
            ("10.1.2.3/8", "10.0.0.0/8", "10.255.0.1", "11.0.0.1"),
            ("192.0.2.7", "192.0.2.7/32", "::ffff:192.0.2.7", "192.0.2.8"),
            ("2001:db8::/32", "2001:db8::/32", "2001:db8::1", "10.0.0.1"),
            ("0.0.0.0/0", "0.0.0.0/0", "192.0.2.1", "2001:db8::1"),
        ] {
            let prefix: Prefix = given.parse().unwrap();
            assert_eq!(prefix.to_string(), shown);
            assert!(prefix.contains(within.parse().unwrap()), "{given}");
            assert!(!prefix.contains(without.parse().unwrap()), "{given}");
        }
        for bad in ["", "10.0.0.0/33", "::/129", "ten", "10.0.0.0/-1", "10.0.0.0/4294967231"] {
            assert!(bad.parse::<Prefix>().unwrap_err().to_string().contains("10.0.0.0/8"), "{bad}");
        }
    }

    #[test]
    fn a_share_is_a_part_of_one() {
        assert_eq!((share(0.0), share(0.25), share(1.0)), (Some(0), Some(1 << 30), Some(ALL)));
        for bad in [-0.1, 1.1, f64::NAN] {
            assert_eq!(share(bad), None);
        }
    }

    #[test]
    fn more_connections_get_the_policy_with_a_larger_share() {
        let role = |within, hash, of| Role::of(within, hash, share(of).unwrap(), false);
        assert_eq!((role(true, 0, 0.5), role(true, u32::MAX, 0.5)), (Role::Policy, Role::Control));
        assert_eq!((role(true, u32::MAX, 1.0), role(true, 0, 0.0)), (Role::Policy, Role::Control));
        assert_eq!((role(false, 0, 0.5), role(false, 0, 1.0)), (Role::Apart, Role::Control));
        assert_eq!(Role::of(true, 0, ALL, true), Role::Shadow);
        assert_eq!((Role::HandedBack.name(), Ending::Guard.name()), ("handed_back", Some("guard")));
    }
}
