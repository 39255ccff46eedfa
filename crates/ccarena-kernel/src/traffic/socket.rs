//! TCP sockets with the options that the standard library does not know.

use std::io;
use std::mem::{size_of, zeroed};
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

pub use libc::tcp_info as TcpInfo;

/// Nothing known of a connection.
#[must_use]
#[allow(unsafe_code, reason = "the struct has no other constructor")]
pub fn nothing() -> TcpInfo {
    // SAFETY: integers alone, for which zeros are valid.
    unsafe { zeroed() }
}

/// A non-blocking TCP socket over IPv4.
#[derive(Debug)]
pub struct Socket(OwnedFd);

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn sockaddr(address: Ipv4Addr, port: u16) -> libc::sockaddr_in {
    libc::sockaddr_in {
        sin_family: libc::AF_INET as libc::sa_family_t,
        sin_port: port.to_be(),
        sin_addr: libc::in_addr { s_addr: u32::from(address).to_be() },
        sin_zero: [0; 8],
    }
}

const ADDRESS_BYTES: libc::socklen_t = size_of::<libc::sockaddr_in>() as libc::socklen_t;

#[allow(unsafe_code, reason = "the standard library lacks these options and calls")]
impl Socket {
    /// A socket in the calling thread's network namespace.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn new() -> io::Result<Self> {
        let kind = libc::SOCK_STREAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        // SAFETY: takes numbers; the descriptor that it gives is ours alone.
        unsafe { Ok(Self(OwnedFd::from_raw_fd(check(libc::socket(libc::AF_INET, kind, 0))?))) }
    }

    /// Binds it.
    ///
    /// # Errors
    /// If the address is not this host's, or taken.
    pub fn bind(&self, address: Ipv4Addr, port: u16) -> io::Result<()> {
        let at = sockaddr(address, port);
        // SAFETY: `at` is a socket address of the length given.
        check(unsafe { libc::bind(self.fd(), (&raw const at).cast(), ADDRESS_BYTES) }).map(drop)
    }

    /// Begins to connect.
    ///
    /// # Errors
    /// If that is refused at once.
    pub fn connect(&self, address: Ipv4Addr, port: u16) -> io::Result<()> {
        let to = sockaddr(address, port);
        // SAFETY: `to` is a socket address of the length given.
        match check(unsafe { libc::connect(self.fd(), (&raw const to).cast(), ADDRESS_BYTES) }) {
            Err(e) if e.raw_os_error() != Some(libc::EINPROGRESS) => Err(e),
            _ => Ok(()),
        }
    }

    /// Waits for connections, so many at a time.
    ///
    /// # Errors
    /// If the port is taken.
    pub fn listen(&self, backlog: i32) -> io::Result<()> {
        // SAFETY: takes numbers.
        check(unsafe { libc::listen(self.fd(), backlog) }).map(drop)
    }

    /// A connection that waits, and who it is from.
    ///
    /// # Errors
    /// `WouldBlock` if there is none.
    pub fn accept(&self) -> io::Result<(Self, Ipv4Addr)> {
        let mut from = sockaddr(Ipv4Addr::UNSPECIFIED, 0);
        let mut length = ADDRESS_BYTES;
        let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        // SAFETY: `from` has room for `length` bytes, which both outlive the call.
        let fd = check(unsafe { libc::accept4(self.fd(), (&raw mut from).cast(), &raw mut length, flags) })?;
        // SAFETY: the descriptor is new and ours alone.
        let socket = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok((Self(socket), Ipv4Addr::from(u32::from_be(from.sin_addr.s_addr))))
    }

    fn set_bytes(&self, level: i32, name: i32, value: &[u8]) -> io::Result<()> {
        // SAFETY: `value` is as long as said.
        check(unsafe {
            libc::setsockopt(self.fd(), level, name, value.as_ptr().cast(), value.len() as libc::socklen_t)
        })
        .map(drop)
    }

    /// Sets an option that is a number.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn set(&self, level: i32, name: i32, value: i32) -> io::Result<()> {
        self.set_bytes(level, name, &value.to_ne_bytes())
    }

    /// `TCP_CONGESTION`.
    ///
    /// # Errors
    /// If there is no congestion control of that name.
    pub fn set_congestion_control(&self, name: &str) -> io::Result<()> {
        self.set_bytes(libc::IPPROTO_TCP, libc::TCP_CONGESTION, name.as_bytes())
    }

    fn get_u64(&self, level: i32, name: i32) -> io::Result<u64> {
        let mut value = 0_u64;
        let mut length = size_of::<u64>() as libc::socklen_t;
        // SAFETY: `value` has room for `length` bytes, which both outlive the call.
        check(unsafe { libc::getsockopt(self.fd(), level, name, (&raw mut value).cast(), &raw mut length) })?;
        Ok(value)
    }

    /// `SO_COOKIE`: the socket's number, by which BPF programs know it.
    ///
    /// # Errors
    /// If the kernel has none.
    pub fn cookie(&self) -> io::Result<u64> {
        self.get_u64(libc::SOL_SOCKET, libc::SO_COOKIE)
    }

    /// `SO_NETNS_COOKIE` (Linux 5.14): the number of its network namespace.
    ///
    /// # Errors
    /// If the kernel has none.
    pub fn namespace_cookie(&self) -> io::Result<u64> {
        self.get_u64(libc::SOL_SOCKET, libc::SO_NETNS_COOKIE)
    }

    /// `SO_ERROR`: what went wrong with it, which clears it.
    ///
    /// # Errors
    /// That.
    pub fn error(&self) -> io::Result<()> {
        let mut value = 0_i32;
        let mut length = size_of::<i32>() as libc::socklen_t;
        let (level, name) = (libc::SOL_SOCKET, libc::SO_ERROR);
        // SAFETY: `value` has room for `length` bytes, which both outlive the call.
        check(unsafe { libc::getsockopt(self.fd(), level, name, (&raw mut value).cast(), &raw mut length) })?;
        if value == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(value)) }
    }

    /// Hands bytes to the kernel; how many it took.
    ///
    /// # Errors
    /// `WouldBlock` if there is no room, else what went wrong with the connection.
    pub fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        // SAFETY: `bytes` is as long as said.
        let sent = unsafe { libc::send(self.fd(), bytes.as_ptr().cast(), bytes.len(), libc::MSG_NOSIGNAL) };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }

    /// Throws received bytes away without copying them (tcp(7), MSG_TRUNC); how many, zero at the end of the stream.
    ///
    /// # Errors
    /// `WouldBlock` if there are none, else what went wrong with the connection.
    pub fn discard(&self, most: usize) -> io::Result<usize> {
        // SAFETY: with MSG_TRUNC nothing is written to the buffer, which may be null.
        let got = unsafe { libc::recv(self.fd(), std::ptr::null_mut(), most, libc::MSG_TRUNC) };
        usize::try_from(got).map_err(|_| io::Error::last_os_error())
    }

    fn ioctl(&self, request: libc::Ioctl) -> u64 {
        let mut value: libc::c_int = 0;
        // SAFETY: both requests write one int.
        let done = unsafe { libc::ioctl(self.fd(), request, &raw mut value) };
        if done < 0 { 0 } else { value.max(0) as u64 }
    }

    /// Bytes that were not sent yet (`SIOCOUTQNSD`).
    #[must_use]
    pub fn unsent(&self) -> u64 {
        const SIOCOUTQNSD: libc::Ioctl = 0x894B;
        self.ioctl(SIOCOUTQNSD)
    }

    /// Bytes that were not acknowledged yet (`SIOCOUTQ`).
    #[must_use]
    pub fn unacknowledged(&self) -> u64 {
        self.ioctl(libc::TIOCOUTQ)
    }

    /// Has the socket signal an error condition whenever everything sent so far is acknowledged (timestamps of
    /// acknowledgements, `Documentation/networking/timestamping.rst`), for [`take_acknowledgements`](Self::take_acknowledgements).
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn tell_acknowledgements(&self) -> io::Result<()> {
        let flags = libc::SOF_TIMESTAMPING_TX_ACK | libc::SOF_TIMESTAMPING_SOFTWARE | libc::SOF_TIMESTAMPING_OPT_TSONLY;
        self.set(libc::SOL_SOCKET, libc::SO_TIMESTAMPING, flags as i32)
    }

    /// Clears that condition.
    pub fn take_acknowledgements(&self) {
        let mut control = [0_u64; 64];
        loop {
            // SAFETY: a message header of zeros is one without address, data and control space.
            let mut message: libc::msghdr = unsafe { zeroed() };
            message.msg_control = control.as_mut_ptr().cast();
            message.msg_controllen = size_of_val(&control) as _;
            let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
            // SAFETY: the control space is as long as said and outlives the call.
            if unsafe { libc::recvmsg(self.fd(), &raw mut message, flags) } < 0 {
                return;
            }
        }
    }

    /// `TCP_INFO`; what an older kernel does not tell is zero.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn info(&self) -> io::Result<TcpInfo> {
        let mut info = nothing();
        let mut length = size_of::<TcpInfo>() as libc::socklen_t;
        let (level, name) = (libc::IPPROTO_TCP, libc::TCP_INFO);
        // SAFETY: `info` is plain integers with room for `length` bytes, which both outlive the call.
        check(unsafe { libc::getsockopt(self.fd(), level, name, (&raw mut info).cast(), &raw mut length) })?;
        Ok(info)
    }

    /// Closes it so that nothing more is sent but a reset.
    pub fn abort(self) {
        let linger = libc::linger { l_onoff: 1, l_linger: 0 };
        let bytes: [u8; size_of::<libc::linger>()] =
            // SAFETY: two integers without padding.
            unsafe { std::mem::transmute(linger) };
        // If it fails, the socket closes with what waits in it, which the namespace's end cuts short.
        let _ = self.set_bytes(libc::SOL_SOCKET, libc::SO_LINGER, &bytes);
    }

    /// Returns its descriptor.
    #[must_use]
    pub fn fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// Lets the process open as many sockets as its hard limit allows; there are two per flow.
