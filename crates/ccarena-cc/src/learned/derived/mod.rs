//! Derived signals: quotients, differences, averages and extremes of other signals.
//!
//! A spec nests them; [`Expr`] is one as it is read. For a flow they become a [`Program`], which computes all of them at the
//! end of a period, and a [tap](Tap) for each value that acknowledgements feed. A flow whose spec has none pays for none.

mod flat;
mod memory;
mod program;
mod raw;

use std::fmt::Write as _;

use serde_json::{Value, json};

pub use self::flat::{Derivation, Derived, Flat};
use self::memory::Memory;
pub use self::memory::{Over, Rule, Statistic};
pub use self::program::Program;
use self::program::{AckProgram, Op, Step, Steps};
pub(super) use self::raw::Raw;
use super::monitor::{Horizon, Parts, Tap};
use super::number::Number;
use super::signals::{HUGE, LARGEST, Signal};

/// Description of one kind of derived signal.
pub struct Form {
    /// Field in a spec.
    pub name: &'static str,
    /// The way it is written.
    pub written: &'static str,
    /// Meaning.
    pub doc: &'static str,
}

/// All kinds, in the order of the documentation.
pub const FORMS: &[Form] = &[
    Form {
        name: "quotient",
        written: "{quotient: [a, b], default: 0}",
        doc: "a over b; `default` (0 if left out) if b is 0",
    },
    Form { name: "difference", written: "{difference: [a, b]}", doc: "a less b" },
    Form {
        name: "ewma",
        written: "{ewma: x, gain: g, reset: never, each: period}",
        doc: "moving average: the first value, then (1 - g) x average + g x value. With `reset: period` each period begins \
              a new average",
    },
    Form { name: "min", written: "{min: x, over_ms: N}", doc: "smallest value" },
    Form { name: "mean", written: "{mean: x, over_periods: N}", doc: "mean value" },
    Form { name: "max", written: "{max: x}", doc: "largest value" },
];

/// Returns the names of all kinds.
#[must_use]
pub fn names() -> Vec<&'static str> {
    FORMS.iter().map(|form| form.name).collect()
}

/// The kind of the derived signal `value`; none if it is something else.
#[must_use]
pub fn form_of(value: &Value) -> Option<&'static str> {
    let fields = value.as_object().filter(|fields| !fields.contains_key("signal"))?;
    names().into_iter().find(|name| fields.contains_key(*name))
}

/// Deepest nesting of a derived signal.
pub const DEEPEST: usize = 6;

/// A derived signal, or what one is made of.
pub(super) struct Expr {
    pub(super) kind: Kind,
    pub(super) low: f64,
    pub(super) high: f64,
    /// The spec gives these bounds.
    pub(super) bounded: bool,
}

/// Composition of a derived signal.
pub(super) enum Kind {
    Constant(f64),
    Signal(Raw),
    Quotient { of: Box<[Expr; 2]>, default: f64 },
    Difference(Box<[Expr; 2]>),
    Held { rule: Rule, of: Box<Expr>, each_ack: bool },
}

/// Compiler of the derived signals of one observation or report.
pub(super) struct Compiler<'a> {
    pub(super) program: Program,
    pub(super) taps: Vec<Box<dyn Tap>>,
    pub(super) parts: &'a mut Parts,
    pub(super) horizon: &'a mut Horizon,
    /// Values of options.
    pub(super) resolve: &'a dyn Fn(&[Number]) -> Vec<f64>,
}

impl<'a> Compiler<'a> {
    /// One for the derived signals of the observation, or of the report.
    pub(super) fn new(
        of_report: bool,
        parts: &'a mut Parts,
        horizon: &'a mut Horizon,
        resolve: &'a dyn Fn(&[Number]) -> Vec<f64>,
    ) -> Self {
        Self { program: Program { of_report, ..Program::default() }, taps: Vec::new(), parts, horizon, resolve }
    }

