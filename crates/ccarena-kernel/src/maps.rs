//! The maps that user space and the BPF programs share.

use std::io::Read;
use std::sync::{Mutex, MutexGuard, PoisonError};

use libbpf_rs::{ErrorKind, Iter, Link, MapCore, MapFlags, MapHandle};

use crate::error::KernelError;
use crate::intf::{Config, Event, Plain};

/// Owner of a weight in the WCC family. The first that has one decides, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// The socket's `SO_COOKIE`.
    Cookie(u64),
    /// Sockets with this `SO_MARK`.
    Mark(u32),
    /// The cgroup (version 2) that it was made in, by inode number.
    Cgroup(u64),
    /// All others.
    Default,
}

/// The maps that user space reads and writes.
#[derive(Debug)]
pub(crate) struct Maps {
    pub events: MapHandle,
    pub answers: MapHandle,
    pub namespaces: MapHandle,
    /// Events that were not reported, of all flows.
    pub unreported: MapHandle,
    pub config: MapHandle,
    /// Gives the list of flows to its reader.
    pub list: Link,
    /// Maps of the WCC family, if it is attached.
    pub wcc: Option<WccMaps>,
}

/// Weights, and the state by which sockets learn that one has changed.
#[derive(Debug)]
pub(crate) struct WccMaps {
    pub weights: MapHandle,
    pub state: MapHandle,
}

/// A weight as the programs have it.
pub(crate) fn thousandths(weight: Option<f64>) -> Result<Option<u32>, KernelError> {
    match weight {
        Some(w) if w > 0.0 && w <= 1000.0 => Ok(Some(((w * 1000.0).round() as u32).max(1))),
        Some(w) => Err(KernelError::Weight(w)),
        None => Ok(None),
    }
}

/// `struct weight_key` of `wcc.bpf.c`: id, kind, padding.
fn weight_key(kind: u64, id: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&id.to_ne_bytes());
    key[8..].copy_from_slice(&kind.to_ne_bytes());
    key
}

/// Serialises the steps that raise the generation.
static WEIGHING: Mutex<()> = Mutex::new(());

impl Maps {
    /// Returns the maps with the names to pin them by.
    pub(crate) fn all(&mut self) -> impl Iterator<Item = (&'static str, &mut MapHandle)> {
        let bridge = [
            ("config", &mut self.config),
            ("events", &mut self.events),
            ("answers", &mut self.answers),
            ("namespaces", &mut self.namespaces),
            ("unreported", &mut self.unreported),
        ];
        let wcc = self.wcc.as_mut().map(|wcc| [("weights", &mut wcc.weights), ("state", &mut wcc.state)]);
        bridge.into_iter().chain(wcc.into_iter().flatten())
    }

    /// Every flow that the kernel has now.
    pub(crate) fn flows(&self) -> Result<Vec<Event>, KernelError> {
        let mut iter = Iter::new(&self.list).map_err(|e| map_error("list", "flows", &e))?;
        let mut bytes = Vec::new();
        iter.read_to_end(&mut bytes).map_err(|e| KernelError::Map {
            action: "list",
            map: "flows",
            reason: e.to_string(),
        })?;
        Ok(bytes.chunks_exact(size_of::<Event>()).filter_map(Event::read).collect())
    }

    /// Returns how many events were not reported so far.
    pub(crate) fn unreported(&self) -> Result<u64, KernelError> {
        let value = self
            .unreported
            .lookup(&0_u32.to_ne_bytes(), MapFlags::ANY)
            .map_err(|e| map_error("read", "unreported", &e))?;
        Ok(value.as_deref().and_then(|v| v.first_chunk()).map_or(0, |bytes| u64::from_ne_bytes(*bytes)))
    }

    /// The constants that the programs were loaded with.
    pub(crate) fn config(map: &MapHandle) -> Option<Config> {
        map.lookup(&0_u32.to_ne_bytes(), MapFlags::ANY).ok()?.as_deref().and_then(Config::read)
    }

    pub(crate) fn set_weight(&self, key: Key, weight: Option<f64>) -> Result<(), KernelError> {
        let maps = self.wcc.as_ref().ok_or(KernelError::NoWcc)?;
        let thousandths = thousandths(weight)?;
        let key = match key {
            Key::Cookie(id) => weight_key(0, id),
            Key::Mark(id) => weight_key(1, id.into()),
            Key::Cgroup(id) => weight_key(2, id),
            Key::Default => weight_key(3, 0),
        };
        match thousandths {
            Some(w) => maps
                .weights
                .update(&key, &w.to_ne_bytes(), MapFlags::ANY)
                .map_err(|e| map_error("write", "weights", &e))?,
            None => remove(&maps.weights, "weights", &key)?,
        }
        maps.raise_generation()
    }
}

impl WccMaps {
    /// Sockets look their weights up again at their next ACK.
    fn raise_generation(&self) -> Result<(), KernelError> {
        let _guard = locked(&WEIGHING);
        let key = 0_u32.to_ne_bytes();
        let state = self
            .state
            .lookup(&key, MapFlags::ANY)
            .map_err(|e| map_error("read", "generation", &e))?
            .unwrap_or_default();
        let now = state.first_chunk().map_or(0, |bytes| u32::from_ne_bytes(*bytes));
        self.state
            .update(&key, &now.wrapping_add(1).to_ne_bytes(), MapFlags::ANY)
            .map_err(|e| map_error("write", "generation", &e))
    }
}

pub(crate) fn map_error(action: &'static str, map: &'static str, error: &libbpf_rs::Error) -> KernelError {
    KernelError::Map { action, map, reason: error.to_string() }
}

pub(crate) fn remove(map: &MapHandle, name: &'static str, key: &[u8]) -> Result<(), KernelError> {
    match map.delete(key) {
        Err(e) if e.kind() != ErrorKind::NotFound => Err(map_error("clear", name, &e)),
        _ => Ok(()),
    }
}

/// Nothing here is left half done by a panic.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
