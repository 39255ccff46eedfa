//! Which modules are accepted, what their controllers do, and how they give up.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that fails panics; clippy.toml exempts test functions, not helpers"
)]

mod common;

use std::collections::BTreeMap;

use ccarena_cc::{AckInfo, Bytes, Config, Controller, Dur, LossInfo, Rate, SentInfo, Time};
use ccarena_wasm::Module;
use common::Text;

/// Writes a constant to a field of `cc_control`.
fn set(offset: usize, value: &str) -> String {
    format!("(f64.store offset={offset} (local.get $out) (f64.const {value}))")
}

fn made(text: &Text<'_>) -> Box<dyn Controller> {
    Module::load(&text.bytes()).unwrap().controller(&Config::default()).unwrap()
}

fn refused(text: &Text<'_>) -> String {
    Module::load(&text.bytes()).unwrap_err().to_string()
}

/// Controller after an acknowledgement at 1 ms.
fn acknowledged(text: &Text<'_>) -> Box<dyn Controller> {
    let mut controller = made(text);
    controller.on_ack(&AckInfo { now: Time(1_000_000), ..AckInfo::default() });
    controller
}

/// Reason why the controller has given up.
fn reason(controller: &dyn Controller) -> String {
    assert_eq!(controller.window(), Bytes(0));
    assert_eq!((controller.pacing_rate(), controller.next_timer()), (None, Time::NEVER));
    controller.failure().unwrap().to_string()
}

#[test]
fn a_module_describes_itself() {
    let bytes = Text { flags: r"\05\00\00\00", ..Text::default() }.bytes();
    let module = Module::load(&bytes).unwrap();
    let about = module.about();
    assert_eq!((about.name.as_str(), about.summary.as_str()), ("try", "A test."));
    assert_eq!((about.owns_recovery, about.every_segment, about.rate_samples), (true, false, true));
    assert_eq!((about.memory_bytes, about.module_bytes, about.random), (65536, bytes.len(), false));
    assert_eq!(about.digest.len(), 64);
    let [gain] = &about.params[..] else { panic!("{:?}", about.params) };
    assert_eq!((gain.name.as_str(), gain.unit.as_str(), gain.help.as_str()), ("gain", "pkts", ""));
    assert_eq!((gain.initial, gain.least, gain.most), (2.0, 1.0, 8.0));
    let needs = module.controller(&Config::default()).unwrap().transport();
    assert!(needs.owns_recovery && needs.rate_samples && !needs.every_segment);
}

