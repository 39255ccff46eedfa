//! The compiled BPF objects: named, configured, loaded, attached.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::sync::Mutex;
use std::time::Duration;

use libbpf_rs::{ErrorKind, Link, MapCore, MapHandle, Object, ObjectBuilder, OpenObject, PrintLevel};

use crate::checks;
use crate::error::KernelError;
use crate::intf::{Config, Plain};
use crate::maps::{Maps, WccMaps, locked, map_error};

/// What to load.
#[derive(Clone, Debug)]
pub struct Options {
    /// Makes the congestion controls' names this process's own: at most 8 bytes.
    pub suffix: String,
    /// A socket whose report has waited for an answer so long, and for four intervals, falls back to CUBIC.
    pub deadline: Duration,
    /// ACCT's TCP option: written, parsed and echoed in the namespaces given to [`Datapath::add_namespace`](crate::Datapath::add_namespace).
    pub option: bool,
    /// The weighted congestion controls too: `wcc-ai`, `wcc-md`, `multcp`, `ewtcp`.
    pub wcc: bool,
    /// Size of the ring buffer in bytes, a power of two of at least a page.
    pub ring_bytes: u32,
}

impl Default for Options {
    /// Everything, under this process's id.
    fn default() -> Self {
        Self {
            suffix: std::process::id().to_string(),
            deadline: Duration::from_millis(200),
            option: true,
            wcc: true,
            ring_bytes: 1 << 22,
        }
    }
}

/// One object file each, as `build.rs` compiled it.
const BRIDGE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/bridge.bpf.o"));
const WCC: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/wcc.bpf.o"));

/// Scheme; its struct_ops map in the object, which is its plain name too, as the kernel takes no dash in one; and what a
/// private name begins with.
const WEIGHTED: [(&str, &str, &str); 4] = [
    ("wcc-ai", "wcc_ai", "cca.ai."),
    ("wcc-md", "wcc_md", "cca.md."),
    ("multcp", "multcp", "cca.mt."),
    ("ewtcp", "ewtcp", "cca.ew."),
];
const BRIDGE_NAME: &str = "ccarena";
const BRIDGE_PRIVATE: &str = "cca.br.";

/// TCP_CA_NAME_MAX with its terminating zero, of what `bpf_obj_name_cpy` lets pass.
fn is_name(name: &str) -> bool {
    name.len() < 16 && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '.')
}

/// What the congestion controls are called.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    bridge: String,
    weighted: [String; 4],
}

impl Names {
    /// Plain names, for the whole machine.
    pub(crate) fn system() -> Self {
        Self { bridge: BRIDGE_NAME.into(), weighted: WEIGHTED.map(|(_, plain, _)| plain.into()) }
    }

    /// Names that end in `suffix`.
    pub(crate) fn private(suffix: &str) -> Result<Self, KernelError> {
        let names = Self {
            bridge: format!("{BRIDGE_PRIVATE}{suffix}"),
            weighted: WEIGHTED.map(|(.., prefix)| format!("{prefix}{suffix}")),
        };
        let refused = names.all().find(|name| !is_name(name)).cloned();
        refused.map_or(Ok(names), |name| Err(KernelError::Name(name)))
    }

    fn all(&self) -> impl Iterator<Item = &String> {
        std::iter::once(&self.bridge).chain(&self.weighted)
    }

    pub(crate) fn of(&self, scheme: &str) -> &str {
        let own = WEIGHTED.iter().zip(&self.weighted).find(|((name, ..), _)| *name == scheme);
        own.map_or(&self.bridge, |(_, name)| name)
    }
}

/// Loads and attaches what `options` asks for. Links come with the names to pin them by; `every_namespace` lets the
/// option act on all sockets of ours.
pub(crate) fn load(
    options: &Options,
    names: &Names,
    every_namespace: bool,
) -> Result<(Maps, Vec<(String, Link)>), KernelError> {
    let taken = checks::congestion_controls();
    if let Some(name) = names.all().find(|name| taken.contains(name)) {
        return Err(KernelError::NameTaken(name.clone()));
    }
    let mut links = Vec::new();
    let mut bridge = load_bridge(options, names, every_namespace)?;
    links.push(attach_struct_ops(&mut bridge, "bridge", &names.bridge)?);
    if options.option {
        links.push(attach_option(&bridge, every_namespace)?);
    }
    let wcc = if options.wcc {
        let mut object = load_wcc(names)?;
        for ((_, map, _), name) in WEIGHTED.iter().zip(&names.weighted) {
            links.push(attach_struct_ops(&mut object, map, name)?);
        }
        Some(WccMaps { weights: handle(&object, "weights")?, state: handle(&object, ".data.weights")? })
    } else {
        None
    };
    let maps = Maps {
        events: handle(&bridge, "events")?,
        answers: handle(&bridge, "answers")?,
        namespaces: handle(&bridge, "namespaces")?,
        wcc,
    };
    Ok((maps, links))
}

