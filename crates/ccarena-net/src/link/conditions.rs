//! Conditions of a link for one run, from its conditions trace.

use std::path::Path;

use ccarena_cc::types::{Dur, Rate};

use crate::conditions::{Conditions, Offset, Recordings, Source};
use crate::link_models::{self, Row};
use crate::losses::LossSpec;
use crate::rng::{Purpose, Stream};
use crate::scenario::Scenario;
use crate::service::ServiceError;
use crate::stepped::Stepped;

/// Length of a model's trace in a run that lasts longer, which repeats it: an hour.
const LONGEST: Dur = Dur(3_600_000_000_000);

/// Returns the conditions of link number `index` for its run, and whether packets keep their order when the delay falls.
/// Without a conditions trace there are none.
///
/// # Errors
/// If the trace cannot be had, or what it gives is no complement of what the scenario gives.
pub(super) fn of_link(
    scenario: &Scenario,
    index: usize,
    recordings: &impl Recordings,
) -> Result<(Conditions, bool), ServiceError> {
    let link = &scenario.links[index];
    let Some(spec) = &link.conditions else { return Ok((Conditions::default(), true)) };
    let (conditions, name) = match &spec.source {
        Source::File(file) => (recordings.conditions(Path::new(file))?, file),
        Source::Model { name, seed, mean } => {
            let model = link_models::find(name).map_err(|e| ServiceError::Conditions(e.to_string()))?;
            let rows = model.draw(scenario.duration.min(LONGEST), *seed, mean.map(Rate::as_mbps));
            (of_rows(&rows, model.tick_ms), name)
        }
    };
    let refuse = |what: String| Err(ServiceError::Conditions(format!("{name}: {what}")));
    match (&conditions.rates, link.service.replays_conditions()) {
        (Some(_), false) => {
            let expected = "a link without `service`, or a medium with `rate: {type: conditions}`";
            return refuse(format!("the trace has rates; expected {expected}"));
        }
        (None, true) => {
            return refuse("the trace has no column rate_mbps; expected one, or `service` beside it".into());
        }
        _ => {}
    }
    if conditions.losses.is_some() && link.loss != LossSpec::default() {
        return refuse("the trace has losses; expected a link without `loss`".into());
    }
    let least = spec.base_delay().or_else(|| conditions.least_delay());
    if let Some(least) = least.filter(|&least| link.varies.is_some() || link.delay != least) {
        return refuse(format!(
            "the trace has delays, the least of {} ms; expected that as `delay_ms` or, where the trace is read before the \
             scenario, no `delay_ms`",
            least.as_millis_f64()
        ));
    }
    let offset = match spec.offset {
        Offset::At(offset) => offset,
        Offset::Random => {
            let share = Stream::new(scenario.seed, Purpose::Conditions, 0).next_f64();
            Dur((share * conditions.period.unwrap_or(Dur::ZERO).0 as f64) as u64)
        }
    };
    Ok((conditions.starting_at(offset), spec.keep_order))
}

/// Returns the rows of a link model, which repeat after the last one.
fn of_rows(rows: &[Row], tick_ms: u32) -> Conditions {
    let period = Dur::from_millis(rows.len() as u64 * u64::from(tick_ms));
    Conditions {
        period: Some(period),
        rates: Some(stepped(rows, period, |row| Rate::from_mbps(row.rate_mbps))),
        delays: Some(stepped(rows, period, |row| Dur::from_secs_f64(row.delay_ms / 1e3))),
        losses: Some(stepped(rows, period, |row| row.loss)),
    }
}

