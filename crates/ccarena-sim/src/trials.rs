//! Trials: whole runs of a candidate, native from the first packet to the last, for searches that score whole runs.
//!
//! A candidate is a decider of a learned scheme, parameters of any scheme, or both. A trial's learned flows decide as they would in a scenario that names their policy: the first action precedes the first
//! packet, and each flow is answered when it asks. Trial number `i` of a seed runs the same scenario for every candidate.

use std::collections::BTreeMap;
use std::sync::Arc;

use ccarena_cc::policy::Policy;
use ccarena_cc::{BindError, Decider, Dur, LearnedController, Time};
use ccarena_net::Scenario;
use ccarena_net::link::Delivered;
use rayon::prelude::*;

use crate::build::SimError;
use crate::files::Files;
use crate::privileged::{Before, PRIVILEGED};
use crate::sim::{Sim, Stop};
use crate::world::{Source, WorldError};

/// Names of the figures of a learner's run, defined in Python's table (`ccarena.eval.measure.table`), with the conditions
/// `duration_s`, `base_rtt_ms`, `flows` (on its bottleneck) and `decisions`. If no packet left the bottleneck, delays are
/// the flow's time.
pub const FIGURES: &[&str] = &[
    "duration_s",
    "capacity_mbps",
    "base_rtt_ms",
    "flows",
    "throughput_mbps",
    "utilisation",
    "queueing_delay_mean_ms",
    "queueing_delay_p95_ms",
    "signal_delay_to_end_p50_ms",
    "signal_delay_to_end_p90_ms",
    "signal_delay_to_end_p95_ms",
    "signal_delay_to_end_p98_ms",
    "loss_share",
    "jain_learners",
    "decisions",
];

/// Decider in a trial.
#[derive(Clone, Debug)]
pub enum Answers {
    /// A policy, with a memory of its own for each flow.
    Policy(Arc<Policy>),
    /// Always this: an index into discrete actions, or a value for each actuator.
    Constant(Vec<f64>),
    /// Action for each category in a column of the report.
    Table(String, Vec<Vec<f64>>),
    /// No decider: the base alone.
    Nobody,
}

impl Answers {
    fn decider(&self, learned: &dyn LearnedController) -> Result<Decider, BindError> {
        match self {
            Self::Policy(policy) => Decider::policy(Arc::clone(policy), "candidate", learned),
            Self::Constant(value) => Ok(Decider::Constant(learned.interface().action(value)?)),
            Self::Table(by, actions) => Decider::table(by, actions, learned),
            Self::Nobody => Ok(Decider::Nobody),
        }
    }
}

/// Candidate of a trial: its decider, and the parameters that differ from those of the scenario's
/// learners.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Decider.
    pub answers: Answers,
    /// Parameters of the scheme or the spec.
    pub params: BTreeMap<String, f64>,
}

/// Results of one learner in a trial.
#[derive(Clone, Debug, Default)]
pub struct Learned {
    /// Figures in the order of [`FIGURES`].
    pub figures: Vec<f64>,
    /// Parameters and inputs that the scenario or the candidate sets.
    pub params: BTreeMap<String, f64>,
    /// Reports of its intervals, one after the other; the last interval ends with the run.
    pub reports: Vec<f32>,
    /// Privileged state of each interval, [`PRIVILEGED`].
    pub privileged: Vec<f32>,
}

/// One trial of a candidate.
#[derive(Clone, Debug, Default)]
pub struct Done {
    /// Results of its learners.
    pub learners: Vec<Learned>,
    /// The actions of the candidate's table that any learner has taken; empty for other deciders. A table that differs in
    /// others alone does the same in this trial.
    pub taken: Vec<bool>,
}

/// A receiver's room in BDPs of the bottleneck's mean rate, and in packets at least: more than any queue of a training
/// holds, and little enough for a candidate that doubles its window for ever to cost no more than any other.
const MOST_BDPS: f64 = 16.0;
const FEWEST: u32 = 4096;

/// Trials over one source of scenarios, in a pool of threads.
pub struct Trials {
    source: Source,
    files: Files,
    pool: rayon::ThreadPool,
    measures: bool,
}

