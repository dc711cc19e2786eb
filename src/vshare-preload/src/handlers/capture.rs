//! Streams that record a graph instead of running.

use crate::captures;
use crate::cuda::{CUgraph, CUgraphNode, CUresult, CUstream, CUstreamCaptureMode};
use crate::guard::Real;
use crate::symbols::Entry;
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
    _stream: CUstream,
    _graph: *mut CUgraph,
) -> CUresult {
    let result = real.call();
    captures::ended();
    result
}

fn begin(real: Real<'_>) -> CUresult {
    let result = real.call();
    if result == CUresult::SUCCESS {
        captures::begun();
    }
    result
}
