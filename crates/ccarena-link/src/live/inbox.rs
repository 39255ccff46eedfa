//! Input during a run: actions on standard input, and the request to stop.

use std::fs::File;
use std::io::{self, Read};
use std::mem::{ManuallyDrop, zeroed};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use super::frames::{Act, Acts};
use crate::clock;

/// Error that ends the input.
#[derive(Debug, thiserror::Error)]
pub enum InboxError {
    /// Signals, pipes.
    #[error("{what}: {source}")]
    System {
        /// Attempted operation.
        what: &'static str,
        /// Error of the kernel.
        source: io::Error,
    },
    /// Standard input ended, or a signal came.
    #[error("the run was stopped before its end")]
    Stopped,
}

/// Longest request.
const LONGEST_LINE: usize = 1 << 26;

/// Standard input and the signals that stop a run.
pub struct Inbox {
    input: ManuallyDrop<File>,
    signals: OwnedFd,
    acts: Acts,
}

impl Inbox {
    /// Takes over standard input, SIGINT and SIGTERM. To be called before any thread starts, which would else take the
    /// signals.
    ///
    /// # Errors
    /// If the kernel refuses.
    #[allow(unsafe_code, reason = "the standard library knows no signals")]
    pub fn new() -> Result<Self, InboxError> {
        let fail = |what| move |source| InboxError::System { what, source };
        // SAFETY: a signal set of zeros is one that sigemptyset makes valid; both calls touch nothing else.
        let signals = unsafe {
            let mut set: libc::sigset_t = zeroed();
            libc::sigemptyset(&raw mut set);
            libc::sigaddset(&raw mut set, libc::SIGINT);
            libc::sigaddset(&raw mut set, libc::SIGTERM);
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
            libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC)
        };
        if signals < 0 {
            return Err(fail("cannot wait for signals")(io::Error::last_os_error()));
        }
        // SAFETY: the descriptor is new and ours alone.
        let signals = unsafe { OwnedFd::from_raw_fd(signals) };
        // SAFETY: standard input is open as long as the process; it is never closed here.
        let input = ManuallyDrop::new(unsafe { File::from_raw_fd(libc::STDIN_FILENO) });
        Ok(Self { input, signals, acts: Acts::default() })
    }

    /// Descriptors that poll readable when [`take`](Self::take) has something.
    #[must_use]
    pub fn fds(&self) -> [RawFd; 2] {
        [self.input.as_raw_fd(), self.signals.as_raw_fd()]
    }

    /// Waits until `other` polls readable or something has come, at most for `timeout_ns`; which of the two.
    #[must_use]
    pub fn wait(&self, other: RawFd, timeout_ns: u64) -> (bool, bool) {
        let [input, signals] = self.fds();
        let mut polled = [other, input, signals].map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 });
        let timeout = libc::timespec {
            tv_sec: (timeout_ns / 1_000_000_000) as i64,
            tv_nsec: (timeout_ns % 1_000_000_000) as i64,
        };
        #[allow(unsafe_code, reason = "the standard library has no poll")]
        // SAFETY: three entries, of which negative descriptors are skipped, and a time, which outlive the call.
        let count = unsafe { libc::ppoll(polled.as_mut_ptr(), 3, &raw const timeout, std::ptr::null()) };
        let ready = |at: usize| count > 0 && polled[at].revents != 0;
        (ready(0), ready(1) || ready(2))
    }

    fn stopped(&self) -> bool {
        clock::wait(&[self.signals.as_raw_fd()], Some(0))
    }

    /// The first line, without its end.
    ///
    /// # Errors
    /// [`InboxError::Stopped`] if the input ends before, or a signal comes.
    pub fn line(&mut self) -> Result<String, InboxError> {
        let mut bytes = Vec::new();
        loop {
            if let Some(end) = bytes.iter().position(|&b| b == b'\n') {
                self.acts.keep(&bytes.split_off(end + 1));
                bytes.pop();
                return Ok(String::from_utf8_lossy(&bytes).into_owned());
            }
            clock::wait(&self.fds(), None);
            if self.stopped() || bytes.len() > LONGEST_LINE {
                return Err(InboxError::Stopped);
            }
            self.read(&mut bytes)?;
        }
    }

    fn read(&mut self, into: &mut Vec<u8>) -> Result<(), InboxError> {
        let mut piece = [0; 1 << 16];
        match self.input.read(&mut piece) {
            Ok(0) => Err(InboxError::Stopped),
            Ok(count) => {
                into.extend_from_slice(&piece[..count]);
                Ok(())
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => Ok(()),
            Err(source) => Err(InboxError::System { what: "cannot read standard input", source }),
        }
    }

    /// Bytes that have come; none at the end of the input.
    ///
    /// # Errors
    /// If the input cannot be read.
    pub fn bytes(&mut self) -> Result<Option<Vec<u8>>, InboxError> {
        let mut bytes = Vec::new();
        match self.read(&mut bytes) {
            Ok(()) => Ok(Some(bytes)),
            Err(InboxError::Stopped) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Actions that have come.
    ///
    /// # Errors
    /// [`InboxError::Stopped`] if the input has ended or a signal has come.
    pub fn take(&mut self) -> Result<Vec<Act>, InboxError> {
        if self.stopped() {
            return Err(InboxError::Stopped);
        }
        let mut bytes = Vec::new();
        if clock::wait(&[self.input.as_raw_fd()], Some(0)) {
            self.read(&mut bytes)?;
        }
        Ok(self.acts.take(&bytes))
    }
}
