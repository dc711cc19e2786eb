//! Pages that are in during each piece of work: ranges are added to, and the most in a range is asked for.

use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

#[derive(Clone, Copy, Debug, Default)]
struct Node {
    /// Added to all below.
    add: i64,
    /// The most below, `add` included.
    most: i64,
}

/// A tree over the work: a node's children have twice its number, and one more.
#[derive(Debug)]
pub(super) struct Profile {
    nodes: Vec<Node>,
    width: usize,
}

impl Profile {
    pub(super) fn new(pages: &[u64]) -> Self {
        let width = pages.len().next_power_of_two();
        let mut profile = Self {
            nodes: vec![Node::default(); 2 * width],
            width,
        };
        for (node, &pages) in profile.nodes.iter_mut().skip(width).zip(pages) {
            node.most = signed(pages);
        }
        for node in (1..width).rev() {
            profile.sum_up(node);
        }
        profile
    }

    pub(super) fn add(&mut self, range: Range<usize>, pages: i64) {
        if !range.is_empty() {
            self.add_below(1, 0..self.width, &range, pages);
        }
    }

    pub(super) fn most(&self, range: Range<usize>) -> i64 {
        if range.is_empty() {
            return 0;
        }
        self.most_below(1, 0..self.width, &range)
    }

    fn add_below(&mut self, node: usize, here: Range<usize>, range: &Range<usize>, pages: i64) {
        if range.end <= here.start || here.end <= range.start {
            return;
        }
        if range.start <= here.start && here.end <= range.end {
            if let Some(node) = self.nodes.get_mut(node) {
                node.add += pages;
                node.most += pages;
            }
            return;
        }
        let middle = usize::midpoint(here.start, here.end);
        self.add_below(2 * node, here.start..middle, range, pages);
        self.add_below(2 * node + 1, middle..here.end, range, pages);
        self.sum_up(node);
    }

    fn most_below(&self, node: usize, here: Range<usize>, range: &Range<usize>) -> i64 {
        if range.end <= here.start || here.end <= range.start {
            return i64::MIN / 2;
        }
        let Some(&Node { add, most }) = self.nodes.get(node) else {
            return 0;
        };
        if range.start <= here.start && here.end <= range.end {
            return most;
        }
        let middle = usize::midpoint(here.start, here.end);
        let lower = self.most_below(2 * node, here.start..middle, range);
        let upper = self.most_below(2 * node + 1, middle..here.end, range);
        add + lower.max(upper)
    }

    fn sum_up(&mut self, node: usize) {
        let most = |child: usize| self.nodes.get(child).map_or(0, |n| n.most);
        let below = most(2 * node).max(most(2 * node + 1));
        if let Some(node) = self.nodes.get_mut(node) {
            node.most = node.add + below;
        }
    }
}

/// Pages as a number that may become less than none.
pub(super) fn signed(pages: u64) -> i64 {
    i64::try_from(pages).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::tests::Random;

    #[test]
    fn random_operations_agree_with_a_list() {
        let mut random = Random(4);
        for length in [1, 2, 7, 33] {
            let pages: Vec<u64> = (0..length).map(|_| random.below(100)).collect();
            let mut list: Vec<i64> = pages.iter().copied().map(signed).collect();
            let mut profile = Profile::new(&pages);
            for _ in 0..200 {
                let mut ends = [random.below(length), random.below(length)];
                ends.sort_unstable();
                let range =
                    usize::try_from(ends[0]).unwrap()..usize::try_from(ends[1] + 1).unwrap();
                let most = list[range.clone()].iter().max();
                assert_eq!(Some(&profile.most(range.clone())), most);
                let pages = signed(random.below(50)) - 25;
                profile.add(range.clone(), pages);
                list[range].iter_mut().for_each(|p| *p += pages);
            }
        }
    }
}
