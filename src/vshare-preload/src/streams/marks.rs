//! Marks: events behind the program's work, which tell how far it has come.

use super::{Key, Mark};
use crate::captures;
use crate::cuda::{CUcontext, CUevent, CUresult};
use crate::driver::{self, Answer};
use crate::process;
use crate::visits::Visit;

/// Operations and bytes between two marks.
const MARK_OPERATIONS: u32 = 16;
const MARK_BYTES: u64 = 256 << 20;

/// Marks kept for one stream: beyond that, work is marked more coarsely.
const MARKS: usize = 256;

/// Records an event behind what is now in a stream.
///
/// # Errors
/// Not while a capture is on, in a stream that takes part in it, nor in the legacy stream, which would
/// end it.
pub(super) fn record_in(key: Key, context: CUcontext, _inside: &Visit) -> Answer<CUevent> {
    if captures::any() && (key.is_legacy() || driver::is_capturing(key.handle())) {
        return Err(CUresult::STREAM_CAPTURE_UNSUPPORTED);
    }
    let unused = process::state().streams.take_event(context);
    driver::outside_captures(|| {
        driver::in_context(context, || {
            let event = match unused {
                Some(event) => event,
                None => driver::new_event()?,
            };
            let recorded = driver::record(event, key.handle());
            if let Err(code) = recorded {
                process::state()
                    .streams
                    .unused_events
                    .push((context, event));
                return Err(code);
            }
            Ok(event)
        })
    })
}

/// After an operation that named `bytes` of memory: sets a mark if enough has come together.
pub(crate) fn after(key: Key, bytes: u64) {
    let due = {
        let mut state = process::state();
        let line = state.streams.line_or_new(key);
        line.operations += 1;
        line.bytes += bytes;
        (line.operations >= MARK_OPERATIONS || line.bytes >= MARK_BYTES) && line.marks.len() < MARKS
    };
    if due {
        mark(key);
    }
}

/// Sets a mark in a stream that the calling thread is using.
pub(crate) fn mark(key: Key) {
    let (context, tick) = {
        let mut state = process::state();
        let tick = process::now();
        let line = state.streams.line_or_new(key);
        line.operations = 0;
        line.bytes = 0;
        (line.context, tick)
    };
    // In a context that is about to end, no mark is needed.
    if let Some(visit) = Visit::begin(context) {
        let recorded = record_in(key, context, &visit);
        set_mark(key, context, tick, recorded);
    }
}

pub(super) fn set_mark(key: Key, context: CUcontext, tick: u64, recorded: Answer<CUevent>) {
    let Ok(event) = recorded else {
        return;
    };
    let mut state = process::state();
    match state.streams.line(key) {
        Some(line) if line.context == context => {
            line.marked = line.marked.max(tick);
            line.marks.push_back(Mark { tick, event });
        }
        _ => state.streams.unused_events.push((context, event)),
    }
}

/// Sets a mark in a stream that the calling thread is using, if it has work without one.
pub(crate) fn mark_if_due(key: Key) {
    let due = {
        let mut state = process::state();
        state.streams.line(key).is_some_and(|l| !l.is_marked())
    };
    if due {
        mark(key);
    }
}

/// Sets marks in all streams that have work without one, as far as this thread can name them.
pub(crate) fn mark_others(but: Option<Key>) {
    let targets: Vec<(Key, CUcontext, u64)> = {
        let mut state = process::state();
        let tick = process::now();
        state
            .streams
            .lines
            .iter_mut()
            .filter(|l| Some(l.key) != but && !l.gone && !l.is_marked() && l.key.is_shared())
            .map(|line| {
                line.pins += 1;
                (line.key, line.context, tick)
            })
            .collect()
    };
    for (key, context, tick) in targets {
        if let Some(visit) = Visit::begin(context) {
            let recorded = record_in(key, context, &visit);
            set_mark(key, context, tick, recorded);
        }
        if let Some(line) = process::state().streams.line(key) {
            line.pins = line.pins.saturating_sub(1);
        }
    }
}

/// Whether work without a mark stands in the way of knowing that `tick` has been passed.
pub(crate) fn lacks_marks(tick: u64) -> bool {
    let state = process::state();
    let streams = &state.streams;
    streams
        .lines
        .iter()
        .any(|l| !streams.has_ended(l, tick) && l.marked < tick && !l.is_marked())
}

/// Asks the driver which marks have been passed.
pub(crate) fn poll() {
    let fronts: Vec<(Key, Mark, CUcontext)> = {
        let state = process::state();
        state
            .streams
            .lines
            .iter()
            .flat_map(|l| l.marks.iter().take(8).map(|m| (l.key, *m, l.context)))
            .collect()
    };
    let mut passed = Vec::new();
    driver::outside_captures(|| {
        let mut blocked: Option<Key> = None;
        for (key, mark, context) in fronts {
            if blocked == Some(key) {
                continue;
            }
            if driver::has_passed(mark.event) {
                passed.push((key, mark, context));
            } else {
                blocked = Some(key);
            }
        }
    });
    let mut state = process::state();
    let streams = &mut state.streams;
    for (key, mark, context) in passed {
        let Some(line) = streams.lines.iter_mut().find(|l| {
            l.key == key
                && l.context == context
                && l.marks
                    .front()
                    .is_some_and(|m| m.tick == mark.tick && m.event == mark.event)
        }) else {
            continue;
        };
        line.marks.pop_front();
        line.end(mark.tick);
        streams.unused_events.push((context, mark.event));
    }
    streams.forget_gone();
}
