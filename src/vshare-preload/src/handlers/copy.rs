//! Copies.
#![expect(unsafe_code, reason = "reads the structs that describe copies")]

use crate::cuda::{
    CUDA_MEMCPY2D, CUDA_MEMCPY3D, CUDA_MEMCPY3D_BATCH_OP, CUDA_MEMCPY3D_PEER, CUarray, CUcontext,
    CUdeviceptr, CUmemcpy3DOperand, CUmemcpyAttributes, CUresult, CUstream,
};
use crate::guard::Real;
use crate::symbols::Entry;
use crate::touches::Touches;
use crate::work::{submit, submit_copy};
use std::ffi::c_void;

pub(crate) fn memcpy(
    entry: Entry,
    real: Real<'_>,
    dst: CUdeviceptr,
    src: CUdeviceptr,
    _bytes: usize,
) -> CUresult {
    submit_copy(entry, CUstream::NULL, &[dst.0], &[src.0], real)
}

pub(crate) fn memcpy_async(
    entry: Entry,
    real: Real<'_>,
    dst: CUdeviceptr,
    src: CUdeviceptr,
    _bytes: usize,
    stream: CUstream,
) -> CUresult {
    submit_copy(entry, stream, &[dst.0], &[src.0], real)
}

pub(crate) fn memcpy_peer(
    entry: Entry,
    real: Real<'_>,
    dst: CUdeviceptr,
    _dst_context: CUcontext,
    src: CUdeviceptr,
    _src_context: CUcontext,
    _bytes: usize,
) -> CUresult {
    submit_copy(entry, CUstream::NULL, &[dst.0], &[src.0], real)
}

#[expect(clippy::too_many_arguments, reason = "as the driver has them")]
pub(crate) fn memcpy_peer_async(
    entry: Entry,
    real: Real<'_>,
    dst: CUdeviceptr,
    _dst_context: CUcontext,
    src: CUdeviceptr,
    _src_context: CUcontext,
    _bytes: usize,
    stream: CUstream,
) -> CUresult {
    submit_copy(entry, stream, &[dst.0], &[src.0], real)
}

pub(crate) fn memcpy_htod(
    entry: Entry,
    real: Real<'_>,
    dst: CUdeviceptr,
    _src: *const c_void,
    _bytes: usize,
) -> CUresult {
    submit_copy(entry, CUstream::NULL, &[dst.0], &[], real)
}

pub(crate) fn memcpy_dtoh(
    entry: Entry,
    real: Real<'_>,
    _dst: *mut c_void,
    src: CUdeviceptr,
    _bytes: usize,
) -> CUresult {
    submit_copy(entry, CUstream::NULL, &[], &[src.0], real)
}

pub(crate) fn memcpy_htod_async(
    entry: Entry,
    real: Real<'_>,
    dst: CUdeviceptr,
    _src: *const c_void,
    _bytes: usize,
    stream: CUstream,
) -> CUresult {
    submit_copy(entry, stream, &[dst.0], &[], real)
}

pub(crate) fn memcpy_dtoh_async(
    entry: Entry,
    real: Real<'_>,
    dst: *mut c_void,
    src: CUdeviceptr,
    _bytes: usize,
    stream: CUstream,
) -> CUresult {
    submit_copy(entry, stream, &[host(dst)], &[src.0], real)
}

pub(crate) fn memcpy_dtoa(
    entry: Entry,
    real: Real<'_>,
    _dst: CUarray,
    _dst_offset: usize,
    src: CUdeviceptr,
    _bytes: usize,
) -> CUresult {
    submit_copy(entry, CUstream::NULL, &[], &[src.0], real)
}

pub(crate) fn memcpy_atod(
    entry: Entry,
    real: Real<'_>,
    dst: CUdeviceptr,
    _src: CUarray,
    _src_offset: usize,
    _bytes: usize,
) -> CUresult {
    submit_copy(entry, CUstream::NULL, &[dst.0], &[], real)
}

pub(crate) fn memcpy_htoa(
    entry: Entry,
    real: Real<'_>,
    _dst: CUarray,
    _dst_offset: usize,
    _src: *const c_void,
    _bytes: usize,
) -> CUresult {
    submit(entry, CUstream::NULL, Touches::Nothing, real)
}

