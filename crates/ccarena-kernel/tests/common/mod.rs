//! Sockets over the loopback of a network namespace of the calling thread's own.
#![allow(unsafe_code, clippy::undocumented_unsafe_blocks, reason = "system calls on values that outlive them")]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that fails panics; clippy.toml exempts test functions, not helpers"
)]
#![allow(dead_code, reason = "each test file uses some of it")]

pub mod wire;

use std::ffi::c_void;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::thread;
use std::time::Duration;

pub const SO_COOKIE: i32 = 57;
pub const SO_NETNS_COOKIE: i32 = 71;

/// Whether the machine can run these tests; says loudly if not.
pub fn able() -> bool {
    for check in ccarena_kernel::checks::checks() {
        if let Some(problem) = check.problem {
            println!("SKIPPED: {}: {problem}", check.name);
            return false;
        }
    }
    true
}

/// The payload of a full segment: loopbacks get Ethernet's MTU.
pub const MSS: u64 = 1448;

/// Runs `work` in a thread whose network namespace is new and has its loopback up.
pub fn in_namespace<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let thread = scope.spawn(|| {
            assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNET) }, 0, "unshare");
            loopback_up();
            work()
        });
        thread.join().unwrap()
    })
}

fn loopback_up() {
    let socket = unsafe { OwnedFd::from_raw_fd(libc::socket(libc::AF_INET, libc::SOCK_DGRAM, 0)) };
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    request.ifr_name[0] = b'l' as libc::c_char;
    request.ifr_name[1] = b'o' as libc::c_char;
    request.ifr_ifru.ifru_flags = libc::IFF_UP as i16;
    assert_eq!(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request) }, 0, "lo up");
    request.ifr_ifru.ifru_mtu = 1500;
    assert_eq!(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFMTU, &raw const request) }, 0, "lo's MTU");
}

pub fn set(socket: &impl AsRawFd, level: i32, option: i32, value: &[u8]) {
    let (value, length) = (value.as_ptr().cast::<c_void>(), value.len() as u32);
    let done = unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, value, length) };
    assert_eq!(done, 0, "setsockopt {option}: {}", std::io::Error::last_os_error());
}

pub fn get_u64(socket: &impl AsRawFd, option: i32) -> u64 {
    let (mut value, mut length) = (0_u64, 8_u32);
    let done = unsafe {
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, option, (&raw mut value).cast(), &raw mut length)
    };
    assert_eq!(done, 0, "getsockopt {option}");
    value
}

/// `TCP_INFO`.
pub fn info(socket: &impl AsRawFd) -> libc::tcp_info {
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    let mut length = size_of::<libc::tcp_info>() as u32;
    let done = unsafe {
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_TCP, libc::TCP_INFO, (&raw mut info).cast(), &raw mut length)
    };
    assert_eq!(done, 0, "TCP_INFO");
    info
}

/// The `SO_NETNS_COOKIE` of the calling thread's namespace.
pub fn namespace_cookie() -> u64 {
    get_u64(&TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap(), SO_NETNS_COOKIE)
}

/// A socket whose congestion control is set before it connects, and its cookie.
pub struct Unconnected(OwnedFd);

impl Unconnected {
    pub fn new(congestion_control: &str) -> Self {
        let socket = Self(unsafe { OwnedFd::from_raw_fd(libc::socket(libc::AF_INET, libc::SOCK_STREAM, 0)) });
        set(&socket.0, libc::SOL_TCP, libc::TCP_CONGESTION, congestion_control.as_bytes());
        socket
    }

    pub fn mark(self, mark: u32) -> Self {
        set(&self.0, libc::SOL_SOCKET, libc::SO_MARK, &mark.to_ne_bytes());
        self
    }

    pub fn cookie(&self) -> u64 {
        get_u64(&self.0, SO_COOKIE)
    }

    pub fn connect(self, to: SocketAddr) -> TcpStream {
        let SocketAddr::V4(to) = to else { panic!("IPv4") };
        let address = libc::sockaddr_in {
            sin_family: libc::AF_INET as u16,
            sin_port: to.port().to_be(),
            sin_addr: libc::in_addr { s_addr: u32::from(*to.ip()).to_be() },
            sin_zero: [0; 8],
        };
        let length = size_of::<libc::sockaddr_in>() as u32;
        let done = unsafe { libc::connect(self.0.as_raw_fd(), (&raw const address).cast(), length) };
        assert_eq!(done, 0, "connect: {}", std::io::Error::last_os_error());
        self.0.into()
    }
}

/// A receiver in the calling thread's namespace, which reads one connection to its end.
pub struct Sink {
    pub address: SocketAddr,
    thread: thread::JoinHandle<u64>,
}

impl Sink {
    pub fn start() -> Self {
        Self::lossy(0)
    }

    /// One that loses `loss` of 1000 segments (or of the bunches of them that the loopback carries) at random.
    pub fn lossy(loss: u32) -> Self {
        Self::at(Ipv4Addr::LOCALHOST, loss)
    }

    pub fn at(address: Ipv4Addr, loss: u32) -> Self {
        let listener = TcpListener::bind((address, 0)).unwrap();
        if loss > 0 {
            lose(&listener, loss);
        }
        let address = listener.local_addr().unwrap();
        let thread = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let (mut buffer, mut total) = (vec![0; 1 << 16], 0);
            while let Ok(n @ 1..) = stream.read(&mut buffer) {
                total += n as u64;
            }
            total
        });
        Self { address, thread }
    }

    /// The bytes that arrived.
    pub fn finish(self) -> u64 {
        self.thread.join().unwrap()
    }
}

/// A classic filter: load a random word, return 0 below the threshold, else the whole packet.
fn lose(socket: &impl AsRawFd, loss: u32) {
    const RANDOM: u32 = (libc::SKF_AD_OFF + 56) as u32;
    let code = |code: u32, jf: u8, k: u32| libc::sock_filter { code: code as u16, jt: 0, jf, k };
    let mut program = [
        code(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, RANDOM),
        code(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, 1, (u64::from(loss) * u64::from(u32::MAX) / 1000) as u32),
        code(libc::BPF_RET | libc::BPF_K, 0, u32::MAX),
        code(libc::BPF_RET | libc::BPF_K, 0, 0),
    ];
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    let bytes = unsafe { std::slice::from_raw_parts((&raw const filter).cast::<u8>(), size_of::<libc::sock_fprog>()) };
    set(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, bytes);
}

/// Writes `bytes` of zeros.
pub fn write(stream: &mut TcpStream, bytes: usize) {
    let block = vec![0; 1 << 16];
    let mut left = bytes;
    while left > 0 {
        left -= stream.write(&block[..left.min(block.len())]).unwrap();
    }
}

/// Writes zeros for `time`.
pub fn write_for(stream: &mut TcpStream, time: Duration) {
    let block = vec![0; 1 << 16];
    let begun = clock();
    while clock() - begun < time {
        stream.write_all(&block).unwrap();
    }
}

/// CLOCK_MONOTONIC, as the programs read it.
pub fn clock() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) }, 0);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
