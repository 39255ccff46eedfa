//! Synthetic cellular links: delivery opportunities drawn from named presets.
//!
//! A preset is a stochastic process for the capacity, and the statistics published for the real link that it imitates.
//! The default model is a Cox process: opportunities come in small bursts at Poisson times, all in all at the rate
//!
//! `exp(mean of the logarithm + slow + fast)`, cut at a cap, and zero during outages,
//!
//! where `slow` and `fast` are Ornstein–Uhlenbeck processes. Winstein et al., "Stochastic forecasts achieve high throughput
//! and low delay over cellular networks" (Sprout, NSDI 2013), section 3.1, let the rate itself do a Brownian motion with
//! sticky outages; recorded links revert to a mean and fluctuate more on short than on long windows than that model can,
//! which is what the two processes are for. Sprout's own model is the preset `sprout`.
//!
//! Every random number comes from the seed by 64-bit integer arithmetic and `ln`, `exp`, `sin`, `cos` of the platform:
//! the same seed gives the same trace on the same platform, and another C library can at most move a packet by 1 ms.

use ccarena_cc::elementary::{exp, exp_m1, ln, ln_1p};
use ccarena_cc::registry::nearest;
use ccarena_cc::types::Dur;

use crate::noise::{Reverting, exponential, normals};
use crate::rng::{Purpose, Stream};

mod presets;

pub use presets::PRESETS;

/// Bytes of one delivery opportunity (mahimahi's manual, mm-link(1)).
const OPPORTUNITY_BYTES: f64 = 1500.0;

/// Interval between two draws of a Cox model's rate: well below the shortest time constant of a
/// preset.
const COX_TICK_MS: u32 = 5;

/// A named synthetic link.
#[derive(Clone, Debug)]
pub struct Preset {
    /// Name in scenarios and on the command line.
    pub name: &'static str,
    /// One line: what it imitates and from what source.
    pub summary: &'static str,
    /// The stochastic process.
    pub model: Model,
    /// Published figures that the process was fitted to.
    pub published: Published,
}

/// A stochastic process for the capacity of a link.
#[derive(Clone, Debug)]
pub enum Model {
    /// Poisson opportunities with a log-normal, mean-reverting rate and outages.
    Cox(Cox),
    /// Poisson opportunities with a rate in Brownian motion, sticky at zero.
    Brownian(Brownian),
}

/// Parameters of the Cox model.
#[derive(Clone, Copy, Debug)]
pub struct Cox {
    /// Mean capacity in Mbit/s, outages included.
    pub mean_mbps: f64,
    /// Coefficient of variation of the rate outside outages, before the cap.
    pub cv: f64,
    /// Share of the variance of the logarithm of the rate that the slow process has.
    pub slow_share: f64,
    /// Time constant of the slow process.
    pub tau_slow_s: f64,
    /// Time constant of the fast process.
    pub tau_fast_s: f64,
    /// Outages that begin per minute.
    pub outages_per_min: f64,
    /// Mean length of an outage (log-normal).
    pub outage_mean_s: f64,
    /// Standard deviation of the logarithm of an outage's length.
    pub outage_sigma: f64,
    /// Preference of outages for fades: they begin at a rate proportional to `exp(-outage_fade *
    /// z)`, with `z` the slow process in its standard deviations. Zero: the same rate at any time.
    pub outage_fade: f64,
    /// Mean number of opportunities that come at once (geometric, from 1): what one grant of the scheduler carries.
    pub burst_packets: f64,
    /// The rate is cut here.
    pub cap_packets_per_s: f64,
}

/// Parameters of the Brownian model (Sprout section 3.1; the defaults are those of its program).
#[derive(Clone, Copy, Debug)]
pub struct Brownian {
    /// Standard deviation of the change of the rate after one second, in packets/s.
    pub sigma_packets_per_s: f64,
    /// The rate stays at or below this.
    pub max_packets_per_s: f64,
    /// An outage (rate zero) ends with this rate.
    pub escapes_per_s: f64,
    /// The rate moves once per tick.
    pub tick_ms: u32,
}

