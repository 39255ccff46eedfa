//! Whole runs by the program itself: real sockets over emulated links. Most take root, and say so loudly without it.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that fails panics; clippy.toml exempts test functions, not helpers"
)]

#[path = "../../ccarena-link/tests/common/real_time.rs"]
mod real_time;

use std::io::{BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::thread;
use std::time::{Duration, SystemTime};

use real_time::real_time;
use serde_json::{Value, json};

/// Runs mostly wait, each in namespaces of its own: they may go on beside each other. Those that compare what the machine
/// does within a percent or a millisecond have it alone.
static MACHINE: RwLock<()> = RwLock::new(());

fn alone() -> RwLockWriteGuard<'static, ()> {
    MACHINE.write().unwrap_or_else(PoisonError::into_inner)
}

fn beside_others() -> RwLockReadGuard<'static, ()> {
    MACHINE.read().unwrap_or_else(PoisonError::into_inner)
}

struct Run {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

/// A frame: its letter and the rest.
type Frame = (u8, Vec<u8>);

impl Run {
    fn start(scenario: &Value, more: &Value) -> Self {
        let mut request = json!({"scenario": scenario});
        request.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let mut child = Command::new(env!("CARGO_BIN_EXE_ccarena-kernel"))
            .arg("run")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut input = child.stdin.take().unwrap();
        input.write_all(format!("{request}\n").as_bytes()).unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self { child, input: Some(input), output }
    }

    fn frame(&mut self) -> Option<Frame> {
        let mut length = [0; 4];
        self.output.read_exact(&mut length).ok()?;
        let mut rest = vec![0; u32::from_le_bytes(length) as usize];
        self.output.read_exact(&mut rest).ok()?;
        Some((rest[0], rest.split_off(1)))
    }

