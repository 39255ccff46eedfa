//! A trace is refused, or reads back equal after it has been written. A conditions trace is refused or within its bounds.
#![no_main]

use ccarena_net::Trace;
use ccarena_net::conditions::Conditions;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(trace) = Trace::read(bytes, "fuzz") {
        assert_eq!(Trace::read(&trace.write(), "again"), Ok(trace));
    }
    if let Ok(conditions) = Conditions::read(bytes, "fuzz") {
        assert!(conditions.losses.is_none_or(|losses| losses.values().all(|loss| (0.0..=1.0).contains(&loss))));
        assert!(conditions.rates.is_none_or(|rates| rates.values().any(|rate| rate.0 > 0)));
        assert!(conditions.delays.is_none_or(|delays| delays.values().next().is_some()));
    }
});
