//! Checked plan of a shell, and its running links.

use std::collections::BTreeMap;
use std::ops::Range;
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};

use ccarena_cc::bounded;
use ccarena_cc::types::Dur;
use ccarena_net::conditions::{Conditions, ConditionsSpec, Offset, Recordings, Source};
use ccarena_net::losses::LossSpec;
use ccarena_net::scenario::{Flow, Link as LinkSpec};
use ccarena_net::{Link, Scenario, ServiceSpec, Trace, TraceError, trace};

use super::arguments::conditions::{Traces, at_once};
use super::arguments::{Direction, LinkWay, OnOff, Request, Shell};
use super::buffers::Need;
use super::ends::Ends;
use super::enlarged::Enlarged;
use super::log::{self, Head, Log, Writing};
use super::place::{self, Devices, Place};
use super::{PREFIX, ShellError, queue, say};
use crate::clock;
use crate::emulator::{Chain, Running};
use crate::error::LinkError;

/// Times that mahimahi's link and delay sleep between looks at their queues, and their excess. They call poll(2) in
/// whole milliseconds, to which the kernel adds 50 µs (the timer slack) and the time of waking (docs/fidelity.md).
const WAKES: Dur = Dur::from_micros(1050);
const WAKES_LATE: Dur = Dur::from_micros(20);

/// Plan of a shell with checked arguments.
pub struct Plan<'a> {
    scenario: Scenario,
    /// Ways of packets to the world, and from it.
    ways: [Way; 2],
    traced: Vec<Traced<'a>>,
    /// Number of each link's shell.
    of_shell: Vec<usize>,
    /// Seed of each shell's random losses.
    seeds: Vec<u64>,
    /// Conditions that links follow, by their numbers.
    followed: BTreeMap<usize, Conditions>,
}

/// Way of packets in one direction: a delay, and then links of the scenario, each of which delays after it has served.
#[derive(Default)]
struct Way {
    delay: Dur,
    links: Range<usize>,
}

/// A link that serves by a trace.
struct Traced<'a> {
    /// Number of the link in the scenario.
    link: usize,
    name: &'static str,
    way: &'a LinkWay,
    trace: Trace,
    once: bool,
    log: Option<Log>,
    /// The shells around its own, as before the prompt.
    enclosing: String,
}