    /// Runs to the end and gives the result; `decide` answers decisions.
    fn finish(mut self, mut decide: impl FnMut(u32) -> Option<f64>) -> Result<Value, String> {
        while let Some((letter, payload)) = self.frame() {
            match letter {
                b'D' => {
                    let flow = u32::from_le_bytes(payload[..4].try_into().unwrap());
                    if let (Some(action), Some(input)) = (decide(flow), &mut self.input) {
                        let mut act = flow.to_le_bytes().to_vec();
                        act.extend(action.to_le_bytes());
                        input.write_all(&act).unwrap();
                    }
                }
                b'R' => {
                    assert!(self.child.wait().unwrap().success());
                    return Ok(serde_json::from_slice(&payload).unwrap());
                }
                b'E' => {
                    assert!(!self.child.wait().unwrap().success());
                    return Err(String::from_utf8(payload).unwrap());
                }
                _ => {}
            }
        }
        Err("no result".into())
    }
}

/// Runs to the end, or says why this machine cannot.
fn result(scenario: &Value, more: &Value) -> Option<Value> {
    match Run::start(scenario, more).finish(|_| Some(2.0)) {
        Ok(result) => Some(result),
        Err(message) if message.contains("\"machine\"") => {
            println!("SKIPPED: this machine cannot run it: {message}");
            None
        }
        Err(message) => panic!("{message}"),
    }
}

fn scenario(flows: &Value, duration_s: f64, more: &Value) -> Value {
    let mut link = json!({"service": {"type": "constant", "rate_mbps": 12}, "delay_ms": 10});
    link.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({"duration_s": duration_s, "links": [link], "flows": flows, "record": {"packets": true, "series": true}})
}

/// The same link for each flow, of its own.
fn apart(mut document: Value) -> Value {
    let link = document["links"][0].clone();
    let flows = document["flows"].as_array_mut().unwrap();
    let mut links = Vec::new();
    for (number, flow) in flows.iter_mut().enumerate() {
        let mut own = link.clone();
        own["name"] = json!(format!("link{number}"));
        flow["path"] = json!([own["name"]]);
        links.push(own);
    }
    document["links"] = Value::Array(links);
    document
}

fn goodput_mbps(result: &Value, flow: usize) -> f64 {
    result["flows"][flow]["delivered_bytes"].as_f64().unwrap() * 8e-6 / result["duration_s"].as_f64().unwrap()
}

fn between(value: f64, low: f64, high: f64) {
    assert!((low..=high).contains(&value), "{value} is not between {low} and {high}");
}

#[test]
fn the_kernels_own_cubic_fills_the_link() {
    real_time(|| {
        let _alone = alone();
        let Some(result) = result(&scenario(&json!([{"scheme": "cubic"}]), 3.0, &json!({})), &json!({})) else {
            return;
        };
        // 11.58 less the handshake, the first round trips and what a loss costs.
        between(goodput_mbps(&result, 0), 11.1, 11.59);
        let (flow, link) = (&result["flows"][0], &result["links"][0]);
        between(flow["rtt_min_ms"].as_f64().unwrap(), 20.0, 23.0);
        assert!(flow["rtt_mean_ms"].as_f64() > flow["rtt_min_ms"].as_f64());
        assert_eq!(flow["retransmitted_packets"], flow["lost_packets"]);
        assert!(link["delivered_packets"].as_u64() <= link["arrived_packets"].as_u64());
        assert_eq!(link["log"]["arrival_ns"], json!({"$array": "links.0.log.arrival_ns"}));
        assert_eq!(flow["series"]["payload_bytes"], json!({"$array": "flows.0.series.payload_bytes"}));
        assert!(result["machine"]["lateness"]["p99_ms"].is_f64());
        assert_eq!(result["machine"]["datapath_cpu_s"], Value::Null);
    });
}

#[test]
fn a_controller_in_user_space_does_as_well() {
    real_time(|| {
        let _alone = alone();
        let flows = json!([{"scheme": "reno"}]);
        let Some(result) = result(&scenario(&flows, 3.0, &json!({})), &json!({"bridge": true})) else { return };
        between(goodput_mbps(&result, 0), 11.0, 11.59);
        let machine = &result["machine"];
        // One for each ACK of mostly two of 3000 packets, in windows as small as these.
        between(machine["reports"].as_f64().unwrap(), 1000.0, 3200.0);
        assert_eq!(machine["dropped_reports"], 0);
        assert!(machine["answer_latency_us"]["p50"].as_f64().unwrap() < 5000.0);
        for who in ["daemon", "datapath"] {
            between(machine[format!("{who}_cpu_s")].as_f64().unwrap(), 1e-4, 1.5);
        }
    });
}

#[test]
fn weights_share_the_link() {
    real_time(|| {
        let _shared = beside_others();
        let flows = json!([{"scheme": "wcc-ai", "weight": 1}, {"scheme": "wcc-ai", "weight": 8}]);
        let Some(result) = result(&scenario(&flows, 10.0, &json!({})), &json!({})) else { return };
        between(goodput_mbps(&result, 0) + goodput_mbps(&result, 1), 10.8, 11.6);
        // Between the root of the weights' ratio, where losses never coincide, and the ratio; wide, as 10 s are few losses.
        between(goodput_mbps(&result, 1) / goodput_mbps(&result, 0), 1.7, 14.0);
    });
}

#[test]
fn acct_hears_the_network_and_its_environment() {
    real_time(|| {
        let _shared = beside_others();
        let mut document = scenario(&json!([{"scheme": "acct"}]), 3.0, &json!({"router": true}));
        document["record"]["reports"] = json!(true);
        let Some(result) = result(&document, &json!({"environment": true})) else { return };
        let flow = &result["flows"][0];
        between(goodput_mbps(&result, 0), 9.5, 11.6);
        between(flow["decisions"].as_f64().unwrap(), 60.0, 200.0);
        assert_eq!(flow["lost_packets"], 0, "it stays below the advertised rate: no queue overflows");
        between(flow["rtt_mean_ms"].as_f64().unwrap(), 20.0, 27.0);
        assert_eq!(flow["reports"]["shape"], json!([flow["decisions"], 16]));
    });
}

#[test]
fn hyvar_leaves_cubic_to_the_kernel_and_hears_of_it_once_per_period() {
    real_time(|| {
        let _alone = alone();
        let run = |flows: Value, more: &Value| {
            let link = json!({"service": {"type": "constant", "rate_mbps": 48}, "delay_ms": 15,
                          "queue": {"type": "droptail", "packets": 120}});
            let mut document = apart(scenario(&flows, 5.0, &link));
            document["record"]["reports"] = json!(true);
            result(&document, more)
        };
        let flows = json!([{"scheme": "hyvar", "policy": {"constant": 0.0}}, {"scheme": "cubic"}]);
        let Some(still) = run(flows, &json!({})) else { return };
        // 2^0 is CUBIC.
        let cubic_mbps = goodput_mbps(&still, 1);
        between(goodput_mbps(&still, 0) / cubic_mbps, 0.97, 1.03);
        let rtt_ms = |flow: usize| still["flows"][flow]["rtt_mean_ms"].as_f64().unwrap();
        between(rtt_ms(0) / rtt_ms(1), 0.9, 1.1);
        // CUBIC keeps a queue here: case 4, periods of 10 ms and an ACK.
        between(still["machine"]["reports"].as_f64().unwrap() / 5.0, 75.0, 105.0);
        let Some(result) = run(json!([{"scheme": "hyvar", "policy": {"constant": -0.1}}]), &json!({})) else { return };
        between(goodput_mbps(&result, 0) / cubic_mbps, 0.95, 1.02);
        let flow = &result["flows"][0];
        assert_eq!(flow["lost_packets"], 0, "it keeps the queue short");
        between(flow["rtt_mean_ms"].as_f64().unwrap(), 30.0, 40.0);
        let (decisions, reports) =
            (flow["decisions"].as_f64().unwrap(), result["machine"]["reports"].as_f64().unwrap());
        assert!(decisions > 5.0 && decisions < reports / 2.0, "{decisions} of {reports} reports");
        // Besides a question, the socket's beginning and its end wake the daemon.
        between(result["machine"]["wakeups"].as_f64().unwrap(), decisions / 2.0, decisions + 3.0);
        assert_eq!(flow["reports"]["shape"], json!([decisions as u64, 20]));
    });
}

#[test]
fn reports_that_wake_nobody_delay_no_others() {
    real_time(|| {
        let _alone = alone();
        // With its queue Vegas keeps Hyvar, which is never asked, reporting.
        let never = json!({"learn_3": 0, "learn_4": 0});
        let quiet = json!({"scheme": "hyvar", "params": never, "policy": {"constant": 0.0}});
        let flows = json!([{"scheme": "vegas"}, quiet.clone(), quiet]);
        let Some(result) = result(&scenario(&flows, 2.0, &json!({})), &json!({})) else { return };
        let machine = &result["machine"];
        assert_eq!(result["flows"][1]["decisions"], 0);
        assert_eq!((&machine["dropped_reports"], &machine["fallback_reports"]), (&json!(0), &json!(0)));
        assert!(machine["answer_latency_us"]["p99"].as_f64().unwrap() < 20_000.0, "{machine}");
    });
}

#[test]
fn applications_send_what_they_say() {
    real_time(|| {
        let _shared = beside_others();
        let flows = json!([
            {"scheme": "cubic", "app": {"type": "cbr", "rate_mbps": 2}, "stop_s": 2},
            {"scheme": "cubic", "app": {"type": "transfers", "sizes_bytes": [20000, 50000], "gap_s": 0.5}},
            {"scheme": "cubic", "app": {"type": "capped", "rate_mbps": 1, "slot_ms": 100}, "start_s": 1, "delayed_ack": false},
        ]);
        let Some(result) = result(&scenario(&flows, 3.0, &json!({})), &json!({})) else { return };
        between(goodput_mbps(&result, 0), 1.2, 1.34);
        between(goodput_mbps(&result, 2), 0.55, 0.68);
        let took: Vec<f64> =
            result["flows"][1]["completion_s"].as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect();
        assert_eq!((took.len(), &result["flows"][1]["delivered_bytes"]), (2, &json!(70000)));
        // Two round trips after the handshake, which does not count; 50 kB are 33 ms on the link.
        between(took[0], 0.04, 0.2);
        between(took[1], 0.04, 0.2);
    });
}

#[test]
fn a_receivers_window_and_ecn_count() {
    real_time(|| {
        let _shared = beside_others();
        let window = json!([{"scheme": "reno", "receive_window_packets": 10}]);
        let Some(limited) = result(&scenario(&window, 3.0, &json!({})), &json!({})) else { return };
        // 5.8 by 10 segments per round trip; the first window is larger.
        between(goodput_mbps(&limited, 0), 5.0, 7.5);
        let marking = json!({"queue": {"type": "codel", "packets": 400, "ecn": true}});
        let flows = json!([{"scheme": "reno", "ecn": true}]);
        let Some(marked) = result(&scenario(&flows, 3.0, &marking), &json!({"bridge": true})) else { return };
        between(goodput_mbps(&marked, 0), 9.0, 11.6);
        let flow = &marked["flows"][0];
        assert!(flow["ecn_reductions"].as_u64() > Some(1) && flow["lost_packets"] == 0, "{flow}");
    });
}

/// An outage of 0.7 s: the kernel's least timeout of 200 ms expires in it, one of a second does not.
#[test]
fn the_least_timeout_is_the_scenarios() {
    real_time(|| {
        let _shared = beside_others();
        let outage = json!({"service": {"type": "steps", "steps": [
        {"at_s": 0, "rate_mbps": 12}, {"at_s": 1, "rate_mbps": 0}, {"at_s": 1.7, "rate_mbps": 12}]}});
        for (min_rto_ms, expected) in [(200, 1..=9), (1000, 0..=0)] {
            let flows = json!([{"scheme": "cubic", "min_rto_ms": min_rto_ms}]);
            let Some(result) = result(&scenario(&flows, 3.0, &outage), &json!({})) else { return };
            let timeouts = result["flows"][0]["timeouts"].as_u64().unwrap();
            assert!(expected.contains(&timeouts), "{timeouts} timeouts at {min_rto_ms} ms");
        }
    });
}

#[test]
fn what_cannot_be_run_is_refused_by_name() {
    let error = |flows: Value| {
        let document = scenario(&flows, 1.0, &json!({}));
        let message = Run::start(&document, &json!({})).finish(|_| None).unwrap_err();
        let error: Value = serde_json::from_str(&message).unwrap();
        (error["kind"].as_str().unwrap().to_owned(), error["message"].as_str().unwrap().to_owned())
    };
    let (kind, message) = error(json!([{"scheme": "cubic", "ack_bytes": 40}]));
    assert_eq!((kind.as_str(), message.starts_with("flows[0].ack_bytes: got 40")), ("scenario", true), "{message}");
    let (kind, message) = error(json!([{"scheme": "acct"}]));
    assert_eq!((kind.as_str(), message.starts_with("flows[0].policy: missing")), ("policy", true), "{message}");
    let (kind, message) = error(json!([{"scheme": "cubik"}]));
    assert_eq!((kind.as_str(), message.contains("did you mean \"cubic\"")), ("scenario", true), "{message}");
}

#[test]
fn the_end_of_the_input_ends_the_run() {
    real_time(|| {
        let _shared = beside_others();
        let flows = json!([{"scheme": "reno"}]);
        let mut run = Run::start(&scenario(&flows, 60.0, &json!({})), &json!({"bridge": true}));
        let Some((b'S', _)) = run.frame() else {
            println!("SKIPPED: this machine cannot run it");
            return;
        };
        thread::sleep(Duration::from_millis(500));
        drop(run.input.take());
        #[expect(clippy::disallowed_methods, reason = "the test waits in real time")]
        let begun = SystemTime::now();
        let status = run.child.wait().unwrap();
        assert!(!status.success());
        assert!(begun.elapsed().unwrap() < Duration::from_secs(1));
        assert!(run.frame().is_none(), "no result of half a run");
    });
}
