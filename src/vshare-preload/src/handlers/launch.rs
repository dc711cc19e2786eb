//! Kernels and host functions.
#![expect(unsafe_code, reason = "reads the configuration of a launch")]

use crate::cuda::{CUDA_LAUNCH_PARAMS, CUfunction, CUhostFn, CUlaunchConfig, CUresult, CUstream};
use crate::guard::Real;
use crate::report;
use crate::symbols::Entry;
use crate::touches::Touches;
use crate::work::{submit, submit_to_all};
use std::ffi::{c_int, c_void};

fn submit_kernel(
    entry: Entry,
    stream: CUstream,
    function: CUfunction,
    sizes: [u32; 6],
    params: *mut *mut c_void,
    extra: *mut *mut c_void,
    real: Real<'_>,
) -> CUresult {
    report::add(report::LAUNCHES, 1);
    let touches = Touches::Kernel {
        function,
        sizes,
        params,
        extra,
    };
    submit(entry, stream, touches, real)
}

#[expect(clippy::too_many_arguments, reason = "as the driver has them")]
pub(crate) fn launch_kernel(
    entry: Entry,
    real: Real<'_>,
    function: CUfunction,
    grid_x: u32,
    grid_y: u32,
    grid_z: u32,
    block_x: u32,
    block_y: u32,
    block_z: u32,
    _shared: u32,
    stream: CUstream,
    params: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> CUresult {
    let sizes = [grid_x, grid_y, grid_z, block_x, block_y, block_z];
    submit_kernel(entry, stream, function, sizes, params, extra, real)
}

pub(crate) fn launch_kernel_ex(
    entry: Entry,
    real: Real<'_>,
    config: *const CUlaunchConfig,
    function: CUfunction,
    params: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> CUresult {
    // SAFETY: the driver is about to read the configuration, too; a null one it refuses.
    let (stream, sizes) = unsafe { config.as_ref() }.map_or((CUstream::NULL, [0; 6]), |c| {
        let sizes = [
            c.gridDimX,
            c.gridDimY,
            c.gridDimZ,
            c.blockDimX,
            c.blockDimY,
            c.blockDimZ,
        ];
        (c.hStream, sizes)
    });
    submit_kernel(entry, stream, function, sizes, params, extra, real)
}

#[expect(clippy::too_many_arguments, reason = "as the driver has them")]
pub(crate) fn launch_cooperative_kernel(
    entry: Entry,
    real: Real<'_>,
    function: CUfunction,
    grid_x: u32,
    grid_y: u32,
    grid_z: u32,
    block_x: u32,
    block_y: u32,
    block_z: u32,
    _shared: u32,
    stream: CUstream,
    params: *mut *mut c_void,
) -> CUresult {
    let sizes = [grid_x, grid_y, grid_z, block_x, block_y, block_z];
    submit_kernel(
        entry,
        stream,
        function,
        sizes,
        params,
        std::ptr::null_mut(),
        real,
    )
}

pub(crate) fn launch_host_func(
    entry: Entry,
    real: Real<'_>,
    stream: CUstream,
    _function: CUhostFn,
    _data: *mut c_void,
) -> CUresult {
    submit(entry, stream, Touches::Host, real)
}

pub(crate) fn stream_add_callback(
    entry: Entry,
    real: Real<'_>,
    stream: CUstream,
    _callback: *const c_void,
    _data: *mut c_void,
    _flags: u32,
) -> CUresult {
    submit(entry, stream, Touches::Host, real)
}

/// One kernel on several devices: what each part names is left to be faulted in.
pub(crate) fn launch_cooperative_kernel_multi_device(
    entry: Entry,
    real: Real<'_>,
    launches: *mut CUDA_LAUNCH_PARAMS,
    count: u32,
    _flags: u32,
) -> CUresult {
    if launches.is_null() {
        return real.call();
    }
    // SAFETY: the program passes `count` launches, which the driver is about to read, too.
    let launches = unsafe { std::slice::from_raw_parts(launches, count as usize) };
    let streams: Vec<CUstream> = launches.iter().map(|l| l.hStream).collect();
    report::add(report::LAUNCHES, u64::from(count));
    report::add(report::LAUNCHES_UNKNOWN, u64::from(count));
    submit_to_all(entry, &streams, real)
}

pub(crate) fn launch(entry: Entry, real: Real<'_>, _function: CUfunction) -> CUresult {
    submit(entry, CUstream::NULL, Touches::Unknown, real)
}

pub(crate) fn launch_grid(
    entry: Entry,
    real: Real<'_>,
    _function: CUfunction,
    _width: c_int,
    _height: c_int,
) -> CUresult {
    submit(entry, CUstream::NULL, Touches::Unknown, real)
}

pub(crate) fn launch_grid_async(
    entry: Entry,
    real: Real<'_>,
    _function: CUfunction,
    _width: c_int,
    _height: c_int,
    stream: CUstream,
) -> CUresult {
    submit(entry, stream, Touches::Unknown, real)
}
