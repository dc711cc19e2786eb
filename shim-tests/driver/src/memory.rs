//! Every live allocation, by address. What is not here may not be touched by work on a device.

use crate::arena::Arena;
use crate::cuda::{CuError, Handle};
use crate::mapping::{self, Mapping, ProgramMay};
use crate::residency::{Block, Gpu, blocks_of};
use crate::stats::COUNTERS;
use std::collections::BTreeMap;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Device,
    Managed,
    /// From `cuMemHostAlloc`.
    Pinned,
    /// The program's own, registered.
    Registered,
}

/// Who allocates, and where it counts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owner {
    pub(crate) context: Handle,
    pub(crate) device: usize,
    pub(crate) pool: Handle,
    /// Taken in a capture: it comes back with every launch of the graph, so the graph's free is no end.
    pub(crate) by_graph: bool,
}

#[derive(Debug)]
pub(crate) struct Allocation {
    pub(crate) id: u64,
    pub(crate) base: usize,
    pub(crate) bytes: usize,
    /// What it takes of its range and, for device memory, of the device.
    pub(crate) taken: usize,
    pub(crate) kind: Kind,
    pub(crate) owner: Owner,
    pub(crate) flags: u32,
    /// Managed memory only: where each 2 MiB is.
    pub(crate) blocks: Vec<Block>,
}

impl Allocation {
    pub(crate) fn holds(&self, start: usize, bytes: usize) -> bool {
        start >= self.base
            && start
                .checked_add(bytes)
                .is_some_and(|end| end <= self.base + self.bytes)
    }
}

#[derive(Debug)]
pub(crate) struct Memory {
    device: Mapping,
    managed: Mapping,
    device_arena: Arena,
    managed_arena: Arena,
    pub(crate) live: BTreeMap<usize, Allocation>,
    pub(crate) gpus: Vec<Gpu>,
    /// Counts placements of blocks: the smaller a block's stamp, the longer ago it was populated or moved.
    pub(crate) clock: u64,
    next_id: u64,
}

/// What is read where nothing is left of what was written.
const LOST: u8 = 0xDB;

const DEVICE_ALIGN: usize = 512;
pub(crate) const PAGE: usize = 4096;
pub(crate) const BLOCK: usize = 2 << 20;
const DEVICE_RANGE: (usize, usize) = (0x1000_0000_0000, 1 << 40);
const MANAGED_RANGE: (usize, usize) = (0x2000_0000_0000, 1 << 40);

impl Memory {
    pub(crate) fn new(devices: usize, vram: usize) -> Option<Self> {
        let device = Mapping::reserve(DEVICE_RANGE.1, DEVICE_RANGE.0, ProgramMay::Nothing)?;
        let managed = Mapping::reserve(MANAGED_RANGE.1, MANAGED_RANGE.0, ProgramMay::ReadAndWrite)?;
        Some(Self {
            device_arena: Arena::new(device.program, device.len),
            managed_arena: Arena::new(managed.program, managed.len),
            device,
            managed,
            live: BTreeMap::new(),
            gpus: (0..devices).map(|_| Gpu::new(vram)).collect(),
            clock: 0,
            next_id: 1,
        })
    }

    pub(crate) fn find(&self, address: usize) -> Option<&Allocation> {
        let (_, allocation) = self.live.range(..=address).next_back()?;
        allocation.holds(address, 1).then_some(allocation)
    }

    pub(crate) fn alloc_device(&mut self, bytes: usize, owner: Owner) -> Result<usize, CuError> {
        let taken = size(bytes, DEVICE_ALIGN)?;
        self.take_vram(owner.device, taken)?;
        let Some(base) = self.device_arena.take(taken, DEVICE_ALIGN) else {
            self.return_vram(owner.device, taken);
            return Err(CuError::OUT_OF_MEMORY);
        };
        COUNTERS.device_allocs.one();
        COUNTERS
            .device_bytes
            .rise(taken, &COUNTERS.device_bytes_peak);
        self.record(Allocation {
            id: 0,
            base,
            bytes,
            taken,
            kind: Kind::Device,
            owner,
            flags: 0,
            blocks: Vec::new(),
        });
        Ok(base)
    }

    pub(crate) fn alloc_managed(
        &mut self,
        bytes: usize,
        flags: u32,
        owner: Owner,
    ) -> Result<usize, CuError> {
        let taken = size(bytes, BLOCK)?;
        let base = self
            .managed_arena
            .take(taken, BLOCK)
            .ok_or(CuError::OUT_OF_MEMORY)?;
        self.managed.open_to_program(base, taken);
        COUNTERS.managed_allocs.one();
        COUNTERS
            .managed_bytes
            .rise(bytes, &COUNTERS.managed_bytes_peak);
        self.record(Allocation {
            id: 0,
            base,
            bytes,
            taken,
            kind: Kind::Managed,
            owner,
            flags,
            blocks: blocks_of(bytes),
        });
        Ok(base)
    }

