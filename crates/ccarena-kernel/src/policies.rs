//! Policies in the kernel, and the scheme `pilot`: each a congestion control of its own, pinned, whose policy or numbers are
//! in a map. Others can replace them while sockets live.
//!
//! They live in a BPF file system at [`PINS`], a folder each; unloading removes it with everything in it.

mod controller;
pub mod operation;
mod private;
mod program;
pub mod replay;
mod stats;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ccarena_cc::operation::GUARD;
use ccarena_cc::policy::kernel::About;
use ccarena_link::{clock, machine};
use libbpf_rs::{Link, MapCore, MapFlags, MapHandle};

pub use self::controller::Controller;
use self::controller::Kind;
pub use self::operation::{Connection, Operation};
pub use self::private::Private;
use self::program::Program;
pub use self::stats::{CASES, Stats, ZONES};
use crate::attach::defaults;
use crate::checks;
use crate::error::KernelError;
use crate::intf::{ABI, Plain};
use crate::maps::{Maps, map_error};
use crate::objects::{self, is_name};
use crate::pilot::Numbers;
use crate::pins::{file, is_mounted, mount, unmount};
use crate::tcp_option::TcpOption;

/// Folder of the pins.
pub const PINS: &str = "/run/ccarena/policies";
/// Name of the link in a policy's folder. It is pinned last, so that a folder without one was left by a killed loader.
const LINK: &str = "link";
const STATISTICS: &str = "statistics";
const CONFIG: &str = "config";
const OPTION: &str = "option";
const OPERATION: &str = "operation";
const ENDED: &str = "ended";
const COUNTS: &str = "counts";
const CONNECTIONS: &str = "connections";
/// Sums of the counters when the present controller replaced another.
const COUNTED: &str = "counted";
/// The controller that the present one replaced.
const BEFORE: &str = "before";

/// Longest wait of unloading for the kernel.
const PATIENCE: Duration = Duration::from_secs(2);

/// Options of loading a policy.
#[derive(Clone, Debug, Default)]
pub struct LoadOptions {
    /// The congestion control's name.
    pub name: String,
    /// Every user may choose it, not only those with CAP_NET_ADMIN.
    pub unrestricted: bool,
    /// Scope in which ACCT's TCP option is written, parsed and echoed.
    pub option: TcpOption,
    /// The policy decides, and CUBIC acts.
    pub shadow: bool,
    /// Number for [`Operation::guard`]; none takes [`GUARD`], or for a loaded name what is in force.
    pub guard: Option<u32>,
}

impl LoadOptions {
    /// Checks that a guard has something to count, and that the option's cgroup is one.
    fn check(&self, kind: Kind) -> Result<(), KernelError> {
        no_guard_of_pilot(kind, self.guard.unwrap_or_default())?;
        checks::is_possible(&self.option)
    }

    fn set(&self, operation: &mut Operation) {
        operation.shadow = self.shadow.into();
        operation.guard = self.guard.unwrap_or(operation.guard);
    }
}

/// A policy in the kernel.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// Name for `TCP_CONGESTION` and `net.ipv4.tcp_congestion_control`.
    pub name: String,
    /// Facts of the controller in force.
    pub about: About,
    /// Flag that ACCT's TCP option is written and echoed.
    pub option: bool,
    /// Connections that get the policy.
    pub operation: Operation,
    /// Digest of the policy that the present one replaced, to which [`rollback`] goes.
    pub before: Option<String>,
    /// Time since the name exists.
    pub age: Duration,
    /// Counters of the policy since it is in force.
    pub stats: Stats,
}

/// `pilot` observes nothing that could be outside of a range, so no decision of its law trips.
fn no_guard_of_pilot(kind: Kind, guard: u32) -> Result<(), KernelError> {
    if kind == Kind::Pilot && guard > 0 { Err(KernelError::NoGuard(guard)) } else { Ok(()) }
}

