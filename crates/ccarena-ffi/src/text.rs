//! Text that a host gives or gets.

use std::ffi::{CStr, c_char};
use std::fmt::Display;

use crate::code::{CCARENA_NULL, CCARENA_RANGE};

/// Writes `reason` into the `size` bytes at `to`, cut off if it is longer, and ends it with a zero. A null `to` takes nothing.
///
/// # Safety
/// `to` is null, or may be written for `size` bytes.
#[allow(unsafe_code, reason = "writes through a pointer of the host")]
pub unsafe fn write(reason: &dyn Display, to: *mut c_char, size: usize) {
    if to.is_null() || size == 0 {
        return;
    }
    let text = reason.to_string();
    // A text of the host's is UTF-8 to its end.
    let mut length = text.len().min(size - 1);
    while !text.is_char_boundary(length) {
        length -= 1;
    }
    // SAFETY: the caller promises `size` bytes, and `length + 1` is at most `size`.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr(), to.cast(), length);
        to.add(length).write(0);
    }
}

/// Returns the text at `from`, or the code of a null pointer or of a text that is not UTF-8.
///
/// # Safety
/// `from` is null, or a string that ends with a zero and lives as long as the call.
#[allow(unsafe_code, reason = "reads through a pointer of the host")]
pub unsafe fn read<'a>(from: *const c_char) -> Result<&'a str, i32> {
    if from.is_null() {
        return Err(CCARENA_NULL);
    }
    // SAFETY: the caller promises a string.
    unsafe { CStr::from_ptr(from) }.to_str().map_err(|_| CCARENA_RANGE)
}
