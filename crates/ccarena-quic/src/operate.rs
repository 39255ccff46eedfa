//! Policies that a server offers, as an operator runs them: in the shadow, on a share of connections, under a guard.
//!
//! Settings, roles, records and their keys are those of a policy in the kernel ([`ccarena_cc::operation`]).

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use ccarena_cc::flow::{Fallback, Tally};
use ccarena_cc::operation::{ALL, Ending, GUARD, Prefix, RECORDS, Role};
use ccarena_cc::policy::{Policy, PolicyError};
use ccarena_cc::{Dur, Feedback, Host, Rate, Time};
use ring::digest;
use serde_json::{Value, json};

use crate::metrics::Metrics;
use crate::steering::{Steering, Totals};

/// Reports of the stack.
pub const HOST: Host = Host {
    every_packet: true,
    packet_numbers: true,
    rate_samples: true,
    marks: Feedback::None,
    router_rates: true,
    router_headers: false,
    l4s: false,
};

/// A policy, with its origin and its digest.
#[derive(Clone, Debug)]
pub struct Version {
    /// The policy.
    pub policy: Arc<Policy>,
    /// Origin.
    pub label: String,
    /// SHA-256 of the artifact, in hexadecimal digits.
    pub sha256: String,
}

impl Version {
    /// Reads the artifact `bytes`, whose origin is `label`.
    ///
    /// # Errors
    /// If they are none.
    pub fn read(bytes: &[u8], label: &str) -> Result<Self, PolicyError> {
        let policy = Arc::new(Policy::from_bytes(bytes)?);
        let digest = digest::digest(&digest::SHA256, bytes);
        let sha256 = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Self { policy, label: label.into(), sha256 })
    }

    /// Returns the name of the policy's scheme.
    #[must_use]
    pub fn scheme(&self) -> &str {
        &self.policy.trained().spec.interface().name
    }
}

/// Settings of an operator.
#[derive(Clone, Copy, Debug)]
pub struct Operation {
    /// Connections of 2^32 that get the policy, chosen by a hash of the identifier that the client first chose for the server.
    pub share: u64,
    /// The policy decides, and the fallback scheme acts.
    pub shadow: bool,
    /// Addresses of the connections that it decides for; none for any.
    pub to: Option<Prefix>,
    /// Trips in a row that hand a connection to the fallback scheme; 0 for never.
    pub guard: u32,
}

impl Default for Operation {
    fn default() -> Self {
        Self { share: ALL, shadow: false, to: None, guard: GUARD }
    }
}

/// A connection as the choice of roles sees it.
#[derive(Clone, Copy, Debug)]
pub struct Asking {
    /// Hash of its first identifier.
    pub hash: u32,
    /// The client's address.
    pub remote: IpAddr,
}

/// A number below 2^32 of a connection's first identifier: multipliers of splitmix64.
#[must_use]
pub fn hash_of(identifier: &[u8]) -> u32 {
    let mix = |x: u64, byte: &u8| {
        let x = (x ^ u64::from(*byte)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        x ^ x >> 29
    };
    let x = identifier.iter().fold(identifier.len() as u64, mix).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((x ^ x >> 31) >> 32) as u32
}

impl Operation {
    /// Returns the role of a connection.
    #[must_use]
    pub fn role(&self, of: Asking) -> Role {
        Role::of(self.to.is_none_or(|prefix| prefix.contains(of.remote)), of.hash, self.share, self.shadow)
    }
}

/// Sums of a policy's counts over its connections.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    decisions: u64,
    outside: u64,
    clamps: u64,
    compared: u64,
    agreed: u64,
}

impl Sums {
    fn add(&mut self, tally: &Tally) {
        self.decisions += tally.decisions;
        self.outside += tally.outside;
        self.clamps += tally.clamps;
        self.compared += tally.compared;
        self.agreed += tally.agreed;
    }
}

/// A policy that is offered under a name, and what was there before.
#[derive(Debug)]
pub struct Offered {
    /// The policy in force.
    pub version: Version,
    /// The policy before, to which a rollback returns.
    before: Option<Version>,
    /// Number of the policy among those that the name has had.
    pub generation: u64,
    /// Settings in force.
    pub operation: Operation,
    since: Time,
    /// Connections so far, and records that have ended.
    opened: u64,
    ended: u64,
    handed_back: u64,
    records: VecDeque<Value>,
    sums: Sums,
}

