//! Controllers that users write as Python classes. `ccarena.controllers` has the class that they derive from and says
//! what each name means.
//!
//! Events are objects that are used again for each call, and compute a value when it is asked for. A run with such a
//! controller keeps the interpreter attached.

use std::sync::{Arc, Mutex, PoisonError};

use ccarena_cc::controller::TransportNeeds;
use ccarena_cc::{AckInfo, Bytes, Config, Controller, Dur, LossInfo, Rate, RecoveryState, SentInfo, Time, TimerCalls};
use pyo3::call::PyCallArgs;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// First exception of a run's controllers.
pub struct Failure {
    /// Number of the flow.
    pub flow: usize,
    /// Time in the simulation; none when the controller was made.
    pub at: Option<Time>,
    /// Method that was called.
    pub during: &'static str,
    /// The exception.
    pub error: PyErr,
}

/// Exceptions of a run's controllers, of which the first is kept.
pub type Failures = Arc<Mutex<Option<Failure>>>;

fn fail(failures: &Failures, failure: Failure) {
    failures.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(failure);
}

/// Acknowledgement, as `on_ack` gets it.
#[pyclass(module = "ccarena._core")]
pub struct Ack {
    info: AckInfo,
    mss: f64,
}

fn in_ms(time: Dur) -> Option<f64> {
    (time != Dur::ZERO && time != Dur::MAX).then(|| time.as_millis_f64())
}

#[pymethods]
impl Ack {
    #[getter]
    fn now_s(&self) -> f64 {
        self.info.now.as_secs_f64()
    }
    #[getter]
    fn acked_packets(&self) -> u32 {
        self.info.acked_packets
    }
    #[getter]
    fn acked_bytes(&self) -> u64 {
        self.info.acked.0
    }
    #[getter]
    fn rtt_ms(&self) -> Option<f64> {
        self.info.rtt.map(Dur::as_millis_f64)
    }
    #[getter]
    fn min_rtt_ms(&self) -> Option<f64> {
        in_ms(self.info.min_rtt)
    }
    #[getter]
    fn srtt_ms(&self) -> Option<f64> {
        in_ms(self.info.srtt)
    }
    #[getter]
    fn in_flight_packets(&self) -> f64 {
        self.info.in_flight.0 as f64 / self.mss
    }
    #[getter]
    fn in_flight_before_packets(&self) -> f64 {
        self.info.prior_in_flight.0 as f64 / self.mss
    }
    #[getter]
    fn delivered_bytes(&self) -> u64 {
        self.info.delivered.0
    }
    #[getter]
    fn lost_packets(&self) -> f64 {
        self.info.lost.0 as f64 / self.mss
    }
    #[getter]
    fn delivery_rate_mbps(&self) -> Option<f64> {
        let sample = self.info.rate.as_ref().filter(|sample| sample.interval > Dur::ZERO)?;
        Some(sample.delivered.0 as f64 * 8e-6 / sample.interval.as_secs_f64())
    }
    #[getter]
    fn app_limited(&self) -> bool {
        self.info.rate.is_some_and(|sample| sample.app_limited)
    }
    #[getter]
    fn window_limited(&self) -> bool {
        self.info.cwnd_limited
    }
    #[getter]
    fn recovery(&self) -> &'static str {
        match self.info.recovery {
            RecoveryState::Open => "open",
            RecoveryState::Reduction => "reduction",
            RecoveryState::Recovery => "recovery",
            RecoveryState::Loss => "loss",
        }
    }
    #[getter]
    fn marked_packets(&self) -> u32 {
        self.info.ecn_ce
    }
    #[getter]
    fn acked_to(&self) -> u64 {
        self.info.snd_una
    }
    #[getter]
    fn sent_to(&self) -> u64 {
        self.info.snd_nxt
    }
}

