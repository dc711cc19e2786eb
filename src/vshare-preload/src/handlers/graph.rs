//! Graphs: made executable, changed, launched, destroyed.
#![expect(unsafe_code, reason = "reads what nodes are changed to")]

use crate::cuda::{
    CUDA_KERNEL_NODE_PARAMS, CUDA_KERNEL_NODE_PARAMS_v1, CUDA_MEMCPY_NODE_PARAMS, CUDA_MEMCPY3D,
    CUDA_MEMSET_NODE_PARAMS, CUcontext, CUgraph, CUgraphExec, CUgraphNode, CUgraphNodeParams,
    CUresult, CUstream,
};
use crate::driver::nodes::{self, Kernel};
use crate::graphs::{self, Names};
use crate::guard::Real;
use crate::report;
use crate::symbols::Entry;
use crate::touches::Touches;
use crate::work::submit;
use std::ffi::{c_char, c_void};

pub(crate) fn instantiate(
    _entry: Entry,
    real: Real<'_>,
    exec: *mut CUgraphExec,
    graph: CUgraph,
    _node: *mut CUgraphNode,
    _log: *mut c_char,
    _log_bytes: usize,
) -> CUresult {
    instantiating(exec, graph, real)
}

pub(crate) fn instantiate_with_flags(
    _entry: Entry,
    real: Real<'_>,
    exec: *mut CUgraphExec,
    graph: CUgraph,
    _flags: u64,
) -> CUresult {
    instantiating(exec, graph, real)
}

pub(crate) fn instantiate_with_params(
    _entry: Entry,
    real: Real<'_>,
    exec: *mut CUgraphExec,
    graph: CUgraph,
    _params: *mut c_void,
) -> CUresult {
    instantiating(exec, graph, real)
}

fn instantiating(exec: *mut CUgraphExec, graph: CUgraph, real: Real<'_>) -> CUresult {
    let result = real.call();
    if result == CUresult::SUCCESS && !exec.is_null() {
        // SAFETY: the driver has just put the handle there.
        graphs::instantiated(unsafe { exec.read_unaligned() }, graph);
    }
    result
}

/// It is forgotten before it goes: afterwards its handle may be another's.
pub(crate) fn exec_destroy(_entry: Entry, real: Real<'_>, exec: CUgraphExec) -> CUresult {
    graphs::forget(exec);
    real.call()
}

pub(crate) fn exec_update_v1(
    _entry: Entry,
    real: Real<'_>,
    exec: CUgraphExec,
    graph: CUgraph,
    _node: *mut CUgraphNode,
    _update: *mut u32,
) -> CUresult {
    updating(exec, graph, real)
}

pub(crate) fn exec_update(
    _entry: Entry,
    real: Real<'_>,
    exec: CUgraphExec,
    graph: CUgraph,
    _update: *mut c_void,
) -> CUresult {
    updating(exec, graph, real)
}

fn updating(exec: CUgraphExec, graph: CUgraph, real: Real<'_>) -> CUresult {
    let result = real.call();
    graphs::updated(exec, graph, result == CUresult::SUCCESS);
    result
}

pub(crate) fn exec_kernel_node_set_params_v1(
    _entry: Entry,
    real: Real<'_>,
    exec: CUgraphExec,
    node: CUgraphNode,
    params: *const CUDA_KERNEL_NODE_PARAMS_v1,
) -> CUresult {
    setting(exec, node, real, || {
        // SAFETY: the driver has just read the struct, too; a null one it refuses.
        let params = unsafe { params.as_ref() }?;
        Some(Names::of_kernel(Kernel::of_v1(params)))
    })
}

pub(crate) fn exec_kernel_node_set_params(
    _entry: Entry,
    real: Real<'_>,
    exec: CUgraphExec,
    node: CUgraphNode,
    params: *const CUDA_KERNEL_NODE_PARAMS,
) -> CUresult {
    setting(exec, node, real, || kernel(params))
}

pub(crate) fn exec_memcpy_node_set_params(
    _entry: Entry,
    real: Real<'_>,
    exec: CUgraphExec,
    node: CUgraphNode,
    params: *const CUDA_MEMCPY3D,
    _context: CUcontext,
) -> CUresult {
    setting(exec, node, real, || {
        // SAFETY: as for kernels.
        unsafe { params.as_ref() }.map(Names::of_copy)
    })
}

pub(crate) fn exec_memset_node_set_params(
    _entry: Entry,
    real: Real<'_>,
    exec: CUgraphExec,
    node: CUgraphNode,
    params: *const CUDA_MEMSET_NODE_PARAMS,
    _context: CUcontext,
) -> CUresult {
    setting(exec, node, real, || fill(params))
}

pub(crate) fn exec_child_graph_node_set_params(
    _entry: Entry,
    real: Real<'_>,
    exec: CUgraphExec,
    node: CUgraphNode,
    child: CUgraph,
) -> CUresult {
    setting(exec, node, real, || Names::of_graph(child))
}

pub(crate) fn exec_node_set_params(
    _entry: Entry,
    real: Real<'_>,
    exec: CUgraphExec,
    node: CUgraphNode,
    params: *mut CUgraphNodeParams,
) -> CUresult {
    setting(exec, node, real, || {
        // SAFETY: as for kernels.
        let given = unsafe { params.as_ref() }?;
        let of_kind = (&raw const given.__bindgen_anon_1).cast::<c_void>();
        match given.type_ {
            nodes::KERNEL => kernel(of_kind.cast()),
            nodes::COPY => {
                // SAFETY: the kind says that this is what stands here.
                let copy = unsafe { of_kind.cast::<CUDA_MEMCPY_NODE_PARAMS>().as_ref() }?;
                Some(Names::of_copy(&copy.copyParams))
            }
            // What newer structs add comes behind.
            nodes::FILL => fill(of_kind.cast()),
            // SAFETY: the kind says that a handle stands here first.
            nodes::CHILD => Names::of_graph(unsafe { of_kind.cast::<CUgraph>().read() }),
            _ => Some(Names::default()),
        }
    })
}

fn kernel(params: *const CUDA_KERNEL_NODE_PARAMS) -> Option<Names> {
    // SAFETY: the driver has just read the struct, too; a null one it refuses.
    let params = unsafe { params.as_ref() }?;
    Some(Names::of_kernel(Kernel::of(params)))
}

fn fill(params: *const CUDA_MEMSET_NODE_PARAMS) -> Option<Names> {
    // SAFETY: as for kernels.
    unsafe { params.as_ref() }.map(Names::of_fill)
}

/// A node is changed; `names`: what it names then, or `None` if that cannot be kept.
fn setting(
    exec: CUgraphExec,
    node: CUgraphNode,
    real: Real<'_>,
    names: impl FnOnce() -> Option<Names>,
) -> CUresult {
    let result = real.call();
    if result == CUresult::SUCCESS {
        match graphs::outside_captures(names) {
            Some(names) => graphs::set(exec, node, names),
            None => graphs::forget(exec),
        }
    }
    result
}

pub(crate) fn launch(
    entry: Entry,
    real: Real<'_>,
    exec: CUgraphExec,
    stream: CUstream,
) -> CUresult {
    report::add(report::GRAPH_LAUNCHES, 1);
    submit(entry, stream, Touches::Graph(exec), real)
}
