//! Contexts, modules and libraries: what memory belongs to, and dies with.

use crate::arenas::Owned;
use crate::clock::{Deadline, wait_until};
use crate::cuda::{CUcontext, CUdevice, CUlibrary, CUmodule, CUresult};
use crate::guard::Real;
use crate::symbols::Entry;
use crate::{driver, process, report, touches, work};
use vshare_shm::record::Record;

pub(crate) fn init(_entry: Entry, real: Real<'_>, _flags: u32) -> CUresult {
    let result = real.call();
    if result == CUresult::SUCCESS {
        process::used();
    }
    result
}

pub(crate) fn ctx_destroy(_entry: Entry, real: Real<'_>, context: CUcontext) -> CUresult {
    ending(&|o| o.context == context, real)
}

pub(crate) fn ctx_detach(_entry: Entry, real: Real<'_>, context: CUcontext) -> CUresult {
    ending(&|o| o.context == context, real)
}

pub(crate) fn device_primary_ctx_reset(
    _entry: Entry,
    real: Real<'_>,
    device: CUdevice,
) -> CUresult {
    ending(&|o| o.primary && o.device == device, real)
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

/// Contexts end in this call: their arenas are forgotten before it, because what the driver frees
/// may be other memory the moment after, and brought back if the driver refuses.
fn ending(which: &dyn Fn(&Owned) -> bool, real: Real<'_>) -> CUresult {
    touches::forget_functions();
    let contexts = close(which);
    let removed: Vec<Owned> = contexts
        .iter()
        .filter_map(|&context| process::state().arenas.remove(context))
        .collect();
    let result = real.call();
    for mut owned in removed {
        if result == CUresult::SUCCESS {
            lost(&owned);
        } else {
            owned.closing = false;
            let mut state = process::state();
            state.arenas.add(owned);
            state.arenas.publish();
            state.arenas.publish_bounds();
        }
    }
    result
}

/// A reference to a primary context is given back; with the last one it ends.
fn releasing(device: CUdevice, real: Real<'_>) -> CUresult {
    let contexts = close(&|o| o.primary && o.device == device);
    let result = real.call();
    let ended = result == CUresult::SUCCESS && driver::primary_is_active(device) == Ok(false);
    for context in contexts {
        let mut state = process::state();
        if ended {
            let owned = state.arenas.remove(context);
            drop(state);
            if let Some(owned) = owned {
                lost(&owned);
            }
        } else if let Some(owned) = state.arenas.of(context) {
            owned.closing = false;
        }
    }
    result
}

/// Lets no more moves begin in these arenas, and waits for those under way to end.
fn close(which: &dyn Fn(&Owned) -> bool) -> Vec<CUcontext> {
    if !process::is_on() {
        return Vec::new();
    }
    let contexts: Vec<CUcontext> = process::state()
        .arenas
        .iter_mut()
        .filter(|o| which(o))
        .map(|owned| {
            owned.closing = true;
            owned.context
        })
        .collect();
    if !contexts.is_empty() {
        wait_until(Deadline::after_ms(10_000), || {
            let mut state = process::state();
            contexts
                .iter()
                .all(|&c| state.arenas.of(c).is_none_or(|o| o.busy == 0))
        });
    }
    contexts
}

fn lost(owned: &Owned) {
    process::state().streams.context_gone(owned.context);
    report::record(Record::ContextLost {
        context: owned.context.0 as u64,
        bytes: owned.arena.ledger().live,
        device: u64::from(owned.device.0.unsigned_abs()),
    });
    report::gauges();
}
