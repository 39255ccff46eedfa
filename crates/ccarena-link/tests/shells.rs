//! The executable, run as mahimahi's shells. Needs root; without, every test says SKIPPED.

#![allow(clippy::unwrap_used, reason = "a test that fails panics; clippy.toml exempts test functions, not helpers")]

#[macro_use]
mod common;

use std::ffi::OsStr;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::process::{Command, Output};
use std::thread;

use ccarena_net::log::{Event, EventKind, LinkLog};

fn shell<I: AsRef<OsStr>>(words: impl IntoIterator<Item = I>) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ccarena-link")).args(words).output().unwrap()
}

/// A folder for one test's files.
fn folder(test: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{test}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

#[test]
fn a_log_accounts_for_every_packet() {
    needs_root!();
    let folder = folder("log");
    let (trace, log) = (folder.join("12mbps"), folder.join("up.log"));
    std::fs::write(&trace, "1\n").unwrap();
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    const SENT_BYTES: usize = 600_000;
    let receiver = thread::spawn(move || {
        let (mut stream, mut received) = (listener.accept().unwrap().0, Vec::new());
        stream.read_to_end(&mut received).unwrap();
        stream.write_all(b"done").unwrap();
        received.len()
    });
    let send = format!("exec 3<>/dev/tcp/$MAHIMAHI_BASE/{port}; head -c {SENT_BYTES} /dev/zero >&3; sleep 1");
    let options = ["--uplink-queue=droptail", "--uplink-queue-args=packets=10", "--uplink-log"];
    let mut words: Vec<&OsStr> = ["link"].map(OsStr::new).into();
    words.extend([trace.as_os_str(), trace.as_os_str()]);
    words.extend(options.map(OsStr::new));
    words.extend([log.as_os_str(), OsStr::new("--"), OsStr::new("bash"), OsStr::new("-c"), OsStr::new(&send)]);
    let output = shell(words);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(receiver.join().unwrap(), SENT_BYTES);

    let read = LinkLog::read(&std::fs::read(&log).unwrap(), "up.log").unwrap();
    assert!(read.comments[0].starts_with("mahimahi mm-link (Uplink) ["), "{:?}", read.comments);
    assert_eq!(read.comments[2], "queue: droptail [packets=10]");
    let count = |of: fn(&EventKind) -> u64| read.events.iter().map(|e| of(&e.kind)).sum::<u64>();
    let arrived = count(|k| u64::from(matches!(k, EventKind::Arrival { .. })));
    let left = count(|k| u64::from(matches!(k, EventKind::Departure { .. })));
    let dropped = count(|k| if let EventKind::Drop { packets, .. } = k { *packets } else { 0 });
    assert!(dropped > 0, "TCP fills a queue of 10 packets");
    let waiting = arrived - left - dropped;
    assert!(waiting <= 10, "{waiting} packets neither left nor were dropped; the queue held at most 10 in the end");
    assert!(left * 1500 > SENT_BYTES as u64);
    let opportunities = read.events.iter().filter(|e| matches!(e.kind, EventKind::Opportunity { .. }));
    let times: Vec<u64> = opportunities.map(|e| e.time_ms).collect();
    assert!(times.iter().copied().eq(1..=times.len() as u64), "one per millisecond, none left out");
    let late = read.events.iter().filter_map(|e| match e {
        Event { kind: EventKind::Departure { delay_ms, .. }, .. } => Some(*delay_ms),
        _ => None,
    });
    assert!(late.max().unwrap() <= 12, "10 packets wait 10 ms, at one per millisecond");
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn statuses_are_the_commands() {
    needs_root!();
    for (words, status) in
        [(vec!["sh", "-c", "exit 7"], 7), (vec!["sh", "-c", "kill -TERM $$"], 143), (vec!["/nosuch"], 127)]
    {
        assert_eq!(shell(["delay", "1"].into_iter().chain(words)).status.code(), Some(status));
    }
}

#[test]
fn wrong_lines_and_files_are_refused_before_anything_is_set_up() {
    let refused = |words: &[&str], status, says: &str| {
        let output = shell(words);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{words:?}: {errors}");
        assert!(errors.contains(says), "{words:?}: {errors}");
    };
    refused(&["delay"], 2, "MS is missing");
    refused(&["link", "/nosuch", "/nosuch", "true"], 3, "/nosuch: cannot read the trace");
    refused(&["emulate", "/nosuch", "true"], 2, "/nosuch: cannot read the scenario");
    refused(&["loss", "uplink", "2"], 2, "from 0 to 1");
}
