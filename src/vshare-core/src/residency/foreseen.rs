//! Moves that somebody has decided on by looking ahead, one block at a time.

use super::{Fetch, Leave, Place, Residency, push};
use crate::block::{BlockId, Run};
use alloc::vec::Vec;

impl Residency {
    /// How many pages of a block are on the device or on their way there, and how many are in host memory or on
    /// their way there.
    #[must_use]
    pub fn lies(&self, id: BlockId) -> (u64, u64) {
        let Some(block) = self.blocks.get(id.index()) else {
            return (0, 0);
        };
        let Some(run) = block.run else {
            return (0, 0);
        };
        if block.here == run.pages {
            return (run.pages, 0);
        }
        let (mut here, mut host) = (0, 0);
        for page in run.numbers().filter_map(|p| self.page(p)) {
            match (page.place, page.moving) {
                (Place::Device, false) | (Place::Host | Place::Void, true) => here += 1,
                (Place::Device, true) | (Place::Host, false) => host += 1,
                (Place::Void, false) => {}
            }
        }
        (here, host)
    }

    /// Pages on their way to the host, or being dropped: their room is there soon.
    #[must_use]
    pub const fn leaving(&self) -> u64 {
        self.leaving
    }

    /// Whether any page is on its way, in or out.
    #[must_use]
    pub const fn is_moving(&self) -> bool {
        self.leaving + self.arriving > 0
    }

    /// Pages of blocks that are neither on the device nor on their way there.
    #[must_use]
    pub const fn lacking(&self) -> u64 {
        self.missing.saturating_sub(self.arriving)
    }

    /// Pages of a block that are on the device and not moving.
    #[must_use]
    pub fn here(&self, id: BlockId) -> u64 {
        self.blocks.get(id.index()).map_or(0, |b| b.here)
    }

    /// A block's pages.
    #[must_use]
    pub fn pages_of(&self, id: BlockId) -> u64 {
        let run = self.blocks.get(id.index()).and_then(|b| b.run);
        run.map_or(0, |run| run.pages)
    }

    /// Blocks with pages on the device, the first to leave first.
    pub fn blocks_here(&self) -> impl Iterator<Item = BlockId> + '_ {
        core::iter::successors(self.queue.oldest(), |&id| self.queue.after(id))
    }

    /// Whether a block may leave.
    ///
    /// # Errors
    /// Not now: the tick up to which work must have ended, or 0: it is kept where it is.
    pub fn may_leave(&self, id: BlockId, ended: impl Fn(u64) -> bool) -> Result<(), u64> {
        let block = self.blocks.get(id.index()).ok_or(0_u64)?;
        let used = block.used.max(self.unwatched);
        match block.pins {
            0 if ended(used) => Ok(()),
            0 => Err(used),
            _ => Err(0),
        }
    }

    /// Plans for up to `most` pages to leave of the block that is needed furthest away, as `next_use` says.
    pub fn leave_furthest(
        &mut self,
        most: u64,
        next_use: impl Fn(BlockId) -> u64,
        ended: impl Fn(u64) -> bool,
    ) -> Leave {
        let mut furthest: Option<(u64, BlockId)> = None;
        let mut first_to_end = None;
        for id in self.blocks_here() {
            let Some(block) = self.blocks.get(id.index()).filter(|b| b.pins == 0) else {
                continue;
            };
            let next = next_use(id);
            if furthest.is_some_and(|f| f.0 >= next) {
                continue;
            }
            let used = block.used.max(self.unwatched);
            if ended(used) {
                furthest = Some((next, id));
            } else {
                first_to_end = Some(first_to_end.map_or(used, |f: u64| f.min(used)));
            }
        }
        match (furthest, first_to_end) {
            (Some((_, id)), _) => Leave::Evict(self.take_out(id, most)),
            (None, Some(tick)) => Leave::Wait(tick),
            (None, None) => Leave::Nothing,
        }
    }

    /// Plans to bring in pages of a block until `have` of them are on the device, up to `most` and as far as there
    /// is room.
    pub fn bring(&mut self, id: BlockId, have: u64, most: u64) -> Fetch {
        let mut fetch = Fetch::default();
        let (here, _) = self.lies(id);
        let mut count = have.saturating_sub(here).min(most).min(self.room());
        let Some(run) = self.blocks.get(id.index()).and_then(|b| b.run) else {
            return fetch;
        };
        for page in run.numbers() {
            if count == 0 {
                break;
            }
            if let Some(p) = self.page_mut(page)
                && p.place == Place::Host
                && !p.moving
            {
                p.moving = true;
                push(&mut fetch.promote, page);
                self.resident += 1;
                self.arriving += 1;
                count -= 1;
            }
        }
        fetch
    }

    /// Plans to drop up to `most` pages that nobody owns: see [`Residency::leave`].
    pub fn drop_dead(
        &mut self,
        most: u64,
        may_drop: impl Fn(u64) -> bool,
        ended: impl Fn(u64) -> bool,
    ) -> Vec<Run> {
        self.droppable(most, &may_drop, &ended)
    }
}
