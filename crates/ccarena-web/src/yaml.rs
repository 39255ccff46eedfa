//! YAML as the Python package reads it (`ccarena/core/reader.py`): the same parser, the scalars of YAML 1.2, and the same
//! refusals of what readers of YAML interpret differently.

use std::collections::HashMap;
use std::fmt;

use libyaml_safer::{Encoding, Event, EventData, Mark, Parser, ScalarStyle};
use serde_json::{Map, Number, Value};

/// Deepest nesting of lists and mappings.
const MOST_DEPTH: usize = 127;
/// Most values and characters that all aliases may repeat together.
const MOST_REPEATED: usize = 100_000;
/// Most characters of a key.
const MOST_KEY: usize = 1000;

/// Fault of a YAML text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Line and column, from 1.
    place: Option<(u64, u64)>,
    problem: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((line, column)) = self.place {
            write!(f, ", line {line}, column {column}")?;
        }
        write!(f, ": not valid YAML: {}", self.problem)
    }
}

/// Problems of a character that begins nothing, as libyaml words it, and of a tab that indents a line.
const NO_TOKEN: &str = "found character that cannot start any token";
const TAB: &str = "a tab indents the line; indent with spaces";

impl Fault {
    fn is_of_a_tab(&self, text: &str) -> bool {
        let Some((number, _)) = self.place.filter(|_| self.problem == NO_TOKEN) else { return false };
        let line = text.split('\n').nth(number.saturating_sub(1) as usize).unwrap_or_default();
        line.chars().take_while(|c| c.is_whitespace()).any(|c| c == '\t')
    }
}

type Result<T> = std::result::Result<T, Fault>;

fn refused<T>(problem: impl Into<String>, at: Mark) -> Result<T> {
    Err(Fault { place: Some((at.line + 1, at.column + 1)), problem: problem.into() })
}

/// Returns the data in one YAML document; null if it is empty.
///
/// # Errors
/// With line, column and reason.
pub fn parse(text: &str) -> Result<Value> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    document(text).map_err(|fault| if fault.is_of_a_tab(text) { Fault { problem: TAB.into(), ..fault } } else { fault })
}

fn document(text: &str) -> Result<Value> {
    if let Some(fault) = tag_before_a_comma(text) {
        return Err(fault);
    }
    // The parser would panic where the text ends in a block without a line break. With one, the value has that, too.
    let is_cut = !text.is_empty() && !text.ends_with(['\n', '\r']);
    let padded = if is_cut { format!("{text}\n") } else { text.into() };
    let last = text.rsplit('\n').next().unwrap_or_default();
    let end = is_cut.then(|| End {
        index: text.len() as u64,
        place: (text.matches('\n').count() as u64 + 1, last.chars().count() as u64 + 1),
        in_text: !last.trim().is_empty(),
    });
    let mut bytes = padded.as_bytes();
    let mut parser = Parser::new();
    parser.set_encoding(Encoding::Utf8);
    parser.set_input_string(&mut bytes);
    let mut reader = Reader { parser, end, anchors: HashMap::new(), size: 0, repeated: 0 };
    reader.next()?;
    let first = reader.next()?;
    if matches!(first.data, EventData::StreamEnd) {
        return Ok(Value::Null);
    }
    let event = reader.next()?;
    let value = reader.value(event, 0)?;
    reader.next()?;
    let after = reader.next()?;
    match after.data {
        EventData::StreamEnd => Ok(value),
        _ => refused("a second document; expected one", after.start_mark),
    }
}

