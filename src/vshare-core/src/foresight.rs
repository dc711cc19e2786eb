//! Looking ahead for one context: the history, the plan that was made of it, and how far that has come.
//!
//! A plan is made in three steps, so that the long one needs no lock: [`Foresight::begin_plan`] takes a forecast,
//! [`Plan::new`] thinks about it, [`Foresight::install`] puts the plan in place and catches up with what has
//! happened meanwhile. It holds until the program does something else than forecast, and is renewed when half of it
//! has been used.

use crate::block::BlockId;
use crate::forecast::{Forecast, LONGEST};
use crate::history::History;
use crate::plan::{Coming, Leaving, Plan};
use alloc::vec::Vec;

/// Planned moves that are looked at beyond one that cannot be made yet.
const LOOK: usize = 64;

/// A forecast, and where in the history it begins.
#[derive(Clone, Debug)]
pub struct Outlook {
    /// What is to be planned for.
    pub forecast: Forecast,
    epoch: u64,
    progress: u64,
}

/// A plan that is ready to be put in place.
#[derive(Debug)]
pub struct Ready(Active);

impl Outlook {
    /// Plans for what is forecast; `slack` as for [`Plan::new`]. Takes a while, and no lock.
    #[must_use]
    pub fn plan(&self, slack: u64) -> Ready {
        let plan = Plan::new(&self.forecast, slack);
        let mut active = Active {
            epoch: self.epoch,
            start: self.progress,
            leaving: 0,
            coming: 0,
            left: alloc::vec![false; plan.leaving.len()],
            came: alloc::vec![false; plan.coming.len()],
            births: 0,
            late: false,
            due: 0,
            slots: Vec::new(),
            plan,
        };
        for number in 0..u32::try_from(active.plan.slots.len()).unwrap_or(u32::MAX) {
            let slot = active.plan.slots.get(number as usize);
            if let Some((block, serial)) = slot.and_then(|s| s.block) {
                active.set_slot(block, serial, number);
            }
        }
        Ready(active)
    }
}

/// What leaves next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Out {
    /// Pages of this block, until so many of them stay.
    Go(BlockId, u64),
    /// Nothing, until the work up to this tick has ended.
    Wait(u64),
    /// Nothing now.
    Nothing,
}

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct In {
    /// Whose pages.
    pub block: BlockId,
    /// How many of them are to be there.
    pub have: u64,
}

#[derive(Debug)]
struct Active {
    plan: Plan,
    epoch: u64,
    /// The history's progress where the plan begins.
    start: u64,
    /// Planned moves before these are done with.
    leaving: usize,
    coming: usize,
    left: Vec<bool>,
    came: Vec<bool>,
    births: usize,
    /// Whether something was late to leave at the last look.
    late: bool,
    /// The operation at which to look again.
    due: u32,
    /// By block: the number of its life, and its slot.
    slots: Vec<Option<(u64, u32)>>,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Foresight {
    history: History,
    active: Option<Active>,
    /// Births since the forecast that is being planned for was taken: progress, block, number of its life.
    planning: Option<Vec<(u64, BlockId, u64)>>,
    /// Plans made, and plans that the program has not kept to.
    made: u64,
    broken: u64,
}

impl Foresight {
    /// See [`History::born`].
    pub fn born(&mut self, block: BlockId, pages: u64) {
        self.history.born(block, pages);
        self.went_on();
        let Some(serial) = self.serial(block) else {
            return;
        };
        let (_, progress) = self.history.place();
        if let Some(births) = &mut self.planning {
            births.push((progress, block, serial));
        }
        if let Some(active) = &mut self.active {
            active.bind(progress, block, serial);
        }
    }

    /// See [`History::died`].
    pub fn died(&mut self, block: BlockId) {
        self.history.died(block);
        self.went_on();
    }

    /// See [`History::gone`].
    pub fn gone(&mut self, block: BlockId) {
        self.history.gone(block);
    }

    /// See [`History::work`].
    pub fn work(
        &mut self,
        signature: u64,
        named: &[BlockId],
        maybe: &[BlockId],
        pages: impl Fn(BlockId) -> u64,
    ) {
        self.history.work(signature, named, maybe, pages);
        self.went_on();
    }

    /// The program has gone on: is it still where the plan expects it?
    fn went_on(&mut self) {
        let (epoch, progress) = self.history.place();
        if let Some(active) = &self.active {
            let beyond = progress - active.start >= u64::from(active.plan.span);
            if active.epoch != epoch || beyond {
                self.broken += u64::from(!beyond);
                self.active = None;
            }
        }
    }

    /// Whether a plan should be made now.
    #[must_use]
    pub fn wants_plan(&self) -> bool {
        let (_, progress) = self.history.place();
        let half = self
            .active
            .as_ref()
            .is_none_or(|a| (progress - a.start) * 2 >= u64::from(a.plan.span));
        let short = self.history.lag().is_some_and(|lag| lag <= LONGEST);
        half && short && self.planning.is_none() && self.history.is_trusted()
    }

