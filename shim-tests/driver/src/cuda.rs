//! CUDA's types and numbers, as far as this driver names them. Spelled as CUDA spells them, so that grep finds both.

use std::fmt;

/// A CUDA error: never zero. `CUDA_SUCCESS` is `Ok(())`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CuError(pub(crate) u32);

/// What every call answers.
pub(crate) type Answer = Result<(), CuError>;

impl CuError {
    pub(crate) const INVALID_VALUE: Self = Self(1);
    pub(crate) const OUT_OF_MEMORY: Self = Self(2);
    pub(crate) const NOT_INITIALIZED: Self = Self(3);
    pub(crate) const INVALID_DEVICE: Self = Self(101);
    pub(crate) const INVALID_CONTEXT: Self = Self(201);
    pub(crate) const INVALID_HANDLE: Self = Self(400);
    pub(crate) const NOT_FOUND: Self = Self(500);
    pub(crate) const NOT_READY: Self = Self(600);
    pub(crate) const ILLEGAL_ADDRESS: Self = Self(700);
    pub(crate) const PRIMARY_CONTEXT_ACTIVE: Self = Self(708);
    pub(crate) const CONTEXT_IS_DESTROYED: Self = Self(709);
    pub(crate) const HOST_MEMORY_ALREADY_REGISTERED: Self = Self(712);
    pub(crate) const HOST_MEMORY_NOT_REGISTERED: Self = Self(713);
    pub(crate) const MISALIGNED_ADDRESS: Self = Self(716);
    pub(crate) const LAUNCH_FAILED: Self = Self(719);
    pub(crate) const NOT_PERMITTED: Self = Self(800);
    pub(crate) const NOT_SUPPORTED: Self = Self(801);
    pub(crate) const CAPTURE_UNSUPPORTED: Self = Self(900);
    pub(crate) const CAPTURE_INVALIDATED: Self = Self(901);
    pub(crate) const CAPTURE_MERGE: Self = Self(902);
    pub(crate) const CAPTURE_UNMATCHED: Self = Self(903);
    pub(crate) const CAPTURE_UNJOINED: Self = Self(904);
    pub(crate) const CAPTURE_ISOLATION: Self = Self(905);
    pub(crate) const CAPTURE_IMPLICIT: Self = Self(906);
    pub(crate) const CAPTURED_EVENT: Self = Self(907);
    pub(crate) const CAPTURE_WRONG_THREAD: Self = Self(908);
    pub(crate) const GRAPH_EXEC_UPDATE_FAILURE: Self = Self(910);
    pub(crate) const UNKNOWN: Self = Self(999);
}

/// Any opaque CUDA handle. Programs never look inside one, so a number with a unique value serves.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Handle(pub(crate) usize);

impl Handle {
    pub(crate) const NULL: Self = Self(0);
    /// `CU_STREAM_LEGACY`
    pub(crate) const STREAM_LEGACY: Self = Self(1);
    /// `CU_STREAM_PER_THREAD`
    pub(crate) const STREAM_PER_THREAD: Self = Self(2);