#[test]
fn parameters_reach_the_module_and_others_are_refused() {
    // The window is the value of the parameter in packets of the configuration's size.
    let create = "(f64.store (local.get $out) (f64.mul (f64.load offset=48 (local.get $config))
        (f64.convert_i32_u (i32.load (local.get $config))))) i32.const 7";
    let module = Module::load(&Text { create, ..Text::default() }.bytes()).unwrap();
    let window = |params: &[(&str, f64)]| {
        let params: BTreeMap<_, _> = params.iter().map(|(name, value)| ((*name).to_string(), *value)).collect();
        module.controller(&Config { mss: 1000, params, ..Config::default() }).map(|made| made.window())
    };
    assert_eq!(window(&[]), Ok(Bytes(2000)));
    assert_eq!(window(&[("gain", 5.0)]), Ok(Bytes(5000)));
    let said = |params: &[(&str, f64)]| window(params).unwrap_err().to_string();
    assert_eq!(said(&[("gian", 5.0)]), r#"scheme "try" has no parameter "gian"; did you mean "gain"?"#);
    assert_eq!(said(&[("gain", 9.0)]), r#"parameter "gain" of scheme "try" is 9; expected 1 to 8"#);
}

#[test]
fn answers_are_taken_over_and_kept() {
    let ack = [set(0, "14480"), set(8, "2.5e6"), set(16, "inf")].concat();
    let controller = acknowledged(&Text { ack: &ack, ..Text::default() });
    assert_eq!(controller.window(), Bytes(14480));
    assert_eq!(controller.pacing_rate(), Some(Rate(2_500_000)));
    assert_eq!(controller.slow_start_threshold(), Some(Bytes(u64::MAX)));
    let silent = acknowledged(&Text::default());
    assert_eq!((silent.window(), silent.pacing_rate()), (Bytes(14480), None), "the initial window");
    let small = acknowledged(&Text { ack: &set(0, "3"), ..Text::default() });
    assert_eq!(small.window(), Bytes(1448), "no less than a packet");
}

#[test]
fn a_timer_comes_once_unless_it_is_set_again() {
    let create = "(i64.store offset=24 (local.get $out) (i64.const 500)) i32.const 0";
    let more = r#"(global $left (mut i32) (i32.const 1))
        (func (export "cc_on_timer") (param i32) (param $now i64) (param $out i32)
          (if (i32.eqz (global.get $left)) (then return))
          (global.set $left (i32.const 0))
          (i64.store offset=24 (local.get $out) (i64.add (local.get $now) (i64.const 100))))"#;
    let mut controller = made(&Text { create, more, ..Text::default() });
    let mut times = vec![controller.next_timer()];
    for _ in 0..2 {
        controller.on_timer(times[times.len() - 1]);
        times.push(controller.next_timer());
    }
    assert_eq!(times, [Time(500), Time(600), Time::NEVER]);
    let deaf = made(&Text { create, ..Text::default() });
    assert_eq!(deaf.next_timer(), Time::NEVER, "a module without cc_on_timer has no timer");
}

#[test]
fn a_timer_that_is_always_due_ends_the_flow() {
    for after in [0, 1, 9_000] {
        let create = "(i64.store offset=24 (local.get $out) (i64.const 500)) i32.const 0";
        let more = format!(
            r#"(func (export "cc_on_timer") (param i32) (param $now i64) (param $out i32)
                (i64.store offset=24 (local.get $out) (i64.add (local.get $now) (i64.const {after}))))"#
        );
        let mut controller = made(&Text { create, more: &more, ..Text::default() });
        let calls = (1..).take_while(|_| {
            let now = controller.next_timer();
            controller.on_timer(now);
            controller.failure().is_none()
        });
        assert_eq!(calls.count(), 1000);
        let said = reason(controller.as_ref());
        assert!(
            said.starts_with("cc_on_timer: more than 1000 calls within 10 ms; name a later time in timer_ns, at 0.0")
        );
    }
}

#[test]
fn every_event_reaches_its_function() {
    let names = ["loss", "timeout", "sent"];
    let event = |name: &str, packets: usize| {
        let window = 1448 * packets;
        format!(
            r#"(func (export "cc_on_{name}") (param i32 i32 i32)
                (f64.store (local.get 2) (f64.const {window})))"#
        )
    };
    let plain: String = names.iter().zip(2..).map(|(name, packets)| event(name, packets)).collect();
    let more = plain
        + r#"(func (export "cc_on_spurious_loss") (param i32 i64 i32) (f64.store (local.get 2) (f64.const 7240)))
             (func (export "cc_on_recovery_end") (param i32 i64 i64 i32)
               (f64.store (local.get 3) (f64.convert_i64_u (local.get 2))))
             (func (export "cc_on_idle_restart") (param i32 i64 i64 i64 i32)
               (f64.store (local.get 4) (f64.convert_i64_u (i64.add (local.get 2) (local.get 3)))))"#;
    let mut controller = made(&Text { more: &more, flags: r"\02\00\00\00", ..Text::default() });
    assert!(controller.transport().every_segment);
    let mut windows = Vec::new();
    let mut note = |controller: &dyn Controller| windows.push(controller.window().0);
    controller.on_loss(&LossInfo::default());
    note(controller.as_ref());
    controller.on_timeout(&LossInfo::default());
    note(controller.as_ref());
    controller.on_sent(&SentInfo::default());
    note(controller.as_ref());
    controller.on_spurious_loss(Time(1));
    note(controller.as_ref());
    controller.on_recovery_end(Time(1), Bytes(9000));
    note(controller.as_ref());
    controller.on_idle_restart(Time(1), Dur(4000), Dur(4001));
    note(controller.as_ref());
    assert_eq!(windows, [2896, 4344, 5792, 7240, 9000, 8001]);
}

