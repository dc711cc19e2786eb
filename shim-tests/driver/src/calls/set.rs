//! Memsets. Like the real ones, the plain ones are asynchronous for device memory: they only take the default stream.

use crate::cuda::{Answer, CUdeviceptr, CUstream, CuError, Handle};
use crate::gate::Call;
use crate::handles::lock;
use crate::machine::machine;
use crate::memory::Kind;
use crate::op::{Op, Pattern};
use crate::order::{self, Submitted};
use crate::table::driver_calls;

driver_calls! {
    "cuMemsetD8" d8(dst: CUdeviceptr, value: u8, count: usize) { cuMemsetD8_v2: 3020 Legacy, cuMemsetD8_v2_ptds: 7000 PerThread }
    "cuMemsetD16" d16(dst: CUdeviceptr, value: u16, count: usize) { cuMemsetD16_v2: 3020 Legacy, cuMemsetD16_v2_ptds: 7000 PerThread }
    "cuMemsetD32" d32(dst: CUdeviceptr, value: u32, count: usize) { cuMemsetD32_v2: 3020 Legacy, cuMemsetD32_v2_ptds: 7000 PerThread }
    "cuMemsetD8Async" d8_async(dst: CUdeviceptr, value: u8, count: usize, stream: CUstream) {
        cuMemsetD8Async: 3020 Legacy, cuMemsetD8Async_ptsz: 7000 PerThread }
    "cuMemsetD16Async" d16_async(dst: CUdeviceptr, value: u16, count: usize, stream: CUstream) {
        cuMemsetD16Async: 3020 Legacy, cuMemsetD16Async_ptsz: 7000 PerThread }
    "cuMemsetD32Async" d32_async(dst: CUdeviceptr, value: u32, count: usize, stream: CUstream) {
        cuMemsetD32Async: 3020 Legacy, cuMemsetD32Async_ptsz: 7000 PerThread }
}

fn set(call: &Call, dst: CUdeviceptr, pattern: Pattern, count: usize, stream: CUstream) -> Answer {
    let target = order::target(stream, call.lane)?;
    if count == 0 && dst.0.is_multiple_of(pattern.bytes().len()) {
        return Ok(());
    }
    let (op, kind) = work(dst, pattern, count)?;
    let submitted = target.submit(op)?;
    // Host memory is set when a plain memset returns.
    let plain = !call.base.ends_with("Async");
    match submitted {
        Submitted::Queued(ticket) if plain && matches!(kind, Kind::Pinned | Kind::Registered) => {
            target.stream.wait(ticket);
            target.context.healthy()
        }
        _ => Ok(()),
    }
}

/// A fill as work, and what kind of memory it fills.
pub(super) fn work(
    dst: CUdeviceptr,
    pattern: Pattern,
    count: usize,
) -> Result<(Op, Kind), CuError> {
    let size = pattern.bytes().len();
    let bytes = count.checked_mul(size).ok_or(CuError::INVALID_VALUE)?;
    if !dst.0.is_multiple_of(size) {
        return Err(CuError::INVALID_VALUE);
    }
    let kind = lock(&machine()?.memory)
        .find(dst.0)
        .filter(|found| found.holds(dst.0, bytes))
        .ok_or(CuError::INVALID_VALUE)?
        .kind;
    let op = Op::Fill {
        to: dst.0,
        pattern,
        count,
    };
    Ok((op, kind))
}

fn d8(call: &Call, dst: CUdeviceptr, value: u8, count: usize) -> Answer {
    set(call, dst, Pattern::D8(value), count, Handle::NULL)
}

fn d16(call: &Call, dst: CUdeviceptr, value: u16, count: usize) -> Answer {
    set(call, dst, Pattern::D16(value), count, Handle::NULL)
}

fn d32(call: &Call, dst: CUdeviceptr, value: u32, count: usize) -> Answer {
    set(call, dst, Pattern::D32(value), count, Handle::NULL)
}

fn d8_async(call: &Call, dst: CUdeviceptr, value: u8, count: usize, stream: CUstream) -> Answer {
    set(call, dst, Pattern::D8(value), count, stream)
}

fn d16_async(call: &Call, dst: CUdeviceptr, value: u16, count: usize, stream: CUstream) -> Answer {
    set(call, dst, Pattern::D16(value), count, stream)
}

fn d32_async(call: &Call, dst: CUdeviceptr, value: u32, count: usize, stream: CUstream) -> Answer {
    set(call, dst, Pattern::D32(value), count, stream)
}
