//! Files of strangers, read within bounds: a device or a pipe may never end, and a file of a few bytes on disk may be
//! terabytes long.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;
use std::sync::Arc;

/// The longest policy artifact: 64 MB, some hundred times the largest that is shipped.
pub const LARGEST_POLICY_BYTES: u64 = 64_000_000;
/// The longest trace: 256 MB, about 36 million delivery opportunities.
pub const LARGEST_TRACE_BYTES: u64 = 256_000_000;

/// The longest scenario or document of a learned scheme: 16 MB.
pub const LARGEST_DOCUMENT_BYTES: u64 = 16_000_000;

/// The longest WebAssembly module: 1 MiB, some hundred times a controller's.
pub const LARGEST_MODULE_BYTES: u64 = 1 << 20;

/// The most memory that a module gets for a flow: 16 MiB.
pub const MODULE_MEMORY_BYTES: usize = 16 << 20;

/// Place that files are read from: this machine's disk, or contents by name, as in a web page.
#[derive(Clone, Debug, Default)]
pub struct Store(Option<Arc<BTreeMap<String, Vec<u8>>>>);

impl Store {
    /// Returns a place that has these files and no others.
    #[must_use]
    pub fn of(contents: BTreeMap<String, Vec<u8>>) -> Self {
        Self(Some(Arc::new(contents)))
    }

    /// Returns whether it is this machine's disk.
    #[must_use]
    pub const fn is_disk(&self) -> bool {
        self.0.is_none()
    }

    /// Reads a file of at most `most` bytes.
    ///
    /// # Errors
    /// If it is not there, cannot be read, is no regular file, or is longer.
    pub fn read(&self, path: &Path, most: u64) -> io::Result<Vec<u8>> {
        let Some(contents) = &self.0 else { return read(path, most) };
        let Some(bytes) = path.to_str().and_then(|name| contents.get(name)) else {
            let names: Vec<&str> = contents.keys().map(String::as_str).collect();
            let given = if names.is_empty() { "none was".into() } else { format!("there are {}", names.join(", ")) };
            return Err(io::Error::new(io::ErrorKind::NotFound, format!("no file of this name was given; {given}")));
        };
        if bytes.len() as u64 > most {
            let why = format!("it has {} bytes; expected at most {most}", bytes.len());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        Ok(bytes.clone())
    }

    /// Reads a document's text.
    ///
    /// # Errors
    /// As [`read`](Self::read), or if it is not UTF-8.
    pub fn read_text(&self, path: &Path) -> io::Result<String> {
        text(self.read(path, LARGEST_DOCUMENT_BYTES)?)
    }
}

/// Reads a document's text.
///
/// # Errors
/// As [`read`], or if it is not UTF-8.
pub fn read_text(path: &Path) -> io::Result<String> {
    text(read(path, LARGEST_DOCUMENT_BYTES)?)
}

fn text(bytes: Vec<u8>) -> io::Result<String> {
    String::from_utf8(bytes).map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e.utf8_error()))
}

/// Reads a regular file of at most `most` bytes.
///
/// # Errors
/// If it cannot be read, is no regular file, or is longer.
pub fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let refuse = |why: String| Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    // Before it is opened: opening a named pipe waits for a writer.
    let about = std::fs::metadata(path)?;
    if !about.is_file() {
        let kind = if about.is_dir() { "a folder" } else { "a device or a pipe" };
        return refuse(format!("it is {kind}; expected a regular file"));
    }
    if about.len() > most {
        return refuse(format!("it has {} bytes; expected at most {most}", about.len()));
    }
    let mut bytes = Vec::with_capacity(about.len() as usize);
    // Files of /proc say that they are empty, and others may grow meanwhile.
    File::open(path)?.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return refuse(format!("it has more than {most} bytes, the most that is read"));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_folders_and_long_files_are_refused_before_they_are_read() {
        let folder = std::env::temp_dir();
        let said = |path: &Path, most| read(path, most).unwrap_err().to_string();
        assert!(said(Path::new("/dev/zero"), 10).contains("a device or a pipe"));
        assert!(said(&folder, 10).contains("a folder"));
        let file = folder.join(format!("ccarena-bounded-{}", std::process::id()));
        File::create(&file).unwrap().set_len(1 << 40).unwrap();
        let sparse = said(&file, LARGEST_TRACE_BYTES);
        std::fs::write(&file, b"1234").unwrap();
        let (short, whole) = (said(&file, 3), read(&file, 4));
        std::fs::remove_file(&file).unwrap();
        assert_eq!(sparse, "it has 1099511627776 bytes; expected at most 256000000");
        assert_eq!(short, "it has 4 bytes; expected at most 3");
        assert_eq!(whole.unwrap(), b"1234");
        if Path::new("/proc/self/status").exists() {
            assert!(said(Path::new("/proc/self/status"), 10).starts_with("it has more than"));
        }
    }
    #[test]
    fn contents_by_name_are_read_within_the_same_bounds() {
        let store = Store::of(BTreeMap::from([("a.json".into(), b"{}".to_vec()), ("b".into(), vec![0xff; 9])]));
        assert_eq!(store.read(Path::new("a.json"), 2).unwrap(), b"{}");
        assert_eq!(store.read_text(Path::new("a.json")).unwrap(), "{}");
        let refused = |name: &str, most| store.read(Path::new(name), most).unwrap_err().to_string();
        assert_eq!(refused("a.json", 1), "it has 2 bytes; expected at most 1");
        assert_eq!(refused("c", 9), "no file of this name was given; there are a.json, b");
        assert!(store.read_text(Path::new("b")).is_err(), "not UTF-8");
        assert!(Store::default().read(Path::new("/nowhere/at/all"), 9).is_err(), "the disk");
    }
}