/// Loss, timeout or congestion mark, as `on_loss` gets it.
#[pyclass(module = "ccarena._core")]
pub struct Loss {
    info: LossInfo,
    timeout: bool,
    mss: f64,
}

#[pymethods]
impl Loss {
    #[getter]
    fn now_s(&self) -> f64 {
        self.info.now.as_secs_f64()
    }
    #[getter]
    fn lost_packets(&self) -> u32 {
        self.info.lost_packets
    }
    #[getter]
    fn lost_bytes(&self) -> u64 {
        self.info.lost.0
    }
    #[getter]
    fn in_flight_packets(&self) -> f64 {
        self.info.in_flight.0 as f64 / self.mss
    }
    #[getter]
    fn delivered_bytes(&self) -> u64 {
        self.info.delivered.0
    }
    #[getter]
    fn new_episode(&self) -> bool {
        self.info.new_episode
    }
    #[getter]
    fn timeout(&self) -> bool {
        self.timeout
    }
    #[getter]
    fn marked(&self) -> bool {
        self.info.ecn
    }
    #[getter]
    fn sent_to(&self) -> u64 {
        self.info.snd_nxt
    }
}

/// Packet that leaves, as `on_sent` gets it.
#[pyclass(module = "ccarena._core")]
pub struct Sent {
    info: SentInfo,
    mss: f64,
}

#[pymethods]
impl Sent {
    #[getter]
    fn now_s(&self) -> f64 {
        self.info.now.as_secs_f64()
    }
    #[getter]
    fn bytes(&self) -> u64 {
        self.info.bytes.0
    }
    #[getter]
    fn in_flight_packets(&self) -> f64 {
        self.info.prior_in_flight.0 as f64 / self.mss
    }
    #[getter]
    fn app_limited(&self) -> bool {
        self.info.app_limited
    }
    #[getter]
    fn retransmission(&self) -> bool {
        self.info.retransmission
    }
    #[getter]
    fn sent_to(&self) -> u64 {
        self.info.snd_nxt
    }
}

/// Bound methods of a controller; none where its class has none.
struct Methods {
    on_ack: Option<Py<PyAny>>,
    on_loss: Option<Py<PyAny>>,
    on_sent: Option<Py<PyAny>>,
    on_timer: Option<Py<PyAny>>,
    on_spurious_loss: Option<Py<PyAny>>,
    on_recovery_end: Option<Py<PyAny>>,
    on_idle_restart: Option<Py<PyAny>>,
}

/// The user's controller, and its answers after the last call.
struct PythonController {
    object: Py<PyAny>,
    methods: Methods,
    ack: Py<Ack>,
    loss: Py<Loss>,
    sent: Py<Sent>,
    needs: TransportNeeds,
    mss: f64,
    window: Bytes,
    rate: Option<Rate>,
    threshold: Option<Bytes>,
    timer: Time,
    timer_calls: TimerCalls,
    flow: usize,
    failed: bool,
    failures: Failures,
}

impl PythonController {
    fn new(py: Python<'_>, flow: usize, object: Py<PyAny>, config: &Config, failures: Failures) -> PyResult<Self> {
        let of = object.bind(py);
        let method = |name: &str| -> PyResult<Option<Py<PyAny>>> {
            match of.getattr_opt(name)? {
                Some(method) if method.is_callable() => Ok(Some(method.unbind())),
                Some(_) => Err(PyTypeError::new_err(format!("{name}: expected a method"))),
                None => Ok(None),
            }
        };
        let methods = Methods {
            on_ack: method("on_ack")?,
            on_loss: method("on_loss")?,
            on_sent: method("on_sent")?,
            on_timer: method("on_timer")?,
            on_spurious_loss: method("on_spurious_loss")?,
            on_recovery_end: method("on_recovery_end")?,
            on_idle_restart: method("on_idle_restart")?,
        };
        if methods.on_ack.is_none() {
            return Err(PyTypeError::new_err("on_ack: missing; expected a method"));
        }
        let owns = of.getattr_opt("owns_recovery")?.map_or(Ok(false), |owns| owns.is_truthy())?;
        let mss = f64::from(config.mss.max(1));
        let needs = TransportNeeds {
            every_segment: methods.on_sent.is_some(),
            rate_samples: true,
            owns_recovery: owns,
            ..TransportNeeds::WINDOW
        };
        let mut made = Self {
            methods,
            ack: Py::new(py, Ack { info: AckInfo::default(), mss })?,
            loss: Py::new(py, Loss { info: LossInfo::default(), timeout: false, mss })?,
            sent: Py::new(py, Sent { info: SentInfo::default(), mss })?,
            needs,
            mss,
            window: Bytes(0),
            rate: None,
            threshold: None,
            timer: Time::NEVER,
            timer_calls: TimerCalls::default(),
            flow,
            failed: false,
            failures,
            object,
        };
        made.read(py)?;
        Ok(made)
    }

