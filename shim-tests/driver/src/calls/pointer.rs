//! What a pointer points into, and handles for other processes.

use crate::arg::{In, Out};
use crate::context;
use crate::cuda::{Answer, CUdeviceptr, CUipcMemHandle, CuError, DEVICE_INVALID};
use crate::gate::Call;
use crate::handles::lock;
use crate::machine::machine;
use crate::memory::{Allocation, Kind};
use crate::table::driver_calls;

driver_calls! {
    "cuPointerGetAttribute" get_attribute(data: Out<u64>, attribute: i32, ptr: CUdeviceptr) { cuPointerGetAttribute: 4000 Legacy }
    "cuPointerGetAttributes" get_attributes(count: u32, attributes: In<i32>, data: In<usize>, ptr: CUdeviceptr) {
        cuPointerGetAttributes: 7000 Legacy }
    "cuPointerSetAttribute" set_attribute(value: In<u32>, attribute: i32, ptr: CUdeviceptr) { cuPointerSetAttribute: 6000 Legacy }
    "cuIpcGetMemHandle" ipc_get(handle: Out<CUipcMemHandle>, dptr: CUdeviceptr) { cuIpcGetMemHandle: 4010 Legacy }
}

/// An attribute's value: four bytes for numbers and flags, eight for addresses, handles and ids.
#[derive(Clone, Copy, Debug)]
enum Value {
    Narrow(i32),
    Wide(usize),
    /// Not to be had for this pointer.
    None,
}

fn describe(found: &Allocation, attribute: i32, ptr: usize) -> Result<Value, CuError> {
    let on_host = matches!(found.kind, Kind::Pinned | Kind::Registered);
    let managed = found.kind == Kind::Managed;
    let device = i32::try_from(found.owner.device).map_err(|_| CuError::UNKNOWN)?;
    Ok(match attribute {
        1 => Value::Wide(found.owner.context.0),
        // CU_MEMORYTYPE_HOST, CU_MEMORYTYPE_DEVICE
        2 => Value::Narrow(if on_host { 1 } else { 2 }),
        3 => Value::Wide(ptr),
        4 if found.kind == Kind::Device => Value::None,
        4 => Value::Wide(ptr),
        6 => Value::Narrow(0),
        7 => Value::Wide(usize::try_from(found.id).map_err(|_| CuError::UNKNOWN)?),
        8 => Value::Narrow(i32::from(managed)),
        9 => Value::Narrow(device),
        10 | 15 => Value::Narrow(i32::from(
            found.kind == Kind::Device && found.owner.pool.is_null(),
        )),
        11 | 19 => Value::Wide(found.base),
        12 | 18 => Value::Wide(found.bytes),
        13 => Value::Narrow(1),
        14 | 21 => Value::Narrow(0),
        16 => Value::Narrow(3),
        17 => Value::Wide(found.owner.pool.0),
        20 => Value::Wide(usize::try_from(found.id).map_err(|_| CuError::UNKNOWN)?),
        _ => return Err(CuError::INVALID_VALUE),
    })
}

fn put(data: Out<u64>, value: Value) -> Answer {
    match value {
        Value::Narrow(value) => data.cast::<i32>().put(value),
        Value::Wide(value) => data.cast::<usize>().put(value),
        Value::None => Err(CuError::INVALID_VALUE),
    }
}

fn get_attribute(_: &Call, data: Out<u64>, attribute: i32, ptr: CUdeviceptr) -> Answer {
    context::current()?;
    data.required()?;
    let memory = lock(&machine()?.memory);
    let found = memory.find(ptr.0).ok_or(CuError::INVALID_VALUE)?;
    put(data, describe(found, attribute, ptr.0)?)
}

/// Unknown pointers are no error here: every answer is nothing. As measured on an H200 with CUDA 13.0.
fn get_attributes(
    _: &Call,
    count: u32,
    attributes: In<i32>,
    data: In<usize>,
    ptr: CUdeviceptr,
) -> Answer {
    context::current()?;
    let count = usize::try_from(count).map_err(|_| CuError::INVALID_VALUE)?;
    let memory = lock(&machine()?.memory);
    let found = memory.find(ptr.0);
    let asked: Vec<_> = attributes
        .list(count)?
        .into_iter()
        .zip(data.list(count)?)
        .collect();
    if asked.iter().any(|(attribute, _)| *attribute == P2P_TOKENS) {
        return Err(CuError::INVALID_VALUE);
    }
    for (attribute, out) in asked {
        if found.is_none() && matches!(attribute, RANGE_START_ADDR | RANGE_SIZE) {
            continue;
        }
        let value = found.map_or(Ok(nothing(attribute, ptr.0)), |found| {
            describe(found, attribute, ptr.0)
        })?;
        let value = if matches!(value, Value::None) {
            Value::Wide(0)
        } else {
            value
        };
        put(Out::at_address(out), value)?;
    }
    Ok(())
}

/// These attributes are special where there is nothing, or where several are asked for.
const HOST_POINTER: i32 = 4;
const P2P_TOKENS: i32 = 5;
const RANGE_START_ADDR: i32 = 11;
const RANGE_SIZE: i32 = 12;

fn nothing(attribute: i32, ptr: usize) -> Value {
    match attribute {
        HOST_POINTER => Value::Wide(ptr),
        9 => Value::Narrow(DEVICE_INVALID),
        1 | 3 | 7 | 17..=20 => Value::Wide(0),
        _ => Value::Narrow(0),
    }
}

fn set_attribute(_: &Call, value: In<u32>, attribute: i32, ptr: CUdeviceptr) -> Answer {
    context::current()?;
    value.get()?;
    let known = lock(&machine()?.memory).find(ptr.0).is_some();
    if known && attribute == 6 {
        Ok(())
    } else {
        Err(CuError::INVALID_VALUE)
    }
}

/// Device memory has a handle; managed and pool memory has none.
fn ipc_get(_: &Call, handle: Out<CUipcMemHandle>, dptr: CUdeviceptr) -> Answer {
    context::current()?;
    handle.required()?;
    let memory = lock(&machine()?.memory);
    let found = memory
        .find(dptr.0)
        .filter(|found| found.kind == Kind::Device && found.owner.pool.is_null());
    let id = found.ok_or(CuError::INVALID_VALUE)?.id.to_ne_bytes();
    let mut bytes = [0; 64];
    bytes.iter_mut().zip(id).for_each(|(to, from)| *to = from);
    handle.put(CUipcMemHandle(bytes))
}