/// Refuses a tag that a comma follows at once, at which the parser would panic.
///
/// Text in quotes or in a comment that looks like such a tag is refused, too: only a parser could tell them apart.
fn tag_before_a_comma(text: &str) -> Option<Fault> {
    let begins = |before: Option<char>| before.is_none_or(|c| c.is_whitespace() || "[]{},:?\"'".contains(c));
    // The next end of a word and of a URI: kept, so that each part of the text is looked at once.
    let (mut word, mut uri) = (0, 0);
    for (at, _) in text.match_indices('!') {
        let (before, tag) = text.split_at(at);
        if !begins(before.chars().next_back()) {
            continue;
        }
        let end = if tag.starts_with("!<") {
            if uri <= at {
                uri = tag.find('>').map_or(text.len(), |end| at + end + 1);
            }
            uri
        } else {
            if word <= at {
                let ends = |c: char| c.is_whitespace() || c == ',';
                word = tag.find(ends).map_or(text.len(), |end| at + end);
            }
            word
        };
        if text[end..].starts_with(',') {
            let column = before.chars().rev().take_while(|c| *c != '\n').count() as u64 + 1;
            let shown: String = text[at..end].chars().take(40).collect();
            let problem =
                format!("the tag '{shown}'; leave tags (!...) out, or put a space before the comma if it is a text");
            return Some(Fault { place: Some((before.matches('\n').count() as u64 + 1, column)), problem });
        }
    }
    None
}

/// End of a text.
struct End {
    index: u64,
    /// Line and column, from 1.
    place: (u64, u64),
    /// The last line is not blank.
    in_text: bool,
}

/// Builder of data from the parser's events.
struct Reader<'r, 'b> {
    parser: Parser<&'r mut &'b [u8]>,
    /// The text's end, if a line break follows that is not in it.
    end: Option<End>,
    /// Values and their sizes; none while the value is being read.
    anchors: HashMap<String, Option<(Value, usize)>>,
    size: usize,
    repeated: usize,
}

impl Reader<'_, '_> {
    fn next(&mut self) -> Result<Event> {
        self.parser.parse().map_err(|error| {
            let at = error.problem_mark().or_else(|| error.context_mark());
            let problem = if error.problem().is_empty() { error.context().unwrap_or("") } else { error.problem() };
            let place = at.map(|at| match &self.end {
                // Elsewhere the parser says the beginning of the next line itself.
                Some(end) if at.index > end.index && problem == "found unexpected end of stream" => end.place,
                _ => (at.line + 1, at.column + 1),
            });
            Fault { place, problem: problem.into() }
        })
    }

    fn value(&mut self, event: Event, depth: usize) -> Result<Value> {
        let at = event.start_mark;
        let (anchor, tag) = match &event.data {
            EventData::Alias { anchor } => return self.alias(anchor, at, depth),
            EventData::Scalar { anchor, tag, .. }
            | EventData::SequenceStart { anchor, tag, .. }
            | EventData::MappingStart { anchor, tag, .. } => (anchor.clone(), tag),
            _ => return refused("expected a value", at),
        };
        if let Some(tag) = tag {
            return refused(format!("the tag '{tag}'; leave tags (!...) out"), at);
        }
        if let Some(anchor) = &anchor {
            if self.anchors.insert(anchor.clone(), None).is_some() {
                return refused(format!("the anchor &{anchor} is there twice"), at);
            }
        }
        let before = self.size;
        self.size += 1;
        let value = match event.data {
            EventData::Scalar { mut value, style, .. } => {
                let is_block = matches!(style, ScalarStyle::Literal | ScalarStyle::Folded);
                let end = self.end.as_ref().filter(|end| is_block && event.end_mark.index > end.index);
                // On a blank last line, only `+` has kept the line break.
                let has_break = |end: &End| end.in_text || value == "\n" || value.ends_with("\n\n");
                if end.is_some_and(has_break) && value.ends_with('\n') {
                    value.pop();
                }
                self.size += value.chars().count();
                if style == ScalarStyle::Plain { scalar(value, at)? } else { Value::String(value) }
            }
            _ if depth >= MOST_DEPTH => return too_deep(at),
            EventData::SequenceStart { .. } => self.sequence(depth + 1)?,
            _ => self.mapping(depth + 1)?,
        };
        if let Some(anchor) = anchor {
            self.anchors.insert(anchor, Some((value.clone(), self.size - before)));
        }
        Ok(value)
    }

