//! Functions that `page/src/engine.ts` calls, over the module's memory. Other modules know nothing of it.
//!
//! The page reserves an input for each text or file (`reserve`), writes it there, and calls a function, which takes all
//! inputs. Most functions leave an answer, JSON text, which stands at `answer_at` until the next call. A column of numbers
//! is said by its address and length, and stays valid until the next call.

#![allow(unsafe_code, reason = "functions that are called from outside have names that are not mangled")]

use std::cell::RefCell;
use std::collections::BTreeMap;

use ccarena_cc::bounded::Store;
use ccarena_net::catalogue;
use serde_json::{Value, json};

use crate::picture::Column;
use crate::run::{Given, Options, Progress, Run, check as faults};
use crate::{Problem, document};

/// The version of these functions, which `engine.ts` compares with its own.
const VERSION: u32 = 3;

#[derive(Default)]
struct State {
    inputs: Vec<Vec<u8>>,
    answer: String,
    runs: BTreeMap<u32, Run>,
    next: u32,
}

thread_local! {
    static STATE: RefCell<State> = RefCell::default();
    /// The message of the panic that stopped the module.
    static PANIC: RefCell<String> = RefCell::default();
}

/// Keeps the message of a panic. To be called first.
#[unsafe(no_mangle)]
pub extern "C" fn start() {
    std::panic::set_hook(Box::new(|about| PANIC.with_borrow_mut(|kept| *kept = about.to_string())));
}

/// Returns the address of the message of the panic that stopped the module.
#[unsafe(no_mangle)]
pub extern "C" fn panic_at() -> *const u8 {
    PANIC.with_borrow(|message| message.as_ptr())
}

/// Returns the length of that message; zero if it stopped otherwise.
#[unsafe(no_mangle)]
pub extern "C" fn panic_length() -> usize {
    PANIC.with_borrow(String::len)
}

/// Calls `of` and keeps what it answers. Returns 1, or 0 if the answer is a fault.
fn answer(of: impl FnOnce(&mut State) -> Result<Value, Problem>) -> u32 {
    STATE.with_borrow_mut(|state| {
        let (answer, code) = match of(state) {
            Ok(answer) => (answer, 1),
            Err(problem) => (problem.to_json(), 0),
        };
        state.answer = answer.to_string();
        code
    })
}

impl State {
    /// Takes the inputs: the scenario's text, then a name and the contents of each file.
    fn taken(&mut self) -> Result<(String, Given), Problem> {
        let mut inputs = std::mem::take(&mut self.inputs).into_iter();
        let text = |bytes| String::from_utf8(bytes).map_err(|_| Problem::new("a text is not UTF-8"));
        let scenario = text(inputs.next().ok_or_else(|| Problem::new("no scenario was given"))?)?;
        let mut given = Given::new();
        while let (Some(name), Some(contents)) = (inputs.next(), inputs.next()) {
            given.insert(text(name)?, contents);
        }
        Ok((scenario, given))
    }

    fn run(&mut self, run: u32) -> Result<&mut Run, Problem> {
        self.runs.get_mut(&run).ok_or_else(|| Problem::new("the run was freed; open it again"))
    }
}

fn columns(columns: &[Column<'_>]) -> Value {
    let of = |c: &Column<'_>| json!([c.group, c.index, c.name, c.values.as_ptr() as usize, c.values.len()]);
    columns.iter().map(of).collect()
}

fn said(progress: Progress) -> Value {
    json!({"nowS": progress.now_s, "done": progress.done, "packets": progress.packets})
}

/// Returns the version of these functions.
#[unsafe(no_mangle)]
pub extern "C" fn version() -> u32 {
    VERSION
}

/// Reserves an input of `length` bytes and returns its address.
#[unsafe(no_mangle)]
pub extern "C" fn reserve(length: usize) -> *mut u8 {
    STATE.with_borrow_mut(|state| {
        state.inputs.push(vec![0; length]);
        state.inputs.last_mut().map_or(std::ptr::null_mut(), |input| input.as_mut_ptr())
    })
}

/// Returns the address of the answer.
#[unsafe(no_mangle)]
pub extern "C" fn answer_at() -> *const u8 {
    STATE.with_borrow(|state| state.answer.as_ptr())
}

/// Returns the length of the answer.
#[unsafe(no_mangle)]
pub extern "C" fn answer_length() -> usize {
    STATE.with_borrow(|state| state.answer.len())
}

/// Checks the scenario in the inputs; the answer is a list of faults.
#[unsafe(no_mangle)]
pub extern "C" fn check() -> u32 {
    answer(|state| {
        let (text, given) = state.taken()?;
        Ok(faults(&text, given).iter().map(Problem::to_json).collect())
    })
}

/// Answers with the scenario in the inputs as it stands there, as JSON.
#[unsafe(no_mangle)]
pub extern "C" fn read() -> u32 {
    answer(|state| document::read(&state.taken()?.0))
}

/// Answers with the scenario in the inputs with every default filled in, and what its run asks for.
#[unsafe(no_mangle)]
pub extern "C" fn normalise() -> u32 {
    answer(|state| {
        let (text, given) = state.taken()?;
        document::normalise(&text, Store::of(given))
    })
}

/// Answers with everything that a scenario can name.
#[unsafe(no_mangle)]
pub extern "C" fn registry() -> u32 {
    answer(|_| Ok(catalogue::all()))
}

/// Opens a run of the scenario in the inputs; the answer is its number, and which flows send L4S packets. A `seed` that is no number leaves the scenario's.
#[unsafe(no_mangle)]
pub extern "C" fn open(seed: f64, packets: u32) -> u32 {
    answer(|state| {
        let (text, given) = state.taken()?;
        let seed = (!seed.is_nan()).then_some(seed as u64);
        let run = Run::open(&text, given, Options { seed, packets: packets != 0 })?;
        let number = state.next;
        let answer = json!({"number": number, "l4s": run.l4s()});
        state.next += 1;
        state.runs.insert(number, run);
        Ok(answer)
    })
}

/// Simulates run number `run` up to virtual time `until_s`.
#[unsafe(no_mangle)]
pub extern "C" fn advance(run: u32, until_s: f64) -> u32 {
    answer(|state| state.run(run)?.advance(until_s).map(said))
}

/// Answers with the series of a run.
#[unsafe(no_mangle)]
pub extern "C" fn series(run: u32) -> u32 {
    answer(|state| Ok(columns(&state.run(run)?.series())))
}

/// Answers with the packets of a run from `since_s` on.
#[unsafe(no_mangle)]
pub extern "C" fn packets(run: u32, since_s: f64) -> u32 {
    answer(|state| state.run(run)?.packets(since_s).map(|found| columns(&found)))
}

/// Answers with the figures of a run that has ended, and its digest.
#[unsafe(no_mangle)]
pub extern "C" fn result(run: u32) -> u32 {
    answer(|state| {
        let sealed = state.run(run)?.result()?;
        Ok(json!({"json": sealed.json, "digest": sealed.digest}))
    })
}

/// Frees a run.
#[unsafe(no_mangle)]
pub extern "C" fn free_run(run: u32) {
    STATE.with_borrow_mut(|state| state.runs.remove(&run));
}
