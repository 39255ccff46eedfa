//! The two ends of a shell: a device outside, a namespace with a device inside, addresses and routes.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::address::{self, Block};
use super::{SENDER, ShellError};
use crate::error::LinkError;
use crate::ipv6;
use crate::namespace::{self, Namespace};
use crate::netlink::{self, InitialWindows};
use crate::tun::Tun;

/// The name of the inner device, as with mahimahi.
const INGRESS: &str = "ingress";

/// Namespaces of the command and of the world, and a device in each.
pub struct Ends {
    /// Namespace of the command.
    pub inner: Namespace,
    /// The inner device.
    pub near: Tun,
    /// Namespace in which the shell was called; without root, a namespace of its own.
    pub outer: Namespace,
    /// The outer device.
    pub far: Tun,
    /// The addresses inside, and of both ends.
    pub block: Block,
    /// The shell stands in another one.
    pub nested: bool,
    /// Flag that the outer namespace has no other processes.
    pub private: bool,
    /// Both ends have IPv6 addresses beside the others; or why they have none.
    pub ipv6: Result<(), String>,
}

impl Ends {
    /// Sets up both. `name` is the first part of the outer device's name.
    ///
    /// # Errors
    /// If the machine does not allow it, or no addresses are free.
    pub fn new(name: &str) -> Result<Self, ShellError> {
        if std::env::var_os(format!("{SENDER}0")).is_some() {
            let why =
                "this is the inside of `emulate`, where all addresses are flows'; put what it is to do in the scenario";
            return Err(ShellError::Addresses(why.into()));
        }
        let private = !namespace::may_create_namespaces();
        namespace::become_root_in_user_namespace()?;
        let outer = if private { Namespace::new()? } else { Namespace::current()? };
        let inner = Namespace::new()?;
        let device = format!("{name}-{}", std::process::id());
        let (far, block, nested) = outer.run(|| {
            let far = Tun::create(&device)?;
            let (block, nested) = address::claim(netlink::index(&device)?)?;
            far.add_address(block.outer(), Some(block.inner()))?;
            Ok::<_, ShellError>((far, block, nested))
        })??;
        let near = inner.run(|| {
            let near = Tun::create(INGRESS)?;
            near.add_address(block.inner(), Some(block.outer()))?;
            let mut socket = netlink::Socket::open()?;
            let everywhere = (Ipv4Addr::UNSPECIFIED, 0);
            socket.route_to(everywhere.0, everywhere.1, netlink::index(INGRESS)?, InitialWindows::default())?;
            socket.refuse_block(block.base(), block.bits)?;
            Ok::<_, LinkError>(near)
        })??;
        // Packets of shells inside this one.
        inner.sysctl("net.ipv4.ip_forward", "1")?;
        let mut ends = Self { inner, near, outer, far, block, nested, private, ipv6: Ok(()) };
        ends.ipv6 = ends.add_ipv6().map_err(|e| e.to_string());
        Ok(ends)
    }

    /// Adds IPv6 addresses and routes beside the others. What the machine has decided for its own namespace stays.
    fn add_ipv6(&self) -> Result<(), LinkError> {
        if self.private {
            ipv6::allow(&self.outer)?;
        }
        let (outer, inner) = (ipv6::beside(self.block.outer()), ipv6::beside(self.block.inner()));
        let block = (ipv6::beside(self.block.base()), ipv6::PREFIX_BITS + self.block.bits);
        self.outer.run(|| {
            self.far.add_address(outer, Some(inner))?;
            let device = netlink::index(self.far.name())?;
            netlink::Socket::open()?.route_to(block.0, block.1, device, InitialWindows::default())
        })??;
        ipv6::allow(&self.inner)?;
        self.inner.run(|| {
            self.near.add_address(inner, Some(outer))?;
            let mut socket = netlink::Socket::open()?;
            let device = netlink::index(INGRESS)?;
            socket.route_to(Ipv6Addr::UNSPECIFIED, 0, device, InitialWindows::default())?;
            socket.refuse_block(block.0, block.1)
        })?
    }
}
