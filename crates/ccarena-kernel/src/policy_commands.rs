//! Commands for policies in the kernel.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::path::Path;

use ccarena_cc::bounded::{self, LARGEST_POLICY_BYTES};
use ccarena_cc::operation::{Ending, Role};
use ccarena_cc::policy::Policy;
use ccarena_cc::policy::kernel::{self, ImageError, ImageOptions};
use ccarena_cc::{Config, Rate};
use ccarena_kernel::TcpOption;
use ccarena_kernel::pilot::{self, Numbers};
use ccarena_kernel::policies::operation::address;
use ccarena_kernel::policies::replay::Replay;
use ccarena_kernel::policies::{self, CASES, Connection, Controller, LoadOptions, Loaded, Operation, ZONES};
use ccarena_kernel::traffic::{HEADER_BYTES, OPTION_BYTES};
use serde_json::{Value, json};

use crate::{Done, Failure, count, failed, number, parameter, refused, value};

/// `load`: an artifact, an image or `pilot` becomes a congestion control.
pub fn load(words: &[&str]) -> Done {
    let [file, words @ ..] = words else { return Err(Failure::Usage("load: expected a policy file".into())) };
    let (mut options, mut image) = (LoadOptions::default(), image_options(file));
    let (mut rest, mut changed, is_pilot) = (words.iter(), None, *file == pilot::NAME);
    while let Some(&word) = rest.next() {
        match word {
            "--label" | "--option" | "--desired-mbps" if is_pilot => {
                let why =
                    "pilot has neither ACCT's option nor a file; it takes --param, --as, --unrestricted and --shadow";
                return Err(Failure::Usage(format!("load pilot {word}: {why}")));
            }
            "--as" => options.name = value(word, &mut rest)?.into(),
            "--label" => image.label = value(word, &mut rest)?.into(),
            "--unrestricted" => options.unrestricted = true,
            "--shadow" => options.shadow = true,
            "--guard" => options.guard = Some(count(word, &mut rest)?),
            "--option" => options.option = TcpOption::Cgroup(value(word, &mut rest)?.into()),
            "--desired-mbps" => image.desired_rate = Rate::from_mbps(number(word, &mut rest)?),
            "--param" => {
                let (name, x) = parameter(value(word, &mut rest)?)?;
                image.params.insert(name, x);
            }
            other => return Err(Failure::Usage(format!("load: unknown option {other}"))),
        }
        changed = ["--desired-mbps", "--param"].into_iter().find(|&o| o == word).or(changed);
    }
    if options.option != TcpOption::Off {
        image.header_bytes += OPTION_BYTES;
    }
    let controller = if is_pilot {
        Controller::pilot(&Numbers::new(&image.params).map_err(|e| Failure::Usage(format!("load pilot: {e}")))?)
    } else {
        Controller::policy(&image_of(file, &image, changed)?).map_err(failed)?
    };
    if options.name.is_empty() {
        options.name = controller.about().scheme.replace('-', "_");
    }
    let loaded = policies::load(&controller, &options).map_err(refused)?;
    println!("{}", shown(&loaded));
    Ok(())
}

fn image_options(file: &str) -> ImageOptions {
    ImageOptions {
        params: Default::default(),
        desired_rate: Config::default().desired_rate,
        header_bytes: HEADER_BYTES as u32,
        label: file.into(),
        reports: false,
    }
}

/// The image in `file`, or of the artifact in it.
fn image_of(file: &str, options: &ImageOptions, changed: Option<&str>) -> Result<Vec<u8>, Failure> {
    let named = |e: &dyn std::fmt::Display| failed(format!("{file}: {e}"));
    let bytes =
        bounded::read(Path::new(file), LARGEST_POLICY_BYTES).map_err(|e| named(&format!("cannot be read: {e}")))?;
    if !kernel::is_image(&bytes) {
        let policy = Policy::from_bytes(&bytes).map_err(|e| named(&e))?;
        return kernel::write(&policy, options).map_err(|e| match e {
            ImageError::Params(_) | ImageError::Fixed { .. } => Failure::Refused(format!("{file}: {e}")),
            _ => named(&e),
        });
    }
    kernel::check(&bytes).map_err(|e| named(&e))?;
    match changed {
        Some(option) => Err(Failure::Usage(format!(
            "load: {option} does not go with an image, which holds what it was exported with; load the policy itself"
        ))),
        None => Ok(bytes),
    }
}

