//! Mahimahi's link logs, written while a link runs.
//!
//! The emulator's thread only puts down what happened; a thread of its own writes it. Delivery opportunities are the
//! trace's: a link does not tell of those that nobody uses. Within a millisecond one stands before the departures that use
//! it, as with mahimahi.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use ccarena_cc::types::{Dur, Time};
use ccarena_net::log::{Event, EventKind, LinkLog, logged_bytes};
use ccarena_net::trace::{OPPORTUNITY_BYTES, OVERHEAD_BYTES};
use ccarena_net::{Carried, Item, Trace};

use super::{ShellError, say};
use crate::datagram::Datagram;
use crate::error::LinkError;
use crate::fabric::Observer;

/// Interval between two writes of events.
const PERIOD: Duration = Duration::from_millis(20);

/// Time without packets after which opportunities are written; events later than this are out of order.
const SILENCE_MS: u64 = 500;

/// Events that are not written yet.
type Events = Arc<Mutex<Vec<Event>>>;

/// A log that is open.
pub struct Log {
    events: Events,
    out: Out,
    mahimahi: bool,
}

/// A log that is being written.
pub struct Writing {
    stop: Sender<()>,
    thread: JoinHandle<bool>,
}

/// Contents of a log's first lines.
#[derive(Clone, Copy, Debug)]
pub struct Head<'a> {
    /// `Uplink` or `Downlink`.
    pub name: &'a str,
    /// The trace's file.
    pub trace: &'a Path,
    /// The line that the shell was called by.
    pub command_line: &'a str,
    /// The queue, as mahimahi calls it.
    pub queue: &'a str,
    /// The shells around this one, as before the prompt.
    pub enclosing: &'a str,
}

impl Log {
    /// Creates the file. A queue that is mahimahi's own does not log what it drops when packets leave.
    ///
    /// # Errors
    /// If the file cannot be created.
    pub fn create(path: &Path, trace: &Trace, once: bool, mahimahi: bool) -> Result<Self, ShellError> {
        let file = File::create(path).map_err(|source| ShellError::Write { path: path.into(), source })?;
        let out = Out {
            file: Box::new(BufWriter::new(file)),
            path: path.into(),
            failed: false,
            schedule: Schedule { trace: trace.clone(), once, pass_ms: 0, index: 0 },
            spare_bytes: 0,
            spare_ms: 0,
        };
        Ok(Self { events: Events::default(), out, mahimahi })
    }

    /// Returns a recorder of events.
    fn recorder(&self) -> Recorder {
        Recorder { events: self.events.clone(), mahimahi: self.mahimahi }
    }

    /// Writes from now on; the run began at `zero`, in ms since 1970. `now` tells how long ago.
    ///
    /// # Errors
    /// If there can be no further thread.
    pub fn write(
        mut self,
        head: &Head<'_>,
        zero_ms: u64,
        now: impl Fn() -> Dur + Send + 'static,
    ) -> Result<Writing, ShellError> {
        let mut comments = vec![
            format!("mahimahi mm-link ({}) [{}] > {}", head.name, head.trace.display(), self.out.path.display()),
            format!("command line: {}", head.command_line),
            format!("queue: {}", head.queue),
            format!("init timestamp: {zero_ms}"),
        ];
        // A comment is one line.
        comments.iter_mut().for_each(|c| *c = c.replace(['\n', '\r'], " "));
        let log = LinkLog { comments, ..LinkLog::default() };
        self.out.attempt(|out| out.write_all(&log.write()));
        if !head.enclosing.is_empty() {
            let config = head.enclosing.replace(['\n', '\r'], " ");
            self.out.attempt(|out| writeln!(out, "# mahimahi config: {config}"));
        }
        let (stop, stopped) = mpsc::channel();
        let spawned = thread::Builder::new().name("log".into()).spawn(move || {
            loop {
                let last = stopped.recv_timeout(PERIOD) != Err(RecvTimeoutError::Timeout);
                let now_ms = now().0 / 1_000_000;
                let events = std::mem::take(&mut *self.events.lock().unwrap_or_else(PoisonError::into_inner));
                events.into_iter().for_each(|event| self.out.event(event));
                self.out.opportunities(if last { now_ms } else { now_ms.saturating_sub(SILENCE_MS) });
                self.out.attempt(|out| out.flush());
                if last {
                    return self.out.failed;
                }
            }
        });
        let thread = spawned.map_err(|e| LinkError::of("cannot start a thread", e))?;
        Ok(Writing { stop, thread })
    }
}

impl Writing {
    /// Ends the log. Whether all of it was written.
    pub fn finish(self) -> bool {
        drop(self.stop);
        matches!(self.thread.join(), Ok(false))
    }
}

