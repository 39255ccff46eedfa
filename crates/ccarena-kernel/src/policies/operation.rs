//! Choice of the connections that a policy gets, and their records: `bpf/operation.h`, field by field.

use std::cmp::Ordering;
use std::io::Read;
use std::net::{IpAddr, Ipv6Addr};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use ccarena_cc::operation::{self, ALL, GUARD, Prefix, RECORDS};
use libbpf_rs::{Iter, Link, MapCore, MapFlags, MapHandle};

use crate::checks;
use crate::error::KernelError;
use crate::intf::Plain;
use crate::maps::map_error;

const ZERO: [u8; 4] = 0_u32.to_ne_bytes();

/// Settings of an operator for a policy.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// Number of the change; connections look at all else when it differs from the one that they follow.
    pub version: u64,
    /// Connections of 2^32 that get the policy, chosen by a hash of their addresses and ports.
    pub share: u64,
    /// Inode of the cgroup (version 2) whose sockets are chosen; 0 for any.
    pub cgroup: u64,
    /// Flag: the policy decides, and CUBIC acts.
    pub shadow: u32,
    /// Trips in a row after which CUBIC takes a connection over; 0 for never. A decision trips if its observation is outside
    /// the box of the policy's guard, or without one the range of training; if neither is known, if an entry was clipped.
    pub guard: u32,
    /// Remote addresses that are chosen, under the mask: as IPv6, in network order.
    pub remote: [u32; 4],
    /// See `remote`.
    pub mask: [u32; 4],
}

impl Default for Operation {
    /// Every connection, with the guard.
    fn default() -> Self {
        Self { version: 0, share: ALL, cgroup: 0, shadow: 0, guard: GUARD, remote: [0; 4], mask: [0; 4] }
    }
}

/// Record of a connection, or of the part of it under one role and one policy.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Connection {
    /// Number among those that have ended, from 1; 0 if it lives.
    pub record: u64,
    /// Number of the connection, in the order of opening, from 1.
    pub id: u64,
    /// `SO_COOKIE`; 0 if nobody has asked for it.
    pub cookie: u64,
    /// Beginning and end of the record, CLOCK_MONOTONIC; the end is now if the connection lives.
    pub begun_ns: u64,
    /// See `begun_ns`.
    pub now_ns: u64,
    /// Time with data on the way.
    pub busy_ns: u64,
    /// Number of the policy ([`About::generation`](ccarena_cc::policy::kernel::About::generation)).
    pub generation: u64,
    /// Bytes that were acknowledged.
    pub acked_bytes: u64,
    /// Bytes that were sent, retransmissions included.
    pub sent_bytes: u64,
    /// Bytes that were retransmitted.
    pub retransmitted_bytes: u64,
    /// Sum and number of RTT samples.
    pub rtt_us: u64,
    /// See `rtt_us`.
    pub rtt_count: u64,
    /// Decisions of the policy.
    pub decisions: u64,
    /// Number of these on what training did not see.
    pub outside: u64,
    /// Number of these with an entry beyond what the policy admits.
    pub clamps: u64,
    /// Number of these whose action was held back.
    pub held: u64,
    /// Decisions in the shadow that were compared with the running control.
    pub compared: u64,
    /// Number of these within a tenth of the running rate.
    pub agreed: u64,
    /// Sums over compared decisions of the policy's and the running rate, in KiB/s.
    pub policy_kib: u64,
    /// See `policy_kib`.
    pub running_kib: u64,
    /// `sk_pacing_rate`.
    pub pacing_bytes_per_s: u64,
    /// Smallest RTT; 0 before the first sample.
    pub rtt_min_us: u32,
    /// Smoothed RTT.
    pub srtt_us: u32,
    /// Congestion window.
    pub window_packets: u32,
    /// Payload of a full segment.
    pub mss: u32,
    /// Mover of the window: index into [`Role::NAMES`](operation::Role::NAMES).
    pub role: u32,
    /// Reason for the end of the record: index into [`Ending::NAMES`](operation::Ending::NAMES).
    pub ended: u32,
    /// Addresses as IPv6, in network order.
    pub local_address: [u32; 4],
    /// See `local_address`.
    pub remote_address: [u32; 4],
    /// Ports.
    pub local_port: u16,
    /// See `local_port`.
    pub remote_port: u16,
    /// Padding.
    pub unused: u32,
}

#[allow(unsafe_code, reason = "kernel and user space exchange these structs as bytes")]
// SAFETY: integers alone, ordered by size, so without padding; a test compares sizes and offsets with operation.h.
unsafe impl Plain for Operation {}
#[allow(unsafe_code, reason = "kernel and user space exchange these structs as bytes")]
// SAFETY: as for `Operation`.
unsafe impl Plain for Connection {}

/// An address from its words in network order; IPv4 if it is mapped into IPv6.
#[must_use]
pub fn address(words: &[u32; 4]) -> IpAddr {
    Ipv6Addr::from(bytes(words)).to_canonical()
}

fn bytes(words: &[u32; 4]) -> [u8; 16] {
    let mut bytes = [0; 16];
    for (to, word) in bytes.chunks_exact_mut(4).zip(words) {
        to.copy_from_slice(&word.to_ne_bytes());
    }
    bytes
}

/// The words of an address as IPv6, in network order.
fn words(of: u128) -> [u32; 4] {
    let bytes = of.to_be_bytes();
    std::array::from_fn(|k| u32::from_ne_bytes(std::array::from_fn(|i| bytes[4 * k + i])))
}

