//! Interface between user space and the BPF programs: `bpf/intf.h`, field by field.
//!
//! Packets are TCP segments of `mss` bytes, as Linux counts windows; times are CLOCK_MONOTONIC.

/// [`Event::kind`]: the congestion control took the socket, before its first ACK.
pub const EVENT_OPENED: u32 = 1;
/// [`Event::kind`]: a decision interval has ended, or something that cannot wait has happened.
pub const EVENT_REPORT: u32 = 2;
/// [`Event::kind`]: the congestion control gave the socket up.
pub const EVENT_CLOSED: u32 = 3;
/// [`Event::kind`]: a line of the list of flows ([`Datapath::flows`](crate::Datapath::flows)), without what the interval
/// measures; the ring buffer has none of it.
pub const EVENT_LISTED: u32 = 4;

/// Version of everything here and of the maps' names and keys: raised with any change of it.
pub const ABI: u64 = 7;

/// [`Event::flags`]: the first loss or mark of an episode, which multiplicative decrease answers.
pub const FLAG_EPISODE: u32 = 1 << 0;
/// [`Event::flags`]: fast recovery was entered.
pub const FLAG_RECOVERY: u32 = 1 << 1;
/// [`Event::flags`]: the retransmission timer expired.
pub const FLAG_TIMEOUT: u32 = 1 << 2;
/// [`Event::flags`]: window reduction after an ECN echo was entered.
pub const FLAG_ECN: u32 = 1 << 3;
/// [`Event::flags`]: recovery, of whatever kind, has ended.
pub const FLAG_LEFT: u32 = 1 << 4;
/// [`Event::flags`]: the last reduction was unwarranted and has been undone.
pub const FLAG_SPURIOUS: u32 = 1 << 5;
/// [`Event::flags`]: sending restarts after [`Event::idle_ns`], longer than the retransmission timeout.
pub const FLAG_RESTART: u32 = 1 << 6;
/// [`Event::flags`]: the window is what limits sending (`tcp_is_cwnd_limited`).
pub const FLAG_CWND_LIMITED: u32 = 1 << 7;
/// [`Event::flags`]: the application is what limits sending (`tcp_sock.app_limited`).
pub const FLAG_APP_LIMITED: u32 = 1 << 8;
/// [`Event::flags`]: the application was the limit when the packet of the rate sample was sent.
pub const FLAG_RATE_APP_LIMITED: u32 = 1 << 9;
/// [`Event::flags`]: no answer came in time, and the kernel's CUBIC runs the socket.
pub const FLAG_FALLBACK: u32 = 1 << 10;
/// [`Event::flags`]: a period ends that the program has judged itself ([`Answer::reasoner`]).
pub const FLAG_PERIOD: u32 = 1 << 11;
/// [`Event::flags`]: of that period, the decider is to be asked.
pub const FLAG_ASKED: u32 = 1 << 12;
/// [`Event::flags`]: it wakes no process and needs no answer.
pub const FLAG_QUIET: u32 = 1 << 13;

/// [`Answer::base`]: the window stays as answered, but for [`Answer::alpha`] and [`Answer::beta`].
pub const BASE_HOLD: u32 = 0;
/// [`Answer::base`]: the kernel's CUBIC runs the window, and each answer multiplies it once.
pub const BASE_CUBIC: u32 = 1;

/// [`Answer::flags`]: the window holds in recovery too, without proportional rate reduction.
pub const ANSWER_OWNS_RECOVERY: u32 = 1 << 0;

/// [`Answer::interval_us`]: report once per window of data.
pub const INTERVAL_WINDOW: u32 = u32::MAX;
/// Number of entries of [`Answer::reasoner`].
pub const REASONER_OPTIONS: usize = 13;
/// A rate in kbit/s that limits nothing.
pub const RATE_UNLIMITED: u32 = u32::MAX;

/// `TCP_CA_CWR`, in [`Event::ca_state`]: the window is being reduced after an ECN echo.
pub const CA_CWR: u32 = 2;
/// `TCP_CA_Recovery`: fast recovery.
pub const CA_RECOVERY: u32 = 3;
/// `TCP_CA_Loss`: after a retransmission timeout.
pub const CA_LOSS: u32 = 4;

/// Plain data that the kernel and user space copy as bytes.
///
/// # Safety
/// `repr(C)` without padding, every bit pattern valid.
#[allow(unsafe_code, reason = "kernel and user space exchange these structs as bytes")]
pub(crate) unsafe trait Plain: Copy {
    /// Returns its bytes.
    fn bytes(&self) -> &[u8] {
        // SAFETY: the implementor has no padding, so all of its bytes are initialised; they live as long as `self`.
        unsafe { std::slice::from_raw_parts(std::ptr::from_ref(self).cast::<u8>(), size_of::<Self>()) }
    }

