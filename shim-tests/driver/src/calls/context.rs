//! Contexts: made and destroyed, primary ones, and which is current.

use crate::arg::{In, Out};
use crate::capture;
use crate::context::{self, Context};
use crate::cuda::{Answer, CUcontext, CUdevice, CuError, Handle};
use crate::gate::Call;
use crate::handles::{fresh_handle, lock};
use crate::machine::{device, machine};
use crate::table::driver_calls;

driver_calls! {
    "cuCtxCreate" create(ctx: Out<CUcontext>, flags: u32, dev: CUdevice) { cuCtxCreate_v2: 3020 Legacy }
    "cuCtxCreate" create_v3(ctx: Out<CUcontext>, affinity: In<u64>, count: i32, flags: u32, dev: CUdevice) { cuCtxCreate_v3: 11040 Legacy }
    "cuCtxCreate" create_v4(ctx: Out<CUcontext>, params: In<u64>, flags: u32, dev: CUdevice) { cuCtxCreate_v4: 12050 Legacy }
    "cuCtxDestroy" destroy(ctx: CUcontext) { cuCtxDestroy: 2000 Legacy, cuCtxDestroy_v2: 4000 Legacy }
    "cuCtxPushCurrent" push_current(ctx: CUcontext) { cuCtxPushCurrent: 2000 Legacy, cuCtxPushCurrent_v2: 4000 Legacy }
    "cuCtxPopCurrent" pop_current(ctx: Out<CUcontext>) { cuCtxPopCurrent: 2000 Legacy, cuCtxPopCurrent_v2: 4000 Legacy }
    "cuCtxSetCurrent" set_current(ctx: CUcontext) { cuCtxSetCurrent: 4000 Legacy }
    "cuCtxGetCurrent" get_current(ctx: Out<CUcontext>) { cuCtxGetCurrent: 4000 Legacy }
    "cuCtxGetDevice" get_device(dev: Out<CUdevice>) { cuCtxGetDevice: 2000 Legacy }
    "cuCtxGetDevice" get_device_v2(dev: Out<CUdevice>, ctx: CUcontext) { cuCtxGetDevice_v2: 13000 Legacy }
    "cuCtxGetFlags" get_flags(flags: Out<u32>) { cuCtxGetFlags: 7000 Legacy }
    "cuCtxGetId" get_id(ctx: CUcontext, id: Out<u64>) { cuCtxGetId: 12000 Legacy }
    "cuCtxGetApiVersion" get_api_version(ctx: CUcontext, version: Out<u32>) { cuCtxGetApiVersion: 3020 Legacy }
    "cuCtxGetStreamPriorityRange" priority_range(least: Out<i32>, greatest: Out<i32>) { cuCtxGetStreamPriorityRange: 5050 Legacy }
    "cuCtxSynchronize" synchronize() { cuCtxSynchronize: 2000 Legacy }
    "cuCtxSynchronize" synchronize_v2(ctx: CUcontext) { cuCtxSynchronize_v2: 13000 Legacy }
    "cuDevicePrimaryCtxRetain" retain(ctx: Out<CUcontext>, dev: CUdevice) { cuDevicePrimaryCtxRetain: 7000 Legacy }
    "cuDevicePrimaryCtxRelease" release(dev: CUdevice) {
        cuDevicePrimaryCtxRelease: 7000 Legacy, cuDevicePrimaryCtxRelease_v2: 11000 Legacy }
    "cuDevicePrimaryCtxReset" reset(dev: CUdevice) { cuDevicePrimaryCtxReset: 7000 Legacy, cuDevicePrimaryCtxReset_v2: 11000 Legacy }
    "cuDevicePrimaryCtxGetState" get_state(dev: CUdevice, flags: Out<u32>, active: Out<i32>) { cuDevicePrimaryCtxGetState: 7000 Legacy }
    "cuDevicePrimaryCtxSetFlags" set_flags(dev: CUdevice, flags: u32) {
        cuDevicePrimaryCtxSetFlags: 7000 Legacy, cuDevicePrimaryCtxSetFlags_v2: 11000 Legacy }
}

fn create(_: &Call, ctx: Out<CUcontext>, flags: u32, dev: CUdevice) -> Answer {
    ctx.required()?;
    let context = Context::open(fresh_handle(), device(dev)?, false, flags)?;
    context::push(context.handle)?;
    ctx.put(context.handle)
}

fn create_v3(
    call: &Call,
    ctx: Out<CUcontext>,
    affinity: In<u64>,
    count: i32,
    flags: u32,
    dev: CUdevice,
) -> Answer {
    if affinity.is_null() && count == 0 {
        create(call, ctx, flags, dev)
    } else {
        Err(CuError(224))
    }
}

fn create_v4(
    call: &Call,
    ctx: Out<CUcontext>,
    params: In<u64>,
    flags: u32,
    dev: CUdevice,
) -> Answer {
    // The first word is the affinity list, the third the graphics parameters: neither exists here.
    if !params.is_null() && (params.at(0)? != 0 || params.at(2)? != 0) {
        return Err(CuError::NOT_SUPPORTED);
    }
    create(call, ctx, flags, dev)
}

