//! The road on which memory moves: what the driver is asked for, and nothing of when.
//!
//! One interface for the two roads there are. On the direct one, the kernel module's own calls, a move is
//! made when its call returns. On libcuda's, moves to the device are only begun within the call: [`order`]
//! puts work behind them; moves to the host are made within the call, because the room they leave is used
//! at once. What the direct road refuses, libcuda's does instead. Several threads may move at once.

use crate::arenas::Kind;
use crate::clock;
use crate::cuda::{CUcontext, CUdevice, CUresult, CUstream};
use crate::driver::{self, Answer, To};
use crate::streams::Key;
use crate::uvm::{self, Refused, Road};
use crate::visits::Visit;
use crate::{mover, process, report};
use vshare_core::block::Run;
use vshare_core::residency::Fetch;
use vshare_shm::record::Record;

/// Pages in one call: large enough for 90 % of the bandwidth, small enough that launches from other
/// threads, which wait for the driver's lock meanwhile, wait less than a millisecond.
pub(crate) const PIECE: u64 = 16;

/// Threads that fill the link in one direction on the direct road, moves and drops together; through libcuda one does what several do.
const DIRECT_THREADS: usize = 4;

/// What a move needs to know of its arena.
#[derive(Clone, Copy, Debug)]
struct Way {
    kind: Kind,
    device: CUdevice,
    inward: CUstream,
    outward: CUstream,
    road: Road,
}

/// How far a move has come when its call returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Move {
    Made,
    Begun,
}

impl Way {
    /// `None`: there is no arena.
    fn of(visit: &Visit) -> Option<Self> {
        let mut state = process::state();
        let owned = state.arenas.of(visit.context())?;
        Some(Self {
            kind: owned.kind,
            device: owned.device,
            inward: owned.inward,
            outward: owned.outward,
            road: owned.road,
        })
    }
}

/// Brings fresh pages to the device, before anything uses them.
pub(crate) fn populate(context: CUcontext, runs: &[Run]) {
    let before = begun(context);
    // What could not be brought is faulted in by its first use.
    _ = bring(
        context,
        &Fetch {
            populate: runs.to_vec(),
            ..Fetch::default()
        },
    );
    if begun(context) != before {
        wait(context);
    }
}

fn begun(context: CUcontext) -> Option<u64> {
    Some(process::state().arenas.of(context)?.begun)
}

/// Puts a stream's further work behind the moves to the device that were begun before, by whichever
/// stream's work: what counts as there may be on its way still.
pub(crate) fn order(context: CUcontext, key: Key) {
    let (inward, arrival, begun) = {
        let mut guard = process::state();
        let state = &mut *guard;
        let Some(owned) = state.arenas.of(context) else {
            return;
        };
        if state.streams.awaited(key, context) >= owned.begun {
            return;
        }
        (owned.inward, owned.arrival, owned.begun)
    };
    let Some(_visit) = Visit::begin(context) else {
        return;
    };
    let ordered = driver::outside_captures(|| {
        driver::in_context(context, || {
            // One event for all: a wait takes the latest record, which covers those before it.
            driver::record(arrival, inward)?;
            driver::wait_for(key.handle(), arrival)
        })
    });
    if driver::noted("cuStreamWaitEvent", 0, ordered).is_err() {
        wait(context);
    }
    process::state().streams.set_awaited(key, context, begun);
}

/// Waits for the moves to the device that were begun before.
pub(crate) fn wait(context: CUcontext) {
    let Some(visit) = Visit::begin(context) else {
        return;
    };
    // An arena of device memory has no streams of ours, and nothing moves.
    if let Some(way) = Way::of(&visit).filter(|way| way.inward != CUstream::NULL) {
        wait_in(&visit, way);
    }
}

fn wait_in(visit: &Visit, way: Way) {
    let waited = driver::outside_captures(|| {
        driver::in_context(visit.context(), || driver::stream_synchronize(way.inward))
    });
    _ = driver::noted_of(way.device, "cuStreamSynchronize", 0, waited);
}