    fn sequence(&mut self, depth: usize) -> Result<Value> {
        let mut items = Vec::new();
        loop {
            let event = self.next()?;
            if matches!(event.data, EventData::SequenceEnd) {
                return Ok(Value::Array(items));
            }
            items.push(self.value(event, depth)?);
        }
    }

    fn mapping(&mut self, depth: usize) -> Result<Value> {
        let mut mapping = Map::new();
        loop {
            let event = self.next()?;
            if matches!(event.data, EventData::MappingEnd) {
                return Ok(Value::Object(mapping));
            }
            let at = event.start_mark;
            let key = match self.value(event, depth)? {
                Value::String(key) => key,
                other => return refused(format!("the key {} is not text", short(&other.to_string())), at),
            };
            let length = key.chars().count();
            if length > MOST_KEY {
                let length = grouped(length);
                return refused(format!("a key of {length} characters; expected at most {MOST_KEY}"), at);
            }
            if mapping.contains_key(&key) {
                return refused(format!("the key \"{}\" is there twice", short(&key)), at);
            }
            let event = self.next()?;
            let value = self.value(event, depth)?;
            mapping.insert(key, value);
        }
    }

    fn alias(&mut self, anchor: &str, at: Mark, depth: usize) -> Result<Value> {
        let (value, size) = match self.anchors.get(anchor) {
            None => return refused(format!("the alias *{anchor} has no anchor before it"), at),
            Some(None) => return refused(format!("the alias *{anchor} stands within its own value"), at),
            Some(Some((value, size))) => (value, *size),
        };
        self.size += size;
        self.repeated += size;
        if self.repeated > MOST_REPEATED {
            return refused("aliases repeat more than 100,000 values and characters; write them out", at);
        }
        if depth + depth_of(value) > MOST_DEPTH {
            return too_deep(at);
        }
        Ok(value.clone())
    }
}

fn depth_of(value: &Value) -> usize {
    match value {
        Value::Object(map) => 1 + map.values().map(depth_of).max().unwrap_or(0),
        Value::Array(items) => 1 + items.iter().map(depth_of).max().unwrap_or(0),
        _ => 0,
    }
}

fn too_deep<T>(at: Mark) -> Result<T> {
    refused(format!("nested too deeply; expected at most {MOST_DEPTH} levels"), at)
}

/// Reads an unquoted `text` by YAML 1.2: `1e-4` is a number, `no` and `2024-01-01` are text.
fn scalar(text: String, at: Mark) -> Result<Value> {
    match text.as_str() {
        "" | "~" | "null" | "Null" | "NULL" => return Ok(Value::Null),
        "true" | "True" | "TRUE" => return Ok(Value::Bool(true)),
        "false" | "False" | "FALSE" => return Ok(Value::Bool(false)),
        _ => {}
    }
    if !text.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '-' | '+' | '.')) {
        return Ok(Value::String(text));
    }
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(&text);
    if is_whole(unsigned) {
        return whole(&text, unsigned, at);
    }
    if is_float(unsigned) {
        let digits: String = text.chars().filter(|&c| c != '_').collect();
        let number = digits.parse::<f64>().ok().and_then(Number::from_f64);
        return match number {
            Some(number) => Ok(Value::Number(number)),
            None => refused(format!("{} is beyond the range of numbers", short(&text)), at),
        };
    }
    if matches!(unsigned, ".inf" | ".Inf" | ".INF") || matches!(text.as_str(), ".nan" | ".NaN" | ".NAN") {
        return refused(format!("{text} is not a finite number"), at);
    }
    match ambiguous(unsigned) {
        Some(instead) => refused(format!("{} is not read alike by all readers of YAML; {instead}", short(&text)), at),
        None => Ok(Value::String(text)),
    }
}