fn load_bridge(options: &Options, names: &Names, every_namespace: bool) -> Result<Object, KernelError> {
    let mut open = open("bridge", BRIDGE)?;
    let mut config = Config {
        deadline_ns: u64::try_from(options.deadline.as_nanos()).unwrap_or(u64::MAX),
        option: options.option.into(),
        every_namespace: every_namespace.into(),
        name: [0; 16],
    };
    config.name[..names.bridge.len()].copy_from_slice(names.bridge.as_bytes());
    set_initial(&mut open, "bridge", ".rodata.config", config.bytes())?;
    set_initial(&mut open, "bridge", "bridge", &config.name)?;
    for mut map in open.maps_mut().filter(|map| map.name() == "events") {
        map.set_max_entries(options.ring_bytes).map_err(|e| map_error("size", "events", &e))?;
    }
    for mut program in open.progs_mut().filter(|program| program.name() == "option") {
        program.set_autoload(options.option);
    }
    finish("bridge", open)
}

fn load_wcc(names: &Names) -> Result<Object, KernelError> {
    let mut open = open("wcc", WCC)?;
    for ((_, map, _), name) in WEIGHTED.iter().zip(&names.weighted) {
        let mut bytes = [0; 16];
        bytes[..name.len()].copy_from_slice(name.as_bytes());
        set_initial(&mut open, "wcc", map, &bytes)?;
    }
    finish("wcc", open)
}

/// The verifier's and libbpf's words, kept for an error's sake.
static LOG: Mutex<String> = Mutex::new(String::new());

fn keep_log(_: PrintLevel, line: String) {
    let mut log = locked(&LOG);
    log.push_str(&line);
}

fn open(name: &'static str, object: &[u8]) -> Result<OpenObject, KernelError> {
    libbpf_rs::set_print(Some((PrintLevel::Warn, keep_log)));
    ObjectBuilder::default().open_memory(object).map_err(|e| load_error(name, &e))
}

fn finish(name: &'static str, open: OpenObject) -> Result<Object, KernelError> {
    locked(&LOG).clear();
    open.load().map_err(|e| load_error(name, &e))
}

fn load_error(object: &'static str, error: &libbpf_rs::Error) -> KernelError {
    let log = locked(&LOG);
    let lines: Vec<_> = log.lines().collect();
    let log = lines[lines.len().saturating_sub(20)..].join("\n");
    KernelError::Load { object, reason: format!("{error:#}"), log }
}

/// Writes `bytes` over the first of the map's initial value. A struct_ops map's is the struct as the object's own type
/// lays it out: its name comes first there (`bpf/kernel.h`).
fn set_initial(
    open: &mut OpenObject,
    object: &'static str,
    map: &'static str,
    bytes: &[u8],
) -> Result<(), KernelError> {
    let missing = KernelError::Missing { object, part: map };
    let mut map = open.maps_mut().find(|m| m.name() == map).ok_or(missing)?;
    match map.initial_value_mut() {
        Some(value) if value.len() >= bytes.len() => {
            value[..bytes.len()].copy_from_slice(bytes);
            Ok(())
        }
        _ => Err(KernelError::Missing { object, part: "initial value" }),
    }
}

fn attach_struct_ops(object: &mut Object, map: &'static str, name: &str) -> Result<(String, Link), KernelError> {
    let missing = KernelError::Missing { object: "object", part: map };
    let mut map = object.maps_mut().find(|m| m.name() == map).ok_or(missing)?;
    match map.attach_struct_ops() {
        Ok(link) => Ok((name.into(), link)),
        Err(e) if e.kind() == ErrorKind::AlreadyExists => Err(KernelError::NameTaken(name.into())),
        Err(e) => Err(KernelError::Attach { name: name.into(), reason: format!("{e:#}") }),
    }
}

/// To this process's cgroup, which covers the sockets that its threads make; to the root of all for the whole machine.
fn attach_option(object: &Object, whole_machine: bool) -> Result<(String, Link), KernelError> {
    let path = if whole_machine { checks::cgroup_mount()? } else { checks::cgroup()? };
    let cgroup = File::open(&path).map_err(|source| KernelError::Cgroup { path, source })?;
    let missing = KernelError::Missing { object: "bridge", part: "option" };
    let program = object.progs_mut().find(|p| p.name() == "option").ok_or(missing)?;
    let link = program.attach_cgroup(cgroup.as_raw_fd());
    let attach_error = |e| KernelError::Attach { name: "the TCP option".into(), reason: format!("{e:#}") };
    Ok(("option".into(), link.map_err(attach_error)?))
}

fn handle(object: &Object, name: &'static str) -> Result<MapHandle, KernelError> {
    let map = object.maps().find(|m| m.name() == name).ok_or(KernelError::Missing { object: "object", part: name })?;
    MapHandle::try_from(&map).map_err(|e| map_error("open", name, &e))
}
