//! What a policy makes of a trace: its allocations, frees and work go through the same [`Arena`] as a
//! program's, in virtual time.
//!
//! One launching thread, one device that runs work in the order of its submission, and movers in each
//! direction that share the link. As in the library: the launching thread waits for what its work lacks;
//! pages leave only when the device has ended all work that may use them. A host that has nothing to wait
//! for submits at once: the times at which the recorded program did so are not looked at, because they
//! hold what it waited for then.

mod moves;

use crate::arena::{Arena, Grant, Refusal, Terms};
use crate::block::{After, BlockId};
use crate::link::{Link, float, whole};
use crate::policies::{Policy, Reach, Submitted};
use crate::residency::Leave;
use crate::trace::{Event, Trace, Window};
use crate::units::PAGE;
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use moves::{Cargo, Moves};

/// What a replay counted, from the window's beginning on. Bytes and nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Copied in, faults included.
    pub bytes_in: u64,
    /// Copied out.
    pub bytes_out: u64,
    /// Dropped.
    pub dropped: u64,
    /// Made without copying.
    pub populated: u64,
    /// Used by work where it lay in host memory.
    pub remote: u64,
    /// Times that the launching thread waited for memory.
    pub stalls: u64,
    /// How long, together.
    pub stalled: u64,
    /// Work that ran over the budget, because by itself it needed more.
    pub over: u64,
    /// From the window's beginning to the end.
    pub time: u64,
    /// Most that was resident at once, warm-up included.
    pub peak: u64,
}

impl Outcome {
    /// Bytes that went over the link.
    #[must_use]
    pub const fn moved(&self) -> u64 {
        self.bytes_in + self.bytes_out + self.remote
    }

    const fn since(self, start: Self) -> Self {
        Self {
            bytes_in: self.bytes_in - start.bytes_in,
            bytes_out: self.bytes_out - start.bytes_out,
            dropped: self.dropped - start.dropped,
            populated: self.populated - start.populated,
            remote: self.remote - start.remote,
            stalls: self.stalls - start.stalls,
            stalled: self.stalled - start.stalled,
            over: self.over - start.over,
            time: self.time - start.time,
            peak: self.peak,
        }
    }
}

/// Replays a trace under a budget of so many pages.
pub fn replay(
    trace: &Trace,
    budget: u64,
    window: &Window,
    link: &Link,
    policy: &mut dyn Policy,
) -> Outcome {
    let bytes = trace.peak() * PAGE;
    let terms = Terms {
        order: policy.order(),
        looks_ahead: policy.looks_ahead(),
        budget: budget * PAGE,
        limit: bytes.saturating_mul(4).max(1 << 32),
        physical: u64::MAX / 4,
    };
    let replay = Replay {
        trace,
        link,
        policy,
        first: window.first,
        arena: Arena::new(terms),
        bases: 1 << 40,
        names: vec![None; trace.blocks().len()],
        tick: 0,
        now: 0.0,
        event: 0,
        host: Host::Free,
        flying: VecDeque::new(),
        runs_until: None,
        into: Moves::new(link.workers),
        out: Moves::new(link.workers),
        counted: Outcome::default(),
        start: Outcome::default(),
        fresh: true,
    };
    replay.run()
}

/// What the launching thread does.
#[derive(Debug)]
enum Host {
    /// Goes on to the next event.
    Free,
    /// Is busy until then, and then this grant's pages are there.
    Busy(f64, Option<Grant>),
    /// Waits for what work lacks.
    Waits(Waiting),
}

#[derive(Debug)]
struct Waiting {
    number: usize,
    tick: u64,
    blocks: Vec<BlockId>,
    since: f64,
    /// Pages that found no room.
    short: u64,
}

/// Work that was submitted and has not ended.
#[derive(Debug)]
struct Flying {
    number: usize,
    tick: u64,
    nanoseconds: f64,
}

