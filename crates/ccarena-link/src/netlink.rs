//! Netlink sockets, and the few requests of rtnetlink (rtnetlink(7)) that set up interfaces, addresses and routes.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{FromRawFd, RawFd};

use crate::error::LinkError;

/// Flags of a request beside NLM_F_REQUEST and NLM_F_ACK.
const CREATE: u16 = (libc::NLM_F_CREATE | libc::NLM_F_EXCL) as u16;
const REPLACE: u16 = (libc::NLM_F_CREATE | libc::NLM_F_REPLACE) as u16;

/// Metrics of a route (`linux/rtnetlink.h`), which libc does not name.
const RTAX_INITCWND: u16 = 11;
const RTAX_INITRWND: u16 = 14;

/// An address that the kernel need not look for on the network before it is used (`linux/if_addr.h`).
const IFA_F_NODAD: u8 = 0x02;

const HEADER_BYTES: usize = 16;

/// Initial windows of TCP connections over a route, in segments; none is the kernel's default of 10.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InitialWindows {
    /// The sender's congestion window.
    pub congestion: Option<u32>,
    /// The window that a receiver advertises.
    pub receive: Option<u32>,
}

/// The number of the interface `name` in the calling thread's namespace.
pub fn index(name: &str) -> Result<u32, LinkError> {
    let text = std::ffi::CString::new(name).map_err(|_| LinkError::Name(name.into()))?;
    #[allow(unsafe_code, reason = "if_nametoindex has no safe wrapper in the standard library")]
    // SAFETY: `text` ends with a zero byte and lives through the call.
    match unsafe { libc::if_nametoindex(text.as_ptr()) } {
        0 => Err(LinkError::last(format!("cannot find interface {name}"))),
        index => Ok(index),
    }
}

/// A request under construction: header, a fixed body, attributes.
pub struct Request(Vec<u8>);

impl Request {
    /// A request of `kind` with a fixed `body`.
    pub fn new(kind: u16, flags: u16, body: &[u8]) -> Self {
        let flags = flags | (libc::NLM_F_REQUEST | libc::NLM_F_ACK) as u16;
        let mut bytes = vec![0; HEADER_BYTES];
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        bytes[6..8].copy_from_slice(&flags.to_ne_bytes());
        bytes.extend(body);
        Self(bytes)
    }

    fn attribute(mut self, kind: u16, value: &[u8]) -> Self {
        self.0.extend((4 + value.len() as u16).to_ne_bytes());
        self.0.extend(kind.to_ne_bytes());
        self.0.extend(value);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }

    fn number(self, kind: u16, value: Option<u32>) -> Self {
        match value {
            Some(value) => self.attribute(kind, &value.to_ne_bytes()),
            None => self,
        }
    }

    fn finish(&self) -> Vec<u8> {
        let mut bytes = self.0.clone();
        let length = (bytes.len() as u32).to_ne_bytes();
        bytes[..4].copy_from_slice(&length);
        bytes
    }
}

/// A netlink socket of one network namespace.
pub struct Socket(File);

impl Socket {
    /// Opens a routing socket in the calling thread's namespace.
    pub fn open() -> Result<Self, LinkError> {
        Self::of(libc::NETLINK_ROUTE)
    }

    /// Opens one of `protocol` in the calling thread's namespace.
    pub fn of(protocol: libc::c_int) -> Result<Self, LinkError> {
        #[allow(unsafe_code, reason = "the standard library has no netlink sockets")]
        // SAFETY: the call takes numbers; what it returns is a new descriptor that nobody else owns, or an error.
        unsafe {
            let fd: RawFd = libc::socket(libc::AF_NETLINK, libc::SOCK_RAW | libc::SOCK_CLOEXEC, protocol);
            if fd < 0 {
                return Err(LinkError::last("cannot open a netlink socket"));
            }
            Ok(Self(File::from_raw_fd(fd)))
        }
    }

    /// Calls `take` with the body of each answer to `request`, which asks for a list.
    pub fn list(&mut self, request: &Request, mut take: impl FnMut(&[u8])) -> io::Result<()> {
        self.0.write_all(&request.finish())?;
        let mut buffer = vec![0; 1 << 16];
        loop {
            let length = self.0.read(&mut buffer)?;
            for (kind, body) in messages(&buffer[..length]) {
                match i32::from(kind) {
                    libc::NLMSG_DONE => return Ok(()),
                    libc::NLMSG_ERROR => return Err(io::Error::other("the kernel refuses")),
                    _ => take(body),
                }
            }
        }
    }

