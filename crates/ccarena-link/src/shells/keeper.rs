//! The process between the emulator and its command: it sees to it that nothing of the command's outlives either.
//!
//! It adopts what the command leaves behind, passes signals on, and ends all of it when the command ends, or when the
//! emulator does, even by kill -9.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use super::signals::{self, POLITE, Signals};
use super::{CANNOT_RUN, NOT_FOUND, say};
use crate::clock;

/// First argument of the executable as a keeper; the emulator's process number and the command follow.
pub const NAME: &str = "--keep";

/// Time that processes left by the command get to end when asked to.
const GRACE: Duration = Duration::from_millis(500);

/// The signal of the emulator's end, or of its wish that all ends.
pub const ORPHANED: i32 = libc::SIGUSR1;

/// Runs `words`: the emulator's process number and a command. The status to exit with.
pub fn run(words: &[OsString]) -> u8 {
    let [parent, program, arguments @ ..] = words else { return CANNOT_RUN };
    let held: Vec<i32> = POLITE.into_iter().chain([libc::SIGCHLD, ORPHANED]).collect();
    let signals = Signals::hold(&held);
    // Until here the kernel kills us with the emulator; from here on there may be something to clean up.
    if signals::when_parent_ends(ORPHANED).and_then(|()| signals::adopt_orphans()).is_err() {
        return CANNOT_RUN;
    }
    if parent.to_string_lossy().parse() != Ok(std::os::unix::process::parent_id()) {
        return CANNOT_RUN;
    }
    let mut command = Command::new(program);
    command.args(arguments);
    #[allow(unsafe_code, reason = "only the child itself can ask to be killed with its parent")]
    // SAFETY: between fork and exec the closure makes system calls alone: it takes no lock and allocates nothing.
    unsafe {
        command.pre_exec(|| {
            Signals::release_all();
            signals::when_parent_ends(libc::SIGKILL)
        });
    }
    let child = match command.spawn() {
        Ok(child) => child.id(),
        Err(e) => {
            say(format_args!("error: cannot run {}: {e}", program.to_string_lossy()));
            return if e.kind() == std::io::ErrorKind::NotFound { NOT_FOUND } else { CANNOT_RUN };
        }
    };
    let status = watch(&signals, child);
    end_all(&signals);
    status
}

/// Waits for the end of `child` and passes signals on to it.
fn watch(signals: &Signals, child: u32) -> u8 {
    loop {
        match signals.next(Duration::MAX).map(|s| (s.number, s.of_terminal)) {
            Some((ORPHANED, _)) => return 128 + libc::SIGKILL as u8,
            Some((libc::SIGCHLD, _)) => {
                while let Some(ended) = signals::reap() {
                    if ended.pid == child {
                        return ended.status;
                    }
                }
            }
            Some((number, false)) => signals::send(child, number),
            Some((_, true)) | None => {}
        }
    }
}

/// Ends what is left below this process: politely, and after a while not. As processes end, theirs become ours.
fn end_all(signals: &Signals) {
    let until = clock::now_ns() + GRACE.as_nanos() as u64;
    let mut told = BTreeSet::new();
    loop {
        let left = children();
        if left.is_empty() {
            return;
        }
        let late = clock::now_ns() >= until;
        for pid in left.into_iter().filter(|&pid| told.insert(pid) || late) {
            signals::send(pid, if late { libc::SIGKILL } else { libc::SIGTERM });
            signals::send(pid, libc::SIGCONT);
        }
        signals.next(Duration::from_millis(20));
        while signals::reap().is_some() {}
    }
}

/// The children of this process, by `/proc/PID/stat` (proc_pid_stat(5)): the parent is the second field behind the name.
fn children() -> Vec<u32> {
    let me = std::process::id().to_string();
    let is_mine = |pid: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1)) == Some(&me)
    };
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|e| e.file_name().to_string_lossy().parse().ok()).filter(is_mine).collect()
}
