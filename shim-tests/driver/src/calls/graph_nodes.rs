//! Nodes of graphs: added one by one, looked at, and changed in an executable graph. Nodes come after all that their graph has already,
//! so what they depend on is met and not looked at.

use super::shaped::Copy3d;
use super::{launch, set, set_rows, shaped};
use crate::arg::{In, Out};
use crate::context;
use crate::cuda::{
    Answer, CUcontext, CUdeviceptr, CUfunction, CUgraph, CUgraphExec, CUgraphNode, CUkernel,
    CuError, Handle,
};
use crate::gate::Call;
use crate::graph::{Graph, Node, Work};
use crate::handles::lock;
use crate::machine::machine;
use crate::op::{End, Op, Pattern};
use crate::table::driver_calls;
use std::sync::Arc;

driver_calls! {
    "cuGraphCreate" create(graph: Out<CUgraph>, flags: u32) { cuGraphCreate: 10000 Legacy }
    "cuGraphGetNodes" get_nodes(graph: CUgraph, nodes: Out<CUgraphNode>, count: Out<usize>) { cuGraphGetNodes: 10000 Legacy }
    "cuGraphNodeGetType" node_type(node: CUgraphNode, kind: Out<i32>) { cuGraphNodeGetType: 10000 Legacy }
    "cuGraphChildGraphNodeGetGraph" child(node: CUgraphNode, graph: Out<CUgraph>) { cuGraphChildGraphNodeGetGraph: 10000 Legacy }
    "cuGraphKernelNodeGetParams" kernel_v1(node: CUgraphNode, params: Out<Kernel>) { cuGraphKernelNodeGetParams: 10000 Legacy }
    "cuGraphKernelNodeGetParams" kernel(node: CUgraphNode, params: Out<KernelV2>) { cuGraphKernelNodeGetParams_v2: 12000 Legacy }
    "cuGraphMemcpyNodeGetParams" copy(node: CUgraphNode, params: Out<Copy3d>) { cuGraphMemcpyNodeGetParams: 10000 Legacy }
    "cuGraphMemsetNodeGetParams" fill(node: CUgraphNode, params: Out<Fill>) { cuGraphMemsetNodeGetParams: 10000 Legacy }
    "cuGraphAddEmptyNode" add_empty(node: Out<CUgraphNode>, graph: CUgraph, after: In<CUgraphNode>, count: usize) { cuGraphAddEmptyNode: 10000 Legacy }
    "cuGraphAddKernelNode" add_kernel(node: Out<CUgraphNode>, graph: CUgraph, after: In<CUgraphNode>, count: usize, params: In<KernelV2>) {
        cuGraphAddKernelNode_v2: 12000 Legacy }
    "cuGraphAddMemcpyNode" add_copy(node: Out<CUgraphNode>, graph: CUgraph, after: In<CUgraphNode>, count: usize, params: In<Copy3d>, context: CUcontext) {
        cuGraphAddMemcpyNode: 10000 Legacy }
    "cuGraphAddMemsetNode" add_fill(node: Out<CUgraphNode>, graph: CUgraph, after: In<CUgraphNode>, count: usize, params: In<Fill>, context: CUcontext) {
        cuGraphAddMemsetNode: 10000 Legacy }
    "cuGraphAddChildGraphNode" add_child(node: Out<CUgraphNode>, graph: CUgraph, after: In<CUgraphNode>, count: usize, child: CUgraph) {
        cuGraphAddChildGraphNode: 10000 Legacy }
    "cuGraphExecKernelNodeSetParams" set_kernel_v1(exec: CUgraphExec, node: CUgraphNode, params: In<Kernel>) {
        cuGraphExecKernelNodeSetParams: 10010 Legacy }
    "cuGraphExecKernelNodeSetParams" set_kernel(exec: CUgraphExec, node: CUgraphNode, params: In<KernelV2>) {
        cuGraphExecKernelNodeSetParams_v2: 12000 Legacy }
    "cuGraphExecMemcpyNodeSetParams" set_copy(exec: CUgraphExec, node: CUgraphNode, params: In<Copy3d>, context: CUcontext) {
        cuGraphExecMemcpyNodeSetParams: 10020 Legacy }
    "cuGraphExecMemsetNodeSetParams" set_fill(exec: CUgraphExec, node: CUgraphNode, params: In<Fill>, context: CUcontext) {
        cuGraphExecMemsetNodeSetParams: 10020 Legacy }
    "cuGraphExecChildGraphNodeSetParams" set_child(exec: CUgraphExec, node: CUgraphNode, child: CUgraph) {
        cuGraphExecChildGraphNodeSetParams: 11010 Legacy }
    "cuGraphExecNodeSetParams" set_any(exec: CUgraphExec, node: CUgraphNode, params: In<Header>) { cuGraphExecNodeSetParams: 12020 Legacy }
}

/// `CUDA_KERNEL_NODE_PARAMS_v1`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Kernel {
    function: CUfunction,
    dims: [u32; 6],
    shared: u32,
    params: usize,
    extra: usize,
}

