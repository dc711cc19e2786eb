//! How long work takes on the device: events with times before and behind it, asked by the writer.
//!
//! Not while anything is captured, which the events would become part of.

use crate::cuda::{CUcontext, CUevent, CUresult};
use crate::lock::Lock;
use crate::streams::Key;
use crate::visits::Visit;
use crate::{captures, clock, driver, process};

/// Events that are not in use, and contexts that have ended with the time at which they had.
#[derive(Debug)]
struct Events {
    unused: Vec<(CUcontext, CUevent)>,
    gone: Vec<(CUcontext, u64)>,
}

static EVENTS: Lock<Events> = Lock::new(Events {
    unused: Vec::new(),
    gone: Vec::new(),
});

/// Work that is about to be submitted.
#[derive(Debug, Default)]
pub(crate) struct Begun {
    /// Host clock.
    pub(super) when: u64,
    /// The event before it.
    event: Option<(CUcontext, CUevent)>,
}

/// What is known of a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Time {
    /// Nanoseconds.
    Known(u64),
    /// The work has not ended.
    NotYet,
    /// It will never be known.
    Never,
}

pub(super) fn begin(key: Key) -> Begun {
    let when = clock::nanoseconds();
    let wanted = process::config().trace_times && !captures::any_soon();
    let context = wanted.then(driver::current_context).flatten();
    let event = context.and_then(|context| Some((context, record(context, key)?)));
    Begun { when, event }
}

/// Work has been submitted: its events and their context, null if there are none.
pub(super) fn end(begun: &Begun, key: Key) -> (CUcontext, (u64, u64)) {
    let none = (CUcontext::NULL, (0, 0));
    let Some((context, first)) = begun.event else {
        return none;
    };
    let last = if captures::any_soon() {
        None
    } else {
        record(context, key)
    };
    let Some(last) = last else {
        give_back(context, &[first]);
        return none;
    };
    (context, (first.0 as u64, last.0 as u64))
}

/// The work has not come about.
pub(super) fn give_up(begun: Begun) {
    if let Some((context, event)) = begun.event {
        give_back(context, &[event]);
    }
}

fn record(context: CUcontext, key: Key) -> Option<CUevent> {
    let unused = {
        let unused = &mut EVENTS.lock().unused;
        let at = unused.iter().rposition(|e| e.0 == context);
        at.map(|at| unused.swap_remove(at).1)
    };
    let event = unused.or_else(|| driver::new_timed_event().ok())?;
    if driver::record(event, key.handle()).is_err() {
        give_back(context, &[event]);
        return None;
    }
    Some(event)
}

fn give_back(context: CUcontext, events: &[CUevent]) {
    let mut all = EVENTS.lock();
    all.unused.extend(events.iter().map(|&e| (context, e)));
}

/// A context has ended, and its events with it.
pub(crate) fn context_gone(context: CUcontext) {
    let mut events = EVENTS.lock();
    events.unused.retain(|e| e.0 != context);
    events.gone.retain(|g| g.0 != context);
    events.gone.push((context, clock::nanoseconds()));
}

/// How long work took that was submitted at `when`. Where it is `Known`, its events are used again.
pub(super) fn read(context: CUcontext, events: (u64, u64), when: u64) -> Time {
    let event = |handle| Some(CUevent(usize::try_from(handle).ok()?));
    let (Some(first), Some(last)) = (event(events.0), event(events.1)) else {
        return Time::Never;
    };
    // Neither does the context end while it is asked, nor has it.
    let Some(_visit) = Visit::begin(context) else {
        return Time::Never;
    };
    if EVENTS
        .lock()
        .gone
        .iter()
        .any(|g| g.0 == context && g.1 >= when)
    {
        return Time::Never;
    }
    let time = driver::in_context(context, || driver::elapsed(first, last));
    match time {
        Err(CUresult::NOT_READY) => Time::NotYet,
        Err(_) => Time::Never,
        Ok(time) => {
            give_back(context, &[first, last]);
            Time::Known(time)
        }
    }
}
