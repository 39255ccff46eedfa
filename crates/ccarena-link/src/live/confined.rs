//! A program of somebody else: in a network namespace, in a process namespace of its own, within limits, and gone when
//! it is dropped, with all that it started.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::AsRawFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::clock;
use crate::error::LinkError;
use crate::namespace::{Namespace, unshare};

/// Time from the request to end until the end.
const GRACE: Duration = Duration::from_millis(300);
/// Largest file that a program may write.
const LARGEST_FILE: u64 = 256 << 20;
/// Part of a program's output that is shown.
const SHOWN_BYTES: u64 = 600;

/// Limits of a program.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Memory in MiB: of all its processes where control groups can be made, else of each.
    pub memory_mb: u32,
    /// Processes and threads.
    pub processes: u32,
}

/// Command to run.
#[derive(Clone, Debug)]
pub struct Task {
    /// Words of the command.
    pub words: Vec<String>,
    /// Environment variables beside those of this process.
    pub env: Vec<(String, String)>,
    /// Working directory, where its output goes as well.
    pub scratch: PathBuf,
    /// Name of its output's file there.
    pub name: &'static str,
    /// Limits.
    pub bounds: Bounds,
}

/// A running program. The thread that starts it must last: the kernel kills the program with it.
#[derive(Debug)]
pub struct Confined {
    child: Child,
    output: PathBuf,
    group: Option<Group>,
    bounds: Bounds,
    begun_ns: u64,
}

impl Confined {
    /// Starts `task` in `namespace`. The calling thread may start one program in its life.
    ///
    /// # Errors
    /// If it cannot be started: its first word is no program, or the kernel refuses.
    pub fn start(task: &Task, namespace: &Namespace) -> Result<Self, LinkError> {
        let Some((program, words)) = task.words.split_first() else {
            return Err(LinkError::of("cannot start a program", io::Error::from(io::ErrorKind::InvalidInput)));
        };
        unshare(libc::CLONE_NEWPID).map_err(|e| LinkError::of("cannot make a process namespace", e))?;
        let path = task.scratch.join(task.name);
        let fail = |e| LinkError::of(format!("cannot write {}", path.display()), e);
        let (output, errors) = File::create(&path).and_then(|file| Ok((file.try_clone()?, file))).map_err(fail)?;
        let group = Group::new(task.bounds);
        let joined = group.as_ref().map(Group::door).transpose().map_err(fail)?;
        let memory = if group.as_ref().is_some_and(|g| g.memory) { None } else { Some(task.bounds.memory_mb) };
        let mut command = namespace.command(program)?;
        let before = move || {
            for door in joined.iter().flatten() {
                write_zero(door)?;
            }
            become_ordinary()?;
            let limit = memory.map(|mb| (libc::RLIMIT_DATA, u64::from(mb) << 20));
            for (what, most) in [(libc::RLIMIT_CORE, 0), (libc::RLIMIT_FSIZE, LARGEST_FILE)].into_iter().chain(limit) {
                set_limit(what, most)?;
            }
            Ok(())
        };
        #[allow(unsafe_code, reason = "only the child itself can take its limits")]
        // SAFETY: between fork and exec the closure makes system calls alone: it takes no lock and allocates nothing.
        unsafe {
            command.pre_exec(before);
        }
        command.args(words).current_dir(&task.scratch).envs(task.env.iter().map(|(k, v)| (k, v)));
        command.stdin(Stdio::null()).stdout(output).stderr(errors);
        let child = command.spawn().map_err(|e| LinkError::of(format!("cannot run {program:?}"), e))?;
        Ok(Self { child, output: path, group, bounds: task.bounds, begun_ns: clock::now_ns() })
    }

    /// Process id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns its end, if it has ended.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Time since its start.
    #[must_use]
    pub fn age(&self) -> Duration {
        Duration::from_nanos(clock::now_ns().saturating_sub(self.begun_ns))
    }

    /// Returns what it exceeds, if it does; where control groups can be made, the kernel keeps it within limits itself.
    #[must_use]
    pub fn excess(&self) -> Option<String> {
        let most = self.bounds.processes;
        let refused = self.group.as_ref().is_some_and(Group::has_refused);
        (refused || tasks(self.child.id(), most) > most)
            .then(|| format!("started more than {most} processes and threads; its entrant file says how many it may"))
    }

    /// Returns whether its output so far contains `text`.
    #[must_use]
    pub fn has_printed(&self, text: &str) -> bool {
        fs::read(&self.output).is_ok_and(|bytes| String::from_utf8_lossy(&bytes).contains(text))
    }

