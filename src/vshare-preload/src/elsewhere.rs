//! What the program holds outside the pool: counted, so that the figures add up, and left alone.

use crate::cuda::{CUcontext, CUdevice, CUdeviceptr, CUmemGenericAllocationHandle};
use crate::lock::Lock;
use crate::{driver, process, report};
use std::collections::BTreeMap;

/// Each physical allocation of `cuMemCreate`: its bytes, and the device it is on; `None`: on none.
static CREATED: Lock<BTreeMap<CUmemGenericAllocationHandle, Created>> = Lock::new(BTreeMap::new());

type Created = (u64, Option<CUdevice>);

/// The program has allocated managed memory: which the host can see, so that work on it counts as
/// work on host memory.
pub(crate) fn managed(address: CUdeviceptr, bytes: u64) {
    let context = driver::current_context();
    process::state().host.add_managed(address.0, bytes, context);
    report::add(report::MANAGED_BY_PROGRAM_BYTES, bytes);
}

/// The program frees an address, which may be its own managed memory.
pub(crate) fn freed(address: CUdeviceptr) {
    let bytes = process::state().host.remove(address.0);
    report::sub(report::MANAGED_BY_PROGRAM_BYTES, bytes);
}

/// A context has ended, and its managed memory with it.
pub(crate) fn context_gone(context: CUcontext) {
    let bytes = process::state().host.context_gone(context);
    report::sub(report::MANAGED_BY_PROGRAM_BYTES, bytes);
}

/// The program has made a physical allocation.
pub(crate) fn created(handle: CUmemGenericAllocationHandle, bytes: u64, device: Option<CUdevice>) {
    CREATED.lock().insert(handle, (bytes, device));
    report::add(report::VMM_BY_PROGRAM_BYTES, bytes);
}

/// The program gives one back.
pub(crate) fn released(handle: CUmemGenericAllocationHandle) {
    let created = CREATED.lock().remove(&handle);
    report::sub(report::VMM_BY_PROGRAM_BYTES, created.map_or(0, |c| c.0));
}

/// Bytes of physical allocations on a device now.
pub(crate) fn created_on(device: CUdevice) -> u64 {
    let created = CREATED.lock();
    let here = created.values().filter(|c| c.1 == Some(device));
    here.map(|c| c.0).sum()
}