/// Tells the log of each link of a chain, if it has one, what happens at it; none if no link has.
pub fn observers<'a>(logs: impl Iterator<Item = Option<&'a Log>>) -> Option<Box<dyn Observer>> {
    let all: Vec<_> = logs.map(|log| log.map(Log::recorder)).collect();
    all.iter().any(Option::is_some).then(|| Box::new(Recorders(all)) as Box<dyn Observer>)
}

/// Recorders by link.
struct Recorders(Vec<Option<Recorder>>);

impl Recorders {
    fn of(&mut self, link: usize) -> Option<&mut Recorder> {
        self.0.get_mut(link)?.as_mut()
    }
}

impl Observer for Recorders {
    fn arrival(&mut self, link: usize, at: Time, packet: &Datagram) {
        if let Some(log) = self.of(link) {
            log.arrival(link, at, packet);
        }
    }

    fn departure(&mut self, link: usize, at: Time, packet: &Datagram) {
        if let Some(log) = self.of(link) {
            log.departure(link, at, packet);
        }
    }

    fn dropped(&mut self, link: usize, at: Time, packets: u64, bytes: u64, late: bool) {
        if let Some(log) = self.of(link) {
            log.dropped(link, at, packets, bytes, late);
        }
    }
}

/// Puts down what happens at one link.
struct Recorder {
    events: Events,
    mahimahi: bool,
}

impl Recorder {
    fn put(&self, at: Time, kind: EventKind) {
        let event = Event { time_ms: ms(at), kind };
        self.events.lock().unwrap_or_else(PoisonError::into_inner).push(event);
    }
}

fn ms(at: Time) -> u64 {
    at.0 / 1_000_000
}

impl Observer for Recorder {
    fn arrival(&mut self, _: usize, at: Time, packet: &Datagram) {
        self.put(at, EventKind::Arrival { bytes: logged_bytes(packet.bytes()) });
    }

    fn departure(&mut self, _: usize, at: Time, packet: &Datagram) {
        let delay_ms = ms(at) - ms(packet.arrival()).min(ms(at));
        self.put(at, EventKind::Departure { bytes: logged_bytes(packet.bytes()), delay_ms });
    }

    fn dropped(&mut self, _: usize, at: Time, packets: u64, bytes: u64, late: bool) {
        if !(late && self.mahimahi) {
            self.put(at, EventKind::Drop { packets, bytes: bytes + packets * u64::from(OVERHEAD_BYTES) });
        }
    }
}

/// The opportunities that are not written yet.
struct Schedule {
    trace: Trace,
    once: bool,
    pass_ms: u64,
    index: usize,
}

impl Schedule {
    /// Returns the time of the next one; none after the only pass.
    fn next_ms(&self) -> Option<u64> {
        self.trace.opportunities_ms().get(self.index).map(|&ms| self.pass_ms + u64::from(ms))
    }

    fn advance(&mut self) {
        self.index += 1;
        if self.index == self.trace.opportunities_ms().len() && !self.once {
            self.index = 0;
            self.pass_ms += u64::from(self.trace.duration_ms());
        }
    }
}

/// The file, in order.
struct Out {
    file: Box<dyn Write + Send>,
    path: PathBuf,
    failed: bool,
    schedule: Schedule,
    /// Bytes that departures left of the opportunities written for this millisecond.
    spare_bytes: u32,
    spare_ms: u64,
}

impl Out {
    fn event(&mut self, event: Event) {
        match event.kind {
            EventKind::Departure { bytes, .. } => {
                self.opportunities(event.time_ms.saturating_sub(1));
                if self.spare_ms != event.time_ms {
                    (self.spare_bytes, self.spare_ms) = (0, event.time_ms);
                }
                if self.spare_bytes < bytes && self.schedule.next_ms() == Some(event.time_ms) {
                    self.opportunity(event.time_ms);
                    self.spare_bytes += OPPORTUNITY_BYTES;
                }
                self.spare_bytes = self.spare_bytes.saturating_sub(bytes);
            }
            _ => self.opportunities(event.time_ms),
        }
        self.attempt(|out| writeln!(out, "{event}"));
    }

    /// Writes the opportunities up to `until_ms` that are not written yet.
    fn opportunities(&mut self, until_ms: u64) {
        while let Some(time_ms) = self.schedule.next_ms().filter(|&ms| ms <= until_ms) {
            self.opportunity(time_ms);
        }
    }

    fn opportunity(&mut self, time_ms: u64) {
        let event = Event { time_ms, kind: EventKind::Opportunity { bytes: OPPORTUNITY_BYTES } };
        self.attempt(|out| writeln!(out, "{event}"));
        self.schedule.advance();
    }

    /// Writes, unless that failed before; says so the first time that it fails.
    fn attempt(&mut self, write: impl FnOnce(&mut (dyn Write + Send)) -> io::Result<()>) {
        if self.failed {
            return;
        }
        if let Err(e) = write(&mut self.file) {
            self.failed = true;
            say(format_args!("error: cannot write the log {}: {e}; the link goes on without it", self.path.display()));
        }
    }
}

#[cfg(test)]
mod tests;
