//! Real-time media: frames at the rate that the controller allows, and the times at which they arrive.

use std::collections::VecDeque;

use ccarena_cc::reader::{MIN_MBPS, Object, Result};
use ccarena_cc::{Dur, Rate};
use serde_json::{Value, json};

use super::{Application, Needs, Offer, Outcome, Running, Start, View};
use crate::rng;

/// Share of the controller's rate that the encoder aims at, so that what has queued can drain.
const DEFAULT_SHARE: f64 = 0.9;
/// Delay from mouth to ear that most users are satisfied with (ITU-T G.114).
const DEFAULT_PLAYOUT: Dur = Dur::from_millis(150);

/// A video call in one direction. The encoder makes a frame at each tick, as large as its target rate allows, with random
/// differences between frames and, if asked for, larger key frames at intervals. The target follows the controller's rate.
///
/// The encoder skips frames while the oldest one under way has taken longer, by more than `playout`, than the fastest one
/// took.
#[derive(Clone, Debug, PartialEq)]
pub struct Media {
    /// Frames per second.
    pub fps: f64,
    /// Rate before the controller has one.
    pub first: Rate,
    /// Least rate.
    pub min: Rate,
    /// Largest rate.
    pub max: Rate,
    /// Share of the controller's rate.
    pub share: f64,
    /// Largest random difference of a frame's size from its mean, as a share; uniform.
    pub variation: f64,
    /// Time between key frames; zero for none.
    pub key_every: Dur,
    /// Mean size of a key frame over that of another frame.
    pub key_size: f64,
    /// Time from capture until a frame is shown.
    pub playout: Dur,
}

impl Application for Media {
    const NAME: &'static str = "media";
    const FIELDS: &'static [&'static str] =
        &["fps", "start_mbps", "min_mbps", "max_mbps", "share", "variation", "key_every_s", "key_size", "playout_ms"];
    const NEEDS: Needs = Needs { acknowledged: true, rate: true, arrivals: true, ..Needs::NONE };

    fn read(o: &Object<'_>) -> Result<Self> {
        let mbps = |key, default| o.or(key, Rate::from_mbps(default), |at| at.mbps(MIN_MBPS));
        let (min, max, first) = (mbps("min_mbps", 0.15)?, mbps("max_mbps", 2.5)?, mbps("start_mbps", 0.3)?);
        if let Some(at) = o.get("max_mbps").filter(|_| max < min) {
            return at.fail(format!("at least min_mbps, which is {}", min.as_mbps()));
        }
        if let Some(at) = o.get("min_mbps").filter(|_| max < min) {
            return at.fail(format!("at most max_mbps, which is {}", max.as_mbps()));
        }
        if let Some(at) = o.get("start_mbps").filter(|_| first < min || first > max) {
            return at.fail(format!(
                "from min_mbps, which is {}, to max_mbps, which is {}",
                min.as_mbps(),
                max.as_mbps()
            ));
        }
        Ok(Self {
            fps: o.or("fps", 30.0, |at| at.number(1.0, 240.0))?,
            first: first.clamp(min, max),
            min,
            max,
            share: o.or("share", DEFAULT_SHARE, |at| at.number(0.01, 2.0))?,
            variation: o.or("variation", 0.2, |at| at.number(0.0, 0.95))?,
            key_every: o.or("key_every_s", Dur::ZERO, |at| at.seconds(0.0))?,
            key_size: o.or("key_size", 4.0, |at| at.number(1.0, 100.0))?,
            playout: o.or("playout_ms", DEFAULT_PLAYOUT, |at| at.millis(1.0, 10_000.0))?,
        })
    }

    fn write(&self) -> Value {
        json!({
            "fps": self.fps,
            "start_mbps": self.first.as_mbps(),
            "min_mbps": self.min.as_mbps(),
            "max_mbps": self.max.as_mbps(),
            "share": self.share,
            "variation": self.variation,
            "key_every_s": self.key_every.as_secs_f64(),
            "key_size": self.key_size,
            "playout_ms": self.playout.as_millis_f64(),
        })
    }

    fn packets(&self, seconds: f64, mss: f64) -> f64 {
        // The last segment of each frame may be short.
        self.max.0 as f64 / 8.0 * seconds / mss + seconds * self.fps + self.key_size + 1.0
    }

    fn start(&self, start: &Start) -> Option<Box<dyn Running>> {
        Some(Box::new(Encoder {
            media: self.clone(),
            random: rng::Stream::keyed(start.seed),
            ticks: 0,
            key_ticks: (self.key_every.as_secs_f64() * self.fps).round() as u64,
            next_key: 0,
            allowed: 0,
            under_way: VecDeque::new(),
            fastest: None,
            frames: Vec::new(),
        }))
    }
}

