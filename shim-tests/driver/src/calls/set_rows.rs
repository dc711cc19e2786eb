//! Memsets of rectangles: one piece of work in its stream, made of one step per row.

use crate::cuda::{Answer, CUdeviceptr, CUstream, CuError, Handle};
use crate::gate::Call;
use crate::handles::lock;
use crate::machine::machine;
use crate::op::{Op, Pattern};
use crate::order;
use crate::table::driver_calls;

driver_calls! {
    "cuMemsetD2D8" set_d8(dst: CUdeviceptr, pitch: usize, value: u8, width: usize, height: usize) {
        cuMemsetD2D8_v2: 3020 Legacy, cuMemsetD2D8_v2_ptds: 7000 PerThread }
    "cuMemsetD2D16" set_d16(dst: CUdeviceptr, pitch: usize, value: u16, width: usize, height: usize) {
        cuMemsetD2D16_v2: 3020 Legacy, cuMemsetD2D16_v2_ptds: 7000 PerThread }
    "cuMemsetD2D32" set_d32(dst: CUdeviceptr, pitch: usize, value: u32, width: usize, height: usize) {
        cuMemsetD2D32_v2: 3020 Legacy, cuMemsetD2D32_v2_ptds: 7000 PerThread }
    "cuMemsetD2D8Async" set_d8_async(dst: CUdeviceptr, pitch: usize, value: u8, width: usize, height: usize, stream: CUstream) {
        cuMemsetD2D8Async: 3020 Legacy, cuMemsetD2D8Async_ptsz: 7000 PerThread }
    "cuMemsetD2D16Async" set_d16_async(dst: CUdeviceptr, pitch: usize, value: u16, width: usize, height: usize, stream: CUstream) {
        cuMemsetD2D16Async: 3020 Legacy, cuMemsetD2D16Async_ptsz: 7000 PerThread }
    "cuMemsetD2D32Async" set_d32_async(dst: CUdeviceptr, pitch: usize, value: u32, width: usize, height: usize, stream: CUstream) {
        cuMemsetD2D32Async: 3020 Legacy, cuMemsetD2D32Async_ptsz: 7000 PerThread }
}

/// The rows of a memset are `width` elements, `pitch` bytes apart.
fn set(
    call: &Call,
    dst: CUdeviceptr,
    pitch: usize,
    pattern: Pattern,
    (width, height): (usize, usize),
    stream: CUstream,
) -> Answer {
    let target = order::target(stream, call.lane)?;
    let op = work(dst, pitch, pattern, (width, height))?;
    if width == 0 || height == 0 {
        Ok(())
    } else {
        target.submit(op).map(|_| ())
    }
}

/// A fill of rows as work.
pub(super) fn work(
    dst: CUdeviceptr,
    pitch: usize,
    pattern: Pattern,
    (width, height): (usize, usize),
) -> Result<Op, CuError> {
    let size = pattern.bytes().len();
    let bytes = width.checked_mul(size).ok_or(CuError::INVALID_VALUE)?;
    if !dst.0.is_multiple_of(size) || (height > 1 && (pitch < bytes || !pitch.is_multiple_of(size)))
    {
        return Err(CuError::INVALID_VALUE);
    }
    let steps = (0..height).map(|row| {
        let offset = pitch.checked_mul(row).ok_or(CuError::INVALID_VALUE)?;
        let to = dst.0.checked_add(offset).ok_or(CuError::INVALID_VALUE)?;
        let known = lock(&machine()?.memory)
            .find(to)
            .is_some_and(|found| found.holds(to, bytes));
        if known {
            Ok(Op::Fill {
                to,
                pattern,
                count: width,
            })
        } else {
            Err(CuError::INVALID_VALUE)
        }
    });
    let steps = steps.collect::<Result<Vec<Op>, CuError>>()?;
    Ok(Op::Steps(steps.into()))
}

fn set_d8(
    call: &Call,
    dst: CUdeviceptr,
    pitch: usize,
    value: u8,
    width: usize,
    height: usize,
) -> Answer {
    set(
        call,
        dst,
        pitch,
        Pattern::D8(value),
        (width, height),
        Handle::NULL,
    )
}

fn set_d16(
    call: &Call,
    dst: CUdeviceptr,
    pitch: usize,
    value: u16,
    width: usize,
    height: usize,
) -> Answer {
    set(
        call,
        dst,
        pitch,
        Pattern::D16(value),
        (width, height),
        Handle::NULL,
    )
}

fn set_d32(
    call: &Call,
    dst: CUdeviceptr,
    pitch: usize,
    value: u32,
    width: usize,
    height: usize,
) -> Answer {
    set(
        call,
        dst,
        pitch,
        Pattern::D32(value),
        (width, height),
        Handle::NULL,
    )
}

fn set_d8_async(
    call: &Call,
    dst: CUdeviceptr,
    pitch: usize,
    value: u8,
    width: usize,
    height: usize,
    stream: CUstream,
) -> Answer {
    set(
        call,
        dst,
        pitch,
        Pattern::D8(value),
        (width, height),
        stream,
    )
}

fn set_d16_async(
    call: &Call,
    dst: CUdeviceptr,
    pitch: usize,
    value: u16,
    width: usize,
    height: usize,
    stream: CUstream,
) -> Answer {
    set(
        call,
        dst,
        pitch,
        Pattern::D16(value),
        (width, height),
        stream,
    )
}

fn set_d32_async(
    call: &Call,
    dst: CUdeviceptr,
    pitch: usize,
    value: u32,
    width: usize,
    height: usize,
    stream: CUstream,
) -> Answer {
    set(
        call,
        dst,
        pitch,
        Pattern::D32(value),
        (width, height),
        stream,
    )
}
