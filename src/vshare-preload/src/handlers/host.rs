//! Host memory that the device can reach.
#![expect(unsafe_code, reason = "reads what the driver has written")]

use crate::cuda::CUresult;
use crate::guard::Real;
use crate::process;
use crate::symbols::Entry;
use std::ffi::c_void;

pub(crate) fn mem_host_alloc(
    _entry: Entry,
    real: Real<'_>,
    pointer: *mut *mut c_void,
    bytes: usize,
    _flags: u32,
) -> CUresult {
    let result = real.call();
    if result == CUresult::SUCCESS {
        add(pointer, bytes);
    }
    result
}

pub(crate) fn mem_alloc_host(
    _entry: Entry,
    real: Real<'_>,
    pointer: *mut *mut c_void,
    bytes: usize,
) -> CUresult {
    let result = real.call();
    if result == CUresult::SUCCESS {
        add(pointer, bytes);
    }
    result
}

pub(crate) fn mem_free_host(_entry: Entry, real: Real<'_>, pointer: *mut c_void) -> CUresult {
    remove(pointer);
    real.call()
}

pub(crate) fn mem_host_register(
    _entry: Entry,
    real: Real<'_>,
    pointer: *mut c_void,
    bytes: usize,
    _flags: u32,
) -> CUresult {
    let result = real.call();
    if result == CUresult::SUCCESS {
        process::state()
            .host
            .add(pointer.addr() as u64, bytes as u64);
    }
    result
}

pub(crate) fn mem_host_unregister(_entry: Entry, real: Real<'_>, pointer: *mut c_void) -> CUresult {
    remove(pointer);
    real.call()
}

fn add(pointer: *mut *mut c_void, bytes: usize) {
    // SAFETY: the driver has just written through `pointer`.
    let base = unsafe { pointer.read() };
    process::state().host.add(base.addr() as u64, bytes as u64);
}

/// Before the driver is called: afterwards the address may be another's.
fn remove(pointer: *mut c_void) {
    process::state().host.remove(pointer.addr() as u64);
}
