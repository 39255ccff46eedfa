//! Wi-Fi: aggregates of packets, one per transmission opportunity, between which the station contends for the medium
//! (IEEE 802.11-2020: EDCA of 10.23.2, A-MPDU of 10.12; Høiland-Jørgensen et al., "Ending the Anomaly: Achieving Low
//! Latency and Airtime Fairness in WiFi", USENIX ATC 2017, whose model has the same terms).
//!
//! An opportunity begins after a wait: a uniform number of back-off slots, the time that other stations hold the medium,
//! and what is spent once per aggregate (AIFS, preamble, SIFS, Block Ack). An attempt fails with a probability; the next
//! one draws from a window about twice as wide, as after a collision. What has arrived when the transmission begins rides
//! on it, up to a number of packets and an airtime. Each packet leaves as its own frame ends, as in ns-3.
//!
//! Departures:
//! - A failed attempt costs what an opportunity costs without its frames: frames are protected by RTS and CTS.
//! - Frames of one aggregate do not fail alone. Loss that rate control leaves is part of the rate.
//! - After eight failures the back-off begins anew, and the aggregate is not dropped.
//! - An idle medium is contended for like a busy one.

use ccarena_cc::types::{Dur, Rate, Time};

use super::{Access, Description, FULL_BYTES, Param, Params, Refusal};
use crate::rng::{Stream, unit};
use crate::service::levels::{AnySource, Levels, bytes_between};

/// Attempts until the back-off begins anew (dot11ShortRetryLimit and one).
const ATTEMPTS: u32 = 8;

const fn param(name: &'static str, default: f64, min: f64, max: f64, doc: &'static str) -> Param {
    Param { name, default, min, max, doc }
}

/// Registry entry.
pub const ACCESS: Description = Description {
    name: "wifi",
    summary: "sends aggregates of packets, and contends for the medium before each (IEEE 802.11; ATC 2017)",
    rate: "the rate of frames on the air in Mbit/s",
    params: &[
        param("packets", 32.0, 1.0, 1024.0, "most packets of an aggregate; Block Ack windows hold 64, 256 or 1024"),
        param("airtime_us", 4000.0, 100.0, 5484.0, "longest aggregate in µs; 4000 in Linux drivers, aPPDUMaxTime is 5484"),
        param("overhead_us", 150.0, 0.0, 10_000.0, "time per opportunity without frames in µs: AIFS, preamble, SIFS, Block Ack"),
        param("slot_us", 9.0, 0.0, 50.0, "back-off slot in µs"),
        param("window", 15.0, 0.0, 1023.0, "least contention window in slots (CWmin)"),
        param("window_max", 1023.0, 0.0, 32_767.0, "largest contention window in slots (CWmax)"),
        param("busy_us", 0.0, 0.0, 1_000_000.0, "mean time that others hold the medium before an attempt in µs, exponential"),
        param("retry", 0.1, 0.0, 0.9, "probability that an attempt fails"),
        param("absent_every_s", 0.0, 0.0, 3600.0, "time with one absence in s (scans, channel changes, sleep); 0 is none"),
        param("absent_ms", 0.0, 0.0, 60_000.0, "length of an absence in ms"),
    ],
    check: |params| {
        let refuse = |param, expected| Err(Refusal { param, expected });
        let half_ms = params.get("absent_every_s") * 500.0;
        if params.get("absent_ms") > half_ms {
            return refuse("absent_ms", format!("at most half of absent_every_s, which is {half_ms} ms"));
        }
        if params.get("window_max") < params.get("window") {
            return refuse("window_max", format!("at least window, which is {}", params.get("window")));
        }
        Ok(())
    },
};

/// Service of a Wi-Fi station.
#[derive(Clone, Debug)]
pub struct Wifi {
    rates: Levels<AnySource>,
    packets: u32,
    airtime: Dur,
    contention: Contention,
    absences: Option<Absences>,
    /// Start of the newest aggregate's transmission, the end of its last frame, and its packets.
    begun: Time,
    ends: Time,
    aggregated: u32,
}

impl Wifi {
    pub(super) fn new(params: &Params, rates: Levels<AnySource>, mut stream: Stream) -> Self {
        let starts = Stream::keyed(stream.next_u64());
        let (every, length) = (Dur::from_secs_f64(params.get("absent_every_s")), params.millis("absent_ms"));
        Self {
            rates,
            packets: params.get("packets") as u32,
            airtime: micros(params, "airtime_us"),
            contention: Contention::new(params, stream),
            absences: (every > Dur::ZERO && length > Dur::ZERO).then_some(Absences { every, length, starts }),
            begun: Time::ZERO,
            ends: Time::ZERO,
            aggregated: 0,
        }
    }

    /// Contends from `from` on for an opportunity.
    #[inline(never)]
    fn contend(&mut self, from: Time) {
        let present = |t: Time| self.absences.as_ref().map_or(t, |absences| absences.end(t));
        self.begun = present(present(from) + self.contention.wait());
        (self.ends, self.aggregated) = (self.begun, 0);
    }

