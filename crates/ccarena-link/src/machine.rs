//! Changes to this machine that outlast the process that makes them, or that several processes share: one process at a time
//! makes them, and notes them in a folder for the others.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::error::LinkError;

/// Folder of the notes, and the lock of processes that change something. It goes when nothing is left in it.
pub const FOLDER: &str = "/run/ccarena";

/// Waits for this process's turn to change something, which lasts as long as the descriptor.
///
/// # Errors
/// If the folder cannot be created or locked.
pub fn turn() -> Result<File, LinkError> {
    let identity = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
    let failed = |action: &str| {
        let what = format!("cannot {action} {FOLDER}");
        move |source| LinkError::of(what, source)
    };
    loop {
        fs::create_dir_all(FOLDER).map_err(failed("create"))?;
        let turn = match File::open(FOLDER) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
            opened => opened.map_err(failed("open"))?,
        };
        flock(&turn, libc::LOCK_EX).map_err(failed("lock"))?;
        // Whoever had the turn before may have removed the folder: then others wait for another one.
        let ours = turn.metadata().map(identity).map_err(failed("look at"))?;
        if fs::metadata(FOLDER).is_ok_and(|metadata| identity(metadata) == ours) {
            return Ok(turn);
        }
    }
}

/// Removes the folder if nothing is left in it; the caller has the turn.
///
/// # Errors
/// If it is empty and stays.
pub fn remove_if_empty() -> io::Result<()> {
    match fs::remove_dir(Path::new(FOLDER)) {
        Err(e) if !matches!(e.kind(), io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::NotFound) => Err(e),
        _ => Ok(()),
    }
}

/// Locks or unlocks an open file, by an operation of flock(2). The kernel lets go of the lock when the last descriptor of
/// this opening closes, as when its process is killed.
///
/// # Errors
/// As flock(2): `WouldBlock` if another process holds the lock and the operation is not to wait.
pub fn flock(file: &File, operation: i32) -> io::Result<()> {
    #[allow(
        unsafe_code,
        reason = "the standard library's locks came with a later Rust than the oldest that builds this"
    )]
    // SAFETY: an open descriptor and a number.
    let done = unsafe { libc::flock(file.as_raw_fd(), operation) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
