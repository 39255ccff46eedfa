//! The machines at the two ends of a scenario's links: a network namespace for all senders, one for all receivers.

use std::net::Ipv4Addr;

use crate::error::LinkError;
use crate::ipv6;
use crate::namespace::Namespace;
use crate::netlink::{self, Socket};
use crate::tun::Tun;

pub use crate::netlink::InitialWindows;

/// Flows that a network has addresses for.
pub const MAX_FLOWS: usize = 65_534;

/// Bits of a block that all addresses of an end share.
const BLOCK_BITS: u8 = 16;

/// An end of the links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Namespace of the data's senders.
    Senders,
    /// Namespace of the receivers, which send acknowledgements.
    Receivers,
}

impl End {
    /// The other one.
    #[must_use]
    pub fn other(self) -> Self {
        match self {
            Self::Senders => Self::Receivers,
            Self::Receivers => Self::Senders,
        }
    }

    /// The block of its addresses, in the space that RFC 6598 sets aside for the inside of networks.
    #[must_use]
    pub fn block(self) -> Ipv4Addr {
        match self {
            Self::Senders => Ipv4Addr::new(100, 64, 0, 0),
            Self::Receivers => Ipv4Addr::new(100, 65, 0, 0),
        }
    }

    /// The address of flow number `flow` here. A flow's sender and receiver must bind to their addresses: packets are told
    /// apart by them.
    #[must_use]
    pub fn address(self, flow: usize) -> Ipv4Addr {
        Ipv4Addr::from(u32::from(self.block()) + 1 + flow.min(MAX_FLOWS - 1) as u32)
    }

    /// The flow whose address here is `address`.
    #[must_use]
    pub fn flow(self, address: Ipv4Addr) -> Option<usize> {
        let number = u32::from(address).wrapping_sub(u32::from(self.block()));
        (1..=MAX_FLOWS as u32).contains(&number).then(|| number as usize - 1)
    }
}

/// Two namespaces, each with a TUN device through which it reaches the other; packets between them are ours to carry.
#[derive(Debug)]
pub struct Network {
    senders: Side,
    receivers: Side,
}

#[derive(Debug)]
struct Side {
    namespace: Namespace,
    tun: Tun,
}

impl Network {
    /// A network for `flows` flows.
    ///
    /// # Errors
    /// If namespaces or TUN devices cannot be created, or there are more than [`MAX_FLOWS`].
    pub fn new(flows: usize) -> Result<Self, LinkError> {
        if flows > MAX_FLOWS {
            return Err(LinkError::Flows { found: flows, most: MAX_FLOWS });
        }
        Ok(Self { senders: Side::new(End::Senders)?, receivers: Side::new(End::Receivers)? })
    }

    /// The namespace at `end`.
    #[must_use]
    pub fn namespace(&self, end: End) -> &Namespace {
        &self.side(end).namespace
    }

    /// The device at `end`.
    #[must_use]
    pub fn tun(&self, end: End) -> &Tun {
        &self.side(end).tun
    }

    /// Gives each flow an IPv6 address [beside](ipv6::beside) its IPv4 address at both ends.
    ///
    /// # Errors
    /// If the kernel has no IPv6.
    pub fn add_ipv6(&self) -> Result<(), LinkError> {
        for end in [End::Senders, End::Receivers] {
            let side = self.side(end);
            ipv6::allow(&side.namespace)?;
            // Over IPv4 a socket may bind to any address that is routed here, over IPv6 only with this.
            side.namespace.sysctl("net.ipv6.ip_nonlocal_bind", "1")?;
            side.namespace.run(|| {
                let (index, mut socket) = (netlink::index(side.tun.name())?, Socket::open()?);
                let bits = ipv6::PREFIX_BITS + BLOCK_BITS;
                socket.own_block(ipv6::beside(end.block()), bits)?;
                socket.route_to(ipv6::beside(end.other().block()), bits, index, InitialWindows::default())?;
                side.tun.add_address(ipv6::beside(end.address(0)), None)
            })??;
        }
        Ok(())
    }

    /// Sets a sysctl below `net` at `end`, its name written with dots: `net.ipv4.tcp_rmem`.
    ///
    /// # Errors
    /// If the kernel has none of that name, or refuses the value.
    pub fn sysctl(&self, end: End, key: &str, value: &str) -> Result<(), LinkError> {
        self.namespace(end).sysctl(key, value)
    }

    /// The initial windows of connections that `end` makes or accepts from now on: of all flows, or of one.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn set_initial_windows(&self, end: End, flow: Option<usize>, windows: InitialWindows) -> Result<(), LinkError> {
        let far = end.other();
        let (block, bits) = flow.map_or((far.block(), BLOCK_BITS), |flow| (far.address(flow), 32));
        let side = self.side(end);
        side.namespace.run(|| Socket::open()?.route_to(block, bits, netlink::index(side.tun.name())?, windows))?
    }

    /// Makes sockets that talk to `flow`'s address at the other end do so from its address here, even if they bind to
    /// none. Initial windows of the flow are the kernel's from then on.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn set_source(&self, end: End, flow: usize) -> Result<(), LinkError> {
        let side = self.side(end);
        let (source, far) = (end.address(flow), end.other().address(flow));
        side.namespace.run(|| Socket::open()?.route_from(source, far, 32, netlink::index(side.tun.name())?))?
    }

    /// Packets that `end`'s kernel has dropped because its device's queue was full: the emulator did not take them in time.
    ///
    /// # Errors
    /// If /proc is not mounted.
    pub fn overruns(&self, end: End) -> Result<u64, LinkError> {
        let side = self.side(end);
        side.namespace.run(|| side.tun.overruns())?
    }

    /// Returns the overruns of both ends.
    ///
    /// # Errors
    ///
    /// As [`Network::overruns`].
    pub fn all_overruns(&self) -> Result<u64, LinkError> {
        Ok(self.overruns(End::Senders)? + self.overruns(End::Receivers)?)
    }

    fn side(&self, end: End) -> &Side {
        match end {
            End::Senders => &self.senders,
            End::Receivers => &self.receivers,
        }
    }
}

impl Side {
    fn new(end: End) -> Result<Self, LinkError> {
        let namespace = Namespace::new()?;
        let tun = namespace.run(|| {
            let tun = Tun::create("link0")?;
            let index = netlink::index(tun.name())?;
            let mut socket = Socket::open()?;
            socket.own_block(end.block(), BLOCK_BITS)?;
            socket.route_to(end.other().block(), BLOCK_BITS, index, InitialWindows::default())?;
            // What does not bind to a flow's address sends from the first one's.
            tun.add_address(end.address(0), None)?;
            Ok::<_, LinkError>(tun)
        })??;
        // Sockets of a process that was killed would retransmit for two minutes, and keep the namespace and their
        // congestion control's programs for as long. Where /proc/sys may not be written, they do.
        let _ = namespace.sysctl("net.ipv4.tcp_orphan_retries", "1");
        Ok(Self { namespace, tun })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn an_address_tells_its_flow(flow in 0..MAX_FLOWS, any in any::<u32>()) {
            for end in [End::Senders, End::Receivers] {
                prop_assert_eq!(end.flow(end.address(flow)), Some(flow));
                prop_assert_eq!(end.flow(end.other().address(flow)), None);
                let any = Ipv4Addr::from(any);
                prop_assert!(end.flow(any).is_none_or(|f| end.address(f) == any));
            }
        }
    }
}
