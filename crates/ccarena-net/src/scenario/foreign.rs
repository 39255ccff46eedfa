//! Congestion controls of others: one of the running kernel's TCP, a BPF object, or two programs at the ends of the link.

use std::collections::BTreeMap;

use ccarena_cc::reader::{At, Object, Result};
use ccarena_cc::types::Dur;
use serde_json::{Value, json};

/// Longest name of a TCP congestion control, with the zero byte (`TCP_CA_NAME_MAX`).
const CONTROL_NAME: usize = 16;
/// Longest word of a command, in bytes.
const LONGEST_WORD: usize = 65_536;
/// Most words of a command.
const MOST_WORDS: usize = 256;
const MAX_START_S: f64 = 120.0;

/// Congestion control that this package has not written.
#[derive(Clone, Debug, PartialEq)]
pub enum Foreign {
    /// Congestion control that the kernel's TCP offers, whose module is loaded on request.
    Kernel {
        /// Name for `TCP_CONGESTION`.
        name: String,
    },
    /// BPF object with one congestion control of type `struct_ops`, loaded for the run.
    Bpf {
        /// Path of the object file.
        file: String,
    },
    /// Two programs, which the emulator's packet log alone is believed about.
    Programs(Programs),
}

/// A sender and a receiver, started at the two ends of the link.
#[derive(Clone, Debug, PartialEq)]
pub struct Programs {
    /// Words of the command that sends data.
    pub sender: Vec<String>,
    /// Words of the command that receives it.
    pub receiver: Vec<String>,
    /// Flag that the sender is the one that is started first and waits for the other.
    pub sender_listens: bool,
    /// Condition on which the program that listens is ready.
    pub ready: Ready,
    /// Longest time to become ready.
    pub ready_within: Dur,
    /// More environment variables of both.
    pub env: BTreeMap<String, String>,
    /// Folder for `{folder}` in commands; the scratch folder of the run if empty.
    pub folder: String,
    /// Memory of each program, in MiB.
    pub memory_mb: u32,
    /// Processes and threads of each program.
    pub processes: u32,
}

/// Condition on which a program that listens is ready.
#[derive(Clone, Debug, PartialEq)]
pub enum Ready {
    /// A TCP socket listens on the port.
    Tcp,
    /// A UDP socket is bound to the port.
    Udp,
    /// The program has printed this text.
    Output(String),
    /// Time since its start.
    After(Dur),
}

const KINDS: &[&str] = &["kernel", "bpf", "command"];
const READY: &[&str] = &["tcp", "udp", "output", "after"];

/// Reads the field `foreign` of a flow.
///
/// # Errors
/// The first field at fault.
pub fn read(at: &At<'_>) -> Result<Foreign> {
    let fields = |kind: &str| match kind {
        "kernel" => vec!["name"],
        "bpf" => vec!["file"],
        _ => {
            vec!["sender", "receiver", "listens", "ready", "ready_within_s", "env", "folder", "memory_mb", "processes"]
        }
    };
    let (kind, o) = at.tagged("kind of foreign congestion control", KINDS, fields)?;
    Ok(match kind {
        "kernel" => Foreign::Kernel { name: control(&o.require("name", "a TCP congestion control")?)? },
        "bpf" => Foreign::Bpf { file: o.require("file", "a BPF object file")?.text("a BPF object file")?.into() },
        _ => Foreign::Programs(programs(&o)?),
    })
}

fn control(at: &At<'_>) -> Result<String> {
    let name = at.text("the name of a TCP congestion control")?;
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    if name.len() >= CONTROL_NAME || !name.chars().all(plain) {
        return at.fail(format!("a name of at most {} letters, digits and . _ -", CONTROL_NAME - 1));
    }
    Ok(name.into())
}

fn programs(o: &Object<'_>) -> Result<Programs> {
    Ok(Programs {
        sender: words(&o.require("sender", "the words of a command")?)?,
        receiver: words(&o.require("receiver", "the words of a command")?)?,
        sender_listens: o.or("listens", "receiver", |at| at.choice("end", &["receiver", "sender"]))? == "sender",
        ready: o.or("ready", Ready::Tcp, ready)?,
        ready_within: o.or("ready_within_s", Dur::from_millis(10_000), start)?,
        env: o.or("env", BTreeMap::new(), env)?,
        folder: o.or("folder", String::new(), |at| Ok(at.text("a folder")?.into()))?,
        memory_mb: o.or("memory_mb", 2048, |at| at.small(16, 1 << 20))?,
        processes: o.or("processes", 256, |at| at.small(1, 100_000))?,
    })
}

fn start(at: &At<'_>) -> Result<Dur> {
    match at.seconds(0.0)? {
        time if time.as_secs_f64() > MAX_START_S => at.fail(format!("at most {MAX_START_S} seconds")),
        time => Ok(time),
    }
}

fn words(at: &At<'_>) -> Result<Vec<String>> {
    let items = at.list("the words of a command, such as [iperf3, -c, \"{receiver}\"]")?;
    if items.is_empty() || items.len() > MOST_WORDS {
        return at.fail(format!("1 to {MOST_WORDS} words"));
    }
    items.iter().map(word).collect()
}