impl Trials {
    /// Prepares trials over the scenarios of `source`, on `threads` threads. Unless it `measures`, figures are NaN, and packets
    /// need not be written down.
    ///
    /// # Errors
    /// If threads cannot be started.
    pub fn new(source: Source, threads: usize, measures: bool) -> Result<Self, WorldError> {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads.max(1))
            .thread_name(|i| format!("trials-{i}"))
            .build()
            .map_err(|e| WorldError::Threads { threads, message: e.to_string() })?;
        Ok(Self { source, files: Files::default(), pool, measures })
    }

    /// Returns the scenario of trial `trial` of `seed`.
    #[must_use]
    pub fn scenario(&self, seed: u64, trial: u64) -> Scenario {
        self.source.scenario(seed, trial, 0)
    }

    /// Runs for each candidate its `trials` of `seed`; the result is the candidates' trials in their order. Tables that differ
    /// only in categories that a trial does not come to are run once in it.
    ///
    /// # Errors
    /// If a scenario cannot be simulated or has no learner, or a candidate does not fit its spec.
    pub fn run(&self, candidates: &[Candidate], seed: u64, trials: &[Vec<u64>]) -> Result<Vec<Vec<Done>>, WorldError> {
        let mut all: Vec<(u64, Vec<usize>)> = Vec::new();
        for group in alike(candidates) {
            let mut members: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
            for candidate in group {
                for &trial in trials.get(candidate).into_iter().flatten() {
                    members.entry(trial).or_default().push(candidate);
                }
            }
            all.extend(members);
        }
        let done: Vec<Vec<Done>> = self.pool.install(|| {
            all.par_iter()
                .with_max_len(1)
                .map(|(trial, group)| {
                    let scenario = self.source.scenario(seed, *trial, 0);
                    let flows = self.source.learners(&scenario);
                    self.each(&scenario, &flows, group.iter().map(|&c| &candidates[c]))
                })
                .collect::<Result<_, _>>()
        })?;
        let mut by_trial: Vec<BTreeMap<u64, Done>> = vec![BTreeMap::new(); candidates.len()];
        for ((trial, group), done) in all.into_iter().zip(done) {
            for (candidate, done) in group.into_iter().zip(done) {
                by_trial[candidate].insert(trial, done);
            }
        }
        let in_order = |(trials, mut done): (&Vec<u64>, BTreeMap<u64, Done>)| {
            trials.iter().filter_map(|trial| done.remove(trial)).collect()
        };
        Ok(trials.iter().zip(by_trial).map(in_order).collect())
    }

    /// One trial of each of `candidates`, which are alike. What does as another did wherever that one came to is not run
    /// again: it would do the same.
    fn each<'a>(
        &self,
        scenario: &Scenario,
        flows: &[usize],
        candidates: impl Iterator<Item = &'a Candidate>,
    ) -> Result<Vec<Done>, WorldError> {
        let mut all: Vec<(&Candidate, Done)> = Vec::new();
        for candidate in candidates {
            let same = all.iter().find(|(other, done)| match (&other.answers, &candidate.answers) {
                (Answers::Table(_, theirs), Answers::Table(_, ours)) => {
                    done.taken.iter().zip(theirs.iter().zip(ours)).all(|(taken, (a, b))| !taken || a == b)
                }
                _ => false,
            });
            let done = match same {
                Some((_, done)) => done.clone(),
                None => one(scenario.clone(), flows, &self.files, candidate, self.measures)?,
            };
            all.push((candidate, done));
        }
        Ok(all.into_iter().map(|(_, done)| done).collect())
    }
}

/// The candidates' numbers: tables that differ in their actions alone together, everyone else alone.
fn alike(candidates: &[Candidate]) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for (number, candidate) in candidates.iter().enumerate() {
        let same = groups.iter_mut().find(|group| match (&candidates[group[0]], candidate) {
            (
                Candidate { answers: Answers::Table(a, actions), params },
                Candidate { answers: Answers::Table(b, others), params: own },
            ) => a == b && actions.len() == others.len() && params == own,
            _ => false,
        });
        match same {
            Some(group) => group.push(number),
            None => groups.push(vec![number]),
        }
    }
    groups
}