/// `image`: the image of a policy as a file.
pub fn image(words: &[&str]) -> Done {
    let (file, out, label) = match words {
        [file, out] => (*file, *out, *file),
        [file, out, "--label", label] => (*file, *out, *label),
        _ => return Err(Failure::Usage("image: expected a policy file and a file to write".into())),
    };
    let options = ImageOptions { label: label.into(), ..image_options(file) };
    let bytes = image_of(file, &options, None)?;
    std::fs::write(out, &bytes).map_err(|e| failed(format!("{out}: cannot be written: {e}")))?;
    let about = kernel::about(&bytes);
    println!(
        "{}",
        json!({
            "image": Path::new(out).file_name().map(|name| name.to_string_lossy()),
            "bytes": bytes.len(),
            "version": kernel::VERSION,
            "sha256": about.digest,
            "scheme": about.scheme,
            "spec": about.spec,
            "policy": about.label,
            "observation": about.observation,
            "outputs": about.outputs,
            "state": about.state,
        })
    );
    Ok(())
}

/// `unload`: one policy, or all.
pub fn unload(words: &[&str]) -> Done {
    let name = match words {
        [] => None,
        [name] => Some(*name),
        [_, other, ..] => return Err(Failure::Usage(format!("unload: unknown argument {other}"))),
    };
    let names = policies::unload(name).map_err(failed)?;
    println!("{}", json!({ "unloaded": names }));
    Ok(())
}

/// `canary`: share of connections that get the policy.
pub fn canary(words: &[&str]) -> Done {
    let [name, words @ ..] = words else { return Err(Failure::Usage("canary: expected the name of a policy".into())) };
    let (mut rest, mut share, mut cgroup, mut remote, mut guard) = (words.iter(), None, None, None, None);
    while let Some(&word) = rest.next() {
        match word {
            "--share" => share = Some(number(word, &mut rest)?),
            "--cgroup" => cgroup = Some(Path::new(value(word, &mut rest)?)),
            "--to" => remote = Some(value(word, &mut rest)?),
            "--guard" => guard = Some(count(word, &mut rest)?),
            other => return Err(Failure::Usage(format!("canary: unknown option {other}"))),
        }
    }
    let share = share.ok_or_else(|| Failure::Usage("canary: expected --share S".into()))?;
    let change = |operation: &mut Operation| {
        operation.shadow = 0;
        operation.guard = guard.unwrap_or(operation.guard);
        operation.set_share(share)?;
        operation.set_cgroup(cgroup)?;
        operation.set_remote(remote)
    };
    // What is wrong in the arguments is told to everyone, not to root alone.
    change(&mut Operation::default()).map_err(refused)?;
    println!("{}", shown(&policies::operate(name, change).map_err(refused)?));
    Ok(())
}

/// `rollback`: the policy before.
pub fn rollback(words: &[&str]) -> Done {
    let [name] = words else { return Err(Failure::Usage("rollback: expected the name of a policy".into())) };
    println!("{}", shown(&policies::rollback(name).map_err(failed)?));
    Ok(())
}

/// `connections`: a line for each that lives, and for each that has ended.
pub fn connections(words: &[&str]) -> Done {
    let (name, after) = match words {
        [name] => (name, 0),
        [name, "--after", number] => {
            let after = number.parse();
            (name, after.map_err(|_| Failure::Usage(format!("--after: got {number}; expected a whole number")))?)
        }
        _ => return Err(Failure::Usage("connections: expected the name of a policy, and --after RECORD".into())),
    };
    let mut out = io::stdout().lock();
    let (loaded, found) = policies::connections(name, after).map_err(failed)?;
    for connection in found {
        writeln!(out, "{}", line(&connection, &loaded)).map_err(failed)?;
    }
    Ok(())
}

