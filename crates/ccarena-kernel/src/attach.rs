//! The congestion controls for the whole machine, under plain names: pinned, so that they outlive the process.
//!
//! They live in a BPF file system of their own at [`PINS`]; detaching removes it with everything in it.

pub(crate) mod defaults;

use std::fs::{self, File};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ccarena_link::{clock, machine};
use libbpf_rs::{Link, MapHandle, MapInfo};

use crate::checks;
use crate::error::KernelError;
use crate::intf::{ABI, Config, Event, FLAG_FALLBACK};
use crate::maps::{Key, Maps, WccMaps, map_error, thousandths};
use crate::objects::{self, Names, Options};
use crate::pins::{file, is_mounted, mount, remove_folders, unmount};
use crate::policies;

/// Folder of the pins.
pub const PINS: &str = "/run/ccarena/bpf";
/// Folders below it: links, by name of the congestion control; maps.
const LINKS: &str = "links";
const MAPS: &str = "maps";
/// The map of constants, which is pinned first and says which version attached.
const CONFIG: &str = "config";
/// The link by which flows are listed.
const LIST: &str = "flows";
/// A folder that is made last.
const COMPLETE: &str = "attached";
/// The link of the TCP option's program.
const OPTION: &str = "option";

/// Longest wait of detaching for the kernel.
const PATIENCE: Duration = Duration::from_secs(2);

/// Attached programs.
#[derive(Clone, Debug)]
pub struct Status {
    /// Names for `TCP_CONGESTION` and `net.ipv4.tcp_congestion_control`.
    pub names: Vec<String>,
    /// Time since they were attached.
    pub age: Duration,
    /// Flag that ACCT's TCP option is written and echoed.
    pub option: bool,
    /// Sockets that have chosen `ccarena`.
    pub sockets: usize,
    /// Number of these that a bridge daemon drives; the others run CUBIC.
    pub driven: usize,
    /// Events that could not be reported to the bridge daemon.
    pub unreported: u64,
    /// Folder of the pins.
    pub pins: PathBuf,
}

/// Attaches everything that `options` asks for, under plain names; its suffix plays no part.
///
/// # Errors
/// If something is attached already or this machine cannot run the programs; nothing is left behind then.
pub fn attach(options: &Options) -> Result<Status, KernelError> {
    checks::is_possible(&options.option)?;
    checks::require(&options.option)?;
    let _changing = machine::turn()?;
    let pins = Path::new(PINS);
    if is_mounted(pins)? {
        if !is_cut_off(pins) {
            return Err(KernelError::AlreadyAttached(PINS.into()));
        }
        take_down(pins)?;
    }
    mount(pins)?;
    match pin_all(options, pins).and_then(|()| status()) {
        Ok(Some(status)) => Ok(status),
        Ok(None) => Err(KernelError::NotAttached(PINS.into())),
        Err(e) => {
            take_down(pins)?;
            Err(e)
        }
    }
}

/// Returns what is attached, if anything.
///
/// # Errors
///
/// If the pins cannot be read.
pub fn status() -> Result<Option<Status>, KernelError> {
    let pins = Path::new(PINS);
    if !is_mounted(pins)? {
        return Ok(None);
    }
    let made = fs::metadata(pins).and_then(|m| m.modified()).map_err(file("look at", pins))?;
    let mut status = Status {
        names: Vec::new(),
        age: made.elapsed().unwrap_or_default(),
        option: false,
        sockets: 0,
        driven: 0,
        unreported: 0,
        pins: pins.into(),
    };
    if let Ok(maps) = maps() {
        let flows = maps.flows()?;
        status.sockets = flows.len();
        status.driven = flows.iter().filter(|e| e.answer_sequence > 0 && e.flags & FLAG_FALLBACK == 0).count();
        status.unreported = maps.unreported()?;
    }
    let links = pins.join(LINKS);
    let entries = match fs::read_dir(&links) {
        // Attaching was cut off: nothing is attached, but there is something to detach.
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Some(status)),
        entries => entries.map_err(file("read", &links))?,
    };
    for entry in entries {
        let name = entry.map_err(file("read", &links))?.file_name();
        match name.to_string_lossy() {
            name if name == OPTION => status.option = true,
            name => status.names.push(name.into_owned()),
        }
    }
    status.names.sort();
    Ok(Some(status))
}

