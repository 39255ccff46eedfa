//! Real-time runs: the links of a scenario between the two ends of a [`Network`], or two chains between any two devices.

use std::io::Write;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Sender};
use std::thread::{self, JoinHandle};

use ccarena_cc::types::{Dur, Rate, Time};
use ccarena_net::histogram::Histogram;
use ccarena_net::scenario::{Foreign, LinkChange};
use ccarena_net::{Link, Scenario, Trace, TraceError};

use crate::clock;
use crate::datagram::Datagram;
use crate::error::LinkError;
use crate::fabric::{Fabric, Observer, Route};
use crate::lateness::Lateness;
use crate::network::{End, Network};
use crate::pump::{Ask, Pump, Pumped, Way, Worker};
use crate::tally::{Seen, Tally};
use crate::tun::Tun;

pub use crate::pump::Counts;

/// Links one after the other, and a delay before them, that all packets of one direction cross.
#[derive(Default)]
pub struct Chain {
    /// The delay.
    pub delay: Dur,
    /// The links in order; none is pure delay.
    pub links: Vec<Link<Datagram>>,
    /// Receives what happens; links are numbered within the chain.
    pub observer: Option<Box<dyn Observer>>,
}

/// Rate up to which one thread handles both directions, in Mbit/s: a wake, which costs as much as several packets, then
/// serves both. The thread has time for several times as much.
const ONE_THREAD_MBPS: f64 = 1000.0;

/// Starts runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Emulator {
    /// Memory per direction for the packets that wait, in queues and in propagation; what comes when it is full is lost.
    pub memory_bytes: usize,
}

impl Default for Emulator {
    /// 512 MiB: four seconds of 1 Gbit/s.
    fn default() -> Self {
        Self { memory_bytes: 512 << 20 }
    }
}

/// Extremes of a link over its first minute, by which buffers are sized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extremes {
    /// Largest capacity of a second.
    pub rate: Rate,
    /// Longest propagation delay.
    pub delay: Dur,
}

impl Extremes {
    fn of(link: &Link<Datagram>) -> Self {
        let second = Dur::from_secs_f64(1.0);
        let bytes = (0..60).map(|i| link.capacity_bytes(Time::ZERO + second * i, Time::ZERO + second * (i + 1)));
        Self { rate: Rate::of(bytes.max().unwrap_or(0), second), delay: link.longest_delay() }
    }
}

/// A run that goes on until it is stopped or dropped.
pub struct Running {
    zero_ns: u64,
    extremes: Vec<Extremes>,
    stop: Arc<AtomicBool>,
    threads: Vec<Thread>,
}

/// A thread and, of each of its parts, the numbers of the links among those of the run.
struct Thread {
    handle: JoinHandle<Vec<Pumped>>,
    line: Line,
}

/// Way to a thread.
struct Line {
    /// Ends the thread's waits.
    wake: UnixStream,
    asks: Sender<Ask>,
    numbers: Vec<Vec<usize>>,
}

/// Access to the links of a run while it goes on.
pub struct Remote {
    zero_ns: u64,
    lines: Vec<Line>,
}

/// Outcome of a run.
pub struct Outcome {
    /// The links, in the scenario's order (of two chains: the first's, then the second's), with counters and logs.
    pub links: Vec<Link<Datagram>>,
    /// The self-check.
    pub lateness: Lateness,
    /// Packets and CPU time.
    pub counts: Counts,
    /// Counts of the flows whose ends are programs of others, by flow; none of the others.
    pub seen: Vec<Option<Seen>>,
}

