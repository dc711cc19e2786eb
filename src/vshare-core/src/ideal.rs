//! The time that a trace takes when everything is known: the moves of [`crate::bound::plan`], each begun as
//! early as it can be.
//!
//! Work runs in its order. Pages leave as soon as their last use has ended, those first whose room is needed
//! first. They come in in the order of need, as early as the plan has room for them from then until they are
//! used; what is written for the first time takes its room when its work begins. A dead page's room is there at
//! once. Fewest bytes are not always least time: a plan that fills the budget leaves no room in which to
//! move ahead of need, so some of it is kept for that, as much as makes it fastest. Another plan may
//! still be a little faster; [`Ideal::least`] is what none can be faster than.

mod profile;

use crate::bound::{self, In, Out, Plan};
use crate::link::{Link, float, whole};
use crate::trace::{Trace, Window};
use crate::units::PAGE;
use alloc::collections::BinaryHeap;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;
use profile::{Profile, signed};

/// Pages in one move.
const PIECE: u64 = 16;

/// Times, in nanoseconds, of the part of a trace that counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ideal {
    /// What the best of the plans takes.
    pub time: u64,
    /// What the work takes with everything on the device.
    pub compute: u64,
    /// The longer of computing, and of moving everything, one direction after the other.
    pub sum: u64,
    /// The longer of computing, and of the busier direction: nothing is faster.
    pub least: u64,
}

/// Parts of the budget that are tried as room in which to move, in 1/64.
const RESERVES: [u64; 7] = [0, 1, 2, 4, 8, 16, 24];

/// The times for a budget in pages, of what counts.
#[must_use]
pub fn time(trace: &Trace, budget: u64, window: &Window, link: &Link) -> Ideal {
    let first = window.first;
    let compute = trace.works().iter().skip(first).map(|w| w.device_ns).sum();
    let (into, out) = bound::plan(trace, budget, window).bytes(first);
    let (into, out) = (float(into) / link.into, float(out) / link.out);
    let with_reserve = |part: u64| {
        let plan = bound::plan(trace, budget - budget * part / 64, window);
        Running::new(trace, &plan, budget, link).run(first)
    };
    Ideal {
        time: RESERVES
            .into_iter()
            .filter_map(with_reserve)
            .min()
            .unwrap_or(0),
        compute,
        sum: compute.max(whole(into + out)),
        least: compute.max(whole(into)).max(whole(out)),
    }
}

/// A move that is under way.
struct Move {
    left: f64,
    block: usize,
    pages: u64,
    /// Of something going out: the room that it makes.
    room: u64,
}

struct Running<'a> {
    trace: &'a Trace,
    plan: &'a Plan,
    link: &'a Link,
    budget: u64,
    now: f64,
    /// Pages that are in or coming in.
    resident: u64,
    /// The same at each piece of work, as far as it is known, once all that can leave has.
    profile: Profile,
    /// What is copied in, and the next of it, of which so many pages have been begun.
    ins: Vec<In>,
    next_in: usize,
    begun: u64,
    /// Pages that each piece of work writes for the first time.
    first: Vec<u64>,
    next_freed: usize,
    /// Outs by the work that they come after, and how many of them may go.
    by_last: Vec<(usize, usize)>,
    next_out: usize,
    /// Those that may go, by the work that needs their room, and the pages left of them.
    going: BinaryHeap<Reverse<(usize, usize, u64)>>,
    /// Pages of each block that have left.
    left: Vec<u64>,
    into: Option<Move>,
    out: Option<Move>,
    /// Work that runs, until when.
    until: Option<f64>,
    work: usize,
}

impl<'a> Running<'a> {
    fn new(trace: &'a Trace, plan: &'a Plan, budget: u64, link: &'a Link) -> Self {
        let mut by_last: Vec<_> = (0..).zip(&plan.outs).map(|(i, o)| (o.after, i)).collect();
        by_last.sort_unstable();
        let mut profile = Profile::new(&plan.resident);
        for out in plan.outs.iter().filter(|o| !o.streamed) {
            profile.add(out.after + 1..out.before, -signed(out.pages));
        }
        let mut first = vec![0; trace.works().len()];
        for into in plan.ins.iter().filter(|i| !i.copied && !i.streamed) {
            if let Some(first) = first.get_mut(into.work) {
                *first += into.pages;
            }
        }
        Self {
            trace,
            plan,
            link,
            budget,
            now: 0.0,
            resident: 0,
            profile,
            ins: plan.ins.iter().filter(|i| i.copied).copied().collect(),
            next_in: 0,
            begun: 0,
            first,
            next_freed: 0,
            by_last,
            next_out: 0,
            going: BinaryHeap::new(),
            left: vec![0; trace.blocks().len()],
            into: None,
            out: None,
            until: None,
            work: 0,
        }
    }

