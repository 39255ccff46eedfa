//! The BPF object of policies: loaded, given an image, attached.

use std::fs;
use std::os::fd::{AsFd, AsRawFd};

use ccarena_cc::policy::kernel;
use libbpf_rs::{Link, MapCore, MapFlags, MapHandle, MapType, Object};

use crate::error::KernelError;
use crate::intf::{ABI, Config, Plain};
use crate::maps::map_error;
use crate::objects::{self, attach_option, attach_struct_ops, handle, named, set_initial, terminated};
use crate::tcp_option::TcpOption;

const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/policy.bpf.o"));
const NAME: &str = "policy";
/// Room for the reports of some thousand decisions.
const REPORTS_BYTES: u32 = 1 << 22;
const ZERO: [u8; 4] = 0_u32.to_ne_bytes();

/// The loaded object.
pub(super) struct Program {
    pub(super) object: Object,
    pub(super) config: MapHandle,
    pub(super) images: MapHandle,
    pub(super) statistics: MapHandle,
    pub(super) operation: MapHandle,
    pub(super) ended: MapHandle,
    pub(super) counts: MapHandle,
}

impl Program {
    /// Loads the object, for the congestion control `name`, with `image` in it. Nothing is attached yet.
    pub(super) fn load(image: &[u8], name: &str, unrestricted: bool, option: &TcpOption) -> Result<Self, KernelError> {
        let mut open = objects::open(NAME, OBJECT)?;
        let before = fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control").unwrap_or_default();
        let config = Config {
            abi: ABI,
            option: (*option != TcpOption::Off).into(),
            every_namespace: (*option != TcpOption::Namespaces).into(),
            name: terminated(name),
            before: terminated(before.trim()),
            ..Config::default()
        };
        set_initial(&mut open, NAME, ".rodata.config", config.bytes())?;
        set_initial(&mut open, NAME, NAME, &named(unrestricted, name))?;
        for mut program in open.progs_mut().filter(|program| program.name() == "option") {
            program.set_autoload(*option != TcpOption::Off);
        }
        if ccarena_cc::policy::kernel::about(image).reports > 0 {
            for mut map in open.maps_mut().filter(|map| map.name() == "reports") {
                map.set_max_entries(REPORTS_BYTES).map_err(|e| map_error("size", "reports", &e))?;
            }
        }
        let object = objects::finish(NAME, open)?;
        let images = handle(&object, "images")?;
        put(&images, &image_map(image, 1)?)?;
        Ok(Self {
            config: handle(&object, ".rodata.config")?,
            images,
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
        links.push((super::LINK, attach_struct_ops(&mut self.object, NAME, name)?.1));
        Ok(links)
    }
}

/// A map with `image` as policy number `generation`.
pub(super) fn image_map(image: &[u8], generation: u64) -> Result<MapHandle, KernelError> {
    let mut bytes = image.to_vec();
    let place = kernel::GENERATION_AT;
    bytes[place..place + 8].copy_from_slice(&generation.to_ne_bytes());
    let options = libbpf_sys::bpf_map_create_opts {
        sz: size_of::<libbpf_sys::bpf_map_create_opts>() as libbpf_sys::size_t,
        ..Default::default()
    };
    let size = bytes.len() as u32;
    let map = MapHandle::create(MapType::Array, Some("image"), 4, size, 1, &options)
        .map_err(|e| map_error("create", "image", &e))?;
    map.update(&ZERO, &bytes, MapFlags::ANY).map_err(|e| map_error("write", "image", &e))?;
    Ok(map)
}

/// Makes `image` the one of `images`.
pub(super) fn put(images: &MapHandle, image: &MapHandle) -> Result<(), KernelError> {
    let fd = image.as_fd().as_raw_fd();
    images.update(&ZERO, &fd.to_ne_bytes(), MapFlags::ANY).map_err(|e| match e.kind() {
        // The kernel compares the sizes of inner maps.
        libbpf_rs::ErrorKind::InvalidInput => KernelError::OtherVersion,
        _ => map_error("write", "images", &e),
    })
}

/// The map of the image in `images`.
pub(super) fn inner(images: &MapHandle) -> Result<MapHandle, KernelError> {
    let read = |e| map_error("read", "images", &e);
    let id = images.lookup(&ZERO, MapFlags::ANY).map_err(read)?;
    let id = id.as_deref().and_then(|id| id.first_chunk()).map_or(0, |id| u32::from_ne_bytes(*id));
    MapHandle::from_map_id(id).map_err(read)
}

/// The image in a map of [`image_map`].
pub(super) fn image_in(inner: &MapHandle) -> Result<Vec<u8>, KernelError> {
    Ok(inner.lookup(&ZERO, MapFlags::ANY).map_err(|e| map_error("read", "images", &e))?.unwrap_or_default())
}
