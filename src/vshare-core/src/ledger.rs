//! Whether an allocation is within the limit, and what the program is told about memory.

/// Bytes a context's device holds for the program, against what it may hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    /// Physical memory of the device, bytes.
    pub physical: u64,
    /// Bytes the program may hold.
    pub limit: u64,
    /// Bytes it holds in the pool.
    pub live: u64,
    /// Bytes it holds by `cuMemCreate`, which the pool does not serve.
    pub elsewhere: u64,
}

/// Too much: the request and what was left, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OverLimit {
    /// Asked for.
    pub asked: u64,
    /// What the limit leaves.
    pub left: u64,
}

impl Ledger {
    /// Reserves `bytes`.
    ///
    /// # Errors
    /// The limit would be passed; nothing is reserved.
    pub const fn reserve(&mut self, bytes: u64) -> Result<(), OverLimit> {
        let left = self.limit.saturating_sub(self.live);
        if bytes > left {
            return Err(OverLimit { asked: bytes, left });
        }
        self.live += bytes;
        Ok(())
    }

    /// Gives back `bytes` that were reserved.
    pub const fn release(&mut self, bytes: u64) {
        self.live = self.live.saturating_sub(bytes);
    }

    /// What `cuMemGetInfo` and `cuDeviceTotalMem` call the total: never above what the device has,
    /// because programs size things by it that must fit.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.physical.min(self.limit)
    }

    /// What `cuMemGetInfo` calls free: falls and rises with the program's own allocations.
    #[must_use]
    pub fn free(&self) -> u64 {
        self.total()
            .saturating_sub(self.live)
            .saturating_sub(self.elsewhere)
    }
}

/// The default budget: what is free, less a reserve for what the driver and the program's other
/// calls take. The reserve is 1/32 of the device, at least 256 MiB and at most 1 GiB, but never more
/// than half of what is free.
#[must_use]
pub fn default_budget(free: u64, physical: u64) -> u64 {
    let reserve = (physical / 32).clamp(256 << 20, 1 << 30);
    free - reserve.min(free / 2)
}

/// What the host can spare for evicted memory: nine tenths of what is available, and of what the
/// control group leaves.
#[must_use]
pub fn host_headroom(available: u64, group_limit: Option<u64>, group_used: u64) -> u64 {
    let group = group_limit.map_or(u64::MAX, |limit| limit.saturating_sub(group_used));
    let spare = available.min(group);
    spare - spare / 10
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_byte_fits_and_the_next_does_not() {
        let mut ledger = Ledger {
            physical: 1000,
            limit: 100,
            ..Ledger::default()
        };
        assert_eq!(ledger.reserve(90), Ok(()));
        assert_eq!(
            ledger.reserve(11),
            Err(OverLimit {
                asked: 11,
                left: 10
            })
        );
        assert_eq!(ledger.reserve(10), Ok(()));
        assert_eq!(
            ledger.reserve(u64::MAX),
            Err(OverLimit {
                asked: u64::MAX,
                left: 0
            })
        );
        ledger.release(100);
        assert_eq!(ledger.live, 0);
    }

    #[test]
    fn total_is_never_above_physical_and_free_follows_the_program() {
        let mut ledger = Ledger {
            physical: 100,
            limit: 300,
            ..Ledger::default()
        };
        assert_eq!((ledger.total(), ledger.free()), (100, 100));
        ledger.reserve(40).unwrap();
        assert_eq!(ledger.free(), 60);
        ledger.reserve(200).unwrap();
        assert_eq!(ledger.free(), 0);
        ledger.release(240);
        assert_eq!(ledger.free(), 100);
    }

    #[test]
    fn a_container_spares_what_its_group_leaves() {
        assert_eq!(host_headroom(1000, None, 0), 900);
        assert_eq!(host_headroom(1000, Some(300), 100), 180);
        assert_eq!(host_headroom(1000, Some(100), 300), 0);
    }

    #[test]
    fn the_default_budget_leaves_a_reserve() {
        let gib = 1 << 30;
        assert_eq!(default_budget(100 * gib, 140 * gib), 99 * gib);
        assert_eq!(default_budget(gib / 8, 8 * gib), gib / 16);
    }
}