    pub(crate) fn is_null(self) -> bool {
        self == Self::NULL
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

pub(crate) type CUcontext = Handle;
pub(crate) type CUstream = Handle;
pub(crate) type CUevent = Handle;
pub(crate) type CUmodule = Handle;
pub(crate) type CUfunction = Handle;
pub(crate) type CUlibrary = Handle;
pub(crate) type CUkernel = Handle;
pub(crate) type CUgraph = Handle;
pub(crate) type CUgraphExec = Handle;
pub(crate) type CUgraphNode = Handle;
pub(crate) type CUmemoryPool = Handle;
pub(crate) type CUdevice = i32;

/// An address as the program sees it.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CUdeviceptr(pub(crate) usize);

impl fmt::Debug for CUdeviceptr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// `CU_DEVICE_CPU`
pub(crate) const DEVICE_CPU: i32 = -1;
/// `CU_DEVICE_INVALID`
pub(crate) const DEVICE_INVALID: i32 = -2;

pub(crate) const LOCATION_DEVICE: i32 = 1;
pub(crate) const LOCATION_HOST: i32 = 2;
pub(crate) const LOCATION_HOST_NUMA: i32 = 3;
pub(crate) const LOCATION_HOST_NUMA_CURRENT: i32 = 4;

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct CUmemLocation {
    pub(crate) kind: i32,
    pub(crate) id: i32,
}

impl fmt::Debug for CUmemLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind, self.id)
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct CUuuid(pub(crate) [u8; 16]);

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct CUipcMemHandle(pub(crate) [u8; 64]);

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct CUmemPoolProps {
    pub(crate) alloc_type: i32,
    pub(crate) handle_types: i32,
    pub(crate) location: CUmemLocation,
    pub(crate) security: usize,
    pub(crate) max_size: usize,
    pub(crate) usage: u16,
    pub(crate) reserved: [u8; 54],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct CUmemAccessDesc {
    pub(crate) location: CUmemLocation,
    pub(crate) flags: i32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct CUmemAllocationProp {
    pub(crate) kind: i32,
    pub(crate) handle_types: i32,
    pub(crate) location: CUmemLocation,
    pub(crate) security: usize,
    pub(crate) flags: [u8; 8],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct CUlaunchConfig {
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) shared_bytes: u32,
    pub(crate) stream: CUstream,
    pub(crate) attributes: usize,
    pub(crate) attribute_count: u32,
}

/// Every error with a name, for `cuGetErrorName`.
pub(crate) const ERROR_NAMES: &[(u32, &std::ffi::CStr)] = &[
    (0, c"CUDA_SUCCESS"),
    (1, c"CUDA_ERROR_INVALID_VALUE"),
    (2, c"CUDA_ERROR_OUT_OF_MEMORY"),
    (3, c"CUDA_ERROR_NOT_INITIALIZED"),
    (4, c"CUDA_ERROR_DEINITIALIZED"),
    (100, c"CUDA_ERROR_NO_DEVICE"),
    (101, c"CUDA_ERROR_INVALID_DEVICE"),
    (200, c"CUDA_ERROR_INVALID_IMAGE"),
    (201, c"CUDA_ERROR_INVALID_CONTEXT"),
    (202, c"CUDA_ERROR_CONTEXT_ALREADY_CURRENT"),
    (215, c"CUDA_ERROR_UNSUPPORTED_LIMIT"),
    (217, c"CUDA_ERROR_PEER_ACCESS_UNSUPPORTED"),
    (224, c"CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY"),
    (304, c"CUDA_ERROR_OPERATING_SYSTEM"),
    (400, c"CUDA_ERROR_INVALID_HANDLE"),
    (401, c"CUDA_ERROR_ILLEGAL_STATE"),
    (500, c"CUDA_ERROR_NOT_FOUND"),
    (600, c"CUDA_ERROR_NOT_READY"),
    (700, c"CUDA_ERROR_ILLEGAL_ADDRESS"),
    (701, c"CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"),
    (702, c"CUDA_ERROR_LAUNCH_TIMEOUT"),
    (704, c"CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED"),
    (705, c"CUDA_ERROR_PEER_ACCESS_NOT_ENABLED"),
    (708, c"CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE"),
    (709, c"CUDA_ERROR_CONTEXT_IS_DESTROYED"),
    (712, c"CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED"),
    (713, c"CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED"),
    (716, c"CUDA_ERROR_MISALIGNED_ADDRESS"),
    (719, c"CUDA_ERROR_LAUNCH_FAILED"),
    (800, c"CUDA_ERROR_NOT_PERMITTED"),
    (801, c"CUDA_ERROR_NOT_SUPPORTED"),
    (900, c"CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"),
    (901, c"CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"),
    (902, c"CUDA_ERROR_STREAM_CAPTURE_MERGE"),
    (903, c"CUDA_ERROR_STREAM_CAPTURE_UNMATCHED"),
    (904, c"CUDA_ERROR_STREAM_CAPTURE_UNJOINED"),
    (905, c"CUDA_ERROR_STREAM_CAPTURE_ISOLATION"),
    (906, c"CUDA_ERROR_STREAM_CAPTURE_IMPLICIT"),
    (907, c"CUDA_ERROR_CAPTURED_EVENT"),
    (908, c"CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD"),
    (910, c"CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE"),
    (999, c"CUDA_ERROR_UNKNOWN"),
];
