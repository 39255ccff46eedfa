//! A few of many measurements.

/// Most that are kept.
const MOST: usize = 1 << 16;

/// Measurements of which at most 65,536 are kept, evenly spread: all at first, then every second, every fourth and so on.
#[derive(Clone, Debug)]
pub struct Sampled {
    kept: Vec<u32>,
    seen: u64,
    every: u64,
}

impl Default for Sampled {
    fn default() -> Self {
        Self { kept: Vec::new(), seen: 0, every: 1 }
    }
}

impl Sampled {
    /// Takes one in.
    pub fn push(&mut self, value: u32) {
        if self.seen % self.every == 0 {
            if self.kept.len() == MOST {
                let mut number = 0_u32;
                self.kept.retain(|_| {
                    number += 1;
                    number % 2 == 1
                });
                self.every *= 2;
            }
            if self.seen % self.every == 0 {
                self.kept.push(value);
            }
        }
        self.seen += 1;
    }

    /// Returns the kept values, in any order from now on.
    pub fn values(&mut self) -> &mut Vec<u32> {
        &mut self.kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_stays_small_and_even() {
        let mut sampled = Sampled::default();
        for value in 0..1_000_000 {
            sampled.push(value);
        }
        let kept = sampled.values();
        assert!((MOST / 2..=MOST).contains(&kept.len()) && kept.capacity() <= 2 * MOST, "{}", kept.len());
        assert!(kept.iter().enumerate().all(|(k, &value)| value == 16 * k as u32));
    }
}
