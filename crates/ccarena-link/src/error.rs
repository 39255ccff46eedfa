//! Errors between the emulator and the machine.

use std::io;

use ccarena_net::ServiceError;

/// Error of links that cannot be emulated here.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// Namespaces may not be created.
    #[error(
        "creating a network namespace was refused ({0}): expected root, or a kernel that lets anyone create user \
         namespaces. Run as root, or allow them: sysctl -w user.max_user_namespaces=10000, on Debian and Ubuntu also \
         kernel.unprivileged_userns_clone=1 and kernel.apparmor_restrict_unprivileged_userns=0"
    )]
    Namespace(io::Error),
    /// The process has threads already.
    #[error(
        "creating a user namespace was refused (EINVAL): expected a process with one thread. Call this before any thread \
         is started"
    )]
    Threads,
    /// The TUN driver is missing.
    #[error(
        "cannot open /dev/net/tun ({0}): expected the TUN driver, open to this user. Load it (modprobe tun), in a \
         container pass --device /dev/net/tun, or let everybody open it (chmod 666 /dev/net/tun), which gives no rights"
    )]
    TunMissing(io::Error),
    /// The interface exists.
    #[error("interface {0:?} exists already: expected a free name. Choose another, or remove it (ip link delete {0})")]
    NameTaken(String),
    /// Interfaces have short names.
    #[error("interface name {0:?}: expected 1 to 15 bytes without '/' or spaces")]
    Name(String),
    /// A setting of the kernel.
    #[error("cannot set sysctl {key} to {value:?}: {source}. Look whether it exists: ls /proc/sys/net")]
    Sysctl {
        /// Name of the field, with dots.
        key: String,
        /// The new value.
        value: String,
        /// Error of the kernel.
        source: io::Error,
    },
    /// Another call of the kernel.
    #[error("{what}: {source}")]
    System {
        /// Attempted operation.
        what: String,
        /// Error of the kernel.
        source: io::Error,
    },
    /// Addresses are 16 bits wide.
    #[error("{found} flows: expected at most {most}, since each has an address of its own")]
    Flows {
        /// Number that was found.
        found: usize,
        /// Largest number.
        most: usize,
    },
    /// A program of a flow cannot be started.
    #[error("flows[{flow}].foreign: {source}")]
    Program {
        /// Number of the flow in the scenario.
        flow: usize,
        /// Cause.
        source: Box<LinkError>,
    },
    /// A link of the scenario cannot be built.
    #[error("links[{index}]: {source}")]
    Service {
        /// Number of the link in the scenario.
        index: usize,
        /// Cause.
        source: ServiceError,
    },
    /// A thread of the emulator ended by a bug.
    #[error("a thread of the emulator panicked; this is a bug, and what it measured is lost")]
    Panicked,
}

impl LinkError {
    /// The error that the kernel gave to the last call, which was to do `what`.
    pub(crate) fn last(what: impl Into<String>) -> Self {
        Self::of(what, io::Error::last_os_error())
    }

    /// The error of a program of flow number `flow`.
    pub(crate) fn of_flow(self, flow: usize) -> Self {
        Self::Program { flow, source: Box::new(self) }
    }

    /// `source`, met when trying to do `what`.
    pub(crate) fn of(what: impl Into<String>, source: io::Error) -> Self {
        Self::System { what: what.into(), source }
    }
}
