//! Mahimahi's shells, and `emulate` for any scenario: a command, behind links.
//!
//! A shell is three processes: the emulator, a [`keeper`], and the command. The command runs in a network namespace whose
//! only way out is a TUN device; the emulator carries packets between it and a device outside ([`ends`]).

mod address;
mod arguments;
mod buffers;
mod connections;
mod control;
mod ends;
mod enlarged;
mod keeper;
mod log;
mod nat;
mod place;
mod plan;
mod queue;
mod run;
mod signals;
mod summary;

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use ccarena_net::{ScenarioError, ServiceError, TraceError};

use crate::error::LinkError;
use arguments::ArgumentError;

/// Statuses of a command that did not run, as shells have them.
const CANNOT_RUN: u8 = 126;
const NOT_FOUND: u8 = 127;

/// The environment variable with the address of the outermost shell's outer end.
const BASE: &str = "MAHIMAHI_BASE";

/// The environment variable with its IPv6 address; unset where there is none.
const BASE6: &str = "CCARENA_BASE6";

/// The environment variable with what enclosing shells put before the prompt.
const PREFIX: &str = "MAHIMAHI_SHELL_PREFIX";

/// The environment variables with the addresses of a scenario's flows, less their numbers.
const SENDER: &str = "CCARENA_SENDER_";
const RECEIVER: &str = "CCARENA_RECEIVER_";
const SENDER6: &str = "CCARENA_SENDER6_";
const RECEIVER6: &str = "CCARENA_RECEIVER6_";

/// Error that stops a shell before its command runs.
#[derive(Debug, thiserror::Error)]
enum ShellError {
    /// The line is wrong, or asks for help.
    #[error(transparent)]
    Arguments(#[from] ArgumentError),
    /// A trace is missing or bad.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// A conditions trace lacks the column that an option takes.
    #[error("{}: the trace has no column {name}; expected the columns time_ms and {name}", path.display())]
    Column {
        /// The file.
        path: PathBuf,
        /// Name of the column.
        name: &'static str,
    },
    /// The scenario's file cannot be read.
    #[error("{}: cannot read the scenario: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// The scenario is wrong.
    #[error("{}: {source}", path.display())]
    Scenario {
        /// The file.
        path: PathBuf,
        /// Cause.
        source: Box<ScenarioError>,
    },
    /// The scenario cannot be changed as it runs.
    #[error("{}: --control: {problem}", path.display())]
    Unchangeable {
        /// The file.
        path: PathBuf,
        /// Cause.
        problem: String,
    },
    /// A file cannot be written.
    #[error("{}: cannot write: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// The socket of `--control` cannot be had.
    #[error("--control {}: {problem}", path.display())]
    Control {
        /// The socket's path.
        path: PathBuf,
        /// Cause.
        problem: String,
    },
    /// No addresses are free.
    #[error("no addresses for another shell: {0}")]
    Addresses(String),
    /// Mahimahi's shell was asked for.
    #[error(
        "cannot run {0}: {1}. Install mahimahi: apt install mahimahi where there is such a package (Ubuntu), else from \
         https://github.com/ravinet/mahimahi; it wants a user who is not root, and sysctl -w net.ipv4.ip_forward=1"
    )]
    Mahimahi(String, io::Error),
    /// The machine does not let us.
    #[error(transparent)]
    Link(#[from] LinkError),
}

impl ShellError {
    /// Returns the exit status, as in `ccarena.errors`.
    fn status(&self) -> u8 {
        match self {
            Self::Arguments(ArgumentError::Help(_)) => 0,
            Self::Arguments(_) | Self::Read { .. } | Self::Scenario { .. } | Self::Unchangeable { .. } => 2,
            Self::Trace(_)
            | Self::Column { .. }
            | Self::Link(LinkError::Service { source: ServiceError::Trace(_) | ServiceError::Conditions(_), .. }) => 3,
            Self::Write { .. } | Self::Control { .. } => 1,
            Self::Addresses(_) | Self::Mahimahi(..) | Self::Link(_) => 4,
        }
    }
}

/// Runs the shell that `words`, the program's name first, ask for, and returns the status to exit with. To be called
/// before any thread is started.
#[must_use]
pub fn main(words: &[OsString]) -> u8 {
    let Some((program, arguments)) = words.split_first() else { return CANNOT_RUN };
    if let [first, rest @ ..] = arguments {
        if first == OsStr::new(keeper::NAME) {
            return keeper::run(rest);
        }
    }
    match shell(program, arguments).and_then(|request| run::run(&request, words)) {
        Ok(status) => status,
        Err(ShellError::Arguments(ArgumentError::Help(text))) => {
            let _ = io::stdout().write_all(text.as_bytes());
            0
        }
        Err(error) => {
            say(format_args!("error: {error}"));
            error.status()
        }
    }
}

/// Says `text` on stderr, if anybody is there.
fn say(text: impl std::fmt::Display) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// The shell is the executable's name (`cca-link`, or a link to it called `mm-link`), or its first word.
fn shell(program: &OsStr, words: &[OsString]) -> Result<arguments::Request, ShellError> {
    let name = Path::new(program).file_name().unwrap_or(program).to_string_lossy();
    let by_name = ["cca-", "mm-"].iter().find_map(|p| name.strip_prefix(p));
    if let Some(shell) = by_name.filter(|n| arguments::names().any(|known| known == *n)) {
        return Ok(arguments::read(shell, &name, words)?);
    }
    let (first, rest) = words.split_first().unzip();
    let first = first.map(|f| f.to_string_lossy()).unwrap_or_default();
    Ok(arguments::read(&first, &format!("ccarena {first}"), rest.unwrap_or_default())?)
}