    /// Reads what the controller says after a call.
    fn read(&mut self, py: Python<'_>) -> PyResult<()> {
        let of = self.object.bind(py);
        let window = number(&of.getattr(intern!(py, "window"))?, "window", "packets")?;
        self.window = Bytes((window.max(1.0) * self.mss) as u64);
        self.rate = optional(of, intern!(py, "pacing_rate"), "pacing_rate", "Mbit/s")?
            .map(|mbps| Rate((mbps * 1e6) as u64).max(Rate(1)));
        self.threshold = optional(of, intern!(py, "threshold"), "threshold", "packets")?
            .map(|packets| Bytes((packets * self.mss) as u64));
        if self.methods.on_timer.is_some() {
            let at = optional(of, intern!(py, "timer_s"), "timer_s", "s")?;
            self.timer = at.map_or(Time::NEVER, |at| Time::ZERO + Dur::from_secs_f64(at));
        }
        Ok(())
    }

    /// Calls the method that `of` returns, if the class has it, and reads the answers. After an exception nothing is called
    /// any more, and the run ends.
    fn call(
        &mut self,
        now: Time,
        during: &'static str,
        of: fn(&Methods) -> Option<&Py<PyAny>>,
        call: impl FnOnce(&Self, &Bound<'_, PyAny>) -> PyResult<()>,
    ) {
        if self.failed {
            return;
        }
        let done = Python::attach(|py| {
            let Some(method) = of(&self.methods) else { return Ok(()) };
            call(self, method.bind(py))?;
            self.read(py)
        });
        if let Err(error) = done {
            (self.failed, self.timer, self.window, self.rate) = (true, Time::NEVER, Bytes(self.mss as u64), None);
            fail(&self.failures, Failure { flow: self.flow, at: Some(now), during, error });
        }
    }

    /// Calls a method with numbers.
    fn told(
        &mut self,
        now: Time,
        during: &'static str,
        of: fn(&Methods) -> Option<&Py<PyAny>>,
        numbers: impl for<'py> PyCallArgs<'py>,
    ) {
        self.call(now, during, of, |_, method| method.call1(numbers).map(drop));
    }

    fn lost(&mut self, loss: &LossInfo, timeout: bool) {
        self.call(
            loss.now,
            "on_loss",
            |methods| methods.on_loss.as_ref(),
            |this, method| {
                {
                    let mut event = this.loss.borrow_mut(method.py());
                    (event.info, event.timeout) = (*loss, timeout);
                }
                method.call1((&this.loss,)).map(drop)
            },
        );
    }
}

/// A number that is finite and not negative, or the exception that says what was found.
fn number(value: &Bound<'_, PyAny>, name: &str, unit: &str) -> PyResult<f64> {
    match value.extract::<f64>() {
        Ok(x) if x.is_finite() && x >= 0.0 => Ok(x),
        _ => Err(PyValueError::new_err(format!(
            "{name} = {}: expected a number of {unit}, finite and not negative",
            value.repr().map_or_else(|_| "?".into(), |text| text.to_string())
        ))),
    }
}

fn optional(
    of: &Bound<'_, PyAny>,
    attribute: &Bound<'_, pyo3::types::PyString>,
    name: &str,
    unit: &str,
) -> PyResult<Option<f64>> {
    match of.getattr_opt(attribute)? {
        Some(value) if !value.is_none() => number(&value, name, unit).map(Some),
        _ => Ok(None),
    }
}

impl Controller for PythonController {
    fn transport(&self) -> TransportNeeds {
        self.needs
    }

