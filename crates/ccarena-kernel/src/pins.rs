//! BPF file systems of our own, in which programs and maps outlive the process that loaded them.

use std::ffi::CString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use ccarena_link::machine;

use crate::error::KernelError;

/// Returns whether a file system of ours is mounted at `pins`.
pub(crate) fn is_mounted(pins: &Path) -> Result<bool, KernelError> {
    let table = Path::new("/proc/self/mounts");
    let mounts = fs::read_to_string(table).map_err(file("read", table))?;
    Ok(mounts.lines().any(|line| {
        let mut fields = line.split(' ').skip(1);
        fields.next().map(Path::new) == Some(pins) && fields.next() == Some("bpf")
    }))
}

pub(crate) fn mount(pins: &Path) -> Result<(), KernelError> {
    fs::create_dir_all(pins).map_err(file("create", pins))?;
    let target = c_path(pins)?;
    #[allow(unsafe_code, reason = "mount")]
    // SAFETY: terminated strings that outlive the call; the BPF file system takes no data.
    let failed =
        unsafe { libc::mount(c"ccarena".as_ptr(), target.as_ptr(), c"bpf".as_ptr(), 0, c"mode=0700".as_ptr().cast()) }
            != 0;
    if failed { Err(file("mount a BPF file system at", pins)(std::io::Error::last_os_error())) } else { Ok(()) }
}

/// Takes the file system at `pins` away, with its folder.
pub(crate) fn unmount(pins: &Path) -> Result<(), KernelError> {
    let target = c_path(pins)?;
    #[allow(unsafe_code, reason = "umount2")]
    // SAFETY: a terminated string that outlives the call.
    let failed = unsafe { libc::umount2(target.as_ptr(), libc::MNT_DETACH) } != 0;
    if failed {
        return Err(file("unmount", pins)(std::io::Error::last_os_error()));
    }
    remove_folders(pins)
}

pub(crate) fn remove_folders(pins: &Path) -> Result<(), KernelError> {
    match fs::remove_dir(pins) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(file("remove", pins)(e)),
        _ => {}
    }
    machine::remove_if_empty().map_err(file("remove", Path::new(machine::FOLDER)))
}

fn c_path(path: &Path) -> Result<CString, KernelError> {
    CString::new(path.as_os_str().as_bytes()).map_err(|e| file("name", path)(e.into()))
}

pub(crate) fn file(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> KernelError + use<> {
    let path = path.to_path_buf();
    move |source| KernelError::File { action, path, source }
}
