//! The arrays that a step of many worlds fills, and their rows as threads take them.

use ccarena_cc::Interface;

use crate::privileged::PRIVILEGED;
use crate::rewards::{Column, ColumnReward};
use crate::world::{Row, World, WorldError};

/// Arrays that a step fills, one row per learner: those of the first world, of the second and so on.
///
/// An episode that is over is followed by the next one in the same step, or, with `held`, in the next step: this step's
/// observations are then the last ones of the old episode, and the next step ignores the actions of the world. It writes
/// the first observations of the new episode, with rewards, reports and intervals of 0.
#[derive(Default)]
pub struct StepOut<'a> {
    /// Observations; `[rows, observation_len]`.
    pub observations: &'a mut [f32],
    /// Reports of the finished intervals, the last one if a learner has decided more than once; `[rows, report_len]`.
    pub reports: &'a mut [f32],
    /// Lengths of the reported intervals, s, if requested: `[rows]`, or empty.
    pub intervals_s: &'a mut [f32],
    /// Rewards, if there is one to compute: `[rows]`, or empty.
    pub rewards: &'a mut [f32],
    /// The episode is over; `[rows]`.
    pub truncated: &'a mut [bool],
    /// Last observations of finished episodes, elsewhere untouched; `[rows, observation_len]`.
    pub final_observations: &'a mut [f32],
    /// Privileged state of the step, if requested: `[rows, PRIVILEGED]`, or empty. Untouched in rows that were held.
    pub privileged: &'a mut [f32],
    /// Rows whose next step begins an episode, read and written: `[rows]`, or empty for episodes that follow in the same
    /// step.
    pub held: &'a mut [bool],
}

impl StepOut<'_> {
    /// Returns the error for an array of another length than a step of `rows` rows needs, or for a column that `reward` reads
    /// and there is not.
    pub(crate) fn check(
        &self,
        interface: &Interface,
        rows: usize,
        reward: Option<&ColumnReward>,
    ) -> Result<(), WorldError> {
        let (width, report) = (interface.observation_len, interface.report.len());
        for (name, found, expected, optional) in [
            ("observations", self.observations.len(), rows * width, false),
            ("reports", self.reports.len(), rows * report, false),
            ("intervals_s", self.intervals_s.len(), rows, true),
            ("rewards", self.rewards.len(), rows, true),
            ("truncated", self.truncated.len(), rows, false),
            ("final_observations", self.final_observations.len(), rows * width, false),
            ("privileged", self.privileged.len(), rows * PRIVILEGED.len(), true),
            ("held", self.held.len(), rows, true),
        ] {
            if found != expected && !(optional && found == 0) {
                return Err(WorldError::Length { name, found, expected });
            }
        }
        for &column in reward.map_or(&[][..], ColumnReward::columns) {
            let (name, number, found) = match column {
                Column::Report(number) => ("columns of the reports", number, report),
                Column::Privileged(number) => ("columns of the privileged state", number, self.privileged.len() / rows),
            };
            if number >= found {
                return Err(WorldError::Length { name, found, expected: number + 1 });
            }
        }
        Ok(())
    }
}

/// Rows that have not been taken from either end of an array.
struct Rest<'a, T> {
    rows: &'a mut [T],
    width: usize,
}

impl<'a, T> Rest<'a, T> {
    /// All rows of `array`, which has as many as there are `worlds`, or is empty.
    fn new(array: &'a mut [T], worlds: usize) -> Self {
        Self { width: array.len() / worlds, rows: array }
    }

    fn take(&mut self, front: bool) -> &'a mut [T] {
        let rows = std::mem::take(&mut self.rows);
        let (row, rest) = if front {
            rows.split_at_mut(self.width)
        } else {
            let (rest, row) = rows.split_at_mut(rows.len() - self.width);
            (row, rest)
        };
        self.rows = rest;
        row
    }
}

