//! The bridge on this machine's kernel: takes root, and says so loudly where there is none.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that fails panics; clippy.toml exempts test functions, not helpers"
)]

mod common;
#[path = "../../ccarena-link/tests/common/real_time.rs"]
mod real_time;

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;
use std::{env, fs};

use ccarena_kernel::intf::{
    BASE_HOLD, EVENT_CLOSED, EVENT_OPENED, EVENT_REPORT, FLAG_EPISODE, FLAG_FALLBACK, FLAG_LEFT, FLAG_RECOVERY,
    FLAG_RESTART, FLAG_SPURIOUS, FLAG_TIMEOUT,
};
use ccarena_kernel::{Answer, Datapath, Event, KernelError, Key, Options, TcpOption, attach, checks};
use common::{MSS, Sink, Unconnected, able, clock, in_namespace, info, namespace_cookie, write, write_for};
use libbpf_rs::query;
use real_time::real_time;

/// What makes a report before its interval ends.
const AT_ONCE: u32 = FLAG_EPISODE | FLAG_RECOVERY | FLAG_TIMEOUT | FLAG_LEFT | FLAG_SPURIOUS | FLAG_RESTART;

/// One at a time: they measure rates, on a machine that may have few cores.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn names_that_the_kernel_refuses_are_refused_before() {
    for suffix in ["with-dash", "muchtoolong", "a b"] {
        if !able() {
            return;
        }
        let options = Options { suffix: suffix.into(), ..Options::default() };
        assert!(matches!(Datapath::load(&options), Err(KernelError::Name(_))), "{suffix}");
    }
}

#[test]
fn without_root_it_says_what_to_do() {
    let refused = thread::spawn(|| {
        // The system call, unlike libc's function, changes the calling thread alone.
        #[allow(unsafe_code, clippy::undocumented_unsafe_blocks, reason = "numbers alone")]
        unsafe {
            libc::syscall(libc::SYS_setresuid, -1, 65534, -1)
        };
        Datapath::load(&Options::default()).err().map(|e| e.to_string())
    });
    assert!(refused.join().unwrap().is_some_and(|e| e.contains("run it with sudo")));
}

#[test]
fn a_name_is_taken_once() {
    let _alone = alone();
    if !able() {
        return;
    }
    let path = load("twice", |_| ());
    let again = Options { suffix: format!("twice{}", std::process::id() % 1000), ..Options::default() };
    assert!(matches!(Datapath::load(&again), Err(KernelError::NameTaken(_))));
    let ours = loaded_by("self");
    drop(path);
    assert_gone(&ours);
}

fn load(test: &str, more: impl FnOnce(&mut Options)) -> Datapath {
    let suffix = format!("{test}{}", std::process::id() % 1000);
    let mut options = Options { suffix, wcc: false, ..Options::default() };
    more(&mut options);
    Datapath::load(&options).unwrap_or_else(|e| panic!("{e}"))
}

