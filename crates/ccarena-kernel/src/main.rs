//! `ccarena-kernel`: the commands of [`USAGE`].

mod policy_commands;

use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use ccarena_cc::{PolicySpec, Rate, Spec, bounded};
use ccarena_kernel::run::{self, RunError};
use ccarena_kernel::serve::{Service, ServiceError};
use ccarena_kernel::{Key, Options, TcpOption, attach, checks};
use ccarena_link::live::{Frames, Inbox};
use libbpf_rs::query;
use serde_json::json;

const USAGE: &str = "\
Linux TCP under ccarena's congestion controls.

usage: ccarena-kernel run
       ccarena-kernel attach [--unrestricted] [--option CGROUP] [--no-wcc] [--deadline-ms MS]
                             [--sockets-per-user N] [--changes-per-s N]
       ccarena-kernel status | detach
       ccarena-kernel weight WEIGHT|none [--mark N | --cgroup INODE | --cookie N]
       ccarena-kernel daemon --scheme NAME|FILE.json | --policy FILE [--action A] [--param NAME=VALUE]...
                             [--weight W] [--desired-mbps R]
       ccarena-kernel load POLICY|pilot [--as NAME] [--unrestricted] [--option CGROUP] [--desired-mbps R]
                           [--param NAME=VALUE]... [--label TEXT] [--shadow] [--guard N]
       ccarena-kernel canary NAME --share S [--cgroup DIR] [--to PREFIX] [--guard N]
       ccarena-kernel rollback NAME | connections NAME [--after RECORD]
       ccarena-kernel unload [NAME] | stats [NAME] | replay POLICY | image POLICY OUT
       ccarena-kernel check [--objects]

run      runs a scenario: request and actions on standard input, frames on standard output;
         the end of the input ends the run
attach   gives the whole machine the congestion controls ccarena (driven by a bridge daemon, else CUBIC),
         wcc-ai, wcc-md, multcp and ewtcp, until detach: for those with CAP_NET_ADMIN, or with --unrestricted
         for every user; with --option sockets of the cgroup CGROUP write and answer ACCT's TCP option; of a user's
         sockets at most N are driven, and at most N per second are told that open or close (0: no bound)
status   what is attached, as JSON
detach   takes everything back, net.ipv4.tcp_congestion_control where it names one of them included
weight   sets or takes back the weight of attached sockets of the weighted congestion controls: by mark,
         cgroup (its inode) or socket cookie, else of all that have none
daemon   the bridge daemon: drives the sockets that have chosen ccarena, until SIGINT or SIGTERM; there is one
load     makes a policy (an artifact, or an image that `ccarena export --to kernel` wrote), or the scheme pilot with
         its parameters, a congestion control NAME in the kernel, until unload or detach; where NAME is loaded, its sockets follow the new policy; with --shadow
         it decides, and CUBIC acts; after N decisions in a row outside the guard's box or the range of training (32;
         0: never) CUBIC takes a connection over
canary   gives the policy S of the connections, by hash: of those made in the cgroup DIR, of those to PREFIX; CUBIC
         runs the others
rollback returns NAME to the policy before
connections  every connection that lives, and those that have ended (after RECORD), as lines of JSON
unload   unloads the policy NAME, or all
stats    what policies in the kernel have decided, as JSON
image    writes a policy's image to the file OUT
replay   decisions on raw observations from standard input, without a socket
check    what this machine can run, as JSON; with --objects how many BPF objects there are
";

/// A command line that cannot be taken, a value in it that cannot be used, or a command that fails.
enum Failure {
    Usage(String),
    Refused(String),
    Failed(String),
}

type Done = Result<(), Failure>;

fn failed(error: impl std::fmt::Display) -> Failure {
    Failure::Failed(error.to_string())
}

