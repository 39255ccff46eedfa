//! The machine's own buffers, larger than before as long as a shell of its namespace needs that.
//!
//! Shells that overlap in time share a note in [`machine::FOLDER`]: the settings that they changed, with the values before
//! the first of them and the values now. Each holds the note by a shared lock, which the kernel lets go of even after
//! `kill -9`. The last shell that lets go of it puts the values back.

use std::fs::{self, File};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};

use crate::error::LinkError;
use crate::machine;
use crate::namespace::Namespace;

/// Settings of the kernel that bound the buffers of receivers and of senders.
pub const KEYS: [&str; 2] = ["net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"];

/// Returns the three values of setting `key` in the calling thread's namespace: least, first and most bytes.
pub fn values(key: &str) -> Option<[u64; 3]> {
    let text = fs::read_to_string(format!("/proc/sys/{}", key.replace('.', "/"))).ok()?;
    let values: Option<Vec<u64>> = text.split_whitespace().map(|word| word.parse().ok()).collect();
    values?.try_into().ok()
}

fn set(namespace: &Namespace, key: &str, values: [u64; 3]) -> Result<(), LinkError> {
    namespace.sysctl(key, &values.map(|v| v.to_string()).join(" "))
}

/// Lets buffers in `namespace`, which is ours, grow to `bytes` at least; where /proc/sys may not be written, they stay.
pub fn enlarge(namespace: &Namespace, bytes: u64) {
    for key in KEYS {
        let Ok(Some([least, first, most])) = namespace.run(|| values(key)) else { continue };
        if most < bytes {
            let _ = set(namespace, key, [least, first, bytes]);
        }
    }
}

/// Setting of the kernel that shells have changed: least, first and most bytes of a socket's buffer.
#[derive(Clone, Debug, PartialEq)]
struct Change {
    key: &'static str,
    before: [u64; 3],
    now: [u64; 3],
}

impl Change {
    /// Reads what [`write`](Self::write) wrote; none if it is damaged, or of a setting that is not ours.
    fn read(line: &str) -> Option<Self> {
        let mut words = line.split(' ');
        let word = words.next()?;
        let key = KEYS.into_iter().find(|&key| key == word)?;
        let numbers: Option<Vec<u64>> = words.map(|word| word.parse().ok()).collect();
        let &[a, b, c, d, e, f] = &numbers?[..] else { return None };
        Some(Self { key, before: [a, b, c], now: [d, e, f] })
    }

    fn write(&self) -> String {
        let numbers = self.before.iter().chain(&self.now).map(|number| format!(" {number}"));
        format!("{}{}\n", self.key, numbers.collect::<String>())
    }

    /// Returns whether the setting still has the value of shells, in the calling thread's namespace. Another one is somebody
    /// else's, and stays.
    fn is_in_force(&self) -> bool {
        values(self.key) == Some(self.now)
    }
}

/// The machine's own buffers, at least as large as this shell needs until this goes.
#[derive(Debug)]
pub struct Enlarged {
    namespace: Namespace,
    path: PathBuf,
    /// The note, held; none if the buffers were large enough before any shell.
    note: Option<File>,
    /// Changes of this shell, `before` as it found the setting.
    own: Vec<Change>,
}

impl Enlarged {
    /// Enlarges the buffers of `namespace` to `bytes` at least.
    ///
    /// # Errors
    /// If the note cannot be kept. Where /proc/sys may not be written, they stay.
    pub fn new(namespace: &Namespace, bytes: u64) -> Result<Self, LinkError> {
        let turn = machine::turn()?;
        let path = Path::new(machine::FOLDER).join(format!("buffers-{}", namespace.number()?));
        let enlarged = Self::in_turn(namespace, bytes, path);
        let _ = machine::remove_if_empty();
        drop(turn);
        enlarged
    }

