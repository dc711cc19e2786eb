//! Settings that a device without hardware takes and forgets: limits, cache preferences, the profiler.

use crate::arg::Out;
use crate::context;
use crate::cuda::{Answer, CUfunction, CUkernel, CuError};
use crate::gate::Call;
use crate::machine::machine;
use crate::table::driver_calls;

driver_calls! {
    "cuCtxGetLimit" get_limit(value: Out<usize>, limit: i32) { cuCtxGetLimit: 3010 Legacy }
    "cuCtxSetLimit" set_limit(limit: i32, value: usize) { cuCtxSetLimit: 3010 Legacy }
    "cuCtxGetCacheConfig" get_config(config: Out<i32>) { cuCtxGetCacheConfig: 3020 Legacy }
    "cuCtxSetCacheConfig" set_config(config: i32) { cuCtxSetCacheConfig: 3020 Legacy }
    "cuCtxGetSharedMemConfig" get_config(config: Out<i32>) { cuCtxGetSharedMemConfig: 4020 Legacy }
    "cuCtxSetSharedMemConfig" set_config(config: i32) { cuCtxSetSharedMemConfig: 4020 Legacy }
    "cuFuncSetCacheConfig" func_set_config(function: CUfunction, config: i32) { cuFuncSetCacheConfig: 3000 Legacy }
    "cuFuncSetSharedMemConfig" func_set_config(function: CUfunction, config: i32) { cuFuncSetSharedMemConfig: 4020 Legacy }
    "cuKernelSetCacheConfig" kernel_set_config(kernel: CUkernel, config: i32, dev: i32) { cuKernelSetCacheConfig: 12000 Legacy }
    "cuProfilerStart" profiler() { cuProfilerStart: 4000 Legacy }
    "cuProfilerStop" profiler() { cuProfilerStop: 4000 Legacy }
}

/// Stack, printf buffer, heap, nesting, pending launches: what a real device starts with.
const LIMITS: [usize; 5] = [1024, 6 << 20, 8 << 20, 2, 2048];

fn get_limit(_: &Call, value: Out<usize>, limit: i32) -> Answer {
    context::current()?;
    let known = usize::try_from(limit)
        .ok()
        .and_then(|limit| LIMITS.get(limit));
    value.put(*known.ok_or(CuError(215))?)
}

fn set_limit(_: &Call, limit: i32, _value: usize) -> Answer {
    context::current()?;
    let known = usize::try_from(limit).is_ok_and(|limit| limit < LIMITS.len());
    if known { Ok(()) } else { Err(CuError(215)) }
}

fn get_config(_: &Call, config: Out<i32>) -> Answer {
    context::current()?;
    config.put(0)
}

fn set_config(_: &Call, _config: i32) -> Answer {
    context::current().map(|_| ())
}

fn func_set_config(_: &Call, function: CUfunction, _config: i32) -> Answer {
    machine()?.functions.get(function).map(|_| ())
}

fn kernel_set_config(_: &Call, kernel: CUkernel, _config: i32, _dev: i32) -> Answer {
    machine()?.functions.get(kernel).map(|_| ())
}

fn profiler(_: &Call) -> Answer {
    context::current().map(|_| ())
}
