//! TCP connections that their buffers hold back, as the kernel lists sockets (sock_diag(7)).
//!
//! The kernel counts how long a connection had data (`tcp_chrono_stats` in `net/ipv4/tcp_output.c`). It also counts how long
//! the sender's buffer or the receiver's window bounded it instead of the congestion window. The counts are of all the
//! connection's time, so that a look now and then is enough.

use std::io;
use std::mem::{offset_of, size_of};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::thread::{self, JoinHandle};

use ccarena_cc::types::{Dur, Rate};

use crate::clock;
use crate::error::LinkError;
use crate::namespace::Namespace;
use crate::netlink::{self, Request, Socket};

/// Kind of requests and answers about sockets (`SOCK_DIAG_BY_FAMILY`).
const BY_FAMILY: u16 = 20;

/// Attribute with the connection's `struct tcp_info` (`INET_DIAG_INFO`).
const INFO: u16 = 2;

/// Length of `struct inet_diag_msg`, which attributes follow.
const SOCKET_BYTES: usize = 72;

/// All states of a socket but listening (`TCP_LISTEN`).
const CONNECTED: u32 = 0xFFF & !(1 << 10);

/// Time between two looks: what a connection did after the last one is not counted.
const LOOK_NS: u64 = 500_000_000;

/// Connections that are kept per namespace: those that were held back for longest.
const MOST: usize = 16;

/// A connection counts if it had data for this long.
const SHORTEST: Dur = Dur::from_millis(200);

/// Share of the time with data from which on a buffer is said to hold a connection back. Of a sender that its buffer bounds
/// all the time, the kernel counts less than a fifth: the time from the last byte sent until a third of the buffer is free
/// (`tcp_cwnd_validate` in `net/ipv4/tcp_output.c`, `sk_stream_is_writeable`). Of one that its congestion window bounds,
/// it counts none.
const NOTABLE: f64 = 0.1;

/// Share of the links' rate from which on a connection is not held back, whatever bounds its window.
const FILLED: f64 = 0.9;

/// A connection, as its sending end counts.
#[derive(Clone, Debug, PartialEq)]
pub struct Connection {
    cookie: u64,
    /// Address of the sender.
    pub from: SocketAddr,
    /// Address of the receiver.
    pub to: SocketAddr,
    /// Bytes that were acknowledged.
    pub delivered_bytes: u64,
    /// Time in which it had data to send.
    pub busy: Dur,
    /// Time of that in which the sender's buffer bounded it.
    pub by_buffer: Dur,
    /// Time of that in which the receiver's window bounded it.
    pub by_window: Dur,
    rtt: Dur,
    min_rtt: Dur,
}

impl Connection {
    /// Reads a struct inet_diag_msg and its attributes; none without counters.
    fn read(body: &[u8]) -> Option<Self> {
        let head = body.get(..SOCKET_BYTES)?;
        let info = netlink::attributes(&body[SOCKET_BYTES..]).find(|(kind, _)| *kind == INFO)?.1;
        let family = i32::from(head[0]);
        let word = |at: usize| info.get(at..at + 4)?.try_into().ok().map(u32::from_ne_bytes);
        let long = |at: usize| info.get(at..at + 8)?.try_into().ok().map(u64::from_ne_bytes);
        let us = |at: usize| long(at).map(|us| Dur::from_micros(us.min(u64::MAX / 1000)));
        let cookie: [u8; 8] = head[44..52].try_into().ok()?;
        Some(Self {
            cookie: u64::from_ne_bytes(cookie),
            from: socket_address(family, &head[4..6], &head[8..24])?,
            to: socket_address(family, &head[6..8], &head[24..40])?,
            delivered_bytes: long(offset_of!(libc::tcp_info, tcpi_bytes_acked))?,
            busy: us(offset_of!(libc::tcp_info, tcpi_busy_time))?,
            by_window: us(offset_of!(libc::tcp_info, tcpi_rwnd_limited))?,
            by_buffer: us(offset_of!(libc::tcp_info, tcpi_sndbuf_limited))?,
            rtt: Dur::from_micros(word(offset_of!(libc::tcp_info, tcpi_rtt))?.into()),
            min_rtt: Dur::from_micros(word(offset_of!(libc::tcp_info, tcpi_min_rtt))?.into()),
        })
    }

