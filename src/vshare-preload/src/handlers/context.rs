//! Contexts, modules and libraries: what memory belongs to, and dies with.

use crate::arenas::Owned;
use crate::cuda::{CUcontext, CUdevice, CUlibrary, CUmodule, CUresult};
use crate::guard::Real;
use crate::symbols::Entry;
use crate::visits::Ending;
use crate::{captures, driver, elsewhere, process, recording, report, touches, work};
use vshare_shm::record::Record;

pub(crate) fn init(_entry: Entry, real: Real<'_>, _flags: u32) -> CUresult {
    let result = real.call();
    if result == CUresult::SUCCESS {
        process::used();
    }
    result
}

pub(crate) fn ctx_destroy(_entry: Entry, real: Real<'_>, context: CUcontext) -> CUresult {
    ending(Some(context), real)
}

pub(crate) fn ctx_detach(_entry: Entry, real: Real<'_>, context: CUcontext) -> CUresult {
    ending(Some(context), real)
}

pub(crate) fn device_primary_ctx_reset(
    _entry: Entry,
    real: Real<'_>,
    device: CUdevice,
) -> CUresult {
    ending(driver::primary_context(device), real)
}

pub(crate) fn device_primary_ctx_release(
    _entry: Entry,
    real: Real<'_>,
    device: CUdevice,
) -> CUresult {
    releasing(device, real)
}

pub(crate) fn module_unload(_entry: Entry, real: Real<'_>, _module: CUmodule) -> CUresult {
    touches::forget_functions();
    real.call()
}

pub(crate) fn library_unload(_entry: Entry, real: Real<'_>, _library: CUlibrary) -> CUresult {
    touches::forget_functions();
    real.call()
}

pub(crate) fn ctx_synchronize(_entry: Entry, real: Real<'_>) -> CUresult {
    work::synchronize_context(None, real)
}

pub(crate) fn ctx_synchronize_v2(_entry: Entry, real: Real<'_>, context: CUcontext) -> CUresult {
    let context = (context != CUcontext::NULL).then_some(context);
    work::synchronize_context(context, real)
}

/// A context ends in this call, unless the driver refuses.
fn ending(context: Option<CUcontext>, real: Real<'_>) -> CUresult {
    touches::forget_functions();
    let Some(context) = context else {
        return real.call();
    };
    let _ending = Ending::begin(context);
    // What it held at most would go with it.
    report::gauges();
    let result = real.call();
    if result == CUresult::SUCCESS {
        let removed = process::state().arenas.remove(context);
        lost(context, removed.as_ref());
    }
    result
}

/// A reference to a primary context is given back; with the last one it ends.
fn releasing(device: CUdevice, real: Real<'_>) -> CUresult {
    let Some(context) = driver::primary_context(device) else {
        return real.call();
    };
    let _ending = Ending::begin(context);
    let result = real.call();
    if result == CUresult::SUCCESS && driver::primary_is_active(device) == Ok(false) {
        touches::forget_functions();
        report::gauges();
        let removed = process::state().arenas.remove(context);
        lost(context, removed.as_ref());
    }
    result
}

/// A context has ended, and with it its streams, whether or not it had an arena.
fn lost(context: CUcontext, arena: Option<&Owned>) {
    captures::context_gone(context);
    let mut state = process::state();
    state.streams.context_gone(context);
    state.recording.context_gone(context, arena);
    drop(state);
    recording::events_gone(context);
    elsewhere::context_gone(context);
    if let Some(owned) = arena {
        report::record(Record::ContextLost {
            context: context.0 as u64,
            bytes: owned.arena.ledger().live,
            device: u64::from(owned.device.0.unsigned_abs()),
        });
        report::gauges();
    }
}
