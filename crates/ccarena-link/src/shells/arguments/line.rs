//! A command line, taken apart into options, words by position, and a command.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::str::FromStr;

use ccarena_cc::registry::nearest;
use ccarena_net::queues;

/// Word in an option's text that stands for the names of all queue disciplines.
pub const QUEUES: &str = "{queues}";

/// An option: its name, whether a value follows, and what it is for; options without a purpose are not listed.
pub type Spec = (&'static str, bool, &'static str);

/// Form of the command line of one kind of shell.
#[derive(Clone, Copy, Debug)]
pub struct Form {
    /// The shell's name.
    pub name: &'static str,
    /// Words that differ by position.
    pub positions: &'static [&'static str],
    /// Mahimahi's own options.
    pub own: &'static [Spec],
    /// Ours.
    pub common: &'static [&'static [Spec]],
    /// Summary of the kind of link.
    pub summary: &'static str,
}

/// A line taken apart.
#[derive(Debug, Default)]
pub struct Line {
    /// Options by name, in the order given.
    pub options: Vec<(&'static str, OsString)>,
    /// Words by position: as many as the form has, or fewer.
    pub positions: Vec<OsString>,
    /// The rest.
    pub command: Vec<OsString>,
}

/// Error of a line that cannot be parsed.
struct Unfit {
    problem: String,
    /// Flag that the cause may be a word of the command's.
    in_command: bool,
}

impl Form {
    /// Takes `words` apart: as getopt does if this shell of mahimahi's uses it and that goes well.
    ///
    /// # Errors
    /// What is wrong, as a sentence.
    pub fn take_apart(&self, words: &[OsString]) -> Result<Line, String> {
        let uses_getopt = !self.own.is_empty();
        match self.split(words, uses_getopt) {
            Err(unfit) if unfit.in_command => self.split(words, false).map_err(|unfit| unfit.problem),
            done => done.map_err(|unfit| unfit.problem),
        }
    }

    /// `permute`: options count in the command too.
    fn split(&self, words: &[OsString], permute: bool) -> Result<Line, Unfit> {
        let mut line = Line::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let text = word.to_string_lossy();
            let is_option = text.len() > 1 && text.starts_with('-') && text.parse::<f64>().is_err();
            if text == "--" {
                line.command.extend(words.cloned());
                break;
            }
            if !is_option && line.positions.len() < self.positions.len() {
                line.positions.push(word.clone());
                continue;
            }
            if !is_option {
                line.command.push(word.clone());
                if permute {
                    continue;
                }
                line.command.extend(words.cloned());
                break;
            }
            let in_command = permute && !line.command.is_empty();
            let fail = |problem| Unfit { problem, in_command };
            // In the command, mahimahi's options alone count: ours are as likely the command's.
            let common = if in_command { &[] } else { self.common };
            let (name, value) = self.find(&text, common).map_err(fail)?;
            let value = match (self.takes_value(name), value) {
                (true, Some(value)) => value,
                (true, None) => words.next().cloned().ok_or_else(|| fail(format!("option --{name} needs a value")))?,
                (false, Some(_)) => return Err(fail(format!("option --{name} takes no value"))),
                (false, None) => OsString::new(),
            };
            line.options.push((name, value));
        }
        Ok(line)
    }

    /// The option of mahimahi's or of `common` that `text` names, by an unambiguous beginning as with getopt, and the value
    /// behind its `=`. What begins one of mahimahi's alone is that one.
    fn find(&self, text: &str, common: &[&'static [Spec]]) -> Result<(&'static str, Option<OsString>), String> {
        let Some(long) = text.strip_prefix("--") else { return self.find_short(text) };
        let (name, value) = match long.split_once('=') {
            Some((name, value)) => (name, Some(value.into())),
            None => (long, None),
        };
        let all = || self.own.iter().chain(common.iter().copied().flatten()).map(|(n, ..)| *n);
        if let Some(exact) = all().find(|n| *n == name) {
            return Ok((exact, value));
        }
        let mut begun: Vec<&'static str> = all().filter(|n| n.starts_with(name)).collect();
        if self.own.iter().filter(|(n, ..)| n.starts_with(name)).count() == 1 {
            begun.truncate(1);
        }
        match begun[..] {
            [only] => Ok((only, value)),
            [] => {
                let near = nearest(name, all());
                let hint = near.map_or_else(String::new, |n| format!("; did you mean --{n}?"));
                Err(format!("unknown option --{name}{hint}"))
            }
            _ => Err(format!("option --{name} may be --{}", begun.join(" or --"))),
        }
    }

    /// Mahimahi's short options are the first letters of its first two; their values may follow at once.
    fn find_short(&self, text: &str) -> Result<(&'static str, Option<OsString>), String> {
        let mut letters = text.chars().skip(1);
        let letter = letters.next();
        let short = self.own.iter().take(2).map(|(name, ..)| *name).chain(["help"]);
        let name = { short }.find(|name| name.chars().next() == letter);
        let rest: String = letters.collect();
        Ok((name.ok_or_else(|| format!("unknown option {text}"))?, (!rest.is_empty()).then(|| rest.into())))
    }

    /// Returns whether option `name` takes a value.
    pub fn takes_value(&self, name: &str) -> bool {
        self.specs().any(|(n, value, _)| *n == name && *value)
    }

    /// All options.
    pub fn specs(&self) -> impl Iterator<Item = &'static Spec> {
        self.own.iter().chain(self.common.iter().copied().flatten())
    }

    /// The line as it should be, of `program`.
    pub fn usage(&self, program: &str) -> String {
        format!("{program} {} [OPTION]... [--] [COMMAND...]", self.positions.join(" "))
    }

    /// The same with all options.
    pub fn help(&self, program: &str) -> String {
        let queues = queues::all().map(|discipline| discipline.name).collect::<Vec<_>>().join(", ");
        let mut text = format!("{}\n\n", self.usage(program));
        text += &format!("Runs COMMAND, or the user's shell, behind {}.\n\n", self.summary);
        for (name, value, about) in self.specs().filter(|(.., about)| !about.is_empty()) {
            let left = if *value { format!("--{name}=") } else { format!("--{name}") };
            text += &format!("  {left:24} {}\n", about.replace(QUEUES, &queues));
        }
        if self.specs().any(|(name, ..)| *name == "uplink-gilbert") {
            text += "\nOptions from --delay-trace to --corrupt hold for both directions, with --uplink-gilbert or\n\
                     --downlink-gilbert and so on for one.\n";
        }
        text
    }
}

impl Line {
    /// Returns whether option `name` is given.
    pub fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// The last value given, as getopt's users see it.
    pub fn get(&self, name: &str) -> Option<&OsStr> {
        self.options.iter().rev().find(|(n, _)| *n == name).map(|(_, value)| value.as_os_str())
    }

    /// The same as the name of a file; none if it is empty.
    pub fn path(&self, name: &str) -> Option<PathBuf> {
        self.get(name).filter(|v| !v.is_empty()).map(PathBuf::from)
    }

    /// The same as a number.
    ///
    /// # Errors
    /// If it is none.
    pub fn number<T: FromStr>(&self, name: &str, expected: &str) -> Result<Option<T>, String> {
        self.get(name).map(|v| number(v, &format!("--{name}"), expected)).transpose()
    }
}

/// `word`, which is the `name` of something, as a number.
///
/// # Errors
/// If it is none.
pub fn number<T: FromStr>(word: &OsStr, name: &str, expected: &str) -> Result<T, String> {
    let text = word.to_string_lossy();
    text.parse().map_err(|_| format!("{name} is {text:?}; expected {expected}"))
}
