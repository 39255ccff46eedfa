//! The bridge daemon of the whole machine: one controller for each socket that chooses `ccarena`.

use std::collections::HashSet;
use std::net::Ipv4Addr;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::Duration;

use ccarena_cc::{Backend, Config, Dur, FlowError, Policies, PolicySpec, Spec, Time};
use ccarena_link::clock;

use crate::attach;
use crate::daemon::{Daemon, Driver, Reply};
use crate::datapath::Datapath;
use crate::error::KernelError;
use crate::intf::{EVENT_CLOSED, Event};

/// Service that every socket gets.
#[derive(Clone, Debug)]
pub struct Service {
    /// The scheme.
    pub scheme: String,
    /// A learned scheme that is given by its spec.
    pub spec: Option<Arc<Spec>>,
    /// Configuration of its controllers; segment and initial window are the socket's.
    pub config: Config,
    /// Decider of a learned scheme.
    pub policy: Option<PolicySpec>,
}

/// Counts of the service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Served {
    /// Sockets that opened.
    pub sockets: u64,
    /// Reports answered.
    pub reports: u64,
    /// Answers that the kernel did not take.
    pub refused: u64,
}

/// Interval at which the daemon checks that it is still attached, and whether events were lost.
const LOOK: Dur = Dur::from_millis(1000);
/// Number of checks between two comparisons of its sockets with the kernel's list; lost events cause one too.
const LOOKS: u64 = 10;

/// Reason why serving has ended.
enum Ended {
    Stopped,
    /// Something else is attached now.
    Replaced,
}

