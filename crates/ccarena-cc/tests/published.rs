//! RemyCCs as their authors published them: look-ups and senders recorded with their code.
//!
//! Neither the rules nor the recordings are part of this repository. The folder in `CCARENA_PUBLISHED_DIR` has them:
//! `remy/vectors.safetensors`, and `remy/RemyCC-NAME.json` for each name below.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that fails panics; clippy.toml exempts test functions, not helpers"
)]
#![expect(clippy::float_cmp, reason = "rules, windows and gaps are those of the recordings to the last bit")]

use std::path::PathBuf;
use std::sync::Arc;

use ccarena_cc::rules::{Memory, Rules};
use ccarena_cc::schemes::remy::Rat;
use safetensors::tensor::{Dtype, SafeTensors};

const NAMES: [&str; 4] = ["2013-delta0.1", "2013-delta1", "2013-delta10", "2014-100x"];

/// Rows of numbers.
struct Table {
    columns: usize,
    data: Vec<f64>,
}

impl Table {
    fn of(file: &SafeTensors<'_>, name: &str) -> Self {
        let tensor = file.tensor(name).unwrap();
        let bytes = tensor.data();
        let data = match tensor.dtype() {
            Dtype::F64 => bytes.chunks_exact(8).map(|b| f64::from_le_bytes(b.try_into().unwrap())).collect(),
            Dtype::I32 => bytes.chunks_exact(4).map(|b| i32::from_le_bytes(b.try_into().unwrap()).into()).collect(),
            other => panic!("{name} is {other:?}"),
        };
        Self { columns: tensor.shape().get(1).copied().unwrap_or(1), data }
    }

    fn rows(&self) -> impl Iterator<Item = &[f64]> {
        self.data.chunks_exact(self.columns)
    }
}

fn folder() -> Option<PathBuf> {
    let folder = std::env::var_os("CCARENA_PUBLISHED_DIR").map(|folder| PathBuf::from(folder).join("remy"));
    let found = folder.filter(|folder| folder.join("vectors.safetensors").is_file());
    if found.is_none() {
        eprintln!("skipped: CCARENA_PUBLISHED_DIR names no folder with remy/vectors.safetensors");
    }
    found
}

fn rules(folder: &std::path::Path, name: &str) -> Rules {
    Rules::parse(&std::fs::read_to_string(folder.join(format!("RemyCC-{name}.json"))).unwrap()).unwrap()
}

/// The axes of the recorded memories are the first four, or all six.
fn memory(row: &[f64]) -> Memory {
    std::array::from_fn(|axis| row.get(axis).copied().unwrap_or(0.0))
}

#[test]
fn every_recorded_look_up_finds_the_rule_that_the_authors_code_found() {
    let Some(folder) = folder() else { return };
    let bytes = std::fs::read(folder.join("vectors.safetensors")).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let mut count = 0;
    for name in NAMES {
        let rules = rules(&folder, name);
        let column = |what: &str| Table::of(&file, &format!("{name}/lookup.{what}"));
        let (leaf, increment, multiple) = (column("leaf"), column("increment"), column("multiple"));
        let (gap, before, after) = (column("intersend"), column("window_before"), column("window_after"));
        for (i, row) in column("memory").rows().enumerate() {
            let rule = rules.find(&memory(row));
            let found = [rule.id as f64, rule.window_increment, rule.window_multiple, rule.intersend_ms];
            assert_eq!(found, [leaf.data[i], increment.data[i], multiple.data[i], gap.data[i]], "{name}: look-up {i}");
            assert_eq!(f64::from(rule.window(before.data[i] as u32)), after.data[i], "{name}: look-up {i}");
            count += 1;
        }
    }
    assert_eq!(count, 3184);
}

#[test]
fn a_sender_that_gets_the_recorded_packets_has_their_memory_window_and_gap() {
    let Some(folder) = folder() else { return };
    let bytes = std::fs::read(folder.join("vectors.safetensors")).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let mut count = 0;
    for name in NAMES {
        let rules = Arc::new(rules(&folder, name));
        for flow in 0..4 {
            let table = |what: &str| Table::of(&file, &format!("{name}/flow{flow}.{what}"));
            let (config, packets) = (table("config"), table("packets"));
            let (decided, memories) = (table("call.leaf_window"), table("call.memory_intersend"));
            let mut rat = Rat::new(Arc::clone(&rules));
            assert_eq!([f64::from(rat.window), rat.gap_ms], config.data[5..7]);
            for (call, (decided, memory)) in decided.rows().zip(memories.rows()).enumerate() {
                for packet in packets.rows().filter(|packet| packet[4] as usize == call) {
                    let ahead = (packet[2] - packet[3]).max(1.0);
                    rat.remembered().received(packet[0], packet[1], ahead);
                }
                let id = rat.decide();
                let place = format!("{name}: flow {flow}, call {call}");
                assert_eq!(
                    [id as f64, f64::from(rat.window), rat.gap_ms],
                    [decided[0], decided[1], memory[6]],
                    "{place}"
                );
                for (found, expected) in rat.remembered().memory().iter().zip(&memory[..6]) {
                    assert!((found - expected).abs() <= 1e-9, "{place}: {found}, recorded {expected}");
                }
                count += 1;
            }
        }
    }
    assert_eq!(count, 2400);
}
