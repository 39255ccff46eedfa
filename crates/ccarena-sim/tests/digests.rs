//! The same seed gives the same bytes, from one version of the simulator to the next: each of many schemes with every queue
//! discipline, on paths, with applications and transport options that are drawn for each.
//!
//! A change of the model records them anew and says which fix changed them; one that is to be faster changes none:
//! `CCARENA_WRITE_GOLDEN=1 cargo test -p ccarena-sim --test digests`.

mod common;

use std::collections::BTreeMap;
use std::path::Path;

use ccarena_cc::all_schemes;
use ccarena_net::queues::{Kind, LimitRule};
use common::{digest, fingerprint, next, run};
use serde_json::{Value, json};

/// Draws of everything else, per scheme and discipline.
const ROUNDS: u64 = 2;

/// The schemes, competitors among them: a list of its own, so that a new scheme changes no recorded run.
const SCHEMES: [&str; 20] = [
    "acct",
    "aurora",
    "bbr",
    "bbr3",
    "copa",
    "cubic",
    "ewtcp",
    "fixed",
    "hercules",
    "hyvar",
    "illinois",
    "ledbat",
    "multcp",
    "orca",
    "reno",
    "vegas",
    "vivace",
    "vivace-hercules",
    "wcc-ai",
    "wcc-md",
];

/// Pseudo-random choices, the same everywhere.
struct Draw(u64);

impl Draw {
    fn one<T: Clone>(&mut self, of: &[T]) -> T {
        of[(next(&mut self.0) % of.len() as u64) as usize].clone()
    }

    fn chance(&mut self, percent: u64) -> bool {
        next(&mut self.0) % 100 < percent
    }

    fn service(&mut self) -> Value {
        let rate_mbps = self.one(&[2.0, 8.0, 12.0, 30.0]);
        self.one(&[
            json!({"type": "constant", "rate_mbps": rate_mbps}),
            json!({"type": "random_steps", "min_mbps": 1, "max_mbps": rate_mbps, "period_s": 0.4}),
            json!({"type": "steps", "steps": [{"at_s": 0, "rate_mbps": rate_mbps}, {"at_s": 1, "rate_mbps": 0},
                {"at_s": 1.5, "rate_mbps": 5}]}),
            // Several packets leave in one millisecond: what happens at the same time has an order.
            json!({"type": "cellular", "preset": "lte-driving", "seed": 7}),
        ])
    }

    fn link(&mut self, queue: &Value) -> Value {
        let mut link = json!({"service": self.service(), "queue": queue, "delay_ms": self.one(&[0, 5, 10, 30])});
        if self.chance(20) {
            link["loss"] = json!(0.02);
        }
        if self.chance(15) {
            link["jitter_ms"] = json!(1.5);
        }
        if self.chance(15) {
            link["wakes_ms"] = json!(1);
        }
        if self.chance(10) {
            link["outages"] = json!({"on_s": 1, "off_s": 0.1});
        }
        if self.chance(20) {
            link["router"] = json!(true);
        }
        link
    }

    fn app(&mut self) -> Value {
        let bulk = json!({"type": "bulk"});
        self.one(&[
            bulk.clone(),
            bulk.clone(),
            bulk,
            json!({"type": "cbr", "rate_mbps": 3}),
            json!({"type": "onoff", "rate_mbps": 6, "on_s": 0.4, "off_s": 0.5}),
            json!({"type": "capped", "rate_mbps": 4, "slot_ms": 50}),
            json!({"type": "transfers", "sizes_bytes": [20_000, 300_000, 1000], "gap_s": 0.5}),
        ])
    }

    /// What a flow is besides its scheme.
    fn flow(&mut self) -> Value {
        let (path, back) = self.one(&[
            (vec!["link0"], vec![]),
            (vec!["link0"], vec![]),
            (vec!["link0", "link1"], vec![]),
            (vec!["link0"], vec!["link2"]),
            (vec!["link1", "link0"], vec!["link2", "link1"]),
        ]);
        let mut flow = json!({"path": path, "return_path": back, "app": self.app(),
            "start_s": self.one(&[0.0, 0.0, 0.3]), "initial_window": self.one(&[1, 10, 40])});
        if back.is_empty() && self.chance(30) {
            flow["base_rtt_ms"] = json!(130);
        }
        if self.chance(15) {
            flow["stop_s"] = json!(2);
        }
        if self.chance(30) {
            flow["ecn"] = json!(true);
        }
        if self.chance(20) {
            flow["slow_start"] = json!(false);
        }
        if self.chance(15) {
            flow["min_rto_ms"] = json!(30);
        }
        if self.chance(15) {
            flow["receive_window_packets"] = json!(30);
        }
        match next(&mut self.0) % 8 {
            0 => flow["sack"] = json!(false),
            1 | 2 => flow["delayed_ack"] = json!(false),
            3 => flow["ack_policy"] = json!({"type": "quic"}),
            4 => flow["burst_bytes"] = json!(20_000),
            _ => {}
        }
        flow
    }
}

/// A discipline as it is, marking, or as mahimahi has it.
fn queues() -> Vec<Value> {
    let mut queues = Vec::new();
    for discipline in Kind::ALL.iter().map(|kind| kind.discipline()) {
        let mut queue = json!({"type": discipline.name});
        if discipline.limit != LimitRule::Unlimited {
            queue["packets"] = json!(40);
        }
        queues.push(queue.clone());
        if discipline.mahimahi {
            queue["compat"] = json!("mahimahi");
            queues.push(queue);
        } else if discipline.params.iter().any(|p| p.name == "ecn") {
            queue["ecn"] = json!(true);
            queues.push(queue);
        }
    }
    queues
}

fn document(scheme: &'static str, queue: &Value, draw: &mut Draw) -> Value {
    let links: Vec<Value> = (0..3).map(|_| draw.link(queue)).collect();
    let others = draw.one(&[0, 1, 1, 2, 6]);
    let flows: Vec<Value> = (0..=others)
        .map(|i| {
            let scheme = if i == 0 { scheme } else { draw.one(&SCHEMES) };
            let mut flow = draw.flow();
            flow["scheme"] = json!(scheme);
            if all_schemes().iter().any(|s| s.name == scheme && s.learned) {
                flow["policy"] = json!({"constant": if scheme == "acct" { 3.0 } else { -0.2 }});
            }
            flow
        })
        .collect();
    json!({"duration_s": 3, "seed": draw.0 >> 16, "links": links, "flows": flows, "record": {"packets": true}})
}

#[test]
fn the_same_seed_gives_the_bytes_that_it_gave() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/digests.json");
    let (mut found, mut documents) = (BTreeMap::new(), BTreeMap::new());
    for scheme in SCHEMES {
        for queue in queues() {
            for round in 0..ROUNDS {
                let name = format!("{scheme} {queue} {round}");
                let document = document(scheme, &queue, &mut Draw(digest(name.bytes())));
                let hash = digest(fingerprint(run(&document, u64::MAX)).into_bytes());
                found.insert(name.clone(), format!("{hash:016x}"));
                documents.insert(name, document);
            }
        }
    }
    if std::env::var_os("CCARENA_WRITE_GOLDEN").is_some() {
        std::fs::write(&file, serde_json::to_string_pretty(&found).unwrap() + "\n").unwrap();
    }
    let golden: BTreeMap<String, String> = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    assert_eq!(found.keys().collect::<Vec<_>>(), golden.keys().collect::<Vec<_>>());
    for (name, hash) in &found {
        assert_eq!(hash, &golden[name], "{name}: {}", documents[name]);
    }
}
