//! A flow whose every event is checked before the controller gets it.

use ccarena_cc::{Bytes, Dur, Flow, FlowSetting, Host, MOST_WEIGHT, Rate, Requirement, Signal, Time};
use ccarena_wasm::abi::{self as layout, ACK_BYTES, Control, LOSS_BYTES, NEVER, SENT_BYTES};

use crate::code::Wrong;

/// Times are below this: 146 years.
pub(crate) const TIMES: u64 = 1 << 62;
/// Amounts and positions are below this: 72 petabytes.
const AMOUNTS: u64 = 1 << 56;
/// Rates are below this, in bit/s.
const RATES: f64 = 1e15;

/// Words of `cc_ack`.
pub type AckWords = [u64; ACK_BYTES / 8];
/// Words of `cc_loss`.
pub type LossWords = [u64; LOSS_BYTES / 8];
/// Words of `cc_sent`.
pub type SentWords = [u64; SENT_BYTES / 8];

type Result = std::result::Result<(), Wrong>;

/// A flow, and what its events have to agree with. A call that is refused changes nothing.
#[derive(Debug)]
pub struct Checked {
    flow: Flow,
    host: Host,
    now: u64,
    delivered: u64,
    /// Number that the next packet has at least.
    next_number: u64,
    /// Weights are above this.
    weight_above: f64,
    /// Rate that routers advertised last.
    advertised: Option<Rate>,
    panicked: bool,
    why: Option<Wrong>,
}

const fn range(ok: bool, field: &'static str, expected: &'static str) -> Result {
    if ok { Ok(()) } else { Err(Wrong::Range { field, expected }) }
}

/// Checks that no amount among `words` is out of range, all at once.
#[inline(always)]
fn amounts<const N: usize>(words: [u64; N], field: &'static str) -> Result {
    range(words.into_iter().fold(0, |all, word| all | word) < AMOUNTS, field, "amounts below 2^56 bytes")
}

#[inline(always)]
fn reserved(ored: u64, field: &'static str) -> Result {
    range(ored == 0, field, "zero in reserved fields and unknown flags")
}

impl Checked {
    /// The flow of a connection that begins at `now` on `host`, and takes weights above `weight_above`.
    #[must_use]
    pub const fn new(flow: Flow, host: Host, now: Time, weight_above: f64) -> Self {
        Self {
            flow,
            host,
            now: now.0,
            delivered: 0,
            next_number: 0,
            weight_above,
            advertised: None,
            panicked: false,
            why: None,
        }
    }

    /// Returns the flow.
    #[must_use]
    pub const fn flow(&self) -> &Flow {
        &self.flow
    }

    /// Returns why the last call that was refused did nothing.
    #[must_use]
    pub const fn why(&self) -> Option<&Wrong> {
        self.why.as_ref()
    }

    /// Ends the flow after a panic.
    pub const fn panicked(&mut self) {
        self.panicked = true;
        self.why = Some(Wrong::Panicked);
    }

    /// Answers of the controller: `cc_control`. One that has given up may send nothing.
    #[must_use]
    #[inline]
    pub fn control(&self) -> Control {
        if self.panicked {
            return Control { window_bytes: 0.0, pacing_bps: 0.0, threshold_bytes: 0.0, timer_ns: NEVER };
        }
        Control {
            window_bytes: self.flow.window().0 as f64,
            pacing_bps: self.flow.pacing_rate().map_or(0.0, |rate| rate.0.max(1) as f64),
            threshold_bytes: self.flow.slow_start_threshold().map_or(0.0, |bytes| bytes.0 as f64),
            timer_ns: self.flow.next_timer().0,
        }
    }

    /// Keeps the reason of a call that was refused before it came here.
    ///
    /// # Errors
    /// Always.
    pub fn refuse(&mut self, wrong: Wrong) -> Result {
        self.run(|_| Err(wrong))
    }

    /// Runs `call`, and keeps the reason if it is refused.
    #[inline(always)]
    fn run(&mut self, call: impl FnOnce(&mut Self) -> Result) -> Result {
        let done = if self.panicked { Err(Wrong::Panicked) } else { call(self) };
        if let Err(wrong) = done {
            self.why = Some(wrong);
        }
        done
    }

    /// An event at `now` takes place, unless it lies before the one before it, or the controller has given up.
    #[inline(always)]
    fn at(&mut self, now: u64) -> Result {
        range(now < TIMES, "now_ns", "a time below 2^62 ns")?;
        if now < self.now {
            return Err(Wrong::Time { now_ns: now, before_ns: self.now });
        }
        if self.flow.window().0 == 0 {
            return Err(Wrong::GaveUp);
        }
        self.now = now;
        Ok(())
    }

    const fn total(&self, delivered: u64) -> Result {
        if delivered < self.delivered {
            return Err(Wrong::Total { field: "delivered_bytes", got: delivered, least: self.delivered });
        }
        Ok(())
    }

