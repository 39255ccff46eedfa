//! A run of a scenario in steps.

use std::collections::BTreeMap;

use ccarena_cc::bounded::Store;
use ccarena_cc::{Dur, Time};
use ccarena_net::result::Sealed;
use ccarena_net::scenario::{Own, Record};
use ccarena_net::{Demand, Limits, Scenario};
use ccarena_sim::{Files, Sim};

use crate::picture::{Column, Packets, Series};
use crate::{Problem, document};

/// Files by the names that the scenario uses.
pub type Given = BTreeMap<String, Vec<u8>>;

/// Limits of a page: its memory has 4 GiB at most, and the arrays of results are made while logs still stand. The native
/// limits hold as well.
const PAGE: Limits = Limits { memory_bytes: 2e9, packets: 1e9 };

/// Settings of a run beyond its scenario.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Seed in place of the scenario's.
    pub seed: Option<u64>,
    /// Records every packet at every link, for [`Run::packets`].
    pub packets: bool,
}

/// State of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// Virtual time.
    pub now_s: f64,
    /// The end of the scenario is reached.
    pub done: bool,
    /// Data packets that have left their last links.
    pub packets: u64,
}

/// A run.
pub struct Run {
    scenario: Scenario,
    /// Recordings that the scenario asks for; the run keeps more.
    record: Record,
    sim: Sim,
    series: Series,
    packets: Packets,
    sealed: Option<Sealed>,
}

/// Reads and checks a scenario, its files included, and builds its simulation.
fn build(text: &str, given: Given, options: Options, limits: Limits) -> Result<(Scenario, Record, Sim), Problem> {
    let store = Store::of(given);
    let files = Files::in_store(store.clone());
    let document = document::complete(document::read(text)?, &store, &files)?;
    let mut scenario = Scenario::from_json(&document)?;
    for (index, flow) in scenario.flows.iter().enumerate() {
        let (path, kind) = match (&flow.own, &flow.foreign) {
            (Some(Own::Python { .. }), _) => ("controller", "a Python class"),
            (Some(Own::Wasm { .. }), _) => ("controller", "a WebAssembly module"),
            (_, Some(_)) => ("foreign", "a program or a kernel's congestion control"),
            _ => continue,
        };
        let why = format!("{kind} does not run in a web page; expected a scheme, or run it with the command ccarena");
        return Err(Problem::at(&format!("flows[{index}].{path}"), &why));
    }
    if let Some(seed) = options.seed {
        scenario.seed = seed;
    }
    let record = scenario.record.clone();
    scenario.record.series = true;
    scenario.record.packets |= options.packets;
    Demand::of(&scenario).check(&limits)?;
    let sim = Sim::new(&scenario, &files, false)?;
    Ok((scenario, record, sim))
}

/// Returns the faults of a scenario; none if [`Run::open`] takes it.
#[must_use]
pub fn check(text: &str, given: Given) -> Vec<Problem> {
    build(text, given, Options::default(), PAGE).err().into_iter().collect()
}

impl Run {
    /// Starts a run of the scenario in `text`. Traces, conditions and policies are in `given`.
    ///
    /// # Errors
    /// The first fault, as the command `ccarena` would say it.
    pub fn open(text: &str, given: Given, options: Options) -> Result<Self, Problem> {
        Self::within(text, given, options, PAGE)
    }

    /// Starts a run that may ask for no more than `limits`.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn within(text: &str, given: Given, options: Options, limits: Limits) -> Result<Self, Problem> {
        let (scenario, record, sim) = build(text, given, options, limits)?;
        let series = Series::new(&scenario);
        let packets = Packets::default();
        Ok(Self { scenario, record, sim, series, packets, sealed: None })
    }

    /// Simulates up to virtual time `until_s`, or to the end of the scenario.
    ///
    /// # Errors
    /// If `until_s` is no number.
    pub fn advance(&mut self, until_s: f64) -> Result<Progress, Problem> {
        if until_s.is_nan() {
            return Err(Problem::new("untilS: not a number; expected seconds of virtual time"));
        }
        let end = Time(self.scenario.duration.0);
        let until = Time(Dur::from_secs_f64(until_s.clamp(0.0, end.as_secs_f64())).0).min(end);
        // A result has taken what a run goes on from.
        while self.sealed.is_none() && self.sim.now() < until {
            self.sim.run_until(self.series.next().min(until));
            self.series.sample(&self.sim);
        }
        Ok(self.progress())
    }

    /// Returns how far the run is.
    #[must_use]
    pub fn progress(&self) -> Progress {
        let now = self.sim.now();
        Progress { now_s: now.as_secs_f64(), done: now.0 >= self.scenario.duration.0, packets: self.sim.data_packets() }
    }

    /// Returns which flows send L4S packets, which a DualPI2 keeps in a queue of their own (RFC 9332).
    #[must_use]
    pub fn l4s(&self) -> Vec<bool> {
        self.sim.flows().iter().map(|flow| flow.sender.sends_l4s()).collect()
    }

    /// Returns the series so far.
    #[must_use]
    pub fn series(&self) -> Vec<Column<'_>> {
        self.series.columns()
    }

    /// Returns the packets that left their links, or ended there, from virtual time `since_s` on.
    ///
    /// # Errors
    /// If no packets are recorded.
    pub fn packets(&mut self, since_s: f64) -> Result<Vec<Column<'_>>, Problem> {
        if !self.scenario.record.packets {
            return Err(Problem::new("no packets are recorded; open the run with {packets: true}"));
        }
        let since = Time(Dur::from_secs_f64(since_s.max(0.0)).0);
        Ok(self.packets.since(since, &self.sim))
    }

    /// Returns the result and its digest, once the run has reached its end.
    ///
    /// # Errors
    /// If it has not.
    pub fn result(&mut self) -> Result<&Sealed, Problem> {
        let progress = self.progress();
        if !progress.done {
            let (now, end) = (progress.now_s, self.scenario.duration.as_secs_f64());
            return Err(Problem::new(format!("the run is at {now} s of {end} s; advance it to its end first")));
        }
        let Self { scenario, record, sim, packets, sealed, .. } = self;
        Ok(sealed.get_or_insert_with(|| {
            packets.keep(sim);
            sim.take_result(scenario).sealed(record)
        }))
    }
}
