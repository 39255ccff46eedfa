//! For tests that measure in real time.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::thread;
use std::time::Duration;

/// Runs `test` until it passes, four times at most: a machine that others use, too, is now and then too late for what the
/// test says of rates and times. A fault of ours fails each time.
pub fn real_time(test: impl Fn()) {
    for _ in 0..3 {
        if catch_unwind(AssertUnwindSafe(&test)).is_ok() {
            return;
        }
        let name = thread::current().name().unwrap_or("test").to_owned();
        eprintln!("AGAIN {name}: this machine may have been too busy");
        thread::sleep(Duration::from_secs(1));
    }
    if let Err(panic) = catch_unwind(AssertUnwindSafe(&test)) {
        resume_unwind(panic);
    }
}
