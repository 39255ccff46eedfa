//! What a shell is to run, checked, and its links, running.

use std::os::fd::RawFd;
use std::path::Path;

use ccarena_cc::types::{Dur, Rate};
use ccarena_net::scenario::{Flow, Link as LinkSpec};
use ccarena_net::{Link, QueueSpec, Scenario, ServiceSpec, Trace, trace};

use super::arguments::{Direction, LinkWay, OnOff, Shell};
use super::ends::Ends;
use super::log::{Head, Log, Writing};
use super::place::{Devices, Place};
use super::{ShellError, queue};
use crate::clock;
use crate::emulator::{Chain, Emulator, Running};
use crate::error::LinkError;

/// A link that serves at once: loss and outages alone.
const AT_ONCE: Rate = Rate(1_000_000_000_000);

/// How long mahimahi's link and delay sleep between looks at their queues, and how much longer: poll(2) in whole milliseconds,
/// to which the kernel adds 50 µs (the timer slack), and then takes its time (docs/fidelity.md).
const WAKES: Dur = Dur::from_micros(1050);
const WAKES_LATE: Dur = Dur::from_micros(20);

/// What is to run. Everything that can be wrong with the arguments has been looked at.
pub struct Plan<'a> {
    shell: &'a Shell,
    scenario: Scenario,
    traces: Vec<Trace>,
    logs: Vec<Option<Log>>,
}

/// Links that run.
pub struct Links {
    /// They.
    pub running: Running,
    /// Their names.
    pub names: Vec<String>,
    /// Their logs.
    pub logs: Vec<Writing>,
    /// When the trace is over, on the machine's clock.
    pub ends_ns: Option<u64>,
}

impl<'a> Plan<'a> {
    /// Reads what `shell` names; random losses come from `seed`, those of a scenario from its own. `wakes`: packets pass as
    /// mahimahi's shell lets them.
    ///
    /// # Errors
    /// If a file cannot be used.
    pub fn new(shell: &'a Shell, seed: u64, wakes: bool) -> Result<Self, ShellError> {
        let (mut traces, mut logs) = (Vec::new(), Vec::new());
        let mut scenario = match shell {
            Shell::Emulate(path) => read_scenario(path)?,
            Shell::Link(ways, once) => {
                for way in ways.iter() {
                    let trace = trace::load(&way.trace)?;
                    let create = |path: &Path| Log::create(path, &trace, *once, way.queue.mahimahi);
                    logs.push(way.log.as_deref().map(create).transpose()?);
                    traces.push(trace);
                }
                between(seed, ways.each_ref().map(of_trace))
            }
            Shell::Delay(delay) => between(seed, [at_once(), at_once()].map(|link| LinkSpec { delay: *delay, ..link })),
            Shell::Loss(direction, rate) => one_way(seed, *direction, |link| link.loss = *rate),
            Shell::OnOff(direction, on_off) => one_way(seed, *direction, |link| match on_off {
                OnOff::Always => {}
                OnOff::Never => link.loss = 1.0,
                OnOff::Turns(outages) => link.outages = Some(*outages),
            }),
        };
        if wakes && matches!(shell, Shell::Link(..) | Shell::Delay(_)) {
            for link in &mut scenario.links {
                (link.wakes, link.jitter) = (WAKES, WAKES_LATE);
            }
        }
        Ok(Self { shell, scenario, traces, logs })
    }

    /// Starts the links between the devices of `place`. `line` is how the shell was called.
    ///
    /// # Errors
    /// If the machine does not allow it.
    pub fn start(self, place: &Place, line: &str, emulator: Emulator) -> Result<Links, ShellError> {
        match &place.devices {
            Devices::Ends(ends) => self.start_between(ends, line, emulator),
            Devices::Network(network) => {
                let running = emulator.start(&self.scenario, trace::load, network)?;
                Ok(Links { running, names: names(&self.scenario), logs: Vec::new(), ends_ns: None })
            }
        }
    }

