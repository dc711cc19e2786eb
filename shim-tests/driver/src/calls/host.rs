//! Pinned and registered host memory: the same address for host and device.

use super::memory::owner;
use crate::arg::Out;
use crate::capture;
use crate::context;
use crate::cuda::{Answer, CUdeviceptr, CuError};
use crate::gate::Call;
use crate::handles::lock;
use crate::machine::machine;
use crate::memory::Kind;
use crate::table::driver_calls;

driver_calls! {
    "cuMemHostAlloc" host_alloc(pp: Out<usize>, bytes: usize, flags: u32) { cuMemHostAlloc: 2020 Legacy }
    "cuMemAllocHost" alloc_host(pp: Out<usize>, bytes: usize) { cuMemAllocHost_v2: 3020 Legacy }
    "cuMemFreeHost" free_host(p: usize) { cuMemFreeHost: 2000 Legacy }
    "cuMemHostRegister" register(p: usize, bytes: usize, flags: u32) { cuMemHostRegister: 4000 Legacy, cuMemHostRegister_v2: 6050 Legacy }
    "cuMemHostUnregister" unregister(p: usize) { cuMemHostUnregister: 4000 Legacy }
    "cuMemHostGetDevicePointer" device_pointer(dptr: Out<CUdeviceptr>, p: usize, flags: u32) { cuMemHostGetDevicePointer_v2: 3020 Legacy }
    "cuMemHostGetFlags" get_flags(flags: Out<u32>, p: usize) { cuMemHostGetFlags: 2030 Legacy }
}

fn host_alloc(_: &Call, pp: Out<usize>, bytes: usize, flags: u32) -> Answer {
    let context = context::current()?;
    pp.required()?;
    capture::unsafe_call()?;
    let base = lock(&machine()?.memory).alloc_host(bytes, flags, owner(&context))?;
    pp.put(base)
}

fn alloc_host(call: &Call, pp: Out<usize>, bytes: usize) -> Answer {
    host_alloc(call, pp, bytes, 0)
}

fn free_host(_: &Call, p: usize) -> Answer {
    end(p, Kind::Pinned, CuError::INVALID_VALUE)
}

fn end(p: usize, kind: Kind, unknown: CuError) -> Answer {
    let context = context::current()?;
    capture::unsafe_call()?;
    super::memory::end(p, &[kind], unknown, &context)
}

fn register(_: &Call, p: usize, bytes: usize, flags: u32) -> Answer {
    let context = context::current()?;
    if p == 0 || bytes == 0 {
        return Err(CuError::INVALID_VALUE);
    }
    lock(&machine()?.memory).register(p, bytes, flags, owner(&context))
}

fn unregister(_: &Call, p: usize) -> Answer {
    end(p, Kind::Registered, CuError::HOST_MEMORY_NOT_REGISTERED)
}

fn device_pointer(_: &Call, dptr: Out<CUdeviceptr>, p: usize, flags: u32) -> Answer {
    context::current()?;
    dptr.required()?;
    if flags != 0 {
        return Err(CuError::INVALID_VALUE);
    }
    let memory = lock(&machine()?.memory);
    memory
        .find(p)
        .filter(|found| matches!(found.kind, Kind::Pinned | Kind::Registered))
        .ok_or(CuError::INVALID_VALUE)?;
    dptr.put(CUdeviceptr(p))
}

fn get_flags(_: &Call, flags: Out<u32>, p: usize) -> Answer {
    context::current()?;
    let memory = lock(&machine()?.memory);
    let found = memory
        .find(p)
        .filter(|found| matches!(found.kind, Kind::Pinned | Kind::Registered))
        .ok_or(CuError::INVALID_VALUE)?;
    // The driver maps all pinned memory (2) with unified addressing.
    flags.put(found.flags | 2)
}