fn whole(text: &str, unsigned: &str, at: Mark) -> Result<Value> {
    let digits: String = unsigned.chars().filter(|&c| c != '_').collect();
    let signed = if text.starts_with('-') { format!("-{digits}") } else { digits.clone() };
    match whole_number(&signed) {
        Some(number) => Ok(Value::Number(number)),
        None => {
            let (count, least, most) = (digits.len(), i64::MIN, u64::MAX);
            refused(format!("a whole number of {count} digits; expected {least} to {most}"), at)
        }
    }
}

/// Returns the whole number, or None if 64 bits do not hold it.
pub(crate) fn whole_number(digits: &str) -> Option<Number> {
    let small = digits.parse::<i64>().map(Number::from);
    small.or_else(|_| digits.parse::<u64>().map(Number::from)).ok()
}

/// Splits off what `is` holds for, at the beginning.
fn take(text: &str, is: impl Fn(u8) -> bool) -> (&str, &str) {
    text.split_at(text.bytes().take_while(|&c| is(c)).count())
}

fn is_digit(c: u8) -> bool {
    c.is_ascii_digit()
}

fn is_grouped(c: u8) -> bool {
    c.is_ascii_digit() || c == b'_'
}

/// `0|[1-9][0-9_]*`
fn is_whole(text: &str) -> bool {
    text == "0" || (text.starts_with(|c: char| matches!(c, '1'..='9')) && text.bytes().all(is_grouped))
}

/// An exponent, or nothing.
fn is_exponent(text: &str) -> bool {
    let Some(rest) = text.strip_prefix(['e', 'E']) else { return text.is_empty() };
    let digits = rest.strip_prefix(['-', '+']).unwrap_or(rest);
    !digits.is_empty() && digits.bytes().all(is_digit)
}

/// `(\.[0-9]+|(0|[1-9][0-9_]*)(\.[0-9]*)?)([eE][-+]?[0-9]+)?`
fn is_float(text: &str) -> bool {
    if let Some(rest) = text.strip_prefix('.') {
        let (fraction, rest) = take(rest, is_digit);
        return !fraction.is_empty() && is_exponent(rest);
    }
    let (before, rest) = take(text, is_grouped);
    if !is_whole(before) {
        return false;
    }
    is_exponent(rest.strip_prefix('.').map_or(rest, |rest| take(rest, is_digit).1))
}

/// Advice for a scalar that readers of YAML interpret differently; none for others.
fn ambiguous(text: &str) -> Option<&'static str> {
    let (before, rest) = take(text, is_grouped);
    // Octal or decimal with leading zeros.
    let fraction = rest.strip_prefix('.').map_or(rest, |rest| take(rest, is_grouped).1);
    if before.len() > 1 && before.starts_with('0') && is_exponent(fraction) {
        return Some("leave the leading zeros out, or quote it as text");
    }
    let based = |prefix: &str, is: fn(u8) -> bool| {
        text.strip_prefix(prefix).is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|c| c == b'_' || is(c)))
    };
    let is_based = based("0o", |c| matches!(c, b'0'..=b'7'))
        || based("0x", |c| c.is_ascii_hexdigit())
        || based("0b", |c| matches!(c, b'0' | b'1'));
    (is_based || is_base_60(before, rest)).then_some("write the number in decimal, or quote it as text")
}

/// `[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?`, of which `before` stands before the first colon.
fn is_base_60(before: &str, mut rest: &str) -> bool {
    if !before.starts_with(|c: char| c.is_ascii_digit()) || !rest.starts_with(':') {
        return false;
    }
    while let Some(group) = rest.strip_prefix(':') {
        let (digits, after) = take(group, is_digit);
        let is_sixtieth = digits.len() == 1 || (digits.len() == 2 && digits.as_bytes()[0] <= b'5');
        if !is_sixtieth {
            return false;
        }
        rest = after;
    }
    rest.is_empty() || rest.strip_prefix('.').is_some_and(|rest| rest.bytes().all(is_grouped))
}

/// A number with commas between thousands.
fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let groups: Vec<&str> = digits.as_bytes().rchunks(3).rev().filter_map(|g| std::str::from_utf8(g).ok()).collect();
    groups.join(",")
}

