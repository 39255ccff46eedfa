//! The kernel's count of recoveries that it has undone, which it keeps per network namespace and not per socket.

use std::fs;

/// Undone by duplicates, at the end of a recovery, in the course of one, and after a timeout (`tcp_undo_cwnd_reduction`).
const COUNTERS: [&str; 4] = ["TCPDSACKUndo", "TCPFullUndo", "TCPPartialUndo", "TCPLossUndo"];

/// Returns how many recoveries were undone in the calling thread's network namespace; none if the kernel does not tell.
pub fn here() -> Option<u64> {
    parse(&fs::read_to_string("/proc/thread-self/net/netstat").ok()?)
}

/// The sum of the counters in a table of which each line of names is followed by one of values.
fn parse(netstat: &str) -> Option<u64> {
    let mut lines = netstat.lines().filter(|line| line.starts_with("TcpExt:"));
    let (names, values) = (lines.next()?, lines.next()?);
    let counters: Vec<(&str, &str)> = names.split_whitespace().zip(values.split_whitespace()).collect();
    let value = |name: &str| counters.iter().find(|counter| counter.0 == name)?.1.parse::<u64>().ok();
    COUNTERS.iter().map(|&name| value(name)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn undone_recoveries_are_summed_whatever_the_order_of_counters() {
        let table = "TcpExt: TCPLossUndo SyncookiesSent TCPFullUndo TCPPartialUndo TCPDSACKUndo\nTcpExt: 1 50 20 300 4000\n\
            IpExt: InNoRoutes\nIpExt: 0\n";
        assert_eq!(parse(table), Some(4321));
        assert_eq!(parse("TcpExt: TCPLossUndo\nTcpExt: 1\n"), None, "a kernel without the others");
        assert_eq!(parse(""), None);
    }

    #[test]
    fn this_kernel_counts_them() {
        assert!(here().is_some());
    }
}
