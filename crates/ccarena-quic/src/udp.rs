//! A UDP socket that sends and takes many datagrams per call.

use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::num::NonZeroUsize;
use std::os::fd::{AsRawFd, RawFd};

use ccarena_net::Ecn;
use noq_proto::EcnCodepoint;
use noq_udp::{BATCH_SIZE, RecvMeta, UdpSockRef, UdpSocketState};

/// The default of 212 kB loses half of a burst on loopback.
const RECEIVE_BUFFER: usize = 8 << 20;
/// Default size of a socket's send buffer.
pub const SEND_BUFFER: usize = 1 << 20;
/// Number of full datagrams below the 64 kB of an IP packet.
const SEGMENTS: NonZeroUsize = NonZeroUsize::new(40).unwrap();
/// Largest datagram that the kernel merges others into.
const LARGEST: usize = 1 << 16;

/// The socket.
pub struct Udp {
    socket: UdpSocket,
    state: UdpSocketState,
    ecn: Ecn,
}

/// Room for a batch of datagrams, for all sockets of a thread.
pub struct Buffers {
    bytes: Vec<u8>,
    meta: [RecvMeta; BATCH_SIZE],
}

impl Default for Buffers {
    fn default() -> Self {
        Self { bytes: vec![0; LARGEST * BATCH_SIZE], meta: [RecvMeta::default(); BATCH_SIZE] }
    }
}

/// A datagram that has come.
pub struct Arrival<'a> {
    /// Source address.
    pub from: SocketAddr,
    /// Destination among our addresses.
    pub to: Option<std::net::IpAddr>,
    /// The mark of routers.
    pub ecn: Option<EcnCodepoint>,
    /// Payload.
    pub bytes: &'a [u8],
}

impl Udp {
    /// A socket at `address` whose packets leave with code point `ecn`; marks are heard unless that is Not-ECT. At most
    /// `send_buffer` bytes wait in it, the kernel's own included. The stack knows ECT(0) alone, and counts ECT(1) as that.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn bind(address: SocketAddr, ecn: Ecn, send_buffer: usize) -> io::Result<Self> {
        let socket = UdpSocket::bind(address)?;
        let state = UdpSocketState::new(UdpSockRef::from(&socket))?;
        resize(&socket, libc::SO_RCVBUFFORCE, libc::SO_RCVBUF, RECEIVE_BUFFER);
        resize(&socket, libc::SO_SNDBUFFORCE, libc::SO_SNDBUF, send_buffer);
        Ok(Self { socket, state, ecn })
    }

    /// Returns its address.
    ///
    /// # Errors
    ///
    /// If the kernel refuses.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Datagrams that one call may send, which fit an IP packet together.
    #[must_use]
    pub fn most(&self) -> NonZeroUsize {
        self.state.max_gso_segments().min(SEGMENTS)
    }

    /// Sends what the stack has written into `contents`; false if there is no room now.
    pub fn send(&self, transmit: &noq_proto::Transmit, contents: &[u8]) -> bool {
        let ecn = transmit.ecn.and_then(|_| noq_udp::EcnCodepoint::from_bits(self.ecn as u8));
        let sent = self.state.try_send(
            UdpSockRef::from(&self.socket),
            &noq_udp::Transmit {
                destination: transmit.destination,
                ecn,
                contents: &contents[..transmit.size.min(contents.len())],
                segment_size: transmit.segment_size,
                src_ip: transmit.src_ip,
            },
        );
        // What the kernel does not take otherwise is lost, as on the way.
        !matches!(sent, Err(e) if e.kind() == io::ErrorKind::WouldBlock)
    }

    /// Returns the code point that the stack hears for the field of a datagram.
    fn heard(&self, field: Option<u8>) -> Option<EcnCodepoint> {
        match (self.ecn, Ecn::from_bits(field?)) {
            (Ecn::NotEct, _) | (_, Ecn::NotEct) => None,
            (Ecn::Ect1, Ecn::Ect1) => Some(EcnCodepoint::Ect0),
            (_, heard) => EcnCodepoint::from_bits(heard as u8),
        }
    }

    /// Hands a batch of datagrams to `take`; false if none has come.
    pub fn receive(&self, buffers: &mut Buffers, mut take: impl FnMut(Arrival<'_>)) -> bool {
        let Buffers { bytes, meta } = buffers;
        let mut slices = bytes.chunks_mut(LARGEST).map(IoSliceMut::new).collect::<Vec<_>>();
        let Ok(count) = self.state.recv(UdpSockRef::from(&self.socket), &mut slices, meta) else { return false };
        drop(slices);
        for (meta, chunk) in meta.iter().take(count).zip(bytes.chunks(LARGEST)) {
            let ecn = self.heard(meta.ecn.map(|e| e as u8));
            for datagram in chunk[..meta.len.min(LARGEST)].chunks(meta.stride.max(1)) {
                take(Arrival { from: meta.addr, to: meta.dst_ip, ecn, bytes: datagram });
            }
        }
        count > 0
    }
}

impl AsRawFd for Udp {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

/// Resizes a buffer beyond the system's limit if this process may, else up to it.
#[allow(unsafe_code, reason = "the standard library does not size buffers")]
fn resize(socket: &UdpSocket, force: libc::c_int, ask: libc::c_int, bytes: usize) {
    let value = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
    let set = |option| {
        // SAFETY: an integer that outlives the call.
        unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                option,
                (&raw const value).cast(),
                size_of::<libc::c_int>() as libc::socklen_t,
            )
        }
    };
    if set(force) != 0 {
        set(ask);
    }
}
