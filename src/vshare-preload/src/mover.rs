//! The thread that makes room: it lets pages leave until what is wanted fits.
//!
//! Started when something must leave for the first time, which is after CUDA is in use. One thread
//! for all arenas: through libcuda more threads move no faster.

use crate::clock::{Deadline, wait_until};
use crate::cuda::CUcontext;
use crate::visits::Visit;
use crate::{driver, guard, memory, os, process, report, road, streams};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::Thread;
use std::time::Duration;
use vshare_core::config::Policy;
use vshare_core::residency::Leave;
use vshare_core::units::PAGE;

/// Room kept free ahead of need, so that a launch seldom waits: bytes.
const AHEAD: u64 = 256 << 20;

/// How long a block whose end of use cannot be known (work without a mark) is waited for.
const PATIENCE_MS: u64 = 200;

/// Between two looks at work that is waited for.
const SHORTEST_PAUSE: Duration = Duration::from_micros(20);
const LONGEST_PAUSE: Duration = Duration::from_micros(320);

static THREAD: OnceLock<Option<Thread>> = OnceLock::new();

/// Changes whenever pages have left, or cannot.
static PROGRESS: AtomicU64 = AtomicU64::new(0);

static STOPPING: AtomicBool = AtomicBool::new(false);
static WORKING: AtomicBool = AtomicBool::new(false);

/// Whether this process is a forked child, which has no such thread.
static FORGOTTEN: AtomicBool = AtomicBool::new(false);

/// What became of asking for room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// Something has come or gone: look again.
    Changed,
    /// Nothing can leave now, or it took too long.
    Stuck,
}

/// Where things stand: to be read before planning, and given to [`wait_for_room`] after.
pub(crate) fn progress() -> u64 {
    PROGRESS.load(Ordering::Acquire)
}

/// Pages have come or gone: whoever waits looks again.
pub(crate) fn moved() {
    PROGRESS.fetch_add(1, Ordering::AcqRel);
}

/// Asks for room for `pages` pages in an arena and waits until something has changed since `seen`, at
/// most until `deadline`.
pub(crate) fn wait_for_room(context: CUcontext, pages: u64, seen: u64, deadline: Deadline) -> Room {
    while !deadline.has_passed() {
        if let Some(owned) = process::state().arenas.of(context) {
            owned.wanted = owned.wanted.max(pages);
            // An answer to an earlier wish says nothing of this one.
            owned.stuck = false;
        }
        if !wake() {
            return Room::Stuck;
        }
        // In slices: another's wish may have taken the place of this one.
        if wait_until(deadline.or_after_ms(2), || progress() != seen) {
            let stuck = process::state().arenas.of(context).is_none_or(|o| o.stuck);
            return if stuck { Room::Stuck } else { Room::Changed };
        }
    }
    Room::Stuck
}

/// Has room made ahead of need, while the work just prepared is submitted and runs.
pub(crate) fn ask_ahead(context: CUcontext) {
    if need(context) > 0 {
        wake();
    }
}

/// A new arena has made the others' parts of the budget smaller: what is above them leaves.
pub(crate) fn ask_others(context: CUcontext) {
    let others: Vec<CUcontext> = {
        let state = process::state();
        let others = state.arenas.iter().map(|o| o.context);
        others.filter(|&c| c != context).collect()
    };
    for other in others {
        ask_ahead(other);
    }
}

/// Wakes the thread, or starts it. Returns whether there is one.
fn wake() -> bool {
    // A thread that has stopped answers nobody.
    if FORGOTTEN.load(Ordering::Relaxed) || STOPPING.load(Ordering::SeqCst) {
        return false;
    }
    match THREAD.get_or_init(start) {
        Some(thread) => {
            thread.unpark();
            true
        }
        None => false,
    }
}

/// In a forked child.
pub(crate) fn forget() {
    FORGOTTEN.store(true, Ordering::Relaxed);
}

fn start() -> Option<Thread> {
    let started = os::spawn_without_signals("vshare-mover", || guard::as_inside(work)).ok()?;
    os::at_exit(stop);
    Some(started.thread().clone())
}

/// The process ends: no move may be under way when the driver is torn down.
extern "C" fn stop() {
    STOPPING.store(true, Ordering::SeqCst);
    // A forked child has no such thread to wait for.
    if FORGOTTEN.load(Ordering::Relaxed) {
        return;
    }
    wait_until(Deadline::after_ms(2000), || !WORKING.load(Ordering::SeqCst));
}

fn work() {
    driver::leave_captures();
    loop {
        std::thread::park();
        WORKING.store(true, Ordering::SeqCst);
        if STOPPING.load(Ordering::SeqCst) {
            WORKING.store(false, Ordering::SeqCst);
            return;
        }
        let contexts: Vec<CUcontext> = {
            let state = process::state();
            state.arenas.iter().map(|o| o.context).collect()
        };
        for context in contexts {
            // A defect here must not end the program's process, nor leave memory protected.
            let served = std::panic::catch_unwind(|| serve(context));
            if served.is_err() {
                report::add(report::PANICS, 1);
                if let Some(_visit) = Visit::begin(context) {
                    protect(context, false);
                }
                answer(context, true);
            }
        }
        WORKING.store(false, Ordering::SeqCst);
    }
}

