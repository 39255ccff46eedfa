//! Real packets: TCP and UDP through namespaces and TUN devices. Needs root; without, every test says SKIPPED.
#![expect(clippy::unwrap_used, reason = "a test that fails panics; clippy.toml exempts test functions, not helpers")]

#[macro_use]
mod common;

use std::io::{self, Read};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use ccarena_cc::types::Dur;
use ccarena_link::emulator::Chain;
use ccarena_link::network::InitialWindows;
use ccarena_link::{Emulator, End, LinkError, Namespace, Network, Running, Tun, clock, namespace};
use ccarena_net::{Scenario, trace};
use common::real_time::real_time;
use common::{one_link, run};

const LINK: &str = r#"{"links": [{"service": {"type": "constant", "rate_mbps": 10}, "delay_ms": 1}],
    "flows": [{"scheme": "cubic"}]}"#;

fn start(document: &str) -> (Network, Running) {
    let scenario = Scenario::parse(document).unwrap();
    let network = Network::new(scenario.flows.len()).unwrap();
    let running = Emulator::default().start(&scenario, trace::load, &network).unwrap();
    (network, running)
}

/// A UDP socket in `namespace` that does not wait for ever.
fn udp(namespace: &Namespace, address: Ipv4Addr, port: u16) -> UdpSocket {
    let socket = namespace.run(|| UdpSocket::bind((address, port))).unwrap().unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    socket
}

/// Shortest of some times that a datagram takes from `here` to `there` and back.
fn round_trip(here: &UdpSocket, there: &UdpSocket) -> io::Result<Duration> {
    let (to, mut buffer) = (there.local_addr()?, [0; 100]);
    let mut shortest = Duration::MAX;
    for _ in 0..10 {
        let begun = clock::now_ns();
        here.send_to(&[7; 100], to)?;
        let (_, from) = there.recv_from(&mut buffer)?;
        there.send_to(&buffer, from)?;
        here.recv_from(&mut buffer)?;
        shortest = shortest.min(Duration::from_nanos(clock::now_ns() - begun));
    }
    Ok(shortest)
}

fn assert_about(measured: Duration, expected_ms: f64) {
    let ms = measured.as_secs_f64() * 1e3;
    assert!((expected_ms..expected_ms + 2.0).contains(&ms), "{ms} ms instead of {expected_ms}");
}

#[test]
fn tcp_fills_the_link_and_its_queue() {
    real_time(|| {
        needs_root!();
        let (flows, outcome) = run(&one_link(20.0, 1.0, 2), 3.0);
        let (goodput, stats) = (flows.iter().map(|f| f.goodput_mbps).sum::<f64>(), outcome.links[0].stats);
        // 1448 of 1500 bytes are payload: 19.3 Mbit/s; what fills a hole in the sequence counts all at once.
        assert!((18.7..19.9).contains(&goodput), "{goodput}");
        assert!(stats.dropped_packets > 0 && stats.dropped_bytes > 0, "{stats:?}");
        assert!(flows.iter().all(|f| (20..45).contains(&f.rtt.as_millis())), "{flows:?}");
        assert!(outcome.lateness.valid, "{:?}", outcome.lateness);
        let counts = outcome.counts;
        assert!(counts.read >= counts.written && counts.ignored + counts.refused < 10, "{counts:?}");
        assert!(counts.cpu > Dur::ZERO);
    });
}

#[test]
fn round_trips_are_those_of_the_scenario() {
    real_time(|| {
        needs_root!();
        // The second flow's data crosses both links, the third's acknowledgements the second link: one thread serves all.
        let (network, running) = start(
            r#"{"links": [{"name": "a", "service": {"type": "constant", "rate_mbps": 100}, "delay_ms": 5},
                      {"name": "b", "service": {"type": "constant", "rate_mbps": 100}, "delay_ms": 10},
                      {"name": "idle", "service": {"type": "constant", "rate_mbps": 1}}],
            "flows": [{"scheme": "cubic", "path": ["a"], "base_rtt_ms": 12},
                      {"scheme": "cubic", "path": ["a", "b"]},
                      {"scheme": "cubic", "path": ["a"], "return_path": ["b"]}]}"#,
        );
        for (flow, expected_ms) in [(0, 12.0), (1, 30.0), (2, 15.0)] {
            let ends = [End::Senders, End::Receivers].map(|e| udp(network.namespace(e), e.address(flow), 700));
            assert_about(round_trip(&ends[0], &ends[1]).unwrap(), expected_ms);
        }
        let outcome = running.stop().unwrap();
        let crossed: Vec<u64> = outcome.links.iter().map(|l| l.stats.delivered_packets).collect();
        assert_eq!(crossed, [30, 20, 0]);
    });
}

