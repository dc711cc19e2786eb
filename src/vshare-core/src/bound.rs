//! The fewest bytes that any policy could move for a trace under a budget, and the plan that moves so few.
//!
//! Managed memory has no dirty bit: data that leaves is copied out, and copied in when it is used again, so
//! each gap between two uses costs a fixed amount or nothing. With pages of one size, letting that leave
//! whose next use is furthest (Belady) is then optimal. All pages of a block are used together, so a count
//! of resident pages for each block is enough.
//!
//! What costs nothing: freed data; a block's first use, which finds nothing worth bringing in; and data
//! that nothing uses again before it is freed. Only the future tells the last from the rest, so a
//! policy that copies it out moves more than the bound, and could not know better.
//!
//! Work that names more pages than the budget streams the excess: those pages come in for it and go out
//! after it, each time, and take no room.

use crate::trace::{Event, Trace, Window};
use crate::units::PAGE;
use alloc::collections::BinaryHeap;
use alloc::vec;
use alloc::vec::Vec;

/// No use comes any more.
const NEVER: u64 = u64::MAX;

/// Pages that come in for a piece of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct In {
    /// The work.
    pub work: usize,
    /// Whose pages.
    pub block: usize,
    /// How many.
    pub pages: u64,
    /// Whether they hold data. A first use does not.
    pub copied: bool,
    /// Whether they take no room, for which there is none.
    pub streamed: bool,
    /// Pages of the block that must have left, in all, before these can come back.
    pub after_out: u64,
}

/// Pages that leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Out {
    /// The work that used them last.
    pub after: usize,
    /// The work that needs their room.
    pub before: usize,
    /// Whose pages.
    pub block: usize,
    /// How many.
    pub pages: u64,
    /// Whether anybody will want them again.
    pub copied: bool,
    /// Whether they took no room.
    pub streamed: bool,
}

/// Resident pages that a free gives back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Freed {
    /// Pieces of work before it.
    pub works: usize,
    /// How many.
    pub pages: u64,
}

/// Moves that keep to a budget, each list in the order of the work it is for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// What comes in.
    pub ins: Vec<In>,
    /// What leaves.
    pub outs: Vec<Out>,
    /// What is freed while it is in.
    pub freed: Vec<Freed>,
    /// Pages that are in during each piece of work.
    pub resident: Vec<u64>,
}

impl Plan {
    /// Bytes copied in and out for the work from `first` on.
    #[must_use]
    pub fn bytes(&self, first: usize) -> (u64, u64) {
        let ins = self.ins.iter().filter(|i| i.copied && i.work >= first);
        let outs = self.outs.iter().filter(|o| o.copied && o.before >= first);
        (
            ins.map(|i| i.pages * PAGE).sum(),
            outs.map(|o| o.pages * PAGE).sum(),
        )
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Place {
    /// Pages that are in.
    here: u64,
    /// Whether any work has used it.
    used: bool,
    last: usize,
    next: u64,
    /// Pages that have left, in all.
    left: u64,
}

/// Plans with the whole future known.
#[must_use]
pub fn plan(trace: &Trace, budget: u64, window: &Window) -> Plan {
    let mut belady = Belady {
        trace,
        budget,
        resident: 0,
        places: vec![Place::default(); trace.blocks().len()],
        queue: BinaryHeap::new(),
        plan: Plan::default(),
    };
    let next = next_uses(trace, window);
    let mut works = 0;
    for &event in trace.events() {
        match event {
            Event::Free(block) => belady.free(block, works),
            Event::Work(work) => {
                works = work + 1;
                belady.work(work, next.get(work).map_or(&[], Vec::as_slice));
            }
            Event::Alloc(_) | Event::Sync => {}
        }
    }
    belady.plan
}

/// For each piece of each work, the work that uses its block next. Where the trace repeats itself, what is
/// there at its end and older than the last step will be used as in that step.
fn next_uses(trace: &Trace, window: &Window) -> Vec<Vec<u64>> {
    let mut next = vec![NEVER; trace.blocks().len()];
    if let Some(period) = window.period {
        let last_step = trace.works().len().saturating_sub(period);
        let mut freed = vec![false; trace.blocks().len()];
        for &event in trace.events() {
            if let Event::Free(block) = event
                && let Some(freed) = freed.get_mut(block)
            {
                *freed = true;
            }
        }
        for (number, work) in trace.works().iter().enumerate().skip(last_step).rev() {
            for &block in trace.pieces(work) {
                let old = trace
                    .blocks()
                    .get(block)
                    .is_some_and(|b| b.born < last_step);
                let stays = freed.get(block) == Some(&false);
                if let Some(next) = next.get_mut(block).filter(|_| old && stays) {
                    *next = (number + period) as u64;
                }
            }
        }
    }
    let mut uses: Vec<Vec<u64>> = trace
        .works()
        .iter()
        .enumerate()
        .rev()
        .map(|(number, work)| {
            let of_piece = |&block: &usize| {
                next.get_mut(block)
                    .map_or(NEVER, |n| core::mem::replace(n, number as u64))
            };
            trace.pieces(work).iter().map(of_piece).collect()
        })
        .collect();
    uses.reverse();
    uses
}

struct Belady<'a> {
    trace: &'a Trace,
    budget: u64,
    resident: u64,
    places: Vec<Place>,
    /// Blocks by their next use; entries that no longer hold are passed over.
    queue: BinaryHeap<(u64, usize)>,
    plan: Plan,
}

impl Belady<'_> {
    fn free(&mut self, block: usize, works: usize) {
        let Some(place) = self.places.get_mut(block) else {
            return;
        };
        let pages = core::mem::take(&mut place.here);
        self.resident -= pages;
        if pages > 0 {
            self.plan.freed.push(Freed { works, pages });
        }
    }