    /// Takes the forecast to plan for, after [`Self::wants_plan`]. `lies` tells how many pages of a block are on
    /// the device and in host memory, `here` lists the blocks that have pages on the device.
    pub fn begin_plan(
        &mut self,
        budget: u64,
        lies: impl Fn(BlockId) -> (u64, u64),
        here: impl Iterator<Item = BlockId>,
    ) -> Option<Outlook> {
        let (epoch, progress) = self.history.place();
        let mut forecast = Forecast::new(&self.history, budget, &lies)?;
        let mut named: Vec<bool> = Vec::new();
        for (block, _) in forecast.parts.iter().filter_map(|p| p.block) {
            if named.len() <= block.index() {
                named.resize(block.index() + 1, false);
            }
            if let Some(place) = named.get_mut(block.index()) {
                *place = true;
            }
        }
        for block in here.filter(|b| !named.get(b.index()).is_some_and(|&n| n)) {
            let serial = self.serial(block).unwrap_or(0);
            let (pages, _) = lies(block);
            forecast.add_idle(block, serial, pages, pages);
        }
        self.planning = Some(Vec::new());
        Some(Outlook {
            forecast,
            epoch,
            progress,
        })
    }

    /// Puts a plan in place, unless the program has gone elsewhere meanwhile. `None`: it could not be made. Returns
    /// what is not needed any more, to be dropped where it costs nobody time.
    pub fn install(&mut self, ready: Option<Ready>) -> Option<Ready> {
        let births = self.planning.take().unwrap_or_default();
        let (epoch, progress) = self.history.place();
        let mut active = ready?.0;
        // It may have been made for what was noted before all was forgotten.
        let gone = progress.checked_sub(active.start);
        if active.epoch != epoch || gone.is_none_or(|p| p >= u64::from(active.plan.span)) {
            return Some(Ready(active));
        }
        self.made += 1;
        for (progress, block, serial) in births {
            active.bind(progress, block, serial);
        }
        self.active.replace(active).map(Ready)
    }

    /// Whether there is a plan.
    #[must_use]
    pub const fn is_planned(&self) -> bool {
        self.active.is_some()
    }

    /// Plans made so far, and how many of them the program did not keep to.
    #[must_use]
    pub const fn plans(&self) -> (u64, u64) {
        (self.made, self.broken)
    }

    /// The next planned move to the host that can be made now. `here` tells how many pages of a block are on
    /// the device, `may` whether they may leave: 0 if not, or the tick up to which work must have ended first.
    pub fn next_out(
        &mut self,
        here: impl Fn(BlockId) -> u64,
        may: impl Fn(BlockId) -> Result<(), u64>,
    ) -> Out {
        let Some(active) = &mut self.active else {
            return Out::Nothing;
        };
        let position = active.position(self.history.place().1);
        let mut waits = None;
        active.late = false;
        let first = active.leaving;
        for at in first..active.plan.leaving.len().min(first + LOOK) {
            let (Some(&next), Some(&done)) = (active.plan.leaving.get(at), active.left.get(at))
            else {
                break;
            };
            if next.after.is_some_and(|after| after >= position) {
                break;
            }
            let block = if done {
                None
            } else {
                active.out(next, position, &self.history, &here)
            };
            let Some(block) = block else {
                if let Some(done) = active.left.get_mut(at) {
                    *done = true;
                }
                if active.leaving == at {
                    active.leaving += 1;
                }
                continue;
            };
            active.late |= next.due <= position;
            match may(block) {
                Ok(()) => return Out::Go(block, next.keep),
                Err(0) => {}
                Err(tick) => waits = waits.or(Some(tick)),
            }
        }
        waits.map_or(Out::Nothing, Out::Wait)
    }

    /// The planned moves to the device that there is room for in the plan now, in order, up to `most` pages. While
    /// something is late to leave, only what is wanted at once: the room is wanted by what the program is about to
    /// do. `lies` tells how many pages of a block are on the device or on their way there, and how many in host memory.
    pub fn next_in(&mut self, most: u64, lies: impl Fn(BlockId) -> (u64, u64)) -> Vec<In> {
        let mut found: Vec<In> = Vec::new();
        let Some(active) = self.active.as_mut() else {
            return found;
        };
        let position = active.position(self.history.place().1);
        let first = active.coming;
        let mut pages = 0;
        for at in first..active.plan.coming.len().min(first + LOOK) {
            let (Some(&next), Some(&done)) = (active.plan.coming.get(at), active.came.get(at))
            else {
                break;
            };
            if active.late && next.need > position {
                break;
            }
            if !done && next.need >= position && next.from > position {
                continue;
            }
            let block = if done {
                None
            } else {
                active.come(next, position, &self.history)
            };
            let Some(block) = block else {
                if let Some(done) = active.came.get_mut(at) {
                    *done = true;
                }
                if active.coming == at {
                    active.coming += 1;
                }
                continue;
            };
            // Pages that have not left yet are not to be fetched, but may be soon.
            let (here, host) = lies(block);
            if host > 0 && here < next.have {
                pages += next.pages;
                found.push(In {
                    block,
                    have: next.have,
                });
                if pages >= most {
                    break;
                }
            }
        }
        found
    }