/// Effect of a shell on packets of one direction.
enum Hop<'a> {
    Nothing,
    Delay(Dur),
    Link(Box<LinkSpec>, Option<&'a Traces>),
    Traced { way: &'a LinkWay, once: bool, wakes: bool },
}

/// Links that run.
pub struct Links {
    /// Scenario of the links.
    pub scenario: Scenario,
    /// Number of each link's shell.
    pub of_shell: Vec<usize>,
    /// Running links.
    pub running: Running,
    /// Logs of the links.
    pub logs: Vec<Writing>,
    /// Time at which the trace is over, on the machine's clock.
    pub ends_ns: Option<u64>,
    /// The machine's own buffers, if they were enlarged.
    pub enlarged: Option<Enlarged>,
}

impl<'a> Plan<'a> {
    /// Reads what the shells of `request` name. Random losses come from a shell's own seed, or from `seed`; those of a
    /// scenario from the scenario's.
    ///
    /// # Errors
    /// If a file cannot be used.
    pub fn new(request: &'a Request, seed: u64) -> Result<Self, ShellError> {
        let shells = &request.shells;
        let mut plan = Self {
            scenario: Scenario { seed, links: Vec::new(), ..Scenario::default() },
            ways: Default::default(),
            traced: Vec::new(),
            of_shell: Vec::new(),
            seeds: request.options.iter().map(|options| options.seed.unwrap_or(seed)).collect(),
            followed: BTreeMap::new(),
        };
        if let [Shell::Emulate(path), ..] = &shells[..] {
            plan.scenario = read_scenario(path)?;
            plan.seeds = vec![plan.scenario.seed];
            plan.of_shell = vec![0; plan.scenario.links.len()];
            // Links of a scenario may be changed as it runs.
            if request.control().is_some() {
                let fail = |problem| ShellError::Unchangeable { path: path.clone(), problem };
                plan.scenario.make_changeable().map_err(fail)?;
            }
            return Ok(plan);
        }
        let inward: Vec<_> = shells.iter().zip(&request.options).enumerate().collect();
        let outward = inward.iter().rev().copied().collect();
        for (index, on_the_way) in [outward, inward].into_iter().enumerate() {
            let first = plan.scenario.links.len();
            for (at, (shell, options)) in on_the_way {
                plan.add(&shells[..=at], hop(shell, index, options.wakes, shells.len() == 1), index, first)?;
            }
            plan.ways[index].links = first..plan.scenario.links.len();
        }
        let [path, return_path] = plan.ways.each_ref().map(|way| way.links.clone().collect());
        plan.scenario.flows = vec![Flow { path, return_path, ..Flow::default() }];
        Ok(plan)
    }

    /// Adds a hop of the last of `shells` to a way whose links begin with number `first`.
    fn add(&mut self, shells: &'a [Shell], hop: Hop<'a>, way: usize, first: usize) -> Result<(), ShellError> {
        const NAMES: [&str; 2] = ["Uplink", "Downlink"];
        let link = self.scenario.links.len();
        let (mut spec, traces) = match hop {
            Hop::Nothing => return Ok(()),
            Hop::Delay(delay) => {
                let before = match self.scenario.links[first..].last_mut() {
                    // Its delay is not a number to which another could be added.
                    Some(link) if link.varies.is_some() || link.conditions.is_some() => {
                        let hop = Hop::Link(Box::new(LinkSpec { delay, ..at_once() }), None);
                        return self.add(shells, hop, way, first);
                    }
                    Some(link) => &mut link.delay,
                    None => &mut self.ways[way].delay,
                };
                *before += delay;
                return Ok(());
            }
            Hop::Link(spec, traces) => (*spec, traces),
            Hop::Traced { way: spec, once, wakes } => {
                let trace = trace::load(&spec.trace)?;
                let create = |path: &Path| Log::create(path, &trace, once, spec.queue.mahimahi);
                let log = spec.log.as_deref().map(create).transpose()?;
                let around = shells.split_last().map_or(&shells[..0], |(_, around)| around);
                let outside = std::env::var_os(PREFIX).unwrap_or_default().to_string_lossy().into_owned();
                let enclosing = around.iter().fold(outside, |all, shell| all + &place::prefix(shell));
                self.traced.push(Traced { link, name: NAMES[way], way: spec, trace, once, log, enclosing });
                (of_trace(spec, wakes), Some(&spec.wire.traces))
            }
        };
        if let Some(conditions) = traces.map(conditions).transpose()?.flatten() {
            spec.delay = conditions.least_delay().unwrap_or(spec.delay);
            // The file is not read again: the link gets these.
            let source = Source::File(String::new());
            spec.conditions = Some(ConditionsSpec { source, offset: Offset::At(Dur::ZERO), keep_order: true });
            self.followed.insert(link, conditions);
        }
        let kind = shells.last().map_or("", place::device_name);
        let name = if shells.len() == 1 { NAMES[way].into() } else { format!("{kind} {}", NAMES[way]) };
        self.scenario.links.push(LinkSpec { name, ..spec });
        self.of_shell.push(shells.len() - 1);
        Ok(())
    }

    /// Starts the links between the devices of `place`. `line` is how the shell was called.
    ///
    /// # Errors
    /// If the machine does not allow it.
    pub fn start(self, place: &Place, line: &str, request: &Request) -> Result<Links, ShellError> {
        match &place.devices {
            Devices::Ends(ends) => self.start_between(ends, &place.prefix, line, request),
            Devices::Network(network) => {
                let running = request.emulator().start(&self.scenario, trace::load, network)?;
                if let Some(need) = Need::of(&self.scenario, running.extremes(), Dur::ZERO) {
                    need.enlarge_network(network);
                }
                let Self { scenario, of_shell, .. } = self;
                Ok(Links { scenario, of_shell, running, logs: Vec::new(), ends_ns: None, enlarged: None })
            }
        }
    }

    fn start_between(mut self, ends: &Ends, prefix: &str, line: &str, request: &Request) -> Result<Links, ShellError> {
        let mut chains = [Chain::default(), Chain::default()];
        for (chain, way) in chains.iter_mut().zip(&self.ways) {
            chain.delay = way.delay;
            for index in way.links.clone() {
                let traced = self.traced.iter().find(|t| t.link == index);
                let recordings = Read { trace: traced.map(|t| &t.trace), conditions: self.followed.get(&index) };
                let scenario = Scenario { seed: self.seeds[self.of_shell[index]], ..self.scenario.clone() };
                let link = Link::of(&scenario, index, &recordings);
                chain.links.push(link.map_err(|source| LinkError::Service { index, source })?);
            }
            chain.observer = log::observers(way.links.clone().map(|index| {
                let traced = self.traced.iter().find(|t| t.link == index)?;
                traced.log.as_ref()
            }));
        }
        let [up, down] = chains;
        let before = up.delay + down.delay;
        let running = request.emulator().over(up, down, &ends.near, &ends.far)?;
        let need = Need::of(&self.scenario, running.extremes(), before);
        let (enlarged, complaint) = need.map(|n| n.enlarge_ends(ends, request.enlarges_buffers())).unwrap_or_default();
        for text in enlarged.as_ref().and_then(Enlarged::notice).into_iter().chain(complaint) {
            say(format_args!("{prefix}{text}"));
        }
        let zero_ns = running.zero();
        let mut logs = Vec::new();
        for traced in &mut self.traced {
            let Some(log) = traced.log.take() else { continue };
            let head = Head {
                name: traced.name,
                trace: &traced.way.trace,
                command_line: line,
                queue: &queue::label(&traced.way.queue),
                enclosing: &traced.enclosing,
            };
            let now = move || Dur(clock::now_ns().saturating_sub(zero_ns));
            logs.push(log.write(&head, clock::since_1970_ms(zero_ns), now)?);
        }
        let passes = self.traced.iter().filter(|t| t.once).map(|t| u64::from(t.trace.duration_ms()) * 1_000_000);
        let ends_ns = passes.min().map(|ns| zero_ns + ns);
        Ok(Links { scenario: self.scenario, of_shell: self.of_shell, running, logs, ends_ns, enlarged })
    }

    /// Returns the number of flows.
    pub fn flows(&self) -> usize {
        self.scenario.flows.len()
    }

    /// The seed of random losses of each shell.
    pub fn seeds(&self) -> &[u64] {
        &self.seeds
    }
}

/// Returns the effect of `shell` on packets of way number `way`. If it stands `alone`, each way has a link to report
/// on.
fn hop(shell: &Shell, way: usize, wakes: bool, alone: bool) -> Hop<'_> {
    let changed = |direction: &Direction| (*direction == Direction::Downlink) == (way == 1);
    let link = |spec, traces| Hop::Link(Box::new(spec), traces);
    let unchanged = if alone { link(at_once(), None) } else { Hop::Nothing };
    match shell {
        Shell::Link(ways, once) => Hop::Traced { way: &ways[way], once: *once, wakes },
        Shell::Delay(delay, None) if !wakes => Hop::Delay(*delay),
        Shell::Delay(delay, None) => link(woken(LinkSpec { delay: *delay, ..at_once() }, wakes), None),
        Shell::Delay(delay, Some(wires)) => {
            let wire = &wires[way];
            link(woken(LinkSpec { delay: *delay, ..wire.link.clone() }, wakes), Some(&wire.traces))
        }
        Shell::Loss(direction, wire) if changed(direction) => link(wire.link.clone(), Some(&wire.traces)),
        Shell::OnOff(direction, on_off, wire) if changed(direction) => {
            let spec = wire.link.clone();
            let spec = match on_off {
                OnOff::Always => spec,
                OnOff::Never => LinkSpec { loss: LossSpec::independent(1.0), ..spec },
                OnOff::Turns(outages) => LinkSpec { outages: Some(*outages), ..spec },
            };
            link(spec, Some(&wire.traces))
        }
        Shell::Loss(..) | Shell::OnOff(..) => unchanged,
        Shell::Emulate(_) => Hop::Nothing,
    }
}

