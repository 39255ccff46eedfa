//! Search for a memory that no rule covers.

use super::{AXES, Content, Memory, Node, Range};

/// Children overlap in so many pieces that the search would take too long.
#[derive(Debug)]
pub(super) struct Tangled;

/// Most comparisons of ranges in one search.
const MOST_STEPS: usize = 5_000_000;

/// A memory in the root, or from zero to `least` on each axis, that no rule covers.
pub(super) fn gap(nodes: &[Node], least: f64) -> Result<Option<Memory>, Tangled> {
    let needed = Range { lower: [0.0; AXES.len()], upper: [least; AXES.len()] };
    let root = nodes[0].range;
    if let Some(axis) = (0..AXES.len()).find(|&a| root.lower[a] > 0.0 || root.upper[a] < least) {
        let mut memory = needed.lower;
        if root.lower[axis] <= 0.0 {
            memory[axis] = root.upper[axis].max(0.0);
        }
        return Ok(Some(memory));
    }
    let mut steps = 0;
    // The part of each node that a look-up can come to.
    let mut reached = vec![(0, nodes[0].range)];
    while let Some((index, part)) = reached.pop() {
        let Content::Children(children) = &nodes[index].content else { continue };
        let ranges: Vec<Range> = children.iter().map(|&child| nodes[child].range).collect();
        if let Some(memory) = outside(part, &ranges, &mut steps)? {
            return Ok(Some(memory));
        }
        let parts = children.iter().zip(&ranges).map(|(&child, range)| (child, common(part, *range)));
        reached.extend(parts.filter(|(_, part)| !is_empty(part)));
    }
    Ok(None)
}

/// A memory of `part` that is in none of `ranges`: a part that one of them cuts is divided along the cut.
fn outside(part: Range, ranges: &[Range], steps: &mut usize) -> Result<Option<Memory>, Tangled> {
    // Parts, each with the ranges that may touch it.
    let mut parts = vec![(part, (0..ranges.len() as u32).collect::<Vec<_>>())];
    while let Some((part, mut touching)) = parts.pop() {
        *steps += touching.len() + 1;
        if *steps > MOST_STEPS {
            return Err(Tangled);
        }
        touching.retain(|&index| !is_empty(&common(part, ranges[index as usize])));
        let Some(&first) = touching.first() else { return Ok(Some(inside(&part))) };
        let Some((axis, cut)) = cut(&part, &ranges[first as usize]) else { continue };
        let (mut below, mut above) = (part, part);
        (below.upper[axis], above.lower[axis]) = (cut, cut);
        parts.push((below, touching.clone()));
        parts.push((above, touching));
    }
    Ok(None)
}

/// Returns an axis and a bound of `range` that cuts `part` there; none if the range holds all of it.
fn cut(part: &Range, range: &Range) -> Option<(usize, f64)> {
    (0..AXES.len()).find_map(|axis| {
        let within = |x: f64| part.lower[axis] < x && x < part.upper[axis];
        [range.lower[axis], range.upper[axis]].into_iter().find(|&x| within(x)).map(|x| (axis, x))
    })
}

fn common(a: Range, b: Range) -> Range {
    Range {
        lower: std::array::from_fn(|axis| a.lower[axis].max(b.lower[axis])),
        upper: std::array::from_fn(|axis| a.upper[axis].min(b.upper[axis])),
    }
}

fn is_empty(range: &Range) -> bool {
    (0..AXES.len()).any(|axis| range.lower[axis] >= range.upper[axis])
}

/// A memory of `range`, which is not empty: its lower corner, and zero on axes that the rules do not have.
fn inside(range: &Range) -> Memory {
    range.lower.map(|bound| if bound.is_finite() { bound } else { 0.0 })
}
