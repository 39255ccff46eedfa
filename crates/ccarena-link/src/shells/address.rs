//! Addresses of shells, which nest and stand side by side without translation.
//!
//! Addresses are of 100.64.0.0/10, which RFC 6598 sets aside for the inside of networks and mahimahi uses too. The
//! first shell gets 100.64.0.1 outside and 100.64.0.2 inside, as with mahimahi. A shell routes a block to its inside; a
//! shell inside takes a part of that block, so that every answer is routed at every level. The routes of a namespace
//! show whether it is the inside of a shell, and its block: the block is unreachable there except for routed parts.

use std::net::{IpAddr, Ipv4Addr};

use super::ShellError;
use crate::ipv6;
use crate::netlink::{self, Route};

const SPACE: Block = Block { base: 0x6440_0000, bits: 10 };

/// Bits of the block of a shell that is in no other: 128 of them fit.
const OUTERMOST_BITS: u8 = 17;

/// A shell inside another takes an eighth of its block, less what the other itself uses: six levels in all.
const LEVEL_BITS: u8 = 3;

/// The smallest block with room for both ends.
const LAST_BITS: u8 = 30;

/// A block of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    base: u32,
    /// Bits that all its addresses share.
    pub bits: u8,
}

impl Block {
    /// Returns its first address, which stands for the block.
    pub fn base(self) -> Ipv4Addr {
        self.base.into()
    }

    /// The address of the shell's outer end.
    pub fn outer(self) -> Ipv4Addr {
        (self.base + 1).into()
    }

    /// The address of its inner end.
    pub fn inner(self) -> Ipv4Addr {
        (self.base + 2).into()
    }

    /// The parts of it with so many bits.
    fn parts(self, bits: u8) -> impl Iterator<Item = Self> {
        (0..1_u32 << bits.saturating_sub(self.bits)).map(move |i| Self { base: self.base + (i << (32 - bits)), bits })
    }

    /// Returns the parts that a shell inside can take: not the part with the two ends.
    fn inside(self) -> impl Iterator<Item = Self> {
        self.parts((self.bits + LEVEL_BITS).min(LAST_BITS)).skip(1)
    }

    /// Returns whether `address`, or the one that it stands beside, is of the block.
    pub fn has(self, address: IpAddr) -> bool {
        let address = match address {
            IpAddr::V4(address) => Some(address),
            IpAddr::V6(address) => ipv6::stands_beside(&address.octets()),
        };
        address.is_some_and(|address| self.contains(Self { base: address.into(), bits: 32 }))
    }

    fn contains(self, other: Self) -> bool {
        self.bits <= other.bits && (self.base ^ other.base).leading_zeros() >= self.bits.into()
    }
}

/// A route of this machine and where it leads.
#[derive(Clone, Copy, Debug)]
struct Taken {
    block: Block,
    table: u32,
    refuses: bool,
}

impl Taken {
    fn of(route: &Route) -> Self {
        let (address, bits) = route.destination;
        Self { block: Block { base: address.into(), bits }, table: route.table, refuses: route.refuses }
    }

    /// Returns whether a shell at `candidate` would take packets from this route, or would not get its own. It does if
    /// the route is for a part of the block, or for some network that contains it. A route for a quarter of all
    /// addresses or more counts as a default route.
    fn conflicts(&self, candidate: Block) -> bool {
        candidate.contains(self.block)
            || (self.block.bits >= NETWORK_BITS && !self.refuses && self.block.contains(candidate))
    }
}

/// Routes for fewer bits are as good as a default.
const NETWORK_BITS: u8 = 3;

/// A block for a shell in the calling thread's namespace, routed to interface number `device`, and whether the namespace is
/// the inside of another shell. No route of the machine, in whatever table, is for any of its addresses.
///
/// # Errors
/// If all are taken.
pub fn claim(device: u32) -> Result<(Block, bool), ShellError> {
    let mut socket = netlink::Socket::open()?;
    let routes: Vec<Taken> = socket.routes()?.iter().map(Taken::of).collect();
    let around = routes.iter().filter(|r| r.refuses && SPACE.contains(r.block)).map(|r| r.block);
    let around = around.max_by_key(|block| block.bits);
    let mut free = |candidate: &Block| match routes.iter().any(|route| route.conflicts(*candidate)) {
        true => Ok(false),
        false => socket.claim_block(candidate.base(), candidate.bits, device),
    };
    let candidates: Vec<Block> = match around {
        Some(block) => block.inside().collect(),
        None => SPACE.parts(OUTERMOST_BITS).collect(),
    };
    for candidate in &candidates {
        if free(candidate)? {
            return Ok((*candidate, around.is_some()));
        }
    }
    let others = routes.iter().find(|r| !r.refuses && r.block.bits >= NETWORK_BITS && r.block.contains(SPACE));
    let limit = match (around, others) {
        (None, Some(Taken { block, table, .. })) => format!(
            "this machine routes {}/{} elsewhere (table {table}), of which shells take their addresses; run the shell in a \
             network namespace of its own (unshare --net), where its server has to be a --far-command",
            block.base(),
            block.bits
        ),
        (None, None) => {
            format!(
                "all {} blocks of 100.64.0.0/10 are routed already: see `ip route show table all`",
                candidates.len()
            )
        }
        (Some(block), _) if candidates.is_empty() => {
            format!("{}/{} cannot be divided further: shells are nested too deep", block.base(), block.bits)
        }
        (Some(_), _) => format!("this shell has {} inside it already, for which there are addresses", candidates.len()),
    };
    Err(ShellError::Addresses(limit))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(text: &str) -> Block {
        let (base, bits) = text.split_once('/').unwrap();
        Block { base: base.parse::<Ipv4Addr>().unwrap().into(), bits: bits.parse().unwrap() }
    }

    #[test]
    fn blocks_divide() {
        let first = SPACE.parts(OUTERMOST_BITS).next().unwrap();
        assert_eq!(first, block("100.64.0.0/17"));
        assert_eq!((first.outer().to_string(), first.inner().to_string()), ("100.64.0.1".into(), "100.64.0.2".into()));
        let inside: Vec<Block> = first.inside().collect();
        assert_eq!(inside.len(), 7);
        assert_eq!(inside[0], block("100.64.16.0/20"));
        assert!(inside.iter().all(|b| first.contains(*b)));
        let mut level = first;
        let levels = std::iter::from_fn(|| level.inside().last().inspect(|b| level = *b)).count();
        assert_eq!((levels, level.bits), (5, 30));
        assert_eq!(SPACE.parts(OUTERMOST_BITS).count(), 128);
    }

    #[test]
    fn no_block_is_taken_from_another_network() {
        let candidate = SPACE.parts(OUTERMOST_BITS).next().unwrap();
        let taken = |text, refuses| Taken { block: block(text), table: 254, refuses };
        for (route, conflicts) in [
            ("0.0.0.0/0", false),
            ("0.0.0.0/1", false),
            ("100.0.0.0/8", true),
            ("100.64.0.0/10", true),
            ("100.64.0.0/17", true),
            ("100.64.3.0/24", true),
            ("100.64.0.1/32", true),
            ("100.64.128.0/17", false),
            ("10.0.0.0/8", false),
        ] {
            assert_eq!(taken(route, false).conflicts(candidate), conflicts, "{route}");
        }
        // Inside another shell, that shell's block is refused but for what is routed.
        assert!(!taken("100.64.0.0/10", true).conflicts(candidate));
    }
}
