//! Protocol over pipes between a runner of scenarios in real time and its caller.
//!
//! In: one line of JSON, the request, then an [`Act`] of twelve bytes per decision; the end of the stream ends the run.
//! Out: frames, each the length of the rest (u32), a letter and a payload, all little-endian.
//!
//! | letter | payload |
//! |---|---|
//! | `S` | JSON: the run has begun; its flows and the time on CLOCK_MONOTONIC that is its zero |
//! | `D` | u32 flow, u64 time in ns, u32 n, u32 m, n + m f32: a decision is due; observation and report |
//! | `A` | u16 length, name, u8 type (`Q` u64, `I` u32, `d` f64, `f` f32), values: an array of the result |
//! | `R` | JSON: the result; an array is `{"$array": name}`, with `shape` if it has rows |
//! | `E` | JSON `{kind, message}`: the run has failed |

use std::io::{self, Write};
use std::os::fd::RawFd;

use ccarena_cc::Time;
use ccarena_net::result::{Array, FlowResult, LinkResult, Placed, RunResult};
use serde_json::{Value, json};

/// An action of the caller.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Act {
    /// Flow of the decision.
    pub flow: u32,
    /// The index of a discrete action, or a continuous value.
    pub action: f64,
}

/// The stream of actions, which arrives in pieces of any length.
#[derive(Debug, Default)]
pub struct Acts {
    pending: Vec<u8>,
}

impl Acts {
    /// Keeps a piece for the next [`take`](Self::take).
    pub fn keep(&mut self, bytes: &[u8]) {
        self.pending.extend_from_slice(bytes);
    }

    /// Takes a piece and gives the actions that it completes.
    pub fn take(&mut self, bytes: &[u8]) -> Vec<Act> {
        self.keep(bytes);
        let whole = self.pending.len() - self.pending.len() % 12;
        self.pending
            .drain(..whole)
            .collect::<Vec<u8>>()
            .chunks_exact(12)
            .filter_map(|act| {
                let (flow, action) = act.split_at(4);
                let flow = u32::from_le_bytes(flow.try_into().ok()?);
                Some(Act { flow, action: f64::from_le_bytes(action.try_into().ok()?) })
            })
            .collect()
    }
}

/// A result as JSON, with its arrays aside.
#[derive(Debug, Default)]
struct Arrays(Vec<(String, Array)>);

impl Arrays {
    /// Puts the arrays of `owner`, such as `flows.0`, aside, and what stands for them into its document.
    fn put(&mut self, owner: &str, document: &mut Value, arrays: Vec<Placed>) {
        for (place, array) in arrays {
            let name = format!("{owner}.{}", place.join("."));
            let mut reference = json!({"$array": name});
            if let Array::Rows(rows) = &array {
                reference["shape"] = json!(rows.shape());
            }
            let mut entry = &mut *document;
            for key in place {
                entry = &mut entry[*key];
            }
            *entry = reference;
            self.0.push((name, array));
        }
    }
}

/// The letter of an array's type, and its values.
fn encode(array: &Array) -> (u8, Vec<u8>) {
    match array {
        Array::U64(values) => (b'Q', values.iter().flat_map(|v| v.to_le_bytes()).collect()),
        Array::U8(values) => (b'B', values.clone()),
        Array::U32(values) => (b'I', values.iter().flat_map(|v| v.to_le_bytes()).collect()),
        Array::F64(values) => (b'd', values.iter().flat_map(|v| v.to_le_bytes()).collect()),
        Array::Rows(rows) => (b'f', rows.values.iter().flat_map(|v| v.to_le_bytes()).collect()),
    }
}

/// The stream of frames.
#[derive(Debug)]
pub struct Frames<W> {
    out: W,
    fd: RawFd,
}

impl<W: Write> Frames<W> {
    /// Frames on `out`, whose descriptor is `fd`.
    pub fn new(out: W, fd: RawFd) -> Self {
        Self { out, fd }
    }

    /// Returns whether a frame of a page can be written without waiting for the reader (pipe(7): PIPE_BUF).
    #[must_use]
    pub fn is_writable(&self) -> bool {
        let mut polled = libc::pollfd { fd: self.fd, events: libc::POLLOUT, revents: 0 };
        #[allow(unsafe_code, reason = "the standard library has no poll")]
        // SAFETY: one entry, which outlives the call.
        let ready = unsafe { libc::poll(&raw mut polled, 1, 0) };
        ready > 0
    }

