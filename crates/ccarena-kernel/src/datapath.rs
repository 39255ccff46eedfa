//! Real sockets' congestion control, seen from user space: events come out of the kernel, answers go in.

use std::collections::HashSet;
use std::fs::File;
use std::os::fd::RawFd;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use libbpf_rs::{Link, MapCore, MapFlags, RingBuffer, RingBufferBuilder};

use crate::attach;
use crate::checks;
use crate::cost::Cost;
use crate::error::KernelError;
use crate::intf::{Answer, EVENT_CLOSED, Event, Plain};
use crate::maps::{Maps, locked, map_error, remove};
use crate::objects::{self, Names};

pub use crate::maps::Key;
use crate::objects::Options;

/// The loaded programs. Dropping it, or the death of the process in whatever way, unloads them; sockets that use them
/// then keep them until they close.
///
/// Threads may share it: one polls, any may answer.
pub struct Datapath {
    ring: Mutex<RingBuffer<'static>>,
    ready: RawFd,
    /// Events that the ring's callback has taken out, and the vector to swap it with.
    inbox: Arc<Mutex<Vec<Event>>>,
    spare: Mutex<Vec<Event>>,
    maps: Maps,
    names: Names,
    _links: Vec<Link>,
    _lock: Option<File>,
}

impl Datapath {
    /// Loads the programs under names of this process's own.
    ///
    /// # Errors
    /// If this machine cannot run them ([`checks`]), the suffix is too long, or a name is taken.
    pub fn load(options: &Options) -> Result<Self, KernelError> {
        checks::require(&options.option)?;
        let names = Names::private(&options.suffix)?;
        let (maps, links) = objects::load(options, &names)?;
        Self::over(maps, names, links.into_iter().map(|(_, link)| link).collect(), None)
    }

    /// The bridge daemon's end of what [`attach::attach`] has attached. Two of them would share the events, so there
    /// is one.
    ///
    /// # Errors
    /// If nothing is attached, or something of another version, or another process has that end.
    pub fn attached() -> Result<Self, KernelError> {
        let maps = attach::maps()?;
        let lock = attach::lock()?;
        Self::over(maps, Names::system(), Vec::new(), Some(lock))
    }

    /// Returns whether this end belongs to what is attached now: neither detached since, nor attached anew.
    #[must_use]
    pub fn is_attached(&self) -> bool {
        attach::is_attached(&self.maps)
    }

