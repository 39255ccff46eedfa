//! `ccarena_image.h` and `ccarena_cc::policy::kernel` lay an image out alike, and name the same parts.
#![allow(clippy::unwrap_used, reason = "a test that fails panics; clippy.toml exempts test functions, not helpers")]

#[path = "../../ccarena-cc/tests/common/untrained.rs"]
mod common;

use std::env;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use ccarena_cc::learned::{actuators, bases, clocks, signals};
use ccarena_cc::policy::Policy;
use ccarena_cc::policy::kernel::{self, ImageError, ImageOptions, Known};
use ccarena_cc::{Backend, Rate};
use ccarena_kernel::policies::replay::TRIAL_BYTES;
use common::untrained;
use serde_json::{Value, json};

fn options() -> ImageOptions {
    ImageOptions {
        params: Default::default(),
        desired_rate: Rate::from_mbps(10_000.0),
        header_bytes: 52,
        reports: false,
        label: "a label that is longer than sixty-three bytes, so that it has to be cut somewhere".into(),
    }
}

fn shipped(name: &str) -> Policy {
    let scheme = name.split('-').next().unwrap();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ccarena").join(scheme).join("policies");
    Policy::from_bytes(&std::fs::read(folder.join(format!("{name}.safetensors"))).unwrap()).unwrap()
}