    fn in_turn(namespace: &Namespace, bytes: u64, path: PathBuf) -> Result<Self, LinkError> {
        let failed = |action: &str| {
            let what = format!("cannot {action} {}", path.display());
            move |source| LinkError::of(what, source)
        };
        let known = match fs::read_to_string(&path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => String::new(),
            read => read.map_err(failed("read"))?,
        };
        let known: Vec<Change> = known.lines().filter_map(Change::read).collect();
        let (mut all, mut own) = (Vec::new(), Vec::new());
        for key in KEYS {
            let Some(found) = namespace.run(|| values(key))? else { continue };
            let before = known.iter().find(|change| change.key == key && change.now == found).map(|c| c.before);
            let now = [found[0], found[1], found[2].max(bytes)];
            if before.is_some() || now != found {
                all.push(Change { key, before: before.unwrap_or(found), now });
            }
            if now != found {
                own.push(Change { key, before: found, now });
            }
        }
        if all.is_empty() {
            return Ok(Self { namespace: namespace.try_clone()?, path, note: None, own });
        }
        let mut note =
            File::options().read(true).write(true).create(true).truncate(false).open(&path).map_err(failed("open"))?;
        // The note first: a value in it that was never set is not in force, and so changes nothing.
        let text: String = all.iter().map(Change::write).collect();
        let written = note.set_len(0).and_then(|()| note.write_all(text.as_bytes()));
        written.and_then(|()| machine::flock(&note, libc::LOCK_SH)).map_err(failed("write"))?;
        let mut enlarged = Self { namespace: namespace.try_clone()?, path, note: Some(note), own: Vec::new() };
        for change in own {
            if set(namespace, change.key, change.now).is_ok() {
                enlarged.own.push(change);
            }
        }
        Ok(enlarged)
    }

    /// Returns what to say of them; none if they were large enough.
    pub fn notice(&self) -> Option<String> {
        let figure = |change: &Change| {
            let [before, now] = [change.before, change.now].map(|values| values[2] as f64 / 1e6);
            format!("{} from {before:.1} to {now:.1} MB", change.key)
        };
        let figures: Vec<String> = self.own.iter().map(figure).collect();
        (!figures.is_empty()).then(|| format!("enlarged this machine's {} until the end", figures.join(" and ")))
    }

    /// Lets go of the note, and puts the values back if no other shell holds it.
    fn let_go(&mut self) -> Result<(), LinkError> {
        let Some(mut note) = self.note.take() else { return Ok(()) };
        let turn = machine::turn()?;
        if machine::flock(&note, libc::LOCK_EX | libc::LOCK_NB).is_err() {
            return Ok(());
        }
        let mut text = String::new();
        let read = note.rewind().and_then(|()| note.read_to_string(&mut text));
        read.map_err(|e| LinkError::of(format!("cannot read {}", self.path.display()), e))?;
        for change in text.lines().filter_map(Change::read) {
            if self.namespace.run(|| change.is_in_force())? {
                set(&self.namespace, change.key, change.before)?;
            }
        }
        let _ = fs::remove_file(&self.path);
        let _ = machine::remove_if_empty();
        drop(turn);
        Ok(())
    }
}

impl Drop for Enlarged {
    fn drop(&mut self) {
        let _ = self.let_go();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_says_what_changed() {
        let change = Change { key: KEYS[1], before: [4096, 16384, 4_194_304], now: [4096, 16384, 25_000_000] };
        let line = change.write();
        assert_eq!(line, "net.ipv4.tcp_wmem 4096 16384 4194304 4096 16384 25000000\n");
        assert_eq!(Change::read(line.trim_end()), Some(change));
        for damaged in ["", "net.ipv4.tcp_wmem", "net.ipv4.ip_forward 1 2 3 4 5 6", "net.ipv4.tcp_wmem 1 2 3 4 5 x"] {
            assert_eq!(Change::read(damaged), None);
        }
        assert_eq!(Change::read("net.ipv4.tcp_wmem 1 2 3 4 5 6 7"), None);
    }
}
