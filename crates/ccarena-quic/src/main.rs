//! `ccarena-quic`: the commands of [`USAGE`].

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::ExitCode;

use ccarena_cc::{Dur, Time};
use ccarena_link::live::{Frames, Inbox};
use ccarena_quic::offer::Offer;
use ccarena_quic::remote::{Token, client, server};
use ccarena_quic::request::{Change, Range, Request};
use ccarena_quic::run::{self, RunError};
use ccarena_quic::serve::ServeError;
use ccarena_quic::transport::{Acks, LARGEST_MTU, SMALLEST_MTU, Settings};
use ccarena_quic::{decide, get, serve};

const USAGE: &str = "\
QUIC under ccarena's congestion controls.

usage: ccarena-quic run
       ccarena-quic decide POLICY_FILE
       ccarena-quic serve [--listen ADDRESS:PORT] [--policy NAME=FILE]... [--scheme NAME | --default-policy NAME]
                          [--param NAME=VALUE]... [--requirement MIN:MAX] [--weight W] [--fixed]
                          [--ack-every N] [--mtu BYTES] [--interval-s S] [--qlog DIR]
                          [--control SOCKET] [--fallback NAME] [--shadow] [--guard N]
       ccarena-quic get ADDRESS:PORT [--connections N] [--scheme NAME]... [--policy NAME]... [--param NAME=VALUE]...
                        [--requirement MIN:MAX]... [--weight W]... [--desired-mbps R]... [--bytes N]...
                        [--change AT_S[/CONNECTION]:requirement=MIN:MAX|weight=W|desired-mbps=R]...
                        [--duration-s S] [--interval-s S] [--timeout-s S] [--fingerprint SHA256] [--mtu BYTES]
       ccarena-quic remote --token FILE [--listen ADDRESS:PORT] [--most-s S] [--most-mb MB]

run      runs a scenario over the emulator, or to another machine (\"remote\" of the request): request on standard
         input, frames on standard output; the end of the input ends the run
decide   lets a policy decide on recorded observations, which come on standard input
serve    sends data to clients, each with the congestion control that it asks for, until SIGINT or SIGTERM; takes an
         operator's commands at the socket of --control; prints
         where it listens and its key's fingerprint, and with --interval-s a line of JSON per connection and interval
get      gets data over several connections, each with its own scheme, requirement or weight: an option that is given
         several times is for one connection after the other, the last one for all further ones; without --bytes data
         never ends; lines of JSON such as {\"connection\": 0, \"requirement\": [20, 30]} on standard input, or --change,
         change what connections want; a server that is silent for S seconds of --timeout-s is given up (5 when
         connecting and at the end of --duration-s, 30 in the middle of a transfer), with exit status 1
remote   receives the flows of scenarios from another machine that holds the token in FILE, or sends them there, until
         SIGINT or SIGTERM; a run lasts at most S seconds and sends at most MB megabytes; flows of the kernel's TCP take
         the TCP port of the same number
";

/// Longest time that an option may give, s.
const LONGEST_S: f64 = 1e6;

/// A command line that cannot be taken, a value in it that cannot be used, or a command that fails.
enum Failure {
    Usage(String),
    Refused(String),
    Failed(String),
}

type Done = Result<ExitCode, Failure>;

fn failed(error: impl std::fmt::Display) -> Failure {
    Failure::Failed(error.to_string())
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["run"] => return run_scenario(),
        ["decide", file] => decide_recorded(file),
        ["serve", options @ ..] => serve_data(options),
        ["remote", options @ ..] => receive_scenarios(options),
        ["get", remote, options @ ..] if !remote.starts_with("--") => get_data(remote, options),
        ["--help" | "-h" | "help"] => {
            print!("{USAGE}");
            Ok(ExitCode::SUCCESS)
        }
        [] => Err(Failure::Usage("expected a command".into())),
        [other, ..] => Err(Failure::Usage(format!("unknown command or arguments: {other}"))),
    };
    match done {
        Ok(code) => code,
        Err(Failure::Usage(message)) => {
            let help = match words.first() {
                Some(command @ (&"serve" | &"get")) => format!("ccarena quic {command} --help"),
                Some(&"remote") => "ccarena remote serve --help".into(),
                _ => "ccarena-quic --help".into(),
            };
            eprintln!("error: {message} (`{help}` shows what it takes)");
            ExitCode::from(2)
        }
        Err(Failure::Refused(message)) => {
            eprintln!("error: {message}");
            ExitCode::from(2)
        }
        Err(Failure::Failed(message)) => {
            eprintln!("error: {message}");
            ExitCode::FAILURE
        }
    }
}

fn decide_recorded(file: &str) -> Done {
    let (mut input, mut out) = (io::stdin().lock(), io::stdout().lock());
    decide::decide(file, &mut input, &mut out).map_err(failed)?;
    Ok(ExitCode::SUCCESS)
}

fn run_scenario() -> ExitCode {
    let out = io::stdout();
    let fd = out.as_raw_fd();
    let mut frames = Frames::new(out, fd);
    let done = Inbox::new().map_err(RunError::from).and_then(|mut inbox| {
        let request = run::Request::parse(&inbox.line()?)?;
        match &request.remote {
            Some(remote) => client::run(&request, remote, &mut inbox, &mut frames),
            None => run::run(&request, &mut inbox, &mut frames),
        }
    });
    let Err(error) = done else { return ExitCode::SUCCESS };
    eprintln!("error: {error}");
    if !matches!(error, RunError::Stopped) {
        // If nobody reads, standard error has it.
        let _ = frames.error(error.kind(), &error.to_string());
    }
    ExitCode::FAILURE
}

/// Options with their values, in order.
fn pairs<'a>(words: &[&'a str], flags: &[&str]) -> Result<Vec<(&'a str, &'a str)>, Failure> {
    let mut rest = words.iter();
    let mut pairs = Vec::new();
    while let Some(&word) = rest.next() {
        let value = if flags.contains(&word) { Some("") } else { rest.next().copied() };
        pairs.push((word, value.ok_or_else(|| Failure::Usage(format!("{word}: expected a value")))?));
    }
    Ok(pairs)
}

