//! Mahimahi's PIE, bug for bug (`src/packet/pie_packet_queue.cc`); it follows draft-ietf-aqm-pie-09
//! and Linux 4.4.
//!
//! It differs from RFC 8033 and our [`Pie`](super::super::Pie):
//!
//! - α and β, which are per second, multiply delays in milliseconds. With the divisors 128, 32 and
//!   16 instead of 8, 2 and 1, every step is 62.5 times as large. Under a steady overload the delay is
//!   about twice the target.
//! - The probability is updated every 30 ms; delays and rates are whole milliseconds and bytes per
//!   ms.
//! - There is no burst allowance before the queue has once been busy and calm again. Then both
//!   updates and measurements consume it.
//! - There is no derandomisation, no ECN and no cap on steps.
//!
//! The random numbers are ours: mahimahi seeds its own from the machine.

use ccarena_cc::types::Time;

use super::super::stamped::Stamped;
use super::super::{Item, Queue, QueueSpec, Setting};
use super::{Fifo, PACKET_SIZE, TUN_HEADER_BYTES, timestamp, whole_ms};
use crate::rng::Stream;

const ALPHA: f64 = 0.125;
const BETA: f64 = 1.25;
const T_UPDATE: u32 = 30;
const DQ_THRESHOLD: u32 = 16_384;

/// `PIEPacketQueue`. Times are in ms, the rate in bytes per ms.
#[derive(Debug)]
pub struct Pie<T> {
    queue: Fifo<T>,
    qdelay_ref: u32,
    max_burst: u32,
    stream: Stream,
    vars: Vars,
    last_update: u64,
}

/// Variables that change with time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Vars {
    drop_prob: f64,
    burst_allowance: u32,
    qdelay_old: u32,
    current_qdelay: u32,
    /// Bytes of the measurement; None is `DQ_COUNT_INVALID`.
    dq_count: Option<u32>,
    dq_tstamp: u64,
    avg_dq_rate: u32,
}

impl<T: Item + Send + Sync> Pie<T> {
    /// An empty queue as `spec` says.
    pub fn new(spec: &QueueSpec, setting: &Setting) -> Self {
        Self {
            queue: Fifo::new(spec, setting),
            qdelay_ref: whole_ms(spec, "target_ms"),
            max_burst: whole_ms(spec, "burst_ms"),
            stream: setting.stream.clone(),
            vars: Vars::default(),
            last_update: 0,
        }
    }

    /// True if an arrival is to be dropped.
    fn drop_early(&mut self) -> bool {
        let v = &self.vars;
        let calm = v.qdelay_old < self.qdelay_ref / 2 && v.drop_prob < 0.2;
        if v.burst_allowance > 0 || calm || self.queue.size_bytes() < 2 * PACKET_SIZE {
            return false;
        }
        self.stream.chance(self.vars.drop_prob)
    }

    /// Makes up for the updates that a timer would have made since the last packet.
    fn calculate_drop_prob(&mut self, now: u64) {
        while now.saturating_sub(self.last_update) > T_UPDATE.into() {
            let before = self.vars;
            self.update();
            self.last_update += u64::from(T_UPDATE);
            if self.vars == before {
                // So are all further updates: the queue has not changed.
                let missed = (now - self.last_update).saturating_sub(1) / u64::from(T_UPDATE);
                self.last_update += missed * u64::from(T_UPDATE);
            }
        }
    }

    fn update(&mut self) {
        let size_bytes = u32::try_from(self.queue.size_bytes()).unwrap_or(u32::MAX);
        let v = &mut self.vars;
        v.qdelay_old = v.current_qdelay;
        v.current_qdelay = size_bytes.checked_div(v.avg_dq_rate).unwrap_or(0);
        let mut update_prob = v.current_qdelay != 0 || size_bytes == 0;
        let difference = |a: u32, b: u32| f64::from(a) - f64::from(b);
        let p =
            ALPHA * difference(v.current_qdelay, self.qdelay_ref) + BETA * difference(v.current_qdelay, v.qdelay_old);
        v.drop_prob += match v.drop_prob {
            low if low < 0.01 => p / 128.0,
            middle if middle < 0.1 => p / 32.0,
            _ => p / 16.0,
        };
        if v.drop_prob < 0.0 {
            v.drop_prob = 0.0;
        } else if v.drop_prob > 1.0 {
            v.drop_prob = 1.0;
            update_prob = false;
        }
        if v.current_qdelay == 0 && v.qdelay_old == 0 && update_prob {
            v.drop_prob *= 0.98;
        }
        v.burst_allowance = v.burst_allowance.saturating_sub(T_UPDATE);
        let calm = v.current_qdelay < self.qdelay_ref / 2 && v.qdelay_old < self.qdelay_ref / 2;
        if v.drop_prob <= 0.0 && calm && v.avg_dq_rate > 0 {
            v.dq_count = None;
            v.avg_dq_rate = 0;
            v.burst_allowance = self.max_burst;
        }
    }

    fn estimate_rate(&mut self, bytes: u32, now: u64) {
        let long = self.queue.size_bytes() >= DQ_THRESHOLD.into();
        let v = &mut self.vars;
        if long && v.dq_count.is_none() {
            v.dq_tstamp = now;
            v.dq_count = Some(0);
        }
        let Some(count) = &mut v.dq_count else { return };
        *count = count.saturating_add(bytes);
        let dtime = u32::try_from(now.saturating_sub(v.dq_tstamp)).unwrap_or(u32::MAX);
        if *count <= DQ_THRESHOLD || dtime == 0 {
            return;
        }
        let sample = *count / dtime;
        v.avg_dq_rate = if v.avg_dq_rate == 0 { sample } else { v.avg_dq_rate - (v.avg_dq_rate >> 3) + (sample >> 3) };
        v.dq_count = long.then_some(0);
        if long {
            v.dq_tstamp = now;
        }
        v.burst_allowance = v.burst_allowance.saturating_sub(dtime);
    }
}

impl<T: Item + Send + Sync> Queue<T> for Pie<T> {
    fn enqueue(&mut self, item: T, now: Time, drops: &mut Vec<T>) {
        self.calculate_drop_prob(timestamp(now));
        if !self.queue.fits(&item) || self.drop_early() {
            drops.push(item);
        } else {
            self.queue.fifo.push(Stamped { item, arrival: now });
        }
    }

    fn dequeue(&mut self, now: Time, _drops: &mut Vec<T>) -> Option<T> {
        let now = timestamp(now);
        let Stamped { item, .. } = self.queue.fifo.pop()?;
        self.estimate_rate(item.bytes() + TUN_HEADER_BYTES, now);
        self.calculate_drop_prob(now);
        Some(item)
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
