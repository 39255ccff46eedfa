//! What users, crashes and other versions can do to the bridge: not much. Takes root.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that fails panics; clippy.toml exempts test functions, not helpers"
)]
#![allow(
    unsafe_code,
    clippy::undocumented_unsafe_blocks,
    reason = "system calls on numbers and values that outlive them"
)]

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use ccarena_cc::policy::kernel::raw;
use ccarena_kernel::intf::{
    BASE_CUBIC, BASE_HOLD, EVENT_CLOSED, EVENT_OPENED, EVENT_REPORT, FLAG_ASKED, FLAG_FALLBACK, FLAG_PERIOD, FLAG_QUIET,
};
use ccarena_kernel::serve::{Served, Service, ServiceError};
use ccarena_kernel::{Answer, Datapath, Event, KernelError, Key, Options, TcpOption, attach, checks};
use ccarena_link::namespace::Namespace;
use common::{Unconnected, able, clock, in_namespace};
use libbpf_rs::{MapCore as _, MapFlags, MapHandle, MapType, query};

const NOBODY: u32 = 65534;
const PATIENCE: Duration = Duration::from_secs(20);

fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Under names of this test's own.
fn load(test: &str, more: impl FnOnce(&mut Options)) -> Datapath {
    let suffix = format!("{test}{}", std::process::id() % 1000);
    let mut options = Options { suffix, wcc: false, ..Options::default() };
    more(&mut options);
    Datapath::load(&options).unwrap_or_else(|e| panic!("{e}"))
}

/// Runs `work` as user `id` without privileges, in the calling thread's namespace.
fn as_user<T: Send>(id: u32, work: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let thread = scope.spawn(|| {
            // The system call, unlike libc's function, changes the calling thread alone.
            assert_eq!(unsafe { libc::syscall(libc::SYS_setresuid, -1, id, -1) }, 0);
            work()
        });
        thread.join().unwrap()
    })
}

/// What the kernel says to `name` for TCP_CONGESTION.
fn choose(socket: &impl AsRawFd, name: &str) -> Result<(), i32> {
    let (value, length) = (name.as_ptr().cast(), name.len() as u32);
    match unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_TCP, libc::TCP_CONGESTION, value, length) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error().raw_os_error().unwrap()),
    }
}

/// The events that wait.
fn events(path: &Datapath) -> Vec<Event> {
    let mut all = Vec::new();
    path.poll(Duration::ZERO, |event| all.push(*event)).unwrap();
    all
}

fn cookies<'a>(events: impl IntoIterator<Item = &'a Event>) -> BTreeSet<u64> {
    events.into_iter().map(|event| event.cookie).collect()
}

/// A connection over the loopback, and the end that reads.
fn connection(congestion_control: &str) -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let socket = Unconnected::new(congestion_control);
    // Later the socket's number would be one of ours.
    socket.cookie();
    let sender = socket.connect(listener.local_addr().unwrap());
    (sender, listener.accept().unwrap().0)
}

/// Sends `bytes` and reads them at the other end.
fn pass((sender, receiver): &mut (TcpStream, TcpStream), bytes: usize) {
    let (data, mut buffer) = (vec![0; 16_384], vec![0; 16_384]);
    for _ in 0..bytes.div_ceil(data.len()) {
        sender.write_all(&data).unwrap();
        receiver.read_exact(&mut buffer).unwrap();
    }
}

