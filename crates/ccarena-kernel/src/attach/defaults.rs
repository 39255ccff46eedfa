//! Default congestion control of new sockets, in every network namespace that can be found.
//!
//! A namespace whose `net.ipv4.tcp_congestion_control` names a congestion control holds its program, also one that has
//! only inherited it. The namespaces of processes and those with names can be found.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use ccarena_link::namespace::Namespace;

use crate::error::KernelError;

const DEFAULT: &str = "/proc/sys/net/ipv4/tcp_congestion_control";
const ALLOWED: &str = "/proc/sys/net/ipv4/tcp_allowed_congestion_control";

/// Restores the default `before` in namespaces whose default is one of `ours`. If `before` is not available, another
/// one that every user may choose is set.
///
/// # Errors
///
/// If the calling thread's own namespace cannot be restored. Others may end meanwhile.
pub(crate) fn restore(ours: &[String], before: &str) -> Result<(), KernelError> {
    let mut seen = BTreeSet::new();
    for path in namespaces() {
        let Some(identity) = fs::metadata(&path).ok().map(|m| (m.dev(), m.ino())) else { continue };
        if seen.insert(identity) {
            if let Ok(namespace) = Namespace::open(&path) {
                let _ = namespace.run(|| restore_here(ours, before));
            }
        }
    }
    restore_here(ours, before).map_err(|source| KernelError::File { action: "write", path: DEFAULT.into(), source })
}

/// Named ones, and those of every thread: a thread may have one of its own.
fn namespaces() -> Vec<PathBuf> {
    let below = |folder: &Path| -> Vec<PathBuf> {
        fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
    };
    let processes = below(Path::new("/proc"));
    let tasks = processes.iter().flat_map(|process| below(&process.join("task")));
    below(Path::new("/run/netns")).into_iter().chain(tasks.map(|task| task.join("ns/net"))).collect()
}

fn restore_here(ours: &[String], before: &str) -> std::io::Result<()> {
    let now = fs::read_to_string(DEFAULT)?;
    if !ours.iter().any(|name| name == now.trim()) {
        return Ok(());
    }
    let allowed = fs::read_to_string(Path::new(ALLOWED))?;
    let mut choices = allowed.split_whitespace().filter(|name| !ours.iter().any(|own| own == name));
    let chosen = choices.clone().find(|&name| name == before).or_else(|| choices.next());
    chosen.map_or(Ok(()), |name| fs::write(DEFAULT, name))
}
