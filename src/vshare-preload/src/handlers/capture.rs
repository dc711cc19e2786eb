//! Streams that record a graph instead of running.

use crate::captures::Beginning;
use crate::cuda::{CUcontext, CUgraph, CUgraphNode, CUresult, CUstream, CUstreamCaptureMode};
use crate::guard::Real;
use crate::streams::Key;
use crate::symbols::Entry;
use crate::{arenas, captures, driver, streams};
use std::ffi::c_void;

pub(crate) fn stream_begin_capture_v1(entry: Entry, real: Real<'_>, stream: CUstream) -> CUresult {
    begin(entry, stream, real)
}

pub(crate) fn stream_begin_capture(
    entry: Entry,
    real: Real<'_>,
    stream: CUstream,
    _mode: CUstreamCaptureMode,
) -> CUresult {
    begin(entry, stream, real)
}

#[expect(clippy::too_many_arguments, reason = "as the driver has them")]
pub(crate) fn stream_begin_capture_to_graph(
    entry: Entry,
    real: Real<'_>,
    stream: CUstream,
    _graph: CUgraph,
    _dependencies: *const CUgraphNode,
    _edges: *const c_void,
    _count: usize,
    _mode: CUstreamCaptureMode,
) -> CUresult {
    begin(entry, stream, real)
}

pub(crate) fn stream_end_capture(
    entry: Entry,
    real: Real<'_>,
    stream: CUstream,
    _graph: *mut CUgraph,
) -> CUresult {
    let result = real.call();
    // One that fails may have ended the capture, or not: a thread may have no right to end it.
    if captures::any() && !captures::takes(stream) {
        captures::ended(Key::of(entry.null_stream, stream));
    }
    result
}

fn begin(entry: Entry, stream: CUstream, real: Real<'_>) -> CUresult {
    let _beginning = Beginning::new();
    if arenas::any() {
        streams::leave_for_capture();
    }
    let result = real.call();
    if result == CUresult::SUCCESS {
        let key = Key::of(entry.null_stream, stream);
        let context = driver::stream_context(stream).or_else(driver::current_context);
        captures::begun(key, context.unwrap_or(CUcontext::NULL));
    }
    result
}