    /// Compiles `expr`, and returns its place in the program.
    pub(super) fn add(&mut self, expr: &Expr) -> usize {
        let op = match &expr.kind {
            Kind::Held { each_ack: true, .. } => {
                let mut steps = Steps::default();
                self.tap(expr, &mut steps);
                self.taps.push(Box::new(AckProgram { steps }));
                Op::Tapped(self.taps.len() - 1)
            }
            Kind::Constant(x) => Op::Constant(*x),
            Kind::Signal(raw) => {
                Op::Signal { value: raw.signal.value, options: raw.options(self.resolve, self.parts, self.horizon) }
            }
            Kind::Quotient { of, default } => {
                Op::Quotient { of: of.each_ref().map(|x| self.add(x)), default: *default }
            }
            Kind::Difference(of) => Op::Difference(of.each_ref().map(|x| self.add(x))),
            Kind::Held { rule, of, .. } => Op::Held { of: self.add(of), memory: Memory::new(*rule) },
        };
        self.program.steps.push(expr.step(op))
    }

    /// The same at each acknowledgement.
    fn tap(&mut self, expr: &Expr, steps: &mut Steps) -> usize {
        *self.parts = self.parts.and(Parts::NEWEST);
        let op = match &expr.kind {
            Kind::Constant(x) => Op::Constant(*x),
            Kind::Signal(raw) => {
                let options = raw.options(self.resolve, self.parts, self.horizon);
                // The reader has refused a signal without a value at each acknowledgement.
                raw.signal.each.map_or(Op::Constant(0.0), |value| Op::Each { value, options })
            }
            Kind::Quotient { of, default } => {
                Op::Quotient { of: of.each_ref().map(|x| self.tap(x, steps)), default: *default }
            }
            Kind::Difference(of) => Op::Difference(of.each_ref().map(|x| self.tap(x, steps))),
            Kind::Held { rule, of, .. } => Op::Held { of: self.tap(of, steps), memory: Memory::new(*rule) },
        };
        steps.push(expr.step(op))
    }
}

impl Expr {
    /// One with the bounds that follow from what it is made of.
    pub(super) fn new(kind: Kind) -> Self {
        let (low, high) = bounds(&kind);
        Self { kind, low: low.max(-HUGE), high: high.min(HUGE), bounded: false }
    }

    fn step(&self, op: Op) -> Step {
        Step { op, low: self.low, high: self.high }
    }

