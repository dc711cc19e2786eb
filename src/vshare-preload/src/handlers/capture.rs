//! Streams that record a graph instead of running.

use crate::cuda::{CUgraph, CUgraphNode, CUresult, CUstream, CUstreamCaptureMode};
use crate::guard::Real;
use crate::symbols::Entry;
use crate::{arenas, captures, streams};
use std::ffi::c_void;

pub(crate) fn stream_begin_capture_v1(
    _entry: Entry,
    real: Real<'_>,
    _stream: CUstream,
) -> CUresult {
    begin(real)
}

pub(crate) fn stream_begin_capture(
    _entry: Entry,
    real: Real<'_>,
    _stream: CUstream,
    _mode: CUstreamCaptureMode,
) -> CUresult {
    begin(real)
}

#[expect(clippy::too_many_arguments, reason = "as the driver has them")]
pub(crate) fn stream_begin_capture_to_graph(
    _entry: Entry,
    real: Real<'_>,
    _stream: CUstream,
    _graph: CUgraph,
    _dependencies: *const CUgraphNode,
    _edges: *const c_void,
    _count: usize,
    _mode: CUstreamCaptureMode,
) -> CUresult {
    begin(real)
}

pub(crate) fn stream_end_capture(
    _entry: Entry,
    real: Real<'_>,
    stream: CUstream,
    _graph: *mut CUgraph,
) -> CUresult {
    // A stream that captures nothing is refused, and ends nothing.
    let capturing = captures::takes(stream);
    let result = real.call();
    if capturing {
        captures::ended();
    }
    result
}

fn begin(real: Real<'_>) -> CUresult {
    if arenas::any() {
        streams::leave_for_capture();
    }
    let result = real.call();
    if result == CUresult::SUCCESS {
        captures::begun();
    }
    result
}
