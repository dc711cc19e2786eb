//! The CUDA driver types and constants we name, spelled as CUDA spells them.
//!
//! Programs and drivers newer than us may put any bits into an enum, so every enum is an integer
//! here, and structs that hold enums are mirrored with integers. Each mirror is checked against
//! `cudarc`'s declaration when this file is compiled.
#![expect(non_camel_case_types, non_snake_case, reason = "as CUDA spells them")]
#![expect(
    dead_code,
    reason = "layouts are written whole, and not all of a layout is used"
)]

use cudarc::driver::sys;
use std::ffi::c_void;
use std::mem::offset_of;

/// What every driver function returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct CUresult(pub(crate) u32);

impl CUresult {
    pub(crate) const SUCCESS: Self = Self(0);
    pub(crate) const INVALID_VALUE: Self = Self(1);
    pub(crate) const OUT_OF_MEMORY: Self = Self(2);
    pub(crate) const NOT_INITIALIZED: Self = Self(3);
    pub(crate) const DEINITIALIZED: Self = Self(4);
    pub(crate) const INVALID_CONTEXT: Self = Self(201);
    pub(crate) const INVALID_HANDLE: Self = Self(400);
    pub(crate) const NOT_FOUND: Self = Self(500);
    pub(crate) const NOT_READY: Self = Self(600);
    pub(crate) const ILLEGAL_ADDRESS: Self = Self(700);
    pub(crate) const NOT_SUPPORTED: Self = Self(801);
    pub(crate) const STREAM_CAPTURE_UNSUPPORTED: Self = Self(900);
    pub(crate) const STREAM_CAPTURE_IMPLICIT: Self = Self(906);
    pub(crate) const UNKNOWN: Self = Self(999);
}

/// An address on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub(crate) struct CUdeviceptr(pub(crate) u64);

/// A device's ordinal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub(crate) struct CUdevice(pub(crate) i32);

/// Which default stream a null handle means in an entry point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NullStream {
    /// The legacy default stream.
    Legacy,
    /// The calling thread's default stream (`_ptsz` and `_ptds` names).
    PerThread,
}

