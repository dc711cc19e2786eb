//! Pools for stream-ordered memory.
#![expect(unsafe_code, reason = "reads and corrects what the driver has written")]

use crate::cuda::{
    CUdevice, CUdeviceptr, CUmemAllocationHandleType, CUmemPool_attribute, CUmemPoolProps,
    CUmemoryPool, CUresult,
};
use crate::guard::Real;
use crate::pools;
use crate::symbols::Entry;
use std::ffi::c_void;

/// `CU_MEM_ALLOCATION_TYPE_PINNED`.
const PINNED: u32 = 1;
/// `CU_MEM_LOCATION_TYPE_DEVICE`.
const DEVICE: u32 = 1;

pub(crate) fn mem_pool_create(
    _entry: Entry,
    real: Real<'_>,
    pool: *mut CUmemoryPool,
    props: *const CUmemPoolProps,
) -> CUresult {
    let result = real.call();
    if result != CUresult::SUCCESS || pool.is_null() {
        return result;
    }
    // SAFETY: the driver has read the properties, and found them good.
    let plain = unsafe { props.as_ref() }.filter(|p| {
        // `maxSize` is the first of the words that older headers call reserved.
        let unlimited = p.reserved.first_chunk::<8>() == Some(&[0; 8]);
        p.allocType == PINNED && p.handleTypes == 0 && p.location.type_ == DEVICE && unlimited
    });
    if let Some(plain) = plain {
        // SAFETY: the driver has just written through `pool`.
        pools::serve(unsafe { pool.read() }, CUdevice(plain.location.id));
    }
    result
}

pub(crate) fn mem_pool_destroy(_entry: Entry, real: Real<'_>, pool: CUmemoryPool) -> CUresult {
    pools::leave(pool);
    real.call()
}

pub(crate) fn mem_pool_set_attribute(
    _entry: Entry,
    real: Real<'_>,
    pool: CUmemoryPool,
    attribute: CUmemPool_attribute,
    _value: *mut c_void,
) -> CUresult {
    let result = real.call();
    if result == CUresult::SUCCESS {
        pools::reset_high(pool, attribute);
    }
    result
}

pub(crate) fn mem_pool_get_attribute(
    _entry: Entry,
    real: Real<'_>,
    pool: CUmemoryPool,
    attribute: CUmemPool_attribute,
    value: *mut c_void,
) -> CUresult {
    let result = real.call();
    if result != CUresult::SUCCESS || value.is_null() {
        return result;
    }
    if let Some(bytes) = pools::adds_to(pool, attribute) {
        let value = value.cast::<u64>();
        // SAFETY: the driver has just written a 64-bit number there: these attributes are.
        let own = unsafe { value.read() };
        // SAFETY: as above.
        unsafe { value.write(own.saturating_add(bytes)) };
    }
    result
}

/// The driver trims what the driver holds; our pool keeps its extents.
pub(crate) fn mem_pool_trim_to(
    _entry: Entry,
    real: Real<'_>,
    _pool: CUmemoryPool,
    _keep: usize,
) -> CUresult {
    real.call()
}

pub(crate) fn mem_pool_import_from_shareable_handle(
    _entry: Entry,
    real: Real<'_>,
    _pool: *mut CUmemoryPool,
    _handle: *mut c_void,
    _kind: CUmemAllocationHandleType,
    _flags: u64,
) -> CUresult {
    real.call()
}

/// Another process may open the pool: what it gives from now on must be the driver's.
pub(crate) fn mem_pool_export_to_shareable_handle(
    _entry: Entry,
    real: Real<'_>,
    _handle: *mut c_void,
    pool: CUmemoryPool,
    _kind: CUmemAllocationHandleType,
    _flags: u64,
) -> CUresult {
    let result = real.call();
    if result == CUresult::SUCCESS {
        pools::leave(pool);
    }
    result
}

pub(crate) fn mem_pool_export_pointer(
    _entry: Entry,
    real: Real<'_>,
    _data: *mut c_void,
    _dptr: CUdeviceptr,
) -> CUresult {
    real.call()
}

pub(crate) fn device_set_mem_pool(
    _entry: Entry,
    real: Real<'_>,
    _device: CUdevice,
    _pool: CUmemoryPool,
) -> CUresult {
    real.call()
}
