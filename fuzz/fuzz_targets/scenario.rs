//! A scenario is refused, or its normalised document reads back equal.
#![no_main]

use ccarena_net::Scenario;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(scenario) = Scenario::parse(text) {
        assert_eq!(Scenario::from_json(&scenario.to_json()), Ok(scenario));
    }
});