    /// The first of `bytes` as one; none if they are too few.
    fn read(bytes: &[u8]) -> Option<Self> {
        if bytes.len() < size_of::<Self>() {
            return None;
        }
        // SAFETY: the bytes are as many as it has, and every bit pattern is valid; alignment does not matter.
        Some(unsafe { bytes.as_ptr().cast::<Self>().read_unaligned() })
    }
}

/// Event of a socket from the datapath.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// The socket: `SO_COOKIE`; if none had been made when it opened, a number of ours with the highest bit set.
    pub cookie: u64,
    /// Number of the event, from 0 ([`EVENT_OPENED`]) on.
    pub sequence: u64,
    /// Time of the event.
    pub now_ns: u64,
    /// Time since the last event.
    pub interval_ns: u64,
    /// Bytes delivered first in the interval, cumulatively or selectively; a FIN counts as one.
    pub acked_bytes: u64,
    /// Bytes marked lost in the interval, in whole segments.
    pub lost_bytes: u64,
    /// Sum of the interval's [`rtt_count`](Self::rtt_count) RTT samples.
    pub rtt_sum_us: u64,
    /// The interval's highest delivery-rate sample, over [`rate_interval_us`](Self::rate_interval_us); 0 if none.
    pub rate_bytes: u64,
    /// Total of delivered bytes; this and the other totals count from the moment that the congestion control took the socket.
    pub delivered_bytes: u64,
    /// Total of sent bytes, retransmissions included, and what was in flight at that moment.
    pub sent_bytes: u64,
    /// The same in segments.
    pub sent_packets: u64,
    /// Total of retransmitted bytes.
    pub retransmitted_bytes: u64,
    /// First byte not yet cumulatively acknowledged, from the first one of the connection on.
    pub snd_una: u64,
    /// First byte not yet sent.
    pub snd_nxt: u64,
    /// Total of delivered packets.
    pub delivered_packets: u64,
    /// The total when the packet of the interval's last rate sample was sent.
    pub prior_delivered_packets: u64,
    /// Events of this socket that the full ring buffer has lost.
    pub dropped: u64,
    /// `sk_pacing_rate`, which the kernel itself keeps for the size of bursts where nothing paces.
    pub pacing_bytes_per_s: u64,
    /// Time since the last ACK, with [`FLAG_RESTART`].
    pub idle_ns: u64,
    /// The answer in force; 0 if none has come.
    pub answer_sequence: u64,
    /// Copy of its [`Answer::answered_ns`].
    pub answered_ns: u64,
    /// Time at which it came into force.
    pub enforced_ns: u64,
    /// Length of the next period, with [`FLAG_PERIOD`].
    pub period_ns: u64,
    /// One of the `EVENT_` constants.
    pub kind: u32,
    /// Flags, of the `FLAG_` constants.
    pub flags: u32,
    /// Packets delivered first in the interval.
    pub acked_packets: u32,
    /// Packets marked lost in the interval.
    pub lost_packets: u32,
    /// Packets delivered in the interval with an ECN congestion mark.
    pub ce_packets: u32,
    /// RTT samples in the interval.
    pub rtt_count: u32,
    /// The least of them.
    pub rtt_min_us: u32,
    /// The last of them.
    pub rtt_last_us: u32,
    /// Time over which [`rate_bytes`](Self::rate_bytes) were counted.
    pub rate_interval_us: u32,
    /// Smoothed RTT.
    pub srtt_us: u32,
    /// Least RTT of the connection; 0 before the first sample.
    pub min_rtt_us: u32,
    /// Retransmission timeout.
    pub rto_us: u32,
    /// Payload of a full segment.
    pub mss: u32,
    /// Congestion window.
    pub window_packets: u32,
    /// Slow-start threshold.
    pub ssthresh_packets: u32,
    /// Packets in flight.
    pub in_flight_packets: u32,
    /// Packets in flight before the last ACK.
    pub prior_in_flight_packets: u32,
    /// Retransmitted packets in flight.
    pub retransmitted_packets: u32,
    /// Smoothed deviation of RTT samples.
    pub rttvar_us: u32,
    /// `enum tcp_ca_state`: [`CA_CWR`], [`CA_RECOVERY`], [`CA_LOSS`], or less when nothing is repaired.
    pub ca_state: u32,
    /// The rate that the receiver echoed last, at least 1, [`RATE_UNLIMITED`] if no router lowered it; 0 if no option
    /// has come.
    pub advertised_kbps: u32,
    /// The rate that this socket writes into its packets; 0 if none.
    pub desired_kbps: u32,
    /// Local address in network order; IPv4 in the first.
    pub local_address: [u32; 4],
    /// Remote address in network order; IPv4 in the first.
    pub remote_address: [u32; 4],
    /// Local port in host order.
    pub local_port: u16,
    /// Remote port in host order.
    pub remote_port: u16,
    /// `AF_INET` or `AF_INET6`.
    pub family: u16,
    /// Case of the period, with [`FLAG_PERIOD`].
    pub situation: u16,
}

