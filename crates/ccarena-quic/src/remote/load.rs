//! Load of a run that the server sends: the scenario, and the files that it names.
//!
//! A line of JSON, then the contents of the files, one after the other. The server reads no file of its own for it, and
//! runs no code that comes with it: policies and rules are numbers for controllers that the server has.

use std::collections::BTreeMap;
use std::path::Path;

use ccarena_cc::bounded::{self, LARGEST_POLICY_BYTES, Store};
use ccarena_cc::{Backend, BindError, Policies, PolicySpec};
use ccarena_net::scenario::{Flow, Foreign};
use ccarena_net::{Ecn, Scenario};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::message::{MOST_FLOWS, TcpFlow};
use super::tcp;
use crate::run::{Plan, RunError, plan_flow};

/// Longest load, in bytes.
pub const LARGEST: usize = 64 << 20;

/// First line of a load.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Head {
    /// Scenario document.
    scenario: Value,
    /// Files in their order: name and length in bytes.
    files: Vec<(String, usize)>,
}

/// Returns the load of `scenario`, which was read from `document`.
///
/// # Errors
/// If a flow's controller is code, a file cannot be read, or the load is too long.
pub fn write(document: &Value, scenario: &Scenario) -> Result<Vec<u8>, RunError> {
    check(scenario)?;
    let mut files = BTreeMap::new();
    for (index, flow) in scenario.flows.iter().enumerate() {
        let Some(PolicySpec::Artifact(file) | PolicySpec::Integer(file) | PolicySpec::Rules(file)) = &flow.policy
        else {
            continue;
        };
        let bytes = bounded::read(Path::new(file), LARGEST_POLICY_BYTES).map_err(|source| RunError::Policy {
            flow: index,
            source: BindError::Read { file: file.into(), source },
        })?;
        files.insert(file.clone(), bytes);
    }
    let sizes = files.iter().map(|(name, bytes)| (name.clone(), bytes.len())).collect();
    let head = Head { scenario: document.clone(), files: sizes };
    let mut load = super::message::line(&head);
    load.extend(files.into_values().flatten());
    if load.len() > LARGEST {
        let problem = format!(
            "scenario and policies have {} bytes; expected at most {LARGEST} for a server that sends",
            load.len()
        );
        return Err(RunError::Unsupported { path: "flows".into(), problem });
    }
    Ok(load)
}

/// Refuses code.
fn check(scenario: &Scenario) -> Result<(), RunError> {
    let Some(index) = scenario.flows.iter().position(|flow| flow.own.is_some()) else { return Ok(()) };
    let problem = "expected none: a server runs no code that a client sends; leave --reverse out, so that this machine \
                   sends, and run `ccarena remote serve` on the one that receives";
    Err(RunError::Unsupported { path: format!("flows[{index}].controller"), problem: problem.into() })
}

/// Run that the server sends.
#[derive(Debug)]
pub struct Load {
    /// Scenario of the run.
    pub scenario: Scenario,
    /// Plan of each flow.
    pub plans: Vec<Plan>,
    /// Policies and rules that came with it.
    pub policies: Policies,
}

impl Load {
    /// Reads a load.
    ///
    /// # Errors
    /// If it is none, or its scenario cannot be sent from here.
    pub fn read(bytes: &[u8]) -> Result<Self, RunError> {
        let wrong =
            |why: String| RunError::Request(format!("{why}; expected the load of `ccarena remote run --reverse`"));
        let end = bytes.iter().position(|&byte| byte == b'\n').ok_or_else(|| wrong("no first line".into()))?;
        let (head, mut rest) = (&bytes[..end], &bytes[end + 1..]);
        let Head { scenario, files } = serde_json::from_slice(head).map_err(|e| wrong(e.to_string()))?;
        let mut contents = BTreeMap::new();
        for (name, length) in files {
            let (content, others) = rest.split_at_checked(length).ok_or_else(|| wrong(format!("{name}: cut short")))?;
            contents.insert(name, content.to_vec());
            rest = others;
        }
        if !rest.is_empty() {
            return Err(wrong(format!("{} bytes too many", rest.len())));
        }
        let scenario = Scenario::from_json(&scenario)?;
        // Nothing else is read: what the scenario names and did not come is refused.
        let policies = Policies::in_store(Store::of(contents), Backend::Quic);
        check(&scenario)?;
        let plans = plans(&scenario, &policies)?;
        tcp::check_here(&scenario)?;
        Ok(Self { scenario, plans, policies })
    }

    /// Flows of the kernel's TCP.
    #[must_use]
    pub fn tcp(&self) -> Vec<TcpFlow> {
        tcp_flows(&self.scenario)
    }
}

