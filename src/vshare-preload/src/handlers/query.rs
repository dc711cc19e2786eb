//! What a program can learn about memory: of the pool's memory, what it would learn of the driver's.
#![expect(unsafe_code, reason = "corrects what the driver has written")]

use crate::cuda::{CUdevice, CUdeviceptr, CUpointer_attribute, CUresult};
use crate::guard::Real;
use crate::memory::{self, Named};
use crate::process;
use crate::symbols::Entry;
use std::ffi::c_void;

/// `CU_POINTER_ATTRIBUTE_…`, of those whose answer for managed memory differs.
mod attribute {
    pub(super) const CONTEXT: u32 = 1;
    pub(super) const MEMORY_TYPE: u32 = 2;
    pub(super) const HOST_POINTER: u32 = 4;
    pub(super) const BUFFER_ID: u32 = 7;
    pub(super) const IS_MANAGED: u32 = 8;
    pub(super) const DEVICE_ORDINAL: u32 = 9;
    pub(super) const RANGE_START_ADDR: u32 = 11;
    pub(super) const RANGE_SIZE: u32 = 12;
    pub(super) const MEMPOOL_HANDLE: u32 = 17;
}

/// `CU_MEMORYTYPE_DEVICE`.
const MEMORY_TYPE_DEVICE: u32 = 2;

pub(crate) fn mem_get_info_v1(
    _entry: Entry,
    real: Real<'_>,
    _free: *mut u32,
    _total: *mut u32,
) -> CUresult {
    real.call()
}

pub(crate) fn device_total_mem_v1(
    _entry: Entry,
    real: Real<'_>,
    _bytes: *mut u32,
    _device: CUdevice,
) -> CUresult {
    real.call()
}

pub(crate) fn mem_get_address_range_v1(
    _entry: Entry,
    real: Real<'_>,
    _base: *mut u32,
    _size: *mut u32,
    _dptr: u32,
) -> CUresult {
    real.call()
}

/// The driver is asked first: it knows whether there is a context, and what a null pointer means.
pub(crate) fn mem_get_info(
    _entry: Entry,
    real: Real<'_>,
    free: *mut usize,
    total: *mut usize,
) -> CUresult {
    let result = real.call();
    if result != CUresult::SUCCESS || !process::is_on() {
        return result;
    }
    process::used();
    if let Some((free_now, total_now)) = memory::info() {
        write(free, usize::try_from(free_now).unwrap_or(usize::MAX));
        write(total, usize::try_from(total_now).unwrap_or(usize::MAX));
    }
    result
}

pub(crate) fn device_total_mem(
    _entry: Entry,
    real: Real<'_>,
    bytes: *mut usize,
    _device: CUdevice,
) -> CUresult {
    let result = real.call();
    if result != CUresult::SUCCESS || !process::is_on() || bytes.is_null() {
        return result;
    }
    if let Some(limit) = process::config().limit {
        // SAFETY: the driver has just written through `bytes`.
        let physical = unsafe { bytes.read() };
        let limit = usize::try_from(limit.of(physical as u64)).unwrap_or(usize::MAX);
        write(bytes, physical.min(limit));
    }
    result
}

pub(crate) fn mem_get_address_range(
    _entry: Entry,
    real: Real<'_>,
    base: *mut CUdeviceptr,
    size: *mut usize,
    dptr: CUdeviceptr,
) -> CUresult {
    match memory::named(dptr.0) {
        Named::Ours(info) => {
            write(base, CUdeviceptr(info.address));
            write(size, usize::try_from(info.bytes).unwrap_or(usize::MAX));
            real.answered(CUresult::SUCCESS)
        }
        Named::Unused => real.answered(CUresult::NOT_FOUND),
        Named::Foreign => real.call(),
    }
}

/// A null pointer is not written: the driver takes it as "not asked for".
fn write<T>(to: *mut T, value: T) {
    if !to.is_null() {
        // SAFETY: the program's own result, of the type that the call documents.
        unsafe { to.write(value) };
    }
}

pub(crate) fn pointer_get_attribute(
    _entry: Entry,
    real: Real<'_>,
    data: *mut c_void,
    attribute: CUpointer_attribute,
    dptr: CUdeviceptr,
) -> CUresult {
    let info = match memory::named(dptr.0) {
        Named::Ours(info) if !data.is_null() => info,
        Named::Unused => return real.answered(CUresult::INVALID_VALUE),
        _ => return real.call(),
    };
    if attribute == attribute::HOST_POINTER {
        // Device memory has none, and asking for it is an error.
        return real.answered(CUresult::INVALID_VALUE);
    }
    if correct(data, attribute, info) {
        return real.answered(CUresult::SUCCESS);
    }
    real.call()
}

pub(crate) fn pointer_get_attributes(
    _entry: Entry,
    real: Real<'_>,
    count: u32,
    attributes: *mut CUpointer_attribute,
    data: *mut *mut c_void,
    dptr: CUdeviceptr,
) -> CUresult {
    let result = real.call();
    let Named::Ours(info) = memory::named(dptr.0) else {
        return result;
    };
    if result != CUresult::SUCCESS || attributes.is_null() || data.is_null() {
        return result;
    }
    for index in 0..count as usize {
        // SAFETY: the driver has read `count` attributes here.
        let at = unsafe { attributes.add(index) };
        // SAFETY: as above.
        let attribute = unsafe { at.read() };
        // SAFETY: and as many pointers to results here.
        let at = unsafe { data.add(index) };
        // SAFETY: as above.
        let result = unsafe { at.read() };
        if result.is_null() {
            continue;
        }
        if attribute == attribute::HOST_POINTER {
            write(result.cast::<u64>(), 0);
        } else {
            correct(result, attribute, info);
        }
    }
    result
}

/// Writes what the attribute would be of device memory of the program's own. `false`: the driver's
/// answer for managed memory is as good.
fn correct(data: *mut c_void, attribute: CUpointer_attribute, info: memory::Info) -> bool {
    match attribute {
        attribute::CONTEXT => write(data.cast(), info.context),
        attribute::MEMORY_TYPE => write(data.cast(), MEMORY_TYPE_DEVICE),
        attribute::BUFFER_ID => write(data.cast(), info.serial),
        attribute::IS_MANAGED => write(data.cast(), 0_u32),
        attribute::DEVICE_ORDINAL => write(data.cast(), info.device.0),
        attribute::RANGE_START_ADDR => write(data.cast(), info.address),
        attribute::RANGE_SIZE => write(data.cast(), info.bytes),
        attribute::MEMPOOL_HANDLE => write(data.cast(), info.pool),
        _ => return false,
    }
    true
}

/// A block of the pool can be opened by no other process: managed memory cannot be exported, and of
/// an extent of device memory the driver would export the whole.
pub(crate) fn ipc_get_mem_handle(
    _entry: Entry,
    real: Real<'_>,
    _handle: *mut c_void,
    dptr: CUdeviceptr,
) -> CUresult {
    match memory::named(dptr.0) {
        Named::Foreign => real.call(),
        Named::Ours(_) | Named::Unused => real.answered(CUresult::INVALID_VALUE),
    }
}
