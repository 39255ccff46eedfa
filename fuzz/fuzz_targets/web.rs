//! A scenario with files, as a page gives them, is refused with a message, or runs in steps within its limits.
#![no_main]

use std::collections::BTreeMap;

use ccarena_net::Limits;
use ccarena_web::{Options, Run};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (&str, [&[u8]; 3], f64)| {
    let (text, files, at) = input;
    let given: BTreeMap<String, Vec<u8>> = ["a", "b", "c"].iter().map(ToString::to_string).zip(files.map(Vec::from)).collect();
    let limits = Limits { memory_bytes: 1e8, packets: 1e5 };
    match Run::within(text, given, Options { seed: None, packets: true }, limits) {
        Err(problem) => assert!(!problem.message.is_empty()),
        Ok(mut run) => {
            // A run may be longer than an input may take.
            let until = if at.is_finite() { at.abs() % 0.01 } else { 0.0 };
            run.advance(until).expect("a number");
            assert!(run.series().iter().all(|column| column.values.len() <= 6000));
            run.packets(at).expect("packets are recorded");
        }
    }
});
