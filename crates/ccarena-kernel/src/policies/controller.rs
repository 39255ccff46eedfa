//! Controllers that programs in the kernel run, and the maps that hold them.

use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;

use ccarena_cc::policy::kernel::{self, About, ImageError, Known};
use libbpf_rs::{MapCore, MapFlags, MapHandle, MapType};

use crate::error::KernelError;
use crate::maps::map_error;
use crate::pilot::{self, Numbers};

const ZERO: [u8; 4] = 0_u32.to_ne_bytes();

/// The two programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Runs the image of a policy, which a map of maps holds.
    Policy,
    /// Runs `pilot` by the numbers of a map.
    Pilot,
}

impl Kind {
    /// Name of the object, and of the congestion control in it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Policy => "policy",
            Self::Pilot => pilot::NAME,
        }
    }

    pub(super) fn object(self) -> &'static [u8] {
        match self {
            Self::Policy => include_bytes!(concat!(env!("OUT_DIR"), "/policy.bpf.o")),
            Self::Pilot => include_bytes!(concat!(env!("OUT_DIR"), "/pilot.bpf.o")),
        }
    }

    /// The map that holds the controller in force.
    pub(super) fn map(self) -> &'static str {
        match self {
            Self::Policy => "images",
            Self::Pilot => ".data.force",
        }
    }

    /// Name of that map's pin.
    pub(super) fn pin(self) -> &'static str {
        self.map().trim_start_matches(".data.")
    }

    /// The kind whose map is pinned in `folder`.
    pub(super) fn of(folder: &Path) -> Self {
        if folder.join(Self::Pilot.pin()).exists() { Self::Pilot } else { Self::Policy }
    }
}

/// A controller that a program in the kernel runs: a policy, or the scheme `pilot`.
#[derive(Clone, Debug)]
pub struct Controller {
    pub(super) kind: Kind,
    /// Contents of the map that the program reads.
    pub(super) bytes: Vec<u8>,
}

impl Controller {
    /// The policy of `image` ([`kernel::write`]).
    ///
    /// # Errors
    /// If the image is damaged.
    pub fn policy(image: &[u8]) -> Result<Self, ImageError> {
        kernel::check(image)?;
        Ok(Self { kind: Kind::Policy, bytes: image.to_vec() })
    }

    /// The scheme `pilot`.
    #[must_use]
    pub fn pilot(numbers: &Numbers) -> Self {
        Self { kind: Kind::Pilot, bytes: numbers.force() }
    }

    /// Returns its facts.
    #[must_use]
    pub fn about(&self) -> About {
        if self.kind == Kind::Policy {
            return kernel::about(&self.bytes);
        }
        About {
            scheme: pilot::NAME.into(),
            spec: String::new(),
            label: pilot::label_of(&self.bytes),
            digest: pilot::digest_of(&self.bytes),
            generation: pilot::generation_of(&self.bytes),
            observation: 0,
            outputs: 0,
            state: 0,
            reports: 0,
            known: Known::Nothing,
        }
    }

    /// The same as number `generation` under its name.
    pub(super) fn numbered(mut self, generation: u64) -> Self {
        let at = if self.kind == Kind::Policy { kernel::GENERATION_AT } else { 0 };
        self.bytes[at..at + 8].copy_from_slice(&generation.to_ne_bytes());
        self
    }

    /// The controller in force, from the map of its kind.
    pub(super) fn in_force(kind: Kind, map: &MapHandle) -> Result<Self, KernelError> {
        match kind {
            Kind::Policy => Self::kept(kind, &inner(map)?),
            Kind::Pilot => Self::kept(kind, map),
        }
    }

    /// The controller in a map of [`keep`](Self::keep).
    pub(super) fn kept(kind: Kind, map: &MapHandle) -> Result<Self, KernelError> {
        Ok(Self { kind, bytes: contents(map)? })
    }

    /// A map of its own with the controller, for a rollback.
    pub(super) fn keep(&self) -> Result<MapHandle, KernelError> {
        array("image", &self.bytes)
    }

    /// Puts it in force: into the map of its kind.
    pub(super) fn put(&self, map: &MapHandle) -> Result<(), KernelError> {
        let written = match self.kind {
            Kind::Policy => {
                let image = self.keep()?;
                map.update(&ZERO, &image.as_fd().as_raw_fd().to_ne_bytes(), MapFlags::ANY)
            }
            // The content first, then the number by which connections notice it.
            Kind::Pilot => {
                let before = Self::in_force(self.kind, map)?.about().generation;
                let content = self.clone().numbered(before);
                let put = |bytes: &[u8]| map.update(&ZERO, bytes, MapFlags::ANY);
                put(&content.bytes).and_then(|()| put(&self.bytes))
            }
        };
        written.map_err(|e| match e.kind() {
            // The kernel compares the sizes of inner maps.
            libbpf_rs::ErrorKind::InvalidInput => KernelError::OtherVersion,
            _ => map_error("write", self.kind.pin(), &e),
        })
    }
}

/// A map of its own with one entry, `bytes`.
pub(super) fn array(name: &'static str, bytes: &[u8]) -> Result<MapHandle, KernelError> {
    let options = libbpf_sys::bpf_map_create_opts {
        sz: size_of::<libbpf_sys::bpf_map_create_opts>() as libbpf_sys::size_t,
        ..Default::default()
    };
    let map = MapHandle::create(MapType::Array, Some(name), 4, bytes.len() as u32, 1, &options)
        .map_err(|e| map_error("create", name, &e))?;
    map.update(&ZERO, bytes, MapFlags::ANY).map_err(|e| map_error("write", name, &e))?;
    Ok(map)
}

/// Returns the entry of a map of [`array()`].
pub(super) fn contents(map: &MapHandle) -> Result<Vec<u8>, KernelError> {
    Ok(map.lookup(&ZERO, MapFlags::ANY).map_err(|e| map_error("read", "image", &e))?.unwrap_or_default())
}

/// The map of the image in `images`.
fn inner(images: &MapHandle) -> Result<MapHandle, KernelError> {
    let read = |e| map_error("read", "images", &e);
    let id = images.lookup(&ZERO, MapFlags::ANY).map_err(read)?;
    let id = id.as_deref().and_then(|id| id.first_chunk()).map_or(0, |id| u32::from_ne_bytes(*id));
    MapHandle::from_map_id(id).map_err(read)
}
