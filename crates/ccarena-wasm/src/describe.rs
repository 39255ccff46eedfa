//! Description of a module, read from its memory after `cc_describe`.

use crate::abi::{SCRATCH_BYTES, VERSION, wants};
use crate::instance::Instance;
use crate::limits::{PARAMS, TEXT_BYTES};
use crate::{About, Parameter};

/// Bytes of `cc_about` and `cc_param`, whose pointers are four bytes long.
const ABOUT_BYTES: usize = 28;
const PARAM_BYTES: usize = 40;

/// Asks a module for its description.
///
/// # Errors
/// The reason why it is none.
pub fn describe(instance: &mut Instance) -> Result<About, String> {
    scratch(instance)?;
    let at = instance.call_once::<(), u32>("cc_describe", ())? as usize;
    let about: [u8; ABOUT_BYTES] = *instance.read(at).ok_or("cc_describe: its address is outside the memory")?;
    let abi = word(&about, 0);
    if abi != VERSION {
        return Err(format!("it has version {abi} of the interface; this version of ccarena runs version {VERSION}"));
    }
    let flags = word(&about, 4);
    let known = wants::OWNS_RECOVERY | wants::EVERY_SEGMENT | wants::RATE_SAMPLES;
    if flags & !known != 0 {
        return Err(format!("cc_describe: flags are {flags:#x}; expected a sum of those of cc_about"));
    }
    let name = text(instance, word(&about, 8), "name")?;
    if name.is_empty() {
        return Err("cc_describe: the name is empty".into());
    }
    let summary = text(instance, word(&about, 12), "summary")?;
    let (table, count) = (word(&about, 16) as usize, word(&about, 20) as usize);
    if count > PARAMS {
        return Err(format!("cc_describe: {count} parameters; expected at most {PARAMS}"));
    }
    let mut params: Vec<Parameter> = Vec::with_capacity(count);
    for index in 0..count {
        let param = parameter(instance, table + index * PARAM_BYTES)
            .map_err(|reason| format!("cc_describe: params[{index}]: {reason}"))?;
        if params.iter().any(|other| other.name == param.name) {
            return Err(format!("cc_describe: params[{index}]: {:?} occurs twice", param.name));
        }
        params.push(param);
    }
    Ok(About {
        name,
        summary,
        params,
        owns_recovery: flags & wants::OWNS_RECOVERY != 0,
        every_segment: flags & wants::EVERY_SEGMENT != 0,
        rate_samples: flags & wants::RATE_SAMPLES != 0,
        exports: Vec::new(),
        random: false,
        memory_bytes: 0,
        module_bytes: 0,
        digest: String::new(),
    })
}

/// Returns where a module wants events.
///
/// # Errors
/// If that is not inside its memory, or not aligned.
pub fn scratch(instance: &mut Instance) -> Result<usize, String> {
    let at = instance.call_once::<(), u32>("cc_scratch", ())? as usize;
    match instance.read::<SCRATCH_BYTES>(at) {
        Some(_) if at % 8 == 0 => Ok(at),
        _ => Err(format!(
            "cc_scratch: its address is {at}; expected a multiple of 8 with {SCRATCH_BYTES} bytes inside the memory"
        )),
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |word| u32::from_le_bytes(*word))
}

fn number(bytes: &[u8], at: usize) -> f64 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0.0, |word| f64::from_le_bytes(*word))
}

fn parameter(instance: &Instance, at: usize) -> Result<Parameter, String> {
    let bytes: [u8; PARAM_BYTES] = *instance.read(at).ok_or("its address is outside the memory")?;
    let name = text(instance, word(&bytes, 0), "name")?;
    if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
        return Err(format!("its name is {name:?}; expected letters, digits and `_`"));
    }
    let (unit, help) = (text(instance, word(&bytes, 4), "unit")?, text(instance, word(&bytes, 8), "help")?);
    let (initial, least, most) = (number(&bytes, 16), number(&bytes, 24), number(&bytes, 32));
    if ![initial, least, most].iter().all(|x| x.is_finite()) || !(least..=most).contains(&initial) {
        return Err(format!(
            "{name}: {initial} in {least} to {most}; expected finite numbers, the first within the others"
        ));
    }
    Ok(Parameter { name, unit, help, initial, least, most })
}

/// Text at `at`, which ends with a zero.
fn text(instance: &Instance, at: u32, what: &str) -> Result<String, String> {
    if at == 0 {
        return Ok(String::new());
    }
    let bytes = instance.memory_from(at as usize);
    let end = bytes.iter().take(TEXT_BYTES + 1).position(|byte| *byte == 0);
    let text = end.and_then(|end| std::str::from_utf8(&bytes[..end]).ok());
    match text {
        Some(text) if !text.chars().any(char::is_control) => Ok(text.to_string()),
        _ => Err(format!("{what}: expected UTF-8 text of at most {TEXT_BYTES} bytes in one line, ended by a zero")),
    }
}
