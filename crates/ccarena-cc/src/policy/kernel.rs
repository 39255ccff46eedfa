//! A policy for a program in the kernel: its spec and its integer form as one block of numbers, the *image*.
//!
//! `kernel/ccarena_image.h` says where each number lies. The program knows the clocks, signals, actuators and bases of
//! this file alone; a spec that names another one is refused, naming it, and runs over the bridge. [`write()`] makes an
//! image; [`check`] says whether some bytes are one, undamaged and of this version.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use sha2::{Digest, Sha256};

mod derived;
mod names;

pub use self::names::{ACTUATORS, BASES, CLOCKS, DERIVATIONS, SIGNALS};
use super::Policy;
use super::error::PolicyError;
use super::guard::Guard;
use super::integer::Program;
use crate::backends::{Backend, Unmeasured};
use crate::build_error::BuildError;
use crate::elementary;
use crate::learned::actuators::Op;
use crate::learned::resolved::{Piece, Resolved, Series};
use crate::types::Rate;

/// The layout of an image, in C.
pub const HEADER: &str = include_str!("kernel/ccarena_image.h");

/// Version of the layout: another number in a file means that another version exported it.
pub const VERSION: u32 = 4;
const MAGIC: u64 = u64::from_le_bytes(*b"CCCAIMA\0");

/// Length of the image's array of columns, `IMAGE_COLUMNS`.
pub const COLUMNS: usize = 64;
/// Length `IMAGE_OBSERVATION` of an array of the image.
pub const OBSERVATION: usize = 256;
/// Length `IMAGE_STATE` of an array of the image.
pub const STATE: usize = 128;
/// Length `IMAGE_ACTIONS` of an array of the image.
pub const ACTIONS: usize = 256;
/// Length `IMAGE_PARTS` of an array of the image.
pub const PARTS: usize = 8;
/// Length `IMAGE_STEPS` of an array of the image.
pub const STEPS: usize = 128;
/// Length `IMAGE_VALUES` of an array of the image.
pub const VALUES: usize = 4096;
/// Length `IMAGE_CONSTANTS` of an array of the image.
pub const CONSTANTS: usize = 16384;
/// Length `IMAGE_WEIGHTS` of an array of the image.
pub const WEIGHTS: usize = 65536;
/// Length `IMAGE_OPTIONS` of an array of the image.
pub const OPTIONS: usize = 16;
/// Length `IMAGE_DERIVED` of an array of the image.
pub const DERIVED: usize = 64;
/// Length `IMAGE_SLACK` of an array of the image.
pub const SLACK: usize = 16;

/// Numbers of a spec are multiples of 2^-20, and stay within 2^61 of them.
const RAW: f64 = (1_u64 << 20) as f64;
const RAW_MOST: f64 = (1_u64 << 61) as f64;

/// Places of the fields that user space reads or changes.
const CHECKSUM_AT: usize = 16;
/// See [`CHECKSUM_AT`].
const SCHEME_AT: usize = 48;
const SPEC_AT: usize = 112;
const LABEL_AT: usize = 136;
/// Offset of the generation, which the loader of a live map increases.
pub const GENERATION_AT: usize = 200;
/// Offset of the network's sizes.
pub const NETWORK_AT: usize = 648;
/// The offset of the number of a report's columns.
pub const REPORTS_AT: usize = NETWORK_AT + 40 + PARTS * 8 + ACTIONS * 8 + COLUMNS * 48;
/// The whole.
pub const BYTES: usize = REPORTS_AT
    + 8
    + COLUMNS * 48
    + OBSERVATION * 16
    + DERIVED * 40
    + ACTIONS * 16
    + STEPS * 48
    + (CONSTANTS + SLACK) * 8
    + (WEIGHTS + SLACK) * 2;

/// Options of an image besides the policy.
#[derive(Clone, Debug)]
pub struct ImageOptions {
    /// Run-time parameters, which replace those of the training.
    pub params: BTreeMap<String, f64>,
    /// The rate that a flow asks routers for.
    pub desired_rate: Rate,
    /// Headers of a segment, in bytes.
    pub header_bytes: u32,
    /// Origin of the policy, for readers of what is loaded; cut at 63 bytes.
    pub label: String,
    /// The program computes the report of each decision, too.
    pub reports: bool,
}

