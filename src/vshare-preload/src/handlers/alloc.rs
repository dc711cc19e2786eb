//! Memory and arrays of the device, allocated and freed.
#![expect(unsafe_code, reason = "writes the program's results")]

use crate::cuda::{
    CUDA_ARRAY_DESCRIPTOR, CUDA_ARRAY3D_DESCRIPTOR, CUarray, CUdevice, CUdeviceptr,
    CUmemAllocationProp, CUmemGenericAllocationHandle, CUmipmappedArray, CUresult,
};
use crate::guard::Real;
use crate::symbols::Entry;
use crate::{elsewhere, memory, process, report};

/// Rows of a pitched allocation begin at multiples of so many bytes: what the driver gives on all
/// current devices.
const PITCH: usize = 512;

/// `CU_MEM_LOCATION_TYPE_DEVICE`.
const DEVICE: u32 = 1;

pub(crate) fn mem_alloc(
    _entry: Entry,
    real: Real<'_>,
    dptr: *mut CUdeviceptr,
    bytes: usize,
) -> CUresult {
    if dptr.is_null() || bytes == 0 {
        return real.call();
    }
    answer(dptr, from_pool(bytes as u64), real)
}

pub(crate) fn mem_alloc_pitch(
    _entry: Entry,
    real: Real<'_>,
    dptr: *mut CUdeviceptr,
    pitch: *mut usize,
    width: usize,
    height: usize,
    element: u32,
) -> CUresult {
    let valid = !dptr.is_null()
        && !pitch.is_null()
        && width > 0
        && height > 0
        && matches!(element, 4 | 8 | 16);
    let row = width.checked_next_multiple_of(PITCH);
    let Some((row, bytes)) = row.and_then(|row| Some((row, row.checked_mul(height)?))) else {
        return real.call();
    };
    if !valid {
        return real.call();
    }
    let served = from_pool(bytes as u64);
    if let Some(Ok(_)) = served {
        // SAFETY: checked above not to be null; the program's own result.
        unsafe { pitch.write(row) };
    }
    answer(dptr, served, real)
}

fn from_pool(bytes: u64) -> Option<Result<u64, CUresult>> {
    process::used();
    memory::allocate(bytes, None, 0)
}

/// Answers an allocation: with what the pool has served, or by the driver.
pub(super) fn answer(
    dptr: *mut CUdeviceptr,
    served: Option<Result<u64, CUresult>>,
    real: Real<'_>,
) -> CUresult {
    match served {
        Some(Ok(address)) => {
            real.answered(CUresult::SUCCESS);
            // SAFETY: not null (our callers checked); the program's own result.
            unsafe { dptr.write(CUdeviceptr(address)) };
            CUresult::SUCCESS
        }
        Some(Err(code)) => real.answered(code),
        None => real.call(),
    }
}

pub(crate) fn mem_free(_entry: Entry, real: Real<'_>, dptr: CUdeviceptr) -> CUresult {
    if dptr.0 == 0 {
        return real.call();
    }
    if let Some(result) = memory::free(dptr.0, None) {
        return real.answered(result);
    }
    report::add(report::FOREIGN_FREES, 1);
    elsewhere::freed(dptr);
    real.call()
}

/// The program's own managed memory stays the program's: it is only counted.
pub(crate) fn mem_alloc_managed(
    _entry: Entry,
    real: Real<'_>,
    dptr: *mut CUdeviceptr,
    bytes: usize,
    _flags: u32,
) -> CUresult {
    let result = real.call();
    if result == CUresult::SUCCESS && !dptr.is_null() {
        // SAFETY: the driver has just written through `dptr`.
        let address = unsafe { dptr.read() };
        elsewhere::managed(address, bytes as u64);
    }
    result
}

pub(crate) fn mem_create(
    _entry: Entry,
    real: Real<'_>,
    handle: *mut CUmemGenericAllocationHandle,
    bytes: usize,
    prop: *const CUmemAllocationProp,
    _flags: u64,
) -> CUresult {
    let result = real.call();
    if result == CUresult::SUCCESS && !handle.is_null() {
        // SAFETY: the driver has just written through `handle`.
        let handle = unsafe { handle.read() };
        // SAFETY: the driver has read the properties, and found them good.
        let location = unsafe { prop.as_ref() }.map(|p| p.location);
        let device = location.filter(|l| l.type_ == DEVICE);
        elsewhere::created(handle, bytes as u64, device.map(|l| CUdevice(l.id)));
    }
    result
}

pub(crate) fn mem_release(
    _entry: Entry,
    real: Real<'_>,
    handle: CUmemGenericAllocationHandle,
) -> CUresult {
    elsewhere::released(handle);
    real.call()
}

pub(crate) fn array_create(
    _entry: Entry,
    real: Real<'_>,
    _array: *mut CUarray,
    _descriptor: *const CUDA_ARRAY_DESCRIPTOR,
) -> CUresult {
    real.call()
}

pub(crate) fn array_3d_create(
    _entry: Entry,
    real: Real<'_>,
    _array: *mut CUarray,
    _descriptor: *const CUDA_ARRAY3D_DESCRIPTOR,
) -> CUresult {
    real.call()
}

pub(crate) fn array_destroy(_entry: Entry, real: Real<'_>, _array: CUarray) -> CUresult {
    real.call()
}

pub(crate) fn mipmapped_array_create(
    _entry: Entry,
    real: Real<'_>,
    _array: *mut CUmipmappedArray,
    _descriptor: *const CUDA_ARRAY3D_DESCRIPTOR,
    _levels: u32,
) -> CUresult {
    real.call()
}

pub(crate) fn mipmapped_array_destroy(
    _entry: Entry,
    real: Real<'_>,
    _array: CUmipmappedArray,
) -> CUresult {
    real.call()
}

// The calls with 32-bit addresses. Today's drivers refuse them, and a pool of theirs would have to
// lie below 4 GiB: they pass.

pub(crate) fn mem_alloc_v1(
    _entry: Entry,
    real: Real<'_>,
    _dptr: *mut u32,
    _bytes: u32,
) -> CUresult {
    real.call()
}

pub(crate) fn mem_alloc_pitch_v1(
    _entry: Entry,
    real: Real<'_>,
    _dptr: *mut u32,
    _pitch: *mut u32,
    _width: u32,
    _height: u32,
    _element: u32,
) -> CUresult {
    real.call()
}

pub(crate) fn mem_free_v1(_entry: Entry, real: Real<'_>, _dptr: u32) -> CUresult {
    real.call()
}
