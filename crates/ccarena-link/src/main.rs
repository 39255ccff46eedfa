//! `ccarena-link`: mahimahi's shells on ccarena's links.

use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<_> = std::env::args_os().collect();
    ExitCode::from(ccarena_link::shells::main(&words))
}
