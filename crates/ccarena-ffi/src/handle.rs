//! Handles of a host: pointers that are checked before anything behind them is touched.
//!
//! A handle begins with a mark that is made of its own address. A wrong pointer to readable memory, a copied handle and,
//! until its memory is given away again, a freed one have another mark. A flag finds two calls at once on one flow. A
//! pointer to memory that the host may not read, and a freed handle whose memory is a new handle's, cannot be found.
#![allow(unsafe_code, reason = "handles are pointers of the host")]

use std::cell::UnsafeCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::code::{CCARENA_BUSY, CCARENA_FAILED, CCARENA_HANDLE, CCARENA_NULL, CCARENA_OK};

/// Kind of thing behind a handle. A host may move a handle to another thread.
pub trait Kind: Send {
    /// Part of the mark, of which no two kinds have the same.
    const MARK: u64;
}

/// Something behind a handle.
#[repr(C)]
pub struct Handle<T> {
    mark: AtomicU64,
    busy: AtomicBool,
    value: UnsafeCell<T>,
}

impl<T: Kind> Handle<T> {
    fn mark_at(at: *const Self) -> u64 {
        T::MARK ^ (at as u64).rotate_left(17)
    }

    /// Returns a handle of `value`.
    pub fn new(value: T) -> *mut Self {
        let at = Box::into_raw(Box::new(Self {
            mark: AtomicU64::new(0),
            busy: AtomicBool::new(false),
            value: UnsafeCell::new(value),
        }));
        // SAFETY: it was made a line above, and nobody else has it.
        unsafe { &*at }.mark.store(Self::mark_at(at), Ordering::Relaxed);
        at
    }

    /// Returns the handle at `at`, or the code of what is wrong with it.
    ///
    /// # Safety
    /// `at` is null, or 8 bytes that may be read.
    #[inline(always)]
    unsafe fn find<'a>(at: *const Self) -> Result<&'a Self, i32> {
        if at.is_null() {
            return Err(CCARENA_NULL);
        }
        if !at.is_aligned() {
            return Err(CCARENA_HANDLE);
        }
        // SAFETY: the caller promises that the mark, which is first, may be read; nothing else is until it is right.
        let mark = unsafe { &*at.cast::<AtomicU64>() };
        if mark.load(Ordering::Relaxed) != Self::mark_at(at) {
            return Err(CCARENA_HANDLE);
        }
        // SAFETY: only `new` writes this mark, at this address, before all of a handle.
        Ok(unsafe { &*at })
    }

    /// Runs `call` with what is behind `at`, alone. After a panic, `panicked` runs, and the code says so.
    ///
    /// # Safety
    /// As [`find`](Self::find); and nobody frees it meanwhile.
    #[inline(always)]
    pub unsafe fn with(at: *const Self, call: impl FnOnce(&mut T) -> i32, panicked: impl FnOnce(&mut T)) -> i32 {
        // SAFETY: the caller's promise.
        let handle = match unsafe { Self::find(at) } {
            Ok(handle) => handle,
            Err(code) => return code,
        };
        if handle.busy.swap(true, Ordering::Acquire) {
            return CCARENA_BUSY;
        }
        // SAFETY: the flag, which was not set, keeps every other call out.
        let value = unsafe { &mut *handle.value.get() };
        let code = match catch_unwind(AssertUnwindSafe(|| call(value))) {
            Ok(code) => code,
            Err(payload) => {
                // What a payload does when it is dropped is unknown.
                std::mem::forget(payload);
                panicked(value);
                CCARENA_FAILED
            }
        };
        handle.busy.store(false, Ordering::Release);
        code
    }

    /// Returns what is behind `at`, for kinds that no call changes.
    ///
    /// # Safety
    /// As [`with`](Self::with), for as long as the result is used.
    pub unsafe fn share<'a>(at: *const Self) -> Result<&'a T, i32>
    where
        T: Sync,
    {
        // SAFETY: the caller's promise.
        let handle = unsafe { Self::find(at) }?;
        // SAFETY: no call changes it.
        Ok(unsafe { &*handle.value.get() })
    }

    /// Frees what is behind `at`.
    ///
    /// # Safety
    /// As [`with`](Self::with).
    pub unsafe fn free(at: *mut Self) -> i32 {
        // SAFETY: the caller's promise.
        let handle = match unsafe { Self::find(at) } {
            Ok(handle) => handle,
            Err(code) => return code,
        };
        if handle.busy.swap(true, Ordering::Acquire) {
            return CCARENA_BUSY;
        }
        handle.mark.store(0, Ordering::Relaxed);
        // SAFETY: `new` made it of a box, and its mark, which is gone now, keeps it from being freed again.
        let freed = catch_unwind(AssertUnwindSafe(|| drop(unsafe { Box::from_raw(at) })));
        freed.map_or_else(
            |payload| {
                std::mem::forget(payload);
                CCARENA_FAILED
            },
            |()| CCARENA_OK,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Thing {
        ended: bool,
    }

    impl Kind for Thing {
        const MARK: u64 = 7;
    }

    #[test]
    fn a_call_within_a_call_is_refused() {
        let at = Handle::new(Thing { ended: false });
        // SAFETY: the handle is live until it is freed below.
        let within = || unsafe { Handle::with(at, |_| CCARENA_OK, |_| {}) };
        let call = |_: &mut Thing| {
            assert_eq!(within(), CCARENA_BUSY);
            // SAFETY: as above; the call is refused.
            assert_eq!(unsafe { Handle::free(at) }, CCARENA_BUSY);
            CCARENA_OK
        };
        // SAFETY: as above.
        assert_eq!(unsafe { Handle::with(at, call, |_| {}) }, CCARENA_OK);
        assert_eq!(within(), CCARENA_OK, "the flag is taken back");
        // SAFETY: nobody uses it any more.
        assert_eq!(unsafe { Handle::free(at) }, CCARENA_OK);
    }

    #[test]
    fn a_panic_becomes_a_code_and_ends_what_is_behind_the_handle() {
        let at = Handle::new(Thing { ended: false });
        // SAFETY: the handle is live until it is freed below.
        let code = unsafe { Handle::with(at, |_| panic!("a controller's fault"), |thing| thing.ended = true) };
        assert_eq!(code, CCARENA_FAILED);
        // SAFETY: as above.
        assert_eq!(unsafe { Handle::with(at, |thing| i32::from(thing.ended), |_| {}) }, 1);
        // SAFETY: nobody uses it any more.
        assert_eq!(unsafe { Handle::free(at) }, CCARENA_OK);
    }
}