/// Reads the columns of `traces` that count; none if there are no traces.
fn conditions(traces: &Traces) -> Result<Option<Conditions>, ShellError> {
    fn column<T>(
        path: Option<&PathBuf>,
        name: &'static str,
        of: impl Fn(Conditions) -> Option<T>,
    ) -> Result<Option<T>, ShellError> {
        let Some(path) = path else { return Ok(None) };
        let missing = || ShellError::Column { path: path.clone(), name };
        of(ccarena_net::conditions::load(path)?).ok_or_else(missing).map(Some)
    }
    let delays = column(traces.delays.as_ref(), "delay_ms", |all| all.delays)?;
    let losses = column(traces.losses.as_ref(), "loss", |all| all.losses)?;
    let any = delays.is_some() || losses.is_some();
    Ok(any.then(|| Conditions { delays, losses, ..Conditions::default() }))
}

/// Recordings that a plan has read already; others are files.
struct Read<'a> {
    trace: Option<&'a Trace>,
    conditions: Option<&'a Conditions>,
}

impl Recordings for Read<'_> {
    fn trace(&self, file: &Path) -> Result<Trace, TraceError> {
        self.trace.map_or_else(|| trace::load(file), |trace| Ok(trace.clone()))
    }

    fn conditions(&self, file: &Path) -> Result<Conditions, TraceError> {
        self.conditions.map_or_else(|| ccarena_net::conditions::load(file), |conditions| Ok(conditions.clone()))
    }
}

fn of_trace(way: &LinkWay, wakes: bool) -> LinkSpec {
    let file = way.trace.to_string_lossy().into_owned();
    let service = ServiceSpec::Trace { file, offset: Dur::ZERO, reshape: None };
    woken(LinkSpec { service, queue: way.queue.clone(), ..way.wire.link.clone() }, wakes)
}

/// Returns `link`, whose packets pass when the process of a shell of mahimahi's `wakes`.
fn woken(link: LinkSpec, wakes: bool) -> LinkSpec {
    if wakes { LinkSpec { wakes: WAKES, jitter: WAKES_LATE, ..link } } else { link }
}

fn read_scenario(path: &Path) -> Result<Scenario, ShellError> {
    let text = bounded::read_text(path).map_err(|source| ShellError::Read { path: path.into(), source })?;
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