/// A frame. One that was skipped has no bytes.
#[derive(Debug)]
struct Frame {
    captured: Dur,
    bytes: u64,
}

#[derive(Debug)]
struct Encoder {
    media: Media,
    random: rng::Stream,
    /// Ticks that have passed.
    ticks: u64,
    /// Ticks between key frames, zero if there are none, and the tick from which the next frame is one.
    key_ticks: u64,
    next_key: u64,
    allowed: u64,
    /// Frames that are not acknowledged: their ends and capture times.
    under_way: VecDeque<(u64, Dur)>,
    /// Least time from a frame's capture to its acknowledgement.
    fastest: Option<Dur>,
    frames: Vec<Frame>,
}

impl Encoder {
    fn tick(&self, number: u64) -> Dur {
        Dur::from_secs_f64(number as f64 / self.media.fps)
    }

    fn acknowledged(&mut self, view: &View) {
        while let Some(&(_, captured)) = self.under_way.front().filter(|frame| frame.0 <= view.acknowledged) {
            let took = view.elapsed - captured;
            self.fastest = Some(self.fastest.map_or(took, |fastest| fastest.min(took)));
            self.under_way.pop_front();
        }
    }

    /// Returns whether the oldest frame under way is so late that another would only wait behind it.
    fn blocked(&self, now: Dur) -> bool {
        match (self.under_way.front(), self.fastest) {
            (Some(&(_, captured)), Some(fastest)) => now > captured + fastest + self.media.playout,
            _ => false,
        }
    }

    /// Size of a frame made now.
    fn size(&mut self, rate: Option<Rate>) -> u64 {
        let Media { fps, first, min, max, share, variation, key_size, .. } = self.media;
        let target = rate.map_or(first, |rate| Rate((rate.0 as f64 * share) as u64).clamp(min, max));
        let mut factor = self.random.uniform(1.0 - variation, 1.0 + variation);
        if self.key_ticks > 0 {
            // The frames from one key frame to the next have the target's mean.
            factor *= self.key_ticks as f64 / (self.key_ticks as f64 - 1.0 + key_size);
            if self.ticks >= self.next_key {
                factor *= key_size;
                self.next_key = self.ticks + self.key_ticks;
            }
        }
        ((target.0 as f64 / 8.0 / fps * factor) as u64).max(1)
    }
}

impl Running for Encoder {
    fn advance(&mut self, view: &View) -> Offer {
        self.acknowledged(view);
        if view.elapsed >= self.tick(self.ticks) {
            let bytes = if self.blocked(view.elapsed) { 0 } else { self.size(view.rate) };
            if bytes > 0 {
                self.allowed = self.allowed.saturating_add(bytes);
                self.under_way.push_back((self.allowed, view.elapsed));
            }
            self.frames.push(Frame { captured: view.elapsed, bytes });
            // A host that wakes late makes one frame for the ticks that it missed.
            self.ticks = (view.elapsed.as_secs_f64() * self.media.fps) as u64;
            while view.elapsed >= self.tick(self.ticks) {
                self.ticks += 1;
            }
        }
        Offer { allowed: self.allowed, next: self.tick(self.ticks) }
    }

    fn outcome(&self) -> Outcome {
        let column = |value: &dyn Fn(&Frame) -> f64| self.frames.iter().map(value).collect();
        let columns = vec![
            ("captured_s", column(&|frame| frame.captured.as_secs_f64())),
            ("frame_bytes", column(&|frame| frame.bytes as f64)),
        ];
        Outcome { columns, ..Outcome::default() }
    }
}
