//! Rollouts: worlds in which a policy makes many decisions without Python in between.
//!
//! Each world runs all of its decisions by itself: no thread waits for the slowest world of a step, and what a simulation
//! has in the processor's caches is there at its next decision.

use ccarena_cc::policy::Policy;
use rayon::prelude::*;

use crate::privileged::PRIVILEGED;
use crate::worlds::{Row, World, WorldError, Worlds};

/// Method of drawing decisions from a policy's answers.
#[derive(Clone, Copy, Debug)]
pub struct Draw<'a> {
    /// Noise added to each answer, `[worlds, steps, learners, outputs]`. Of discrete actions the
    /// one with the largest sum is taken: with Gumbel noise this is a sample of the softmax.
    pub noise: &'a [f32],
    /// Factor of the noise for continuous actions.
    pub spread: f32,
    /// Bounds that a continuous sum y is squashed into, as low + (high - low) (1 + tanh y) / 2; none for discrete actions.
    pub bounds: Option<(f32, f32)>,
}

impl Draw<'_> {
    /// Returns the draw (an index, or y), and the action that it stands for.
    fn of(&self, answer: &[f32], noise: &[f32]) -> (f32, f32) {
        if let Some((low, high)) = self.bounds {
            let y = answer[0] + noise[0] * self.spread;
            return (y, low + (high - low) * (0.5 + 0.5 * y.tanh()));
        }
        let (mut best, mut most) = (0, f32::NEG_INFINITY);
        for (index, (x, noise)) in answer.iter().zip(noise).enumerate() {
            if x + noise > most {
                (best, most) = (index, x + noise);
            }
        }
        (best as f32, best as f32)
    }
}

/// Arrays that a rollout fills, `[worlds, steps, learners, ...]` but for the last one.
pub struct RolloutOut<'a> {
    /// Observations of the decisions; `[.., observation_len]`.
    pub observations: &'a mut [f32],
    /// Draws: indices of discrete actions, continuous ones before they are squashed.
    pub drawn: &'a mut [f32],
    /// Reports of the finished intervals; `[.., report_len]`.
    pub reports: &'a mut [f32],
    /// The episode is over.
    pub truncated: &'a mut [bool],
    /// Last observations of finished episodes, elsewhere untouched; `[.., observation_len]`.
    pub final_observations: &'a mut [f32],
    /// Privileged state of the steps, if requested: `[.., PRIVILEGED]`, or empty.
    pub privileged: &'a mut [f32],
    /// Observations after the last decision; `[worlds, learners, observation_len]`.
    pub following: &'a mut [f32],
}

/// A world's part of a rollout's arrays.
struct Part<'a> {
    noise: &'a [f32],
    observations: &'a mut [f32],
    drawn: &'a mut [f32],
    reports: &'a mut [f32],
    truncated: &'a mut [bool],
    finals: &'a mut [f32],
    privileged: &'a mut [f32],
    following: &'a mut [f32],
}

impl Worlds {
    /// Lets every world run `steps` decisions of `policy`, drawn as `draw` says. What a recurrent one remembers is forgotten
    /// after each decision.
    ///
    /// # Errors
    /// If an array has not its length, if the policy fails, or as [`step`](Self::step); worlds may then have moved.
    pub fn rollout(
        &mut self,
        policy: &Policy,
        draw: Draw<'_>,
        steps: usize,
        out: RolloutOut<'_>,
    ) -> Result<(), WorldError> {
        let (width, report, learners) =
            (self.interface().observation_len, self.interface().report.len(), self.learners());
        let (decisions, outputs) = (self.len() * steps * learners, policy.outputs());
        for (name, found, expected) in [
            ("noise", draw.noise.len(), decisions * outputs),
            ("observations", out.observations.len(), decisions * width),
            ("drawn", out.drawn.len(), decisions),
            ("reports", out.reports.len(), decisions * report),
            ("truncated", out.truncated.len(), decisions),
            ("final_observations", out.final_observations.len(), decisions * width),
            ("following", out.following.len(), self.len() * learners * width),
        ] {
            if found != expected {
                return Err(WorldError::Length { name, found, expected });
            }
        }
        let (told, expected) = (out.privileged.len(), decisions * PRIVILEGED.len());
        if told != 0 && told != expected {
            return Err(WorldError::Length { name: "privileged", found: told, expected });
        }
        let rows = steps * learners;
        let privileged_rows: Vec<&mut [f32]> = match told {
            0 => (0..self.len()).map(|_| Default::default()).collect(),
            _ => out.privileged.chunks_mut(rows * PRIVILEGED.len()).collect(),
        };
        let mut parts: Vec<Part<'_>> =
            draw.noise
                .chunks(rows * outputs)
                .zip(out.observations.chunks_mut(rows * width))
                .zip(out.drawn.chunks_mut(rows))
                .zip(out.reports.chunks_mut(rows * report))
                .zip(out.truncated.chunks_mut(rows))
                .zip(out.final_observations.chunks_mut(rows * width))
                .zip(out.following.chunks_mut(learners * width))
                .zip(privileged_rows)
                .map(|(((((((noise, observations), drawn), reports), truncated), finals), following), privileged)| {
                    Part { noise, observations, drawn, reports, truncated, finals, privileged, following }
                })
                .collect();
        let (pool, worlds) = self.parts();
        pool.install(|| {
            worlds.par_iter_mut().zip(&mut parts).enumerate().with_max_len(1).try_for_each(|(index, (world, part))| {
                part.fill(world, policy, &draw, learners).map_err(|error| error.at(index * learners))
            })
        })
    }
}

impl Part<'_> {
    fn fill(&mut self, world: &mut World, policy: &Policy, draw: &Draw<'_>, learners: usize) -> Result<(), WorldError> {
        let (width, report, outputs) =
            (world.interface().observation_len, world.interface().report.len(), policy.outputs());
        let (mut scratch, mut actions) = (policy.scratch(), vec![0.0; learners]);
        let mut privileged_rows = self.privileged.chunks_mut(learners * PRIVILEGED.len());
        let steps = self
            .noise
            .chunks(learners * outputs)
            .zip(self.observations.chunks_mut(learners * width))
            .zip(self.drawn.chunks_mut(learners))
            .zip(self.reports.chunks_mut(learners * report))
            .zip(self.truncated.chunks_mut(learners))
            .zip(self.finals.chunks_mut(learners * width));
        for (((((noise, observations), drawn), reports), truncated), finals) in steps {
            world.observe_all(observations);
            let decisions = noise.chunks(outputs).zip(observations.chunks(width)).zip(drawn).zip(&mut actions);
            for (((noise, observation), drawn), action) in decisions {
                scratch.state().fill(0.0);
                (*drawn, *action) = draw.of(policy.answer(observation, &mut scratch)?, noise);
            }
            let privileged = privileged_rows.next().unwrap_or_default();
            world.advance(&actions, Row { reports, truncated, finals, privileged })?;
        }
        world.observe_all(self.following);
        Ok(())
    }
}
