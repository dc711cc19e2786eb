//! What leaves the device and what comes back, and when, if things go as forecast.
//!
//! **What.** The forecast is gone through once, as if there were nothing but the budget. Where an operation
//! lacks room, pages leave of the block whose next use is furthest (Belady, "A study of replacement algorithms for
//! a virtual-storage computer", 1966, which is least possible for pages that all cost the same). A block that will be freed before
//! it is used again costs one copy, not two, and counts as twice as far.
//!
//! **When.** Pages that are to leave may do so as soon as the block's last use before the gap has ended: the room
//! is wanted later, and the link is free now. Pages that are to come back may come as early as nothing between
//! then and their use wants the room, in the order in which they are needed.
//!
//! Nothing here is binding. What is carried out is checked against the residency that is; a plan that has
//! gone wrong costs speed.

#![expect(
    clippy::indexing_slicing,
    reason = "every index is of a slot or a step that this file has made"
)]

use crate::block::BlockId;
use crate::forecast::Forecast;
use crate::history::Kind;
use alloc::collections::BinaryHeap;
use alloc::vec::Vec;

/// Pages of a block are to leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leaving {
    /// The block's slot.
    pub slot: u32,
    /// How many of its pages stay.
    pub keep: u64,
    /// The operation with its last use; `None`: it has been used last before the plan begins.
    pub after: Option<u32>,
    /// The operation that wants the room.
    pub due: u32,
}

/// Pages of a block are to come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coming {
    /// The block's slot.
    pub slot: u32,
    /// How many of its pages are to be there then.
    pub have: u64,
    /// How many of these this piece is.
    pub pages: u64,
    /// The operation before which there is no room for them.
    pub from: u32,
    /// The operation that uses them.
    pub need: u32,
}

/// A block in a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Slot {
    /// The block and the number of its life, once it lives.
    pub block: Option<(BlockId, u64)>,
    /// The operations that use it, in order.
    pub uses: Vec<u32>,
}

/// What to do during the next operations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// All blocks.
    pub slots: Vec<Slot>,
    /// What leaves, in the order of `after`.
    pub leaving: Vec<Leaving>,
    /// What comes, in the order of `need`.
    pub coming: Vec<Coming>,
    /// The slots that are born: (operation, slot), in order.
    pub births: Vec<(u32, u32)>,
    /// How many operations it covers.
    pub span: u32,
    /// Pages that leave, and that come back.
    pub pages_out: u64,
    /// See `pages_out`.
    pub pages_in: u64,
}

/// Operations that a plan covers at least: a short stretch is repeated.
const LEAST: usize = 1024;

/// Operations ahead of its use from which a block comes back at most.
const AHEAD: u32 = 8192;

/// Pages that come as one piece.
const PIECE: u64 = 16;

/// Never used again within the plan.
const NEVER: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct State {
    pages: u64,
    here: u64,
    /// Of what is not here, how much is in host memory.
    host: u64,
    /// Whether it lives.
    lives: bool,
    /// Its next use, and when it dies; [`NEVER`].
    next: u32,
    dies: u32,
    last: Option<u32>,
    /// How far away it counted when it was last looked at.
    key: u64,
    /// The last operation that was found to use it.
    stamp: u32,
    /// Since when it is not all here.
    left: u32,
}

/// The forecast's steps over and over, with slots in the places of parts.
#[derive(Debug, Default)]
struct Events {
    kinds: Vec<Kind>,
    ends: Vec<usize>,
    uses: Vec<u32>,
    /// How many operations are planned for. The rest only tells what comes after.
    span: usize,
}

impl Events {
    fn of(&self, step: usize) -> &[u32] {
        let start = if step == 0 { 0 } else { self.ends[step - 1] };
        &self.uses[start..self.ends[step]]
    }
}

impl Plan {
    /// Plans for what is forecast. `slack`: pages of the budget that are not planned with.
    #[must_use]
    pub fn new(forecast: &Forecast, slack: u64) -> Self {
        let mut plan = Self::default();
        let mut states = Vec::new();
        let events = plan.lay_out(forecast, &mut states);
        plan.span = u32::try_from(events.span).unwrap_or(0);
        let budget = forecast.budget.saturating_sub(slack).max(1);
        let levels = plan.walk(&events, &mut states, budget);
        // The slack is for this: so much may come a little early.
        plan.time_arrivals(levels, budget + slack);
        // Stable: what is wanted earlier leaves earlier.
        plan.leaving.sort_by_key(|l| l.after);
        plan
    }