type Ids = BTreeSet<(&'static str, u32)>;

/// The ids of all BPF programs, maps and links.
fn in_kernel() -> Ids {
    let programs = query::ProgInfoIter::default().map(|p| ("program", p.id));
    let maps = query::MapInfoIter::default().map(|m| ("map", m.id));
    let links = query::LinkInfoIter::default().map(|l| ("link", l.id));
    programs.chain(maps).chain(links).collect()
}

/// The ids of what process `pid` has loaded, others on the machine loading theirs: by its descriptors, and by the type
/// descriptions (BTF) that all programs and maps of an object share.
fn loaded_by(pid: &str) -> Ids {
    let mut ids = Ids::new();
    for entry in fs::read_dir(format!("/proc/{pid}/fdinfo")).unwrap() {
        let info = fs::read_to_string(entry.unwrap().path()).unwrap_or_default();
        let fields = info.lines().filter_map(|line| line.split_once(':'));
        for (name, value) in fields {
            let kind = match name {
                "map_id" => "map",
                "link_id" => "link",
                _ => continue,
            };
            ids.insert((kind, value.trim().parse().unwrap()));
        }
    }
    let objects: BTreeSet<_> =
        query::MapInfoIter::default().filter(|m| ids.contains(&("map", m.id))).map(|m| m.btf_id).collect();
    let ours = |btf_id: u32| btf_id != 0 && objects.contains(&btf_id);
    ids.extend(query::MapInfoIter::default().filter(|m| ours(m.btf_id)).map(|m| ("map", m.id)));
    ids.extend(query::ProgInfoIter::default().filter(|p| ours(p.btf_id)).map(|p| ("program", p.id)));
    ids
}

/// What a transfer over the bridge told.
struct Transferred {
    events: Vec<Event>,
    bytes: u64,
    time: Duration,
}

impl Transferred {
    fn reports(&self) -> impl Iterator<Item = &Event> {
        self.events.iter().filter(|e| e.kind == EVENT_REPORT)
    }
}

/// One flow for as long as `send` takes, in a namespace of its own; `answer` makes answers of events.
fn transfer(
    path: Datapath,
    loss: u32,
    send: impl FnOnce(&mut std::net::TcpStream) + Send,
    mut answer: impl FnMut(&Event) -> Option<Answer> + Send,
) -> Transferred {
    let name = path.congestion_control("vegas").to_string();
    thread::scope(|scope| {
        let daemon = scope.spawn(|| {
            let mut all = Vec::new();
            let give_up = clock() + Duration::from_secs(30);
            while all.last().is_none_or(|e: &Event| e.kind != EVENT_CLOSED) {
                assert!(clock() < give_up, "the flow did not close; so far {} events", all.len());
                let from = all.len();
                path.poll(Duration::from_millis(10), |event| all.push(*event)).unwrap();
                for event in &all[from..] {
                    if let Some(answer) = answer(event).filter(|_| event.kind != EVENT_CLOSED) {
                        let numbered = Answer { sequence: event.sequence + 1, report: event.sequence, ..answer };
                        path.answer(event.cookie, &numbered).unwrap();
                    }
                }
            }
            all
        });
        let (bytes, time) = in_namespace(|| {
            let sink = Sink::lossy(loss);
            let mut stream = Unconnected::new(&name).connect(sink.address);
            let begun = clock();
            send(&mut stream);
            drop(stream);
            (sink.finish(), clock() - begun)
        });
        Transferred { events: daemon.join().unwrap(), bytes, time }
    })
}

#[test]
fn a_transfer_is_reported_in_full() {
    let _alone = alone();
    if !able() {
        return;
    }
    const BYTES: u64 = 50_000_000;
    let told = transfer(load("rep", |_| ()), 0, |stream| write(stream, BYTES as usize), |_| None);
    assert_eq!(told.bytes, BYTES);
    let (first, last) = (told.events[0], told.events[told.events.len() - 1]);
    assert_eq!((first.kind, first.sequence, last.kind), (EVENT_OPENED, 0, EVENT_CLOSED));
    assert_eq!((first.local_address[0].to_ne_bytes(), first.family), ([127, 0, 0, 1], libc::AF_INET as u16));
    for (number, event) in told.events.iter().enumerate() {
        assert_eq!((event.sequence, event.cookie, event.dropped), (number as u64, first.cookie, 0));
        assert_ne!(event.flags & FLAG_FALLBACK, 0, "nobody answers");
    }
    assert!(told.events.is_sorted_by_key(|e| e.now_ns));
    // A FIN counts as a byte.
    assert_eq!(told.events.iter().map(|e| e.acked_bytes).sum::<u64>(), BYTES + 1);
    assert_eq!((last.delivered_bytes, last.snd_una, last.snd_nxt), (BYTES + 1, BYTES + 1, BYTES + 1));
    assert_eq!(last.sent_bytes - last.retransmitted_bytes, BYTES);
    assert_eq!(told.events.iter().map(|e| u64::from(e.acked_packets)).sum::<u64>(), last.delivered_packets);
    for event in told.reports() {
        assert!(event.interval_ns >= 1_000_000 || event.flags & AT_ONCE != 0, "{event:?}");
        assert!(event.rtt_sum_us >= u64::from(event.rtt_count * event.rtt_min_us), "{event:?}");
        assert!(event.snd_una <= event.snd_nxt && event.window_packets > 0, "{event:?}");
        assert_eq!(event.mss, MSS as u32);
    }
}

#[test]
fn an_answered_window_holds() {
    real_time(|| {
        let _alone = alone();
        if !able() {
            return;
        }
        let ten = Answer { window_packets: 10, base: BASE_HOLD, ..Answer::default() };
        let told =
            transfer(load("win", |_| ()), 0, |stream| write_for(stream, Duration::from_millis(500)), |_| Some(ten));
        let held: Vec<_> = told.reports().filter(|e| e.answer_sequence > 0).collect();
        assert!(held.len() > 20, "{}", held.len());
        for event in held {
            assert_eq!((event.window_packets, event.flags & FLAG_FALLBACK), (10, 0), "{event:?}");
        }
        // What was sent under the first window may still be in flight at the first of them.
        assert!(told.reports().filter(|e| e.answer_sequence > 2).all(|e| e.in_flight_packets <= 10));
    });
}

#[test]
fn alpha_grows_and_beta_shrinks_the_window_in_between() {
    real_time(|| {
        let _alone = alone();
        if !able() {
            return;
        }
        let once = |event: &Event| {
            let answer = Answer { window_packets: 20, alpha: 2000, base: BASE_HOLD, beta: 800, ..Answer::default() };
            (event.kind == EVENT_OPENED).then_some(answer)
        };
        let path = load("ab", |options| options.deadline = Duration::from_secs(60));
        let told = transfer(path, 2, |stream| write_for(stream, Duration::from_millis(500)), once);
        let reports: Vec<_> = told.reports().filter(|e| e.answer_sequence == 1).collect();
        assert!(reports.iter().any(|e| e.window_packets > 25), "the window grew");
        let mut episodes = 0;
        for event in reports.iter().filter(|e| e.flags & FLAG_EPISODE != 0 && e.flags & FLAG_RECOVERY != 0) {
            episodes += 1;
            assert!(event.ssthresh_packets >= 2, "{event:?}");
        }
        assert!(episodes > 0, "losses were reported");
        assert!(reports.iter().any(|e| e.flags & FLAG_LEFT != 0), "recovery ended");
    });
}

#[test]
fn an_answered_rate_is_paced() {
    real_time(|| {
        let _alone = alone();
        if !able() {
            return;
        }
        // 100 Mbit/s.
        let rate =
            Answer { window_packets: 1000, pacing_bytes_per_s: 12_500_000, base: BASE_HOLD, ..Answer::default() };
        let told = transfer(load("pac", |_| ()), 0, |stream| write(stream, 15_000_000), |_| Some(rate));
        let mbps = told.bytes as f64 * 8e-6 / told.time.as_secs_f64();
        println!("asked 100 Mbit/s, got {mbps:.1}");
        assert!((85.0..=115.0).contains(&mbps), "asked 100 Mbit/s, got {mbps}");
    });
}

#[test]
fn the_least_rate_does_not_stall() {
    real_time(|| {
        let _alone = alone();
        if !able() {
            return;
        }
        // A byte per second would take days; the floor is a segment per second. Then the daemon dies.
        let answered = Arc::new(Mutex::new(0));
        let crawl = move |event: &Event| {
            let mut count = answered.lock().unwrap();
            *count += u32::from(event.kind == EVENT_REPORT);
            (*count < 3).then_some(Answer {
                window_packets: 1,
                pacing_bytes_per_s: 1,
                base: BASE_HOLD,
                ..Answer::default()
            })
        };
        let told = transfer(load("low", |_| ()), 0, |stream| write(stream, 3_000_000), crawl);
        assert_eq!(told.bytes, 3_000_000);
        assert!(told.time < Duration::from_secs(20), "{:?}", told.time);
        assert_ne!(told.events[told.events.len() - 1].flags & FLAG_FALLBACK, 0);
    });
}

#[test]
fn without_answers_cubic_takes_over_until_they_return() {
    real_time(|| {
        let _alone = alone();
        if !able() {
            return;
        }
        let mut opened_ns = None;
        let silent = move |event: &Event| {
            let at = (event.now_ns - *opened_ns.get_or_insert(event.now_ns)) / 1_000_000;
            let answer = Answer { window_packets: 4, base: BASE_HOLD, ..Answer::default() };
            (!(300..900).contains(&at)).then_some(answer)
        };
        let path = load("fb", |options| options.deadline = Duration::from_millis(100));
        let told = transfer(path, 0, |stream| write_for(stream, Duration::from_millis(1300)), silent);
        let during = |from: u64, to: u64| {
            let from_ns = told.events[0].now_ns + from * 1_000_000;
            told.reports().filter(move |e| (from_ns..from_ns + (to - from) * 1_000_000).contains(&e.now_ns))
        };
        assert!(during(150, 300).all(|e| e.flags & FLAG_FALLBACK == 0 && e.window_packets == 4));
        assert!(during(550, 900).count() > 10);
        assert!(during(550, 900).all(|e| e.flags & FLAG_FALLBACK != 0 && e.window_packets >= 4));
        assert!(during(550, 900).any(|e| e.window_packets > 4), "CUBIC grows");
        assert!(during(1000, 1300).count() > 10);
        assert!(during(1000, 1300).all(|e| e.flags & FLAG_FALLBACK == 0 && e.window_packets == 4));
    });
}

#[test]
fn the_option_makes_the_round_trip() {
    let _alone = alone();
    if !able() {
        return;
    }
    for registered in [true, false] {
        let path = load("opt", |options| options.option = TcpOption::Namespaces);
        let name = path.congestion_control("acct").to_string();
        let (cookie, bytes) = in_namespace(|| {
            if registered {
                path.add_namespace(namespace_cookie()).unwrap();
            }
            let sink = Sink::start();
            let socket = Unconnected::new(&name);
            let cookie = socket.cookie();
            path.set_desired(cookie, 48_000).unwrap();
            let mut stream = socket.connect(sink.address);
            write(&mut stream, 20_000_000);
            path.set_desired(cookie, 96_000).unwrap();
            write(&mut stream, 20_000_000);
            drop(stream);
            (cookie, sink.finish())
        });
        assert_eq!(bytes, 40_000_000);
        let mut heard = Vec::new();
        path.poll(Duration::from_millis(100), |e| heard.push((e.cookie, e.desired_kbps, e.advertised_kbps))).unwrap();
        assert!(heard.iter().all(|h| h.0 == cookie && (h.1 == 48_000 || h.1 == 96_000)), "{heard:?}");
        heard.dedup();
        let advertised: Vec<_> = heard.iter().map(|h| h.2).collect();
        let expected: &[u32] = if registered { &[48_000, 96_000] } else { &[] };
        let mut distinct: Vec<_> = advertised.into_iter().filter(|&kbps| kbps != 0).collect();
        distinct.dedup();
        assert_eq!(distinct, expected, "{heard:?}");
    }
}

#[test]
fn weights_by_mark_share() {
    real_time(|| {
        let _alone = alone();
        if !able() {
            return;
        }
        let path = load("wcc", |options| options.wcc = true);
        let name = path.congestion_control("multcp").to_string();
        assert_ne!(name, path.congestion_control("vegas"));
        path.set_weight(Key::Mark(7), Some(100.0)).unwrap();
        // One that is 100 wide grows by 100 segments per window and loses half a percent.
        let median_window = |mark: u32| {
            in_namespace(|| {
                let sink = Sink::lossy(50);
                let mut stream = Unconnected::new(&name).mark(mark).connect(sink.address);
                let mut windows = Vec::new();
                for _ in 0..400 {
                    write(&mut stream, 100_000);
                    windows.push(info(&stream).tcpi_snd_cwnd);
                }
                drop(stream);
                sink.finish();
                windows.sort_unstable();
                // All 40 MB are 28,000 segments. A threshold that the kernel made up (skipped.h) lasts a recovery at most.
                assert!(windows[380] < 30_000, "{windows:?}");
                windows[200]
            })
        };
        let (light, heavy, by_default) = (median_window(1), median_window(7), median_window(0));
        println!("median windows: weight 1 {light}, 100 {heavy}, default {by_default}");
        assert!(heavy > 2 * light, "{heavy} {light}");
        path.set_weight(Key::Mark(7), None).unwrap();
        path.set_weight(Key::Default, Some(100.0)).unwrap();
        assert!(median_window(7) > 2 * light);
        assert!(path.set_weight(Key::Default, Some(f64::NAN)).is_err());
        assert!(path.set_weight(Key::Default, Some(0.0)).is_err());
    });
}

/// The kernel frees what nobody holds a little later.
fn assert_gone(ours: &Ids) {
    let give_up = clock() + Duration::from_secs(20);
    loop {
        let left: Vec<_> = in_kernel().intersection(ours).copied().collect();
        if left.is_empty() {
            return;
        }
        assert!(clock() < give_up, "left behind: {left:?}");
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn unloading_leaves_nothing() {
    let _alone = alone();
    if !able() {
        return;
    }
    let path = load("un", |options| (options.option, options.wcc) = (TcpOption::Namespaces, true));
    let ours = loaded_by("self");
    let count = |kind| ours.iter().filter(|(k, _)| *k == kind).count();
    // Five congestion controls, the option and the list; of programs, nine of the bridge, two and nine.
    assert_eq!((count("link"), count("program")), (7, 20), "{ours:?}");
    let name = path.congestion_control("ewtcp").to_string();
    in_namespace(|| {
        let sink = Sink::start();
        let mut stream = Unconnected::new(&name).connect(sink.address);
        // A socket that uses a congestion control keeps it.
        drop(path);
        write(&mut stream, 1_000_000);
        drop(stream);
        assert_eq!(sink.finish(), 1_000_000);
    });
    assert_gone(&ours);
}

const CHILD: &str = "CCARENA_KERNEL_TEST_CHILD";

/// What a round of the test below kills: everything loaded, and a flow in flight.
fn child() -> ! {
    let path = load("k", |options| (options.option, options.wcc) = (TcpOption::Namespaces, true));
    in_namespace(|| {
        path.add_namespace(namespace_cookie()).unwrap();
        let sink = Sink::start();
        let socket = Unconnected::new(path.congestion_control("acct"));
        path.set_desired(socket.cookie(), 1000).unwrap();
        let mut stream = socket.connect(sink.address);
        write(&mut stream, 100_000);
        println!("{READY}");
        write_for(&mut stream, Duration::from_secs(600));
    });
    std::process::exit(1)
}

const READY: &str = "ready to be killed";
const KILLS: usize = 15;

/// Each child is killed at the same place; `make soak` kills a thousand times at random ones.
#[test]
fn kills_leave_nothing() {
    if env::var_os(CHILD).is_some() {
        child();
    }
    let _alone = alone();
    if !able() {
        return;
    }
    let mut ours = Ids::new();
    for _ in 0..KILLS {
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["--exact", "kills_leave_nothing", "--nocapture"])
            .env(CHILD, "1")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap().contains(READY)), "the child ended early");
        ours.extend(loaded_by(&child.id().to_string()));
        child.kill().unwrap();
        child.wait().unwrap();
    }
    assert!(ours.len() > 24 * KILLS, "{}", ours.len());
    assert_gone(&ours);
}

