//! The two places of a shell, near and far, and what commands find there.

use std::ffi::OsString;

use super::arguments::{Direction, OnOff, Shell};
use super::connections::Watch;
use super::ends::Ends;
use super::nat::{Translation, Version};
use super::{BASE, BASE6, PREFIX, RECEIVER, RECEIVER6, SENDER, SENDER6, ShellError, say};
use crate::error::LinkError;
use crate::ipv6;
use crate::namespace::{self, Namespace};
use crate::network::{End, Network};

/// Place in which commands run.
pub struct Place {
    /// Text before the prompt.
    pub prefix: String,
    /// Environment variables of commands.
    pub variables: Vec<(String, OsString)>,
    /// The devices.
    pub devices: Devices,
    _translations: Vec<Translation>,
}

/// The devices between which packets are carried.
pub enum Devices {
    /// Namespaces of mahimahi's shells.
    Ends(Ends),
    /// Namespaces of a scenario's flows.
    Network(Network),
}

impl Place {
    /// Sets up namespaces and devices for `shells`, the outermost first, which have so many `flows` if they run a scenario.
    /// `serves`: a far command runs at the far end.
    ///
    /// # Errors
    /// If the machine does not allow it.
    pub fn new(shells: &[Shell], flows: usize, serves: bool, verbose: bool) -> Result<Self, ShellError> {
        let prefix: String = shells.iter().map(prefix).collect();
        if let [Shell::Emulate(_), ..] = shells {
            namespace::become_root_in_user_namespace()?;
            let network = Network::new(flows)?;
            let ipv6 = network.add_ipv6();
            if let (Err(why), true) = (&ipv6, verbose) {
                say(format_args!("{prefix}no IPv6: {why}"));
            }
            let variables = flow_variables(flows, ipv6.is_ok());
            return Ok(Self { prefix, variables, devices: Devices::Network(network), _translations: Vec::new() });
        }
        let ends = Ends::new(shells.first().map_or("link", device_name))?;
        if verbose {
            let place = if ends.private { "in a namespace of its own" } else { "here" };
            let (inner, outer) = (ends.block.inner(), ends.block.outer());
            say(format_args!("{prefix}{inner} inside, {outer} {place}"));
            match &ends.ipv6 {
                Ok(()) => say(format_args!("{prefix}{} inside, {} {place}", ipv6::beside(inner), ipv6::beside(outer))),
                Err(why) => say(format_args!("{prefix}no IPv6: {why}")),
            }
        }
        let _translations = translations(&ends, &prefix, verbose);
        // The outermost shell's, as with mahimahi; but a far command is at this shell's own.
        let base = |name: &str, own: String| {
            let outermost = std::env::var_os(name).filter(|_| !ends.private && !serves);
            (name.into(), outermost.unwrap_or_else(|| own.into()))
        };
        if serves && ends.nested {
            say(format_args!(
                "{prefix}the far command runs inside the shell around this one: what the command sends to $MAHIMAHI_BASE \
                 ({}) crosses {}alone. Give --far-command to the outermost shell to cross all",
                ends.block.outer(),
                prefix
            ));
        }
        let mut variables = vec![base(BASE, ends.block.outer().to_string())];
        if ends.ipv6.is_ok() {
            variables.push(base(BASE6, ipv6::beside(ends.block.outer()).to_string()));
        }
        Ok(Self { prefix, variables, devices: Devices::Ends(ends), _translations })
    }

    /// Returns the namespace of the command.
    pub fn near(&self) -> &Namespace {
        match &self.devices {
            Devices::Ends(ends) => &ends.inner,
            Devices::Network(network) => network.namespace(End::Senders),
        }
    }

    /// Returns the namespace of the far command.
    pub fn far(&self) -> &Namespace {
        match &self.devices {
            Devices::Ends(ends) => &ends.outer,
            Devices::Network(network) => network.namespace(End::Receivers),
        }
    }

    /// Packets that the devices at both ends dropped because the emulator did not take them in time.
    ///
    /// # Errors
    /// If /proc is not mounted.
    pub fn overruns(&self) -> Result<u64, LinkError> {
        match &self.devices {
            Devices::Ends(ends) => {
                Ok(ends.inner.run(|| ends.near.overruns())?? + ends.outer.run(|| ends.far.overruns())??)
            }
            Devices::Network(network) => network.all_overruns(),
        }
    }

