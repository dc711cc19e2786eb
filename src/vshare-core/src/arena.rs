//! One context's pool, residency and ledger, kept in step.
//!
//! Callers hold a lock around each call and none around the driver calls that a plan asks for.

mod ahead;

use crate::block::{After, BlockId, Change, FreeError, Known, NoRoom, Run, Slot};
use crate::foresight::Foresight;
use crate::ledger::{Ledger, OverLimit};
use crate::pool::{Pool, SMALL};
use crate::residency::{Fetch, Leave, Order, Residency};
use crate::units::{ALIGN, PAGE, pages};
use alloc::vec::Vec;

/// What an arena is to keep to.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// Which block leaves first.
    pub order: Order,
    /// Whether moves are made before they are asked for.
    pub looks_ahead: bool,
    /// Bytes kept resident. `u64::MAX` where memory does not move.
    pub budget: u64,
    /// Bytes the program may hold.
    pub limit: u64,
    /// Physical memory of the device, bytes.
    pub physical: u64,
}

/// An allocation that succeeded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Its address.
    pub address: u64,
    /// The block that holds it.
    pub block: BlockId,
    /// Pages to populate before it is used: as many as there is room for without anything leaving.
    /// Where there are any, the block is kept where it is until [`Arena::populated`].
    pub populate: Vec<Run>,
}

/// An allocation that did not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Over the limit.
    Limit(OverLimit),
    /// The pool has no such room: add an extent of at least `pages` pages and try again.
    NoRoom(NoRoom),
}

/// The arena of one context.
#[derive(Debug)]
pub struct Arena {
    pool: Pool,
    residency: Residency,
    ledger: Ledger,
    looks_ahead: bool,
    foresight: Option<Foresight>,
    /// What has become of blocks since it was last asked for, where that is wanted.
    changes: Option<Vec<Change>>,
}

impl Arena {
    /// An arena without memory.
    #[must_use]
    pub fn new(terms: Terms) -> Self {
        Self {
            pool: Pool::new(),
            residency: Residency::new(terms.order, terms.budget / PAGE),
            ledger: Ledger {
                physical: terms.physical,
                limit: terms.limit,
                ..Ledger::default()
            },
            looks_ahead: terms.looks_ahead,
            foresight: None,
            changes: None,
        }
    }

    /// From now on, and once: [`Self::changes`] tells what becomes of blocks.
    pub fn keep_changes(&mut self) {
        self.changes.get_or_insert_default();
    }

    /// What has become of blocks since this was last asked, in order.
    pub fn changes(&mut self) -> impl Iterator<Item = Change> {
        self.changes
            .iter_mut()
            .flat_map(|changes| changes.drain(..))
    }

    fn note(&mut self, change: Change) {
        if let Some(changes) = &mut self.changes {
            changes.push(change);
        }
    }

    /// Allocates `bytes` for use in `slot`'s order, or in any.
    ///
    /// # Errors
    /// See [`Refusal`]; nothing has changed.
    pub fn allocate(&mut self, bytes: u64, slot: Option<Slot>, tag: u64) -> Result<Grant, Refusal> {
        let held = held(bytes);
        self.ledger.reserve(held).map_err(Refusal::Limit)?;
        let rather = self.residency.unowned(pages(bytes));
        let got = self.pool.allocate(bytes, slot, tag, rather).map_err(|no| {
            self.ledger.release(held);
            Refusal::NoRoom(no)
        })?;
        let mut populate = Vec::new();
        if let Some(run) = got.new {
            self.note(Change::Born(got.block, run.pages));
            self.residency.adopt(got.block, run);
            // Chunks of small allocations come and go as it happens.
            if let Some(foresight) = self.foresight.as_mut().filter(|_| bytes >= SMALL) {
                foresight.born(got.block, run.pages);
            }
            if self.residency.room() >= run.pages {
                let fetch = self.residency.fetch(&[got.block]);
                populate = fetch.populate;
                populate.extend(fetch.promote);
            }
        }
        if !populate.is_empty() {
            self.residency.pin(got.block);
        }
        Ok(Grant {
            address: got.address,
            block: got.block,
            populate,
        })
    }