fn fault(name: &str, got: &str, expected: &str) -> Failure {
    Failure::Usage(format!("{name}: got {got}; expected {expected}"))
}

fn number(name: &str, text: &str) -> Result<f64, Failure> {
    let number = text.parse().ok().filter(|x: &f64| x.is_finite() && *x > 0.0);
    number.ok_or_else(|| fault(name, text, "a number above zero"))
}

/// A time of at most [`LONGEST_S`].
fn seconds(name: &str, text: &str) -> Result<Dur, Failure> {
    let found = number(name, text)?;
    if found > LONGEST_S {
        return Err(fault(name, text, &format!("at most {LONGEST_S} seconds")));
    }
    Ok(Dur::from_secs_f64(found))
}

fn whole(name: &str, text: &str, least: u64, most: u64) -> Result<u64, Failure> {
    let number = text.parse().ok().filter(|n| (least..=most).contains(n));
    number.ok_or_else(|| fault(name, text, &format!("a whole number from {least} to {most}")))
}

fn range(name: &str, text: &str) -> Result<Range, Failure> {
    let ends = text.split_once(':').and_then(|(a, b)| Some([a.parse().ok()?, b.parse().ok()?]));
    ends.filter(|[min, max]: &Range| 0.0 < *min && min < max && max.is_finite())
        .ok_or_else(|| fault(name, text, "MIN:MAX, two rates in Mbit/s, the first one the smaller"))
}

fn parameter(text: &str) -> Result<(String, f64), Failure> {
    let parsed = text.split_once('=').and_then(|(name, value)| Some((name.to_owned(), value.parse().ok()?)));
    parsed.ok_or_else(|| fault("--param", text, "NAME=NUMBER"))
}

fn mtu(text: &str) -> Result<u16, Failure> {
    let bytes = whole("--mtu", text, SMALLEST_MTU.into(), LARGEST_MTU.into())?;
    Ok(u16::try_from(bytes).unwrap_or(LARGEST_MTU))
}

