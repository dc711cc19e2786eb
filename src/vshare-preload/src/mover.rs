//! The thread that decides what moves next: it lets pages leave until what is wanted fits, and has come what is
//! foreseen.
//!
//! Started when something must leave for the first time, which is after CUDA is in use. One thread for all
//! arenas: it only decides, a crew moves.

use crate::arenas::Owned;
use crate::clock::{self, Deadline, wait_until};
use crate::crew::{self, Job, Urgency};
use crate::cuda::CUcontext;
use crate::lock::Lock;
use crate::visits::Visit;
use crate::{driver, guard, memory, os, process, report, road, streams};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::Thread;
use std::time::Duration;
use vshare_core::block::Run;
use vshare_core::config::Policy;
use vshare_core::residency::{Fetch, Leave};
use vshare_core::units::PAGE;

/// Room kept free ahead of need, so that a launch seldom waits: bytes. Where moves are planned, none is.
const AHEAD: u64 = 256 << 20;

/// How long a block whose end of use cannot be known (work without a mark) is waited for.
const PATIENCE_MS: u64 = 200;

/// Between two looks at work that is waited for.
const SHORTEST_PAUSE: Duration = Duration::from_micros(20);
const LONGEST_PAUSE: Duration = Duration::from_micros(320);

/// For so long a program has submitted nothing when it counts as waiting.
const RESTS_NS: u64 = 200_000;

/// After so long without work it is no longer looked after.
const LONG_REST_NS: u64 = 20_000_000;

static THREAD: OnceLock<Option<Thread>> = OnceLock::new();

/// Whether the thread sleeps until somebody wakes it, or has not been started.
static ASLEEP: AtomicBool = AtomicBool::new(true);

/// Whether there may be something to do that it has not looked at.
static NUDGED: AtomicBool = AtomicBool::new(false);

/// Changes whenever pages have come or gone, or cannot.
static PROGRESS: AtomicU64 = AtomicU64::new(0);

static WORKING: AtomicBool = AtomicBool::new(false);

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
    let needs = {
        let mut state = process::state();
        state.arenas.keep_to_device(context);
        state
            .arenas
            .of(context)
            .is_some_and(|owned| is_needed(owned))
    };
    if needs {
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

/// Whether pages must leave that are not on their way.
pub(crate) fn is_needed(owned: &Owned) -> bool {
    Need::of(owned).more > 0
}

/// There may be something to do ahead of need.
pub(crate) fn nudge() {
    // Before looking: it may be about to sleep.
    NUDGED.store(true, Ordering::SeqCst);
    if ASLEEP.load(Ordering::SeqCst) {
        wake();
    }
}

/// What became of bringing in what was planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Brought {
    /// It is there, or will be before work that is put behind it.
    Here,
    /// Some of it is still on its way.
    Coming,
    /// Some of it could not be brought. It stays where it is, for the work to fault in.
    Failed,
}

/// Brings in what was planned, together with the crew.
pub(crate) fn bring(context: CUcontext, fetch: &Fetch) -> Brought {
    let threads = road::threads(context);
    let visit = Some(()).filter(|()| threads > 1 && crew::IN.start(threads));
    let Some(visit) = visit.and_then(|()| Visit::begin(context)).map(Arc::new) else {
        return match road::bring(context, fetch) {
            true => Brought::Here,
            false => Brought::Failed,
        };
    };
    let failures = || {
        process::state()
            .arenas
            .of(context)
            .map_or(u64::MAX, |o| o.failures)
    };
    let before = failures();
    let jobs = |runs: &[Run], with_data| {
        let pieces = runs.iter().copied().flat_map(road::pieces);
        pieces
            .map(|run| Job::In(Arc::clone(&visit), run, with_data))
            .collect::<Vec<_>>()
    };
    let mut all = jobs(&fetch.populate, false);
    all.append(&mut jobs(&fetch.promote, true));
    crew::IN.push(all, Urgency::Awaited);
    // Those that are under way are waited for like any other move.
    while crew::IN.help() {}
    match failures() == before {
        true => Brought::Coming,
        false => Brought::Failed,
    }
}