/// How many threads move pages of an arena in one direction.
pub(crate) fn threads(context: CUcontext) -> usize {
    let mut state = process::state();
    let direct = state.arenas.of(context).and_then(|o| o.road.direct());
    if direct.is_some() { DIRECT_THREADS } else { 1 }
}

/// Brings in what was planned. What cannot be brought stays where it is, for the work to fault in:
/// then the answer is `false`.
pub(crate) fn bring(context: CUcontext, fetch: &Fetch) -> bool {
    let Some(visit) = Visit::begin(context) else {
        // It is about to end.
        for &run in fetch.populate.iter().chain(&fetch.promote) {
            not_brought(context, run);
        }
        return false;
    };
    let runs = |runs: &[Run], with_data| {
        let pieces = runs.iter().copied().flat_map(pieces);
        let mut all = true;
        for run in pieces {
            all &= bring_run(&visit, run, with_data, Until::Begun);
        }
        all
    };
    let populated = runs(&fetch.populate, false);
    runs(&fetch.promote, true) && populated
}

/// How far a move to the device is to have come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    /// It may be on its way, as long as the memory is kept where it is for work that is put behind it.
    Begun,
    /// It is there. Else it might be let go before it has come.
    Made,
}

/// Brings in one piece: with its data, or without. What cannot be brought stays where it is.
pub(crate) fn bring_run(visit: &Visit, run: Run, with_data: bool, until: Until) -> bool {
    let context = visit.context();
    let Some(way) = Way::of(visit) else {
        return false;
    };
    if way.kind == Kind::Device {
        arrived(context, run, Ok(Move::Made));
        return true;
    }
    let Some((address, bytes)) = span(context, run) else {
        return false;
    };
    let start = clock::nanoseconds();
    let mut moved = driver::outside_captures(|| promote(context, way, address, bytes));
    if moved == Ok(Move::Begun) && until == Until::Made {
        wait_in(visit, way);
        moved = Ok(Move::Made);
    }
    arrived(context, run, moved);
    if moved.is_err() {
        return false;
    }
    let nanoseconds = clock::nanoseconds() - start;
    if with_data {
        report::add(report::PROMOTE_NANOSECONDS, nanoseconds);
        report::add(report::PROMOTED_BYTES, bytes);
        report::add(report::PROMOTIONS, 1);
        report::record(Record::Promoted {
            address,
            bytes,
            nanoseconds,
            device: u64::from(way.device.0.unsigned_abs()),
        });
    } else {
        report::add(report::POPULATE_NANOSECONDS, nanoseconds);
        report::add(report::POPULATED_BYTES, bytes);
    }
    true
}

fn promote(context: CUcontext, way: Way, address: u64, bytes: u64) -> Answer<Move> {
    if let Some(direct) = way.road.direct() {
        let moved = direct.promote(address, bytes);
        if was_direct(way.device, "UVM_MIGRATE", bytes, moved) {
            return Ok(Move::Made);
        }
    }
    let moved = driver::in_context(context, || {
        driver::prefetch(address, bytes, To::Device(way.device), way.inward)
    });
    driver::noted_of(way.device, "cuMemPrefetchAsync", bytes, moved).map(|()| Move::Begun)
}

/// Whether the direct road has done what it was asked for. If not, it is never asked again.
fn was_direct(
    device: CUdevice,
    call: &'static str,
    bytes: u64,
    answer: Result<(), Refused>,
) -> bool {
    if let Err(refused) = answer {
        report::driver_failed(call, refused.code(), bytes, device);
        uvm::give_up();
        return false;
    }
    report::add(report::DIRECT_MOVES, 1);
    true
}

/// A run that was to come will not.
pub(crate) fn not_brought(context: CUcontext, run: Run) {
    arrived(context, run, Err(CUresult::INVALID_CONTEXT));
}

fn arrived(context: CUcontext, run: Run, moved: Answer<Move>) {
    let mut state = process::state();
    if let Some(owned) = state.arenas.of(context) {
        owned.arena.arrived(run, moved.is_ok());
        owned.failures += u64::from(moved.is_err());
        if moved != Ok(Move::Made) {
            // Together: whoever finds the pages there must come behind their move.
            owned.begun += 1;
        }
    }
    state.arenas.publish();
    drop(state);
    mover::moved();
}

