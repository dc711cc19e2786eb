//! How programs find the driver's functions.
//!
//! The driver chooses, by name, version and flags, as it would without us; then its choice is
//! exchanged for our function of the same name, if we have one. So no list of versions is kept
//! here, and one of the driver's functions that we do not know is handed out as it is.
#![expect(unsafe_code, reason = "exchanges the pointer that the driver wrote")]

use crate::cuda::{CUresult, NullStream};
use crate::guard::Real;
use crate::redirect;
use crate::symbols::Entry;
use std::ffi::{CStr, c_char, c_int, c_void};

/// `CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM`
const PER_THREAD: u64 = 2;

pub(crate) fn get_proc_address(
    _entry: Entry,
    real: Real<'_>,
    symbol: *const c_char,
    pfn: *mut *mut c_void,
    _version: c_int,
    flags: u64,
) -> CUresult {
    exchange(real.call(), symbol, pfn, flags)
}

pub(crate) fn get_proc_address_v2(
    _entry: Entry,
    real: Real<'_>,
    symbol: *const c_char,
    pfn: *mut *mut c_void,
    _version: c_int,
    flags: u64,
    _status: *mut c_int,
) -> CUresult {
    exchange(real.call(), symbol, pfn, flags)
}

fn exchange(
    result: CUresult,
    symbol: *const c_char,
    pfn: *mut *mut c_void,
    flags: u64,
) -> CUresult {
    if result != CUresult::SUCCESS || symbol.is_null() || pfn.is_null() {
        return result;
    }
    // SAFETY: the driver has read this string and found a function.
    let symbol = unsafe { CStr::from_ptr(symbol) };
    // SAFETY: the driver has just written through `pfn`.
    let found = unsafe { pfn.read() };
    if found.is_null() {
        return result;
    }
    let null_stream = match flags & PER_THREAD {
        0 => NullStream::Legacy,
        _ => NullStream::PerThread,
    };
    // SAFETY: as above.
    unsafe { pfn.write(redirect::ours(found, symbol, null_stream)) };
    result
}
