//! `bpf/intf.h` and `src/intf.rs`, `bpf/operation.h` and `src/policies/operation.rs` lay the same structs out, and number
//! the same constants. `src/policies/stats.rs` has the counters of `bpf/policy.h`.

use std::env;
use std::fmt::Write as _;
use std::io::Write as _;
use std::mem::offset_of;
use std::path::Path;
use std::process::{Command, Stdio};

use ccarena_cc::operation::{Ending, RECORDS, Role};
use ccarena_kernel::intf::*;
use ccarena_kernel::policies::{Connection, Operation, Stats};

const HEAD: &str = "#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
typedef uint8_t u8;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int32_t s32;
typedef int64_t s64;
#include \"operation.h\"
#include \"policy.h\"
";

/// Static assertions for a struct and its fields, in order.
macro_rules! assert_struct {
    ($out:ident, $c:literal = $rust:ident: $($field:ident)*) => {
        writeln!($out, "_Static_assert(sizeof(struct {}) == {}, \"size\");", $c, size_of::<$rust>()).unwrap();
        $(writeln!(
            $out,
            "_Static_assert(offsetof(struct {}, {1}) == {2}, \"{1}\");",
            $c, stringify!($field), offset_of!($rust, $field)
        ).unwrap();)*
        // Every field is listed.
        let _ = |value: $rust| { let $rust { $($field: _),* } = value; };
    };
}

macro_rules! assert_constants {
    ($out:ident: $($name:ident)*) => {
        $(writeln!($out, "_Static_assert({0} == {1}u, \"{0}\");", stringify!($name), $name).unwrap();)*
    };
}

#[test]
fn c_and_rust_agree() {
    let mut c = String::from(HEAD);
    assert_struct!(c, "event" = Event: cookie sequence now_ns interval_ns acked_bytes lost_bytes rtt_sum_us rate_bytes
        delivered_bytes sent_bytes sent_packets retransmitted_bytes snd_una snd_nxt delivered_packets prior_delivered_packets dropped
        pacing_bytes_per_s idle_ns answer_sequence answered_ns enforced_ns period_ns kind flags acked_packets lost_packets
        ce_packets rtt_count rtt_min_us rtt_last_us rate_interval_us srtt_us min_rtt_us rto_us mss window_packets
        ssthresh_packets in_flight_packets prior_in_flight_packets retransmitted_packets rttvar_us ca_state advertised_kbps desired_kbps local_address
        remote_address local_port remote_port family situation);
    assert_struct!(c, "answer" = Answer: flow sequence report pacing_bytes_per_s answered_ns reasoner window_packets
        ssthresh_packets alpha beta multiplier base flags interval_us desired_kbps min_burst);
    assert_struct!(c, "config" = Config: abi deadline_ns option every_namespace sockets_per_user changes_per_s
        name before);
    assert_struct!(c, "operation" = Operation: version share cgroup shadow guard remote mask);
    assert_struct!(c, "connection" = Connection: record id cookie begun_ns now_ns busy_ns generation acked_bytes
        sent_bytes retransmitted_bytes rtt_us rtt_count decisions outside clamps held compared agreed policy_kib
        running_kib pacing_bytes_per_s rtt_min_us srtt_us window_packets mss role ended local_address remote_address
        local_port remote_port unused);
    assert_struct!(c, "stats" = Stats: opened closed periods decisions ns ns_most beyond outside unreported held missed
        handed_back compared agreed cases zones);
    writeln!(c, "_Static_assert(ENDED_RECORDS == {RECORDS}, \"records\");").unwrap();
    for (number, name) in Role::NAMES.iter().enumerate() {
        writeln!(c, "_Static_assert(ROLE_{} == {number}, \"{name}\");", name.to_uppercase()).unwrap();
    }
    for (number, name) in Ending::NAMES.iter().enumerate() {
        let name = name.unwrap_or("not");
        writeln!(c, "_Static_assert(ENDED_{} == {number}, \"{name}\");", name.to_uppercase()).unwrap();
    }
    assert_constants!(c: ABI EVENT_OPENED EVENT_REPORT EVENT_CLOSED EVENT_LISTED FLAG_EPISODE FLAG_RECOVERY FLAG_TIMEOUT FLAG_ECN
        FLAG_LEFT FLAG_SPURIOUS FLAG_RESTART FLAG_CWND_LIMITED FLAG_APP_LIMITED FLAG_RATE_APP_LIMITED FLAG_FALLBACK
        FLAG_PERIOD FLAG_ASKED FLAG_QUIET BASE_HOLD BASE_CUBIC ANSWER_OWNS_RECOVERY INTERVAL_WINDOW RATE_UNLIMITED);
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folders = ["src/bpf", "../ccarena-cc/src/policy/integer", "../ccarena-cc/src/policy/kernel"];
    let clang = env::var_os("CLANG").unwrap_or_else(|| "clang".into());
    let mut child = Command::new(clang)
        .args(["-x", "c", "-fsyntax-only"])
        .args(folders.map(|folder| format!("-I{}", root.join(folder).display())))
        .arg("-")
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(c.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success(), "{c}");
}
