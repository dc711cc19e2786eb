//! The arenas: one for each context that has taken memory.

use crate::clock::Deadline;
use crate::cuda::{CUcontext, CUdevice, CUevent, CUstream};
use crate::process::{self, Sums};
use crate::recording;
use crate::uvm::Road;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use vshare_core::arena::Arena;
use vshare_core::block::{BlockId, Slot};
use vshare_core::foresight::Foresight;
use vshare_core::units::PAGE;
use vshare_shm::record::Class;

/// What an arena's extents are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Managed memory: may lie in host memory too.
    Managed,
    /// Device memory, where managed memory cannot serve.
    Device,
}

impl Kind {
    /// As events have it.
    pub(crate) const fn class(self) -> Class {
        match self {
            Self::Managed => Class::Managed,
            Self::Device => Class::Device,
        }
    }
}

/// One context's arena, and what serves it.
#[derive(Debug)]
pub(crate) struct Owned {
    pub(crate) context: CUcontext,
    pub(crate) device: CUdevice,
    pub(crate) kind: Kind,
    pub(crate) arena: Arena,
    /// What may be held on the device by all its arenas together, bytes.
    pub(crate) limit: u64,
    /// What may be resident on the device for all its arenas together, bytes.
    pub(crate) budget: u64,
    /// Streams of ours for moves to the device and to the host.
    pub(crate) inward: CUstream,
    pub(crate) outward: CUstream,
    /// By which road its memory moves.
    pub(crate) road: Road,
    /// Recorded behind moves to the device, for work to wait for.
    pub(crate) arrival: CUevent,
    /// Moves to the device that were begun, and may not have ended.
    pub(crate) begun: u64,
    /// Whether the driver can drop pages: until it says otherwise.
    pub(crate) can_drop: bool,
    /// Whether a thread is getting an extent from the driver.
    pub(crate) extending: bool,
    /// Pages that somebody is waiting for room for.
    pub(crate) wanted: u64,
    /// Whether at the last try nothing could leave.
    pub(crate) stuck: bool,
    /// Until when work is waited for whose end cannot be known.
    pub(crate) patience: Option<Deadline>,
    /// Moves to the device that failed.
    pub(crate) failures: u64,
    /// Whether pages could not leave since the mover last looked.
    pub(crate) cannot_leave: bool,
    /// Whether something waits for room that the mover no longer looks for.
    pub(crate) waits: bool,
    /// The program's last operation that the mover has seen, and when it saw it: nanoseconds.
    pub(crate) place: Option<u64>,
    pub(crate) placed: u64,
    /// Closed generations of freed memory, and the tick each waits for.
    pub(crate) fences: Vec<(Slot, u64)>,
}

impl Owned {
    /// Closes a slot's generation of freed memory at `tick`. Returns whether there is one to wait for
    /// now. An earlier fence of the slot may be left of a generation that the slot's own stream has
    /// taken back: it tells nothing of this one.
    pub(crate) fn close(&mut self, slot: Slot, tick: u64) -> bool {
        let closed = self.arena.close(slot);
        if closed {
            self.fences.retain(|f| f.0 != slot);
            self.fences.push((slot, tick));
        }
        closed
    }
}

/// What a piece of work names in one arena.
#[derive(Debug)]
pub(crate) struct Named {
    pub(crate) context: CUcontext,
    pub(crate) blocks: Vec<BlockId>,
    /// How many of the blocks are named for sure; the others may be leftovers in a table.
    pub(crate) certain: usize,
}

/// Lowest and highest address of any extent, for a first guess without the lock.
static LOW: AtomicU64 = AtomicU64::new(u64::MAX);
static HIGH: AtomicU64 = AtomicU64::new(0);

/// Pages that belong to blocks and are neither on the device nor on their way there.
static MISSING: AtomicU64 = AtomicU64::new(0);

/// Whether an address may lie in an arena.
pub(crate) fn may_hold(address: u64) -> bool {
    address >= LOW.load(Ordering::Relaxed) && address < HIGH.load(Ordering::Relaxed)
}

/// Whether any arena has memory.
pub(crate) fn any() -> bool {
    HIGH.load(Ordering::Relaxed) != 0
}

/// Whether anything that a launch may name is not on the device.
pub(crate) fn any_missing() -> bool {
    MISSING.load(Ordering::Relaxed) != 0
}