/// A word may be a script of several lines.
fn word(at: &At<'_>) -> Result<String> {
    match at.value {
        Value::String(word) if (1..=LONGEST_WORD).contains(&word.len()) && !word.contains('\0') => Ok(word.clone()),
        _ => at.fail(format!("a word of a command: text of 1 to {LONGEST_WORD} bytes")),
    }
}

fn env(at: &At<'_>) -> Result<BTreeMap<String, String>> {
    let mut all = BTreeMap::new();
    for (name, value) in at.entries("environment variables by name")? {
        if name.is_empty() || name.contains(['=', '\0']) {
            return value.fail("a variable whose name has no =");
        }
        all.insert(name.to_string(), value.text("text")?.to_string());
    }
    Ok(all)
}

fn ready(at: &At<'_>) -> Result<Ready> {
    let fields = |kind: &str| match kind {
        "output" => vec!["text"],
        "after" => vec!["seconds"],
        _ => vec![],
    };
    let (kind, o) = at.tagged("ready condition", READY, fields)?;
    Ok(match kind {
        "tcp" => Ready::Tcp,
        "udp" => Ready::Udp,
        "output" => Ready::Output(o.require("text", "a text that it prints")?.text("a text")?.into()),
        _ => Ready::After(start(&o.require("seconds", "seconds after its start")?)?),
    })
}

/// Returns the JSON that [`read`] reads.
#[must_use]
pub fn write(foreign: &Foreign) -> Value {
    match foreign {
        Foreign::Kernel { name } => json!({"type": "kernel", "name": name}),
        Foreign::Bpf { file } => json!({"type": "bpf", "file": file}),
        Foreign::Programs(p) => json!({
            "type": "command",
            "sender": p.sender,
            "receiver": p.receiver,
            "listens": if p.sender_listens { "sender" } else { "receiver" },
            "ready": match &p.ready {
                Ready::Tcp => json!({"type": "tcp"}),
                Ready::Udp => json!({"type": "udp"}),
                Ready::Output(text) => json!({"type": "output", "text": text}),
                Ready::After(time) => json!({"type": "after", "seconds": time.as_secs_f64()}),
            },
            "ready_within_s": p.ready_within.as_secs_f64(),
            "env": p.env,
            "folder": if p.folder.is_empty() { Value::Null } else { json!(p.folder) },
            "memory_mb": p.memory_mb,
            "processes": p.processes,
        }),
    }
}

#[cfg(test)]
mod tests {
    use crate::scenario::Scenario;
    use serde_json::{Value, json};

    fn of(foreign: Value) -> Result<Scenario, String> {
        let flow = json!({"scheme": "theirs", "foreign": foreign});
        Scenario::from_json(&json!({"links": [{"service": {"type": "constant", "rate_mbps": 10}}], "flows": [flow]}))
            .map_err(|e| e.to_string())
    }

    #[test]
    fn what_is_written_reads_back() {
        let kinds = [
            json!({"type": "kernel", "name": "vegas"}),
            json!({"type": "bpf", "file": "a.bpf.o"}),
            json!({"type": "command", "sender": ["s", "{receiver}"], "receiver": ["r"]}),
            json!({"type": "command", "sender": ["s"], "receiver": ["r"], "listens": "sender",
                   "ready": {"type": "output", "text": "listening"}, "ready_within_s": 2, "env": {"A": "b"},
                   "folder": "/x", "memory_mb": 64, "processes": 4}),
            json!({"type": "command", "sender": ["s"], "receiver": ["r"], "ready": {"type": "after", "seconds": 1}}),
        ];
        for kind in kinds {
            let scenario = of(kind).unwrap();
            assert_eq!(scenario.flows[0].scheme, "theirs");
            assert_eq!(Scenario::from_json(&scenario.to_json()).unwrap(), scenario);
        }
    }

    #[test]
    fn wrong_fields_are_refused_with_their_path() {
        let refused = |foreign: Value, expected: &str| {
            let error = of(foreign).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        };
        refused(json!({"type": "exe"}), "flows[0].foreign.type: ");
        refused(json!({"type": "kernel"}), "flows[0].foreign.name: missing");
        refused(json!({"type": "kernel", "name": "a b"}), "flows[0].foreign.name: ");
        refused(json!({"type": "kernel", "name": "seventeen_letters"}), "flows[0].foreign.name: ");
        refused(json!({"type": "command", "sender": ["s"]}), "flows[0].foreign.receiver: missing");
        refused(json!({"type": "command", "sender": [], "receiver": ["r"]}), "flows[0].foreign.sender: ");
        refused(
            json!({"type": "command", "sender": ["s"], "receiver": ["r"], "ready": {"type": "tpc"}}),
            "flows[0].foreign.ready.type: ",
        );
        refused(
            json!({"type": "command", "sender": ["s"], "receiver": ["r"], "ready_within_s": 500}),
            "flows[0].foreign.ready_within_s: ",
        );
    }
}