/// Limits of observations that an image holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// Nothing is known.
    Nothing = 0,
    /// The range that training saw.
    Training = 1,
    /// The box of the policy's guard.
    Guard = 2,
}

/// Description in an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct About {
    /// The spec's name and digest.
    pub scheme: String,
    /// See `scheme`.
    pub spec: String,
    /// Origin of the policy.
    pub label: String,
    /// SHA-256 of the image, in hexadecimal digits ([`checksum`]).
    pub digest: String,
    /// Number of the policy among those of a live map; 0 in a file.
    pub generation: u64,
    /// Numbers of an observation, of an answer's outputs, and of what is remembered.
    pub observation: usize,
    /// See `observation`.
    pub outputs: usize,
    /// See `observation`.
    pub state: usize,
    /// Columns of a report; 0 if decisions are not reported.
    pub reports: usize,
    /// Known limits of observations.
    pub known: Known,
}

/// Error of an image that cannot be made or read.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ImageError {
    /// The policy has no integer form.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// A parameter is unknown or out of its bounds.
    #[error(transparent)]
    Params(#[from] BuildError),
    /// A parameter that the policy was trained with.
    #[error(
        "parameter {name:?} is {trained} in this policy's training, and no run-time parameter of its spec; expected that value"
    )]
    Fixed {
        /// Name of the parameter.
        name: String,
        /// Value of the parameter.
        trained: f64,
    },
    /// A signal that no program in the kernel computes.
    #[error(transparent)]
    Signal(#[from] Unmeasured),
    /// A piece of the spec that no program in the kernel can run.
    #[error(
        "{piece} cannot run in the kernel, which knows {known}; run the policy over the bridge (`ccarena kernel daemon \
         POLICY`)"
    )]
    Piece {
        /// Kind and name.
        piece: String,
        /// Known names.
        known: String,
    },
    /// An option that the kernel's own CUBIC does not have, or a signal's that the program does not compute.
    #[error(
        "{piece}: {option} cannot be had in the kernel; run the policy over the bridge (`ccarena kernel daemon POLICY`)"
    )]
    Option {
        /// Kind and name.
        piece: String,
        /// Name of the option.
        option: String,
    },
    /// The network or the observation is too large.
    #[error(
        "{found} {what}; a program in the kernel holds at most {most}: train a smaller network, or run the policy over the bridge"
    )]
    TooLarge {
        /// Counted thing.
        what: &'static str,
        /// Number that was found.
        found: usize,
        /// Largest number.
        most: usize,
    },
    /// The bytes are no image.
    #[error("no image of a policy: {0}; export the policy again (`ccarena export POLICY --to kernel`)")]
    Broken(String),
}

/// Builds bytes field by field.
struct Writer(Vec<u8>);

impl Writer {
    fn u16(&mut self, x: u16) {
        self.0.extend(x.to_le_bytes());
    }

    fn u32(&mut self, x: usize) {
        self.0.extend((x as u32).to_le_bytes());
    }

    fn i32(&mut self, x: i32) {
        self.0.extend(x.to_le_bytes());
    }

    fn u64(&mut self, x: u64) {
        self.0.extend(x.to_le_bytes());
    }

    fn i64(&mut self, x: i64) {
        self.0.extend(x.to_le_bytes());
    }

    fn raw(&mut self, x: f64) {
        self.i64(raw(x));
    }

    /// Text of `length` bytes, the last of which is zero.
    fn text(&mut self, text: &str, length: usize) {
        let mut cut = text.len().min(length - 1);
        while !text.is_char_boundary(cut) {
            cut -= 1;
        }
        let end = self.0.len() + length;
        self.0.extend(&text.as_bytes()[..cut]);
        self.0.resize(end, 0);
    }

    /// `rows`, and zeros of `bytes` each up to `most`.
    fn rows<T>(&mut self, rows: &[T], most: usize, bytes: usize, mut each: impl FnMut(&mut Self, &T)) {
        let end = self.0.len() + most * bytes;
        for row in rows {
            each(self, row);
        }
        self.0.resize(end, 0);
    }
}

/// Returns a multiple of 2^-20, rounded.
pub fn raw(x: f64) -> i64 {
    (x * RAW + 0.5).floor().clamp(-RAW_MOST, RAW_MOST) as i64
}

fn refused(piece: &Piece, known: &[&str]) -> ImageError {
    let mut text = format!("{} {:?}", piece.kind, piece.name);
    if piece.label != piece.name {
        let _ = write!(text, " ({})", piece.label);
    }
    ImageError::Piece { piece: text, known: known.join(", ") }
}