    fn work(&mut self, work: usize, next: &[u64]) {
        let Some(submitted) = self.trace.works().get(work) else {
            return;
        };
        let mut pieces: Vec<(u64, usize)> = next
            .iter()
            .copied()
            .zip(self.trace.pieces(submitted).iter().copied())
            .collect();
        let total: u64 = pieces.iter().map(|p| self.trace.pages(p.1)).sum();
        let mut excess = total.saturating_sub(self.budget);
        let missing: u64 = pieces.iter().map(|p| self.missing(p.1)).sum();
        self.make_room(missing.saturating_sub(excess), work, &pieces);
        // What is wanted again last is what does not stay.
        pieces.sort_unstable_by(|a, b| b.cmp(a));
        for &(next, block) in &pieces {
            let streamed = excess.min(self.missing(block));
            excess -= streamed;
            self.bring(work, next, block, streamed);
        }
        self.plan.resident.push(self.resident);
    }

    fn missing(&self, block: usize) -> u64 {
        let here = self.places.get(block).map_or(0, |p| p.here);
        self.trace.pages(block) - here
    }

    fn bring(&mut self, work: usize, next: u64, block: usize, streamed: u64) {
        let missing = self.missing(block);
        let Some(place) = self.places.get_mut(block) else {
            return;
        };
        let stay = missing - streamed;
        for (pages, streamed) in [(stay, false), (streamed, true)] {
            if pages > 0 {
                self.plan.ins.push(In {
                    work,
                    block,
                    pages,
                    copied: place.used,
                    streamed,
                    after_out: place.left,
                });
            }
        }
        if streamed > 0 {
            place.left += streamed;
            self.plan.outs.push(Out {
                after: work,
                before: work + 1,
                block,
                pages: streamed,
                copied: next != NEVER,
                streamed: true,
            });
        }
        place.here += stay;
        self.resident += stay;
        place.used = true;
        place.last = work;
        place.next = next;
        self.queue.push((next, block));
    }

    fn make_room(&mut self, pages: u64, work: usize, keep: &[(u64, usize)]) {
        let mut kept = Vec::new();
        while self.resident + pages > self.budget {
            let Some((next, block)) = self.queue.pop() else {
                break;
            };
            let Some(place) = self.places.get_mut(block) else {
                continue;
            };
            if place.here == 0 || place.next != next {
                continue;
            }
            if keep.iter().any(|k| k.1 == block) {
                kept.push((next, block));
                continue;
            }
            let goes = place.here.min(self.resident + pages - self.budget);
            place.here -= goes;
            place.left += goes;
            self.resident -= goes;
            self.plan.outs.push(Out {
                after: place.last,
                before: work,
                block,
                pages: goes,
                copied: next != NEVER,
                streamed: false,
            });
            if place.here > 0 {
                self.queue.push((next, block));
            }
        }
        self.queue.extend(kept);
    }
}

#[cfg(test)]
#[path = "bound_tests.rs"]
mod tests;
