//! The compiled BPF objects: named, configured, loaded, attached.

use std::fs::{self, File};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Mutex;
use std::time::Duration;

use libbpf_rs::{ErrorKind, Link, MapCore, MapHandle, Object, ObjectBuilder, OpenObject, PrintLevel};

use crate::checks;
use crate::error::KernelError;
use crate::intf::{ABI, Config, Plain};
use crate::maps::{Maps, WccMaps, locked, map_error};
use crate::tcp_option::TcpOption;

/// Options of loading.
#[derive(Clone, Debug)]
pub struct Options {
    /// Makes the congestion controls' names this process's own: at most 8 bytes.
    pub suffix: String,
    /// A socket whose report has waited for an answer so long, and for four intervals, falls back to CUBIC.
    pub deadline: Duration,
    /// Scope in which ACCT's TCP option is written, parsed and echoed.
    pub option: TcpOption,
    /// The weighted congestion controls too: `wcc-ai`, `wcc-md`, `multcp`, `ewtcp`.
    pub wcc: bool,
    /// Size of the ring buffer in bytes, a power of two of at least a page.
    pub ring_bytes: u32,
    /// Sockets that can be answered at once.
    pub sockets: u32,
    /// Most driven sockets of one user; more of this user's sockets are CUBIC. 0 is no bound.
    pub sockets_per_user: u32,
    /// Number of one user's sockets that may open or close in a second and be reported at once. The daemon learns of
    /// others from their first report or from the list of flows. 0 is no bound.
    pub changes_per_s: u32,
    /// Every user may choose the congestion controls, not only those with CAP_NET_ADMIN: in the kernel's words,
    /// `TCP_CONG_NON_RESTRICTED`.
    pub unrestricted: bool,
}

