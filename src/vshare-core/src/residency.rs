//! Which pages are on the device, which leave, which come back.
//!
//! Counts what it asked for: the driver does not say where a page is. A page that a kernel pulled
//! in by a fault that nobody foresaw is a page this table does not know of; that costs speed and,
//! until the page is next moved, a little more memory than the budget. Nothing here can make a
//! result wrong: managed memory is right wherever it lies.
//!
//! The one dangerous act is to *drop* a page, which loses its contents. Only pages that no block
//! owns are dropped, and only when all work that was submitted before they were freed has ended.

mod foreseen;
mod missing;
mod words;

pub use words::{Fetch, Holder, Leave};

use crate::block::{BlockId, Run};
use crate::queue::Queue;
use crate::ranges::Ranges;
use alloc::vec::Vec;

/// Where a page is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Nowhere: never touched, or dropped.
    Void,
    /// On the device.
    Device,
    /// In host memory.
    Host,
}

#[derive(Clone, Copy, Debug)]
struct Page {
    place: Place,
    /// Between the plan of a move and its end.
    moving: bool,
    /// The tick at which the last block that owned it was freed.
    freed: u64,
}

/// Which block leaves first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The one used longest ago.
    Used,
    /// The one that migrated longest ago, used or not.
    Migrated,
}

#[derive(Clone, Copy, Debug, Default)]
struct Block {
    run: Option<Run>,
    /// Pages on the device and not moving.
    here: u64,
    used: u64,
    pins: u32,
}

/// Residency of one context's pages, against a budget.
#[derive(Debug)]
pub struct Residency {
    order: Order,
    /// Pages that may be on the device.
    budget: u64,
    pages: Vec<Page>,
    blocks: Vec<Block>,
    /// Blocks with pages on the device, the first to leave first.
    queue: Queue,
    /// Pages on the device, and those that are moving either way.
    resident: u64,
    /// Pages of blocks that are not on the device, or moving.
    missing: u64,
    /// Pages in host memory that belong to a block.
    host: u64,
    /// Pages on their way to the host, or being dropped.
    leaving: u64,
    /// Pages on their way to the device.
    arriving: u64,
    /// Pages on the device that no block owns.
    dead: Ranges,
    /// Work up to this tick was not looked at: it may use any block.
    unwatched: u64,
}

impl Residency {
    /// No pages yet.
    #[must_use]
    pub const fn new(order: Order, budget: u64) -> Self {
        Self {
            order,
            budget,
            pages: Vec::new(),
            blocks: Vec::new(),
            queue: Queue::new(),
            resident: 0,
            missing: 0,
            host: 0,
            leaving: 0,
            arriving: 0,
            dead: Ranges::new(),
            unwatched: 0,
        }
    }

    /// Work up to `tick` was submitted without [`Self::touch`]: while everything fits, nobody looks
    /// at what it names. Until it has ended, every block counts as in use.
    pub fn set_unwatched(&mut self, tick: u64) {
        self.unwatched = self.unwatched.max(tick);
    }

    /// Makes room in the table for pages up to `count`.
    pub fn grow(&mut self, count: u64) {
        let page = Page {
            place: Place::Void,
            moving: false,
            freed: 0,
        };
        self.pages
            .resize(usize::try_from(count).unwrap_or(usize::MAX), page);
    }

    /// Pages that may be on the device.
    #[must_use]
    pub const fn budget(&self) -> u64 {
        self.budget
    }

    /// Changes how many may be.
    pub const fn set_budget(&mut self, pages: u64) {
        self.budget = pages;
    }

    /// Pages counted on the device.
    #[must_use]
    pub const fn resident(&self) -> u64 {
        self.resident
    }

    /// Pages of blocks that are not on the device.
    #[must_use]
    pub const fn missing(&self) -> u64 {
        self.missing
    }

    /// Pages in host memory that hold data of the program's.
    #[must_use]
    pub const fn host(&self) -> u64 {
        self.host
    }

    /// Pages that could still be brought in.
    #[must_use]
    pub const fn room(&self) -> u64 {
        self.budget.saturating_sub(self.resident)
    }

