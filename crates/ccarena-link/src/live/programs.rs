//! Programs of others at the two ends of the links: for each such flow a sender and a receiver, started, watched and ended.
//!
//! What programs get and do (docs/entrant-files.md): one of the two listens and is started before the run; the other is started when
//! the flow begins. Both learn addresses, port and duration from their environment, or from words in braces.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use ccarena_cc::Time;
use ccarena_net::Scenario;
use ccarena_net::apps::Outcome;
use ccarena_net::result::FlowResult;
use ccarena_net::scenario::{Flow, Foreign, foreign};

use super::confined::{Bounds, Confined, Task, describe};
use crate::clock;
use crate::error::LinkError;
use crate::namespace::Namespace;
use crate::network::{End, Network};
use crate::tally::Seen;

/// Port of the first flow's listener; the next flows have the next ones.
const FIRST_PORT: usize = 20_000;
const TICK: Duration = Duration::from_millis(5);
/// Interval between looks at a program's processes.
const LOOK_NS: u64 = 100_000_000;
/// A sender that ends so much before its flow does has not done what was asked.
const EARLY: Duration = Duration::from_millis(500);

/// Returns the fault of `flow` if programs at its ends cannot do what it says: a field and what was expected.
#[must_use]
pub fn refusal(flow: &Flow) -> Option<(&'static str, &'static str)> {
    if !flow.app.is_bulk() && flow.app.only_transfer().is_none() {
        return Some(("app", "expected bulk, or transfers of one size: a program decides itself what it sends"));
    }
    flow.changes.is_empty().then_some(()).map_or(Some(("changes", "expected none for a program")), |()| None)
}

/// Programs of a run; those that listen are running.
pub struct Programs {
    flows: Vec<Pair>,
    stop: Arc<AtomicBool>,
}

struct Pair {
    index: usize,
    scratch: Scratch,
    listener: Supervised,
    connector: (Task, Namespace, &'static str),
    begin: Time,
    end: Time,
    transfers: bool,
}

/// Programs of a run, all started.
pub struct RunningPrograms {
    flows: Vec<(usize, Supervised, Supervised, Scratch)>,
    stop: Arc<AtomicBool>,
}

impl Programs {
    /// Starts the programs of `scenario` that listen in `network`, and waits until they are ready, or have failed.
    ///
    /// # Errors
    /// If one of the programs is not there, or the kernel refuses.
    pub fn new(scenario: &Scenario, network: &Network) -> Result<Self, LinkError> {
        let stop = Arc::new(AtomicBool::new(false));
        let mut flows = Vec::new();
        for (index, flow) in scenario.flows.iter().enumerate() {
            let Some(Foreign::Programs(programs)) = &flow.foreign else { continue };
            network.set_source(End::Senders, index)?;
            network.set_source(End::Receivers, index)?;
            let scratch = Scratch::new(index)?;
            let task = |end: End| task(scenario, index, programs, end, &scratch.0);
            let place = |end: End| (task(end), network.namespace(end).try_clone(), role(end));
            let (first, second) =
                if programs.sender_listens { (End::Senders, End::Receivers) } else { (End::Receivers, End::Senders) };
            let (task, namespace, role) = place(first);
            let ready = Some((programs.ready.clone(), programs.ready_within.0));
            let (listener, readiness) =
                Supervised::start(task, namespace?, role, ready, Begin::Now, &stop, Watch::default())?;
            // It says by a result that it is ready, has failed, or is not there at all.
            readiness.recv().map_err(|_| LinkError::Panicked)?.map_err(|e| e.of_flow(index))?;
            let (task, namespace, role) = place(second);
            let end = flow.stop.unwrap_or(Time(scenario.duration.0));
            let (connector, transfers) = ((task, namespace?, role), flow.app.only_transfer().is_some());
            flows.push(Pair { index, scratch, listener, connector, begin: flow.start, end, transfers });
        }
        Ok(Self { flows, stop })
    }

