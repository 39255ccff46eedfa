//! TCP flows of our own through an emulated network.

#![allow(dead_code, unused_macros, reason = "each user of this module needs a part of it")]
#![allow(clippy::expect_used, reason = "a test that fails panics; clippy.toml exempts test functions, not helpers")]

pub mod real_time;

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::thread;
use std::time::Duration;

use ccarena_link::{Emulator, End, Network, Outcome, clock};
use ccarena_net::{Scenario, trace};

/// Returns from a test that cannot run.
macro_rules! needs_root {
    () => {
        if !ccarena_link::namespace::may_create_namespaces() {
            eprintln!(
                "SKIPPED {}: needs root, to create network namespaces",
                std::thread::current().name().unwrap_or("test")
            );
            return;
        }
    };
}

/// What one bulk flow reached.
#[derive(Debug)]
pub struct Flow {
    /// Payload after the first quarter of the time, in Mbit/s.
    pub goodput_mbps: f64,
    /// The kernel's smoothed RTT at the end.
    pub rtt: Duration,
}

/// One link of `mbps` with `bdp` bandwidth-delay products of queue and 10 ms of delay each way, for `flows` flows.
pub fn one_link(mbps: f64, bdp: f64, flows: usize) -> Scenario {
    let document = format!(
        r#"{{"links": [{{"service": {{"type": "constant", "rate_mbps": {mbps}}}, "queue": {{"type": "droptail", "bdp": {bdp}}},
            "delay_ms": 10}}], "flows": [{{"scheme": "cubic", "count": {flows}}}]}}"#
    );
    Scenario::parse(&document).expect("a scenario")
}

/// Sends bulk data in all flows of `scenario` for `seconds`.
pub fn run(scenario: &Scenario, seconds: f64) -> (Vec<Flow>, Outcome) {
    let network = Network::new(scenario.flows.len()).expect("a network");
    for end in [End::Senders, End::Receivers] {
        for key in ["net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"] {
            // Windows that let the link decide.
            network.sysctl(end, key, "4096 131072 268435456").expect("set");
        }
    }
    let running = Emulator::default().start(scenario, trace::load, &network).expect("running");
    let flows = thread::scope(|scope| {
        let flow = |i| bulk(&network, i, seconds);
        let threads: Vec<_> = (0..scenario.flows.len()).map(|i| scope.spawn(move || flow(i))).collect();
        threads.into_iter().map(|t| t.join().expect("a flow")).collect()
    });
    let outcome = running.stop().expect("an outcome");
    (flows, outcome)
}

/// Sends bulk data as flow number `flow` for `seconds`.
pub fn bulk(network: &Network, flow: usize, seconds: f64) -> Flow {
    let to = SocketAddr::from((End::Receivers.address(flow), 5001));
    let listener = network.namespace(End::Receivers).run(|| TcpListener::bind(to)).expect("entered").expect("bound");
    let receiver = thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a connection");
        let (mut buffer, mut seen) = (vec![0; 1 << 18], Vec::new());
        while let Ok(n @ 1..) = stream.read(&mut buffer) {
            seen.push((clock::now_ns(), n));
        }
        seen
    });
    let mut stream = network.namespace(End::Senders).run(|| connect(flow, to)).expect("entered");
    let (begun, data) = (clock::now_ns(), vec![0; 1 << 17]);
    let (from, until) = (begun + (seconds * 0.25e9) as u64, begun + (seconds * 1e9) as u64);
    while clock::now_ns() < until {
        stream.write_all(&data).expect("sent");
    }
    let rtt = smoothed_rtt(&stream);
    let _ = stream.shutdown(Shutdown::Both);
    let seen = receiver.join().expect("received");
    let bytes: usize = seen.iter().filter(|&&(at, _)| (from..until).contains(&at)).map(|&(_, n)| n).sum();
    Flow { goodput_mbps: bytes as f64 * 8e3 / (until - from) as f64, rtt }
}

/// Connects by CUBIC from the flow's own address, which the standard library's sockets cannot.
#[allow(unsafe_code, reason = "the standard library does not bind a socket before it connects")]
fn connect(flow: usize, to: SocketAddr) -> TcpStream {
    use std::os::fd::FromRawFd;
    let SocketAddr::V4(to) = to else { unreachable!("addresses of networks are IPv4") };
    let address = |ip: std::net::Ipv4Addr, port: u16| libc::sockaddr_in {
        sin_family: libc::AF_INET as libc::sa_family_t,
        sin_port: port.to_be(),
        sin_addr: libc::in_addr { s_addr: u32::from(ip).to_be() },
        sin_zero: [0; 8],
    };
    let (from, to) = (address(End::Senders.address(flow), 0), address(*to.ip(), to.port()));
    let length = size_of::<libc::sockaddr_in>() as libc::socklen_t;
    // SAFETY: addresses and name have the lengths given; the new descriptor belongs to the stream alone.
    unsafe {
        let fd = libc::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0);
        let stream = TcpStream::from_raw_fd(fd);
        let (level, name) = (libc::IPPROTO_TCP, b"cubic");
        let set =
            libc::setsockopt(fd, level, libc::TCP_CONGESTION, name.as_ptr().cast(), name.len() as libc::socklen_t);
        assert_eq!(set, 0, "the kernel has CUBIC");
        assert_eq!(libc::bind(fd, std::ptr::from_ref(&from).cast(), length), 0, "bound");
        assert_eq!(libc::connect(fd, std::ptr::from_ref(&to).cast(), length), 0, "connected");
        stream
    }
}

#[allow(unsafe_code, reason = "the standard library does not tell what TCP measures")]
fn smoothed_rtt(stream: &TcpStream) -> Duration {
    // SAFETY: a tcp_info of zeroes is valid, and the kernel writes at most the length that it is told.
    let info = unsafe {
        let mut info: libc::tcp_info = std::mem::zeroed();
        let mut length = size_of_val(&info) as libc::socklen_t;
        let to = std::ptr::from_mut(&mut info).cast();
        assert_eq!(libc::getsockopt(stream.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, to, &mut length), 0);
        info
    };
    Duration::from_micros(u64::from(info.tcpi_rtt))
}
