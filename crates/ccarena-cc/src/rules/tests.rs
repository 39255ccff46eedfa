use serde_json::{Value, json};

use super::*;

fn leaf(lower: [f64; 2], upper: [f64; 2], increment: f64) -> Value {
    json!({"lower": lower, "upper": upper, "leaf": {"window_increment": increment, "window_multiple": 1.0, "intersend_ms": 0.5}})
}

fn file(children: Vec<Value>) -> Value {
    json!({"name": "made", "axes": ["rec_rec_ewma", "rtt_ratio"],
        "tree": {"lower": [0, 0], "upper": [20000, 20000], "children": children}})
}

fn parse(value: &Value) -> std::result::Result<Rules, String> {
    Rules::parse(&value.to_string()).map_err(|e| e.to_string())
}

fn memory(rec: f64, ratio: f64) -> Memory {
    [7.0, rec, ratio, 1e9, 0.0, 0.0]
}

#[test]
fn the_first_range_that_holds_a_memory_counts_and_upper_bounds_are_outside() {
    let rules = parse(&file(vec![
        leaf([0.0, 0.0], [10.0, 2.0], 1.0),
        leaf([0.0, 0.0], [20000.0, 20000.0], 2.0),
        leaf([0.0, 0.0], [1.0, 1.0], 3.0),
    ]))
    .unwrap();
    let found = |rec, ratio| rules.find(&memory(rec, ratio)).window_increment as u32;
    assert_eq!((found(0.0, 0.0), found(below(10.0), 1.9), found(10.0, 1.9), found(9.0, 2.0)), (1, 1, 2, 2));
    // Beyond the whole tree a memory counts as one at its edge.
    assert_eq!((found(1e9, 0.0), found(f64::MAX, f64::MAX), rules.len()), (2, 2, 3));
}

#[test]
fn a_memory_that_no_rule_covers_is_named() {
    let hole = file(vec![leaf([0.0, 0.0], [5.0, 20000.0], 1.0), leaf([5.0, 3.0], [20000.0, 20000.0], 1.0)]);
    let said = parse(&hole).unwrap_err();
    assert!(said.contains("no rule for rec_rec_ewma = 5, rtt_ratio = 0"), "{said}");
    // A hole deep in the tree, in the part of a node that is reached.
    let inner = |upper: f64| json!({"lower": [0, 0], "upper": [5, 20000], "children": [leaf([0.0, 0.0], [upper, 20000.0], 1.0)]});
    let outer = |upper: f64| file(vec![leaf([4.0, 0.0], [20000.0, 20000.0], 1.0), inner(upper)]);
    assert_eq!(parse(&outer(5.0)).map(|rules| rules.len()), Ok(2));
    assert!(parse(&outer(3.0)).unwrap_err().contains("rec_rec_ewma = 3, rtt_ratio = 0"));
    for (lower, upper, point) in [
        ([1.0, 0.0], [20000.0, 20000.0], "rec_rec_ewma = 0, rtt_ratio = 0"),
        ([0.0, 0.0], [20000.0, 2.0], "rec_rec_ewma = 0, rtt_ratio = 2"),
    ] {
        let mut value = file(vec![]);
        value["tree"] = leaf(lower, upper, 1.0);
        let said = parse(&value).unwrap_err();
        assert!(said.starts_with("tree: ") && said.contains(point), "{said}");
    }
}

#[test]
fn a_file_that_is_no_rule_file_is_refused_by_the_field_at_fault() {
    let valid = file(vec![leaf([0.0, 0.0], [20000.0, 20000.0], 1.0)]);
    assert!(parse(&valid).is_ok());
    for (place, value, said) in [
        ("/axes", json!(["rtt"]), "axes[0]: unknown axis \"rtt\""),
        ("/axes", json!(["rtt_ratio", "rtt_ratio"]), "axes[1]: got \"rtt_ratio\"; expected each axis once"),
        ("/axes", json!([]), "axes: got []; expected at least one axis"),
        ("/tree/lower", json!([0]), "tree.lower: got [0]; expected a list of 2 numbers, one for each axis"),
        ("/tree/children", json!(null), "tree: got a node; expected either `leaf` or `children` in it"),
        (
            "/tree/children/0/leaf/id",
            json!(3),
            "tree.children[0].leaf.id: got 3; expected 0: rules are numbered depth-first",
        ),
        (
            "/tree/children/0/leaf/intersend_ms",
            json!(-1),
            "tree.children[0].leaf.intersend_ms: got -1; expected a number from 0 to 1000000",
        ),
        ("/tree/children/0/leaf/window_multiple", json!(null), "tree.children[0].leaf.window_multiple: missing"),
        ("/tree/children/0/whisker", json!(0), "tree.children[0].whisker: unknown field \"whisker\""),
    ] {
        let mut changed = valid.clone();
        let (parent, key) = place.rsplit_once('/').unwrap();
        changed.pointer_mut(parent).unwrap()[key] = value;
        let found = parse(&changed).unwrap_err();
        assert!(found.starts_with(said), "{found}");
    }
}

#[test]
fn tangled_ranges_end_with_a_message() {
    // Crosses that meet nowhere in the diagonal: every pair of cuts makes a piece of its own.
    let bars = (0..3000).map(|i| {
        let (at, next) = (f64::from(i) * 5.0, f64::from(i) * 5.0 + 4.0);
        if i % 2 == 0 { leaf([at, 0.0], [next, 20000.0], 1.0) } else { leaf([0.0, at], [20000.0, next], 1.0) }
    });
    let said = parse(&file(bars.collect())).unwrap_err();
    assert!(said.contains("no rule for") || said.contains("in fewer pieces"), "{said}");
}

#[test]
fn the_window_is_cut_to_whole_segments_and_held_to_a_million() {
    let rule =
        |multiple, increment| Rule { id: 0, window_multiple: multiple, window_increment: increment, intersend_ms: 0.0 };
    assert_eq!(rule(0.99, 1.0).window(3), 3);
    assert_eq!(rule(1.0, -5.0).window(3), 0);
    assert_eq!(rule(1000.0, 0.0).window(999_999), 1_000_000);
}
