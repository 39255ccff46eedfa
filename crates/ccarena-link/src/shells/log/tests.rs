use super::*;

use std::sync::atomic::{AtomicUsize, Ordering};

/// A file on a disk with room for so many bytes.
struct Disk(Arc<Mutex<Vec<u8>>>, usize, Arc<AtomicUsize>);

impl Write for Disk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.2.fetch_add(1, Ordering::Relaxed);
        let mut written = self.0.lock().unwrap();
        if written.len() + bytes.len() > self.1 {
            return Err(io::Error::from(io::ErrorKind::StorageFull));
        }
        written.extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Written {
    bytes: Arc<Mutex<Vec<u8>>>,
    attempts: Arc<AtomicUsize>,
}

fn log(room: usize, trace_ms: &[u32], once: bool) -> (Log, Written) {
    let trace = Trace::from_ms(trace_ms, "test").unwrap();
    let (bytes, attempts) = (Arc::new(Mutex::new(Vec::new())), Arc::default());
    let out = Out {
        file: Box::new(Disk(bytes.clone(), room, Arc::clone(&attempts))),
        path: "test.log".into(),
        failed: false,
        schedule: Schedule { trace, once, pass_ms: 0, index: 0 },
        spare_bytes: 0,
        spare_ms: 0,
    };
    (Log { events: Events::default(), out, mahimahi: true }, Written { bytes, attempts })
}

fn head() -> Head<'static> {
    let (trace, queue) = (Path::new("x.up"), "droptail [packets=2]");
    Head { name: "Uplink", trace, command_line: "'mm-link' 'x.up'", queue, enclosing: "" }
}

fn at(ms: u64) -> Time {
    Time(ms * 1_000_000)
}

fn packet(bytes: usize, arrival_ms: u64) -> Datagram {
    let mut packet = Datagram::copy_of(&vec![0; bytes]);
    packet.arrive(at(arrival_ms));
    packet
}

#[test]
fn a_log_reads_as_mahimahis() {
    let (log, written) = log(usize::MAX, &[2, 4, 4, 6], false);
    let mut observer = observers([Some(&log)].into_iter()).unwrap();
    observer.arrival(0, at(3), &packet(1500, 3));
    observer.arrival(0, at(3), &packet(1000, 3));
    observer.dropped(0, at(3), 1, 1500, false);
    observer.dropped(0, at(4), 1, 1500, true);
    observer.departure(0, at(4), &packet(1500, 3));
    observer.departure(0, at(4), &packet(1000, 3));
    let writing = log.write(&head(), 1_700_000_000_000, || Dur::from_millis(9)).unwrap();
    assert!(writing.finish());
    let bytes = written.bytes.lock().unwrap().clone();
    let text = String::from_utf8(bytes.clone()).unwrap();
    let expected = "\
# mahimahi mm-link (Uplink) [x.up] > test.log
# command line: 'mm-link' 'x.up'
# queue: droptail [packets=2]
# init timestamp: 1700000000000
# base timestamp: 0
2 # 1504
3 + 1504
3 + 1004
3 d 1 1504
4 # 1504
4 - 1504 1
4 # 1504
4 - 1004 1
6 # 1504
8 # 1504
";
    assert_eq!(text, expected, "the trace repeats after 6 ms; late drops of mahimahi's queues are not logged");
    let read = LinkLog::read(&bytes, "test.log").unwrap();
    assert_eq!((read.comments.len(), read.events.len(), read.base_timestamp_ms), (4, 10, 0));
}

#[test]
fn one_pass_has_one_pass_of_opportunities() {
    let (log, written) = log(usize::MAX, &[1, 2], true);
    assert!(log.write(&head(), 0, || Dur::from_millis(1000)).unwrap().finish());
    let bytes = written.bytes.lock().unwrap().clone();
    assert_eq!(LinkLog::read(&bytes, "test.log").unwrap().events.len(), 2);
}

#[test]
fn a_full_disk_ends_the_log_alone() {
    let (log, written) = log(300, &[1], false);
    let mut observer = observers([Some(&log)].into_iter()).unwrap();
    for ms in 0..1000 {
        observer.arrival(0, at(ms), &packet(100, ms));
    }
    let writing = log.write(&head(), 0, || Dur::from_millis(5000)).unwrap();
    assert!(!writing.finish());
    let length = written.bytes.lock().unwrap().len();
    assert!(length > 150 && length <= 300, "what fits is there: {length}");
    let lines = written.bytes.lock().unwrap().iter().filter(|&&b| b == b'\n').count();
    assert!(written.attempts.load(Ordering::Relaxed) < 20 * lines, "it is not tried again");
}
