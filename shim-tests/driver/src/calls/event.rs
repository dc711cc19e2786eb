//! Events.

use crate::arg::Out;
use crate::capture;
use crate::context;
use crate::cuda::{Answer, CUevent, CUstream, CuError};
use crate::event::{Event, Mark, State};
use crate::gate::Call;
use crate::machine::machine;
use crate::op::Op;
use crate::order;
use crate::table::driver_calls;
use std::sync::{Arc, Mutex};
use std::time::Instant;

driver_calls! {
    "cuEventCreate" create(event: Out<CUevent>, flags: u32) { cuEventCreate: 2000 Legacy }
    "cuEventDestroy" destroy(event: CUevent) { cuEventDestroy: 2000 Legacy, cuEventDestroy_v2: 4000 Legacy }
    "cuEventRecord" record(event: CUevent, stream: CUstream) { cuEventRecord: 2000 Legacy, cuEventRecord_ptsz: 7000 PerThread }
    "cuEventRecordWithFlags" record_with_flags(event: CUevent, stream: CUstream, flags: u32) {
        cuEventRecordWithFlags: 11010 Legacy, cuEventRecordWithFlags_ptsz: 11010 PerThread }
    "cuEventQuery" query(event: CUevent) { cuEventQuery: 2000 Legacy }
    "cuEventSynchronize" synchronize(event: CUevent) { cuEventSynchronize: 2000 Legacy }
    "cuEventElapsedTime" elapsed(millis: Out<f32>, start: CUevent, end: CUevent) {
        cuEventElapsedTime: 2000 Legacy, cuEventElapsedTime_v2: 12080 Legacy }
}

/// `CU_EVENT_DISABLE_TIMING`
const NO_TIMING: u32 = 2;

fn create(_: &Call, out: Out<CUevent>, flags: u32) -> Answer {
    let context = context::current()?;
    out.required()?;
    if flags & !7 != 0 {
        return Err(CuError::INVALID_VALUE);
    }
    let event = Event {
        context: context.handle,
        timed: flags & NO_TIMING == 0,
        state: Mutex::new(State::Never),
    };
    out.put(machine()?.events.add(event))
}

fn destroy(_: &Call, event: CUevent) -> Answer {
    context::current()?;
    machine()?.events.remove(event).map(|_| ())
}

fn record(call: &Call, event: CUevent, stream: CUstream) -> Answer {
    let target = order::target(stream, call.lane)?;
    let event = machine()?.events.get(event)?;
    if event.context != target.context.handle {
        return Err(CuError::INVALID_HANDLE);
    }
    if let Some(capture) = capture::of(&target.stream) {
        let stream = target.stream.handle;
        event.set_state(State::Captured {
            capture: capture.id,
            stream,
            steps: capture.steps_of(stream),
        });
        return if capture.status() == 1 {
            Ok(())
        } else {
            Err(CuError::CAPTURE_INVALIDATED)
        };
    }
    let mark = Arc::new(Mark::default());
    target.submit(Op::Record(Arc::clone(&mark)))?;
    event.set_state(State::Recorded(mark));
    Ok(())
}

fn record_with_flags(call: &Call, event: CUevent, stream: CUstream, flags: u32) -> Answer {
    if flags > 1 {
        Err(CuError::INVALID_VALUE)
    } else {
        record(call, event, stream)
    }
}

/// The latest record, outside a capture; none if there never was one.
fn latest(event: CUevent) -> Result<Option<Arc<Mark>>, CuError> {
    context::current()?;
    match machine()?.events.get(event)?.state() {
        State::Captured { capture, .. } => {
            if let Some(capture) = capture::find(capture) {
                capture.invalidate();
            }
            Err(CuError::CAPTURED_EVENT)
        }
        State::Recorded(mark) => capture::unsafe_call().map(|()| Some(mark)),
        State::Never => capture::unsafe_call().map(|()| None),
    }
}

fn query(_: &Call, event: CUevent) -> Answer {
    match latest(event)? {
        Some(mark) if mark.reached().is_none() => Err(CuError::NOT_READY),
        _ => context::current().map(|_| ()),
    }
}

fn synchronize(_: &Call, event: CUevent) -> Answer {
    if let Some(mark) = latest(event)? {
        mark.wait();
    }
    context::current().map(|_| ())
}

fn elapsed(_: &Call, millis: Out<f32>, start: CUevent, end: CUevent) -> Answer {
    millis.required()?;
    let (start, end) = (time(start)?, time(end)?);
    let (start, end) = (
        start.ok_or(CuError::NOT_READY)?,
        end.ok_or(CuError::NOT_READY)?,
    );
    let forth = end.saturating_duration_since(start).as_secs_f32();
    let back = start.saturating_duration_since(end).as_secs_f32();
    millis.put((forth - back) * 1000.0)
}

/// When a timed event was reached; none while it is pending.
fn time(event: CUevent) -> Result<Option<Instant>, CuError> {
    context::current()?;
    let event = machine()?.events.get(event)?;
    match event.state() {
        State::Recorded(mark) if event.timed => Ok(mark.reached()),
        _ => Err(CuError::INVALID_HANDLE),
    }
}