    /// Sets interface number `index` up.
    pub fn set_up(&mut self, index: u32, mtu: Option<u32>, queue_packets: Option<u32>) -> Result<(), LinkError> {
        let up = (libc::IFF_UP as u32).to_ne_bytes();
        // struct ifinfomsg: family and type, index, flags, which flags change.
        let body = [[0; 4], index.to_ne_bytes(), up, up].concat();
        let request = Request::new(libc::RTM_NEWLINK, 0, &body)
            .number(libc::IFLA_MTU, mtu)
            .number(libc::IFLA_TXQLEN, queue_packets);
        self.ask(request, "set up the interface")
    }

    /// Adds `address` with `peer` at the other end.
    pub fn add_address(&mut self, index: u32, address: IpAddr, peer: IpAddr) -> Result<(), LinkError> {
        let (bits, flags) = if address.is_ipv4() { (32, 0) } else { (128, IFA_F_NODAD) };
        // struct ifaddrmsg: family, prefix length, flags, scope (0 is global), index.
        let body = [[family(address), bits, flags, 0], index.to_ne_bytes()].concat();
        let request = Request::new(libc::RTM_NEWADDR, CREATE, &body)
            .attribute(libc::IFA_LOCAL, &octets(address))
            .attribute(libc::IFA_ADDRESS, &octets(peer));
        self.ask(request, "add an address")
    }

    /// Every address of `block`/`bits` is this namespace's own.
    pub fn own_block(&mut self, block: impl Into<IpAddr>, bits: u8) -> Result<(), LinkError> {
        let loopback = index("lo")?;
        self.route(block.into(), bits, Via::Own(loopback), InitialWindows::default())
    }

    /// Sends packets to `block`/`bits` out of interface number `device`; replaces the route that there is.
    pub fn route_to(
        &mut self,
        block: impl Into<IpAddr>,
        bits: u8,
        device: u32,
        windows: InitialWindows,
    ) -> Result<(), LinkError> {
        self.route(block.into(), bits, Via::Device(device), windows)
    }

    /// Sends packets to `block`/`bits` out of interface number `device`, from `source` if their socket is bound to no
    /// address; replaces the route that there is.
    pub fn route_from(&mut self, source: Ipv4Addr, block: Ipv4Addr, bits: u8, device: u32) -> Result<(), LinkError> {
        self.route(block.into(), bits, Via::From(device, source), InitialWindows::default())
    }

