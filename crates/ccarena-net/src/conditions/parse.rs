//! Reads the table of a conditions trace.

use ccarena_cc::build_error::nearest;
use ccarena_cc::reader::{MAX_MBPS, MAX_S};
use ccarena_cc::types::{Dur, Rate};

use super::{COLUMNS, Conditions};
use crate::delays::MAX_DELAY_MS;
use crate::stepped::Stepped;
use crate::trace::excerpt;

/// Largest value of each column.
const MOST: [u64; 4] = [(MAX_S * 1e3) as u64, MAX_MBPS as u64, MAX_DELAY_MS as u64, 1];
/// Least time between rows.
const LEAST_GAP: Dur = Dur(1_000);

/// Fault of a conditions trace.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Fault {
    /// The file has no line.
    #[error("the conditions trace is empty; expected a header such as time_ms,rate_mbps,delay_ms,loss and rows")]
    Empty,
    /// The file has a header alone.
    #[error("the conditions trace has a header and no rows; expected at least one row, its time 0")]
    NoRows,
    /// A line is not UTF-8.
    #[error("the line is no text; expected a CSV table, not a binary or compressed file")]
    Binary,
    /// A column without a meaning.
    #[error(
        "unknown column {name:?}{}; expected time_ms and any of rate_mbps, delay_ms, loss",
        nearest.map(|known| format!(", did you mean {known}?")).unwrap_or_default()
    )]
    Column {
        /// Name in the header.
        name: String,
        /// Nearest known name.
        nearest: Option<&'static str>,
    },
    /// A column that is there twice.
    #[error("column {0} is there twice; expected it once")]
    Twice(&'static str),
    /// The header has no times.
    #[error("there is no column time_ms; expected the header time_ms and any of rate_mbps, delay_ms, loss")]
    NoTime,
    /// The header has times alone.
    #[error("time_ms is the only column; expected any of rate_mbps, delay_ms, loss beside it")]
    NoValues,
    /// A row with more or fewer cells than the header.
    #[error("the row has {found} cells; expected {expected}, as the header")]
    Cells {
        /// Cells of the row.
        found: usize,
        /// Cells of the header.
        expected: usize,
    },
    /// A value out of bounds, or none.
    #[error("{column} is {text:?}; expected a number from 0 to {most}")]
    Value {
        /// Name of the column.
        column: &'static str,
        /// Text of the cell.
        text: String,
        /// Largest value.
        most: u64,
    },
    /// The first row begins late.
    #[error("the first row's time is {0}; expected 0")]
    Start(Dur),
    /// A time that does not go on.
    #[error("time {now} comes after {before}; expected times that increase by 0.001 ms or more")]
    Backwards {
        /// Time of the row before.
        before: Dur,
        /// Time of this row.
        now: Dur,
    },
    /// The link never serves.
    #[error("every rate is 0; expected a rate of at least 0.000001 Mbit/s in some row")]
    NoRate,
}

type Failed = (Option<usize>, Fault);

/// Reads a whole table. Returns the line of the first fault with it.
pub(super) fn table(bytes: &[u8]) -> Result<Conditions, Failed> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let text = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    if text.is_empty() {
        return Err((None, Fault::Empty));
    }
    let mut lines = text.split(|&b| b == b'\n').map(line).enumerate().map(|(i, line)| (i + 1, line));
    let columns = match lines.next() {
        Some((number, head)) => head.and_then(header).map_err(|fault| (Some(number), fault))?,
        None => return Err((None, Fault::Empty)),
    };
    let mut rows = Rows::default();
    for (number, line) in lines {
        line.and_then(|line| rows.push(line, &columns)).map_err(|fault| (Some(number), fault))?;
    }
    rows.conditions(&columns).map_err(|fault| (None, fault))
}

/// Returns the text of a line, without the carriage return that ends it in files of spreadsheets.
fn line(bytes: &[u8]) -> Result<&str, Fault> {
    std::str::from_utf8(bytes.strip_suffix(b"\r").unwrap_or(bytes)).map_err(|_| Fault::Binary)
}

