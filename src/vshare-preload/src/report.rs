//! What happened, for readers outside: counters and records in the process's segment.
//!
//! Without a segment (none wanted, or none could be made) every call here does nothing.
#![expect(
    unsafe_code,
    reason = "keeps the segment's writer in a pointer, for ever"
)]

use crate::cuda::{CUdevice, CUresult};
use crate::process::Sums;
use crate::{os, process};
use std::path::Path;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use vshare_shm::counters::Counter;
use vshare_shm::directory::{self, Keep};
use vshare_shm::layout::State;
use vshare_shm::record::{CallName, Record};
use vshare_shm::writer::{Description, Writer};

pub(crate) use vshare_shm::counters::*;

static WRITER: AtomicPtr<Writer> = AtomicPtr::new(std::ptr::null_mut());

/// Nanoseconds since 1970 at which the segment was made.
static CREATED: AtomicU64 = AtomicU64::new(0);

/// Dead segments of the same user stay readable for so long, and so many of them.
const KEEP: Keep = Keep {
    age: Duration::from_secs(600),
    most: 64,
};

/// Makes the segment, and clears away what dead processes of the same user left. Once, when the
/// program first takes device memory.
pub(crate) fn start(policy: &str, run: u64) {
    let directory = Path::new(directory::DEFAULT);
    _ = directory::prune(directory, KEEP);
    let created_ns = now();
    let Ok(writer) = Writer::create(&Description {
        directory,
        created_ns,
        library: env!("CARGO_PKG_VERSION"),
        policy,
        run,
    }) else {
        return;
    };
    writer.set_state(State::Live);
    CREATED.store(created_ns, Ordering::Relaxed);
    // Release: pairs with the load in `writer`.
    WRITER.store(Box::into_raw(Box::new(writer)), Ordering::Release);
    os::at_exit(finish);
}

/// In a forked child: the segment is its parent's.
pub(crate) fn disown() {
    WRITER.store(std::ptr::null_mut(), Ordering::Release);
}

/// The process ends.
extern "C" fn finish() {
    gauges();
    with(|writer| writer.set_state(State::Exited));
}

/// Does something with the segment, if there is one.
pub(crate) fn with(f: impl FnOnce(&Writer)) {
    // Acquire: pairs with the store in `start`.
    let writer = WRITER.load(Ordering::Acquire);
    // SAFETY: null, or a box that was leaked in `start` and is never freed or written.
    if let Some(writer) = unsafe { writer.as_ref() } {
        f(writer);
    }
}

/// Adds to a counter.
pub(crate) fn add(counter: Counter, n: u64) {
    with(|w| w.counter(counter).add(n));
}

/// Takes off a gauge.
pub(crate) fn sub(counter: Counter, n: u64) {
    with(|w| w.counter(counter).sub(n));
}

/// Writes a record.
pub(crate) fn record(record: Record) {
    with(|w| {
        w.record(
            now().saturating_sub(CREATED.load(Ordering::Relaxed)),
            record,
        )
    });
}

/// A driver call of ours failed.
pub(crate) fn driver_failed(call: &'static str, code: CUresult, bytes: u64, device: CUdevice) {
    add(DRIVER_FAILURES, 1);
    record(Record::Failed {
        call: CallName::new(call),
        code: code.0,
        device: device.0.unsigned_abs(),
        bytes,
    });
}

/// The program holds so many bytes now.
pub(crate) fn live(bytes: u64) {
    with(|w| {
        w.counter(LIVE_BYTES).set(bytes);
        w.counter(PEAK_LIVE_BYTES).max(bytes);
    });
}

/// Writes the sums over all arenas. Called with no lock held.
pub(crate) fn gauges() {
    with(|w| {
        let Some(sums) = process::sums() else {
            return;
        };
        w.counter(LIVE_BYTES).set(sums.live);
        // What held while there was a context is worth knowing after its end, too.
        if sums.budget > 0 {
            w.counter(BUDGET_BYTES).set(sums.budget);
            w.counter(LIMIT_BYTES).set(sums.limit);
        }
        w.counter(RESIDENT_BYTES).set(sums.resident);
        w.counter(PEAK_RESIDENT_BYTES).max(sums.peak_resident);
        w.counter(HOST_BYTES).set(sums.host);
        w.counter(ARENA_BYTES).set(sums.arena);
        w.counter(DEVICE_CLASS_BYTES).set(sums.device_class);
        sample(w, &sums);
        w.counter(PLANS).max(sums.plans);
        w.counter(PLANS_BROKEN).max(sums.plans_broken);
    });
}

/// How memory stands, for those who want to see it over time: not more often than that takes to read.
fn sample(writer: &Writer, sums: &Sums) {
    static LAST: AtomicU64 = AtomicU64::new(0);
    const APART_NS: u64 = 10_000_000;
    let now = now().saturating_sub(CREATED.load(Ordering::Relaxed));
    let last = LAST.load(Ordering::Relaxed);
    let due = last == 0 || now.saturating_sub(last) >= APART_NS;
    // One of several threads that come at the same time.
    if due
        && LAST
            .compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
    {
        writer.record(
            now,
            Record::Sampled {
                live: sums.live,
                resident: sums.resident,
                host: sums.host,
                budget: sums.budget,
            },
        );
    }
}

/// Nanoseconds since 1970.
pub(crate) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |d| u64::try_from(d.as_nanos()).unwrap_or(u64::MAX))
}