impl Default for Options {
    /// Everything but the option, under this process's id, for those with CAP_NET_ADMIN.
    fn default() -> Self {
        Self {
            suffix: std::process::id().to_string(),
            deadline: Duration::from_millis(200),
            option: TcpOption::Off,
            wcc: true,
            ring_bytes: 1 << 22,
            sockets: 1 << 16,
            sockets_per_user: 1 << 14,
            changes_per_s: 2000,
            unrestricted: false,
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
pub(crate) fn is_name(name: &str) -> bool {
    name.len() < 16 && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '.')
}

/// Names of the congestion controls.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    bridge: String,
    weighted: [String; 4],
}

impl Names {
    /// Plain names, for the whole machine.
    pub(crate) fn system() -> Self {
        let weighted = WEIGHTED.map(|(_, plain, _)| plain.into());
        Self { bridge: BRIDGE_NAME.into(), weighted }
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

    pub(crate) fn all(&self) -> impl Iterator<Item = &String> {
        std::iter::once(&self.bridge).chain(&self.weighted)
    }

    pub(crate) fn of(&self, scheme: &str) -> &str {
        let own = WEIGHTED.iter().zip(&self.weighted).find(|((name, ..), _)| *name == scheme);
        own.map_or(&self.bridge, |(_, name)| name)
    }
}

/// `TCP_CONG_NON_RESTRICTED` (include/net/tcp.h).
const NON_RESTRICTED: u32 = 1;

/// Loads and attaches what `options` asks for. Links come with the names to pin them by.
pub(crate) fn load(options: &Options, names: &Names) -> Result<(Maps, Vec<(String, Link)>), KernelError> {
    let taken = checks::congestion_controls();
    if let Some(name) = names.all().find(|name| taken.contains(name)) {
        return Err(KernelError::NameTaken(name.clone()));
    }
    let mut links = Vec::new();
    let mut bridge = load_bridge(options, names)?;
    let list = attach_list(&bridge, "list", "flows")?;
    links.push(attach_struct_ops(&mut bridge, "bridge", &names.bridge)?);
    if options.option != TcpOption::Off {
        links.push(attach_option(&bridge, &options.option)?);
    }
    let wcc = if options.wcc {
        let mut object = load_wcc(options, names)?;
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
        unreported: handle(&bridge, ".data.unreported")?,
        config: handle(&bridge, ".rodata.config")?,
        list,
        wcc,
    };
    Ok((maps, links))
}

fn load_bridge(options: &Options, names: &Names) -> Result<Object, KernelError> {
    let mut open = open("bridge", BRIDGE)?;
    let before = fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control").unwrap_or_default();
    let config = Config {
        abi: ABI,
        deadline_ns: u64::try_from(options.deadline.as_nanos()).unwrap_or(u64::MAX),
        option: (options.option != TcpOption::Off).into(),
        every_namespace: matches!(options.option, TcpOption::Cgroup(_)).into(),
        sockets_per_user: options.sockets_per_user,
        changes_per_s: options.changes_per_s,
        name: terminated(&names.bridge),
        before: terminated(before.trim()),
    };
    set_initial(&mut open, "bridge", ".rodata.config", config.bytes())?;
    set_initial(&mut open, "bridge", "bridge", &named(options.unrestricted, &names.bridge))?;
    for (name, entries) in [("events", options.ring_bytes), ("answers", options.sockets)] {
        for mut map in open.maps_mut().filter(|map| map.name() == name) {
            map.set_max_entries(entries).map_err(|e| map_error("size", name, &e))?;
        }
    }
    for mut program in open.progs_mut().filter(|program| program.name() == "option") {
        program.set_autoload(options.option != TcpOption::Off);
    }
    finish("bridge", open)
}

fn load_wcc(options: &Options, names: &Names) -> Result<Object, KernelError> {
    let mut open = open("wcc", WCC)?;
    for ((_, map, _), name) in WEIGHTED.iter().zip(&names.weighted) {
        set_initial(&mut open, "wcc", map, &named(options.unrestricted, name))?;
    }
    finish("wcc", open)
}

/// A name as the kernel has it; what is too long for one is none.
pub(crate) fn terminated(name: &str) -> [u8; 16] {
    let mut bytes = [0; 16];
    if name.len() < bytes.len() {
        bytes[..name.len()].copy_from_slice(name.as_bytes());
    }
    bytes
}

/// The beginning of a `struct tcp_congestion_ops` as the objects lay it out: name and flags (`bpf/kernel.h`).
pub(crate) fn named(unrestricted: bool, name: &str) -> [u8; 20] {
    let mut bytes = [0; 20];
    bytes[..16].copy_from_slice(&terminated(name));
    bytes[16..].copy_from_slice(&(if unrestricted { NON_RESTRICTED } else { 0 }).to_ne_bytes());
    bytes
}

/// The verifier's and libbpf's words, kept for an error's sake.
static LOG: Mutex<String> = Mutex::new(String::new());

fn keep_log(_: PrintLevel, line: String) {
    let mut log = locked(&LOG);
    log.push_str(&line);
}

pub(crate) fn open(name: &'static str, object: &[u8]) -> Result<OpenObject, KernelError> {
    libbpf_rs::set_print(Some((PrintLevel::Warn, keep_log)));
    ObjectBuilder::default().open_memory(object).map_err(|e| load_error(name, &e))
}

pub(crate) fn finish(name: &'static str, open: OpenObject) -> Result<Object, KernelError> {
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
/// lays it out.
pub(crate) fn set_initial(
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

pub(crate) fn attach_struct_ops(
    object: &mut Object,
    map: &'static str,
    name: &str,
) -> Result<(String, Link), KernelError> {
    let missing = KernelError::Missing { object: "BPF object", part: map };
    let mut map = object.maps_mut().find(|m| m.name() == map).ok_or(missing)?;
    match map.attach_struct_ops() {
        Ok(link) => Ok((name.into(), link)),
        Err(e) if e.kind() == ErrorKind::AlreadyExists => Err(KernelError::NameTaken(name.into())),
        Err(e) => Err(KernelError::Attach { name: name.into(), reason: format!("{e:#}") }),
    }
}

/// The program `name` lists the sockets in `map` when its link is read.
pub(crate) fn attach_list(object: &Object, name: &'static str, map: &'static str) -> Result<Link, KernelError> {
    let program = object.progs_mut().find(|p| p.name() == name);
    let program = program.ok_or(KernelError::Missing { object: "BPF object", part: name })?;
    let link = program.attach_iter(handle(object, map)?.as_fd());
    link.map_err(|e| KernelError::Attach { name: format!("the list {name}"), reason: format!("{e:#}") })
}

/// Attaches the option to the requested cgroup, or to this process's, which covers the sockets that its threads make.
pub(crate) fn attach_option(object: &Object, option: &TcpOption) -> Result<(String, Link), KernelError> {
    let path = if let TcpOption::Cgroup(path) = option { path.clone() } else { checks::cgroup()? };
    checks::is_cgroup(&path)?;
    let cgroup = File::open(&path).map_err(|source| KernelError::Cgroup { path, source })?;
    let missing = KernelError::Missing { object: "BPF object", part: "option" };
    let program = object.progs_mut().find(|p| p.name() == "option").ok_or(missing)?;
    let link = program.attach_cgroup(cgroup.as_raw_fd());
    let attach_error = |e| KernelError::Attach { name: "the TCP option".into(), reason: format!("{e:#}") };
    Ok(("option".into(), link.map_err(attach_error)?))
}

pub(crate) fn handle(object: &Object, name: &'static str) -> Result<MapHandle, KernelError> {
    let map =
        object.maps().find(|m| m.name() == name).ok_or(KernelError::Missing { object: "BPF object", part: name })?;
    MapHandle::try_from(&map).map_err(|e| map_error("open", name, &e))
}
