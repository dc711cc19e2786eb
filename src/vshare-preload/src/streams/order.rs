//! The order between streams: who waits for whom, on the device.

use super::key::ending_thread;
use super::marks::{mark, mark_others, poll, record_in, set_mark};
use super::{Barrier, Enter, Key};
use crate::clock::{Deadline, wait_until};
use crate::cuda::{CUcontext, CUevent, CUresult};
use crate::visits::Visit;
use crate::{captures, driver, guard, process, report};

/// Takes note of an operation in `key`, which is not the solo stream, before it is submitted, and
/// puts it behind whatever it must come after.
pub(crate) fn enter(key: Key, tick: u64) {
    know(key);
    for _ in 0..10_000 {
        let what = process::state().streams.note(key, tick);
        match what {
            Enter::Go => return,
            Enter::Again => std::thread::yield_now(),
            Enter::WaitFor(event, barrier) => {
                let waits = driver::wait_for(key.handle(), event);
                if driver::noted("cuStreamWaitEvent", 0, waits).is_err() {
                    wait_here_for(key, event);
                }
                // Only now: another thread with work for this stream had to wait for it, too.
                if let Some(line) = process::state().streams.line(key) {
                    line.barrier = line.barrier.max(barrier);
                }
            }
            Enter::MakeBarrier(solo, context) => make_barrier(solo, context),
            Enter::MarkOthers => {
                mark_others(Some(key));
                poll();
                return;
            }
        }
    }
    // Another thread is taking too long over the barrier.
    wait_for_everything();
}

/// Makes a stream known, with the context that its events belong to.
pub(crate) fn know(key: Key) {
    if process::state().streams.knows(key) {
        return;
    }
    let context = if key.context == CUcontext::NULL {
        driver::stream_context(key.handle()).or_else(driver::current_context)
    } else {
        Some(key.context)
    };
    let mut state = process::state();
    let line = state.streams.line_or_new(key);
    if line.context == CUcontext::NULL {
        line.context = context.unwrap_or(CUcontext::NULL);
    }
}

/// Before the solo stream's first work after a free: records what other streams will have to wait
/// for, should they have work.
pub(crate) fn mark_reuse(key: Key) {
    let Some((context, event)) = process::state().streams.take_reuse(key) else {
        return;
    };
    let recorded = match event {
        // While no capture is on, none can forbid it: there is no solo stream once one begins.
        Some(event) => driver::in_context(context, || {
            driver::record(event, key.handle()).map(|()| event)
        }),
        None => match Visit::wait(context) {
            Some(visit) => record_in(key, context, &visit),
            None => Err(CUresult::INVALID_CONTEXT),
        },
    };
    let mut state = process::state();
    match recorded {
        Ok(event) => state.streams.reuse = Some((event, context)),
        // Whoever comes next waits for all there is.
        Err(_) => state.streams.note_reuse(),
    }
}

/// A stream is about to record a graph: it is no longer solo, and its work so far is marked, because
/// nothing can be recorded in it until the graph is whole.
pub(crate) fn leave_for_capture() {
    let making = {
        let mut state = process::state();
        let streams = &mut state.streams;
        if let Some(solo) = streams.solo {
            streams.leave_solo(solo);
        }
        streams
            .owed
            .take()
            .and_then(|solo| streams.begin_barrier(solo))
    };
    if let Some(Enter::MakeBarrier(solo, context)) = making {
        make_barrier(solo, context);
    }
    mark_others(None);
}

/// A stream could not be made to wait for an event: that is tried again, while this thread waits in its
/// place. Also while a capture is on, which forbids to wait for more.
fn wait_here_for(key: Key, event: CUevent) {
    let done = || {
        driver::wait_for(key.handle(), event).is_ok()
            || driver::outside_captures(|| driver::has_passed(event))
    };
    if !wait_until(Deadline::after_ms(10_000), done) {
        wait_for_everything();
    }
}

/// The order between streams cannot be made on the device: make it by waiting.
fn wait_for_everything() {
    let contexts: Vec<CUcontext> = {
        let state = process::state();
        state.streams.lines.iter().map(|l| l.context).collect()
    };
    for (i, context) in contexts.iter().enumerate() {
        if !contexts.iter().take(i).any(|c| c == context)
            && let Some(_visit) = Visit::wait(*context)
        {
            synchronize(*context);
        }
    }
}