/// Waits until `done`.
fn wait(what: &str, mut done: impl FnMut() -> bool) {
    let give_up = clock() + PATIENCE;
    while !done() {
        assert!(clock() < give_up, "{what}: not after {PATIENCE:?}");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn only_those_with_the_privilege_choose_a_control_unless_asked_otherwise() {
    let _alone = alone();
    if !able() {
        return;
    }
    for unrestricted in [false, true] {
        let path = load("who", |options| (options.unrestricted, options.wcc) = (unrestricted, true));
        for scheme in ["vegas", "multcp"] {
            let name = path.congestion_control(scheme);
            let chosen = in_namespace(|| {
                let socket = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
                (
                    choose(&socket, name),
                    as_user(NOBODY, || choose(&socket, "reno").and_then(|()| choose(&socket, name))),
                )
            });
            let refused = if unrestricted { Ok(()) } else { Err(libc::EPERM) };
            assert_eq!(chosen, (Ok(()), refused), "{name}");
        }
    }
}

#[test]
fn a_user_beyond_the_quota_gets_cubic_and_others_are_served() {
    let _alone = alone();
    if !able() {
        return;
    }
    let path = load("quo", |options| (options.unrestricted, options.sockets_per_user) = (true, 3));
    let name = path.congestion_control("vegas");
    in_namespace(|| {
        let mut greedy: Vec<_> = (0..5).map(|_| as_user(NOBODY, || connection(name))).collect();
        let mut other = connection(name);
        for pair in greedy.iter_mut().chain([&mut other]) {
            pass(pair, 1_000_000);
        }
        assert_eq!(cookies(&events(&path)).len(), 3 + 1);
        assert_eq!(path.flows().unwrap().len(), 3 + 1);
        // What he gives back he may have again.
        drop(greedy.remove(0));
        wait("a place is free", || path.flows().unwrap().len() == 3);
        greedy.push(as_user(NOBODY, || connection(name)));
        assert_eq!(path.flows().unwrap().len(), 3 + 1);
    });
}

#[test]
fn a_user_who_toggles_does_not_fill_the_ring_of_all() {
    let _alone = alone();
    if !able() {
        return;
    }
    const PER_S: u32 = 50;
    let path = load("tog", |options| (options.unrestricted, options.changes_per_s) = (true, PER_S));
    let name = path.congestion_control("vegas");
    in_namespace(|| {
        let (sender, _receiver) = as_user(NOBODY, || connection(name));
        let begun = clock();
        for _ in 0..5000 {
            assert_eq!((choose(&sender, "reno"), choose(&sender, name)), (Ok(()), Ok(())));
        }
        let most = f64::from(PER_S) * (2.0 + (clock() - begun).as_secs_f64());
        let told = events(&path).len();
        assert!((told as f64) < most, "{told} of 10,000 changes were told, expected at most {most}");
        assert!(path.unreported().unwrap() > 5000);
        // Nobody else is the worse for it.
        let _other = connection(name);
        assert_eq!(events(&path).iter().map(|e| e.kind).collect::<Vec<_>>(), [EVENT_OPENED]);
    });
}

#[test]
fn reports_leave_room_in_the_ring_for_what_is_told_once() {
    let _alone = alone();
    if !able() {
        return;
    }
    let path = load("room", |options| options.ring_bytes = 4096);
    let name = path.congestion_control("vegas");
    in_namespace(|| {
        let mut first = connection(name);
        // At a report in each millisecond, far more than fit, however slow the machine is.
        let begun = clock();
        while path.unreported().unwrap() <= 10 && clock() - begun < Duration::from_secs(20) {
            pass(&mut first, 16_384);
        }
        let second = connection(name);
        let all = events(&path);
        assert!(
            all.iter().filter(|e| e.kind == EVENT_REPORT).count() > 3 && path.unreported().unwrap() > 10,
            "{all:?}"
        );
        assert_eq!(all.iter().filter(|e| e.kind == EVENT_OPENED).count(), 2, "{all:?}");
        drop(second);
    });
}

#[test]
fn reports_that_need_no_answer_wake_nobody_until_they_would_fill_the_ring() {
    let _alone = alone();
    if !able() {
        return;
    }
    const RING: usize = 1 << 16;
    let path = load("quiet", |options| options.ring_bytes = RING as u32);
    let name = path.congestion_control("hyvar");
    let wakes = || ccarena_link::clock::wait(&[path.ready_fd()], Some(0));
    // Periods of 1 ms, in all of which the decider is asked, or in none.
    let judge = |cookie: u64, sequence: u64, ask: f64| {
        let reasoner = [1.0, 0.5, 1.0, 1.0, 1.0, 1.0, 0.0, ask, ask, ask, ask, 0.0, 0.0].map(raw);
        path.answer(cookie, &Answer { sequence, base: BASE_CUBIC, reasoner, ..Answer::default() }).unwrap();
    };
    in_namespace(|| {
        let mut pair = connection(name);
        let mut send = || {
            thread::sleep(Duration::from_millis(2));
            pass(&mut pair, 16_384);
        };
        let cookie = events(&path)[0].cookie;
        judge(cookie, 1, 0.0);
        wait("the answer is in force", || {
            send();
            path.flows().unwrap()[0].answer_sequence == 1
        });
        wait("all is read", || {
            events(&path);
            !wakes()
        });
        (0..3).for_each(|_| send());
        assert!(!wakes(), "they are few");
        let told = events(&path);
        assert!(told.iter().filter(|e| e.flags & FLAG_PERIOD != 0).count() >= 2, "{told:?}");
        assert!(told.iter().all(|e| e.flags & FLAG_QUIET != 0 && e.flags & FLAG_ASKED == 0), "{told:?}");
        wait("the ring fills", || {
            send();
            wakes()
        });
        let waited = events(&path).len() * size_of::<Event>();
        assert!((RING / 8..RING * 3 / 4).contains(&waited) && path.unreported().unwrap() == 0, "{waited}");
        judge(cookie, 2, 1.0);
        wait("it is asked", || {
            send();
            wakes()
        });
        wait("a question", || {
            send();
            events(&path).iter().any(|e| e.flags & FLAG_ASKED != 0 && e.flags & FLAG_QUIET == 0)
        });
    });
}

#[test]
fn the_kernel_lists_the_flows_whose_events_were_lost() {
    let _alone = alone();
    if !able() {
        return;
    }
    let path = load("list", |options| options.changes_per_s = 1);
    let name = path.congestion_control("vegas");
    in_namespace(|| {
        let mut pairs: Vec<_> = (0..10).map(|_| connection(name)).collect();
        let told = cookies(events(&path).iter().filter(|e| e.kind == EVENT_OPENED));
        assert!(told.len() < 10, "{told:?}");
        pass(&mut pairs[9], 200_000);
        let listed = path.flows().unwrap();
        assert_eq!(cookies(&listed).len(), 10);
        let last = listed.iter().find(|e| e.local_port == pairs[9].0.local_addr().unwrap().port()).unwrap();
        assert!(last.delivered_bytes > 100_000 && last.mss > 500 && last.srtt_us > 0, "{last:?}");
        assert_eq!((last.family, last.remote_port), (libc::AF_INET as u16, pairs[9].0.peer_addr().unwrap().port()));
        drop(pairs);
        wait("they close", || path.flows().unwrap().is_empty());
    });
}

/// The map of this name that a datapath of this process has, the newest of all.
fn map(name: &str) -> MapHandle {
    let ids = query::MapInfoIter::default().filter(|m| m.name.to_string_lossy() == name).map(|m| m.id);
    MapHandle::from_map_id(ids.max().unwrap()).unwrap()
}

#[test]
fn an_answer_that_has_become_another_flows_is_not_put_in_force() {
    let _alone = alone();
    if !able() {
        return;
    }
    let path = load("reu", |_| ());
    let name = path.congestion_control("vegas");
    in_namespace(|| {
        let mut pair = connection(name);
        let cookie = common::get_u64(&pair.0, common::SO_COOKIE);
        let ten = Answer { sequence: 1, window_packets: 10, base: BASE_HOLD, ..Answer::default() };
        path.answer(cookie, &ten).unwrap();
        pass(&mut pair, 100_000);
        assert_eq!(path.flows().unwrap()[0].answer_sequence, 1);
        // As if its memory had been given to flow 77 with that flow's 2nd answer.
        let (answers, key) = (map("answers"), cookie.to_ne_bytes());
        let mut value = answers.lookup(&key, MapFlags::ANY).unwrap().unwrap();
        assert_eq!(value[..8], key);
        value[..8].copy_from_slice(&77_u64.to_ne_bytes());
        value[8..16].copy_from_slice(&2_u64.to_ne_bytes());
        answers.update(&key, &value, MapFlags::ANY).unwrap();
        pass(&mut pair, 100_000);
        assert_eq!(path.flows().unwrap()[0].answer_sequence, 1);
        path.answer(cookie, &Answer { sequence: 3, ..ten }).unwrap();
        pass(&mut pair, 100_000);
        assert_eq!(path.flows().unwrap()[0].answer_sequence, 3);
    });
}

#[test]
fn a_switch_in_mid_connection_tells_nothing_of_the_time_before() {
    let _alone = alone();
    if !able() {
        return;
    }
    let path = load("mid", |_| ());
    let name = path.congestion_control("vegas");
    in_namespace(|| {
        let mut pair = connection("cubic");
        pass(&mut pair, 20_000_000);
        assert_eq!(choose(&pair.0, name), Ok(()));
        pass(&mut pair, 1_000_000);
        drop(pair);
        wait("it closes", || path.flows().unwrap().is_empty());
        let all = events(&path);
        let last = all[all.len() - 1];
        assert_eq!(last.kind, EVENT_CLOSED);
        for total in [last.sent_bytes, last.delivered_bytes, last.snd_una, all.iter().map(|e| e.acked_bytes).sum()] {
            // What was in flight then is part of it.
            assert!((990_000..3_000_000).contains(&total), "{total}: {last:?}");
        }
    });
}

#[test]
fn a_weight_by_cookie_ends_with_its_socket() {
    let _alone = alone();
    if !able() {
        return;
    }
    let path = load("wei", |options| options.wcc = true);
    let name = path.congestion_control("wcc-ai");
    in_namespace(|| {
        let pair = connection(name);
        path.set_weight(Key::Cookie(common::get_u64(&pair.0, common::SO_COOKIE)), Some(3.0)).unwrap();
        path.set_weight(Key::Mark(9), Some(3.0)).unwrap();
        let weights = map("weights");
        assert_eq!(weights.keys().count(), 2);
        drop(pair);
        wait("the socket's weight goes, the mark's stays", || weights.keys().count() == 1);
    });
}

/// Attached to the whole machine until dropped, also by a failing test.
struct Attached;

impl Attached {
    fn new(more: impl FnOnce(&mut Options)) -> Self {
        let mut options = Options { wcc: false, ..Options::default() };
        more(&mut options);
        attach::attach(&options).unwrap_or_else(|e| panic!("{e}"));
        Self
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        let _ = attach::detach();
    }
}

/// A bridge daemon in a thread until told to stop.
struct TestDaemon {
    stop: UnixStream,
    thread: thread::JoinHandle<Result<Served, ServiceError>>,
}

impl TestDaemon {
    fn start() -> Self {
        let service =
            Service { scheme: "vegas".into(), spec: None, config: ccarena_cc::Config::default(), policy: None };
        let (stop, stopped) = UnixStream::pair().unwrap();
        let thread = thread::spawn(move || service.run(&[stopped.as_raw_fd()]));
        Self { stop, thread }
    }

    fn stop(self) -> Served {
        drop(self.stop);
        self.thread.join().unwrap().unwrap_or_else(|e| panic!("{e}"))
    }
}

/// How many sockets a daemon's answers drive now.
fn driven() -> usize {
    let flows = attach::flows().unwrap();
    flows.iter().filter(|e| e.answer_sequence > 0 && e.flags & FLAG_FALLBACK == 0).count()
}

/// Keeps all pairs going until so many of them are driven.
fn wait_driven(pairs: &mut [(TcpStream, TcpStream)], number: usize) {
    wait(&format!("{number} sockets are driven"), || {
        pairs.iter_mut().for_each(|pair| pass(pair, 16_384));
        driven() == number
    });
}

#[test]
fn a_daemon_outlives_more_sockets_than_it_can_answer() {
    let _alone = alone();
    if !able() {
        return;
    }
    let _attached = Attached::new(|options| options.sockets = 4);
    let daemon = TestDaemon::start();
    in_namespace(|| {
        let mut pairs: Vec<_> = (0..10).map(|_| connection("ccarena")).collect();
        pairs.iter_mut().for_each(|pair| pass(pair, 200_000));
        wait_driven(&mut pairs, 4);
        // Those that got no place go on as CUBIC, and a place that becomes free is taken.
        drop(pairs);
        wait("they close", || attach::flows().unwrap().is_empty());
        wait_driven(&mut [connection("ccarena")], 1);
    });
    let served = daemon.stop();
    assert!(served.refused > 0 && served.sockets >= 11, "{served:?}");
}

#[test]
fn a_daemon_takes_up_the_sockets_that_live_and_those_it_was_not_told_of() {
    let _alone = alone();
    if !able() {
        return;
    }
    // Most openings go unreported, too.
    let _attached = Attached::new(|options| options.changes_per_s = 2);
    in_namespace(|| {
        let mut pairs: Vec<_> = (0..8).map(|_| connection("ccarena")).collect();
        pairs.iter_mut().for_each(|pair| pass(pair, 200_000));
        for _ in 0..2 {
            assert_eq!(driven(), 0);
            let daemon = TestDaemon::start();
            wait_driven(&mut pairs, 8);
            assert_eq!(daemon.stop().refused, 0);
            // Without it, CUBIC.
            wait_driven(&mut pairs, 0);
        }
        // One that says nothing, and of which nothing is told, is found all the same.
        let daemon = TestDaemon::start();
        wait_driven(&mut pairs, 8);
        let idle: Vec<_> = (0..8).map(|_| connection("ccarena")).collect();
        wait("idle sockets have answers waiting", || map("answers").keys().count() == 16);
        drop(idle);
        wait("and lose them", || map("answers").keys().count() == 8);
        daemon.stop();
    });
}

#[test]
fn a_second_daemon_and_one_of_another_version_are_refused() {
    let _alone = alone();
    if !able() {
        return;
    }
    let _attached = Attached::new(|_| ());
    let first = Datapath::attached().unwrap();
    assert!(matches!(Datapath::attached(), Err(KernelError::SecondDaemon)));
    drop(first);
    drop(Datapath::attached().unwrap());

    // Another number in place of the pinned one.
    let config = Path::new(attach::PINS).join("maps/config");
    let options = libbpf_rs::libbpf_sys::bpf_map_create_opts {
        sz: size_of::<libbpf_rs::libbpf_sys::bpf_map_create_opts>() as u64,
        ..Default::default()
    };
    let mut other = MapHandle::create(MapType::Array, Some("other"), 4, 128, 1, &options).unwrap();
    let mut value = [0; 128];
    value[..8].copy_from_slice(&9999_u64.to_ne_bytes());
    other.update(&0_u32.to_ne_bytes(), &value, MapFlags::ANY).unwrap();
    fs::remove_file(&config).unwrap();
    other.pin(&config).unwrap();
    assert!(matches!(Datapath::attached(), Err(KernelError::OtherVersion)));
    assert!(matches!(attach::set_weight(Key::Default, None), Err(KernelError::OtherVersion)));
    assert!(matches!(attach::attach(&Options::default()), Err(KernelError::AlreadyAttached(_))));
}

#[test]
fn a_daemon_notices_that_it_is_attached_anew() {
    let _alone = alone();
    if !able() {
        return;
    }
    let attached = Attached::new(|_| ());
    let daemon = TestDaemon::start();
    in_namespace(|| {
        let mut old = [connection("ccarena")];
        wait_driven(&mut old, 1);
        drop(attached);
        assert!(!Path::new(attach::PINS).exists(), "its folder does not wait for the daemon");
        let _attached = Attached::new(|_| ());
        wait_driven(&mut [connection("ccarena")], 1);
        pass(&mut old[0], 1_000_000);
    });
    assert!(daemon.stop().sockets >= 2);
}

/// The ids of all programs of the bridge.
fn programs() -> BTreeSet<u32> {
    let ours = |name: &str| name.starts_with("bridge_");
    query::ProgInfoIter::default().filter(|p| ours(&p.name.to_string_lossy())).map(|p| p.id).collect()
}

#[test]
fn detaching_restores_the_default_of_every_namespace_and_leaves_no_program() {
    const DEFAULT: &str = "/proc/sys/net/ipv4/tcp_congestion_control";
    let _alone = alone();
    if !able() {
        return;
    }
    let machine = Namespace::current().unwrap();
    let (before, others) = (fs::read_to_string(DEFAULT).unwrap(), programs());
    let attached = Attached::new(|options| options.unrestricted = true);
    let ours: BTreeSet<u32> = programs().difference(&others).copied().collect();
    assert!(!ours.is_empty());
    in_namespace(|| {
        fs::write(DEFAULT, "ccarena").unwrap();
        machine.run(|| fs::write(DEFAULT, "ccarena").unwrap()).unwrap();
        drop(attached);
        assert_eq!(machine.run(|| fs::read_to_string(DEFAULT).unwrap()).unwrap(), before);
        assert_eq!(fs::read_to_string(DEFAULT).unwrap(), before);
        // The kernel frees what nobody holds a little later.
        wait("the programs go", || programs().is_disjoint(&ours));
    });
}

#[test]
fn an_attacher_that_was_killed_is_no_hindrance() {
    let _alone = alone();
    if !able() {
        return;
    }
    // What it leaves at the worst: a mounted file system with some pins, and no sign of being whole.
    let attached = Attached::new(|_| ());
    fs::remove_dir(Path::new(attach::PINS).join("attached")).unwrap();
    let _again = Attached::new(|_| ());
    in_namespace(|| pass(&mut connection("ccarena"), 100_000));
    drop(attached);
    assert!(attach::status().unwrap().is_none());
}

#[test]
fn the_option_is_off_unless_asked_for_and_keeps_to_its_cgroup() {
    let _alone = alone();
    if !able() {
        return;
    }
    let root = checks::cgroup_mount().unwrap();
    let group = root.join(format!("ccarena-test-{}", std::process::id()));
    fs::create_dir(&group).unwrap();
    let elsewhere = TcpOption::Cgroup(group.clone());
    for option in [TcpOption::Off, elsewhere, TcpOption::Cgroup(root.clone())] {
        let everywhere = option == TcpOption::Cgroup(root.clone());
        let _attached = Attached::new(|options| options.option = option.clone());
        let path = Datapath::attached().unwrap();
        in_namespace(|| {
            let mut pair = connection("ccarena");
            path.set_desired(common::get_u64(&pair.0, common::SO_COOKIE), 48_000).unwrap();
            pass(&mut pair, 2_000_000);
        });
        let advertised: BTreeSet<u32> = events(&path).iter().map(|e| e.advertised_kbps).collect();
        assert_eq!(advertised.contains(&48_000), everywhere, "{option:?}: {advertised:?}");
    }
    fs::remove_dir(&group).unwrap();
    let no_cgroup = Options { option: TcpOption::Cgroup("/tmp".into()), wcc: false, ..Options::default() };
    assert!(matches!(attach::attach(&no_cgroup), Err(KernelError::NoCgroup(_))));
    assert!(attach::status().unwrap().is_none());
}

#[test]
fn attaching_and_detaching_at_once_take_turns() {
    let _alone = alone();
    if !able() {
        return;
    }
    let options = Options { wcc: false, ..Options::default() };
    thread::scope(|scope| {
        for attaches in [true, false, true, false] {
            let options = &options;
            scope.spawn(move || {
                for _ in 0..25 {
                    let done = if attaches { attach::attach(options).map(drop) } else { attach::detach() };
                    let expected = matches!(
                        done,
                        Ok(())
                            | Err(KernelError::AlreadyAttached(_)
                                | KernelError::NotAttached(_)
                                | KernelError::NameTaken(_))
                    );
                    assert!(expected, "{done:?}");
                }
            });
        }
    });
    let _ = attach::detach();
    assert!(!Path::new(attach::PINS).exists());
}
