//! The command lines of mahimahi's shells, and what ours take beyond.
//!
//! `mm-link` reads its line by `getopt_long` with permutation: options count wherever they stand before a `--`, in the
//! command too. Ours reads a line so if mahimahi would; if that fails on a word of the command, the command begins at the
//! third word that is no option, and keeps all that follows (`cca-link UP DOWN ls -l`, which mahimahi refuses). `mm-delay`,
//! `mm-loss` and `mm-onoff` take their words by position; ours take the options of [`COMMON`] before the command.
//!
//! A command that is itself one of our shells is not run but joined (`cca-delay 20 cca-link UP DOWN ls`): one process then
//! carries packets through all of them, where mahimahi has one for each.

pub mod conditions;
mod line;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use ccarena_cc::registry::nearest;
use ccarena_cc::types::Dur;
use ccarena_net::QueueSpec;
use ccarena_net::losses::LossSpec;
use ccarena_net::scenario::Outages;

use super::queue;
use crate::Emulator;
use conditions::Wire;
use line::{Form, Line, Spec, number};

/// Request of a command line.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// Shells between the two ends, the outermost first.
    pub shells: Vec<Shell>,
    /// Command that runs behind them; the user's shell if empty.
    pub command: Vec<OsString>,
    /// Options of each shell.
    pub options: Vec<Options>,
}

impl Request {
    /// Commands for the far end.
    pub fn far_commands(&self) -> impl Iterator<Item = &OsString> {
        self.options.iter().filter_map(|options| options.far_command.as_ref())
    }

    /// The run is invalid if more than 1 % of its packets are later than this: the least that a shell asks for.
    pub fn lateness_bound(&self) -> Dur {
        self.options.iter().filter_map(|options| options.lateness_bound).min().unwrap_or(Dur::from_millis(1))
    }

    /// The emulator, with the most memory that a shell asks for.
    pub fn emulator(&self) -> Emulator {
        let asked = self.options.iter().filter_map(|options| options.memory_bytes).max();
        asked.map_or_else(Emulator::default, |memory_bytes| Emulator { memory_bytes })
    }

    /// Returns whether to say more.
    pub fn verbose(&self) -> bool {
        self.options.iter().any(|options| options.verbose)
    }

    /// Returns whether a shell asks for larger buffers of the machine.
    pub fn enlarges_buffers(&self) -> bool {
        self.options.iter().any(|options| options.enlarges_buffers)
    }

    /// Path of the socket through which the links are changed: only a scenario's have names.
    pub fn control(&self) -> Option<&Path> {
        self.options.iter().find_map(|options| options.control.as_deref())
    }
}

/// Shell between the two ends.
#[derive(Clone, Debug, PartialEq)]
pub enum Shell {
    /// `mm-link`.
    Link(Box<[LinkWay; 2]>, bool),
    /// `mm-delay`: one way; and what its options say of the uplink and the downlink, if they say something.
    Delay(Dur, Option<Box<[Wire; 2]>>),
    /// `mm-loss`.
    Loss(Direction, Box<Wire>),
    /// `mm-onoff`; none of a mean is always off, or always on.
    OnOff(Direction, OnOff, Box<Wire>),
    /// A scenario document.
    Emulate(PathBuf),
}

impl Shell {
    /// Returns whether a seed changes anything. A scenario has its own.
    fn is_random(&self) -> bool {
        match self {
            Self::Link(ways, _) => ways.iter().any(|way| way.queue.discipline().random || way.wire.is_random()),
            Self::Delay(_, wires) => wires.iter().flat_map(|wires| wires.iter()).any(Wire::is_random),
            Self::Emulate(_) => false,
            Self::Loss(_, wire) => wire.is_random(),
            Self::OnOff(_, turns, wire) => matches!(turns, OnOff::Turns(_)) || wire.is_random(),
        }
    }
}

