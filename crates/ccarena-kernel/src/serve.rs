//! The bridge daemon of the whole machine: one controller for each socket that chooses `ccarena`.

use std::net::Ipv4Addr;
use std::os::fd::RawFd;
use std::time::Duration;

use ccarena_cc::decider::fits;
use ccarena_cc::{BindError, Config, Policies, PolicySpec, Time, all_schemes, registry};
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

/// The scheme that observes as the policy artifact `file` does.
///
/// # Errors
/// A message, if it cannot be read or no scheme does.
pub fn scheme_of(file: &str) -> Result<&'static str, String> {
    let policy = Policies::default().load(file.as_ref()).map_err(|e| e.to_string())?;
    let observes = |scheme: &&registry::Scheme| {
        let built = registry::build(scheme.name, &Config::default()).ok();
        built.is_some_and(|mut c| c.learned().is_some_and(|l| fits(&policy, l)))
    };
    let scheme = all_schemes().iter().filter(|s| s.learned).find(observes);
    scheme.map(|s| s.name).ok_or_else(|| format!("{file}: no scheme has the document {:?}", policy.contract().digest))
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