fn number_of(piece: &Piece, known: &[&str]) -> Result<usize, ImageError> {
    known.iter().position(|name| *name == piece.name).ok_or_else(|| refused(piece, known))
}

/// Refuses options of the pieces of `spec` that the kernel does not support.
fn check_options(spec: &Resolved, reports: bool) -> Result<(), ImageError> {
    let option = |piece: &Piece, option: String| {
        Err(ImageError::Option { piece: format!("{} {:?}", piece.kind, piece.name), option })
    };
    let (clock, base) = (&spec.clock, &spec.base);
    if spec.starts {
        return option(base, "a `start` of the spec".into());
    }
    if clock.name == "reasoner" && clock.options.last().is_some_and(|x| *x >= 0.5) {
        return option(clock, "timed 1".into());
    }
    if clock.name == "reasoner" && reports {
        return option(clock, "a report, which counts several periods,".into());
    }
    if base.name == "cubic" {
        // The kernel's has these as Linux has them, and learns of actions; the fourth is the pacing gain.
        for (k, name) in [(0, "hystart"), (1, "fast_convergence"), (2, "reno_friendly"), (4, "new_epoch")] {
            if let Some(value) = base.options.get(k).filter(|x| **x < 0.5) {
                return option(base, format!("{name} {value}"));
            }
        }
    }
    for column in spec.observe.iter().chain(spec.report.iter().filter(|_| reports)) {
        if column.windowed {
            return option(&column.piece, "over_ms or over_rtts".into());
        }
    }
    Ok(())
}

/// The image of `policy`.
///
/// # Errors
/// What of it no program in the kernel can run, by name; a parameter out of bounds; or as [`Policy::integer`].
pub fn write(policy: &Policy, options: &ImageOptions) -> Result<Vec<u8>, ImageError> {
    let trained = policy.trained();
    let interface = trained.spec.interface();
    let mut params = trained.params.clone();
    for (name, value) in &options.params {
        let fixed = interface.params.iter().find(|p| p.name == *name && !p.runtime);
        let trained = fixed.map(|p| params.get(name).copied().unwrap_or(p.default));
        if let Some(trained) = trained.filter(|trained| trained.total_cmp(value).is_ne()) {
            return Err(ImageError::Fixed { name: name.clone(), trained });
        }
        params.insert(name.clone(), *value);
    }
    let spec = trained.spec.resolve(&params)?;
    let clock = number_of(&spec.clock, CLOCKS)?;
    let actuator = number_of(&spec.actuator, ACTUATORS)?;
    let base = number_of(&spec.base, BASES)?;
    if options.reports {
        trained.spec.check_signals(Backend::Kernel)?;
    } else {
        trained.spec.check_observed_signals(Backend::Kernel)?;
    }
    check_options(&spec, options.reports)?;
    let program = policy.integer()?;
    let reports = if options.reports { &spec.report[..] } else { &[] };
    check_sizes(program, &spec, reports)?;

    let mut w = Writer(Vec::with_capacity(BYTES));
    w.u64(MAGIC);
    w.u32(VERSION as usize);
    w.u32(BYTES);
    w.rows::<u8>(&[], 32, 1, |_, _| ());
    w.text(&interface.name, 64);
    w.text(&interface.digest, 24);
    w.text(&options.label, 64);
    w.u64(0);
    w.u64((options.desired_rate.0 / 1000).max(1));
    for number in [options.header_bytes as usize, clock, actuator, base] {
        w.u32(number);
    }
    w.u32(spec.relative.into());
    w.u32(usize::from(!interface.actions.is_empty()));
    w.u32(spec.by_rate.into());
    w.u32(spec.measures("latency_gradient").into());
    w.u32(spec.derived.by_ack);
    w.u32(spec.derived.values.len());
    w.rows(&spec.clock.options, OPTIONS, 8, |w, x| w.raw(*x));
    w.rows(&actuator_options(&spec, &interface.bounds), OPTIONS, 8, |w, x| w.raw(*x));
    w.rows(&spec.base.options, OPTIONS, 8, |w, x| w.raw(*x));
    w.raw(if spec.actuator.name == "alpha" { spec.actuator.options[0] } else { 0.0 });
    network(&mut w, program, spec.observe.len(), policy.guard());
    w.rows(&held_actions(&interface.actions, policy.guard()), ACTIONS, 8, |w, x| w.raw((*x).into()));
    columns(&mut w, &spec.observe)?;
    w.u32(reports.len());
    let guarded = policy.guard().map(|guard| (Known::Guard, guard.observation()));
    let limits = guarded.or_else(|| policy.observed().map(|seen| (Known::Training, seen.bounds())));
    w.u32(limits.map_or(Known::Nothing, |(known, _)| known) as usize);
    columns(&mut w, reports)?;
    let unknown = [(f32::NEG_INFINITY, f32::INFINITY); OBSERVATION];
    w.rows(limits.map_or(&unknown[..], |(_, limits)| limits), OBSERVATION, 16, |w, (low, high)| {
        w.raw((*low).into());
        w.raw((*high).into());
    });
    derived::write(&mut w, &spec.derived)?;
    w.rows(&spec.ops, ACTIONS, 16, |w, op| {
        let (factor, add) = match *op {
            Op::Add(segments) => (1.0, segments),
            Op::Multiply(factor) => (factor, 0.0),
        };
        w.raw(factor);
        w.raw(add);
    });
    w.rows(&program.steps, STEPS, 48, |w, s| {
        for n in [s.op as usize, s.input, s.second, s.output, s.rows, s.inputs, s.outputs, s.weights, s.constants] {
            w.u32(n);
        }
        w.u32(s.shift as usize);
        w.i32(s.low);
        w.i32(s.high);
    });
    w.rows(&program.constants, CONSTANTS + SLACK, 8, |w, x| w.i64(*x));
    w.rows(&program.weights, WEIGHTS + SLACK, 2, |w, x| w.u16(*x));
    let mut bytes = w.0;
    debug_assert_eq!(bytes.len(), BYTES);
    let sum = checksum(&bytes);
    bytes[CHECKSUM_AT..SCHEME_AT].copy_from_slice(&sum);
    Ok(bytes)
}

