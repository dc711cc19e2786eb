//! Managed memory: allocation, prefetch, discard.

use super::memory::owner;
use crate::arg::{In, Out};
use crate::capture;
use crate::config::config;
use crate::context;
use crate::cuda::{
    Answer, CUdevice, CUdeviceptr, CUmemLocation, CUstream, CuError, DEVICE_CPU, Handle,
    LOCATION_DEVICE, LOCATION_HOST, LOCATION_HOST_NUMA, LOCATION_HOST_NUMA_CURRENT,
};
use crate::gate::Call;
use crate::handles::lock;
use crate::machine::{device, machine};
use crate::op::Op;
use crate::order;
use crate::table::driver_calls;

driver_calls! {
    "cuMemAllocManaged" alloc_managed(dptr: Out<CUdeviceptr>, bytes: usize, flags: u32) { cuMemAllocManaged: 6000 Legacy }
    "cuMemPrefetchAsync" prefetch(dptr: CUdeviceptr, bytes: usize, dev: CUdevice, stream: CUstream) {
        cuMemPrefetchAsync: 8000 Legacy, cuMemPrefetchAsync_ptsz: 8000 PerThread }
    "cuMemPrefetchAsync" prefetch_v2(dptr: CUdeviceptr, bytes: usize, location: CUmemLocation, flags: u32, stream: CUstream) {
        cuMemPrefetchAsync_v2: 12020 Legacy, cuMemPrefetchAsync_v2_ptsz: 12020 PerThread }
    "cuMemPrefetchBatchAsync" prefetch_batch(dptrs: In<usize>, sizes: In<usize>, count: usize, locations: In<CUmemLocation>, firsts: In<usize>, location_count: usize, flags: u64, stream: CUstream) {
        cuMemPrefetchBatchAsync: 13000 Legacy, cuMemPrefetchBatchAsync_ptsz: 13000 PerThread }
    "cuMemDiscardBatchAsync" discard_batch(dptrs: In<usize>, sizes: In<usize>, count: usize, flags: u64, stream: CUstream) {
        cuMemDiscardBatchAsync: 13000 Legacy, cuMemDiscardBatchAsync_ptsz: 13000 PerThread }
    "cuMemDiscardAndPrefetchBatchAsync" discard_and_prefetch(dptrs: In<usize>, sizes: In<usize>, count: usize, locations: In<CUmemLocation>, firsts: In<usize>, location_count: usize, flags: u64, stream: CUstream) {
        cuMemDiscardAndPrefetchBatchAsync: 13000 Legacy, cuMemDiscardAndPrefetchBatchAsync_ptsz: 13000 PerThread }
    "cuStreamAttachMemAsync" attach(stream: CUstream, dptr: CUdeviceptr, bytes: usize, flags: u32) {
        cuStreamAttachMemAsync: 6000 Legacy, cuStreamAttachMemAsync_ptsz: 7000 PerThread }
}

/// `CU_MEM_ATTACH_GLOBAL`, `CU_MEM_ATTACH_HOST`
const ATTACH: [u32; 2] = [1, 2];

fn alloc_managed(_: &Call, dptr: Out<CUdeviceptr>, bytes: usize, flags: u32) -> Answer {
    let context = context::current()?;
    dptr.required()?;
    if !ATTACH.contains(&flags) {
        return Err(CuError::INVALID_VALUE);
    }
    capture::unsafe_call()?;
    let base = lock(&machine()?.memory).alloc_managed(bytes, flags, owner(&context))?;
    dptr.put(CUdeviceptr(base))
}

/// The device of a prefetch or of advice, in the numbers of the old calls: -1 is the host.
pub(super) fn place(location: CUmemLocation) -> Result<i32, CuError> {
    match location.kind {
        LOCATION_DEVICE => device(location.id).map(|_| location.id),
        LOCATION_HOST | LOCATION_HOST_NUMA_CURRENT => Ok(DEVICE_CPU),
        LOCATION_HOST_NUMA if location.id == 0 => Ok(DEVICE_CPU),
        _ => Err(CuError::INVALID_VALUE),
    }
}

pub(super) fn old_place(dev: CUdevice) -> Result<i32, CuError> {
    if dev == DEVICE_CPU {
        Ok(dev)
    } else {
        device(dev).map(|_| dev)
    }
}

fn prefetch(
    call: &Call,
    dptr: CUdeviceptr,
    bytes: usize,
    dev: CUdevice,
    stream: CUstream,
) -> Answer {
    let target = order::target(stream, call.lane)?;
    let to = old_place(dev)?;
    let ranges = checked(&[(dptr.0, bytes)])?;
    concurrent()?;
    target.submit(Op::Prefetch { ranges, to }).map(|_| ())
}

