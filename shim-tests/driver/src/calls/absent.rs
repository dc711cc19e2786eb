//! What this driver does not do: exported and found by name, answers `CUDA_ERROR_NOT_SUPPORTED`, and the log says that it was asked.

use crate::cuda::{Answer, CuError};
use crate::gate::Call;
use crate::table::driver_calls;

/// The parameters do not matter: none is looked at, and the caller takes them away.
fn absent(_: &Call) -> Answer {
    Err(CuError::NOT_SUPPORTED)
}

driver_calls! {
    // Other processes and devices, outside memory.
    "cuDeviceGetP2PAttribute" absent() { cuDeviceGetP2PAttribute: 8000 Legacy }
    "cuDeviceGetHostAtomicCapabilities" absent() { cuDeviceGetHostAtomicCapabilities: 13000 Legacy }
    "cuDeviceGetP2PAtomicCapabilities" absent() { cuDeviceGetP2PAtomicCapabilities: 13000 Legacy }
    "cuFlushGPUDirectRDMAWrites" absent() { cuFlushGPUDirectRDMAWrites: 11030 Legacy }
    "cuMemPoolExportToShareableHandle" absent() { cuMemPoolExportToShareableHandle: 11020 Legacy }
    "cuMemPoolImportFromShareableHandle" absent() { cuMemPoolImportFromShareableHandle: 11020 Legacy }
    "cuMemPoolExportPointer" absent() { cuMemPoolExportPointer: 11020 Legacy }
    "cuMemPoolImportPointer" absent() { cuMemPoolImportPointer: 11020 Legacy }
    "cuImportExternalMemory" absent() { cuImportExternalMemory: 10000 Legacy }
    "cuExternalMemoryGetMappedBuffer" absent() { cuExternalMemoryGetMappedBuffer: 10000 Legacy }
    "cuExternalMemoryGetMappedMipmappedArray" absent() { cuExternalMemoryGetMappedMipmappedArray: 10000 Legacy }
    "cuDestroyExternalMemory" absent() { cuDestroyExternalMemory: 10000 Legacy }
    "cuImportExternalSemaphore" absent() { cuImportExternalSemaphore: 10000 Legacy }
    "cuSignalExternalSemaphoresAsync" absent() { cuSignalExternalSemaphoresAsync: 10000 Legacy, cuSignalExternalSemaphoresAsync_ptsz: 10000 PerThread }
    "cuWaitExternalSemaphoresAsync" absent() { cuWaitExternalSemaphoresAsync: 10000 Legacy, cuWaitExternalSemaphoresAsync_ptsz: 10000 PerThread }
    "cuDestroyExternalSemaphore" absent() { cuDestroyExternalSemaphore: 10000 Legacy }
    "cuCtxEnablePeerAccess" absent() { cuCtxEnablePeerAccess: 4000 Legacy }
    "cuCtxDisablePeerAccess" absent() { cuCtxDisablePeerAccess: 4000 Legacy }
    "cuIpcGetEventHandle" absent() { cuIpcGetEventHandle: 4010 Legacy }
    "cuIpcOpenEventHandle" absent() { cuIpcOpenEventHandle: 4010 Legacy }
    "cuIpcOpenMemHandle" absent() { cuIpcOpenMemHandle: 4010 Legacy, cuIpcOpenMemHandle_v2: 11000 Legacy }
    "cuIpcCloseMemHandle" absent() { cuIpcCloseMemHandle: 4010 Legacy }
    "cuDeviceRegisterAsyncNotification" absent() { cuDeviceRegisterAsyncNotification: 12040 Legacy }
    "cuDeviceUnregisterAsyncNotification" absent() { cuDeviceUnregisterAsyncNotification: 12040 Legacy }
    // Arrays, textures and surfaces.
    "cuDeviceGetTexture1DLinearMaxWidth" absent() { cuDeviceGetTexture1DLinearMaxWidth: 11010 Legacy }
    "cuModuleGetTexRef" absent() { cuModuleGetTexRef: 2000 Legacy }
    "cuModuleGetSurfRef" absent() { cuModuleGetSurfRef: 3000 Legacy }
    "cuArrayCreate" absent() { cuArrayCreate_v2: 3020 Legacy }
    "cuArrayGetDescriptor" absent() { cuArrayGetDescriptor_v2: 3020 Legacy }
    "cuArrayGetSparseProperties" absent() { cuArrayGetSparseProperties: 11010 Legacy }
    "cuArrayGetPlane" absent() { cuArrayGetPlane: 11020 Legacy }
    "cuArray3DCreate" absent() { cuArray3DCreate_v2: 3020 Legacy }
    "cuArray3DGetDescriptor" absent() { cuArray3DGetDescriptor_v2: 3020 Legacy }
    "cuArrayDestroy" absent() { cuArrayDestroy: 2000 Legacy }
    "cuMipmappedArrayCreate" absent() { cuMipmappedArrayCreate: 5000 Legacy }
    "cuMipmappedArrayGetLevel" absent() { cuMipmappedArrayGetLevel: 5000 Legacy }
    "cuMipmappedArrayGetSparseProperties" absent() { cuMipmappedArrayGetSparseProperties: 11010 Legacy }
    "cuMipmappedArrayDestroy" absent() { cuMipmappedArrayDestroy: 5000 Legacy }
    "cuArrayGetMemoryRequirements" absent() { cuArrayGetMemoryRequirements: 11060 Legacy }
    "cuMipmappedArrayGetMemoryRequirements" absent() { cuMipmappedArrayGetMemoryRequirements: 11060 Legacy }
    "cuTexObjectCreate" absent() { cuTexObjectCreate: 5000 Legacy }
    "cuTexObjectDestroy" absent() { cuTexObjectDestroy: 5000 Legacy }
    "cuTexObjectGetResourceDesc" absent() { cuTexObjectGetResourceDesc: 5000 Legacy }
    "cuTexObjectGetTextureDesc" absent() { cuTexObjectGetTextureDesc: 5000 Legacy }
    "cuTexObjectGetResourceViewDesc" absent() { cuTexObjectGetResourceViewDesc: 5000 Legacy }
    "cuSurfObjectCreate" absent() { cuSurfObjectCreate: 5000 Legacy }
    "cuSurfObjectDestroy" absent() { cuSurfObjectDestroy: 5000 Legacy }
    "cuSurfObjectGetResourceDesc" absent() { cuSurfObjectGetResourceDesc: 5000 Legacy }
    // Other.
    "cuCtxResetPersistingL2Cache" absent() { cuCtxResetPersistingL2Cache: 11000 Legacy }
    // Code: linking, global variables, files.
    "cuModuleLoad" absent() { cuModuleLoad: 2000 Legacy }
    "cuModuleGetGlobal" absent() { cuModuleGetGlobal_v2: 3020 Legacy }
    "cuLibraryLoadFromFile" absent() { cuLibraryLoadFromFile: 12000 Legacy }
    "cuLibraryGetGlobal" absent() { cuLibraryGetGlobal: 12000 Legacy }
    "cuLibraryGetManaged" absent() { cuLibraryGetManaged: 12000 Legacy }
    "cuLibraryGetUnifiedFunction" absent() { cuLibraryGetUnifiedFunction: 12000 Legacy }
    "cuLibraryGetKernelCount" absent() { cuLibraryGetKernelCount: 12040 Legacy }
    "cuLibraryEnumerateKernels" absent() { cuLibraryEnumerateKernels: 12040 Legacy }
    "cuLinkCreate" absent() { cuLinkCreate_v2: 5050 Legacy }
    "cuLinkAddData" absent() { cuLinkAddData_v2: 5050 Legacy }
    "cuLinkAddFile" absent() { cuLinkAddFile_v2: 5050 Legacy }
    "cuLinkComplete" absent() { cuLinkComplete: 5050 Legacy }
    "cuLinkDestroy" absent() { cuLinkDestroy: 5050 Legacy }
    "cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags" absent() { cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags: 7000 Legacy }
    "cuOccupancyAvailableDynamicSMemPerBlock" absent() { cuOccupancyAvailableDynamicSMemPerBlock: 10020 Legacy }
    "cuOccupancyMaxPotentialClusterSize" absent() { cuOccupancyMaxPotentialClusterSize: 11070 Legacy }
    "cuOccupancyMaxActiveClusters" absent() { cuOccupancyMaxActiveClusters: 11070 Legacy }
    // Copies in batches.
    "cuMemcpyBatchAsync" absent() { cuMemcpyBatchAsync_v2: 13000 Legacy, cuMemcpyBatchAsync_v2_ptsz: 13000 PerThread, cuMemcpyBatchAsync: 12080 Legacy, cuMemcpyBatchAsync_ptsz: 12080 PerThread }
    // Stream memory operations and attributes.
    "cuStreamWaitValue32" absent() { cuStreamWaitValue32: 8000 Legacy, cuStreamWaitValue32_ptsz: 8000 PerThread, cuStreamWaitValue32_v2: 11070 Legacy, cuStreamWaitValue32_v2_ptsz: 11070 PerThread }
    "cuStreamWriteValue32" absent() { cuStreamWriteValue32: 8000 Legacy, cuStreamWriteValue32_ptsz: 8000 PerThread, cuStreamWriteValue32_v2: 11070 Legacy, cuStreamWriteValue32_v2_ptsz: 11070 PerThread }
    "cuStreamWaitValue64" absent() { cuStreamWaitValue64: 9000 Legacy, cuStreamWaitValue64_ptsz: 9000 PerThread, cuStreamWaitValue64_v2: 11070 Legacy, cuStreamWaitValue64_v2_ptsz: 11070 PerThread }
    "cuStreamWriteValue64" absent() { cuStreamWriteValue64: 9000 Legacy, cuStreamWriteValue64_ptsz: 9000 PerThread, cuStreamWriteValue64_v2: 11070 Legacy, cuStreamWriteValue64_v2_ptsz: 11070 PerThread }
    "cuStreamBatchMemOp" absent() { cuStreamBatchMemOp: 8000 Legacy, cuStreamBatchMemOp_ptsz: 8000 PerThread, cuStreamBatchMemOp_v2: 11070 Legacy, cuStreamBatchMemOp_v2_ptsz: 11070 PerThread }
    "cuStreamAddCallback" absent() { cuStreamAddCallback: 5000 Legacy, cuStreamAddCallback_ptsz: 7000 PerThread }
    "cuStreamCopyAttributes" absent() { cuStreamCopyAttributes: 11000 Legacy, cuStreamCopyAttributes_ptsz: 11000 PerThread }
    "cuStreamGetAttribute" absent() { cuStreamGetAttribute: 11000 Legacy, cuStreamGetAttribute_ptsz: 11000 PerThread }
    "cuStreamSetAttribute" absent() { cuStreamSetAttribute: 11000 Legacy, cuStreamSetAttribute_ptsz: 11000 PerThread }
    "cuStreamBeginCaptureToGraph" absent() { cuStreamBeginCaptureToGraph: 12030 Legacy, cuStreamBeginCaptureToGraph_ptsz: 12030 PerThread }
    "cuStreamUpdateCaptureDependencies" absent() { cuStreamUpdateCaptureDependencies: 11030 Legacy, cuStreamUpdateCaptureDependencies_ptsz: 11030 PerThread, cuStreamUpdateCaptureDependencies_v2: 12030 Legacy, cuStreamUpdateCaptureDependencies_v2_ptsz: 12030 PerThread }
    // Of graphs: other kinds of nodes, and looking at them or changing them in other ways.
    "cuGraphKernelNodeSetParams" absent() { cuGraphKernelNodeSetParams_v2: 12000 Legacy }
    "cuGraphMemcpyNodeSetParams" absent() { cuGraphMemcpyNodeSetParams: 10000 Legacy }
    "cuGraphMemsetNodeSetParams" absent() { cuGraphMemsetNodeSetParams: 10000 Legacy }
    "cuGraphAddHostNode" absent() { cuGraphAddHostNode: 10000 Legacy }
    "cuGraphHostNodeGetParams" absent() { cuGraphHostNodeGetParams: 10000 Legacy }
    "cuGraphHostNodeSetParams" absent() { cuGraphHostNodeSetParams: 10000 Legacy }
    "cuGraphAddEventRecordNode" absent() { cuGraphAddEventRecordNode: 11010 Legacy }
    "cuGraphEventRecordNodeGetEvent" absent() { cuGraphEventRecordNodeGetEvent: 11010 Legacy }
    "cuGraphEventRecordNodeSetEvent" absent() { cuGraphEventRecordNodeSetEvent: 11010 Legacy }
    "cuGraphAddEventWaitNode" absent() { cuGraphAddEventWaitNode: 11010 Legacy }
    "cuGraphEventWaitNodeGetEvent" absent() { cuGraphEventWaitNodeGetEvent: 11010 Legacy }
    "cuGraphEventWaitNodeSetEvent" absent() { cuGraphEventWaitNodeSetEvent: 11010 Legacy }
    "cuGraphAddExternalSemaphoresSignalNode" absent() { cuGraphAddExternalSemaphoresSignalNode: 11020 Legacy }
    "cuGraphExternalSemaphoresSignalNodeGetParams" absent() { cuGraphExternalSemaphoresSignalNodeGetParams: 11020 Legacy }
    "cuGraphExternalSemaphoresSignalNodeSetParams" absent() { cuGraphExternalSemaphoresSignalNodeSetParams: 11020 Legacy }
    "cuGraphAddExternalSemaphoresWaitNode" absent() { cuGraphAddExternalSemaphoresWaitNode: 11020 Legacy }
    "cuGraphExternalSemaphoresWaitNodeGetParams" absent() { cuGraphExternalSemaphoresWaitNodeGetParams: 11020 Legacy }
    "cuGraphExternalSemaphoresWaitNodeSetParams" absent() { cuGraphExternalSemaphoresWaitNodeSetParams: 11020 Legacy }
    "cuGraphExecExternalSemaphoresSignalNodeSetParams" absent() { cuGraphExecExternalSemaphoresSignalNodeSetParams: 11020 Legacy }
    "cuGraphExecExternalSemaphoresWaitNodeSetParams" absent() { cuGraphExecExternalSemaphoresWaitNodeSetParams: 11020 Legacy }
    "cuGraphAddMemAllocNode" absent() { cuGraphAddMemAllocNode: 11040 Legacy }
    "cuGraphMemAllocNodeGetParams" absent() { cuGraphMemAllocNodeGetParams: 11040 Legacy }
    "cuGraphAddMemFreeNode" absent() { cuGraphAddMemFreeNode: 11040 Legacy }
    "cuGraphMemFreeNodeGetParams" absent() { cuGraphMemFreeNodeGetParams: 11040 Legacy }
    "cuDeviceGraphMemTrim" absent() { cuDeviceGraphMemTrim: 11040 Legacy }
    "cuDeviceGetGraphMemAttribute" absent() { cuDeviceGetGraphMemAttribute: 11040 Legacy }
    "cuDeviceSetGraphMemAttribute" absent() { cuDeviceSetGraphMemAttribute: 11040 Legacy }
    "cuGraphClone" absent() { cuGraphClone: 10000 Legacy }
    "cuGraphNodeFindInClone" absent() { cuGraphNodeFindInClone: 10000 Legacy }
    "cuGraphGetRootNodes" absent() { cuGraphGetRootNodes: 10000 Legacy }
    "cuGraphGetEdges" absent() { cuGraphGetEdges: 10000 Legacy, cuGraphGetEdges_v2: 12030 Legacy }
    "cuGraphNodeGetDependencies" absent() { cuGraphNodeGetDependencies: 10000 Legacy, cuGraphNodeGetDependencies_v2: 12030 Legacy }
    "cuGraphNodeGetDependentNodes" absent() { cuGraphNodeGetDependentNodes: 10000 Legacy, cuGraphNodeGetDependentNodes_v2: 12030 Legacy }
    "cuGraphAddDependencies" absent() { cuGraphAddDependencies: 10000 Legacy, cuGraphAddDependencies_v2: 12030 Legacy }
    "cuGraphRemoveDependencies" absent() { cuGraphRemoveDependencies: 10000 Legacy, cuGraphRemoveDependencies_v2: 12030 Legacy }
    "cuGraphDestroyNode" absent() { cuGraphDestroyNode: 10000 Legacy }
    "cuGraphExecHostNodeSetParams" absent() { cuGraphExecHostNodeSetParams: 10020 Legacy }
    "cuGraphExecEventRecordNodeSetEvent" absent() { cuGraphExecEventRecordNodeSetEvent: 11010 Legacy }
    "cuGraphExecEventWaitNodeSetEvent" absent() { cuGraphExecEventWaitNodeSetEvent: 11010 Legacy }
    "cuGraphKernelNodeCopyAttributes" absent() { cuGraphKernelNodeCopyAttributes: 11000 Legacy }
    "cuGraphKernelNodeGetAttribute" absent() { cuGraphKernelNodeGetAttribute: 11000 Legacy }
    "cuGraphKernelNodeSetAttribute" absent() { cuGraphKernelNodeSetAttribute: 11000 Legacy }
    "cuGraphDebugDotPrint" absent() { cuGraphDebugDotPrint: 11030 Legacy }
    "cuUserObjectCreate" absent() { cuUserObjectCreate: 11030 Legacy }
    "cuUserObjectRetain" absent() { cuUserObjectRetain: 11030 Legacy }
    "cuUserObjectRelease" absent() { cuUserObjectRelease: 11030 Legacy }
    "cuGraphRetainUserObject" absent() { cuGraphRetainUserObject: 11030 Legacy }
    "cuGraphReleaseUserObject" absent() { cuGraphReleaseUserObject: 11030 Legacy }
    "cuGraphNodeSetEnabled" absent() { cuGraphNodeSetEnabled: 11060 Legacy }
    "cuGraphNodeGetEnabled" absent() { cuGraphNodeGetEnabled: 11060 Legacy }
    "cuGraphExecGetFlags" absent() { cuGraphExecGetFlags: 12000 Legacy }
    "cuGraphAddNode" absent() { cuGraphAddNode: 12020 Legacy, cuGraphAddNode_v2: 12030 Legacy }
    "cuGraphNodeSetParams" absent() { cuGraphNodeSetParams: 12020 Legacy }
    "cuGraphConditionalHandleCreate" absent() { cuGraphConditionalHandleCreate: 12030 Legacy }
    // Virtual memory: handles exist (memory.rs), mappings do not.
    "cuMemAddressReserve" absent() { cuMemAddressReserve: 10020 Legacy }
    "cuMemAddressFree" absent() { cuMemAddressFree: 10020 Legacy }
    "cuMemMap" absent() { cuMemMap: 10020 Legacy }
    "cuMemUnmap" absent() { cuMemUnmap: 10020 Legacy }
    "cuMemSetAccess" absent() { cuMemSetAccess: 10020 Legacy }
    "cuMemGetAccess" absent() { cuMemGetAccess: 10020 Legacy }
    "cuMemExportToShareableHandle" absent() { cuMemExportToShareableHandle: 10020 Legacy }
    "cuMemImportFromShareableHandle" absent() { cuMemImportFromShareableHandle: 10020 Legacy }
    "cuMemGetAllocationPropertiesFromHandle" absent() { cuMemGetAllocationPropertiesFromHandle: 10020 Legacy }
    "cuMemRetainAllocationHandle" absent() { cuMemRetainAllocationHandle: 11000 Legacy }
    "cuMemGetHandleForAddressRange" absent() { cuMemGetHandleForAddressRange: 11070 Legacy }
    "cuMemMapArrayAsync" absent() { cuMemMapArrayAsync: 11010 Legacy, cuMemMapArrayAsync_ptsz: 11010 PerThread }
}
