//! Where an allocation lies, and when freed memory may be used again.
//!
//! The pool hands out addresses inside extents that its caller has got from the driver; it never
//! touches memory. Large blocks own whole pages; small ones share chunks of a few pages. Best fit
//! over the whole address range, because it wastes least and gives a program that repeats itself
//! the same addresses every time.
//!
//! Freed memory may still be in use by work in flight. Who frees says after what it may be used
//! again ([`After`]); memory that waits has two generations, so that one fence, set when a
//! generation closes, is enough for all that was freed before it.

use crate::block::{After, Allocated, BlockId, FreeError, Freed, Known, NoRoom, Run, Slot};
use crate::ranges::Ranges;
use crate::units::{ALIGN, PAGE, pages};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// Requests below this many bytes share pages with others.
pub const SMALL: u64 = 1 << 20;

/// Pages in one chunk of small blocks, where there is room for that many.
pub const CHUNK_PAGES: u64 = 4;

const UNITS_PER_PAGE: u64 = PAGE / ALIGN;

/// Chunks lie this many units apart in the numbering of units, so that no two are neighbours.
const CHUNK_STRIDE: u64 = CHUNK_PAGES * UNITS_PER_PAGE + 1;

#[derive(Clone, Copy, Debug)]
struct Extent {
    base: u64,
    first: u64,
    pages: u64,
}

#[derive(Clone, Copy, Debug)]
struct Block {
    run: Run,
    /// `None` for a chunk.
    known: Option<Known>,
    chunk: u32,
}

#[derive(Clone, Copy, Debug)]
struct Chunk {
    block: BlockId,
    run: Run,
}

#[derive(Clone, Debug, Default)]
struct Generation {
    pages: Ranges,
    units: Ranges,
}

impl Generation {
    const fn is_empty(&self) -> bool {
        self.pages.is_empty() && self.units.is_empty()
    }
}

#[derive(Clone, Debug, Default)]
struct Waiting {
    young: Generation,
    old: Generation,
}

/// The pool of one context.
#[derive(Debug, Default)]
pub struct Pool {
    extents: Vec<Extent>,
    /// Indices into `extents`, by base address.
    by_base: Vec<usize>,
    /// Owner of each page: 0 for none, else the block's index + 1.
    owners: Vec<u32>,
    free: Generation,
    waiting: Vec<Waiting>,
    blocks: Vec<Option<Block>>,
    unused_blocks: Vec<u32>,
    chunks: Vec<Option<Chunk>>,
    unused_chunks: Vec<u32>,
    small: BTreeMap<u64, Known>,
    empty_chunks: u32,
    serial: u64,
}

impl Pool {
    /// A pool without memory.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds memory at `base`. Only whole pages are used. Returns them.
    pub fn add_extent(&mut self, base: u64, bytes: u64) -> Run {
        let aligned = base.next_multiple_of(PAGE);
        let count = (base + bytes).saturating_sub(aligned) / PAGE;
        // One number is left out, so that two extents are never neighbours.
        let first = self.owners.len() as u64 + u64::from(!self.owners.is_empty());
        let run = Run {
            first,
            pages: count,
        };
        if count == 0 {
            return run;
        }
        self.owners
            .resize(usize::try_from(first + count).unwrap_or(usize::MAX), 0);
        self.extents.push(Extent {
            base: aligned,
            first,
            pages: count,
        });
        let at = self
            .by_base
            .partition_point(|&i| self.extents.get(i).is_some_and(|e| e.base < aligned));
        self.by_base.insert(at, self.extents.len() - 1);
        self.free.pages.insert(first, count);
        run
    }

    /// Bytes in all extents.
    #[must_use]
    pub fn extent_bytes(&self) -> u64 {
        self.extents.iter().map(|e| e.pages * PAGE).sum()
    }

    /// The extents: (base address, bytes).
    pub fn extents(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.extents.iter().map(|e| (e.base, e.pages * PAGE))
    }

    /// Numbers of pages handed out so far, left-out ones included.
    #[must_use]
    pub fn page_numbers(&self) -> u64 {
        self.owners.len() as u64
    }

    /// The page at an address, if it is the pool's.
    #[must_use]
    pub fn page_at(&self, address: u64) -> Option<u64> {
        let after = self
            .by_base
            .partition_point(|&i| self.extents.get(i).is_some_and(|e| e.base <= address));
        let &index = self.by_base.get(after.checked_sub(1)?)?;
        let extent = self.extents.get(index)?;
        let page = (address - extent.base) / PAGE;
        (page < extent.pages).then_some(extent.first + page)
    }