pub(crate) fn short(text: &str) -> String {
    const MOST: usize = 58;
    if text.chars().count() <= MOST { text.into() } else { text.chars().take(MOST - 3).chain("...".chars()).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn scalars_are_those_of_yaml_1_2() {
        let read = |text: &str| parse(text).unwrap();
        assert_eq!(read(""), json!(null));
        assert_eq!(
            read("{a: 1e-4, b: no, c: 2024-01-01, d: ~, e: True, f: '1', g: -5, h: +.5, i: 1_000, j: 12.}"),
            json!({"a": 1e-4, "b": "no", "c": "2024-01-01", "d": null, "e": true, "f": "1", "g": -5, "h": 0.5, "i": 1000,
                "j": 12.0})
        );
        for (text, expected) in [
            ("a: |\n  b", "b"),
            ("a: |\n  b\n", "b\n"),
            ("a: >-\n  b\n  c", "b c"),
            ("a: b", "b"),
            ("a: |+\n  b\n ", "b\n"),
            ("a: |\n  b\n ", "b\n"),
            ("a: |+\n\n ", "\n"),
            ("a: |+\n  b\n\n", "b\n\n"),
        ] {
            assert_eq!(read(text), json!({"a": expected}), "{text:?}");
        }
        assert_eq!(read("18446744073709551615"), json!(u64::MAX));
        assert_eq!(read("-9223372036854775808"), json!(i64::MIN));
        assert_eq!(read("- &x {a: [1]}\n- *x"), json!([{"a": [1]}, {"a": [1]}]));
    }

    #[test]
    fn what_readers_interpret_differently_is_refused_with_its_place() {
        let refused = |text: &str| parse(text).unwrap_err().to_string();
        for (text, expected) in [
            ("a: 010", ", line 1, column 4: not valid YAML: 010 is not read alike by all readers of YAML; leave the "),
            ("a: 1:30", "1:30 is not read alike"),
            ("a: 0x1F", "0x1F is not read alike"),
            ("a: .inf", ".inf is not a finite number"),
            ("a: 1e999", "1e999 is beyond the range of numbers"),
            ("a: 18446744073709551616", "20 digits; expected -9223372036854775808 to 18446744073709551615"),
            ("a: -9223372036854775809", "a whole number of 19 digits; expected -9223372036854775808 to "),
            ("a: 1\na: 2", ", line 2, column 1: not valid YAML: the key \"a\" is there twice"),
            ("1: 2", "the key 1 is not text"),
            ("a: !!str 1", "the tag 'tag:yaml.org,2002:str'; leave tags (!...) out"),
            ("{!)33X,X;XX\rAA\r", ", line 1, column 2: not valid YAML: the tag '!)33X'; leave tags (!...) out"),
            ("a: 1\nb: [c, !<d,e>,f]", ", line 2, column 8: not valid YAML: the tag '!<d,e>'"),
            ("a: *b", "the alias *b has no anchor before it"),
            ("a: &b [*b]", "the alias *b stands within its own value"),
            ("[&a 1, &a 2]", "the anchor &a is there twice"),
            ("a: 1\n---\nb: 2", "a second document; expected one"),
            ("a: [1", "did not find expected ',' or ']'"),
            ("a:\n\t- 1", ", line 2, column 1: not valid YAML: a tab indents the line; indent with spaces"),
            ("a: @b", ", line 1, column 4: not valid YAML: found character that cannot start any token"),
            (&"[".repeat(200), "nested too deeply; expected at most 127 levels"),
        ] {
            assert!(refused(text).contains(expected), "{text}: {}", refused(text));
        }
    }

    #[test]
    fn aliases_cannot_make_a_small_text_large() {
        let mut text = String::from("a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n");
        for k in 1..9 {
            let of = format!("*a{}", k - 1);
            text += &format!("a{k}: &a{k} [{}]\n", [of.as_str(); 10].join(", "));
        }
        assert!(parse(&text).unwrap_err().to_string().contains("aliases repeat more than 100,000"));
    }
}