#[test]
fn packets_of_no_flow_are_ignored_and_a_cut_cable_is_survived() {
    real_time(|| {
        needs_root!();
        let (network, running) = start(LINK);
        let socket = |end: End, flow| udp(network.namespace(end), end.address(flow), 700);
        let (here, there) = (socket(End::Senders, 0), socket(End::Receivers, 0));
        assert!(round_trip(&here, &socket(End::Receivers, 1)).is_err(), "crosses flows");
        assert!(round_trip(&socket(End::Senders, 5), &socket(End::Receivers, 5)).is_err(), "no such flow");
        round_trip(&here, &there).unwrap();

        let set = |end: End, state| {
            let mut command = network.namespace(end).command("ip").unwrap();
            assert!(command.args(["link", "set", "link0", state]).status().unwrap().success());
        };
        set(End::Receivers, "down");
        assert!(round_trip(&here, &there).is_err(), "down");
        set(End::Receivers, "up");
        network.set_initial_windows(End::Receivers, None, InitialWindows::default()).unwrap();
        round_trip(&here, &there).unwrap();
        let counts = running.stop().unwrap().counts;
        assert!(counts.ignored >= 2 && counts.refused >= 1, "{counts:?}");
    });
}

#[test]
fn ends_have_settings_of_their_own() {
    needs_root!();
    let network = Network::new(2).unwrap();
    network.sysctl(End::Senders, "net.ipv4.tcp_sack", "0").unwrap();
    let read = |end: End, path: &str| {
        let mut command = network.namespace(end).command("cat").unwrap();
        String::from_utf8(command.arg(path).output().unwrap().stdout).unwrap()
    };
    let sack = |end| read(end, "/proc/sys/net/ipv4/tcp_sack");
    assert_eq!((sack(End::Senders).trim(), sack(End::Receivers).trim()), ("0", "1"));
    assert!(read(End::Senders, "/proc/net/dev").contains("link0"));
    assert!(!std::fs::read_to_string("/proc/net/dev").unwrap().contains("link0"));
    let refused = network.sysctl(End::Senders, "net.ipv4.no_such_thing", "1").unwrap_err();
    assert!(matches!(refused, LinkError::Sysctl { .. }), "{refused}");

    let windows = InitialWindows { congestion: Some(33), receive: Some(44) };
    network.set_initial_windows(End::Senders, Some(1), windows).unwrap();
    let mut routes = network.namespace(End::Senders).command("ip").unwrap();
    let routes = String::from_utf8(routes.args(["route", "show"]).output().unwrap().stdout).unwrap();
    let route = routes.lines().find(|l| l.starts_with("100.65.0.2 ")).unwrap();
    assert!(route.contains("initcwnd 33") && route.contains("initrwnd 44"), "{routes}");
}

#[test]
fn what_the_kernel_drops_before_the_links_is_counted() {
    needs_root!();
    let network = Network::new(1).unwrap();
    // Nobody takes packets from the device. One socket's buffer holds fewer than the device's queue.
    for port in 700..706 {
        let socket = udp(network.namespace(End::Senders), End::Senders.address(0), port);
        socket.set_nonblocking(true).unwrap();
        for _ in 0..300 {
            let _ = socket.send_to(&[1; 10], (End::Receivers.address(0), 700));
        }
    }
    assert!(network.overruns(End::Senders).unwrap() > 0);
    assert_eq!(network.overruns(End::Receivers).unwrap(), 0);
}

