//! IPv6 in the namespaces of emulations: every IPv4 address that we give has an IPv6 address beside it.
//!
//! Its first 96 bits are a unique local prefix (RFC 4193), the others the IPv4 address. A block of IPv4 addresses that is
//! free is thus a free block of IPv6 addresses, and both are routed alike. TUN devices have no neighbours to discover and
//! no duplicate addresses to detect: the kernel does neither on them (`IFF_NOARP`, `IFA_F_NODAD`).

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::error::LinkError;
use crate::namespace::Namespace;

/// Bits of the prefix.
pub(crate) const PREFIX_BITS: u8 = 96;

/// First 96 bits of all addresses; the 40 bits behind `fd` were drawn at random.
const PREFIX: [u8; 12] = [0xfd, 0x9c, 0x5e, 0x41, 0xb7, 0x2a, 0, 0, 0, 0, 0, 0];

/// Returns the IPv6 address beside `address`.
#[must_use]
pub fn beside(address: Ipv4Addr) -> Ipv6Addr {
    let mut bytes = [0; 16];
    bytes[..12].copy_from_slice(&PREFIX);
    bytes[12..].copy_from_slice(&address.octets());
    bytes.into()
}

/// Returns the IPv4 address that the 16 bytes of an IPv6 `address` stand beside; none if it is not one of ours.
#[inline]
pub(crate) fn stands_beside(address: &[u8]) -> Option<Ipv4Addr> {
    let own: [u8; 4] = address.strip_prefix(&PREFIX)?.try_into().ok()?;
    Some(own.into())
}

/// Allows IPv6 in `namespace`, which is ours alone, and forwards it. To be called before devices are made.
///
/// # Errors
/// If the kernel has no IPv6, or its settings may not be written.
pub(crate) fn allow(namespace: &Namespace) -> Result<(), LinkError> {
    for family in ["all", "default"] {
        namespace.sysctl(&format!("net.ipv6.conf.{family}.disable_ipv6"), "0")?;
    }
    // Addresses of the link itself are of no use, and a router solicits no others.
    let _ = namespace.sysctl("net.ipv6.conf.default.addr_gen_mode", "1");
    namespace.sysctl("net.ipv6.conf.all.forwarding", "1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_stands_beside_its_own() {
        let address = Ipv4Addr::new(100, 64, 3, 9);
        assert_eq!(beside(address).to_string(), "fd9c:5e41:b72a::6440:309");
        assert_eq!(stands_beside(&beside(address).octets()), Some(address));
        assert_eq!(stands_beside(&Ipv6Addr::LOCALHOST.octets()), None);
        assert_eq!(stands_beside(&PREFIX), None);
    }
}