impl Operation {
    /// Chooses `share` of connections, from 0 to 1.
    ///
    /// # Errors
    /// If it is not in that range.
    pub fn set_share(&mut self, share: f64) -> Result<(), KernelError> {
        self.share = operation::share(share).ok_or(KernelError::Share(share))?;
        Ok(())
    }

    /// Restricts the choice to sockets that were made in the cgroup `folder`, or takes the restriction back.
    ///
    /// # Errors
    /// If it is no folder of a cgroup2 file system.
    pub fn set_cgroup(&mut self, folder: Option<&Path>) -> Result<(), KernelError> {
        let Some(folder) = folder else {
            self.cgroup = 0;
            return Ok(());
        };
        checks::is_cgroup(folder)?;
        self.cgroup = folder.metadata().map_err(|_| KernelError::NoCgroup(folder.into()))?.ino();
        Ok(())
    }

    /// Restricts the choice to remote addresses of `prefix`, as 10.0.0.0/8, or takes the restriction back.
    ///
    /// # Errors
    /// If it is no address or prefix.
    pub fn set_remote(&mut self, prefix: Option<&str>) -> Result<(), KernelError> {
        let prefix = prefix.map(str::parse::<Prefix>).transpose()?;
        (self.remote, self.mask) = prefix.map_or(([0; 4], [0; 4]), |of| (words(of.address), words(of.mask)));
        Ok(())
    }

    /// The share of connections that are chosen, from 0 to 1.
    #[must_use]
    pub fn chosen(&self) -> f64 {
        self.share as f64 / ALL as f64
    }

    /// The prefix of remote addresses, if they are restricted.
    #[must_use]
    pub fn prefix(&self) -> Option<String> {
        let bits = |words: &[u32; 4]| u128::from_be_bytes(bytes(words));
        (self.mask != [0; 4]).then(|| Prefix { address: bits(&self.remote), mask: bits(&self.mask) }.to_string())
    }

    pub(super) fn read(map: &MapHandle) -> Result<Self, KernelError> {
        let bytes = map.lookup(&ZERO, MapFlags::ANY).map_err(|e| map_error("read", "operation", &e))?;
        bytes.as_deref().and_then(Plain::read).ok_or(KernelError::OtherVersion)
    }

    /// Puts it in force: the content first, then the version by which connections notice it.
    pub(super) fn write(mut self, map: &MapHandle) -> Result<(), KernelError> {
        let put =
            |of: &Self| map.update(&ZERO, of.bytes(), MapFlags::ANY).map_err(|e| map_error("write", "operation", &e));
        put(&self)?;
        self.version += 1;
        put(&self)
    }
}

/// Every connection that lives, as the program behind `list` tells.
pub(super) fn living(list: &Link) -> Result<Vec<Connection>, KernelError> {
    let mut bytes = Vec::new();
    let mut iter = Iter::new(list).map_err(|e| map_error("list", "connections", &e))?;
    iter.read_to_end(&mut bytes).map_err(|e| KernelError::Map {
        action: "list",
        map: "connections",
        reason: e.to_string(),
    })?;
    Ok(bytes.chunks_exact(size_of::<Connection>()).filter_map(Plain::read).collect())
}

/// The records of `ended` after number `after`, of `counts` that there were; the oldest may be gone. Ends before a record
/// that is still being written, so that whoever goes on after the last one gets it then.
pub(super) fn ended(ended: &MapHandle, counts: &MapHandle, after: u64) -> Result<Vec<Connection>, KernelError> {
    let read = |map: &MapHandle, key: &[u8; 4]| {
        map.lookup(key, MapFlags::ANY).map_err(|e| map_error("read", "ended", &e)).map(Option::unwrap_or_default)
    };
    let numbers = read(counts, &ZERO)?;
    let last = numbers.get(8..).and_then(|b| b.first_chunk()).map_or(0, |b| u64::from_ne_bytes(*b));
    let mut found = Vec::new();
    for number in after.max(last.saturating_sub(RECORDS))..last {
        let key = ((number % RECORDS) as u32).to_ne_bytes();
        let Some(record) = Connection::read(&read(ended, &key)?) else { break };
        // A smaller number: it is being written. A larger one: it has been overwritten.
        match record.record.cmp(&(number + 1)) {
            Ordering::Less => break,
            Ordering::Equal => found.push(record),
            Ordering::Greater => {}
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_told_as_it_was_set() {
        let mut operation = Operation::default();
        for (given, shown) in [("10.1.2.3/8", "10.0.0.0/8"), ("2001:db8::/32", "2001:db8::/32")] {
            operation.set_remote(Some(given)).unwrap();
            assert_eq!(operation.prefix().as_deref(), Some(shown));
        }
        assert!(operation.set_remote(Some("ten")).unwrap_err().to_string().contains("10.0.0.0/8"));
        operation.set_remote(None).unwrap();
        assert_eq!(operation.prefix(), None);
    }

    #[test]
    fn a_share_that_is_none_is_refused() {
        let mut operation = Operation::default();
        operation.set_share(0.25).unwrap();
        assert!(operation.share == 1 << 30 && (operation.chosen() - 0.25).abs() < 1e-9);
        assert!(operation.set_share(1.1).unwrap_err().to_string().contains("from 0 to 1"));
        assert_eq!(operation.share, 1 << 30);
    }
}