/// Worlds of a step that no thread has taken, and the rows that they fill.
pub(crate) struct Steps<'a> {
    /// Number of the first of them.
    first: usize,
    worlds: Rest<'a, World>,
    observations: Rest<'a, f32>,
    reports: Rest<'a, f32>,
    intervals_s: Rest<'a, f32>,
    rewards: Rest<'a, f32>,
    truncated: Rest<'a, bool>,
    finals: Rest<'a, f32>,
    privileged: Rest<'a, f32>,
    held: Rest<'a, bool>,
}

/// A world, its number, and the rows that it fills.
pub(crate) struct Step<'a> {
    pub index: usize,
    world: &'a mut World,
    observations: &'a mut [f32],
    intervals_s: &'a mut [f32],
    rewards: &'a mut [f32],
    held: &'a mut [bool],
    row: Row<'a>,
}

impl Step<'_> {
    /// Takes `actions` and fills the rows. Column number `interval` of the reports has the interval's length in ms.
    pub fn take(self, actions: &[f32], interval: usize, reward: Option<&ColumnReward>) -> Result<(), WorldError> {
        let Self { world, observations, intervals_s, rewards, held, mut row, .. } = self;
        if held.contains(&true) {
            held.fill(false);
            row.truncated.fill(false);
            row.reports.fill(0.0);
            intervals_s.fill(0.0);
            rewards.fill(0.0);
            world.observe_all(observations);
            return Ok(());
        }
        world.advance(actions, &mut row)?;
        held.copy_from_slice(&row.truncated[..held.len()]);
        if held.contains(&true) {
            observations.copy_from_slice(row.finals);
        } else {
            world.observe_all(observations);
        }
        let learners = row.truncated.len();
        let (report, privileged) = (row.reports.len() / learners, row.privileged.len() / learners);
        let reports = row.reports.chunks(report);
        intervals_s.iter_mut().zip(reports.clone()).for_each(|(s, report)| *s = report[interval] * 1e-3);
        if let Some(reward) = reward {
            for (learner, (to, report)) in rewards.iter_mut().zip(reports).enumerate() {
                *to = reward.of(|column| match column {
                    Column::Report(number) => report[number],
                    Column::Privileged(number) => row.privileged[learner * privileged + number],
                });
            }
        }
        Ok(())
    }
}

impl<'a> Steps<'a> {
    pub(crate) fn new(worlds: &'a mut [World], out: StepOut<'a>) -> Self {
        let count = worlds.len();
        Self {
            first: 0,
            worlds: Rest::new(worlds, count),
            observations: Rest::new(out.observations, count),
            reports: Rest::new(out.reports, count),
            intervals_s: Rest::new(out.intervals_s, count),
            rewards: Rest::new(out.rewards, count),
            truncated: Rest::new(out.truncated, count),
            finals: Rest::new(out.final_observations, count),
            privileged: Rest::new(out.privileged, count),
            held: Rest::new(out.held, count),
        }
    }

    fn take(&mut self, front: bool) -> Option<Step<'a>> {
        let left = self.worlds.rows.len();
        if left == 0 {
            return None;
        }
        let index = if front { self.first } else { self.first + left - 1 };
        self.first += usize::from(front);
        Some(Step {
            index,
            world: self.worlds.take(front).first_mut()?,
            observations: self.observations.take(front),
            intervals_s: self.intervals_s.take(front),
            rewards: self.rewards.take(front),
            held: self.held.take(front),
            row: Row {
                reports: self.reports.take(front),
                truncated: self.truncated.take(front),
                finals: self.finals.take(front),
                privileged: self.privileged.take(front),
            },
        })
    }
}

impl<'a> Iterator for Steps<'a> {
    type Item = Step<'a>;

    fn next(&mut self) -> Option<Step<'a>> {
        self.take(true)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.worlds.rows.len(), Some(self.worlds.rows.len()))
    }
}

impl DoubleEndedIterator for Steps<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.take(false)
    }
}

impl ExactSizeIterator for Steps<'_> {}
