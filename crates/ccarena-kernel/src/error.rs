//! Errors between this process and the kernel, with advice.

use std::path::PathBuf;

use ccarena_cc::policy::kernel::ImageError;
use ccarena_link::LinkError;

/// Something that the kernel bridge cannot do here.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    /// Loading BPF programs wants root in the initial user namespace.
    #[error("loading BPF congestion controls takes root outside of any user namespace; run it with sudo")]
    NotRoot,
    /// The kernel does not describe its types.
    #[error(
        "/sys/kernel/btf/vmlinux is missing, by which programs fit themselves to the running kernel; boot a kernel built with CONFIG_DEBUG_INFO_BTF=y (distribution kernels are)"
    )]
    NoBtf,
    /// `cong_control` got its present arguments in Linux 6.10.
    #[error(
        "kernel {release} is too old: BPF congestion control as used here came with Linux 6.10; boot 6.10 or newer"
    )]
    TooOld {
        /// `uname -r`.
        release: String,
    },
    /// The kernel lacks a function that the programs call.
    #[error("this kernel has no {function}, which the programs call; boot one built with {config}")]
    NoFunction {
        /// The function.
        function: &'static str,
        /// The build options that bring it.
        config: &'static str,
    },
    /// The TCP option's program attaches to a cgroup of version 2.
    #[error(
        "no cgroup2 file system is mounted, to which the TCP option's program attaches; mount -t cgroup2 none /sys/fs/cgroup"
    )]
    NoCgroup2,
    /// Pins live in a BPF file system.
    #[error(
        "this kernel has no BPF file system, in which attached programs are pinned; boot one built with CONFIG_BPF_SYSCALL=y"
    )]
    NoBpffs,
    /// A cgroup cannot be opened.
    #[error("cannot open cgroup {path}: {source}")]
    Cgroup {
        /// Expected path.
        path: PathBuf,
        /// Cause.
        source: std::io::Error,
    },
    /// A BPF object does not load.
    #[error("cannot load {object}: {reason}\n{log}")]
    Load {
        /// Name of the object.
        object: &'static str,
        /// Message of libbpf.
        reason: String,
        /// The verifier's last lines.
        log: String,
    },
    /// A congestion control or program does not attach.
    #[error("cannot attach {name}: {reason}")]
    Attach {
        /// Name of the program.
        name: String,
        /// Message of libbpf.
        reason: String,
    },
    /// A congestion control of this name exists.
    #[error(
        "a congestion control called {0} exists already; if ccarena attached it, detach it first (ccarena kernel detach)"
    )]
    NameTaken(String),
    /// A congestion control of the name for a policy exists, and is no policy.
    #[error("a congestion control called {0} exists already, and is no policy; give another name (--as NAME)")]
    PolicyNameTaken(String),
    /// A name that the kernel does not take.
    #[error(
        "congestion-control name {0:?} is none to the kernel: at most 15 letters, digits, dots and underscores; give another suffix"
    )]
    Name(String),
    /// A part of a loaded object is not there.
    #[error("{object} has no {part}: the program was built from other sources than this library")]
    Missing {
        /// The object.
        object: &'static str,
        /// Missing part.
        part: &'static str,
    },
    /// A map refuses an entry.
    #[error("cannot {action} map {map}: {reason}")]
    Map {
        /// Attempted operation.
        action: &'static str,
        /// Map of the operation.
        map: &'static str,
        /// Message of the kernel.
        reason: String,
    },
    /// A weight that no scheme can share by.
    #[error("weight {0} is not a number above 0 and at most 1000")]
    Weight(f64),
    /// Nothing takes weights.
    #[error("the weighted congestion controls are not loaded; load with wcc")]
    NoWcc,
    /// No more events come.
    #[error("the ring buffer cannot be read: {0}")]
    Ring(String),
    /// Attached before.
    #[error("already attached at {0}; detach first (ccarena kernel detach)")]
    AlreadyAttached(PathBuf),
    /// Somebody drives the sockets already.
    #[error(
        "another bridge daemon drives the sockets that have chosen ccarena; stop it first, as events go to one alone"
    )]
    SecondDaemon,
    /// The maps are not laid out as this version expects.
    #[error(
        "what is attached was attached by another version of ccarena; detach and attach again (ccarena kernel detach, ccarena kernel attach)"
    )]
    OtherVersion,
    /// The policy has no image, or the file is none.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// A name for a policy that the kernel does not take.
    #[error(
        "congestion-control name {0:?} is none to the kernel: 1 to 15 letters, digits, dots and underscores; give another one (--as NAME)"
    )]
    PolicyName(String),
    /// A name has a policy of another scheme.
    #[error(
        "{name} runs a policy of scheme {expected:?}, and this one is for {found:?}; load it under another name (--as), or unload {name} first. The policy that was loaded goes on"
    )]
    OtherScheme {
        /// The name.
        name: String,
        /// Digest of the new policy.
        found: String,
        /// Digest of the loaded policy.
        expected: String,
    },
    /// Setting that cannot change while a policy is loaded.
    #[error(
        "{0} is loaded already: who may choose it and the TCP option stay as they are; unload it first to change them"
    )]
    Fixed(String),
    /// No policy of that name.
    #[error("no policy is loaded as {0:?}; `ccarena kernel stats` lists those that are")]
    NotLoaded(String),
    /// A rollback without a policy before.
    #[error(
        "{0} has had one policy since it was loaded; expected a policy before it, which a second `load` would leave"
    )]
    NothingBefore(String),
    /// A guard for `pilot`.
    #[error(
        "guard {0}: pilot has no guard, as its law was not trained and observes nothing that could be outside of a range; leave --guard out, or give 0, and compare it by `canary` and `report`"
    )]
    NoGuard(u32),
    /// A share that is none.
    #[error("share {0}; expected a number from 0 to 1: the part of connections that gets the policy")]
    Share(f64),
    /// Remote addresses that cannot be read.
    #[error(transparent)]
    Prefix(#[from] ccarena_cc::operation::NoPrefix),
    /// Missing cgroup.
    #[error("{0} is no folder of a cgroup2 file system; expected one, as /sys/fs/cgroup/system.slice")]
    NoCgroup(PathBuf),
    /// Programs that are not attached.
    #[error("nothing is attached at {0}; attach first (ccarena kernel attach)")]
    NotAttached(PathBuf),
    /// The turn to change the machine cannot be had.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// A file or mount operation failed.
    #[error("cannot {action} {path}: {source}")]
    File {
        /// Attempted operation.
        action: &'static str,
        /// Path of the operation.
        path: PathBuf,
        /// Cause.
        source: std::io::Error,
    },
}

impl KernelError {
    /// Returns whether the fault is in what was asked for, on any machine, rather than in this one.
    #[must_use]
    pub fn is_of_arguments(&self) -> bool {
        matches!(
            self,
            Self::PolicyName(_)
                | Self::NoGuard(_)
                | Self::Share(_)
                | Self::Prefix(_)
                | Self::NoCgroup(_)
                | Self::Weight(_)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_taken_name_of_a_policy_says_how_to_give_another_one() {
        let said = KernelError::PolicyNameTaken("cubic".into()).to_string();
        assert!(said.contains("--as NAME") && !said.contains("suffix") && !said.contains("detach"), "{said}");
    }
}