/// Statistics of the recorded link that a preset imitates; `None` where none was published.
///
/// The coefficient of variation and the autocorrelation are those of the number of opportunities in windows of 100 ms;
/// an outage is a gap of at least 200 ms between opportunities.
#[derive(Clone, Copy, Debug)]
pub struct Published {
    /// Length of the recording; estimates from short recordings are biased, so compare at the same length.
    pub duration_s: f64,
    /// Mean capacity in Mbit/s.
    pub mean_mbps: f64,
    /// Coefficient of variation.
    pub cv: Option<f64>,
    /// Autocorrelation at lags of 0.1, 1 and 5 s.
    pub autocorrelation: Option<[f64; 3]>,
    /// Outages per minute.
    pub outages_per_min: Option<f64>,
    /// Mean length of an outage.
    pub outage_mean_s: Option<f64>,
    /// Sigma of the Brownian motion that would explain how the means of adjacent windows of 0.1 and 1 s differ, in
    /// packets/s after one second (Sprout assumes 200): sigma^2 = 3/2 (variance - 2 rate/window) / window.
    pub apparent_sigma_packets_per_s: Option<[f64; 2]>,
}

/// No preset as asked.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PresetError {
    /// No preset of that name.
    #[error("unknown cellular preset {name:?}; {}", suggestion(.nearest, .known))]
    Unknown {
        /// Requested name.
        name: String,
        /// The nearest preset.
        nearest: Option<String>,
        /// All presets.
        known: String,
    },
    /// A mean that no link can have.
    #[error("mean rate of cellular preset {name:?} is {mean_mbps} Mbit/s; expected 0.01 to 10000")]
    Mean {
        /// The preset.
        name: String,
        /// Given mean.
        mean_mbps: f64,
    },
}

fn suggestion(nearest: &Option<String>, known: &str) -> String {
    nearest.as_ref().map_or_else(|| format!("expected one of {known}"), |n| format!("did you mean {n:?}?"))
}

/// The preset called `name`.
///
/// # Errors
/// [`PresetError::Unknown`] with the nearest name.
pub fn find_preset(name: &str) -> Result<&'static Preset, PresetError> {
    PRESETS.iter().find(|p| p.name == name).ok_or_else(|| PresetError::Unknown {
        name: name.into(),
        nearest: nearest(name, PRESETS.iter().map(|p| p.name)).map(Into::into),
        known: PRESETS.iter().map(|p| p.name).collect::<Vec<_>>().join(", "),
    })
}

impl Preset {
    /// The same link with another mean capacity: all rates are scaled alike, times stay.
    ///
    /// # Errors
    /// [`PresetError::Mean`] unless `mean_mbps` lies in 0.01 to 10000.
    pub fn with_mean(&self, mean_mbps: f64) -> Result<Self, PresetError> {
        if !(0.01..=10_000.0).contains(&mean_mbps) {
            return Err(PresetError::Mean { name: self.name.into(), mean_mbps });
        }
        let mut scaled = self.clone();
        let factor = mean_mbps / self.mean_mbps();
        match &mut scaled.model {
            Model::Cox(cox) => {
                cox.mean_mbps = mean_mbps;
                cox.cap_packets_per_s *= factor;
            }
            Model::Brownian(brownian) => {
                brownian.sigma_packets_per_s *= factor;
                brownian.max_packets_per_s *= factor;
            }
        }
        scaled.published.mean_mbps *= factor;
        Ok(scaled)
    }

