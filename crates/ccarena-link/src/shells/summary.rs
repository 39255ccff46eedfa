//! Report of a shell at its end: one line, and a document for programs.

use std::path::Path;

use ccarena_cc::types::Dur;
use ccarena_net::Scenario;
use ccarena_net::scenario::Link as LinkSpec;
use serde_json::{Value, json};

use super::ShellError;
use crate::emulator::Outcome;

/// The result of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// The shell, as before the prompt.
    pub shell: String,
    /// Seed of random losses.
    pub seed: u64,
    /// The command's exit status.
    pub status: u8,
    /// Length of the run.
    pub duration: Dur,
    links: Vec<serde_json::Value>,
    packets: u64,
    drops: u64,
    refused: u64,
    overflowed: u64,
    overruns: u64,
    valid: bool,
    cpu: Dur,
    lateness: crate::Lateness,
}

/// Facts that the summaries of all shells of a run share.
pub struct About {
    /// The command's exit status.
    pub status: u8,
    /// Length of the run.
    pub duration: Dur,
    /// Packets that the devices at the ends dropped.
    pub overruns: u64,
    /// Bound of the lateness.
    pub bound: Dur,
}

impl Summary {
    /// Returns the summary of a shell (its number, its prefix and its seed) and of those inside it, from the `outcome` of
    /// the whole run: of the links of `scenario`, each of the shell that `of_shell` says.
    pub fn new(
        outcome: &Outcome,
        (scenario, of_shell): (&Scenario, &[usize]),
        (number, shell, seed): (usize, String, u64),
        about: &About,
    ) -> Self {
        let link = |(link, spec): (&ccarena_net::Link<crate::Datagram>, &LinkSpec)| {
            let (s, impaired) = (link.stats, link.impaired());
            json!({
                "name": spec.name,
                "arrived_packets": s.arrived_packets,
                "delivered_packets": s.delivered_packets,
                "delivered_bytes": s.delivered_bytes,
                "dropped_packets": s.dropped_packets,
                "lost_packets": s.lost_packets,
                "policed_packets": link.policed_packets(),
                "reordered_packets": impaired.reordered_packets,
                "duplicated_packets": impaired.duplicated_packets,
                "corrupted_packets": impaired.corrupted_packets,
            })
        };
        let About { status, duration, overruns, bound } = *about;
        let lateness = outcome.lateness.judged(bound);
        let inside = || outcome.links.iter().zip(of_shell).filter(|(_, of)| **of >= number).map(|(link, _)| link);
        let specs = scenario.links.iter().zip(of_shell).filter(|(_, of)| **of >= number).map(|(spec, _)| spec);
        Self {
            shell,
            seed,
            status,
            duration,
            links: inside().zip(specs).map(link).collect(),
            packets: outcome.counts.written,
            drops: inside().map(gone).sum(),
            refused: outcome.counts.refused,
            overflowed: outcome.counts.overflowed,
            cpu: outcome.counts.cpu,
            overruns,
            valid: lateness.valid && overruns == 0,
            lateness,
        }
    }

    /// One line.
    pub fn line(&self) -> String {
        let late = &self.lateness;
        let verdict = if self.valid { "valid" } else { "INVALID" };
        let overflowed = match self.overflowed {
            0 => String::new(),
            packets => format!(" and {packets} lost for lack of memory (--queue-memory-mb)"),
        };
        let overruns = match self.overruns {
            0 => String::new(),
            packets => format!(", {packets} lost before the link because they came too fast for this machine"),
        };
        format!(
            "{}{} packets, {} dropped{overflowed}{overruns}; lateness p50 {}, p99 {}, max {}: {verdict} (p99 bound {} ms)",
            self.shell,
            self.packets,
            self.drops,
            time(late.p50),
            time(late.p99),
            time(late.max),
            late.bound.as_millis_f64(),
        )
    }

    /// Writes the document to `path`, with the changes of the links and the scenario in which they stand, if links could
    /// be `changed`.
    ///
    /// # Errors
    /// If that fails.
    pub fn write(&self, path: &Path, changed: Option<(Vec<Value>, Value)>) -> Result<(), ShellError> {
        let late = &self.lateness;
        let mut document = json!({
            "shell": self.shell.trim(),
            "seed": self.seed,
            "status": self.status,
            "duration_s": self.duration.as_secs_f64(),
            "packets": self.packets,
            "dropped_packets": self.drops,
            "refused_packets": self.refused,
            "overflowed_packets": self.overflowed,
            "overrun_packets": self.overruns,
            "cpu_s": self.cpu.as_secs_f64(),
            "links": self.links,
            "lateness": {
                "count": late.count,
                "p50_ms": late.p50.as_millis_f64(),
                "p99_ms": late.p99.as_millis_f64(),
                "max_ms": late.max.as_millis_f64(),
                "bound_ms": late.bound.as_millis_f64(),
            },
            "valid": self.valid,
        });
        if let Some((changes, scenario)) = changed {
            (document["changes"], document["scenario"]) = (changes.into(), scenario);
        }
        let failed = |source| ShellError::Write { path: path.into(), source };
        std::fs::write(path, format!("{document:#}\n")).map_err(failed)
    }
}

/// Returns the number of packets that did not cross `link` and reach its other end whole.
fn gone(link: &ccarena_net::Link<crate::Datagram>) -> u64 {
    let s = link.stats;
    s.dropped_packets + s.lost_packets + link.policed_packets() + link.impaired().corrupted_packets
}

/// A time for people.
fn time(t: Dur) -> String {
    if t < Dur::from_millis(1) { format!("{} µs", t.as_micros()) } else { format!("{:.1} ms", t.as_millis_f64()) }
}
