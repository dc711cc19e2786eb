//! Allocating and freeing in the pool: planned under the lock, carried out without it.

use crate::clock::{Deadline, wait_until};
use crate::cuda::{CUcontext, CUdevice, CUevent, CUresult};
use crate::host_ranges::Due;
use crate::report;
use crate::streams::{self, Key};
use crate::visits::{self, Visit};
use crate::{arenas, captures, driver, elsewhere, host_ranges, pools, process, road, setup};
use vshare_core::arena::{Grant, Refusal, held};
use vshare_core::block::{After, FreeError, Slot};
use vshare_core::config::FreeWait;
use vshare_shm::record::{Cause, Class, Record};

/// Allocates `bytes` in the current context's arena: in a stream's order, or for use in any.
/// `tag` is kept with it. `None`: vshare steps aside, and the driver is to be asked.
pub(crate) fn allocate(bytes: u64, order: Option<Key>, tag: u64) -> Option<Result<u64, CUresult>> {
    let context = driver::current_context()?;
    if captures::any() {
        // The arena has what the driver can be asked with.
        setup::context_with_arena()?;
    }
    if is_forbidden(context) {
        return Some(Err(CUresult::STREAM_CAPTURE_UNSUPPORTED));
    }
    if let Some(key) = order.filter(|&key| !streams::is_solo(key)) {
        streams::know(key);
    }
    let mut help = Help::Settle;
    loop {
        let planned = match plan(context, bytes, order, tag, false) {
            Some(planned) => planned,
            None => {
                setup::context_with_arena()?;
                // While it lasts, the context does not end.
                let _visit = Visit::wait(context)?;
                plan(context, bytes, order, tag, true)?
            }
        };
        match planned {
            Ok((grant, live, class)) => {
                populate(context, &grant);
                allocated(&grant, bytes, order, tag, live, class);
                return Some(Ok(grant.address));
            }
            Err(Refusal::Limit(over)) => {
                report::add(report::OOM_LIMIT, 1);
                refused(bytes, Cause::Limit, over.left);
                return Some(Err(CUresult::OUT_OF_MEMORY));
            }
            Err(Refusal::NoRoom(no)) => {
                let Some(next) = help.give(context, no.pages) else {
                    refused_by_whom(context, bytes, no.pages);
                    return Some(Err(CUresult::OUT_OF_MEMORY));
                };
                help = next;
            }
        }
    }
}

/// Brings fresh memory to the device before the program has it.
fn populate(context: CUcontext, grant: &Grant) {
    if grant.populate.is_empty() {
        return;
    }
    road::populate(context, &grant.populate);
    report::gauges();
    if let Some(owned) = process::state().arenas.of(context) {
        owned.arena.populated(grant);
    }
}

type Planned = Result<(Grant, u64, Class), Refusal>;

/// `None`: there is no arena, or the context may be about to end and the caller does not keep it.
fn plan(
    context: CUcontext,
    bytes: u64,
    order: Option<Key>,
    tag: u64,
    visits: bool,
) -> Option<Planned> {
    let mut guard = process::state();
    let state = &mut *guard;
    let slot = match order {
        Some(key) if !streams::any_solo() => Some(state.streams.slot(key)),
        _ => None,
    };
    let device = state.arenas.of(context)?.device;
    let others = state.arenas.live_on(device, Some(context));
    state.arenas.keep_to_device(context);
    let owned = state.arenas.of(context);
    let owned = owned.filter(|_| visits || !state.visits.is_ending(context))?;
    owned.arena.ledger_mut().limit = owned.limit.saturating_sub(others);
    let planned = owned.arena.allocate(bytes, slot, tag);
    let class = owned.kind.class();
    state.recording.changes(owned, order);
    state.arenas.publish();
    let live = state.arenas.live();
    Some(planned.map(|grant| (grant, live, class)))
}

/// Extents that one allocation gets, or waits for others to get, before it gives up.
const EXTENTS: u8 = 64;

/// Waits for all work that one allocation makes at most.
const WAITS: u8 = 8;

/// How long the marks are waited for that freed memory waits for: all work may take longer, never less.
const MARKS_MS: u64 = 2000;

/// Waits until some freed memory of a context's arena has been passed by the work that could use it, and by no
/// more than that work. `false`: it cannot be told by marks.
fn wait_for_marks(context: CUcontext) -> bool {
    let fences = || {
        let mut state = process::state();
        state
            .arenas
            .of(context)
            .map_or_else(Vec::new, |o| o.fences.clone())
    };
    streams::mark_others(None);
    let before = fences();
    let mut passed = false;
    wait_until(Deadline::after_ms(MARKS_MS), || {
        settle();
        passed = fences() != before;
        passed || before.iter().all(|&(_, until)| streams::lacks_marks(until))
    });
    passed
}

/// Whether freed memory of a context's arena waits for work.
fn anything_waits(context: CUcontext) -> bool {
    let mut state = process::state();
    let owned = state.arenas.of(context);
    owned.is_some_and(|o| o.arena.pool().waiting_slots().next().is_some())
}

