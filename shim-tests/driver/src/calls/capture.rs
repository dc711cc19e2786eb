//! Stream capture.

use crate::arg::Out;
use crate::capture::{self, Mode};
use crate::cuda::{Answer, CUgraph, CUstream, CuError, Handle};
use crate::gate::Call;
use crate::graph::Graph;
use crate::machine::machine;
use crate::order;
use crate::stream::Role;
use crate::table::driver_calls;

driver_calls! {
    "cuStreamBeginCapture" begin_v1(stream: CUstream) { cuStreamBeginCapture: 10000 Legacy, cuStreamBeginCapture_ptsz: 10000 PerThread }
    "cuStreamBeginCapture" begin(stream: CUstream, mode: i32) {
        cuStreamBeginCapture_v2: 10010 Legacy, cuStreamBeginCapture_v2_ptsz: 10010 PerThread }
    "cuStreamEndCapture" end(stream: CUstream, graph: Out<CUgraph>) {
        cuStreamEndCapture: 10000 Legacy, cuStreamEndCapture_ptsz: 10000 PerThread }
    "cuStreamIsCapturing" is_capturing(stream: CUstream, status: Out<i32>) {
        cuStreamIsCapturing: 10000 Legacy, cuStreamIsCapturing_ptsz: 10000 PerThread }
    "cuStreamGetCaptureInfo" info_v1(stream: CUstream, status: Out<i32>, id: Out<u64>) {
        cuStreamGetCaptureInfo: 10010 Legacy, cuStreamGetCaptureInfo_ptsz: 10010 PerThread }
    "cuStreamGetCaptureInfo" info_v2(stream: CUstream, status: Out<i32>, id: Out<u64>, graph: Out<CUgraph>, nodes: Out<usize>, count: Out<usize>) {
        cuStreamGetCaptureInfo_v2: 11030 Legacy, cuStreamGetCaptureInfo_v2_ptsz: 11030 PerThread }
    "cuStreamGetCaptureInfo" info_v3(stream: CUstream, status: Out<i32>, id: Out<u64>, graph: Out<CUgraph>, nodes: Out<usize>, edges: Out<usize>, count: Out<usize>) {
        cuStreamGetCaptureInfo_v3: 12030 Legacy, cuStreamGetCaptureInfo_v3_ptsz: 12030 PerThread }
    "cuThreadExchangeStreamCaptureMode" exchange_mode(mode: Out<i32>) { cuThreadExchangeStreamCaptureMode: 10010 Legacy }
}

fn begin_v1(call: &Call, stream: CUstream) -> Answer {
    begin(call, stream, 0)
}

fn begin(call: &Call, stream: CUstream, mode: i32) -> Answer {
    let mode = Mode::from_cuda(mode)?;
    let target = order::target(stream, call.lane)?;
    if target.stream.role == Role::Legacy {
        return Err(CuError::CAPTURE_UNSUPPORTED);
    }
    capture::begin(&target.stream, mode)
}

fn end(call: &Call, stream: CUstream, graph: Out<CUgraph>) -> Answer {
    graph.required()?;
    let target = order::target(stream, call.lane)?;
    graph.put(Handle::NULL)?;
    let steps = capture::end(&target.stream)?;
    graph.put(machine()?.graphs.add(Graph::of(steps)?))
}

fn is_capturing(call: &Call, stream: CUstream, status: Out<i32>) -> Answer {
    info_v1(call, stream, status, Out::at_address(0))
}

/// The legacy stream cannot be asked while it must not be used.
fn info_v1(call: &Call, stream: CUstream, status: Out<i32>, id: Out<u64>) -> Answer {
    status.required()?;
    let target = order::target(stream, call.lane)?;
    if target.stream.role == Role::Legacy && capture::forbids_legacy(target.context.handle) {
        return Err(CuError::CAPTURE_IMPLICIT);
    }
    match capture::of(&target.stream) {
        Some(capture) => {
            id.put_if_given(capture.id);
            status.put(capture.status())
        }
        None => status.put(0),
    }
}

/// The graph so far and its nodes are not offered: null and none.
fn info_v2(
    call: &Call,
    stream: CUstream,
    status: Out<i32>,
    id: Out<u64>,
    graph: Out<CUgraph>,
    nodes: Out<usize>,
    count: Out<usize>,
) -> Answer {
    info_v1(call, stream, status, id)?;
    graph.put_if_given(Handle::NULL);
    nodes.put_if_given(0);
    count.put_if_given(0);
    Ok(())
}

#[expect(clippy::too_many_arguments, reason = "CUDA's parameter list")]
fn info_v3(
    call: &Call,
    stream: CUstream,
    status: Out<i32>,
    id: Out<u64>,
    graph: Out<CUgraph>,
    nodes: Out<usize>,
    edges: Out<usize>,
    count: Out<usize>,
) -> Answer {
    info_v2(call, stream, status, id, graph, nodes, count)?;
    edges.put_if_given(0);
    Ok(())
}

fn exchange_mode(_: &Call, mode: Out<i32>) -> Answer {
    let wanted = Mode::from_cuda(mode.get()?)?;
    mode.put(capture::exchange_thread_mode(wanted).to_cuda())
}