    /// Returns the end of its output in one line.
    #[must_use]
    pub fn last_words(&self) -> String {
        let read = || -> io::Result<Vec<u8>> {
            let mut file = File::open(&self.output)?;
            let length = file.metadata()?.len();
            file.seek(SeekFrom::Start(length.saturating_sub(SHOWN_BYTES)))?;
            let mut bytes = Vec::new();
            file.take(SHOWN_BYTES).read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        let text = String::from_utf8_lossy(&read().unwrap_or_default()).into_owned();
        let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        lines[lines.len().saturating_sub(3)..].join(" / ")
    }

    /// Asks it to end, and kills it and all that it started if it does not.
    pub fn stop(&mut self) {
        if self.ended().is_some() {
            return;
        }
        kill(self.child.id(), libc::SIGTERM);
        let until_ns = clock::now_ns() + GRACE.as_nanos() as u64;
        while clock::now_ns() < until_ns && self.ended().is_none() {
            std::thread::sleep(Duration::from_millis(5));
        }
        // The first process of its namespace: the kernel ends the others with it (pid_namespaces(7)).
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Confined {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Returns how a program ended, in words.
#[must_use]
pub fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit status {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "an unknown end".into(),
    }
}

/// Threads of process `id` and of those that it started, counted up to a little above `most`.
fn tasks(id: u32, most: u32) -> u32 {
    let (mut count, mut open) = (0, vec![id]);
    while let Some(id) = open.pop() {
        for task in fs::read_dir(format!("/proc/{id}/task")).into_iter().flatten().flatten() {
            count += 1;
            let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
            open.extend(children.split_whitespace().filter_map(|id| id.parse::<u32>().ok()));
            if count > most {
                return count;
            }
        }
    }
    count
}

fn kill(id: u32, signal: libc::c_int) {
    #[allow(unsafe_code, reason = "the standard library sends SIGKILL only")]
    // SAFETY: the call takes numbers; the process is our child, not reaped yet, so that its number is its own.
    unsafe {
        libc::kill(id as libc::pid_t, signal);
    }
}

/// Takes back what this process's threads have of signals and precedence.
fn become_ordinary() -> io::Result<()> {
    let lowest = libc::sched_param { sched_priority: 0 };
    #[allow(unsafe_code, reason = "signal masks and schedulers have no safe wrapper in the standard library")]
    // SAFETY: the calls read structures on our stack, which live through them.
    unsafe {
        let mut none = std::mem::zeroed::<libc::sigset_t>();
        libc::sigemptyset(&raw mut none);
        if libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut()) != 0 {
            return Err(io::Error::last_os_error());
        }
        // Refused to some, who have no precedence to give back.
        libc::sched_setscheduler(0, libc::SCHED_OTHER, &raw const lowest);
    }
    Ok(())
}

fn set_limit(what: libc::__rlimit_resource_t, most: u64) -> io::Result<()> {
    let limit = libc::rlimit { rlim_cur: most, rlim_max: most };
    #[allow(unsafe_code, reason = "the standard library sets no limits")]
    // SAFETY: the call reads a structure on our stack.
    match unsafe { libc::setrlimit(what, &raw const limit) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Moves the calling process into the control group whose file of processes is `door`.
fn write_zero(door: &File) -> io::Result<()> {
    #[allow(unsafe_code, reason = "the standard library's writes are not promised to be safe between fork and exec")]
    // SAFETY: the descriptor is open and the text lives through the call.
    match unsafe { libc::write(door.as_raw_fd(), c"0".as_ptr().cast(), 1) } {
        1 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Control groups of a program, where this process may make some; they go when it is dropped.
#[derive(Debug)]
struct Group {
    folders: Vec<PathBuf>,
    /// The kernel limits the memory of all processes together.
    memory: bool,
}

/// Prefix of groups; the process id of their maker follows.
const GROUP: &str = "ccarena-";

impl Group {
    fn new(bounds: Bounds) -> Option<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let root = Path::new("/sys/fs/cgroup");
        let memory = (u64::from(bounds.memory_mb) << 20).to_string();
        let processes = bounds.processes.to_string();
        // Version 2 has one tree, version 1 one for each resource (cgroups(7)).
        let sets: &[(&str, &[(&str, &str)])] = if root.join("cgroup.controllers").exists() {
            &[("", &[("pids.max", &processes), ("memory.max", &memory)])]
        } else {
            &[("pids", &[("pids.max", &processes)]), ("memory", &[("memory.limit_in_bytes", &memory)])]
        };
        let mut group = Self { folders: Vec::new(), memory: false };
        for (tree, settings) in sets {
            let tree = root.join(tree);
            sweep(&tree);
            let folder = tree.join(format!("{GROUP}{}-{number}", std::process::id()));
            if fs::create_dir(&folder).is_err() {
                continue;
            }
            group.folders.push(folder.clone());
            for (name, value) in *settings {
                let set = fs::write(folder.join(name), value).is_ok();
                group.memory |= set && name.starts_with("memory");
            }
        }
        (!group.folders.is_empty()).then_some(group)
    }

    /// Files into which a process writes 0 to join.
    fn door(&self) -> io::Result<Vec<File>> {
        self.folders.iter().map(|folder| File::options().write(true).open(folder.join("cgroup.procs"))).collect()
    }

    /// Returns whether the kernel has refused a process.
    fn has_refused(&self) -> bool {
        self.folders.iter().any(|folder| {
            let events = fs::read_to_string(folder.join("pids.events")).unwrap_or_default();
            events.lines().any(|line| line.strip_prefix("max ").is_some_and(|count| count.trim() != "0"))
        })
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for folder in &self.folders {
            // The last processes leave a moment after they are killed.
            for _ in 0..50 {
                if fs::remove_dir(folder).is_ok() {
                    break;
                }
                std::thread::sleep(Duration::from_millis(2));
            }
        }
    }
}

/// Removes the control groups in `folder` whose makers are gone.
fn sweep(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let maker = name.to_str().and_then(|name| name.strip_prefix(GROUP)?.split('-').next()?.parse::<u32>().ok());
        if maker.is_some_and(|id| !Path::new(&format!("/proc/{id}")).exists()) {
            let _ = fs::remove_dir(entry.path());
        }
    }
}
