//! Derived signals as a spec writes them.

use serde_json::Value;

use super::ANY;
use super::items::{Reader, ordered};
use crate::learned::derived::{self, DEEPEST, Expr, Kind, Over, Rule, Statistic};
use crate::learned::signals;
use crate::reader::{At, Object, Result};

/// Longest stretch of a statistic.
const MOST_MS: f64 = 600_000.0;
const MOST_PERIODS: u32 = 65_536;

impl Reader<'_> {
    /// Reads a derived signal, an object with fields `more` besides.
    pub(super) fn derived<'v>(&self, at: &At<'v>, more: &[&str]) -> Result<(Expr, Object<'v>)> {
        self.nested(at, more, 1, false)
    }

    fn nested<'v>(&self, at: &At<'v>, more: &[&str], depth: usize, by_ack: bool) -> Result<(Expr, Object<'v>)> {
        let Some(form) = derived::form_of(at.value) else {
            return at.fail(format!("an object with one of the fields {}", derived::names().join(", ")));
        };
        if depth > DEEPEST {
            return at.fail(format!("a signal: derived signals nest {DEEPEST} deep at most"));
        }
        let mut fields = vec![form, "bounds"];
        fields.extend(match form {
            "quotient" => &["default"][..],
            "difference" => &[],
            "ewma" => &["gain", "reset", "each"],
            _ => &["over_ms", "over_periods", "each"],
        });
        fields.extend(more);
        let o = at.object(&fields)?;
        let of = o.require(form, "a signal")?;
        let kind = match form {
            "quotient" => Kind::Quotient {
                of: self.pair(&of, depth, by_ack)?,
                default: o.or("default", 0.0, |at| at.number(-ANY, ANY))?,
            },
            "difference" => Kind::Difference(self.pair(&of, depth, by_ack)?),
            _ => {
                let rule = rule(form, &o)?;
                let reset = matches!(rule, Rule::Ewma { reset: true, .. });
                let each = o.get("each");
                let default = if by_ack || reset { "ack" } else { "period" };
                let each_ack = o.or("each", default, |at| at.choice("value", &["ack", "period"]))? == "ack";
                if let (false, true, Some(at)) = (each_ack, by_ack || reset, each) {
                    return at.fail(if reset {
                        "\"ack\": with `reset: period` a period has an average of its own"
                    } else {
                        "\"ack\", as what it is part of"
                    });
                }
                Kind::Held { rule, of: Box::new(self.operand(&of, depth, each_ack)?), each_ack }
            }
        };
        let mut expr = Expr::new(kind);
        if let Some(at) = o.get("bounds") {
            (expr.low, expr.high) = ordered(&at)?;
            expr.bounded = true;
        }
        Ok((expr, o))
    }

    fn pair(&self, at: &At<'_>, depth: usize, by_ack: bool) -> Result<Box<[Expr; 2]>> {
        let expected = "two signals, [a, b]";
        match at.list(expected)?.as_slice() {
            [a, b] => Ok(Box::new([self.operand(a, depth, by_ack)?, self.operand(b, depth, by_ack)?])),
            _ => at.fail(expected),
        }
    }

    /// A number, a signal of the registry or a derived one; `by_ack` if each acknowledgement has to have a value.
    fn operand(&self, at: &At<'_>, depth: usize, by_ack: bool) -> Result<Expr> {
        match at.value {
            Value::Number(_) => return Ok(Expr::new(Kind::Constant(at.number(-ANY, ANY)?))),
            value if derived::form_of(value).is_some() => return Ok(self.nested(at, &[], depth + 1, by_ack)?.0),
            _ => {}
        }
        let (raw, _) = self.raw(at, &[])?;
        if !raw.signal.channels.is_empty() {
            return at.fail("a signal that is one number");
        }
        if by_ack && raw.signal.each.is_none() {
            let known: Vec<&str> = signals::all().filter(|s| s.each.is_some()).map(|s| s.name).collect();
            return at.fail(format!("a signal with a value at each acknowledgement: {}", known.join(", ")));
        }
        Ok(Expr::new(Kind::Signal(raw)))
    }
}

/// The rule of an average or a statistic.
fn rule(form: &str, o: &Object<'_>) -> Result<Rule> {
    let Some(statistic) = Statistic::ALL.into_iter().find(|s| s.name() == form) else {
        let gain = o.require("gain", "the weight of the newest value, above 0 and up to 1")?;
        let weight = gain.number(0.0, 1.0)?;
        if weight <= 0.0 {
            return gain.fail("the weight of the newest value, above 0 and up to 1");
        }
        let reset = o.or("reset", "never", |at| at.choice("time of reset", &["never", "period"]))? == "period";
        return Ok(Rule::Ewma { gain: weight, reset });
    };
    let over = match (o.get("over_ms"), o.get("over_periods")) {
        (Some(_), Some(at)) => return at.fail("over_ms or over_periods, not both"),
        (Some(at), None) => Over::Ms(at.number(1.0, MOST_MS)?),
        (None, Some(at)) => Over::Periods(at.small(1, MOST_PERIODS)?),
        (None, None) => Over::Flow,
    };
    Ok(Rule::Of(statistic, over))
}
