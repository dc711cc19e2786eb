//! A set of ranges of numbers, from which the best fit is taken: the smallest that is long enough,
//! and of those the lowest.
//!
//! Depends on nothing but what is in the set, so the same requests get the same ranges every time.

use alloc::collections::{BTreeMap, BTreeSet};

/// Disjoint ranges; neighbours are always one range.
#[derive(Debug, Default, Clone)]
pub struct Ranges {
    by_start: BTreeMap<u64, u64>,
    by_length: BTreeSet<(u64, u64)>,
    total: u64,
}

impl Ranges {
    /// An empty set.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            by_start: BTreeMap::new(),
            by_length: BTreeSet::new(),
            total: 0,
        }
    }

    /// How many numbers are in the set.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.total
    }

    /// Whether the set is empty.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.total == 0
    }

    /// The longest range's length.
    #[must_use]
    pub fn longest(&self) -> u64 {
        self.by_length.last().map_or(0, |&(length, _)| length)
    }

    /// Adds `start..start + length`, none of which may be in the set yet. Returns the range that
    /// it has become part of.
    pub fn insert(&mut self, start: u64, length: u64) -> (u64, u64) {
        if length == 0 {
            return (start, 0);
        }
        self.total += length;
        let (mut first, mut end) = (start, start + length);
        if let Some((&s, &l)) = self.by_start.range(..start).next_back() {
            debug_assert!(s + l <= start, "inserted twice");
            if s + l == start {
                self.unlist(s, l);
                first = s;
            }
        }
        if let Some(&l) = self.by_start.get(&end) {
            self.unlist(end, l);
            end += l;
        }
        self.list(first, end - first);
        (first, end - first)
    }

    /// Where [`Self::take`] would take from.
    #[must_use]
    pub fn best(&self, length: u64) -> Option<u64> {
        Some(self.by_length.range((length, 0)..).next()?.1)
    }

    /// Whether all of `start..start + length` is in the set.
    #[must_use]
    pub fn contains(&self, start: u64, length: u64) -> bool {
        self.by_start
            .range(..=start)
            .next_back()
            .is_some_and(|(s, l)| start + length <= s + l)
    }

    /// Takes `length` numbers out of the range that fits best; returns the first.
    pub fn take(&mut self, length: u64) -> Option<u64> {
        if length == 0 {
            return None;
        }
        let &(found, start) = self.by_length.range((length, 0)..).next()?;
        self.unlist(start, found);
        if found > length {
            self.list(start + length, found - length);
        }
        self.total -= length;
        Some(start)
    }

    /// Removes whatever of `start..start + length` is in the set.
    pub fn remove(&mut self, start: u64, length: u64) {
        let end = start + length;
        while let Some((s, l)) = self.first_overlap(start, end) {
            self.unlist(s, l);
            self.total -= l;
            if s < start {
                self.list(s, start - s);
                self.total += start - s;
            }
            if s + l > end {
                self.list(end, s + l - end);
                self.total += s + l - end;
            }
        }
    }

    /// The ranges, in order: (first, length).
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.by_start.iter().map(|(&s, &l)| (s, l))
    }

    /// The length of the range that begins exactly at `start`.
    #[must_use]
    pub fn starting_at(&self, start: u64) -> Option<u64> {
        self.by_start.get(&start).copied()
    }

    /// Moves every range of `other` into this set.
    pub fn absorb(&mut self, other: &mut Self) {
        for (start, length) in core::mem::take(other).iter() {
            self.insert(start, length);
        }
    }

    fn first_overlap(&self, start: u64, end: u64) -> Option<(u64, u64)> {
        let before = self.by_start.range(..=start).next_back();
        let after = self.by_start.range(start..).next();
        [before, after]
            .into_iter()
            .flatten()
            .map(|(&s, &l)| (s, l))
            .find(|&(s, l)| s < end && s + l > start)
    }

    fn list(&mut self, start: u64, length: u64) {
        self.by_start.insert(start, length);
        self.by_length.insert((length, start));
    }

    fn unlist(&mut self, start: u64, length: u64) {
        self.by_start.remove(&start);
        self.by_length.remove(&(length, start));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn the_smallest_fit_is_taken_and_the_lowest_of_equals() {
        let mut ranges = Ranges::new();
        ranges.insert(100, 4);
        ranges.insert(0, 10);
        ranges.insert(50, 4);
        assert_eq!(ranges.take(3), Some(50));
        assert_eq!(ranges.take(4), Some(100));
        assert_eq!(ranges.take(11), None);
        assert_eq!(ranges.total(), 11);
    }

    #[test]
    fn neighbours_become_one() {
        let mut ranges = Ranges::new();
        ranges.insert(0, 4);
        ranges.insert(8, 4);
        assert_eq!(ranges.insert(4, 4), (0, 12));
        assert_eq!(ranges.iter().collect::<Vec<_>>(), [(0, 12)]);
    }

    #[test]
    fn random_operations_agree_with_a_bitmap() {
        for seed in 0..200_u64 {
            let mut random = crate::pool::tests::Random(seed);
            let mut ranges = Ranges::new();
            let mut bits = [false; 256];
            for _ in 0..300 {
                let start = random.below(256);
                let length = 1 + random.below(12.min(256 - start));
                let span = || (start..start + length).map(|i| usize::try_from(i).unwrap());
                match random.below(3) {
                    0 if span().all(|i| !bits[i]) => {
                        ranges.insert(start, length);
                        span().for_each(|i| bits[i] = true);
                    }
                    1 => {
                        ranges.remove(start, length);
                        span().for_each(|i| bits[i] = false);
                    }
                    _ => {
                        if let Some(first) = ranges.take(length) {
                            for i in first..first + length {
                                let i = usize::try_from(i).unwrap();
                                assert!(core::mem::take(&mut bits[i]), "took what was not there");
                            }
                        }
                    }
                }
                let count = bits.iter().filter(|b| **b).count();
                assert_eq!(ranges.total(), count as u64);
                let ends: Vec<_> = ranges.iter().collect();
                assert!(ends.windows(2).all(|w| w[0].0 + w[0].1 < w[1].0));
                assert_eq!(ends.iter().map(|r| r.1).sum::<u64>(), count as u64);
                for (s, l) in ends {
                    assert!((s..s + l).all(|i| bits[usize::try_from(i).unwrap()]));
                }
            }
        }
    }
}
