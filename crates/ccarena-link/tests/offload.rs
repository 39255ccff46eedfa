//! Segmentation offload against the kernel's own. Needs root; without, every test says SKIPPED.
#![expect(clippy::unwrap_used, reason = "a test that fails panics; clippy.toml exempts test functions, not helpers")]

#[macro_use]
mod common;

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::process::Command;
use std::thread;
use std::time::Duration;

use ccarena_cc::types::Dur;
use ccarena_link::emulator::Chain;
use ccarena_link::{Emulator, Namespace, Running, Tun};
use ccarena_net::{Link, Scenario, tcp_option, trace};
use common::real_time::real_time;

/// Two namespaces with a link of `mbps` and a droptail queue of `packets` between them, a millisecond each way.
struct Pair {
    near: Namespace,
    far: Namespace,
    running: Running,
}

const NEAR: Ipv4Addr = Ipv4Addr::new(10, 9, 6, 1);
const FAR: Ipv4Addr = Ipv4Addr::new(10, 9, 6, 2);

impl Pair {
    fn new(mbps: f64, packets: usize) -> Self {
        let [near, far] = [(NEAR, FAR), (FAR, NEAR)].map(|(own, other)| {
            let namespace = Namespace::new().unwrap();
            let tun = namespace.run(|| Tun::create("shell0")).unwrap().unwrap();
            namespace.run(|| tun.add_address(own, Some(other))).unwrap().unwrap();
            (namespace, tun)
        });
        let document = format!(
            r#"{{"links": [{{"service": {{"type": "constant", "rate_mbps": {mbps}}}, "delay_ms": 1,
                "queue": {{"type": "droptail", "packets": {packets}}}}}], "flows": [{{"scheme": "cubic"}}]}}"#
        );
        let link = Link::of(&Scenario::parse(&document).unwrap(), 0, &trace::load).unwrap();
        let (forth, back) = (Chain { links: vec![link], ..Chain::default() }, Chain::default());
        let back = Chain { delay: Dur::from_millis(1), ..back };
        let running = Emulator::default().over(forth, back, &near.1, &far.1).unwrap();
        Self { near: near.0, far: far.0, running }
    }

    /// What `near` sends arrives at `far` byte for byte.
    fn transfer(&self, bytes: usize) {
        let data: Vec<u8> = (0..bytes as u64).map(|i| (ccarena_net::rng::mix(i / 8) >> (i % 8)) as u8).collect();
        let listener = self.far.run(|| TcpListener::bind((FAR, 700))).unwrap().unwrap();
        let receiver = thread::spawn(move || {
            let mut received = Vec::new();
            listener.accept().unwrap().0.read_to_end(&mut received).unwrap();
            received
        });
        let mut stream = self.near.run(|| TcpStream::connect((FAR, 700))).unwrap().unwrap();
        stream.write_all(&data).unwrap();
        drop(stream);
        assert!(receiver.join().unwrap() == data, "other bytes arrived");
    }

    /// Packets and bytes that `device` of `namespace` handed to its kernel.
    fn received(namespace: &Namespace) -> [u64; 2] {
        let mut cat = namespace.command("cat").unwrap();
        let text = String::from_utf8(cat.arg("/proc/thread-self/net/dev").output().unwrap().stdout).unwrap();
        let line = text.lines().find_map(|l| l.trim().strip_prefix("shell0:")).unwrap();
        let numbers: Vec<u64> = line.split_whitespace().map(|n| n.parse().unwrap()).collect();
        [numbers[1], numbers[0]]
    }
}

#[test]
fn bytes_arrive_over_a_fast_link_that_drops_packets() {
    real_time(|| {
        needs_root!();
        let pair = Pair::new(2_000.0, 100);
        pair.transfer(60_000_000);
        let [written, _] = Pair::received(&pair.far);
        let outcome = pair.running.stop().unwrap();
        let stats = outcome.links[0].stats;
        assert!(stats.dropped_packets > 0, "{stats:?}");
        assert!(stats.delivered_packets > 40_000, "each of at most 1500 bytes: {stats:?}");
        assert!(written < stats.delivered_packets / 2, "{written} writes for {stats:?}");
        assert_eq!(outcome.counts.refused, 0);
    });
}

