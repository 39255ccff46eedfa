//! The two places of a shell, near and far, and what commands find there.

use std::ffi::OsString;

use super::arguments::{Direction, OnOff, Shell};
use super::ends::Ends;
use super::nat::Translation;
use super::{BASE, PREFIX, RECEIVER, SENDER, ShellError, say};
use crate::error::LinkError;
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
    _translation: Option<Translation>,
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
            let devices = Devices::Network(Network::new(flows)?);
            return Ok(Self { prefix, variables: flow_variables(flows), devices, _translation: None });
        }
        let ends = Ends::new(shells.first().map_or("link", device_name))?;
        let alone = ends.nested || ends.private;
        let translation = (!alone).then(|| Translation::begin(&ends.outer, ends.block, ends.far.name()));
        if verbose {
            let place = if ends.private { "in a namespace of its own" } else { "here" };
            say(format_args!("{prefix}{} inside, {} {place}", ends.block.inner(), ends.block.outer()));
            if let Some(Err(why)) = &translation {
                say(format_args!("{prefix}nothing beyond this machine answers: {why}"));
            }
        }
        // The outermost shell's, as with mahimahi; but a far command is at this shell's own.
        let base = std::env::var_os(BASE).filter(|_| !ends.private && !serves);
        if serves && ends.nested {
            say(format_args!(
                "{prefix}the far command runs inside the shell around this one: what the command sends to $MAHIMAHI_BASE \
                 ({}) crosses {}alone. Give --far-command to the outermost shell to cross all",
                ends.block.outer(),
                prefix
            ));
        }
        let variables = vec![(BASE.into(), base.unwrap_or_else(|| ends.block.outer().to_string().into()))];
        Ok(Self { prefix, variables, devices: Devices::Ends(ends), _translation: translation.and_then(Result::ok) })
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
        Shell::Delay(_) => "delay",
        Shell::Loss(..) => "loss",
        Shell::OnOff(..) => "onoff",
        Shell::Emulate(_) => "emulate",
    }
}

fn flow_variables(flows: usize) -> Vec<(String, OsString)> {
    let mut variables = vec![(BASE.into(), End::Receivers.address(0).to_string().into())];
    for flow in 0..flows {
        for (name, end) in [(SENDER, End::Senders), (RECEIVER, End::Receivers)] {
            variables.push((format!("{name}{flow}"), end.address(flow).to_string().into()));
        }
    }
    variables
}

/// Returns the text that mahimahi's shell puts before the prompt.
pub fn prefix(shell: &Shell) -> String {
    let arrow = |direction: &Direction| if *direction == Direction::Uplink { "up" } else { "down" };
    match shell {
        Shell::Link(..) => "[link] ".into(),
        Shell::Delay(delay) => format!("[delay {} ms] ", delay.as_millis_f64()),
        Shell::Loss(direction, rate) => format!("[loss {}={rate}] ", arrow(direction)),
        Shell::OnOff(direction, on_off) => {
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