/// One trial.
fn one(
    mut scenario: Scenario,
    flows: &[usize],
    files: &Files,
    candidate: &Candidate,
    measures: bool,
) -> Result<Done, WorldError> {
    for &flow in flows {
        let params = candidate.params.iter().map(|(name, value)| (name.clone(), *value));
        scenario.flows[flow].params.extend(params);
    }
    scenario.record.packets = measures;
    bounded(&mut scenario, flows, files)?;
    let mut sim = Sim::new(&scenario, files, true)?;
    let interface = flows.first().and_then(|&flow| sim.interface(flow));
    if flows.is_empty() || (interface.is_none() && !matches!(candidate.answers, Answers::Nobody)) {
        return Err(WorldError::Learners { found: 0, expected: "at least one".into() });
    }
    let mut learners = Vec::with_capacity(flows.len());
    for &flow in flows {
        let Some(learned) = sim.learned(flow) else { continue };
        let bound = candidate.answers.decider(learned);
        let mut decider = bound.map_err(|source| SimError::Policy { flow, source })?;
        answer(&mut sim, flow, &mut decider);
        learners.push((decider, Before::of(&sim), Learned::default()));
    }
    let (width, end) = (interface.map_or(0, |interface| interface.report.len()), Time(scenario.duration.0));
    let book = |sim: &mut Sim, learner: usize, before: &Before, out: &mut Learned| {
        let at = out.reports.len();
        out.reports.resize(at + width, 0.0);
        sim.report(flows[learner], &mut out.reports[at..]);
        let at = out.privileged.len();
        out.privileged.resize(at + PRIVILEGED.len(), 0.0);
        before.write(sim, flows[learner], flows, &mut out.privileged[at..]);
    };
    while let Stop::Decision(flow) = sim.run_until(end) {
        let Some(i) = flows.iter().position(|&f| f == flow) else { continue };
        let (decider, before, out) = &mut learners[i];
        book(&mut sim, i, before, out);
        *before = Before::of(&sim);
        answer(&mut sim, flow, decider);
    }
    for (i, (_, before, out)) in learners.iter_mut().enumerate() {
        sim.end_interval(flows[i]);
        book(&mut sim, i, before, out);
    }
    let mut taken = Vec::new();
    for (decider, ..) in &learners {
        taken.resize(decider.taken().len(), false);
        taken.iter_mut().zip(decider.taken()).for_each(|(any, &own)| *any |= own);
    }
    let mut out: Vec<Learned> = learners.into_iter().map(|(_, _, out)| out).collect();
    // A scheme that is not learned has no intervals.
    out.resize(flows.len(), Learned::default());
    if measures {
        measure(&mut sim, &scenario, flows, &mut out);
    } else {
        out.iter_mut().for_each(|learned| learned.figures = vec![f64::NAN; FIGURES.len()]);
    }
    Ok(Done { learners: out, taken })
}

/// Gives the receivers of `flows` room for no more than [`MOST_BDPS`].
fn bounded(scenario: &mut Scenario, flows: &[usize], files: &Files) -> Result<(), WorldError> {
    let sim = Sim::new(scenario, files, true)?;
    let end = Time(scenario.duration.0);
    for &flow in flows {
        let running = &sim.flows()[flow];
        let capacity = |link: &u32| sim.links()[*link as usize].capacity_bytes(Time::ZERO, end);
        let bytes = running.path.iter().map(capacity).min().unwrap_or(0);
        let share = running.base_rtt.as_secs_f64() / scenario.duration.as_secs_f64();
        let most = (MOST_BDPS * bytes as f64 * share / 1500.0) as u32;
        scenario.flows[flow].receive_window.get_or_insert(most.max(FEWEST));
    }
    Ok(())
}

/// Has `decider` answer for a flow.
fn answer(sim: &mut Sim, flow: usize, decider: &mut Decider) {
    let now = sim.now();
    if let Some(learned) = sim.learned(flow) {
        decider.decide(learned, now);
    }
}

