//! The two ends of a shell: a device outside, a namespace with a device inside, addresses and routes.

use std::net::Ipv4Addr;

use super::address::{self, Block};
use super::{SENDER, ShellError};
use crate::error::LinkError;
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
        // Router solicitations and the like would cross the links; a kernel without IPv6 sends none.
        let _ = outer.sysctl(&format!("net.ipv6.conf.{device}.disable_ipv6"), "1");
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
        Ok(Self { inner, near, outer, far, block, nested, private })
    }
}