impl Offered {
    /// Offers `version` from `now` on.
    #[must_use]
    pub fn new(version: Version, operation: Operation, now: Time) -> Self {
        Self {
            version,
            before: None,
            generation: 1,
            operation,
            since: now,
            opened: 0,
            ended: 0,
            handed_back: 0,
            records: VecDeque::new(),
            sums: Sums::default(),
        }
    }

    /// Puts `version` in force and keeps the present one for a rollback.
    pub fn replace(&mut self, version: Version) {
        self.before = Some(std::mem::replace(&mut self.version, version));
        self.generation += 1;
        // The counters are the present policy's.
        (self.sums, self.handed_back) = (Sums::default(), 0);
    }

    /// Returns to the policy before. False without one.
    pub fn roll_back(&mut self) -> bool {
        let Some(before) = self.before.take() else { return false };
        self.replace(before);
        true
    }

    /// Begins the record of a connection that asks for this policy.
    pub fn open(&mut self, name: &str, asking: Asking, now: Time) -> Part {
        self.opened += 1;
        Part {
            name: name.into(),
            id: self.opened,
            asking,
            generation: self.generation,
            sha256: self.version.sha256.clone(),
            role: self.operation.role(asking),
            begun: now,
            before: Totals::default(),
        }
    }

    /// Ends the record of `part` at `now`, for `ending`; what of it goes on does so with another role or policy.
    pub fn end(&mut self, part: &mut Part, totals: &Totals, ends: &Ends<'_>, ending: Ending) {
        self.ended += 1;
        if part.generation == self.generation {
            self.handed_back += u64::from(ending == Ending::Guard);
            self.sums.add(&part.tally(totals));
        }
        if self.records.len() as u64 >= RECORDS {
            self.records.pop_front();
        }
        self.records.push_back(part.record(totals, ends, Some(ending), self.ended));
        part.generation = self.generation;
        part.sha256.clone_from(&self.version.sha256);
        part.begun = ends.now;
        part.before = totals.clone();
    }

    /// Returns the records that ended after record number `after`.
    pub fn records(&self, after: u64) -> impl Iterator<Item = &Value> {
        let gone = self.ended - self.records.len() as u64;
        self.records.iter().skip(usize::try_from(after.saturating_sub(gone)).unwrap_or(usize::MAX))
    }

    /// Returns everything about it at `now`, `living` being the counts of its open connections. What a server does not
    /// measure is null.
    #[must_use]
    pub fn shown<'a>(
        &self,
        name: &str,
        fallback: &Fallback,
        living: impl Iterator<Item = &'a Tally>,
        now: Time,
    ) -> Value {
        let (mut sums, mut sockets) = (self.sums, 0);
        living.for_each(|tally| {
            sums.add(tally);
            sockets += 1;
        });
        let interface = self.version.policy.trained().spec.interface();
        json!({
            "name": name,
            "scheme": interface.name,
            "spec": interface.digest,
            "policy": self.version.label,
            "sha256": self.version.sha256,
            "before": self.before.as_ref().map(|before| &before.sha256),
            "fallback": fallback.name(),
            "shadow": self.operation.shadow,
            "share": self.operation.share as f64 / ALL as f64,
            "cgroup": 0,
            "to": self.operation.to.map(|prefix| prefix.to_string()),
            "guard": self.operation.guard,
            "generation": self.generation,
            "option": false,
            "age_s": now.since(self.since).as_secs_f64(),
            "sockets": sockets,
            "periods": null,
            "decisions": sums.decisions,
            "ns": null,
            "ns_most": null,
            "beyond": sums.clamps,
            "outside": sums.outside,
            "held": null,
            "missed": 0,
            "handed_back": self.handed_back,
            "compared": sums.compared,
            "agreed": sums.agreed,
            "cases": {},
            "zones": {},
        })
    }
}