/// Wakes the thread, or starts it. Returns whether there is one.
pub(crate) fn wake() -> bool {
    // A thread that has stopped answers nobody.
    if crew::is_over() {
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

fn start() -> Option<Thread> {
    let started = os::spawn_without_signals("vshare-mover", || guard::as_inside(work)).ok()?;
    os::at_exit(stop);
    Some(started.thread().clone())
}

/// The process ends: no move may be under way when the driver is torn down.
extern "C" fn stop() {
    if crew::stop() {
        wait_until(Deadline::after_ms(2000), || !WORKING.load(Ordering::SeqCst));
    }
}

/// When to look again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Next {
    /// When somebody asks.
    Asked,
    /// Soon: work is waited for.
    Soon,
}

fn work() {
    driver::leave_captures();
    ASLEEP.store(false, Ordering::SeqCst);
    let mut pause = SHORTEST_PAUSE;
    loop {
        WORKING.store(true, Ordering::SeqCst);
        if crew::is_over() {
            WORKING.store(false, Ordering::SeqCst);
            return;
        }
        let contexts: Vec<CUcontext> = {
            let state = process::state();
            state.arenas.iter().map(|o| o.context).collect()
        };
        NUDGED.store(false, Ordering::SeqCst);
        let before = progress();
        let mut next = Next::Asked;
        for context in contexts {
            // A defect here must not end the program's process, nor leave anybody waiting.
            next = next.max(
                std::panic::catch_unwind(|| serve(context)).unwrap_or_else(|_| {
                    report::add(report::PANICS, 1);
                    answer(context, true);
                    Next::Asked
                }),
            );
        }
        WORKING.store(false, Ordering::SeqCst);
        if progress() != before {
            pause = SHORTEST_PAUSE;
        }
        match next {
            Next::Soon => {
                std::thread::park_timeout(pause);
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
            Next::Asked => {
                ASLEEP.store(true, Ordering::SeqCst);
                if !NUDGED.load(Ordering::SeqCst) {
                    std::thread::park();
                }
                ASLEEP.store(false, Ordering::SeqCst);
            }
        }
    }
}

/// Lets pages of one arena leave and come, as far as the crews are free. The context cannot end meanwhile.
fn serve(context: CUcontext) -> Next {
    let Some(visit) = Visit::begin(context).map(Arc::new) else {
        answer(context, true);
        return Next::Asked;
    };
    let threads = road::threads(context);
    if !crew::OUT.start(threads) {
        answer(context, true);
        return Next::Asked;
    }
    let served = driver::in_context(context, || {
        let next = let_leave(&visit).max(let_come(&visit, threads));
        look_ahead(context);
        memory::settle();
        Ok(next)
    });
    if served != Ok(Next::Soon) {
        report::gauges();
    }
    served.unwrap_or_else(|_| {
        answer(context, true);
        Next::Asked
    })
}

fn let_leave(visit: &Arc<Visit>) -> Next {
    let context = visit.context();
    loop {
        let Some(need) = need(context) else {
            answer(context, false);
            return Next::Asked;
        };
        if need.now == 0 {
            answer(context, false);
        }
        if crew::OUT.capacity() == 0 {
            // Whoever has done a job wakes this thread.
            return Next::Asked;
        }
        if take_failure(context) {
            // The same pages again, and again: whoever waits does without.
            answer(context, true);
            return Next::Asked;
        }
        let hurried = is_hurried(context);
        match plan(context, need.more, hurried) {
            Leave::Drop(runs) => {
                let pieces = runs.into_iter().flat_map(road::pieces);
                let jobs = pieces.map(|run| Job::Drop(Arc::clone(visit), run));
                crew::OUT.push(jobs.collect(), Urgency::Ahead);
            }
            Leave::Evict(runs) => {
                let pieces = runs.into_iter().flat_map(road::pieces);
                let jobs = pieces.map(|run| Job::Out(Arc::clone(visit), run));
                crew::OUT.push(jobs.collect(), Urgency::Ahead);
            }
            Leave::Wait(tick) => return wait(context, tick),
            Leave::Nothing => {
                if need.more > 0 && need.rests {
                    answer(context, true);
                }
                return Next::Asked;
            }
        }
        if let Some(owned) = process::state().arenas.of(context) {
            owned.patience = None;
            owned.stuck = false;
        }
        moved();
    }
}

/// For how long the program has submitted nothing in an arena, as far as this thread has seen: nanoseconds.
fn rest(owned: &mut Owned) -> u64 {
    let now = clock::nanoseconds();
    let place = owned.arena.foresight().map(|f| f.history().last());
    if place != owned.place {
        (owned.place, owned.placed) = (place, now);
    }
    now - owned.placed
}

/// The next to leave is in use until the work up to `tick` has ended.
fn wait(context: CUcontext, tick: u64) -> Next {
    // Before anything else: while two arenas are waited for, this may be the only look.
    streams::poll();
    let lacks_marks = streams::lacks_marks(tick);
    let mut state = process::state();
    let Some(owned) = state.arenas.of(context) else {
        return Next::Asked;
    };
    if !lacks_marks {
        owned.patience = None;
        return Next::Soon;
    }
    if owned.wanted == 0 && owned.arena.is_planned() {
        let rests = rest(owned) > RESTS_NS;
        drop(state);
        if rests {
            // It may be waiting for its last work, behind which it has set no mark.
            streams::mark_others(None);
        }
        return Next::Soon;
    }
    if owned.wanted == 0 {
        // Room ahead of need is not worth a page that is in use.
        return Next::Asked;
    }
    if owned.patience.is_none() {
        owned.patience = Some(Deadline::after_ms(PATIENCE_MS));
    }
    Next::Soon
}

/// Whether pages could not leave since this was last asked.
fn take_failure(context: CUcontext) -> bool {
    let mut state = process::state();
    let owned = state.arenas.of(context);
    owned.is_some_and(|o| std::mem::take(&mut o.cannot_leave))
}

fn is_hurried(context: CUcontext) -> bool {
    let mut state = process::state();
    let patience = state.arenas.of(context).and_then(|o| o.patience);
    patience.is_some_and(Deadline::has_passed)
}

/// Has come what is foreseen, as far as there is room.
fn let_come(visit: &Arc<Visit>, threads: usize) -> Next {
    let context = visit.context();
    loop {
        let fetch = {
            let mut state = process::state();
            state.arenas.keep_to_device(context);
            let Some(owned) = state.arenas.of(context) else {
                return Next::Asked;
            };
            if owned.wanted > 0 || !owned.arena.is_planned() {
                return Next::Asked;
            }
            if !crew::IN.start(threads) || crew::IN.capacity() == 0 {
                return Next::Asked;
            }
            let fetch = owned.arena.next_in(road::PIECE);
            if fetch.promote.is_empty() {
                let waits = owned.arena.waits_for_room();
                // The next work wakes this thread if none has come for long.
                owned.waits = waits && rest(owned) > LONG_REST_NS;
                let looks = waits && !owned.waits;
                drop(state);
                if looks {
                    // Memory that the program frees makes room, once the work that uses it has ended.
                    streams::poll();
                    return Next::Soon;
                }
                return Next::Asked;
            }
            state.arenas.publish();
            fetch
        };
        let pages: u64 = fetch.promote.iter().map(|run| run.pages).sum();
        report::add(report::FORESEEN_BYTES, pages * PAGE);
        let runs = fetch.promote.iter();
        let jobs = runs.map(|&run| Job::In(Arc::clone(visit), run, true));
        crew::IN.push(jobs.collect(), Urgency::Ahead);
    }
}

/// Has a plan made if there should be one.
fn look_ahead(context: CUcontext) {
    let mut state = process::state();
    let Some(owned) = state.arenas.of(context) else {
        return;
    };
    if let Some(outlook) = owned.arena.begin_plan() {
        drop(state);
        if crew::PLAN.start(1) {
            crew::PLAN.push(vec![Job::Plan(context, Box::new(outlook))], Urgency::Ahead);
        } else if let Some(owned) = process::state().arenas.of(context) {
            owned.arena.install(None);
        }
    }
}

/// Tells whoever waits for room in an arena that there is what there can be.
fn answer(context: CUcontext, stuck: bool) {
    let mut state = process::state();
    let Some(owned) = state.arenas.of(context).filter(|o| o.wanted > 0) else {
        return;
    };
    owned.wanted = 0;
    owned.stuck = stuck;
    owned.patience = None;
    drop(state);
    moved();
}

/// Pages that must leave: what is above the budget, what somebody waits for, and what is to be free
/// ahead of need.
#[derive(Clone, Copy, Debug)]
struct Need {
    /// Not free yet.
    now: u64,
    /// Not on their way, either.
    more: u64,
    /// Whether nothing moves in the arena: else, what moves now may leave when it has come.
    rests: bool,
}

impl Need {
    fn of(owned: &Owned) -> Self {
        let residency = owned.arena.residency();
        let over = residency.resident().saturating_sub(residency.budget());
        let keeps_room = match process::config().policy {
            Policy::Auto => !owned.arena.is_planned(),
            Policy::Lru => true,
            Policy::Demand => false,
        };
        let ahead = if residency.missing() > 0 && keeps_room {
            (AHEAD / PAGE).min(residency.budget() / 8)
        } else {
            0
        };
        let now = over + owned.wanted.max(ahead).saturating_sub(residency.room());
        Self {
            now,
            more: now.saturating_sub(residency.leaving()),
            rests: !residency.is_moving(),
        }
    }
}

/// `None`: the context is about to end, or has.
fn need(context: CUcontext) -> Option<Need> {
    let mut guard = process::state();
    let state = &mut *guard;
    state.arenas.keep_to_device(context);
    let owned = state.arenas.of(context);
    let owned = owned.filter(|_| !state.visits.is_ending(context))?;
    Some(Need::of(owned))
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
        let ended = |tick| streams.have_ended(tick);
        owned.arena.next_out(need, road::PIECE, can_drop, ended)
    };
    if matches!(leave, Leave::Drop(_) | Leave::Evict(_)) {
        state.arenas.publish();
    }
    leave
}

/// Arenas whose mapping is protected, and by how many.
static PROTECTED: Lock<Vec<(CUcontext, usize)>> = Lock::new(Vec::new());

/// Keeps an arena's mapping for the host protected while it lives, as long as pages are copied out.
#[derive(Debug)]
pub(crate) struct Protected(CUcontext);

impl Protected {
    pub(crate) fn new(context: CUcontext) -> Self {
        let mut list = PROTECTED.lock();
        match list.iter_mut().find(|p| p.0 == context) {
            Some(found) => found.1 += 1,
            None => {
                list.push((context, 1));
                protect(context, true);
            }
        }
        Self(context)
    }
}

impl Drop for Protected {
    fn drop(&mut self) {
        let mut list = PROTECTED.lock();
        let Some(at) = list.iter().position(|p| p.0 == self.0) else {
            return;
        };
        if let Some(found) = list.get_mut(at) {
            found.1 -= 1;
            if found.1 == 0 {
                list.swap_remove(at);
                protect(self.0, false);
            }
        }
    }
}

fn protect(context: CUcontext, protected: bool) {
    let extents: Vec<_> = {
        let mut state = process::state();
        match state.arenas.of(context) {
            Some(owned) => owned.arena.pool().extents().collect(),
            None => return,
        }
    };
    os::protect(&extents, protected);
}
