//! Network namespaces without names: they exist as long as a process, a device's descriptor or ours holds them.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::panic;
use std::process::Command;
use std::thread;

use crate::error::LinkError;
use crate::netlink;

/// A network namespace. It goes when the last descriptor, process and thread in it are gone.
#[derive(Debug)]
pub struct Namespace {
    file: File,
}

impl Namespace {
    /// A new one with its loopback device up and without IPv6, whose router solicitations would cross the links.
    ///
    /// # Errors
    /// If the caller may not (see [`become_root_in_user_namespace`]).
    pub fn new() -> Result<Self, LinkError> {
        let made = in_thread(|| {
            unshare(libc::CLONE_NEWNET).map_err(LinkError::Namespace)?;
            Self::current()
        })??;
        made.run(|| netlink::Socket::open()?.set_up(netlink::index("lo")?, None, None))??;
        for family in ["all", "default"] {
            let key = format!("net.ipv6.conf.{family}.disable_ipv6");
            match made.sysctl(&key, "1") {
                // A kernel without IPv6.
                Err(LinkError::Sysctl { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
                done => done?,
            }
        }
        Ok(made)
    }

    /// The calling thread's.
    ///
    /// # Errors
    /// If /proc is not mounted.
    pub fn current() -> Result<Self, LinkError> {
        let path = "/proc/thread-self/ns/net";
        let file = File::open(path).map_err(|e| LinkError::of(format!("cannot open {path}"), e))?;
        Ok(Self { file })
    }

    /// The one of the file at `path`: of a process, `/proc/PID/ns/net`, or with a name, `/run/netns/NAME`.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn open(path: &std::path::Path) -> Result<Self, LinkError> {
        let file = File::open(path).map_err(|e| LinkError::of(format!("cannot open {}", path.display()), e))?;
        Ok(Self { file })
    }

    /// Another handle of the same namespace.
    ///
    /// # Errors
    /// If the process has too many descriptors.
    pub fn try_clone(&self) -> Result<Self, LinkError> {
        let file = self.file.try_clone().map_err(|e| LinkError::of("cannot copy a descriptor", e))?;
        Ok(Self { file })
    }

    /// The kernel's number of it, which no other namespace has as long as it exists.
    ///
    /// # Errors
    /// If the kernel does not tell.
    pub fn number(&self) -> Result<u64, LinkError> {
        self.file.metadata().map(|m| m.ino()).map_err(|e| LinkError::of("cannot look at a network namespace", e))
    }

    /// Moves the calling thread, and the threads and processes that it starts from now on, into this namespace.
    ///
    /// # Errors
    /// If the caller may not.
    pub fn enter(&self) -> Result<(), LinkError> {
        set_namespace(self.file.as_raw_fd()).map_err(|e| LinkError::of("cannot enter a network namespace", e))
    }

    /// Runs `work` in this namespace, in a thread of its own. Sockets that it opens stay in this namespace.
    ///
    /// # Errors
    /// If the caller may not enter it. A panic of `work` goes on in the caller.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, LinkError> {
        in_thread(|| self.enter().map(|()| work()))?
    }

    /// A command that will run in this namespace, and is killed when the thread that starts it ends: start it from one
    /// that lasts, so that nothing outlives us.
    ///
    /// # Errors
    /// If the process has too many descriptors.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Result<Command, LinkError> {
        let file = self.file.try_clone().map_err(|e| LinkError::of("cannot copy a descriptor", e))?;
        let mut command = Command::new(program);
        let before = move || {
            set_namespace(file.as_raw_fd())?;
            die_with_parent()
        };
        #[allow(unsafe_code, reason = "only the child itself can enter the namespace")]
        // SAFETY: between fork and exec the closure makes system calls alone: it takes no lock and allocates nothing.
        unsafe {
            command.pre_exec(before);
        }
        Ok(command)
    }

    /// Sets a sysctl below `net` of this namespace, its name written with dots.
    ///
    /// # Errors
    /// If the kernel has none of that name, or refuses the value.
    pub fn sysctl(&self, key: &str, value: &str) -> Result<(), LinkError> {
        let path = format!("/proc/sys/{}", key.replace('.', "/"));
        // The kernel shows each thread the sysctls of its own namespace.
        self.run(|| fs::write(&path, value))?.map_err(|source| LinkError::Sysctl {
            key: key.into(),
            value: value.into(),
            source,
        })
    }
}

/// Lets a process without root create network namespaces: moves it into a user namespace of its own in which it is root,
/// and into a network namespace of its own. Does nothing if it may create them already.
///
/// To be called before any thread is started. Files keep their owners: outside, the process is who it was.
///
/// # Errors
/// If the kernel refuses, or the process has several threads.
pub fn become_root_in_user_namespace() -> Result<(), LinkError> {
    if may_create_namespaces() {
        return Ok(());
    }
    #[allow(unsafe_code, reason = "the standard library does not tell who the process is")]
    // SAFETY: these calls take nothing and cannot fail.
    let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
    unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNET).map_err(|e| match e.raw_os_error() {
        Some(libc::EINVAL) => LinkError::Threads,
        _ => LinkError::Namespace(e),
    })?;
    // user_namespaces(7): without privileges outside, groups cannot be mapped while setgroups is allowed.
    let writes = [
        ("/proc/self/setgroups", "deny".to_owned()),
        ("/proc/self/uid_map", format!("0 {user} 1")),
        ("/proc/self/gid_map", format!("0 {group} 1")),
    ];
    for (path, text) in writes {
        fs::write(path, text).map_err(|e| LinkError::of(format!("cannot write {path}"), e))?;
    }
    Ok(())
}

/// Returns whether the process may create network namespaces as it is. Starts no thread.
#[must_use]
pub fn may_create_namespaces() -> bool {
    // CapEff in proc_pid_status(5), a hexadecimal mask; bit 21 is CAP_SYS_ADMIN (capabilities(7)), bit 12 CAP_NET_ADMIN.
    let status = fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let mask = mask.and_then(|text| u64::from_str_radix(text.trim(), 16).ok()).unwrap_or(0);
    let needed = (1 << 21) | (1 << 12);
    mask & needed == needed
}

/// Has the kernel kill the calling process when the thread that started it ends.
pub(crate) fn die_with_parent() -> io::Result<()> {
    #[allow(unsafe_code, reason = "prctl has no safe wrapper in the standard library")]
    // SAFETY: PR_SET_PDEATHSIG takes a signal number and touches no memory of ours.
    match unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

pub(crate) fn unshare(flags: libc::c_int) -> io::Result<()> {
    #[allow(unsafe_code, reason = "unshare has no safe wrapper in the standard library")]
    // SAFETY: new namespaces touch no memory of ours.
    match unsafe { libc::unshare(flags) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn set_namespace(namespace: RawFd) -> io::Result<()> {
    #[allow(unsafe_code, reason = "setns has no safe wrapper in the standard library")]
    // SAFETY: the descriptor is open, and another network namespace touches no memory of ours.
    match unsafe { libc::setns(namespace, libc::CLONE_NEWNET) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Runs `work` in a thread of its own, so that what it does to its thread ends with it.
fn in_thread<T: Send>(work: impl FnOnce() -> T + Send) -> Result<T, LinkError> {
    thread::scope(|scope| {
        let handle =
            thread::Builder::new().spawn_scoped(scope, work).map_err(|e| LinkError::of("cannot start a thread", e))?;
        Ok(handle.join().unwrap_or_else(|payload| panic::resume_unwind(payload)))
    })
}
