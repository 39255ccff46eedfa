//! The congestion controls for the whole machine, under plain names: pinned, so that they outlive the process.
//!
//! They live in a BPF file system of their own at [`PINS`]; detaching removes it with everything in it.

use std::ffi::CString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use libbpf_rs::MapHandle;

use crate::checks;
use crate::error::KernelError;
use crate::maps::{Maps, WccMaps, map_error};
use crate::objects::{self, Names, Options};

/// Where the pins are.
pub const PINS: &str = "/run/ccarena/bpf";
/// Folders below it: links, by name of the congestion control; maps.
const LINKS: &str = "links";
const MAPS: &str = "maps";
/// The link of the TCP option's program.
const OPTION: &str = "option";

/// What is attached.
#[derive(Clone, Debug)]
pub struct Status {
    /// Names for `TCP_CONGESTION` and `net.ipv4.tcp_congestion_control`.
    pub names: Vec<String>,
    /// Since when.
    pub age: Duration,
    /// Whether ACCT's TCP option is written and echoed.
    pub option: bool,
    /// Where the pins are.
    pub pins: PathBuf,
}

/// Attaches everything that `options` asks for, under plain names; its suffix plays no part.
///
/// # Errors
/// If something is attached already or this machine cannot run the programs; nothing is left behind then.
pub fn attach(options: &Options) -> Result<Status, KernelError> {
    checks::require(options.option)?;
    if status()?.is_some() {
        return Err(KernelError::AlreadyAttached(PINS.into()));
    }
    let pins = Path::new(PINS);
    mount(pins)?;
    match pin_all(options, pins).and_then(|()| status()) {
        Ok(Some(status)) => Ok(status),
        Ok(None) => Err(KernelError::NotAttached(PINS.into())),
        Err(e) => {
            unmount(pins)?;
            Err(e)
        }
    }
}

/// What is attached, if anything.
///
/// # Errors
/// If the pins cannot be read.
pub fn status() -> Result<Option<Status>, KernelError> {
    let pins = Path::new(PINS);
    if !is_mounted(pins)? {
        return Ok(None);
    }
    let made = fs::metadata(pins).and_then(|m| m.modified()).map_err(file("look at", pins))?;
    let mut status =
        Status { names: Vec::new(), age: made.elapsed().unwrap_or_default(), option: false, pins: pins.into() };
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

/// Takes everything back. Sockets that use one of the congestion controls keep it until they close.
///
/// # Errors
/// If nothing is attached, or not by us.
pub fn detach() -> Result<(), KernelError> {
    let pins = Path::new(PINS);
    checks::root()?;
    if !is_mounted(pins)? {
        return Err(KernelError::NotAttached(PINS.into()));
    }
    unmount(pins)
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
    let weighted = pins.join(MAPS).join("weights").exists();
    Ok(Maps {
        events: open("events")?,
        answers: open("answers")?,
        namespaces: open("namespaces")?,
        wcc: if weighted { Some(WccMaps { weights: open("weights")?, state: open("state")? }) } else { None },
    })
}

fn pin_all(options: &Options, pins: &Path) -> Result<(), KernelError> {
    let (mut maps, links) = objects::load(options, &Names::system(), true)?;
    let folder = |name| {
        let path = pins.join(name);
        fs::create_dir(&path).map_err(file("create", &path)).map(|()| path)
    };
    let (map_pins, link_pins) = (folder(MAPS)?, folder(LINKS)?);
    for (name, map) in maps.all() {
        map.pin(map_pins.join(name)).map_err(|e| map_error("pin", name, &e))?;
    }
    for (name, mut link) in links {
        let attach_error = |e: libbpf_rs::Error| KernelError::Attach { name: name.clone(), reason: e.to_string() };
        link.pin(link_pins.join(&name)).map_err(attach_error)?;
    }
    Ok(())
}

/// Whether a file system of ours is mounted at `pins`.
fn is_mounted(pins: &Path) -> Result<bool, KernelError> {
    let table = Path::new("/proc/self/mounts");
    let mounts = fs::read_to_string(table).map_err(file("read", table))?;
    Ok(mounts.lines().any(|line| {
        let mut fields = line.split(' ').skip(1);
        fields.next().map(Path::new) == Some(pins) && fields.next() == Some("bpf")
    }))
}

fn mount(pins: &Path) -> Result<(), KernelError> {
    fs::create_dir_all(pins).map_err(file("create", pins))?;
    let target = c_path(pins)?;
    #[allow(unsafe_code, reason = "mount")]
    // SAFETY: terminated strings that outlive the call; the BPF file system takes no data.
    let failed =
        unsafe { libc::mount(c"ccarena".as_ptr(), target.as_ptr(), c"bpf".as_ptr(), 0, c"mode=0700".as_ptr().cast()) }
            != 0;
    if failed { Err(file("mount a BPF file system at", pins)(std::io::Error::last_os_error())) } else { Ok(()) }
}

/// With the file system go its pins, and with them what only they held.
fn unmount(pins: &Path) -> Result<(), KernelError> {
    let target = c_path(pins)?;
    #[allow(unsafe_code, reason = "umount2")]
    // SAFETY: a terminated string that outlives the call.
    let failed = unsafe { libc::umount2(target.as_ptr(), 0) } != 0;
    if failed {
        return Err(file("unmount", pins)(std::io::Error::last_os_error()));
    }
    fs::remove_dir(pins).map_err(file("remove", pins))?;
    // The folder above is ours if nothing else is in it.
    if let Some(parent) = pins.parent() {
        match fs::remove_dir(parent) {
            Err(e) if e.kind() != std::io::ErrorKind::DirectoryNotEmpty => return Err(file("remove", parent)(e)),
            _ => {}
        }
    }
    Ok(())
}

fn c_path(path: &Path) -> Result<CString, KernelError> {
    CString::new(path.as_os_str().as_bytes()).map_err(|e| file("name", path)(e.into()))
}

fn file(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> KernelError + use<> {
    let path = path.to_path_buf();
    move |source| KernelError::File { action, path, source }
}