/// One direction of `mm-link`.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkWay {
    /// The trace's file.
    pub trace: PathBuf,
    /// Queue of the link.
    pub queue: QueueSpec,
    /// Path of the log.
    pub log: Option<PathBuf>,
    /// Rest of the link: all but its service and its queue.
    pub wire: Wire,
}

/// Direction of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Direction from the command to the world.
    Uplink,
    /// Direction from the world to the command.
    Downlink,
}

/// Times at which a link works.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum OnOff {
    /// Mean time off is zero.
    Always,
    /// Mean time on is zero.
    Never,
    /// Alternation of on and off.
    Turns(Outages),
}

/// Options of a shell.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Options {
    /// Command at the far end, run by `sh -c`.
    pub far_command: Option<OsString>,
    /// The run is invalid if more than 1 % of its packets are later than this.
    pub lateness_bound: Option<Dur>,
    /// Path of the result as JSON.
    pub summary: Option<PathBuf>,
    /// Path of the socket through which the links are changed.
    pub control: Option<PathBuf>,
    /// The machine's own buffers are enlarged while the shell runs.
    pub enlarges_buffers: bool,
    /// Seed of random losses; drawn if none.
    pub seed: Option<u64>,
    /// Packets pass as mahimahi's shells let them: when the process wakes, which sleeps in whole milliseconds.
    pub wakes: bool,
    /// Memory per direction for packets that wait.
    pub memory_bytes: Option<usize>,
    /// Say more.
    pub verbose: bool,
    /// Run mahimahi's own shell instead, with these arguments.
    pub mahimahi: Option<Vec<OsString>>,
}

/// A command line that cannot be followed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArgumentError {
    /// Error in the line.
    #[error("{problem}\nusage: {usage}")]
    Wrong {
        /// Fault and expectation.
        problem: String,
        /// The line as it should be.
        usage: String,
    },
    /// Help was asked for: this is it.
    #[error("{0}")]
    Help(String),
}

/// Options of all shells.
const COMMON: &[Spec] = &[
    ("far-command", true, "COMMAND for `sh -c` to run at the far end"),
    ("lateness-bound", true, "MS: a run whose p99 lateness is above is invalid (default 1)"),
    ("summary", true, "FILE for packets, drops and lateness as JSON"),
    ("queue-memory-mb", true, "MB of packets that may wait each way; more are lost (default 512)"),
    ("emulator", true, "mahimahi: run mahimahi's own shell, found on PATH (default ccarena)"),
    ("verbose", false, "say what is set up"),
    ("help", false, "show this"),
];

/// Options of shells that draw at random.
const SEED: &[Spec] = &[("seed", true, "NUMBER that what is random comes from (default: another each time)")];

/// Option of shells whose far end may be the machine itself.
const MACHINE: &[Spec] =
    &[("enlarge-buffers", false, "enlarge this machine's TCP buffers to what the links need, until the end")];

/// Option of scenarios, whose links have names.
const CONTROL: &[Spec] =
    &[("control", true, "PATH of a socket through which rates, delays and losses are changed as the run goes on")];

/// Options of shells whose timing they change.
const TIMING: &[Spec] =
    &[("timing", true, "mahimahi: packets pass in steps of a millisecond, as there (default exact)")];

/// `mm-link`'s, in the order of its source; a short form of the first two is their first letter.
const LINK: &[Spec] = &[
    ("uplink-log", true, "FILE for mahimahi's log of the uplink"),
    ("downlink-log", true, "FILE for that of the downlink"),
    ("once", false, "end after one pass through a trace"),
    ("meter-uplink", false, ""),
    ("meter-downlink", false, ""),
    ("meter-uplink-delay", false, ""),
    ("meter-downlink-delay", false, ""),
    ("meter-all", false, "(and --meter-uplink, ...) accepted; nothing is drawn"),
    ("uplink-queue", true, "one of {queues} (default infinite)"),
    ("downlink-queue", true, "the same of the downlink"),
    ("uplink-queue-args", true, "\"NAME=NUMBER[, NAME=NUMBER...]\", such as \"packets=100\""),
    ("downlink-queue-args", true, "the same of the downlink"),
];