#[test]
fn two_chains_join_any_two_devices() {
    real_time(|| {
        needs_root!();
        let ends = [(1, 2), (2, 1)].map(|(own, other)| {
            let namespace = Namespace::new().unwrap();
            let address = |n| Ipv4Addr::new(10, 9, 8, n);
            let tun = namespace.run(|| Tun::create("shell0")).unwrap().unwrap();
            namespace.run(|| tun.add_address(address(own), Some(address(other)))).unwrap().unwrap();
            let taken = namespace.run(|| Tun::create("shell0").map(|_| ())).unwrap().unwrap_err();
            assert!(matches!(taken, LinkError::NameTaken(_)), "{taken}");
            let socket = udp(&namespace, address(own), 700);
            (tun, socket)
        });
        let chain = |ms| Chain { delay: Dur::from_millis(ms), ..Chain::default() };
        let running = Emulator::default().over(chain(3), chain(4), &ends[0].0, &ends[1].0).unwrap();
        assert_about(round_trip(&ends[0].1, &ends[1].1).unwrap(), 7.0);
        assert!(running.stop().unwrap().lateness.count >= 20);
    });
}

#[test]
fn what_waits_takes_no_more_memory_than_it_may() {
    real_time(|| {
        needs_root!();
        let ends = [(1, 2), (2, 1)].map(|(own, other)| {
            let namespace = Namespace::new().unwrap();
            let address = |n| Ipv4Addr::new(10, 9, 7, n);
            let tun = namespace.run(|| Tun::create("shell1")).unwrap().unwrap();
            namespace.run(|| tun.add_address(address(own), Some(address(other)))).unwrap().unwrap();
            (tun, udp(&namespace, address(own), 700))
        });
        let long = || Chain { delay: Dur::from_millis(60_000), ..Chain::default() };
        let emulator = Emulator { memory_bytes: 200_000 };
        let running = emulator.over(long(), long(), &ends[0].0, &ends[1].0).unwrap();
        let to = ends[1].1.local_addr().unwrap();
        for _ in 0..1000 {
            ends[0].1.send_to(&[0; 1000], to).unwrap();
            thread::sleep(Duration::from_micros(100));
        }
        let counts = running.stop().unwrap().counts;
        let waited = counts.read - counts.overflowed;
        assert!(counts.overflowed > 0 && (50..=200).contains(&waited), "{counts:?}");
    });
}

#[test]
fn everything_goes_with_its_owner() {
    needs_root!();
    let descriptors = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let cycle = || {
        let (network, running) = start(LINK);
        // A process that would stay is killed when the thread that started it ends.
        let mut child = thread::scope(|scope| {
            let start = || network.namespace(End::Senders).command("sleep").unwrap().arg("100").spawn().unwrap();
            scope.spawn(start).join().unwrap()
        });
        assert!(!child.wait().unwrap().success());
        drop(running);
    };
    cycle();
    let before = descriptors();
    for _ in 0..5 {
        cycle();
    }
    // Other tests of this process open and close theirs.
    assert!(descriptors() < before + 5 * 5, "{before} descriptors became {}", descriptors());
}

#[test]
fn without_root_a_user_namespace_serves() {
    needs_root!();
    let mut command = Command::new("sh");
    command.args(["-c", "id -u && ip link add name trial type dummy 2>&1; ip -o link | wc -l"]);
    command.uid(65_534).gid(65_534).stdout(Stdio::piped());
    #[allow(unsafe_code, reason = "a process with one thread and no rights is had by fork alone")]
    // SAFETY: PR_SET_DUMPABLE touches no memory. The rest allocates, which glibc allows after a fork.
    unsafe {
        command.pre_exec(|| {
            // Having been root takes a process its own /proc entries; one that never was has them.
            libc::prctl(libc::PR_SET_DUMPABLE, 1, 0, 0, 0);
            namespace::become_root_in_user_namespace().map_err(io::Error::other)
        });
    }
    let mut text = String::new();
    match command.spawn() {
        Ok(mut child) => {
            child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
            child.wait().unwrap();
            assert!(text.starts_with("0\n"), "root in its own namespace: {text}");
        }
        Err(e) => eprintln!("SKIPPED without_root_a_user_namespace_serves: this kernel allows none: {e}"),
    }
}

#[test]
fn a_flow_has_an_address_at_each_end() {
    let (from, to) = (End::Senders.address(9), End::Receivers.address(9));
    assert_eq!(SocketAddr::from((from, 1)).to_string(), "100.64.0.10:1");
    assert_eq!(to.to_string(), "100.65.0.10");
}
