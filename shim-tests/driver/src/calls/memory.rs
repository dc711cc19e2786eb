//! Device memory.

use crate::arg::{In, Out};
use crate::capture;
use crate::config::config;
use crate::context::{self, Context};
use crate::cuda::{Answer, CUdeviceptr, CUmemAllocationProp, CuError, Handle, LOCATION_DEVICE};
use crate::gate::Call;
use crate::handles::lock;
use crate::machine::{device, machine};
use crate::memory::{Kind, Owner};
use crate::stats::COUNTERS;
use crate::table::driver_calls;

driver_calls! {
    "cuMemAlloc" alloc(dptr: Out<CUdeviceptr>, bytes: usize) { cuMemAlloc_v2: 3020 Legacy }
    "cuMemAllocPitch" alloc_pitch(dptr: Out<CUdeviceptr>, pitch: Out<usize>, width: usize, height: usize, element: u32) {
        cuMemAllocPitch_v2: 3020 Legacy }
    "cuMemFree" free(dptr: CUdeviceptr) { cuMemFree_v2: 3020 Legacy }
    "cuMemGetInfo" get_info(free: Out<usize>, total: Out<usize>) { cuMemGetInfo_v2: 3020 Legacy }
    "cuMemGetAddressRange" get_address_range(base: Out<CUdeviceptr>, size: Out<usize>, dptr: CUdeviceptr) {
        cuMemGetAddressRange_v2: 3020 Legacy }
    "cuMemCreate" create(handle: Out<Handle>, size: usize, prop: In<CUmemAllocationProp>, flags: u64) { cuMemCreate: 10020 Legacy }
    "cuMemRelease" release(handle: Handle) { cuMemRelease: 10020 Legacy }
    "cuMemGetAllocationGranularity" granularity(size: Out<usize>, prop: In<CUmemAllocationProp>, option: i32) {
        cuMemGetAllocationGranularity: 10020 Legacy }
}

pub(super) fn owner(context: &Context) -> Owner {
    Owner {
        context: context.handle,
        device: context.device,
        pool: Handle::NULL,
        by_graph: false,
    }
}

fn alloc(_: &Call, dptr: Out<CUdeviceptr>, bytes: usize) -> Answer {
    let context = context::current()?;
    dptr.required()?;
    capture::unsafe_call()?;
    let base = lock(&machine()?.memory).alloc_device(bytes, owner(&context))?;
    dptr.put(CUdeviceptr(base))
}

const PITCH: usize = 512;

fn alloc_pitch(
    call: &Call,
    dptr: Out<CUdeviceptr>,
    pitch: Out<usize>,
    width: usize,
    height: usize,
    element: u32,
) -> Answer {
    pitch.required()?;
    if ![4, 8, 16].contains(&element) || width == 0 || height == 0 {
        return Err(CuError::INVALID_VALUE);
    }
    let row = width
        .checked_next_multiple_of(PITCH)
        .ok_or(CuError::OUT_OF_MEMORY)?;
    alloc(
        call,
        dptr,
        row.checked_mul(height).ok_or(CuError::OUT_OF_MEMORY)?,
    )?;
    pitch.put(row)
}

/// Waits for all the work of the context that owns the memory, as the real one does; and as there, no
/// context need be current.
fn free(_: &Call, dptr: CUdeviceptr) -> Answer {
    match context::current() {
        Ok(_) | Err(CuError::INVALID_CONTEXT) => {}
        Err(dead) => return Err(dead),
    }
    if dptr == CUdeviceptr(0) {
        return Ok(());
    }
    capture::unsafe_call()?;
    let kinds = &[Kind::Device, Kind::Managed];
    let owner = {
        let memory = lock(&machine()?.memory);
        let found = memory.starting_at(dptr.0, kinds);
        found.ok_or(CuError::INVALID_VALUE)?.owner.context
    };
    let owner = machine()?.contexts.get(owner)?;
    end(dptr.0, kinds, CuError::INVALID_VALUE, &owner)
}

/// Waits for the work of the context that owns an allocation, then ends it.
pub(super) fn end(base: usize, kinds: &[Kind], unknown: CuError, current: &Context) -> Answer {
    let machine = machine()?;
    let owner = {
        let memory = lock(&machine.memory);
        memory
            .starting_at(base, kinds)
            .ok_or(unknown)?
            .owner
            .context
    };
    match machine.contexts.find(owner) {
        Some(owner) => owner.drain(),
        None => current.drain(),
    }
    // Another thread may have freed it while this one waited.
    let mut memory = lock(&machine.memory);
    memory.starting_at(base, kinds).ok_or(unknown)?;
    memory.free(base);
    Ok(())
}

/// Either pointer may be NULL.
fn get_info(_: &Call, free: Out<usize>, total: Out<usize>) -> Answer {
    let context = context::current()?;
    let memory = lock(&machine()?.memory);
    free.put_if_given(
        memory
            .gpus
            .get(context.device)
            .ok_or(CuError::INVALID_DEVICE)?
            .free(),
    );
    total.put_if_given(config().vram);
    Ok(())
}

fn get_address_range(
    _: &Call,
    base: Out<CUdeviceptr>,
    size: Out<usize>,
    dptr: CUdeviceptr,
) -> Answer {
    context::current()?;
    let memory = lock(&machine()?.memory);
    let found = memory
        .find(dptr.0)
        .filter(|found| found.kind != Kind::Registered)
        .ok_or(CuError::NOT_FOUND)?;
    base.put_if_given(CUdeviceptr(found.base));
    size.put_if_given(found.bytes);
    Ok(())
}

const GRANULE: usize = 2 << 20;

fn create(
    _: &Call,
    handle: Out<Handle>,
    size: usize,
    prop: In<CUmemAllocationProp>,
    flags: u64,
) -> Answer {
    let prop = prop.get()?;
    handle.required()?;
    if size == 0
        || !size.is_multiple_of(GRANULE)
        || flags != 0
        || prop.location.kind != LOCATION_DEVICE
    {
        return Err(CuError::INVALID_VALUE);
    }
    let device = device(prop.location.id)?;
    let machine = machine()?;
    lock(&machine.memory).take_vram(device, size)?;
    COUNTERS.mem_handles.add(1);
    handle.put(machine.physical.add((device, size)))
}

fn release(_: &Call, handle: Handle) -> Answer {
    let machine = machine()?;
    let gone = machine
        .physical
        .remove(handle)
        .map_err(|_| CuError::INVALID_VALUE)?;
    lock(&machine.memory).return_vram(gone.0, gone.1);
    COUNTERS.mem_handles.fall(1);
    Ok(())
}

fn granularity(_: &Call, size: Out<usize>, prop: In<CUmemAllocationProp>, _option: i32) -> Answer {
    machine()?;
    prop.get()?;
    size.put(GRANULE)
}
