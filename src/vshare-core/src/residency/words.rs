//! Plans of moves, as residency hands them out.

use crate::block::Run;
use alloc::vec::Vec;

/// Pages to bring to the device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fetch {
    /// Runs with data in host memory.
    pub promote: Vec<Run>,
    /// Runs without any.
    pub populate: Vec<Run>,
    /// Pages that found no room within the budget.
    pub short: u64,
    /// Pages that are on their way already, in or out.
    pub moving: u64,
}

impl Fetch {
    /// Whether nothing need be done.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.promote.is_empty() && self.populate.is_empty() && self.short == 0 && self.moving == 0
    }
}

/// How to make room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Leave {
    /// Drop these pages: nobody will read them.
    Drop(Vec<Run>),
    /// Copy these pages to the host.
    Evict(Vec<Run>),
    /// The next in line is in use until the work up to this tick has ended.
    Wait(u64),
    /// Nothing may leave.
    Nothing,
}

/// What holds room that is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// Pages that are moving, and will have moved soon.
    Moves,
    /// Other work that is being prepared.
    Others,
    /// The work that wants it.
    Itself,
}
