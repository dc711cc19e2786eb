//! Streams, prefetches of the program's own, and streams that wait for memory.

use crate::cuda::{CUdevice, CUdeviceptr, CUmemLocation, CUresult, CUstream};
use crate::guard::Real;
use crate::streams::{self, Key};
use crate::symbols::Entry;
use crate::touches::Touches;
use crate::work::{self, submit, submit_copy};
use crate::{arenas, captures, process};
use std::ffi::c_void;

pub(crate) fn stream_destroy(entry: Entry, real: Real<'_>, stream: CUstream) -> CUresult {
    let key = Key::of(entry.null_stream, stream);
    if arenas::any() {
        streams::destroying(key);
    }
    let result = real.call();
    if captures::any() && result == CUresult::SUCCESS {
        captures::ended(key);
    }
    result
}

pub(crate) fn stream_synchronize(entry: Entry, real: Real<'_>, stream: CUstream) -> CUresult {
    work::synchronize_stream(entry, stream, real)
}

pub(crate) fn mem_prefetch_async_v1(
    _entry: Entry,
    real: Real<'_>,
    dptr: CUdeviceptr,
    _bytes: usize,
    _device: CUdevice,
    _stream: CUstream,
) -> CUresult {
    if is_ours(dptr) {
        return real.answered(CUresult::SUCCESS);
    }
    real.call()
}

pub(crate) fn mem_prefetch_async(
    _entry: Entry,
    real: Real<'_>,
    dptr: CUdeviceptr,
    _bytes: usize,
    _location: CUmemLocation,
    _flags: u32,
    _stream: CUstream,
) -> CUresult {
    if is_ours(dptr) {
        return real.answered(CUresult::SUCCESS);
    }
    real.call()
}

/// A stream waits for a word in memory, or writes one.
pub(crate) fn stream_value<Word>(
    entry: Entry,
    real: Real<'_>,
    stream: CUstream,
    dptr: CUdeviceptr,
    _value: Word,
    _flags: u32,
) -> CUresult {
    submit_copy(entry, stream, &[dptr.0], &[], real)
}

pub(crate) fn stream_batch_mem_op(
    entry: Entry,
    real: Real<'_>,
    stream: CUstream,
    _count: u32,
    _operations: *mut c_void,
    _flags: u32,
) -> CUresult {
    submit(entry, stream, Touches::Unknown, real)
}

/// Memory of the pool is moved by us alone. A program that takes it for managed memory of its own,
/// and prefetches, is told that this is done.
fn is_ours(dptr: CUdeviceptr) -> bool {
    arenas::may_hold(dptr.0) && process::state().arenas.at(dptr.0).is_some()
}
