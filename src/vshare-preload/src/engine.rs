//! Before and after work that names memory: what it needs is on the device when it starts.

use crate::arenas::Named;
use crate::clock::{self, Deadline, wait_until};
use crate::cuda::CUcontext;
use crate::mover::{self, Brought, Room};
use crate::report;
use crate::streams::{self, Key};
use crate::{process, road};
use std::sync::atomic::{AtomicU64, Ordering};
use vshare_core::block::BlockId;
use vshare_core::config::Policy;
use vshare_core::residency::Holder;
use vshare_core::units::PAGE;
use vshare_shm::record::Record;

/// How long one piece of work waits for room at most. Waiting is only for speed: when it ends, the
/// work faults in what it lacks. It must end, because the work that holds the room may itself be
/// waiting for this one; and where that has been seen, it ends sooner the next time.
static PATIENCE_MS: AtomicU64 = AtomicU64::new(LONGEST_MS);
const LONGEST_MS: u64 = 2000;
const SHORTEST_MS: u64 = 10;

/// How long to wait when nothing can leave because of other work that is being prepared.
const STUCK_MS: u64 = 10;

/// Blocks that a piece of work uses, kept where they are until it has been submitted.
#[derive(Debug)]
pub(crate) struct Prepared {
    named: Vec<Named>,
    bytes: u64,
}

/// What a piece of work names.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Names<'a> {
    pub(crate) addresses: &'a [u64],
    /// How many of the addresses it names for sure; the rest may be leftovers.
    pub(crate) sure: usize,
    /// What is done: see [`crate::touches::Touches::signature`].
    pub(crate) signature: u64,
}

/// Brings in what work names that takes `tick` in the stream `key`.
pub(crate) fn before(names: &Names<'_>, key: Key, tick: u64) -> Prepared {
    let mut guard = process::state();
    let state = &mut *guard;
    state.arenas.note_watched();
    let named = state.arenas.blocks(names.addresses, names.sure);
    let mut bytes = 0;
    let mut wakes = false;
    let mut lacking = Vec::new();
    for Named {
        context,
        blocks,
        certain,
    } in &named
    {
        let awaited = state.streams.awaited(key, *context);
        let Some(owned) = state.arenas.of(*context) else {
            continue;
        };
        owned.arena.prepare(blocks, tick);
        let (sure, maybe) = blocks.split_at_checked(*certain).unwrap_or((blocks, &[]));
        owned.arena.note_work(names.signature, sure, maybe);
        wakes |= std::mem::take(&mut owned.waits);
        wakes |= owned.arena.is_due() || mover::is_needed(owned);
        let residency = owned.arena.residency();
        bytes += blocks
            .iter()
            .map(|&b| residency.pages_of(b) * PAGE)
            .sum::<u64>();
        if awaited < owned.begun || blocks.iter().any(|&b| !residency.is_here(b)) {
            lacking.push(*context);
        }
    }
    drop(guard);
    // From here on the blocks are let go of whatever happens.
    let prepared = Prepared { named, bytes };
    for Named {
        context, blocks, ..
    } in &prepared.named
    {
        if !lacking.contains(context) {
            continue;
        }
        match process::config().policy {
            Policy::Auto | Policy::Lru => fetch(*context, blocks, key),
            Policy::Demand => make_room(*context, blocks, key),
        }
    }
    if wakes {
        mover::nudge();
    }
    prepared
}

