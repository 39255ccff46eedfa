//! A policy on recorded observations, by the code that decides in the QUIC datapath: for `ccarena parity`.

use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::Arc;

use ccarena_cc::action::Numbers;
use ccarena_cc::{Action, ActionError, LearnedController};
use ccarena_cc::{BindError, Config, FlowError, Interface, Policies, PolicySpec, Time};
use ccarena_link::clock;
use serde_json::{Value, json};

/// Times that all decisions are made; the quickest counts.
const ROUNDS: usize = 3;
/// More observations than anybody records.
const MOST: u64 = 1 << 28;

/// Error of a missing decision.
#[derive(Debug, thiserror::Error)]
pub enum DecideError {
    /// Input that is no recording.
    #[error("standard input: {0}")]
    Malformed(String),
    /// The policy.
    #[error(transparent)]
    Policy(#[from] FlowError),
    /// Pipes.
    #[error("cannot read or write a recording: {0}")]
    System(#[from] io::Error),
}

/// A learned scheme that has seen `row`.
struct Recorded<'a> {
    interface: &'a Arc<Interface>,
    row: &'a [f32],
    action: &'a mut [f32],
}

impl LearnedController for Recorded<'_> {
    fn interface(&self) -> &Arc<Interface> {
        self.interface
    }

    fn take_decision(&mut self) -> bool {
        true
    }

    fn end_interval(&mut self, _: Time) {}

    fn observe(&self, out: &mut [f32]) {
        out.iter_mut().zip(self.row).for_each(|(to, from)| *to = *from);
    }

    fn report(&self, out: &mut [f32]) {
        out.fill(0.0);
    }

    fn acted(&self) -> Numbers {
        Numbers::of(self.action)
    }

    fn act(&mut self, action: Action, _: Time) -> Result<(), ActionError> {
        match action {
            Action::Discrete(index) => self.action.fill(index as f32),
            Action::Continuous(values) => self.action.copy_from_slice(&values),
        }
        Ok(())
    }
}

/// Reads a recording from `input` and writes what the policy in `file` decides to `out`.
///
/// In: a line of JSON with `decisions` and `flows`, then for each decision of each flow a byte, one where the flow begins,
/// then the observations as f32. Out: a line of JSON with `ns_per_decision`, then the numbers of each action as f32. Little-endian.
///
/// # Errors
/// If the policy cannot be used, or the recording is not one for it.
pub fn decide(file: &str, input: &mut dyn Read, out: &mut dyn Write) -> Result<(), DecideError> {
    let policies = Policies::default();
    let policy = policies.load(Path::new(file)).map_err(FlowError::from)?;
    let spec = Arc::clone(&policy.trained().spec);
    let trained = PolicySpec::Artifact(file.into());
    let name = spec.interface().name.clone();
    let (mut controller, decider) = policies.build(&name, Some(&spec), &Config::default(), Some(&trained), false)?;
    let learned = controller.learned().map(|l| Arc::clone(l.interface()));
    let (Some(interface), Some(fresh)) = (learned, decider) else {
        return Err(FlowError::from(BindError::Missing).into());
    };
    let header = header(input)?;
    let count = |name: &str| header[name].as_u64().filter(|n| (1..=MOST).contains(n)).map(|n| n as usize);
    let expected = || DecideError::Malformed(format!("got {header}; expected `decisions` and `flows`, at least 1"));
    let (decisions, flows) = (count("decisions").ok_or_else(expected)?, count("flows").ok_or_else(expected)?);
    let mut bytes = Vec::new();
    input.read_to_end(&mut bytes)?;
    let (rows, length) = (decisions.saturating_mul(flows), interface.observation_len);
    if bytes.len() != rows.saturating_mul(1 + 4 * length) {
        let message = format!("{} bytes for {rows} observations; expected {length} numbers in each", bytes.len());
        return Err(DecideError::Malformed(message));
    }
    let (starts, values) = bytes.split_at(rows);
    let values: Vec<f32> =
        values.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap_or_default())).collect();
    let width = interface.width();
    let (mut actions, mut quickest) = (vec![0_f32; rows * width], u64::MAX);
    for _ in 0..ROUNDS {
        let mut deciders = vec![fresh.clone(); flows];
        let begun = clock::thread_cpu();
        for (at, row) in values.chunks_exact(length.max(1)).enumerate() {
            let decider = &mut deciders[at % flows];
            if starts[at] != 0 {
                *decider = fresh.clone();
            }
            let action = &mut actions[at * width..][..width];
            decider.decide(&mut Recorded { interface: &interface, row, action }, Time::ZERO);
        }
        quickest = quickest.min(clock::thread_cpu().0 - begun.0);
    }
    writeln!(out, "{}", json!({"ns_per_decision": quickest as f64 / rows as f64}))?;
    let bytes: Vec<u8> = actions.iter().flat_map(|action| action.to_le_bytes()).collect();
    out.write_all(&bytes)?;
    Ok(out.flush()?)
}

/// The first line.
fn header(input: &mut dyn Read) -> Result<Value, DecideError> {
    let mut line = Vec::new();
    let mut byte = [0];
    while line.len() < 1000 {
        input.read_exact(&mut byte)?;
        if byte == *b"\n" {
            break;
        }
        line.push(byte[0]);
    }
    serde_json::from_slice(&line).map_err(|e| DecideError::Malformed(format!("{e}; expected a line of JSON")))
}
