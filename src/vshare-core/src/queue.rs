//! A queue of blocks, each at most once, from which any can be taken in constant time.

use crate::block::BlockId;
use alloc::vec::Vec;

#[derive(Clone, Copy, Debug, Default)]
struct Link {
    queued: bool,
    /// Neighbours; meaningful while `queued`.
    older: Option<BlockId>,
    newer: Option<BlockId>,
}

/// Blocks in the order in which they were added.
#[derive(Debug, Default)]
pub struct Queue {
    links: Vec<Link>,
    oldest: Option<BlockId>,
    newest: Option<BlockId>,
}

impl Queue {
    /// An empty queue.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            links: Vec::new(),
            oldest: None,
            newest: None,
        }
    }

    /// The block added longest ago.
    #[must_use]
    pub const fn oldest(&self) -> Option<BlockId> {
        self.oldest
    }

    /// The block added next after a queued one.
    #[must_use]
    pub fn after(&self, id: BlockId) -> Option<BlockId> {
        self.links.get(id.index())?.newer
    }

    /// Whether a block is in the queue.
    #[must_use]
    pub fn has(&self, id: BlockId) -> bool {
        self.links.get(id.index()).is_some_and(|l| l.queued)
    }

    /// Adds a block at the end; one that is in the queue moves there.
    pub fn add(&mut self, id: BlockId) {
        if self.newest == Some(id) {
            return;
        }
        self.remove(id);
        if id.index() >= self.links.len() {
            self.links.resize(id.index() + 1, Link::default());
        }
        let older = self.newest;
        match older.and_then(|o| self.links.get_mut(o.index())) {
            Some(link) => link.newer = Some(id),
            None => self.oldest = Some(id),
        }
        if let Some(link) = self.links.get_mut(id.index()) {
            *link = Link {
                queued: true,
                older,
                newer: None,
            };
        }
        self.newest = Some(id);
    }

    /// Takes a block out, if it is in the queue.
    pub fn remove(&mut self, id: BlockId) {
        let Some(link) = self.links.get_mut(id.index()).filter(|l| l.queued) else {
            return;
        };
        let Link { older, newer, .. } = core::mem::take(link);
        match older.and_then(|o| self.links.get_mut(o.index())) {
            Some(link) => link.newer = newer,
            None => self.oldest = newer,
        }
        match newer.and_then(|n| self.links.get_mut(n.index())) {
            Some(link) => link.older = older,
            None => self.newest = older,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_operations_agree_with_a_list() {
        let mut random = crate::pool::tests::Random(1);
        let (mut queue, mut list) = (Queue::new(), Vec::new());
        for _ in 0..5000 {
            let id = BlockId::new(u32::try_from(random.below(12)).unwrap());
            list.retain(|&other| other != id);
            if random.below(3) > 0 {
                queue.add(id);
                list.push(id);
            } else {
                queue.remove(id);
            }
            let walk = core::iter::successors(queue.oldest(), |&id| queue.after(id));
            assert_eq!(walk.collect::<Vec<_>>(), list);
            assert_eq!(queue.has(id), list.contains(&id));
        }
    }
}
