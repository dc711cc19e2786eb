//! Work on the device: everything that is submitted to a stream comes through here.
//!
//! In the common case (one stream, everything on the device) this is a few comparisons.

use crate::cuda::{CUcontext, CUresult, CUstream};
use crate::guard::Real;
use crate::streams::{self, Key};
use crate::symbols::Entry;
use crate::touches::{Access, Touches};
use crate::{arenas, captures, driver, engine, host_ranges, memory, process, recording};

/// Submits work that names `touches` to `stream`.
pub(crate) fn submit(
    entry: Entry,
    stream: CUstream,
    touches: Touches<'_>,
    real: Real<'_>,
) -> CUresult {
    if captures::takes(stream) {
        return real.call();
    }
    if !arenas::any() {
        // Nothing of ours can be named; but a later free may have to wait for this work.
        let flying = host_ranges::are_watched() && note_flying(true);
        let result = real.call();
        if flying {
            note_flying(true);
        }
        return result;
    }
    let key = Key::of(entry.null_stream, stream);
    let tick = process::tick();
    if !streams::is_solo(key) {
        streams::enter(key, tick);
    } else if streams::is_reuse_unmarked() {
        streams::mark_reuse(key);
    }
    if key.is_per_thread() && arenas::any_fences() {
        // No other thread can mark it when what is freed has to know how far it has come.
        streams::mark_if_due(key);
    }
    let result = if arenas::are_watched()
        || host_ranges::are_watched()
        || matches!(touches, Touches::Host)
    {
        submit_with_care(key, tick, touches, real)
    } else {
        real.call()
    };
    note_submitted(key);
    if arenas::any_fences() && !streams::is_solo(key) {
        streams::after(key, 0);
    }
    result
}

/// Submits a copy, that writes to and reads from these addresses.
pub(crate) fn submit_copy(
    entry: Entry,
    stream: CUstream,
    to: &[u64],
    from: &[u64],
    real: Real<'_>,
) -> CUresult {
    submit(entry, stream, Touches::Copy { to, from }, real)
}

/// Submits one piece of work to several streams.
pub(crate) fn submit_to_all(entry: Entry, streams: &[CUstream], real: Real<'_>) -> CUresult {
    if !arenas::any() {
        return real.call();
    }
    let running = streams.iter().filter(|&&stream| !captures::takes(stream));
    let keys: Vec<Key> = running.map(|&s| Key::of(entry.null_stream, s)).collect();
    let tick = process::tick();
    for &key in &keys {
        if !streams::is_solo(key) {
            streams::enter(key, tick);
        }
    }
    let begun: Vec<_> = keys.iter().map(|&k| recording::before(k)).collect();
    let result = real.call();
    for (&key, begun) in keys.iter().zip(begun) {
        recording::after(begun, result, Touches::Unknown, key, &[]);
        note_submitted(key);
    }
    result
}

/// Work has been submitted. Whether its stream is solo is asked anew: another may have had work
/// meanwhile.
fn note_submitted(key: Key) {
    if !streams::is_solo(key) {
        streams::submitted(key);
        streams::mark_if_ending(key);
    }
}

fn submit_with_care(key: Key, tick: u64, touches: Touches<'_>, real: Real<'_>) -> CUresult {
    let needed = arenas::are_watched();
    let mut addresses = Vec::with_capacity(if needed { 64 } else { 0 });
    let mut leftovers = Vec::new();
    let mut on_host = Vec::new();
    let known = touches.visit(&mut |word, access| {
        if needed && arenas::may_hold(word) {
            match access {
                Access::Table => leftovers.push(word),
                Access::Written | Access::Read => addresses.push(word),
            }
        }
        if access != Access::Read && host_ranges::may_hold(word) {
            on_host.push(word);
        }
    });
    let can = host_ranges::are_watched() || matches!(touches, Touches::Host);
    let flying = can && writes_host(known, &on_host) && note_flying(false);
    let result = if needed {
        let sure = addresses.len();
        addresses.append(&mut leftovers);
        let names = engine::Names {
            addresses: &addresses,
            sure,
            signature: touches.signature(),
        };
        let prepared = engine::before(&names, key, tick);
        let begun = recording::before(key);
        let result = real.call();
        recording::after(begun, result, touches, key, &addresses);
        let bytes = prepared.bytes();
        // Before the blocks are let go of: whoever asks whether this use has ended must know of it.
        note_submitted(key);
        drop(prepared);
        streams::after(key, bytes);
        result
    } else {
        real.call()
    };
    if flying {
        note_flying(false);
    }
    result
}

/// Whether work may write what the host can see: addresses that may be, of those it names. Once a
/// context has such work in flight, all that follows counts as such: finding out costs more than it
/// saves.
fn writes_host(known: bool, addresses: &[u64]) -> bool {
    if !known {
        return true;
    }
    if addresses.is_empty() && !host_ranges::any_flying() {
        return false;
    }
    let Some(context) = driver::current_context() else {
        return true;
    };
    let state = process::state();
    state.host.is_flying(context) || addresses.iter().any(|&a| state.host.contains(a))
}

/// Notes work on host memory in the current context: before its submission, and after it with a
/// tick that no earlier wait can have covered.
fn note_flying(anywhere: bool) -> bool {
    if let Some(context) = driver::current_context() {
        let tick = process::tick();
        process::state().host.set_flying(context, tick, anywhere);
    }
    true
}

/// The program waits for a stream.
pub(crate) fn synchronize_stream(entry: Entry, stream: CUstream, real: Real<'_>) -> CUresult {
    if !arenas::any() {
        return real.call();
    }
    let key = Key::of(entry.null_stream, stream);
    let before = process::now();
    let result = real.call();
    if result == CUresult::SUCCESS {
        let context = driver::current_context();
        let mut state = process::state();
        state.streams.stream_ended(key, before);
        // What is not alone does not wait for all work.
        if state.streams.is_only(key) {
            state.recording.sync();
        }
        if let (Some(context), true) = (context, state.streams.is_only(key)) {
            state.host.ended_in_streams(context, before);
        }
        drop(state);
        memory::settle();
    }
    result
}

/// The program waits for a context: the current one, if `context` is `None`.
pub(crate) fn synchronize_context(context: Option<CUcontext>, real: Real<'_>) -> CUresult {
    if !(arenas::any() || host_ranges::any_flying()) {
        return real.call();
    }
    let before = process::now();
    let result = real.call();
    let context = context.or_else(driver::current_context);
    if let (CUresult::SUCCESS, Some(context)) = (result, context) {
        let mut state = process::state();
        state.streams.context_ended(context, before);
        state.host.ended(context, before);
        state.recording.sync();
        drop(state);
        memory::settle();
    }
    result
}