/// What is tried, in this order, when the pool has no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Help {
    /// See which freed memory has been passed by the work that could use it.
    Settle,
    /// Get an extent. May succeed without giving enough, so it is tried a few times.
    Extend(u8),
    /// Wait for the work that freed memory waits for, as long as some of it is set free by that.
    Marks,
    /// Wait for all work, which makes all freed memory free. Other threads may be faster and take it:
    /// so it is tried a few times, as long as any waits.
    Wait(u8),
}

impl Help {
    /// Gives this help, or the next that can be given; returns what comes after it.
    fn give(self, context: CUcontext, pages: u64) -> Option<Self> {
        match self {
            Self::Settle => {
                settle();
                Some(Self::Extend(EXTENTS))
            }
            Self::Extend(tries) if tries > 0 && setup::extend(context, pages).is_ok() => {
                Some(Self::Extend(tries - 1))
            }
            Self::Extend(_) => Self::Marks.give(context, pages),
            Self::Marks if wait_for_marks(context) => Some(Self::Marks),
            Self::Marks => Self::Wait(WAITS).give(context, pages),
            Self::Wait(tries) => {
                let waits = tries == WAITS || anything_waits(context);
                let left = tries.checked_sub(1).filter(|_| waits && !captures::any())?;
                // Twice: what was freed after the older generation closed goes with the second.
                for _ in 0..2 {
                    if !streams::synchronize(context) {
                        return None;
                    }
                    settle();
                }
                Some(Self::Wait(left))
            }
        }
    }
}

/// Lets go of freed memory whose last possible use has passed.
pub(crate) fn settle() {
    if !arenas::any_fences() {
        return;
    }
    streams::poll();
    let mut fresh = false;
    let mut guard = process::state();
    let state = &mut *guard;
    // Under the lock: no free with a later tick may be in a generation that is closed with this one.
    let tick = process::tick();
    for owned in state.arenas.iter_mut() {
        for (slot, until) in core::mem::take(&mut owned.fences) {
            if !state.streams.slot_has_ended(slot, until) {
                owned.fences.push((slot, until));
                continue;
            }
            owned.arena.passed(slot, tick);
            fresh |= owned.close(slot, tick);
        }
        state.recording.changes(owned, None);
    }
    state.arenas.publish();
    drop(guard);
    if fresh {
        streams::mark_others(None);
    }
}

/// Frees what begins at `address`: in a stream's order, or as `cuMemFree` does. `None`: it is none
/// of ours, and the driver is to be asked.
pub(crate) fn free(address: u64, order: Option<Key>) -> Option<CUresult> {
    if !arenas::may_hold(address) {
        return None;
    }
    // A call that may end the block's context may leave it as it was.
    let _visit = match visits::any_ending() {
        true => {
            let context = process::state().arenas.at(address)?.context;
            Visit::wait(context)
        }
        false => None,
    };
    let before = process::now();
    let mut waited = false;
    if captures::any() || (order.is_none() && may_have_to_wait()) {
        let context = process::state().arenas.at(address)?.context;
        if is_forbidden(context) {
            return Some(CUresult::STREAM_CAPTURE_UNSUPPORTED);
        }
        waited = order.is_none() && wait_if_due(context);
    }
    if let Some(key) = order.filter(|&key| !streams::is_solo(key)) {
        streams::know(key);
    }
    let mut guard = process::state();
    let state = &mut *guard;
    // Other contexts' work was not waited for.
    let waited = waited && state.streams.have_ended(before);
    let after = match order {
        _ if waited || state.streams.are_none() => After::Nothing,
        Some(key) if streams::is_solo(key) => After::Nothing,
        None if streams::any_solo() => After::Nothing,
        Some(key) => After::Work(state.streams.slot(key)),
        None => After::Work(Slot::ALL),
    };
    let tick = process::tick();
    if let (After::Work(_), Some(key)) = (after, order) {
        // The free has its place in the stream, behind whatever the stream waits for.
        state.streams.note_free(key, tick);
    }
    let owned = state.arenas.at(address)?;
    let (held, tag) = match owned.arena.free(address, after, tick) {
        Ok(freed) => freed,
        // Never passed on: the driver would free the extent if the address is its first.
        Err(FreeError::NoBlock) => return Some(CUresult::INVALID_VALUE),
        Err(FreeError::Foreign) => return None,
    };
    let mut fresh = false;
    match after {
        After::Nothing if !waited => state.streams.note_reuse(),
        After::Nothing => {}
        After::Work(slot) => fresh = owned.close(slot, tick),
    }
    let class = owned.kind.class();
    state.recording.changes(owned, order);
    state.arenas.publish();
    let live = state.arenas.live();
    drop(guard);
    if fresh {
        streams::mark_others(None);
    }
    pools::freed(tag, held);
    report::live(live);
    report::add(report::FREES, 1);
    if order.is_some() {
        report::add(report::STREAM_FREES, 1);
    }
    report::record(Record::Freed {
        address,
        bytes: held,
        class,
        stream: order.map_or(0, |k| k.handle().0 as u64),
    });
    Some(CUresult::SUCCESS)
}

