//! Report of a shell at its end: one line, and a document for programs.

use std::path::Path;

use ccarena_cc::types::{Dur, Rate};
use ccarena_net::Scenario;
use ccarena_net::scenario::Link as LinkSpec;
use serde_json::{Value, json};

use super::ShellError;
use super::connections::Connection;
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
    held_back: Option<Vec<HeldBack>>,
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
    /// Connections that buffers held back; none if the kernel does not tell.
    pub held_back: Option<Vec<HeldBack>>,
}

/// A connection that its buffers kept from filling the links.
#[derive(Clone, Debug, PartialEq)]
pub struct HeldBack {
    connection: Connection,
    /// The buffer is one of the machine's own, which the shell may enlarge.
    enlargeable: bool,
}

/// Connections that the lines of a summary name.
const NAMED: usize = 3;

impl HeldBack {
    /// Returns those of `connections` that send from the near end and from the far end, over links of at most `fastest`. The
    /// far end's buffers can be enlarged if it is `here`.
    pub fn of(connections: [Vec<Connection>; 2], fastest: [Option<Rate>; 2], here: bool) -> Vec<Self> {
        let mut all = Vec::new();
        for ((connections, fastest), far_sends) in connections.into_iter().zip(fastest).zip([false, true]) {
            for connection in connections.into_iter().filter(|c| c.is_held_back(fastest)) {
                let at_far_end = far_sends == connection.is_senders();
                all.push(Self { connection, enlargeable: here && at_far_end });
            }
        }
        all
    }

    fn line(&self) -> String {
        let c = &self.connection;
        let (by, option) = if c.is_senders() { (c.by_buffer, "SO_SNDBUF") } else { (c.by_window, "SO_RCVBUF") };
        let remedy = if self.enlargeable {
            "--enlarge-buffers enlarges this machine's".into()
        } else {
            format!("does the program set {option}?")
        };
        format!(
            "TCP from {} to {}: {:.0} Mbit/s, limited by the {} in at least {:.0} % of its time; {remedy}",
            c.from,
            c.to,
            c.rate().as_mbps(),
            self.buffer(),
            100.0 * c.share(by),
        )
    }

    fn buffer(&self) -> &'static str {
        if self.connection.is_senders() { "sender's buffer" } else { "receiver's buffer" }
    }

    fn json(&self) -> Value {
        let c = &self.connection;
        json!({
            "from": c.from.to_string(),
            "to": c.to.to_string(),
            "delivered_bytes": c.delivered_bytes,
            "rate_mbps": c.rate().as_mbps(),
            "limited_by": self.buffer(),
            "sender_buffer_share": c.share(c.by_buffer),
            "receiver_buffer_share": c.share(c.by_window),
        })
    }
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
            let (s, impaired, marks) = (link.stats, link.impaired(), link.marks());
            json!({
                "name": spec.name,
                "arrived_packets": s.arrived_packets,
                "delivered_packets": s.delivered_packets,
                "delivered_bytes": s.delivered_bytes,
                "dropped_packets": s.dropped_packets,
                "lost_packets": s.lost_packets,
                "policed_packets": link.policed_packets(),
                "marked_packets": marks.ect0 + marks.ect1,
                "reordered_packets": impaired.reordered_packets,
                "duplicated_packets": impaired.duplicated_packets,
                "corrupted_packets": impaired.corrupted_packets,
            })
        };
        let About { status, duration, overruns, bound, .. } = *about;
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
            held_back: about.held_back.clone(),
        }
    }

    /// One line, and one for each of the first connections that buffers held back.
    pub fn lines(&self) -> impl Iterator<Item = String> {
        let all = self.held_back.as_deref().unwrap_or_default();
        let named = all.iter().take(NAMED).map(|each| format!("{}{}", self.shell, each.line()));
        let more = all.len().checked_sub(NAMED).filter(|more| *more > 0);
        let more = more.map(|more| format!("{}{more} more connections were limited by buffers", self.shell));
        std::iter::once(self.line()).chain(named).chain(more)
    }

    fn line(&self) -> String {
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
            "limited_connections": self.held_back.as_ref().map(|all| all.iter().map(HeldBack::json).collect::<Vec<_>>()),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_that_buffers_bound_are_named_with_what_helps() {
        let fast = Some(Rate::from_mbps(1000.0));
        let of = |near, far, here| HeldBack::of([near, far], [fast, fast], here);
        let bounded = || vec![Connection::example(1000, 180, 12_500_000)];
        let said = "TCP from 100.64.0.1:5000 to 100.64.0.1:5000: 100 Mbit/s, limited by the sender's buffer in at least 18 % of \
                    its time; ";
        let [held] = &of(vec![], bounded(), true)[..] else { panic!("one is held back") };
        assert_eq!(held.line(), format!("{said}--enlarge-buffers enlarges this machine's"));
        assert_eq!(held.json()["limited_by"], "sender's buffer");
        assert_eq!(held.json()["sender_buffer_share"], 0.18);
        // The near end's buffers are as large as the links need already, and so are the far end's that is not `here`.
        for all in [of(bounded(), vec![], true), of(vec![], bounded(), false)] {
            assert_eq!(all[0].line(), format!("{said}does the program set SO_SNDBUF?"));
        }
        let filling = vec![Connection::example(1000, 180, 120_000_000)];
        assert_eq!(of(filling, vec![], true), []);
    }
}
