//! Looking ahead in an arena: what the program does is noted, and moves are made before they are asked for.

use super::Arena;
use crate::block::BlockId;
use crate::foresight::{Foresight, In, Out, Outlook, Ready};
use crate::residency::{Fetch, Leave};
use alloc::vec::Vec;

/// Pieces for which room is made before they come.
const PIECES: u64 = 6;

/// Pages of the budget that are not planned with: an eighth, at most 64 MiB.
const SLACK: u64 = 32;

impl Arena {
    /// Begins to note what the program does, if this arena looks ahead; or forgets what it has noted.
    pub fn watch(&mut self, on: bool) {
        if self.looks_ahead && on != self.foresight.is_some() {
            self.foresight = on.then(Foresight::default);
        }
    }

    /// Work was submitted that uses these blocks: see [`crate::history::History::work`].
    pub fn note_work(&mut self, signature: u64, named: &[BlockId], maybe: &[BlockId]) {
        let residency = &self.residency;
        if let Some(foresight) = &mut self.foresight {
            foresight.work(signature, named, maybe, |id| residency.pages_of(id));
        }
    }

    /// What is known of what is to come.
    #[must_use]
    pub const fn foresight(&self) -> Option<&Foresight> {
        self.foresight.as_ref()
    }

    /// Whether moves are planned.
    #[must_use]
    pub fn is_planned(&self) -> bool {
        self.foresight.as_ref().is_some_and(Foresight::is_planned)
    }

    /// Whether there is something to do ahead of need: a move that has become possible, or a plan to be made.
    pub fn is_due(&mut self) -> bool {
        self.foresight
            .as_mut()
            .is_some_and(|f| f.is_due() || f.wants_plan())
    }

    /// Takes what a plan is to be made of, if one should be made now.
    pub fn begin_plan(&mut self) -> Option<Outlook> {
        let residency = &self.residency;
        let foresight = self.foresight.as_mut().filter(|f| f.wants_plan())?;
        let here = residency.blocks_here();
        foresight.begin_plan(residency.budget(), |id| residency.lies(id), here)
    }

    /// Makes the plan. Takes a while, and no lock.
    #[must_use]
    pub fn plan(outlook: &Outlook) -> Ready {
        outlook.plan(SLACK.min(outlook.forecast.budget / 8))
    }

    /// See [`Foresight::install`].
    pub fn install(&mut self, plan: Option<Ready>) -> Option<Ready> {
        match &mut self.foresight {
            Some(foresight) => foresight.install(plan),
            None => plan,
        }
    }

    /// Plans what leaves next. `need`: pages of room that are wanted now, `piece`: how many are copied at
    /// once, at most. Else as [`Arena::leave`], which this replaces where there is a plan.
    pub fn next_out(
        &mut self,
        need: u64,
        piece: u64,
        may_drop: bool,
        ended: impl Fn(u64) -> bool,
    ) -> Leave {
        if !self.is_planned() {
            return if need == 0 {
                Leave::Nothing
            } else {
                self.leave(need, piece, may_drop, ended)
            };
        }
        let residency = &self.residency;
        let next = self.foresight.as_mut().map_or(Out::Nothing, |foresight| {
            foresight.next_out(
                |id| residency.here(id),
                |id| residency.may_leave(id, &ended),
            )
        });
        let wanted = need.max(self.room_for_next(piece));
        let dropped = self.drop_dead(wanted, may_drop, &ended);
        if dropped != Leave::Nothing {
            return dropped;
        }
        match next {
            Out::Go(block, keep) => {
                let most = self.residency.here(block).saturating_sub(keep).min(piece);
                Leave::Evict(self.residency.take_out(block, most))
            }
            Out::Wait(tick) => Leave::Wait(tick),
            Out::Nothing if need > 0 => {
                let foresight = self.foresight.as_ref();
                let next_use = |id| foresight.map_or(u64::MAX, |f| f.next_use(id));
                let most = need.min(piece);
                let leave = self.residency.leave_furthest(most, next_use, &ended);
                if leave == Leave::Nothing {
                    // Dead memory that cannot be dropped is left.
                    self.leave(need, piece, may_drop, ended)
                } else {
                    leave
                }
            }
            Out::Nothing => Leave::Nothing,
        }
    }

    /// Plans what comes next, of what has room.
    pub fn next_in(&mut self, piece: u64) -> Fetch {
        for next in self.wanted_next(piece) {
            let fetch = self.residency.bring(next.block, next.have, piece);
            if !fetch.promote.is_empty() {
                return fetch;
            }
        }
        Fetch::default()
    }

    /// Whether something could come by now, but for room.
    pub fn waits_for_room(&mut self) -> bool {
        self.residency.room() == 0 && !self.wanted_next(1).is_empty()
    }

    /// Pages that must go so that what comes next has room: several pieces, because it takes a while.
    fn room_for_next(&mut self, piece: u64) -> u64 {
        let next = self.wanted_next(PIECES * piece);
        let residency = &self.residency;
        let lacks = |next: &In| {
            next.have
                .saturating_sub(residency.lies(next.block).0)
                .min(piece)
        };
        let pages: u64 = next.iter().map(lacks).sum();
        pages.saturating_sub(residency.room() + residency.leaving())
    }

    /// What comes next, up to so many pages.
    fn wanted_next(&mut self, most: u64) -> Vec<In> {
        let residency = &self.residency;
        let foresight = self.foresight.as_mut();
        foresight.map_or_else(Vec::new, |f| f.next_in(most, |id| residency.lies(id)))
    }

    fn drop_dead(&mut self, most: u64, may_drop: bool, ended: impl Fn(u64) -> bool) -> Leave {
        if most == 0 || !may_drop {
            return Leave::Nothing;
        }
        let pool = &self.pool;
        let runs = self
            .residency
            .drop_dead(most, |page| pool.is_free(page), ended);
        if runs.is_empty() {
            return Leave::Nothing;
        }
        for &run in &runs {
            self.pool.withhold(run);
        }
        Leave::Drop(runs)
    }
}