fn address(name: &str, text: &str) -> Result<SocketAddr, Failure> {
    let mut found = text.to_socket_addrs().map_err(|e| fault(name, text, &format!("ADDRESS:PORT ({e})")))?;
    found.next().ok_or_else(|| fault(name, text, "ADDRESS:PORT"))
}

fn serve_data(words: &[&str]) -> Done {
    let mut options = serve::Options {
        listen: ([127, 0, 0, 1], 4433).into(),
        offer: Offer::default(),
        settings: Settings::default(),
        interval: None,
        qlog: None,
        control: None,
    };
    // They count for all policies, wherever they stand.
    let words_of = pairs(words, &["--fixed", "--shadow"])?;
    for (name, value) in &words_of {
        match *name {
            "--shadow" => options.offer.operation.shadow = true,
            "--guard" => {
                options.offer.operation.guard = u32::try_from(whole(name, value, 0, u32::MAX.into())?).unwrap_or(0)
            }
            _ => {}
        }
    }
    for (name, value) in words_of {
        let default = &mut options.offer.default;
        match name {
            "--listen" => options.listen = address(name, value)?,
            "--policy" => {
                let (of, file) = value.split_once('=').ok_or_else(|| fault(name, value, "NAME=FILE"))?;
                options.offer.add(of, Path::new(file)).map_err(failed)?;
            }
            "--scheme" => default.scheme = Some(value.into()),
            "--default-policy" => default.policy = Some(value.into()),
            "--param" => default.params.extend([parameter(value)?]),
            "--requirement" => default.requirement = Some(range(name, value)?),
            "--weight" => default.weight = Some(number(name, value)?),
            "--fixed" => options.offer.fixed = true,
            "--ack-every" => {
                let packets = u32::try_from(whole(name, value, 1, 1000)?).unwrap_or(1);
                options.settings.acks = Some(Acks { packets, delay: None });
            }
            "--mtu" => options.settings.mtu = mtu(value)?,
            "--interval-s" => options.interval = Some(seconds(name, value)?),
            "--qlog" => options.qlog = Some(value.into()),
            "--control" => options.control = Some(value.into()),
            "--fallback" => options.offer.fallback = Some(value.into()),
            "--shadow" | "--guard" => {}
            other => return Err(Failure::Usage(format!("serve: unknown option {other}"))),
        }
    }
    let inbox = Inbox::new().map_err(failed)?;
    let [_, signals] = inbox.fds();
    serve::serve(options, &mut io::stdout().lock(), &[signals]).map_err(|error| match error {
        ServeError::Offer(_) | ServeError::Scheme(_) => Failure::Refused(error.to_string()),
        _ => failed(error),
    })?;
    Ok(ExitCode::SUCCESS)
}

fn receive_scenarios(words: &[&str]) -> Done {
    let mut options = server::Options {
        listen: ([127, 0, 0, 1], 4433).into(),
        token: Token(String::new()),
        longest: Dur::from_millis(120_000),
        most_bytes: 4_000_000_000,
    };
    for (name, value) in pairs(words, &[])? {
        match name {
            "--listen" => options.listen = address(name, value)?,
            "--token" => {
                let text = fs::read_to_string(value).map_err(|e| failed(format!("--token {value}: {e}")))?;
                options.token = Token(text.trim().into());
            }
            "--most-s" => options.longest = seconds(name, value)?,
            "--most-mb" => options.most_bytes = (number(name, value)? * 1e6) as u64,
            other => return Err(Failure::Usage(format!("remote: unknown option {other}"))),
        }
    }
    if options.token.0.is_empty() {
        return Err(Failure::Usage("remote: --token FILE is missing, or its file is empty".into()));
    }
    let inbox = Inbox::new().map_err(failed)?;
    let [_, signals] = inbox.fds();
    server::serve(options, &mut io::stdout().lock(), &[signals]).map_err(failed)?;
    Ok(ExitCode::SUCCESS)
}

/// One option's values, one for each connection.
struct Each<T>(Vec<T>);

