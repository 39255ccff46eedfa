//! Mahimahi traces: one line per delivery opportunity, a whole number of milliseconds, nondecreasing.
//!
//! An opportunity carries one packet of [`OPPORTUNITY_BYTES`]. After its last line the trace repeats, shifted by that
//! line's time, which must therefore not be zero (mahimahi's `link_queue.cc`).

use std::fmt;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;

use ccarena_cc::bounded::{LARGEST_TRACE_BYTES, Store};
use ccarena_cc::types::{Dur, Rate};

/// Bytes that one opportunity carries, as mahimahi counts them (`PACKET_SIZE` in `link_queue.hh`).
pub const OPPORTUNITY_BYTES: u32 = 1504;

/// Bytes that mahimahi counts above the IP packet: its TUN device is opened without `IFF_NO_PI`, so that a 1500-byte
/// packet costs 1504.
pub const OVERHEAD_BYTES: u32 = 4;

/// Delivery opportunities of one link, checked. Cheap to clone: the opportunities are shared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    opportunities_ms: Arc<[u32]>,
}

/// A trace that cannot be used: where and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct TraceError {
    /// The file, or whatever the caller calls the text.
    pub file: String,
    /// The line, from 1, if one is at fault.
    pub line: Option<usize>,
    /// Kind of the fault.
    pub kind: TraceErrorKind,
}

/// Fault of a trace.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TraceErrorKind {
    /// The file cannot be read.
    #[error("cannot read the trace: {0}; expected a readable file of delivery times")]
    Io(String),
    /// The trace has no line.
    #[error("the trace is empty; expected one delivery time in whole milliseconds per line")]
    Empty,
    /// Bytes that no text file has.
    #[error("the trace holds the byte 0x{0:02x}; expected text, not a binary or compressed file")]
    Binary(u8),
    /// A line ends in carriage return and line feed.
    #[error("the line ends in CR LF; expected LF alone (convert the file with `tr -d '\\r'` or `dos2unix`)")]
    CarriageReturn,
    /// Nothing stands on the line.
    #[error("the line is empty; expected a delivery time in whole milliseconds")]
    EmptyLine,
    /// The line is not a whole number.
    #[error("{0:?} is not a delivery time; expected a whole number of milliseconds, digits alone")]
    NotANumber(String),
    /// The line is one of another kind of file.
    #[error(
        "{0:?} is not a delivery time: this is a table or a log, not a trace; make a trace of it with `ccarena traces \
         convert`"
    )]
    Table(String),
    /// The time does not fit.
    #[error("{0} is too large; expected at most {max} milliseconds", max = u32::MAX)]
    TooLarge(String),
    /// The time is before the line before.
    #[error("{now} ms comes after {before} ms; expected nondecreasing times (sort the file with `sort -n`)")]
    Unsorted {
        /// The line before.
        before: u32,
        /// Value of this line.
        now: u32,
    },
    /// More opportunities, or outages, than are made of a trace.
    #[error(
        "the reshaped trace would have about {made} opportunities and outages; expected at most {most}: make it shorter \
         or slower"
    )]
    TooMany {
        /// The number that would be made.
        made: u64,
        /// The most that may be made.
        most: u64,
    },
    /// A fault of a conditions trace.
    #[error("{0}")]
    Conditions(String),
    /// All opportunities are at time zero.
    #[error("the trace lasts 0 ms; expected a last delivery time above 0, after which the trace repeats")]
    ZeroLength,
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.file, self.kind),
            None => write!(f, "{}: {}", self.file, self.kind),
        }
    }
}

/// Reads the trace in file `path`: the crate's only contact with a file system.
///
/// # Errors
/// If the file cannot be read or is not a trace.
pub fn load(path: &Path) -> Result<Trace, TraceError> {
    load_from(&Store::default(), path)
}

/// Reads the trace in file `path` of `store`.
///
/// # Errors
/// If the file cannot be read or is no trace.
pub fn load_from(store: &Store, path: &Path) -> Result<Trace, TraceError> {
    let file = path.display().to_string();
    match store.read(path, LARGEST_TRACE_BYTES) {
        Ok(bytes) => Trace::read(&bytes, &file),
        Err(e) => Err(TraceError { file, line: None, kind: TraceErrorKind::Io(e.to_string()) }),
    }
}

