//! Streams.

use crate::arg::Out;
use crate::capture;
use crate::context;
use crate::cuda::{Answer, CUcontext, CUevent, CUstream, CuError};
use crate::event::State;
use crate::gate::Call;
use crate::handles::lock;
use crate::machine::machine;
use crate::op::Op;
use crate::order::{self, Target};
use crate::stream::{NON_BLOCKING, Role, Stream};
use crate::table::driver_calls;
use std::sync::Arc;

driver_calls! {
    "cuStreamCreate" create(stream: Out<CUstream>, flags: u32) { cuStreamCreate: 2000 Legacy }
    "cuStreamCreateWithPriority" create_with_priority(stream: Out<CUstream>, flags: u32, priority: i32) {
        cuStreamCreateWithPriority: 5050 Legacy }
    "cuStreamDestroy" destroy(stream: CUstream) { cuStreamDestroy: 2000 Legacy, cuStreamDestroy_v2: 4000 Legacy }
    "cuStreamQuery" query(stream: CUstream) { cuStreamQuery: 2000 Legacy, cuStreamQuery_ptsz: 7000 PerThread }
    "cuStreamSynchronize" synchronize(stream: CUstream) { cuStreamSynchronize: 2000 Legacy, cuStreamSynchronize_ptsz: 7000 PerThread }
    "cuStreamWaitEvent" wait_event(stream: CUstream, event: CUevent, flags: u32) {
        cuStreamWaitEvent: 3020 Legacy, cuStreamWaitEvent_ptsz: 7000 PerThread }
    "cuStreamGetFlags" get_flags(stream: CUstream, flags: Out<u32>) { cuStreamGetFlags: 5050 Legacy, cuStreamGetFlags_ptsz: 7000 PerThread }
    "cuStreamGetPriority" get_priority(stream: CUstream, priority: Out<i32>) {
        cuStreamGetPriority: 5050 Legacy, cuStreamGetPriority_ptsz: 7000 PerThread }
    "cuStreamGetCtx" get_ctx(stream: CUstream, ctx: Out<CUcontext>) { cuStreamGetCtx: 9020 Legacy, cuStreamGetCtx_ptsz: 9020 PerThread }
    "cuStreamGetId" get_id(stream: CUstream, id: Out<u64>) { cuStreamGetId: 12000 Legacy, cuStreamGetId_ptsz: 12000 PerThread }
    "cuStreamGetDevice" get_device(stream: CUstream, device: Out<i32>) {
        cuStreamGetDevice: 12080 Legacy, cuStreamGetDevice_ptsz: 12080 PerThread }
}

fn create(call: &Call, stream: Out<CUstream>, flags: u32) -> Answer {
    create_with_priority(call, stream, flags, 0)
}

fn create_with_priority(_: &Call, out: Out<CUstream>, flags: u32, priority: i32) -> Answer {
    let context = context::current()?;
    out.required()?;
    if flags & !NON_BLOCKING != 0 {
        return Err(CuError::INVALID_VALUE);
    }
    let stream = Arc::new(Stream::new(
        Role::Created,
        context.handle,
        flags,
        priority.clamp(-5, 0),
    ));
    lock(&context.roster).streams.push(Arc::clone(&stream));
    let handle = stream.handle;
    machine()?.streams.insert(handle, stream);
    out.put(handle)
}

/// Returns at once; what is queued is still done. A capture that began in the stream ends with it.
fn destroy(_: &Call, handle: CUstream) -> Answer {
    context::current()?;
    let stream = machine()?.streams.get(handle)?;
    capture::stream_gone(&stream);
    machine()?.streams.remove(handle)?;
    if !stream.close()
        && let Some(context) = machine()?.contexts.find(stream.context)
    {
        lock(&context.roster)
            .streams
            .retain(|other| other.handle != handle);
    }
    Ok(())
}

/// The stream, for a call that may be made to no capturing stream and, in most modes, during no capture.
fn outside_capture(call: &Call, stream: CUstream) -> Result<Target, CuError> {
    let target = order::target(stream, call.lane)?;
    capture::not_capturing(&target.stream)?;
    if target.stream.role == Role::Legacy {
        capture::legacy_work(target.context.handle)?;
    }
    capture::unsafe_call()?;
    Ok(target)
}

fn query(call: &Call, stream: CUstream) -> Answer {
    let target = outside_capture(call, stream)?;
    let busy = target.stream.busy();
    target.context.healthy()?;
    if busy {
        Err(CuError::NOT_READY)
    } else {
        Ok(())
    }
}

fn synchronize(call: &Call, stream: CUstream) -> Answer {
    let target = outside_capture(call, stream)?;
    target.stream.drain();
    target.context.healthy()
}

fn wait_event(call: &Call, stream: CUstream, event: CUevent, _flags: u32) -> Answer {
    let target = order::target(stream, call.lane)?;
    let event = machine()?.events.get(event)?;
    match (event.state(), capture::of(&target.stream)) {
        (
            State::Captured {
                capture,
                stream: recorded_in,
                steps,
            },
            here,
        ) => {
            let theirs = capture::find(capture).ok_or(CuError::INVALID_VALUE)?;
            match here {
                Some(here) if here.id != capture => {
                    theirs.invalidate();
                    here.invalidate();
                    return Err(CuError::CAPTURE_MERGE);
                }
                Some(_) => {}
                None if target.stream.role == Role::Legacy => {
                    theirs.invalidate();
                    return Err(CuError::CAPTURE_IMPLICIT);
                }
                None => theirs.join(&target.stream),
            }
            theirs.waited_for(recorded_in, steps);
            Ok(())
        }
        (State::Recorded(_), Some(here)) => {
            here.invalidate();
            Err(CuError::CAPTURE_ISOLATION)
        }
        (State::Recorded(mark), None) => target.submit(Op::Wait(mark)).map(|_| ()),
        (State::Never, _) => Ok(()),
    }
}

fn get_flags(call: &Call, stream: CUstream, flags: Out<u32>) -> Answer {
    flags.put(order::target(stream, call.lane)?.stream.flags)
}

fn get_priority(call: &Call, stream: CUstream, priority: Out<i32>) -> Answer {
    priority.put(order::target(stream, call.lane)?.stream.priority)
}

fn get_ctx(call: &Call, stream: CUstream, ctx: Out<CUcontext>) -> Answer {
    ctx.put(order::target(stream, call.lane)?.context.handle)
}

fn get_id(call: &Call, stream: CUstream, id: Out<u64>) -> Answer {
    id.put(order::target(stream, call.lane)?.stream.id)
}

fn get_device(call: &Call, stream: CUstream, device: Out<i32>) -> Answer {
    let on = order::target(stream, call.lane)?.context.device;
    device.put(i32::try_from(on).map_err(|_| CuError::INVALID_DEVICE)?)
}
