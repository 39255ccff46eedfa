//! Controller of one flow that a module steers.

use ccarena_cc::{AckInfo, Bytes, Config, Controller, Dur, LossInfo, Rate, SentInfo, Time, TimerCalls, TransportNeeds};
use wasmi::TypedFunc;

use crate::About;
use crate::abi::{self, CONTROL_BYTES, Control, NEVER};
use crate::describe::scratch;
use crate::instance::{Instance, OnEvent};
use crate::limits::WINDOW_BYTES;

/// Function for an event that is a time alone.
type OnTime = TypedFunc<(u32, u64, u32), ()>;
/// Function for the end of silence.
type OnIdle = TypedFunc<(u32, u64, u64, u64, u32), ()>;

/// Functions that a module has; none where it leaves one out.
struct Functions {
    ack: OnEvent,
    loss: Option<OnEvent>,
    timeout: Option<OnEvent>,
    sent: Option<OnEvent>,
    timer: Option<OnTime>,
    spurious_loss: Option<OnTime>,
    recovery_end: Option<TypedFunc<(u32, u64, u64, u32), ()>>,
    idle_restart: Option<OnIdle>,
}

/// The controller, and its answers after the last call.
pub struct WasmController {
    instance: Instance,
    functions: Functions,
    /// The module's pointer to its state.
    state: u32,
    /// Address of `cc_control`; events come after it.
    control: u32,
    needs: TransportNeeds,
    mss: f64,
    /// Window, rate and threshold as the module wrote them, and as they are.
    answer: Control,
    window: Bytes,
    rate: Option<Rate>,
    threshold: Option<Bytes>,
    timer: Time,
    timer_calls: TimerCalls,
    failure: Option<String>,
}

impl WasmController {
    /// Makes the controller of a flow in its instance.
    ///
    /// # Errors
    /// The reason why there is none.
    pub fn new(mut instance: Instance, about: &About, config: &Config, params: &[f64]) -> Result<Self, String> {
        let functions = Functions {
            ack: instance.function("cc_on_ack").ok_or("it exports no function cc_on_ack")?,
            loss: instance.function("cc_on_loss"),
            timeout: instance.function("cc_on_timeout"),
            sent: instance.function("cc_on_sent"),
            timer: instance.function("cc_on_timer"),
            spurious_loss: instance.function("cc_on_spurious_loss"),
            recovery_end: instance.function("cc_on_recovery_end"),
            idle_restart: instance.function("cc_on_idle_restart"),
        };
        let at = scratch(&mut instance)?;
        let mss = config.mss.max(1);
        let initial = f64::from(mss) * f64::from(config.initial_window.max(1));
        let answer = Control { window_bytes: initial, pacing_bps: 0.0, threshold_bytes: 0.0, timer_ns: NEVER };
        write(&mut instance, at, &answer.bytes())?;
        write(&mut instance, at + CONTROL_BYTES, &abi::config(config, params))?;
        // An address of a memory of 32 bits.
        let control = at as u32;
        let state = instance.call_once("cc_create", (control + CONTROL_BYTES as u32, control))?;
        let needs = TransportNeeds {
            every_segment: about.every_segment && functions.sent.is_some(),
            rate_samples: about.rate_samples,
            owns_recovery: about.owns_recovery,
            ..TransportNeeds::WINDOW
        };
        let mut made = Self {
            instance,
            functions,
            state,
            control,
            needs,
            mss: f64::from(mss),
            answer,
            window: Bytes(0),
            rate: None,
            threshold: None,
            timer: Time::NEVER,
            timer_calls: TimerCalls::default(),
            failure: None,
        };
        made.answered().and_then(|first| made.take(first)).map_err(|reason| format!("cc_create: {reason}"))?;
        Ok(made)
    }

    const fn event_at(&self) -> u32 {
        self.control + CONTROL_BYTES as u32
    }

    /// Reads the module's answers, of which most are those before.
    #[inline]
    fn read(&mut self) -> Result<(), String> {
        let answer = self.answered()?;
        if answer.same_numbers(&self.answer) {
            self.set_timer(answer);
            Ok(())
        } else {
            self.take(answer)
        }
    }

    #[inline]
    fn answered(&self) -> Result<Control, String> {
        let at = self.control as usize;
        self.instance.read(at).map(Control::read).ok_or_else(|| "its memory has shrunk".into())
    }

    #[inline]
    fn set_timer(&mut self, answer: Control) {
        if self.functions.timer.is_some() {
            self.timer = Time(answer.timer_ns);
        }
    }

    /// Takes answers over.
    fn take(&mut self, answer: Control) -> Result<(), String> {
        let Control { window_bytes, pacing_bps, threshold_bytes, .. } = answer;
        if !(0.0..=WINDOW_BYTES).contains(&window_bytes) {
            return Err(format!("window_bytes = {window_bytes}; expected a number from 0 to {WINDOW_BYTES}"));
        }
        if !(pacing_bps >= 0.0 && pacing_bps.is_finite()) {
            return Err(format!("pacing_bps = {pacing_bps}; expected a number, finite and not negative"));
        }
        if threshold_bytes.is_nan() || threshold_bytes < 0.0 {
            return Err(format!("threshold_bytes = {threshold_bytes}; expected a number that is not negative"));
        }
        self.answer = answer;
        self.set_timer(answer);
        self.window = Bytes(window_bytes.max(self.mss) as u64);
        self.rate = (pacing_bps > 0.0).then(|| Rate((pacing_bps as u64).max(1)));
        self.threshold = (threshold_bytes > 0.0).then_some(Bytes(threshold_bytes as u64));
        Ok(())
    }