/// Takes everything back, [`crate::policies`] included: programs and maps, and where `net.ipv4.tcp_congestion_control` names one of the congestion
/// controls, in this network namespace or another, what it was before. Sockets that use one keep it until they close.
///
/// # Errors
/// If nothing is attached, or not by us.
pub fn detach() -> Result<(), KernelError> {
    let pins = Path::new(PINS);
    checks::root()?;
    let _changing = machine::turn()?;
    let policies = policies::unload_now(None)?;
    if !is_mounted(pins)? && !policies.is_empty() {
        return Ok(());
    }
    if !is_mounted(pins)? {
        // An empty folder is all that an attacher leaves who is killed before anything else.
        let _ = remove_folders(pins);
        return Err(KernelError::NotAttached(PINS.into()));
    }
    let config = MapHandle::from_pinned_path(pins.join(MAPS).join(CONFIG)).ok().and_then(|map| Maps::config(&map));
    let before = config.map_or_else(Vec::new, |config| config.before.into());
    let before = String::from_utf8_lossy(before.split(|&byte| byte == 0).next().unwrap_or_default()).into_owned();
    let names: Vec<String> = Names::system().all().cloned().collect();
    defaults::restore(&names, &before)?;
    take_down(pins)?;
    // The kernel lets go of the names a little later; whoever attaches next wants them.
    let until = clock::now_ns() + PATIENCE.as_nanos() as u64;
    while clock::now_ns() < until && checks::congestion_controls().iter().any(|taken| names.contains(taken)) {
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// Every socket that has chosen `ccarena` now, but for those beyond a quota, as events of kind
/// [`EVENT_LISTED`](crate::intf::EVENT_LISTED).
///
/// # Errors
/// If nothing is attached, or something of another version.
pub fn flows() -> Result<Vec<Event>, KernelError> {
    maps()?.flows()
}

/// Sets a weight in the WCC family, for living sockets too; with `None` takes it back.
///
/// # Errors
/// If nothing is attached, the weight is not above 0 and at most 1000, or the family is not attached.
pub fn set_weight(key: Key, weight: Option<f64>) -> Result<(), KernelError> {
    thousandths(weight)?;
    maps()?.set_weight(key, weight)
}

/// Makes the caller the one bridge daemon of what is attached, until the descriptor is closed.
pub(crate) fn lock() -> Result<File, KernelError> {
    let maps = Path::new(PINS).join(MAPS);
    let folder = File::open(&maps).map_err(file("open", &maps))?;
    match machine::flock(&folder, libc::LOCK_EX | libc::LOCK_NB) {
        Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => Err(KernelError::SecondDaemon),
        done => done.map_err(file("lock", &maps)).map(|()| folder),
    }
}

/// Returns whether something is attached completely.
pub(crate) fn is_complete() -> bool {
    Path::new(PINS).join(COMPLETE).exists()
}

/// Returns whether `ours` is attached now: neither detached since, nor attached anew.
pub(crate) fn is_attached(ours: &Maps) -> bool {
    let id = |map: &MapHandle| MapInfo::new(map.as_fd()).ok().map(|info| info.info.id);
    let pinned = MapHandle::from_pinned_path(Path::new(PINS).join(MAPS).join(CONFIG));
    pinned.is_ok_and(|pinned| id(&pinned) == id(&ours.config))
}

/// The pinned maps.
pub(crate) fn maps() -> Result<Maps, KernelError> {
    let pins = Path::new(PINS);
    if !is_mounted(pins)? {
        return Err(KernelError::NotAttached(PINS.into()));
    }
    let open = |name: &'static str| {
        MapHandle::from_pinned_path(pins.join(MAPS).join(name)).map_err(|e| map_error("open", name, &e))
    };
    let config = open(CONFIG).map_err(|_| KernelError::OtherVersion)?;
    if Maps::config(&config).is_none_or(|Config { abi, .. }| abi != ABI) {
        return Err(KernelError::OtherVersion);
    }
    let list = pins.join(LIST);
    let list = Link::open(&list)
        .map_err(|e| KernelError::Attach { name: "the list of flows".into(), reason: e.to_string() })?;
    let weighted = pins.join(MAPS).join("weights").exists();
    Ok(Maps {
        events: open("events")?,
        answers: open("answers")?,
        namespaces: open("namespaces")?,
        unreported: open("unreported")?,
        config,
        list,
        wcc: if weighted { Some(WccMaps { weights: open("weights")?, state: open("state")? }) } else { None },
    })
}

fn pin_all(options: &Options, pins: &Path) -> Result<(), KernelError> {
    let (mut maps, links) = objects::load(options, &Names::system())?;
    let folder = |name| {
        let path = pins.join(name);
        fs::create_dir(&path).map_err(file("create", &path)).map(|()| path)
    };
    let (map_pins, link_pins) = (folder(MAPS)?, folder(LINKS)?);
    for (name, map) in maps.all() {
        map.pin(map_pins.join(name)).map_err(|e| map_error("pin", name, &e))?;
    }
    let pin = |link: &mut Link, path: PathBuf| {
        let name = path.display().to_string();
        link.pin(path).map_err(|e| KernelError::Attach { name, reason: e.to_string() })
    };
    pin(&mut maps.list, pins.join(LIST))?;
    for (name, mut link) in links {
        pin(&mut link, link_pins.join(&name))?;
    }
    folder(COMPLETE).map(drop)
}

/// Returns whether the attaching process ended before everything was there. Versions before the ABI had a number did
/// not record this.
fn is_cut_off(pins: &Path) -> bool {
    let maps = pins.join(MAPS);
    !pins.join(COMPLETE).exists() && (maps.join(CONFIG).exists() || !maps.join("events").exists())
}

/// Removes the pins, and with them what only they held, then the file system. A bridge daemon may have a folder of it
/// open, which keeps the file system alive, but nothing that was pinned in it.
fn take_down(pins: &Path) -> Result<(), KernelError> {
    for folder in [LINKS, MAPS, COMPLETE].map(|name| pins.join(name)) {
        match fs::remove_dir_all(&folder) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(file("remove", &folder)(e)),
            _ => {}
        }
    }
    match fs::remove_file(pins.join(LIST)) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(file("remove", &pins.join(LIST))(e)),
        _ => {}
    }
    unmount(pins)
}
