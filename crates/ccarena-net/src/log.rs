//! Mahimahi's link logs, read and written: what happened at a link, one event per line.
//!
//! Comment lines open the file, the last of them with the base timestamp. Events are `TIME + BYTES` (arrival),
//! `TIME - BYTES DELAY` (departure), `TIME # BYTES` (delivery opportunity) and `TIME d PACKETS BYTES` (drop), times in
//! ms (mahimahi's `link_queue.cc`). Bytes count 4 above the IP packet: see [`OVERHEAD_BYTES`].

use std::fmt;
use std::io::Write as _;

use crate::trace::{OVERHEAD_BYTES, excerpt};

/// The log of one link.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkLog {
    /// The comment lines before the base timestamp, without `# `: program, command line, queue.
    pub comments: Vec<String>,
    /// The time at which the trace started, on the events' clock, in ms.
    pub base_timestamp_ms: u64,
    /// Events in the order of the log.
    pub events: Vec<Event>,
}

/// One line of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Time in ms.
    pub time_ms: u64,
    /// Kind of the event.
    pub kind: EventKind,
}

/// Kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// A packet came to the queue.
    Arrival {
        /// Size as logged.
        bytes: u32,
    },
    /// A packet has left the link.
    Departure {
        /// Size as logged.
        bytes: u32,
        /// Time since its arrival.
        delay_ms: u64,
    },
    /// The link could send.
    Opportunity {
        /// Bytes of the opportunity.
        bytes: u32,
    },
    /// Packets were dropped.
    Drop {
        /// Number of packets.
        packets: u64,
        /// Sum of their sizes, as logged.
        bytes: u64,
    },
}

/// A log that cannot be read: where and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct LogError {
    /// The file, or whatever the caller calls the text.
    pub file: String,
    /// The line, from 1, if one is at fault.
    pub line: Option<usize>,
    /// Kind of the fault.
    pub kind: LogErrorKind,
}

/// Fault of a log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LogErrorKind {
    /// The log has no line.
    #[error("the log is empty; expected a mahimahi link log")]
    Empty,
    /// The text is not UTF-8.
    #[error("the line is not text; expected a mahimahi link log, not a binary or compressed file")]
    Binary,
    /// A line ends in carriage return and line feed.
    #[error("the line ends in CR LF; expected LF alone (convert the file with `tr -d '\\r'` or `dos2unix`)")]
    CarriageReturn,
    /// No base timestamp before the first event, or a second one.
    #[error("{0}; expected one line `# base timestamp: MS` before the first event")]
    BaseTimestamp(&'static str),
    /// The line is no event.
    #[error(
        "{0:?} is not an event; expected `MS + BYTES`, `MS - BYTES DELAY_MS`, `MS # BYTES` or `MS d PACKETS BYTES`"
    )]
    NotAnEvent(String),
}

impl fmt::Display for LogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.file, self.kind),
            None => write!(f, "{}: {}", self.file, self.kind),
        }
    }
}

const BASE_TIMESTAMP: &str = "base timestamp: ";

/// The size that a log gives a packet of `ip_bytes`.
#[must_use]
pub const fn logged_bytes(ip_bytes: u32) -> u32 {
    ip_bytes.saturating_add(OVERHEAD_BYTES)
}

impl LinkLog {
    /// Reads a log from its bytes; `name` stands in errors.
    ///
    /// # Errors
    /// [`LogError`] with the line of the first fault.
    pub fn read(bytes: &[u8], name: &str) -> Result<Self, LogError> {
        let fail = |line, kind| LogError { file: name.into(), line, kind };
        if bytes.is_empty() {
            return Err(fail(None, LogErrorKind::Empty));
        }
        let (mut comments, mut events, mut base) = (Vec::new(), Vec::new(), None);
        let text = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        for (i, line) in text.split(|&b| b == b'\n').enumerate() {
            let fail = |kind| fail(Some(i + 1), kind);
            let line = std::str::from_utf8(line).map_err(|_| fail(LogErrorKind::Binary))?;
            if line.ends_with('\r') {
                return Err(fail(LogErrorKind::CarriageReturn));
            }
            let not_an_event = || fail(LogErrorKind::NotAnEvent(excerpt(line.as_bytes())));
            if let Some(comment) = line.strip_prefix('#') {
                let comment = comment.strip_prefix(' ').unwrap_or(comment);
                match comment.strip_prefix(BASE_TIMESTAMP) {
                    None => comments.push(comment.to_string()),
                    Some(_) if base.is_some() => {
                        return Err(fail(LogErrorKind::BaseTimestamp("a second base timestamp")));
                    }
                    Some(ms) => base = Some(number(ms).ok_or_else(not_an_event)?),
                }
            } else if base.is_none() {
                return Err(fail(LogErrorKind::BaseTimestamp("an event before the base timestamp")));
            } else {
                events.push(event(line).ok_or_else(not_an_event)?);
            }
        }
        let base = base.ok_or_else(|| fail(None, LogErrorKind::BaseTimestamp("no base timestamp")))?;
        Ok(Self { comments, base_timestamp_ms: base, events })
    }