const FORMS: &[Form] = &[
    Form {
        name: "link",
        positions: &["UPLINK-TRACE", "DOWNLINK-TRACE"],
        own: LINK,
        common: &[conditions::OF_ALL, conditions::OF_ONE, SEED, TIMING, MACHINE, COMMON],
        summary: "a link that serves by mahimahi traces",
    },
    Form {
        name: "delay",
        positions: &["MS"],
        own: &[],
        common: &[conditions::OF_ALL, conditions::OF_ONE, SEED, TIMING, MACHINE, COMMON],
        summary: "a delay each way",
    },
    Form {
        name: "loss",
        positions: &["uplink|downlink", "RATE"],
        own: &[],
        common: &[conditions::OF_ALL, SEED, MACHINE, COMMON],
        summary: "random loss one way, with a probability RATE from 0 to 1",
    },
    Form {
        name: "onoff",
        positions: &["uplink|downlink", "MEAN-ON-TIME", "MEAN-OFF-TIME"],
        own: &[],
        common: &[conditions::OF_ALL, SEED, MACHINE, COMMON],
        summary: "a link that is on and off for random times, means in seconds",
    },
    Form {
        name: "emulate",
        positions: &["SCENARIO"],
        own: &[],
        common: &[CONTROL, COMMON],
        summary: "the links of a scenario document",
    },
];

/// The names of the shells.
pub fn names() -> impl Iterator<Item = &'static str> {
    FORMS.iter().map(|form| form.name)
}

/// Reads the line of shell `name`, called as `program`, with the shells that its command begins with.
///
/// # Errors
/// If the line is wrong or asks for help.
pub fn read(name: &str, program: &str, words: &[OsString]) -> Result<Request, ArgumentError> {
    let mut request = read_one(name, program, words)?;
    while let Some(inner) = inner(&request) {
        request.shells.extend(inner.shells);
        request.options.extend(inner.options);
        request.command = inner.command;
    }
    Ok(request)
}

/// The shell that the command of `request` is, if one process can be both: neither is a scenario or mahimahi's own. One
/// process has one far end, behind all its shells, and the far commands of all are there. A line that is wrong is left to
/// the process that it would be.
fn inner(request: &Request) -> Option<Request> {
    let (program, rest) = request.command.split_first()?;
    let program = Path::new(program).file_name()?.to_str()?;
    let (name, words) = match program.strip_prefix("cca-") {
        Some(name) => (name, rest),
        None if ["ccarena", "ccarena-link"].contains(&program) => {
            let (name, words) = rest.split_first()?;
            (name.to_str()?, words)
        }
        None => return None,
    };
    if !names().any(|known| known == name) {
        return None;
    }
    let inner = read_one(name, program, words).ok()?;
    let whole = |request: &Request| request.shells.iter().any(|shell| matches!(shell, Shell::Emulate(_)));
    let foreign = |request: &Request| request.options.iter().any(|options| options.mahimahi.is_some());
    let apart = |request: &Request| whole(request) || foreign(request);
    (!apart(request) && !apart(&inner)).then_some(inner)
}

fn read_one(name: &str, program: &str, words: &[OsString]) -> Result<Request, ArgumentError> {
    let Some(form) = FORMS.iter().find(|form| form.name == name) else {
        if name.is_empty() || name == "--help" || name == "-h" {
            let lines = FORMS.iter().map(|f| format!("  {:8} {}\n", f.name, f.summary));
            return Err(ArgumentError::Help(format!("ccarena-link SHELL [--help]\n\n{}", lines.collect::<String>())));
        }
        let hint = nearest(name, names()).map_or_else(String::new, |n| format!("; did you mean {n:?}?"));
        let usage = format!("ccarena-link {}", names().collect::<Vec<_>>().join("|"));
        return Err(ArgumentError::Wrong { problem: format!("unknown shell {name:?}{hint}"), usage });
    };
    let line = match form.take_apart(words) {
        Ok(line) if line.has("help") => return Err(ArgumentError::Help(form.help(program))),
        line => line,
    };
    line.and_then(|line| request(form, line)).map_err(|problem| {
        let usage = format!("{}   (--help says more)", form.usage(program));
        ArgumentError::Wrong { problem, usage }
    })
}

