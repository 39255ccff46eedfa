//! Changes of links while a run goes on, and the scenario in which they were planned from the beginning.
//!
//! A rate, delay or loss that may change is written as steps. A change ends the steps at its time and adds one: the
//! scenario that results describes the run, and runs again.

use ccarena_cc::reader::{self, At, DocumentError, Problem, Result};
use ccarena_cc::types::{Dur, Rate, Time};
use serde_json::{Value, json};

use super::{Link, Scenario};
use crate::delays::{self, AnyProcess, DelaySpec, MAX_DELAY_MS};
use crate::losses::{Kind, LossSpec};
use crate::queues::Limit;
use crate::service::{Service, ServiceSpec};

/// New values of a link; what is none stays.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LinkChange {
    /// Rate; zero is an outage.
    pub rate: Option<Rate>,
    /// One-way propagation delay.
    pub delay: Option<Dur>,
    /// Probability of loss, packet by packet.
    pub loss: Option<f64>,
}

/// Request for a change of a link, or, without a value, for the values in force.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ChangeRequest {
    /// Name of the link; may be missing if there is only one.
    pub link: Option<String>,
    /// New values.
    pub change: LinkChange,
}

impl ChangeRequest {
    /// Reads a request from JSON text: an object with any of `link`, `rate_mbps`, `delay_ms` and `loss`.
    ///
    /// # Errors
    /// The first field at fault.
    pub fn parse(line: &[u8]) -> Result<Self> {
        let text = std::str::from_utf8(line).map_err(|error| DocumentError {
            path: String::new(),
            problem: Problem::Syntax(format!("not UTF-8: {error}")),
        })?;
        let document = reader::parse(text)?;
        let o = At { value: &document, path: String::new() }.object(&["link", "rate_mbps", "delay_ms", "loss"])?;
        Ok(Self {
            link: o.maybe("link", |at| Ok(at.text("the name of a link")?.into()))?,
            change: LinkChange {
                rate: o.maybe("rate_mbps", |at| at.mbps(0.0))?,
                delay: o.maybe("delay_ms", |at| at.millis(0.0, MAX_DELAY_MS))?,
                loss: o.maybe("loss", |at| at.number(0.0, 1.0))?,
            },
        })
    }
}

impl LinkChange {
    /// Writes the values that there are.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let rate = self.rate.map(|rate| ("rate_mbps", json!(rate.as_mbps())));
        let delay = self.delay.map(|delay| ("delay_ms", json!(delay.as_millis_f64())));
        let loss = self.loss.map(|loss| ("loss", json!(loss)));
        Value::Object([rate, delay, loss].into_iter().flatten().map(|(key, value)| (key.into(), value)).collect())
    }
}

impl Scenario {
    /// Writes as steps what [`Self::change`] may change: constant rates and delays, and independent loss. Limits in
    /// bandwidth-delay products, which depend on these, become limits in bytes.
    ///
    /// # Errors
    /// A link whose limit cannot be given in bytes, as a sentence.
    pub fn make_changeable(&mut self) -> std::result::Result<(), String> {
        for index in 0..self.links.len() {
            let link = &self.links[index];
            if let Some(limit @ Limit::Bdp(_)) = link.queue.limit {
                let mean = match &link.service {
                    ServiceSpec::Constant(rate) => *rate,
                    ServiceSpec::Steps(steps) => Service::steps(steps).mean_rate(self.duration),
                    _ => {
                        return Err(format!(
                            "links[{index}].queue.bdp: expected a limit in packets or bytes, since delays may change and \
                             the mean rate is not in the scenario"
                        ));
                    }
                };
                let bytes = limit.bytes(self.bdp_bytes(index, mean));
                self.links[index].queue.limit = Some(Limit::Bytes(bytes));
            }
            self.links[index].write_as_steps();
        }
        Ok(())
    }

    /// Returns why `change` cannot be made to link number `link`, as a sentence.
    #[must_use]
    pub fn refusal(&self, link: usize, change: &LinkChange) -> Option<String> {
        let link = &self.links[link];
        let steps = matches!(link.service, ServiceSpec::Steps(_)) && link.shaper.is_none();
        let refuse = |what: &str, of: &str| Some(format!("the {what} of link {:?} {of}", link.name));
        match change {
            LinkChange { rate: Some(_), .. } if !steps => {
                refuse("rate", "is not constant or in steps, or is shaped: it cannot be set")
            }
            LinkChange { delay: Some(_), .. } if link.conditions.is_some() => {
                refuse("delay", "follows a conditions trace: it cannot be set")
            }
            LinkChange { loss: Some(_), .. } if link.conditions.is_some() => {
                refuse("loss", "follows a conditions trace: it cannot be set")
            }
            LinkChange { loss: Some(_), .. } if link.loss.kind != Kind::Steps => {
                refuse("loss", "is not independent: it cannot be set")
            }
            _ => None,
        }
    }