    /// Returns the name of its kind; that of the signal if it is none.
    pub(super) fn form(&self) -> &'static str {
        match &self.kind {
            Kind::Constant(_) => "number",
            Kind::Signal(raw) => raw.signal.name,
            Kind::Quotient { .. } => "quotient",
            Kind::Difference(_) => "difference",
            Kind::Held { rule: Rule::Ewma { .. }, .. } => "ewma",
            Kind::Held { rule: Rule::Of(statistic, _), .. } => statistic.name(),
        }
    }

    fn operands(&self) -> &[Self] {
        match &self.kind {
            Kind::Constant(_) | Kind::Signal(_) => &[],
            Kind::Quotient { of, .. } | Kind::Difference(of) => &of[..],
            Kind::Held { of, .. } => std::slice::from_ref(of),
        }
    }

    /// The signals that it is made of.
    pub(super) fn signals(&self) -> Vec<&'static Signal> {
        match &self.kind {
            Kind::Signal(raw) => vec![raw.signal],
            _ => self.operands().iter().flat_map(Self::signals).collect(),
        }
    }

    /// Returns whether a statistic in it is of a stretch, not of the whole flow.
    pub(super) fn has_stretch(&self) -> bool {
        let own = matches!(&self.kind, Kind::Held { rule: Rule::Of(_, Over::Ms(_) | Over::Periods(_)), .. });
        own || self.operands().iter().any(Self::has_stretch)
    }

    /// The unit of its values.
    pub(super) fn unit(&self) -> String {
        match &self.kind {
            Kind::Constant(_) => "1".into(),
            Kind::Signal(raw) => raw.signal.unit.into(),
            Kind::Quotient { of, .. } => match of.each_ref().map(Self::unit) {
                [a, b] if a == b => "1".into(),
                [a, b] if b == "1" => a,
                [a, b] => format!("{a} per {b}"),
            },
            Kind::Difference(of) => of[0].unit(),
            Kind::Held { of, .. } => of.unit(),
        }
    }

    /// A description for readers.
    pub(super) fn text(&self) -> String {
        match &self.kind {
            Kind::Constant(x) => x.to_string(),
            Kind::Signal(raw) => raw.signal.name.into(),
            Kind::Quotient { of, default } => {
                format!("({} / {}, or {default})", of[0].text(), of[1].text())
            }
            Kind::Difference(of) => format!("({} - {})", of[0].text(), of[1].text()),
            Kind::Held { rule, of, each_ack } => {
                let mut text = match rule {
                    Rule::Ewma { gain, reset } => {
                        let anew = if *reset { ", anew each period" } else { "" };
                        format!("average of {} with gain {gain}{anew}", of.text())
                    }
                    Rule::Of(statistic, over) => {
                        let stretch = match over {
                            Over::Flow => "so far".into(),
                            Over::Ms(ms) => format!("of {ms} ms"),
                            Over::Periods(count) => format!("of {count} periods"),
                        };
                        format!("{} of {} {stretch}", statistic.name(), of.text())
                    }
                };
                if *each_ack {
                    let _ = write!(text, ", by acknowledgement");
                }
                text
            }
        }
    }

    /// Returns its form in a spec, defaults filled in; `signal` writes a signal.
    pub(super) fn to_json(&self, signal: &dyn Fn(&Raw) -> Value) -> Value {
        let mut value = match &self.kind {
            Kind::Constant(x) => return json!(x),
            Kind::Signal(raw) => return signal(raw),
            Kind::Quotient { of, default } => {
                json!({"quotient": of.each_ref().map(|x| x.to_json(signal)), "default": default})
            }
            Kind::Difference(of) => json!({"difference": of.each_ref().map(|x| x.to_json(signal))}),
            Kind::Held { rule, of, each_ack } => {
                let mut value = json!({"each": if *each_ack { "ack" } else { "period" }});
                value[self.form()] = of.to_json(signal);
                match rule {
                    Rule::Ewma { gain, reset } => {
                        value["gain"] = json!(gain);
                        value["reset"] = json!(if *reset { "period" } else { "never" });
                    }
                    Rule::Of(_, Over::Flow) => {}
                    Rule::Of(_, Over::Ms(ms)) => value["over_ms"] = json!(ms),
                    Rule::Of(_, Over::Periods(count)) => value["over_periods"] = json!(count),
                }
                value
            }
        };
        if self.bounded {
            value["bounds"] = json!([self.low, self.high]);
        }
        value
    }
}

fn bounds(kind: &Kind) -> (f64, f64) {
    match kind {
        Kind::Constant(x) => (*x, *x),
        Kind::Signal(raw) => (raw.low, raw.high),
        Kind::Quotient { of, default } => {
            let (low, high) = of_quotient(&of[0], &of[1]);
            (low.min(*default), high.max(*default))
        }
        Kind::Difference(of) => (of[0].low - of[1].high, of[0].high - of[1].low),
        // Before the first value it is 0.
        Kind::Held { of, .. } => (of.low.min(0.0), of.high.max(0.0)),
    }
}

/// Returns bounds of a quotient: those of the registry's ratios, [`LARGEST`], unless the divisor's bounds say less.
fn of_quotient(a: &Expr, b: &Expr) -> (f64, f64) {
    if b.low > 0.0 || b.high < 0.0 {
        let corners = [a.low / b.low, a.low / b.high, a.high / b.low, a.high / b.high];
        let least = corners.iter().copied().fold(f64::INFINITY, f64::min);
        let most = corners.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        return (least, most);
    }
    let mixed = b.low < 0.0;
    let low = if mixed || a.low < 0.0 { -LARGEST } else { 0.0 };
    let high = if mixed || a.high > 0.0 { LARGEST } else { 0.0 };
    (low, high)
}
