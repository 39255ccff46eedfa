//! Rule file of a scheme that looks its actions up: a tree of ranges over what a sender remembers, with a rule at each
//! leaf (Winstein and Balakrishnan, "TCP ex Machina", SIGCOMM 2013, §4.2).
//!
//! A range holds its lower bounds and not its upper ones. Of overlapping children the first that holds a memory counts,
//! as in the authors' `WhiskerTree::whisker`. Rules that leave a memory uncovered are refused with that memory: the
//! authors' program would end there.

mod cover;

use std::fmt;

use crate::reader::{self, At, Object, Problem, Result};

/// Signals that a rule may go by, in the order of [`Memory`].
pub const AXES: [&str; 6] =
    ["rec_send_ewma", "rec_rec_ewma", "rtt_ratio", "slow_rec_rec_ewma", "rtt_diff", "queueing_delay"];
/// Numbers that a sender remembers, in the order of [`AXES`]; times in ms.
pub type Memory = [f64; AXES.len()];

/// The rules have to cover memories up to these bounds: those of the rules of 2013. A memory beyond the whole tree
/// counts as one at its edge.
const COVERED: f64 = 16384.0;
/// Most nodes of a tree.
const MOST_NODES: usize = 20_000;
const ANY: f64 = 1e15;
/// Fields that tell a reader where rules are from.
const NOTES: [&str; 8] = ["name", "source", "licence", "unset_fields", "leaves", "bounds", "axes_seen", "designed_for"];

/// A rule: how it changes the window, and its gap.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rule {
    /// Number of the rule, depth-first from zero.
    pub id: usize,
    /// Factor of the window.
    pub window_multiple: f64,
    /// Segments added after that.
    pub window_increment: f64,
    /// Least time between two segments in ms.
    pub intersend_ms: f64,
}

/// Rules that cover every memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Rules {
    /// Nodes, each before its children; the first is the root.
    nodes: Vec<Node>,
    rules: Vec<Rule>,
}

#[derive(Clone, Debug, PartialEq)]
struct Node {
    range: Range,
    content: Content,
}

#[derive(Clone, Debug, PartialEq)]
enum Content {
    Rule(usize),
    Children(Vec<usize>),
}

/// Memories from `lower` on and below `upper`, by axis.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Range {
    lower: Memory,
    upper: Memory,
}

impl Range {
    const ALL: Self = Self { lower: [f64::NEG_INFINITY; AXES.len()], upper: [f64::INFINITY; AXES.len()] };

    fn holds(&self, memory: &Memory) -> bool {
        (0..AXES.len()).all(|axis| self.lower[axis] <= memory[axis] && memory[axis] < self.upper[axis])
    }
}

impl Rules {
    /// The rule from which the authors' search starts (`whisker.hh`): one segment more per acknowledgement, and 3 ms
    /// between segments.
    #[must_use]
    pub fn first() -> Self {
        let rule = Rule { id: 0, window_multiple: 1.0, window_increment: 1.0, intersend_ms: 3.0 };
        Self { nodes: vec![Node { range: Range::ALL, content: Content::Rule(0) }], rules: vec![rule] }
    }

    /// Reads rules from JSON text.
    ///
    /// # Errors
    /// If the text is not JSON, the first field at fault, or a memory that no rule covers.
    pub fn parse(text: &str) -> Result<Self> {
        let value = reader::parse(text)?;
        let known = [&NOTES[..], &["axes", "tree"]].concat();
        let o = At { value: &value, path: String::new() }.object(&known)?;
        let axes = axes(&o)?;
        let tree = o.require("tree", "an object with lower, upper, and children or leaf")?;
        let mut rules = Self { nodes: Vec::new(), rules: Vec::new() };
        rules.read(&tree, &axes)?;
        match cover::gap(&rules.nodes, COVERED) {
            Ok(None) => Ok(rules),
            Ok(Some(memory)) => uncovered(&tree, &memory, &axes),
            Err(cover::Tangled) => tree.fail("ranges that cover each other's space in fewer pieces"),
        }
    }

    /// Reads a node and what is below it, and returns its index.
    fn read(&mut self, at: &At<'_>, axes: &[usize]) -> Result<usize> {
        let o = at.object(&["lower", "upper", "children", "leaf"])?;
        let index = self.nodes.len();
        if index == MOST_NODES {
            return at.fail(format!("at most {MOST_NODES} nodes"));
        }
        let range = Range {
            lower: bounds(&o, "lower", axes, Range::ALL.lower)?,
            upper: bounds(&o, "upper", axes, Range::ALL.upper)?,
        };
        self.nodes.push(Node { range, content: Content::Children(Vec::new()) });
        let content = match (o.get("leaf"), o.get("children")) {
            (Some(leaf), None) => {
                let rule = rule(&leaf, self.rules.len())?;
                self.rules.push(rule);
                Content::Rule(rule.id)
            }
            (None, Some(children)) => {
                let items = children.list("a list of nodes")?;
                Content::Children(items.iter().map(|item| self.read(item, axes)).collect::<Result<_>>()?)
            }
            _ => return shape(at),
        };
        self.nodes[index].content = content;
        Ok(index)
    }