    /// Returns its mean rate while it had data.
    #[must_use]
    pub fn rate(&self) -> Rate {
        Rate((self.delivered_bytes as f64 * 8.0 / self.busy.as_secs_f64().max(1e-9)) as u64)
    }

    /// Returns the share of its time with data in which `by` bounded it.
    #[must_use]
    pub fn share(&self, by: Dur) -> f64 {
        by.as_secs_f64() / self.busy.as_secs_f64().max(1e-9)
    }

    fn bounded(&self) -> Dur {
        self.by_buffer + self.by_window
    }

    /// Returns whether it was the sender's buffer rather than the receiver's.
    #[must_use]
    pub fn is_senders(&self) -> bool {
        self.by_buffer >= self.by_window
    }

    /// Returns whether buffers bounded it for long.
    fn is_bounded(&self) -> bool {
        self.busy >= SHORTEST && self.share(self.bounded()) >= NOTABLE
    }

    /// Returns whether buffers kept it from filling links of at most `fastest`. Behind a full link the round trip takes
    /// longer than the shortest, and a smaller window costs nothing.
    #[must_use]
    pub fn is_held_back(&self, fastest: Option<Rate>) -> bool {
        let fills = fastest.is_some_and(|fastest| self.rate().0 as f64 >= FILLED * fastest.0 as f64);
        self.is_bounded() && !fills && self.rtt < self.min_rtt * 2
    }
}

fn socket_address(family: i32, port: &[u8], address: &[u8]) -> Option<SocketAddr> {
    let port = u16::from_be_bytes(port.try_into().ok()?);
    let address = match family {
        libc::AF_INET => Ipv4Addr::from(<[u8; 4]>::try_from(address.get(..4)?).ok()?).into(),
        libc::AF_INET6 => IpAddr::from(Ipv6Addr::from(<[u8; 16]>::try_from(address).ok()?)).to_canonical(),
        _ => return None,
    };
    Some((address, port).into())
}

/// The connections of a namespace that buffers bounded, watched by a thread from now on.
#[derive(Debug)]
pub struct Watch {
    stop: UnixStream,
    thread: JoinHandle<Vec<Connection>>,
}

impl Watch {
    /// Watches the connections in `namespace` whose other end is of `peers`.
    ///
    /// # Errors
    /// If the kernel does not tell of sockets, or a thread cannot be started.
    pub fn begin(namespace: &Namespace, peers: impl Fn(IpAddr) -> bool + Send + 'static) -> Result<Self, LinkError> {
        let failed = |e: io::Error| LinkError::of("cannot watch connections", e);
        let sockets = namespace.run(|| Socket::of(libc::NETLINK_SOCK_DIAG))??;
        let (stop, stopped) = UnixStream::pair().map_err(failed)?;
        let watch = move || watch(sockets, &stopped, peers);
        let thread = thread::Builder::new().name("connections".into()).spawn(watch).map_err(failed)?;
        Ok(Self { stop, thread })
    }

    /// Returns the connections so far, those held back for longest first.
    #[must_use]
    pub fn end(self) -> Vec<Connection> {
        drop(self.stop);
        self.thread.join().unwrap_or_default()
    }
}

