//! Stream-ordered allocation. Memory is there when the call returns and ends when the stream reaches the free; nothing is kept back.

use super::memory::owner;
use crate::arg::{In, Out};
use crate::capture;
use crate::context;
use crate::cuda::{
    Answer, CUdevice, CUdeviceptr, CUmemAccessDesc, CUmemLocation, CUmemPoolProps, CUmemoryPool,
    CUstream, CuError, LOCATION_DEVICE,
};
use crate::gate::Call;
use crate::handles::lock;
use crate::machine::{device, machine};
use crate::memory::{Kind, Owner};
use crate::module::Pool;
use crate::op::Op;
use crate::order::{self, Submitted, Target};
use crate::table::driver_calls;
use std::sync::atomic::Ordering;

driver_calls! {
    "cuMemAllocAsync" alloc_async(dptr: Out<CUdeviceptr>, bytes: usize, stream: CUstream) {
        cuMemAllocAsync: 11020 Legacy, cuMemAllocAsync_ptsz: 11020 PerThread }
    "cuMemAllocFromPoolAsync" alloc_from_pool(dptr: Out<CUdeviceptr>, bytes: usize, pool: CUmemoryPool, stream: CUstream) {
        cuMemAllocFromPoolAsync: 11020 Legacy, cuMemAllocFromPoolAsync_ptsz: 11020 PerThread }
    "cuMemFreeAsync" free_async(dptr: CUdeviceptr, stream: CUstream) {
        cuMemFreeAsync: 11020 Legacy, cuMemFreeAsync_ptsz: 11020 PerThread }
    "cuDeviceGetDefaultMemPool" get_default(pool: Out<CUmemoryPool>, dev: CUdevice) { cuDeviceGetDefaultMemPool: 11020 Legacy }
    "cuDeviceGetMemPool" get_pool(pool: Out<CUmemoryPool>, dev: CUdevice) { cuDeviceGetMemPool: 11020 Legacy }
    "cuDeviceSetMemPool" set_pool(dev: CUdevice, pool: CUmemoryPool) { cuDeviceSetMemPool: 11020 Legacy }
    "cuMemGetDefaultMemPool" get_default_at(pool: Out<CUmemoryPool>, location: In<CUmemLocation>, kind: i32) { cuMemGetDefaultMemPool: 13000 Legacy }
    "cuMemGetMemPool" get_pool_at(pool: Out<CUmemoryPool>, location: In<CUmemLocation>, kind: i32) { cuMemGetMemPool: 13000 Legacy }
    "cuMemSetMemPool" set_pool_at(location: In<CUmemLocation>, kind: i32, pool: CUmemoryPool) { cuMemSetMemPool: 13000 Legacy }
    "cuMemPoolCreate" create(pool: Out<CUmemoryPool>, props: In<CUmemPoolProps>) { cuMemPoolCreate: 11020 Legacy }
    "cuMemPoolDestroy" destroy(pool: CUmemoryPool) { cuMemPoolDestroy: 11020 Legacy }
    "cuMemPoolSetAttribute" set_attribute(pool: CUmemoryPool, attribute: i32, value: In<u64>) { cuMemPoolSetAttribute: 11020 Legacy }
    "cuMemPoolGetAttribute" get_attribute(pool: CUmemoryPool, attribute: i32, value: Out<u64>) { cuMemPoolGetAttribute: 11020 Legacy }
    "cuMemPoolTrimTo" trim_to(pool: CUmemoryPool, keep: usize) { cuMemPoolTrimTo: 11020 Legacy }
    "cuMemPoolSetAccess" set_access(pool: CUmemoryPool, map: In<CUmemAccessDesc>, count: usize) { cuMemPoolSetAccess: 11020 Legacy }
    "cuMemPoolGetAccess" get_access(flags: Out<i32>, pool: CUmemoryPool, location: In<CUmemLocation>) { cuMemPoolGetAccess: 11020 Legacy }
}

fn alloc_async(call: &Call, dptr: Out<CUdeviceptr>, bytes: usize, stream: CUstream) -> Answer {
    let target = order::target(stream, call.lane)?;
    let (_, current) = machine()?
        .device_pools
        .get(target.context.device)
        .ok_or(CuError::INVALID_DEVICE)?;
    let pool = *lock(current);
    take(&target, dptr, bytes, pool)
}