/// The image's, of an actuator: for window_exp2 the a that one unit of output stands for, and the window limit; for
/// window_factor the logarithm of the power, which is zero without one.
fn actuator_options(spec: &Resolved, bounds: &[(f32, f32)]) -> Vec<f64> {
    match (spec.actuator.name, &spec.actuator.options[..], bounds) {
        ("window_exp2", [most, limit, ..], [(_, high)]) => vec![f64::from(*most as f32 / high), *limit],
        ("window_factor", [delta, power, rest @ ..], _) => {
            let (delta, log2) = if *power > 0.0 { (0.0, elementary::log2(*power)) } else { (*delta, 0.0) };
            [&[delta, log2], rest].concat()
        }
        (_, options, _) => options.to_vec(),
    }
}

fn columns(w: &mut Writer, series: &[Series]) -> Result<(), ImageError> {
    // The number after those of the registry stands for a derived signal, whose place is then its channel.
    let number = |column: &Series| match column.derived {
        Some(place) => Ok((SIGNALS.len(), place)),
        None => number_of(&column.piece, SIGNALS).map(|signal| (signal, column.channel)),
    };
    let signals = series.iter().map(number).collect::<Result<Vec<_>, _>>()?;
    let columns: Vec<_> = series.iter().zip(signals).collect();
    w.rows(&columns, COLUMNS, 48, |w, (column, (signal, channel))| {
        w.raw(column.low);
        w.raw(column.high);
        w.raw(column.piece.options.first().copied().unwrap_or(0.0));
        for number in [*signal, *channel, column.at, column.length, column.live.into(), 0] {
            w.u32(number);
        }
    });
    Ok(())
}

/// The values of discrete actions, each held to the guard's bound.
fn held_actions(actions: &[f32], guard: Option<&Guard>) -> Vec<f32> {
    let instead = guard.map_or(&[][..], Guard::instead);
    let held = |(own, x): (usize, &f32)| {
        instead.get(own).and_then(|index| actions.get(*index as usize)).copied().unwrap_or(*x)
    };
    actions.iter().enumerate().map(held).collect()
}

