//! Module, checked and compiled.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use ccarena_cc::{BuildError, Config, Controller};
use sha2::{Digest as _, Sha256};
use wasmi::{CompilationMode, EnforcedLimits, Engine, ExternType, FuncType, Linker, ValType};

use crate::controller::{Stillborn, WasmController};
use crate::describe::describe;
use crate::instance::{Host, Instance, imports};
use crate::limits::{CALL_DEPTH, MEMORY_BYTES, MODULE_BYTES, STACK_BYTES};
use crate::{About, ModuleError};

use ValType::{I32, I64};

/// Module of a controller.
pub struct Module {
    module: wasmi::Module,
    linker: Linker<Host>,
    about: About,
}

impl std::fmt::Debug for Module {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Module").field("about", &self.about).finish_non_exhaustive()
    }
}

/// A function of the interface: its name, its parameters, its results, and whether a module has to have it.
type Function = (&'static str, &'static [ValType], &'static [ValType], bool);

/// Functions of `ccarena.h`. Pointers are `i32`.
const FUNCTIONS: &[Function] = &[
    ("cc_scratch", &[], &[I32], true),
    ("cc_describe", &[], &[I32], true),
    ("cc_create", &[I32, I32], &[I32], true),
    ("cc_on_ack", &[I32, I32, I32], &[], true),
    ("cc_free", &[I32], &[], false),
    ("cc_on_loss", &[I32, I32, I32], &[], false),
    ("cc_on_timeout", &[I32, I32, I32], &[], false),
    ("cc_on_sent", &[I32, I32, I32], &[], false),
    ("cc_on_timer", &[I32, I64, I32], &[], false),
    ("cc_on_spurious_loss", &[I32, I64, I32], &[], false),
    ("cc_on_recovery_end", &[I32, I64, I64, I32], &[], false),
    ("cc_on_idle_restart", &[I32, I64, I64, I64, I32], &[], false),
];

fn refuse<T>(reason: impl Into<String>) -> Result<T, ModuleError> {
    Err(ModuleError::Refused(reason.into()))
}

fn engine() -> Engine {
    let mut config = wasmi::Config::default();
    config
        .consume_fuel(true)
        .ignore_custom_sections(true)
        .compilation_mode(CompilationMode::Eager)
        .enforced_limits(EnforcedLimits::strict())
        .wasm_multi_memory(false)
        .wasm_custom_page_sizes(false)
        .wasm_wide_arithmetic(false)
        .set_max_recursion_depth(CALL_DEPTH)
        .set_max_stack_height(STACK_BYTES)
        .set_max_cached_stacks(1);
    Engine::new(&config)
}

impl Module {
    /// Checks, compiles and describes a module.
    ///
    /// # Errors
    /// If it is too large, is no WebAssembly, imports what it may not, lacks a function, or describes itself wrongly.
    pub fn load(bytes: &[u8]) -> Result<Self, ModuleError> {
        if bytes.len() as u64 > MODULE_BYTES {
            return refuse(format!("it has {} bytes; expected at most {MODULE_BYTES}", bytes.len()));
        }
        if !bytes.starts_with(b"\0asm") {
            return refuse("it is no WebAssembly module, which begins with the bytes 00 61 73 6d");
        }
        let engine = engine();
        let module = wasmi::Module::new(&engine, bytes)
            .map_err(|error| ModuleError::Refused(format!("it is no valid WebAssembly module: {error}")))?;
        let random = check_imports(&module)?;
        let exports = check_exports(&module)?;
        let linker = imports(&engine).map_err(|error| ModuleError::Refused(error.to_string()))?;
        let mut instance = Instance::new(&module, &linker, 0).map_err(ModuleError::Refused)?;
        let memory_bytes = instance.memory_bytes();
        let described = describe(&mut instance).map_err(ModuleError::Refused)?;
        let digest = Sha256::digest(bytes).iter().fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        });
        let about = About { exports, random, memory_bytes, module_bytes: bytes.len(), digest, ..described };
        Ok(Self { module, linker, about })
    }

    /// Returns the facts about the module.
    #[must_use]
    pub fn about(&self) -> &About {
        &self.about
    }

    /// Returns the values of all parameters, those that are not `given` at their defaults.
    ///
    /// # Errors
    /// If a parameter is unknown or outside its bounds.
    pub fn params(&self, given: &BTreeMap<String, f64>) -> Result<Vec<f64>, BuildError> {
        self.about.values(given)
    }

    /// Returns the controller of a flow. If the module fails to create it, the controller has given up from the start.
    ///
    /// # Errors
    /// If a parameter is unknown or outside its bounds.
    pub fn controller(&self, config: &Config) -> Result<Box<dyn Controller>, BuildError> {
        let params = self.params(&config.params)?;
        let made = Instance::new(&self.module, &self.linker, config.seed)
            .and_then(|instance| WasmController::new(instance, &self.about, config, &params));
        Ok(match made {
            Ok(controller) => Box::new(controller),
            Err(reason) => Box::new(Stillborn { reason: format!("{reason}, before the flow's start") }),
        })
    }
}

