//! Who has which addresses, so that shells nest and stand beside one another without translation.
//!
//! Addresses are of 100.64.0.0/10, which RFC 6598 sets aside for the inside of networks and mahimahi uses too. The first
//! shell gets 100.64.0.1 outside and 100.64.0.2 inside, as with mahimahi. A shell routes a block to its inside; a shell
//! inside takes a part of that block, so that every answer finds its way at every level. That a namespace is the inside of
//! a shell, and what its block is, the namespace's own routes tell: the block is unreachable there but for what is routed.

use std::net::Ipv4Addr;

use super::ShellError;
use crate::error::LinkError;
use crate::netlink;

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
    /// Its first address, which stands for the block.
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

    /// What a shell inside can take: not the part with the two ends.
    fn inside(self) -> impl Iterator<Item = Self> {
        self.parts((self.bits + LEVEL_BITS).min(LAST_BITS)).skip(1)
    }

    fn contains(self, other: Self) -> bool {
        self.bits <= other.bits && (self.base ^ other.base).leading_zeros() >= self.bits.into()
    }
}

/// A block for a shell in the calling thread's namespace, routed to interface number `device`, and whether the namespace is
/// the inside of another shell.
///
/// # Errors
/// If all are taken.
pub fn claim(device: u32) -> Result<(Block, bool), ShellError> {
    let path = "/proc/thread-self/net/route";
    let table = std::fs::read_to_string(path).map_err(|e| LinkError::of(format!("cannot read {path}"), e))?;
    let routes: Vec<(Block, bool)> = table.lines().skip(1).filter_map(route).collect();
    let around = routes.iter().filter(|(block, refused)| *refused && SPACE.contains(*block)).map(|r| r.0);
    let around = around.max_by_key(|block| block.bits);
    let mut socket = netlink::Socket::open()?;
    let mut free = |candidate: &Block| match routes.iter().any(|(taken, _)| candidate.contains(*taken)) {
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
    let limit = match around {
        None => format!("all {} blocks of 100.64.0.0/10 are routed already: see `ip route`", candidates.len()),
        Some(block) if candidates.is_empty() => {
            format!("{}/{} cannot be divided further: shells are nested too deep", block.base(), block.bits)
        }
        Some(_) => format!("this shell has {} inside it already, for which there are addresses", candidates.len()),
    };
    Err(ShellError::Addresses(limit))
}

/// Destination of a line of /proc/net/route, and whether packets there are refused.
fn route(line: &str) -> Option<(Block, bool)> {
    let hex = |text: &str| u32::from_str_radix(text, 16).ok();
    let fields: Vec<&str> = line.split_whitespace().collect();
    let (destination, flags, mask) = (fields.get(1)?, fields.get(3)?, fields.get(7)?);
    // Addresses are in network order, printed as numbers of the machine.
    let address = |text| Some(u32::from_be_bytes(hex(text)?.to_ne_bytes()));
    let bits = address(mask)?.leading_ones() as u8;
    const RTF_REJECT: u32 = 0x200;
    Some((Block { base: address(destination)?, bits }, hex(flags)? & RTF_REJECT != 0)).filter(|(b, _)| b.bits > 0)
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
    fn routes_are_read() {
        let line = "delay-7\t00004064\t00000000\t0001\t0\t0\t0\t0080FFFF\t0\t0\t0";
        assert_eq!(route(line), Some((block("100.64.0.0/17"), false)));
        assert_eq!(
            route("*\t00104064\t00000000\t0201\t0\t0\t0\t00F0FFFF\t0\t0\t0"),
            Some((block("100.64.16.0/20"), true))
        );
        assert_eq!(route("eth0\t00000000\t0100000A\t0003\t0\t0\t0\t00000000\t0\t0\t0"), None);
        assert_eq!(route("nonsense"), None);
    }
}
