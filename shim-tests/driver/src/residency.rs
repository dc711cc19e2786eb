//! Where each 2 MiB block of managed memory is, and what it costs to have it elsewhere. A part of a block moves the whole block.
//!
//! A block is fresh until something touches or prefetches it. A GPU that is full evicts the block that was placed longest ago. A
//! discarded block stays where it is, but the driver takes its memory first and without a copy: it does not count as resident.

use crate::cuda::{CuError, DEVICE_CPU};
use crate::memory::{Allocation, BLOCK, Kind, Memory, PAGE};
use crate::stats::COUNTERS;
use std::collections::BTreeMap;
use std::ops::Range;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Fresh,
    Host,
    Gpu(usize),
}

#[derive(Clone, Debug)]
pub(crate) struct Block {
    pub(crate) place: Place,
    bytes: usize,
    stamp: u64,
    /// Pieces of running work that use it.
    pub(crate) users: usize,
    pub(crate) discarded: bool,
    pub(crate) advice: Advice,
    pub(crate) last_prefetch: Option<i32>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Advice {
    pub(crate) read_mostly: bool,
    pub(crate) preferred: Option<i32>,
    pub(crate) accessed_by: Vec<i32>,
}

#[derive(Debug)]
pub(crate) struct Gpu {
    pub(crate) vram: usize,
    pub(crate) device_bytes: usize,
    pub(crate) resident: usize,
    /// Resident blocks, the longest placed first.
    oldest: BTreeMap<u64, (usize, usize)>,
}

impl Gpu {
    pub(crate) fn new(vram: usize) -> Self {
        Self {
            vram,
            device_bytes: 0,
            resident: 0,
            oldest: BTreeMap::new(),
        }
    }

    pub(crate) fn free(&self) -> usize {
        self.vram.saturating_sub(self.device_bytes + self.resident)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    Touch,
    Prefetch,
}

pub(crate) fn blocks_of(bytes: usize) -> Vec<Block> {
    let block = |start: usize| Block {
        place: Place::Fresh,
        bytes: (bytes - start).min(BLOCK).next_multiple_of(PAGE),
        stamp: 0,
        users: 0,
        discarded: false,
        advice: Advice::default(),
        last_prefetch: None,
    };
    (0..bytes).step_by(BLOCK).map(block).collect()
}

/// The blocks of a range that lies in the allocation.
pub(crate) fn blocks_in(allocation: &Allocation, start: usize, bytes: usize) -> Range<usize> {
    let offset = start - allocation.base;
    offset / BLOCK..(offset + bytes).div_ceil(BLOCK)
}

impl Memory {
    /// The managed allocation that the whole range lies in.
    pub(crate) fn managed_range(&self, start: usize, bytes: usize) -> Result<&Allocation, CuError> {
        let found = self.find(start).filter(|allocation| {
            allocation.kind == Kind::Managed && allocation.holds(start, bytes)
        });
        if bytes == 0 {
            Err(CuError::INVALID_VALUE)
        } else {
            found.ok_or(CuError::INVALID_VALUE)
        }
    }

    pub(crate) fn block(&self, base: usize, index: usize) -> Option<&Block> {
        self.live.get(&base)?.blocks.get(index)
    }

    pub(crate) fn block_mut(&mut self, base: usize, index: usize) -> Option<&mut Block> {
        self.live.get_mut(&base)?.blocks.get_mut(index)
    }

    /// Work on `gpu` touches a block: it faults in, unless it is there or may be reached over the bus.
    pub(crate) fn touch(&mut self, base: usize, index: usize, gpu: usize, writes: bool) {
        let Some(block) = self.block(base, index) else {
            return;
        };
        let place = block.place;
        if writes {
            self.keep(base, index);
        }
        let Some(block) = self.block(base, index) else {
            return;
        };
        let mapped = i32::try_from(gpu).is_ok_and(|id| block.advice.accessed_by.contains(&id));
        let at_home = block.advice.preferred == Some(DEVICE_CPU);
        let stays = at_home || (place == Place::Host && mapped);
        if place == Place::Gpu(gpu) {
            return;
        }
        if stays || !self.bring(base, index, gpu, Cause::Touch) {
            COUNTERS.remote_accesses.one();
            if place == Place::Fresh {
                self.populate_on_host(base, index);
            }
        }
    }

    fn populate_on_host(&mut self, base: usize, index: usize) {
        if let Some(block) = self.block_mut(base, index) {
            block.place = Place::Host;
            COUNTERS.populates.one();
            COUNTERS.populated_bytes.add(block.bytes);
        }
    }

    pub(crate) fn prefetch(&mut self, base: usize, blocks: Range<usize>, to: i32) {
        let gpu = usize::try_from(to).ok();
        if gpu.is_some() {
            COUNTERS.promote_calls.one()
        } else {
            COUNTERS.evict_calls.one()
        }
        for index in blocks {
            match gpu {
                Some(gpu) => {
                    self.bring(base, index, gpu, Cause::Prefetch);
                }
                None => self.send_home(base, index),
            }
            if let Some(block) = self.block_mut(base, index) {
                block.last_prefetch = Some(to);
            }
        }
    }

