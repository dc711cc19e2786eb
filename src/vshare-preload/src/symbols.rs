//! Every CUDA call we intercept, declared once.
//!
//! A row: policy, handler (file and function), exported names with what a null stream means in
//! each, arguments. Everything else about a symbol is generated from its row: the export, the
//! slot for the driver's function, the entry that the redirects and the tests read.
//!
//! A name means that very function of the driver: `cuMemAlloc` is the one with 32-bit addresses.
//! The same signature under another name is another name in the row; another signature is another
//! row.
#![expect(unsafe_code, reason = "declares the exported functions")]

use crate::cuda::{
    CUDA_ARRAY_DESCRIPTOR, CUDA_ARRAY3D_DESCRIPTOR, CUDA_KERNEL_NODE_PARAMS,
    CUDA_KERNEL_NODE_PARAMS_v1, CUDA_LAUNCH_PARAMS, CUDA_MEMCPY2D, CUDA_MEMCPY3D,
    CUDA_MEMCPY3D_BATCH_OP, CUDA_MEMCPY3D_PEER, CUDA_MEMSET_NODE_PARAMS, CUarray, CUcontext,
    CUdevice, CUdeviceptr, CUfunction, CUgraph, CUgraphExec, CUgraphNode, CUgraphNodeParams,
    CUhostFn, CUlaunchConfig, CUlibrary, CUmemAllocationHandleType, CUmemAllocationProp,
    CUmemGenericAllocationHandle, CUmemLocation, CUmemPool_attribute, CUmemPoolProps,
    CUmemcpyAttributes, CUmemoryPool, CUmipmappedArray, CUmodule, CUpointer_attribute, CUresult,
    CUstream, CUstreamCaptureMode, NullStream,
};
use crate::{guard, handlers, process, redirect};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

/// How deeply we meddle with a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Policy {
    /// May answer without the driver, ask it for something else, or change what it answered.
    Replace,
    /// Passes through, and is taken note of.
    Observe,
}

