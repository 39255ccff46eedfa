//! A controller that the user has written, in place of a scheme of the registry.

use ccarena_cc::reader::{At, Result};
use serde_json::{Value, json};

/// Controller of the user.
#[derive(Clone, Debug, PartialEq)]
pub enum Own {
    /// A Python class, which runs in the simulator only.
    Python {
        /// `FILE.py:NAME`, or the name of a class that Python has in memory.
        class: String,
    },
    /// A WebAssembly module (`ccarena-wasm`).
    Wasm {
        /// The module's file.
        module: String,
    },
}

const KINDS: &[&str] = &["python", "wasm"];

/// Reads the field `controller` of a flow.
///
/// # Errors
/// The first field at fault.
pub fn read(at: &At<'_>) -> Result<Own> {
    let (kind, o) =
        at.tagged("kind of controller", KINDS, |kind| vec![if kind == "python" { "class" } else { "module" }])?;
    Ok(match kind {
        "python" => Own::Python { class: o.require("class", "FILE.py:NAME")?.text("FILE.py:NAME")?.into() },
        _ => Own::Wasm { module: o.require("module", "FILE.wasm")?.text("FILE.wasm")?.into() },
    })
}

/// Writes the field `controller` of a flow.
#[must_use]
pub fn write(own: &Own) -> Value {
    match own {
        Own::Python { class } => json!({"type": "python", "class": class}),
        Own::Wasm { module } => json!({"type": "wasm", "module": module}),
    }
}