/// Handles are the driver's pointers. We never follow one, so to us it is only its address.
macro_rules! handles {
    ($($(#[$doc:meta])* $name:ident)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(transparent)]
        pub(crate) struct $name(pub(crate) usize);

        impl $name {
            pub(crate) const NULL: Self = Self(0);
        }

        const _: () = assert!(size_of::<$name>() == size_of::<sys::$name>());
    )*};
}

handles! {
    /// An array.
    CUarray
    /// A context.
    CUcontext
    /// An event.
    CUevent
    /// A kernel in a module; from 12.0 on possibly a `CUkernel`.
    CUfunction
    /// A graph.
    CUgraph
    /// An executable graph.
    CUgraphExec
    /// A node of a graph.
    CUgraphNode
    /// A library of kernels.
    CUlibrary
    /// A pool for stream-ordered allocation.
    CUmemoryPool
    /// A mipmapped array.
    CUmipmappedArray
    /// A module.
    CUmodule
    /// A stream. Null, 1 and 2 are default streams: see [`NullStream`].
    CUstream
}

impl CUstream {
    /// `CU_STREAM_LEGACY`.
    pub(crate) const LEGACY: Self = Self(1);
    /// `CU_STREAM_PER_THREAD`.
    pub(crate) const PER_THREAD: Self = Self(2);
}

/// A physical allocation of `cuMemCreate`.
pub(crate) type CUmemGenericAllocationHandle = u64;
/// `CUmemAllocationHandleType`.
pub(crate) type CUmemAllocationHandleType = u32;
/// `CUmemPool_attribute`.
pub(crate) type CUmemPool_attribute = u32;
/// `CUpointer_attribute`.
pub(crate) type CUpointer_attribute = u32;
/// `CUstreamCaptureMode`.
pub(crate) type CUstreamCaptureMode = u32;
/// `CUhostFn`.
pub(crate) type CUhostFn = Option<unsafe extern "C" fn(*mut c_void)>;

/// Declares a struct, and proves that it lies in memory as `cudarc`'s does.
macro_rules! mirrors {
    ($($(#[$doc:meta])* $name:ident = $theirs:ident { $($field:ident: $ty:ty,)* })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        #[repr(C)]
        pub(crate) struct $name {
            $(pub(crate) $field: $ty,)*
        }

        const _: () = {
            assert!(size_of::<$name>() == size_of::<sys::$theirs>());
            assert!(align_of::<$name>() == align_of::<sys::$theirs>());
            $(assert!(offset_of!($name, $field) == offset_of!(sys::$theirs, $field));)*
        };
    )*};
}

mirrors! {
    /// Argument of `cuMemcpy2D_v2` and its kin.
    CUDA_MEMCPY2D = CUDA_MEMCPY2D_v2 {
        srcXInBytes: usize,
        srcY: usize,
        srcMemoryType: u32,
        srcHost: *const c_void,
        srcDevice: CUdeviceptr,
        srcArray: CUarray,
        srcPitch: usize,
        dstXInBytes: usize,
        dstY: usize,
        dstMemoryType: u32,
        dstHost: *mut c_void,
        dstDevice: CUdeviceptr,
        dstArray: CUarray,
        dstPitch: usize,
        WidthInBytes: usize,
        Height: usize,
    }

    /// Argument of `cuMemcpy3D_v2` and its kin.
    CUDA_MEMCPY3D = CUDA_MEMCPY3D_v2 {
        srcXInBytes: usize,
        srcY: usize,
        srcZ: usize,
        srcLOD: usize,
        srcMemoryType: u32,
        srcHost: *const c_void,
        srcDevice: CUdeviceptr,
        srcArray: CUarray,
        reserved0: *mut c_void,
        srcPitch: usize,
        srcHeight: usize,
        dstXInBytes: usize,
        dstY: usize,
        dstZ: usize,
        dstLOD: usize,
        dstMemoryType: u32,
        dstHost: *mut c_void,
        dstDevice: CUdeviceptr,
        dstArray: CUarray,
        reserved1: *mut c_void,
        dstPitch: usize,
        dstHeight: usize,
        WidthInBytes: usize,
        Height: usize,
        Depth: usize,
    }

    /// Argument of `cuMemcpy3DPeer` and its kin.
    CUDA_MEMCPY3D_PEER = CUDA_MEMCPY3D_PEER_v1 {
        srcXInBytes: usize,
        srcY: usize,
        srcZ: usize,
        srcLOD: usize,
        srcMemoryType: u32,
        srcHost: *const c_void,
        srcDevice: CUdeviceptr,
        srcArray: CUarray,
        srcContext: CUcontext,
        srcPitch: usize,
        srcHeight: usize,
        dstXInBytes: usize,
        dstY: usize,
        dstZ: usize,
        dstLOD: usize,
        dstMemoryType: u32,
        dstHost: *mut c_void,
        dstDevice: CUdeviceptr,
        dstArray: CUarray,
        dstContext: CUcontext,
        dstPitch: usize,
        dstHeight: usize,
        WidthInBytes: usize,
        Height: usize,
        Depth: usize,
    }

    /// A kernel in a graph, before CUDA 12.
    CUDA_KERNEL_NODE_PARAMS_v1 = CUDA_KERNEL_NODE_PARAMS_st {
        func: CUfunction,
        gridDimX: u32,
        gridDimY: u32,
        gridDimZ: u32,
        blockDimX: u32,
        blockDimY: u32,
        blockDimZ: u32,
        sharedMemBytes: u32,
        kernelParams: *mut *mut c_void,
        extra: *mut *mut c_void,
    }

    /// A kernel in a graph; `kern` is looked at if `func` is null. `CUDA_KERNEL_NODE_PARAMS_v3` is the same.
    CUDA_KERNEL_NODE_PARAMS = CUDA_KERNEL_NODE_PARAMS_v3_st {
        func: CUfunction,
        gridDimX: u32,
        gridDimY: u32,
        gridDimZ: u32,
        blockDimX: u32,
        blockDimY: u32,
        blockDimZ: u32,
        sharedMemBytes: u32,
        kernelParams: *mut *mut c_void,
        extra: *mut *mut c_void,
        kern: CUfunction,
        ctx: CUcontext,
    }

    /// A fill in a graph; `CUDA_MEMSET_NODE_PARAMS_v2` begins so.
    CUDA_MEMSET_NODE_PARAMS = CUDA_MEMSET_NODE_PARAMS_st {
        dst: CUdeviceptr,
        pitch: usize,
        value: u32,
        elementSize: u32,
        width: usize,
        height: usize,
    }

    /// A copy in a graph, as `CUgraphNodeParams` has it.
    CUDA_MEMCPY_NODE_PARAMS = CUDA_MEMCPY_NODE_PARAMS_st {
        flags: i32,
        reserved: i32,
        copyCtx: CUcontext,
        copyParams: CUDA_MEMCPY3D,
    }

    /// A node of any kind, which `type_` is: the nameless union holds that kind's struct.
    CUgraphNodeParams = CUgraphNodeParams_st {
        type_: u32,
        reserved0: [i32; 3],
        __bindgen_anon_1: [i64; 29],
        reserved2: i64,
    }

    /// Argument of `cuArrayCreate_v2`.
    CUDA_ARRAY_DESCRIPTOR = CUDA_ARRAY_DESCRIPTOR_v2 {
        Width: usize,
        Height: usize,
        Format: u32,
        NumChannels: u32,
    }

    /// Argument of `cuArray3DCreate_v2` and `cuMipmappedArrayCreate`.
    CUDA_ARRAY3D_DESCRIPTOR = CUDA_ARRAY3D_DESCRIPTOR_v2 {
        Width: usize,
        Height: usize,
        Depth: usize,
        Format: u32,
        NumChannels: u32,
        Flags: u32,
    }

    /// Argument of `cuLaunchKernelEx`. `attrs` points to `numAttrs` `CUlaunchAttribute`s.
    CUlaunchConfig = CUlaunchConfig_st {
        gridDimX: u32,
        gridDimY: u32,
        gridDimZ: u32,
        blockDimX: u32,
        blockDimY: u32,
        blockDimZ: u32,
        sharedMemBytes: u32,
        hStream: CUstream,
        attrs: *mut c_void,
        numAttrs: u32,
    }

    /// One launch of `cuLaunchCooperativeKernelMultiDevice`.
    CUDA_LAUNCH_PARAMS = CUDA_LAUNCH_PARAMS_st {
        function: CUfunction,
        gridDimX: u32,
        gridDimY: u32,
        gridDimZ: u32,
        blockDimX: u32,
        blockDimY: u32,
        blockDimZ: u32,
        sharedMemBytes: u32,
        hStream: CUstream,
        kernelParams: *mut *mut c_void,
    }

    /// Where memory is, or should be.
    CUmemLocation = CUmemLocation_st {
        type_: u32,
        id: i32,
    }

    /// Argument of `cuMemPoolCreate`. To older drivers, `maxSize` and `usage` are reserved.
    CUmemPoolProps = CUmemPoolProps_st {
        allocType: u32,
        handleTypes: u32,
        location: CUmemLocation,
        win32SecurityAttributes: *mut c_void,
        maxSize: usize,
        usage: u16,
        reserved: [u8; 54],
    }

    /// Argument of `cuMemCreate`.
    CUmemAllocationProp = CUmemAllocationProp_st {
        type_: u32,
        requestedHandleTypes: u32,
        location: CUmemLocation,
        win32HandleMetaData: *mut c_void,
        allocFlags: CUmemAllocationPropFlags,
    }

    /// The nameless struct at the end of `CUmemAllocationProp`.
    CUmemAllocationPropFlags = CUmemAllocationProp_st__bindgen_ty_1 {
        compressionType: u8,
        gpuDirectRDMACapable: u8,
        usage: u16,
        reserved: [u8; 4],
    }

    /// How `cuMemcpyBatchAsync` makes a run of its copies.
    CUmemcpyAttributes = CUmemcpyAttributes_st {
        srcAccessOrder: u32,
        srcLocHint: CUmemLocation,
        dstLocHint: CUmemLocation,
        flags: u32,
    }

    /// One copy of `cuMemcpy3DBatchAsync`.
    CUDA_MEMCPY3D_BATCH_OP = CUDA_MEMCPY3D_BATCH_OP_st {
        src: CUmemcpy3DOperand,
        dst: CUmemcpy3DOperand,
        extent: CUextent3D,
        srcAccessOrder: u32,
        flags: u32,
    }

    /// Source or destination of such a copy. `op` is a `CUmemcpy3DOperandPtr` if `type_` is
    /// [`CUmemcpy3DOperand::POINTER`], and else an array with an offset.
    CUmemcpy3DOperand = CUmemcpy3DOperand_st {
        type_: u32,
        op: CUmemcpy3DOperandPtr,
    }

    /// The larger of the two members of `CUmemcpy3DOperand`'s union.
    CUmemcpy3DOperandPtr = CUmemcpy3DOperand_st__bindgen_ty_1__bindgen_ty_1 {
        ptr: CUdeviceptr,
        rowLength: usize,
        layerHeight: usize,
        locHint: CUmemLocation,
    }

    /// A size in three dimensions.
    CUextent3D = CUextent3D_st {
        width: usize,
        height: usize,
        depth: usize,
    }
}

impl CUmemcpy3DOperand {
    /// `CU_MEMCPY_OPERAND_TYPE_POINTER`.
    pub(crate) const POINTER: u32 = 1;
}