    /// Sends packets to `block`/`bits` out of interface number `device`, if no route is for exactly that block yet: the
    /// kernel decides between several who ask at once. Whether it is ours now.
    pub fn claim_block(&mut self, block: Ipv4Addr, bits: u8, device: u32) -> Result<bool, LinkError> {
        match self.route(block.into(), bits, Via::Claimed(device), InitialWindows::default()) {
            Ok(()) => Ok(true),
            Err(LinkError::System { source, .. }) if source.raw_os_error() == Some(libc::EEXIST) => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// Packets to `block`/`bits` for which there is no better route are refused, and do not go out again.
    pub fn refuse_block(&mut self, block: impl Into<IpAddr>, bits: u8) -> Result<(), LinkError> {
        self.route(block.into(), bits, Via::Nowhere, InitialWindows::default())
    }

    /// Every IPv4 route of the calling thread's namespace, in all tables.
    pub fn routes(&mut self) -> Result<Vec<Route>, LinkError> {
        let request = Request::new(
            libc::RTM_GETROUTE,
            libc::NLM_F_DUMP as u16,
            &[libc::AF_INET as u8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        );
        let mut routes = Vec::new();
        let listed = self.list(&request, |body| routes.extend(Route::read(body)));
        listed.map_err(|e| LinkError::of("cannot list routes", e)).map(|()| routes)
    }

    fn route(&mut self, block: IpAddr, bits: u8, via: Via, windows: InitialWindows) -> Result<(), LinkError> {
        let (table, scope, kind, device) = match via {
            Via::Own(device) => (libc::RT_TABLE_LOCAL, libc::RT_SCOPE_HOST, libc::RTN_LOCAL, Some(device)),
            Via::Device(device) | Via::Claimed(device) | Via::From(device, _) => {
                (libc::RT_TABLE_MAIN, libc::RT_SCOPE_LINK, libc::RTN_UNICAST, Some(device))
            }
            Via::Nowhere => (libc::RT_TABLE_MAIN, libc::RT_SCOPE_UNIVERSE, libc::RTN_UNREACHABLE, None),
        };
        let flags = if matches!(via, Via::Claimed(_)) { CREATE } else { REPLACE };
        // struct rtmsg: family, bits of destination and source, TOS; table, protocol, scope, type; flags.
        let body = [[family(block), bits, 0, 0], [table, libc::RTPROT_STATIC, scope, kind], [0; 4]].concat();
        let mut request = Request::new(libc::RTM_NEWROUTE, flags, &body)
            .attribute(libc::RTA_DST, &octets(block))
            .number(libc::RTA_OIF, device);
        if let Via::From(_, source) = via {
            request = request.attribute(libc::RTA_PREFSRC, &source.octets());
        }
        if windows != InitialWindows::default() {
            let metrics =
                Request(Vec::new()).number(RTAX_INITCWND, windows.congestion).number(RTAX_INITRWND, windows.receive);
            request = request.attribute(libc::RTA_METRICS, &metrics.0);
        }
        self.ask(request, "add a route")
    }

    /// Sends `request` and waits for the kernel's answer: a struct nlmsgerr, whose number is 0 or a negative errno.
    fn ask(&mut self, request: Request, what: &str) -> Result<(), LinkError> {
        let failed = |e| LinkError::of(format!("cannot {what}"), e);
        self.0.write_all(&request.finish()).map_err(failed)?;
        let mut answer = [0; 4096];
        let length = self.0.read(&mut answer).map_err(failed)?;
        let number = answer[..length].get(HEADER_BYTES..HEADER_BYTES + 4).and_then(|b| b.try_into().ok());
        match number.map(i32::from_ne_bytes) {
            Some(0) => Ok(()),
            Some(errno) => Err(failed(io::Error::from_raw_os_error(-errno))),
            None => Err(failed(io::Error::from(io::ErrorKind::InvalidData))),
        }
    }
}

fn family(address: IpAddr) -> u8 {
    if address.is_ipv4() { libc::AF_INET as u8 } else { libc::AF_INET6 as u8 }
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().into(),
        IpAddr::V6(address) => address.octets().into(),
    }
}

/// Kind and body of the first of `bytes`' messages, and what follows it (struct nlmsghdr).
fn message(bytes: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let length = u32::from_ne_bytes(bytes.get(..4)?.try_into().ok()?) as usize;
    let kind = u16::from_ne_bytes(bytes.get(4..6)?.try_into().ok()?);
    let body = bytes.get(HEADER_BYTES..length)?;
    Some((kind, body, bytes.get(length.next_multiple_of(4)..).unwrap_or_default()))
}

/// Kinds and bodies of `bytes`' messages.
pub fn messages(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let (kind, body, rest) = message(bytes)?;
        bytes = rest;
        Some((kind, body))
    })
}

/// Kinds and values of `bytes`' attributes (struct rtattr).
pub fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let head = bytes.get(..4)?;
        let (length, kind) = (u16::from_ne_bytes([head[0], head[1]]) as usize, u16::from_ne_bytes([head[2], head[3]]));
        let value = bytes.get(4..length)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

/// A route that there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// Destination: an address, and the number of its bits that count.
    pub destination: (Ipv4Addr, u8),
    /// Number of its table.
    pub table: u32,
    /// Packets are refused.
    pub refuses: bool,
}

impl Route {
    /// Reads a struct rtmsg and its attributes.
    fn read(body: &[u8]) -> Option<Self> {
        let (&bits, &table, &kind) = (body.get(1)?, body.get(4)?, body.get(7)?);
        let mut route = Self {
            destination: (Ipv4Addr::UNSPECIFIED, bits),
            table: table.into(),
            refuses: kind == libc::RTN_UNREACHABLE,
        };
        for (kind, value) in attributes(body.get(12..)?) {
            match (kind, value.try_into()) {
                (libc::RTA_DST, Ok(value)) => route.destination.0 = <[u8; 4]>::into(value),
                (libc::RTA_TABLE, Ok(value)) => route.table = u32::from_ne_bytes(value),
                _ => {}
            }
        }
        Some(route)
    }
}

/// Target of a route: here, a device, a device from an address of ours, a device if no route exists yet, or nowhere.
enum Via {
    Own(u32),
    Device(u32),
    From(u32, Ipv4Addr),
    Claimed(u32),
    Nowhere,
}
