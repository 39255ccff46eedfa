//! Costs of the BPF programs: the kernel counts how long programs run, for as long as a process holds a descriptor.

use std::collections::BTreeSet;
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::time::Duration;

use libbpf_rs::{MapHandle, MapInfo, libbpf_sys, query};

/// Counts the time that programs run, on the whole machine, until it is dropped; two clock readings per run.
#[derive(Debug)]
pub struct Cost {
    _counting: OwnedFd,
    /// Type descriptions, which all programs and maps of an object share.
    objects: BTreeSet<u32>,
}

impl Cost {
    /// Counts from now on; for the programs of the objects that `maps` belong to. Nothing where the kernel refuses.
    pub(crate) fn begin<'a>(maps: impl Iterator<Item = &'a MapHandle>) -> Option<Self> {
        let objects = maps.filter_map(|map| MapInfo::new(map.as_fd()).ok()).map(|map| map.info.btf_id);
        let objects: BTreeSet<u32> = objects.filter(|&id| id != 0).collect();
        #[allow(unsafe_code, reason = "libbpf-rs does not wrap BPF_ENABLE_STATS")]
        // SAFETY: takes a number and gives a new descriptor, or an error below 0.
        let counting = unsafe {
            let fd = libbpf_sys::bpf_enable_stats(libbpf_sys::BPF_STATS_RUN_TIME);
            (fd >= 0).then(|| OwnedFd::from_raw_fd(fd))
        };
        counting.filter(|_| !objects.is_empty()).map(|counting| Self { _counting: counting, objects })
    }

    /// CPU time of the programs while anybody counted.
    #[must_use]
    pub fn spent(&self) -> Duration {
        let ours = query::ProgInfoIter::default().filter(|program| self.objects.contains(&program.btf_id));
        Duration::from_nanos(ours.map(|program| program.run_time_ns).sum())
    }
}