/// Answer to a socket, in force until the next one.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Key in the map again, which [`Datapath::answer`](crate::Datapath::answer) writes: the element of the map may be
    /// reused while a program reads it.
    pub flow: u64,
    /// A new number makes it a new answer; from 1 on.
    pub sequence: u64,
    /// [`Event::sequence`] of the last event taken into account: a window that knows nothing of a timeout or a loss
    /// episode is not put in force after it.
    pub report: u64,
    /// Pacing rate, one segment per second at the least; 0 if the window alone paces.
    pub pacing_bytes_per_s: u64,
    /// Time at which it was given.
    pub answered_ns: u64,
    /// [`BASE_CUBIC`]: options of the registry's clock `reasoner`, in its order and as
    /// [`raw`](ccarena_cc::policy::kernel::raw) numbers. The program then judges periods itself, and asks where the
    /// reasoner does; all 0: it reports once per interval.
    pub reasoner: [i64; REASONER_OPTIONS],
    /// [`BASE_HOLD`]: congestion window; 0 leaves it.
    pub window_packets: u32,
    /// Slow-start threshold; 0 leaves it.
    pub ssthresh_packets: u32,
    /// [`BASE_HOLD`]: thousandths of a segment that the window grows by while a window of data is acknowledged.
    pub alpha: u32,
    /// [`BASE_HOLD`]: thousandths of the window that a loss episode leaves; 1000 leaves all.
    pub beta: u32,
    /// [`BASE_CUBIC`]: thousandths that the window, in recovery its target, is multiplied by, once; 1000 changes nothing.
    pub multiplier: u32,
    /// One of the `BASE_` constants.
    pub base: u32,
    /// Flags, of the `ANSWER_` constants.
    pub flags: u32,
    /// Decision interval; 0 is max(1 ms, srtt/8); or [`INTERVAL_WINDOW`].
    pub interval_us: u32,
    /// The rate to be written into packets; 0 leaves it, [`RATE_UNLIMITED`] asks for all.
    pub desired_kbps: u32,
    /// Fewest segments of a burst when paced; 0 is the kernel's 2.
    pub min_burst: u32,
}

impl Default for Answer {
    /// CUBIC, unpaced.
    fn default() -> Self {
        Self {
            flow: 0,
            sequence: 0,
            report: 0,
            pacing_bytes_per_s: 0,
            answered_ns: 0,
            reasoner: [0; REASONER_OPTIONS],
            window_packets: 0,
            ssthresh_packets: 0,
            alpha: 0,
            beta: 1000,
            multiplier: 1000,
            base: BASE_CUBIC,
            flags: 0,
            interval_us: 0,
            desired_kbps: 0,
            min_burst: 0,
        }
    }
}

/// Constants of a loaded bridge.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// [`ABI`]; stays first, so that every version finds it.
    pub abi: u64,
    /// Time without an answer to a report, or 4 intervals, after which the socket is CUBIC.
    pub deadline_ns: u64,
    /// Write, parse and echo the TCP option.
    pub option: u32,
    /// Flag for all network namespaces, not only those of map `namespaces`.
    pub every_namespace: u32,
    /// More sockets of a user are the kernel's CUBIC's; 0 is no bound.
    pub sockets_per_user: u32,
    /// [`EVENT_OPENED`] and [`EVENT_CLOSED`] of a user's sockets; 0 is no bound.
    pub changes_per_s: u32,
    /// Name of the congestion control, by which the option knows its sockets; ends with a zero.
    pub name: [u8; 16],
    /// `net.ipv4.tcp_congestion_control` when it was attached; ends with a zero.
    pub before: [u8; 16],
}

#[allow(unsafe_code, reason = "kernel and user space exchange these structs as bytes")]
// SAFETY: integers alone, ordered by size, so without padding; a test compares sizes and offsets with intf.h.
unsafe impl Plain for Event {}
#[allow(unsafe_code, reason = "kernel and user space exchange these structs as bytes")]
// SAFETY: as for `Event`.
unsafe impl Plain for Answer {}
#[allow(unsafe_code, reason = "kernel and user space exchange these structs as bytes")]
// SAFETY: as for `Event`.
unsafe impl Plain for Config {}
