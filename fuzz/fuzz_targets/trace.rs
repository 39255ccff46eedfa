//! A trace is refused, or reads back equal after it has been written.
#![no_main]

use ccarena_net::Trace;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(trace) = Trace::read(bytes, "fuzz") {
        assert_eq!(Trace::read(&trace.write(), "again"), Ok(trace));
    }
});