#[test]
fn packets_are_handed_over_one_by_one_below_a_rate() {
    real_time(|| {
        needs_root!();
        let pair = Pair::new(300.0, 300);
        pair.transfer(20_000_000);
        let [written, bytes] = Pair::received(&pair.far);
        let stats = pair.running.stop().unwrap().links[0].stats;
        assert!(stats.delivered_packets > 13_000, "{stats:?}");
        assert_eq!([written, bytes], [stats.delivered_packets, stats.delivered_bytes]);
    });
}

#[test]
fn datagrams_and_echoes_arrive_with_and_without_a_checksum() {
    needs_root!();
    let pair = Pair::new(1_000.0, 100);
    let socket = |namespace: &Namespace, address| {
        let socket = namespace.run(|| UdpSocket::bind((address, 701))).unwrap().unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        socket
    };
    let (near, far) = (socket(&pair.near, NEAR), socket(&pair.far, FAR));
    for no_checksum in [0, 1] {
        set_no_check(&near, no_checksum);
        for length in [0, 1, 99, 1472, 5_000] {
            let data: Vec<u8> = (0..length).map(|i| i as u8).collect();
            near.send_to(&data, (FAR, 701)).unwrap();
            let mut buffer = vec![0; 10_000];
            let (got, from) = far.recv_from(&mut buffer).unwrap();
            assert_eq!(&buffer[..got], &data[..]);
            assert_eq!(from.ip(), NEAR);
        }
    }
    let mut ping = pair.near.command("ping").unwrap();
    match ping.args(["-c", "2", "-i", "0.1", "-W", "2", "10.9.6.2"]).output() {
        Ok(output) => assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout)),
        Err(e) => eprintln!("SKIPPED the echoes of datagrams_and_echoes_arrive_with_and_without_a_checksum: {e}"),
    }
}

#[allow(unsafe_code, reason = "the standard library sends no datagrams without checksums")]
fn set_no_check(socket: &UdpSocket, value: libc::c_int) {
    let length = size_of_val(&value) as libc::socklen_t;
    let from = std::ptr::from_ref(&value).cast();
    // SAFETY: the option reads an int.
    let set = unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_NO_CHECK, from, length) };
    assert_eq!(set, 0);
}

/// A TUN device that takes long segments, if `flags` say so, but is handed none: the kernel cuts and sums for it.
#[allow(unsafe_code, reason = "a TUN device is made by an ioctl")]
fn plain_tun(name: &str, address: &str, flags: libc::c_int) -> File {
    let file = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open("/dev/net/tun").unwrap();
    // SAFETY: an ifreq of zeroes is valid; its name is shorter than the array; TUNSETIFF reads and writes an ifreq.
    let made = unsafe {
        let mut request: libc::ifreq = std::mem::zeroed();
        for (to, &from) in request.ifr_name.iter_mut().zip(name.as_bytes()) {
            *to = from as libc::c_char;
        }
        request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI | flags) as libc::c_short;
        libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &mut request)
    };
    assert_eq!(made, 0);
    let shell = format!("ip addr add {address} dev {name} && ip link set {name} up txqueuelen 20000");
    assert!(Command::new("sh").args(["-c", &shell]).status().unwrap().success());
    file
}

/// What the kernel sends out by `device` until it falls silent.
fn drained(device: &File) -> Vec<Vec<u8>> {
    let (mut packets, mut buffer, mut idle) = (Vec::new(), vec![0; 70_000], 0);
    while idle < 20 {
        match (&mut &*device).read(&mut buffer) {
            Ok(length) => packets.push(buffer[..length].to_vec()),
            Err(_) => {
                idle += 1;
                thread::sleep(Duration::from_millis(5));
            }
        }
    }
    packets
}

const OPTIONS: [u8; 12] = [1, 1, 8, 10, 0, 0, 0, 7, 0, 0, 0, 9];
const HEADERS: usize = 40 + OPTIONS.len();
const SIZE: usize = 1_448;

/// A TCP packet over two routers, byte number `from` and those after it, with right checksums.
fn segment(from: usize, length: usize, id: u16, flags: u8) -> Vec<u8> {
    let payload: Vec<u8> = (from..from + length).map(|i| (i * 7 + i / 251) as u8).collect();
    let ends = [Ipv4Addr::new(10, 9, 1, 9), Ipv4Addr::new(10, 9, 3, 9)].map(|address| (address, 80).into());
    let mut packet = tcp_option::packet(ends[0], ends[1], &OPTIONS, &payload).unwrap();
    packet[4..6].copy_from_slice(&id.to_be_bytes());
    packet[24..28].copy_from_slice(&0xffff_f000_u32.wrapping_add(from as u32).to_be_bytes());
    packet[33] = flags;
    summed(packet)
}

