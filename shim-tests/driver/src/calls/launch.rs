//! Launches of kernels and host functions.

use crate::arg::In;
use crate::context::Context;
use crate::cuda::{Answer, CUfunction, CUlaunchConfig, CUstream, CuError};
use crate::gate::Call;
use crate::kernels::Kernel;
use crate::machine::machine;
use crate::op::{HostFunction, Op};
use crate::order;
use crate::table::driver_calls;
use std::sync::Arc;

driver_calls! {
    "cuLaunchKernel" kernel(function: CUfunction, gx: u32, gy: u32, gz: u32, bx: u32, by: u32, bz: u32, shared: u32, stream: CUstream, params: In<usize>, extra: In<usize>) {
        cuLaunchKernel: 4000 Legacy, cuLaunchKernel_ptsz: 7000 PerThread }
    "cuLaunchCooperativeKernel" cooperative(function: CUfunction, gx: u32, gy: u32, gz: u32, bx: u32, by: u32, bz: u32, shared: u32, stream: CUstream, params: In<usize>) {
        cuLaunchCooperativeKernel: 9000 Legacy, cuLaunchCooperativeKernel_ptsz: 9000 PerThread }
    "cuLaunchKernelEx" kernel_ex(config: In<CUlaunchConfig>, function: CUfunction, params: In<usize>, extra: In<usize>) {
        cuLaunchKernelEx: 11060 Legacy, cuLaunchKernelEx_ptsz: 11060 PerThread }
    "cuLaunchHostFunc" host_func(stream: CUstream, function: Option<HostFunction>, data: usize) {
        cuLaunchHostFunc: 10000 Legacy, cuLaunchHostFunc_ptsz: 10000 PerThread }
}

/// Keys of the `extra` list.
const BUFFER_POINTER: usize = 1;
const BUFFER_SIZE: usize = 2;

const THREADS_PER_BLOCK: u64 = 1024;

fn launch(
    call: &Call,
    function: CUfunction,
    dims: [u32; 6],
    stream: CUstream,
    params: In<usize>,
    extra: In<usize>,
) -> Answer {
    let target = order::target(stream, call.lane)?;
    let op = work(&target.context, function, dims, params, extra)?;
    target.submit(op).map(|_| ())
}

/// A launch as work, if it may be made in this context.
pub(super) fn work(
    context: &Context,
    function: CUfunction,
    dims: [u32; 6],
    params: In<usize>,
    extra: In<usize>,
) -> Result<Op, CuError> {
    let found = machine()?.functions.get(function)?;
    if !found.context.is_null() && found.context != context.handle {
        return Err(CuError::INVALID_HANDLE);
    }
    let [_, _, _, bx, by, bz] = dims.map(u64::from);
    if dims.contains(&0) || bx * by * bz > THREADS_PER_BLOCK {
        return Err(CuError::INVALID_VALUE);
    }
    Ok(Op::Kernel {
        kernel: found.kernel,
        function,
        params: collect(found.kernel, params, extra)?,
    })
}

/// The parameters as one buffer, from either form.
fn collect(kernel: &Kernel, params: In<usize>, extra: In<usize>) -> Result<Arc<[u8]>, CuError> {
    if !extra.is_null() {
        return if params.is_null() {
            from_extra(kernel, extra)
        } else {
            Err(CuError::INVALID_VALUE)
        };
    }
    let mut bytes = vec![0; kernel.param_bytes()];
    for (index, (offset, size)) in kernel.layout().into_iter().enumerate() {
        let value = In::<u8>::at_address(params.at(index)?).list(size)?;
        bytes
            .get_mut(offset..offset + size)
            .ok_or(CuError::UNKNOWN)?
            .copy_from_slice(&value);
    }
    Ok(bytes.into())
}

/// Pairs of key and address, up to a zero key. A buffer must hold all the parameters.
fn from_extra(kernel: &Kernel, extra: In<usize>) -> Result<Arc<[u8]>, CuError> {
    let (mut buffer, mut size) = (0, None);
    for pair in 0..8 {
        let key = extra.at(2 * pair)?;
        match key {
            0 => break,
            BUFFER_POINTER => buffer = extra.at(2 * pair + 1)?,
            BUFFER_SIZE => size = Some(In::<usize>::at_address(extra.at(2 * pair + 1)?).get()?),
            _ => return Err(CuError::INVALID_VALUE),
        }
    }
    let size = size
        .filter(|size| *size >= kernel.param_bytes())
        .ok_or(CuError::INVALID_VALUE)?;
    Ok(In::<u8>::at_address(buffer).list(size)?.into())
}

#[expect(clippy::too_many_arguments, reason = "CUDA's parameter list")]
fn kernel(
    call: &Call,
    function: CUfunction,
    gx: u32,
    gy: u32,
    gz: u32,
    bx: u32,
    by: u32,
    bz: u32,
    _shared: u32,
    stream: CUstream,
    params: In<usize>,
    extra: In<usize>,
) -> Answer {
    launch(
        call,
        function,
        [gx, gy, gz, bx, by, bz],
        stream,
        params,
        extra,
    )
}

#[expect(clippy::too_many_arguments, reason = "CUDA's parameter list")]
fn cooperative(
    call: &Call,
    function: CUfunction,
    gx: u32,
    gy: u32,
    gz: u32,
    bx: u32,
    by: u32,
    bz: u32,
    _shared: u32,
    stream: CUstream,
    params: In<usize>,
) -> Answer {
    launch(
        call,
        function,
        [gx, gy, gz, bx, by, bz],
        stream,
        params,
        In::at_address(0),
    )
}

fn kernel_ex(
    call: &Call,
    config: In<CUlaunchConfig>,
    function: CUfunction,
    params: In<usize>,
    extra: In<usize>,
) -> Answer {
    let config = config.get()?;
    let ([gx, gy, gz], [bx, by, bz]) = (config.grid, config.block);
    launch(
        call,
        function,
        [gx, gy, gz, bx, by, bz],
        config.stream,
        params,
        extra,
    )
}

fn host_func(call: &Call, stream: CUstream, function: Option<HostFunction>, data: usize) -> Answer {
    let function = function.ok_or(CuError::INVALID_VALUE)?;
    order::target(stream, call.lane)?
        .submit(Op::Host { function, data })
        .map(|_| ())
}