    /// The pages that a grant asked to populate are on the device. Until then the block may not leave:
    /// pages that leave before they have come would come after they have left.
    pub fn populated(&mut self, grant: &Grant) {
        if !grant.populate.is_empty() {
            self.residency.unpin(grant.block);
        }
    }

    /// Frees the allocation at `address`; returns the bytes it held, and its tag.
    ///
    /// # Errors
    /// Nothing begins there; nothing has changed.
    pub fn free(&mut self, address: u64, after: After, tick: u64) -> Result<(u64, u64), FreeError> {
        let freed = self.pool.free(address, after)?;
        let held = held(freed.bytes);
        self.ledger.release(held);
        if let Some((block, _)) = freed.gone {
            self.note(Change::Gone(block));
            match &mut self.foresight {
                Some(foresight) if freed.bytes >= SMALL => foresight.died(block),
                Some(foresight) => foresight.gone(block),
                None => {}
            }
            self.residency.release(block, tick);
        }
        Ok((held, freed.tag))
    }

    /// Adds an extent.
    pub fn add_extent(&mut self, base: u64, bytes: u64) {
        self.pool.add_extent(base, bytes);
        self.residency.grow(self.pool.page_numbers());
    }

    /// Bytes the next extent should have, for a request of `pages` pages: it doubles what there is,
    /// so that there are few, and stays within an eighth (at least 64 MiB) above the limit, which is
    /// for what best fit and the chunks of small allocations waste. `None`: there may be none.
    #[must_use]
    pub fn next_extent(&self, pages: u64) -> Option<u64> {
        const FIRST: u64 = 512 << 20;
        const LEAST_SPARE: u64 = 64 << 20;
        let have = self.pool.extent_bytes();
        let most = self
            .ledger
            .limit
            .saturating_add((self.ledger.limit / 8).max(LEAST_SPARE))
            .checked_next_multiple_of(PAGE)?
            .checked_sub(have)?;
        let least = pages.checked_mul(PAGE)?;
        (least <= most).then(|| most.min(least.max(have).max(FIRST)) / PAGE * PAGE)
    }

    /// See [`Pool::close`].
    pub fn close(&mut self, slot: Slot) -> bool {
        self.pool.close(slot)
    }

    /// See [`Pool::passed`].
    pub fn passed(&mut self, slot: Slot, tick: u64) {
        let gone = self.pool.passed(slot);
        self.release_all(&gone, tick);
    }

    /// See [`Pool::all_passed`].
    pub fn all_passed(&mut self, tick: u64) {
        let gone = self.pool.all_passed();
        self.release_all(&gone, tick);
    }

    /// Prepares work submitted at `tick` that uses these blocks: marks them used, keeps them where
    /// they are until [`Self::submitted`], and plans what must come in.
    pub fn prepare(&mut self, blocks: &[BlockId], tick: u64) {
        for &id in blocks {
            self.residency.touch(id, tick);
            self.residency.pin(id);
        }
    }

    /// See [`Residency::set_unwatched`].
    pub fn set_unwatched(&mut self, tick: u64) {
        self.residency.set_unwatched(tick);
    }

    /// Plans to bring in what of these blocks is missing.
    pub fn fetch(&mut self, blocks: &[BlockId]) -> Fetch {
        self.residency.fetch(blocks)
    }

    /// A run that was to come in is here, or could not come.
    pub fn arrived(&mut self, run: Run, ok: bool) {
        self.residency.arrived(run, ok, |p| self.pool.owner(p));
    }

    /// See [`Residency::faulted`].
    pub fn faulted(&mut self, blocks: &[BlockId]) -> u64 {
        self.residency.faulted(blocks)
    }

    /// The work that [`Self::prepare`] prepared has been submitted, before `tick`.
    pub fn submitted(&mut self, blocks: &[BlockId], tick: u64) {
        for &id in blocks {
            self.residency.used(id, tick);
            self.residency.unpin(id);
        }
    }

