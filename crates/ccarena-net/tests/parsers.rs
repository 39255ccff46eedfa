//! The parsers over thousands of seeded random and mutated inputs: whatever comes in, they answer with a value or an
//! error that names the input, and what they accept reads back equal. The fuzz targets run the same properties without end.

use ccarena_net::log::LinkLog;
use ccarena_net::rng::{Purpose, Stream};
use ccarena_net::{Scenario, Trace};
use serde_json::{Value, json};

const ROUNDS: u64 = 4_000;

const TRACE: &[u8] = b"0\n1\n1\n5\n17\n1000\n4294967295\n";
const LOG: &[u8] = b"# queue: infinite\n# base timestamp: 12\n12 # 1504\n13 + 1504\n20 - 1504 7\n21 d 2 3008\n";
const SCENARIO: &[u8] = br#"{"version": 1, "duration_s": 30, "seed": 1,
"links": [{"name": "a", "service": {"type": "steps", "steps": [{"at_s": 0, "rate_mbps": 4.8e1}]}, "queue": {"type": "droptail",
"bdp": 1.5}, "delay_ms": 10, "loss": 0.0, "router": {"headroom": 1.0}}], "flows": [{"scheme": "cubic", "path": ["a"],
"app": {"type": "transfers", "sizes_bytes": [1000, 2000]}, "desired_mbps": 100, "count": 2}], "record": {"packets": false}}"#;

/// `seed`'s variant of a valid input: bytes changed, removed, repeated, cut; now and then noise alone.
fn mutate(valid: &[u8], seed: u64) -> Vec<u8> {
    const TOKENS: &[&[u8]] =
        &[b"\n", b"\r\n", b"-", b"0", b"99999999999999999999", b"1e308", b"null", b"\0", b"\xff", b"{", b"]", b" "];
    let mut random = Stream::new(seed, Purpose::Domain, 0);
    let mut pick = |n: usize| random.below(n as u64) as usize;
    if pick(10) == 0 {
        return (0..pick(200)).map(|_| pick(256) as u8).collect();
    }
    let mut bytes = valid.to_vec();
    for _ in 0..=pick(4) {
        let at = pick(bytes.len() + 1).min(bytes.len().saturating_sub(1));
        match pick(5) {
            _ if bytes.is_empty() => break,
            0 => bytes[at] = pick(256) as u8,
            1 => drop(bytes.remove(at)),
            2 => bytes.truncate(at),
            3 => bytes.extend_from_within(at..),
            _ => drop(bytes.splice(at..at, TOKENS[pick(TOKENS.len())].iter().copied())),
        }
    }
    bytes
}

#[test]
fn traces() {
    let mut accepted = 0;
    for seed in 0..ROUNDS {
        match Trace::read(&mutate(TRACE, seed), "a.trace") {
            Ok(trace) => {
                accepted += 1;
                assert!(trace.duration_ms() > 0);
                assert_eq!(Trace::read(&trace.write(), "again").as_ref(), Ok(&trace), "seed {seed}");
            }
            Err(e) => assert!(e.to_string().starts_with("a.trace:"), "seed {seed}: {e}"),
        }
    }
    assert!((ROUNDS / 50..ROUNDS * 9 / 10).contains(&accepted), "both ways are exercised: {accepted}");
}

#[test]
fn logs() {
    let mut accepted = 0;
    for seed in 0..ROUNDS {
        match LinkLog::read(&mutate(LOG, seed), "a.log") {
            Ok(log) => {
                accepted += 1;
                let again = LinkLog::read(&log.write(), "again").unwrap();
                assert_eq!((again.base_timestamp_ms, again.events), (log.base_timestamp_ms, log.events), "seed {seed}");
            }
            Err(e) => assert!(e.to_string().starts_with("a.log:"), "seed {seed}: {e}"),
        }
    }
    assert!((ROUNDS / 50..ROUNDS * 9 / 10).contains(&accepted), "both ways are exercised: {accepted}");
}

/// `seed`'s variant of a valid document: one of its values replaced by another.
fn mutate_value(mut document: Value, seed: u64) -> Value {
    fn pointers(value: &Value, at: &str, out: &mut Vec<String>) {
        out.push(at.into());
        match value {
            Value::Object(map) => map.iter().for_each(|(k, v)| pointers(v, &format!("{at}/{k}"), out)),
            Value::Array(list) => list.iter().enumerate().for_each(|(i, v)| pointers(v, &format!("{at}/{i}"), out)),
            _ => {}
        }
    }
    let values =
        [json!(null), json!(0), json!(-1), json!(2.5), json!(1e300), json!(true), json!("a"), json!([]), json!({})];
    let mut all = Vec::new();
    pointers(&document, "", &mut all);
    let mut random = Stream::new(seed, Purpose::Domain, 1);
    let at = &all[random.below(all.len() as u64) as usize];
    if let Some(value) = document.pointer_mut(at) {
        *value = values[random.below(values.len() as u64) as usize].clone();
    }
    document
}

#[test]
fn scenarios() {
    let valid: Value = serde_json::from_slice(SCENARIO).unwrap();
    let mut accepted = 0;
    for seed in 0..ROUNDS {
        let text = match seed % 2 {
            0 => String::from_utf8_lossy(&mutate(SCENARIO, seed)).into_owned(),
            _ => mutate_value(valid.clone(), seed).to_string(),
        };
        match Scenario::parse(&text) {
            Ok(scenario) => {
                accepted += 1;
                assert_eq!(Scenario::from_json(&scenario.to_json()).as_ref(), Ok(&scenario), "seed {seed}");
            }
            Err(e) => assert!(e.to_string().contains(": "), "seed {seed}: {e}"),
        }
    }
    assert!((ROUNDS / 50..ROUNDS * 9 / 10).contains(&accepted), "both ways are exercised: {accepted}");
}
