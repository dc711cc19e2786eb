//! Work on the device: everything that is submitted to a stream comes through here.
//!
//! In the common case (one stream, everything on the device) this is a few comparisons.

use crate::cuda::{CUresult, CUstream};
use crate::guard::Real;
use crate::streams::{self, Key};
use crate::symbols::Entry;
use crate::touches::Touches;
use crate::{arenas, captures, engine, host_ranges, memory, process};

/// Submits work that names `touches` to `stream`.
pub(crate) fn submit(
    entry: Entry,
    stream: CUstream,
    touches: Touches<'_>,
    real: Real<'_>,
) -> CUresult {
    if !process::is_on() || !arenas::any() || captures::takes(stream) {
        return real.call();
    }
    let key = Key::of(entry.null_stream, stream);
    let tick = process::tick();
    if !streams::is_solo(key) {
        streams::enter(key, tick);
    }
    let result = if engine::is_needed() || host_ranges::are_of_interest() {
        submit_with_care(key, tick, touches, real)
    } else {
        real.call()
    };
    // Asked anew: another stream may have had work meanwhile.
    if !streams::is_solo(key) {
        streams::submitted(key);
        if arenas::any_fences() {
            streams::after(key, 0);
        }
    }
    result
}

fn submit_with_care(key: Key, tick: u64, touches: Touches<'_>, real: Real<'_>) -> CUresult {
    let mut addresses = Vec::with_capacity(64);
    let known = touches.collect(&mut addresses);
    if host_ranges::are_of_interest() {
        let state = process::state();
        if !known || addresses.iter().any(|&a| state.host.contains(a)) {
            host_ranges::set_in_flight();
        }
    }
    if !engine::is_needed() {
        return real.call();
    }
    addresses.retain(|&a| arenas::may_hold(a));
    let prepared = engine::before(&addresses, key, tick);
    let result = real.call();
    let bytes = prepared.bytes();
    drop(prepared);
    streams::after(key, bytes);
    result
}

/// The program waits for a stream.
pub(crate) fn synchronize_stream(entry: Entry, stream: CUstream, real: Real<'_>) -> CUresult {
    if !process::is_on() || !arenas::any() {
        return real.call();
    }
    let key = Key::of(entry.null_stream, stream);
    let before = process::now();
    let result = real.call();
    if result == CUresult::SUCCESS {
        process::state().streams.stream_ended(key, before);
        if streams::is_solo(key) && process::now() == before {
            host_ranges::none_in_flight();
        }
        memory::settle();
    }
    result
}

/// The program waits for a context: the current one, if `context` is `None`.
pub(crate) fn synchronize_context(
    context: Option<crate::cuda::CUcontext>,
    real: Real<'_>,
) -> CUresult {
    if !process::is_on() || !arenas::any() {
        return real.call();
    }
    let before = process::now();
    let result = real.call();
    let context = context.or_else(crate::driver::current_context);
    if let (CUresult::SUCCESS, Some(context)) = (result, context) {
        process::state().streams.context_ended(context, before);
        host_ranges::none_in_flight();
        memory::settle();
    }
    result
}
