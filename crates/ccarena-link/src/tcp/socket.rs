//! TCP sockets with the options that the standard library does not know.

use std::io;
use std::mem::{size_of, zeroed};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use ccarena_net::scenario::Flow;

pub use libc::tcp_info as TcpInfo;

/// The timestamps option in each segment.
const TIMESTAMP_BYTES: u32 = 12;

/// Nothing known of a connection.
#[must_use]
#[allow(unsafe_code, reason = "the struct has no other constructor")]
pub fn nothing() -> TcpInfo {
    // SAFETY: integers alone, for which zeros are valid.
    unsafe { zeroed() }
}

/// A non-blocking TCP socket.
#[derive(Debug)]
pub struct Socket(OwnedFd);

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// An address for the kernel.
#[repr(C)]
union Address {
    any: libc::sockaddr_storage,
    v4: libc::sockaddr_in,
    v6: libc::sockaddr_in6,
}

#[allow(unsafe_code, reason = "the structs have no other constructor, and the kernel says by a field which one it is")]
impl Address {
    fn empty() -> Self {
        // SAFETY: integers alone, for which zeros are valid.
        Self { any: unsafe { zeroed() } }
    }

    /// Returns it and its length.
    fn new(address: SocketAddr) -> (Self, libc::socklen_t) {
        let mut whole = Self::empty();
        let length = match address {
            SocketAddr::V4(address) => {
                whole.v4 = libc::sockaddr_in {
                    sin_family: libc::AF_INET as libc::sa_family_t,
                    sin_port: address.port().to_be(),
                    sin_addr: libc::in_addr { s_addr: u32::from(*address.ip()).to_be() },
                    sin_zero: [0; 8],
                };
                size_of::<libc::sockaddr_in>()
            }
            SocketAddr::V6(address) => {
                whole.v6 = libc::sockaddr_in6 {
                    sin6_family: libc::AF_INET6 as libc::sa_family_t,
                    sin6_port: address.port().to_be(),
                    sin6_flowinfo: address.flowinfo(),
                    sin6_addr: libc::in6_addr { s6_addr: address.ip().octets() },
                    sin6_scope_id: address.scope_id(),
                };
                size_of::<libc::sockaddr_in6>()
            }
        };
        (whole, length as libc::socklen_t)
    }

    /// Returns the address of IP that it is.
    fn read(&self) -> io::Result<SocketAddr> {
        // SAFETY: all variants are integers, begin with the family, and were zero before the kernel filled them.
        let (family, v4, v6) = unsafe { (i32::from(self.any.ss_family), &self.v4, &self.v6) };
        match family {
            libc::AF_INET => {
                let ip = Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr));
                Ok(SocketAddrV4::new(ip, u16::from_be(v4.sin_port)).into())
            }
            libc::AF_INET6 => {
                let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
                let (port, flow) = (u16::from_be(v6.sin6_port), v6.sin6_flowinfo);
                Ok(SocketAddrV6::new(ip, port, flow, v6.sin6_scope_id).into())
            }
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }
}

#[allow(unsafe_code, reason = "the standard library lacks these options and calls")]
impl Socket {
    /// A socket for connections with `peer`, or with addresses of its family, in the calling thread's network namespace.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn new(peer: IpAddr) -> io::Result<Self> {
        let kind = libc::SOCK_STREAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        let family = if peer.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
        // SAFETY: takes numbers; the descriptor that it gives is ours alone.
        unsafe { Ok(Self(OwnedFd::from_raw_fd(check(libc::socket(family, kind, 0))?))) }
    }

    /// Binds it.
    ///
    /// # Errors
    /// If the address is not this host's, or taken.
    pub fn bind(&self, address: SocketAddr) -> io::Result<()> {
        let (at, length) = Address::new(address);
        // SAFETY: `at` is a socket address of the length given.
        check(unsafe { libc::bind(self.fd(), (&raw const at).cast(), length) }).map(drop)
    }

    /// Begins to connect.
    ///
    /// # Errors
    /// If that is refused at once.
    pub fn connect(&self, address: SocketAddr) -> io::Result<()> {
        let (to, length) = Address::new(address);
        // SAFETY: `to` is a socket address of the length given.
        match check(unsafe { libc::connect(self.fd(), (&raw const to).cast(), length) }) {
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
    pub fn accept(&self) -> io::Result<(Self, SocketAddr)> {
        let mut from = Address::empty();
        let mut length = size_of::<Address>() as libc::socklen_t;
        let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        // SAFETY: `from` has room for `length` bytes, which both outlive the call.
        let fd = check(unsafe { libc::accept4(self.fd(), (&raw mut from).cast(), &raw mut length, flags) })?;
        // SAFETY: the descriptor is new and ours alone.
        let socket = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok((Self(socket), from.read()?))
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

    /// Makes it a sender of `flow`. Called before it connects.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn set_up(&self, flow: &Flow) -> io::Result<()> {
        // Segments of applications that write little by little are not held back.
        self.set(libc::IPPROTO_TCP, libc::TCP_NODELAY, 1)?;
        if flow.mss_bytes < Flow::default().mss_bytes {
            let size = flow.mss_bytes + TIMESTAMP_BYTES;
            self.set(libc::IPPROTO_TCP, libc::TCP_MAXSEG, size as i32)?;
        }
        if flow.app.needs().acknowledged { self.tell_acknowledgements() } else { Ok(()) }
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

    /// Reads bytes into `room`; how many, zero at the end of the stream.
    ///
    /// # Errors
    /// `WouldBlock` if there are none, else what went wrong with the connection.
    pub fn receive(&self, room: &mut [u8]) -> io::Result<usize> {
        // SAFETY: `room` is as long as said.
        let got = unsafe { libc::recv(self.fd(), room.as_mut_ptr().cast(), room.len(), 0) };
        usize::try_from(got).map_err(|_| io::Error::last_os_error())
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
        self.control(libc::EPOLL_CTL_ADD, fd, events, token)
    }

    /// Tells of other `events` of an added `fd`.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn change(&self, fd: RawFd, events: i32, token: u64) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, fd, events, token)
    }

    fn control(&self, what: libc::c_int, fd: RawFd, events: i32, token: u64) -> io::Result<()> {
        let mut event = libc::epoll_event { events: events as u32, u64: token };
        // SAFETY: `event` outlives the call.
        check(unsafe { libc::epoll_ctl(self.0.as_raw_fd(), what, fd, &raw mut event) }).map(drop)
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn an_address_comes_back_as_it_was_given(ip: IpAddr, port: u16, flow: u32, scope: u32) {
            let address = match ip {
                IpAddr::V4(ip) => SocketAddr::from((ip, port)),
                IpAddr::V6(ip) => SocketAddrV6::new(ip, port, flow, scope).into(),
            };
            prop_assert_eq!(Address::new(address).0.read().unwrap(), address);
        }
    }

    #[test]
    fn what_is_no_address_of_ip_is_refused() {
        assert!(Address::empty().read().is_err());
    }
}