/// Copies one piece to the host. The caller has the arena's mapping protected, if it wants the copy fast.
pub(crate) fn evict(visit: &Visit, run: Run) {
    let context = visit.context();
    let start = clock::nanoseconds();
    let moved = Way::of(visit).and_then(|way| {
        let (address, bytes) = span(context, run)?;
        send(context, way, address, bytes).ok()?;
        Some((way.device, address, bytes))
    });
    left(context, run, false, moved.is_some());
    if let Some((device, address, bytes)) = moved {
        let nanoseconds = clock::nanoseconds() - start;
        report::add(report::EVICT_NANOSECONDS, nanoseconds);
        report::add(report::EVICTED_BYTES, bytes);
        report::add(report::EVICTIONS, 1);
        report::record(Record::Evicted {
            address,
            bytes,
            nanoseconds,
            device: u64::from(device.0.unsigned_abs()),
        });
    }
}

fn send(context: CUcontext, way: Way, address: u64, bytes: u64) -> Answer<()> {
    if let Some(direct) = way.road.direct() {
        let moved = direct.evict(address, bytes);
        if was_direct(way.device, "UVM_MIGRATE", bytes, moved) {
            return Ok(());
        }
    }
    let moved = driver::in_context(context, || {
        driver::prefetch(address, bytes, To::Host, way.outward)?;
        // For the case that the driver deferred the move.
        driver::stream_synchronize(way.outward)
    });
    driver::noted_of(way.device, "cuMemPrefetchAsync", bytes, moved)
}

/// Gives up pages that nobody will read, without copying them. The driver keeps them on a list from
/// which it takes at once what anyone needs; they are not moved to the host, which would take host
/// memory for them and the time to clear it. If that fails, it is not tried again.
pub(crate) fn drop_pages(visit: &Visit, run: Run) {
    let context = visit.context();
    let start = clock::nanoseconds();
    let way = Way::of(visit);
    let dropped = match (way, span(context, run)) {
        (Some(way), Some(span)) => discard(context, way, span).map(|()| span.1),
        _ => Err(CUresult::INVALID_CONTEXT),
    };
    let dropped = match dropped {
        Err(CUresult::NOT_FOUND | CUresult::NOT_SUPPORTED) => dropped,
        other => match way {
            Some(way) => driver::noted_of(way.device, "cuMemDiscardBatchAsync", 0, other),
            None => other,
        },
    };
    if dropped.is_err()
        && let Some(owned) = process::state().arenas.of(context)
    {
        owned.can_drop = false;
    }
    left(context, run, true, dropped.is_ok());
    if let Ok(bytes) = dropped {
        report::add(report::DROP_NANOSECONDS, clock::nanoseconds() - start);
        report::add(report::DROPPED_BYTES, bytes);
    }
}

fn discard(context: CUcontext, way: Way, (address, bytes): (u64, u64)) -> Answer<()> {
    if let Some(direct) = way.road.direct().filter(|direct| direct.can_discard())
        && was_direct(
            way.device,
            "UVM_DISCARD",
            bytes,
            direct.discard(address, bytes),
        )
    {
        return Ok(());
    }
    driver::in_context(context, || {
        driver::discard(&[(address, bytes)], way.outward)?;
        driver::stream_synchronize(way.outward)
    })
}

/// A run has left, or could not.
pub(crate) fn left(context: CUcontext, run: Run, dropped: bool, ok: bool) {
    let mut state = process::state();
    if let Some(owned) = state.arenas.of(context) {
        owned.arena.left(run, dropped, ok);
        owned.cannot_leave |= !ok && !dropped;
    }
    state.arenas.publish();
    drop(state);
    mover::moved();
}

fn span(context: CUcontext, run: Run) -> Option<(u64, u64)> {
    process::state().arenas.of(context)?.arena.span(run)
}

/// A run, in pieces that one call moves.
pub(crate) fn pieces(run: Run) -> impl Iterator<Item = Run> {
    run.numbers()
        .step_by(usize::try_from(PIECE).unwrap_or(1))
        .map(move |first| Run {
            first,
            pages: PIECE.min(run.first + run.pages - first),
        })
}
