//! Reading a segment's events as they come: each once, in order, with how many were missed.

use crate::reader::{Event, Segment};
use crate::ring::Read;

/// What a look at the ring gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// An event.
    Event(Event),
    /// So many events were overwritten before they were read, or given up by their writers.
    Lost(u64),
}

/// A place in a ring: everything before it has been told.
#[derive(Clone, Copy, Debug, Default)]
pub struct Follower {
    next: u64,
    /// A ticket that was not readable at the last look.
    awaited: Option<u64>,
}

impl Follower {
    /// A place before everything: the first look tells what the ring still holds.
    pub fn new() -> Self {
        Self::default()
    }

    /// What has come since the last look. An event that is being written holds up those behind it
    /// until the next look, and is then given up: its writer has dropped it, or has died.
    pub fn look(&mut self, segment: &Segment) -> Vec<Entry> {
        self.walk(segment, Patience::OneLook)
    }

    /// The same for who does not come back: events that are being written behind all others are
    /// not told, those before others count as lost.
    pub fn glance(&mut self, segment: &Segment) -> Vec<Entry> {
        self.walk(segment, Patience::AtTheEnd)
    }

    /// The same after the owner's end: nobody is to be waited for.
    pub fn rest(&mut self, segment: &Segment) -> Vec<Entry> {
        self.walk(segment, Patience::None)
    }

    fn walk(&mut self, segment: &Segment, patience: Patience) -> Vec<Entry> {
        // If it cannot be, the old copy has nothing new.
        _ = segment.refresh();
        let held = segment.held();
        let mut entries = Vec::new();
        let mut lost = held.start.saturating_sub(self.next);
        let mut pending = 0;
        let mut ticket = held.start.max(self.next);
        while ticket < held.end {
            match (segment.event(ticket), patience) {
                (Ok(event), _) => {
                    push_lost(&mut entries, lost + pending);
                    entries.push(Entry::Event(event));
                    (lost, pending) = (0, 0);
                }
                (Err(Read::Pending), Patience::OneLook) if self.awaited != Some(ticket) => {
                    self.awaited = Some(ticket);
                    break;
                }
                (Err(Read::Pending), Patience::AtTheEnd) => pending += 1,
                (Err(_), _) => lost += 1,
            }
            ticket += 1;
        }
        push_lost(&mut entries, lost);
        self.next = ticket - pending;
        entries
    }
}

/// Who is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Patience {
    /// Whoever was not ready at the last look is not waited for again.
    OneLook,
    /// Whoever has nobody behind him.
    AtTheEnd,
    /// Nobody.
    None,
}

fn push_lost(entries: &mut Vec<Entry>, lost: u64) {
    if lost > 0 {
        entries.push(Entry::Lost(lost));
    }
}
