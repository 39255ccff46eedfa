//! Decisions of a policy in the kernel on given observations, without a socket (`BPF_PROG_TEST_RUN`).

use libbpf_rs::{MapCore, MapFlags, MapHandle, ProgramInput};

use super::controller::Controller;
use super::program::Program;
use crate::checks;
use crate::error::KernelError;
use crate::maps::map_error;
use crate::objects::handle;
use crate::tcp_option::TcpOption;
use ccarena_cc::policy::kernel::{ACTIONS, About, OBSERVATION, STATE};

/// Rows that go at a time: `TRIAL_ROWS` of `bpf/policy.h`, whose `struct trial` these numbers lay out.
pub const ROWS: usize = 64;
const ROWS_AT: usize = 8;
const OBSERVATIONS_AT: usize = 16;
const STATES_AT: usize = OBSERVATIONS_AT + ROWS * OBSERVATION * 8;
const OUTPUTS_AT: usize = STATES_AT + ROWS * STATE * 4;
/// The whole.
pub const TRIAL_BYTES: usize = OUTPUTS_AT + ROWS * ACTIONS * 4;

/// A loaded policy that no socket can choose.
pub struct Replay {
    program: Program,
    trials: MapHandle,
    about: About,
    trial: Vec<u8>,
}

impl Replay {
    /// Loads the policy of `image`; this also has the kernel's verifier look at the congestion control.
    ///
    /// # Errors
    /// If the image is damaged or this machine cannot run the program.
    pub fn new(image: &[u8]) -> Result<Self, KernelError> {
        let controller = Controller::policy(image)?;
        checks::require(&TcpOption::Off)?;
        let program = Program::load(&controller, "ccarena_replay", false, &TcpOption::Off)?;
        let trials = handle(&program.object, "trials")?;
        Ok(Self { program, trials, about: controller.about(), trial: vec![0; TRIAL_BYTES] })
    }

    /// Returns the facts of the policy.
    #[must_use]
    pub fn about(&self) -> &About {
        &self.about
    }

    /// Decides on raw `observations`, row by row in units of 2^-20; each row has a `state`, which is replaced. Returns the
    /// outputs, row by row, and the ns that all decisions took.
    ///
    /// # Errors
    /// If the kernel does not run the program.
    pub fn decide(&mut self, observations: &[i64], state: &mut [i32]) -> Result<(Vec<i32>, u64), KernelError> {
        let About { observation, outputs, state: remembered, .. } = self.about;
        let rows = observations.len() / observation.max(1);
        let (mut found, mut ns) = (Vec::with_capacity(rows * outputs), 0);
        for start in (0..rows).step_by(ROWS) {
            let batch = ROWS.min(rows - start);
            self.trial[ROWS_AT..ROWS_AT + 4].copy_from_slice(&(batch as u32).to_ne_bytes());
            for row in 0..batch {
                for k in 0..observation {
                    let x = observations[(start + row) * observation + k];
                    write(&mut self.trial, OBSERVATIONS_AT + (row * OBSERVATION + k) * 8, &x.to_ne_bytes());
                }
                for k in 0..remembered {
                    let x = state[(start + row) * remembered + k];
                    write(&mut self.trial, STATES_AT + (row * STATE + k) * 4, &x.to_ne_bytes());
                }
            }
            ns += self.run()?;
            for row in 0..batch {
                found.extend((0..outputs).map(|k| i32_at(&self.trial, OUTPUTS_AT + (row * ACTIONS + k) * 4)));
                for k in 0..remembered {
                    state[(start + row) * remembered + k] = i32_at(&self.trial, STATES_AT + (row * STATE + k) * 4);
                }
            }
        }
        Ok((found, ns))
    }

    fn run(&mut self) -> Result<u64, KernelError> {
        let zero = 0_u32.to_ne_bytes();
        self.trials.update(&zero, &self.trial, MapFlags::ANY).map_err(|e| map_error("write", "trials", &e))?;
        let missing = KernelError::Missing { object: "policy", part: "replay" };
        let program = self.program.object.progs_mut().find(|p| p.name() == "replay").ok_or(missing)?;
        let failed = |reason: String| KernelError::Attach { name: "the policy's test run".into(), reason };
        let run = program.test_run(ProgramInput::default()).map_err(|e| failed(e.to_string()))?;
        if run.return_value != 0 {
            return Err(failed(format!("the program returned {}", run.return_value)));
        }
        self.trial =
            self.trials.lookup(&zero, MapFlags::ANY).map_err(|e| map_error("read", "trials", &e))?.unwrap_or_default();
        Ok(self.trial.first_chunk().map_or(0, |b| u64::from_ne_bytes(*b)))
    }
}

fn write(bytes: &mut [u8], at: usize, what: &[u8]) {
    bytes[at..at + what.len()].copy_from_slice(what);
}

fn i32_at(bytes: &[u8], at: usize) -> i32 {
    bytes[at..].first_chunk().map_or(0, |b| i32::from_ne_bytes(*b))
}