    /// Gives up: nothing is called any more, and the flow ends.
    #[cold]
    fn fail(&mut self, during: &str, now: Time, reason: &str) {
        self.failure = Some(format!("{during}: {reason}, at {now}"));
        (self.window, self.rate, self.threshold, self.timer) = (Bytes(0), None, None, Time::NEVER);
    }

    /// Reads the answers after a call that `called` says how it went.
    #[inline]
    fn after(&mut self, during: &str, now: Time, called: Result<(), String>) {
        if let Err(reason) = called.and_then(|()| self.read()) {
            self.fail(during, now, &reason);
        }
    }

    /// Calls the function that `of` returns for an event, unless the controller has given up.
    #[inline]
    fn event<const N: usize>(
        &mut self,
        during: &str,
        now: Time,
        of: fn(&Functions) -> Option<&OnEvent>,
        event: impl FnOnce() -> [u8; N],
    ) {
        let Some(function) = of(&self.functions).filter(|_| self.failure.is_none()) else { return };
        let at = self.event_at();
        let params = (self.state, at, self.control);
        let called = match self.instance.room(at as usize) {
            Some(room) => {
                *room = event();
                self.instance.event(function, params)
            }
            None => Err("its memory has shrunk".into()),
        };
        self.after(during, now, called);
    }
}

fn write<const N: usize>(instance: &mut Instance, at: usize, bytes: &[u8; N]) -> Result<(), String> {
    *instance.room(at).ok_or("cc_scratch: its address is outside the memory")? = *bytes;
    Ok(())
}

impl Controller for WasmController {
    fn transport(&self) -> TransportNeeds {
        self.needs
    }

    fn on_sent(&mut self, sent: &SentInfo) {
        self.event("cc_on_sent", sent.now, |f| f.sent.as_ref(), || abi::sent(sent));
    }

    fn on_ack(&mut self, ack: &AckInfo) {
        self.event("cc_on_ack", ack.now, |f| Some(&f.ack), || abi::ack(ack));
    }

    fn on_loss(&mut self, loss: &LossInfo) {
        self.event("cc_on_loss", loss.now, |f| f.loss.as_ref(), || abi::loss(loss));
    }

    fn on_timeout(&mut self, loss: &LossInfo) {
        self.event("cc_on_timeout", loss.now, |f| f.timeout.as_ref(), || abi::loss(loss));
    }

    fn on_spurious_loss(&mut self, now: Time) {
        let Some(function) = self.functions.spurious_loss.as_ref().filter(|_| self.failure.is_none()) else { return };
        let called = self.instance.event(function, (self.state, now.0, self.control));
        self.after("cc_on_spurious_loss", now, called);
    }

    fn on_recovery_end(&mut self, now: Time, in_flight: Bytes) {
        let Some(function) = self.functions.recovery_end.as_ref().filter(|_| self.failure.is_none()) else { return };
        let called = self.instance.event(function, (self.state, now.0, in_flight.0, self.control));
        self.after("cc_on_recovery_end", now, called);
    }

    fn on_idle_restart(&mut self, now: Time, idle: Dur, rto: Dur) {
        let Some(function) = self.functions.idle_restart.as_ref().filter(|_| self.failure.is_none()) else { return };
        let called = self.instance.event(function, (self.state, now.0, idle.0, rto.0, self.control));
        self.after("cc_on_idle_restart", now, called);
    }

    /// A controller that does not name another time is not called again.
    fn on_timer(&mut self, now: Time) {
        let Some(function) = self.functions.timer.as_ref().filter(|_| self.failure.is_none()) else { return };
        let at = self.control as usize;
        let counted = self.timer_calls.count(now, "timer_ns");
        let called = counted.and_then(|()| match self.instance.room(at) {
            Some(room) => {
                let kept = Control { timer_ns: NEVER, ..Control::read(room) };
                *room = kept.bytes();
                self.instance.event(function, (self.state, now.0, self.control))
            }
            None => Err("its memory has shrunk".into()),
        });
        self.after("cc_on_timer", now, called);
        // A time that has come already would fire for ever at one instant.
        self.timer = self.timer.max(now + Dur(1));
    }

    fn next_timer(&self) -> Time {
        self.timer
    }

    fn window(&self) -> Bytes {
        self.window
    }

    fn pacing_rate(&self) -> Option<Rate> {
        self.rate
    }

    fn slow_start_threshold(&self) -> Option<Bytes> {
        self.threshold
    }

    fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }
}

/// Controller that could not be created.
pub struct Stillborn {
    /// Cause.
    pub reason: String,
}

impl Controller for Stillborn {
    fn transport(&self) -> TransportNeeds {
        TransportNeeds::WINDOW
    }

    fn on_ack(&mut self, _ack: &AckInfo) {}

    fn on_loss(&mut self, _loss: &LossInfo) {}

    fn on_timeout(&mut self, _loss: &LossInfo) {}

    fn window(&self) -> Bytes {
        Bytes(0)
    }

    fn failure(&self) -> Option<&str> {
        Some(&self.reason)
    }
}