struct Replay<'a> {
    trace: &'a Trace,
    link: &'a Link,
    policy: &'a mut dyn Policy,
    first: usize,
    arena: Arena,
    /// Where the next extent begins.
    bases: u64,
    /// Each block's name in the arena, and its address.
    names: Vec<Option<(BlockId, u64)>>,
    tick: u64,
    now: f64,
    event: usize,
    host: Host,
    flying: VecDeque<Flying>,
    /// Until when the first of those runs, if it does.
    runs_until: Option<f64>,
    into: Moves,
    out: Moves,
    counted: Outcome,
    start: Outcome,
    /// Something has come, gone or ended since the launching thread looked last.
    fresh: bool,
}

impl Replay<'_> {
    fn run(mut self) -> Outcome {
        loop {
            while self.host_goes_on()
                | self.device_goes_on()
                | self.in_goes_on()
                | self.out_goes_on()
            {}
            let resident = self.arena.residency().resident() * PAGE;
            self.counted.peak = self.counted.peak.max(resident);
            let over = self.event >= self.trace.events().len() && matches!(self.host, Host::Free);
            if over && self.flying.is_empty() {
                break;
            }
            if !self.advance() && !self.give_up() {
                break;
            }
        }
        self.counted.time = whole(self.now);
        self.counted.since(self.start)
    }

    fn next_tick(&mut self) -> u64 {
        self.tick += 1;
        self.tick
    }

    // --- the launching thread

    fn host_goes_on(&mut self) -> bool {
        match &self.host {
            Host::Busy(until, _) if *until > self.now => false,
            Host::Busy(..) => {
                if let Host::Busy(_, Some(grant)) = core::mem::replace(&mut self.host, Host::Free) {
                    self.arena.populated(&grant);
                }
                true
            }
            Host::Waits(_) => self.fresh && self.look_again(),
            Host::Free => self.next_event(),
        }
    }

    fn next_event(&mut self) -> bool {
        let Some(&event) = self.trace.events().get(self.event) else {
            return false;
        };
        match event {
            Event::Sync if !self.flying.is_empty() => return false,
            Event::Work(_) if self.flying.len() >= self.link.depth => return false,
            Event::Sync => {}
            Event::Alloc(block) => self.allocate(block),
            Event::Free(block) => self.free(block),
            Event::Work(number) => self.prepare(number),
        }
        self.event += 1;
        true
    }

    fn allocate(&mut self, block: usize) {
        let pages = self.trace.pages(block);
        let host = self.arena.residency().host();
        let mut tries = 0..3;
        let grant = loop {
            match self.arena.allocate(pages * PAGE, None, 0) {
                Ok(grant) => break grant,
                Err(Refusal::NoRoom(no)) if tries.next().is_some() => {
                    let least = no.pages.max(pages) * PAGE;
                    let bytes = self.arena.next_extent(no.pages).unwrap_or(least);
                    self.arena.add_extent(self.bases, bytes);
                    // A gap, so that no two are neighbours.
                    self.bases += bytes + (1 << 30);
                }
                // The limit is beyond all that a trace can hold.
                Err(_) => return,
            }
        };
        if let Some(name) = self.names.get_mut(block) {
            *name = Some((grant.block, grant.address));
        }
        self.policy.allocated(&mut self.arena, grant.block, pages);
        if grant.populate.is_empty() {
            return;
        }
        let copied = self.arena.residency().host().saturating_sub(host);
        let count: u64 = grant.populate.iter().map(|r| r.pages).sum();
        let made = count.saturating_sub(copied);
        for &run in &grant.populate {
            self.arena.arrived(run, true);
        }
        self.counted.bytes_in += copied * PAGE;
        self.counted.populated += made * PAGE;
        let takes = float(copied * PAGE) / self.link.into + float(made * PAGE) / self.link.populate;
        self.host = Host::Busy(self.now + takes, Some(grant));
    }

    fn free(&mut self, block: usize) {
        let tick = self.next_tick();
        let Some((name, address)) = self.names.get_mut(block).and_then(Option::take) else {
            return;
        };
        // Work runs in the order of its submission: what comes after may have the memory at once.
        _ = self.arena.free(address, After::Nothing, tick);
        self.policy.freed(&mut self.arena, name);
        self.fresh = true;
    }

    fn prepare(&mut self, number: usize) {
        if number > 0 && number == self.first {
            self.start = Outcome {
                time: self.start.time,
                ..self.counted
            };
        }
        let tick = self.next_tick();
        let pieces = self
            .trace
            .works()
            .get(number)
            .map_or(&[][..], |w| self.trace.pieces(w));
        let names = pieces.iter().filter_map(|&b| *self.names.get(b)?);
        let blocks: Vec<BlockId> = names.map(|(name, _)| name).collect();
        self.arena.prepare(&blocks, tick);
        if let Some(work) = self.trace.works().get(number) {
            let prepared = Submitted {
                number,
                work,
                blocks: &blocks,
                tick,
            };
            self.policy.preparing(&mut self.arena, prepared);
        }
        self.host = Host::Waits(Waiting {
            number,
            tick,
            blocks,
            since: self.now,
            short: 0,
        });
        self.fresh = true;
    }

    /// Looks whether what work waits for is there, and asks for what is not. Returns whether it is.
    fn look_again(&mut self) -> bool {
        self.fresh = false;
        let Host::Waits(waiting) = &mut self.host else {
            return false;
        };
        let mut extra = 0.0;
        match self.policy.reach() {
            Reach::Fetch => {
                let fetch = self.arena.fetch(&waiting.blocks);
                waiting.short = fetch.short;
                self.into.ask(&fetch.populate, Cargo::Nothing, true);
                self.into.ask(&fetch.promote, Cargo::Data, true);
                if !fetch.is_ready() {
                    return false;
                }
            }
            Reach::Fault => {
                let short = self.arena.residency().shortage(&waiting.blocks);
                // Nothing may be faulting in while pages leave.
                waiting.short = if self.flying.is_empty() { short } else { 0 };
                if short > 0 {
                    return false;
                }
                extra = self.fault();
            }
            Reach::Remote => {
                let bytes = self.arena.residency().missing_of(&waiting.blocks) * PAGE;
                self.counted.remote += bytes;
                extra = float(bytes) / self.link.remote;
            }
        }
        self.submit(extra);
        true
    }

    /// The work faults in what it lacks, over the budget if need be. Returns how long that takes.
    fn fault(&mut self) -> f64 {
        let Host::Waits(waiting) = &self.host else {
            return 0.0;
        };
        let host = self.arena.residency().host();
        let count = self.arena.faulted(&waiting.blocks);
        let copied = host.saturating_sub(self.arena.residency().host());
        self.counted.bytes_in += copied * PAGE;
        self.counted.populated += count.saturating_sub(copied) * PAGE;
        let residency = self.arena.residency();
        self.counted.over += u64::from(count > 0 && residency.resident() > residency.budget());
        float(count * PAGE) / self.link.fault
    }

    fn submit(&mut self, extra: f64) {
        let Host::Waits(waiting) = core::mem::replace(&mut self.host, Host::Free) else {
            return;
        };
        let after = self.next_tick();
        self.arena.submitted(&waiting.blocks, after);
        if self.now > waiting.since {
            self.counted.stalls += 1;
            self.counted.stalled += whole(self.now - waiting.since);
        }
        let Some(work) = self.trace.works().get(waiting.number) else {
            return;
        };
        self.flying.push_back(Flying {
            number: waiting.number,
            tick: waiting.tick,
            nanoseconds: float(work.device_ns) + extra,
        });
        self.host = Host::Busy(self.now + self.link.submit_ns, None);
        let submitted = Submitted {
            number: waiting.number,
            work,
            blocks: &waiting.blocks,
            tick: waiting.tick,
        };
        self.policy.submitted(&mut self.arena, submitted);
    }

    /// Nothing moves and nothing runs, and yet the launching thread waits: its work alone needs more than
    /// the budget. It faults in what it lacks.
    fn give_up(&mut self) -> bool {
        if !matches!(self.host, Host::Waits(_)) {
            return false;
        }
        let extra = self.fault();
        self.submit(extra);
        true
    }

    // --- the device

    fn device_goes_on(&mut self) -> bool {
        match (self.runs_until, self.flying.front()) {
            (None, Some(work)) => {
                self.runs_until = Some(self.now + work.nanoseconds);
                true
            }
            (Some(until), _) if until <= self.now => {
                self.runs_until = None;
                self.ended();
                true
            }
            _ => false,
        }
    }

    fn ended(&mut self) {
        let Some(work) = self.flying.pop_front() else {
            return;
        };
        self.fresh = true;
        self.policy.ended(&mut self.arena, work.number);
        if work.number + 1 == self.first {
            // Behind the launching thread's time at which the counting of all else began.
            self.start.time = whole(self.now);
        }
    }

    // --- the movers

    fn in_goes_on(&mut self) -> bool {
        let waits = matches!(&self.host, Host::Waits(waiting) if waiting.short > 0);
        if self.into.is_idle() && self.into.is_nothing_asked() && !waits {
            let fetch = self.policy.ahead(&mut self.arena);
            self.into.ask(&fetch.populate, Cargo::Nothing, false);
            self.into.ask(&fetch.promote, Cargo::Data, false);
        }
        self.into.begin(self.now + self.link.call_ns)
    }

    fn out_goes_on(&mut self) -> bool {
        if self.out.is_idle() && self.out.is_nothing_asked() {
            let wanted = match &self.host {
                Host::Waits(waiting) => waiting.short,
                _ => 0,
            };
            let need = self.policy.need(&self.arena, wanted);
            let need = need.saturating_sub(self.out.pages());
            if need > 0 || self.policy.looks_ahead() {
                let first = self.flying.front().map_or(u64::MAX, |work| work.tick);
                match self
                    .policy
                    .leave(&mut self.arena, need, &|tick| tick < first)
                {
                    Leave::Drop(runs) => self.out.drop_all(&runs, self.now, self.link),
                    Leave::Evict(runs) => self.out.ask(&runs, Cargo::Data, true),
                    Leave::Wait(_) | Leave::Nothing => {}
                }
            }
        }
        self.out.begin(self.now + self.link.call_ns)
    }

    /// Goes on to the next end of anything. `false`: nothing is under way.
    fn advance(&mut self) -> bool {
        let both = (
            self.into.is_copying(self.now),
            self.out.is_copying(self.now),
        );
        let (rate_in, rate_out) = self.link.rates(both.0, both.1);
        let host = match self.host {
            Host::Busy(until, _) => Some(until),
            _ => None,
        };
        let next = [
            host,
            self.runs_until,
            self.into.next(self.now, rate_in, self.link.populate),
            self.out.next(self.now, rate_out, self.link.populate),
        ];
        let Some(next) = next.into_iter().flatten().reduce(f64::min) else {
            return false;
        };
        let next = next.max(self.now);
        let came = self
            .into
            .advance(self.now, next, rate_in, self.link.populate);
        let went = self
            .out
            .advance(self.now, next, rate_out, self.link.populate);
        self.now = next;
        self.fresh |= !(came.is_empty() && went.is_empty());
        for (run, cargo) in came {
            self.arena.arrived(run, true);
            match cargo {
                Cargo::Data => self.counted.bytes_in += run.pages * PAGE,
                Cargo::Nothing | Cargo::Dropped => self.counted.populated += run.pages * PAGE,
            }
        }
        for (run, cargo) in went {
            let dropped = cargo == Cargo::Dropped;
            self.arena.left(run, dropped, true);
            if dropped {
                self.counted.dropped += run.pages * PAGE;
            } else {
                self.counted.bytes_out += run.pages * PAGE;
            }
        }
        true
    }
}

#[cfg(test)]
#[path = "replay_tests.rs"]
mod tests;