pub(crate) fn memcpy_atoh(
    entry: Entry,
    real: Real<'_>,
    _dst: *mut c_void,
    _src: CUarray,
    _src_offset: usize,
    _bytes: usize,
) -> CUresult {
    submit(entry, CUstream::NULL, Touches::Nothing, real)
}

pub(crate) fn memcpy_atoa(
    entry: Entry,
    real: Real<'_>,
    _dst: CUarray,
    _dst_offset: usize,
    _src: CUarray,
    _src_offset: usize,
    _bytes: usize,
) -> CUresult {
    submit(entry, CUstream::NULL, Touches::Nothing, real)
}

pub(crate) fn memcpy_htoa_async(
    entry: Entry,
    real: Real<'_>,
    _dst: CUarray,
    _dst_offset: usize,
    _src: *const c_void,
    _bytes: usize,
    stream: CUstream,
) -> CUresult {
    submit(entry, stream, Touches::Nothing, real)
}

pub(crate) fn memcpy_atoh_async(
    entry: Entry,
    real: Real<'_>,
    dst: *mut c_void,
    _src: CUarray,
    _src_offset: usize,
    _bytes: usize,
    stream: CUstream,
) -> CUresult {
    submit_copy(entry, stream, &[host(dst)], &[], real)
}

pub(crate) fn memcpy_2d(entry: Entry, real: Real<'_>, copy: *const CUDA_MEMCPY2D) -> CUresult {
    submit(entry, CUstream::NULL, in_2d(copy).touches(), real)
}

pub(crate) fn memcpy_2d_async(
    entry: Entry,
    real: Real<'_>,
    copy: *const CUDA_MEMCPY2D,
    stream: CUstream,
) -> CUresult {
    submit(entry, stream, in_2d(copy).touches(), real)
}

pub(crate) fn memcpy_3d(entry: Entry, real: Real<'_>, copy: *const CUDA_MEMCPY3D) -> CUresult {
    submit(entry, CUstream::NULL, in_3d(copy).touches(), real)
}

pub(crate) fn memcpy_3d_async(
    entry: Entry,
    real: Real<'_>,
    copy: *const CUDA_MEMCPY3D,
    stream: CUstream,
) -> CUresult {
    submit(entry, stream, in_3d(copy).touches(), real)
}

pub(crate) fn memcpy_3d_peer(
    entry: Entry,
    real: Real<'_>,
    copy: *const CUDA_MEMCPY3D_PEER,
) -> CUresult {
    submit(entry, CUstream::NULL, in_3d_peer(copy).touches(), real)
}

pub(crate) fn memcpy_3d_peer_async(
    entry: Entry,
    real: Real<'_>,
    copy: *const CUDA_MEMCPY3D_PEER,
    stream: CUstream,
) -> CUresult {
    submit(entry, stream, in_3d_peer(copy).touches(), real)
}

#[expect(clippy::too_many_arguments, reason = "as the driver has them")]
pub(crate) fn memcpy_batch_async_v1(
    entry: Entry,
    real: Real<'_>,
    dsts: *mut CUdeviceptr,
    srcs: *mut CUdeviceptr,
    _sizes: *mut usize,
    count: usize,
    _attributes: *mut CUmemcpyAttributes,
    _attribute_starts: *mut usize,
    _attribute_count: usize,
    _failed: *mut usize,
    stream: CUstream,
) -> CUresult {
    submit(entry, stream, in_batch(dsts, srcs, count).touches(), real)
}

#[expect(clippy::too_many_arguments, reason = "as the driver has them")]
pub(crate) fn memcpy_batch_async(
    entry: Entry,
    real: Real<'_>,
    dsts: *mut CUdeviceptr,
    srcs: *mut CUdeviceptr,
    _sizes: *mut usize,
    count: usize,
    _attributes: *mut CUmemcpyAttributes,
    _attribute_starts: *mut usize,
    _attribute_count: usize,
    stream: CUstream,
) -> CUresult {
    submit(entry, stream, in_batch(dsts, srcs, count).touches(), real)
}

pub(crate) fn memcpy_3d_batch_async_v1(
    entry: Entry,
    real: Real<'_>,
    count: usize,
    copies: *mut CUDA_MEMCPY3D_BATCH_OP,
    _failed: *mut usize,
    _flags: u64,
    stream: CUstream,
) -> CUresult {
    submit(entry, stream, in_3d_batch(copies, count).touches(), real)
}

