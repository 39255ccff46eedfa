//! A rule file is refused, or every memory finds a rule whose window is within bounds.
#![no_main]

use ccarena_cc::rules::Rules;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(rules) = Rules::parse(text) {
        for edge in [0.0, 0.5, 1.0, 20.0, 16_383.9, 1e9, f64::MAX] {
            let rule = rules.find(&[edge, 0.0, edge, 1.0, edge, 0.0]);
            assert!(rule.window(1_000_000) <= 1_000_000 && rule.intersend_ms >= 0.0);
        }
    }
});