/// Returns a column, without repeated values.
fn stepped<V: Copy + PartialEq>(rows: &[Row], period: Dur, value: impl Fn(&Row) -> V) -> Stepped<V> {
    let mut steps: Vec<(Dur, V)> = Vec::with_capacity(rows.len());
    for row in rows {
        let value = value(row);
        if steps.last().is_none_or(|last| last.1 != value) {
            steps.push((Dur::from_millis(u64::from(row.time_ms)), value));
        }
    }
    Stepped::new(steps, Some(period), Dur::ZERO)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::trace::{Trace, TraceError};

    const ALL: &str = "time_ms,rate_mbps,delay_ms,loss\n0,10,20,0\n100,5,40.5,0.1\n250,5,20,1\n";

    /// Finds one conditions trace.
    struct One(&'static str);

    impl Recordings for One {
        fn trace(&self, file: &Path) -> Result<Trace, TraceError> {
            crate::trace::load(file)
        }

        fn conditions(&self, file: &Path) -> Result<Conditions, TraceError> {
            Conditions::read(self.0.as_bytes(), &file.display().to_string())
        }
    }

    #[test]
    fn a_link_gives_what_its_trace_does_not() {
        let build = |text: &'static str, mut link: serde_json::Value| {
            link["conditions"] = json!({"file": "a.csv"});
            let document = json!({"links": [link], "flows": [{"scheme": "cubic"}]});
            let scenario = Scenario::from_json(&document).map_err(|e| e.to_string())?;
            of_link(&scenario, 0, &One(text)).map(drop).map_err(|e| e.to_string())
        };
        let constant = json!({"type": "constant", "rate_mbps": 5});
        let (delays, losses) = ("time_ms,delay_ms\n0,20\n5,10\n", "time_ms,loss\n0,0.1\n");
        for (text, link) in [
            (ALL, json!({"delay_ms": 20})),
            (ALL, json!({"delay_ms": 20, "service": {"type": "conditions"}, "loss": 0, "jitter_ms": 1})),
            (ALL, json!({"delay_ms": 20, "service": {"type": "grants", "rate": {"type": "conditions"}}})),
            (delays, json!({"delay_ms": 10, "service": constant, "loss": 0.1})),
            (losses, json!({"service": constant})),
        ] {
            assert_eq!(build(text, link.clone()), Ok(()), "{link} {text}");
        }
        for (text, link, expected) in [
            (ALL, json!({"service": constant}), "a.csv: the trace has rates; expected a link without `service`"),
            (
                ALL,
                json!({"delay_ms": 20, "service": {"type": "wifi", "rate_mbps": 5}}),
                "a.csv: the trace has rates; expected a link without `service`",
            ),
            (delays, json!({"delay_ms": 10}), "a.csv: the trace has no column rate_mbps; expected one, or `service`"),
            (ALL, json!({"delay_ms": 20, "loss": 0.1}), "a.csv: the trace has losses; expected a link without `loss`"),
            (ALL, json!({"delay_ms": 30}), "a.csv: the trace has delays, the least of 20 ms; expected"),
            (ALL, json!({"delay_ms": {"steps": [{"at_s": 0, "delay_ms": 20}]}}), "a.csv: the trace has delays"),
        ] {
            let error = build(text, link).unwrap_err();
            assert!(error.starts_with(expected), "{error}\nis not\n{expected}");
        }
    }

    #[test]
    fn a_run_gets_its_models_trace_and_repeats_it_after_an_hour() {
        let of = |duration_s: f64| {
            let link = json!({"conditions": {"model": "starlink-driving", "seed": 3}});
            let document = json!({"duration_s": duration_s, "links": [link], "flows": [{"scheme": "cubic"}]});
            of_link(&Scenario::from_json(&document).unwrap(), 0, &One(ALL)).unwrap().0
        };
        let conditions = of(30.0);
        let (rates, delays, losses) =
            (conditions.rates.unwrap(), conditions.delays.unwrap(), conditions.losses.unwrap());
        for row in link_models::find("starlink-driving").unwrap().draw(Dur::from_millis(30_000), 3, None) {
            let now = ccarena_cc::Time(u64::from(row.time_ms) * 1_000_000 + 1);
            let rate = rates.step(rates.index(now)).unwrap().value.as_mbps();
            assert!((rate - row.rate_mbps).abs() < 1e-5, "{rate} {row:?}");
            let delay = delays.step(delays.index(now)).unwrap().value.as_millis_f64();
            assert!((delay - row.delay_ms).abs() < 1e-5, "{delay} {row:?}");
            assert!((losses.step(losses.index(now)).unwrap().value - row.loss).abs() < 1e-12);
        }
        assert_eq!(conditions.period, Some(Dur::from_millis(30_000)));
        assert_eq!(of(10_000.0).period, Some(Dur::from_millis(3_600_000)));
    }

    proptest! {
        /// A random start is within the trace, the same for all links, and another for another seed.
        #[test]
        fn a_random_start_depends_on_the_seed_alone(seed: u64) {
            let link = json!({"conditions": {"file": "a.csv", "offset_ms": "random"}, "delay_ms": 20});
            let document = json!({"seed": seed, "links": [link], "flows": [{"scheme": "cubic"}]});
            let mut scenario = Scenario::from_json(&document).unwrap();
            scenario.links.push(crate::scenario::Link { name: "b".into(), ..scenario.links[0].clone() });
            let of = |index| of_link(&scenario, index, &One(ALL)).unwrap().0;
            prop_assert_eq!(of(0), of(1));
            scenario.seed = seed.wrapping_add(1);
            prop_assert_ne!(of_link(&scenario, 0, &One(ALL)).unwrap().0, Conditions::default());
        }
    }
}
