//! A policy under a name of this process's own.

use std::sync::{Arc, Mutex};

use ccarena_cc::Outside;
use ccarena_cc::policy::kernel::Known;
use libbpf_rs::{Link, MapCore, MapFlags, MapHandle, RingBuffer, RingBufferBuilder};

use super::controller::Controller;
use super::program::Program;
use super::{Stats, stats_of};
use crate::error::KernelError;
use crate::maps::{locked, map_error};
use crate::objects::{handle, is_name};
use crate::tcp_option::TcpOption;

/// A policy in the kernel that goes with its owner: dropping it, or the death of the process in whatever way, takes it back.
/// Sockets that use it keep it until they close.
pub struct Private {
    name: String,
    known: Known,
    program: Program,
    namespaces: Option<MapHandle>,
    reports: Option<Reports>,
    _links: Vec<Link>,
}

/// Reports of decisions, as they come out of the kernel.
struct Reports {
    ring: RingBuffer<'static>,
    /// Row by row.
    rows: Arc<Mutex<Vec<f32>>>,
}

/// Unit of the kernel's program, which counts in 2^-20.
const RAW: f64 = (1_u64 << 20) as f64;

impl Reports {
    fn of(program: &Program, columns: usize) -> Result<Self, KernelError> {
        let rows = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&rows);
        let ring_error = |e: libbpf_rs::Error| KernelError::Ring(e.to_string());
        let mut builder = RingBufferBuilder::new();
        let map = handle(&program.object, "reports")?;
        let take = move |bytes: &[u8]| {
            let raw = bytes.chunks_exact(8).take(columns).filter_map(|b| b.first_chunk());
            locked(&sink).extend(raw.map(|b| (i64::from_ne_bytes(*b) as f64 / RAW) as f32));
            0
        };
        builder.add(&map, take).map_err(ring_error)?;
        Ok(Self { ring: builder.build().map_err(ring_error)?, rows })
    }
}

impl Private {
    /// Makes the policy of `image` the congestion control `name`; with `option` its sockets carry ACCT's TCP option in the
    /// namespaces of [`add_namespace`](Self::add_namespace).
    ///
    /// # Errors
    /// If the image is damaged, the name is another's, or this machine cannot run the program.
    pub fn load(image: &[u8], name: String, option: bool) -> Result<Self, KernelError> {
        let controller = Controller::policy(image)?;
        let about = controller.about();
        if !is_name(&name) {
            return Err(KernelError::PolicyName(name));
        }
        let option = if option { TcpOption::Namespaces } else { TcpOption::Off };
        crate::checks::require(&option)?;
        let mut program = Program::load(&controller, &name, false, &option)?;
        let reports = (about.reports > 0).then(|| Reports::of(&program, about.reports)).transpose()?;
        let links = program.attach(&name, &option)?.into_iter().map(|(_, link)| link).collect();
        let namespaces = if option == TcpOption::Off { None } else { Some(handle(&program.object, "namespaces")?) };
        Ok(Self { name, known: about.known, program, namespaces, reports, _links: links })
    }

    /// Returns the name for `TCP_CONGESTION`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the number of its decisions that tripped its guard; without one, on what its training did not see, if that is
    /// known.
    ///
    /// # Errors
    /// As [`stats`](Self::stats).
    pub fn outside(&self) -> Result<Outside, KernelError> {
        let Stats { decisions, outside, .. } = self.stats()?;
        Ok(match self.known {
            Known::Nothing => Outside::default(),
            Known::Training => Outside { decisions, outside, ..Outside::default() },
            Known::Guard => Outside { guarded: decisions, tripped: outside, ..Outside::default() },
        })
    }

    /// Returns its counters.
    ///
    /// # Errors
    ///
    /// If the map cannot be read.
    pub fn stats(&self) -> Result<Stats, KernelError> {
        stats_of(&self.program.statistics)
    }

    /// Takes the reports of decisions so far, row by row; none if the image wants none.
    ///
    /// # Errors
    /// If the ring buffer cannot be read.
    pub fn take_reports(&self) -> Result<Vec<f32>, KernelError> {
        let Some(reports) = &self.reports else { return Ok(Vec::new()) };
        reports.ring.consume().map_err(|e| KernelError::Ring(e.to_string()))?;
        Ok(std::mem::take(&mut *locked(&reports.rows)))
    }

    /// Adds a namespace as [`Datapath::add_namespace`](crate::Datapath::add_namespace) does; does nothing without the
    /// option.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn add_namespace(&self, netns_cookie: u64) -> Result<(), KernelError> {
        let Some(namespaces) = &self.namespaces else { return Ok(()) };
        namespaces
            .update(&netns_cookie.to_ne_bytes(), &[1], MapFlags::ANY)
            .map_err(|e| map_error("write", "namespaces", &e))
    }
}
