//! Flows of the kernel's TCP over a real path, beside those over QUIC: `foreign: {type: kernel, name: NAME}`.
//!
//! The client opens their connections to the TCP port with the number of the server's UDP port, whoever sends. A connection
//! begins with a [`ticket`], which the server gave for one flow of the run. The sender looks at `TCP_INFO`, and the receiver
//! notes when bytes came.

pub mod incoming;
pub mod outgoing;
pub mod ticket;

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::RawFd;

use ccarena_cc::{Dur, Feedback};
use ccarena_link::clock;
use ccarena_link::tcp::Socket;
use ccarena_net::Scenario;
use ccarena_net::scenario::{AckPolicy, Flow, Foreign};

use crate::run::RunError;

/// Interval at which a sender's state is read.
const SAMPLE: Dur = Dur::from_millis(2);
/// Read at most so much before looking at the other connections.
const MOST_READ: usize = 1 << 20;
/// Least size of a segment's payload that Linux takes.
const SMALLEST_MSS: u32 = 76;

/// Name of the congestion control of the kernel that `flow` is under; none if it goes over QUIC.
#[must_use]
pub fn control(flow: &Flow) -> Option<&str> {
    match &flow.foreign {
        Some(Foreign::Kernel { name }) => Some(name),
        _ => None,
    }
}

/// Refuses what the kernel's TCP does not do for flow number `index`.
///
/// # Errors
/// The first field that it cannot do.
pub fn check(scenario: &Scenario, index: usize) -> Result<(), RunError> {
    let (flow, usual) = (&scenario.flows[index], Flow::default());
    let sizes = SMALLEST_MSS..=usual.mss_bytes;
    let wanted = [
        ("sack", flow.sack, "true"),
        ("ecn", flow.ecn == Feedback::None, "false: net.ipv4.tcp_ecn of both machines decides"),
        ("l4s", !flow.l4s, "false"),
        ("slow_start", flow.slow_start, "true"),
        ("delayed_ack", flow.delayed_ack, "true"),
        ("ack_policy", flow.ack_policy == AckPolicy::Tcp, "type tcp"),
        ("min_rto_ms", flow.min_rto == usual.min_rto, "200"),
        ("burst_bytes", flow.burst_bytes.is_none(), "null"),
        ("initial_window", flow.initial_window == usual.initial_window, "10"),
        ("receive_window_packets", flow.receive_window.is_none(), "null: both machines tune their buffers"),
        ("mss_bytes", sizes.contains(&flow.mss_bytes), "76 to 1448, which fit packets of 1500 bytes"),
        ("header_bytes", flow.header_bytes == usual.header_bytes, "52, as Linux sends over IPv4"),
        ("changes", flow.changes.is_empty(), "none"),
    ];
    match wanted.into_iter().find(|(_, fits, _)| !fits) {
        Some((field, _, expected)) => Err(RunError::Unsupported {
            path: format!("flows[{index}].{field}"),
            problem: format!("expected {expected} for a congestion control of the kernel's TCP"),
        }),
        None => Ok(()),
    }
}

/// Refuses congestion controls that this machine's kernel lacks, or does not let this process use.
///
/// # Errors
/// The first flow with one.
pub fn check_here(scenario: &Scenario) -> Result<(), RunError> {
    for (index, flow) in scenario.flows.iter().enumerate() {
        let Some(name) = control(flow) else { continue };
        let socket = Socket::new(IpAddr::V4(Ipv4Addr::LOCALHOST));
        let socket = socket.map_err(|source| RunError::Socket { flow: index, source })?;
        if let Err(source) = socket.set_congestion_control(name) {
            let of = |what: &str| fs::read_to_string(format!("/proc/sys/net/ipv4/tcp_{what}_congestion_control"));
            let problem = refusal(name, &source, of("available").ok(), of("allowed").ok());
            return Err(RunError::Unsupported { path: format!("flows[{index}].foreign.name"), problem });
        }
    }
    Ok(())
}

/// Reason and remedy for the error with which a kernel with these lists refuses `name`.
fn refusal(name: &str, source: &io::Error, available: Option<String>, allowed: Option<String>) -> String {
    let list =
        |list: Option<String>| list.map_or("hidden in this network namespace".into(), |list| list.trim().to_owned());
    let (available, allowed) = (list(available), list(allowed));
    match source.raw_os_error() {
        Some(libc::ENOENT) => format!(
            "the sender's kernel has no congestion control {name:?} (net.ipv4.tcp_available_congestion_control: {available}); \
             load it on that machine as root, such as by `modprobe tcp_{name}`, or name another"
        ),
        Some(libc::EPERM) => format!(
            "the sender's kernel lets only root use {name:?} (net.ipv4.tcp_allowed_congestion_control: {allowed}); allow it \
             on that machine as root: `sysctl -w net.ipv4.tcp_allowed_congestion_control=\"{allowed} {name}\"`"
        ),
        _ => format!("the sender's kernel refuses congestion control {name:?}: {source}"),
    }
}

/// Returns whether `fd` polls readable now.
fn is_readable(fd: RawFd) -> bool {
    clock::wait(&[fd], Some(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ccarena_net::scenario::Change;

    fn with(change: impl FnOnce(&mut Flow)) -> Result<(), String> {
        let mut scenario = Scenario::default();
        scenario.flows[0].foreign = Some(Foreign::Kernel { name: "reno".into() });
        change(&mut scenario.flows[0]);
        check(&scenario, 0).map_err(|e| e.to_string())
    }

    #[test]
    fn what_the_kernel_does_not_do_is_refused_by_field() {
        assert_eq!(with(|_| {}), Ok(()));
        assert_eq!(with(|f| f.mss_bytes = 1200), Ok(()));
        let refused = |change: fn(&mut Flow), expected: &str| {
            let error = with(change).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        };
        refused(|f| f.sack = false, "flows[0].sack: expected true for a congestion control of the kernel");
        refused(|f| f.ecn = Feedback::Classic, "flows[0].ecn: expected false: net.ipv4.tcp_ecn");
        refused(|f| f.mss_bytes = 8948, "flows[0].mss_bytes: expected 76 to 1448");
        refused(|f| f.initial_window = 4, "flows[0].initial_window: expected 10");
        refused(
            |f| f.changes.push((ccarena_cc::Time::ZERO, Change { weight: Some(2.0), requirement: None })),
            "flows[0].changes: expected none",
        );
    }

    #[test]
    fn a_congestion_control_that_is_not_there_is_refused_with_the_remedy() {
        let mut scenario = Scenario::default();
        scenario.flows[0].foreign = Some(Foreign::Kernel { name: "nosuchcontrol".into() });
        let error = check_here(&scenario).unwrap_err().to_string();
        assert!(error.starts_with("flows[0].foreign.name: the sender's kernel has no congestion control"), "{error}");
        assert!(error.contains("tcp_available_congestion_control") && error.contains("modprobe tcp_nosuchcontrol"));
        scenario.flows[0].foreign = Some(Foreign::Kernel { name: "reno".into() });
        assert!(check_here(&scenario).is_ok(), "every kernel lets everybody use reno");
        let denied = io::Error::from_raw_os_error(libc::EPERM);
        let error = refusal("bbr", &denied, Some("reno bbr\n".into()), Some("reno\n".into()));
        assert!(error.contains("sysctl -w net.ipv4.tcp_allowed_congestion_control=\"reno bbr\"`"), "{error}");
        assert!(refusal("bbr", &denied, None, None).contains("hidden in this network namespace"));
    }
}
