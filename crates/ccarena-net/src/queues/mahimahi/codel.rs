//! Mahimahi's CoDel, bug for bug (`src/packet/codel_packet_queue.cc`).
//!
//! It means to be Linux 4.4's, and differs in this: where a packet is to be dropped, the packets behind it are taken out and
//! lost instead, since a second variable `r` shadows the first, whose packet is delivered; the first drop may come at the
//! end of the interval and not only after it; gaps between drops are the square root's without Newton steps, rounded down
//! to whole milliseconds.

use ccarena_cc::types::Time;

use super::super::stamped::Stamped;
use super::super::{Item, Queue, QueueSpec, Setting};
use super::{Fifo, PACKET_SIZE, timestamp, whole_ms};

/// `CODELPacketQueue`. Times are in ms.
#[derive(Debug)]
pub struct CoDel<T> {
    queue: Fifo<T>,
    target: u32,
    interval: u32,
    /// Zero: not above.
    first_above_time: u64,
    drop_next: u64,
    count: u32,
    lastcount: u32,
    dropping: bool,
}

impl<T: Item + Send + Sync> CoDel<T> {
    /// An empty queue as `spec` says.
    pub fn new(spec: &QueueSpec, setting: &Setting) -> Self {
        Self {
            queue: Fifo::new(spec, setting),
            target: whole_ms(spec, "target_ms"),
            interval: whole_ms(spec, "interval_ms"),
            first_above_time: 0,
            drop_next: 0,
            count: 0,
            lastcount: 0,
            dropping: false,
        }
    }

    /// The head and whether it is `ok_to_drop`.
    fn dodequeue(&mut self, now: u64) -> Option<(T, bool)> {
        let Stamped { item, arrival } = self.queue.fifo.pop()?;
        let sojourn = now.saturating_sub(timestamp(arrival));
        let size_bytes = self.queue.size_bytes();
        if self.queue.fifo.len_packets() == 0 || sojourn < self.target.into() || size_bytes <= PACKET_SIZE {
            self.first_above_time = 0;
            return Some((item, false));
        }
        if self.first_above_time == 0 {
            self.first_above_time = now + u64::from(self.interval);
            return Some((item, false));
        }
        Some((item, now >= self.first_above_time))
    }

    fn control_law(&self, t: u64) -> u64 {
        t + (f64::from(self.interval) / f64::from(self.count).sqrt()) as u64
    }
}

impl<T: Item + Send + Sync> Queue<T> for CoDel<T> {
    fn enqueue(&mut self, item: T, now: Time, drops: &mut Vec<T>) {
        if self.queue.fits(&item) {
            self.queue.fifo.push(Stamped { item, arrival: now });
        } else {
            drops.push(item);
        }
    }

    fn dequeue(&mut self, now: Time, drops: &mut Vec<T>) -> Option<T> {
        let now = timestamp(now);
        let (delivered, ok_to_drop) = self.dodequeue(now)?;
        if self.dropping {
            self.dropping = ok_to_drop;
            while self.dropping && now >= self.drop_next {
                let Some((lost, ok_to_drop)) = self.dodequeue(now) else { break };
                drops.push(lost);
                self.count = self.count.wrapping_add(1);
                if ok_to_drop {
                    self.drop_next = self.control_law(self.drop_next);
                } else {
                    self.dropping = false;
                }
            }
        } else if ok_to_drop {
            drops.extend(self.dodequeue(now).map(|(lost, _)| lost));
            self.dropping = true;
            let delta = self.count.wrapping_sub(self.lastcount);
            let recent = now.wrapping_sub(self.drop_next) < 16 * u64::from(self.interval);
            self.count = if delta > 1 && recent { delta } else { 1 };
            self.drop_next = self.control_law(now);
            self.lastcount = self.count;
        }
        Some(delivered)
    }

    fn head_bytes(&self) -> Option<u32> {
        self.queue.fifo.head_bytes()
    }

    fn len_packets(&self) -> usize {
        self.queue.fifo.len_packets()
    }

    fn len_bytes(&self) -> u64 {
        self.queue.fifo.len_bytes()
    }
}