fn request(form: &Form, line: Line) -> Result<Request, String> {
    if line.positions.len() < form.positions.len() {
        return Err(format!("{} is missing", form.positions[line.positions.len()]));
    }
    let options = Options {
        far_command: line.get("far-command").map(Into::into),
        lateness_bound: match line.number::<f64>("lateness-bound", "milliseconds above 0")? {
            None => None,
            Some(ms) if ms > 0.0 && ms <= 1e6 => Some(Dur((ms * 1e6) as u64)),
            Some(ms) => return Err(format!("--lateness-bound is {ms}; expected milliseconds above 0")),
        },
        summary: line.path("summary"),
        control: line.path("control"),
        enlarges_buffers: line.has("enlarge-buffers"),
        seed: line.number("seed", "a whole number")?,
        memory_bytes: match line.number::<usize>("queue-memory-mb", "a whole number from 1")? {
            None => None,
            Some(mb @ 1..=1_000_000) => Some(mb << 20),
            Some(mb) => return Err(format!("--queue-memory-mb is {mb}; expected a whole number from 1 to 1000000")),
        },
        verbose: line.has("verbose"),
        wakes: choice(&line, "timing", "exact")?,
        mahimahi: if choice(&line, "emulator", "ccarena")? { Some(mahimahis(form, &line)?) } else { None },
    };
    let at = &line.positions;
    let shell = match form.name {
        "link" => Shell::Link(
            Box::new([link_way(&line, "uplink", &at[0])?, link_way(&line, "downlink", &at[1])?]),
            line.has("once"),
        ),
        "delay" => {
            let wires = [conditions::wire(&line, "uplink")?, conditions::wire(&line, "downlink")?];
            let changed = conditions::OF_ALL.iter().chain(conditions::OF_ONE).any(|(name, ..)| line.has(name));
            let delay = delay(&at[0])?;
            if delay > Dur::ZERO && wires.iter().all(|wire| wire.traces.delays.is_some()) {
                let ms = delay.as_millis_f64();
                return Err(format!("MS is {ms}, but traces give the delay of both directions; expected 0 with them"));
            }
            Shell::Delay(delay, changed.then(|| Box::new(wires)))
        }
        "loss" => {
            let wire = conditions::wire(&line, &at[0].to_string_lossy())?;
            Shell::Loss(direction(&at[0])?, Box::new(loss(wire, &at[1])?))
        }
        "onoff" => {
            let wire = conditions::wire(&line, &at[0].to_string_lossy())?;
            Shell::OnOff(direction(&at[0])?, on_off(&at[1], &at[2])?, Box::new(wire))
        }
        _ => Shell::Emulate(PathBuf::from(&at[0])),
    };
    if options.seed.is_some() && !shell.is_random() {
        return Err("--seed has no effect: nothing here is drawn at random; leave it out".into());
    }
    Ok(Request { shells: vec![shell], command: line.command, options: vec![options] })
}

/// Returns whether option `name` asks for mahimahi's behaviour, and not for `ours`.
fn choice(line: &Line, name: &str, ours: &str) -> Result<bool, String> {
    match line.get(name).map(OsStr::to_string_lossy).as_deref() {
        None => Ok(false),
        Some("mahimahi") => Ok(true),
        Some(text) if text == ours => Ok(false),
        Some(other) => Err(format!("--{name} is {other:?}; expected {ours} or mahimahi")),
    }
}

