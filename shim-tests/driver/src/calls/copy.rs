//! Copies. The plain ones run in the default stream and return when they are done.

use crate::capture;
use crate::cuda::{Answer, CUcontext, CUdeviceptr, CUstream, CuError, Handle};
use crate::gate::Call;
use crate::handles::lock;
use crate::machine::machine;
use crate::memory::Kind;
use crate::op::{End, Op, stage};
use crate::order::{self, Submitted, Target};
use crate::table::driver_calls;

driver_calls! {
    "cuMemcpy" copy(dst: CUdeviceptr, src: CUdeviceptr, bytes: usize) { cuMemcpy: 4000 Legacy, cuMemcpy_ptds: 7000 PerThread }
    "cuMemcpyHtoD" htod(dst: CUdeviceptr, src: usize, bytes: usize) { cuMemcpyHtoD_v2: 3020 Legacy, cuMemcpyHtoD_v2_ptds: 7000 PerThread }
    "cuMemcpyDtoH" dtoh(dst: usize, src: CUdeviceptr, bytes: usize) { cuMemcpyDtoH_v2: 3020 Legacy, cuMemcpyDtoH_v2_ptds: 7000 PerThread }
    "cuMemcpyDtoD" dtod(dst: CUdeviceptr, src: CUdeviceptr, bytes: usize) {
        cuMemcpyDtoD_v2: 3020 Legacy, cuMemcpyDtoD_v2_ptds: 7000 PerThread }
    "cuMemcpyPeer" peer(dst: CUdeviceptr, to: CUcontext, src: CUdeviceptr, from: CUcontext, bytes: usize) {
        cuMemcpyPeer: 4000 Legacy, cuMemcpyPeer_ptds: 7000 PerThread }
    "cuMemcpyAsync" copy_async(dst: CUdeviceptr, src: CUdeviceptr, bytes: usize, stream: CUstream) {
        cuMemcpyAsync: 4000 Legacy, cuMemcpyAsync_ptsz: 7000 PerThread }
    "cuMemcpyHtoDAsync" htod_async(dst: CUdeviceptr, src: usize, bytes: usize, stream: CUstream) {
        cuMemcpyHtoDAsync_v2: 3020 Legacy, cuMemcpyHtoDAsync_v2_ptsz: 7000 PerThread }
    "cuMemcpyDtoHAsync" dtoh_async(dst: usize, src: CUdeviceptr, bytes: usize, stream: CUstream) {
        cuMemcpyDtoHAsync_v2: 3020 Legacy, cuMemcpyDtoHAsync_v2_ptsz: 7000 PerThread }
    "cuMemcpyDtoDAsync" dtod_async(dst: CUdeviceptr, src: CUdeviceptr, bytes: usize, stream: CUstream) {
        cuMemcpyDtoDAsync_v2: 3020 Legacy, cuMemcpyDtoDAsync_v2_ptsz: 7000 PerThread }
    "cuMemcpyPeerAsync" peer_async(dst: CUdeviceptr, to: CUcontext, src: CUdeviceptr, from: CUcontext, bytes: usize, stream: CUstream) {
        cuMemcpyPeerAsync: 4000 Legacy, cuMemcpyPeerAsync_ptsz: 7000 PerThread }
}

/// What a call says an end is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Device,
    Host,
    /// The address tells.
    Any,
}

pub(super) type Address = (usize, Side);

/// Where an address leads: `INVALID_VALUE` for what should be known and is not.
pub(super) fn resolve((start, side): Address, bytes: usize) -> Result<End, CuError> {
    if start == 0 && bytes > 0 {
        return Err(CuError::INVALID_VALUE);
    }
    let memory = lock(&machine()?.memory);
    match (memory.find(start), side) {
        (Some(found), _) if !found.holds(start, bytes) => Err(CuError::INVALID_VALUE),
        (Some(found), Side::Host) if found.kind == Kind::Device => Err(CuError::INVALID_VALUE),
        (Some(_), _) => Ok(End::Tracked(start)),
        (None, Side::Device) if bytes > 0 => Err(CuError::INVALID_VALUE),
        (None, _) => Ok(End::Pageable(start)),
    }
}