    fn over(maps: Maps, names: Names, links: Vec<Link>, lock: Option<File>) -> Result<Self, KernelError> {
        let inbox = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&inbox);
        let ring_error = |e: libbpf_rs::Error| KernelError::Ring(e.to_string());
        let mut builder = RingBufferBuilder::new();
        builder
            .add(&maps.events, move |bytes| {
                if let Some(event) = Event::read(bytes) {
                    locked(&sink).push(event);
                }
                0
            })
            .map_err(ring_error)?;
        let ring = builder.build().map_err(ring_error)?;
        let ready = ring.epoll_fd();
        Ok(Self {
            ring: Mutex::new(ring),
            ready,
            inbox,
            spare: Mutex::default(),
            maps,
            names,
            _links: links,
            _lock: lock,
        })
    }

    /// The `TCP_CONGESTION` name that runs `scheme`: the scheme's own for the WCC family, the bridge's for any other.
    #[must_use]
    pub fn congestion_control(&self, scheme: &str) -> &str {
        self.names.of(scheme)
    }

    /// Hands every waiting event to `take`; if there is none, waits for one, `timeout` at most. Returns their number.
    ///
    /// What the map of answers holds for a socket goes after its [`EVENT_CLOSED`].
    ///
    /// # Errors
    /// If the ring buffer cannot be read.
    pub fn poll(&self, timeout: Duration, mut take: impl FnMut(&Event)) -> Result<usize, KernelError> {
        if self.consume()? == 0 && !timeout.is_zero() {
            self.wait(timeout)?;
            self.consume()?;
        }
        let mut batch = std::mem::take(&mut *locked(&self.spare));
        std::mem::swap(&mut batch, &mut *locked(&self.inbox));
        for event in &batch {
            take(event);
            if event.kind == EVENT_CLOSED {
                self.forget(event.cookie)?;
            }
        }
        let taken = batch.len();
        batch.clear();
        *locked(&self.spare) = batch;
        Ok(taken)
    }

    fn consume(&self) -> Result<i32, KernelError> {
        match locked(&self.ring).consume_raw() {
            n if n < 0 => Err(KernelError::Ring(std::io::Error::from_raw_os_error(-n).to_string())),
            n => Ok(n),
        }
    }

    /// `ring_buffer__poll` counts in milliseconds.
    fn wait(&self, timeout: Duration) -> Result<(), KernelError> {
        let mut fd = libc::pollfd { fd: self.ready_fd(), events: libc::POLLIN, revents: 0 };
        let time = libc::timespec {
            tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: timeout.subsec_nanos().into(),
        };
        #[allow(unsafe_code, reason = "ppoll")]
        // SAFETY: one descriptor and a time that outlive the call, and no signal mask.
        if unsafe { libc::ppoll(&raw mut fd, 1, &raw const time, std::ptr::null()) } >= 0 {
            return Ok(());
        }
        match std::io::Error::last_os_error() {
            e if e.kind() == std::io::ErrorKind::Interrupted => Ok(()),
            e => Err(KernelError::Ring(e.to_string())),
        }
    }

    /// A descriptor that polls readable while events wait.
    #[must_use]
    pub fn ready_fd(&self) -> RawFd {
        self.ready
    }

    /// Begins to count what the programs cost, if the kernel lets us.
    #[must_use]
    pub fn count_cost(&self) -> Option<Cost> {
        let weights = self.maps.wcc.as_ref().map(|wcc| &wcc.weights);
        Cost::begin(std::iter::once(&self.maps.answers).chain(weights))
    }

    /// Sets the answer for socket `cookie` from its next ACK on; before it connects, from its first window on.
    ///
    /// # Errors
    ///
    /// If the kernel refuses the entry: there are [`Options::sockets`].
    pub fn answer(&self, cookie: u64, answer: &Answer) -> Result<(), KernelError> {
        let answer = Answer { flow: cookie, ..*answer };
        self.maps
            .answers
            .update(&cookie.to_ne_bytes(), answer.bytes(), MapFlags::ANY)
            .map_err(|e| map_error("write", "answers", &e))
    }

    /// Takes the answer for `cookie` back: the socket goes on with what it has, then falls back.
    ///
    /// # Errors
    /// If the kernel refuses for another reason than that there is none.
    pub fn forget(&self, cookie: u64) -> Result<(), KernelError> {
        remove(&self.maps.answers, "answers", &cookie.to_ne_bytes())
    }

    /// Takes back every answer but those for `living`.
    ///
    /// # Errors
    /// As [`forget`](Self::forget).
    pub fn forget_all_but(&self, living: &HashSet<u64>) -> Result<(), KernelError> {
        let keys = self.maps.answers.keys().filter_map(|key| key.first_chunk().map(|bytes| u64::from_ne_bytes(*bytes)));
        let gone: Vec<u64> = keys.filter(|cookie| !living.contains(cookie)).collect();
        gone.into_iter().try_for_each(|cookie| self.forget(cookie))
    }

    /// Every socket that the kernel has under the bridge now, as events of kind
    /// [`EVENT_LISTED`](crate::intf::EVENT_LISTED), whatever the ring buffer reported of them.
    ///
    /// # Errors
    /// If the list cannot be read.
    pub fn flows(&self) -> Result<Vec<Event>, KernelError> {
        self.maps.flows()
    }

    /// Returns how many events of all sockets the kernel could not report so far. The ring buffer was full, or a user's
    /// sockets came and went too fast.
    ///
    /// # Errors
    ///
    /// If the map cannot be read.
    pub fn unreported(&self) -> Result<u64, KernelError> {
        self.maps.unreported()
    }

    /// The rate in kbit/s that socket `cookie` writes into its packets from its next ACK on.
    ///
    /// # Errors
    /// As [`answer`](Self::answer).
    pub fn set_desired(&self, cookie: u64, kbps: u32) -> Result<(), KernelError> {
        let read = |e| map_error("read", "answers", &e);
        let present = self.maps.answers.lookup(&cookie.to_ne_bytes(), MapFlags::ANY).map_err(read)?;
        let answer = present.as_deref().and_then(Answer::read).unwrap_or_default();
        self.answer(cookie, &Answer { desired_kbps: kbps, ..answer })
    }

    /// The TCP option acts on sockets of the network namespace with this `SO_NETNS_COOKIE`.
    ///
    /// # Errors
    /// If the kernel refuses the entry: there are 4,096.
    pub fn add_namespace(&self, netns_cookie: u64) -> Result<(), KernelError> {
        self.maps
            .namespaces
            .update(&netns_cookie.to_ne_bytes(), &[1], MapFlags::ANY)
            .map_err(|e| map_error("write", "namespaces", &e))
    }

    /// Sets a weight in the WCC family, for living sockets too; with `None` takes it back.
    ///
    /// # Errors
    /// If the weight is not above 0 and at most 1000, or the family is not loaded.
    pub fn set_weight(&self, key: Key, weight: Option<f64>) -> Result<(), KernelError> {
        self.maps.set_weight(key, weight)
    }
}
