//! The bridge daemon of the whole machine: one controller for each socket that chooses `ccarena`.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::os::fd::RawFd;
use std::time::Duration;

use ccarena_cc::{BindError, Config, Policies, PolicySpec, Time, registry};
use ccarena_link::clock;

use crate::daemon::{Daemon, Driver};
use crate::datapath::Datapath;
use crate::error::KernelError;
use crate::intf::{EVENT_CLOSED, Event};

/// What every socket gets.
#[derive(Clone, Debug)]
pub struct Service {
    /// The scheme.
    pub scheme: String,
    /// What its controllers are built from; segment and initial window are the socket's.
    pub config: Config,
    /// Who decides for a learned scheme.
    pub policy: Option<PolicySpec>,
}

/// What was served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Served {
    /// Sockets that opened.
    pub sockets: u64,
    /// Reports answered.
    pub reports: u64,
}

/// Why a service cannot be.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// The scheme, its parameters or weight.
    #[error(transparent)]
    Scheme(#[from] ccarena_cc::BuildError),
    /// The policy.
    #[error("policy: {0}")]
    Policy(BindError),
    /// BPF.
    #[error(transparent)]
    Kernel(#[from] KernelError),
}

/// What the policy artifact `file` was trained for: its document as JSON, and the values of that's parameters.
///
/// # Errors
/// A message, if it cannot be read.
pub fn trained_for(file: &str) -> Result<(String, BTreeMap<String, f64>), String> {
    let policy = Policies::default().load(file.as_ref()).map_err(|e| e.to_string())?;
    let contract = policy.contract();
    Ok((contract.document.clone(), contract.params.clone()))
}

impl Service {
    fn driver(&self, policies: &Policies, event: &Event) -> Result<Driver, ServiceError> {
        let config =
            Config { mss: event.mss.max(1), initial_window: event.window_packets.max(1), ..self.config.clone() };
        let mut controller = registry::build(&self.scheme, &config)?;
        let bound = policies.bind(self.policy.as_ref(), controller.as_mut(), false);
        let decider = bound.map_err(ServiceError::Policy)?;
        Ok(Driver { flow: 0, controller, mss: config.mss, decider, wants: Vec::new(), keeps_reports: false })
    }

    /// Serves until one of `stop` polls readable. Sockets are then the kernel's CUBIC's, as without a daemon.
    ///
    /// # Errors
    /// If nothing is attached, or the scheme or policy cannot be had.
    pub fn run(&self, stop: &[RawFd]) -> Result<Served, ServiceError> {
        let policies = Policies::default();
        // What is wrong shows now, not when a socket opens.
        self.driver(&policies, &Event { mss: self.config.mss, window_packets: 10, ..Event::default() })?;
        let datapath = Datapath::attached()?;
        let zero_ns = clock::now_ns();
        let mut sockets = 0;
        let open = |event: &Event| {
            sockets += 1;
            let port = event.remote_port;
            let remote = Ipv4Addr::from(u32::from_be(event.remote_address[0]));
            let driver = self.driver(&policies, event);
            driver.inspect_err(|e| eprintln!("ccarena-kernel: socket to {remote}:{port}: {e}")).ok()
        };
        let mut daemon = Daemon::new(zero_ns, 1, Box::new(open));
        let mut fds = vec![datapath.ready_fd()];
        fds.extend(stop);
        let mut events = Vec::new();
        while !stop.iter().any(|&fd| clock::wait(&[fd], Some(0))) {
            let now = Time(clock::now_ns().saturating_sub(zero_ns));
            clock::wait(&fds, Some(daemon.next_timer().since(now).0));
            datapath.poll(Duration::ZERO, |event| events.push(*event))?;
            for event in events.drain(..) {
                if let Some((cookie, answer)) = daemon.on_event(&event, &mut |_| ()) {
                    datapath.answer(cookie, &answer)?;
                } else if event.kind == EVENT_CLOSED {
                    datapath.forget(event.cookie)?;
                }
            }
            let now = Time(clock::now_ns().saturating_sub(zero_ns));
            for (cookie, answer) in daemon.on_timers(now, &mut |_| ()) {
                datapath.answer(cookie, &answer)?;
            }
        }
        let reports = daemon.reports;
        drop(daemon);
        Ok(Served { sockets, reports })
    }
}
