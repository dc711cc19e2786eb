//! What happened, counted: one row per counter. Written as JSON at exit or on request, and readable by name in the process.

use crate::{calls, config};
use std::ffi::{CStr, c_char};
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($( $(#[doc = $meaning:literal])+ $name:ident, )*) => {
        /// Counters that only grow, except those said to be "now".
        #[derive(Debug)]
        pub(crate) struct Counters { $( $(#[doc = $meaning])+ pub(crate) $name: Counter, )* }

        pub(crate) static COUNTERS: Counters = Counters { $( $name: Counter(AtomicU64::new(0)), )* };

        const NAMED: &[(&str, &Counter)] = &[ $( (stringify!($name), &COUNTERS.$name), )* ];
    };
}

#[derive(Debug)]
pub(crate) struct Counter(AtomicU64);

counters! {
    /// managed blocks brought or made on a GPU because a kernel, copy or memset touched them
    faults,
    /// bytes of those blocks
    fault_bytes,
    /// of those, bytes copied from the host (the rest was populated)
    fault_migrated_bytes,
    /// blocks given memory for the first time, by a fault or a prefetch
    populates,
    /// bytes of those blocks
    populated_bytes,
    /// moves to a GPU that were carried out, by streams or the UVM module
    promote_calls,
    /// bytes that prefetches copied from host to a GPU
    promoted_bytes,
    /// moves to the host that were carried out
    evict_calls,
    /// bytes that prefetches copied from a GPU to the host
    evicted_bytes,
    /// prefetched blocks that were there already
    prefetched_in_place,
    /// blocks prefetched to the host while running work used them
    evicted_in_use,
    /// blocks that the driver itself evicted for room
    driver_evictions,
    /// bytes of those blocks
    driver_evicted_bytes,
    /// of the driver's evictions, blocks that running work used
    driver_evicted_in_use,
    /// discard operations that were carried out
    discard_calls,
    /// bytes discarded
    discarded_bytes,
    /// bytes that an eviction did not copy because they were discarded
    discarded_not_copied_bytes,
    /// touches of host blocks that accessed-by advice or lack of room let go over the bus
    remote_accesses,
    /// bytes of managed memory on GPUs, now, without what is discarded
    managed_resident,
    /// the most that was
    managed_resident_peak,
    /// bytes of managed memory allocated, now
    managed_bytes,
    /// the most that was
    managed_bytes_peak,
    /// bytes of device memory allocated, now
    device_bytes,
    /// the most that was
    device_bytes_peak,
    /// managed allocations made
    managed_allocs,
    /// device allocations made
    device_allocs,
    /// allocations freed, of any kind
    frees,
    /// physical handles created by cuMemCreate and not released, now
    mem_handles,
    /// kernels that ran
    kernels,
    /// copies that ran
    copies,
    /// bytes copied
    copied_bytes,
    /// memsets that ran
    memsets,
    /// kernels and calls that were held
    held,
    /// accesses to memory that was not allocated
    illegal_accesses,
    /// moves to a GPU that the UVM module made
    uvm_promotes,
    /// moves to the host that it made
    uvm_evicts,
    /// of those, how many it could not map for the program, whose view is protected
    uvm_unmapped,
    /// ranges that it discarded
    uvm_discards,
    /// calls that it refused
    uvm_refusals,
    /// requests with its numbers that came to other files
    uvm_strays,
}

impl Counter {
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn one(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn add(&self, amount: usize) {
        self.0.fetch_add(wide(amount), Ordering::Relaxed);
    }

    /// Adds, and keeps the highest value seen in `peak`.
    pub(crate) fn rise(&self, amount: usize, peak: &Self) {
        let now = self.0.fetch_add(wide(amount), Ordering::Relaxed) + wide(amount);
        peak.0.fetch_max(now, Ordering::Relaxed);
    }

    pub(crate) fn fall(&self, amount: usize) {
        self.0.fetch_sub(wide(amount), Ordering::Relaxed);
    }
}

/// A size as a counter takes it: widening on every machine that has CUDA.
fn wide(amount: usize) -> u64 {
    u64::try_from(amount).unwrap_or(u64::MAX)
}

fn json() -> String {
    let mut text = String::from("{\n");
    let mut row = |indent: &str, name: &str, value: u64| {
        let written = writeln!(text, "{indent}\"{name}\": {value},");
        debug_assert!(written.is_ok(), "a String takes any text");
    };
    for (name, counter) in NAMED {
        row("  ", name, counter.get());
    }
    let called = calls::entries()
        .map(|entry| (entry.call.name, entry.call.count.load(Ordering::Relaxed)))
        .filter(|(_, count)| *count > 0);
    let called: Vec<String> = called
        .map(|(name, count)| format!("    \"{name}\": {count}"))
        .collect();
    text.push_str("  \"calls\": {\n");
    text.push_str(&called.join(",\n"));
    text.push_str("\n  }\n}\n");
    text
}

/// Writes the counters where `SIMCUDA_STATS` says, if it does.
pub(crate) fn write() {
    if let Some(path) = &config::config().stats {
        // Renamed into place, so that a reader never sees half of it; no file is not a reason to fail the program.
        let partial = format!("{path}.{}", std::process::id());
        if std::fs::write(&partial, json()).is_ok() {
            drop(std::fs::rename(&partial, path));
        }
    }
}

/// A counter, or how often an export was called; all ones for a name that is neither.
fn value(name: &str) -> u64 {
    let counter = NAMED
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, counter)| counter.get());
    let call = || {
        calls::entries()
            .find(|entry| entry.call.name == name)
            .map(|entry| entry.call.count.load(Ordering::Relaxed))
    };
    counter.or_else(call).unwrap_or(u64::MAX)
}

/// For test programs: one counter by name.
///
/// # Safety
/// `name` is NULL or a terminated string.
#[expect(unsafe_code, reason = "an export for test programs")]
#[unsafe(no_mangle)]
unsafe extern "C" fn simcuda_stat(name: *const c_char) -> u64 {
    if name.is_null() {
        return u64::MAX;
    }
    // SAFETY: not NULL, and the caller passes a terminated string.
    unsafe { CStr::from_ptr(name) }
        .to_str()
        .map_or(u64::MAX, value)
}

/// For test programs: writes the counters now.
#[expect(unsafe_code, reason = "an export for test programs")]
#[unsafe(no_mangle)]
extern "C" fn simcuda_write_stats() {
    write();
}
