//! `ccarena-quic`: the commands of [`USAGE`].

use std::io;
use std::os::fd::AsRawFd;
use std::process::ExitCode;

use ccarena_link::live::{Frames, Inbox};
use ccarena_quic::run::{self, RunError};

const USAGE: &str = "usage: ccarena-quic run";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["run"] => run_scenario(),
        _ => {
            eprintln!("{USAGE}");
            ExitCode::from(2)
        }
    }
}

fn run_scenario() -> ExitCode {
    let out = io::stdout();
    let fd = out.as_raw_fd();
    let mut frames = Frames::new(out, fd);
    let done = Inbox::new().map_err(RunError::from).and_then(|mut inbox| run::run(&mut inbox, &mut frames));
    let Err(error) = done else { return ExitCode::SUCCESS };
    eprintln!("ccarena-quic: {error}");
    if !matches!(error, RunError::Stopped) {
        // If nobody reads, standard error has it.
        let _ = frames.error(error.kind(), &error.to_string());
    }
    ExitCode::FAILURE
}