    /// See [`Residency::leave`]. Pages that are to be dropped are kept from being handed out until
    /// [`Self::left`] says that they are: a new owner's data must not be dropped with them.
    pub fn leave(
        &mut self,
        most: u64,
        piece: u64,
        may_drop: bool,
        ended: impl Fn(u64) -> bool,
    ) -> Leave {
        let pool = &self.pool;
        let leave = self
            .residency
            .leave(most, piece, |page| may_drop && pool.is_free(page), ended);
        if let Leave::Drop(runs) = &leave {
            for &run in runs {
                self.pool.withhold(run);
            }
        }
        leave
    }

    /// See [`Residency::left`].
    pub fn left(&mut self, run: Run, dropped: bool, ok: bool) {
        self.residency
            .left(run, dropped, ok, |p| self.pool.owner(p));
        if dropped {
            self.pool.restore(run);
        }
    }

    /// Where things lie.
    #[must_use]
    pub const fn pool(&self) -> &Pool {
        &self.pool
    }

    /// What is where.
    #[must_use]
    pub const fn residency(&self) -> &Residency {
        &self.residency
    }

    /// What is held.
    #[must_use]
    pub const fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// For what the program holds outside the pool.
    pub const fn ledger_mut(&mut self) -> &mut Ledger {
        &mut self.ledger
    }

    /// Changes the budget, in bytes. What is resident above it leaves in time.
    pub fn set_budget(&mut self, bytes: u64) {
        self.residency.set_budget(bytes / PAGE);
    }

    /// The address and length of a run, for the driver.
    #[must_use]
    pub fn span(&self, run: Run) -> Option<(u64, u64)> {
        Some((self.pool.address_of(run.first)?, run.pages * PAGE))
    }

    /// The allocation at an address, as the program knows it.
    #[must_use]
    pub fn known_at(&self, address: u64) -> Option<Known> {
        self.pool.known_at(address)
    }

    fn release_all(&mut self, gone: &[(BlockId, Run)], tick: u64) {
        for &(block, _) in gone {
            self.note(Change::Gone(block));
            if let Some(foresight) = &mut self.foresight {
                foresight.gone(block);
            }
            self.residency.release(block, tick);
        }
    }
}

