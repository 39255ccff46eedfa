//! A link log is refused, or its events read back equal after it has been written.
#![no_main]

use ccarena_net::log::LinkLog;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(log) = LinkLog::read(bytes, "fuzz") {
        let again = LinkLog::read(&log.write(), "again");
        assert_eq!(again.map(|l| (l.base_timestamp_ms, l.events)), Ok((log.base_timestamp_ms, log.events)));
    }
});
