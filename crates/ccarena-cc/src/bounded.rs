//! Files of strangers, read within bounds: a device or a pipe may never end, and a file of a few bytes on disk may be
//! terabytes long.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

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

/// Reads a document's text.
///
/// # Errors
/// As [`read`], or if it is not UTF-8.
pub fn read_text(path: &Path) -> io::Result<String> {
    let not_text = |e: std::string::FromUtf8Error| io::Error::new(io::ErrorKind::InvalidData, e.utf8_error());
    String::from_utf8(read(path, LARGEST_DOCUMENT_BYTES)?).map_err(not_text)
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
}