    /// Places a block on a GPU; false if there is no room for it at all.
    fn bring(&mut self, base: usize, index: usize, gpu: usize, cause: Cause) -> bool {
        let Some(block) = self.block(base, index) else {
            return false;
        };
        let (from, bytes, discarded) = (block.place, block.bytes, block.discarded);
        if from == Place::Gpu(gpu) {
            COUNTERS.prefetched_in_place.one();
            self.keep(base, index);
            return true;
        }
        if !self.make_room(gpu, bytes, Some((base, index))) {
            return false;
        }
        self.leave_gpu(base, index, Place::Host);
        self.clock += 1;
        let stamp = self.clock;
        if let Some(on) = self.gpus.get_mut(gpu) {
            on.resident += bytes;
            on.oldest.insert(stamp, (base, index));
        }
        if let Some(block) = self.block_mut(base, index) {
            block.place = Place::Gpu(gpu);
            block.stamp = stamp;
            block.discarded = false;
        }
        COUNTERS
            .managed_resident
            .rise(bytes, &COUNTERS.managed_resident_peak);
        let copied = if from == Place::Fresh || discarded {
            0
        } else {
            bytes
        };
        if from == Place::Fresh {
            COUNTERS.populates.one();
            COUNTERS.populated_bytes.add(bytes);
        }
        match cause {
            Cause::Touch => {
                COUNTERS.faults.one();
                COUNTERS.fault_bytes.add(bytes);
                COUNTERS.fault_migrated_bytes.add(copied);
            }
            Cause::Prefetch => COUNTERS.promoted_bytes.add(copied),
        }
        true
    }

    /// A prefetch to the host.
    fn send_home(&mut self, base: usize, index: usize) {
        let Some(block) = self.block(base, index) else {
            return;
        };
        let (bytes, discarded, used) = (block.bytes, block.discarded, block.users > 0);
        match block.place {
            Place::Host => COUNTERS.prefetched_in_place.one(),
            Place::Fresh => self.populate_on_host(base, index),
            Place::Gpu(_) => {
                if used {
                    COUNTERS.evicted_in_use.one();
                }
                if discarded {
                    COUNTERS.discarded_not_copied_bytes.add(bytes)
                } else {
                    COUNTERS.evicted_bytes.add(bytes)
                }
                self.leave_gpu(base, index, Place::Host);
            }
        }
        if let Some(block) = self.block_mut(base, index) {
            block.discarded = false;
        }
    }

    /// Marks whole blocks of the range as without contents.
    pub(crate) fn discard(&mut self, base: usize, start: usize, bytes: usize) {
        let Some(allocation) = self.live.get_mut(&base) else {
            return;
        };
        let (from, to) = (start - base, start - base + bytes);
        let last = allocation.bytes;
        for (index, block) in allocation.blocks.iter_mut().enumerate() {
            let (first, end) = (index * BLOCK, ((index + 1) * BLOCK).min(last));
            if from <= first && end <= to {
                if matches!(block.place, Place::Gpu(_)) && !block.discarded {
                    COUNTERS.managed_resident.fall(block.bytes);
                }
                block.discarded = true;
            }
        }
        COUNTERS.discard_calls.one();
        COUNTERS.discarded_bytes.add(bytes);
    }

    /// A block has contents again.
    fn keep(&mut self, base: usize, index: usize) {
        let Some(block) = self.block_mut(base, index) else {
            return;
        };
        if core::mem::take(&mut block.discarded) && matches!(block.place, Place::Gpu(_)) {
            let bytes = block.bytes;
            COUNTERS
                .managed_resident
                .rise(bytes, &COUNTERS.managed_resident_peak);
        }
    }

    /// Evicts blocks of the GPU until `bytes` more fit, never `sparing`; blocks in use go last. False if they cannot fit.
    pub(crate) fn make_room(
        &mut self,
        gpu: usize,
        bytes: usize,
        sparing: Option<(usize, usize)>,
    ) -> bool {
        loop {
            let Some(on) = self.gpus.get(gpu) else {
                return false;
            };
            if on
                .vram
                .checked_sub(on.device_bytes)
                .is_none_or(|room| bytes > room)
            {
                return false;
            }
            if bytes <= on.free() {
                return true;
            }
            let candidates = || {
                on.oldest
                    .values()
                    .copied()
                    .filter(|block| Some(*block) != sparing)
            };
            let idle = |(base, index): &(usize, usize)| {
                self.block(*base, *index)
                    .is_some_and(|block| block.users == 0)
            };
            let empty = |(base, index): &(usize, usize)| {
                self.block(*base, *index)
                    .is_some_and(|block| block.discarded)
            };
            let Some((base, index)) = candidates()
                .find(empty)
                .or_else(|| candidates().find(idle))
                .or_else(|| candidates().next())
            else {
                return false;
            };
            self.driver_evicts(base, index);
        }
    }

    fn driver_evicts(&mut self, base: usize, index: usize) {
        let Some(block) = self.block(base, index) else {
            return;
        };
        if block.discarded {
            COUNTERS.discarded_not_copied_bytes.add(block.bytes);
        } else {
            COUNTERS.driver_evictions.one();
            COUNTERS.driver_evicted_bytes.add(block.bytes);
        }
        if block.users > 0 {
            COUNTERS.driver_evicted_in_use.one();
        }
        self.leave_gpu(base, index, Place::Host);
    }

    /// Takes a block off the GPU it is on, if it is on one.
    fn leave_gpu(&mut self, base: usize, index: usize, to: Place) {
        let Some(block) = self.block_mut(base, index) else {
            return;
        };
        let Place::Gpu(gpu) = block.place else { return };
        block.place = to;
        let (bytes, stamp, discarded) = (block.bytes, block.stamp, block.discarded);
        if let Some(on) = self.gpus.get_mut(gpu) {
            on.resident -= bytes;
            on.oldest.remove(&stamp);
        }
        if !discarded {
            COUNTERS.managed_resident.fall(bytes);
        }
    }

    /// The allocation ends: the block is nowhere any more.
    pub(crate) fn forget_block(&mut self, base: usize, index: usize) {
        self.leave_gpu(base, index, Place::Fresh);
    }
}