pub(super) fn now(call: &Call, dst: Address, src: Address, bytes: usize) -> Answer {
    let target = order::target(Handle::NULL, call.lane)?;
    let (to, from) = (resolve(dst, bytes)?, resolve(src, bytes)?);
    capture::unsafe_call()?;
    if bytes == 0 {
        Ok(())
    } else {
        target.submit_and_wait(Op::Copy { to, from, bytes })
    }
}

/// A source in pageable memory is taken as it is now; a copy into pageable memory is waited for.
pub(super) fn later(
    call: &Call,
    dst: Address,
    src: Address,
    bytes: usize,
    stream: CUstream,
) -> Answer {
    let target = order::target(stream, call.lane)?;
    let (to, from) = (resolve(dst, bytes)?, resolve(src, bytes)?);
    if bytes == 0 {
        return Ok(());
    }
    let capturing = capture::of(&target.stream).is_some();
    let wait = matches!(to, End::Pageable(_)) && !capturing;
    let from = match from {
        End::Pageable(start) if !capturing => End::Staged(stage(start, bytes)),
        other => other,
    };
    finish(&target, Op::Copy { to, from, bytes }, wait)
}

fn finish(target: &Target, op: Op, wait: bool) -> Answer {
    match target.submit(op)? {
        Submitted::Queued(ticket) if wait => {
            target.stream.wait(ticket);
            target.context.healthy()
        }
        _ => Ok(()),
    }
}

fn copy(call: &Call, dst: CUdeviceptr, src: CUdeviceptr, bytes: usize) -> Answer {
    now(call, (dst.0, Side::Any), (src.0, Side::Any), bytes)
}

fn htod(call: &Call, dst: CUdeviceptr, src: usize, bytes: usize) -> Answer {
    now(call, (dst.0, Side::Device), (src, Side::Host), bytes)
}

fn dtoh(call: &Call, dst: usize, src: CUdeviceptr, bytes: usize) -> Answer {
    now(call, (dst, Side::Host), (src.0, Side::Device), bytes)
}

fn dtod(call: &Call, dst: CUdeviceptr, src: CUdeviceptr, bytes: usize) -> Answer {
    now(call, (dst.0, Side::Device), (src.0, Side::Device), bytes)
}

fn peer(
    call: &Call,
    dst: CUdeviceptr,
    to: CUcontext,
    src: CUdeviceptr,
    from: CUcontext,
    bytes: usize,
) -> Answer {
    contexts(to, from)?;
    dtod(call, dst, src, bytes)
}

fn contexts(to: CUcontext, from: CUcontext) -> Answer {
    let known = |context| {
        machine()?
            .contexts
            .find(context)
            .ok_or(CuError::INVALID_CONTEXT)
            .map(|_| ())
    };
    known(to)?;
    known(from)
}

fn copy_async(
    call: &Call,
    dst: CUdeviceptr,
    src: CUdeviceptr,
    bytes: usize,
    stream: CUstream,
) -> Answer {
    later(call, (dst.0, Side::Any), (src.0, Side::Any), bytes, stream)
}

fn htod_async(call: &Call, dst: CUdeviceptr, src: usize, bytes: usize, stream: CUstream) -> Answer {
    later(
        call,
        (dst.0, Side::Device),
        (src, Side::Host),
        bytes,
        stream,
    )
}

fn dtoh_async(call: &Call, dst: usize, src: CUdeviceptr, bytes: usize, stream: CUstream) -> Answer {
    later(
        call,
        (dst, Side::Host),
        (src.0, Side::Device),
        bytes,
        stream,
    )
}

fn dtod_async(
    call: &Call,
    dst: CUdeviceptr,
    src: CUdeviceptr,
    bytes: usize,
    stream: CUstream,
) -> Answer {
    later(
        call,
        (dst.0, Side::Device),
        (src.0, Side::Device),
        bytes,
        stream,
    )
}

fn peer_async(
    call: &Call,
    dst: CUdeviceptr,
    to: CUcontext,
    src: CUdeviceptr,
    from: CUcontext,
    bytes: usize,
    stream: CUstream,
) -> Answer {
    contexts(to, from)?;
    dtod_async(call, dst, src, bytes, stream)
}
