//! Random modules: they are refused with a reason, or run within their bounds, and twice the same.
#![allow(clippy::unwrap_used, reason = "a test that fails panics; clippy.toml exempts test functions, not helpers")]

#[path = "common/random.rs"]
mod drawn;
#[path = "common/mod.rs"]
mod text;

use ccarena_wasm::Module;
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_random_module_keeps_its_bounds_and_does_the_same_again(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let module = Module::load(&wat::parse_str(drawn::wat(&bytes)).unwrap()).unwrap();
        let first = drawn::drive(&module);
        prop_assert!(!first.is_empty());
        prop_assert_eq!(first, drawn::drive(&module));
    }

    #[test]
    fn random_bytes_are_refused(bytes in proptest::collection::vec(any::<u8>(), 0..500), header in any::<bool>()) {
        let bytes = if header { [b"\0asm\x01\0\0\0", &bytes[..]].concat() } else { bytes };
        prop_assert!(Module::load(&bytes).is_err());
    }

    #[test]
    fn a_module_with_a_changed_byte_is_refused_or_runs(at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut bytes = text::Text::default().bytes();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if let Ok(module) = Module::load(&bytes) {
            drawn::drive(&module);
        }
    }
}
