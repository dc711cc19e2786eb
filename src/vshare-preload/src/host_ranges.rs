//! Host memory that work on the device can reach, and which contexts may have such work in flight.
//!
//! `cuMemFree` waits for the device. A program can tell only by what that work writes to host memory:
//! so it is only for such work that our free must wait.
//!
//! Finding out takes a look at every launch. A program that seldom frees is better served by frees
//! that wait whenever such work could exist; only for one that often frees are its launches watched.

use crate::cuda::CUcontext;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// How many ranges there are, for those who hold no lock.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Lowest and highest address of any range that there has been, for a first guess without the lock.
static LOW: AtomicU64 = AtomicU64::new(u64::MAX);
static HIGH: AtomicU64 = AtomicU64::new(0);

/// Whether an address may be in a range.
pub(crate) fn may_hold(address: u64) -> bool {
    address >= LOW.load(Ordering::Relaxed) && address < HIGH.load(Ordering::Relaxed)
}

/// How many contexts may have such work in flight.
static FLYING: AtomicUsize = AtomicUsize::new(0);

/// Whether launches are watched.
static WATCHED: AtomicBool = AtomicBool::new(false);

/// Frees that have waited without knowing whether they must.
static BLIND: AtomicU32 = AtomicU32::new(0);

/// After so many, launches are watched.
const BLIND_FREES: u32 = 64;

/// Host memory, and work on it.
#[derive(Debug)]
pub(crate) struct HostRanges {
    /// Pinned memory, and managed memory that the program allocated itself, by its base.
    ranges: BTreeMap<u64, Range>,
    /// Contexts with work on it in flight.
    flying: Vec<Flying>,
}

#[derive(Clone, Copy, Debug)]
struct Range {
    bytes: u64,
    /// Managed memory's context, until its end.
    managed: Option<CUcontext>,
}

#[derive(Clone, Copy, Debug)]
struct Flying {
    context: CUcontext,
    /// Not before its last submission.
    tick: u64,
    /// Some of it went to streams that nobody took note of.
    anywhere: bool,
}

impl HostRanges {
    pub(crate) const fn new() -> Self {
        Self {
            ranges: BTreeMap::new(),
            flying: Vec::new(),
        }
    }

    /// Adds pinned memory.
    pub(crate) fn add(&mut self, base: u64, bytes: u64) {
        self.add_managed(base, bytes, None);
    }

    /// Adds managed memory of a context.
    pub(crate) fn add_managed(&mut self, base: u64, bytes: u64, managed: Option<CUcontext>) {
        LOW.fetch_min(base, Ordering::Relaxed);
        HIGH.fetch_max(base.saturating_add(bytes), Ordering::Relaxed);
        self.ranges.insert(base, Range { bytes, managed });
        COUNT.store(self.ranges.len(), Ordering::Relaxed);
    }

    /// Forgets a range; returns its length if it is managed memory of a context that lives.
    pub(crate) fn remove(&mut self, base: u64) -> u64 {
        let range = self.ranges.remove(&base);
        COUNT.store(self.ranges.len(), Ordering::Relaxed);
        range.filter(|r| r.managed.is_some()).map_or(0, |r| r.bytes)
    }

    pub(crate) fn contains(&self, address: u64) -> bool {
        self.ranges
            .range(..=address)
            .next_back()
            .is_some_and(|(base, range)| address - base < range.bytes)
    }

    /// Whether a context may have work on host memory in flight.
    pub(crate) fn is_flying(&self, context: CUcontext) -> bool {
        self.flying.iter().any(|f| f.context == context)
    }

    /// Work on host memory was, or is about to be, submitted in a context, before `tick`; `anywhere`:
    /// in a stream that is not known afterwards.
    pub(crate) fn set_flying(&mut self, context: CUcontext, tick: u64, anywhere: bool) {
        match self.flying.iter_mut().find(|f| f.context == context) {
            Some(flying) => {
                flying.tick = flying.tick.max(tick);
                flying.anywhere |= anywhere;
            }
            None => self.flying.push(Flying {
                context,
                tick,
                anywhere,
            }),
        }
        FLYING.store(self.flying.len(), Ordering::Relaxed);
    }

