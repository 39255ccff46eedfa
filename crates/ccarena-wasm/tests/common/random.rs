//! Modules that do random things: valid ones with the functions of the interface, whose bodies bytes choose.

use ccarena_cc::{AckInfo, Bytes, Config, Controller, Dur, LossInfo, RateSample, SentInfo, Time};
use ccarena_wasm::Module;

use super::text::Text;

/// Expressions of a function whose parameters are the state, the event and `cc_control`.
struct Choices<'a> {
    bytes: std::slice::Iter<'a, u8>,
}

impl Choices<'_> {
    fn next(&mut self) -> u8 {
        self.bytes.next().copied().unwrap_or(0)
    }

    /// An address: of an event, of an answer, of somewhere.
    fn address(&mut self, depth: u32) -> String {
        match self.next() % 4 {
            0 => "(local.get 1)".into(),
            1 => "(local.get 2)".into(),
            2 => format!("(i32.const {})", u32::from(self.next()) * 521),
            _ => self.i32(depth),
        }
    }

    fn i32(&mut self, depth: u32) -> String {
        let choice = if depth == 0 { self.next() % 3 } else { self.next() % 12 };
        match choice {
            0 => format!("(i32.const {})", i32::from(self.next()) - 100),
            1 => "(local.get 0)".into(),
            2 => "(i32.const 0x7fffffff)".into(),
            3 => format!("(i32.load {})", self.address(depth - 1)),
            4 => format!("(i32.trunc_sat_f64_s {})", self.f64(depth - 1)),
            5 => format!("(i32.trunc_f64_s {})", self.f64(depth - 1)),
            6 => format!("(memory.grow (i32.and {} (i32.const 0x1ff)))", self.i32(depth - 1)),
            7 => format!("(i32.wrap_i64 {})", self.i64(depth - 1)),
            8 => format!("(i32.lt_s {} {})", self.i32(depth - 1), self.i32(depth - 1)),
            9 => format!("(call_indirect (type $to) {} {})", self.i32(depth - 1), self.i32(depth - 1)),
            op => format!(
                "(i32.{} {} {})",
                ["div_u", "mul"][usize::from(op % 2)],
                self.i32(depth - 1),
                self.i32(depth - 1)
            ),
        }
    }

    fn i64(&mut self, depth: u32) -> String {
        let choice = if depth == 0 { self.next() % 2 } else { self.next() % 7 };
        match choice {
            0 => format!("(i64.const {})", i64::from(self.next()) - 3),
            1 => "(call $random)".into(),
            2 => format!("(i64.load {})", self.address(depth - 1)),
            3 => format!("(i64.reinterpret_f64 {})", self.f64(depth - 1)),
            4 => format!("(i64.rem_s {} {})", self.i64(depth - 1), self.i64(depth - 1)),
            5 => format!("(i64.extend_i32_s {})", self.i32(depth - 1)),
            _ => format!("(i64.add {} {})", self.i64(depth - 1), self.i64(depth - 1)),
        }
    }

    fn f64(&mut self, depth: u32) -> String {
        let choice = if depth == 0 { self.next() % 3 } else { self.next() % 9 };
        match choice {
            0 => format!("(f64.const {})", u32::from(self.next()) * 1448),
            1 => ["(f64.const nan)", "(f64.const -inf)", "(f64.const 1e300)", "(f64.const -0.0)"]
                [usize::from(self.next() % 4)]
            .into(),
            2 => "(f64.load (local.get 2))".into(),
            3 => format!("(f64.load {})", self.address(depth - 1)),
            4 => format!("(f64.convert_i64_u {})", self.i64(depth - 1)),
            5 => format!("(f64.reinterpret_i64 {})", self.i64(depth - 1)),
            6 => format!("(f64.sqrt {})", self.f64(depth - 1)),
            op => {
                format!("(f64.{} {} {})", ["div", "sub"][usize::from(op % 2)], self.f64(depth - 1), self.f64(depth - 1))
            }
        }
    }

    fn statements(&mut self, depth: u32) -> String {
        let count = self.next() % 4;
        (0..count).map(|_| self.statement(depth)).collect()
    }

    fn statement(&mut self, depth: u32) -> String {
        let choice = if depth == 0 { self.next() % 5 } else { self.next() % 9 };
        match choice {
            0..=2 => {
                let offset = 8 * u32::from(self.next() % 3);
                format!("(f64.store offset={offset} (local.get 2) {})", self.f64(2))
            }
            3 => format!("(i64.store offset=24 (local.get 2) {})", self.i64(2)),
            4 => format!("(drop {})", self.i32(2)),
            5 => format!(
                "(if {} (then {}) (else {}))",
                self.i32(1),
                self.statements(depth - 1),
                self.statements(depth - 1)
            ),
            6 => format!("(loop $l {} (br_if $l {}))", self.statements(depth - 1), self.i32(1)),
            7 => format!("(i32.store {} {})", self.address(1), self.i32(2)),
            _ => format!("(memory.fill {} {} {})", self.address(1), self.i32(1), self.i32(1)),
        }
    }
}

