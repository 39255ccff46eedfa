//! Parts of a distribution that are written as in a scenario: queues and competing flows.

use ccarena_cc::reader::At;
use ccarena_net::queues::{LIMITS, Limit, LimitRule, QueueSpec};
use ccarena_net::scenario::{Flow, Scenario, read_queue};
use serde::Deserialize;
use serde_json::{Value, json};

/// A queue discipline, as a link's `queue` in a scenario.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(try_from = "Value")]
pub struct Queue {
    spec: QueueSpec,
    /// Flag that the distribution draws its limit: it needs one, and its document names none.
    pub is_sized: bool,
}

impl Queue {
    /// Returns drop-tail whose limit is drawn.
    pub fn droptail() -> Self {
        Self { spec: QueueSpec::default(), is_sized: true }
    }

    /// Returns the queue with the limit `drawn`, unless it has its own.
    pub fn limited(&self, drawn: Option<Limit>) -> QueueSpec {
        let mut queue = self.spec.clone();
        match drawn {
            _ if !self.is_sized => queue,
            None => QueueSpec::infinite(),
            limit => {
                queue.limit = limit;
                queue
            }
        }
    }
}

impl TryFrom<Value> for Queue {
    type Error = String;

    fn try_from(mut value: Value) -> Result<Self, String> {
        let mut is_sized = false;
        let needs_limit =
            |name: &str| ccarena_net::queues::all().any(|d| d.name == name && d.limit == LimitRule::Required);
        if value["type"].as_str().is_some_and(needs_limit) && LIMITS.iter().all(|limit| value[limit.name].is_null()) {
            // Any limit: it is drawn.
            value["bdp"] = json!(1);
            is_sized = true;
        }
        let spec = read_queue(&At { value: &value, path: "link.queues".into() }).map_err(|e| e.to_string())?;
        Ok(Self { spec, is_sized })
    }
}

/// A flow to draw competitors from.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(try_from = "Value")]
pub enum Competitor {
    /// One more learner.
    Own,
    /// A flow of a scenario, as its document says; its name, start and application are drawn.
    Other(Box<Flow>),
}

/// The scheme of a competitor that is one more learner.
const OWN: &str = "self";

impl TryFrom<Value> for Competitor {
    type Error = String;

    fn try_from(value: Value) -> Result<Self, String> {
        let document = match value {
            Value::String(name) if name == OWN => return Ok(Self::Own),
            Value::String(name) => json!({"scheme": name}),
            given => given,
        };
        // The link is a placeholder; only the flow is kept.
        let link = json!({"service": {"type": "constant", "rate_mbps": 1}});
        let whole = json!({"links": [link], "flows": [document]});
        let read =
            Scenario::from_json(&whole).map_err(|e| e.to_string().replacen("flows[0]", "cross_traffic.schemes", 1))?;
        let flow = read.flows.into_iter().next().unwrap_or_default();
        Ok(Self::Other(Box::new(Flow { base_rtt: None, ..flow })))
    }
}
