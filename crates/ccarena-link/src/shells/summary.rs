//! Report of a shell at its end: one line, and a document for programs.

use std::path::Path;

use ccarena_cc::types::Dur;
use serde_json::json;

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

impl Summary {
    /// Returns the summary of the links `names` from `outcome`, judged by `bound`; the devices at their ends dropped
    /// `overruns` packets.
    pub fn new(outcome: &Outcome, names: &[String], bound: Dur, overruns: u64, about: (String, u64, u8, Dur)) -> Self {
        let link = |(link, name): (&ccarena_net::Link<crate::Datagram>, &String)| {
            let s = link.stats;
            json!({
                "name": name,
                "arrived_packets": s.arrived_packets,
                "delivered_packets": s.delivered_packets,
                "delivered_bytes": s.delivered_bytes,
                "dropped_packets": s.dropped_packets,
                "lost_packets": s.lost_packets,
            })
        };
        let (shell, seed, status, duration) = about;
        let lateness = outcome.lateness.judged(bound);
        Self {
            shell,
            seed,
            status,
            duration,
            links: outcome.links.iter().zip(names).map(link).collect(),
            packets: outcome.counts.written,
            drops: outcome.links.iter().map(|l| l.stats.dropped_packets + l.stats.lost_packets).sum(),
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

    /// Writes the document to `path`.
    ///
    /// # Errors
    /// If that fails.
    pub fn write(&self, path: &Path) -> Result<(), ShellError> {
        let late = &self.lateness;
        let document = json!({
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
        let failed = |source| ShellError::Write { path: path.into(), source };
        std::fs::write(path, format!("{document:#}\n")).map_err(failed)
    }
}

/// A time for people.
fn time(t: Dur) -> String {
    if t < Dur::from_millis(1) { format!("{} µs", t.as_micros()) } else { format!("{:.1} ms", t.as_millis_f64()) }
}