/// The learners' figures.
fn measure(sim: &mut Sim, scenario: &Scenario, flows: &[usize], out: &mut [Learned]) {
    let end = Time(scenario.duration.0);
    let logs: Vec<_> = (0..sim.links().len()).map(|link| sim.take_log(link).unwrap_or_default()).collect();
    let mut rates = Vec::with_capacity(flows.len());
    for (&flow, out) in flows.iter().zip(out.iter_mut()) {
        let running = &sim.flows()[flow];
        let (start, stop) = (running.start.min(end), running.stop.min(end));
        let length = stop.since(start);
        let mbps = |bytes: u64| if length == Dur::ZERO { 0.0 } else { bytes as f64 * 8e3 / length.0 as f64 };
        let capacity = |link: &u32| sim.links()[*link as usize].capacity_bytes(start, stop);
        let Some(&link) = running.path.iter().min_by_key(|link| capacity(link)) else { continue };
        let (log, state) = (&logs[link as usize], &sim.links()[link as usize]);
        let own: Vec<&Delivered> = log.delivered.iter().filter(|p| p.flow as usize == flow).collect();
        let whole: u64 = log.delivered.iter().map(|p| u64::from(p.bytes)).sum();
        let capacity_whole = state.capacity_bytes(Time::ZERO, end);
        let gone = running.path.iter().flat_map(|&l| logs[l as usize].dropped.iter().chain(&logs[l as usize].lost));
        let lost = gone.filter(|(_, f)| *f as usize == flow).count();
        let last = running.path.last().map_or(log, |&l| &logs[l as usize]);
        let arrived = last.delivered.iter().filter(|p| p.flow as usize == flow).count();
        let mut queueing: Vec<f64> = own
            .iter()
            .map(|p| p.departure.since(p.arrival).as_millis_f64() - p.serialisation.as_millis_f64())
            .collect();
        let mean =
            |v: &[f64]| if v.is_empty() { length.as_millis_f64() } else { v.iter().sum::<f64>() / v.len() as f64 };
        let throughput = mbps(own.iter().map(|p| u64::from(p.bytes)).sum());
        rates.push(throughput);
        let queueing_mean = mean(&queueing);
        let queueing_p95 = quantile(&mut queueing, 0.95).unwrap_or_else(|| length.as_millis_f64());
        let mut signal = signal_delays(&own, start, stop);
        let mut signal_at = |q: f64| quantile(&mut signal, q).unwrap_or(0.0);
        let crossing = sim.flows().iter().filter(|f| f.path.contains(&link)).count();
        out.figures = vec![
            length.as_secs_f64(),
            mbps(capacity(&link)),
            running.base_rtt.as_millis_f64(),
            crossing as f64,
            throughput,
            if capacity_whole == 0 { 0.0 } else { whole as f64 / capacity_whole as f64 },
            queueing_mean,
            queueing_p95,
            signal_at(0.5),
            signal_at(0.9),
            signal_at(0.95),
            signal_at(0.98),
            lost as f64 / (lost + arrived).max(1) as f64,
            0.0,
            running.decisions as f64,
        ];
        out.params.clone_from(&scenario.flows[flow].params);
    }
    let (sum, squares) = rates.iter().fold((0.0, 0.0), |(s, q), x| (s + x, q + x * x));
    let jain = if squares > 0.0 { sum * sum / (rates.len() as f64 * squares) } else { 1.0 };
    let place = FIGURES.iter().position(|&name| name == "jain_learners");
    for out in out {
        if let Some(slot) = place.and_then(|place| out.figures.get_mut(place)) {
            *slot = jain;
        }
    }
}

/// Returns for each millisecond from `start` to `stop` the least time until a message of then has
/// left the queue, in whole milliseconds.
fn signal_delays(own: &[&Delivered], start: Time, stop: Time) -> Vec<f64> {
    let ms = |t: Time| (t.0 / 1_000_000) as usize;
    let (first, last) = (ms(start), ms(stop).max(ms(start) + 1));
    let mut earliest = vec![last; last - first];
    for packet in own {
        let at = ms(packet.arrival).clamp(first, last - 1) - first;
        earliest[at] = earliest[at].min(ms(packet.departure));
    }
    let mut next = last;
    for (at, slot) in earliest.iter_mut().enumerate().rev() {
        next = next.min((*slot).max(first + at));
        *slot = next;
    }
    earliest.iter().enumerate().map(|(at, &out)| (out - first - at) as f64).collect()
}

/// The element at index floor(q n) of the n sorted values (mm-throughput-graph); none of none.
fn quantile(values: &mut [f64], q: f64) -> Option<f64> {
    let index = ((q * values.len() as f64) as usize).min(values.len().checked_sub(1)?);
    Some(*values.select_nth_unstable_by(index, f64::total_cmp).1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(arrival_ms: u64, departure_ms: u64) -> Delivered {
        let at = |ms: u64| Time(ms * 1_000_000);
        let (arrival, departure) = (at(arrival_ms), at(departure_ms));
        Delivered { arrival, departure, serialisation: Dur::ZERO, flow: 0, bytes: 1500 }
    }

    #[test]
    fn the_signal_delay_grows_while_nothing_arrives_and_to_the_end() {
        let packets = [packet(2, 5), packet(3, 6)];
        let seen = signal_delays(&packets.iter().collect::<Vec<_>>(), Time::ZERO, Time(8_000_000));
        assert_eq!(seen, [5.0, 4.0, 3.0, 3.0, 4.0, 3.0, 2.0, 1.0]);
        assert_eq!(signal_delays(&[], Time::ZERO, Time(3_000_000)), [3.0, 2.0, 1.0]);
    }

    #[test]
    fn a_quantile_is_the_element_at_its_index() {
        assert_eq!(quantile(&mut [3.0, 1.0, 2.0, 4.0], 0.5), Some(3.0));
        assert_eq!(quantile(&mut [], 0.5), None);
    }
}
