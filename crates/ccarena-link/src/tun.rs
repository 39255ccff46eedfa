//! TUN devices: the kernel hands IP packets to us and takes them from us.

use std::fs::{self, File, OpenOptions};
use std::io::{self, IoSlice, Read, Write};
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;

use crate::error::LinkError;
use crate::netlink;

/// Size of the largest IP packet.
pub const MTU: usize = 1500;

/// Packets that wait between the kernel and us. A longer queue halves throughput: it holds packets that TCP would not have
/// sent yet.
const QUEUE_PACKETS: u32 = 500;

/// A TUN device. It goes when its descriptor and every copy of it are closed, at the latest with the process.
///
/// Packets come and go behind a `struct virtio_net_hdr`: the kernel leaves segmentation of TCP and checksums to whoever reads.
#[derive(Debug)]
pub struct Tun {
    file: File,
    name: String,
}

impl Tun {
    /// Creates the device `name` in the calling thread's network namespace and sets it up. The descriptor does not block
    /// and works in any namespace.
    ///
    /// # Errors
    /// If the driver is missing, the name is taken or unfit, or the caller may not.
    pub fn create(name: &str) -> Result<Self, LinkError> {
        let fits = (1..libc::IFNAMSIZ).contains(&name.len()) && !name.contains(|c: char| c == '/' || c.is_whitespace());
        if !fits {
            return Err(LinkError::Name(name.into()));
        }
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK)
            .open("/dev/net/tun")
            .map_err(LinkError::TunMissing)?;
        #[allow(unsafe_code, reason = "a TUN device is made by an ioctl")]
        // SAFETY: an ifreq of zeroes is valid; its name is shorter than the array; the descriptor is open; TUNSETIFF reads
        // and writes an ifreq.
        let made = unsafe {
            let mut request: libc::ifreq = std::mem::zeroed();
            for (to, &from) in request.ifr_name.iter_mut().zip(name.as_bytes()) {
                *to = from as libc::c_char;
            }
            request.ifr_ifru.ifru_flags =
                (libc::IFF_TUN | libc::IFF_NO_PI | libc::IFF_VNET_HDR | libc::IFF_TUN_EXCL) as libc::c_short;
            libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &mut request)
        };
        if made < 0 {
            let error = io::Error::last_os_error();
            return Err(match error.raw_os_error() {
                Some(libc::EBUSY | libc::EEXIST) => LinkError::NameTaken(name.into()),
                _ => LinkError::of(format!("cannot create the TUN device {name}"), error),
            });
        }
        let offloads = libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6 | libc::TUN_F_TSO_ECN;
        #[allow(unsafe_code, reason = "a TUN device's features are set by an ioctl")]
        // SAFETY: the descriptor is open, and TUNSETOFFLOAD takes a number.
        let set = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETOFFLOAD, libc::c_ulong::from(offloads)) };
        if set < 0 {
            let what = format!("cannot set the offloads of the TUN device {name}");
            return Err(LinkError::of(what, io::Error::last_os_error()));
        }
        netlink::Socket::open()?.set_up(netlink::index(name)?, Some(MTU as u32), Some(QUEUE_PACKETS))?;
        Ok(Self { file, name: name.into() })
    }

    /// Gives the device `address`, alone or with the `peer` at its other end. To be called in its namespace.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn add_address<A: Into<IpAddr>>(&self, address: A, peer: Option<A>) -> Result<(), LinkError> {
        let address = address.into();
        let peer = peer.map_or(address, Into::into);
        netlink::Socket::open()?.add_address(netlink::index(&self.name)?, address, peer)
    }

    /// Packets that the kernel has dropped because the device's queue was full. To be called in its namespace.
    ///
    /// # Errors
    /// If /proc is not mounted.
    pub fn overruns(&self) -> Result<u64, LinkError> {
        let path = "/proc/thread-self/net/dev";
        let text = fs::read_to_string(path).map_err(|e| LinkError::of(format!("cannot read {path}"), e))?;
        // proc_pid_net(5): a line for each device, its name and eight numbers on what it received come first; what it has
        // transmitted follows: bytes, packets, errors, drops.
        let line = text.lines().find_map(|line| line.trim_start().strip_prefix(&self.name)?.strip_prefix(':'));
        Ok(line.and_then(|line| line.split_whitespace().nth(11)?.parse().ok()).unwrap_or(0))
    }

    /// Returns its interface name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Another descriptor of the same device.
    ///
    /// # Errors
    /// If the process has too many descriptors.
    pub fn try_clone(&self) -> Result<Self, LinkError> {
        let file = self.file.try_clone().map_err(|e| LinkError::of("cannot copy a descriptor", e))?;
        Ok(Self { file, name: self.name.clone() })
    }

    /// Reads one header and what it describes into `buffer`; their length, or none if nothing waits.
    ///
    /// # Errors
    /// If the device is gone.
    #[inline]
    pub(crate) fn read(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        loop {
            match (&self.file).read(buffer) {
                Ok(length) => return Ok(Some(length)),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
    }

    /// Writes one header and what it describes, in pieces.
    ///
    /// # Errors
    /// If the kernel does not take it: the device is down, or memory is short.
    #[inline]
    pub(crate) fn write(&self, pieces: &[IoSlice<'_>]) -> io::Result<()> {
        (&self.file).write_vectored(pieces).map(|_| ())
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl AsRawFd for Tun {
    fn as_raw_fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }
}
