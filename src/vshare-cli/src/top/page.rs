//! One process in `vshare top`: what its ring has told since the page was opened.

use std::collections::{HashMap, VecDeque};

use vshare_shm::Record;
use vshare_shm::follow::{Entry, Follower};
use vshare_shm::process::{Identity, Liveness};
use vshare_shm::reader::{Event, Segment};

/// So many events are shown at most.
const EVENTS: usize = 200;
/// So many allocations are remembered: a hostile ring may name no end of them.
const ALLOCATIONS: usize = 100_000;

/// A page.
#[derive(Debug)]
pub(super) struct Page {
    pub(super) owner: Identity,
    follower: Follower,
    /// The latest last.
    pub(super) events: VecDeque<Event>,
    pub(super) lost: u64,
    held: HashMap<u64, u64>,
    pub(super) created_ns: u64,
}

impl Page {
    /// The page of `owner`, with nothing on it yet.
    pub(super) fn new(owner: Identity) -> Self {
        Self {
            owner,
            follower: Follower::new(),
            events: VecDeque::new(),
            lost: 0,
            held: HashMap::new(),
            created_ns: 0,
        }
    }

    /// Takes in what has happened since the last look.
    pub(super) fn look(&mut self, segment: &Segment, liveness: Liveness) {
        self.created_ns = segment.created_ns();
        let entries = match liveness {
            Liveness::Dead => self.follower.rest(segment),
            _ => self.follower.look(segment),
        };
        for entry in entries {
            match entry {
                Entry::Lost(lost) => self.lost = self.lost.saturating_add(lost),
                Entry::Event(event) => self.add(event),
            }
        }
    }

    pub(super) fn add(&mut self, event: Event) {
        match event.record {
            Record::Allocated { address, bytes, .. } if self.held.len() < ALLOCATIONS => {
                self.held.insert(address, bytes);
            }
            Record::Freed { address, .. } => _ = self.held.remove(&address),
            _ => {}
        }
        self.events.push_back(event);
        if self.events.len() > EVENTS {
            self.events.pop_front();
        }
    }

    /// The largest allocations that the events tell of: bytes and address.
    pub(super) fn largest(&self) -> Vec<(u64, u64)> {
        let mut held: Vec<_> = self
            .held
            .iter()
            .map(|(address, bytes)| (*bytes, *address))
            .collect();
        held.sort_unstable_by(|a, b| b.cmp(a));
        held.truncate(50);
        held
    }
}
