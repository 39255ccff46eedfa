//! Shared part of the adapters' transfers: variables of an entrant file (docs/entrant-files.md), and the control.

use std::env;
use std::error::Error;
use std::fs;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;

use ccarena_cc::policy::Policy;
use ccarena_cc::{Config, Rate, Requirement, Source};

/// Flow-control windows in bytes, which are to bound nothing.
pub const WINDOW: u32 = 64 << 20;
/// Bytes that are written or read at once.
pub const CHUNK: usize = 64 << 10;
/// UDP payload of a packet of 1500 bytes over IPv4, and its headers.
pub const MTU: u16 = 1472;
pub const HEADER_BYTES: u32 = 28;

pub type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// The control and its configuration: a policy artifact if CCARENA_CONTROL is the path of one, else a scheme.
/// CCARENA_REQUIRED_MBPS, such as `5-8`, is the rate that the application requires.
pub fn control() -> Result<(Source<'static>, Config)> {
    let name = variable("CONTROL")?;
    let source = if name.ends_with(".safetensors") {
        Source::Policy(Arc::new(Policy::from_bytes(&fs::read(&name)?)?))
    } else {
        Source::Scheme(ccarena_cc::find(&name)?.name)
    };
    let requirement = variable("REQUIRED_MBPS").ok().map(|range| required(&range)).transpose()?;
    Ok((source, Config { header_bytes: HEADER_BYTES, requirement, ..Config::default() }))
}

fn required(range: &str) -> Result<Requirement> {
    let (min, max) = range.split_once('-').ok_or("CCARENA_REQUIRED_MBPS: expected MIN-MAX")?;
    Ok(Requirement { min: Rate::from_mbps(min.parse()?), max: Rate::from_mbps(max.parse()?) })
}

/// Bytes to send; as many as fit the flow's duration if the scenario gives none.
pub fn bytes() -> Result<u64> {
    Ok(variable("BYTES").map_or(Ok(u64::MAX), |bytes| bytes.parse())?)
}

/// The receiver's address.
pub fn receiver() -> Result<SocketAddr> {
    Ok(SocketAddr::new(variable("RECEIVER")?.parse()?, variable("PORT")?.parse()?))
}

/// The program's end, and the reason on standard error if it failed.
pub fn end(result: Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Returns whether this program is the receiver.
pub fn receives() -> bool {
    env::args().nth(1).as_deref() == Some("server")
}

fn variable(name: &str) -> Result<String> {
    let name = format!("CCARENA_{name}");
    env::var(&name).map_err(|error| format!("{name}: {error}").into())
}