/// A refusal by the kernel bridge: wrong arguments are the line's fault.
fn refused(error: ccarena_kernel::KernelError) -> Failure {
    if error.is_of_arguments() { Failure::Refused(error.to_string()) } else { failed(error) }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["run"] => return run_scenario(),
        ["attach", options @ ..] => attach_all(options),
        ["status"] => status(),
        ["detach"] => attach::detach().map_err(failed),
        ["weight", options @ ..] => weight(options),
        ["daemon", options @ ..] => daemon(options),
        ["load", options @ ..] => policy_commands::load(options),
        ["image", options @ ..] => policy_commands::image(options),
        ["unload", options @ ..] => policy_commands::unload(options),
        ["stats", options @ ..] => policy_commands::stats(options),
        ["canary", options @ ..] => policy_commands::canary(options),
        ["rollback", options @ ..] => policy_commands::rollback(options),
        ["connections", options @ ..] => policy_commands::connections(options),
        ["replay", options @ ..] => policy_commands::replay(options),
        ["check"] => check(),
        ["check", "--objects"] => objects(),
        ["--help" | "-h" | "help"] => {
            print!("{USAGE}");
            Ok(())
        }
        [] => Err(Failure::Usage("expected a command".into())),
        [other, ..] => Err(Failure::Usage(format!("unknown command or arguments: {other}"))),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Usage(message)) => {
            eprint!("ccarena-kernel: {message}\n\n{USAGE}");
            ExitCode::from(2)
        }
        Err(Failure::Refused(message)) => {
            eprintln!("ccarena-kernel: {message}");
            ExitCode::from(2)
        }
        Err(Failure::Failed(message)) => {
            eprintln!("ccarena-kernel: {message}");
            ExitCode::FAILURE
        }
    }
}

fn run_scenario() -> ExitCode {
    let out = io::stdout();
    let fd = out.as_raw_fd();
    let mut frames = Frames::new(out, fd);
    let done = Inbox::new().map_err(RunError::from).and_then(|mut inbox| run::run(&mut inbox, &mut frames));
    let Err(error) = done else { return ExitCode::SUCCESS };
    eprintln!("ccarena-kernel: {error}");
    if !matches!(error, RunError::Stopped) {
        // If nobody reads, standard error has it.
        let _ = frames.error(error.kind(), &error.to_string());
    }
    ExitCode::FAILURE
}

/// The longest time that an option may give.
const LONGEST: Duration = Duration::from_secs(3600);

/// The value of option `name`, which is next in `rest`.
fn value<'a>(name: &str, rest: &mut impl Iterator<Item = &'a &'a str>) -> Result<&'a str, Failure> {
    rest.next().copied().ok_or_else(|| Failure::Usage(format!("{name}: expected a value")))
}

fn number<'a>(name: &str, rest: &mut impl Iterator<Item = &'a &'a str>) -> Result<f64, Failure> {
    let text = value(name, rest)?;
    let number = text.parse().ok().filter(|x: &f64| x.is_finite() && *x >= 0.0);
    number.ok_or_else(|| Failure::Refused(format!("{name}: got {text}; expected a finite number of at least zero")))
}

fn signed<'a>(name: &str, rest: &mut impl Iterator<Item = &'a &'a str>) -> Result<f64, Failure> {
    let text = value(name, rest)?;
    let number = text.parse().ok().filter(|x: &f64| x.is_finite());
    number.ok_or_else(|| Failure::Refused(format!("{name}: got {text}; expected a finite number")))
}

fn milliseconds<'a>(name: &str, rest: &mut impl Iterator<Item = &'a &'a str>) -> Result<Duration, Failure> {
    let ms = number(name, rest)?;
    let found = Duration::try_from_secs_f64(ms / 1e3).ok().filter(|time| *time <= LONGEST);
    found.ok_or_else(|| Failure::Refused(format!("{name}: got {ms:e}; expected at most {} ms", LONGEST.as_millis())))
}

fn count<'a>(name: &str, rest: &mut impl Iterator<Item = &'a &'a str>) -> Result<u32, Failure> {
    let text = value(name, rest)?;
    text.parse()
        .map_err(|_| Failure::Refused(format!("{name}: got {text}; expected a whole number from 0 to {}", u32::MAX)))
}

fn parameter(pair: &str) -> Result<(String, f64), Failure> {
    let finite = |text: &str| text.parse().ok().filter(|x: &f64| x.is_finite());
    let parsed = pair.split_once('=').and_then(|(name, v)| Some((name.to_owned(), finite(v)?)));
    parsed.ok_or_else(|| Failure::Refused(format!("--param: got {pair}; expected NAME=NUMBER")))
}

fn attach_all(words: &[&str]) -> Done {
    let mut options = Options::default();
    let mut rest = words.iter();
    while let Some(&word) = rest.next() {
        match word {
            "--unrestricted" => options.unrestricted = true,
            "--option" => options.option = TcpOption::Cgroup(value(word, &mut rest)?.into()),
            "--sockets-per-user" => options.sockets_per_user = count(word, &mut rest)?,
            "--changes-per-s" => options.changes_per_s = count(word, &mut rest)?,
            "--no-wcc" => options.wcc = false,
            "--deadline-ms" => options.deadline = milliseconds(word, &mut rest)?,
            other => return Err(Failure::Usage(format!("attach: unknown option {other}"))),
        }
    }
    attach::attach(&options).map_err(refused)?;
    status()
}

