//! Which addresses of a range are taken: first fit, neighbours joined when freed. Numbers only.

use std::collections::BTreeMap;

#[derive(Debug)]
pub(crate) struct Arena {
    free: BTreeMap<usize, usize>,
}

impl Arena {
    pub(crate) fn new(start: usize, len: usize) -> Self {
        Self {
            free: BTreeMap::from([(start, len)]),
        }
    }

    /// The lowest free range of `len` bytes at a multiple of `align`, which is a power of two.
    pub(crate) fn take(&mut self, len: usize, align: usize) -> Option<usize> {
        let fits = |(start, room): (&usize, &usize)| {
            let at = start.checked_next_multiple_of(align)?;
            (at - start)
                .checked_add(len)
                .filter(|needed| needed <= room)
                .map(|_| (*start, *room, at))
        };
        let (start, room, at) = self.free.iter().find_map(fits)?;
        self.free.remove(&start);
        if at > start {
            self.free.insert(start, at - start);
        }
        let rest = start + room - (at + len);
        if rest > 0 {
            self.free.insert(at + len, rest);
        }
        Some(at)
    }

    pub(crate) fn give(&mut self, mut start: usize, mut len: usize) {
        if let Some((&before, &room)) = self.free.range(..start).next_back()
            && before + room == start
        {
            self.free.remove(&before);
            start = before;
            len += room;
        }
        if let Some(room) = self.free.remove(&(start + len)) {
            len += room;
        }
        self.free.insert(start, len);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn freed_neighbours_become_one_range_again() {
        let mut arena = Arena::new(4096, 4096);
        let taken: Vec<_> = (0..4).filter_map(|_| arena.take(1024, 512)).collect();
        assert_eq!(taken, [4096, 5120, 6144, 7168]);
        assert_eq!(arena.take(1, 1), None);
        for at in [5120, 7168, 6144, 4096] {
            arena.give(at, 1024);
        }
        assert_eq!(arena.take(4096, 4096), Some(4096));
    }

    #[test]
    fn alignment_leaves_the_gap_usable() {
        let mut arena = Arena::new(4096, 8192);
        assert_eq!(arena.take(100, 512), Some(4096));
        assert_eq!(arena.take(4096, 4096), Some(8192));
        assert_eq!(arena.take(512, 512), Some(4608));
    }
}
