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
    pub(super) const DEVICE_POINTER: u32 = 3;
    pub(super) const HOST_POINTER: u32 = 4;
    pub(super) const P2P_TOKENS: u32 = 5;
    pub(super) const BUFFER_ID: u32 = 7;
    pub(super) const IS_MANAGED: u32 = 8;
    pub(super) const DEVICE_ORDINAL: u32 = 9;
    pub(super) const RANGE_START_ADDR: u32 = 11;
    pub(super) const RANGE_SIZE: u32 = 12;
    pub(super) const ALLOWED_HANDLE_TYPES: u32 = 14;
    pub(super) const MEMPOOL_HANDLE: u32 = 17;
    pub(super) const MAPPING_SIZE: u32 = 18;
    pub(super) const MAPPING_BASE_ADDR: u32 = 19;
    pub(super) const MEMORY_BLOCK_ID: u32 = 20;
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
    if result != CUresult::SUCCESS {
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
    if result != CUresult::SUCCESS || bytes.is_null() {
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
    let named = memory::named(dptr.0);
    if let Named::Unused = named {
        return real.answered(of_nothing(count, attributes, data, dptr));
    }
    let result = real.call();
    let Named::Ours(info) = named else {
        return result;
    };
    if result == CUresult::SUCCESS {
        for (attribute, to) in asked(count, attributes, data) {
            if attribute == attribute::HOST_POINTER {
                write(to.cast::<u64>(), 0);
            } else {
                correct(to, attribute, info);
            }
        }
    }
    result
}

/// The attributes that a program asks for, and where it wants each.
fn asked(
    count: u32,
    attributes: *const CUpointer_attribute,
    data: *const *mut c_void,
) -> Vec<(CUpointer_attribute, *mut c_void)> {
    if attributes.is_null() || data.is_null() {
        return Vec::new();
    }
    // SAFETY: the program passes `count` attributes here,
    let attributes = unsafe { std::slice::from_raw_parts(attributes, count as usize) };
    // SAFETY: and as many pointers to results here.
    let data = unsafe { std::slice::from_raw_parts(data, count as usize) };
    let pairs = attributes.iter().copied().zip(data.iter().copied());
    pairs.filter(|(_, to)| !to.is_null()).collect()
}

/// What the driver says of an address at which nothing is: success, and zeros, with the address
/// itself as the host's, and a device that does not exist.
fn of_nothing(
    count: u32,
    attributes: *const CUpointer_attribute,
    data: *const *mut c_void,
    dptr: CUdeviceptr,
) -> CUresult {
    const NO_DEVICE: i32 = -2;
    let asked = asked(count, attributes, data);
    if asked.is_empty() || asked.iter().any(|a| a.0 == attribute::P2P_TOKENS) {
        return CUresult::INVALID_VALUE;
    }
    for (attribute, to) in asked {
        match attribute {
            attribute::HOST_POINTER => write(to.cast(), dptr),
            attribute::DEVICE_ORDINAL => write(to.cast(), NO_DEVICE),
            attribute::RANGE_START_ADDR | attribute::RANGE_SIZE => {}
            attribute::CONTEXT
            | attribute::DEVICE_POINTER
            | attribute::BUFFER_ID
            | attribute::ALLOWED_HANDLE_TYPES
            | attribute::MEMPOOL_HANDLE
            | attribute::MAPPING_SIZE
            | attribute::MAPPING_BASE_ADDR
            | attribute::MEMORY_BLOCK_ID => write(to.cast(), 0_u64),
            _ => write(to.cast(), 0_u32),
        }
    }
    CUresult::SUCCESS
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
        attribute::MAPPING_SIZE => write(data.cast(), info.bytes),
        attribute::MAPPING_BASE_ADDR => write(data.cast(), info.address),
        attribute::MEMORY_BLOCK_ID => write(data.cast(), info.serial),
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