/// Returns the numbers in [`COLUMNS`] of a header's columns.
fn header(line: &str) -> Result<Vec<usize>, Fault> {
    let mut columns = Vec::new();
    for name in line.split(',').map(str::trim) {
        let Some(column) = COLUMNS.iter().position(|&known| known == name) else {
            let nearest = nearest(name, COLUMNS.iter().copied());
            return Err(Fault::Column { name: excerpt(name.as_bytes()), nearest });
        };
        if columns.contains(&column) {
            return Err(Fault::Twice(COLUMNS[column]));
        }
        columns.push(column);
    }
    match columns[..] {
        [0] => Err(Fault::NoValues),
        _ if !columns.contains(&0) => Err(Fault::NoTime),
        _ => Ok(columns),
    }
}

/// Rows so far.
#[derive(Default)]
struct Rows {
    times: Vec<Dur>,
    /// Values of each column but the first.
    values: [Vec<f64>; 3],
}

impl Rows {
    fn push(&mut self, line: &str, columns: &[usize]) -> Result<(), Fault> {
        let mut cells = line.split(',');
        let mut row = [0.0; 4];
        for (read, &column) in columns.iter().enumerate() {
            let cell = cells.next().ok_or(Fault::Cells { found: read, expected: columns.len() })?;
            row[column] = value(cell.trim(), column)?;
        }
        if cells.next().is_some() {
            return Err(Fault::Cells { found: columns.len() + 1 + cells.count(), expected: columns.len() });
        }
        let now = millis(row[0]);
        match self.times.last() {
            None if now > Dur::ZERO => return Err(Fault::Start(now)),
            Some(&before) if now < before + LEAST_GAP => {
                return Err(Fault::Backwards { before, now });
            }
            _ => self.times.push(now),
        }
        for &column in columns.iter().filter(|&&column| column > 0) {
            self.values[column - 1].push(row[column]);
        }
        Ok(())
    }

    fn conditions(self, columns: &[usize]) -> Result<Conditions, Fault> {
        let period = match self.times[..] {
            [] => return Err(Fault::NoRows),
            [_] => None,
            [.., before, last] => Some(last + (last - before)),
        };
        let has = |column| columns.contains(&column);
        let [rates, delays, losses] = &self.values;
        let conditions = Conditions {
            period,
            rates: has(1).then(|| self.stepped(rates, period, Rate::from_mbps)),
            delays: has(2).then(|| self.stepped(delays, period, millis)),
            losses: has(3).then(|| self.stepped(losses, period, |loss| loss)),
        };
        let stands = conditions.rates.as_ref().is_some_and(|rates| rates.values().all(|rate| rate.0 == 0));
        if stands { Err(Fault::NoRate) } else { Ok(conditions) }
    }

    /// Returns a column by time; rows that repeat the value before them are no steps.
    fn stepped<V: Copy + PartialEq>(
        &self,
        values: &[f64],
        period: Option<Dur>,
        convert: impl Fn(f64) -> V,
    ) -> Stepped<V> {
        let mut rows: Vec<(Dur, V)> = self.times.iter().zip(values).map(|(&at, &x)| (at, convert(x))).collect();
        rows.dedup_by(|later, earlier| later.1 == earlier.1);
        let period = period.filter(|_| rows.len() > 1);
        Stepped::new(rows, period, Dur::ZERO)
    }
}

fn value(text: &str, column: usize) -> Result<f64, Fault> {
    match text.parse::<f64>() {
        Ok(x) if (0.0..=MOST[column] as f64).contains(&x) => Ok(x),
        _ => Err(Fault::Value { column: COLUMNS[column], text: excerpt(text.as_bytes()), most: MOST[column] }),
    }
}

fn millis(ms: f64) -> Dur {
    Dur((ms * 1e6).round() as u64)
}
