//! Graphs that came from a capture: made executable, launched, destroyed.

use crate::arg::{In, Out};
use crate::context;
use crate::cuda::{Answer, CUgraph, CUgraphExec, CUgraphNode, CUstream, CuError};
use crate::gate::Call;
use crate::machine::machine;
use crate::module::Graph;
use crate::op::Op;
use crate::order;
use crate::table::driver_calls;
use std::sync::Arc;

driver_calls! {
    "cuGraphInstantiate" instantiate_v1(exec: Out<CUgraphExec>, graph: CUgraph, node: Out<CUgraphNode>, log: Out<u8>, log_bytes: usize) {
        cuGraphInstantiate: 10000 Legacy, cuGraphInstantiate_v2: 11000 Legacy }
    "cuGraphInstantiateWithFlags" instantiate(exec: Out<CUgraphExec>, graph: CUgraph, flags: u64) { cuGraphInstantiateWithFlags: 11040 Legacy }
    "cuGraphInstantiateWithParams" instantiate_with_params(exec: Out<CUgraphExec>, graph: CUgraph, params: In<u64>) {
        cuGraphInstantiateWithParams: 12000 Legacy, cuGraphInstantiateWithParams_ptsz: 12000 PerThread }
    "cuGraphUpload" upload(exec: CUgraphExec, stream: CUstream) { cuGraphUpload: 11010 Legacy, cuGraphUpload_ptsz: 11010 PerThread }
    "cuGraphLaunch" launch(exec: CUgraphExec, stream: CUstream) { cuGraphLaunch: 10000 Legacy, cuGraphLaunch_ptsz: 10000 PerThread }
    "cuGraphExecDestroy" exec_destroy(exec: CUgraphExec) { cuGraphExecDestroy: 10000 Legacy }
    "cuGraphDestroy" destroy(graph: CUgraph) { cuGraphDestroy: 10000 Legacy }
}

fn instantiate_v1(
    call: &Call,
    exec: Out<CUgraphExec>,
    graph: CUgraph,
    node: Out<CUgraphNode>,
    _log: Out<u8>,
    _log_bytes: usize,
) -> Answer {
    node.put_if_given(crate::cuda::Handle::NULL);
    instantiate(call, exec, graph, 0)
}

fn instantiate(_: &Call, exec: Out<CUgraphExec>, graph: CUgraph, _flags: u64) -> Answer {
    context::current()?;
    exec.required()?;
    let graph = machine()?
        .graphs
        .get(graph)
        .map_err(|_| CuError::INVALID_VALUE)?;
    exec.put(machine()?.execs.add(Graph {
        steps: Arc::clone(&graph.steps),
    }))
}

fn instantiate_with_params(
    call: &Call,
    exec: Out<CUgraphExec>,
    graph: CUgraph,
    params: In<u64>,
) -> Answer {
    instantiate(call, exec, graph, params.get()?)
}

fn upload(call: &Call, exec: CUgraphExec, stream: CUstream) -> Answer {
    machine()?
        .execs
        .get(exec)
        .map_err(|_| CuError::INVALID_VALUE)?;
    order::target(stream, call.lane)?
        .submit(Op::Nothing)
        .map(|_| ())
}

fn launch(call: &Call, exec: CUgraphExec, stream: CUstream) -> Answer {
    let exec = machine()?
        .execs
        .get(exec)
        .map_err(|_| CuError::INVALID_VALUE)?;
    order::target(stream, call.lane)?
        .submit(Op::Steps(Arc::clone(&exec.steps)))
        .map(|_| ())
}

fn exec_destroy(_: &Call, exec: CUgraphExec) -> Answer {
    machine()?
        .execs
        .remove(exec)
        .map(|_| ())
        .map_err(|_| CuError::INVALID_VALUE)
}

fn destroy(_: &Call, graph: CUgraph) -> Answer {
    machine()?
        .graphs
        .remove(graph)
        .map(|_| ())
        .map_err(|_| CuError::INVALID_VALUE)
}