    /// Starts the others when their flows begin, `zero_ns` being time zero of the run.
    ///
    /// # Errors
    /// If a thread cannot be started.
    pub fn start(mut self, zero_ns: u64) -> Result<RunningPrograms, LinkError> {
        let (flows, stop) = (std::mem::take(&mut self.flows), Arc::clone(&self.stop));
        let mut running = Vec::with_capacity(flows.len());
        for Pair { index, scratch, listener, connector: (task, namespace, role), begin, end, transfers } in flows {
            let watch = Watch { end_ns: Some(zero_ns.saturating_add(end.0)), may_end: transfers };
            let begin = Begin::At(zero_ns.saturating_add(begin.0));
            let (connector, _) = Supervised::start(task, namespace, role, None, begin, &stop, watch)?;
            running.push((index, listener, connector, scratch));
        }
        Ok(RunningPrograms { flows: running, stop })
    }
}

impl RunningPrograms {
    /// Ends all programs. Returns the flow number of each pair and what went wrong, if anything did.
    ///
    /// # Errors
    /// If a thread has panicked.
    pub fn stop(mut self) -> Result<Vec<(usize, Option<String>)>, LinkError> {
        self.stop.store(true, Ordering::Relaxed);
        let mut ends = Vec::new();
        for (index, listener, connector, _scratch) in self.flows.drain(..) {
            let (first, second) = (listener.join()?, connector.join()?);
            ends.push((index, second.or(first)));
        }
        Ok(ends)
    }
}

impl Drop for RunningPrograms {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

impl Drop for Programs {
    fn drop(&mut self) {
        // Moved out by `start`, or none will start any more.
        if !self.flows.is_empty() {
            self.stop.store(true, Ordering::Relaxed);
        }
    }
}

/// Returns flow number `index` of `scenario` by what the emulator has `seen` of it; `problem` is what went wrong.
#[must_use]
pub fn result(scenario: &Scenario, index: usize, seen: Option<Seen>, problem: Option<String>) -> FlowResult {
    let seen = seen.unwrap_or_default();
    let silent = (seen.delivered_packets == 0).then(|| {
        let flow =
            if seen.sent_packets == 0 { "the sender sent no packet with data" } else { "no packet with data arrived" };
        flow.to_owned()
    });
    FlowResult {
        sent_packets: seen.sent_packets,
        retransmitted_packets: seen.resent_packets,
        lost_packets: seen.sent_packets.saturating_sub(seen.delivered_packets),
        delivered_bytes: seen.payload_bytes,
        wire_bytes: seen.wire_bytes,
        delivered_bytes_until_stop: Some(seen.payload_bytes_until_stop),
        duplicate_packets: seen.duplicate_packets,
        app: Outcome { completion: seen.completion.into_iter().collect(), ..Outcome::default() }.into(),
        error: problem
            .or(silent)
            .map(|problem| format!("flows[{index}] ({}): {problem}", scenario.flows[index].scheme)),
        series: seen.series.map(|series| series.bins),
        ..FlowResult::new(scenario, index)
    }
}

fn role(end: End) -> &'static str {
    match end {
        End::Senders => "sender",
        End::Receivers => "receiver",
    }
}

/// The program at `end` of flow number `index`, with its words in braces filled in.
fn task(scenario: &Scenario, index: usize, programs: &foreign::Programs, end: End, scratch: &Path) -> Task {
    let flow = &scenario.flows[index];
    let stop = flow.stop.unwrap_or(Time(scenario.duration.0));
    // Whole seconds are all that many programs take.
    let seconds = stop.since(flow.start).as_secs_f64().ceil().max(1.0);
    let bytes = flow.app.only_transfer();
    let scratch_text = scratch.display().to_string();
    let folder = if programs.folder.is_empty() { &scratch_text } else { &programs.folder };
    let facts: Vec<(&str, String)> = [
        ("sender", End::Senders.address(index).to_string()),
        ("receiver", End::Receivers.address(index).to_string()),
        ("port", (FIRST_PORT + index).to_string()),
        ("duration_s", seconds.to_string()),
        ("flow", index.to_string()),
        ("role", role(end).to_string()),
        ("folder", folder.clone()),
        ("scratch", scratch_text.clone()),
    ]
    .into_iter()
    .chain(bytes.map(|bytes| ("bytes", bytes.to_string())))
    .collect();
    let fill = |word: &String| {
        facts.iter().fold(word.clone(), |word, (name, value)| word.replace(&format!("{{{name}}}"), value))
    };
    let command = if end == End::Senders { &programs.sender } else { &programs.receiver };
    let env = facts.iter().map(|(name, value)| (format!("CCARENA_{}", name.to_uppercase()), value.clone()));
    Task {
        words: command.iter().map(fill).collect(),
        env: env.chain(programs.env.iter().map(|(name, value)| (name.clone(), fill(value)))).collect(),
        scratch: scratch.to_owned(),
        name: if end == End::Senders { "sender.log" } else { "receiver.log" },
        bounds: Bounds { memory_mb: programs.memory_mb, processes: programs.processes },
    }
}

/// Folder of a flow's programs, removed when dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new(index: usize) -> Result<Self, LinkError> {
        let name = format!("ccarena-programs-{}-{index}-{}", std::process::id(), clock::now_ns());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).map_err(|e| LinkError::of(format!("cannot make {}", path.display()), e))?;
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Start of a program.
enum Begin {
    Now,
    /// Time on CLOCK_MONOTONIC.
    At(u64),
}

/// Expectation of a program that runs.
#[derive(Clone, Copy, Default)]
struct Watch {
    /// End of its flow on CLOCK_MONOTONIC, where it is stopped, and before which it should not end.
    end_ns: Option<u64>,
    /// Flag that it may end before, as it has sent all that it was to send.
    may_end: bool,
}

type Readiness = Receiver<Result<(), LinkError>>;

/// A program in the hands of a thread.
struct Supervised(JoinHandle<Option<String>>);