fn sum(bytes: &[u8], more: u32) -> u16 {
    let words = bytes.chunks(2).map(|w| u32::from(w[0]) << 8 | w.get(1).map_or(0, |&b| u32::from(b)));
    let mut sum = words.sum::<u32>() + more;
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

fn pseudo_header(packet: &[u8]) -> u16 {
    sum(&packet[12..20], 6 + packet.len() as u32 - 20)
}

fn summed(mut packet: Vec<u8>) -> Vec<u8> {
    packet[10..12].fill(0);
    let ip = !sum(&packet[..20], 0);
    packet[10..12].copy_from_slice(&ip.to_be_bytes());
    packet[36..38].fill(0);
    let tcp = !sum(&packet[20..], pseudo_header(&packet).into());
    packet[36..38].copy_from_slice(&tcp.to_be_bytes());
    packet
}

/// Long segments go to a router, over the emulator, which cuts them and joins the pieces, to a second router and out by a
/// device without offloads, for which the kernel cuts and sums.
#[test]
fn the_kernel_cuts_and_sums_what_we_join() {
    real_time(|| {
        needs_root!();
        let (left, right) = (Namespace::new().unwrap(), Namespace::new().unwrap());
        let source = left.run(|| plain_tun("source", "10.9.1.1/24", libc::IFF_VNET_HDR)).unwrap();
        let near = left.run(|| Tun::create("shell0")).unwrap().unwrap();
        let far = right.run(|| Tun::create("shell0")).unwrap().unwrap();
        let sink = right.run(|| plain_tun("sink", "10.9.3.1/24", 0)).unwrap();
        left.run(|| near.add_address(NEAR, Some(FAR))).unwrap().unwrap();
        right.run(|| far.add_address(FAR, Some(NEAR))).unwrap().unwrap();
        for (namespace, block, via) in [(&left, "10.9.3.0/24", FAR), (&right, "10.9.1.0/24", NEAR)] {
            namespace.sysctl("net.ipv4.ip_forward", "1").unwrap();
            let mut ip = namespace.command("ip").unwrap();
            let words = ["route", "add", block, "via", &via.to_string(), "dev", "shell0"];
            assert!(ip.args(words).status().unwrap().success());
        }
        let running = Emulator::default().over(Chain::default(), Chain::default(), &near, &far).unwrap();

        const LONG: usize = 150;
        const PIECES: usize = 40;
        const BYTES: usize = (PIECES - 1) * SIZE + 1_001;
        let flags = |long: usize| if long % 3 == 0 { 0x18 } else { 0x10 };
        for long in 0..LONG {
            let mut packet = segment(long * BYTES, BYTES, (long * PIECES) as u16, flags(long));
            let pseudo = pseudo_header(&packet);
            packet[36..38].copy_from_slice(&pseudo.to_be_bytes());
            let [headers, size, from, at] = [HEADERS, SIZE, 20, 16].map(|n| (n as u16).to_ne_bytes());
            let header = [&[1, 1][..], &headers, &size, &from, &at].concat();
            (&source).write_all(&[header, packet].concat()).unwrap();
            thread::sleep(Duration::from_micros(100));
        }
        let arrived: Vec<_> = drained(&sink).into_iter().filter(|p| p[0] >> 4 == 4).collect();
        let [written, _] = Pair::received(&right);
        assert_eq!(arrived.len(), LONG * PIECES);
        assert!(written < (LONG * PIECES / 2) as u64, "{written} writes");
        for (number, packet) in arrived.iter().enumerate() {
            let (long, piece) = (number / PIECES, number % PIECES);
            let is_last = piece + 1 == PIECES;
            let (length, flags) = if is_last { (1_001, flags(long)) } else { (SIZE, 0x10) };
            let mut expected = segment(long * BYTES + piece * SIZE, length, number as u16, flags);
            expected[8] -= 2;
            assert!(*packet == summed(expected), "packet {piece} of {long}");
        }
        drop(running);
    });
}
