//! Threads that help with a step. A step takes tens to hundreds of microseconds and to wake a thread as long, so the helpers
//! stay awake for a moment after each step.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rayon::{ThreadPoolBuildError, ThreadPoolBuilder};

/// Least work for which a helper that sleeps is woken: it takes up to half of this until it runs.
const WORTH_WAKING: Duration = Duration::from_micros(100);
/// Looks that a helper takes for the next step before it sleeps: some 0.2 ms, which is what Python does between two steps.
const LOOKS: usize = 10_000;
/// Looks after which others may have the processor.
const LOOKS_AT_ONCE: usize = 256;

/// Threads that help the calling one.
pub(crate) struct Helpers {
    pool: Option<rayon::ThreadPool>,
    /// Steps so far; helpers that are awake look for the next one.
    steps: Arc<AtomicUsize>,
    /// Helpers that look.
    awake: Arc<AtomicUsize>,
    /// Work of the last step, on all threads together.
    last: Duration,
}

impl Helpers {
    /// Starts the threads that work on a step with the calling one: one less than `threads`.
    ///
    /// # Errors
    /// If they cannot be started.
    pub(crate) fn new(threads: usize) -> Result<Self, ThreadPoolBuildError> {
        let pool = ThreadPoolBuilder::new().num_threads(threads.saturating_sub(1));
        let pool = pool.thread_name(|i| format!("helper-{i}"));
        let pool = (threads > 1).then(|| pool.build()).transpose()?;
        Ok(Self { pool, steps: Arc::default(), awake: Arc::default(), last: Duration::MAX })
    }

    /// Does `work` for all `rows`. The caller takes them from the front and the helpers from the back, one by one since they
    /// take unequal times: most of what a world has in a processor's caches is there at its next step.
    pub(crate) fn share_out<T, E: Send>(
        &mut self,
        rows: impl DoubleEndedIterator<Item = T> + ExactSizeIterator + Send,
        work: impl Fn(T) -> Result<(), E> + Sync,
    ) -> Result<(), E> {
        let began = now();
        let most = rows.len().saturating_sub(1);
        let (rows, failed) = (Mutex::new(rows), Mutex::new(None));
        let next = |front: bool| {
            let mut rows = rows.lock().unwrap_or_else(PoisonError::into_inner);
            if front { rows.next() } else { rows.next_back() }
        };
        let share = |front: bool| {
            while let Some(row) = next(front) {
                if let Err(error) = work(row) {
                    failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                    return;
                }
            }
        };
        let pool = self.pool.as_ref().filter(|_| self.awake.load(Ordering::Acquire) > 0 || self.last >= WORTH_WAKING);
        let helpers = pool.map_or(0, |pool| pool.current_num_threads().min(most));
        match pool.filter(|_| helpers > 0) {
            None => share(true),
            Some(pool) => {
                let working = AtomicUsize::new(helpers);
                pool.in_place_scope(|scope| {
                    for _ in 0..helpers {
                        scope.spawn(|_| {
                            share(false);
                            working.fetch_sub(1, Ordering::AcqRel);
                        });
                    }
                    self.steps.fetch_add(1, Ordering::AcqRel);
                    share(true);
                    // To sleep until the last row is done would take longer than the row does.
                    look_for(|| working.load(Ordering::Acquire) == 0);
                });
                for _ in 0..helpers {
                    self.stay_awake(pool);
                }
            }
        }
        self.last = now().saturating_duration_since(began).saturating_mul(helpers as u32 + 1);
        failed.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
    }

    /// Lets one of the helpers look for the next step.
    fn stay_awake(&self, pool: &rayon::ThreadPool) {
        let (steps, awake) = (Arc::clone(&self.steps), Arc::clone(&self.awake));
        let seen = steps.load(Ordering::Acquire);
        awake.fetch_add(1, Ordering::AcqRel);
        pool.spawn(move || {
            look_for(|| steps.load(Ordering::Acquire) != seen);
            awake.fetch_sub(1, Ordering::AcqRel);
        });
    }
}

/// Looks until `there`, and no more than [`LOOKS`] times.
fn look_for(there: impl Fn() -> bool) {
    for look in 1..=LOOKS {
        if there() {
            return;
        }
        if look % LOOKS_AT_ONCE == 0 {
            std::thread::yield_now();
        } else {
            std::hint::spin_loop();
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "says who works, and nothing of what a simulation does")]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use super::*;

    #[test]
    fn every_row_is_done_once_by_any_number_of_threads() {
        for threads in 1..5 {
            let mut helpers = Helpers::new(threads).unwrap();
            for rows in [0, 1, 2, 7, 100] {
                let done: Vec<AtomicU32> = (0..rows).map(|_| AtomicU32::new(0)).collect();
                let count = |row: &AtomicU32| {
                    row.fetch_add(1, Ordering::Relaxed);
                    Ok::<_, ()>(())
                };
                helpers.share_out(done.iter(), count).unwrap();
                assert!(done.iter().all(|row| row.load(Ordering::Relaxed) == 1));
            }
        }
    }

    #[test]
    fn an_error_is_the_answer_and_the_next_step_goes_on() {
        let mut helpers = Helpers::new(2).unwrap();
        let refused = |row: usize| if row == 3 { Err("three") } else { Ok(()) };
        assert!(helpers.share_out((0..9).collect::<Vec<_>>().into_iter(), refused).is_err());
        assert!(helpers.share_out((4..9).collect::<Vec<_>>().into_iter(), refused).is_ok());
    }
}