    fn start_between(self, ends: &Ends, line: &str, emulator: Emulator) -> Result<Links, ShellError> {
        let mut chains = [Chain::default(), Chain::default()];
        for (index, chain) in chains.iter_mut().enumerate() {
            let spec = &self.scenario.links[index];
            if let (Shell::Delay(delay), Dur::ZERO) = (self.shell, spec.wakes) {
                chain.delay = *delay;
                continue;
            }
            let load = |_: &Path| Ok(self.traces[index].clone());
            let link = Link::of(&self.scenario, index, load).map_err(|source| LinkError::Service { index, source })?;
            chain.links.push(link);
            chain.observer = self.logs.get(index).and_then(Option::as_ref).map(Log::observer);
        }
        let [up, down] = chains;
        let names = if up.links.is_empty() { vec![] } else { names(&self.scenario) };
        let running = emulator.over(up, down, &ends.near, &ends.far)?;
        let Shell::Link(ways, once) = self.shell else {
            return Ok(Links { running, names, logs: Vec::new(), ends_ns: None });
        };
        let zero_ns = running.zero();
        let mut logs = Vec::new();
        for (way, (log, name)) in ways.iter().zip(self.logs.into_iter().zip(&names)) {
            let Some(log) = log else { continue };
            let head = Head { name, trace: &way.trace, command_line: line, queue: &queue::label(&way.queue) };
            let now = move || Dur(clock::now_ns().saturating_sub(zero_ns));
            logs.push(log.write(&head, clock::since_1970_ms(zero_ns), now)?);
        }
        let passes = self.traces.iter().map(|t| zero_ns + u64::from(t.duration_ms()) * 1_000_000);
        let ends_ns = passes.min().filter(|_| *once);
        Ok(Links { running, names, logs, ends_ns })
    }

    /// How many flows there are.
    pub fn flows(&self) -> usize {
        self.scenario.flows.len()
    }

    /// The seed of random losses.
    pub fn seed(&self) -> u64 {
        self.scenario.seed
    }
}

fn names(scenario: &Scenario) -> Vec<String> {
    scenario.links.iter().map(|link| link.name.clone()).collect()
}

/// One flow's links there and back.
fn between(seed: u64, links: [LinkSpec; 2]) -> Scenario {
    let mut links = Vec::from(links);
    for (link, name) in links.iter_mut().zip(["Uplink", "Downlink"]) {
        link.name = name.into();
    }
    let flow = Flow { path: vec![0], return_path: vec![1], ..Flow::default() };
    Scenario { seed, links, flows: vec![flow], ..Scenario::default() }
}

fn one_way(seed: u64, direction: Direction, change: impl FnOnce(&mut LinkSpec)) -> Scenario {
    let mut links = [at_once(), at_once()];
    change(&mut links[usize::from(direction == Direction::Downlink)]);
    between(seed, links)
}

fn at_once() -> LinkSpec {
    let service = ServiceSpec::Constant(AT_ONCE);
    LinkSpec { service, queue: QueueSpec::infinite(), delay: Dur::ZERO, ..LinkSpec::default() }
}

fn of_trace(way: &LinkWay) -> LinkSpec {
    let file = way.trace.to_string_lossy().into_owned();
    let service = ServiceSpec::Trace { file, offset: Dur::ZERO, reshape: None };
    LinkSpec { service, queue: way.queue.clone(), delay: Dur::ZERO, ..LinkSpec::default() }
}

fn read_scenario(path: &Path) -> Result<Scenario, ShellError> {
    let text = std::fs::read_to_string(path).map_err(|source| ShellError::Read { path: path.into(), source })?;
    let scenario = Scenario::parse(&text).map_err(|e| ShellError::Scenario { path: path.into(), source: e.into() })?;
    // A document that was handed over by a descriptor is not the command's to read.
    let descriptor = path.strip_prefix("/dev/fd").ok().and_then(|n| n.to_str()?.parse().ok());
    if let Some(fd) = descriptor {
        close_on_exec(fd);
    }
    Ok(scenario)
}

fn close_on_exec(fd: RawFd) {
    #[allow(unsafe_code, reason = "the standard library changes no flags of descriptors that it did not open")]
    // SAFETY: F_SETFD takes numbers; at worst the descriptor is not open.
    unsafe {
        libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC);
    }
}