fn status() -> Done {
    let status = attach::status().map_err(failed)?;
    let shown = status.map_or(json!({"attached": false}), |s| {
        json!({
            "attached": true,
            "names": s.names,
            "age_s": s.age.as_secs_f64(),
            "option": s.option,
            "sockets": s.sockets,
            "driven": s.driven,
            "unreported": s.unreported,
            "pins": s.pins,
        })
    });
    println!("{shown}");
    Ok(())
}

fn weight(words: &[&str]) -> Done {
    let (weight, rest) = match words {
        ["none", rest @ ..] => (None, rest),
        [text, rest @ ..] => {
            let expected = || Failure::Usage(format!("weight: got {text}; expected a number or none"));
            (Some(text.parse().map_err(|_| expected())?), rest)
        }
        [] => return Err(Failure::Usage("weight: expected a number or none".into())),
    };
    let whole = |text: &str| text.parse().map_err(|_| Failure::Usage(format!("got {text}; expected a whole number")));
    let key = match rest {
        [] => Key::Default,
        ["--cookie", text] => Key::Cookie(whole(text)?),
        ["--cgroup", text] => Key::Cgroup(whole(text)?),
        ["--mark", text] => Key::Mark(count("--mark", &mut std::iter::once(text))?),
        _ => return Err(Failure::Usage(format!("weight: unknown arguments: {}", rest.join(" ")))),
    };
    attach::set_weight(key, weight).map_err(refused)
}

fn daemon(words: &[&str]) -> Done {
    let mut service =
        Service { scheme: String::new(), spec: None, config: ccarena_cc::Config::default(), policy: None };
    let mut rest = words.iter();
    while let Some(&word) = rest.next() {
        match word {
            "--scheme" => set_scheme(&mut service, value(word, &mut rest)?)?,
            "--policy" => service.policy = Some(PolicySpec::Artifact(value(word, &mut rest)?.into())),
            "--action" => service.policy = Some(PolicySpec::Constant(vec![signed(word, &mut rest)?])),
            "--weight" => service.config.weight = number(word, &mut rest)?,
            "--desired-mbps" => service.config.desired_rate = Rate::from_mbps(number(word, &mut rest)?),
            "--param" => {
                let (name, x) = parameter(value(word, &mut rest)?)?;
                service.config.params.insert(name, x);
            }
            other => return Err(Failure::Usage(format!("daemon: unknown option {other}"))),
        }
    }
    if service.scheme.is_empty() {
        let Some(PolicySpec::Artifact(file)) = &service.policy else {
            return Err(Failure::Usage("daemon: expected --scheme NAME or --policy FILE".into()));
        };
        service = Service::of_policy(file, service.config).map_err(failed)?;
    }
    let inbox = Inbox::new().map_err(failed)?;
    let [_, signals] = inbox.fds();
    let served = service.run(&[signals]).map_err(|error| match error {
        ServiceError::Flow(wrong) => Failure::Refused(wrong.to_string()),
        ServiceError::Kernel(wrong) => refused(wrong),
    })?;
    println!("{}", json!({"sockets": served.sockets, "reports": served.reports, "refused": served.refused}));
    Ok(())
}

/// A scheme by name, or a learned one by its spec: JSON text, or a file of it.
fn set_scheme(service: &mut Service, given: &str) -> Result<(), Failure> {
    let text = if given.ends_with(".json") {
        bounded::read_text(Path::new(given)).map_err(|e| failed(format!("--scheme: {given}: cannot be read: {e}")))?
    } else {
        given.to_owned()
    };
    if text.trim_start().starts_with('{') {
        let spec = Spec::parse(&text).map_err(|e| failed(format!("--scheme: {e}")))?;
        service.scheme = spec.interface().name.clone();
        service.spec = Some(Arc::new(spec));
    } else {
        service.scheme = text;
    }
    Ok(())
}

fn check() -> Done {
    let list: Vec<_> = checks::checks()
        .into_iter()
        .map(|c| json!({"name": c.name, "ok": c.problem.is_none(), "problem": c.problem.map(|p| p.to_string())}))
        .collect();
    println!("{}", json!(list));
    Ok(())
}

fn objects() -> Done {
    let (programs, maps, links) = (
        query::ProgInfoIter::default().count(),
        query::MapInfoIter::default().count(),
        query::LinkInfoIter::default().count(),
    );
    println!("programs={programs} maps={maps} links={links}");
    Ok(())
}
