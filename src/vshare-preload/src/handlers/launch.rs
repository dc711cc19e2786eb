//! Kernels, graphs and host functions.
#![expect(unsafe_code, reason = "reads the configuration of a launch")]

use crate::cuda::{CUfunction, CUgraphExec, CUhostFn, CUlaunchConfig, CUresult, CUstream};
use crate::guard::Real;
use crate::report;
use crate::symbols::Entry;
use crate::touches::Touches;
use crate::work::submit;
use std::ffi::{c_int, c_void};

#[expect(clippy::too_many_arguments, reason = "as the driver has them")]
pub(crate) fn launch_kernel(
    entry: Entry,
    real: Real<'_>,
    function: CUfunction,
    _grid_x: u32,
    _grid_y: u32,
    _grid_z: u32,
    _block_x: u32,
    _block_y: u32,
    _block_z: u32,
    _shared: u32,
    stream: CUstream,
    params: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> CUresult {
    report::add(report::LAUNCHES, 1);
    submit(
        entry,
        stream,
        Touches::Kernel {
            function,
            params,
            extra,
        },
        real,
    )
}

pub(crate) fn launch_kernel_ex(
    entry: Entry,
    real: Real<'_>,
    config: *const CUlaunchConfig,
    function: CUfunction,
    params: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> CUresult {
    report::add(report::LAUNCHES, 1);
    // SAFETY: the driver is about to read the configuration, too; a null one it refuses.
    let stream = unsafe { config.as_ref() }.map_or(CUstream::NULL, |c| c.hStream);
    submit(
        entry,
        stream,
        Touches::Kernel {
            function,
            params,
            extra,
        },
        real,
    )
}

#[expect(clippy::too_many_arguments, reason = "as the driver has them")]
pub(crate) fn launch_cooperative_kernel(
    entry: Entry,
    real: Real<'_>,
    function: CUfunction,
    _grid_x: u32,
    _grid_y: u32,
    _grid_z: u32,
    _block_x: u32,
    _block_y: u32,
    _block_z: u32,
    _shared: u32,
    stream: CUstream,
    params: *mut *mut c_void,
) -> CUresult {
    report::add(report::LAUNCHES, 1);
    submit(
        entry,
        stream,
        Touches::Kernel {
            function,
            params,
            extra: std::ptr::null_mut(),
        },
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

pub(crate) fn graph_launch(
    entry: Entry,
    real: Real<'_>,
    _graph: CUgraphExec,
    stream: CUstream,
) -> CUresult {
    report::add(report::GRAPH_LAUNCHES, 1);
    submit(entry, stream, Touches::Unknown, real)
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