/// Moment and ends of a connection, for its record.
#[derive(Clone, Copy, Debug)]
pub struct Ends<'a> {
    /// Current time.
    pub now: Time,
    /// The server's address.
    pub local: SocketAddr,
    /// The client's.
    pub remote: SocketAddr,
    /// Metrics at `now`.
    pub metrics: &'a Metrics,
    /// Bytes of a full packet.
    pub mtu: u16,
}

/// An operated connection, or the part of it under one role and one policy.
#[derive(Debug)]
pub struct Part {
    /// Name of the policy that it asked for.
    pub name: String,
    id: u64,
    asking: Asking,
    /// Number of its policy.
    pub generation: u64,
    /// Digest of its policy.
    pub sha256: String,
    /// Mover of its window.
    pub role: Role,
    begun: Time,
    /// Counts before the part.
    before: Totals,
}

impl Part {
    /// Returns the role that it has under `operation`. A connection that was handed back stays so until another policy is
    /// in force.
    #[must_use]
    pub fn next_role(&self, offered: &Offered) -> Role {
        let kept = self.role == Role::HandedBack && self.generation == offered.generation;
        if kept { self.role } else { offered.operation.role(self.asking) }
    }

    /// A fresh flow counts from zero.
    pub fn count_from_zero(&mut self) {
        self.before.tally = Tally::default();
    }

    /// Returns the counts of the policy since the part began.
    #[must_use]
    pub fn tally(&self, totals: &Totals) -> Tally {
        let (a, b) = (totals.tally, self.before.tally);
        if !matches!(self.role, Role::Policy | Role::Shadow) {
            return Tally::default();
        }
        Tally {
            decisions: a.decisions.saturating_sub(b.decisions),
            outside: a.outside.saturating_sub(b.outside),
            clamps: a.clamps.saturating_sub(b.clamps),
            compared: a.compared.saturating_sub(b.compared),
            agreed: a.agreed.saturating_sub(b.agreed),
            policy_kib: a.policy_kib.saturating_sub(b.policy_kib),
            running_kib: a.running_kib.saturating_sub(b.running_kib),
        }
    }

    /// Returns its record: number `record` of those that have ended, 0 if it goes on.
    #[must_use]
    pub fn record(&self, totals: &Totals, ends: &Ends<'_>, ending: Option<Ending>, record: u64) -> Value {
        let (a, b, tally) = (&totals.counts, &self.before.counts, self.tally(totals));
        let ns = |of: Dur| of.0;
        json!({
            "record": record,
            "connection": self.id,
            "role": self.role.name(),
            "ended": ending.and_then(Ending::name),
            "generation": self.generation,
            "sha256": self.sha256,
            "local": ends.local.to_string(),
            "remote": ends.remote.to_string(),
            "begun_ns": self.begun.0,
            "now_ns": ends.now.0,
            "busy_ns": ns(totals.busy).saturating_sub(ns(self.before.busy)),
            "acked_bytes": a.delivered_bytes - b.delivered_bytes,
            "sent_bytes": a.sent_bytes - b.sent_bytes,
            "retransmitted_bytes": a.lost_bytes - b.lost_bytes,
            "rtt_us": a.rtt_sum.as_micros() - b.rtt_sum.as_micros(),
            "rtt_count": a.rtt_count - b.rtt_count,
            "rtt_min_us": ends.metrics.rtt_min.as_micros(),
            "srtt_us": ends.metrics.srtt.as_micros(),
            "window_packets": ends.metrics.window / u64::from(ends.mtu.max(1)),
            "mss": ends.mtu,
            "pacing_bytes_per_s": ends.metrics.pacing.map_or(0, |Rate(bps)| bps / 8),
            "decisions": tally.decisions,
            "outside": tally.outside,
            "clamps": tally.clamps,
            "held": null,
            "compared": tally.compared,
            "agreed": tally.agreed,
            "policy_kib": tally.policy_kib,
            "running_kib": tally.running_kib,
        })
    }

    /// Returns whether the guard has taken the connection since the last look.
    #[must_use]
    pub fn was_handed_back(&self, steering: &Steering) -> bool {
        self.role == Role::Policy && steering.role() == Some(Role::HandedBack)
    }
}

