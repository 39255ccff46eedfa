//! Responses on one connection, with time to think between them.

use ccarena_cc::Dur;
use ccarena_cc::reader::{Object, Result};
use serde_json::{Value, json};

use super::sizes::Sizes;
use super::transfers::Current;
use super::{Application, Needs, Offer, Outcome, Running, Start, View};
use crate::rng;

/// A client that asks for a response, thinks when it has it, and asks again (closed loop). The sender is the server: a
/// response begins when it knows that the client has the one before and has thought.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestResponse {
    /// Distribution of the responses' sizes.
    pub sizes: Sizes,
    /// Mean time to think, exponentially distributed.
    pub think: Dur,
}

impl Application for RequestResponse {
    const NAME: &'static str = "request_response";
    const FIELDS: &'static [&'static str] = &["sizes", "think_s"];
    const NEEDS: Needs = Needs { acknowledged: true, ..Needs::NONE };

    fn read(o: &Object<'_>) -> Result<Self> {
        Ok(Self {
            sizes: Sizes::required(o)?,
            think: o.require("think_s", "mean seconds from a response to the next request")?.seconds(0.0)?,
        })
    }

    fn write(&self) -> Value {
        json!({"sizes": self.sizes.write(), "think_s": self.think.as_secs_f64()})
    }

    fn packets(&self, _: f64, _: f64) -> f64 {
        // The link decides how many.
        f64::INFINITY
    }

    fn start(&self, start: &Start) -> Option<Box<dyn Running>> {
        let random = rng::Stream::keyed(start.seed);
        let (sizes, think) = (self.sizes.clone(), self.think);
        let (current, asked_sizes) = (Current::default(), Vec::new());
        Some(Box::new(Client { sizes, think, random, due: Dur::ZERO, current, asked_sizes }))
    }
}

#[derive(Debug)]
struct Client {
    sizes: Sizes,
    think: Dur,
    random: rng::Stream,
    /// Time of the next request.
    due: Dur,
    current: Current,
    /// Sizes of the responses that have begun.
    asked_sizes: Vec<f64>,
}

impl Running for Client {
    fn advance(&mut self, view: &View) -> Offer {
        if self.current.acknowledged(view) {
            let think = self.random.exponential(self.think.as_secs_f64());
            self.due = view.elapsed + Dur::from_secs_f64(think);
        }
        if self.current.asked.is_none() {
            if view.elapsed < self.due {
                return Offer { allowed: self.current.allowed, next: self.due };
            }
            let size = self.sizes.draw(&mut self.random);
            self.asked_sizes.push(size as f64);
            self.current.begin(view.elapsed, size);
        }
        Offer { allowed: self.current.allowed, next: Dur::MAX }
    }

    fn outcome(&self) -> Outcome {
        let completion = self.current.completion.clone();
        Outcome { completion, columns: vec![("size_bytes", self.asked_sizes.clone())], ..Outcome::default() }
    }
}
