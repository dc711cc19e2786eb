//! Memory as running work reaches it: checked against the live allocations when it starts, faulted in, and held until it ends.
#![expect(
    unsafe_code,
    reason = "reads and writes the memory that kernels, copies and memsets work on"
)]

use crate::cuda::CuError;
use crate::handles::lock;
use crate::machine;
use crate::memory::{Kind, Memory};
use crate::residency::blocks_in;
use crate::stats::COUNTERS;
use std::ptr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Engine {
    /// Reaches its own device's memory only.
    Kernel,
    /// Reaches every device's.
    Copy,
}

/// One piece of work under way on a device, and the blocks it uses.
#[derive(Debug)]
pub(crate) struct Run {
    device: usize,
    engine: Engine,
    used: Vec<(u64, usize, usize)>,
}

/// A checked range, by the driver's own address.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    alias: usize,
    len: usize,
}

impl Run {
    pub(crate) fn new(device: usize, engine: Engine) -> Self {
        Self {
            device,
            engine,
            used: Vec::new(),
        }
    }

    /// The range, if it lies in one live allocation that this device can reach.
    pub(crate) fn span(
        &mut self,
        start: usize,
        len: usize,
        access: Access,
    ) -> Result<Span, CuError> {
        if len == 0 {
            return Ok(Span { alias: 0, len: 0 });
        }
        let mut memory = lock(&machine::machine()?.memory);
        self.reach(&mut memory, start, len, access)
            .inspect_err(|_| COUNTERS.illegal_accesses.one())
    }

    /// `count` elements of `size` bytes, aligned as the device wants them.
    pub(crate) fn elements(
        &mut self,
        start: usize,
        count: usize,
        size: usize,
        access: Access,
    ) -> Result<Span, CuError> {
        if !start.is_multiple_of(size) {
            return Err(CuError::MISALIGNED_ADDRESS);
        }
        self.span(
            start,
            count.checked_mul(size).ok_or(CuError::ILLEGAL_ADDRESS)?,
            access,
        )
    }

    fn reach(
        &mut self,
        memory: &mut Memory,
        start: usize,
        len: usize,
        access: Access,
    ) -> Result<Span, CuError> {
        let found = memory
            .find(start)
            .filter(|allocation| allocation.holds(start, len))
            .ok_or(CuError::ILLEGAL_ADDRESS)?;
        if found.kind == Kind::Device
            && self.engine == Engine::Kernel
            && found.owner.device != self.device
        {
            return Err(CuError::ILLEGAL_ADDRESS);
        }
        let span = Span {
            alias: memory.alias(start, found.kind),
            len,
        };
        if found.kind == Kind::Managed {
            let (id, base, blocks) = (found.id, found.base, blocks_in(found, start, len));
            for index in blocks {
                memory.touch(base, index, self.device, access == Access::Write);
                if let Some(block) = memory.block_mut(base, index) {
                    block.users += 1;
                    self.used.push((id, base, index));
                }
            }
        }
        Ok(span)
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let Ok(machine) = machine::machine() else {
            return;
        };
        if self.used.is_empty() {
            return;
        }
        let mut memory = lock(&machine.memory);
        for (id, base, index) in self.used.drain(..) {
            if memory
                .live
                .get(&base)
                .is_some_and(|allocation| allocation.id == id)
                && let Some(block) = memory.block_mut(base, index)
            {
                block.users -= 1;
            }
        }
    }
}

/// Elements by index; an index past the end reads zero and writes nothing. Atomic, because programs race and Rust must not care.
impl Span {
    fn word<T>(self, index: usize) -> Option<*mut T> {
        let (at, size) = (index.checked_mul(size_of::<T>())?, size_of::<T>());
        let inside = at.checked_add(size).is_some_and(|end| end <= self.len);
        inside.then(|| ptr::with_exposed_provenance_mut(self.alias + at))
    }

    fn atomic_u32<'a>(self, index: usize) -> Option<&'a AtomicU32> {
        let word = self.word(index)?;
        // SAFETY: inside a span that was live and aligned for its elements when it was checked. Mappings
        // stay for good, and host memory is freed only after the work that uses it.
        Some(unsafe { AtomicU32::from_ptr(word) })
    }

    fn atomic_u64<'a>(self, index: usize) -> Option<&'a AtomicU64> {
        let word = self.word(index)?;
        // SAFETY: as in atomic_u32.
        Some(unsafe { AtomicU64::from_ptr(word) })
    }

    pub(crate) fn u32_at(self, index: usize) -> u32 {
        self.atomic_u32(index)
            .map_or(0, |word| word.load(Ordering::Relaxed))
    }

    pub(crate) fn set_u32(self, index: usize, value: u32) {
        if let Some(word) = self.atomic_u32(index) {
            word.store(value, Ordering::Relaxed);
        }
    }

    pub(crate) fn u64_at(self, index: usize) -> u64 {
        self.atomic_u64(index)
            .map_or(0, |word| word.load(Ordering::Relaxed))
    }

    pub(crate) fn set_u64(self, index: usize, value: u64) {
        if let Some(word) = self.atomic_u64(index) {
            word.store(value, Ordering::Relaxed);
        }
    }

    pub(crate) fn fill(self, byte: u8) {
        // SAFETY: the whole span was live when checked; its mapping stays.
        unsafe {
            ptr::write_bytes(
                ptr::with_exposed_provenance_mut::<u8>(self.alias),
                byte,
                self.len,
            )
        };
    }

    /// Repeats the pattern, doubling what is there already.
    pub(crate) fn fill_with(self, pattern: &[u8]) {
        let first = pattern.len().min(self.len);
        self.put(pattern);
        let mut done = first;
        while done > 0 && done < self.len {
            let piece = Self {
                alias: self.alias,
                len: done.min(self.len - done),
            };
            Self {
                alias: self.alias + done,
                len: piece.len,
            }
            .copy_from(piece);
            done += piece.len;
        }
    }

    pub(crate) fn put(self, bytes: &[u8]) {
        // SAFETY: no more than either holds; the program's memory is not part of a slice of ours.
        unsafe {
            ptr::copy(
                bytes.as_ptr(),
                ptr::with_exposed_provenance_mut(self.alias),
                bytes.len().min(self.len),
            )
        };
    }

    /// As many bytes as both have; they may overlap.
    pub(crate) fn copy_from(self, from: Self) {
        let (source, target) = (
            ptr::with_exposed_provenance::<u8>(from.alias),
            ptr::with_exposed_provenance_mut::<u8>(self.alias),
        );
        // SAFETY: both spans were live when checked, and the count is within both.
        unsafe { ptr::copy(source, target, self.len.min(from.len)) };
    }

    /// Pageable memory of the program's own, which no table knows.
    ///
    /// # Safety
    /// The program gave these addresses to a copy, so CUDA's contract makes them readable or writable until it is done.
    pub(crate) unsafe fn of_host(start: usize, len: usize) -> Self {
        Self { alias: start, len }
    }

    pub(crate) fn bytes(self) -> Vec<u8> {
        let mut copy = vec![0; self.len];
        // SAFETY: the span was live when checked; the copy is as long.
        unsafe {
            ptr::copy_nonoverlapping(
                ptr::with_exposed_provenance::<u8>(self.alias),
                copy.as_mut_ptr(),
                self.len,
            )
        };
        copy
    }
}