impl Prepared {
    /// Bytes of the blocks.
    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for Prepared {
    /// The work has been submitted, or something went wrong before it could be.
    fn drop(&mut self) {
        let tick = process::tick();
        let mut state = process::state();
        for Named {
            context, blocks, ..
        } in &self.named
        {
            if let Some(owned) = state.arenas.of(*context) {
                owned.arena.submitted(blocks, tick);
            }
        }
    }
}

/// Fetches what is missing, waiting for room where there is none.
fn fetch(context: CUcontext, blocks: &[BlockId], key: Key) {
    let mut stall = Stall::new();
    loop {
        let mut seen = mover::progress();
        let planned = {
            let mut state = process::state();
            state.arenas.keep_to_device(context);
            let planned = state.arenas.of(context).map(|o| o.arena.fetch(blocks));
            state.arenas.publish();
            planned
        };
        let Some(fetch) = planned.filter(|f| !f.is_ready()) else {
            break;
        };
        let nothing = fetch.populate.is_empty() && fetch.promote.is_empty();
        let brought = if nothing {
            Brought::Here
        } else {
            mover::bring(context, &fetch)
        };
        match brought {
            Brought::Failed => {
                fault_in(context, blocks);
                break;
            }
            Brought::Here if fetch.short == 0 && fetch.moving == 0 => break,
            // Most of what others have begun has come meanwhile.
            Brought::Coming if fetch.short == 0 => {
                seen = mover::progress();
                if is_here(context, blocks) {
                    break;
                }
            }
            Brought::Here | Brought::Coming => {}
        }
        if !stall.wait(fetch.short, seen, key, context, blocks) {
            fault_in(context, blocks);
            break;
        }
    }
    road::order(context, key);
    stall.finish();
    mover::ask_ahead(context);
}

fn is_here(context: CUcontext, blocks: &[BlockId]) -> bool {
    let mut state = process::state();
    let owned = state.arenas.of(context);
    owned.is_none_or(|o| blocks.iter().all(|&b| o.arena.residency().is_here(b)))
}

/// Makes room for what will be faulted in, and counts it as there.
fn make_room(context: CUcontext, blocks: &[BlockId], key: Key) {
    let mut stall = Stall::new();
    loop {
        let seen = mover::progress();
        let short = {
            let mut state = process::state();
            state.arenas.keep_to_device(context);
            state
                .arenas
                .of(context)
                .map_or(0, |o| o.arena.residency().shortage(blocks))
        };
        if short == 0 || !stall.wait_for_work(key) || !stall.wait(short, seen, key, context, blocks)
        {
            break;
        }
    }
    stall.finish();
    fault_in(context, blocks);
}

fn fault_in(context: CUcontext, blocks: &[BlockId]) {
    let mut state = process::state();
    let over = state.arenas.of(context).is_some_and(|owned| {
        owned.arena.faulted(blocks);
        owned.arena.residency().resident() > owned.arena.residency().budget()
    });
    state.arenas.publish();
    drop(state);
    if over {
        report::add(report::OVER_BUDGET_LAUNCHES, 1);
        mover::ask_ahead(context);
    }
}

/// Time spent waiting for room by one piece of work.
struct Stall {
    since: Option<(u64, Deadline)>,
    /// Until when to wait at most now that nothing can leave.
    stuck: Option<Deadline>,
    /// Whether the waiting is over, but for one more look.
    over: bool,
    pages: u64,
}

impl Stall {
    const fn new() -> Self {
        Self {
            since: None,
            stuck: None,
            over: false,
            pages: 0,
        }
    }

    fn begin(&mut self, key: Key) -> Deadline {
        let (_, deadline) = *self.since.get_or_insert_with(|| {
            // What holds the room is behind marks: let there be one behind all that is submitted.
            streams::mark(key);
            (
                clock::nanoseconds(),
                Deadline::after_ms(PATIENCE_MS.load(Ordering::Relaxed)),
            )
        });
        deadline
    }

    /// Waits for the work that is in the stream: nothing may be faulting in while the arena is
    /// protected, or each small page would be served by itself. `false`: it takes too long.
    fn wait_for_work(&mut self, key: Key) -> bool {
        let deadline = self.begin(key);
        wait_until(deadline, || {
            streams::poll();
            process::state().streams.has_passed_its_marks(key)
        })
    }

    /// Waits until something has changed. `false`: there is no more point in waiting.
    fn wait(
        &mut self,
        pages: u64,
        seen: u64,
        key: Key,
        context: CUcontext,
        blocks: &[BlockId],
    ) -> bool {
        if self.over {
            return false;
        }
        self.pages = self.pages.max(pages);
        let deadline = self.begin(key);
        let deadline = self.stuck.map_or(deadline, |end| end.earlier(deadline));
        // Other threads may have submitted work since, and set no mark behind it.
        streams::mark_others(Some(key));
        let room = mover::wait_for_room(context, pages, seen, deadline);
        // What came in the last moment is not to be left: one more look.
        self.over = deadline.has_passed();
        let patience = PATIENCE_MS.load(Ordering::Relaxed);
        let next = if self.over && self.stuck.is_none() {
            (patience / 4).max(SHORTEST_MS)
        } else {
            (patience * 2).min(LONGEST_MS)
        };
        PATIENCE_MS.store(next, Ordering::Relaxed);
        if self.over || room == Room::Changed {
            self.stuck = None;
            return true;
        }
        let holder = {
            let mut state = process::state();
            let owned = state.arenas.of(context);
            owned.map_or(Holder::Itself, |o| o.arena.residency().held_by(blocks))
        };
        match holder {
            Holder::Moves => self.stuck = None,
            Holder::Others => self.stuck = self.stuck.or(Some(Deadline::after_ms(STUCK_MS))),
            Holder::Itself => self.over = true,
        }
        true
    }

    fn finish(&self) {
        let Some((start, _)) = self.since else {
            return;
        };
        let nanoseconds = clock::nanoseconds() - start;
        report::add(report::STALLS, 1);
        report::add(report::STALL_NANOSECONDS, nanoseconds);
        report::record(Record::Stalled {
            nanoseconds,
            bytes: self.pages * PAGE,
            launch: 0,
            device: 0,
        });
    }
}
