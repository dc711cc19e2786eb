//! Driver calls that we make ourselves, as `Result`.
//!
//! Always the driver's own functions, found by name, never our exports. A function that this driver
//! does not have answers `NOT_FOUND`, like a call that failed: whoever asked does without.
#![expect(unsafe_code, reason = "calls the driver")]

use crate::cuda::{
    CUDA_KERNEL_NODE_PARAMS, CUDA_KERNEL_NODE_PARAMS_v1, CUDA_MEMCPY3D, CUDA_MEMSET_NODE_PARAMS,
    CUcontext, CUdevice, CUdeviceptr, CUevent, CUfunction, CUgraph, CUgraphNode, CUmemLocation,
    CUmemoryPool, CUresult, CUstream,
};
pub(crate) mod nodes;

use crate::redirect;
use crate::report;
use std::ffi::{CStr, c_char, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

/// What a call of ours comes to.
pub(crate) type Answer<T> = Result<T, CUresult>;

/// `CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS`.
const CONCURRENT_MANAGED_ACCESS: u32 = 89;
/// `CU_DEVICE_ATTRIBUTE_INTEGRATED`.
const INTEGRATED: u32 = 18;
/// `CU_MEM_ATTACH_GLOBAL`.
const ATTACH_GLOBAL: u32 = 1;
/// `CU_EVENT_DISABLE_TIMING`.
const DISABLE_TIMING: u32 = 2;
/// `CU_STREAM_NON_BLOCKING`.
const NON_BLOCKING: u32 = 1;
/// `CU_DEVICE_CPU`: the host, where a device's ordinal is asked for.
const HOST_ORDINAL: CUdevice = CUdevice(-1);
/// `CU_MEM_LOCATION_TYPE_DEVICE`.
const LOCATION_DEVICE: u32 = 1;
/// `CU_MEM_LOCATION_TYPE_HOST`.
const LOCATION_HOST: u32 = 2;
/// `CU_STREAM_CAPTURE_MODE_RELAXED`.
const CAPTURE_RELAXED: u32 = 2;

/// Declares one call: our name, the driver's, its arguments. The slot keeps null for "not looked
/// up yet" and [`ABSENT`] for "not there".
macro_rules! calls {
    ($($(#[$doc:meta])* $name:ident = $symbol:literal ($($arg:ident: $ty:ty),*);)*) => {$(
        $(#[$doc])*
        fn $name($($arg: $ty),*) -> Answer<()> {
            static SLOT: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
            let found = lookup(&SLOT, $symbol)?;
            // SAFETY: the driver's function of this name has this signature.
            let call = unsafe {
                std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($ty),*) -> CUresult>(found)
            };
            // SAFETY: the wrappers below pass live pointers and handles the driver gave us.
            check(unsafe { call($($arg),*) })
        }
    )*};
}

static ABSENT: u8 = 0;

fn lookup(slot: &AtomicPtr<c_void>, symbol: &'static CStr) -> Answer<*mut c_void> {
    let absent = (&raw const ABSENT).cast_mut().cast::<c_void>();
    // Acquire and Release pair with each other; the driver was bound before either.
    let mut found = slot.load(Ordering::Acquire);
    if found.is_null() {
        found = redirect::driver_symbol(symbol);
        if found.is_null() {
            found = absent;
        }
        slot.store(found, Ordering::Release);
    }
    if found == absent {
        return Err(CUresult::NOT_FOUND);
    }
    Ok(found)
}

fn check(result: CUresult) -> Answer<()> {
    if result == CUresult::SUCCESS {
        Ok(())
    } else {
        Err(result)
    }
}

calls! {
    ctx_get_current = c"cuCtxGetCurrent" (context: *mut CUcontext);
    ctx_push = c"cuCtxPushCurrent_v2" (context: CUcontext);
    ctx_pop = c"cuCtxPopCurrent_v2" (context: *mut CUcontext);
    ctx_get_device = c"cuCtxGetDevice" (device: *mut CUdevice);
    ctx_synchronize = c"cuCtxSynchronize" ();
    primary_state = c"cuDevicePrimaryCtxGetState" (device: CUdevice, flags: *mut u32, active: *mut i32);
    primary_retain = c"cuDevicePrimaryCtxRetain" (context: *mut CUcontext, device: CUdevice);
    primary_release = c"cuDevicePrimaryCtxRelease_v2" (device: CUdevice);
    device_count = c"cuDeviceGetCount" (count: *mut i32);
    device_attribute = c"cuDeviceGetAttribute" (value: *mut i32, attribute: u32, device: CUdevice);
    device_total = c"cuDeviceTotalMem_v2" (bytes: *mut usize, device: CUdevice);
    device_name = c"cuDeviceGetName" (name: *mut u8, length: i32, device: CUdevice);
    device_uuid = c"cuDeviceGetUuid_v2" (uuid: *mut [u8; 16], device: CUdevice);
    device_pool = c"cuDeviceGetMemPool" (pool: *mut CUmemoryPool, device: CUdevice);
    device_default_pool = c"cuDeviceGetDefaultMemPool" (pool: *mut CUmemoryPool, device: CUdevice);
    version = c"cuDriverGetVersion" (version: *mut i32);
    get_info = c"cuMemGetInfo_v2" (free: *mut usize, total: *mut usize);
    alloc = c"cuMemAlloc_v2" (address: *mut CUdeviceptr, bytes: usize);
    alloc_managed_flags = c"cuMemAllocManaged" (address: *mut CUdeviceptr, bytes: usize, flags: u32);
    prefetch_v1 = c"cuMemPrefetchAsync" (address: CUdeviceptr, bytes: usize, to: CUdevice, stream: CUstream);
    prefetch_v2 = c"cuMemPrefetchAsync_v2" (address: CUdeviceptr, bytes: usize, to: CUmemLocation, flags: u32, stream: CUstream);
    discard_batch = c"cuMemDiscardBatchAsync" (addresses: *mut CUdeviceptr, sizes: *mut usize, count: usize, flags: u64, stream: CUstream);
    memcpy_in = c"cuMemcpyHtoDAsync_v2" (to: CUdeviceptr, from: *const c_void, bytes: usize, stream: CUstream);
    memcpy_out = c"cuMemcpyDtoHAsync_v2" (to: *mut c_void, from: CUdeviceptr, bytes: usize, stream: CUstream);
    stream_create = c"cuStreamCreate" (stream: *mut CUstream, flags: u32);
    stream_synchronize_call = c"cuStreamSynchronize" (stream: CUstream);
    stream_wait = c"cuStreamWaitEvent" (stream: CUstream, event: CUevent, flags: u32);
    stream_get_ctx = c"cuStreamGetCtx" (stream: CUstream, context: *mut CUcontext);
    stream_is_capturing = c"cuStreamIsCapturing" (stream: CUstream, status: *mut u32);
    exchange_capture_mode = c"cuThreadExchangeStreamCaptureMode" (mode: *mut u32);
    event_create = c"cuEventCreate" (event: *mut CUevent, flags: u32);
    event_record = c"cuEventRecord" (event: CUevent, stream: CUstream);
    event_query = c"cuEventQuery" (event: CUevent);
    get_nodes = c"cuGraphGetNodes" (graph: CUgraph, nodes: *mut CUgraphNode, count: *mut usize);
    get_type = c"cuGraphNodeGetType" (node: CUgraphNode, kind: *mut u32);
    get_child = c"cuGraphChildGraphNodeGetGraph" (node: CUgraphNode, graph: *mut CUgraph);
    get_kernel = c"cuGraphKernelNodeGetParams_v2" (node: CUgraphNode, params: *mut CUDA_KERNEL_NODE_PARAMS);
    get_kernel_v1 = c"cuGraphKernelNodeGetParams" (node: CUgraphNode, params: *mut CUDA_KERNEL_NODE_PARAMS_v1);
    get_copy = c"cuGraphMemcpyNodeGetParams" (node: CUgraphNode, params: *mut CUDA_MEMCPY3D);
    get_fill = c"cuGraphMemsetNodeGetParams" (node: CUgraphNode, params: *mut CUDA_MEMSET_NODE_PARAMS);
    func_param_info = c"cuFuncGetParamInfo" (function: CUfunction, index: usize, offset: *mut usize, size: *mut usize);
    func_get_name = c"cuFuncGetName" (name: *mut *const c_char, function: CUfunction);
    kernel_get_name = c"cuKernelGetName" (name: *mut *const c_char, function: CUfunction);
    event_elapsed = c"cuEventElapsedTime" (milliseconds: *mut f32, begin: CUevent, end: CUevent);
    kernel_param_info = c"cuKernelGetParamInfo" (function: CUfunction, index: usize, offset: *mut usize, size: *mut usize);
}

/// The current context of this thread; `None` if there is none.
pub(crate) fn current_context() -> Option<CUcontext> {
    let mut context = CUcontext::NULL;
    ctx_get_current(&raw mut context).ok()?;
    (context != CUcontext::NULL).then_some(context)
}

/// Runs `f` with `context` current.
pub(crate) fn in_context<T>(context: CUcontext, f: impl FnOnce() -> Answer<T>) -> Answer<T> {
    /// Gives the thread its own context back, also when a defect of ours unwinds.
    struct Pushed;
    impl Drop for Pushed {
        fn drop(&mut self) {
            let mut popped = CUcontext::NULL;
            _ = ctx_pop(&raw mut popped);
        }
    }
    if current_context() == Some(context) {
        return f();
    }
    ctx_push(context)?;
    let _pushed = Pushed;
    f()
}

/// Runs `f` so that a capture in the program's streams neither forbids nor records its calls.
pub(crate) fn outside_captures<T>(f: impl FnOnce() -> T) -> T {
    /// Gives the thread its own mode back, also when a defect of ours unwinds.
    struct Mode(Option<u32>);
    impl Drop for Mode {
        fn drop(&mut self) {
            if let Some(mut mode) = self.0 {
                _ = exchange_capture_mode(&raw mut mode);
            }
        }
    }
    let mut mode = CAPTURE_RELAXED;
    let relaxed = exchange_capture_mode(&raw mut mode).is_ok();
    let _own = Mode(relaxed.then_some(mode));
    f()
}

/// As [`outside_captures`], for the whole life of a thread of ours.
pub(crate) fn leave_captures() {
    let mut mode = CAPTURE_RELAXED;
    _ = exchange_capture_mode(&raw mut mode);
}

/// Whether a capture forbids this thread what it forbids: calls that might wait or allocate. Asked
/// by a call of that class, so that a capture which the program breaks is broken as it would be.
pub(crate) fn is_forbidden(event: CUevent) -> bool {
    event_query(event) == Err(CUresult::STREAM_CAPTURE_UNSUPPORTED)
}

/// The current context's device.
pub(crate) fn current_device() -> Answer<CUdevice> {
    let mut device = CUdevice(0);
    ctx_get_device(&raw mut device)?;
    Ok(device)
}

/// Waits for all work in the current context.
pub(crate) fn synchronize() -> Answer<()> {
    ctx_synchronize()
}

/// Whether a device's primary context is there.
pub(crate) fn primary_is_active(device: CUdevice) -> Answer<bool> {
    let (mut flags, mut active) = (0, 0);
    let mut ask = || primary_state(device, &raw mut flags, &raw mut active);
    // Much hangs on it: one failure is not taken for an answer.
    ask().or_else(|_| ask()).or_else(|_| ask())?;
    Ok(active != 0)
}

/// A device's primary context, if it is there; it is left as it was.
pub(crate) fn primary_context(device: CUdevice) -> Option<CUcontext> {
    if !primary_is_active(device).ok()? {
        return None;
    }
    let mut context = CUcontext::NULL;
    primary_retain(&raw mut context, device).ok()?;
    _ = primary_release(device);
    Some(context)
}

/// Whether the GPU can use managed memory while the host may, fault in what it lacks, and has
/// memory of its own to keep it in.
pub(crate) fn can_oversubscribe(device: CUdevice) -> Answer<bool> {
    Ok(attribute(device, CONCURRENT_MANAGED_ACCESS)? != 0 && attribute(device, INTEGRATED)? == 0)
}

fn attribute(device: CUdevice, which: u32) -> Answer<i32> {
    let mut value = 0;
    device_attribute(&raw mut value, which, device)?;
    Ok(value)
}

/// How many devices the program can use; at least 1.
pub(crate) fn devices() -> u64 {
    let mut count = 1;
    _ = device_count(&raw mut count);
    u64::from(count.unsigned_abs().max(1))
}

/// A device's physical memory, bytes.
pub(crate) fn total_memory(device: CUdevice) -> Answer<u64> {
    let mut bytes = 0;
    device_total(&raw mut bytes, device)?;
    Ok(bytes as u64)
}

/// A device's name.
pub(crate) fn name(device: CUdevice) -> Answer<String> {
    let mut bytes = [0_u8; 128];
    device_name(bytes.as_mut_ptr(), 127, device)?;
    let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
    Ok(String::from_utf8_lossy(bytes.get(..end).unwrap_or(&[])).into_owned())
}

/// A device's UUID.
pub(crate) fn uuid(device: CUdevice) -> Answer<[u8; 16]> {
    let mut uuid = [0; 16];
    device_uuid(&raw mut uuid, device)?;
    Ok(uuid)
}

/// The pool `cuMemAllocAsync` takes from on a device.
pub(crate) fn current_pool(device: CUdevice) -> Answer<CUmemoryPool> {
    let mut pool = CUmemoryPool(0);
    device_pool(&raw mut pool, device)?;
    Ok(pool)
}

/// The pool a device has of itself.
pub(crate) fn default_pool(device: CUdevice) -> Answer<CUmemoryPool> {
    let mut pool = CUmemoryPool(0);
    device_default_pool(&raw mut pool, device)?;
    Ok(pool)
}

/// The driver's version, as `cuDriverGetVersion` has it.
pub(crate) fn driver_version() -> Answer<u32> {
    let mut number = 0;
    version(&raw mut number)?;
    Ok(number.unsigned_abs())
}

/// Memory of the current context's device: (free, total), bytes.
pub(crate) fn memory_info() -> Answer<(u64, u64)> {
    let (mut free, mut total) = (0, 0);
    get_info(&raw mut free, &raw mut total)?;
    Ok((free as u64, total as u64))
}

/// Plain device memory.
pub(crate) fn alloc_device(bytes: u64) -> Answer<u64> {
    let mut address = CUdeviceptr(0);
    alloc(&raw mut address, to_usize(bytes))?;
    Ok(address.0)
}

/// Managed memory. Costs the same whatever its size: nothing is populated.
pub(crate) fn alloc_managed(bytes: u64) -> Answer<u64> {
    let mut address = CUdeviceptr(0);
    alloc_managed_flags(&raw mut address, to_usize(bytes), ATTACH_GLOBAL)?;
    Ok(address.0)
}

/// Where a prefetch goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum To {
    /// A device.
    Device(CUdevice),
    /// Host memory.
    Host,
}

/// Moves a range of managed memory, in `stream`'s order. With nothing before it in the stream, the
/// move is made within the call.
///
/// Two forms of the call exist, and which one a driver exports under which name is what tells them
/// apart: the newer takes a location, the older an ordinal.
pub(crate) fn prefetch(address: u64, bytes: u64, to: To, stream: CUstream) -> Answer<()> {
    let (ordinal, location) = match to {
        To::Device(device) => (
            device,
            CUmemLocation {
                type_: LOCATION_DEVICE,
                id: device.0,
            },
        ),
        To::Host => (
            HOST_ORDINAL,
            CUmemLocation {
                type_: LOCATION_HOST,
                id: 0,
            },
        ),
    };
    match prefetch_v2(CUdeviceptr(address), to_usize(bytes), location, 0, stream) {
        Err(CUresult::NOT_FOUND | CUresult::NOT_SUPPORTED) => {
            prefetch_v1(CUdeviceptr(address), to_usize(bytes), ordinal, stream)
        }
        answer => answer,
    }
}

/// Says that the contents of these ranges (address, bytes) are of no use any more.
pub(crate) fn discard(ranges: &[(u64, u64)], stream: CUstream) -> Answer<()> {
    let mut addresses: Vec<_> = ranges.iter().map(|r| CUdeviceptr(r.0)).collect();
    let mut sizes: Vec<_> = ranges.iter().map(|r| to_usize(r.1)).collect();
    discard_batch(
        addresses.as_mut_ptr(),
        sizes.as_mut_ptr(),
        ranges.len(),
        0,
        stream,
    )
}

/// Copies words to the device, in a stream's order.
pub(crate) fn copy_in(to: u64, from: &[u64], stream: CUstream) -> Answer<()> {
    memcpy_in(
        CUdeviceptr(to),
        from.as_ptr().cast(),
        size_of_val(from),
        stream,
    )
}

/// Copies words from the device, in a stream's order. They are there when the call returns: this is no pinned memory.
pub(crate) fn copy_out(to: &mut [u64], from: u64, stream: CUstream) -> Answer<()> {
    let bytes = size_of_val(to);
    memcpy_out(to.as_mut_ptr().cast(), CUdeviceptr(from), bytes, stream)
}

/// A stream that waits for no default stream.
pub(crate) fn new_stream() -> Answer<CUstream> {
    let mut stream = CUstream::NULL;
    stream_create(&raw mut stream, NON_BLOCKING)?;
    Ok(stream)
}

/// Waits for a stream of ours.
pub(crate) fn stream_synchronize(stream: CUstream) -> Answer<()> {
    stream_synchronize_call(stream)
}

/// Makes `stream`'s further work wait for `event`.
pub(crate) fn wait_for(stream: CUstream, event: CUevent) -> Answer<()> {
    stream_wait(stream, event, 0)
}

/// Whether a stream records a graph instead of running. A default stream that may not be asked,
/// because another is capturing, does not capture itself.
pub(crate) fn is_capturing(stream: CUstream) -> bool {
    let mut status = 0;
    stream_is_capturing(stream, &raw mut status).is_ok() && status != 0
}

/// An event without times, of the current context.
pub(crate) fn new_event() -> Answer<CUevent> {
    let mut event = CUevent(0);
    event_create(&raw mut event, DISABLE_TIMING)?;
    Ok(event)
}

/// An event with times, of the current context.
pub(crate) fn new_timed_event() -> Answer<CUevent> {
    let mut event = CUevent(0);
    event_create(&raw mut event, 0)?;
    Ok(event)
}

/// Nanoseconds from one event with times to another.
///
/// # Errors
/// `NOT_READY`: not both have passed.
pub(crate) fn elapsed(begin: CUevent, end: CUevent) -> Answer<u64> {
    let mut milliseconds = 0.0;
    event_elapsed(&raw mut milliseconds, begin, end)?;
    let between = std::time::Duration::try_from_secs_f32(milliseconds / 1e3).unwrap_or_default();
    Ok(u64::try_from(between.as_nanos()).unwrap_or(0))
}

/// Records an event after all work now in a stream.
pub(crate) fn record(event: CUevent, stream: CUstream) -> Answer<()> {
    event_record(event, stream)
}

/// A stream's context.
pub(crate) fn stream_context(stream: CUstream) -> Option<CUcontext> {
    let mut context = CUcontext::NULL;
    stream_get_ctx(stream, &raw mut context).ok()?;
    (context != CUcontext::NULL).then_some(context)
}

/// Whether the work before an event has ended. A context whose work failed has no more work; but an
/// event that may not be asked (by a thread without a context, or because it has been captured) tells nothing.
pub(crate) fn has_passed(event: CUevent) -> bool {
    match event_query(event) {
        Ok(()) => true,
        Err(
            CUresult::NOT_READY
            | CUresult::INVALID_CONTEXT
            | CUresult::INVALID_VALUE
            | CUresult::INVALID_HANDLE
            | CUresult::NOT_FOUND
            | CUresult::UNKNOWN,
        ) => false,
        // 900 to 907: captures.
        Err(CUresult(code)) => !(900..=907).contains(&code),
    }
}

/// A kernel's parameters in order: (offset, size), bytes. The handle may be of either kind,
/// `CUkernel` or `CUfunction`, and each call answers for its own kind alone.
///
/// # Errors
/// The layout cannot be known: no such call in this driver, or neither kind of handle.
pub(crate) fn parameters(function: CUfunction) -> Answer<Vec<(usize, usize)>> {
    let as_kernel = parameters_by(kernel_param_info, function);
    match as_kernel {
        Ok(ref found) if !found.is_empty() => as_kernel,
        _ => parameters_by(func_param_info, function).or(as_kernel),
    }
}

type ParamInfo = fn(CUfunction, usize, *mut usize, *mut usize) -> Answer<()>;

fn parameters_by(ask: ParamInfo, function: CUfunction) -> Answer<Vec<(usize, usize)>> {
    let mut found = Vec::new();
    loop {
        let (mut offset, mut size) = (0, 0);
        match ask(function, found.len(), &raw mut offset, &raw mut size) {
            Ok(()) => found.push((offset, size)),
            // Past the last one.
            Err(CUresult::INVALID_VALUE) => return Ok(found),
            Err(code) => return Err(code),
        }
        // A kernel has at most 32764 bytes of parameters.
        if found.len() > 32_764 {
            return Err(CUresult::UNKNOWN);
        }
    }
}

/// A kernel's name, whichever kind its handle is of.
pub(crate) fn function_name(function: CUfunction) -> Option<String> {
    let mut name = std::ptr::null();
    kernel_get_name(&raw mut name, function)
        .or_else(|_| func_get_name(&raw mut name, function))
        .ok()?;
    if name.is_null() {
        return None;
    }
    // SAFETY: the driver's answer is a text with a null at its end, which lives as long as the function's module; the
    // program is launching the function.
    let name = unsafe { CStr::from_ptr(name) };
    Some(name.to_string_lossy().into_owned())
}

/// Counts and reports a call of ours that failed, and passes its answer on.
pub(crate) fn noted<T>(call: &'static str, bytes: u64, answer: Answer<T>) -> Answer<T> {
    match answer {
        Ok(_) => answer,
        Err(_) => noted_of(current_device().unwrap_or(CUdevice(0)), call, bytes, answer),
    }
}

/// The same in a thread that may have no context: of which device's memory it was.
pub(crate) fn noted_of<T>(
    device: CUdevice,
    call: &'static str,
    bytes: u64,
    answer: Answer<T>,
) -> Answer<T> {
    if let Err(code) = answer
        && code != CUresult::DEINITIALIZED
    {
        report::driver_failed(call, code, bytes, device);
    }
    answer
}

fn to_usize(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}
