//! What the program holds outside the pool: counted, so that the figures add up, and left alone.

use crate::cuda::{CUdeviceptr, CUmemGenericAllocationHandle};
use crate::lock::Lock;
use crate::{process, report};
use std::collections::BTreeMap;

/// Bytes of each physical allocation of `cuMemCreate`.
static CREATED: Lock<BTreeMap<CUmemGenericAllocationHandle, u64>> = Lock::new(BTreeMap::new());

/// The program has allocated managed memory: which the host can see, so that work on it counts as
/// work on host memory.
pub(crate) fn managed(address: CUdeviceptr, bytes: u64) {
    process::state().host.add(address.0, bytes);
    report::add(report::MANAGED_BY_PROGRAM_BYTES, bytes);
}

/// The program frees an address, which may be its own managed memory.
pub(crate) fn freed(address: CUdeviceptr) {
    let bytes = process::state().host.remove(address.0);
    report::sub(report::MANAGED_BY_PROGRAM_BYTES, bytes.unwrap_or(0));
}

/// The program has made a physical allocation.
pub(crate) fn created(handle: CUmemGenericAllocationHandle, bytes: u64) {
    CREATED.lock().insert(handle, bytes);
    report::add(report::VMM_BY_PROGRAM_BYTES, bytes);
}

/// The program gives one back.
pub(crate) fn released(handle: CUmemGenericAllocationHandle) {
    let bytes = CREATED.lock().remove(&handle);
    report::sub(report::VMM_BY_PROGRAM_BYTES, bytes.unwrap_or(0));
}

/// Bytes of physical allocations now.
pub(crate) fn created_bytes() -> u64 {
    CREATED.lock().values().sum()
}