    /// Returns its description: name, summary, mean and the published figures (null if there are
    /// none).
    #[must_use]
    pub fn to_json(&self) -> serde_json::Value {
        let published = match self.model {
            Model::Cox(_) => serde_json::json!({
                "duration_s": self.published.duration_s,
                "mean_mbps": self.published.mean_mbps,
                "cv": self.published.cv,
                "autocorrelation": self.published.autocorrelation,
                "outages_per_min": self.published.outages_per_min,
                "outage_mean_s": self.published.outage_mean_s,
                "apparent_sigma_packets_per_s": self.published.apparent_sigma_packets_per_s,
            }),
            Model::Brownian(_) => serde_json::Value::Null,
        };
        serde_json::json!({
            "name": self.name,
            "summary": self.summary,
            "mean_mbps": self.mean_mbps(),
            "published": published,
        })
    }

    /// Mean capacity in Mbit/s in the long run.
    #[must_use]
    pub fn mean_mbps(&self) -> f64 {
        match &self.model {
            Model::Cox(cox) => cox.mean_mbps,
            Model::Brownian(_) => self.published.mean_mbps,
        }
    }
}

/// Draws a trace: the millisecond of each opportunity of 1500 bytes, nondecreasing, in 1 to `duration` (rounded up to
/// milliseconds). Never empty: a link that stayed in outage gets one opportunity at its end, so that the trace can repeat.
#[must_use]
pub fn generate(preset: &Preset, duration: Dur, seed: u64) -> Vec<u32> {
    let duration_ms = u32::try_from(duration.0.div_ceil(1_000_000)).unwrap_or(u32::MAX).max(1);
    let expected = preset.mean_mbps() * f64::from(duration_ms) / 8.0 / OPPORTUNITY_BYTES * 1000.0;
    let burst_packets = match &preset.model {
        Model::Cox(cox) => cox.burst_packets,
        Model::Brownian(_) => 1.0,
    };
    let mut poisson = Poisson::new(seed, expected, burst_packets);
    match &preset.model {
        Model::Cox(cox) => cox.run(duration_ms, seed, &mut poisson),
        Model::Brownian(brownian) => brownian.run(duration_ms, seed, &mut poisson),
    }
    if poisson.opportunities_ms.is_empty() {
        poisson.opportunities_ms.push(duration_ms);
    }
    poisson.opportunities_ms
}

impl Cox {
    fn run(&self, duration_ms: u32, seed: u64, poisson: &mut Poisson) {
        let rng = &mut Stream::new(seed, Purpose::Cellular, 1);
        let tick_s = f64::from(COX_TICK_MS) / 1000.0;
        let log_variance = ln_1p(self.cv.powi(2));
        let slow_deviation = (log_variance * self.slow_share).sqrt();
        let fast_deviation = (log_variance * (1.0 - self.slow_share)).sqrt();
        let outages = &mut Outages::new(self, Stream::new(seed, Purpose::Cellular, 2));
        // Weighting by exp(-fade * z) moves the mean of z to -fade, where the mean rate is lower by this factor.
        let lost = outages.share * exp(-self.outage_fade * slow_deviation);
        let log_mean = ln(packets_per_s(self.mean_mbps) / (1.0 - lost)) - log_variance / 2.0;
        let start = normals(rng);
        let slow = &mut Reverting::new(start.0, self.tau_slow_s, tick_s);
        let fast = &mut Reverting::new(start.1, self.tau_fast_s, tick_s);
        for now_ms in (0..duration_ms).step_by(COX_TICK_MS as usize) {
            let noise = normals(rng);
            let fade = slow.step(noise.0);
            let log_rate = log_mean + slow_deviation * fade + fast_deviation * fast.step(noise.1);
            if outages.up_after(tick_s, fade) {
                let span_ms = COX_TICK_MS.min(duration_ms - now_ms);
                poisson.run(exp(log_rate).min(self.cap_packets_per_s), now_ms, span_ms);
            }
        }
    }
}