    /// The rule for `memory`.
    #[must_use]
    pub fn find(&self, memory: &Memory) -> &Rule {
        let root = &self.nodes[0].range;
        let memory = std::array::from_fn(|axis| memory[axis].min(below(root.upper[axis])).max(root.lower[axis]));
        let mut node = &self.nodes[0];
        loop {
            match &node.content {
                Content::Rule(rule) => return &self.rules[*rule],
                // `parse` has shown that there is one.
                Content::Children(children) => {
                    let child =
                        children.iter().map(|&child| &self.nodes[child]).find(|child| child.range.holds(&memory));
                    match child {
                        Some(child) => node = child,
                        None => return &self.rules[0],
                    }
                }
            }
        }
    }

    /// Returns the number of rules.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rules.len()
    }

    /// False: there is one rule at least.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }
}

impl Rule {
    /// The window in segments after one of `window` segments (`Whisker::window`).
    #[must_use]
    pub fn window(&self, window: u32) -> u32 {
        const MOST: f64 = 1e6;
        (f64::from(window) * self.window_multiple + self.window_increment).trunc().clamp(0.0, MOST) as u32
    }
}

impl fmt::Display for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} rules", self.len())
    }
}

/// The largest number below `x`, which is above zero.
fn below(x: f64) -> f64 {
    f64::from_bits(x.to_bits().saturating_sub(1))
}

/// The file's axes as indices of [`AXES`].
fn axes(o: &Object<'_>) -> Result<Vec<usize>> {
    let at = o.require("axes", &format!("a list out of {}", AXES.join(", ")))?;
    let mut axes = Vec::new();
    for item in at.list(&format!("a list out of {}", AXES.join(", ")))? {
        let name = item.choice("axis", &AXES)?;
        match AXES.iter().position(|axis| *axis == name) {
            Some(axis) if !axes.contains(&axis) => axes.push(axis),
            _ => return item.fail("each axis once"),
        }
    }
    if axes.is_empty() { at.fail("at least one axis") } else { Ok(axes) }
}

fn bounds(o: &Object<'_>, key: &str, axes: &[usize], all: Memory) -> Result<Memory> {
    let expected = format!("a list of {} numbers, one for each axis", axes.len());
    let at = o.require(key, &expected)?;
    let items = at.list(&expected)?;
    if items.len() != axes.len() {
        return at.fail(expected);
    }
    let mut bounds = all;
    for (item, &axis) in items.iter().zip(axes) {
        bounds[axis] = item.number(-ANY, ANY)?;
    }
    Ok(bounds)
}

fn rule(at: &At<'_>, id: usize) -> Result<Rule> {
    let o = at.object(&["id", "window_increment", "window_multiple", "intersend_ms"])?;
    if let Some(given) = o.get("id").filter(|given| given.value.as_u64() != Some(id as u64)) {
        return given.fail(format!("{id}: rules are numbered depth-first"));
    }
    let number = |key: &str, what: &str, min: f64, max: f64| o.require(key, what)?.number(min, max);
    Ok(Rule {
        id,
        window_multiple: number("window_multiple", "the factor of the window", 0.0, 1e3)?,
        window_increment: number("window_increment", "segments to add", -1e6, 1e6)?.trunc(),
        intersend_ms: number("intersend_ms", "the least time between segments in ms", 0.0, 1e6)?,
    })
}

fn shape<T>(at: &At<'_>) -> Result<T> {
    let problem = Problem::Invalid { value: "a node".into(), expected: "either `leaf` or `children` in it".into() };
    Err(reader::DocumentError { path: at.path.clone(), problem })
}

fn uncovered<T>(at: &At<'_>, memory: &Memory, axes: &[usize]) -> Result<T> {
    let point: Vec<String> = axes.iter().map(|&axis| format!("{} = {}", AXES[axis], memory[axis])).collect();
    let value = format!("no rule for {}", point.join(", "));
    let expected = format!("rules for every memory from 0 to {COVERED} on each axis");
    Err(reader::DocumentError { path: at.path.clone(), problem: Problem::Invalid { value, expected } })
}

#[cfg(test)]
mod tests;
