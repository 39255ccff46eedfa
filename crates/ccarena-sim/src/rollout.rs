//! Rollouts: worlds in which a policy makes many decisions without Python in between.
//!
//! Each world runs all of its decisions by itself: no thread waits for the slowest world of a step, and what a simulation
//! has in the processor's caches is there at its next decision.

use ccarena_cc::elementary;
use ccarena_cc::policy::Policy;
use rayon::prelude::*;

use crate::privileged::PRIVILEGED;
use crate::world::{Row, World, WorldError};
use crate::worlds::Worlds;

/// Method of drawing decisions from a policy's answers.
#[derive(Clone, Copy, Debug)]
pub struct Draw<'a> {
    /// Noise added to each answer, `[worlds, steps, learners, outputs]`. Of discrete actions the
    /// one with the largest sum is taken: with Gumbel noise this is a sample of the softmax.
    pub noise: &'a [f32],
    /// Factor of the noise for each number of a continuous action.
    pub spread: &'a [f32],
    /// Bounds that the sums y of a continuous action are squashed into, each as low + (high - low) (1 + tanh y) / 2; empty
    /// for discrete actions.
    pub bounds: &'a [(f32, f32)],
}

impl Draw<'_> {
    /// Numbers of a draw.
    fn width(&self) -> usize {
        self.bounds.len().max(1)
    }

    /// Writes the draw (an index, or y), and the action that it stands for.
    fn write(&self, answer: &[f32], noise: &[f32], drawn: &mut [f32], action: &mut [f32]) {
        for (k, (low, high)) in self.bounds.iter().enumerate() {
            let y = answer[k] + noise[k] * self.spread[k];
            (drawn[k], action[k]) = (y, low + (high - low) * (0.5 + 0.5 * elementary::tanh_f32(y)));
        }
        if !self.bounds.is_empty() {
            return;
        }
        let (mut best, mut most) = (0, f32::NEG_INFINITY);
        for (index, (x, noise)) in answer.iter().zip(noise).enumerate() {
            if x + noise > most {
                (best, most) = (index, x + noise);
            }
        }
        (drawn[0], action[0]) = (best as f32, best as f32);
    }
}

/// Arrays that a rollout fills, `[worlds, steps, learners, ...]` but for the last one.
pub struct RolloutOut<'a> {
    /// Observations of the decisions; `[.., observation_len]`.
    pub observations: &'a mut [f32],
    /// Draws: indices of discrete actions, continuous ones before they are squashed; `[.., numbers]`.
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
        let (decisions, outputs, numbers) = (self.len() * steps * learners, policy.outputs(), draw.width());
        for (name, found, expected) in [
            ("noise", draw.noise.len(), decisions * outputs),
            ("observations", out.observations.len(), decisions * width),
            ("drawn", out.drawn.len(), decisions * numbers),
            ("spread", draw.spread.len(), draw.bounds.len()),
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
                .zip(out.drawn.chunks_mut(rows * numbers))
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
        let numbers = draw.width();
        let (mut scratch, mut actions) = (policy.scratch(), vec![0.0; learners * numbers]);
        let mut privileged_rows = self.privileged.chunks_mut(learners * PRIVILEGED.len());
        let steps = self
            .noise
            .chunks(learners * outputs)
            .zip(self.observations.chunks_mut(learners * width))
            .zip(self.drawn.chunks_mut(learners * numbers))
            .zip(self.reports.chunks_mut(learners * report))
            .zip(self.truncated.chunks_mut(learners))
            .zip(self.finals.chunks_mut(learners * width));
        for (((((noise, observations), drawn), reports), truncated), finals) in steps {
            world.observe_all(observations);
            let answers = drawn.chunks_mut(numbers).zip(actions.chunks_mut(numbers));
            let decisions = noise.chunks(outputs).zip(observations.chunks(width)).zip(answers);
            for ((noise, observation), (drawn, action)) in decisions {
                scratch.state().fill(0.0);
                draw.write(policy.answer(observation, &mut scratch)?, noise, drawn, action);
            }
            let privileged = privileged_rows.next().unwrap_or_default();
            world.advance(&actions, &mut Row { reports, truncated, finals, privileged })?;
        }
        world.observe_all(self.following);
        Ok(())
    }
}