fn prefetch_v2(
    call: &Call,
    dptr: CUdeviceptr,
    bytes: usize,
    location: CUmemLocation,
    flags: u32,
    stream: CUstream,
) -> Answer {
    if flags != 0 {
        return Err(CuError::INVALID_VALUE);
    }
    prefetch(call, dptr, bytes, place(location)?, stream)
}

/// Without concurrent access no device takes part in prefetches.
fn concurrent() -> Answer {
    if config().concurrent_managed {
        Ok(())
    } else {
        Err(CuError::INVALID_DEVICE)
    }
}

/// Ranges, each in one managed allocation.
fn checked(ranges: &[(usize, usize)]) -> Result<Vec<(usize, usize)>, CuError> {
    let memory = lock(&machine()?.memory);
    for (start, bytes) in ranges {
        memory.managed_range(*start, *bytes)?;
    }
    Ok(ranges.to_vec())
}

fn listed(
    dptrs: In<usize>,
    sizes: In<usize>,
    count: usize,
    flags: u64,
    stream: CUstream,
) -> Result<Vec<(usize, usize)>, CuError> {
    // Batches take a stream of the program's or the per-thread one, never the legacy default.
    if count == 0 || flags != 0 || stream == Handle::STREAM_LEGACY {
        return Err(CuError::INVALID_VALUE);
    }
    let ranges: Vec<(usize, usize)> = dptrs
        .list(count)?
        .into_iter()
        .zip(sizes.list(count)?)
        .collect();
    concurrent()?;
    checked(&ranges)
}

#[expect(clippy::too_many_arguments, reason = "CUDA's parameter list")]
fn prefetch_batch(
    call: &Call,
    dptrs: In<usize>,
    sizes: In<usize>,
    count: usize,
    locations: In<CUmemLocation>,
    firsts: In<usize>,
    location_count: usize,
    flags: u64,
    stream: CUstream,
) -> Answer {
    batch(
        call,
        &listed(dptrs, sizes, count, flags, stream)?,
        locations,
        firsts,
        location_count,
        stream,
        false,
    )
}

fn discard_batch(
    call: &Call,
    dptrs: In<usize>,
    sizes: In<usize>,
    count: usize,
    flags: u64,
    stream: CUstream,
) -> Answer {
    let ranges = listed(dptrs, sizes, count, flags, stream)?;
    let target = order::target(stream, call.lane)?;
    refuse_legacy(stream, call)?;
    target.submit(Op::Discard { ranges }).map(|_| ())
}

#[expect(clippy::too_many_arguments, reason = "CUDA's parameter list")]
fn discard_and_prefetch(
    call: &Call,
    dptrs: In<usize>,
    sizes: In<usize>,
    count: usize,
    locations: In<CUmemLocation>,
    firsts: In<usize>,
    location_count: usize,
    flags: u64,
    stream: CUstream,
) -> Answer {
    batch(
        call,
        &listed(dptrs, sizes, count, flags, stream)?,
        locations,
        firsts,
        location_count,
        stream,
        true,
    )
}

fn refuse_legacy(stream: CUstream, call: &Call) -> Answer {
    let legacy = stream.is_null() && call.lane == crate::gate::Lane::Legacy;
    if legacy {
        Err(CuError::INVALID_VALUE)
    } else {
        Ok(())
    }
}

/// Location k applies from operation `firsts[k]` up to the next location's first.
fn batch(
    call: &Call,
    ranges: &[(usize, usize)],
    locations: In<CUmemLocation>,
    firsts: In<usize>,
    location_count: usize,
    stream: CUstream,
    discard: bool,
) -> Answer {
    let target = order::target(stream, call.lane)?;
    refuse_legacy(stream, call)?;
    let (locations, firsts) = (
        locations.list(location_count)?,
        firsts.list(location_count)?,
    );
    if firsts.first() != Some(&0) || !firsts.is_sorted_by(|a, b| a < b) {
        return Err(CuError::INVALID_VALUE);
    }
    let ends = firsts.iter().skip(1).copied().chain([ranges.len()]);
    let mut parts = Vec::new();
    for ((location, first), end) in locations.into_iter().zip(&firsts).zip(ends) {
        let part = ranges
            .get(*first..end)
            .filter(|part| !part.is_empty())
            .ok_or(CuError::INVALID_VALUE)?;
        parts.push((place(location)?, part.to_vec()));
    }
    for (to, ranges) in parts {
        if discard {
            target.submit(Op::Discard {
                ranges: ranges.clone(),
            })?;
        }
        target.submit(Op::Prefetch { ranges, to })?;
    }
    Ok(())
}

/// Attachment says which stream's work the host must wait for; with concurrent access, nothing.
fn attach(call: &Call, stream: CUstream, dptr: CUdeviceptr, bytes: usize, _flags: u32) -> Answer {
    let target = order::target(stream, call.lane)?;
    checked(&[(dptr.0, bytes.max(1))])?;
    target.submit(Op::Nothing).map(|_| ())
}