    /// Returns the rate at which full packets that always wait leave, in the long run, while frames have `rate`.
    fn effective(&self, rate: Rate) -> Rate {
        let frame = rate.time_for(FULL_BYTES.into());
        if frame == Dur::MAX {
            return Rate(0);
        }
        let packets = (self.airtime.0 / frame.0.max(1)).clamp(1, self.packets.into());
        Rate::of(packets * u64::from(FULL_BYTES), frame * packets + self.contention.mean)
    }
}

impl Access for Wifi {
    #[inline]
    fn departure(&mut self, arrival: Time, bytes: u32) -> Time {
        let rides = arrival <= self.begun && (1..self.packets).contains(&self.aggregated) && {
            self.ends + self.rates.serialisation(self.ends, bytes) <= self.begun + self.airtime
        };
        if !rides {
            self.contend(self.ends.max(arrival));
        }
        self.aggregated += 1;
        self.ends = self.rates.departure(self.ends, bytes);
        self.ends
    }

    fn rate(&mut self, now: Time) -> Rate {
        let away = self.absences.as_ref().is_some_and(|absences| absences.end(now) > now);
        let rate = self.rates.rate(now);
        if away { Rate(0) } else { self.effective(rate) }
    }

    fn capacity_bytes(&self, from: Time, to: Time) -> u64 {
        let absent = |t| self.absences.as_ref().map_or(Dur::ZERO, |absences| absences.until(t));
        bytes_between(&self.rates.source, from, to, |level, t| {
            let present = t.since(level.from) - (absent(t) - absent(level.from));
            self.effective(level.rate).bytes_in(present).0
        })
    }

    fn serialisation(&self, now: Time, bytes: u32) -> Dur {
        self.rates.serialisation(now, bytes)
    }
}

/// Contention for the medium.
#[derive(Clone, Debug)]
struct Contention {
    slot: Dur,
    window: u64,
    window_max: u64,
    busy_ns: f64,
    overhead: Dur,
    retry: f64,
    stream: Stream,
    /// Expectation of [`Self::wait`].
    mean: Dur,
}

impl Contention {
    fn new(params: &Params, stream: Stream) -> Self {
        let mut this = Self {
            slot: micros(params, "slot_us"),
            window: params.get("window") as u64,
            window_max: params.get("window_max") as u64,
            busy_ns: micros(params, "busy_us").0 as f64,
            overhead: micros(params, "overhead_us"),
            retry: params.get("retry"),
            stream,
            mean: Dur::ZERO,
        };
        this.mean = this.expected();
        this
    }

    /// Returns the contention window of attempt number `attempt`.
    fn window(&self, attempt: u32) -> u64 {
        (((self.window + 1) << (attempt % ATTEMPTS)) - 1).min(self.window_max)
    }

    /// Returns the time from when the station wants the medium to when its frames are on the air.
    fn wait(&mut self) -> Dur {
        let mut wait = Dur::ZERO;
        for attempt in 0.. {
            let slots = self.stream.below(self.window(attempt) + 1);
            let busy = if self.busy_ns > 0.0 { self.stream.exponential(self.busy_ns) as u64 } else { 0 };
            wait = wait + self.slot * slots + Dur(busy) + self.overhead;
            if !self.stream.chance(self.retry) {
                break;
            }
        }
        wait
    }

    fn expected(&self) -> Dur {
        let of_attempt = |attempt| {
            let backoff = self.slot.0 as f64 * self.window(attempt) as f64 / 2.0;
            backoff + self.busy_ns + self.overhead.0 as f64
        };
        // Time of one round of attempts, and of all rounds that follow with the same expectation.
        let round: f64 = (0..ATTEMPTS).map(|attempt| self.retry.powi(attempt as i32) * of_attempt(attempt)).sum();
        Dur((round / (1.0 - self.retry.powi(ATTEMPTS as i32))).round() as u64)
    }
}

/// Absences of one length, at a uniform time in each period.
#[derive(Clone, Debug)]
struct Absences {
    every: Dur,
    length: Dur,
    /// Start in each period, by the period's number.
    starts: Stream,
}

impl Absences {
    /// Returns the start of absence number `index`.
    fn start(&self, index: u64) -> Time {
        let late = unit(self.starts.at(index)) * (self.every - self.length).0 as f64;
        Time::ZERO + self.every * index + Dur(late as u64)
    }

    /// Returns when the station is there again: `t` if it is there then.
    fn end(&self, t: Time) -> Time {
        let start = self.start(t.0 / self.every.0);
        let end = start + self.length;
        match (start..end).contains(&t) {
            // The next absence may follow at once.
            true if end.0 / self.every.0 > t.0 / self.every.0 => self.end(end),
            true => end,
            false => t,
        }
    }

    /// Returns the time of absence before `t`.
    fn until(&self, t: Time) -> Dur {
        let index = t.0 / self.every.0;
        self.length * index + t.since(self.start(index)).min(self.length)
    }
}

fn micros(params: &Params, name: &str) -> Dur {
    Dur((params.get(name) * 1e3).round() as u64)
}