    /// The first of `pages` pages in a row that are on the device and belong to nobody, if there are
    /// any: a new block put there needs nothing to leave.
    #[must_use]
    pub fn unowned(&self, pages: u64) -> Option<u64> {
        self.dead.best(pages)
    }

    /// A new block owns these pages.
    pub fn adopt(&mut self, id: BlockId, run: Run) {
        if id.index() >= self.blocks.len() {
            self.blocks.resize(id.index() + 1, Block::default());
        }
        self.dead.remove(run.first, run.pages);
        let mut here = 0;
        // In a stream's order, pages are handed on while the work of their last owner uses them.
        let mut used = 0;
        for page in run.numbers() {
            if let Some(p) = self.page_mut(page) {
                if p.place == Place::Device && !p.moving {
                    here += 1;
                    used = used.max(p.freed);
                } else if p.place == Place::Host {
                    // Of no use to the new owner, but it is there, and moves like data.
                    self.host += 1;
                }
            }
        }
        self.missing += run.pages - here;
        if let Some(block) = self.blocks.get_mut(id.index()) {
            *block = Block {
                run: Some(run),
                here,
                used,
                ..Block::default()
            };
        }
        if here > 0 {
            self.queue.add(id);
        }
    }

    /// A block has been freed at `tick`.
    pub fn release(&mut self, id: BlockId, tick: u64) {
        self.queue.remove(id);
        let Some(block) = self.blocks.get_mut(id.index()) else {
            return;
        };
        let here = block.here;
        let Some(run) = core::mem::take(block).run else {
            return;
        };
        self.missing -= run.pages - here;
        let mut dead = Vec::new();
        let mut host = 0;
        for page in run.numbers() {
            if let Some(p) = self.page_mut(page) {
                p.freed = tick;
                if p.place == Place::Device && !p.moving {
                    push(&mut dead, page);
                }
                host += u64::from(p.place == Place::Host);
            }
        }
        self.host -= host;
        for run in dead {
            self.dead.insert(run.first, run.pages);
        }
    }

    /// A block is used by work submitted at `tick`.
    pub fn touch(&mut self, id: BlockId, tick: u64) {
        if let Some(block) = self.blocks.get_mut(id.index()) {
            block.used = tick;
        }
        if self.order == Order::Used && self.queue.has(id) {
            self.queue.add(id);
        }
    }

    /// Work that uses a block was submitted before `tick`: only work up to there having ended says
    /// that this use has. The tick of [`Self::touch`] is too early for that: a mark between it and
    /// the submission would not cover the work.
    pub fn used(&mut self, id: BlockId, tick: u64) {
        if let Some(block) = self.blocks.get_mut(id.index()) {
            block.used = block.used.max(tick);
        }
    }

    /// Keeps a block where it is until [`Self::unpin`].
    pub fn pin(&mut self, id: BlockId) {
        if let Some(block) = self.blocks.get_mut(id.index()) {
            block.pins += 1;
        }
    }

    /// Undoes one [`Self::pin`]. The block may have been freed since.
    pub fn unpin(&mut self, id: BlockId) {
        if let Some(block) = self.blocks.get_mut(id.index()) {
            block.pins = block.pins.saturating_sub(1);
        }
    }

    /// Pages of these blocks that are missing, if they do not all find room now; 0 if they do.
    #[must_use]
    pub fn shortage(&self, ids: &[BlockId]) -> u64 {
        let missing = self.missing_of(ids);
        if missing > self.room() { missing } else { 0 }
    }

    /// What holds the room, when nothing can leave for work that uses these blocks.
    #[must_use]
    pub fn held_by(&self, ids: &[BlockId]) -> Holder {
        let pinned = |(i, b): (usize, &Block)| {
            b.pins > 0 && b.here > 0 && ids.iter().all(|id| id.index() != i)
        };
        if self.pages.iter().any(|p| p.moving) {
            Holder::Moves
        } else if self.blocks.iter().enumerate().any(pinned) {
            Holder::Others
        } else {
            Holder::Itself
        }
    }

    /// Whether all of a block is on the device.
    #[must_use]
    pub fn is_here(&self, id: BlockId) -> bool {
        self.blocks
            .get(id.index())
            .is_some_and(|b| b.run.is_none_or(|run| b.here == run.pages))
    }

