//! Adaptive video: chunks at bit rates of a ladder, which the client chooses by its buffer or by the rate it measures.

use ccarena_cc::reader::{At, MIN_MBPS, Object, Result};
use ccarena_cc::{Dur, Rate};
use serde_json::{Value, json};

use super::transfers::Current;
use super::{Application, Needs, Offer, Outcome, Running, Start, View};

/// Pensieve's ladder (SIGCOMM 2017) in Mbit/s.
const LADDER_MBPS: [f64; 6] = [0.3, 0.75, 1.2, 1.85, 2.85, 4.3];
const MAX_RUNGS: usize = 100;
/// BBA's reservoir and the start of its upper reservoir: 90 s and 216 s of 240 s (Huang et al., SIGCOMM 2014, section 3).
const RESERVOIR: f64 = 90.0 / 240.0;
const UPPER: f64 = 216.0 / 240.0;
/// Number of chunks in the harmonic mean of throughputs (Yin et al., SIGCOMM 2015).
const MEASURED: usize = 5;

/// Rule by which a client chooses the next chunk's bit rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// The highest that is not above the harmonic mean of the last throughputs.
    Rate,
    /// The one that BBA-0 maps the buffer to.
    Buffer,
}

const CHOICES: [(&str, Choice); 2] = [("rate", Choice::Rate), ("buffer", Choice::Buffer)];

/// A client that plays a video without end, chunk after chunk, while its buffer has room. The sender is the server: it
/// begins a chunk when it knows that the client has the one before, as the next request comes no earlier.
#[derive(Clone, Debug, PartialEq)]
pub struct Video {
    /// Bitrates, rising.
    pub ladder: Vec<Rate>,
    /// Length of a chunk.
    pub chunk: Dur,
    /// Length of the buffer.
    pub buffer: Dur,
    /// Rule of choice.
    pub choice: Choice,
}

impl Application for Video {
    const NAME: &'static str = "video";
    const FIELDS: &'static [&'static str] = &["ladder_mbps", "chunk_s", "buffer_s", "abr"];
    const NEEDS: Needs = Needs { acknowledged: true, ..Needs::NONE };

    fn read(o: &Object<'_>) -> Result<Self> {
        let chunk = o.or("chunk_s", Dur::from_millis(4000), |at| at.seconds(0.1))?;
        let names: Vec<&str> = CHOICES.iter().map(|c| c.0).collect();
        let chosen = o.or("abr", "buffer", |at| at.choice("choice of bit rates", &names))?;
        Ok(Self {
            ladder: o.or("ladder_mbps", LADDER_MBPS.map(Rate::from_mbps).to_vec(), ladder)?,
            chunk,
            buffer: o.or("buffer_s", chunk.max(Dur::from_millis(60_000)), |at| match at.seconds(0.1)? {
                buffer if buffer < chunk => at.fail(format!("at least chunk_s, which is {}", chunk.as_secs_f64())),
                buffer => Ok(buffer),
            })?,
            choice: CHOICES.iter().find(|c| c.0 == chosen).map_or(Choice::Buffer, |c| c.1),
        })
    }

    fn write(&self) -> Value {
        json!({
            "ladder_mbps": self.ladder.iter().map(|r| r.as_mbps()).collect::<Vec<_>>(),
            "chunk_s": self.chunk.as_secs_f64(),
            "buffer_s": self.buffer.as_secs_f64(),
            "abr": CHOICES.iter().find(|c| c.1 == self.choice).map(|c| c.0),
        })
    }

    fn packets(&self, seconds: f64, mss: f64) -> f64 {
        // As much as it can play, and a full buffer.
        let played = seconds + self.buffer.as_secs_f64() + self.chunk.as_secs_f64();
        let highest = self.ladder.last().map_or(0, |rate| rate.0);
        highest as f64 / 8.0 * played / mss + played / self.chunk.as_secs_f64().max(0.1) + 1.0
    }

    fn start(&self, _: &Start) -> Option<Box<dyn Running>> {
        Some(Box::new(Player {
            video: self.clone(),
            current: Current::default(),
            due: Dur::ZERO,
            buffer: Dur::ZERO,
            at: Dur::ZERO,
            rung: 0,
            chunks: Vec::new(),
        }))
    }
}

fn ladder(at: &At<'_>) -> Result<Vec<Rate>> {
    let expected = format!("a list of 1 to {MAX_RUNGS} bit rates in Mbit/s, rising");
    let items = at.list(&expected)?;
    if items.is_empty() || items.len() > MAX_RUNGS {
        return at.fail(expected);
    }
    let mut ladder: Vec<Rate> = Vec::with_capacity(items.len());
    for item in items {
        let rate = item.mbps(MIN_MBPS)?;
        if let Some(before) = ladder.last().filter(|before| **before >= rate) {
            return item.fail(format!("more than {}, the bit rate before", before.as_mbps()));
        }
        ladder.push(rate);
    }
    Ok(ladder)
}