    /// Whether the program has come to where the plan has something to do. Tells it once for each such place.
    pub fn is_due(&mut self) -> bool {
        let Some(active) = &mut self.active else {
            return false;
        };
        let position = active.position(self.history.place().1);
        if position < active.due {
            return false;
        }
        active.due = active.next_due(position);
        true
    }

    /// How far away a block's next use is; `u64::MAX`: none is known of.
    #[must_use]
    pub fn next_use(&self, block: BlockId) -> u64 {
        let Some(active) = &self.active else {
            return u64::MAX;
        };
        let position = active.position(self.history.place().1);
        let slot = active.slots.get(block.index()).copied().flatten();
        slot.filter(|s| self.serial(block) == Some(s.0))
            .and_then(|s| active.plan.next_use(s.1, position))
            .map_or(u64::MAX, u64::from)
    }

    /// The history.
    #[must_use]
    pub const fn history(&self) -> &History {
        &self.history
    }

    fn serial(&self, block: BlockId) -> Option<u64> {
        Some(
            self.history
                .instance(self.history.instance_of(block)?)?
                .serial,
        )
    }
}

impl Active {
    /// The operation of the plan that is expected next.
    fn position(&self, progress: u64) -> u32 {
        u32::try_from(progress - self.start).unwrap_or(u32::MAX)
    }

    /// A block was born with the operation after which the history's progress was this.
    fn bind(&mut self, progress: u64, block: BlockId, serial: u64) {
        let Some(step) = self.position(progress).checked_sub(1) else {
            return;
        };
        while let Some(&(at, slot)) = self.plan.births.get(self.births).filter(|b| b.0 <= step) {
            self.births += 1;
            if at == step {
                if let Some(place) = self.plan.slots.get_mut(slot as usize) {
                    place.block = Some((block, serial));
                }
                self.set_slot(block, serial, slot);
            }
        }
    }

    fn set_slot(&mut self, block: BlockId, serial: u64, slot: u32) {
        if block.index() >= self.slots.len() {
            self.slots.resize(block.index() + 1, None);
        }
        if let Some(place) = self.slots.get_mut(block.index()) {
            *place = Some((serial, slot));
        }
    }

    /// The block of a slot, if it lives.
    fn block(&self, slot: u32, history: &History) -> Option<BlockId> {
        let (block, serial) = self.plan.slots.get(slot as usize)?.block?;
        let same = match history
            .instance_of(block)
            .and_then(|id| history.instance(id))
        {
            Some(instance) => instance.serial == serial,
            // Older than the history.
            None => serial == 0,
        };
        same.then_some(block)
    }

    /// The first operation after this position that lets something leave or come.
    fn next_due(&self, position: u32) -> u32 {
        let leaving = self.plan.leaving.get(self.leaving..).unwrap_or_default();
        let leaving = leaving.iter().filter_map(|l| Some(l.after? + 1));
        let leaving = leaving.take(LOOK).find(|&at| at > position);
        let coming = self.plan.coming.get(self.coming..).unwrap_or_default();
        let coming = coming.iter().take(LOOK).map(|c| c.from);
        let coming = coming.filter(|&at| at > position).min();
        leaving.unwrap_or(u32::MAX).min(coming.unwrap_or(u32::MAX))
    }

    /// `None`: it has left, or is better left where it is.
    fn out(
        &self,
        next: Leaving,
        position: u32,
        history: &History,
        here: impl Fn(BlockId) -> u64,
    ) -> Option<BlockId> {
        let block = self.block(next.slot, history)?;
        if here(block) <= next.keep {
            return None;
        }
        if let Some(used) = self.plan.next_use(next.slot, position) {
            // Most of the time in which it was to be away has passed.
            let away = used.saturating_sub(next.after.unwrap_or(0));
            if used.saturating_sub(position) < away / 4 && next.due < position {
                return None;
            }
        }
        Some(block)
    }

    /// `None`: its use has passed, or the block has gone.
    fn come(&self, next: Coming, position: u32, history: &History) -> Option<BlockId> {
        if next.need < position {
            return None;
        }
        self.block(next.slot, history)
    }
}

#[cfg(test)]
#[path = "foresight_storms.rs"]
mod storms;
#[cfg(test)]
#[path = "foresight_tests.rs"]
mod tests;