    /// Changes link number `link` from `at` on. Delays of the ways back stay.
    pub fn change(&mut self, link: usize, at: Time, change: &LinkChange) {
        let back: Vec<Dur> = self.flows.iter().map(|flow| self.return_delay(flow)).collect();
        self.links[link].change(at, change);
        for (index, back) in back.into_iter().enumerate() {
            let flow = &self.flows[index];
            let base_rtt = back + self.delay(&flow.path) + self.delay(&flow.return_path);
            self.flows[index].base_rtt = Some(base_rtt);
        }
    }
}

impl Link {
    fn write_as_steps(&mut self) {
        if let ServiceSpec::Constant(rate) = self.service {
            self.service = ServiceSpec::Steps(vec![(Time::ZERO, rate)]);
        }
        if self.conditions.is_some() {
            return;
        }
        if self.varies.is_none() {
            let process = AnyProcess::Steps(delays::Steps::constant(self.delay));
            self.varies = Some(DelaySpec { process, keep_order: true });
        }
        if let Some(probability) = self.loss.as_independent() {
            self.loss = LossSpec::by_time(vec![(Dur::ZERO, probability)]);
        }
    }

    fn change(&mut self, at: Time, change: &LinkChange) {
        if let (Some(rate), ServiceSpec::Steps(steps)) = (change.rate, &mut self.service) {
            steps.retain(|(from, _)| *from < at);
            steps.push((at, rate));
        }
        if let (Some(delay), Some(varies)) = (change.delay, &mut self.varies) {
            let AnyProcess::Steps(steps) = &varies.process;
            varies.process = AnyProcess::Steps(steps.followed_by(at, delay));
            self.delay = varies.least();
        }
        if let Some(loss) = change.loss.filter(|_| self.loss.kind == Kind::Steps) {
            self.loss.steps.retain(|(from, _)| Time::ZERO + *from < at);
            self.loss.steps.push((at.since(Time::ZERO), loss));
        }
    }

    /// Returns the values in force at `now`; none of what cannot change.
    #[must_use]
    pub fn in_force(&self, now: Time) -> LinkChange {
        let rate = match &self.service {
            ServiceSpec::Steps(steps) if self.shaper.is_none() => {
                steps.iter().rev().find(|(from, _)| *from <= now).map(|step| step.1)
            }
            _ => None,
        };
        let delay = self.varies.as_ref().and_then(|varies| {
            let delays = varies.process.stepped();
            delays.step(delays.index(now)).map(|step| step.value)
        });
        let steps = self.loss.steps.iter().rev();
        let loss = steps.clone().find(|(from, _)| Time::ZERO + *from <= now).map(|step| step.1);
        LinkChange { rate, delay, loss }
    }
}

#[cfg(test)]
mod tests {
    use proptest::option;
    use proptest::prelude::*;

    use super::*;

