//! The machine's clock: CLOCK_MONOTONIC, the clock of kernel TCP's and BPF's `ktime_get_ns` too.

use std::os::fd::RawFd;

use ccarena_cc::types::Dur;

/// Nanoseconds since the machine booted, suspension not counted.
#[must_use]
pub fn now_ns() -> u64 {
    read(libc::CLOCK_MONOTONIC)
}

/// The time at `ns` of [`now_ns`], in ms since 1970, by the clock that people set.
#[must_use]
pub fn since_1970_ms(ns: u64) -> u64 {
    (read(libc::CLOCK_REALTIME) + ns).saturating_sub(now_ns()) / 1_000_000
}

/// Waits until one of `fds` can be read, or for `timeout_ns` (none is for ever). Whether one can.
///
/// The kernel may add the thread's timer slack, which [`precise_timers`] makes 1 ns.
pub fn wait(fds: &[RawFd], timeout_ns: Option<u64>) -> bool {
    const MOST: usize = 4;
    let mut polled = [libc::pollfd { fd: -1, events: libc::POLLIN, revents: 0 }; MOST];
    for (slot, &fd) in polled.iter_mut().zip(fds) {
        slot.fd = fd;
    }
    let timeout = timeout_ns
        .map(|ns| libc::timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as i64 });
    let timeout = timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    #[allow(unsafe_code, reason = "ppoll is the wait with a timeout in nanoseconds")]
    // SAFETY: the array holds MOST entries, negative descriptors are skipped, and `timeout` points to a timespec or is null.
    let ready = unsafe { libc::ppoll(polled.as_mut_ptr(), MOST as libc::nfds_t, timeout, std::ptr::null()) };
    ready > 0
}

/// Makes timers of the calling thread exact: by default the kernel may be 50 µs late to wake several threads at once.
pub fn precise_timers() {
    #[allow(unsafe_code, reason = "prctl has no safe wrapper in the standard library")]
    // SAFETY: PR_SET_TIMERSLACK takes a number of nanoseconds and touches no memory of ours.
    unsafe {
        libc::prctl(libc::PR_SET_TIMERSLACK, 1_u64, 0, 0, 0);
    }
}

/// CPU time of the calling thread so far.
#[must_use]
pub fn thread_cpu() -> Dur {
    Dur(read(libc::CLOCK_THREAD_CPUTIME_ID))
}

fn read(clock: libc::clockid_t) -> u64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    #[allow(unsafe_code, reason = "the standard library's Instant does not give the clock's value")]
    // SAFETY: `t` is a timespec that the call fills; the clocks that are read here exist on every Linux.
    unsafe {
        libc::clock_gettime(clock, &mut t);
    }
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// Runs the calling thread before all ordinary ones when it has something to do, if the process may. Whether it does.
///
/// On a busy machine an ordinary thread waits for whole time slices: with two others computing on two cores, one packet in
/// a hundred was 3 to 9 ms late, and 0.3 ms with precedence.
pub fn take_precedence() -> bool {
    let lowest = libc::sched_param { sched_priority: 1 };
    #[allow(unsafe_code, reason = "the standard library does not choose schedulers")]
    // SAFETY: the call reads one sched_param; 0 is the calling thread.
    unsafe {
        libc::sched_setscheduler(0, libc::SCHED_FIFO, &lowest) == 0
    }
}