#[cfg(test)]
mod tests {
    use ccarena_cc::Config;

    use super::*;

    const ACCT: &[u8] = include_bytes!("../../ccarena-cc/tests/data/golden.safetensors");

    fn asking(of: u32) -> Asking {
        Asking { hash: hash_of(&of.to_le_bytes()), remote: IpAddr::from([10, 0, 0, 1]) }
    }

    #[test]
    fn identifiers_are_spread_evenly() {
        let operation = Operation { share: ALL / 4, ..Operation::default() };
        let chosen = (0..4000).filter(|of| operation.role(asking(*of)) == Role::Policy).count();
        assert!((900..1100).contains(&chosen), "{chosen}");
        assert_ne!(hash_of(&[0]), hash_of(&[0, 0]), "the length counts");
    }

    #[test]
    fn a_rollback_returns_to_the_policy_before_and_then_to_the_newer_one() {
        let (first, mut second) = (Version::read(ACCT, "first").unwrap(), Version::read(ACCT, "second").unwrap());
        second.sha256 = "another".into();
        let mut offered = Offered::new(first, Operation::default(), Time::ZERO);
        assert!(!offered.roll_back(), "there was none before");
        offered.replace(second);
        let seen: Vec<_> = (0..3)
            .map(|_| {
                let seen = (offered.version.label.clone(), offered.generation);
                assert!(offered.roll_back());
                seen
            })
            .collect();
        assert_eq!(seen, [("second".to_string(), 2), ("first".into(), 3), ("second".into(), 4)]);
        assert!(Version::read(b"no artifact", "x").is_err());
    }

    #[test]
    fn counters_begin_anew_with_each_policy() {
        let mut offered = Offered::new(Version::read(ACCT, "acct").unwrap(), Operation::default(), Time::ZERO);
        let (metrics, address) = (Metrics::default(), SocketAddr::from(([127, 0, 0, 1], 1)));
        let ends = Ends { now: Time(1), local: address, remote: address, metrics: &metrics, mtu: 1200 };
        let fallback = Fallback::new("cubic", &Config::default(), &HOST).unwrap();
        let counted = |offered: &Offered| {
            let shown = offered.shown("acct", &fallback, std::iter::empty(), Time(2));
            (shown["decisions"].as_u64(), shown["handed_back"].as_u64())
        };
        let totals = |decisions| Totals { tally: Tally { decisions, ..Tally::default() }, ..Totals::default() };
        let (mut gone, mut open) =
            (offered.open("acct", asking(1), Time::ZERO), offered.open("acct", asking(2), Time::ZERO));
        offered.end(&mut gone, &totals(7), &ends, Ending::Guard);
        assert_eq!(counted(&offered), (Some(7), Some(1)));
        offered.replace(Version::read(ACCT, "next").unwrap());
        offered.end(&mut open, &totals(7), &ends, Ending::Replaced);
        assert_eq!(counted(&offered), (Some(0), Some(0)), "those were the policy's before");
        offered.end(&mut open, &totals(9), &ends, Ending::Closed);
        assert_eq!(counted(&offered), (Some(2), Some(0)));
    }

    #[test]
    fn records_are_kept_up_to_a_bound() {
        let mut offered = Offered::new(Version::read(ACCT, "acct").unwrap(), Operation::default(), Time::ZERO);
        let mut part = offered.open("acct", asking(1), Time::ZERO);
        let (metrics, address) = (Metrics::default(), SocketAddr::from(([127, 0, 0, 1], 1)));
        let ends = Ends { now: Time(1), local: address, remote: address, metrics: &metrics, mtu: 1200 };
        for _ in 0..RECORDS + 10 {
            offered.end(&mut part, &Totals::default(), &ends, Ending::Moved);
        }
        let numbers = |after: u64| offered.records(after).map(|record| record["record"].as_u64()).collect::<Vec<_>>();
        assert_eq!((numbers(0).len() as u64, numbers(0)[0]), (RECORDS, Some(11)));
        assert_eq!(numbers(RECORDS + 8), [Some(RECORDS + 9), Some(RECORDS + 10)]);
        assert!(numbers(u64::MAX).is_empty());
    }
}