/// Error of a service that cannot start.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// The scheme, its parameters or weight, or the policy.
    #[error(transparent)]
    Flow(#[from] FlowError),
    /// BPF.
    #[error(transparent)]
    Kernel(#[from] KernelError),
}

impl Service {
    /// A service with the policy artifact in `file`, of the scheme that it was trained for.
    ///
    /// # Errors
    /// If the artifact cannot be read.
    pub fn of_policy(file: &str, config: Config) -> Result<Self, ServiceError> {
        let policy = Policies::default().load(file.as_ref()).map_err(FlowError::from)?;
        let spec = Arc::clone(&policy.trained().spec);
        let scheme = spec.interface().name.clone();
        Ok(Self { scheme, spec: Some(spec), config, policy: Some(PolicySpec::Artifact(file.into())) })
    }

    fn driver(&self, policies: &Policies, event: &Event) -> Result<Driver, ServiceError> {
        let config =
            Config { mss: event.mss.max(1), initial_window: event.window_packets.max(1), ..self.config.clone() };
        let (controller, decider) =
            policies.build(&self.scheme, self.spec.as_deref(), &config, self.policy.as_ref(), false)?;
        Ok(Driver { flow: 0, controller, mss: config.mss, decider, settings: Vec::new(), keeps_reports: false })
    }

    /// Serves until one of `stop` polls readable. Sockets are then the kernel's CUBIC's, as without a daemon, and the next
    /// daemon's. When everything is detached the open sockets are served on; when it is attached anew, the new ones.
    ///
    /// # Errors
    /// If nothing is attached, another daemon serves, or the scheme or policy cannot be had.
    pub fn run(&self, stop: &[RawFd]) -> Result<Served, ServiceError> {
        let policies = Policies::on(Backend::Bridge);
        // What is wrong shows now, not when a socket opens.
        self.driver(&policies, &Event { mss: self.config.mss, window_packets: 10, ..Event::default() })?;
        let mut served = Served::default();
        loop {
            let datapath = Datapath::attached()?;
            match self.serve(&policies, &datapath, stop, &mut served)? {
                Ended::Stopped => return Ok(served),
                Ended::Replaced => eprintln!("ccarena-kernel: attached anew: serving the sockets of now"),
            }
        }
    }

    fn serve(
        &self,
        policies: &Policies,
        datapath: &Datapath,
        stop: &[RawFd],
        served: &mut Served,
    ) -> Result<Ended, ServiceError> {
        let zero_ns = clock::now_ns();
        let since = || Time(clock::now_ns().saturating_sub(zero_ns));
        let mut sockets = 0;
        let open = |event: &Event| {
            sockets += 1;
            let port = event.remote_port;
            let remote = Ipv4Addr::from(u32::from_be(event.remote_address[0]));
            let driver = self.driver(policies, event);
            driver.inspect_err(|e| eprintln!("ccarena-kernel: socket to {remote}:{port}: {e}")).ok()
        };
        let mut daemon = Daemon::new(zero_ns, 1, Box::new(open));
        let mut answers = Answers { datapath, refused: 0, told: 0 };
        // What was told before was told to nobody: the list has it.
        datapath.poll(Duration::ZERO, |_| ())?;
        let mut unreported = datapath.unreported()?;
        answers.write_all(reconciled(&mut daemon, datapath)?);
        let mut fds = vec![datapath.ready_fd()];
        fds.extend(stop);
        let (mut events, mut next_look, mut looks, mut attached) = (Vec::new(), Time::ZERO + LOOK, 0, true);
        let ended = loop {
            if stop.iter().any(|&fd| clock::wait(&[fd], Some(0))) {
                break Ended::Stopped;
            }
            let now = since();
            clock::wait(&fds, Some(daemon.next_timer().min(next_look).since(now).0));
            datapath.poll(Duration::ZERO, |event| events.push(*event))?;
            for event in events.drain(..) {
                match daemon.on_event(&event, &mut |_| ()) {
                    Some(reply) => answers.write(reply),
                    // An answer to an earlier event of the same batch is in the map again.
                    None if event.kind == EVENT_CLOSED => datapath.forget(event.cookie)?,
                    None => {}
                }
            }
            let now = since();
            answers.write_all(daemon.on_timers(now, &mut |_| ()));
            if now < next_look {
                continue;
            }
            next_look = now + LOOK;
            looks += 1;
            if std::mem::replace(&mut attached, datapath.is_attached()) && !attached {
                let open = daemon.sockets();
                eprintln!(
                    "ccarena-kernel: detached: serving the {open} open sockets on, until `ccarena kernel attach`"
                );
            }
            if !attached && attach::is_complete() {
                break Ended::Replaced;
            }
            let lost = datapath.unreported()?;
            if lost != unreported || looks % LOOKS == 0 {
                unreported = lost;
                answers.write_all(reconciled(&mut daemon, datapath)?);
            }
            if looks % LOOKS == 0 {
                answers.complain();
            }
        };
        answers.complain();
        served.reports += daemon.reports;
        served.refused += answers.refused;
        drop(daemon);
        served.sockets += sockets;
        Ok(ended)
    }
}

/// Makes the daemon's sockets and the answers in the kernel those of the sockets that live.
fn reconciled(daemon: &mut Daemon<'_>, datapath: &Datapath) -> Result<Vec<Reply>, KernelError> {
    let begun_ns = clock::now_ns();
    let replies = daemon.reconcile(&datapath.flows()?, begun_ns);
    let living: HashSet<u64> = daemon.cookies().collect();
    datapath.forget_all_but(&living)?;
    Ok(replies)
}

/// Writes answers. One that the kernel does not take costs its socket alone, which stays with the kernel's CUBIC.
struct Answers<'a> {
    datapath: &'a Datapath,
    refused: u64,
    /// Number of these that were reported as lost.
    told: u64,
}

impl Answers<'_> {
    fn write(&mut self, (cookie, answer): Reply) {
        if let Err(e) = self.datapath.answer(cookie, &answer) {
            if self.refused == 0 {
                eprintln!("ccarena-kernel: a socket stays with the kernel's CUBIC: {e}");
                self.told = 1;
            }
            self.refused += 1;
        }
    }

    fn write_all(&mut self, replies: Vec<Reply>) {
        replies.into_iter().for_each(|reply| self.write(reply));
    }

    fn complain(&mut self) {
        if self.refused > self.told {
            eprintln!("ccarena-kernel: {} answers were not taken so far", self.refused);
            self.told = self.refused;
        }
    }
}
