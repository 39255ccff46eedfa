//! Facts that a host gives about itself and a connection.
#![allow(non_camel_case_types, reason = "names in C")]

use ccarena_cc::{Config, Feedback, Host, MOST_WEIGHT, Time};

use crate::checked::{TIMES, rate, requirement};
use crate::code::Wrong;

/// Version of this interface. A library refuses facts of another one.
pub const CCARENA_ABI: u32 = 1;

/// Host: it calls ccarena_on_sent for each packet. Need: it has to; else the first packet after silence is enough.
pub const CCARENA_EVERY_PACKET: u32 = 2;
/// Host: `cc_ack` has delivery-rate samples. Need: the controller reads them.
pub const CCARENA_RATE_SAMPLES: u32 = 4;
/// Host: it numbers packets, and calls ccarena_on_packet_acked and ccarena_on_packet_lost. Need: it has to.
pub const CCARENA_PACKET_NUMBERS: u32 = 8;
/// Host: one congestion echo (ECN) per window of data, as `cc_loss` with CC_MARKED.
pub const CCARENA_ECHOES: u32 = 16;
/// Host: `cc_ack` counts marked packets (ECN), and echoes come as with CCARENA_ECHOES.
pub const CCARENA_MARKS: u32 = 32;
/// Host: packets carry ccarena_requested_bps to routers, and ccarena_on_router_rate brings their answer. Need: it has to.
pub const CCARENA_ROUTER_RATES: u32 = 64;
/// Need: the window alone says what is sent during recovery. Without it, reduce by RFC 6937 towards the window.
pub const CCARENA_OWNS_RECOVERY: u32 = 1;
/// Need: each packet is paced by itself, at the newest rate.
pub const CCARENA_PACES_EACH: u32 = 128;
/// Host: packets leave as ECT(1) (RFC 9331) if the controller needs it. Need: they have to.
pub const CCARENA_L4S: u32 = 256;

/// Fact: the connection does not begin in slow start.
pub const CCARENA_NO_SLOW_START: u32 = 1;

/// Facts about a connection and its host. Set all to zero first: zero is the default wherever there is one.
#[repr(C)]
pub struct ccarena_facts {
    /// CCARENA_ABI
    pub abi: u32,
    /// Payload of a full packet.
    pub mss_bytes: u32,
    /// Packets that may be sent before the first acknowledgement; 10 by default.
    pub initial_window_packets: u32,
    /// Bytes on the wire beyond the payload, per packet.
    pub header_bytes: u32,
    /// Reports that the host makes: CCARENA_EVERY_PACKET and so on.
    pub reports: u32,
    /// CCARENA_NO_SLOW_START
    pub flags: u32,
    /// Time at which the connection begins, of any clock that never runs backwards.
    pub now_ns: u64,
    /// Seed of controllers that randomise. Give each connection another.
    pub seed: u64,
    /// Weight among other connections, at most 1000; 1 by default.
    pub weight: f64,
    /// Rate that the application wants, for schemes that tell routers; 10 Gbit/s by default.
    pub desired_bps: f64,
    /// Rates between which the application is served, for schemes that steer by them; none by default.
    pub required_min_bps: f64,
    /// See `required_min_bps`.
    pub required_max_bps: f64,
    /// Zeros.
    pub reserved: [u32; 4],
}

/// Largest payload of a packet, and most header bytes: an IP packet has at most so many.
const LARGEST_PACKET: u32 = 65_535;
/// Largest initial window, in packets.
const LARGEST_INITIAL: u32 = 65_535;
/// Flags of hosts.
const REPORTS: u32 = CCARENA_EVERY_PACKET
    | CCARENA_RATE_SAMPLES
    | CCARENA_PACKET_NUMBERS
    | CCARENA_ECHOES
    | CCARENA_MARKS
    | CCARENA_ROUTER_RATES
    | CCARENA_L4S;

/// Returns the configuration without parameters, the host and the beginning that `facts` describe.
pub(crate) fn configuration(facts: &ccarena_facts) -> Result<(Config, Host, Time), Wrong> {
    let range = |ok: bool, field, expected| if ok { Ok(()) } else { Err(Wrong::Range { field, expected }) };
    range(facts.abi == CCARENA_ABI, "ccarena_facts.abi", "CCARENA_ABI of this header")?;
    range((1..=LARGEST_PACKET).contains(&facts.mss_bytes), "ccarena_facts.mss_bytes", "1 to 65535")?;
    let initial = facts.initial_window_packets;
    range(initial <= LARGEST_INITIAL, "ccarena_facts.initial_window_packets", "0 (the default, 10) to 65535")?;
    range(facts.header_bytes <= LARGEST_PACKET, "ccarena_facts.header_bytes", "0 to 65535")?;
    range(facts.reports & !REPORTS == 0, "ccarena_facts.reports", "flags that name a report")?;
    range(facts.flags & !CCARENA_NO_SLOW_START == 0, "ccarena_facts.flags", "0 or CCARENA_NO_SLOW_START")?;
    range(facts.now_ns < TIMES, "ccarena_facts.now_ns", "a time below 2^62 ns")?;
    range((0.0..=MOST_WEIGHT).contains(&facts.weight), "ccarena_facts.weight", "0 (the default, 1) to 1000")?;
    range(facts.reserved == [0; 4], "ccarena_facts.reserved", "zeros")?;
    let usual = Config::default();
    let config = Config {
        mss: facts.mss_bytes,
        initial_window: if initial == 0 { usual.initial_window } else { initial },
        header_bytes: facts.header_bytes,
        slow_start: facts.flags & CCARENA_NO_SLOW_START == 0,
        seed: facts.seed,
        weight: if facts.weight == 0.0 { usual.weight } else { facts.weight },
        desired_rate: match facts.desired_bps {
            0.0 => usual.desired_rate,
            bps => rate(bps, "ccarena_facts.desired_bps")?,
        },
        requirement: requirement(
            [facts.required_min_bps, facts.required_max_bps],
            ["ccarena_facts.required_min_bps", "ccarena_facts.required_max_bps"],
        )?,
        ..usual
    };
    let reports = |flag: u32| facts.reports & flag != 0;
    let host = Host {
        every_packet: reports(CCARENA_EVERY_PACKET),
        packet_numbers: reports(CCARENA_PACKET_NUMBERS),
        rate_samples: reports(CCARENA_RATE_SAMPLES),
        marks: match (reports(CCARENA_MARKS), reports(CCARENA_ECHOES)) {
            (true, _) => Feedback::Accurate,
            (false, true) => Feedback::Classic,
            (false, false) => Feedback::None,
        },
        router_rates: reports(CCARENA_ROUTER_RATES),
        // `cc_sent` and `cc_ack` have no place for them.
        router_headers: false,
        l4s: reports(CCARENA_L4S),
    };
    Ok((config, host, Time(facts.now_ns)))
}