    /// The address of a page.
    #[must_use]
    pub fn address_of(&self, page: u64) -> Option<u64> {
        let after = self.extents.partition_point(|e| e.first <= page);
        let extent = self.extents.get(after.checked_sub(1)?)?;
        let offset = page - extent.first;
        (offset < extent.pages).then_some(extent.base + offset * PAGE)
    }

    /// The block that owns the page at an address.
    #[must_use]
    pub fn block_at(&self, address: u64) -> Option<BlockId> {
        self.owner(self.page_at(address)?)
    }

    /// The block that owns a page.
    #[must_use]
    pub fn owner(&self, page: u64) -> Option<BlockId> {
        let owner = *self.owners.get(usize::try_from(page).ok()?)?;
        Some(BlockId::new(owner.checked_sub(1)?))
    }

    /// All blocks that are there.
    pub fn blocks(&self) -> impl Iterator<Item = BlockId> + '_ {
        let there = (0..).zip(&self.blocks).filter(|(_, b)| b.is_some());
        there.map(|(number, _)| BlockId::new(number))
    }

    /// A block's pages.
    #[must_use]
    pub fn run_of(&self, id: BlockId) -> Option<Run> {
        Some(self.block(id)?.run)
    }

    /// The allocation that an address lies in.
    #[must_use]
    pub fn known_at(&self, address: u64) -> Option<Known> {
        let block = *self.block(self.block_at(address)?)?;
        let known = match block.known {
            Some(known) => known,
            None => {
                *self
                    .small
                    .range(..=self.unit_at(&block, address)?)
                    .next_back()?
                    .1
            }
        };
        (address - known.address < known.bytes).then_some(known)
    }

    /// Allocates `bytes` (at least 1) for use in `slot`'s order, or in any order.
    ///
    /// `rather` is a page at which a large block is put if it is free there.
    ///
    /// # Errors
    /// No room; nothing has changed.
    pub fn allocate(
        &mut self,
        bytes: u64,
        slot: Option<Slot>,
        tag: u64,
        rather: Option<u64>,
    ) -> Result<Allocated, NoRoom> {
        if bytes < SMALL {
            self.allocate_small(bytes, slot, tag)
        } else {
            self.allocate_large(bytes, slot, tag, rather)
        }
    }

    /// Frees the allocation that begins at `address`.
    ///
    /// # Errors
    /// Nothing begins there; nothing has changed.
    pub fn free(&mut self, address: u64, after: After) -> Result<Freed, FreeError> {
        let page = self.page_at(address).ok_or(FreeError::Foreign)?;
        let id = self.owner(page).ok_or(FreeError::NoBlock)?;
        let block = *self.block(id).ok_or(FreeError::NoBlock)?;
        match block.known {
            Some(known) if known.address == address => {
                self.disown(id, block.run);
                let run = block.run;
                self.home(after).pages.insert(run.first, run.pages);
                Ok(Freed {
                    bytes: known.bytes,
                    tag: known.tag,
                    gone: Some((id, run)),
                })
            }
            Some(_) => Err(FreeError::NoBlock),
            None => self.free_small(&block, address, after),
        }
    }

    /// Whether a page is free to all.
    #[must_use]
    pub fn is_free(&self, page: u64) -> bool {
        self.free.pages.contains(page, 1)
    }

    /// Keeps free pages from being handed out, until [`Self::restore`].
    pub fn withhold(&mut self, run: Run) {
        self.free.pages.remove(run.first, run.pages);
    }

    /// Undoes [`Self::withhold`].
    pub fn restore(&mut self, run: Run) {
        self.free.pages.insert(run.first, run.pages);
    }

    /// Closes a slot's young generation: what is freed from now on no longer belongs to it.
    /// Returns whether there is a closed generation now that had none before, and so needs a
    /// fence. While one waits, the young one stays open.
    pub fn close(&mut self, slot: Slot) -> bool {
        let waiting = self.waiting_mut(slot);
        if !waiting.old.is_empty() || waiting.young.is_empty() {
            return false;
        }
        core::mem::swap(&mut waiting.old, &mut waiting.young);
        true
    }

    /// The fence behind a slot's closed generation has passed: its memory is free to all.
    /// Returns the blocks that have nothing left in them.
    pub fn passed(&mut self, slot: Slot) -> Vec<(BlockId, Run)> {
        let old = core::mem::take(&mut self.waiting_mut(slot).old);
        self.set_free(old)
    }

    /// All work in all slots has ended: everything that waits is free to all.
    pub fn all_passed(&mut self) -> Vec<(BlockId, Run)> {
        let mut gone = Vec::new();
        for waiting in core::mem::take(&mut self.waiting) {
            gone.extend(self.set_free(waiting.old));
            gone.extend(self.set_free(waiting.young));
        }
        gone
    }

    /// Whether anything waits in a slot: (in its closed generation, in its open one).
    #[must_use]
    pub fn waits(&self, slot: Slot) -> (bool, bool) {
        self.waiting
            .get(slot.0 as usize)
            .map_or((false, false), |w| (!w.old.is_empty(), !w.young.is_empty()))
    }

    /// Slots in which anything waits.
    pub fn waiting_slots(&self) -> impl Iterator<Item = Slot> + '_ {
        (0..)
            .zip(&self.waiting)
            .filter(|(_, w)| !(w.old.is_empty() && w.young.is_empty()))
            .map(|(i, _)| Slot(i))
    }

    fn allocate_large(
        &mut self,
        bytes: u64,
        slot: Option<Slot>,
        tag: u64,
        rather: Option<u64>,
    ) -> Result<Allocated, NoRoom> {
        let count = pages(bytes);
        let rather = rather.filter(|&first| self.free.pages.contains(first, count));
        let first = match rather {
            Some(first) => {
                self.free.pages.remove(first, count);
                first
            }
            None => self
                .take(slot, |generation| generation.pages.take(count))
                .ok_or(NoRoom { pages: count })?,
        };
        let run = Run {
            first,
            pages: count,
        };
        let Some(address) = self.address_of(first) else {
            return Err(NoRoom { pages: count });
        };
        let known = self.name(address, bytes, tag);
        let block = self.own(run, Some(known), 0);
        Ok(Allocated {
            address,
            block,
            new: Some(run),
        })
    }

    fn allocate_small(
        &mut self,
        bytes: u64,
        slot: Option<Slot>,
        tag: u64,
    ) -> Result<Allocated, NoRoom> {
        let units = bytes.div_ceil(ALIGN).max(1);
        let mut new = None;
        let unit = match self.take(slot, |generation| generation.units.take(units)) {
            Some(unit) => unit,
            None => {
                new = Some(self.add_chunk()?);
                self.free
                    .units
                    .take(units)
                    .ok_or(NoRoom { pages: CHUNK_PAGES })?
            }
        };
        if self.is_whole_chunk_but(unit, units) {
            self.empty_chunks = self.empty_chunks.saturating_sub(1);
        }
        let chunk = self.chunk_of(unit).ok_or(NoRoom { pages: CHUNK_PAGES })?;
        let base = self
            .address_of(chunk.run.first)
            .ok_or(NoRoom { pages: CHUNK_PAGES })?;
        let address = base + unit % CHUNK_STRIDE * ALIGN;
        let known = self.name(address, bytes, tag);
        self.small.insert(unit, known);
        Ok(Allocated {
            address,
            block: chunk.block,
            new,
        })
    }

    fn free_small(
        &mut self,
        block: &Block,
        address: u64,
        after: After,
    ) -> Result<Freed, FreeError> {
        let unit = self.unit_at(block, address).ok_or(FreeError::NoBlock)?;
        match self.small.get(&unit) {
            Some(known) if known.address == address => {}
            _ => return Err(FreeError::NoBlock),
        }
        let Some(known) = self.small.remove(&unit) else {
            return Err(FreeError::NoBlock);
        };
        let units = known.bytes.div_ceil(ALIGN).max(1);
        let gone = match after {
            After::Nothing => self.set_units_free(unit, units),
            After::Work(_) => {
                self.home(after).units.insert(unit, units);
                None
            }
        };
        Ok(Freed {
            bytes: known.bytes,
            tag: known.tag,
            gone,
        })
    }

    /// From the slot's own memory first, which only it may use yet; then from what is free to all.
    fn take(
        &mut self,
        slot: Option<Slot>,
        mut from: impl FnMut(&mut Generation) -> Option<u64>,
    ) -> Option<u64> {
        if let Some(waiting) = slot.and_then(|s| self.waiting.get_mut(s.0 as usize))
            && let Some(found) = from(&mut waiting.old).or_else(|| from(&mut waiting.young))
        {
            return Some(found);
        }
        from(&mut self.free)
    }

    fn home(&mut self, after: After) -> &mut Generation {
        match after {
            After::Nothing => &mut self.free,
            After::Work(slot) => &mut self.waiting_mut(slot).young,
        }
    }

    fn set_free(&mut self, generation: Generation) -> Vec<(BlockId, Run)> {
        for (first, count) in generation.pages.iter() {
            self.free.pages.insert(first, count);
        }
        generation
            .units
            .iter()
            .filter_map(|(unit, units)| self.set_units_free(unit, units))
            .collect()
    }

    /// Frees units; a chunk that has become empty is given up if another is empty already.
    fn set_units_free(&mut self, unit: u64, units: u64) -> Option<(BlockId, Run)> {
        let (first, length) = self.free.units.insert(unit, units);
        let chunk = self.chunk_of(unit)?;
        if first % CHUNK_STRIDE != 0 || length != chunk.run.pages * UNITS_PER_PAGE {
            return None;
        }
        if self.empty_chunks == 0 {
            self.empty_chunks = 1;
            return None;
        }
        self.free.units.remove(first, length);
        let index = u32::try_from(unit / CHUNK_STRIDE).ok()?;
        *self.chunks.get_mut(index as usize)? = None;
        self.unused_chunks.push(index);
        self.disown(chunk.block, chunk.run);
        self.free.pages.insert(chunk.run.first, chunk.run.pages);
        Some((chunk.block, chunk.run))
    }

    /// Whether taking these units has broken into a chunk that was empty.
    fn is_whole_chunk_but(&self, unit: u64, units: u64) -> bool {
        let Some(chunk) = self.chunk_of(unit) else {
            return false;
        };
        let base = unit - unit % CHUNK_STRIDE;
        let all = chunk.run.pages * UNITS_PER_PAGE;
        unit == base
            && self.small.range(base..base + all).next().is_none()
            && (units == all || self.free.units.starting_at(base + units) == Some(all - units))
    }

    fn add_chunk(&mut self) -> Result<Run, NoRoom> {
        let found = [CHUNK_PAGES, 1]
            .into_iter()
            .find_map(|count| Some((self.free.pages.take(count)?, count)));
        let (first, count) = found.ok_or(NoRoom { pages: CHUNK_PAGES })?;
        let run = Run {
            first,
            pages: count,
        };
        let index = self.unused_chunks.pop().unwrap_or_else(|| {
            self.chunks.push(None);
            u32::try_from(self.chunks.len() - 1).unwrap_or(u32::MAX)
        });
        let block = self.own(run, None, index);
        if let Some(place) = self.chunks.get_mut(index as usize) {
            *place = Some(Chunk { block, run });
        }
        self.free
            .units
            .insert(u64::from(index) * CHUNK_STRIDE, count * UNITS_PER_PAGE);
        self.empty_chunks += 1;
        Ok(run)
    }

    fn chunk_of(&self, unit: u64) -> Option<Chunk> {
        *self
            .chunks
            .get(usize::try_from(unit / CHUNK_STRIDE).ok()?)?
    }

    fn unit_at(&self, block: &Block, address: u64) -> Option<u64> {
        let offset = address - self.address_of(block.run.first)?;
        Some(u64::from(block.chunk) * CHUNK_STRIDE + offset / ALIGN)
    }

    fn name(&mut self, address: u64, bytes: u64, tag: u64) -> Known {
        self.serial += 1;
        Known {
            address,
            bytes,
            tag,
            serial: self.serial,
        }
    }

    fn own(&mut self, run: Run, known: Option<Known>, chunk: u32) -> BlockId {
        let block = Some(Block { run, known, chunk });
        let index = match self.unused_blocks.pop() {
            Some(index) => index,
            None => {
                self.blocks.push(None);
                u32::try_from(self.blocks.len() - 1).unwrap_or(u32::MAX - 1)
            }
        };
        if let Some(place) = self.blocks.get_mut(index as usize) {
            *place = block;
        }
        self.set_owner(run, index + 1);
        BlockId::new(index)
    }

    fn disown(&mut self, id: BlockId, run: Run) {
        if let Some(place) = self.blocks.get_mut(id.index()) {
            *place = None;
            self.unused_blocks.push(id.number());
        }
        self.set_owner(run, 0);
    }

    fn set_owner(&mut self, run: Run, owner: u32) {
        let span = usize::try_from(run.first).unwrap_or(usize::MAX)
            ..usize::try_from(run.first + run.pages).unwrap_or(usize::MAX);
        if let Some(owners) = self.owners.get_mut(span) {
            owners.fill(owner);
        }
    }

    fn block(&self, id: BlockId) -> Option<&Block> {
        self.blocks.get(id.index())?.as_ref()
    }

    fn waiting_mut(&mut self, slot: Slot) -> &mut Waiting {
        let index = slot.0 as usize;
        if index >= self.waiting.len() {
            self.waiting.resize(index + 1, Waiting::default());
        }
        // Just made long enough.
        #[expect(clippy::indexing_slicing, reason = "resized above")]
        &mut self.waiting[index]
    }
}

#[cfg(test)]
#[path = "pool_tests.rs"]
pub(crate) mod tests;
