//! Host memory that work on the device can write, and whether any such work may be in flight.
//!
//! `cuMemFree` waits for the device. A program can tell only by what that work leaves in host
//! memory: so it is only for such work that our free must wait.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// How many ranges there are, for those who hold no lock.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Whether work that may write host memory was submitted since the last wait for all work.
static IN_FLIGHT: AtomicBool = AtomicBool::new(false);

/// Pinned host memory, and managed memory that the program allocated itself: base to length.
#[derive(Debug)]
pub(crate) struct HostRanges(BTreeMap<u64, u64>);

impl HostRanges {
    pub(crate) const fn new() -> Self {
        Self(BTreeMap::new())
    }

    pub(crate) fn add(&mut self, base: u64, bytes: u64) {
        self.0.insert(base, bytes);
        COUNT.store(self.0.len(), Ordering::Relaxed);
    }

    /// Forgets a range; returns its length.
    pub(crate) fn remove(&mut self, base: u64) -> Option<u64> {
        let bytes = self.0.remove(&base);
        COUNT.store(self.0.len(), Ordering::Relaxed);
        bytes
    }

    pub(crate) fn contains(&self, address: u64) -> bool {
        self.0
            .range(..=address)
            .next_back()
            .is_some_and(|(base, bytes)| address - base < *bytes)
    }
}

/// Whether it must still be found out if work in flight can write host memory.
pub(crate) fn are_of_interest() -> bool {
    COUNT.load(Ordering::Relaxed) > 0 && !in_flight()
}

/// Work that can write host memory is about to be submitted.
pub(crate) fn set_in_flight() {
    IN_FLIGHT.store(true, Ordering::Relaxed);
}

/// All work has ended.
pub(crate) fn none_in_flight() {
    IN_FLIGHT.store(false, Ordering::Relaxed);
}

/// Whether work that can write host memory may be in flight.
pub(crate) fn in_flight() -> bool {
    IN_FLIGHT.load(Ordering::Relaxed)
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
        assert_eq!(ranges.remove(100), Some(50));
        assert!(!ranges.contains(120));
    }
}