/// Bytes that an allocation of `bytes` takes from the limit.
#[must_use]
pub const fn held(bytes: u64) -> u64 {
    bytes.saturating_add(if bytes < SMALL { ALIGN } else { PAGE } - 1)
        / if bytes < SMALL { ALIGN } else { PAGE }
        * if bytes < SMALL { ALIGN } else { PAGE }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arena(limit: u64, budget: u64) -> Arena {
        Arena::new(Terms {
            order: Order::Used,
            looks_ahead: false,
            budget: budget * PAGE,
            limit: limit * PAGE,
            physical: 1 << 40,
        })
    }

    #[test]
    fn an_allocation_over_the_limit_is_refused_and_changes_nothing() {
        let mut arena = arena(4, 4);
        assert!(matches!(
            arena.allocate(5 * PAGE, None, 0),
            Err(Refusal::Limit(_))
        ));
        assert_eq!(
            arena.allocate(4 * PAGE, None, 0),
            Err(Refusal::NoRoom(NoRoom { pages: 4 }))
        );
        assert_eq!(arena.ledger().live, 0);
        arena.add_extent(1 << 40, 4 * PAGE);
        let grant = arena.allocate(4 * PAGE, None, 0).unwrap();
        assert_eq!(grant.populate, [Run { first: 0, pages: 4 }]);
        assert_eq!(
            arena.free(grant.address, After::Nothing, 1),
            Ok((4 * PAGE, 0))
        );
        assert_eq!(arena.ledger().live, 0);
    }

    #[test]
    fn what_becomes_of_blocks_is_told_once_and_in_order() {
        let mut arena = arena(64, 64);
        arena.add_extent(1 << 40, 64 * PAGE);
        arena.allocate(PAGE, None, 0).unwrap();
        assert_eq!(arena.changes().count(), 0, "nobody wanted to know");
        arena.keep_changes();
        let large = arena.allocate(3 * PAGE, None, 0).unwrap();
        let small = arena.allocate(100, None, 0).unwrap();
        let beside = arena.allocate(100, None, 0).unwrap();
        assert_eq!(small.block, beside.block);
        arena.free(large.address, After::Nothing, 1).unwrap();
        let told: Vec<_> = arena.changes().collect();
        let wanted = [
            Change::Born(large.block, 3),
            Change::Born(small.block, 4),
            Change::Gone(large.block),
        ];
        assert_eq!(told, wanted);
        // A chunk goes when its last memory may be used again, and another is empty already.
        let chunk = arena.allocate(SMALL - 1, None, 0).unwrap();
        let whole = |arena: &mut Arena| {
            (0..8)
                .map(|_| arena.allocate(SMALL - 1, None, 0).unwrap().address)
                .collect::<Vec<_>>()
        };
        let mut all = whole(&mut arena);
        all.extend([chunk.address, small.address, beside.address]);
        let born = arena.changes().count();
        for address in all {
            arena.free(address, After::Work(Slot::ALL), 2).unwrap();
        }
        assert_eq!(arena.changes().count(), 0, "work may use it");
        arena.close(Slot::ALL);
        arena.passed(Slot::ALL, 3);
        let gone = arena.changes().count();
        assert_eq!(gone, born, "all but one of those that were there");
    }

    #[test]
    fn a_block_is_put_where_freed_memory_still_is_on_the_device() {
        let mut arena = arena(16, 16);
        arena.add_extent(1 << 40, 4 * PAGE);
        arena.add_extent(2 << 40, 8 * PAGE);
        // Best fit is the first extent, which nobody has touched.
        let filled = arena.allocate(8 * PAGE, None, 0).unwrap();
        arena.arrived(filled.populate[0], true);
        arena.free(filled.address, After::Nothing, 1).unwrap();
        let again = arena.allocate(4 * PAGE, None, 0).unwrap();
        assert_eq!((again.address, again.populate), (filled.address, [].into()));
    }

    #[test]
    fn nothing_is_populated_that_something_would_have_to_leave_for() {
        let mut arena = arena(8, 3);
        arena.add_extent(1 << 40, 8 * PAGE);
        let first = arena.allocate(2 * PAGE, None, 0).unwrap();
        arena.arrived(first.populate[0], true);
        assert_eq!(arena.allocate(2 * PAGE, None, 0).unwrap().populate.len(), 0);
        assert_eq!(arena.residency().missing(), 2);
    }

    #[test]
    fn a_block_that_is_still_being_populated_does_not_leave() {
        let mut arena = arena(4, 4);
        arena.add_extent(1 << 40, 4 * PAGE);
        let grant = arena.allocate(2 * PAGE, None, 0).unwrap();
        // Begun, and so counted as there; but the driver has not done it yet.
        arena.arrived(grant.populate[0], true);
        assert_eq!(arena.leave(4, 4, true, |_| true), Leave::Nothing);
        arena.populated(&grant);
        let run = Run { first: 0, pages: 2 };
        assert_eq!(
            arena.leave(4, 4, true, |_| true),
            Leave::Evict([run].into())
        );
    }

    #[test]
    fn pages_that_are_being_dropped_are_handed_to_nobody() {
        let mut arena = arena(4, 4);
        arena.add_extent(1 << 40, 4 * PAGE);
        let first = arena.allocate(4 * PAGE, None, 0).unwrap();
        arena.arrived(first.populate[0], true);
        arena.free(first.address, After::Nothing, 1).unwrap();
        let Leave::Drop(runs) = arena.leave(4, 4, true, |_| true) else {
            panic!("nothing to drop");
        };
        assert!(arena.allocate(PAGE, None, 0).is_err());
        arena.left(runs[0], true, true);
        let again = arena.allocate(4 * PAGE, None, 0).unwrap();
        assert_eq!(again.populate, runs);
    }

    #[test]
    fn extents_double_and_stop_an_eighth_above_the_limit() {
        let mut arena = arena(1024, 1024);
        let first = arena.next_extent(1).unwrap();
        assert_eq!(first, 512 << 20);
        arena.add_extent(1 << 40, first);
        arena.add_extent(2 << 40, arena.next_extent(1).unwrap());
        assert_eq!(arena.pool().extent_bytes(), 1 << 30);
        assert_eq!(arena.next_extent(1), Some(1 << 30));
        assert_eq!(arena.next_extent(641), None);
    }
}
