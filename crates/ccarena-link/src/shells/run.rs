//! Runs a shell: starts its command, waits for it, and tells what happened.

use std::collections::BTreeSet;
use std::ffi::{CStr, OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use ccarena_cc::types::Dur;

use super::arguments::{Request, Shell};
use super::buffers;
use super::connections::{Connection, Watch};
use super::control::{Control, Door};
use super::keeper;
use super::log::Writing;
use super::place::{self, Place};
use super::plan::{Links, Plan};
use super::signals::{self, POLITE, Signals};
use super::summary::{About, HeldBack, Summary};
use super::{BASE6, ShellError, say};
use crate::clock;
use crate::error::LinkError;
use crate::namespace::Namespace;

/// The status of a shell whose trace has ended, as with mahimahi.
const TRACE_ENDED: u8 = 77;

/// Longest time until a far command listens.
const FAR_START: Duration = Duration::from_secs(2);

/// The longest sleep without a signal.
const LONG: Duration = Duration::from_secs(3600);

/// Runs what `request` asks for; `line` is how the shell was called. The status to exit with.
///
/// # Errors
/// If the command did not run.
pub fn run(request: &Request, line: &[OsString]) -> Result<u8, ShellError> {
    if let Some(words) = request.options.iter().find_map(|options| options.mahimahi.as_ref()) {
        return Err(mahimahi(&request.shells[0], words));
    }
    let held: Vec<i32> = POLITE.into_iter().chain([libc::SIGCHLD]).collect();
    let signals = Signals::hold(&held);
    let command = if request.command.is_empty() { vec![users_shell()] } else { request.command.clone() };
    let plan = Plan::new(request, random()?)?;
    let door = request.control().map(Door::open).transpose()?;
    let seeds = plan.seeds().to_vec();
    let serves = request.far_commands().next().is_some();
    let place = Place::new(&request.shells, plan.flows(), serves, request.verbose())?;
    let watches = place.watch();
    let far = request.far_commands().map(|text| start_far(&place, text)).collect::<Result<Vec<_>, _>>()?;
    // The clock of a trace starts with the command, or as nearly as can be.
    let links = plan.start(&place, &quoted(line), request)?;
    let control = door.map(|door| door.serve(links.scenario.clone(), links.running.remote()?)).transpose()?;
    let child = spawn(&place, place.near(), &command)?;
    let status = wait(&signals, child, links.ends_ns);
    for far in far {
        end(&signals, far);
    }
    let watches = watches.map(|watches| watches.map(Watch::end));
    finish(links, control, place, watches.ok(), request, &seeds, status)
}

/// Becomes mahimahi's shell; returns why not.
fn mahimahi(shell: &Shell, words: &[OsString]) -> ShellError {
    let name = format!("mm-{}", place::device_name(shell));
    let error = Command::new(&name).args(words).exec();
    ShellError::Mahimahi(name, error)
}

/// Starts `words` at one end, below a keeper, whose number it returns.
fn spawn(place: &Place, at: &Namespace, words: &[OsString]) -> Result<u32, ShellError> {
    let mut command = at.command("/proc/self/exe")?;
    command.arg0("ccarena-link").arg(keeper::NAME).arg(std::process::id().to_string()).args(words);
    // A shell around this one may have IPv6 where this one has none.
    command.env_remove(BASE6).envs(place.prompt()).envs(place.variables.iter().map(|(name, value)| (name, value)));
    let child = command.spawn().map_err(|e| LinkError::of("cannot start a process", e))?;
    Ok(child.id())
}

/// Starts the far command and waits until it listens at some port, or has ended, or does neither for long.
fn start_far(place: &Place, text: &OsStr) -> Result<u32, ShellError> {
    let before = listening(place.far())?;
    let far = spawn(place, place.far(), &["sh".into(), "-c".into(), text.into()])?;
    let until = clock::now_ns() + FAR_START.as_nanos() as u64;
    while clock::now_ns() < until && listening(place.far())?.is_subset(&before) && signals::lives(far) {
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(far)
}

/// Addresses and ports with a listener, by /proc/net (proc_pid_net(5)).
fn listening(at: &Namespace) -> Result<BTreeSet<String>, LinkError> {
    const TCP_LISTEN: &str = "0A";
    const UDP_UNCONNECTED: &str = "07";
    at.run(|| {
        let mut all = BTreeSet::new();
        for (table, state) in
            [("tcp", TCP_LISTEN), ("tcp6", TCP_LISTEN), ("udp", UDP_UNCONNECTED), ("udp6", UDP_UNCONNECTED)]
        {
            let text = std::fs::read_to_string(format!("/proc/thread-self/net/{table}")).unwrap_or_default();
            for line in text.lines().skip(1) {
                let mut fields = line.split_whitespace().skip(1);
                if let (Some(address), Some(true)) = (fields.next(), fields.nth(1).map(|s| s == state)) {
                    all.insert(format!("{table} {address}"));
                }
            }
        }
        all
    })
}

/// Waits for the end of the command, or of the trace, and passes signals on: the second time to all of the command's.
fn wait(signals: &Signals, child: u32, ends_ns: Option<u64>) -> u8 {
    let mut asked = false;
    loop {
        let left = ends_ns.map_or(LONG, |at| Duration::from_nanos(at.saturating_sub(clock::now_ns())));
        match signals.next(left).map(|s| (s.number, s.of_terminal)) {
            None if ends_ns.is_some_and(|at| clock::now_ns() >= at) => {
                end(signals, child);
                return TRACE_ENDED;
            }
            Some((libc::SIGCHLD, _)) => {
                while let Some(ended) = signals::reap() {
                    if ended.pid == child {
                        return ended.status;
                    }
                }
            }
            Some((number, false)) => {
                signals::send(child, if asked { keeper::ORPHANED } else { number });
                asked = true;
            }
            Some((_, true)) | None => {}
        }
    }
}

/// Ends all that runs below a keeper.
fn end(signals: &Signals, keeper: u32) {
    signals::send(keeper, keeper::ORPHANED);
    while signals::lives(keeper) {
        signals.next(Duration::from_millis(20));
        while signals::reap().is_some_and(|ended| ended.pid != keeper) {}
    }
}

/// Stops the links and tells what happened.
fn finish(
    links: Links,
    control: Option<Control>,
    place: Place,
    connections: Option<[Vec<Connection>; 2]>,
    request: &Request,
    seeds: &[u64],
    status: u8,
) -> Result<u8, ShellError> {
    let changed = control.map(Control::close);
    let duration = Dur(clock::now_ns().saturating_sub(links.running.zero()));
    let overruns = place.overruns()?;
    let (running, logs) = (links.running, links.logs);
    let (scenario, of_shell) = (links.scenario, links.of_shell);
    drop(links.enlarged);
    let fastest = buffers::fastest(&scenario, running.extremes());
    let outcome = running.stop()?;
    let logged = logs.into_iter().map(Writing::finish).filter(|whole| !whole).count() == 0;
    let here = place.is_far_here() && !request.enlarges_buffers();
    let held_back = connections.map(|ends| HeldBack::of(ends, fastest, here));
    let about = About { status, duration, overruns, bound: request.lateness_bound(), held_back };
    let from = |shell: usize| {
        let prefix = request.shells.iter().skip(shell).map(place::prefix).collect();
        Summary::new(&outcome, (&scenario, &of_shell), (shell, prefix, seeds[shell]), &about)
    };
    from(0).lines().for_each(say);
    for (shell, options) in request.options.iter().enumerate() {
        if let Some(path) = &options.summary {
            from(shell).write(path, changed.clone())?;
        }
    }
    Ok(if status == 0 && !logged { 1 } else { status })
}

/// The user's shell, by the user database as with mahimahi.
fn users_shell() -> OsString {
    #[allow(unsafe_code, reason = "the standard library does not read the user database")]
    // SAFETY: getpwuid returns null or a struct that stays valid until the next such call, which no other thread makes; its
    // shell is null or a string.
    let shell = unsafe {
        let entry = libc::getpwuid(libc::getuid());
        let shell = entry.as_ref().map_or(std::ptr::null_mut(), |e| e.pw_shell);
        if shell.is_null() { Vec::new() } else { CStr::from_ptr(shell).to_bytes().to_vec() }
    };
    if shell.is_empty() { "/bin/sh".into() } else { OsString::from_vec(shell) }
}

/// Random seed, of as many bits as JSON's readers keep.
fn random() -> Result<u64, ShellError> {
    let path = "/dev/urandom";
    let mut bytes = [0; 8];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut bytes));
    read.map_err(|source: io::Error| LinkError::of(format!("cannot read {path}"), source))?;
    Ok(u64::from_ne_bytes(bytes) >> 11)
}

/// The line as a log's header has it (`shell_quote` of mahimahi's `linkshell.cc`).
fn quoted(line: &[OsString]) -> String {
    let quote = |word: &OsString| format!("'{}'", word.to_string_lossy().replace('\'', "'\\''"));
    line.iter().map(quote).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted() {
        let words = ["mm-link", "a b", "it's"].map(OsString::from);
        assert_eq!(quoted(&words), r"'mm-link' 'a b' 'it'\''s'");
    }
}