    /// Returns whether the far end is the machine's own namespace.
    pub fn is_far_here(&self) -> bool {
        matches!(&self.devices, Devices::Ends(ends) if !ends.private && !ends.nested)
    }

    /// Watches the connections across the links, at the near end and at the far end.
    ///
    /// # Errors
    /// If the kernel does not tell of sockets.
    pub fn watch(&self) -> Result<[Watch; 2], LinkError> {
        let block = match &self.devices {
            Devices::Ends(ends) if self.is_far_here() => Some(ends.block),
            _ => None,
        };
        let near = Watch::begin(self.near(), |peer| !peer.is_loopback())?;
        let far = Watch::begin(self.far(), move |peer| block.map_or(!peer.is_loopback(), |block| block.has(peer)))?;
        Ok([near, far])
    }

    /// [`PREFIX`] of a command here, and what makes bash show it, as mahimahi does.
    pub fn prompt(&self) -> [(&'static str, OsString); 2] {
        let mut all = std::env::var_os(PREFIX).unwrap_or_default();
        all.push(&self.prefix);
        [(PREFIX, all), ("PROMPT_COMMAND", "PS1=\"$MAHIMAHI_SHELL_PREFIX$PS1\" PROMPT_COMMAND=".into())]
    }
}

/// The first part of the name of a shell's outer device, and the last of mahimahi's shell.
pub fn device_name(shell: &Shell) -> &'static str {
    match shell {
        Shell::Link(..) => "link",
        Shell::Delay(..) => "delay",
        Shell::Loss(..) => "loss",
        Shell::OnOff(..) => "onoff",
        Shell::Emulate(_) => "emulate",
    }
}

/// Starts the address translation of an outermost shell: what can be had of it.
fn translations(ends: &Ends, prefix: &str, verbose: bool) -> Vec<Translation> {
    if ends.nested || ends.private {
        return Vec::new();
    }
    let versions = if ends.ipv6.is_ok() { &[Version::V4, Version::V6][..] } else { &[Version::V4] };
    let begin = |&version: &Version| match Translation::begin(&ends.outer, ends.block, ends.far.name(), version) {
        Ok(translation) => Some(translation),
        Err(why) => {
            if verbose {
                let over = if version == Version::V6 { " over IPv6" } else { "" };
                say(format_args!("{prefix}nothing beyond this machine answers{over}: {why}"));
            }
            None
        }
    };
    versions.iter().filter_map(begin).collect()
}

fn flow_variables(flows: usize, has_ipv6: bool) -> Vec<(String, OsString)> {
    let first = End::Receivers.address(0);
    let mut variables = vec![(BASE.into(), first.to_string().into())];
    variables.extend(has_ipv6.then(|| (BASE6.into(), ipv6::beside(first).to_string().into())));
    for flow in 0..flows {
        for (name, name6, end) in [(SENDER, SENDER6, End::Senders), (RECEIVER, RECEIVER6, End::Receivers)] {
            let address = end.address(flow);
            variables.push((format!("{name}{flow}"), address.to_string().into()));
            variables.extend(has_ipv6.then(|| (format!("{name6}{flow}"), ipv6::beside(address).to_string().into())));
        }
    }
    variables
}

/// Returns the text that mahimahi's shell puts before the prompt.
pub fn prefix(shell: &Shell) -> String {
    let arrow = |direction: &Direction| if *direction == Direction::Uplink { "up" } else { "down" };
    match shell {
        Shell::Link(..) => "[link] ".into(),
        Shell::Delay(delay, _) => format!("[delay {} ms] ", delay.as_millis_f64()),
        Shell::Loss(direction, wire) => {
            let loss = &wire.link.loss;
            let rate = match loss.as_independent() {
                _ if wire.traces.losses.is_some() => "trace".into(),
                Some(rate) => rate.to_string(),
                None => loss.kind.description().name.into(),
            };
            format!("[loss {}={rate}] ", arrow(direction))
        }
        Shell::OnOff(direction, on_off, _) => {
            let (on, off) = match on_off {
                OnOff::Always => (1.0, 0.0),
                OnOff::Never => (0.0, 1.0),
                OnOff::Turns(times) => (times.on.as_secs_f64(), times.off.as_secs_f64()),
            };
            format!("[onoff ({}) on={on}s off={off}s] ", arrow(direction))
        }
        Shell::Emulate(_) => "[emulate] ".into(),
    }
}