fn alloc_from_pool(
    call: &Call,
    dptr: Out<CUdeviceptr>,
    bytes: usize,
    pool: CUmemoryPool,
    stream: CUstream,
) -> Answer {
    take(&order::target(stream, call.lane)?, dptr, bytes, pool)
}

fn take(target: &Target, dptr: Out<CUdeviceptr>, bytes: usize, handle: CUmemoryPool) -> Answer {
    dptr.required()?;
    let machine = machine()?;
    let pool = machine
        .pools
        .get(handle)
        .map_err(|_| CuError::INVALID_VALUE)?;
    allowed(target)?;
    let by_graph = target.submit(Op::Nothing)? == Submitted::Captured;
    let owner = Owner {
        device: pool.device,
        pool: handle,
        by_graph,
        ..owner(&target.context)
    };
    let base = lock(&machine.memory).alloc_device(bytes, owner)?;
    pool.peak.fetch_max(used(handle)?, Ordering::Relaxed);
    dptr.put(CUdeviceptr(base))
}

/// Outside of a capturing stream these calls are of those that a capture forbids.
fn allowed(target: &Target) -> Answer {
    if capture::of(&target.stream).is_some() {
        Ok(())
    } else {
        capture::unsafe_call()
    }
}

fn free_async(call: &Call, dptr: CUdeviceptr, stream: CUstream) -> Answer {
    let target = order::target(stream, call.lane)?;
    if dptr == CUdeviceptr(0) {
        return Err(CuError::INVALID_VALUE);
    }
    let by_graph = {
        let memory = lock(&machine()?.memory);
        let found = memory
            .starting_at(dptr.0, &[Kind::Device])
            .ok_or(CuError::INVALID_VALUE)?;
        if found.owner.pool.is_null() {
            return Err(CuError::INVALID_VALUE);
        }
        found.owner.by_graph
    };
    allowed(&target)?;
    let kept = by_graph && capture::of(&target.stream).is_some();
    target
        .submit(if kept { Op::Nothing } else { Op::Free(dptr.0) })
        .map(|_| ())
}

fn get_default(_: &Call, pool: Out<CUmemoryPool>, dev: CUdevice) -> Answer {
    let (default, _) = machine()?
        .device_pools
        .get(device(dev)?)
        .ok_or(CuError::INVALID_DEVICE)?;
    pool.put(*default)
}

fn get_pool(_: &Call, pool: Out<CUmemoryPool>, dev: CUdevice) -> Answer {
    let (_, current) = machine()?
        .device_pools
        .get(device(dev)?)
        .ok_or(CuError::INVALID_DEVICE)?;
    pool.put(*lock(current))
}

fn set_pool(_: &Call, dev: CUdevice, pool: CUmemoryPool) -> Answer {
    let device = device(dev)?;
    if machine()?
        .pools
        .get(pool)
        .map_err(|_| CuError::INVALID_VALUE)?
        .device
        != device
    {
        return Err(CuError::INVALID_VALUE);
    }
    let (_, current) = machine()?
        .device_pools
        .get(device)
        .ok_or(CuError::INVALID_DEVICE)?;
    *lock(current) = pool;
    Ok(())
}

/// The device of a location, for the calls that name one. Only pinned device memory has pools.
fn at(location: In<CUmemLocation>, kind: i32) -> Result<CUdevice, CuError> {
    let location = location.get()?;
    if kind == PINNED && location.kind == LOCATION_DEVICE {
        Ok(location.id)
    } else {
        Err(CuError::NOT_SUPPORTED)
    }
}

fn get_default_at(
    call: &Call,
    pool: Out<CUmemoryPool>,
    location: In<CUmemLocation>,
    kind: i32,
) -> Answer {
    get_default(call, pool, at(location, kind)?)
}

fn get_pool_at(
    call: &Call,
    pool: Out<CUmemoryPool>,
    location: In<CUmemLocation>,
    kind: i32,
) -> Answer {
    get_pool(call, pool, at(location, kind)?)
}