#[allow(unsafe_code, reason = "the standard library does not set limits")]
pub fn raise_descriptor_limit() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: both calls read or fill `limit`, which outlives them. If the limit stays, opening sockets says so.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) == 0 {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
        }
    }
}

/// Poller that finds ready sockets.
#[derive(Debug)]
pub struct Poller(OwnedFd);

/// Ready sockets of one wait.
const BATCH: usize = 256;

#[allow(unsafe_code, reason = "the standard library has no epoll")]
impl Poller {
    /// Creates a poller of no sockets.
    ///
    /// # Errors
    ///
    /// If the kernel refuses.
    pub fn new() -> io::Result<Self> {
        // SAFETY: takes a number; the descriptor that it gives is ours alone.
        unsafe { Ok(Self(OwnedFd::from_raw_fd(check(libc::epoll_create1(libc::EPOLL_CLOEXEC))?))) }
    }

    /// Tells of `events` (of `EPOLL*`) of `fd` as `token`.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn add(&self, fd: RawFd, events: i32, token: u64) -> io::Result<()> {
        let mut event = libc::epoll_event { events: events as u32, u64: token };
        // SAFETY: `event` outlives the call.
        check(unsafe { libc::epoll_ctl(self.0.as_raw_fd(), libc::EPOLL_CTL_ADD, fd, &raw mut event) }).map(drop)
    }

    /// Calls `take` with events and token of each that is ready now.
    pub fn ready(&self, mut take: impl FnMut(u32, u64)) {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; BATCH];
        // SAFETY: there is room for BATCH events.
        let count = unsafe { libc::epoll_wait(self.0.as_raw_fd(), events.as_mut_ptr(), BATCH as i32, 0) };
        for event in &events[..usize::try_from(count).unwrap_or(0)] {
            take(event.events, event.u64);
        }
    }

    /// Polls readable while any is ready.
    #[must_use]
    pub fn fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}
