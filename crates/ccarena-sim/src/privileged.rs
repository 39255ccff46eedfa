//! Privileged state: figures of a step that only the simulator knows, for rewards and critics. No
//! observation names them.
//!
//! Rates are of IP bytes that reached the receiver, over the time of the step. The bottleneck of a
//! flow is the link on its path with the least capacity in that time.

use ccarena_cc::{Dur, Time};

use crate::sim::Sim;

/// Names of the columns.
pub const PRIVILEGED: &[&str] = &[
    "capacity_mbps",
    "queue_packets",
    "queue_ms",
    "competitors_mbps",
    "flows",
    "fair_share_mbps",
    "own_mbps",
    "jain",
    "learners_mean_mbps",
    "learners_jain",
    "base_rtt_ms",
    "step_ms",
];

/// The state at the beginning of a step.
#[derive(Clone, Debug, Default)]
pub struct Before {
    at: Time,
    wire_bytes: Vec<u64>,
}

impl Before {
    /// The present state of `sim`.
    #[must_use]
    pub fn of(sim: &Sim) -> Self {
        Self { at: sim.now(), wire_bytes: sim.wire_bytes() }
    }

    /// Writes the columns of the time since, for `learner` among `learners`.
    pub fn write(&self, sim: &Sim, learner: usize, learners: &[usize], out: &mut [f32]) {
        let (now, flows) = (sim.now(), sim.flows());
        let length = now.since(self.at);
        let mbps = |bytes: u64| if length == Dur::ZERO { 0.0 } else { bytes as f64 * 8e3 / length.0 as f64 };
        let wire_bytes = sim.wire_bytes();
        let rate = |flow: usize| mbps(wire_bytes[flow].saturating_sub(self.wire_bytes.get(flow).copied().unwrap_or(0)));
        let capacity = |link: &u32| sim.links()[*link as usize].capacity_bytes(self.at, now);
        let Some(&link) = flows[learner].path.iter().min_by_key(|link| capacity(link)) else { return };
        let capacity_mbps = mbps(capacity(&link));
        let link_state = &sim.links()[link as usize];
        let queue_ms = match capacity_mbps {
            c if c > 0.0 => link_state.backlog_bytes() as f64 * 8e-3 / c,
            _ => 0.0,
        };
        let crosses = |flow: usize| flows[flow].path.contains(&link);
        let others: f64 = (0..flows.len()).filter(|&f| f != learner && crosses(f)).map(rate).sum();
        // Whoever got something through, or is at it.
        let active = |flow: &usize| {
            let running = flows[*flow].start <= now && now < flows[*flow].stop && !flows[*flow].sender.idle();
            crosses(*flow) && (*flow == learner || running || rate(*flow) > 0.0)
        };
        let rates: Vec<f64> = (0..flows.len()).filter(active).map(rate).collect();
        let learned: Vec<f64> = learners.iter().map(|&f| rate(f)).collect();
        let values = [
            capacity_mbps,
            link_state.backlog_packets() as f64,
            queue_ms,
            others,
            rates.len() as f64,
            capacity_mbps / rates.len().max(1) as f64,
            rate(learner),
            jain(&rates),
            learned.iter().sum::<f64>() / learned.len().max(1) as f64,
            jain(&learned),
            flows[learner].base_rtt.as_millis_f64(),
            length.as_millis_f64(),
        ];
        for (slot, value) in out.iter_mut().zip(values) {
            *slot = value as f32;
        }
    }
}

/// Jain's index; 1 if no flow got anything.
fn jain(rates: &[f64]) -> f64 {
    let (sum, squares) = rates.iter().fold((0.0, 0.0), |(s, q), x| (s + x, q + x * x));
    if squares > 0.0 { sum * sum / (rates.len() as f64 * squares) } else { 1.0 }
}