    fn scenario(link: &str) -> Scenario {
        let document = format!(r#"{{"links": [{link}], "flows": [{{"scheme": "cubic"}}]}}"#);
        Scenario::parse(&document).unwrap()
    }

    fn at(ms: u64) -> Time {
        Time::ZERO + Dur::from_millis(ms)
    }

    #[test]
    fn a_changed_scenario_has_the_changes_as_steps_and_reads_back() {
        let mut scenario = scenario(r#"{"service": {"type": "constant", "rate_mbps": 10}, "delay_ms": 20}"#);
        scenario.make_changeable().unwrap();
        assert_eq!(scenario.links[0].queue.limit, Some(Limit::Bytes(50_000)), "one BDP of 40 ms");
        let first = LinkChange { rate: Some(Rate::from_mbps(5.0)), delay: Some(Dur::from_millis(8)), loss: None };
        scenario.change(0, at(1500), &first);
        scenario.change(0, at(2500), &LinkChange { loss: Some(0.25), ..LinkChange::default() });
        let written = scenario.to_json();
        let link = &written["links"][0];
        assert_eq!(
            link["service"],
            json!({"type": "steps", "steps": [{"at_s": 0.0, "rate_mbps": 10.0}, {"at_s": 1.5, "rate_mbps": 5.0}]})
        );
        assert_eq!(link["delay_ms"]["steps"], json!([{"at_s": 0.0, "delay_ms": 20.0}, {"at_s": 1.5, "delay_ms": 8.0}]));
        assert_eq!(link["loss"]["steps"], json!([{"at_s": 0.0, "loss": 0.0}, {"at_s": 2.5, "loss": 0.25}]));
        assert_eq!(written["flows"][0]["base_rtt_ms"], json!(28.0), "20 ms back, as before");
        assert_eq!(Scenario::from_json(&written).unwrap().to_json(), written);
        let now = scenario.links[0].in_force(at(2000)).to_json();
        assert_eq!(now, json!({"rate_mbps": 5.0, "delay_ms": 8.0, "loss": 0.0}));
    }

    #[test]
    fn a_change_ends_the_steps_that_were_to_come() {
        let steps = r#"[{"at_s": 0, "rate_mbps": 10}, {"at_s": 9, "rate_mbps": 1}]"#;
        let mut scenario = scenario(&format!(r#"{{"service": {{"type": "steps", "steps": {steps}}}}}"#));
        scenario.make_changeable().unwrap();
        scenario.change(0, at(3000), &LinkChange { rate: Some(Rate(0)), ..LinkChange::default() });
        assert_eq!(
            scenario.links[0].service,
            ServiceSpec::Steps(vec![(at(0), Rate::from_mbps(10.0)), (at(3000), Rate(0))])
        );
    }

    #[test]
    fn what_cannot_change_is_refused() {
        let refusal = |link: &str, request: &str| {
            let mut scenario = scenario(link);
            scenario
                .make_changeable()
                .map(|()| scenario.refusal(0, &ChangeRequest::parse(request.as_bytes()).unwrap().change))
        };
        let queue = r#""queue": {"type": "droptail", "packets": 100}"#;
        let trace = format!(r#"{{"service": {{"type": "trace", "file": "x"}}, {queue}}}"#);
        assert!(refusal(&trace, r#"{"rate_mbps": 3}"#).unwrap().unwrap().contains("the rate of link \"link0\" is not"));
        assert_eq!(refusal(&trace, r#"{"delay_ms": 3, "loss": 0.1}"#), Ok(None));
        let bursts = r#"{"service": {"type": "constant", "rate_mbps": 9}, "loss": {"type": "slots", "slot_ms": 5, "probability": 0.1}}"#;
        assert!(refusal(bursts, r#"{"loss": 0.1}"#).unwrap().unwrap().contains("is not independent"));
        assert_eq!(refusal(bursts, r#"{"rate_mbps": 0.5}"#), Ok(None));
        let bdp = refusal(r#"{"service": {"type": "trace", "file": "x"}}"#, "{}").unwrap_err();
        assert!(bdp.starts_with("links[0].queue.bdp: expected a limit in packets or bytes"), "{bdp}");
    }

    #[test]
    fn what_is_wrong_with_a_request_is_said() {
        let error = |line: &[u8]| ChangeRequest::parse(line).unwrap_err().to_string();
        assert!(error(br#"{"rate": 3}"#).contains("rate_mbps"));
        assert!(error(br#"{"loss": 1.5}"#).contains("loss"));
        assert!(error(br#"{"delay_ms": -1}"#).contains("delay_ms"));
        assert!(error(br#"{"loss": 0.5, "loss": 0.1}"#).contains("loss"));
        assert!(error(b"[]").contains("object"));
        assert!(error(b"\xff").contains("UTF-8"));
        assert!(!error(b"").is_empty());
        assert_eq!(ChangeRequest::parse(b"{}"), Ok(ChangeRequest::default()));
    }

    proptest! {
        #[test]
        fn any_line_is_read_or_refused(line in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = ChangeRequest::parse(&line);
        }

        #[test]
        fn a_scenario_with_any_changes_reads_back(
            changes in prop::collection::vec(
                (0_u64..4_000_000_000, option::of(0.0..1e6_f64), option::of(0.0..1e5_f64), option::of(0.0..=1.0_f64)), 0..20,
            ),
        ) {
            let mut scenario = scenario(r#"{"service": {"type": "constant", "rate_mbps": 12}}"#);
            scenario.make_changeable().unwrap();
            let mut at = Time::ZERO;
            for (gap, rate_mbps, delay_ms, loss) in changes {
                at = at + Dur(gap);
                let line = json!({"rate_mbps": rate_mbps, "delay_ms": delay_ms, "loss": loss}).to_string();
                let request = ChangeRequest::parse(line.as_bytes()).unwrap();
                prop_assert_eq!(scenario.refusal(0, &request.change), None);
                scenario.change(0, at, &request.change);
                let now = scenario.links[0].in_force(at);
                prop_assert_eq!(request.change.rate.unwrap_or(now.rate.unwrap()), now.rate.unwrap());
                prop_assert_eq!(request.change.delay.unwrap_or(now.delay.unwrap()), now.delay.unwrap());
            }
            let written = scenario.to_json();
            prop_assert_eq!(Scenario::from_json(&written).unwrap().to_json(), written);
        }
    }
}