#[test]
fn random_numbers_follow_the_seed() {
    let imports = r#"(import "ccarena" "random" (func $random (result i64)))"#;
    let ack = "(f64.store (local.get $out) (f64.convert_i64_u (i64.shr_u (call $random) (i64.const 32))))";
    let module = Module::load(&Text { imports, ack, ..Text::default() }.bytes()).unwrap();
    assert!(module.about().random);
    let drawn = |seed| {
        let mut controller = module.controller(&Config { seed, ..Config::default() }).unwrap();
        let mut draw = || {
            controller.on_ack(&AckInfo::default());
            controller.window()
        };
        [draw(), draw()]
    };
    assert_eq!(drawn(1), drawn(1));
    assert_ne!(drawn(1), drawn(2));
    assert_ne!(drawn(1)[0], drawn(1)[1]);
}

#[test]
fn not_a_number_has_the_same_bits_everywhere() {
    // 0/0 has its sign set on x86 and not on ARM; the payload of an operand may stay.
    let bits = |number: &str| {
        let ack = format!(
            "(f64.store (local.get $out) (f64.convert_i64_u (i64.shr_u (i64.reinterpret_f64 {number}) (i64.const 40))))"
        );
        acknowledged(&Text { ack: &ack, ..Text::default() }).window().0
    };
    let canonical = 0x7ff8_0000_0000_0000 >> 40;
    assert_eq!(bits("(f64.div (f64.const 0) (f64.const 0))"), canonical);
    assert_eq!(bits("(f64.add (f64.const nan:0x8000000000123) (f64.const 1))"), canonical);
}

#[test]
fn a_controller_that_goes_wrong_gives_up_with_the_reason() {
    let grow = "(drop (memory.grow (i32.const 300)))";
    let cases: &[(&str, &str)] = &[
        ("unreachable", "cc_on_ack: trap: wasm `unreachable` instruction executed, at 0.001000 s"),
        ("(loop $again (br $again))", "cc_on_ack: more than 1000000 instructions in one call, at 0.001000 s"),
        (grow, "cc_on_ack: it asks for more than 16 MiB of memory, or 10000 table elements, at 0.001000 s"),
        ("(call $deep)", "cc_on_ack: its calls nest too deeply, at 0.001000 s"),
        ("(drop (i32.load (i32.const -8)))", "cc_on_ack: trap: out of bounds memory access, at 0.001000 s"),
        ("(drop (i32.div_u (local.get $cc) (i32.const 0)))", "cc_on_ack: trap: integer divide by zero, at 0.001000 s"),
    ];
    let more = "(func $deep (call $deep))";
    for (ack, expected) in cases {
        assert_eq!(reason(acknowledged(&Text { ack, more, ..Text::default() }).as_ref()), *expected);
    }
    let answers = [
        (0, "nan", "window_bytes = NaN; expected a number from 0 to 1099511627776"),
        (0, "-1", "window_bytes = -1; expected a number from 0 to 1099511627776"),
        (0, "1e300", "expected a number from 0 to 1099511627776"),
        (0, "inf", "window_bytes = inf; expected a number from 0 to 1099511627776"),
        (8, "-5", "pacing_bps = -5; expected a number, finite and not negative"),
        (8, "inf", "pacing_bps = inf; expected a number, finite and not negative"),
        (16, "nan", "threshold_bytes = NaN; expected a number that is not negative"),
        (16, "-inf", "threshold_bytes = -inf; expected a number that is not negative"),
    ];
    for (offset, value, expected) in answers {
        let ack = set(offset, value);
        let found = reason(acknowledged(&Text { ack: &ack, ..Text::default() }).as_ref());
        assert!(found.contains(expected), "{found}");
    }
}