fn set_pool_at(call: &Call, location: In<CUmemLocation>, kind: i32, pool: CUmemoryPool) -> Answer {
    set_pool(call, at(location, kind)?, pool)
}

/// `CU_MEM_ALLOCATION_TYPE_PINNED`, `CU_MEM_ALLOCATION_TYPE_MANAGED`
const PINNED: i32 = 1;
const MANAGED: i32 = 2;

/// Pools of pinned device memory only.
fn create(_: &Call, pool: Out<CUmemoryPool>, props: In<CUmemPoolProps>) -> Answer {
    let props = props.get()?;
    pool.required()?;
    if props.alloc_type != PINNED || props.location.kind != LOCATION_DEVICE {
        return Err(if props.alloc_type == MANAGED {
            CuError::NOT_SUPPORTED
        } else {
            CuError::INVALID_VALUE
        });
    }
    pool.put(
        machine()?
            .pools
            .add(Pool::new(device(props.location.id)?, false)),
    )
}

fn destroy(_: &Call, pool: CUmemoryPool) -> Answer {
    let machine = machine()?;
    let gone = machine
        .pools
        .get(pool)
        .map_err(|_| CuError::INVALID_VALUE)?;
    if gone.is_default {
        return Err(CuError::INVALID_VALUE);
    }
    if let Some((default, current)) = machine.device_pools.get(gone.device) {
        let mut current = lock(current);
        if *current == pool {
            *current = *default;
        }
    }
    machine.pools.remove(pool).map(|_| ())
}

/// Bytes allocated from a pool.
fn used(pool: CUmemoryPool) -> Result<u64, CuError> {
    let memory = lock(&machine()?.memory);
    let bytes = memory
        .live
        .values()
        .filter(|allocation| allocation.owner.pool == pool)
        .map(|allocation| allocation.taken)
        .sum::<usize>();
    u64::try_from(bytes).map_err(|_| CuError::UNKNOWN)
}

fn set_attribute(_: &Call, pool: CUmemoryPool, attribute: i32, value: In<u64>) -> Answer {
    let pool = machine()?
        .pools
        .get(pool)
        .map_err(|_| CuError::INVALID_VALUE)?;
    match attribute {
        // Reuse policies, of which nothing shows here.
        1..=3 => value.get().map(|_| ()),
        4 => {
            pool.threshold.store(value.get()?, Ordering::Relaxed);
            Ok(())
        }
        6 | 8 if value.get()? == 0 => {
            pool.peak.store(0, Ordering::Relaxed);
            Ok(())
        }
        _ => Err(CuError::INVALID_VALUE),
    }
}

fn get_attribute(_: &Call, handle: CUmemoryPool, attribute: i32, value: Out<u64>) -> Answer {
    let pool = machine()?
        .pools
        .get(handle)
        .map_err(|_| CuError::INVALID_VALUE)?;
    value.required()?;
    match attribute {
        1..=3 => value.cast::<i32>().put(1),
        4 => value.put(pool.threshold.load(Ordering::Relaxed)),
        5 | 7 => value.put(used(handle)?),
        6 | 8 => value.put(pool.peak.load(Ordering::Relaxed)),
        _ => Err(CuError::INVALID_VALUE),
    }
}

fn trim_to(_: &Call, pool: CUmemoryPool, _keep: usize) -> Answer {
    machine()?
        .pools
        .get(pool)
        .map(|_| ())
        .map_err(|_| CuError::INVALID_VALUE)
}

fn set_access(_: &Call, pool: CUmemoryPool, map: In<CUmemAccessDesc>, count: usize) -> Answer {
    machine()?
        .pools
        .get(pool)
        .map_err(|_| CuError::INVALID_VALUE)?;
    map.list(count)?
        .iter()
        .try_for_each(|access| device(access.location.id).map(|_| ()))
}

fn get_access(
    _: &Call,
    flags: Out<i32>,
    pool: CUmemoryPool,
    location: In<CUmemLocation>,
) -> Answer {
    let pool = machine()?
        .pools
        .get(pool)
        .map_err(|_| CuError::INVALID_VALUE)?;
    context::current()?;
    flags.put(if device(location.get()?.id)? == pool.device {
        3
    } else {
        0
    })
}