/// A chunk that the client has.
#[derive(Debug)]
struct Chunk {
    rate: Rate,
    /// Time of its arrival.
    arrived: Dur,
    /// Time from request to arrival.
    took: Dur,
    /// Time for which playback stood still before it; none before the first chunk, which playback begins with.
    stalled: Dur,
}

#[derive(Debug)]
struct Player {
    video: Video,
    current: Current,
    /// Time of the next request.
    due: Dur,
    /// Playing time that the client had left at time `at`.
    buffer: Dur,
    at: Dur,
    rung: usize,
    chunks: Vec<Chunk>,
}

impl Player {
    /// A chunk has arrived: plays up to now, and adds it.
    fn arrive(&mut self, now: Dur) {
        let took = self.current.completion.last().copied().unwrap_or_default();
        let rate = self.video.ladder[self.rung];
        let played = if self.chunks.is_empty() { Dur::ZERO } else { now - self.at };
        let stalled = if played > self.buffer { played - self.buffer } else { Dur::ZERO };
        self.buffer = self.buffer - played.min(self.buffer) + self.video.chunk;
        self.at = now;
        self.chunks.push(Chunk { rate, arrived: now, took, stalled });
        // The next one is asked for when the buffer has room for it.
        let above = self.buffer + self.video.chunk;
        self.due = if above > self.video.buffer { now + (above - self.video.buffer) } else { now };
    }

    fn request(&mut self, now: Dur) {
        self.rung = if self.chunks.is_empty() { 0 } else { self.choose(now) };
        let bits = u128::from(self.video.ladder[self.rung].0) * u128::from(self.video.chunk.0) / 1_000_000_000;
        self.current.begin(now, u64::try_from(bits / 8).unwrap_or(u64::MAX));
    }

    fn choose(&self, now: Dur) -> usize {
        match self.video.choice {
            Choice::Rate => self.by_rate(),
            Choice::Buffer => {
                let played = (now - self.at).min(self.buffer);
                by_buffer(&self.video.ladder, self.rung, (self.buffer - played).as_secs_f64(), &self.video)
            }
        }
    }

    fn by_rate(&self) -> usize {
        let last = &self.chunks[self.chunks.len().saturating_sub(MEASURED)..];
        // Chunks are equally long, so that a chunk's throughput is its bit rate times its length over the time it took.
        let slowness = |c: &Chunk| c.took.as_secs_f64() / (c.rate.0 as f64 * self.video.chunk.as_secs_f64());
        let mean = last.len() as f64 / last.iter().map(slowness).sum::<f64>().max(1e-30);
        self.video.ladder.partition_point(|rate| rate.0 as f64 <= mean).saturating_sub(1)
    }
}

/// BBA-0 (algorithm 1): stays at `rung` until the map from `buffer_s` to rates passes the next higher or lower bit rate.
/// Chunks are asked for when there is room for one, so the upper reservoir begins below that, by a tenth of a chunk: a
/// socket asks a little late.
fn by_buffer(ladder: &[Rate], rung: usize, buffer_s: f64, video: &Video) -> usize {
    let most = video.buffer.as_secs_f64();
    let reservoir = RESERVOIR * most;
    let upper = (UPPER * most).min(most - 1.1 * video.chunk.as_secs_f64()).max(reservoir);
    let top = ladder.len() - 1;
    if buffer_s <= reservoir {
        return 0;
    }
    if buffer_s >= upper {
        return top;
    }
    let (least, highest) = (ladder[0].0 as f64, ladder[top].0 as f64);
    let mapped = least + (highest - least) * (buffer_s - reservoir) / (upper - reservoir);
    let (below, above) = (rung.saturating_sub(1), (rung + 1).min(top));
    if mapped >= ladder[above].0 as f64 {
        ladder.iter().rposition(|rate| (rate.0 as f64) < mapped).unwrap_or(0)
    } else if mapped <= ladder[below].0 as f64 {
        ladder.iter().position(|rate| rate.0 as f64 > mapped).unwrap_or(top)
    } else {
        rung
    }
}

impl Running for Player {
    fn advance(&mut self, view: &View) -> Offer {
        if self.current.acknowledged(view) {
            self.arrive(view.elapsed);
        }
        if self.current.asked.is_none() {
            if view.elapsed < self.due {
                return Offer { allowed: self.current.allowed, next: self.due };
            }
            self.request(view.elapsed);
        }
        Offer { allowed: self.current.allowed, next: Dur::MAX }
    }

    fn outcome(&self) -> Outcome {
        let column = |value: &dyn Fn(&Chunk) -> f64| self.chunks.iter().map(value).collect();
        let columns = vec![
            ("chunk_mbps", column(&|chunk| chunk.rate.as_mbps())),
            ("chunk_arrived_s", column(&|chunk| chunk.arrived.as_secs_f64())),
            ("chunk_took_s", column(&|chunk| chunk.took.as_secs_f64())),
            ("stalled_s", column(&|chunk| chunk.stalled.as_secs_f64())),
        ];
        Outcome { columns, ..Outcome::default() }
    }
}