    /// Plans to bring these blocks in, as far as there is room. What is planned counts as resident
    /// at once; its end is reported by [`Self::arrived`].
    pub fn fetch(&mut self, ids: &[BlockId]) -> Fetch {
        let mut fetch = Fetch::default();
        for &id in ids {
            let Some(run) = self.blocks.get(id.index()).and_then(|b| b.run) else {
                continue;
            };
            if self.is_here(id) {
                continue;
            }
            for page in run.numbers() {
                let room = self.room() > 0;
                let Some(p) = self.page_mut(page) else {
                    continue;
                };
                if p.moving {
                    fetch.moving += 1;
                } else if p.place != Place::Device {
                    if !room {
                        fetch.short += 1;
                        continue;
                    }
                    p.moving = true;
                    let runs = match p.place {
                        Place::Host => &mut fetch.promote,
                        _ => &mut fetch.populate,
                    };
                    push(runs, page);
                    self.resident += 1;
                    self.arriving += 1;
                }
            }
        }
        fetch
    }

    /// The pages of a run that [`Self::fetch`] planned are on the device, or could not be brought.
    /// `owner` tells whom a page belongs to now.
    pub fn arrived(&mut self, run: Run, ok: bool, owner: impl Fn(u64) -> Option<BlockId>) {
        for page in run.numbers() {
            let Some(p) = self.page_mut(page) else {
                continue;
            };
            let from = p.place;
            p.moving = false;
            if ok {
                p.place = Place::Device;
            }
            self.arriving -= 1;
            if !ok {
                self.resident -= 1;
                continue;
            }
            self.settle(page, from, owner(page));
        }
    }

    /// These blocks are used by work that could not wait for room, or whose policy is not to fetch:
    /// the work faults in what is missing. Counts it as resident, over the budget if need be.
    /// Returns the pages counted.
    pub fn faulted(&mut self, ids: &[BlockId]) -> u64 {
        let mut count = 0;
        for &id in ids {
            let Some(run) = self.blocks.get(id.index()).and_then(|b| b.run) else {
                continue;
            };
            for page in run.numbers() {
                let Some(p) = self.page_mut(page) else {
                    continue;
                };
                if p.moving || p.place == Place::Device {
                    continue;
                }
                let from = p.place;
                p.place = Place::Device;
                self.resident += 1;
                count += 1;
                self.settle(page, from, Some(id));
            }
        }
        count
    }

    /// Plans for up to `most` pages to leave; of those that must be copied only up to `piece`, so that
    /// their room is there soon. `ended(tick)` tells whether all work up to a tick has
    /// ended; `may_drop(page)` whether a page that nobody owns may be dropped. What is planned counts as
    /// resident until [`Self::left`] reports its end.
    pub fn leave(
        &mut self,
        most: u64,
        piece: u64,
        may_drop: impl Fn(u64) -> bool,
        ended: impl Fn(u64) -> bool,
    ) -> Leave {
        let runs = self.droppable(most, &may_drop, &ended);
        if !runs.is_empty() {
            return Leave::Drop(runs);
        }
        let most = most.min(piece);
        let mut next = self.queue.oldest();
        while let Some(id) = next {
            let Some(&block) = self.blocks.get(id.index()) else {
                break;
            };
            next = self.queue.after(id);
            if block.pins > 0 {
                continue;
            }
            let used = block.used.max(self.unwatched);
            if !ended(used) {
                return Leave::Wait(used);
            }
            let runs = self.take_out(id, most);
            if !runs.is_empty() {
                return Leave::Evict(runs);
            }
        }
        // Only dead memory is left: it cannot be dropped, but it can be copied out.
        self.copy_out_dead(most, &ended)
    }