fn make_barrier(solo: Key, context: CUcontext) {
    let visit = Visit::wait(context);
    let event = visit.ok_or(CUresult::INVALID_CONTEXT);
    let event = event.and_then(|visit| record_in(solo, context, &visit));
    let event = driver::noted("cuEventRecord", 0, event);
    let mut state = process::state();
    if let Ok(event) = event {
        state.streams.barrier = Barrier::Set(event, context);
    }
    if let Some(line) = state.streams.line(solo) {
        line.pins = line.pins.saturating_sub(1);
    }
    drop(state);
    if event.is_err() {
        wait_for_everything();
        process::state().streams.barrier = Barrier::None;
    }
}

/// An operation has been submitted to `key`, which is not the solo stream (any more). Its tick from
/// before is too early to tell its end by: a mark set between the two would not cover it.
pub(crate) fn submitted(key: Key) {
    let tick = process::tick();
    let mut state = process::state();
    let streams = &mut state.streams;
    if let Some(solo) = streams.solo
        && solo != key
    {
        streams.leave_solo(solo);
    }
    let line = streams.line_or_new(key);
    line.last = line.last.max(tick);
}

/// A stream is about to be destroyed: its last work is marked, and no thread of ours names it any
/// more afterwards.
pub(crate) fn destroying(key: Key) {
    let (context, order_ends) = {
        let mut state = process::state();
        let streams = &mut state.streams;
        let was_solo = streams.solo == Some(key);
        if was_solo {
            streams.leave_solo(key);
        }
        let order_ends = streams.owed == Some(key);
        let Some(line) = streams.line(key) else {
            return;
        };
        (line.context, order_ends)
    };
    // Others may be about to record in it, for a moment.
    wait_until(Deadline::after_ms(100), || {
        let mut state = process::state();
        state.streams.line(key).is_none_or(|l| l.pins == 0)
    });
    if order_ends {
        // The order that made reuse safe goes with the stream: what comes next waits for its work.
        let making = {
            let mut state = process::state();
            state.streams.owed = None;
            state.streams.begin_barrier(key)
        };
        if let Some(Enter::MakeBarrier(solo, context)) = making {
            make_barrier(solo, context);
        }
    }
    let tick = process::now();
    if let Some(visit) = Visit::wait(context) {
        let recorded = record_in(key, context, &visit);
        set_mark(key, context, tick, recorded);
        if recorded.is_err() {
            // Its end cannot be marked: wait for it.
            synchronize(context);
        }
    }
    if let Some(line) = process::state().streams.line(key) {
        line.gone = true;
    }
    poll();
}

/// A thread ends, and nobody else can name its own default streams: their last work is marked now, so
/// that what is freed later can tell when it has passed.
pub(super) fn thread_ends(number: usize) {
    if !process::is_on() {
        return;
    }
    // A panic while a thread ends would end the process.
    let marked = std::panic::catch_unwind(|| {
        guard::as_inside(|| {
            let own: Vec<(Key, bool)> = {
                let state = process::state();
                let lines = state.streams.lines.iter();
                lines
                    .filter(|l| l.key.is_of_thread(number) && !l.gone)
                    .map(|l| (l.key, l.is_marked()))
                    .collect()
            };
            for (key, is_marked) in own {
                if !is_marked {
                    mark(key);
                }
                if let Some(line) = process::state().streams.line(key) {
                    line.gone = true;
                }
            }
        });
    });
    if marked.is_err() {
        report::add(report::PANICS, 1);
    }
}

/// After work in `key`: if the calling thread has told of its end already, that is told again.
pub(crate) fn mark_if_ending(key: Key) {
    if let Some(number) = ending_thread().filter(|_| key.is_per_thread()) {
        thread_ends(number);
    }
}

/// Waits for all work of a context, and takes note. The caller has a visit there, or the program's own
/// call is for that context.
///
/// Not while a capture is on, which it would end.
pub(crate) fn synchronize(context: CUcontext) -> bool {
    if captures::any() {
        return false;
    }
    let tick = process::now();
    let waited = driver::outside_captures(|| driver::in_context(context, driver::synchronize));
    let ok = driver::noted("cuCtxSynchronize", 0, waited).is_ok();
    if ok {
        let mut state = process::state();
        state.streams.context_ended(context, tick);
        state.host.ended(context, tick);
    }
    ok
}