    /// Gives every part its slot, and every repetition of a birth its own.
    fn lay_out(&mut self, forecast: &Forecast, states: &mut Vec<State>) -> Events {
        let length = forecast.steps.len().max(1);
        let laps = LEAST.div_ceil(length).max(1);
        for part in &forecast.parts {
            self.slots.push(Slot {
                block: part.block,
                uses: Vec::new(),
            });
            states.push(State {
                pages: part.pages,
                here: part.here,
                host: part.host,
                lives: part.block.is_some(),
                next: NEVER,
                dies: NEVER,
                last: None,
                key: 0,
                stamp: NEVER,
                left: 0,
            });
        }
        let mut events = Events {
            span: laps * forecast.steps.len(),
            ..Events::default()
        };
        // Slots of the parts that are born in this lap, and in the one before.
        let mut born = alloc::vec![NEVER; forecast.parts.len()];
        let mut before = born.clone();
        for lap in 0..=laps {
            core::mem::swap(&mut born, &mut before);
            born.fill(NEVER);
            for (i, step) in forecast.steps.iter().enumerate() {
                let at = u32::try_from(events.kinds.len()).unwrap_or(NEVER);
                for &number in forecast.uses_of(i) {
                    let part = forecast.parts[number as usize];
                    let slot = if part.born_within {
                        if born[number as usize] == NEVER {
                            born[number as usize] = self.unborn(states, part.pages);
                        }
                        born[number as usize]
                    } else if part.block.is_some() {
                        number
                    } else {
                        match part.successor {
                            Some(next) if lap == 0 => next,
                            Some(next) => before[next as usize],
                            None => NEVER,
                        }
                    };
                    if slot == NEVER {
                        continue;
                    }
                    events.uses.push(slot);
                    match step.kind {
                        Kind::Born if lap < laps => self.births.push((at, slot)),
                        Kind::Born => {}
                        Kind::Died => states[slot as usize].dies = at,
                        Kind::Work => {
                            let uses = &mut self.slots[slot as usize].uses;
                            if uses.last() != Some(&at) {
                                uses.push(at);
                            }
                        }
                    }
                }
                events.kinds.push(step.kind);
                events.ends.push(events.uses.len());
            }
        }
        for (slot, state) in self.slots.iter().zip(states.iter_mut()) {
            state.next = slot.uses.first().copied().unwrap_or(NEVER);
        }
        events
    }

    fn unborn(&mut self, states: &mut Vec<State>, pages: u64) -> u32 {
        self.slots.push(Slot::default());
        states.push(State {
            pages,
            here: 0,
            host: 0,
            lives: false,
            next: NEVER,
            dies: NEVER,
            last: None,
            key: 0,
            stamp: NEVER,
            left: 0,
        });
        u32::try_from(self.slots.len() - 1).unwrap_or(NEVER)
    }