/// Loads a controller under a name. Where that name has one of the same scheme, it is replaced: sockets that live follow at
/// the end of their next period.
///
/// # Errors
/// If the name is another's, the controller has no guard, or this machine cannot run the program; what was loaded before
/// goes on.
pub fn load(controller: &Controller, options: &LoadOptions) -> Result<Loaded, KernelError> {
    let name = &options.name;
    if name.is_empty() || !is_name(name) || name.starts_with('.') {
        return Err(KernelError::PolicyName(name.clone()));
    }
    options.check(controller.kind)?;
    checks::require(&options.option)?;
    let _changing = machine::turn()?;
    let pins = Path::new(PINS);
    let folder = pins.join(name);
    if is_mounted(pins)? && folder.join(LINK).exists() {
        replace(&folder, controller, options)?;
        return loaded(&folder);
    }
    if checks::congestion_controls().contains(name) {
        return Err(KernelError::PolicyNameTaken(name.clone()));
    }
    if !is_mounted(pins)? {
        mount(pins)?;
    }
    let done = remove(&folder).and_then(|()| pin(&folder, controller, options)).and_then(|()| loaded(&folder));
    if done.is_err() {
        remove(&folder)?;
        unmount_if_empty(pins)?;
    }
    done
}

fn pin(folder: &Path, controller: &Controller, options: &LoadOptions) -> Result<(), KernelError> {
    let mut program = Program::load(controller, &options.name, options.unrestricted, &options.option)?;
    fs::create_dir(folder).map_err(file("create", folder))?;
    let guard = if controller.kind == Kind::Pilot { 0 } else { GUARD };
    let mut operation = Operation { guard, ..Operation::default() };
    options.set(&mut operation);
    operation.write(&program.operation)?;
    for (name, map) in [
        (CONFIG, &mut program.config),
        (controller.kind.pin(), &mut program.controller),
        (STATISTICS, &mut program.statistics),
        (OPERATION, &mut program.operation),
        (ENDED, &mut program.ended),
        (COUNTS, &mut program.counts),
    ] {
        map.pin(folder.join(name)).map_err(|e| map_error("pin", name, &e))?;
    }
    let list = objects::attach_list(&program.object, "connections", "flows")?;
    for (name, mut link) in [(CONNECTIONS, list)].into_iter().chain(program.attach(&options.name, &options.option)?) {
        let path = folder.join(name);
        link.pin(&path).map_err(|e| KernelError::Attach { name: path.display().to_string(), reason: e.to_string() })?;
    }
    Ok(())
}

fn replace(folder: &Path, controller: &Controller, options: &LoadOptions) -> Result<(), KernelError> {
    let (now, scheme) = (loaded(folder)?, controller.about().scheme);
    if now.about.scheme != scheme || Kind::of(folder) != controller.kind {
        return Err(KernelError::OtherScheme { name: options.name.clone(), found: scheme, expected: now.about.scheme });
    }
    if options.unrestricted || options.option != TcpOption::Off {
        return Err(KernelError::Fixed(options.name.clone()));
    }
    let next = controller.clone().numbered(now.about.generation + 1);
    let settings = |operation: &mut Operation| {
        options.set(operation);
        Ok(())
    };
    // No policy that is only to observe acts meanwhile: the shadow begins before the new policy, and ends after the old one.
    if options.shadow {
        change(folder, settings)?;
    }
    follow(folder, &next, settings)
}

/// Puts the controller `next` in force, keeps the present one for [`rollback`], and puts `settings` in force.
fn follow(
    folder: &Path,
    next: &Controller,
    settings: impl FnOnce(&mut Operation) -> Result<(), KernelError>,
) -> Result<(), KernelError> {
    let map = open(folder, next.kind.pin())?;
    let mut present = Controller::in_force(next.kind, &map)?.keep()?;
    // The present one is kept first: if this process is killed before `put`, a rollback changes nothing.
    let (kept, fresh) = (folder.join(BEFORE), folder.join("replaced"));
    remove_file(&fresh)?;
    present.pin(&fresh).map_err(|e| map_error("pin", "image", &e))?;
    fs::rename(&fresh, &kept).map_err(file("rename", &fresh))?;
    next.put(&map)?;
    count_anew(folder)?;
    // A change of the operation makes all connections look for the new policy, those of CUBIC too.
    change(folder, settings)
}

/// Keeps the sums of the counters until now, so that those of a policy that begins count its own time alone. Programs go on
/// counting in the same map meanwhile, so nothing is lost.
fn count_anew(folder: &Path) -> Result<(), KernelError> {
    let sums = stats_of(&open(folder, STATISTICS)?)?;
    let mut map = controller::array(COUNTED, sums.bytes())?;
    let fresh = folder.join("counting");
    remove_file(&fresh)?;
    map.pin(&fresh).map_err(|e| map_error("pin", COUNTED, &e))?;
    fs::rename(&fresh, folder.join(COUNTED)).map_err(file("rename", &fresh))
}