macro_rules! cuda_symbols {
    ($expand:ident) => {
        $expand! {
            // How programs find the others.
            Replace lookup::get_proc_address [cuGetProcAddress: Legacy]
                (symbol: *const c_char, pfn: *mut *mut c_void, version: c_int, flags: u64);
            Replace lookup::get_proc_address_v2 [cuGetProcAddress_v2: Legacy]
                (symbol: *const c_char, pfn: *mut *mut c_void, version: c_int, flags: u64, status: *mut c_int);

            // Device memory.
            Replace alloc::mem_alloc [cuMemAlloc_v2: Legacy]
                (dptr: *mut CUdeviceptr, bytes: usize);
            Replace alloc::mem_alloc_pitch [cuMemAllocPitch_v2: Legacy]
                (dptr: *mut CUdeviceptr, pitch: *mut usize, width: usize, height: usize, element: u32);
            Replace alloc::mem_alloc_managed [cuMemAllocManaged: Legacy]
                (dptr: *mut CUdeviceptr, bytes: usize, flags: u32);
            Replace alloc::mem_free [cuMemFree_v2: Legacy]
                (dptr: CUdeviceptr);
            Replace alloc::mem_create [cuMemCreate: Legacy]
                (handle: *mut CUmemGenericAllocationHandle, bytes: usize, prop: *const CUmemAllocationProp, flags: u64);
            Replace alloc::mem_release [cuMemRelease: Legacy]
                (handle: CUmemGenericAllocationHandle);
            Replace alloc::array_create [cuArrayCreate_v2: Legacy]
                (array: *mut CUarray, descriptor: *const CUDA_ARRAY_DESCRIPTOR);
            Replace alloc::array_3d_create [cuArray3DCreate_v2: Legacy]
                (array: *mut CUarray, descriptor: *const CUDA_ARRAY3D_DESCRIPTOR);
            Replace alloc::array_destroy [cuArrayDestroy: Legacy]
                (array: CUarray);
            Replace alloc::mipmapped_array_create [cuMipmappedArrayCreate: Legacy]
                (array: *mut CUmipmappedArray, descriptor: *const CUDA_ARRAY3D_DESCRIPTOR, levels: u32);
            Replace alloc::mipmapped_array_destroy [cuMipmappedArrayDestroy: Legacy]
                (array: CUmipmappedArray);

            // Device memory with 32-bit addresses, from before CUDA 3.2.
            Observe alloc::mem_alloc_v1 [cuMemAlloc: Legacy]
                (dptr: *mut u32, bytes: u32);
            Observe alloc::mem_alloc_pitch_v1 [cuMemAllocPitch: Legacy]
                (dptr: *mut u32, pitch: *mut u32, width: u32, height: u32, element: u32);
            Observe alloc::mem_free_v1 [cuMemFree: Legacy]
                (dptr: u32);
            Observe query::mem_get_info_v1 [cuMemGetInfo: Legacy]
                (free: *mut u32, total: *mut u32);
            Observe query::device_total_mem_v1 [cuDeviceTotalMem: Legacy]
                (bytes: *mut u32, device: CUdevice);
            Observe query::mem_get_address_range_v1 [cuMemGetAddressRange: Legacy]
                (base: *mut u32, size: *mut u32, dptr: u32);

            // Stream-ordered memory.
            Replace stream_alloc::mem_alloc_async
                [cuMemAllocAsync: Legacy, cuMemAllocAsync_ptsz: PerThread]
                (dptr: *mut CUdeviceptr, bytes: usize, stream: CUstream);
            Replace stream_alloc::mem_alloc_from_pool_async
                [cuMemAllocFromPoolAsync: Legacy, cuMemAllocFromPoolAsync_ptsz: PerThread]
                (dptr: *mut CUdeviceptr, bytes: usize, pool: CUmemoryPool, stream: CUstream);
            Replace stream_alloc::mem_free_async
                [cuMemFreeAsync: Legacy, cuMemFreeAsync_ptsz: PerThread]
                (dptr: CUdeviceptr, stream: CUstream);

            // Pools.
            Replace pools::mem_pool_create [cuMemPoolCreate: Legacy]
                (pool: *mut CUmemoryPool, props: *const CUmemPoolProps);
            Replace pools::mem_pool_destroy [cuMemPoolDestroy: Legacy]
                (pool: CUmemoryPool);
            Replace pools::mem_pool_set_attribute [cuMemPoolSetAttribute: Legacy]
                (pool: CUmemoryPool, attribute: CUmemPool_attribute, value: *mut c_void);
            Replace pools::mem_pool_get_attribute [cuMemPoolGetAttribute: Legacy]
                (pool: CUmemoryPool, attribute: CUmemPool_attribute, value: *mut c_void);
            Replace pools::mem_pool_trim_to [cuMemPoolTrimTo: Legacy]
                (pool: CUmemoryPool, keep: usize);
            Observe pools::mem_pool_import_from_shareable_handle [cuMemPoolImportFromShareableHandle: Legacy]
                (pool: *mut CUmemoryPool, handle: *mut c_void, kind: CUmemAllocationHandleType, flags: u64);
            Observe pools::mem_pool_export_to_shareable_handle [cuMemPoolExportToShareableHandle: Legacy]
                (handle: *mut c_void, pool: CUmemoryPool, kind: CUmemAllocationHandleType, flags: u64);
            Observe pools::mem_pool_export_pointer [cuMemPoolExportPointer: Legacy]
                (data: *mut c_void, dptr: CUdeviceptr);
            Observe pools::device_set_mem_pool [cuDeviceSetMemPool: Legacy]
                (device: CUdevice, pool: CUmemoryPool);

            // What the program can learn about memory.
            Replace query::mem_get_info [cuMemGetInfo_v2: Legacy]
                (free: *mut usize, total: *mut usize);
            Replace query::device_total_mem [cuDeviceTotalMem_v2: Legacy]
                (bytes: *mut usize, device: CUdevice);
            Replace query::mem_get_address_range [cuMemGetAddressRange_v2: Legacy]
                (base: *mut CUdeviceptr, size: *mut usize, dptr: CUdeviceptr);
            Replace query::pointer_get_attribute [cuPointerGetAttribute: Legacy]
                (data: *mut c_void, attribute: CUpointer_attribute, dptr: CUdeviceptr);
            Replace query::pointer_get_attributes [cuPointerGetAttributes: Legacy]
                (count: u32, attributes: *mut CUpointer_attribute, data: *mut *mut c_void, dptr: CUdeviceptr);
            Replace query::ipc_get_mem_handle [cuIpcGetMemHandle: Legacy]
                (handle: *mut c_void, dptr: CUdeviceptr);

            // Host memory the device can reach.
            Observe host::mem_host_alloc [cuMemHostAlloc: Legacy]
                (pointer: *mut *mut c_void, bytes: usize, flags: u32);
            Observe host::mem_alloc_host [cuMemAllocHost_v2: Legacy]
                (pointer: *mut *mut c_void, bytes: usize);
            Observe host::mem_free_host [cuMemFreeHost: Legacy]
                (pointer: *mut c_void);
            Observe host::mem_host_register [cuMemHostRegister_v2: Legacy]
                (pointer: *mut c_void, bytes: usize, flags: u32);
            Observe host::mem_host_unregister [cuMemHostUnregister: Legacy]
                (pointer: *mut c_void);

            // Life and death of what memory belongs to.
            Observe context::init [cuInit: Legacy]
                (flags: u32);
            Observe context::ctx_destroy [cuCtxDestroy_v2: Legacy, cuCtxDestroy: Legacy]
                (context: CUcontext);
            Observe context::ctx_detach [cuCtxDetach: Legacy]
                (context: CUcontext);
            Observe context::device_primary_ctx_reset
                [cuDevicePrimaryCtxReset_v2: Legacy, cuDevicePrimaryCtxReset: Legacy]
                (device: CUdevice);
            Observe context::device_primary_ctx_release
                [cuDevicePrimaryCtxRelease_v2: Legacy, cuDevicePrimaryCtxRelease: Legacy]
                (device: CUdevice);
            Observe context::module_unload [cuModuleUnload: Legacy]
                (module: CUmodule);
            Observe context::library_unload [cuLibraryUnload: Legacy]
                (library: CUlibrary);
            Observe context::ctx_synchronize [cuCtxSynchronize: Legacy]
                ();
            Observe context::ctx_synchronize_v2 [cuCtxSynchronize_v2: Legacy]
                (context: CUcontext);

            // Streams.
            Observe other::stream_destroy [cuStreamDestroy_v2: Legacy, cuStreamDestroy: Legacy]
                (stream: CUstream);
            Observe other::stream_synchronize
                [cuStreamSynchronize: Legacy, cuStreamSynchronize_ptsz: PerThread]
                (stream: CUstream);

            // Capture.
            Observe capture::stream_begin_capture_v1
                [cuStreamBeginCapture: Legacy, cuStreamBeginCapture_ptsz: PerThread]
                (stream: CUstream);
            Observe capture::stream_begin_capture
                [cuStreamBeginCapture_v2: Legacy, cuStreamBeginCapture_v2_ptsz: PerThread]
                (stream: CUstream, mode: CUstreamCaptureMode);
            Observe capture::stream_begin_capture_to_graph
                [cuStreamBeginCaptureToGraph: Legacy, cuStreamBeginCaptureToGraph_ptsz: PerThread]
                (stream: CUstream, graph: CUgraph, dependencies: *const CUgraphNode, edges: *const c_void, count: usize, mode: CUstreamCaptureMode);
            Observe capture::stream_end_capture
                [cuStreamEndCapture: Legacy, cuStreamEndCapture_ptsz: PerThread]
                (stream: CUstream, graph: *mut CUgraph);

            // Kernels and host functions.
            Observe launch::launch_kernel [cuLaunchKernel: Legacy, cuLaunchKernel_ptsz: PerThread]
                (function: CUfunction,
                 grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32, block_z: u32,
                 shared: u32, stream: CUstream, params: *mut *mut c_void, extra: *mut *mut c_void);
            Observe launch::launch_kernel_ex [cuLaunchKernelEx: Legacy, cuLaunchKernelEx_ptsz: PerThread]
                (config: *const CUlaunchConfig, function: CUfunction, params: *mut *mut c_void, extra: *mut *mut c_void);
            Observe launch::launch_cooperative_kernel
                [cuLaunchCooperativeKernel: Legacy, cuLaunchCooperativeKernel_ptsz: PerThread]
                (function: CUfunction,
                 grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32, block_z: u32,
                 shared: u32, stream: CUstream, params: *mut *mut c_void);
            Observe launch::launch_host_func
                [cuLaunchHostFunc: Legacy, cuLaunchHostFunc_ptsz: PerThread]
                (stream: CUstream, function: CUhostFn, data: *mut c_void);
            Observe launch::stream_add_callback
                [cuStreamAddCallback: Legacy, cuStreamAddCallback_ptsz: PerThread]
                (stream: CUstream, callback: *const c_void, data: *mut c_void, flags: u32);
            Observe launch::launch_cooperative_kernel_multi_device
                [cuLaunchCooperativeKernelMultiDevice: Legacy]
                (launches: *mut CUDA_LAUNCH_PARAMS, count: u32, flags: u32);
            Observe launch::launch [cuLaunch: Legacy]
                (function: CUfunction);
            Observe launch::launch_grid [cuLaunchGrid: Legacy]
                (function: CUfunction, width: c_int, height: c_int);
            Observe launch::launch_grid_async [cuLaunchGridAsync: Legacy]
                (function: CUfunction, width: c_int, height: c_int, stream: CUstream);

            // Graphs.
            Observe graph::instantiate [cuGraphInstantiate: Legacy, cuGraphInstantiate_v2: Legacy]
                (exec: *mut CUgraphExec, graph: CUgraph, node: *mut CUgraphNode, log: *mut c_char, log_bytes: usize);
            Observe graph::instantiate_with_flags [cuGraphInstantiateWithFlags: Legacy]
                (exec: *mut CUgraphExec, graph: CUgraph, flags: u64);
            Observe graph::instantiate_with_params
                [cuGraphInstantiateWithParams: Legacy, cuGraphInstantiateWithParams_ptsz: PerThread]
                (exec: *mut CUgraphExec, graph: CUgraph, params: *mut c_void);
            Observe graph::exec_update_v1 [cuGraphExecUpdate: Legacy]
                (exec: CUgraphExec, graph: CUgraph, node: *mut CUgraphNode, update: *mut u32);
            Observe graph::exec_update [cuGraphExecUpdate_v2: Legacy]
                (exec: CUgraphExec, graph: CUgraph, update: *mut c_void);
            Observe graph::exec_kernel_node_set_params_v1 [cuGraphExecKernelNodeSetParams: Legacy]
                (exec: CUgraphExec, node: CUgraphNode, params: *const CUDA_KERNEL_NODE_PARAMS_v1);
            Observe graph::exec_kernel_node_set_params [cuGraphExecKernelNodeSetParams_v2: Legacy]
                (exec: CUgraphExec, node: CUgraphNode, params: *const CUDA_KERNEL_NODE_PARAMS);
            Observe graph::exec_memcpy_node_set_params [cuGraphExecMemcpyNodeSetParams: Legacy]
                (exec: CUgraphExec, node: CUgraphNode, params: *const CUDA_MEMCPY3D, context: CUcontext);
            Observe graph::exec_memset_node_set_params [cuGraphExecMemsetNodeSetParams: Legacy]
                (exec: CUgraphExec, node: CUgraphNode, params: *const CUDA_MEMSET_NODE_PARAMS, context: CUcontext);
            Observe graph::exec_child_graph_node_set_params [cuGraphExecChildGraphNodeSetParams: Legacy]
                (exec: CUgraphExec, node: CUgraphNode, child: CUgraph);
            Observe graph::exec_node_set_params [cuGraphExecNodeSetParams: Legacy]
                (exec: CUgraphExec, node: CUgraphNode, params: *mut CUgraphNodeParams);
            Observe graph::exec_destroy [cuGraphExecDestroy: Legacy]
                (exec: CUgraphExec);
            Observe graph::launch [cuGraphLaunch: Legacy, cuGraphLaunch_ptsz: PerThread]
                (exec: CUgraphExec, stream: CUstream);

            // Copies between any two addresses.
            Observe copy::memcpy [cuMemcpy: Legacy, cuMemcpy_ptds: PerThread]
                (dst: CUdeviceptr, src: CUdeviceptr, bytes: usize);
            Observe copy::memcpy_async [cuMemcpyAsync: Legacy, cuMemcpyAsync_ptsz: PerThread]
                (dst: CUdeviceptr, src: CUdeviceptr, bytes: usize, stream: CUstream);
            Observe copy::memcpy_peer [cuMemcpyPeer: Legacy, cuMemcpyPeer_ptds: PerThread]
                (dst: CUdeviceptr, dst_context: CUcontext, src: CUdeviceptr, src_context: CUcontext, bytes: usize);
            Observe copy::memcpy_peer_async [cuMemcpyPeerAsync: Legacy, cuMemcpyPeerAsync_ptsz: PerThread]
                (dst: CUdeviceptr, dst_context: CUcontext, src: CUdeviceptr, src_context: CUcontext, bytes: usize, stream: CUstream);

            // Copies between host and device.
            Observe copy::memcpy_htod [cuMemcpyHtoD_v2: Legacy, cuMemcpyHtoD_v2_ptds: PerThread]
                (dst: CUdeviceptr, src: *const c_void, bytes: usize);
            Observe copy::memcpy_dtoh [cuMemcpyDtoH_v2: Legacy, cuMemcpyDtoH_v2_ptds: PerThread]
                (dst: *mut c_void, src: CUdeviceptr, bytes: usize);
            Observe copy::memcpy [cuMemcpyDtoD_v2: Legacy, cuMemcpyDtoD_v2_ptds: PerThread]
                (dst: CUdeviceptr, src: CUdeviceptr, bytes: usize);
            Observe copy::memcpy_htod_async
                [cuMemcpyHtoDAsync_v2: Legacy, cuMemcpyHtoDAsync_v2_ptsz: PerThread]
                (dst: CUdeviceptr, src: *const c_void, bytes: usize, stream: CUstream);
            Observe copy::memcpy_dtoh_async
                [cuMemcpyDtoHAsync_v2: Legacy, cuMemcpyDtoHAsync_v2_ptsz: PerThread]
                (dst: *mut c_void, src: CUdeviceptr, bytes: usize, stream: CUstream);
            Observe copy::memcpy_async
                [cuMemcpyDtoDAsync_v2: Legacy, cuMemcpyDtoDAsync_v2_ptsz: PerThread]
                (dst: CUdeviceptr, src: CUdeviceptr, bytes: usize, stream: CUstream);

            // Copies to and from arrays.
            Observe copy::memcpy_dtoa [cuMemcpyDtoA_v2: Legacy, cuMemcpyDtoA_v2_ptds: PerThread]
                (dst: CUarray, dst_offset: usize, src: CUdeviceptr, bytes: usize);
            Observe copy::memcpy_atod [cuMemcpyAtoD_v2: Legacy, cuMemcpyAtoD_v2_ptds: PerThread]
                (dst: CUdeviceptr, src: CUarray, src_offset: usize, bytes: usize);
            Observe copy::memcpy_htoa [cuMemcpyHtoA_v2: Legacy, cuMemcpyHtoA_v2_ptds: PerThread]
                (dst: CUarray, dst_offset: usize, src: *const c_void, bytes: usize);
            Observe copy::memcpy_atoh [cuMemcpyAtoH_v2: Legacy, cuMemcpyAtoH_v2_ptds: PerThread]
                (dst: *mut c_void, src: CUarray, src_offset: usize, bytes: usize);
            Observe copy::memcpy_atoa [cuMemcpyAtoA_v2: Legacy, cuMemcpyAtoA_v2_ptds: PerThread]
                (dst: CUarray, dst_offset: usize, src: CUarray, src_offset: usize, bytes: usize);
            Observe copy::memcpy_htoa_async
                [cuMemcpyHtoAAsync_v2: Legacy, cuMemcpyHtoAAsync_v2_ptsz: PerThread]
                (dst: CUarray, dst_offset: usize, src: *const c_void, bytes: usize, stream: CUstream);
            Observe copy::memcpy_atoh_async
                [cuMemcpyAtoHAsync_v2: Legacy, cuMemcpyAtoHAsync_v2_ptsz: PerThread]
                (dst: *mut c_void, src: CUarray, src_offset: usize, bytes: usize, stream: CUstream);

            // Copies described by a struct.
            Observe copy::memcpy_2d
                [cuMemcpy2D_v2: Legacy, cuMemcpy2D_v2_ptds: PerThread,
                 cuMemcpy2DUnaligned_v2: Legacy, cuMemcpy2DUnaligned_v2_ptds: PerThread]
                (copy: *const CUDA_MEMCPY2D);
            Observe copy::memcpy_2d_async
                [cuMemcpy2DAsync_v2: Legacy, cuMemcpy2DAsync_v2_ptsz: PerThread]
                (copy: *const CUDA_MEMCPY2D, stream: CUstream);
            Observe copy::memcpy_3d [cuMemcpy3D_v2: Legacy, cuMemcpy3D_v2_ptds: PerThread]
                (copy: *const CUDA_MEMCPY3D);
            Observe copy::memcpy_3d_async
                [cuMemcpy3DAsync_v2: Legacy, cuMemcpy3DAsync_v2_ptsz: PerThread]
                (copy: *const CUDA_MEMCPY3D, stream: CUstream);
            Observe copy::memcpy_3d_peer [cuMemcpy3DPeer: Legacy, cuMemcpy3DPeer_ptds: PerThread]
                (copy: *const CUDA_MEMCPY3D_PEER);
            Observe copy::memcpy_3d_peer_async
                [cuMemcpy3DPeerAsync: Legacy, cuMemcpy3DPeerAsync_ptsz: PerThread]
                (copy: *const CUDA_MEMCPY3D_PEER, stream: CUstream);

            // Copies in batches. CUDA 13 dropped the index of the copy that failed.
            Observe copy::memcpy_batch_async_v1
                [cuMemcpyBatchAsync: Legacy, cuMemcpyBatchAsync_ptsz: PerThread]
                (dsts: *mut CUdeviceptr, srcs: *mut CUdeviceptr, sizes: *mut usize, count: usize,
                 attributes: *mut CUmemcpyAttributes, attribute_starts: *mut usize, attribute_count: usize,
                 failed: *mut usize, stream: CUstream);
            Observe copy::memcpy_batch_async
                [cuMemcpyBatchAsync_v2: Legacy, cuMemcpyBatchAsync_v2_ptsz: PerThread]
                (dsts: *mut CUdeviceptr, srcs: *mut CUdeviceptr, sizes: *mut usize, count: usize,
                 attributes: *mut CUmemcpyAttributes, attribute_starts: *mut usize, attribute_count: usize,
                 stream: CUstream);
            Observe copy::memcpy_3d_batch_async_v1
                [cuMemcpy3DBatchAsync: Legacy, cuMemcpy3DBatchAsync_ptsz: PerThread]
                (count: usize, copies: *mut CUDA_MEMCPY3D_BATCH_OP, failed: *mut usize, flags: u64, stream: CUstream);
            Observe copy::memcpy_3d_batch_async
                [cuMemcpy3DBatchAsync_v2: Legacy, cuMemcpy3DBatchAsync_v2_ptsz: PerThread]
                (count: usize, copies: *mut CUDA_MEMCPY3D_BATCH_OP, flags: u64, stream: CUstream);

            // One copy with attributes, since CUDA 13.2.
            Observe copy::memcpy_with_attributes_async
                [cuMemcpyWithAttributesAsync: Legacy, cuMemcpyWithAttributesAsync_ptsz: PerThread]
                (dst: CUdeviceptr, src: CUdeviceptr, bytes: usize, attributes: *mut CUmemcpyAttributes,
                 stream: CUstream);
            Observe copy::memcpy_3d_with_attributes_async
                [cuMemcpy3DWithAttributesAsync: Legacy, cuMemcpy3DWithAttributesAsync_ptsz: PerThread]
                (copy: *mut CUDA_MEMCPY3D_BATCH_OP, flags: u64, stream: CUstream);

            // Decompression by the device.
            Observe copy::mem_batch_decompress_async
                [cuMemBatchDecompressAsync: Legacy, cuMemBatchDecompressAsync_ptsz: PerThread]
                (operations: *mut c_void, count: usize, flags: u32, failed: *mut usize, stream: CUstream);

            // Fills.
            Observe memset::memset [cuMemsetD8_v2: Legacy, cuMemsetD8_v2_ptds: PerThread]
                (dst: CUdeviceptr, value: u8, count: usize);
            Observe memset::memset [cuMemsetD16_v2: Legacy, cuMemsetD16_v2_ptds: PerThread]
                (dst: CUdeviceptr, value: u16, count: usize);
            Observe memset::memset [cuMemsetD32_v2: Legacy, cuMemsetD32_v2_ptds: PerThread]
                (dst: CUdeviceptr, value: u32, count: usize);
            Observe memset::memset_2d [cuMemsetD2D8_v2: Legacy, cuMemsetD2D8_v2_ptds: PerThread]
                (dst: CUdeviceptr, pitch: usize, value: u8, width: usize, height: usize);
            Observe memset::memset_2d [cuMemsetD2D16_v2: Legacy, cuMemsetD2D16_v2_ptds: PerThread]
                (dst: CUdeviceptr, pitch: usize, value: u16, width: usize, height: usize);
            Observe memset::memset_2d [cuMemsetD2D32_v2: Legacy, cuMemsetD2D32_v2_ptds: PerThread]
                (dst: CUdeviceptr, pitch: usize, value: u32, width: usize, height: usize);
            Observe memset::memset_async [cuMemsetD8Async: Legacy, cuMemsetD8Async_ptsz: PerThread]
                (dst: CUdeviceptr, value: u8, count: usize, stream: CUstream);
            Observe memset::memset_async [cuMemsetD16Async: Legacy, cuMemsetD16Async_ptsz: PerThread]
                (dst: CUdeviceptr, value: u16, count: usize, stream: CUstream);
            Observe memset::memset_async [cuMemsetD32Async: Legacy, cuMemsetD32Async_ptsz: PerThread]
                (dst: CUdeviceptr, value: u32, count: usize, stream: CUstream);
            Observe memset::memset_2d_async [cuMemsetD2D8Async: Legacy, cuMemsetD2D8Async_ptsz: PerThread]
                (dst: CUdeviceptr, pitch: usize, value: u8, width: usize, height: usize, stream: CUstream);
            Observe memset::memset_2d_async [cuMemsetD2D16Async: Legacy, cuMemsetD2D16Async_ptsz: PerThread]
                (dst: CUdeviceptr, pitch: usize, value: u16, width: usize, height: usize, stream: CUstream);
            Observe memset::memset_2d_async [cuMemsetD2D32Async: Legacy, cuMemsetD2D32Async_ptsz: PerThread]
                (dst: CUdeviceptr, pitch: usize, value: u32, width: usize, height: usize, stream: CUstream);

            // The program's own prefetches.
            Observe other::mem_prefetch_async_v1
                [cuMemPrefetchAsync: Legacy, cuMemPrefetchAsync_ptsz: PerThread]
                (dptr: CUdeviceptr, bytes: usize, device: CUdevice, stream: CUstream);
            Observe other::mem_prefetch_async
                [cuMemPrefetchAsync_v2: Legacy, cuMemPrefetchAsync_v2_ptsz: PerThread]
                (dptr: CUdeviceptr, bytes: usize, location: CUmemLocation, flags: u32, stream: CUstream);

            // Streams that wait for memory, or write it.
            Observe other::stream_value
                [cuStreamWaitValue32: Legacy, cuStreamWaitValue32_ptsz: PerThread,
                 cuStreamWaitValue32_v2: Legacy, cuStreamWaitValue32_v2_ptsz: PerThread]
                (stream: CUstream, dptr: CUdeviceptr, value: u32, flags: u32);
            Observe other::stream_value
                [cuStreamWriteValue32: Legacy, cuStreamWriteValue32_ptsz: PerThread,
                 cuStreamWriteValue32_v2: Legacy, cuStreamWriteValue32_v2_ptsz: PerThread]
                (stream: CUstream, dptr: CUdeviceptr, value: u32, flags: u32);
            Observe other::stream_value
                [cuStreamWaitValue64: Legacy, cuStreamWaitValue64_ptsz: PerThread,
                 cuStreamWaitValue64_v2: Legacy, cuStreamWaitValue64_v2_ptsz: PerThread]
                (stream: CUstream, dptr: CUdeviceptr, value: u64, flags: u32);
            Observe other::stream_value
                [cuStreamWriteValue64: Legacy, cuStreamWriteValue64_ptsz: PerThread,
                 cuStreamWriteValue64_v2: Legacy, cuStreamWriteValue64_v2_ptsz: PerThread]
                (stream: CUstream, dptr: CUdeviceptr, value: u64, flags: u32);
            Observe other::stream_batch_mem_op
                [cuStreamBatchMemOp: Legacy, cuStreamBatchMemOp_ptsz: PerThread,
                 cuStreamBatchMemOp_v2: Legacy, cuStreamBatchMemOp_v2_ptsz: PerThread]
                (stream: CUstream, count: u32, operations: *mut c_void, flags: u32);
        }
    };
}