    fn run(mut self, first: usize) -> Option<u64> {
        let mut start = 0.0;
        self.free(0);
        while self.work < self.trace.works().len() {
            let before = self.work;
            self.begin();
            if !self.advance() {
                // Cannot be: a plan can always be carried out. No time is better than no end.
                return None;
            }
            if before < first && self.work >= first {
                start = self.now;
            }
        }
        Some(whole(self.now - start))
    }

    /// Begins all that can begin now.
    fn begin(&mut self) {
        loop {
            let out = self.out.is_none() && self.begin_out();
            let into = self.into.is_none() && self.begin_in();
            let work = self.until.is_none() && self.begin_work();
            if !(out || into || work) {
                return;
            }
        }
    }

    fn begin_work(&mut self) -> bool {
        let is_for_now = |into: Option<&In>| into.is_some_and(|i| i.work <= self.work);
        let wanted = is_for_now(self.ins.get(self.next_in));
        // The last that was begun may be under way still.
        let last = self.next_in.checked_sub(1).and_then(|i| self.ins.get(i));
        let coming = self.into.is_some() && self.begun == 0 && is_for_now(last);
        let first = self.first.get(self.work).copied().unwrap_or(0);
        let Some(work) = self.trace.works().get(self.work) else {
            return false;
        };
        if wanted || coming || self.resident + first > self.budget {
            return false;
        }
        self.resident += first;
        self.until = Some(self.now + float(work.device_ns));
        true
    }

    fn begin_in(&mut self) -> bool {
        let Some(&next) = self.ins.get(self.next_in) else {
            return false;
        };
        if self
            .left
            .get(next.block)
            .is_some_and(|&l| l < next.after_out)
        {
            return false;
        }
        let mut pages = PIECE.min(next.pages - self.begun);
        if !next.streamed {
            // During the work itself they are in the plan.
            let until = self.work.min(next.work)..next.work;
            let planned = self.profile.most(until.clone());
            let room = signed(self.budget) - planned.max(signed(self.resident));
            pages = pages.min(u64::try_from(room).unwrap_or(0));
            if pages == 0 {
                return false;
            }
            self.profile.add(until, signed(pages));
            self.resident += pages;
        }
        self.begun += pages;
        self.into = Some(Move {
            left: float(pages * PAGE),
            block: next.block,
            pages,
            room: 0,
        });
        if self.begun == next.pages {
            self.begun = 0;
            self.next_in += 1;
        }
        true
    }

    fn begin_out(&mut self) -> bool {
        let Some(Reverse((before, index, pages))) = self.going.pop() else {
            return false;
        };
        let Some(&Out {
            block, streamed, ..
        }) = self.plan.outs.get(index)
        else {
            return true;
        };
        let now = pages.min(PIECE);
        if pages > now {
            self.going.push(Reverse((before, index, pages - now)));
        }
        self.out = Some(Move {
            left: float(now * PAGE),
            block,
            pages: now,
            room: if streamed { 0 } else { now },
        });
        true
    }

    /// Goes on to the next end of anything. `false`: nothing is under way.
    fn advance(&mut self) -> bool {
        let (rate_in, rate_out) = self.link.rates(self.into.is_some(), self.out.is_some());
        let ends = [
            self.into.as_ref().map(|m| m.left / rate_in),
            self.out.as_ref().map(|m| m.left / rate_out),
            self.until.map(|until| until - self.now),
        ];
        let Some(step) = ends.into_iter().flatten().reduce(f64::min) else {
            return false;
        };
        let step = step.max(0.0);
        self.now += step;
        if let Some(mut moved) = self.into.take() {
            moved.left -= step * rate_in;
            self.into = (moved.left > 1.0).then_some(moved);
        }
        if let Some(mut moved) = self.out.take() {
            moved.left -= step * rate_out;
            if moved.left > 1.0 {
                self.out = Some(moved);
            } else {
                self.gone(moved.block, moved.pages, moved.room);
            }
        }
        if self.until.is_some_and(|until| until - self.now < 1e-3) {
            self.until = None;
            self.work += 1;
            self.ended(self.work - 1);
            self.free(self.work);
        }
        true
    }

    fn gone(&mut self, block: usize, pages: u64, room: u64) {
        self.resident = self.resident.saturating_sub(room);
        if let Some(left) = self.left.get_mut(block) {
            *left += pages;
        }
    }

    /// What was used last by this work may leave.
    fn ended(&mut self, work: usize) {
        while let Some(&(after, index)) = self.by_last.get(self.next_out)
            && after <= work
        {
            self.next_out += 1;
            let Some(&out) = self.plan.outs.get(index) else {
                continue;
            };
            if out.copied {
                self.going.push(Reverse((out.before, index, out.pages)));
            } else {
                self.gone(
                    out.block,
                    out.pages,
                    if out.streamed { 0 } else { out.pages },
                );
            }
        }
    }

    /// What is freed before the next work gives its room back.
    fn free(&mut self, works: usize) {
        while let Some(freed) = self.plan.freed.get(self.next_freed)
            && freed.works <= works
        {
            self.next_freed += 1;
            self.resident = self.resident.saturating_sub(freed.pages);
        }
    }
}
