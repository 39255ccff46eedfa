//! A policy under a name of this process's own.

use libbpf_rs::{Link, MapCore, MapFlags, MapHandle};

use super::program::Program;
use super::{Stats, stats_of};
use crate::error::KernelError;
use crate::maps::map_error;
use crate::objects::{TcpOption, handle, is_name};

/// A policy in the kernel that goes with its owner: dropping it, or the death of the process in whatever way, takes it back.
/// Sockets that use it keep it until they close.
pub struct Private {
    name: String,
    program: Program,
    namespaces: Option<MapHandle>,
    _links: Vec<Link>,
}

impl Private {
    /// Makes the policy of `image` the congestion control `name`; with `option` its sockets carry ACCT's TCP option in the
    /// namespaces of [`add_namespace`](Self::add_namespace).
    ///
    /// # Errors
    /// If the image is damaged, the name is another's, or this machine cannot run the program.
    pub fn load(image: &[u8], name: String, option: bool) -> Result<Self, KernelError> {
        ccarena_cc::policy::kernel::check(image)?;
        if !is_name(&name) {
            return Err(KernelError::PolicyName(name));
        }
        let option = if option { TcpOption::Namespaces } else { TcpOption::Off };
        crate::checks::require(&option)?;
        let mut program = Program::load(image, &name, false, &option)?;
        let links = program.attach(&name, &option)?.into_iter().map(|(_, link)| link).collect();
        let namespaces = if option == TcpOption::Off { None } else { Some(handle(&program.object, "namespaces")?) };
        Ok(Self { name, program, namespaces, _links: links })
    }

    /// For `TCP_CONGESTION`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it has done.
    ///
    /// # Errors
    /// If the map cannot be read.
    pub fn stats(&self) -> Result<Stats, KernelError> {
        stats_of(&self.program.statistics)
    }

    /// As [`Datapath::add_namespace`](crate::Datapath::add_namespace); nothing without the option.
    ///
    /// # Errors
    /// As there.
    pub fn add_namespace(&self, netns_cookie: u64) -> Result<(), KernelError> {
        let Some(namespaces) = &self.namespaces else { return Ok(()) };
        namespaces
            .update(&netns_cookie.to_ne_bytes(), &[1], MapFlags::ANY)
            .map_err(|e| map_error("write", "namespaces", &e))
    }
}