pub(crate) fn memcpy_3d_batch_async(
    entry: Entry,
    real: Real<'_>,
    count: usize,
    copies: *mut CUDA_MEMCPY3D_BATCH_OP,
    _flags: u64,
    stream: CUstream,
) -> CUresult {
    submit(entry, stream, in_3d_batch(copies, count).touches(), real)
}

pub(crate) fn memcpy_with_attributes_async(
    entry: Entry,
    real: Real<'_>,
    dst: CUdeviceptr,
    src: CUdeviceptr,
    _bytes: usize,
    _attributes: *mut CUmemcpyAttributes,
    stream: CUstream,
) -> CUresult {
    submit_copy(entry, stream, &[dst.0], &[src.0], real)
}

pub(crate) fn memcpy_3d_with_attributes_async(
    entry: Entry,
    real: Real<'_>,
    copy: *mut CUDA_MEMCPY3D_BATCH_OP,
    _flags: u64,
    stream: CUstream,
) -> CUresult {
    submit(entry, stream, in_3d_batch(copy, 1).touches(), real)
}

/// What it reads and writes stands in a struct that differs between versions: it is faulted in.
pub(crate) fn mem_batch_decompress_async(
    entry: Entry,
    real: Real<'_>,
    _operations: *mut c_void,
    _count: usize,
    _flags: u32,
    _failed: *mut usize,
    stream: CUstream,
) -> CUresult {
    submit(entry, stream, Touches::Unknown, real)
}

fn host(pointer: *const c_void) -> u64 {
    pointer.addr() as u64
}

/// Addresses that a copy writes and reads. Host memory that it only reads is of no interest: see
/// `host_ranges`.
#[derive(Debug, Default)]
struct Ends {
    to: Vec<u64>,
    from: Vec<u64>,
}

impl Ends {
    fn touches(&self) -> Touches<'_> {
        Touches::Copy {
            to: &self.to,
            from: &self.from,
        }
    }
}

/// Addresses in the struct of a copy: those that its memory types leave unused are none.
fn in_2d(copy: *const CUDA_MEMCPY2D) -> Ends {
    // SAFETY: the driver is about to read the struct, too; a null one it refuses.
    unsafe { copy.as_ref() }.map_or_else(Ends::default, |c| Ends {
        to: vec![c.dstDevice.0, host(c.dstHost)],
        from: vec![c.srcDevice.0],
    })
}

fn in_3d(copy: *const CUDA_MEMCPY3D) -> Ends {
    // SAFETY: as in `in_2d`.
    unsafe { copy.as_ref() }.map_or_else(Ends::default, |c| Ends {
        to: vec![c.dstDevice.0, host(c.dstHost)],
        from: vec![c.srcDevice.0],
    })
}

fn in_3d_peer(copy: *const CUDA_MEMCPY3D_PEER) -> Ends {
    // SAFETY: as in `in_2d`.
    unsafe { copy.as_ref() }.map_or_else(Ends::default, |c| Ends {
        to: vec![c.dstDevice.0, host(c.dstHost)],
        from: vec![c.srcDevice.0],
    })
}

fn in_batch(dsts: *const CUdeviceptr, srcs: *const CUdeviceptr, count: usize) -> Ends {
    Ends {
        to: list(dsts, count),
        from: list(srcs, count),
    }
}

fn list(addresses: *const CUdeviceptr, count: usize) -> Vec<u64> {
    if addresses.is_null() {
        return Vec::new();
    }
    // SAFETY: the program passes `count` addresses in each list.
    let addresses = unsafe { std::slice::from_raw_parts(addresses, count) };
    addresses.iter().map(|a| a.0).collect()
}

fn in_3d_batch(copies: *const CUDA_MEMCPY3D_BATCH_OP, count: usize) -> Ends {
    let mut ends = Ends::default();
    if copies.is_null() {
        return ends;
    }
    // SAFETY: the program passes `count` copies.
    for copy in unsafe { std::slice::from_raw_parts(copies, count) } {
        for (operand, list) in [(copy.dst, &mut ends.to), (copy.src, &mut ends.from)] {
            if operand.type_ == CUmemcpy3DOperand::POINTER {
                list.push(operand.op.ptr.0);
            }
        }
    }
    ends
}
