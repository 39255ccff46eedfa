//! Derived signals as a list, for programs other than this one.

use super::raw::Raw;
use super::{Expr, Kind, Rule};

/// Derived signals in an order in which each comes after what it is made of. First come those that each acknowledgement
/// feeds.
#[derive(Clone, Debug, PartialEq)]
pub struct Flat<S> {
    /// The values.
    pub values: Vec<Derived<S>>,
    /// Number of those that each acknowledgement feeds.
    pub by_ack: usize,
}

/// One value, which may be part of another.
#[derive(Clone, Debug, PartialEq)]
pub struct Derived<S> {
    /// Computation of the value.
    pub derivation: Derivation<S>,
    /// Lower bound.
    pub low: f64,
    /// Upper bound.
    pub high: f64,
}

/// Computation of a value from those at other places, or from a signal `S`.
#[derive(Clone, Debug, PartialEq)]
pub enum Derivation<S> {
    /// A number.
    Constant(f64),
    /// A signal.
    Signal(S),
    /// One value over another, and the value where the divisor is 0.
    Quotient([usize; 2], f64),
    /// One value less another.
    Difference([usize; 2]),
    /// A value among those before it.
    Held(usize, Rule),
}

impl<S> Flat<S> {
    /// The list of `exprs` with the place of each; `signal` reads a signal of the registry.
    pub(in crate::learned) fn new(exprs: &[&Expr], signal: &dyn Fn(&Raw) -> S) -> (Self, Vec<usize>) {
        let (mut by_ack, mut rest) = (Vec::new(), Vec::new());
        let count = exprs.iter().map(|expr| fed(expr)).sum();
        let places = exprs.iter().map(|expr| add(expr, false, count, &mut by_ack, &mut rest, signal)).collect();
        by_ack.extend(rest);
        (Self { values: by_ack, by_ack: count }, places)
    }
}

/// Number of values in `expr` that each acknowledgement feeds.
fn fed(expr: &Expr) -> usize {
    if matches!(expr.kind, Kind::Held { each_ack: true, .. }) {
        size(expr)
    } else {
        expr.operands().iter().map(fed).sum()
    }
}

fn size(expr: &Expr) -> usize {
    1 + expr.operands().iter().map(size).sum::<usize>()
}

/// Appends `expr` and what it is made of, and returns its place; `count` values come before those in `rest`.
fn add<S>(
    expr: &Expr,
    fed: bool,
    count: usize,
    by_ack: &mut Vec<Derived<S>>,
    rest: &mut Vec<Derived<S>>,
    signal: &dyn Fn(&Raw) -> S,
) -> usize {
    let fed = fed || matches!(expr.kind, Kind::Held { each_ack: true, .. });
    let of: Vec<usize> = expr.operands().iter().map(|x| add(x, fed, count, by_ack, rest, signal)).collect();
    let pair = || [of.first().copied().unwrap_or(0), of.get(1).copied().unwrap_or(0)];
    let derivation = match &expr.kind {
        Kind::Constant(x) => Derivation::Constant(*x),
        Kind::Signal(raw) => Derivation::Signal(signal(raw)),
        Kind::Quotient { default, .. } => Derivation::Quotient(pair(), *default),
        Kind::Difference(_) => Derivation::Difference(pair()),
        Kind::Held { rule, .. } => Derivation::Held(pair()[0], *rule),
    };
    let list = if fed { by_ack } else { rest };
    list.push(Derived { derivation, low: expr.low, high: expr.high });
    list.len() - 1 + if fed { 0 } else { count }
}
