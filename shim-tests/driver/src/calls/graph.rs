//! Graphs: made executable, launched, changed, destroyed.

use crate::arg::{In, Out};
use crate::capture;
use crate::context;
use crate::cuda::{Answer, CUgraph, CUgraphExec, CUgraphNode, CUstream, CuError, Handle};
use crate::gate::Call;
use crate::graph::{Exec, Graph};
use crate::machine::machine;
use crate::op::Op;
use crate::order;
use crate::table::driver_calls;
use std::sync::Mutex;

driver_calls! {
    "cuGraphInstantiate" instantiate_v1(exec: Out<CUgraphExec>, graph: CUgraph, node: Out<CUgraphNode>, log: Out<u8>, log_bytes: usize) {
        cuGraphInstantiate: 10000 Legacy, cuGraphInstantiate_v2: 11000 Legacy }
    "cuGraphInstantiateWithFlags" instantiate(exec: Out<CUgraphExec>, graph: CUgraph, flags: u64) { cuGraphInstantiateWithFlags: 11040 Legacy }
    "cuGraphInstantiateWithParams" instantiate_with_params(exec: Out<CUgraphExec>, graph: CUgraph, params: In<u64>) {
        cuGraphInstantiateWithParams: 12000 Legacy, cuGraphInstantiateWithParams_ptsz: 12000 PerThread }
    "cuGraphUpload" upload(exec: CUgraphExec, stream: CUstream) { cuGraphUpload: 11010 Legacy, cuGraphUpload_ptsz: 11010 PerThread }
    "cuGraphLaunch" launch(exec: CUgraphExec, stream: CUstream) { cuGraphLaunch: 10000 Legacy, cuGraphLaunch_ptsz: 10000 PerThread }
    "cuGraphExecUpdate" update_v1(exec: CUgraphExec, graph: CUgraph, node: Out<CUgraphNode>, result: Out<u32>) { cuGraphExecUpdate: 10020 Legacy }
    "cuGraphExecUpdate" update(exec: CUgraphExec, graph: CUgraph, result: Out<UpdateResult>) { cuGraphExecUpdate_v2: 12000 Legacy }
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
    node.put_if_given(Handle::NULL);
    instantiate(call, exec, graph, 0)
}

fn instantiate(_: &Call, exec: Out<CUgraphExec>, graph: CUgraph, _flags: u64) -> Answer {
    context::current()?;
    exec.required()?;
    let graph = machine()?
        .graphs
        .get(graph)
        .map_err(|_| CuError::INVALID_VALUE)?;
    exec.put(machine()?.execs.add(Exec {
        nodes: Mutex::new(graph.ops()?),
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

/// In a stream that captures, the graph becomes a node of the other.
fn launch(call: &Call, exec: CUgraphExec, stream: CUstream) -> Answer {
    let steps = machine()?
        .execs
        .get(exec)
        .map_err(|_| CuError::INVALID_VALUE)?
        .steps();
    let target = order::target(stream, call.lane)?;
    let op = match capture::of(&target.stream) {
        Some(_) => Op::Child(steps),
        None => Op::Steps(steps),
    };
    target.submit(op).map(|_| ())
}

/// `CUgraphExecUpdateResultInfo`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct UpdateResult {
    result: u32,
    node: CUgraphNode,
    from: CUgraphNode,
}

fn update(_: &Call, exec: CUgraphExec, graph: CUgraph, result: Out<UpdateResult>) -> Answer {
    change(exec, graph, |number| {
        result.put(UpdateResult {
            result: number,
            node: Handle::NULL,
            from: Handle::NULL,
        })
    })
}

fn update_v1(
    _: &Call,
    exec: CUgraphExec,
    graph: CUgraph,
    node: Out<CUgraphNode>,
    result: Out<u32>,
) -> Answer {
    node.put_if_given(Handle::NULL);
    change(exec, graph, |number| result.put(number))
}

fn change(exec: CUgraphExec, graph: CUgraph, say: impl Fn(u32) -> Answer) -> Answer {
    let machine = machine()?;
    let unknown = |_| CuError::INVALID_VALUE;
    let exec = machine.execs.get(exec).map_err(unknown)?;
    let graph = machine.graphs.get(graph).map_err(unknown)?;
    match exec.update(graph.ops()?) {
        Ok(()) => say(0),
        Err(number) => {
            say(number)?;
            Err(CuError::GRAPH_EXEC_UPDATE_FAILURE)
        }
    }
}

fn exec_destroy(_: &Call, exec: CUgraphExec) -> Answer {
    machine()?
        .execs
        .remove(exec)
        .map(|_| ())
        .map_err(|_| CuError::INVALID_VALUE)
}

fn destroy(_: &Call, graph: CUgraph) -> Answer {
    Graph::destroy(graph).map_err(|_| CuError::INVALID_VALUE)
}
