//! Counters of a policy in the kernel.

use crate::intf::Plain;

/// Names of the reasoner's cases, of which 0 is none; and of ACCT's zones.
pub const CASES: [&str; 5] = ["none", "falling", "rising", "lossy", "queued"];
/// See [`CASES`].
pub const ZONES: [&str; 4] = ["green", "yellow", "red", "blue"];

/// Sums over all sockets and CPUs, in the kernel since the name was loaded: `struct stats` of `bpf/operation.h`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Sockets that have chosen it, and those that have given it up.
    pub opened: u64,
    /// See `opened`.
    pub closed: u64,
    /// Periods of the clock.
    pub periods: u64,
    /// Number of these in which the policy was asked.
    pub decisions: u64,
    /// Time that decisions took, signals included.
    pub ns: u64,
    /// The longest.
    pub ns_most: u64,
    /// Decisions with an entry of the observation beyond what the policy admits.
    pub beyond: u64,
    /// Decisions with an entry outside of what training saw.
    pub outside: u64,
    /// Decisions whose report found no room.
    pub unreported: u64,
    /// Decisions whose action was held back.
    pub held: u64,
    /// Decisions for which no room to work was left on the CPU: the action before stayed in force.
    pub missed: u64,
    /// Connections that the guard took from the policy.
    pub handed_back: u64,
    /// Decisions in the shadow that were compared with the running control.
    pub compared: u64,
    /// Number of these within a tenth of the running rate.
    pub agreed: u64,
    /// Periods by the reasoner's case.
    pub cases: [u64; 8],
    /// Periods by ACCT's zone.
    pub zones: [u64; 4],
}

#[allow(unsafe_code, reason = "kernel and user space exchange these structs as bytes")]
// SAFETY: integers of one size alone, so without padding; a test compares size and offsets with operation.h.
unsafe impl Plain for Stats {}

impl Stats {
    /// Adds up the structs of all CPUs.
    pub(super) fn sum<'a>(of: impl Iterator<Item = &'a [u8]>) -> Self {
        of.filter_map(Plain::read).fold(Self::default(), |a, b: Self| {
            let add = |a: u64, b: u64| a.wrapping_add(b);
            Self {
                opened: add(a.opened, b.opened),
                closed: add(a.closed, b.closed),
                periods: add(a.periods, b.periods),
                decisions: add(a.decisions, b.decisions),
                ns: add(a.ns, b.ns),
                ns_most: a.ns_most.max(b.ns_most),
                beyond: add(a.beyond, b.beyond),
                outside: add(a.outside, b.outside),
                unreported: add(a.unreported, b.unreported),
                held: add(a.held, b.held),
                missed: add(a.missed, b.missed),
                handed_back: add(a.handed_back, b.handed_back),
                compared: add(a.compared, b.compared),
                agreed: add(a.agreed, b.agreed),
                cases: std::array::from_fn(|k| add(a.cases[k], b.cases[k])),
                zones: std::array::from_fn(|k| add(a.zones[k], b.zones[k])),
            }
        })
    }

    /// Returns what came after `before`. Sockets, and the longest decision, stay those of the name's whole time.
    pub(super) fn since(self, before: &Self) -> Self {
        let less = |a: u64, b: u64| a.saturating_sub(b);
        Self {
            opened: self.opened,
            closed: self.closed,
            periods: less(self.periods, before.periods),
            decisions: less(self.decisions, before.decisions),
            ns: less(self.ns, before.ns),
            ns_most: self.ns_most,
            beyond: less(self.beyond, before.beyond),
            outside: less(self.outside, before.outside),
            unreported: less(self.unreported, before.unreported),
            held: less(self.held, before.held),
            missed: less(self.missed, before.missed),
            handed_back: less(self.handed_back, before.handed_back),
            compared: less(self.compared, before.compared),
            agreed: less(self.agreed, before.agreed),
            cases: std::array::from_fn(|k| less(self.cases[k], before.cases[k])),
            zones: std::array::from_fn(|k| less(self.zones[k], before.zones[k])),
        }
    }

    /// Sockets that have it now.
    #[must_use]
    pub fn sockets(&self) -> u64 {
        self.opened.saturating_sub(self.closed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_begin_anew_with_a_policy_and_sockets_stay() {
        let before = Stats { opened: 5, closed: 1, decisions: 40, ns: 400, ns_most: 30, ..Stats::default() };
        let kept = Stats::read(before.bytes()).unwrap();
        let now = Stats { opened: 6, closed: 3, decisions: 42, ns: 430, ns_most: 30, zones: [1, 0, 0, 0], ..before };
        let since = now.since(&kept);
        assert_eq!((since.decisions, since.ns, since.zones), (2, 30, [1, 0, 0, 0]));
        assert_eq!((since.sockets(), since.ns_most), (3, 30));
    }
}