impl Trace {
    /// Reads a trace from its bytes; `name` stands in errors. A missing newline at the end is accepted, as mahimahi does.
    ///
    /// # Errors
    /// [`TraceError`] with the line of the first fault.
    pub fn read(bytes: &[u8], name: &str) -> Result<Self, TraceError> {
        let fail = |line, kind| Err(TraceError { file: name.into(), line, kind });
        if bytes.is_empty() {
            return fail(None, TraceErrorKind::Empty);
        }
        let text = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        let mut opportunities_ms = Vec::with_capacity(text.len() / 6);
        let mut before = 0;
        for (i, line) in text.split(|&b| b == b'\n').enumerate() {
            match parse_line(line, before) {
                Ok(ms) => {
                    opportunities_ms.push(ms);
                    before = ms;
                }
                Err(kind) => return fail(Some(i + 1), kind),
            }
        }
        if before == 0 {
            return fail(Some(opportunities_ms.len()), TraceErrorKind::ZeroLength);
        }
        Ok(Self { opportunities_ms: opportunities_ms.into() })
    }

    /// A trace of these times; `name` stands in errors, whose lines count from 1.
    ///
    /// # Errors
    /// If there are none, they are not sorted or the last is zero.
    pub fn from_ms(opportunities_ms: impl Into<Arc<[u32]>>, name: &str) -> Result<Self, TraceError> {
        let opportunities_ms = opportunities_ms.into();
        let fail = |line, kind| Err(TraceError { file: name.into(), line, kind });
        if let Some(i) = opportunities_ms.windows(2).position(|w| w[0] > w[1]) {
            let (before, now) = (opportunities_ms[i], opportunities_ms[i + 1]);
            return fail(Some(i + 2), TraceErrorKind::Unsorted { before, now });
        }
        match opportunities_ms.last() {
            None => fail(None, TraceErrorKind::Empty),
            Some(0) => fail(Some(opportunities_ms.len()), TraceErrorKind::ZeroLength),
            Some(_) => Ok(Self { opportunities_ms }),
        }
    }

    /// Writes the trace as mahimahi reads it.
    #[must_use]
    pub fn write(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.opportunities_ms.len() * 7);
        for ms in self.opportunities_ms.iter() {
            // Writing to memory cannot fail.
            let _ = writeln!(out, "{ms}");
        }
        out
    }

    /// Times of the opportunities in ms, nondecreasing.
    #[must_use]
    pub fn opportunities_ms(&self) -> &Arc<[u32]> {
        &self.opportunities_ms
    }

    /// Milliseconds after which the trace repeats: its last time, above zero.
    #[must_use]
    pub fn duration_ms(&self) -> u32 {
        self.opportunities_ms.last().copied().unwrap_or(1)
    }

    /// [`duration_ms`](Self::duration_ms) as a length of time.
    #[must_use]
    pub fn duration(&self) -> Dur {
        Dur::from_millis(u64::from(self.duration_ms()))
    }

    /// The mean rate over one pass, [`OPPORTUNITY_BYTES`] per opportunity.
    #[must_use]
    pub fn mean_rate(&self) -> Rate {
        Rate::of(self.opportunities_ms.len() as u64 * u64::from(OPPORTUNITY_BYTES), self.duration())
    }
}

fn parse_line(line: &[u8], before: u32) -> Result<u32, TraceErrorKind> {
    if line.is_empty() {
        return Err(TraceErrorKind::EmptyLine);
    }
    let mut ms: u64 = 0;
    for &b in line {
        if !b.is_ascii_digit() {
            return Err(describe(line));
        }
        ms = ms.saturating_mul(10).saturating_add(u64::from(b - b'0'));
    }
    let now = u32::try_from(ms).map_err(|_| TraceErrorKind::TooLarge(excerpt(line)))?;
    if now < before { Err(TraceErrorKind::Unsorted { before, now }) } else { Ok(now) }
}