    /// An acknowledgement: `cc_ack`.
    ///
    /// # Errors
    /// If the event contradicts those before it, has a number out of range, or the controller has given up.
    #[inline]
    pub fn on_ack(&mut self, words: &AckWords) -> Result {
        self.run(|checked| {
            let &[now, acked, rtt, min_rtt, srtt, rtt_var, before, after, delivered, lost, rest @ ..] = words;
            let [sampled, interval, prior, acked_to, sent_to, _, _, flags, unused @ ..] = rest;
            amounts([acked, before, after, delivered, lost, sampled, prior, acked_to, sent_to], "an amount of cc_ack")?;
            let durations = [if rtt == NEVER { 0 } else { rtt }, if min_rtt == NEVER { 0 } else { min_rtt }];
            let longest = durations[0] | durations[1] | srtt | rtt_var | interval;
            range(longest < TIMES, "a duration of cc_ack", "durations below 2^62 ns, or CC_NEVER for an unknown RTT")?;
            let known = u64::from(layout::flags::WINDOW_LIMITED | layout::flags::APP_LIMITED);
            reserved((flags & !known) | unused[0] | unused[1], "cc_ack")?;
            checked.total(delivered)?;
            let mut ack =
                layout::read_ack(words).ok_or(Wrong::Range { field: "recovery", expected: "CC_OPEN to CC_LOSS" })?;
            range(acked == 0 || ack.acked_packets > 0, "acked_packets", "at least 1, as acked_bytes is not zero")?;
            if sent_to < acked_to {
                return Err(Wrong::Total { field: "sent_to", got: sent_to, least: acked_to });
            }
            checked.at(now)?;
            checked.delivered = delivered;
            ack.signal = checked.advertised.map_or(Signal::None, Signal::Rate);
            checked.flow.on_ack(&ack);
            Ok(())
        })
    }

    /// Packets marked lost, or a congestion mark: `cc_loss`.
    ///
    /// # Errors
    /// As [`on_ack`](Self::on_ack).
    pub fn on_loss(&mut self, words: &LossWords) -> Result {
        self.run(|checked| {
            let loss = checked.loss(words)?;
            checked.flow.on_loss(&loss);
            Ok(())
        })
    }

    /// An expired retransmission timer: `cc_loss`.
    ///
    /// # Errors
    /// As [`on_ack`](Self::on_ack).
    pub fn on_timeout(&mut self, words: &LossWords) -> Result {
        self.run(|checked| {
            let loss = checked.loss(words)?;
            checked.flow.on_timeout(&loss);
            Ok(())
        })
    }

    fn loss(&mut self, words: &LossWords) -> std::result::Result<ccarena_cc::LossInfo, Wrong> {
        let &[now, lost, in_flight, delivered, sent_to, packets, unused @ ..] = words;
        amounts([lost, in_flight, delivered, sent_to], "an amount of cc_loss")?;
        let known = u64::from(layout::flags::NEW_EPISODE | layout::flags::MARKED);
        reserved(((packets >> 32) & !known) | unused[0] | unused[1], "cc_loss")?;
        self.total(delivered)?;
        self.at(now)?;
        self.delivered = delivered;
        Ok(layout::read_loss(words))
    }

    /// A packet that leaves: `cc_sent`. `number` counts for controllers that track packets.
    ///
    /// # Errors
    /// As [`on_ack`](Self::on_ack), or if such a controller gets a number that is not new.
    pub fn on_sent(&mut self, words: &SentWords, number: u64) -> Result {
        self.run(|checked| {
            let &[now, bytes, before, sent_to, last_sent, unreported, packets, unused @ ..] = words;
            amounts([bytes, before, sent_to, unreported], "an amount of cc_sent")?;
            range(last_sent < TIMES && number < TIMES, "last_sent_ns or the number", "values below 2^62")?;
            let known = u64::from(layout::flags::APP_LIMITED | layout::flags::RETRANSMISSION);
            reserved(((packets >> 32) & !known) | unused[0] | unused[1], "cc_sent")?;
            if checked.flow.tracks_packets() && number < checked.next_number {
                return Err(Wrong::Total { field: "the packet's number", got: number, least: checked.next_number });
            }
            checked.at(now)?;
            checked.next_number = number + 1;
            checked.flow.on_sent(&layout::read_sent(words, number));
            Ok(())
        })
    }

    /// Transmission `number` has arrived, or counts as lost.
    ///
    /// # Errors
    /// If the host did not declare numbers, or the controller has given up.
    pub fn on_packet(&mut self, number: u64, lost: bool) -> Result {
        self.run(|checked| {
            if !checked.host.packet_numbers {
                return Err(Wrong::Undeclared { flag: "CCARENA_PACKET_NUMBERS" });
            }
            checked.at(checked.now)?;
            if lost {
                checked.flow.on_packet_lost(number)
            } else {
                checked.flow.on_packet_acked(number)
            }
            Ok(())
        })
    }

    /// The timer runs.
    ///
    /// # Errors
    /// If it is not due, time runs backwards, or the controller has given up.
    pub fn on_timer(&mut self, now: u64) -> Result {
        self.run(|checked| {
            let due = checked.flow.next_timer().0;
            if now < due {
                return Err(Wrong::Timer { now_ns: now, due_ns: due });
            }
            checked.at(now)?;
            checked.flow.on_timer(Time(now));
            Ok(())
        })
    }

