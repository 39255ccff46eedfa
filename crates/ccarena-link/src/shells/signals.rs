//! Signals, taken one by one: what the emulator and the keeper of its command do is done in turn, never in a handler.

use std::io;
use std::time::Duration;

/// Signals that ask a command to end.
pub const POLITE: [i32; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];

/// Longest timeout that the kernel accepts.
const LONGEST_S: u64 = 1_000_000_000;

/// A signal that came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signal {
    /// Number of the signal.
    pub number: i32,
    /// A terminal sent it (Ctrl-C): to the command too.
    pub of_terminal: bool,
}

/// Signals that wait until they are taken. Threads and processes that start later hold them back
/// too.
#[derive(Debug)]
pub struct Signals(libc::sigset_t);

impl Signals {
    /// Holds `numbers` back from now on.
    pub fn hold(numbers: &[i32]) -> Self {
        #[allow(unsafe_code, reason = "the standard library has no signals")]
        // SAFETY: the set is a plain value that sigemptyset makes valid, and lives through the calls.
        unsafe {
            let mut set = std::mem::zeroed();
            libc::sigemptyset(&mut set);
            for &number in numbers {
                libc::sigaddset(&mut set, number);
            }
            libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
            Self(set)
        }
    }

    /// Holds none back any more: commands inherit what is held. Allocates nothing.
    pub fn release_all() {
        #[allow(unsafe_code, reason = "the standard library has no signals")]
        // SAFETY: the set is a plain value that sigemptyset makes valid, and lives through the calls.
        unsafe {
            let mut set = std::mem::zeroed();
            libc::sigemptyset(&mut set);
            libc::pthread_sigmask(libc::SIG_SETMASK, &set, std::ptr::null_mut());
        }
    }

    /// The next one, if it comes within `timeout`.
    pub fn next(&self, timeout: Duration) -> Option<Signal> {
        let timeout = libc::timespec {
            tv_sec: timeout.as_secs().min(LONGEST_S) as i64,
            tv_nsec: i64::from(timeout.subsec_nanos()),
        };
        #[allow(unsafe_code, reason = "the standard library has no signals")]
        // SAFETY: set, information and timeout are valid values that live through the call, which fills the second.
        unsafe {
            let mut info: libc::siginfo_t = std::mem::zeroed();
            let number = libc::sigtimedwait(&self.0, &mut info, &timeout);
            (number > 0).then_some(Signal { number, of_terminal: info.si_code == libc::SI_KERNEL })
        }
    }
}

/// Sends signal `number` to process `pid`; that it is gone already is no matter.
pub fn send(pid: u32, number: i32) {
    #[allow(unsafe_code, reason = "the standard library sends SIGKILL only")]
    // SAFETY: kill takes two numbers.
    unsafe {
        libc::kill(pid as libc::pid_t, number);
    }
}

/// Returns whether process `pid`, a child, has not ended.
pub fn lives(pid: u32) -> bool {
    #[allow(unsafe_code, reason = "the standard library waits only for children whose handle it has")]
    // SAFETY: an information of zeroes is valid, and lives through the call, which fills it. WNOWAIT leaves the child to
    // be reaped.
    unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
        libc::waitid(libc::P_PID, pid, &mut info, options) == 0 && info.si_pid() == 0
    }
}

/// Has the kernel send signal `number` to this process when the thread that started it ends.
pub fn when_parent_ends(number: i32) -> io::Result<()> {
    prctl(libc::PR_SET_PDEATHSIG, number)
}

/// Orphans below this process become its children.
pub fn adopt_orphans() -> io::Result<()> {
    prctl(libc::PR_SET_CHILD_SUBREAPER, 1)
}

fn prctl(option: i32, value: i32) -> io::Result<()> {
    #[allow(unsafe_code, reason = "prctl has no safe wrapper in the standard library")]
    // SAFETY: both options take a number and touch no memory of ours.
    match unsafe { libc::prctl(option, value as libc::c_ulong, 0, 0, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// End of a child process: its exit status, or 128 and the number of the signal, as shells count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Process id.
    pub pid: u32,
    /// Exit status.
    pub status: u8,
}

/// A child that has ended, if any has.
pub fn reap() -> Option<Ended> {
    let mut status = 0;
    #[allow(unsafe_code, reason = "the standard library waits for one child that it started, not for any")]
    // SAFETY: `status` is an int that the call fills.
    let pid = unsafe { libc::waitpid(-1, &mut status, libc::WNOHANG) };
    let code = if libc::WIFSIGNALED(status) { 128 + libc::WTERMSIG(status) } else { libc::WEXITSTATUS(status) };
    (pid > 0).then_some(Ended { pid: pid as u32, status: code as u8 })
}