impl Brownian {
    fn run(&self, duration_ms: u32, seed: u64, poisson: &mut Poisson) {
        let rng = &mut Stream::new(seed, Purpose::Cellular, 1);
        let tick_s = f64::from(self.tick_ms) / 1000.0;
        let escape = -exp_m1(-self.escapes_per_s * tick_s);
        let step = self.sigma_packets_per_s * tick_s.sqrt();
        // Sprout's prior before the first observation is uniform.
        let mut rate = rng.uniform(0.0, self.max_packets_per_s);
        for now_ms in (0..duration_ms).step_by(self.tick_ms.max(1) as usize) {
            poisson.run(rate, now_ms, self.tick_ms.min(duration_ms - now_ms));
            let (normal, _) = normals(rng);
            rate = if rate > 0.0 {
                (rate + step * normal).clamp(0.0, self.max_packets_per_s)
            } else if rng.chance(escape) {
                step * normal.abs()
            } else {
                0.0
            };
        }
    }
}

fn packets_per_s(mbps: f64) -> f64 {
    mbps * 1e6 / 8.0 / OPPORTUNITY_BYTES
}

/// Poisson bursts by time change: the integral of their rate between two of them is exponential with mean 1.
struct Poisson {
    rng: Stream,
    /// Remaining part of that integral until the next burst.
    ahead: f64,
    burst_packets: f64,
    /// The probability that one more opportunity belongs to a burst.
    more: f64,
    opportunities_ms: Vec<u32>,
}

impl Poisson {
    fn new(seed: u64, expected: f64, burst_packets: f64) -> Self {
        let mut rng = Stream::new(seed, Purpose::Cellular, 0);
        Self {
            ahead: exponential(&mut rng),
            rng,
            burst_packets,
            more: 1.0 - 1.0 / burst_packets,
            opportunities_ms: Vec::with_capacity((expected * 1.25).min(1e8) as usize + 16),
        }
    }

    /// Opportunities at a constant rate in the `span_ms` after `start_ms`.
    #[inline]
    fn run(&mut self, rate_packets_per_s: f64, start_ms: u32, span_ms: u32) {
        let bursts_per_ms = rate_packets_per_s / self.burst_packets / 1000.0;
        let mut left = bursts_per_ms * f64::from(span_ms);
        let end_ms = start_ms + span_ms;
        while self.ahead < left {
            left -= self.ahead;
            let ms = end_ms - ((left / bursts_per_ms) as u32).min(span_ms - 1);
            self.opportunities_ms.push(ms);
            while self.more > 0.0 && self.rng.chance(self.more) {
                self.opportunities_ms.push(ms);
            }
            self.ahead = exponential(&mut self.rng);
        }
        self.ahead -= left;
    }
}

/// Outages: they begin as a Poisson process whose rate follows the slow process, and last for a log-normal time.
struct Outages {
    rng: Stream,
    /// Remaining part of the rate's integral until the next one begins, as in [`Poisson`].
    ahead: f64,
    /// Remaining time of the present one.
    left_s: f64,
    /// Share of time in outage.
    share: f64,
    per_s: f64,
    fade: f64,
    log_length: f64,
    sigma: f64,
}

impl Outages {
    fn new(cox: &Cox, mut rng: Stream) -> Self {
        let share = (cox.outages_per_min * cox.outage_mean_s / 60.0).min(0.9);
        Self {
            ahead: exponential(&mut rng),
            rng,
            left_s: 0.0,
            share,
            per_s: cox.outages_per_min / 60.0 / (1.0 - share),
            fade: cox.outage_fade,
            log_length: ln(cox.outage_mean_s) - cox.outage_sigma.powi(2) / 2.0,
            sigma: cox.outage_sigma,
        }
    }