/// What a handler is told about the entry point it is serving.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) null_stream: NullStream,
}

/// One intercepted name.
#[derive(Debug)]
pub(crate) struct Symbol {
    pub(crate) name: &'static CStr,
    #[cfg_attr(not(test), expect(dead_code, reason = "for people and tests to read"))]
    pub(crate) policy: Policy,
    pub(crate) null_stream: NullStream,
    /// Our function.
    pub(crate) hook: *const c_void,
    /// The driver's function, once `redirect` has found it.
    pub(crate) real: &'static AtomicPtr<c_void>,
}

// SAFETY: `hook`, the only part that is not `Sync` of itself, is the address of a function: it is
// never written, and what it points to never changes.
unsafe impl Sync for Symbol {}

macro_rules! expand {
    ($($policy:ident $module:ident::$handler:ident [$($name:ident: $null:ident),+] $args:tt;)*) => {
        /// The driver's functions.
        #[expect(non_upper_case_globals, reason = "named as CUDA names them")]
        mod real {
            use super::*;
            $($(pub(super) static $name: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());)+)*
        }

        $($(export! { $name ($module::$handler) $null $args })+)*

        /// The table, as data.
        static ALL: &[Symbol] = &[$($(Symbol {
            name: const {
                match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                    Ok(name) => name,
                    Err(_) => unreachable!(),
                }
            },
            policy: Policy::$policy,
            null_stream: NullStream::$null,
            hook: $name as *const c_void,
            real: &real::$name,
        },)+)*];

        /// The names alone, for tables that are built from them while compiling.
        const NAMES: &[&[u8]] = &[$($(stringify!($name).as_bytes(),)+)*];
    };
}