/// Takes back what a failing test has left attached to the machine.
struct Detached;

impl Drop for Detached {
    fn drop(&mut self) {
        let _ = attach::detach();
    }
}

#[test]
fn attaching_outlives_and_detaching_restores() {
    real_time(|| {
        let _alone = alone();
        if !able() {
            return;
        }
        // Others' private names come and go.
        let plain = |all: &str| all.split_whitespace().filter(|n| !n.starts_with("cca.")).map(String::from).collect();
        let controls = || fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap();
        let before: BTreeSet<_> = plain(&controls());
        assert!(attach::status().unwrap().is_none(), "something is attached: ccarena kernel detach");
        assert!(matches!(attach::detach(), Err(KernelError::NotAttached(_))));
        assert!(matches!(Datapath::attached(), Err(KernelError::NotAttached(_))));

        let _detached = Detached;
        let options = Options { option: TcpOption::Cgroup(checks::cgroup_mount().unwrap()), ..Options::default() };
        let status = attach::attach(&options).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(status.names, ["ccarena", "ewtcp", "multcp", "wcc_ai", "wcc_md"]);
        assert!(status.option && status.age < Duration::from_secs(10));
        assert!(status.names.iter().all(|name| controls().contains(name)));
        assert!(matches!(attach::attach(&options), Err(KernelError::AlreadyAttached(_))));
        let path = Datapath::attached().unwrap();
        let ours = loaded_by("self");
        assert_eq!(path.congestion_control("vegas"), "ccarena");
        path.set_weight(Key::Mark(3), Some(2.0)).unwrap();
        let ten = Answer { window_packets: 10, base: BASE_HOLD, desired_kbps: 7000, ..Answer::default() };
        let told = transfer(path, 0, |stream| write_for(stream, Duration::from_millis(500)), |_| Some(ten));
        let held: Vec<_> = told.reports().filter(|e| e.answer_sequence > 3).collect();
        assert!(held.len() > 10);
        assert!(held.iter().all(|e| e.window_packets == 10), "{:?}", held.iter().find(|e| e.window_packets != 10));
        // The option acts on all sockets of the cgroup, here the root of all.
        assert!(held.iter().any(|e| e.advertised_kbps == 7000));

        attach::detach().unwrap();
        assert!(attach::status().unwrap().is_none());
        assert!(!std::path::Path::new(attach::PINS).exists());
        assert_gone(&ours);
        assert_eq!(plain(&controls()), before);
    });
}
