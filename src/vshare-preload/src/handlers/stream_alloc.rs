//! Memory allocated and freed in the order of a stream.

use crate::cuda::{CUdeviceptr, CUmemoryPool, CUresult, CUstream};
use crate::guard::Real;
use crate::handlers::alloc::answer;
use crate::streams::Key;
use crate::symbols::Entry;
use crate::{captures, driver, memory, pools, process};

pub(crate) fn mem_alloc_async(
    entry: Entry,
    real: Real<'_>,
    dptr: *mut CUdeviceptr,
    bytes: usize,
    stream: CUstream,
) -> CUresult {
    if dptr.is_null() || bytes == 0 || captures::takes(stream) {
        return real.call();
    }
    match pools::current() {
        Some(pool) => serve(entry, real, dptr, bytes as u64, pool, stream),
        None => real.call(),
    }
}

pub(crate) fn mem_alloc_from_pool_async(
    entry: Entry,
    real: Real<'_>,
    dptr: *mut CUdeviceptr,
    bytes: usize,
    pool: CUmemoryPool,
    stream: CUstream,
) -> CUresult {
    if dptr.is_null() || bytes == 0 || captures::takes(stream) {
        return real.call();
    }
    let served = driver::current_device()
        .is_ok_and(|device| pools::is_served(pool, device) || pools::is_default(pool, device));
    if served {
        serve(entry, real, dptr, bytes as u64, pool, stream)
    } else {
        real.call()
    }
}

fn serve(
    entry: Entry,
    real: Real<'_>,
    dptr: *mut CUdeviceptr,
    bytes: u64,
    pool: CUmemoryPool,
    stream: CUstream,
) -> CUresult {
    process::used();
    let key = Key::of(entry.null_stream, stream);
    if !key.is_of_current_context() {
        // Whose device's memory it would be is the driver's to say.
        return real.call();
    }
    let served = memory::allocate(bytes, Some(key), pool.0 as u64);
    answer(dptr, served, real)
}

pub(crate) fn mem_free_async(
    entry: Entry,
    real: Real<'_>,
    dptr: CUdeviceptr,
    stream: CUstream,
) -> CUresult {
    if dptr.0 == 0 {
        return real.call();
    }
    if captures::takes(stream) {
        // A graph can free only what a graph has allocated; of our memory the driver knows nothing.
        return if memory::holds(dptr.0) {
            real.answered(CUresult::INVALID_VALUE)
        } else {
            real.call()
        };
    }
    match memory::free(dptr.0, Some(Key::of(entry.null_stream, stream))) {
        Some(result) => real.answered(result),
        None => real.call(),
    }
}
