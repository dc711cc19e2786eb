//! What the driver tells of graphs' nodes.
#![expect(unsafe_code, reason = "reads structs that the driver has filled")]

use super::{
    Answer, get_child, get_copy, get_fill, get_kernel, get_kernel_v1, get_nodes, get_type,
};
use crate::cuda::{
    CUDA_KERNEL_NODE_PARAMS, CUDA_KERNEL_NODE_PARAMS_v1, CUDA_MEMCPY3D, CUDA_MEMSET_NODE_PARAMS,
    CUfunction, CUgraph, CUgraphNode, CUresult,
};
use std::ffi::c_void;
use std::mem::MaybeUninit;

/// `CU_GRAPH_NODE_TYPE_KERNEL`, `_MEMCPY`, `_MEMSET` and `_GRAPH`.
pub(crate) const KERNEL: u32 = 0;
pub(crate) const COPY: u32 = 1;
pub(crate) const FILL: u32 = 2;
pub(crate) const CHILD: u32 = 4;

/// What a kernel in a graph is called with. The parameters are in place until the node goes or is changed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kernel {
    pub(crate) function: CUfunction,
    pub(crate) params: *mut *mut c_void,
    pub(crate) extra: *mut *mut c_void,
}

impl Kernel {
    pub(crate) fn of(params: &CUDA_KERNEL_NODE_PARAMS) -> Self {
        let function = if params.func == CUfunction::NULL {
            params.kern
        } else {
            params.func
        };
        Self {
            function,
            params: params.kernelParams,
            extra: params.extra,
        }
    }

    pub(crate) fn of_v1(params: &CUDA_KERNEL_NODE_PARAMS_v1) -> Self {
        Self {
            function: params.func,
            params: params.kernelParams,
            extra: params.extra,
        }
    }
}

/// A struct for the driver to fill.
fn filled<T>(ask: impl FnOnce(*mut T) -> Answer<()>) -> Answer<T> {
    let mut room = MaybeUninit::<T>::zeroed();
    ask(room.as_mut_ptr())?;
    // SAFETY: the driver has filled it; and zeros, which it was made of, are a value of each struct that is asked for here.
    Ok(unsafe { room.assume_init() })
}

/// The nodes of a graph, if there are no more than `most`.
pub(crate) fn of(graph: CUgraph, most: usize) -> Answer<Vec<CUgraphNode>> {
    let mut count = 0;
    get_nodes(graph, std::ptr::null_mut(), &raw mut count)?;
    if count > most {
        return Err(CUresult::NOT_SUPPORTED);
    }
    let mut nodes = vec![CUgraphNode::NULL; count];
    if count > 0 {
        get_nodes(graph, nodes.as_mut_ptr(), &raw mut count)?;
        nodes.truncate(count);
    }
    Ok(nodes)
}

/// Of which kind a node is.
pub(crate) fn kind(node: CUgraphNode) -> Answer<u32> {
    let mut kind = 0;
    get_type(node, &raw mut kind)?;
    Ok(kind)
}

/// The graph that a node is.
pub(crate) fn child(node: CUgraphNode) -> Answer<CUgraph> {
    let mut graph = CUgraph::NULL;
    get_child(node, &raw mut graph)?;
    Ok(graph)
}

/// The kernel that a node launches. Drivers before CUDA 12 have the older form alone, and kernels of only one kind.
pub(crate) fn kernel(node: CUgraphNode) -> Answer<Kernel> {
    match filled(|params| get_kernel(node, params)) {
        Err(CUresult::NOT_FOUND | CUresult::NOT_SUPPORTED) => {
            filled(|params| get_kernel_v1(node, params)).map(|params| Kernel::of_v1(&params))
        }
        answer => answer.map(|params| Kernel::of(&params)),
    }
}

/// The copy that a node makes.
pub(crate) fn copy(node: CUgraphNode) -> Answer<CUDA_MEMCPY3D> {
    filled(|params| get_copy(node, params))
}

/// The fill that a node makes.
pub(crate) fn fill(node: CUgraphNode) -> Answer<CUDA_MEMSET_NODE_PARAMS> {
    filled(|params| get_fill(node, params))
}