/// Says what a line that is not a number looks like instead.
fn describe(line: &[u8]) -> TraceErrorKind {
    let bare = line.strip_suffix(b"\r").unwrap_or(line);
    if bare.len() < line.len() && bare.iter().all(u8::is_ascii_digit) {
        return TraceErrorKind::CarriageReturn;
    }
    let control = bare.iter().find(|&&b| b == 0x7f || (b < 0x20 && b != b'\t'));
    let not_utf8 = std::str::from_utf8(bare).err().and_then(|error| bare.get(error.valid_up_to()));
    match control.or(not_utf8) {
        Some(&b) => TraceErrorKind::Binary(b),
        None if is_row(&String::from_utf8_lossy(bare)) => TraceErrorKind::Table(excerpt(bare)),
        None => TraceErrorKind::NotANumber(excerpt(bare)),
    }
}

/// True if a line looks like a row of a table, a log or a document: words, or several cells.
fn is_row(line: &str) -> bool {
    line.trim().parse::<f64>().is_err()
        && (!line.starts_with(|c: char| c.is_ascii_digit()) || line.contains([',', ';', ' ', '\t']))
}

/// Returns the part of a line that an error message shows.
pub(crate) fn excerpt(line: &[u8]) -> String {
    const SHOWN: usize = 40;
    let mut text = String::from_utf8_lossy(&line[..line.len().min(SHOWN)]).into_owned();
    if line.len() > SHOWN {
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &[u8]) -> String {
        Trace::read(text, "a.trace").unwrap_err().to_string()
    }

    #[test]
    fn a_trace_reads_and_writes_back() {
        let trace = Trace::read(b"0\n3\n3\n10\n", "a.trace").unwrap();
        assert_eq!(trace.opportunities_ms()[..], [0, 3, 3, 10]);
        assert_eq!(trace.duration_ms(), 10);
        assert_eq!(trace.mean_rate(), Rate(4 * 1504 * 8 * 100));
        assert_eq!(trace.write(), b"0\n3\n3\n10\n");
        assert_eq!(Trace::read(b"7", "a.trace").unwrap().opportunities_ms()[..], [7], "no newline at the end");
    }

    #[test]
    fn faults_are_named_with_file_and_line() {
        assert!(error(b"").starts_with("a.trace: the trace is empty"));
        assert!(error(b"\n").starts_with("a.trace:1: the line is empty"));
        assert!(error(b"1\n\n2\n").starts_with("a.trace:2: the line is empty"));
        assert!(error(b"1\n5\n4\n").starts_with("a.trace:3: 4 ms comes after 5 ms"));
        assert!(error(b"1\n\x7fELF\n").starts_with("a.trace:2: the trace holds the byte 0x7f"));
        assert!(error(b"\x1f\x8b\x08\x00").starts_with("a.trace:1: the trace holds the byte 0x1f"));
        assert!(error(b"1\r\n2\r\n").starts_with("a.trace:1: the line ends in CR LF"));
        assert!(error(b"0\n0\n").starts_with("a.trace:2: the trace lasts 0 ms"));
        for bad in ["-1", "+1", "1.5", "1 2", " 1", "0x10", "nan", "1e3"] {
            assert!(error(bad.as_bytes()).contains("is not a delivery time"), "{bad}");
        }
        assert!(error(b"4294967296\n").contains("is too large"));
        assert!(error(&[b'9'; 500]).contains("is too large"));
        assert!(error(&[b'9'; 500]).len() < 200, "long lines are cut");
        assert!(load(Path::new("/nonexistent/a.trace")).unwrap_err().to_string().contains("cannot read the trace"));
    }

    #[test]
    fn tables_are_told_what_makes_a_trace_of_them() {
        for row in ["t,rate_mbps", "rate_mbps", "0.0 1.5", "12;5", "{\"start\":", "# mahimahi", "délai", "t\trate\r"] {
            let told = error(format!("{row}\n1\n").as_bytes());
            assert!(told.contains("this is a table or a log") && told.contains("ccarena traces convert"), "{told}");
        }
        assert!(error(b"1\n\xff\xfe\n").starts_with("a.trace:2: the trace holds the byte 0xff"));
    }

    #[test]
    fn lists_are_held_to_the_same_rules() {
        let kind = |ms: &[u32]| Trace::from_ms(ms, "list").unwrap_err().kind;
        assert_eq!(kind(&[]), TraceErrorKind::Empty);
        assert_eq!(kind(&[0]), TraceErrorKind::ZeroLength);
        assert_eq!(kind(&[2, 1]), TraceErrorKind::Unsorted { before: 2, now: 1 });
    }
}