macro_rules! export {
    ($name:ident ($module:ident::$handler:ident) $null:ident ($($arg:ident: $ty:ty),*)) => {
        #[cfg_attr(not(test), unsafe(no_mangle))]
        #[cfg_attr(test, expect(non_snake_case, reason = "named as CUDA names it"))]
        unsafe extern "C" fn $name($($arg: $ty),*) -> CUresult {
            let mut real = real::$name.load(Ordering::Acquire);
            if real.is_null() {
                redirect::bind();
                real = real::$name.load(Ordering::Acquire);
            }
            if real.is_null() {
                return redirect::why_missing();
            }
            // SAFETY: `redirect` stored the driver's function of this very name, whose signature
            // the row gives.
            let real = unsafe {
                std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($ty),*) -> CUresult>(real)
            };
            // SAFETY: our caller made these arguments good for the driver's function.
            let real = || unsafe { real($($arg),*) };
            if !process::is_on() {
                return real();
            }
            let entry = Entry { null_stream: NullStream::$null };
            guard::enter(
                real,
                |real| handlers::$module::$handler(entry, real, $($arg),*),
            )
        }
    };
}

cuda_symbols!(expand);

/// The table, as data.
pub(crate) fn all() -> &'static [Symbol] {
    ALL
}

/// Positions in [`ALL`], in the order of their names.
static SORTED: [u16; NAMES.len()] = sorted();