/// Lets pages of one arena leave until nothing more is wanted, or nothing can. The context cannot end
/// meanwhile.
fn serve(context: CUcontext) {
    if need(context) == 0 {
        answer(context, false);
        return;
    }
    let Some(_visit) = Visit::begin(context) else {
        answer(context, true);
        return;
    };
    if driver::set_context(context).is_err() {
        answer(context, true);
        return;
    }
    make_room(context);
    memory::settle();
    report::gauges();
}

fn make_room(context: CUcontext) {
    let mut protected = false;
    let mut patience: Option<Deadline> = None;
    let mut pause = SHORTEST_PAUSE;
    loop {
        let need = need(context);
        if need == 0 || STOPPING.load(Ordering::SeqCst) {
            answer(context, false);
            break;
        }
        let hurried = patience.is_some_and(Deadline::has_passed);
        match plan(context, need, hurried) {
            Leave::Drop(runs) => road::drop_pages(context, &runs),
            Leave::Evict(runs) => {
                protected = protected || protect(context, true);
                road::evict(context, &runs);
            }
            Leave::Wait(tick) => {
                // Unprotected meanwhile: what the program's work faults in is served faster so.
                if protected {
                    protect(context, false);
                    protected = false;
                }
                // Before anything else: while two arenas are waited for, this may be the only look.
                streams::poll();
                if !streams::lacks_marks(tick) {
                    patience = None;
                } else if !is_waited_for(context) {
                    // Room ahead of need is not worth a page that is in use.
                    break;
                } else if patience.is_none() {
                    patience = Some(Deadline::after_ms(PATIENCE_MS));
                }
                // Whoever waits here asks again, and room ahead of need is asked for by the next work.
                if patience.is_none() && is_wanted_elsewhere(context) {
                    break;
                }
                std::thread::sleep(pause);
                pause = (pause * 2).min(LONGEST_PAUSE);
                continue;
            }
            Leave::Nothing => {
                answer(context, true);
                break;
            }
        }
        patience = None;
        pause = SHORTEST_PAUSE;
        if let Some(owned) = process::state().arenas.of(context) {
            owned.stuck = false;
        }
        moved();
    }
    if protected {
        protect(context, false);
    }
}

/// Tells whoever waits for room in an arena that there is what there can be.
fn answer(context: CUcontext, stuck: bool) {
    if let Some(owned) = process::state().arenas.of(context) {
        owned.wanted = 0;
        owned.stuck = stuck;
    }
    moved();
}

/// Whether somebody waits for room in another arena.
fn is_wanted_elsewhere(context: CUcontext) -> bool {
    process::state()
        .arenas
        .iter()
        .any(|o| o.context != context && o.wanted > 0)
}

/// Whether somebody waits for room in an arena.
fn is_waited_for(context: CUcontext) -> bool {
    process::state()
        .arenas
        .of(context)
        .is_some_and(|o| o.wanted > 0)
}

/// Pages that must leave: what is above the budget, what somebody waits for, and what is to be free
/// ahead of need.
fn need(context: CUcontext) -> u64 {
    let mut guard = process::state();
    let state = &mut *guard;
    state.arenas.keep_to_device(context);
    let owned = state.arenas.of(context);
    let Some(owned) = owned.filter(|_| !state.visits.is_ending(context)) else {
        return 0;
    };
    let residency = owned.arena.residency();
    let over = residency.resident().saturating_sub(residency.budget());
    let ahead = if residency.missing() > 0 && process::config().policy == Policy::Lru {
        (AHEAD / PAGE).min(residency.budget() / 8)
    } else {
        0
    };
    let wanted = owned.wanted.max(ahead);
    over + wanted.saturating_sub(residency.room())
}

fn plan(context: CUcontext, need: u64, hurried: bool) -> Leave {
    let mut guard = process::state();
    let state = &mut *guard;
    let owned = state.arenas.of(context);
    let Some(owned) = owned.filter(|_| !state.visits.is_ending(context)) else {
        return Leave::Nothing;
    };
    let streams = &state.streams;
    let leave = if hurried {
        // Copying out is right even under work that uses the page; dropping would not be.
        owned.arena.leave(need, road::PIECE, false, |_| true)
    } else {
        // The driver's own policy copies dead memory out like any other.
        let can_drop = owned.can_drop && process::config().policy != Policy::Demand;
        owned
            .arena
            .leave(need, road::PIECE, can_drop, |tick| streams.have_ended(tick))
    };
    state.arenas.publish();
    leave
}

fn protect(context: CUcontext, protected: bool) -> bool {
    let extents: Vec<_> = {
        let mut state = process::state();
        match state.arenas.of(context) {
            Some(owned) => owned.arena.pool().extents().collect(),
            None => return false,
        }
    };
    os::protect(&extents, protected);
    true
}