    /// Returns whether the link is up in the next tick, in which the slow process stands at `z`.
    #[inline]
    fn up_after(&mut self, tick_s: f64, z: f64) -> bool {
        if self.left_s > 0.0 {
            self.left_s -= tick_s;
            return false;
        }
        self.ahead -= self.per_s * tick_s * exp(-self.fade * (z + self.fade / 2.0));
        if self.ahead <= 0.0 {
            self.ahead = exponential(&mut self.rng);
            self.left_s = exp(self.log_length + self.sigma * normals(&mut self.rng).0);
        }
        self.left_s <= 0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Statistics as [`Published`] defines them.
    #[derive(Debug, Default)]
    struct Stats {
        mean_mbps: f64,
        cv: f64,
        autocorrelation: [f64; 3],
        outages: f64,
        outages_s: f64,
        apparent_sigma: [f64; 2],
    }

    fn describe(times_ms: &[u32], duration_ms: u32) -> Stats {
        let mut counts = vec![0.0_f64; (duration_ms / 100) as usize];
        for &ms in times_ms {
            if let Some(count) = counts.get_mut(((ms - 1) / 100) as usize) {
                *count += 1.0;
            }
        }
        let n = counts.len() as f64;
        let mean = counts.iter().sum::<f64>() / n;
        let x: Vec<f64> = counts.iter().map(|count| count - mean).collect();
        let power: f64 = x.iter().map(|x| x * x).sum();
        let correlation = |lag: usize| x.iter().zip(&x[lag..]).map(|(a, b)| a * b).sum::<f64>() / power;
        let sigma = |windows: usize| {
            let window_s = windows as f64 * 0.1;
            let rates: Vec<f64> = counts.chunks_exact(windows).map(|c| c.iter().sum::<f64>() / window_s).collect();
            let squares: f64 = rates.windows(2).map(|pair| (pair[1] - pair[0]).powi(2)).sum();
            let variance = squares / (rates.len() - 1) as f64 - 2.0 * mean * 10.0 / window_s;
            (1.5 * variance / window_s).sqrt()
        };
        let starts = std::iter::once(&0).chain(times_ms);
        let gaps_s = starts.zip(times_ms).map(|(a, b)| f64::from(b - a) / 1000.0).filter(|&gap_s| gap_s >= 0.2);
        let (outages, outages_s) = gaps_s.fold((0.0, 0.0), |(count, sum), gap_s| (count + 1.0, sum + gap_s));
        Stats {
            mean_mbps: times_ms.len() as f64 * 12.0 / f64::from(duration_ms),
            cv: (power / n).sqrt() / mean,
            autocorrelation: [correlation(1), correlation(10), correlation(50)],
            outages,
            outages_s,
            apparent_sigma: [sigma(1), sigma(10)],
        }
    }

    /// Means over traces as long as the recording, at least `total_s` in all.
    fn describe_preset(preset: &Preset, total_s: f64) -> Stats {
        let duration_s = preset.published.duration_s;
        let traces = (total_s / duration_s).ceil();
        let mut sum = Stats::default();
        for seed in 0..traces as u64 {
            let one = describe(&generate(preset, Dur::from_secs_f64(duration_s), seed), (duration_s * 1000.0) as u32);
            sum.mean_mbps += one.mean_mbps / traces;
            sum.cv += one.cv / traces;
            sum.outages += one.outages;
            sum.outages_s += one.outages_s;
            for (sum, one) in sum.autocorrelation.iter_mut().zip(one.autocorrelation) {
                *sum += one / traces;
            }
            for (sum, one) in sum.apparent_sigma.iter_mut().zip(one.apparent_sigma) {
                *sum += one / traces;
            }
        }
        sum.outages_s /= sum.outages.max(1.0);
        sum.outages *= 60.0 / (traces * duration_s);
        sum
    }

    #[test]
    fn presets_have_the_published_statistics() {
        let mut misses = Vec::new();
        for preset in PRESETS {
            let (found, published) = (describe_preset(preset, 30_000.0), &preset.published);
            println!("{}: {found:.2?}", preset.name);
            let mut check = |what: &str, found: f64, wanted: Option<f64>, tolerance: f64| {
                if let Some(wanted) = wanted.filter(|wanted| (found - wanted).abs() > tolerance) {
                    misses.push(format!("{}: {what} is {found:.3}, published {wanted}", preset.name));
                }
            };
            check("mean", found.mean_mbps, Some(published.mean_mbps), 0.03 * published.mean_mbps);
            check("CV", found.cv, published.cv, 0.03);
            for i in 0..3 {
                check(
                    ["autocorrelation at 0.1 s", "autocorrelation at 1 s", "autocorrelation at 5 s"][i],
                    found.autocorrelation[i],
                    published.autocorrelation.map(|r| r[i]),
                    0.05,
                );
            }
            let relative = |wanted: Option<f64>, share: f64| wanted.unwrap_or(0.0) * share;
            let (per_min, mean_s) = (published.outages_per_min, published.outage_mean_s);
            check("outages per minute", found.outages, per_min, relative(per_min, 0.1));
            check("mean outage", found.outages_s, mean_s, relative(mean_s, 0.1));
            for i in 0..2 {
                let sigma = published.apparent_sigma_packets_per_s.map(|sigma| sigma[i]);
                check(["sigma at 0.1 s", "sigma at 1 s"][i], found.apparent_sigma[i], sigma, relative(sigma, 0.15));
            }
        }
        assert!(misses.is_empty(), "{misses:#?}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]
        #[test]
        fn traces_are_traces(which in 0..PRESETS.len(), duration_ms in 0_u64..20_000, seed: u64) {
            let trace = generate(&PRESETS[which], Dur::from_millis(duration_ms), seed);
            prop_assert!(trace.is_sorted());
            prop_assert!(trace.first().is_some_and(|&ms| ms > 0));
            prop_assert!(trace.last().is_some_and(|&ms| u64::from(ms) <= duration_ms.max(1)));
            prop_assert_eq!(&trace, &generate(&PRESETS[which], Dur::from_millis(duration_ms), seed));
        }
    }

    #[test]
    fn a_longer_trace_begins_like_a_shorter_one_and_seeds_differ() {
        for preset in PRESETS {
            let short = generate(preset, Dur::from_millis(20_000), 5);
            let long = generate(preset, Dur::from_millis(40_000), 5);
            let common = short.iter().filter(|&&ms| ms < 20_000).count();
            assert_eq!(short[..common], long[..common], "{}", preset.name);
            assert_ne!(short, generate(preset, Dur::from_millis(20_000), 6), "{}", preset.name);
        }
    }

    #[test]
    fn another_mean_scales_the_rate_alone() {
        for preset in PRESETS {
            let scaled = preset.with_mean(30.0).unwrap();
            let (before, after) = (describe_preset(preset, 5000.0), describe_preset(&scaled, 5000.0));
            assert!((after.mean_mbps / 30.0 - 1.0).abs() < 0.1, "{}: {}", preset.name, after.mean_mbps);
            // What is left of the CV's change is the counting noise of slower links.
            assert!(after.cv < before.cv + 0.02 && after.cv > 0.5 * before.cv, "{}: {after:?}", preset.name);
        }
        for mean_mbps in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e9] {
            assert!(PRESETS[0].with_mean(mean_mbps).is_err());
        }
    }

    #[test]
    fn sprouts_model_stays_within_its_bounds() {
        let preset = find_preset("sprout").unwrap();
        let trace = generate(preset, Dur::from_millis(1_000_000), 3);
        let mut per_s = vec![0_u32; 1001];
        trace.iter().for_each(|&ms| per_s[(ms / 1000) as usize] += 1);
        assert!(per_s.iter().all(|&packets| packets < 1000 + 5 * 32), "Poisson around at most 1000 packets/s");
        assert!(per_s.iter().any(|&packets| packets > 900) && per_s.contains(&0));
    }

    #[test]
    fn names_are_found_or_corrected() {
        assert_eq!(find_preset("lte-walking").unwrap().name, "lte-walking");
        let error = find_preset("lte-wlaking").unwrap_err().to_string();
        assert_eq!(error, "unknown cellular preset \"lte-wlaking\"; did you mean \"lte-walking\"?");
        assert!(find_preset("xyz").unwrap_err().to_string().contains("expected one of lte-stationary, "));
        let mut names: Vec<_> = PRESETS.iter().map(|preset| preset.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), PRESETS.len());
    }
}