/// Puts another operation in force.
fn change(folder: &Path, how: impl FnOnce(&mut Operation) -> Result<(), KernelError>) -> Result<(), KernelError> {
    let map = open(folder, OPERATION)?;
    let mut operation = Operation::read(&map)?;
    how(&mut operation)?;
    operation.write(&map)
}

/// The folder of the loaded policy called `name`.
fn folder_of(name: &str) -> Result<PathBuf, KernelError> {
    let (pins, missing) = (Path::new(PINS), || KernelError::NotLoaded(name.into()));
    if !is_name(name) || name.starts_with('.') || !is_mounted(pins)? || !pins.join(name).join(LINK).exists() {
        return Err(missing());
    }
    Ok(pins.join(name))
}

/// Changes which connections the policy called `name` gets; those that live follow at their next acknowledgement.
///
/// # Errors
/// If it is not loaded, or as `how`: then nothing changes.
pub fn operate(name: &str, how: impl FnOnce(&mut Operation) -> Result<(), KernelError>) -> Result<Loaded, KernelError> {
    checks::root()?;
    let _changing = machine::turn()?;
    let folder = folder_of(name)?;
    loaded(&folder)?;
    change(&folder, |operation| {
        how(operation)?;
        no_guard_of_pilot(Kind::of(&folder), operation.guard)
    })?;
    loaded(&folder)
}

/// The policy called `name` is again the one before; a second time it is again the present one. Sockets that live follow
/// at the end of their next period. The operation stays: a policy in shadow mode is exchanged in shadow mode.
///
/// # Errors
/// If it is not loaded, or no policy was before.
pub fn rollback(name: &str) -> Result<Loaded, KernelError> {
    checks::root()?;
    let _changing = machine::turn()?;
    let folder = folder_of(name)?;
    let now = loaded(&folder)?;
    if now.before.is_none() {
        return Err(KernelError::NothingBefore(name.into()));
    }
    let before = Controller::kept(Kind::of(&folder), &open(&folder, BEFORE)?)?;
    follow(&folder, &before.numbered(now.about.generation + 1), |_| Ok(()))?;
    loaded(&folder)
}

/// The policy called `name`, its connections that live, and those that have ended after record number `after`.
///
/// # Errors
/// If it is not loaded, or its maps cannot be read.
pub fn connections(name: &str, after: u64) -> Result<(Loaded, Vec<Connection>), KernelError> {
    checks::root()?;
    let folder = folder_of(name)?;
    let loaded = loaded(&folder)?;
    let list = Link::open(folder.join(CONNECTIONS))
        .map_err(|e| KernelError::Attach { name: "the list of connections".into(), reason: e.to_string() })?;
    let mut found = operation::ended(&open(&folder, ENDED)?, &open(&folder, COUNTS)?, after)?;
    found.extend(operation::living(&list)?);
    Ok((loaded, found))
}