#[test]
fn the_header_says_where_things_are() {
    let mut c = String::from("#include <stddef.h>\n#include <stdint.h>\n#include <stdbool.h>\n");
    c.push_str(
        "typedef uint32_t u32; typedef uint64_t u64; typedef int32_t s32; typedef int64_t s64; typedef uint8_t u8;\n",
    );
    c.push_str("#include \"policy.h\"\n");
    writeln!(c, "_Static_assert(sizeof(struct image) == {}, \"image\");", kernel::BYTES).unwrap();
    writeln!(c, "_Static_assert(sizeof(struct trial) == {TRIAL_BYTES}, \"trial\");").unwrap();
    writeln!(c, "_Static_assert(offsetof(struct image, generation) == {}, \"\");", kernel::GENERATION_AT).unwrap();
    writeln!(c, "_Static_assert(IMAGE_VERSION == {}, \"version\");", kernel::VERSION).unwrap();
    for (field, at) in [
        ("checksum", 16),
        ("scheme", 48),
        ("spec", 112),
        ("label", 136),
        ("columns_length", kernel::NETWORK_AT),
        ("reports_length", kernel::REPORTS_AT),
    ] {
        writeln!(c, "_Static_assert(offsetof(struct image, {field}) == {at}, \"{field}\");").unwrap();
    }
    for (name, length) in [
        ("COLUMNS", kernel::COLUMNS),
        ("OBSERVATION", kernel::OBSERVATION),
        ("STATE", kernel::STATE),
        ("ACTIONS", kernel::ACTIONS),
        ("PARTS", kernel::PARTS),
        ("STEPS", kernel::STEPS),
        ("VALUES", kernel::VALUES),
        ("CONSTANTS", kernel::CONSTANTS),
        ("WEIGHTS", kernel::WEIGHTS),
        ("OPTIONS", kernel::OPTIONS),
        ("DERIVED", kernel::DERIVED),
        ("SLACK", kernel::SLACK),
    ] {
        writeln!(c, "_Static_assert(IMAGE_{name} == {length}, \"{name}\");").unwrap();
    }
    for (prefix, names) in [
        ("CLOCK", kernel::CLOCKS),
        ("ACT", kernel::ACTUATORS),
        ("SIGNAL", kernel::SIGNALS),
        ("DERIVED", kernel::DERIVATIONS),
    ] {
        for (number, name) in names.iter().enumerate() {
            let name = name.replace("MBps", "MBYTEPS").to_uppercase();
            writeln!(c, "_Static_assert({prefix}_{name} == {number}, \"{name}\");").unwrap();
        }
    }
    for (what, names) in [
        ("CLOCKS", kernel::CLOCKS),
        ("ACTUATORS", kernel::ACTUATORS),
        ("BASES", kernel::BASES),
        ("SIGNALS", kernel::SIGNALS),
        ("DERIVATIONS", kernel::DERIVATIONS),
    ] {
        writeln!(c, "_Static_assert({what} == {}, \"{what}\");", names.len()).unwrap();
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let clang = env::var_os("CLANG").unwrap_or_else(|| "clang".into());
    let mut child = Command::new(clang)
        .args(["-x", "c", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-I"])
        .arg(root.join("src/bpf"))
        .arg("-I")
        .arg(root.join("../ccarena-cc/src/policy/integer"))
        .arg("-I")
        .arg(root.join("../ccarena-cc/src/policy/kernel"))
        .arg("-")
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(c.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success(), "{c}");
}

#[test]
fn the_registries_mark_what_the_program_knows() {
    for entry in clocks::CLOCKS {
        assert_eq!(entry.kernel, kernel::CLOCKS.contains(&entry.name), "{}", entry.name);
    }
    for entry in actuators::ACTUATORS {
        assert_eq!(entry.kernel, kernel::ACTUATORS.contains(&entry.name), "{}", entry.name);
    }
    for entry in bases::BASES {
        assert_eq!(entry.kernel, kernel::BASES.contains(&entry.name), "{}", entry.name);
    }
    for signal in signals::all() {
        assert_eq!(signal.is_measured(Backend::Kernel), kernel::SIGNALS.contains(&signal.name), "{}", signal.name);
    }
}

#[test]
fn shipped_policies_have_images_and_damage_shows() {
    for name in ["acct", "hyvar"] {
        let image = kernel::write(&shipped(name), &options()).unwrap();
        let about = kernel::check(&image).unwrap();
        assert_eq!((about.scheme.as_str(), about.generation, about.label.len()), (name, 0, 63));
        for (at, expected) in
            [(0, "does not begin"), (8, "version"), (700, "checksum"), (kernel::BYTES - 1, "checksum")]
        {
            let mut broken = image.clone();
            broken[at] ^= 1;
            assert!(kernel::check(&broken).unwrap_err().to_string().contains(expected), "{at}");
        }
        assert!(kernel::check(&image[..9000]).unwrap_err().to_string().contains("cut off"));
    }
}

#[test]
fn a_parameter_that_cannot_be_had_is_named() {
    let with = |name: &str, value: f64| {
        let params = [(name.to_string(), value)].into();
        kernel::write(&shipped("hyvar"), &ImageOptions { params, ..options() }).unwrap_err()
    };
    assert!(matches!(with("hystart", 0.0), ImageError::Fixed { .. }));
    assert!(with("timed", 1.0).to_string().contains("timed 1 cannot be had in the kernel"));
    assert!(with("alpha", 99.0).to_string().contains("expected 1 to 10"));
    let params = [("alpha".to_string(), 2.0)].into();
    assert!(kernel::write(&shipped("hyvar"), &ImageOptions { params, ..options() }).is_ok());
}

fn i32_at(image: &[u8], at: usize) -> i32 {
    i32::from_le_bytes(image[at..at + 4].try_into().unwrap())
}

fn f64_at(image: &[u8], at: usize) -> f64 {
    i64::from_le_bytes(image[at..at + 8].try_into().unwrap()) as f64 / f64::from(1 << 20)
}

#[test]
fn an_image_has_the_guard_of_its_policy() {
    let spec = |act: Value| {
        json!({
            "learned": 1, "name": "tried", "clock": "window", "observe": {"signals": ["rtt_ratio", "loss_ratio"]},
            "act": act, "base": "none", "report": ["rtt_ms"],
        })
        .to_string()
    };
    let guard = |low: f32, high: f32| json!({"observation": {"low": [1, null], "high": [3, 0.5]}, "action": {"low": [low], "high": [high]}});
    let image = |act: Value, guard: Value| kernel::write(&untrained(&spec(act), 1, &guard), &options()).unwrap();
    let bounds = json!({"kind": "window", "bounds": [2, 200]});
    let (free, held) = (image(bounds.clone(), Value::Null), image(bounds, guard(10.0, 50.0)));
    let (low, high) = (kernel::NETWORK_AT + 32, kernel::NETWORK_AT + 36);
    assert_eq!(i32_at(&held, low), 5 * i32_at(&free, low));
    assert_eq!(4 * i32_at(&held, high), i32_at(&free, high));
    assert_eq!((kernel::about(&held).known, kernel::about(&free).known), (Known::Guard, Known::Nothing));
    let observed = kernel::REPORTS_AT + 8 + kernel::COLUMNS * 48;
    let entries = [0, 8, 24].map(|offset| f64_at(&held, observed + offset));
    assert!(entries.iter().zip([1.0, 3.0, 0.5]).all(|(x, y)| (x - y).abs() < 1e-9), "{entries:?}");
    let levels = image(json!({"kind": "window", "levels": [5, 10, 50, 100]}), guard(10.0, 50.0));
    let actions = kernel::NETWORK_AT + 40 + kernel::PARTS * 8;
    let actions = [0, 8, 16, 24].map(|offset| f64_at(&levels, actions + offset));
    assert!(actions.iter().zip([10.0, 10.0, 50.0, 50.0]).all(|(x, y)| (x - y).abs() < 1e-9), "{actions:?}");
}