    /// Writes the log as mahimahi does.
    #[must_use]
    pub fn write(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(64 + self.events.len() * 16);
        // Writing to memory cannot fail.
        for comment in &self.comments {
            let _ = writeln!(out, "# {comment}");
        }
        let _ = writeln!(out, "# {BASE_TIMESTAMP}{}", self.base_timestamp_ms);
        for event in &self.events {
            let _ = writeln!(out, "{event}");
        }
        out
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = self.time_ms;
        match self.kind {
            EventKind::Arrival { bytes } => write!(f, "{time} + {bytes}"),
            EventKind::Departure { bytes, delay_ms } => write!(f, "{time} - {bytes} {delay_ms}"),
            EventKind::Opportunity { bytes } => write!(f, "{time} # {bytes}"),
            EventKind::Drop { packets, bytes } => write!(f, "{time} d {packets} {bytes}"),
        }
    }
}

fn event(line: &str) -> Option<Event> {
    let mut words = line.split(' ');
    let time_ms = number(words.next()?)?;
    let sign = words.next()?;
    let mut next = || number(words.next()?);
    let kind = match sign {
        "+" => EventKind::Arrival { bytes: u32::try_from(next()?).ok()? },
        "-" => EventKind::Departure { bytes: u32::try_from(next()?).ok()?, delay_ms: next()? },
        "#" => EventKind::Opportunity { bytes: u32::try_from(next()?).ok()? },
        "d" => EventKind::Drop { packets: next()?, bytes: next()? },
        _ => return None,
    };
    words.next().is_none().then_some(Event { time_ms, kind })
}

/// A whole number without sign: `u64::from_str` would take a plus.
fn number(text: &str) -> Option<u64> {
    if text.starts_with('+') { None } else { text.parse().ok() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: &str = "\
# mahimahi mm-link (uplink) [Verizon-LTE-short.up] > /tmp/up.log
# command line: mm-link Verizon-LTE-short.up Verizon-LTE-short.down
# queue: infinite
# init timestamp: 1000
# base timestamp: 1003
1003 # 1504
1010 + 1504
1010 + 64
1010 d 1 64
1014 # 1504
1014 - 1504 4
";

    #[test]
    fn a_log_reads_and_writes_back() {
        let log = LinkLog::read(SAMPLE.as_bytes(), "up.log").unwrap();
        assert_eq!(log.base_timestamp_ms, 1003);
        assert_eq!(log.comments.len(), 4);
        assert_eq!(log.events.len(), 6);
        assert_eq!(log.events[3].kind, EventKind::Drop { packets: 1, bytes: 64 });
        assert_eq!(log.events[5], Event { time_ms: 1014, kind: EventKind::Departure { bytes: 1504, delay_ms: 4 } });
        assert_eq!(log.write(), SAMPLE.as_bytes());
        assert_eq!(logged_bytes(1500), 1504);
    }

    #[test]
    fn faults_are_named_with_file_and_line() {
        let error = |text: &[u8]| LinkLog::read(text, "l.log").unwrap_err().to_string();
        assert!(error(b"").starts_with("l.log: the log is empty"));
        assert!(error(b"# queue: x\n").contains("no base timestamp"));
        assert!(error(b"5 + 1504\n").starts_with("l.log:1: an event before the base timestamp"));
        assert!(error(b"# base timestamp: 0\n# base timestamp: 0\n").starts_with("l.log:2: a second"));
        assert!(error(b"# base timestamp: 0\n\xff\xfe\n").starts_with("l.log:2: the line is not text"));
        assert!(error(b"# base timestamp: 0\r\n").contains("CR LF"));
        for bad in ["", "x", "5 ? 1", "5 + ", "5 + 1 2", "5 - 1", "-5 + 1", "5 + 99999999999", "+5 + 1", "5  + 1"] {
            let text = format!("# base timestamp: 0\n{bad}\n");
            assert!(error(text.as_bytes()).starts_with("l.log:2: "), "{bad}");
        }
    }
}