fn destroy(_: &Call, ctx: CUcontext) -> Answer {
    let context = machine()?
        .contexts
        .find(ctx)
        .ok_or(CuError::INVALID_CONTEXT)?;
    if context.primary {
        return Err(CuError::INVALID_CONTEXT);
    }
    if context::current_handle() == ctx {
        context::pop()?;
    }
    context.close()
}

/// Whether a context can be made current. Of one that was destroyed the real driver says that it can, and the process aborts soon after
/// (`free(): invalid pointer`, tried on an H200 with CUDA 13.0): here it aborts at once, and says why.
#[expect(clippy::print_stderr, reason = "the process ends here")]
fn can_be_current(ctx: CUcontext) -> Answer {
    let machine = machine()?;
    if machine.contexts.find(ctx).is_some() {
        return Ok(());
    }
    if lock(&machine.destroyed).contains(&ctx) {
        eprintln!("simcuda: context {ctx:?} was made current after it had been destroyed");
        std::process::abort();
    }
    Err(CuError::INVALID_CONTEXT)
}

fn push_current(_: &Call, ctx: CUcontext) -> Answer {
    can_be_current(ctx)?;
    context::push(ctx)
}

fn pop_current(_: &Call, ctx: Out<CUcontext>) -> Answer {
    ctx.put_if_given(context::pop()?);
    Ok(())
}

fn set_current(_: &Call, ctx: CUcontext) -> Answer {
    if !ctx.is_null() {
        can_be_current(ctx)?;
    }
    context::set_current(ctx)
}

fn get_current(_: &Call, ctx: Out<CUcontext>) -> Answer {
    ctx.put(context::current_handle())
}

fn get_device(_: &Call, dev: Out<CUdevice>) -> Answer {
    dev.put(id(context::current_any()?.device)?)
}

/// A null context means the current one.
fn get_device_v2(_: &Call, dev: Out<CUdevice>, ctx: CUcontext) -> Answer {
    dev.put(id(named_or_current(ctx)?.device)?)
}

fn named_or_current(ctx: CUcontext) -> Result<std::sync::Arc<Context>, CuError> {
    if ctx.is_null() {
        context::current_any()
    } else {
        machine()?
            .contexts
            .find(ctx)
            .ok_or(CuError::INVALID_CONTEXT)
    }
}

fn id(device: usize) -> Result<CUdevice, CuError> {
    i32::try_from(device).map_err(|_| CuError::INVALID_DEVICE)
}

fn get_flags(_: &Call, flags: Out<u32>) -> Answer {
    flags.put(context::current_any()?.flags)
}

fn get_id(_: &Call, ctx: CUcontext, id: Out<u64>) -> Answer {
    id.put(u64::try_from(named_or_current(ctx)?.handle.0).map_err(|_| CuError::UNKNOWN)?)
}

fn get_api_version(_: &Call, ctx: CUcontext, version: Out<u32>) -> Answer {
    named_or_current(ctx)?;
    version.put(3020)
}

fn priority_range(_: &Call, least: Out<i32>, greatest: Out<i32>) -> Answer {
    context::current()?;
    least.put_if_given(0);
    greatest.put_if_given(-5);
    Ok(())
}

fn synchronize(call: &Call) -> Answer {
    synchronize_v2(call, Handle::NULL)
}

fn synchronize_v2(_: &Call, ctx: CUcontext) -> Answer {
    let context = named_or_current(ctx)?;
    context.healthy()?;
    capture::context_wait(context.handle)?;
    capture::unsafe_call()?;
    context.drain();
    context.healthy()
}

fn retain(_: &Call, ctx: Out<CUcontext>, dev: CUdevice) -> Answer {
    ctx.required()?;
    ctx.put(context::retain_primary(device(dev)?)?.handle)
}

fn release(_: &Call, dev: CUdevice) -> Answer {
    context::release_primary(device(dev)?)
}

/// The context dies, its users stay counted; the next retain brings it back empty.
fn reset(_: &Call, dev: CUdevice) -> Answer {
    let slot = machine()?
        .primaries
        .get(device(dev)?)
        .ok_or(CuError::INVALID_DEVICE)?;
    context::close_primary(&lock(slot))
}

fn get_state(_: &Call, dev: CUdevice, flags: Out<u32>, active: Out<i32>) -> Answer {
    let slot = machine()?
        .primaries
        .get(device(dev)?)
        .ok_or(CuError::INVALID_DEVICE)?;
    let primary = lock(slot);
    let alive = primary.handle.is_some_and(|handle| {
        machine().is_ok_and(|machine| machine.contexts.find(handle).is_some())
    });
    flags.required()?;
    active.required()?;
    flags.put(primary.flags)?;
    active.put(i32::from(alive))
}

fn set_flags(call: &Call, dev: CUdevice, flags: u32) -> Answer {
    let slot = machine()?
        .primaries
        .get(device(dev)?)
        .ok_or(CuError::INVALID_DEVICE)?;
    let mut primary = lock(slot);
    let old = !call.name.ends_with("_v2");
    if old && primary.users > 0 && primary.flags != flags {
        return Err(CuError::PRIMARY_CONTEXT_ACTIVE);
    }
    primary.flags = flags;
    Ok(())
}
