//! Congestion controls of others in BPF object files: loaded for a run, and gone with it.

use std::fs::File;
use std::io::Read;

use ccarena_net::Scenario;
use ccarena_net::scenario::Foreign;
use libbpf_rs::{ErrorKind, Link, MapCore, MapType, Object};

use super::RunError;
use crate::{checks, objects};

/// Largest object file.
const LARGEST: u64 = 16 << 20;

/// The objects of a run.
#[derive(Default)]
pub struct Objects {
    /// Each file once.
    loaded: Vec<Loaded>,
}

struct Loaded {
    file: String,
    name: String,
    /// Dropping them takes the congestion control back; sockets that use it keep it until they close.
    _links: Vec<Link>,
    _object: Object,
}

impl Objects {
    /// Loads the objects that flows of `scenario` name.
    ///
    /// # Errors
    /// If a file is no object with one congestion control, or the kernel refuses it.
    pub fn load(scenario: &Scenario) -> Result<Self, RunError> {
        let mut loaded: Vec<Loaded> = Vec::new();
        for (index, flow) in scenario.flows.iter().enumerate() {
            let Some(Foreign::Bpf { file }) = &flow.foreign else { continue };
            if loaded.iter().all(|one| one.file != *file) {
                checks::root()?;
                // The entrant's own word for the file: whoever wrote it knows no `foreign`.
                let fail = |problem| {
                    let path = format!("flows[{index}] ({}): object", scenario.flows[index].scheme);
                    RunError::Unsupported { path, problem }
                };
                loaded.push(Loaded::of(file).map_err(fail)?);
            }
        }
        Ok(Self { loaded })
    }

    /// The name for `TCP_CONGESTION` of the congestion control in `file`.
    pub fn name(&self, file: &str) -> Option<&str> {
        self.loaded.iter().find(|one| one.file == file).map(|one| one.name.as_str())
    }
}

impl Loaded {
    fn of(file: &str) -> Result<Self, String> {
        let open = objects::open("the object", &read(file)?).map_err(|e| format!("{file}: {e}"))?;
        // Names as the maps' initial values have them, whatever the layout of the object's own type is.
        let values: Vec<Vec<u8>> = open
            .maps()
            .filter(|map| map.map_type() == MapType::StructOps)
            .filter_map(|map| map.initial_value().map(<[u8]>::to_vec))
            .collect();
        if values.is_empty() {
            return Err(format!(
                "{file} has no struct_ops map; expected one of type tcp_congestion_ops, as bpftool struct_ops registers it"
            ));
        }
        let mut object = objects::finish("the object", open).map_err(|e| format!("{file}: {e}"))?;
        let before = checks::congestion_controls();
        let mut links = Vec::new();
        for mut map in object.maps_mut().filter(|map| map.map_type() == MapType::StructOps) {
            links.push(map.attach_struct_ops().map_err(|e| match e.kind() {
                ErrorKind::AlreadyExists => {
                    format!("{file}: a congestion control of its name exists already; take that away first")
                }
                _ => format!("{file}: the kernel refuses it: {e:#}"),
            })?);
        }
        let is_its = |name: &String| values.iter().any(|value| contains(value, name));
        let new: Vec<String> =
            checks::congestion_controls().into_iter().filter(|name| !before.contains(name) && is_its(name)).collect();
        match new.as_slice() {
            [name] => Ok(Self { file: file.into(), name: name.clone(), _links: links, _object: object }),
            [] => Err(format!(
                "{file}: the kernel lists no new congestion control after it was attached; expected one of type tcp_congestion_ops"
            )),
            several => {
                Err(format!("{file} has the congestion controls {}; expected one in each file", several.join(", ")))
            }
        }
    }
}

fn read(file: &str) -> Result<Vec<u8>, String> {
    let fail = |e: std::io::Error| format!("cannot read {file}: {e}");
    let mut bytes = Vec::new();
    File::open(file).map_err(fail)?.take(LARGEST + 1).read_to_end(&mut bytes).map_err(fail)?;
    if bytes.len() as u64 > LARGEST || !bytes.starts_with(b"\x7fELF") {
        return Err(format!("{file} is no BPF object file of at most {} MiB", LARGEST >> 20));
    }
    Ok(bytes)
}

/// Returns whether `value` has `name` and a zero byte in it.
fn contains(value: &[u8], name: &str) -> bool {
    let text = [name.as_bytes(), b"\0"].concat();
    value.windows(text.len()).any(|window| window == text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_are_no_objects_are_refused_by_name() {
        assert!(read("/nowhere/x.o").unwrap_err().starts_with("cannot read /nowhere/x.o"));
        assert!(read("/proc/self/cmdline").unwrap_err().contains("is no BPF object file"));
        assert!(contains(b"abc\0vegas\0\0", "vegas") && !contains(b"vegas2\0", "vegas"));
    }
}