/// The same line for mahimahi's shell.
fn mahimahis(form: &Form, line: &Line) -> Result<Vec<OsString>, String> {
    if form.name == "emulate" {
        return Err("mahimahi has no shell for scenarios; leave out --emulator mahimahi".into());
    }
    let ours = |name: &str| form.common.iter().copied().flatten().any(|(n, ..)| *n == name);
    if let Some((name, _)) = line.options.iter().find(|(name, _)| ours(name) && !["emulator", "verbose"].contains(name))
    {
        return Err(format!("mahimahi's shells have no option --{name}; leave it out, or --emulator mahimahi"));
    }
    let mut words = Vec::new();
    for (name, value) in line.options.iter().filter(|(name, _)| !ours(name)) {
        let mut word = OsString::from(format!("--{name}"));
        if form.takes_value(name) {
            word.push("=");
            word.push(value);
        }
        words.push(word);
    }
    words.extend(line.positions.iter().cloned());
    // Only getopt knows what `--` means.
    if !form.own.is_empty() && !line.command.is_empty() {
        words.push("--".into());
    }
    words.extend(line.command.iter().cloned());
    Ok(words)
}

fn link_way(line: &Line, way: &str, trace: &OsStr) -> Result<LinkWay, String> {
    let text = |name: String| line.get(&name).map(|v| v.to_string_lossy().into_owned());
    let kind = text(format!("{way}-queue")).unwrap_or_else(|| "infinite".into());
    let args = text(format!("{way}-queue-args")).unwrap_or_default();
    Ok(LinkWay {
        trace: trace.into(),
        queue: queue::read(&kind, &args).map_err(|problem| format!("--{way}-queue: {problem}"))?,
        log: line.path(&format!("{way}-log")),
        wire: conditions::wire(line, way)?,
    })
}

/// Returns `wire` with the random loss of `word`, which is 0 if an option gives the loss.
fn loss(mut wire: Wire, word: &OsStr) -> Result<Wire, String> {
    let rate = number(word, "RATE", "a probability from 0 to 1")?;
    if !(0.0..=1.0).contains(&rate) {
        return Err(format!("RATE is {rate}; expected a probability from 0 to 1"));
    }
    let given = wire.link.loss != LossSpec::default() || wire.traces.losses.is_some();
    if given && rate > 0.0 {
        return Err(format!("RATE is {rate}, but an option gives the loss, too; expected 0 with that option"));
    }
    if !given {
        wire.link.loss = LossSpec::independent(rate);
    }
    Ok(wire)
}

fn direction(word: &OsStr) -> Result<Direction, String> {
    match &*word.to_string_lossy() {
        "uplink" => Ok(Direction::Uplink),
        "downlink" => Ok(Direction::Downlink),
        other => Err(format!("the direction is {other:?}; expected uplink or downlink")),
    }
}

fn delay(word: &OsStr) -> Result<Dur, String> {
    const LONGEST_MS: f64 = 100_000.0;
    let ms: f64 = number(word, "MS", "a delay in milliseconds")?;
    if !(0.0..=LONGEST_MS).contains(&ms) {
        return Err(format!("MS is {ms}; expected a delay from 0 to {LONGEST_MS} milliseconds"));
    }
    Ok(Dur((ms * 1e6).round() as u64))
}

fn on_off(on: &OsStr, off: &OsStr) -> Result<OnOff, String> {
    const LONGEST_S: f64 = 1e6;
    let read = |word: &OsStr, name: &str| match number::<f64>(word, name, "seconds")? {
        s if (0.0..=LONGEST_S).contains(&s) => Ok(s),
        s => Err(format!("{name} is {s}; expected from 0 to {LONGEST_S} seconds")),
    };
    match (read(on, "MEAN-ON-TIME")?, read(off, "MEAN-OFF-TIME")?) {
        (on, off) if on <= 0.0 && off <= 0.0 => Err("MEAN-ON-TIME and MEAN-OFF-TIME are both 0".into()),
        (_, off) if off <= 0.0 => Ok(OnOff::Always),
        (on, _) if on <= 0.0 => Ok(OnOff::Never),
        (on, off) => Ok(OnOff::Turns(Outages { on: Dur::from_secs_f64(on), off: Dur::from_secs_f64(off) })),
    }
}

#[cfg(test)]
mod tests;
