//! Two namespaces and a router between them that may do anything to a packet.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{Read, Write};
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use ccarena_link::namespace::Namespace;
use ccarena_link::tun::Tun;

use super::clock;

pub const SENDER: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 1);
pub const RECEIVER: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 2);
/// Each way.
pub const DELAY: Duration = Duration::from_millis(5);

/// What the router does to a packet on its way to the receiver: changes it, or drops it if false.
pub type Meddle = Box<dyn FnMut(&mut Vec<u8>) -> bool + Send>;

pub struct Wire {
    pub senders: Namespace,
    pub receivers: Namespace,
    stop: Arc<AtomicBool>,
    router: Option<JoinHandle<()>>,
}

impl Wire {
    pub fn new(mut meddle: Meddle) -> Self {
        let (senders, receivers) = (Namespace::new().unwrap(), Namespace::new().unwrap());
        let end = |namespace: &Namespace, from: Ipv4Addr, to: Ipv4Addr| {
            let make = || {
                let tun = Tun::create("wire").unwrap();
                tun.add_address(from, Some(to)).unwrap();
                whole_packets(&tun)
            };
            namespace.run(make).unwrap()
        };
        let (near, far) = (end(&senders, SENDER, RECEIVER), end(&receivers, RECEIVER, SENDER));
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let router = thread::spawn(move || {
            let (mut there, mut back) = (VecDeque::new(), VecDeque::new());
            while !stopped.load(Ordering::Relaxed) {
                ferry(&near, &far, &mut there, &mut *meddle);
                ferry(&far, &near, &mut back, &mut |_| true);
                thread::sleep(Duration::from_micros(100));
            }
        });
        Self { senders, receivers, stop, router: Some(router) }
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(router) = self.router.take() {
            router.join().unwrap();
        }
    }
}

/// What precedes each packet (`struct virtio_net_hdr`): zeroes for one that is whole and has its checksum.
const OFFLOAD_HEADER: usize = 10;

/// The descriptor of `tun`, the kernel cutting and summing what it hands over.
#[allow(unsafe_code, reason = "a TUN device's features are set by an ioctl")]
fn whole_packets(tun: &Tun) -> File {
    // SAFETY: the descriptor is open, and TUNSETOFFLOAD takes a number.
    let set = unsafe { libc::ioctl(tun.as_raw_fd(), libc::TUNSETOFFLOAD, 0 as libc::c_ulong) };
    assert_eq!(set, 0);
    tun.as_fd().try_clone_to_owned().unwrap().into()
}

fn ferry(
    mut from: &File,
    mut to: &File,
    queue: &mut VecDeque<(Duration, Vec<u8>)>,
    meddle: &mut dyn FnMut(&mut Vec<u8>) -> bool,
) {
    let mut buffer = [0; 2000];
    while let Ok(length) = from.read(&mut buffer) {
        let mut packet = buffer[OFFLOAD_HEADER..length].to_vec();
        if meddle(&mut packet) {
            queue.push_back((clock() + DELAY, packet));
        }
    }
    while queue.front().is_some_and(|(due, _)| *due <= clock()) {
        if let Some((_, packet)) = queue.pop_front() {
            // A namespace on its way out takes no more.
            let _ = to.write(&[&[0; OFFLOAD_HEADER][..], &packet].concat());
        }
    }
}

/// Where TCP begins in an IPv4 packet.
pub fn tcp_at(packet: &[u8]) -> usize {
    usize::from(packet[0] & 15) * 4
}

/// Bytes of TCP payload.
pub fn payload(packet: &[u8]) -> usize {
    let tcp = tcp_at(packet);
    packet.len() - tcp - usize::from(packet[tcp + 12] >> 4) * 4
}

/// Makes both checksums right.
pub fn mend(packet: &mut [u8]) {
    let tcp = tcp_at(packet);
    packet[10..12].fill(0);
    let header = !sum(&packet[..tcp], 0);
    packet[10..12].copy_from_slice(&header.to_be_bytes());
    packet[tcp + 16..tcp + 18].fill(0);
    let pseudo = 6 + (packet.len() - tcp) as u32 + u32::from(sum(&packet[12..20], 0));
    let whole = !sum(&packet[tcp..], pseudo);
    packet[tcp + 16..tcp + 18].copy_from_slice(&whole.to_be_bytes());
}

fn sum(bytes: &[u8], start: u32) -> u16 {
    let word = |pair: &[u8]| u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |&b| u32::from(b));
    let mut sum = bytes.chunks(2).map(word).sum::<u32>() + start;
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}
