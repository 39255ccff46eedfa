//! The BPF object of a controller: loaded, given the controller, attached.

use std::fs;

use libbpf_rs::{Link, MapHandle, Object};

use super::controller::{Controller, Kind};
use crate::error::KernelError;
use crate::intf::{ABI, Config, Plain};
use crate::maps::map_error;
use crate::objects::{self, attach_option, attach_struct_ops, handle, named, set_initial, terminated};
use crate::tcp_option::TcpOption;

/// Room for the reports of some thousand decisions.
const REPORTS_BYTES: u32 = 1 << 22;

/// The loaded object.
pub(super) struct Program {
    pub(super) object: Object,
    pub(super) kind: Kind,
    pub(super) config: MapHandle,
    /// Holds the controller.
    pub(super) controller: MapHandle,
    pub(super) statistics: MapHandle,
    pub(super) operation: MapHandle,
    pub(super) ended: MapHandle,
    pub(super) counts: MapHandle,
}

impl Program {
    /// Loads the object, for the congestion control `name`, with `controller` in it. Nothing is attached yet.
    pub(super) fn load(
        controller: &Controller,
        name: &str,
        unrestricted: bool,
        option: &TcpOption,
    ) -> Result<Self, KernelError> {
        let (kind, first) = (controller.kind, controller.clone().numbered(1));
        let mut open = objects::open(kind.name(), kind.object())?;
        let before = fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control").unwrap_or_default();
        let config = Config {
            abi: ABI,
            option: (*option != TcpOption::Off).into(),
            every_namespace: (*option != TcpOption::Namespaces).into(),
            name: terminated(name),
            before: terminated(before.trim()),
            ..Config::default()
        };
        set_initial(&mut open, kind.name(), ".rodata.config", config.bytes())?;
        set_initial(&mut open, kind.name(), kind.name(), &named(unrestricted, name))?;
        for mut program in open.progs_mut().filter(|program| program.name() == "option") {
            program.set_autoload(*option != TcpOption::Off);
        }
        if controller.about().reports > 0 {
            for mut map in open.maps_mut().filter(|map| map.name() == "reports") {
                map.set_max_entries(REPORTS_BYTES).map_err(|e| map_error("size", "reports", &e))?;
            }
        }
        if kind == Kind::Pilot {
            set_initial(&mut open, kind.name(), kind.map(), &first.bytes)?;
        }
        let object = objects::finish(kind.name(), open)?;
        let map = handle(&object, kind.map())?;
        if kind == Kind::Policy {
            first.put(&map)?;
        }
        Ok(Self {
            kind,
            config: handle(&object, ".rodata.config")?,
            controller: map,
            statistics: handle(&object, "statistics")?,
            operation: handle(&object, ".data.operation")?,
            ended: handle(&object, "ended")?,
            counts: handle(&object, ".data.counts")?,
            object,
        })
    }

    /// Links with the names to pin them by; the congestion control's is the last.
    pub(super) fn attach(&mut self, name: &str, option: &TcpOption) -> Result<Vec<(&'static str, Link)>, KernelError> {
        let mut links = Vec::new();
        if *option != TcpOption::Off {
            links.push((super::OPTION, attach_option(&self.object, option)?.1));
        }
        links.push((super::LINK, attach_struct_ops(&mut self.object, self.kind.name(), name)?.1));
        Ok(links)
    }
}