/// Flows of `scenario` that are the kernel's TCP.
#[must_use]
pub fn tcp_flows(scenario: &Scenario) -> Vec<TcpFlow> {
    let flows = scenario.flows.iter().enumerate().filter(|(_, flow)| tcp::control(flow).is_some());
    flows.map(|(index, flow)| TcpFlow { flow: index, start_ns: flow.start.0 }).collect()
}

/// Plans the flows of `scenario` over a real path.
///
/// # Errors
/// If a real path cannot carry one.
pub fn plans(scenario: &Scenario, policies: &Policies) -> Result<Vec<Plan>, RunError> {
    fn refuse<T>(path: String, problem: &str) -> Result<T, RunError> {
        Err(RunError::Unsupported { path, problem: problem.into() })
    }
    if scenario.flows.len() > MOST_FLOWS {
        return refuse("flows".into(), &format!("got {}; expected at most {MOST_FLOWS}", scenario.flows.len()));
    }
    let plan = |(index, flow): (usize, &Flow)| match &flow.foreign {
        None => plan_flow(scenario, index, policies),
        Some(Foreign::Kernel { .. }) => tcp::check(scenario, index).map(|()| Plan::absent(scenario, index)),
        Some(_) => refuse(
            format!("flows[{index}].foreign"),
            "expected a congestion control of the kernel, or none: programs of others stay on this machine",
        ),
    };
    let plans = scenario.flows.iter().enumerate().map(plan).collect::<Result<Vec<_>, _>>()?;
    match plans.iter().position(|plan| plan.ecn == Ecn::Ect1) {
        Some(index) => {
            refuse(format!("flows[{index}].ecn"), "expected true or false: the server counts marks of ECT(0)")
        }
        None => Ok(plans),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    const POLICY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../ccarena/hyvar/policies/hyvar.safetensors");

    fn document(flow: &Value) -> Value {
        let link = json!({"name": "path", "service": {"type": "constant", "rate_mbps": 1000}});
        json!({"duration_s": 2, "links": [link], "flows": [flow]})
    }

    fn written(flow: &Value) -> Result<Vec<u8>, String> {
        let document = document(flow);
        let scenario = Scenario::from_json(&document).unwrap();
        write(&document, &scenario).map_err(|e| e.to_string())
    }

    fn refusal(bytes: &[u8]) -> String {
        Load::read(bytes).unwrap_err().to_string()
    }

    #[test]
    fn a_load_has_the_policies_that_its_flows_name() {
        let load = Load::read(&written(&json!({"scheme": "hyvar", "policy": POLICY})).unwrap()).unwrap();
        assert_eq!((load.plans.len(), load.scenario.duration.as_secs_f64()), (1, 2.0));
        assert!(load.plans[0].driver(0, &load.scenario.flows[0], &load.policies, false).is_ok());
        // Without them nothing is read here.
        let head = json!({"scenario": document(&json!({"scheme": "hyvar", "policy": POLICY})), "files": []});
        assert!(refusal(&super::super::message::line(&head)).contains("no file of this name was given; none was"));
    }

    #[test]
    fn what_is_no_load_is_refused() {
        let plain = written(&json!({"scheme": "cubic"})).unwrap();
        assert!(Load::read(&plain).is_ok());
        assert!(refusal(&plain[..plain.len() - 1]).contains("no first line"));
        assert!(refusal(&[&plain[..], b"x"].concat()).contains("1 bytes too many"));
        assert!(refusal(b"{}\n").contains("missing field `scenario`"));
        assert!(refusal(b"{\"scenario\": {}, \"files\": [[\"a\", 9]]}\n").contains("a: cut short"));
        let module = json!({"scheme": "mine", "controller": {"type": "wasm", "module": "mine.wasm"}});
        assert!(written(&module).unwrap_err().contains("flows[0].controller: expected none: a server runs no code"));
        let head = json!({"scenario": document(&module), "files": []});
        assert!(refusal(&super::super::message::line(&head)).contains("a server runs no code"));
        let foreign = |foreign: Value| written(&json!({"scheme": "other", "foreign": foreign})).unwrap();
        let program = json!({"type": "command", "sender": ["a"], "receiver": ["b"]});
        assert!(refusal(&foreign(program)).contains("flows[0].foreign: expected a congestion control of the kernel"));
        let unknown = json!({"type": "kernel", "name": "nosuchcontrol"});
        assert!(refusal(&foreign(unknown)).contains("the sender's kernel has no congestion control \"nosuchcontrol\""));
        let load = Load::read(&foreign(json!({"type": "kernel", "name": "reno"}))).unwrap();
        assert_eq!(load.tcp(), [TcpFlow { flow: 0, start_ns: 0 }]);
    }

    proptest! {
        #[test]
        fn nothing_makes_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), cut in 0_usize..400, new: u8) {
            let _ = Load::read(&bytes);
            let mut load = written(&json!({"scheme": "cubic"})).unwrap();
            let at = cut % load.len();
            load[at] = new;
            let _ = Load::read(&load);
        }
    }
}