impl Emulator {
    /// Runs the links of `scenario` over `network`. `load` finds the trace of a file name.
    ///
    /// # Errors
    /// If a link cannot be built, or threads cannot be started.
    pub fn start(
        self,
        scenario: &Scenario,
        load: impl Fn(&Path) -> Result<Trace, TraceError>,
        network: &Network,
    ) -> Result<Running, LinkError> {
        let mut links = Vec::with_capacity(scenario.links.len());
        for index in 0..scenario.links.len() {
            let link = Link::of(scenario, index, &load).map_err(|source| LinkError::Service { index, source })?;
            links.push(link);
        }
        let extremes = links.iter().map(Extremes::of).collect();
        let count = scenario.flows.len() as u32;
        let forth = scenario.flows.iter().map(|f| Route { delay: Dur::ZERO, path: f.path.clone() }).collect();
        let back = |f| scenario.return_delay(f);
        let back = scenario.flows.iter().map(|f| Route { delay: back(f), path: f.return_path.clone() }).collect();
        let way = |from: End| {
            let (input, output) = (network.tun(from).try_clone()?, network.tun(from.other()).try_clone()?);
            Ok::<_, LinkError>(Way::of_flows(input, output, from, count))
        };
        let mut forth = Plan { way: way(End::Senders)?, routes: forth };
        let foreign = |flow: &ccarena_net::scenario::Flow| matches!(flow.foreign, Some(Foreign::Programs(_)));
        forth.way.tally = scenario.flows.iter().any(foreign).then(|| Tally::of(scenario));
        let back = Plan { way: way(End::Receivers)?, routes: back };
        let (returning, others): (Vec<_>, Vec<_>) = links.into_iter().enumerate().partition(|(i, _)| back.crosses(*i));
        if returning.iter().any(|(i, _)| forth.crosses(*i)) {
            let all = Part::of(vec![forth, back], others.into_iter().chain(returning));
            return Running::start(vec![vec![all]], extremes, self.memory_bytes);
        }
        // Data goes forth alone: there is no more on the way back than what acknowledges it.
        let slow = others.iter().map(|(_, link)| mbps(link)).sum::<f64>() <= ONE_THREAD_MBPS;
        let parts = [Part::of(vec![forth], others), Part::of(vec![back], returning)];
        Running::start(on_threads(parts, slow), extremes, self.memory_bytes)
    }

    /// Runs `up` for packets from `near` to `far`, and `down` for those from `far` to `near`.
    ///
    /// # Errors
    /// If threads cannot be started.
    pub fn over(self, up: Chain, down: Chain, near: &Tun, far: &Tun) -> Result<Running, LinkError> {
        let slow = [&up, &down].iter().all(|chain| chain.links.iter().any(|link| mbps(link) <= ONE_THREAD_MBPS));
        let extremes = up.links.iter().chain(&down.links).map(Extremes::of).collect();
        let mut first = 0;
        let mut part = |chain: Chain, input: &Tun, output: &Tun| {
            let count = chain.links.len();
            let route = Route { delay: chain.delay, path: (0..count).collect() };
            let way = Way::of_all(input.try_clone()?, output.try_clone()?);
            let fabric = Fabric::new(chain.links, vec![route], chain.observer);
            first += count;
            Ok::<_, LinkError>(Part { ways: vec![way], fabric, numbers: (first - count..first).collect() })
        };
        let parts = [part(up, near, far)?, part(down, far, near)?];
        Running::start(on_threads(parts, slow), extremes, self.memory_bytes)
    }
}

/// Returns the parts that each thread runs.
fn on_threads(parts: [Part; 2], slow: bool) -> Vec<Vec<Part>> {
    if slow { vec![parts.into()] } else { parts.map(|part| vec![part]).into() }
}

/// Mean capacity at the beginning.
fn mbps(link: &Link<Datagram>) -> f64 {
    let seconds = 10.0;
    link.capacity_bytes(Time::ZERO, Time::from_secs_f64(seconds)) as f64 * 8e-6 / seconds
}

/// A direction of a scenario: the route of each flow, over the scenario's links.
struct Plan {
    way: Way,
    routes: Vec<Route>,
}

impl Plan {
    fn crosses(&self, link: usize) -> bool {
        self.routes.iter().any(|r| r.path.contains(&link))
    }
}

/// Devices and the links between them, which one thread runs.
struct Part {
    ways: Vec<Way>,
    fabric: Fabric,
    /// Numbers of its links in the run.
    numbers: Vec<usize>,
}

impl Part {
    /// A thread for `plans`, which cross none but these links, given with their numbers in the run.
    fn of(plans: Vec<Plan>, links: impl IntoIterator<Item = (usize, Link<Datagram>)>) -> Self {
        let (numbers, links): (Vec<_>, Vec<_>) = links.into_iter().unzip();
        let (mut ways, mut routes) = (Vec::new(), Vec::new());
        for mut plan in plans {
            plan.way.first_route = routes.len() as u32;
            ways.push(plan.way);
            routes.extend(plan.routes.into_iter().map(|Route { delay, path }| Route {
                delay,
                path: path.iter().filter_map(|link| numbers.iter().position(|n| n == link)).collect(),
            }));
        }
        Self { ways, fabric: Fabric::new(links, routes, None), numbers }
    }
}