    /// Decides what leaves and what comes back. Returns the pages that are on the device at each operation.
    fn walk(&mut self, events: &Events, states: &mut [State], budget: u64) -> Vec<u64> {
        let mut level: u64 = states.iter().filter(|s| s.lives).map(|s| s.here).sum();
        let mut levels = Vec::with_capacity(events.span);
        let mut heap = BinaryHeap::new();
        let mut next_use: Vec<usize> = alloc::vec![0; states.len()];
        for (number, state) in (0..).zip(states.iter_mut()) {
            if state.lives && state.here > 0 {
                state.key = distance(state, 0);
                heap.push((state.key, number));
            }
        }
        for at in 0..events.span {
            let now = u32::try_from(at).unwrap_or(NEVER);
            let used = events.of(at);
            if events.kinds[at] == Kind::Died {
                for &slot in used {
                    let state = &mut states[slot as usize];
                    level -= if state.lives { state.here } else { 0 };
                    (state.lives, state.here, state.host) = (false, 0, 0);
                }
                levels.push(level);
                continue;
            }
            let mut missing = 0;
            let mut asked = 0;
            for &slot in used {
                let state = &mut states[slot as usize];
                if state.stamp == now {
                    continue;
                }
                state.stamp = now;
                if events.kinds[at] == Kind::Born {
                    state.lives = true;
                } else {
                    let uses = &self.slots[slot as usize].uses;
                    let index = &mut next_use[slot as usize];
                    while uses.get(*index).is_some_and(|&u| u <= now) {
                        *index += 1;
                    }
                    state.next = uses.get(*index).copied().unwrap_or(NEVER);
                    state.last = Some(now);
                }
                // What one operation needs beyond the budget is not planned for.
                let lacks = (state.pages - state.here).min(budget.saturating_sub(asked));
                asked += state.here + lacks;
                missing += lacks;
            }
            let over = (level + missing).saturating_sub(budget);
            level -= self.make_room(over, now, states, &mut heap);
            asked = 0;
            for &slot in used {
                let state = &mut states[slot as usize];
                let lacks = (state.pages - state.here).min(budget.saturating_sub(asked));
                asked += state.here + lacks;
                let from_host = lacks.min(state.host);
                if from_host > 0 {
                    self.come(slot, state, from_host, now);
                    self.pages_in += from_host;
                }
                state.host -= from_host;
                state.here += lacks;
                level += lacks;
                state.key = distance(state, now);
                heap.push((state.key, slot));
            }
            levels.push(level);
        }
        levels
    }

    /// Lets up to `pages` pages leave, those needed furthest away first. Returns how many do.
    fn make_room(
        &mut self,
        pages: u64,
        now: u32,
        states: &mut [State],
        heap: &mut BinaryHeap<(u64, u32)>,
    ) -> u64 {
        let mut gone = 0;
        let mut aside = Vec::new();
        while gone < pages {
            let Some((key, slot)) = heap.pop() else {
                break;
            };
            let state = &mut states[slot as usize];
            // Out of date, or gone: whatever is here has a newer entry.
            if !state.lives || state.here == 0 || key != state.key {
                continue;
            }
            if state.stamp == now {
                aside.push((key, slot));
                continue;
            }
            let count = state.here.min(pages - gone);
            state.here -= count;
            state.host += count;
            state.left = now;
            gone += count;
            self.pages_out += count;
            self.leaving.push(Leaving {
                slot,
                keep: state.here,
                after: state.last,
                due: now,
            });
            if state.here > 0 {
                heap.push((key, slot));
            }
        }
        heap.extend(aside);
        gone
    }

    fn come(&mut self, slot: u32, state: &State, pages: u64, now: u32) {
        let mut have = state.here;
        let end = have + pages;
        while have < end {
            let pages = PIECE.min(end - have);
            have += pages;
            self.coming.push(Coming {
                slot,
                have,
                pages,
                from: state.left,
                need: now,
            });
        }
    }

    /// Finds out how early each piece may come.
    fn time_arrivals(&mut self, mut levels: Vec<u64>, budget: u64) {
        for coming in &mut self.coming {
            let earliest = coming.from.max(coming.need.saturating_sub(AHEAD));
            let mut from = coming.need;
            while from > earliest && levels[from as usize - 1] + coming.pages <= budget {
                from -= 1;
                levels[from as usize] += coming.pages;
            }
            coming.from = from;
        }
    }

    /// The next use of a slot at or after an operation; `None`: not within the plan.
    #[must_use]
    pub fn next_use(&self, slot: u32, from: u32) -> Option<u32> {
        let uses = &self.slots.get(slot as usize)?.uses;
        uses.get(uses.partition_point(|&u| u < from)).copied()
    }
}

/// How far away a block is needed, for comparison.
fn distance(state: &State, now: u32) -> u64 {
    let (next, dies) = (u64::from(state.next), u64::from(state.dies));
    if dies <= next && state.dies != NEVER {
        u64::from(now) + 2 * dies.saturating_sub(u64::from(now))
    } else if state.next == NEVER {
        u64::MAX
    } else {
        next
    }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