impl<T: Clone> Each<T> {
    fn of(&self, connection: usize) -> Option<T> {
        self.0.get(connection).or(self.0.last()).cloned()
    }
}

fn get_data(remote: &str, words: &[&str]) -> Done {
    let (mut schemes, mut policies, mut requirements) = (Each(vec![]), Each(vec![]), Each(vec![]));
    let (mut weights, mut desired, mut bytes) = (Each(vec![]), Each(vec![]), Each(vec![]));
    let (mut params, mut count, mut changes) = (BTreeMap::new(), None, Vec::new());
    let (mut settings, mut duration, mut interval, mut fingerprint) = (Settings::default(), None, None, None);
    let mut patience = None;
    for (name, value) in pairs(words, &[])? {
        match name {
            "--connections" => count = Some(whole(name, value, 1, 10_000)? as usize),
            "--scheme" => schemes.0.push(value.to_owned()),
            "--policy" => policies.0.push(value.to_owned()),
            "--param" => params.extend([parameter(value)?]),
            "--requirement" => requirements.0.push(range(name, value)?),
            "--weight" => weights.0.push(number(name, value)?),
            "--desired-mbps" => desired.0.push(number(name, value)?),
            "--bytes" => bytes.0.push(number(name, value)?.round() as u64),
            "--change" => changes.push(change(value)?),
            "--duration-s" => duration = Some(seconds(name, value)?),
            "--interval-s" => interval = Some(seconds(name, value)?),
            "--timeout-s" => patience = Some(seconds(name, value)?),
            "--fingerprint" if value.len() == 64 && value.bytes().all(|digit| digit.is_ascii_hexdigit()) => {
                fingerprint = Some(value.to_owned());
            }
            "--fingerprint" => {
                return Err(fault(name, value, "the 64 hexadecimal digits that `ccarena quic serve` prints"));
            }
            "--mtu" => settings.mtu = mtu(value)?,
            other => return Err(Failure::Usage(format!("get: unknown option {other}"))),
        }
    }
    let longest = [schemes.0.len(), policies.0.len(), requirements.0.len(), weights.0.len(), desired.0.len()];
    let count = count.or(longest.into_iter().chain([bytes.0.len()]).max()).unwrap_or(1).max(1);
    let requests = (0..count).map(|i| Request {
        bytes: bytes.of(i),
        scheme: schemes.of(i),
        params: params.clone(),
        policy: policies.of(i),
        requirement: requirements.of(i),
        weight: weights.of(i),
        desired_mbps: desired.of(i),
    });
    let options = get::Options {
        remote: address("the server", remote)?,
        requests: requests.collect(),
        changes,
        duration,
        interval,
        fingerprint,
        patience,
        settings,
    };
    let mut inbox = Inbox::new().map_err(failed)?;
    let [input, signals] = inbox.fds();
    let mut read = || inbox.bytes().ok().flatten();
    let failure = get::get(options, &mut read, &mut io::stdout().lock(), (input, signals)).map_err(failed)?;
    failure.map_or(Ok(ExitCode::SUCCESS), |failure| Err(failed(failure)))
}

/// `AT_S[/CONNECTION]:WHAT=VALUE`.
fn change(text: &str) -> Result<(Time, Option<usize>, Change), Failure> {
    let expected = "AT_S[/CONNECTION]:requirement=MIN:MAX, weight=W or desired-mbps=R";
    let wrong = || fault("--change", text, expected);
    let (when, what) = text.split_once(':').ok_or_else(wrong)?;
    let (at, of) = when.split_once('/').map_or((when, None), |(at, of)| (at, Some(of)));
    let of = of.map(|of| of.parse().map_err(|_| wrong())).transpose()?;
    let (name, value) = what.split_once('=').ok_or_else(wrong)?;
    let mut change = Change::default();
    match name {
        "requirement" => change.requirement = Some(range("--change", value)?),
        "weight" => change.weight = Some(number("--change", value)?),
        "desired-mbps" => change.desired_mbps = Some(number("--change", value)?),
        _ => return Err(wrong()),
    }
    Ok((Time::ZERO + seconds("--change", at)?, of, change))
}