    fn frame(&mut self, letter: u8, payload: &[u8]) -> io::Result<()> {
        let length = u32::try_from(payload.len() + 1)
            .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "a frame of more than 4 GiB"))?;
        // In one write: a frame of a page or less is then never in pieces in a pipe.
        let mut frame = Vec::with_capacity(payload.len() + 5);
        frame.extend_from_slice(&length.to_le_bytes());
        frame.push(letter);
        frame.extend_from_slice(payload);
        self.out.write_all(&frame)?;
        self.out.flush()
    }

    /// The run has begun.
    ///
    /// # Errors
    /// If the reader is gone.
    pub fn start(&mut self, start: &Value) -> io::Result<()> {
        self.frame(b'S', start.to_string().as_bytes())
    }

    /// A decision is due.
    ///
    /// # Errors
    /// If the reader is gone.
    pub fn decision(&mut self, flow: u32, now: Time, observation: &[f32], report: &[f32]) -> io::Result<()> {
        let mut payload = Vec::with_capacity(20 + 4 * (observation.len() + report.len()));
        payload.extend_from_slice(&flow.to_le_bytes());
        payload.extend_from_slice(&now.0.to_le_bytes());
        payload.extend_from_slice(&(observation.len() as u32).to_le_bytes());
        payload.extend_from_slice(&(report.len() as u32).to_le_bytes());
        payload.extend(observation.iter().chain(report).flat_map(|x| x.to_le_bytes()));
        self.frame(b'D', &payload)
    }

    /// The result, its arrays first.
    ///
    /// # Errors
    /// If the reader is gone.
    pub fn result(&mut self, mut record: RunResult) -> io::Result<()> {
        let flows: Vec<_> = record.flows.iter_mut().map(FlowResult::take_arrays).collect();
        let links: Vec<_> = record.links.iter_mut().map(LinkResult::take_arrays).collect();
        let mut document = serde_json::to_value(&record)?;
        let mut arrays = Arrays::default();
        for (key, owners) in [("flows", flows), ("links", links)] {
            for (index, taken) in owners.into_iter().enumerate() {
                arrays.put(&format!("{key}.{index}"), &mut document[key][index], taken);
            }
        }
        for (name, array) in &arrays.0 {
            let (letter, values) = encode(array);
            let mut payload = Vec::with_capacity(3 + name.len() + values.len());
            payload.extend_from_slice(&(name.len() as u16).to_le_bytes());
            payload.extend_from_slice(name.as_bytes());
            payload.push(letter);
            payload.extend_from_slice(&values);
            self.frame(b'A', &payload)?;
        }
        self.frame(b'R', document.to_string().as_bytes())
    }

    /// The run has failed.
    ///
    /// # Errors
    /// If the reader is gone.
    pub fn error(&mut self, kind: &str, message: &str) -> io::Result<()> {
        self.frame(b'E', json!({"kind": kind, "message": message}).to_string().as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ccarena_net::result::Rows;
    use proptest::prelude::*;

    #[test]
    fn frames_have_their_length_and_letter() {
        let mut frames = Frames::new(Vec::new(), -1);
        frames.decision(3, Time(7), &[1.0, 2.0], &[3.0]).unwrap();
        let reports = Some(Rows { values: vec![1.0; 6], width: 3 });
        let flows = vec![FlowResult { reports, ..FlowResult::default() }];
        frames.result(RunResult { flows, ..RunResult::default() }).unwrap();
        let mut rest = &frames.out[..];
        let (mut letters, mut last) = (Vec::new(), rest);
        while !rest.is_empty() {
            let length = u32::from_le_bytes(rest[..4].try_into().unwrap()) as usize;
            letters.push((rest[4], length));
            last = &rest[5..4 + length];
            rest = &rest[4 + length..];
        }
        assert_eq!(letters[0], (b'D', 1 + 20 + 12));
        assert_eq!(letters[1], (b'A', 1 + 2 + "flows.0.reports".len() + 1 + 24));
        assert_eq!(letters[2].0, b'R');
        let result: Value = serde_json::from_slice(last).unwrap();
        assert_eq!(result["flows"][0]["reports"], json!({"$array": "flows.0.reports", "shape": [2, 3]}));
    }

    proptest! {
        #[test]
        fn acts_arrive_in_pieces_of_any_length(
            acts in prop::collection::vec((any::<u32>(), -1e9..1e9_f64), 0..20),
            cuts in prop::collection::vec(1_usize..40, 1..60),
        ) {
            let bytes: Vec<u8> = acts
                .iter()
                .flat_map(|(flow, action)| flow.to_le_bytes().into_iter().chain(action.to_le_bytes()))
                .collect();
            let (mut stream, mut got, mut rest) = (Acts::default(), Vec::new(), &bytes[..]);
            for cut in cuts.iter().cycle() {
                let (piece, left) = rest.split_at((*cut).min(rest.len()));
                got.extend(stream.take(piece).iter().map(|a| (a.flow, a.action)));
                rest = left;
                if rest.is_empty() {
                    break;
                }
            }
            prop_assert_eq!(got, acts);
        }
    }
}