    pub(crate) fn alloc_host(
        &mut self,
        bytes: usize,
        flags: u32,
        owner: Owner,
    ) -> Result<usize, CuError> {
        let taken = size(bytes, PAGE)?;
        let base = mapping::host_pages(taken).ok_or(CuError::OUT_OF_MEMORY)?;
        self.record(Allocation {
            id: 0,
            base,
            bytes,
            taken,
            kind: Kind::Pinned,
            owner,
            flags,
            blocks: Vec::new(),
        });
        Ok(base)
    }

    pub(crate) fn register(
        &mut self,
        base: usize,
        bytes: usize,
        flags: u32,
        owner: Owner,
    ) -> Result<(), CuError> {
        let end = base.checked_add(bytes).ok_or(CuError::INVALID_VALUE)?;
        let overlaps = |other: &Allocation| other.base < end && base < other.base + other.bytes;
        if self
            .live
            .range(..end)
            .next_back()
            .is_some_and(|(_, other)| overlaps(other))
        {
            return Err(CuError::HOST_MEMORY_ALREADY_REGISTERED);
        }
        self.record(Allocation {
            id: 0,
            base,
            bytes,
            taken: 0,
            kind: Kind::Registered,
            owner,
            flags,
            blocks: Vec::new(),
        });
        Ok(())
    }

    fn record(&mut self, mut allocation: Allocation) {
        allocation.id = self.next_id;
        self.next_id += 1;
        self.live.insert(allocation.base, allocation);
    }

    /// The allocation that starts there, if its kind is one of those.
    pub(crate) fn starting_at(&self, base: usize, kinds: &[Kind]) -> Option<&Allocation> {
        self.live
            .get(&base)
            .filter(|allocation| kinds.contains(&allocation.kind))
    }

    /// Ends an allocation. Its addresses may be given out again at once, so no work may be using it: callers wait first.
    pub(crate) fn free(&mut self, base: usize) {
        let indices = 0..self
            .live
            .get(&base)
            .map_or(0, |allocation| allocation.blocks.len());
        for index in indices {
            self.forget_block(base, index);
        }
        let Some(gone) = self.live.remove(&base) else {
            return;
        };
        COUNTERS.frees.one();
        match gone.kind {
            Kind::Device => {
                self.device.empty(base, gone.taken);
                self.device_arena.give(base, gone.taken);
                self.return_vram(gone.owner.device, gone.taken);
                COUNTERS.device_bytes.fall(gone.taken);
            }
            Kind::Managed => {
                self.managed.empty(base, gone.taken);
                self.managed_arena.give(base, gone.taken);
                COUNTERS.managed_bytes.fall(gone.bytes);
            }
            Kind::Pinned => drop_pinned(&gone),
            Kind::Registered => {}
        }
    }

    pub(crate) fn free_of_context(&mut self, context: Handle) {
        let theirs: Vec<usize> = self
            .live
            .values()
            .filter(|allocation| allocation.owner.context == context)
            .map(|gone| gone.base)
            .collect();
        for base in theirs {
            self.free(base);
        }
    }

    /// Room for device memory; managed memory makes way.
    pub(crate) fn take_vram(&mut self, device: usize, bytes: usize) -> Result<(), CuError> {
        if !self.make_room(device, bytes, None) {
            return Err(CuError::OUT_OF_MEMORY);
        }
        let gpu = self.gpus.get_mut(device).ok_or(CuError::INVALID_DEVICE)?;
        gpu.device_bytes += bytes;
        Ok(())
    }

    pub(crate) fn return_vram(&mut self, device: usize, bytes: usize) {
        if let Some(gpu) = self.gpus.get_mut(device) {
            gpu.device_bytes -= bytes;
        }
    }

    /// What is in a range of managed memory is gone.
    pub(crate) fn lose(&self, start: usize, bytes: usize) {
        self.managed.fill(start, bytes, LOST);
    }

    /// The driver's own address of an address in a live allocation.
    pub(crate) fn alias(&self, address: usize, kind: Kind) -> usize {
        match kind {
            Kind::Device => self.device.alias(address),
            Kind::Managed => self.managed.alias(address),
            Kind::Pinned | Kind::Registered => address,
        }
    }
}

#[expect(unsafe_code, reason = "unmaps pinned host memory")]
fn drop_pinned(gone: &Allocation) {
    // SAFETY: base and taken are what host_pages gave for this allocation, and callers of `free` have waited for all work.
    unsafe { mapping::drop_host_pages(gone.base, gone.taken) };
}

/// A size as it is taken: not zero, not absurd, in whole units.
fn size(bytes: usize, unit: usize) -> Result<usize, CuError> {
    if bytes == 0 {
        return Err(CuError::INVALID_VALUE);
    }
    bytes
        .checked_next_multiple_of(unit)
        .ok_or(CuError::OUT_OF_MEMORY)
}