/// Whether `a` comes before `b`.
#[expect(
    clippy::indexing_slicing,
    reason = "`get` is not const; bounds are checked in the loop"
)]
const fn precedes(a: &[u8], b: &[u8]) -> bool {
    let mut i = 0;
    while i < a.len() && i < b.len() {
        if a[i] != b[i] {
            return a[i] < b[i];
        }
        i += 1;
    }
    a.len() < b.len()
}

/// Sorts by insertion, each place found by bisection.
#[expect(
    clippy::indexing_slicing,
    reason = "`get` is not const; a bad index would not compile"
)]
#[expect(
    clippy::cast_possible_truncation,
    reason = "the table has some hundred rows"
)]
const fn sorted() -> [u16; NAMES.len()] {
    let mut order = [0; NAMES.len()];
    let mut i = 0;
    while i < order.len() {
        let (mut low, mut high) = (0, i);
        while low < high {
            let middle = low.midpoint(high);
            if precedes(NAMES[order[middle] as usize], NAMES[i]) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        let mut j = i;
        while j > low {
            order[j] = order[j - 1];
            j -= 1;
        }
        order[low] = i as u16;
        i += 1;
    }
    order
}

/// The row entry of a name. Allocates nothing: `dlsym` asks this of whatever it is asked for.
pub(crate) fn find(name: &CStr) -> Option<&'static Symbol> {
    let symbol = |i: &u16| ALL.get(usize::from(*i));
    let at = SORTED
        .binary_search_by(|i| symbol(i).map(|s| s.name).cmp(&Some(name)))
        .ok()?;
    SORTED.get(at).and_then(symbol)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_found_and_no_other() {
        for symbol in all() {
            let found = find(symbol.name).unwrap();
            assert!(std::ptr::eq(found, symbol), "{:?}", symbol.name);
        }
        for name in [
            c"",
            c"cu",
            c"cuInit_v2",
            c"cuDeviceGet",
            c"cuMemAlloc_v3",
            c"cudaMalloc",
        ] {
            assert!(find(name).is_none(), "{name:?}");
        }
    }

    #[test]
    fn no_name_is_declared_twice() {
        let names: Vec<_> = SORTED.iter().map(|i| NAMES[usize::from(*i)]).collect();
        assert!(names.windows(2).all(|pair| pair[0] < pair[1]));
    }

    #[test]
    fn per_thread_names_have_the_suffix_and_a_legacy_twin() {
        for symbol in all() {
            let name = symbol.name.to_str().unwrap();
            assert!(name.starts_with("cu"), "{name}");
            let twin = name.strip_suffix("_ptsz").or(name.strip_suffix("_ptds"));
            assert_eq!(symbol.null_stream == NullStream::PerThread, twin.is_some());
            if let Some(twin) = twin {
                let twin = all().iter().find(|s| s.name.to_str() == Ok(twin)).unwrap();
                assert_eq!(twin.policy, symbol.policy, "{name}");
            }
        }
    }
}