/// Whether work is looked at: from the moment something is missing until nothing has been for long, so that what
/// is to come can be foreseen from an unbroken history. Always while it is recorded.
static WATCHING: AtomicBool = AtomicBool::new(false);

/// Pieces of work for which nothing was missing, one after the other.
static QUIET: AtomicU64 = AtomicU64::new(0);
const LONG: u64 = 20_000;

/// See [`WATCHING`].
pub(crate) fn are_watched() -> bool {
    WATCHING.load(Ordering::Relaxed)
}

/// Closed generations of freed memory that wait for work.
static FENCES: AtomicUsize = AtomicUsize::new(0);

/// Whether freed memory waits for work.
pub(crate) fn any_fences() -> bool {
    FENCES.load(Ordering::Relaxed) != 0
}

/// All arenas.
#[derive(Debug)]
pub(crate) struct Arenas {
    owned: Vec<Owned>,
    /// Most pages that were resident at one time in all of them together.
    peak_resident: u64,
}

impl Arenas {
    pub(crate) const fn new() -> Self {
        Self {
            owned: Vec::new(),
            peak_resident: 0,
        }
    }

    pub(crate) fn of(&mut self, context: CUcontext) -> Option<&mut Owned> {
        self.owned.iter_mut().find(|o| o.context == context)
    }