#[test]
fn a_controller_that_has_given_up_is_not_called_again() {
    let ack = format!("{} unreachable", set(0, "99999"));
    let mut controller = acknowledged(&Text { ack: &ack, ..Text::default() });
    let first = reason(controller.as_ref());
    controller.on_ack(&AckInfo { now: Time(2_000_000), ..AckInfo::default() });
    controller.on_loss(&LossInfo::default());
    controller.on_timer(Time(3_000_000));
    assert_eq!(reason(controller.as_ref()), first);
}

#[test]
fn a_controller_that_cannot_be_created_has_given_up_from_the_start() {
    for create in ["unreachable", "(loop $again (br $again)) i32.const 0"] {
        let found = reason(made(&Text { create, ..Text::default() }).as_ref());
        assert!(found.starts_with("cc_create: ") && found.ends_with(", before the flow's start"), "{found}");
    }
    let create = format!("{} i32.const 0", set(0, "nan"));
    let found = reason(made(&Text { create: &create, ..Text::default() }).as_ref());
    assert!(found.starts_with("cc_create: window_bytes = NaN"), "{found}");
}

#[test]
fn a_module_that_may_not_run_is_refused() {
    let import = |text| refused(&Text { imports: text, ..Text::default() });
    assert!(import(r#"(import "wasi_snapshot_preview1" "fd_write" (func (param i32)))"#).starts_with(
        "it imports wasi_snapshot_preview1.fd_write; a module may import ccarena.random alone; it was built for WASI"
    ));
    assert!(import(r#"(import "env" "memset" (func))"#).contains("it imports env.memset"));
    assert!(import(r#"(import "ccarena" "clock" (func))"#).contains("it imports ccarena.clock"));
    assert!(import(r#"(import "ccarena" "random" (func))"#).contains("than a function () -> i64"));

    let memory = |text| refused(&Text { memory: text, ..Text::default() });
    assert_eq!(memory(r#"(memory (export "memory") 257)"#), "its memory begins with 16448 KiB; expected at most 16384");
    assert_eq!(memory("(memory 1)"), "it exports no memory called `memory`");

    let more = |text| refused(&Text { more: text, ..Text::default() });
    assert!(more(r#"(func (export "cc_on_los"))"#).starts_with("it exports cc_on_los, which is no function"));
    assert!(more(r#"(func (export "cc_on_loss"))"#).starts_with("its cc_on_loss has another type than in ccarena.h"));
    assert!(more("(func $trap unreachable) (start $trap)").starts_with("its start: trap: wasm `unreachable`"));
    assert!(more("(func $ever (loop $again (br $again))) (start $ever)").contains("instructions in one call"));
    assert!(more("(table 20000 funcref)").contains("table"));
    assert!(more(r#"(data (i32.const 65535) "ab")"#).starts_with("its start: "));

    assert!(
        refused(&Text { abi: r"\09\00\00\00", ..Text::default() }).starts_with("it has version 9 of the interface")
    );
    assert!(refused(&Text { flags: r"\00\01\00\00", ..Text::default() }).contains("flags are 0x100"));
    let loaded = |bytes: &[u8]| Module::load(bytes).unwrap_err().to_string();
    assert_eq!(loaded(b"(module)"), "it is no WebAssembly module, which begins with the bytes 00 61 73 6d");
    assert!(loaded(b"\0asm\x01\0\0\0\xff").starts_with("it is no valid WebAssembly module: "));
    assert_eq!(loaded(&vec![0; (1 << 20) + 1]), "it has 1048577 bytes; expected at most 1048576");
    assert_eq!(loaded(&wat::parse_str("(module)").unwrap()), "it exports no memory called `memory`");
}

#[test]
fn a_thread_compiles_a_module_once() {
    let bytes = Text::default().bytes();
    let first = ccarena_wasm::compile(&bytes).unwrap();
    assert!(std::sync::Arc::ptr_eq(&first, &ccarena_wasm::compile(&bytes).unwrap()));
    let missing = ccarena_wasm::load(std::path::Path::new("absent.wasm")).unwrap_err().to_string();
    assert!(missing.starts_with("cannot read absent.wasm: "), "{missing}");
}