    fn on_sent(&mut self, sent: &SentInfo) {
        self.call(
            sent.now,
            "on_sent",
            |methods| methods.on_sent.as_ref(),
            |this, method| {
                this.sent.borrow_mut(method.py()).info = *sent;
                method.call1((&this.sent,)).map(drop)
            },
        );
    }

    fn on_ack(&mut self, ack: &AckInfo) {
        self.call(
            ack.now,
            "on_ack",
            |methods| methods.on_ack.as_ref(),
            |this, method| {
                this.ack.borrow_mut(method.py()).info = *ack;
                method.call1((&this.ack,)).map(drop)
            },
        );
    }

    fn on_loss(&mut self, loss: &LossInfo) {
        self.lost(loss, false);
    }

    fn on_timeout(&mut self, loss: &LossInfo) {
        self.lost(loss, true);
    }

    fn on_spurious_loss(&mut self, now: Time) {
        self.told(now, "on_spurious_loss", |methods| methods.on_spurious_loss.as_ref(), (now.as_secs_f64(),));
    }

    fn on_recovery_end(&mut self, now: Time, in_flight: Bytes) {
        let numbers = (now.as_secs_f64(), in_flight.0 as f64 / self.mss);
        self.told(now, "on_recovery_end", |methods| methods.on_recovery_end.as_ref(), numbers);
    }

    fn on_idle_restart(&mut self, now: Time, idle: Dur, rto: Dur) {
        let numbers = (now.as_secs_f64(), idle.as_secs_f64(), rto.as_secs_f64());
        self.told(now, "on_idle_restart", |methods| methods.on_idle_restart.as_ref(), numbers);
    }

    /// A controller that does not name another time is not called again.
    fn on_timer(&mut self, now: Time) {
        let counted = self.timer_calls.count(now, "timer_s");
        self.call(
            now,
            "on_timer",
            |methods| methods.on_timer.as_ref(),
            |this, method| {
                counted.map_err(PyValueError::new_err)?;
                let py = method.py();
                this.object.bind(py).setattr(intern!(py, "timer_s"), py.None())?;
                method.call1((now.as_secs_f64(),)).map(drop)
            },
        );
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
}

/// Returns a builder of controllers. `make(flow, class, facts)` returns the user's object, where `facts` has `mss_bytes`,
/// `initial_window`, `seed`, `weight` and `params`.
pub fn builder(make: Py<PyAny>, failures: Failures) -> Arc<ccarena_sim::files::PythonControllers> {
    Arc::new(move |flow, class, config| {
        Python::attach(|py| {
            let built = (|| {
                let facts = PyDict::new(py);
                facts.set_item("mss_bytes", config.mss)?;
                facts.set_item("initial_window", config.initial_window)?;
                facts.set_item("seed", config.seed)?;
                facts.set_item("weight", config.weight)?;
                facts.set_item("params", config.params.clone())?;
                let object = make.bind(py).call1((flow, class, facts))?.unbind();
                PythonController::new(py, flow, object, config, Arc::clone(&failures))
            })();
            built.map(|made| Box::new(made) as Box<dyn Controller>).map_err(|error| {
                let reason = error.to_string();
                fail(&failures, Failure { flow, at: None, during: "__init__", error });
                reason
            })
        })
    })
}