/// `CUDA_KERNEL_NODE_PARAMS_v2`, and `_v3`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct KernelV2 {
    first: Kernel,
    kernel: CUkernel,
    context: CUcontext,
}

/// `CUDA_MEMSET_NODE_PARAMS`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Fill {
    to: CUdeviceptr,
    pitch: usize,
    value: u32,
    size: u32,
    width: usize,
    height: usize,
}

/// How `CUgraphNodeParams` begins. What follows is that of the kind.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Header {
    kind: i32,
    reserved: [i32; 3],
}

/// `CUDA_MEMCPY_NODE_PARAMS`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct CopyNode {
    flags: i32,
    reserved: i32,
    context: CUcontext,
    copy: Copy3d,
}

fn invalid<T>(_: T) -> CuError {
    CuError::INVALID_VALUE
}

fn graph_of(graph: CUgraph) -> Result<Arc<Graph>, CuError> {
    machine()?.graphs.get(graph).map_err(invalid)
}

fn node_of(node: CUgraphNode) -> Result<Arc<Node>, CuError> {
    machine()?.nodes.get(node).map_err(invalid)
}

fn create(_: &Call, graph: Out<CUgraph>, flags: u32) -> Answer {
    graph.required()?;
    if flags != 0 {
        return Err(CuError::INVALID_VALUE);
    }
    graph.put(machine()?.graphs.add(Graph::default()))
}

/// Without room for nodes it says how many there are; room that is left is filled with null.
fn get_nodes(_: &Call, graph: CUgraph, nodes: Out<CUgraphNode>, count: Out<usize>) -> Answer {
    let found = lock(&graph_of(graph)?.nodes).clone();
    if !nodes.is_null() {
        let room = count.get()?;
        for index in 0..room {
            let node = found.get(index).copied().unwrap_or(Handle::NULL);
            nodes.put_at(index, node)?;
        }
        return count.put(found.len().min(room));
    }
    count.put(found.len())
}

fn node_type(_: &Call, node: CUgraphNode, kind: Out<i32>) -> Answer {
    kind.put(node_of(node)?.kind())
}

fn child(_: &Call, node: CUgraphNode, graph: Out<CUgraph>) -> Answer {
    match node_of(node)?.work {
        Work::Child(child) => graph.put(child),
        Work::Op(_) => Err(CuError::INVALID_VALUE),
    }
}

/// The kernel comes back under the kind of handle by which it was named.
fn kernel(_: &Call, node: CUgraphNode, params: Out<KernelV2>) -> Answer {
    let node = node_of(node)?;
    let Work::Op(Op::Kernel { function, .. }) = node.work else {
        return Err(CuError::INVALID_VALUE);
    };
    let found = machine()?.functions.get(function)?;
    let by_kernel = found.context.is_null();
    let (function, kernel) = if by_kernel {
        (Handle::NULL, function)
    } else {
        (function, Handle::NULL)
    };
    params.put(KernelV2 {
        first: Kernel {
            function,
            dims: [1; 6],
            shared: 0,
            params: node.pointers.as_ptr().expose_provenance(),
            extra: 0,
        },
        kernel,
        context: found.context,
    })
}

fn kernel_v1(_: &Call, node: CUgraphNode, params: Out<Kernel>) -> Answer {
    let node = node_of(node)?;
    let Work::Op(Op::Kernel { function, .. }) = node.work else {
        return Err(CuError::INVALID_VALUE);
    };
    params.put(Kernel {
        function,
        dims: [1; 6],
        shared: 0,
        params: node.pointers.as_ptr().expose_provenance(),
        extra: 0,
    })
}

fn copy(_: &Call, node: CUgraphNode, params: Out<Copy3d>) -> Answer {
    let node = node_of(node)?;
    let (first, height) = match &node.work {
        Work::Op(Op::Steps(steps)) => (steps.first(), steps.len()),
        Work::Op(op) => (Some(op), 1),
        Work::Child(_) => (None, 0),
    };
    let Some(Op::Copy { to, from, bytes }) = first else {
        return Err(CuError::INVALID_VALUE);
    };
    let mut found = Copy3d {
        width: *bytes,
        height,
        depth: 1,
        ..Copy3d::default()
    };
    for (end, place) in [(to, &mut found.to), (from, &mut found.from)] {
        match end {
            End::Tracked(start) => (place.kind, place.device) = (4, *start),
            End::Pageable(start) => (place.kind, place.host) = (1, *start),
            End::Staged(_) => return Err(CuError::UNKNOWN),
        }
    }
    params.put(found)
}

fn fill(_: &Call, node: CUgraphNode, params: Out<Fill>) -> Answer {
    let node = node_of(node)?;
    let (first, height) = match &node.work {
        Work::Op(Op::Steps(steps)) => (steps.first(), steps.len()),
        Work::Op(op) => (Some(op), 1),
        Work::Child(_) => (None, 0),
    };
    let Some(Op::Fill { to, pattern, count }) = first else {
        return Err(CuError::INVALID_VALUE);
    };
    let (value, size) = match pattern {
        Pattern::D8(value) => (u32::from(*value), 1),
        Pattern::D16(value) => (u32::from(*value), 2),
        Pattern::D32(value) => (*value, 4),
    };
    params.put(Fill {
        to: CUdeviceptr(*to),
        pitch: 0,
        value,
        size,
        width: *count,
        height,
    })
}