fn line(c: &Connection, loaded: &Loaded) -> Value {
    json!({
        "record": c.record,
        "connection": c.id,
        "cookie": c.cookie,
        "role": Role::NAMES.get(c.role as usize),
        "ended": Ending::NAMES.get(c.ended as usize),
        "generation": c.generation,
        // The kernel keeps the numbers of policies that are gone, not their digests.
        "sha256": (c.generation == loaded.about.generation).then_some(&loaded.about.digest),
        "local": SocketAddr::new(address(&c.local_address), c.local_port).to_string(),
        "remote": SocketAddr::new(address(&c.remote_address), c.remote_port).to_string(),
        "begun_ns": c.begun_ns,
        "now_ns": c.now_ns,
        "busy_ns": c.busy_ns,
        "acked_bytes": c.acked_bytes,
        "sent_bytes": c.sent_bytes,
        "retransmitted_bytes": c.retransmitted_bytes,
        "rtt_us": c.rtt_us,
        "rtt_count": c.rtt_count,
        "rtt_min_us": c.rtt_min_us,
        "srtt_us": c.srtt_us,
        "window_packets": c.window_packets,
        "mss": c.mss,
        "pacing_bytes_per_s": c.pacing_bytes_per_s,
        "decisions": c.decisions,
        "outside": c.outside,
        "clamps": c.clamps,
        "held": c.held,
        "compared": c.compared,
        "agreed": c.agreed,
        "policy_kib": c.policy_kib,
        "running_kib": c.running_kib,
    })
}

/// `stats`: every policy, or one.
pub fn stats(words: &[&str]) -> Done {
    let mut found = policies::list().map_err(failed)?;
    if let [name, ..] = words {
        found.retain(|loaded| loaded.name == *name);
        if found.is_empty() {
            return Err(failed(ccarena_kernel::KernelError::NotLoaded((*name).into())));
        }
    }
    println!("{}", Value::Array(found.iter().map(shown).collect()));
    Ok(())
}

fn shown(loaded: &Loaded) -> Value {
    let stats = &loaded.stats;
    let shares = |names: &[&str], counts: &[u64]| -> Value {
        let counts = names.iter().zip(counts).map(|(name, count)| ((*name).into(), json!(count)));
        Value::Object(counts.collect())
    };
    json!({
        "name": loaded.name,
        "scheme": loaded.about.scheme,
        "spec": loaded.about.spec,
        "policy": loaded.about.label,
        "sha256": loaded.about.digest,
        "before": loaded.before,
        "fallback": "cubic",
        "shadow": loaded.operation.shadow != 0,
        "share": loaded.operation.chosen(),
        "cgroup": loaded.operation.cgroup,
        "to": loaded.operation.prefix(),
        "guard": loaded.operation.guard,
        "generation": loaded.about.generation,
        "option": loaded.option,
        "age_s": loaded.age.as_secs_f64(),
        "sockets": stats.sockets(),
        "periods": stats.periods,
        "decisions": stats.decisions,
        "ns": stats.ns,
        "ns_most": stats.ns_most,
        "beyond": stats.beyond,
        "outside": stats.outside,
        "held": stats.held,
        "missed": stats.missed,
        "handed_back": stats.handed_back,
        "compared": stats.compared,
        "agreed": stats.agreed,
        "cases": shares(&CASES, &stats.cases),
        "zones": shares(&ZONES, &stats.zones),
    })
}

/// `replay`: decisions on standard input's observations. A request is the number of rows (u32), their raw observations (i64)
/// and their states (i32); the answer is ns (u64), outputs (i32) and states (i32), all little-endian.
pub fn replay(words: &[&str]) -> Done {
    let [file] = words else { return Err(Failure::Usage("replay: expected a policy file".into())) };
    let mut replay = Replay::new(&image_of(file, &image_options(file), None)?).map_err(failed)?;
    let (observation, state) = (replay.about().observation, replay.about().state);
    let (mut input, mut output) = (io::stdin().lock(), io::stdout().lock());
    loop {
        let mut head = [0; 4];
        match input.read_exact(&mut head) {
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            read => read.map_err(failed)?,
        }
        let rows = u32::from_le_bytes(head) as usize;
        let mut bytes = vec![0; rows * (observation * 8 + state * 4)];
        input.read_exact(&mut bytes).map_err(failed)?;
        let (seen, remembered) = bytes.split_at(rows * observation * 8);
        let seen: Vec<i64> =
            seen.chunks_exact(8).filter_map(|b| b.first_chunk()).map(|b| i64::from_le_bytes(*b)).collect();
        let mut states: Vec<i32> =
            remembered.chunks_exact(4).filter_map(|b| b.first_chunk()).map(|b| i32::from_le_bytes(*b)).collect();
        let (outputs, ns) = replay.decide(&seen, &mut states).map_err(failed)?;
        let mut answer = ns.to_le_bytes().to_vec();
        answer.extend(outputs.iter().chain(&states).flat_map(|x| x.to_le_bytes()));
        output.write_all(&answer).and_then(|()| output.flush()).map_err(failed)?;
    }
}