impl Supervised {
    /// Starts `task` by a thread of its own. The channel says when it is ready, and fails if it could not be started.
    fn start(
        task: Task,
        namespace: Namespace,
        role: &'static str,
        ready: Option<(foreign::Ready, u64)>,
        begin: Begin,
        stop: &Arc<AtomicBool>,
        watch: Watch,
    ) -> Result<(Self, Readiness), LinkError> {
        let (say, readiness) = mpsc::channel();
        let stop = Arc::clone(stop);
        let work = move || {
            if let Begin::At(ns) = begin {
                while clock::now_ns() < ns {
                    if stop.load(Ordering::Relaxed) {
                        return None;
                    }
                    thread::sleep(TICK.min(Duration::from_nanos(ns.saturating_sub(clock::now_ns()))));
                }
            }
            let mut program = match Confined::start(&task, &namespace) {
                Ok(program) => program,
                Err(e) => {
                    let problem = format!("{role}: {e}");
                    let _ = say.send(Err(e));
                    return Some(problem);
                }
            };
            let problem =
                ready.and_then(|(ready, within)| wait_until_ready(&mut program, &ready, within, &task, &stop));
            // The run goes on without it: that it does not start is a result.
            let _ = say.send(Ok(()));
            let problem = problem.or_else(|| supervise(&mut program, &stop, watch));
            let words = program.last_words();
            program.stop();
            problem.map(|problem| match words.as_str() {
                "" => format!("the {role} {problem}"),
                words => format!("the {role} {problem}; it printed: {words}"),
            })
        };
        let thread = thread::Builder::new().name("program".into()).spawn(work);
        Ok((Self(thread.map_err(|e| LinkError::of("cannot start a thread", e))?), readiness))
    }

    fn join(self) -> Result<Option<String>, LinkError> {
        self.0.join().map_err(|_| LinkError::Panicked)
    }
}

/// Waits until `program` is ready. Returns what went wrong.
fn wait_until_ready(
    program: &mut Confined,
    ready: &foreign::Ready,
    within: u64,
    task: &Task,
    stop: &AtomicBool,
) -> Option<String> {
    let port = task.env.iter().find(|(name, _)| name == "CCARENA_PORT").and_then(|(_, port)| port.parse().ok());
    let until_ns = clock::now_ns().saturating_add(within);
    loop {
        let is_ready = match ready {
            foreign::Ready::Tcp => port.is_some_and(|port| listens(program.id(), "tcp", port)),
            foreign::Ready::Udp => port.is_some_and(|port| listens(program.id(), "udp", port)),
            foreign::Ready::Output(text) => program.has_printed(text),
            foreign::Ready::After(time) => program.age() >= Duration::from_nanos(time.0),
        };
        if is_ready {
            return None;
        }
        if let Some(status) = program.ended() {
            return Some(format!("ended with {} before it was ready", describe(status)));
        }
        if clock::now_ns() >= until_ns || stop.load(Ordering::Relaxed) {
            let seconds = Duration::from_nanos(within).as_secs_f64();
            return Some(format!("was not ready within {seconds} s ({})", condition(ready)));
        }
        thread::sleep(TICK);
    }
}

fn condition(ready: &foreign::Ready) -> String {
    match ready {
        foreign::Ready::Tcp => "no TCP socket listens on its port".into(),
        foreign::Ready::Udp => "no UDP socket is bound to its port".into(),
        foreign::Ready::Output(text) => format!("it has not printed {text:?}"),
        foreign::Ready::After(_) => "time to start".into(),
    }
}

/// Watches `program` until it is to stop. Returns what went wrong.
fn supervise(program: &mut Confined, stop: &AtomicBool, watch: Watch) -> Option<String> {
    let mut look_ns = clock::now_ns();
    loop {
        let late = watch.end_ns.is_some_and(|end| clock::now_ns() >= end);
        if stop.load(Ordering::Relaxed) || late {
            return None;
        }
        if let Some(status) = program.ended() {
            let age = program.age();
            let left = watch.end_ns.map(|end| Duration::from_nanos(end.saturating_sub(clock::now_ns())));
            let early = !watch.may_end && left.is_some_and(|left| left > EARLY);
            return (!status.success() || early).then(|| {
                let rest = left
                    .map_or(String::new(), |left| format!(", {:.1} s before the end of its flow", left.as_secs_f64()));
                format!("ended with {} after {:.1} s{rest}", describe(status), age.as_secs_f64())
            });
        }
        if clock::now_ns() >= look_ns {
            look_ns = clock::now_ns() + LOOK_NS;
            if let Some(excess) = program.excess() {
                return Some(excess);
            }
        }
        thread::sleep(TICK);
    }
}

/// Returns whether a socket of the network namespace of process `id` listens on `port` (proc_pid_net(5)): for UDP, is
/// bound to it.
fn listens(id: u32, protocol: &str, port: u16) -> bool {
    let listening = |line: &str| {
        let mut fields = line.split_whitespace().skip(1);
        let local = fields.next().and_then(|address| address.rsplit(':').next()?.to_owned().into());
        let state = fields.nth(1);
        local.is_some_and(|local: String| u16::from_str_radix(&local, 16) == Ok(port))
            && (protocol == "udp" || state == Some("0A"))
    };
    ["", "6"].iter().any(|family| {
        let table = fs::read_to_string(format!("/proc/{id}/net/{protocol}{family}")).unwrap_or_default();
        table.lines().skip(1).any(listening)
    })
}