fn network(w: &mut Writer, program: &Program, columns: usize, guard: Option<&Guard>) {
    let (output, outputs) = program.output;
    for number in
        [columns, program.observation, program.state, program.next.len(), program.steps.len(), output, outputs]
    {
        w.u32(number);
    }
    w.u32(program.output_bits as usize);
    let (low, high) = program.bounds.unwrap_or((i32::MIN, i32::MAX));
    let unit = elementary::exp2(f64::from(program.output_bits));
    let (least, most) = match guard.map(Guard::action) {
        Some([(least, most)]) if program.bounds.is_some() => {
            ((f64::from(*least) * unit).ceil() as i32, (f64::from(*most) * unit).floor() as i32)
        }
        _ => (low, high),
    };
    let low = low.max(least);
    w.i32(low);
    w.i32(high.min(most).max(low));
    w.rows(&program.next, PARTS, 8, |w, (place, length)| {
        w.u32(*place);
        w.u32(*length);
    });
}

fn check_sizes(program: &Program, spec: &Resolved, reports: &[Series]) -> Result<(), ImageError> {
    for (what, found, most) in [
        ("columns of the report", reports.len(), COLUMNS),
        ("series of the observation", spec.observe.len(), COLUMNS),
        ("values that signals are derived from", spec.derived.values.len(), DERIVED),
        ("numbers of the observation", program.observation, OBSERVATION),
        ("numbers that it remembers", program.state, STATE),
        ("states", program.next.len(), PARTS),
        ("actions", program.output.1, ACTIONS),
        ("steps", program.steps.len(), STEPS),
        ("values", program.values, VALUES),
        ("constants", program.constants.len(), CONSTANTS),
        ("weights", program.weights.len(), WEIGHTS),
    ] {
        if found > most {
            return Err(ImageError::TooLarge { what, found, most });
        }
    }
    Ok(())
}

/// SHA-256 of what an image holds after its own copy of it.
#[must_use]
pub fn checksum(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes.get(SCHEME_AT..).unwrap_or_default()).into()
}

/// SHA-256 of `bytes`, in hexadecimal digits.
#[must_use]
pub fn sha256(bytes: &[u8]) -> String {
    hexadecimal(&Sha256::digest(bytes))
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |b| u32::from_le_bytes(*b))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |b| u64::from_le_bytes(*b))
}

fn text_at(bytes: &[u8], at: usize, length: usize) -> String {
    let field = bytes.get(at..at + length).unwrap_or_default();
    String::from_utf8_lossy(field.split(|b| *b == 0).next().unwrap_or_default()).into_owned()
}

/// Returns whether `bytes` begin as an image does.
#[must_use]
pub fn is_image(bytes: &[u8]) -> bool {
    u64_at(bytes, 0) == MAGIC
}

/// Returns the description in the image `bytes`, whose generation is 0.
///
/// # Errors
///
/// If it is none, of another version, cut off or damaged.
pub fn check(bytes: &[u8]) -> Result<About, ImageError> {
    let broken = |reason: String| Err(ImageError::Broken(reason));
    if !is_image(bytes) {
        return broken("it does not begin as one does".into());
    }
    let version = u32_at(bytes, 8);
    if version != VERSION {
        return broken(format!("it is of version {version}, and this program reads version {VERSION}"));
    }
    if bytes.len() != BYTES || u32_at(bytes, 12) as usize != BYTES {
        return broken(format!("it has {} bytes; expected {BYTES}: it was cut off", bytes.len()));
    }
    if bytes[CHECKSUM_AT..SCHEME_AT] != checksum(bytes) {
        return broken("its checksum does not fit its content: it is damaged".into());
    }
    Ok(about(bytes))
}

/// Returns the description in the image of a live map.
#[must_use]
pub fn about(bytes: &[u8]) -> About {
    About {
        scheme: text_at(bytes, SCHEME_AT, 64),
        spec: text_at(bytes, SPEC_AT, 24),
        label: text_at(bytes, LABEL_AT, 64),
        digest: hexadecimal(bytes.get(CHECKSUM_AT..SCHEME_AT).unwrap_or_default()),
        generation: u64_at(bytes, GENERATION_AT),
        observation: u32_at(bytes, NETWORK_AT + 4) as usize,
        outputs: u32_at(bytes, NETWORK_AT + 24) as usize,
        state: u32_at(bytes, NETWORK_AT + 8) as usize,
        reports: u32_at(bytes, REPORTS_AT) as usize,
        known: match u32_at(bytes, REPORTS_AT + 4) {
            0 => Known::Nothing,
            2 => Known::Guard,
            _ => Known::Training,
        },
    }
}