/// Text of a module whose functions do what `bytes` choose.
pub fn wat(bytes: &[u8]) -> String {
    let mut choices = Choices { bytes: bytes.iter() };
    let [ack, loss, sent, timer, called] = [(); 5].map(|()| choices.statements(3));
    let more = format!(
        r#"(type $to (func (param i32) (result i32)))
        (table 4 funcref) (elem (i32.const 0) $called)
        (func $called (param i32) (result i32) (local i32) (local i32) {called} (local.get 0))
        (func (export "cc_on_loss") (param i32 i32 i32) {loss})
        (func (export "cc_on_sent") (param i32 i32 i32) {sent})
        (func (export "cc_on_timer") (param i32 i64 i32) {timer})"#,
        timer = timer.replace("(local.get 1)", "(i32.const 0)"),
    );
    let create = "(f64.store (local.get 1) (f64.const 14480)) (i32.const 64)";
    let imports = r#"(import "ccarena" "random" (func $random (result i64)))"#;
    Text { imports, create, ack: &ack, more: &more, flags: r"\07\00\00\00", ..Text::default() }.wat()
}

/// Window, rate, threshold, time of the timer, and the failure.
pub type Answer = (u64, Option<u64>, Option<u64>, u64, Option<String>);

/// Returns the answers of a controller to events.
pub fn drive(module: &Module) -> Vec<Answer> {
    let Ok(mut controller) = module.controller(&Config::default()) else { return Vec::new() };
    let mut answers = Vec::new();
    for turn in 1..=4u64 {
        let now = Time(turn * 10_000_000);
        let rate = RateSample { delivered: Bytes(2896), interval: Dur(1_000_000), ..RateSample::default() };
        controller.on_ack(&AckInfo {
            now,
            acked: Bytes(1448),
            acked_packets: 1,
            rtt: Some(Dur(40_000_000)),
            rate: Some(rate),
            ..AckInfo::default()
        });
        answers.push(answer(controller.as_ref()));
        controller.on_sent(&SentInfo { now, bytes: Bytes(1448), ..SentInfo::default() });
        controller.on_loss(&LossInfo { now, lost_packets: 1, new_episode: turn == 2, ..LossInfo::default() });
        controller.on_timeout(&LossInfo { now, ..LossInfo::default() });
        controller.on_recovery_end(now, Bytes(0));
        controller.on_timer(now);
        assert!(controller.next_timer() > now, "the clock goes on");
        answers.push(answer(controller.as_ref()));
    }
    answers
}

/// Window, rate, threshold, timer and failure, checked.
fn answer(controller: &dyn Controller) -> Answer {
    let (window, failure) = (controller.window().0, controller.failure());
    match failure {
        Some(reason) => assert!(window == 0 && !reason.is_empty()),
        None => assert!((1448..=1 << 40).contains(&window), "{window}"),
    }
    let rate = controller.pacing_rate().map(|rate| rate.0);
    assert_ne!(rate, Some(0));
    let threshold = controller.slow_start_threshold().map(|bytes| bytes.0);
    (window, rate, threshold, controller.next_timer().0, failure.map(Into::into))
}
