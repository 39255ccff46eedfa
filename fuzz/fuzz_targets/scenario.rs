//! A scenario is refused, or its normalised document reads back equal and what it asks for can be told.
#![no_main]

use ccarena_net::{Demand, Scenario};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(scenario) = Scenario::parse(text) {
        let demand = Demand::of(&scenario);
        assert!(demand.memory_bytes().is_finite() && demand.packets() >= 0.0);
        assert_eq!(Scenario::from_json(&scenario.to_json()), Ok(scenario));
    }
});