/// Everything that is loaded, by name.
///
/// # Errors
/// If the pins cannot be read, or are of another version.
pub fn list() -> Result<Vec<Loaded>, KernelError> {
    let pins = Path::new(PINS);
    if !is_mounted(pins)? {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    for folder in folders(pins)? {
        if folder.join(LINK).exists() {
            found.push(loaded(&folder)?);
        }
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}

/// Takes the policy called `name` back, or all: the program and its maps, and where `net.ipv4.tcp_congestion_control` names
/// it, what it was before. Sockets that use it keep it until they close.
///
/// # Errors
/// If it is not loaded. Without a name nothing need be.
pub fn unload(name: Option<&str>) -> Result<Vec<String>, KernelError> {
    checks::root()?;
    let _changing = machine::turn()?;
    unload_now(name)
}

/// Unloads as [`unload`] does, for a caller that holds the lock.
pub(crate) fn unload_now(name: Option<&str>) -> Result<Vec<String>, KernelError> {
    let pins = Path::new(PINS);
    let mounted = is_mounted(pins)?;
    let mut found = if mounted { folders(pins)? } else { Vec::new() };
    if let Some(name) = name {
        found.retain(|folder| folder.file_name().is_some_and(|own| own == name));
        if found.is_empty() {
            return Err(KernelError::NotLoaded(name.into()));
        }
    }
    let names: Vec<String> =
        found.iter().filter_map(|f| f.file_name()).map(|name| name.to_string_lossy().into_owned()).collect();
    for folder in &found {
        let config = open(folder, CONFIG).ok().and_then(|map| Maps::config(&map));
        let before = config.map_or_else(Vec::new, |config| config.before.into());
        let before = String::from_utf8_lossy(before.split(|&byte| byte == 0).next().unwrap_or_default()).into_owned();
        defaults::restore(&names, &before)?;
        remove(folder)?;
    }
    if mounted {
        unmount_if_empty(pins)?;
    }
    // The kernel lets go of the names a little later; whoever loads next wants them.
    let until = clock::now_ns() + PATIENCE.as_nanos() as u64;
    while clock::now_ns() < until && checks::congestion_controls().iter().any(|taken| names.contains(taken)) {
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(names)
}

/// Makes `pilot` with these numbers the congestion control `name`, as long as the links live.
pub(crate) fn attach_pilot(numbers: &Numbers, name: &str) -> Result<Vec<Link>, KernelError> {
    let mut program = Program::load(&Controller::pilot(numbers), name, false, &TcpOption::Off)?;
    Ok(program.attach(name, &TcpOption::Off)?.into_iter().map(|(_, link)| link).collect())
}

fn folders(pins: &Path) -> Result<Vec<PathBuf>, KernelError> {
    let entries = fs::read_dir(pins).map_err(file("read", pins))?;
    let paths = entries.map(|entry| entry.map(|e| e.path()).map_err(file("read", pins)));
    // The kernel puts files of its own into a BPF file system.
    paths.filter(|path| path.as_ref().map_or(true, |path| path.is_dir())).collect()
}

fn remove(folder: &Path) -> Result<(), KernelError> {
    match fs::remove_dir_all(folder) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(file("remove", folder)(e)),
        _ => Ok(()),
    }
}

fn remove_file(path: &Path) -> Result<(), KernelError> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(file("remove", path)(e)),
        _ => Ok(()),
    }
}

fn unmount_if_empty(pins: &Path) -> Result<(), KernelError> {
    if folders(pins)?.is_empty() { unmount(pins) } else { Ok(()) }
}

fn open(folder: &Path, name: &'static str) -> Result<MapHandle, KernelError> {
    MapHandle::from_pinned_path(folder.join(name)).map_err(|e| map_error("open", name, &e))
}

fn loaded(folder: &Path) -> Result<Loaded, KernelError> {
    let config = open(folder, CONFIG)?;
    if Maps::config(&config).is_none_or(|config| config.abi != ABI) {
        return Err(KernelError::OtherVersion);
    }
    let kind = Kind::of(folder);
    let before = match folder.join(BEFORE).exists() {
        true => Some(Controller::kept(kind, &open(folder, BEFORE)?)?.about().digest),
        false => None,
    };
    let sums = stats_of(&open(folder, STATISTICS)?)?;
    let stats = match folder.join(COUNTED).exists() {
        true => sums.since(&Stats::read(&controller::contents(&open(folder, COUNTED)?)?).unwrap_or_default()),
        false => sums,
    };
    // The folder itself changes with every replacement.
    let made = fs::metadata(folder.join(LINK)).and_then(|m| m.modified()).map_err(file("look at", folder))?;
    Ok(Loaded {
        name: folder.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        about: Controller::in_force(kind, &open(folder, kind.pin())?)?.about(),
        option: folder.join(OPTION).exists(),
        operation: Operation::read(&open(folder, OPERATION)?)?,
        before,
        age: made.elapsed().unwrap_or_default(),
        stats,
    })
}

fn stats_of(statistics: &MapHandle) -> Result<Stats, KernelError> {
    let per_cpu = statistics.lookup_percpu(&0_u32.to_ne_bytes(), MapFlags::ANY);
    let per_cpu = per_cpu.map_err(|e| map_error("read", STATISTICS, &e))?.unwrap_or_default();
    Ok(Stats::sum(per_cpu.iter().map(Vec::as_slice)))
}
