//! A WebAssembly module is refused, or its controller keeps its bounds and does the same again: arbitrary bytes, random
//! valid modules with the exports of the interface, and such whose functions reach the controller's events.
#![no_main]

#[path = "../../crates/ccarena-wasm/tests/common/random.rs"]
mod drawn;
#[path = "../../crates/ccarena-wasm/tests/common/mod.rs"]
mod text;

use ccarena_wasm::Module;
use libfuzzer_sys::arbitrary::Unstructured;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u8, &[u8])| {
    let (kind, bytes) = input;
    let made = match kind % 3 {
        0 => Some(bytes.to_vec()),
        1 => smith(bytes),
        _ => wat::parse_str(drawn::wat(bytes)).ok(),
    };
    if let Some(Ok(module)) = made.map(|bytes| Module::load(&bytes)) {
        assert_eq!(drawn::drive(&module), drawn::drive(&module));
    }
});

/// A random valid module. Few describe themselves as the interface asks.
fn smith(bytes: &[u8]) -> Option<Vec<u8>> {
    let config = wasm_smith::Config {
        exports: Some(text::Text::default().bytes()),
        max_imports: 0,
        max_memory32_bytes: 32 << 20,
        ..wasm_smith::Config::default()
    };
    let module = wasm_smith::Module::new(config, &mut Unstructured::new(bytes)).ok()?;
    Some(module.to_bytes())
}