    /// All work of a context that was submitted up to `tick` has ended.
    pub(crate) fn ended(&mut self, context: CUcontext, tick: u64) {
        self.flying
            .retain(|f| f.context != context || f.tick > tick);
        FLYING.store(self.flying.len(), Ordering::Relaxed);
    }

    /// All work of a context that went to known streams, up to `tick`, has ended.
    pub(crate) fn ended_in_streams(&mut self, context: CUcontext, tick: u64) {
        self.flying
            .retain(|f| f.context != context || f.tick > tick || f.anywhere);
        FLYING.store(self.flying.len(), Ordering::Relaxed);
    }

    /// A context has died, with its work; returns how long its managed memory was. Its ranges stay:
    /// to take one for host memory that is none costs a wait, the other way round a result.
    pub(crate) fn context_gone(&mut self, context: CUcontext) -> u64 {
        self.ended(context, u64::MAX);
        let mut bytes = 0;
        for range in self.ranges.values_mut() {
            if range.managed == Some(context) {
                range.managed = None;
                bytes += range.bytes;
            }
        }
        bytes
    }

    /// Contexts that may have such work in flight.
    #[cfg(test)]
    pub(crate) fn flying(&self) -> Vec<CUcontext> {
        self.flying.iter().map(|f| f.context).collect()
    }
}

/// Whether launches must be looked at for host memory that they name.
pub(crate) fn are_watched() -> bool {
    WATCHED.load(Ordering::Relaxed) && COUNT.load(Ordering::Relaxed) > 0
}

/// Whether there is any host memory that work could name.
pub(crate) fn any() -> bool {
    COUNT.load(Ordering::Relaxed) > 0
}

/// Whether there is host memory that work could name, and nobody watches whether it does.
pub(crate) fn are_unwatched() -> bool {
    any() && !WATCHED.load(Ordering::Relaxed)
}

/// What a free must do about work on host memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// There is none in flight.
    Nothing,
    /// Wait: there may be.
    Wait,
    /// Wait, and have launches watched from now on: contexts count as having such work in flight.
    WaitAndWatch,
}

/// What a free must do now; `flying`: its block's context may have such work in flight.
pub(crate) fn due(flying: bool) -> Due {
    if flying {
        Due::Wait
    } else if !are_unwatched() {
        Due::Nothing
    } else if BLIND.fetch_add(1, Ordering::Relaxed) < BLIND_FREES {
        Due::Wait
    } else {
        WATCHED.store(true, Ordering::Relaxed);
        Due::WaitAndWatch
    }
}

/// Whether work on host memory may be in flight.
pub(crate) fn any_flying() -> bool {
    FLYING.load(Ordering::Relaxed) > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_holds_its_own_bytes_and_no_others() {
        let mut ranges = HostRanges::new();
        ranges.add(100, 50);
        for (address, inside) in [(99, false), (100, true), (149, true), (150, false)] {
            assert_eq!(ranges.contains(address), inside);
        }
        assert_eq!(ranges.remove(100), 0, "not managed memory");
        assert!(!ranges.contains(120));
    }

    #[test]
    fn work_submitted_after_a_wait_began_is_still_in_flight_and_so_is_another_contexts() {
        let mut host = HostRanges::new();
        let (a, b) = (CUcontext(1), CUcontext(2));
        host.set_flying(a, 5, false);
        host.set_flying(b, 3, true);
        host.ended(a, 4);
        assert!(host.is_flying(a));
        host.ended(a, 5);
        assert_eq!(host.flying(), [b]);
        host.ended_in_streams(b, 9);
        assert!(host.is_flying(b));
    }
}
