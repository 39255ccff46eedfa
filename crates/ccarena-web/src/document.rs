//! Reader of a scenario's text, YAML or JSON, as the command `ccarena` reads its file.

use std::path::Path;

use ccarena_cc::bounded::{LARGEST_DOCUMENT_BYTES, Store};
use ccarena_cc::reader;
use ccarena_net::conditions::Recordings as _;
use ccarena_net::{Demand, Scenario};
use ccarena_sim::Files;
use serde_json::{Value, json};

use crate::{Problem, yaml};

/// Suffixes of the files of specs.
const SPEC_FILES: [&str; 3] = [".json", ".yaml", ".yml"];

/// Settings of an entrant that are fields of a flow; the others are the scheme's parameters.
const FIELDS: [&str; 5] = ["weight", "requirement", "ecn", "l4s", "rules"];

/// Returns the document in `text`: JSON if it is JSON, else YAML.
///
/// # Errors
/// If it is too long, neither of both, or no mapping.
pub fn read(text: &str) -> Result<Value, Problem> {
    if text.len() as u64 > LARGEST_DOCUMENT_BYTES {
        let (found, most) = (text.len(), LARGEST_DOCUMENT_BYTES);
        return Err(Problem::new(format!("scenario: it has {found} bytes; expected at most {most}")));
    }
    match data(text, "scenario")? {
        document @ Value::Object(_) => Ok(document),
        other => {
            let found = match other {
                Value::Null => "nothing",
                Value::Array(_) => "a list",
                Value::String(_) => "text",
                _ => "a number or true or false",
            };
            Err(Problem::new(format!("scenario: a scenario is a mapping with `links` and `flows`, found {found}")))
        }
    }
}

/// Returns the data in `text`, which errors call `name`.
fn data(text: &str, name: &str) -> Result<Value, Problem> {
    let is_json = text.trim_start().starts_with('{') && !has_long_whole(text);
    let json = if is_json { reader::parse(text).ok() } else { None };
    match json {
        Some(data) => Ok(data),
        None => yaml::parse(text).map_err(|fault| Problem::new(format!("{name}{fault}"))),
    }
}

/// Returns whether the JSON `text` has a whole number that 64 bits do not hold: a reader of JSON would round it.
fn has_long_whole(text: &str) -> bool {
    let text = text.replace(r"\\", "").replace(r#"\""#, "");
    let outside_texts = text.split('"').step_by(2);
    outside_texts.flat_map(|part| part.split(|c: char| !(c.is_alphanumeric() || "-+.".contains(c)))).any(|word| {
        let digits = word.strip_prefix('-').unwrap_or(word);
        !digits.is_empty() && digits.bytes().all(|c| c.is_ascii_digit()) && yaml::whole_number(word).is_none()
    })
}

/// Replaces the names of files by what a scenario has of them, as the command does: specs, and what conditions traces say.
///
/// # Errors
/// If a file is missing or none of its kind.
pub fn complete(mut document: Value, store: &Store, files: &Files) -> Result<Value, Problem> {
    let flows = document.get_mut("flows").and_then(Value::as_array_mut);
    for (index, flow) in flows.into_iter().flatten().enumerate() {
        let Some(scheme) = flow.get_mut("scheme") else { continue };
        let at = |why: &str| Problem::at(&format!("flows[{index}].scheme"), why);
        let Some(name) = scheme.as_str() else { continue };
        if !SPEC_FILES.iter().any(|suffix| name.ends_with(suffix)) {
            if name.contains(['@', '=']) {
                let (name, advice) = (yaml::short(name), written_out(name));
                return Err(at(&format!("a page reads no text of an entrant, as \"{name}\" is; {advice}")));
            }
            continue;
        }
        let text = store.read_text(Path::new(name)).map_err(|error| at(&format!("{name}: cannot be read: {error}")))?;
        let spec = data(&text, name).map_err(|problem| at(&problem.message))?;
        if !spec.is_object() {
            return Err(at(&format!("{name}: expected a mapping with `learned`, `clock`, `observe` and `act`")));
        }
        *scheme = spec;
    }
    conditions(document, files)
}

/// Returns what to do instead of the text of an entrant (docs/entrants.md), such as `cubic@hystart=0`.
fn written_out(entrant: &str) -> String {
    let param = |setting: &str| {
        let (key, value) = setting.split_once('=')?;
        let is_param = !FIELDS.contains(&key) && value.parse::<f64>().is_ok();
        is_param.then(|| format!("{key}: {value}"))
    };
    let parts = entrant.split_once('@').filter(|(scheme, _)| entrant.len() < 200 && !scheme.contains('='));
    let params = parts.and_then(|(scheme, settings)| {
        let params = settings.split(',').map(param).collect::<Option<Vec<_>>>()?;
        Some(format!("write scheme: {scheme} and params: {{{}}}", params.join(", ")))
    });
    let fields =
        || format!("write its parts as fields of the flow: name, scheme, policy, params, {}", FIELDS.join(", "));
    format!("{}, or make the page with: ccarena play SCENARIO.yaml", params.unwrap_or_else(fields))
}

/// Fills in what links with a conditions trace have from it, as the command does: their service, and their least delay.
fn conditions(mut document: Value, files: &Files) -> Result<Value, Problem> {
    let links = document.get_mut("links").and_then(Value::as_array_mut);
    for (index, link) in links.into_iter().flatten().enumerate() {
        let given = match link.get("conditions") {
            Some(Value::Object(given)) => given.clone(),
            _ => continue,
        };
        let mut fill = |key: &str, value: Value| {
            if link.get(key).is_none_or(Value::is_null) {
                link[key] = value;
            }
        };
        if let Some(file) = given.get("file").and_then(Value::as_str) {
            let trace = files.conditions(Path::new(file));
            let trace =
                trace.map_err(|error| Problem::at(&format!("links[{index}].conditions"), &error.to_string()))?;
            fill("service", json!({"type": "conditions"}));
            if let Some(delay) = trace.least_delay() {
                fill("delay_ms", json!(delay.as_millis_f64()));
            }
        } else if given.contains_key("model") {
            fill("service", json!({"type": "conditions"}));
        }
    }
    Ok(document)
}

/// Returns the scenario in `text` with every default filled in, and under `estimate` the packets that its run asks for,
/// counted at every link; recorded traces do not count.
///
/// # Errors
/// The first fault of the document.
pub fn normalise(text: &str, store: Store) -> Result<Value, Problem> {
    let files = Files::in_store(store.clone());
    let scenario = Scenario::from_json(&complete(read(text)?, &store, &files)?)?;
    let mut document = scenario.to_json();
    document["estimate"] = json!({"packets": Demand::of(&scenario).packets()});
    Ok(document)
}
