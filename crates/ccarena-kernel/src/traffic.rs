//! Data for the flows of a scenario: senders and receivers of our own, or iperf3.
//!
//! Of our own, a thread runs all senders and one all receivers. A connection opens when its flow starts, so that the first data
//! leaves a round trip later than in the simulator, which has no handshake.

mod iperf3;
mod receiver;
mod sender;

use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use ccarena_cc::Time;
use ccarena_link::tcp::{self, Sent};
use ccarena_link::{End, LinkError, Network, clock};
use ccarena_net::Scenario;

pub use self::receiver::Received;

use self::iperf3::Iperf3;
use self::receiver::Receivers;
use self::sender::Senders;
use crate::wire::Generator;

/// Port of receivers.
pub const PORT: u16 = 5001;
/// Headers of IPv4 and of TCP with timestamps.
pub const HEADER_BYTES: u64 = 52;
/// Bytes that ACCT's option takes of a segment.
pub const OPTION_BYTES: u32 = 8;

/// Error of flows that cannot send here.
#[derive(Debug, thiserror::Error)]
pub enum TrafficError {
    /// A call of the kernel.
    #[error("{what}: {source}")]
    System {
        /// Attempted operation.
        what: String,
        /// Error of the kernel.
        source: io::Error,
    },
    /// The congestion control does not exist or is not allowed.
    #[error(
        "flows[{flow}].scheme: the kernel refuses congestion control {name:?} ({source}); see \
         /proc/sys/net/ipv4/tcp_available_congestion_control, or let the bridge run the scheme"
    )]
    CongestionControl {
        /// The flow.
        flow: usize,
        /// Name for the kernel.
        name: String,
        /// Error of the kernel.
        source: io::Error,
    },
    /// A thread ended by a bug.
    #[error("a traffic thread panicked; this is a bug")]
    Panicked,
    /// The network cannot be entered.
    #[error(transparent)]
    Link(#[from] LinkError),
}

impl TrafficError {
    /// Returns a function that makes errors of the kernel during the operation `what`.
    fn of(what: impl Into<String>) -> impl Fn(io::Error) -> Self {
        let what = what.into();
        move |source| Self::System { what: what.clone(), source }
    }
}

/// Returns whether `fd` polls readable now.
fn is_readable(fd: RawFd) -> bool {
    clock::wait(&[fd], Some(0))
}

/// Flows that wait for the run to begin.
pub struct Traffic {
    source: Source,
    end: Time,
}

enum Source {
    Own(Senders, Receivers),
    Iperf3(Iperf3),
}

impl Traffic {
    /// Flows of `scenario` between the two ends of `network`, flow i under the congestion control `names[i]`.
    ///
    /// # Errors
    /// If the kernel refuses a socket or a congestion control.
    pub fn new(
        scenario: &Scenario,
        network: &Network,
        names: &[String],
        generator: Generator,
    ) -> Result<Self, TrafficError> {
        let source = match generator {
            Generator::Own => {
                tcp::raise_descriptor_limit();
                let receivers = network.namespace(End::Receivers).run(|| Receivers::new(scenario))??;
                let senders = network.namespace(End::Senders).run(|| Senders::new(scenario, names))??;
                Source::Own(senders, receivers)
            }
            Generator::Iperf3 => Source::Iperf3(Iperf3::new(scenario, network, names)?),
        };
        Ok(Self { source, end: Time(scenario.duration.0) })
    }

    /// `SO_COOKIE` of each flow's sending socket; none where another program makes the sockets.
    #[must_use]
    pub fn cookies(&self) -> &[u64] {
        match &self.source {
            Source::Own(senders, _) => &senders.cookies,
            Source::Iperf3(_) => &[],
        }
    }

    /// `SO_NETNS_COOKIE` of the two namespaces.
    ///
    /// # Errors
    /// If the kernel has none (before Linux 5.14).
    pub fn namespace_cookies(&self) -> Result<[u64; 2], TrafficError> {
        match &self.source {
            Source::Own(senders, receivers) => {
                let receivers = receivers.namespace_cookie();
                let fail = TrafficError::of("cannot tell network namespaces apart (Linux 5.14)");
                Ok([senders.namespace_cookie, receivers.map_err(fail)?])
            }
            Source::Iperf3(iperf3) => Ok(iperf3.namespaces),
        }
    }

    /// Begins, `zero_ns` on CLOCK_MONOTONIC being the scenario's time zero.
    ///
    /// # Errors
    /// If threads cannot be started.
    pub fn start(self, zero_ns: u64) -> Result<Running, TrafficError> {
        let fail = TrafficError::of("cannot start a thread");
        let (stop, stopped) = UnixStream::pair().map_err(&fail)?;
        let end = self.end;
        let mut over = Over::default();
        let work = match self.source {
            Source::Own(senders, receivers) => {
                over = Arc::clone(&senders.over);
                let stopped_too = stopped.try_clone().map_err(&fail)?;
                Work::Own(
                    start("senders", move || senders.run(zero_ns, end, stopped_too.as_raw_fd()))?,
                    start("receivers", move || receivers.run(zero_ns, end, stopped.as_raw_fd()))?,
                )
            }
            Source::Iperf3(iperf3) => Work::Iperf3(start("iperf3", move || iperf3.run(zero_ns, stopped.as_raw_fd()))?),
        };
        Ok(Running { work, over, stop })
    }
}

fn start<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, TrafficError> {
    thread::Builder::new().name(name.into()).spawn(work).map_err(TrafficError::of("cannot start a thread"))
}

/// Traffic that flows until the scenario's end.
pub struct Running {
    work: Work,
    /// Flows that are to end.
    over: Over,
    /// Closing it ends the threads.
    stop: UnixStream,
}

enum Work {
    Own(JoinHandle<Vec<Sent>>, JoinHandle<Vec<Received>>),
    Iperf3(JoinHandle<(Vec<Sent>, Vec<Received>)>),
}

/// Flows that are to end before their time, each with a flag.
pub type Over = Arc<[AtomicBool]>;

impl Running {
    /// Ends a flow soon. A flow of another program goes on, with what its controller allows.
    pub fn end(&self, flow: usize) {
        if let Some(over) = self.over.get(flow) {
            over.store(true, Ordering::Relaxed);
        }
    }

    /// Everything has ended by itself.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        match &self.work {
            Work::Own(senders, receivers) => senders.is_finished() && receivers.is_finished(),
            Work::Iperf3(thread) => thread.is_finished(),
        }
    }

    /// Returns whether it ends a little after the scenario does, for results to be exchanged.
    #[must_use]
    pub fn ends_late(&self) -> bool {
        matches!(self.work, Work::Iperf3(_))
    }

    /// Ends at once, or waits for nothing if the end is past; what each flow's ends counted.
    ///
    /// # Errors
    /// If a thread panicked.
    pub fn stop(self) -> Result<(Vec<Sent>, Vec<Received>), TrafficError> {
        drop(self.stop);
        let panicked = |_| TrafficError::Panicked;
        match self.work {
            Work::Own(senders, receivers) => {
                Ok((senders.join().map_err(panicked)?, receivers.join().map_err(panicked)?))
            }
            Work::Iperf3(thread) => thread.join().map_err(panicked),
        }
    }
}