fn add(node: Out<CUgraphNode>, graph: CUgraph, op: impl FnOnce() -> Result<Op, CuError>) -> Answer {
    node.required()?;
    let graph = graph_of(graph)?;
    node.put(graph.add(op()?)?)
}

fn add_empty(
    _: &Call,
    node: Out<CUgraphNode>,
    graph: CUgraph,
    _after: In<CUgraphNode>,
    _count: usize,
) -> Answer {
    add(node, graph, || Ok(Op::Nothing))
}

fn add_kernel(
    _: &Call,
    node: Out<CUgraphNode>,
    graph: CUgraph,
    _after: In<CUgraphNode>,
    _count: usize,
    params: In<KernelV2>,
) -> Answer {
    add(node, graph, || kernel_op(params.get()?))
}

fn add_copy(
    _: &Call,
    node: Out<CUgraphNode>,
    graph: CUgraph,
    _after: In<CUgraphNode>,
    _count: usize,
    params: In<Copy3d>,
    _context: CUcontext,
) -> Answer {
    add(node, graph, || shaped::work(&params.get()?))
}

fn add_fill(
    _: &Call,
    node: Out<CUgraphNode>,
    graph: CUgraph,
    _after: In<CUgraphNode>,
    _count: usize,
    params: In<Fill>,
    _context: CUcontext,
) -> Answer {
    add(node, graph, || fill_op(params.get()?))
}

fn add_child(
    _: &Call,
    node: Out<CUgraphNode>,
    graph: CUgraph,
    _after: In<CUgraphNode>,
    _count: usize,
    child: CUgraph,
) -> Answer {
    add(node, graph, || graph_of(child)?.as_child())
}

/// A function, or where there is none a kernel.
fn kernel_op(params: KernelV2) -> Result<Op, CuError> {
    let KernelV2 { first, kernel, .. } = params;
    let function = if first.function.is_null() {
        kernel
    } else {
        first.function
    };
    let (params, extra) = (In::at_address(first.params), In::at_address(first.extra));
    launch::work(&*context::current()?, function, first.dims, params, extra)
}

fn fill_op(params: Fill) -> Result<Op, CuError> {
    let value = params.value.to_le_bytes();
    let pattern = match params.size {
        1 => Pattern::D8(value[0]),
        2 => Pattern::D16(u16::from_le_bytes([value[0], value[1]])),
        4 => Pattern::D32(params.value),
        _ => return Err(CuError::INVALID_VALUE),
    };
    match params.height {
        1 => set::work(params.to, pattern, params.width).map(|(op, _)| op),
        height => set_rows::work(params.to, params.pitch, pattern, (params.width, height)),
    }
}

fn change(exec: CUgraphExec, node: CUgraphNode, op: Op) -> Answer {
    machine()?.execs.get(exec).map_err(invalid)?.set(node, op)
}

fn set_kernel_v1(_: &Call, exec: CUgraphExec, node: CUgraphNode, params: In<Kernel>) -> Answer {
    let params = KernelV2 {
        first: params.get()?,
        kernel: Handle::NULL,
        context: Handle::NULL,
    };
    change(exec, node, kernel_op(params)?)
}

fn set_kernel(_: &Call, exec: CUgraphExec, node: CUgraphNode, params: In<KernelV2>) -> Answer {
    change(exec, node, kernel_op(params.get()?)?)
}

fn set_copy(
    _: &Call,
    exec: CUgraphExec,
    node: CUgraphNode,
    params: In<Copy3d>,
    _context: CUcontext,
) -> Answer {
    change(exec, node, shaped::work(&params.get()?)?)
}

fn set_fill(
    _: &Call,
    exec: CUgraphExec,
    node: CUgraphNode,
    params: In<Fill>,
    _context: CUcontext,
) -> Answer {
    change(exec, node, fill_op(params.get()?)?)
}

fn set_child(_: &Call, exec: CUgraphExec, node: CUgraphNode, child: CUgraph) -> Answer {
    change(exec, node, graph_of(child)?.as_child()?)
}

fn set_any(_: &Call, exec: CUgraphExec, node: CUgraphNode, params: In<Header>) -> Answer {
    let rest = params.address() + size_of::<Header>();
    let op = match params.get()?.kind {
        0 => kernel_op(In::at_address(rest).get()?)?,
        1 => shaped::work(&In::<CopyNode>::at_address(rest).get()?.copy)?,
        2 => fill_op(In::at_address(rest).get()?)?,
        4 => graph_of(In::at_address(rest).get()?)?.as_child()?,
        _ => return Err(CuError::NOT_SUPPORTED),
    };
    change(exec, node, op)
}
