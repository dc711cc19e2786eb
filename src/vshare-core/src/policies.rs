//! Policies as [`crate::replay`] asks them: what to do about missing pages, what to bring ahead of need,
//! what to let leave.

use crate::arena::Arena;
use crate::block::BlockId;
use crate::residency::{Fetch, Leave, Order};
use crate::trace::Work;
use crate::units::PAGE;
use alloc::boxed::Box;

/// Pages in one move.
pub const PIECE: u64 = 16;

/// Pages kept free ahead of need.
const AHEAD: u64 = (256 << 20) / PAGE;

/// How work gets at pages that are not on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// The launching thread waits until they have been fetched.
    Fetch,
    /// The work faults them in, once there is room.
    Fault,
    /// The work uses them where they are.
    Remote,
}

/// Work that has been submitted.
#[derive(Clone, Copy, Debug)]
pub struct Submitted<'a> {
    /// Its place among all work.
    pub number: usize,
    /// What the recording says of it.
    pub work: &'a Work,
    /// The blocks that it may touch.
    pub blocks: &'a [BlockId],
    /// Its tick.
    pub tick: u64,
}

/// A policy. It plans through the arena; the replay carries out what it plans, and reports to the arena.
pub trait Policy {
    /// What it is called.
    fn name(&self) -> &'static str;

    /// In which order blocks leave, where the arena chooses.
    fn order(&self) -> Order {
        Order::Used
    }

    /// How work gets at what is missing.
    fn reach(&self) -> Reach {
        Reach::Fetch
    }

    /// A block has been allocated.
    fn allocated(&mut self, _arena: &mut Arena, _block: BlockId, _pages: u64) {}

    /// A block has been freed; its number may be used again.
    fn freed(&mut self, _arena: &mut Arena, _block: BlockId) {}

    /// Whether moves are made before they are asked for, by the arena's own plan.
    fn looks_ahead(&self) -> bool {
        false
    }

    /// Work is about to be submitted; what it needs may be missing yet.
    fn preparing(&mut self, _arena: &mut Arena, _work: Submitted<'_>) {}

    /// Work has been submitted; what it needs is there.
    fn submitted(&mut self, _arena: &mut Arena, _work: Submitted<'_>) {}

    /// Work has ended on the device, and all before it.
    fn ended(&mut self, _arena: &mut Arena, _number: usize) {}

    /// What next to bring ahead of need: asked whenever a mover has nothing more urgent to bring.
    fn ahead(&mut self, _arena: &mut Arena) -> Fetch {
        Fetch::default()
    }

    /// Pages that should leave. `wanted` pages are waited for; those that are leaving count as there.
    fn need(&self, arena: &Arena, wanted: u64) -> u64 {
        let residency = arena.residency();
        let ahead = if residency.missing() > 0 {
            AHEAD.min(residency.budget() / 8)
        } else {
            0
        };
        let over = residency.resident().saturating_sub(residency.budget());
        over + wanted.max(ahead).saturating_sub(residency.room())
    }

    /// What next to let leave, of `need` pages. `ended` tells whether all work up to a tick has.
    fn leave(&mut self, arena: &mut Arena, need: u64, ended: &dyn Fn(u64) -> bool) -> Leave {
        arena.leave(need, PIECE, true, ended)
    }
}

/// The names of all policies.
pub const NAMES: [&str; 4] = ["auto", "lru", "demand", "zerocopy"];

/// A new policy of that name, for one replay.
#[must_use]
pub fn named(name: &str) -> Option<Box<dyn Policy>> {
    Some(match name {
        "auto" => Box::new(Auto),
        "lru" => Box::new(Lru),
        "demand" => Box::new(Demand),
        "zerocopy" => Box::new(ZeroCopy),
        _ => return None,
    })
}

/// What is about to be used is fetched ahead of need; what is needed furthest in the future leaves.
#[derive(Clone, Copy, Debug, Default)]
pub struct Auto;

impl Policy for Auto {
    fn name(&self) -> &'static str {
        "auto"
    }

    fn looks_ahead(&self) -> bool {
        true
    }

    fn allocated(&mut self, arena: &mut Arena, _block: BlockId, _pages: u64) {
        if arena.residency().missing() > 0 {
            arena.watch(true);
        }
    }

    fn preparing(&mut self, arena: &mut Arena, work: Submitted<'_>) {
        arena.note_work(work.work.signature, work.blocks, &[]);
        if let Some(outlook) = arena.begin_plan() {
            let plan = Arena::plan(&outlook);
            arena.install(Some(plan));
        }
    }

    fn ahead(&mut self, arena: &mut Arena) -> Fetch {
        arena.next_in(PIECE)
    }

    fn need(&self, arena: &Arena, wanted: u64) -> u64 {
        if arena.is_planned() {
            Demand.need(arena, wanted)
        } else {
            Lru.need(arena, wanted)
        }
    }

    fn leave(&mut self, arena: &mut Arena, need: u64, ended: &dyn Fn(u64) -> bool) -> Leave {
        arena.next_out(need, PIECE, true, ended)
    }
}

/// What was used longest ago leaves; what work needs is fetched before it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lru;

impl Policy for Lru {
    fn name(&self) -> &'static str {
        "lru"
    }
}

/// What migrated longest ago leaves; work faults in what it needs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Demand;

impl Policy for Demand {
    fn name(&self) -> &'static str {
        "demand"
    }

    fn order(&self) -> Order {
        Order::Migrated
    }

    fn reach(&self) -> Reach {
        Reach::Fault
    }

    fn need(&self, arena: &Arena, wanted: u64) -> u64 {
        let residency = arena.residency();
        let over = residency.resident().saturating_sub(residency.budget());
        over + wanted.saturating_sub(residency.room())
    }

    fn leave(&mut self, arena: &mut Arena, need: u64, ended: &dyn Fn(u64) -> bool) -> Leave {
        // The driver copies dead memory out like any other.
        arena.leave(need, PIECE, false, ended)
    }
}

/// What finds no room when it is allocated stays in host memory, and is used there.
#[derive(Clone, Copy, Debug, Default)]
pub struct ZeroCopy;

impl Policy for ZeroCopy {
    fn name(&self) -> &'static str {
        "zerocopy"
    }

    fn reach(&self) -> Reach {
        Reach::Remote
    }

    fn leave(&mut self, arena: &mut Arena, need: u64, ended: &dyn Fn(u64) -> bool) -> Leave {
        match arena.leave(need, 0, true, ended) {
            Leave::Drop(runs) => Leave::Drop(runs),
            _ => Leave::Nothing,
        }
    }
}
