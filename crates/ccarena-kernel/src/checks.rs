//! Checks whether this machine can run the bridge, with advice if not.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::KernelError;
use crate::tcp_option::TcpOption;

/// One precondition.
#[derive(Debug)]
pub struct Check {
    /// Name of the requirement.
    pub name: &'static str,
    /// Obstacle, if any; its message says what to do.
    pub problem: Option<KernelError>,
}

/// All preconditions, for `ccarena doctor`.
#[must_use]
pub fn checks() -> Vec<Check> {
    [
        ("root", root as fn() -> Result<(), KernelError>),
        ("kernel 6.10 or newer", version),
        ("kernel types (BTF)", types),
        ("BPF file system", bpffs),
        ("CUBIC's kernel functions", cubic),
        ("cgroup2", || cgroup().map(drop)),
    ]
    .map(|(name, check)| Check { name, problem: check().err() })
    .into()
}

/// The first precondition of loading that does not hold; cgroup2 is one of the TCP option's alone.
pub(crate) fn require(option: &TcpOption) -> Result<(), KernelError> {
    root()?;
    version()?;
    types()?;
    cubic()?;
    if *option == TcpOption::Off { Ok(()) } else { cgroup().map(drop) }
}

pub(crate) fn root() -> Result<(), KernelError> {
    #[allow(unsafe_code, reason = "geteuid")]
    // SAFETY: it takes nothing and cannot fail.
    let user = unsafe { libc::geteuid() };
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    if user == 0 && is_initial(&map) { Ok(()) } else { Err(KernelError::NotRoot) }
}

/// Returns whether this `uid_map` is that of the initial user namespace, which maps every user to itself.
fn is_initial(uid_map: &str) -> bool {
    uid_map.split_whitespace().eq(["0", "0", "4294967295"])
}

fn version() -> Result<(), KernelError> {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_string();
    if is_new_enough(&release) { Ok(()) } else { Err(KernelError::TooOld { release }) }
}

/// 6.10 gave `cong_control` its present arguments.
fn is_new_enough(release: &str) -> bool {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|n| n.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= (6_u32, 10_u32)
}

fn types() -> Result<(), KernelError> {
    if Path::new("/sys/kernel/btf/vmlinux").exists() { Ok(()) } else { Err(KernelError::NoBtf) }
}

/// Pins want it, loading does not.
fn bpffs() -> Result<(), KernelError> {
    let known = fs::read_to_string("/proc/filesystems").unwrap_or_default();
    if known.lines().any(|line| line.trim() == "nodev\tbpf") { Ok(()) } else { Err(KernelError::NoBpffs) }
}

fn cubic() -> Result<(), KernelError> {
    if congestion_controls().iter().any(|name| name == "cubic") {
        return Ok(());
    }
    Err(KernelError::NoFunction { function: "cubictcp_cong_avoid", config: "CONFIG_TCP_CONG_CUBIC=y" })
}

/// Every congestion control that the kernel has now.
pub(crate) fn congestion_controls() -> Vec<String> {
    let list = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap_or_default();
    list.split_whitespace().map(Into::into).collect()
}

/// Returns the mount point of cgroup2.
///
/// # Errors
///
/// If it is not mounted.
pub fn cgroup_mount() -> Result<PathBuf, KernelError> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    mount_point(&mounts).ok_or(KernelError::NoCgroup2)
}

/// Checks that the folder which `option` names is a cgroup.
pub(crate) fn is_possible(option: &TcpOption) -> Result<(), KernelError> {
    if let TcpOption::Cgroup(folder) = option { is_cgroup(folder) } else { Ok(()) }
}

/// Checks that `folder` is a cgroup (version 2).
pub(crate) fn is_cgroup(folder: &Path) -> Result<(), KernelError> {
    if folder.join("cgroup.controllers").exists() { Ok(()) } else { Err(KernelError::NoCgroup(folder.into())) }
}

/// Returns this process's cgroup (version 2).
pub(crate) fn cgroup() -> Result<PathBuf, KernelError> {
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let below = own.lines().find_map(|line| line.strip_prefix("0::/")).ok_or(KernelError::NoCgroup2)?;
    Ok(cgroup_mount()?.join(below))
}

/// The first cgroup2 mount of `/proc/self/mounts`, whose second field writes spaces as `\040`.
fn mount_point(mounts: &str) -> Option<PathBuf> {
    mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>()).find_map(|fields| match fields[..] {
        [_, point, "cgroup2", ..] => Some(point.replace("\\040", " ").into()),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_compare_as_numbers() {
        for (release, enough) in
            [("6.18.44-fc", true), ("6.10.0", true), ("6.9.12", false), ("10.0", true), ("", false)]
        {
            assert_eq!(is_new_enough(release), enough, "{release}");
        }
    }

    #[test]
    fn root_of_a_user_namespace_is_not_root() {
        assert!(is_initial("         0          0 4294967295\n"));
        assert!(!is_initial("         0       1000          1\n"));
        assert!(!is_initial(""));
    }

    #[test]
    fn cgroup2_is_found_among_mounts() {
        let mounts = "tmpfs /sys/fs/cgroup tmpfs rw 0 0\ncgroup2 /sys/fs/my\\040groups cgroup2 rw,relatime 0 0\n";
        assert_eq!(mount_point(mounts), Some("/sys/fs/my groups".into()));
        assert_eq!(mount_point("proc /proc proc rw 0 0\n"), None);
    }

    #[test]
    fn every_problem_says_what_to_do() {
        for (problem, remedy) in [
            (KernelError::NotRoot, "run it with sudo"),
            (KernelError::NoBtf, "boot a kernel built with"),
            (KernelError::TooOld { release: "6.1".into() }, "boot 6.10 or newer"),
            (KernelError::NoFunction { function: "f", config: "CONFIG_F=y" }, "boot one built with CONFIG_F=y"),
            (KernelError::NoCgroup2, "mount -t cgroup2"),
            (KernelError::NoBpffs, "boot one built with"),
        ] {
            assert!(problem.to_string().contains(remedy), "{problem}");
        }
    }
}