    pub(crate) fn at(&mut self, address: u64) -> Option<&mut Owned> {
        self.owned
            .iter_mut()
            .find(|o| o.arena.pool().page_at(address).is_some())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Owned> {
        self.owned.iter()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Owned> {
        self.owned.iter_mut()
    }

    pub(crate) fn add(&mut self, owned: Owned) {
        self.owned.push(owned);
        self.share();
        WATCHING.fetch_or(recording::is_on(), Ordering::Relaxed);
        if are_watched() {
            let tick = process::now();
            if let Some(owned) = self.owned.last_mut() {
                owned.arena.set_unwatched(tick);
                owned.arena.watch(true);
            }
        }
    }

    /// Forgets a context's arena, memory and all.
    pub(crate) fn remove(&mut self, context: CUcontext) -> Option<Owned> {
        let at = self.owned.iter().position(|o| o.context == context)?;
        let owned = self.owned.swap_remove(at);
        self.share();
        self.publish();
        self.publish_bounds();
        Some(owned)
    }

    /// Divides each device's budget among its arenas.
    fn share(&mut self) {
        let counts: Vec<u64> = self
            .owned
            .iter()
            .map(|o| self.owned.iter().filter(|p| p.device == o.device).count() as u64)
            .collect();
        for (owned, count) in self.owned.iter_mut().zip(counts) {
            if owned.kind == Kind::Managed {
                owned.arena.set_budget(owned.budget / count);
            }
        }
    }

    /// Keeps an arena's next moves within what its device's budget leaves: its own part may be taken still
    /// by another's memory, which has yet to leave.
    pub(crate) fn keep_to_device(&mut self, context: CUcontext) {
        let Some(owned) = self.of(context).filter(|o| o.kind == Kind::Managed) else {
            return;
        };
        let (device, budget) = (owned.device, owned.budget);
        let others = self.owned.iter().filter(|o| o.context != context);
        let others: Vec<&Owned> = others.filter(|o| o.device == device).collect();
        if others.is_empty() {
            return;
        }
        let part = budget / (others.len() as u64 + 1);
        let taken = |o: &&Owned| o.arena.residency().resident() * PAGE;
        let left = budget.saturating_sub(others.iter().map(taken).sum());
        if let Some(owned) = self.of(context) {
            owned.arena.set_budget(part.min(left));
        }
    }

    /// Bytes the program holds on a device: in its pools, and in arenas other than `context`'s.
    pub(crate) fn live_on(&self, device: CUdevice, but: Option<CUcontext>) -> u64 {
        self.owned
            .iter()
            .filter(|o| o.device == device && Some(o.context) != but)
            .map(|o| o.arena.ledger().live)
            .sum()
    }

    /// Bytes that arenas keep resident on a device.
    pub(crate) fn resident_on(&self, device: CUdevice) -> u64 {
        self.owned
            .iter()
            .filter(|o| o.device == device && o.kind == Kind::Managed)
            .map(|o| o.arena.residency().resident() * PAGE)
            .sum()
    }

    /// Tells those who hold no lock what is missing, and what waits. After any change of it.
    pub(crate) fn publish(&mut self) {
        let (mut missing, mut resident) = (0, 0);
        for owned in &self.owned {
            let residency = owned.arena.residency();
            missing += residency.lacking();
            resident += match owned.kind {
                Kind::Managed => residency.resident(),
                Kind::Device => 0,
            };
        }
        self.peak_resident = self.peak_resident.max(resident);
        MISSING.store(missing, Ordering::Relaxed);
        if missing != 0 && !WATCHING.swap(true, Ordering::Relaxed) {
            // Until now nobody looked at what work names.
            let tick = process::now();
            for owned in &mut self.owned {
                owned.arena.set_unwatched(tick);
                owned.arena.watch(true);
            }
        }
        let fences = self.owned.iter().map(|o| o.fences.len()).sum();
        FENCES.store(fences, Ordering::Relaxed);
    }

    /// Work is looked at. If nothing has been missing for long, this ends.
    pub(crate) fn note_watched(&mut self) {
        if any_missing() || recording::is_on() {
            QUIET.store(0, Ordering::Relaxed);
        } else if QUIET.fetch_add(1, Ordering::Relaxed) > LONG {
            QUIET.store(0, Ordering::Relaxed);
            WATCHING.store(false, Ordering::Relaxed);
            for owned in &mut self.owned {
                owned.arena.watch(false);
            }
        }
    }

    /// Tells those who hold no lock where arenas are. After an extent comes or goes.
    pub(crate) fn publish_bounds(&self) {
        let mut bounds = (u64::MAX, 0);
        for (base, bytes) in self.owned.iter().flat_map(|o| o.arena.pool().extents()) {
            bounds = (bounds.0.min(base), bounds.1.max(base + bytes));
        }
        LOW.store(bounds.0, Ordering::Relaxed);
        HIGH.store(bounds.1, Ordering::Relaxed);
    }

    /// The blocks behind `addresses`, each once and in their order, with their context. Addresses outside all
    /// arenas, and in memory that is free, name nothing. Those from `sure` on are only leftovers, perhaps.
    pub(crate) fn blocks(&mut self, addresses: &[u64], sure: usize) -> Vec<Named> {
        let mut found = Vec::new();
        for owned in &mut self.owned {
            if owned.kind == Kind::Device {
                continue;
            }
            let mut blocks = Vec::new();
            // A few are found faster by looking through them.
            let mut seen = BTreeSet::new();
            let many = addresses.len() > 64;
            let mut is_new = |block, blocks: &[BlockId]| {
                if many {
                    seen.insert(block)
                } else {
                    !blocks.contains(&block)
                }
            };
            let mut certain = 0;
            for (i, &address) in addresses.iter().enumerate() {
                if i == sure {
                    certain = blocks.len();
                }
                if let Some(block) = owned.arena.pool().block_at(address)
                    && is_new(block, &blocks)
                {
                    blocks.push(block);
                }
            }
            if sure >= addresses.len() {
                certain = blocks.len();
            }
            if !blocks.is_empty() {
                found.push(Named {
                    context: owned.context,
                    blocks,
                    certain,
                });
            }
        }
        found
    }

    /// Bytes the program holds in all arenas.
    pub(crate) fn live(&self) -> u64 {
        self.owned.iter().map(|o| o.arena.ledger().live).sum()
    }

    pub(crate) fn sums(&self) -> Sums {
        let mut sums = Sums {
            peak_resident: self.peak_resident * PAGE,
            ..Sums::default()
        };
        let mut devices: Vec<CUdevice> = Vec::new();
        for owned in &self.owned {
            let (ledger, residency) = (owned.arena.ledger(), owned.arena.residency());
            sums.live += ledger.live;
            sums.arena += owned.arena.pool().extent_bytes();
            sums.host += residency.host() * PAGE;
            let (made, broken) = owned.arena.foresight().map_or((0, 0), Foresight::plans);
            sums.plans += made;
            sums.plans_broken += broken;
            if owned.kind == Kind::Managed {
                sums.resident += residency.resident() * PAGE;
            } else {
                sums.device_class += ledger.live;
            }
            if !devices.contains(&owned.device) {
                devices.push(owned.device);
                sums.budget += owned.budget;
                sums.limit += owned.limit;
            }
        }
        sums
    }
}