impl Running {
    /// A thread for each of `threads`.
    fn start(threads: Vec<Vec<Part>>, extremes: Vec<Extremes>, memory_bytes: usize) -> Result<Self, LinkError> {
        let zero_ns = clock::now_ns();
        let mut running = Self { zero_ns, extremes, stop: Arc::default(), threads: Vec::new() };
        for parts in threads {
            let (wake, woken) = UnixStream::pair().map_err(|e| LinkError::of("cannot create a pair of sockets", e))?;
            let (asks, asked) = mpsc::channel();
            let memory_bytes = memory_bytes.saturating_mul(parts.len());
            let pump = |Part { ways, fabric, numbers }| (numbers, Pump::new((ways, fabric), zero_ns, memory_bytes));
            let (numbers, pumps): (Vec<_>, _) = parts.into_iter().map(pump).unzip();
            let mut worker = Worker { pumps, stop: Arc::clone(&running.stop), woken, asks: asked };
            let handle = thread::Builder::new()
                .name("links".into())
                .spawn(move || {
                    worker.run();
                    worker.finish()
                })
                .map_err(|e| LinkError::of("cannot start a thread", e))?;
            running.threads.push(Thread { handle, line: Line { wake, asks, numbers } });
        }
        Ok(running)
    }

    /// [`clock::now_ns`] at time zero of the run, to which the times of its records refer.
    #[must_use]
    pub fn zero(&self) -> u64 {
        self.zero_ns
    }

    /// Returns the extremes of the links, in the order of the run's.
    #[must_use]
    pub fn extremes(&self) -> &[Extremes] {
        &self.extremes
    }

    /// The time of the run.
    #[must_use]
    pub fn now(&self) -> Time {
        Time(clock::now_ns().saturating_sub(self.zero_ns))
    }

    /// Returns access to the links while the run goes on.
    ///
    /// # Errors
    /// If the process has too many descriptors.
    pub fn remote(&self) -> Result<Remote, LinkError> {
        let line = |thread: &Thread| {
            let wake = thread.line.wake.try_clone().map_err(|e| LinkError::of("cannot copy a descriptor", e))?;
            Ok(Line { wake, asks: thread.line.asks.clone(), numbers: thread.line.numbers.clone() })
        };
        let lines = self.threads.iter().map(line).collect::<Result<_, LinkError>>()?;
        Ok(Remote { zero_ns: self.zero_ns, lines })
    }

    /// Stops: packets on the way are lost.
    ///
    /// # Errors
    /// If a thread has panicked.
    pub fn stop(mut self) -> Result<Outcome, LinkError> {
        self.wake_threads();
        let (mut links, mut lateness, mut counts) = (Vec::new(), Histogram::new(), Counts::default());
        let mut seen = Vec::new();
        for Thread { handle, line } in self.threads.drain(..) {
            for (numbers, pumped) in line.numbers.into_iter().zip(handle.join().map_err(|_| LinkError::Panicked)?) {
                links.extend(numbers.into_iter().zip(pumped.links));
                lateness.merge(&pumped.lateness);
                counts.merge(&pumped.counts);
                seen.extend(pumped.seen);
            }
        }
        links.sort_by_key(|(number, _)| *number);
        let links = links.into_iter().map(|(_, link)| link).collect();
        Ok(Outcome { links, lateness: Lateness::of(&lateness), counts, seen })
    }

    fn wake_threads(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in &self.threads {
            // At worst it is shut down already.
            let _ = thread.line.wake.shutdown(Shutdown::Both);
        }
    }
}

impl Remote {
    /// The time of the run.
    #[must_use]
    pub fn now(&self) -> Time {
        Time(clock::now_ns().saturating_sub(self.zero_ns))
    }

    /// Changes link number `link` of the run. Returns the time from which the change holds; none if the run is over.
    #[must_use]
    pub fn change(&self, link: usize, change: LinkChange) -> Option<Time> {
        let place = |line: &Line| {
            let find = |numbers: &Vec<usize>| numbers.iter().position(|number| *number == link);
            line.numbers.iter().enumerate().find_map(|(pump, numbers)| Some((pump, find(numbers)?)))
        };
        let (line, link) = self.lines.iter().find_map(|line| Some((line, place(line)?)))?;
        let (answer, answered) = mpsc::channel();
        line.asks.send(Ask { link, change, answer }).ok()?;
        (&line.wake).write_all(&[0]).ok()?;
        answered.recv().ok()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.wake_threads();
        for thread in self.threads.drain(..) {
            // Nobody asks any more what it measured.
            let _ = thread.handle.join();
        }
    }
}

impl Counts {
    fn merge(&mut self, other: &Self) {
        self.read += other.read;
        self.ignored += other.ignored;
        self.written += other.written;
        self.refused += other.refused;
        self.overflowed += other.overflowed;
        self.cpu += other.cpu;
    }
}