fn watch(mut sockets: Socket, stopped: &UnixStream, peers: impl Fn(IpAddr) -> bool) -> Vec<Connection> {
    let mut kept = Vec::new();
    let mut keep = |body: &[u8]| {
        let Some(connection) = Connection::read(body) else { return };
        kept.retain(|known: &Connection| known.cookie != connection.cookie);
        kept.extend(Some(connection).filter(|c| c.is_bounded() && peers(c.to.ip())));
        kept.sort_by_key(|c| std::cmp::Reverse(c.bounded()));
        kept.truncate(MOST);
    };
    loop {
        let ends = clock::wait(&[stopped.as_raw_fd()], Some(LOOK_NS));
        for family in [libc::AF_INET, libc::AF_INET6] {
            // A kernel that does not list sockets names none.
            let _ = sockets.list(&connected(family), &mut keep);
        }
        if ends {
            return kept;
        }
    }
}

/// Returns the request for all connected TCP sockets of `family`: a struct inet_diag_req_v2.
fn connected(family: libc::c_int) -> Request {
    const ID_BYTES: usize = 48;
    let mut body = vec![family as u8, libc::IPPROTO_TCP as u8, 1 << (INFO - 1), 0];
    body.extend(CONNECTED.to_ne_bytes());
    body.resize(size_of::<[u32; 2]>() + ID_BYTES, 0);
    Request::new(BY_FAMILY, libc::NLM_F_DUMP as u16, &body)
}

#[cfg(test)]
impl Connection {
    /// One that its sender's buffer bounded for `by_buffer_ms`.
    pub fn example(busy_ms: u64, by_buffer_ms: u64, bytes: u64) -> Self {
        let address = SocketAddr::from(([100, 64, 0, 1], 5000));
        Self {
            cookie: 1,
            from: address,
            to: address,
            delivered_bytes: bytes,
            busy: Dur::from_millis(busy_ms),
            by_buffer: Dur::from_millis(by_buffer_ms),
            by_window: Dur::ZERO,
            rtt: Dur::from_millis(21),
            min_rtt: Dur::from_millis(20),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_held_back_if_buffers_keep_it_from_filling_the_link() {
        let bounded = Connection::example(1000, 900, 12_500_000);
        assert_eq!(bounded.rate(), Rate::from_mbps(100.0));
        assert!(bounded.is_held_back(Some(Rate::from_mbps(1000.0))) && bounded.is_held_back(None));
        assert!(!bounded.is_held_back(Some(Rate::from_mbps(105.0))), "it fills the link");
        let queued = Connection { rtt: Dur::from_millis(60), ..bounded };
        assert!(!queued.is_held_back(None), "the queue is full");
        assert!(
            !Connection::example(1000, 90, 12_500_000).is_held_back(None),
            "most of the time something else bounds it"
        );
        assert!(!Connection::example(100, 100, 12_500_000).is_held_back(None), "it was short");
    }

    #[test]
    fn answers_of_any_length_are_read_or_left() {
        let mut body = vec![0; SOCKET_BYTES];
        body[0] = libc::AF_INET6 as u8;
        body[4..8].copy_from_slice(&[20, 233, 0, 80]);
        body[8..24].copy_from_slice(&Ipv4Addr::new(100, 64, 0, 2).to_ipv6_mapped().octets());
        body[24..40].copy_from_slice(&"fd00::1".parse::<Ipv6Addr>().unwrap().octets());
        let mut info = vec![0; size_of::<libc::tcp_info>()];
        let at = offset_of!(libc::tcp_info, tcpi_sndbuf_limited);
        info[at..at + 8].copy_from_slice(&7_u64.to_ne_bytes());
        body.extend((4 + info.len() as u16).to_ne_bytes());
        body.extend(INFO.to_ne_bytes());
        body.extend(&info);
        let read = Connection::read(&body).unwrap();
        assert_eq!(read.from, "100.64.0.2:5353".parse().unwrap());
        assert_eq!(read.to, "[fd00::1]:80".parse().unwrap());
        assert_eq!(read.by_buffer, Dur::from_micros(7));
        for length in 0..body.len() {
            assert_eq!(Connection::read(&body[..length]), None, "{length} bytes");
        }
    }
}