/// Whether a capture forbids this thread to allocate and free, as the driver's own calls would find.
fn is_forbidden(context: CUcontext) -> bool {
    if !captures::any() {
        return false;
    }
    let event = process::state().arenas.of(context).map(|o| o.arrival);
    event.is_some_and(|event| event != CUevent::NULL && driver::is_forbidden(event))
}

/// A first guess, without the lock, whether `cuMemFree` must wait.
fn may_have_to_wait() -> bool {
    match process::config().free_wait {
        FreeWait::Always => true,
        FreeWait::Auto => host_ranges::any_flying() || host_ranges::are_unwatched(),
        FreeWait::Never => false,
    }
}

/// Waits for work in flight where `cuMemFree` must: see [`FreeWait`]. Returns whether the block's
/// context has none any more.
fn wait_if_due(context: CUcontext) -> bool {
    if captures::any() {
        return false;
    }
    let due = match process::config().free_wait {
        FreeWait::Always => Due::Wait,
        FreeWait::Auto => host_ranges::due(process::state().host.is_flying(context)),
        FreeWait::Never => Due::Nothing,
    };
    if due == Due::Nothing {
        return false;
    }
    report::add(report::FREE_WAITS, 1);
    if due == Due::WaitAndWatch {
        let tick = process::tick();
        let mut guard = process::state();
        let state = &mut *guard;
        for owned in state.arenas.iter() {
            state.host.set_flying(owned.context, tick, true);
        }
    }
    // The block's own context, as the driver does: another may have work that waits for this thread.
    streams::synchronize(context)
}

fn allocated(grant: &Grant, bytes: u64, order: Option<Key>, tag: u64, live: u64, class: Class) {
    pools::allocated(tag, held(bytes));
    report::live(live);
    report::add(report::ALLOCATIONS, 1);
    if order.is_some() {
        report::add(report::STREAM_ALLOCATIONS, 1);
    }
    report::record(Record::Allocated {
        address: grant.address,
        bytes,
        class,
        stream: order.map_or(0, |k| k.handle().0 as u64),
    });
}

/// There is no room for an allocation, and may be none: because of the limit, or the driver.
fn refused_by_whom(context: CUcontext, bytes: u64, pages: u64) {
    let may_grow = {
        let mut state = process::state();
        let owned = state.arenas.of(context);
        owned.is_some_and(|o| o.arena.next_extent(pages).is_some())
    };
    let (counter, cause) = if may_grow {
        (report::OOM_DRIVER, Cause::Driver)
    } else {
        (report::OOM_LIMIT, Cause::Limit)
    };
    report::add(counter, 1);
    refused(bytes, cause, 0);
}

fn refused(bytes: u64, cause: Cause, left: u64) {
    let live = process::state().arenas.live();
    report::record(Record::Refused {
        bytes,
        cause,
        live,
        limit: live.saturating_add(left),
    });
}

/// What `cuMemGetInfo` says in the current context: (free, total), bytes. `None`: what the driver
/// says.
pub(crate) fn info() -> Option<(u64, u64)> {
    let context = setup::context_with_arena()?;
    let mut state = process::state();
    let device = state.arenas.of(context)?.device;
    let others = state.arenas.live_on(device, Some(context));
    let owned = state.arenas.of(context)?;
    let mut ledger = *owned.arena.ledger();
    ledger.limit = owned.limit;
    ledger.live += others;
    ledger.elsewhere = elsewhere::created_on(device);
    Some((ledger.free(), ledger.total()))
}

/// What an address is to the program.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Named {
    /// In an allocation of ours.
    Ours(Info),
    /// In an arena, where the program holds nothing.
    Unused,
    /// Outside all arenas.
    Foreign,
}

/// An allocation, for the program's questions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Info {
    pub(crate) address: u64,
    pub(crate) bytes: u64,
    /// Differs for every allocation, and from the driver's own numbers.
    pub(crate) serial: u64,
    /// The pool it was allocated from in stream order, or 0.
    pub(crate) pool: u64,
    pub(crate) context: CUcontext,
    pub(crate) device: CUdevice,
}

/// See [`Named`].
pub(crate) fn named(address: u64) -> Named {
    if !arenas::may_hold(address) {
        return Named::Foreign;
    }
    let mut state = process::state();
    let Some(owned) = state.arenas.at(address) else {
        return Named::Foreign;
    };
    let Some(known) = owned.arena.known_at(address) else {
        return Named::Unused;
    };
    Named::Ours(Info {
        address: known.address,
        bytes: known.bytes,
        serial: known.serial | 1 << 62,
        pool: known.tag,
        context: owned.context,
        device: owned.device,
    })
}

/// Whether an address is in an arena.
pub(crate) fn holds(address: u64) -> bool {
    !matches!(named(address), Named::Foreign)
}