/// Checks what a module imports, and returns whether it draws random numbers.
fn check_imports(module: &wasmi::Module) -> Result<bool, ModuleError> {
    let mut random = false;
    for import in module.imports() {
        let (from, name) = (import.module(), import.name());
        if (from, name) != ("ccarena", "random") {
            let hint = if from.starts_with("wasi") {
                "; it was built for WASI: build it for plain wasm32 (clang --target=wasm32 -nostdlib, \
                 cargo build --target wasm32-unknown-unknown), without files, clocks and printing"
            } else if from == "env" {
                "; a function or memory of this name is declared but not defined: define it, or link what defines it"
            } else {
                ""
            };
            return refuse(format!("it imports {from}.{name}; a module may import ccarena.random alone{hint}"));
        }
        let expected = FuncType::new([], [I64]);
        if !matches!(import.ty(), ExternType::Func(found) if *found == expected) {
            return refuse("it imports ccarena.random as something else than a function () -> i64");
        }
        random = true;
    }
    Ok(random)
}

/// Checks what a module exports, and returns the names of its functions of the interface.
fn check_exports(module: &wasmi::Module) -> Result<Vec<String>, ModuleError> {
    match module.get_export("memory") {
        Some(ExternType::Memory(memory)) if memory.minimum() > (MEMORY_BYTES >> 16) as u64 => {
            return refuse(format!(
                "its memory begins with {} KiB; expected at most {}",
                memory.minimum() * 64,
                MEMORY_BYTES >> 10
            ));
        }
        Some(ExternType::Memory(_)) => {}
        _ => return refuse("it exports no memory called `memory`"),
    }
    for export in module.exports().filter(|export| export.name().starts_with("cc_")) {
        let known = FUNCTIONS.iter().any(|(name, ..)| *name == export.name());
        if !known && export.ty().func().is_some() {
            let names: Vec<_> = FUNCTIONS.iter().map(|(name, ..)| *name).collect();
            return refuse(format!(
                "it exports {}, which is no function of the interface; expected {}",
                export.name(),
                names.join(", ")
            ));
        }
    }
    let mut exports = Vec::new();
    for (name, params, results, required) in FUNCTIONS {
        match module.get_export(name) {
            Some(ExternType::Func(found)) if found == FuncType::new(params.to_vec(), results.to_vec()) => {
                exports.push((*name).to_string());
            }
            Some(_) => {
                return refuse(format!(
                    "its {name} has another type than in ccarena.h: expected a function from {params:?} to {results:?}"
                ));
            }
            None if *required => return refuse(format!("it exports no function {name}, which ccarena.h declares")),
            None => {}
        }
    }
    Ok(exports)
}