    /// The pages of a run that [`Self::leave`] planned have left, or could not.
    pub fn left(
        &mut self,
        run: Run,
        dropped: bool,
        ok: bool,
        owner: impl Fn(u64) -> Option<BlockId>,
    ) {
        for page in run.numbers() {
            let Some(p) = self.page_mut(page) else {
                continue;
            };
            p.moving = false;
            if ok {
                p.place = if dropped { Place::Void } else { Place::Host };
            }
            self.leaving -= 1;
            if ok {
                self.resident -= 1;
                self.host += u64::from(!dropped && owner(page).is_some());
            } else {
                self.settle(page, Place::Device, owner(page));
            }
        }
    }

    /// A page is on the device and no longer moves.
    fn settle(&mut self, page: u64, from: Place, owner: Option<BlockId>) {
        let Some(id) = owner else {
            self.dead.insert(page, 1);
            return;
        };
        self.host -= u64::from(from == Place::Host);
        self.missing -= 1;
        if let Some(block) = self.blocks.get_mut(id.index()) {
            block.here += 1;
        }
        if self.order == Order::Migrated || !self.queue.has(id) {
            self.queue.add(id);
        }
    }

    fn droppable(
        &mut self,
        most: u64,
        may_drop: &impl Fn(u64) -> bool,
        ended: &impl Fn(u64) -> bool,
    ) -> Vec<Run> {
        let mut runs = Vec::new();
        let mut left = most;
        'all: for (first, length) in self.dead.iter() {
            for page in first..first + length {
                if left == 0 {
                    break 'all;
                }
                if self.page(page).is_some_and(|p| ended(p.freed)) && may_drop(page) {
                    push(&mut runs, page);
                    left -= 1;
                }
            }
        }
        self.mark_leaving(&runs);
        runs
    }

    /// Plans for dead pages to be copied out, once the work that may use them has ended: it would
    /// fault them in again.
    fn copy_out_dead(&mut self, most: u64, ended: &impl Fn(u64) -> bool) -> Leave {
        let mut runs = Vec::new();
        let mut left = most;
        let mut first_to_end = None;
        for (first, length) in self.dead.iter() {
            for page in first..first + length {
                let Some(freed) = self.page(page).map(|p| p.freed).filter(|_| left > 0) else {
                    break;
                };
                if ended(freed) {
                    push(&mut runs, page);
                    left -= 1;
                } else {
                    first_to_end = Some(first_to_end.map_or(freed, |f: u64| f.min(freed)));
                }
            }
        }
        if runs.is_empty() {
            return first_to_end.map_or(Leave::Nothing, Leave::Wait);
        }
        self.mark_leaving(&runs);
        Leave::Evict(runs)
    }

    fn mark_leaving(&mut self, runs: &[Run]) {
        for run in runs {
            self.dead.remove(run.first, run.pages);
            self.leaving += run.pages;
            for page in run.numbers() {
                if let Some(p) = self.page_mut(page) {
                    p.moving = true;
                }
            }
        }
    }

    pub(crate) fn take_out(&mut self, id: BlockId, most: u64) -> Vec<Run> {
        let mut runs = Vec::new();
        let Some(run) = self.blocks.get(id.index()).and_then(|b| b.run) else {
            return runs;
        };
        let mut count = 0;
        for page in run.numbers() {
            if count == most {
                break;
            }
            if let Some(p) = self.page_mut(page)
                && p.place == Place::Device
                && !p.moving
            {
                p.moving = true;
                push(&mut runs, page);
                count += 1;
            }
        }
        self.missing += count;
        self.leaving += count;
        let mut empty = false;
        if let Some(block) = self.blocks.get_mut(id.index()) {
            block.here -= count;
            empty = block.here == 0;
        }
        if empty {
            self.queue.remove(id);
        }
        runs
    }

    fn page(&self, page: u64) -> Option<&Page> {
        self.pages.get(usize::try_from(page).ok()?)
    }

    fn page_mut(&mut self, page: u64) -> Option<&mut Page> {
        self.pages.get_mut(usize::try_from(page).ok()?)
    }
}

/// Adds a page to runs that are built in order.
fn push(runs: &mut Vec<Run>, page: u64) {
    match runs.last_mut() {
        Some(last) if last.first + last.pages == page => last.pages += 1,
        _ => runs.push(Run {
            first: page,
            pages: 1,
        }),
    }
}

#[cfg(test)]
#[path = "residency_tests.rs"]
mod tests;