    /// The last loss was spurious.
    ///
    /// # Errors
    /// If time runs backwards, or the controller has given up.
    pub fn on_spurious_loss(&mut self, now: u64) -> Result {
        self.run(|checked| {
            checked.at(now)?;
            checked.flow.on_spurious_loss(Time(now));
            Ok(())
        })
    }

    /// Recovery has ended.
    ///
    /// # Errors
    /// As [`on_spurious_loss`](Self::on_spurious_loss), or if a number is out of range.
    pub fn on_recovery_end(&mut self, now: u64, in_flight: u64) -> Result {
        self.run(|checked| {
            amounts([in_flight], "in_flight_bytes")?;
            checked.at(now)?;
            checked.flow.on_recovery_end(Time(now), Bytes(in_flight));
            Ok(())
        })
    }

    /// Sending restarts after silence.
    ///
    /// # Errors
    /// As [`on_spurious_loss`](Self::on_spurious_loss), or if a number is out of range.
    pub fn on_idle_restart(&mut self, now: u64, idle: u64, rto: u64) -> Result {
        self.run(|checked| {
            range(idle < TIMES && rto < TIMES, "idle_ns or rto_ns", "durations below 2^62 ns")?;
            checked.at(now)?;
            checked.flow.on_idle_restart(Time(now), Dur(idle), Dur(rto));
            Ok(())
        })
    }

    /// The receiver has returned the rate that routers advertise.
    ///
    /// # Errors
    /// If the host did not declare such rates, or this is none.
    pub fn on_router_rate(&mut self, bps: f64) -> Result {
        self.run(|checked| {
            if !checked.host.router_rates {
                return Err(Wrong::Undeclared { flag: "CCARENA_ROUTER_RATES" });
            }
            checked.advertised = Some(rate(bps, "bps")?);
            Ok(())
        })
    }

    /// Returns the rate that packets ask routers for, in bit/s; zero if they ask for none.
    #[must_use]
    pub fn requested_bps(&self) -> f64 {
        self.flow.request().and_then(Signal::rate).map_or(0.0, |rate| rate.0 as f64)
    }

    /// The weight of the connection among others.
    ///
    /// # Errors
    /// If it is not above the scheme's bound, or too large.
    pub fn set_weight(&mut self, weight: f64) -> Result {
        self.run(|checked| {
            let fits = weight > checked.weight_above && weight <= MOST_WEIGHT;
            range(fits, "weight", "more than the scheme's bound, at most 1000")?;
            checked.flow.set(FlowSetting::Weight(weight));
            Ok(())
        })
    }

    /// The rates to reach, in bit/s; two zeros take the requirement back.
    ///
    /// # Errors
    /// If the first is not below the second.
    pub fn set_requirement(&mut self, min: f64, max: f64) -> Result {
        self.run(|checked| {
            let requirement = requirement([min, max], ["min_bps", "max_bps"])?;
            checked.flow.set(FlowSetting::Requirement(requirement));
            Ok(())
        })
    }

    /// The rate that the application wants, in bit/s.
    ///
    /// # Errors
    /// If it is no rate.
    pub fn set_desired_rate(&mut self, bps: f64) -> Result {
        self.run(|checked| {
            checked.flow.set(FlowSetting::DesiredRate(rate(bps, "bps")?));
            Ok(())
        })
    }
}

/// A rate in bit/s.
pub(crate) fn rate(bps: f64, field: &'static str) -> std::result::Result<Rate, Wrong> {
    range((1.0..RATES).contains(&bps), field, "a rate from 1 to 1e15 bit/s")?;
    Ok(Rate(bps as u64))
}

/// A requirement, the smaller rate first, of which two zeros are none. `fields` are the names of the two.
pub(crate) fn requirement(bps: [f64; 2], fields: [&'static str; 2]) -> std::result::Result<Option<Requirement>, Wrong> {
    let [min, max] = bps;
    if min == 0.0 && max == 0.0 {
        return Ok(None);
    }
    range((0.0..RATES).contains(&max), fields[1], "a rate below 1e15 bit/s")?;
    range((0.0..max).contains(&min), fields[0], "a rate below the larger one")?;
    let found = Requirement { min: Rate(min as u64), max: Rate(max as u64) };
    range(found.min < found.max, fields[0], "a rate below the larger one in whole bit/s")?;
    Ok(Some(found))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_that_has_panicked_sends_nothing_and_refuses_calls() {
        let config = ccarena_cc::Config::default();
        let source = ccarena_cc::Source::Scheme("cubic");
        let flow = Flow::build(&source, &config, &Host::ALL, Time::ZERO).unwrap();
        let mut checked = Checked::new(flow, Host::ALL, Time::ZERO, 0.0);
        checked.panicked();
        let control = checked.control();
        assert_eq!((control.window_bytes, control.pacing_bps, control.timer_ns), (0.0, 0.0, NEVER));
        assert_eq!(checked.on_spurious_loss(1), Err(Wrong::Panicked));
        assert_eq!((checked.why(), Wrong::Panicked.code()), (Some(&Wrong::Panicked), crate::code::CCARENA_FAILED));
    }
}
