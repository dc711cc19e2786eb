//! What the program has done, operation by operation, and where in its own past it is now.
//!
//! Programs repeat themselves: an optimizer step contains several micro-batches, which contain layers; an
//! evaluation comes every so many steps. Periods so nest, and none is *the* period. What is looked for is
//! therefore a place: the *cursor*, the operation of the past that is to come next, if the program goes on as
//! it did there. What followed there is the forecast.
//!
//! **Finding it.** Every operation has three signatures: the *weak* one says what was done (which function, on how
//! many pages); the *strong* one also how many operations ago each block was last used, which tells one layer from the
//! next without looking at addresses; the *same* one also which blocks they were, which tells one turn of a loop
//! from the next, but never agrees on what is allocated anew. Sums over the last operations lead to where the same
//! sequence ended last. The most telling that leads anywhere wins, and the cursor goes there.
//!
//! **Keeping it.** The cursor moves with the program as long as the weak signatures agree, over a few operations
//! that are missing, too many, or others. As long as it does, it leaves only for a place where the same was done for
//! longer, so that, once a whole optimizer step has been seen twice, it does not fall back to the last micro-batch.
//!
//! Blocks are told apart by their birth, not by their address: an allocation that corresponds to one of a
//! period ago may lie elsewhere.

use crate::block::BlockId;
use alloc::vec::Vec;

/// The number of an operation. The first is 1; 0 is before all.
pub type Index = u64;

/// What an operation was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A block was allocated.
    Born,
    /// A block was freed.
    Died,
    /// Work that names blocks.
    Work,
}

#[derive(Clone, Copy, Debug)]
struct Op {
    kind: Kind,
    signatures: [u64; 3],
    /// Sums over all operations up to this one, from which that of any stretch follows.
    sums: [u64; 3],
    /// Where its instances end, in the list of all.
    end: u64,
}

/// One life of a block.
#[derive(Clone, Copy, Debug)]
pub struct Instance {
    /// The block, as long as it lives.
    pub block: BlockId,
    /// Tells it from every other instance.
    pub serial: u64,
    /// Its pages.
    pub pages: u64,
    /// When it was allocated; 0: before the history begins.
    pub born: Index,
    /// When it was freed; `u64::MAX`: not yet.
    pub died: Index,
    last: Index,
}

impl Instance {
    /// Whether it has not been freed.
    #[must_use]
    pub const fn lives(&self) -> bool {
        self.died == u64::MAX
    }
}

/// Which signatures are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    Weak,
    Strong,
    Same,
}

/// A stretch of operations that is looked for: by which signatures, how many.
#[derive(Clone, Copy, Debug)]
struct Gram {
    by: Look,
    length: u64,
}

/// The most telling first.
const GRAMS: [Gram; 6] = [
    Gram::new(Look::Same, 64),
    Gram::new(Look::Strong, 64),
    Gram::new(Look::Strong, 8),
    Gram::new(Look::Weak, 2048),
    Gram::new(Look::Weak, 256),
    Gram::new(Look::Weak, 16),
];

impl Gram {
    const fn new(by: Look, length: u64) -> Self {
        Self { by, length }
    }
}

/// Entries of the table of one gram: a later one takes the place of an earlier one.
const TABLE: usize = 1 << 15;

/// Operations and uses kept. At the most the older half is forgotten.
const OPERATIONS: usize = if cfg!(test) { 1 << 12 } else { 1 << 17 };
const USES: usize = 1 << 21;

/// The factor of the sums: odd, so that no term vanishes.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// How far the cursor looks for the operation that came instead of the expected one.
const SKIP: u64 = 8;

/// Unexpected operations in a row after which the cursor is lost.
const STRAY: u32 = 16;

/// What an unexpected operation takes from the run.
const PENALTY: u64 = 8;

/// Unexpected operations in a row after which it is looked for elsewhere: one or two may be exchanged.
const DOUBT: u32 = 4;

/// Operations between two looks for a better place.
const LOOK: u64 = 16;

/// How often the strong signatures must agree to be acted on, of 65536; and what a place is taken to be that
/// was found by them.
const TRUSTED: u32 = 49152;
const AGREED: u32 = 52429;

#[derive(Clone, Copy, Debug)]
struct Cursor {
    /// The operation that is expected next.
    at: Index,
    /// Operations that agreed since it came here, less a penalty for each that did not.
    run: u64,
    /// Unexpected ones in a row.
    strayed: u32,
}

/// The operations of one context.
#[derive(Debug)]
pub struct History {
    ops: Vec<Op>,
    /// Operations forgotten before the first of `ops`.
    forgotten: Index,
    uses: Vec<u32>,
    /// Uses forgotten before the first of `uses`.
    uses_forgotten: u64,
    instances: Vec<Instance>,
    unused: Vec<u32>,
    serials: u64,
    /// The instance of each block that lives.
    current: Vec<Option<u32>>,
    tables: Vec<Vec<Index>>,
    cursor: Option<Cursor>,
    /// How often lately the strong signatures agreed, of 65536.
    agreement: u32,
    /// The same of the same signatures.
    sameness: u32,
    /// How far the cursor has moved, in all.
    progress: u64,
    /// Changes when the cursor goes elsewhere.
    epoch: u64,
}

impl Default for History {
    fn default() -> Self {
        Self::new()
    }
}

impl History {
    /// Nothing has happened.
    #[must_use]
    pub fn new() -> Self {
        Self {
            ops: Vec::new(),
            forgotten: 0,
            uses: Vec::new(),
            uses_forgotten: 0,
            instances: Vec::new(),
            unused: Vec::new(),
            serials: 0,
            current: Vec::new(),
            tables: GRAMS.iter().map(|_| alloc::vec![0; TABLE]).collect(),
            cursor: None,
            agreement: 0,
            sameness: 0,
            progress: 0,
            epoch: 0,
        }
    }

    /// A block of `pages` pages was allocated.
    pub fn born(&mut self, block: BlockId, pages: u64) {
        let at = self.last() + 1;
        if let Some(old) = self.instance_of(block) {
            // Its end was not told.
            self.end(old, block, at);
        }
        let id = self.new_instance(block, pages, at);
        self.uses.push(id);
        let weak = mix(0xa110c, pages);
        self.append(Kind::Born, [weak; 3]);
    }

    /// A block was freed.
    pub fn died(&mut self, block: BlockId) {
        let at = self.last() + 1;
        let Some(id) = self.instance_of(block) else {
            // Older than the history, and never used since: nobody will miss it.
            return;
        };
        let (pages, since) = self.instance(id).map_or((0, 0), |i| (i.pages, at - i.last));
        self.uses.push(id);
        self.end(id, block, at);
        let weak = mix(0xf4ee, pages);
        let strong = mix(weak, since);
        self.append(Kind::Died, [weak, strong, strong]);
    }

    /// A block has gone whose end is no operation of the program's. Its number may be another's next.
    pub fn gone(&mut self, block: BlockId) {
        if let Some(id) = self.instance_of(block) {
            self.end(id, block, self.last() + 1);
        }
    }

    /// Work with this signature (of what is done, not of where) was submitted. It uses the `named` blocks,
    /// in the order of its parameters, and those that `maybe` are only leftovers in tables: these do not count
    /// when it is compared with others. `pages` tells a block's size.
    pub fn work(
        &mut self,
        signature: u64,
        named: &[BlockId],
        maybe: &[BlockId],
        pages: impl Fn(BlockId) -> u64,
    ) {
        let at = self.last() + 1;
        let (mut weak, mut strong, mut same) = (mix(0x3047, signature), 0, 0);
        for (i, &block) in named.iter().chain(maybe).enumerate() {
            let id = match self.instance_of(block) {
                Some(id) => id,
                None => self.new_instance(block, pages(block), 0),
            };
            self.uses.push(id);
            let Some(instance) = self.instances.get_mut(id as usize) else {
                continue;
            };
            if i < named.len() {
                weak = mix(weak, instance.pages);
                let since = if instance.last == 0 {
                    0
                } else {
                    at - instance.last
                };
                strong = mix(strong, since);
                same = mix(same, instance.serial);
            }
            instance.last = at;
        }
        let strong = mix(weak, strong);
        self.append(Kind::Work, [weak, strong, mix(strong, same)]);
    }

    /// The last operation.
    #[must_use]
    pub fn last(&self) -> Index {
        self.forgotten + self.ops.len() as u64
    }

    /// The operation of the past that is expected to come next.
    #[must_use]
    pub fn cursor(&self) -> Option<Index> {
        self.cursor.map(|c| c.at)
    }

    /// How far back the cursor is: what is expected to repeat, in operations.
    #[must_use]
    pub fn lag(&self) -> Option<u64> {
        self.cursor.map(|c| self.last() + 1 - c.at)
    }

    /// How far the cursor has moved, and a number that changes when it goes elsewhere.
    #[must_use]
    pub const fn place(&self) -> (u64, u64) {
        (self.epoch, self.progress)
    }

    /// Whether the forecast is worth acting on: for as many operations as it covers, or at least for 64, things
    /// went as forecast, and the blocks were the ones that correspond.
    #[must_use]
    pub fn is_trusted(&self) -> bool {
        let enough = |c: &Cursor| c.run >= self.last().saturating_sub(c.at).clamp(4, 64);
        self.cursor.as_ref().is_some_and(enough) && self.agreement >= TRUSTED
    }

    /// An operation: what it was, and its instances.
    #[must_use]
    pub fn op(&self, at: Index) -> Option<(Kind, &[u32])> {
        let place = self.place_of(at)?;
        let op = self.ops.get(place)?;
        let before = match place.checked_sub(1) {
            Some(before) => self.ops.get(before)?.end,
            None => self.uses_forgotten,
        };
        let range = usize::try_from(before.checked_sub(self.uses_forgotten)?).ok()?
            ..usize::try_from(op.end.checked_sub(self.uses_forgotten)?).ok()?;
        Some((op.kind, self.uses.get(range)?))
    }

    /// An instance.
    #[must_use]
    pub fn instance(&self, id: u32) -> Option<&Instance> {
        self.instances.get(id as usize)
    }

    /// How many instances there are: their numbers are below this.
    #[must_use]
    pub const fn instances(&self) -> usize {
        self.instances.len()
    }

    /// The instance of a block that lives.
    #[must_use]
    pub fn instance_of(&self, block: BlockId) -> Option<u32> {
        *self.current.get(block.index())?
    }

    /// The instance that was born where this one was a lag later.
    #[must_use]
    pub fn successor(&self, id: u32, lag: u64) -> Option<u32> {
        let old = self.instance(id).filter(|i| i.born > 0)?;
        let near = |distance: u64| {
            [
                old.born + lag + distance,
                (old.born + lag).saturating_sub(distance),
            ]
        };
        (0..=SKIP).flat_map(near).find_map(|at| {
            let (kind, ids) = self.op(at)?;
            let id = *ids.first()?;
            let same = kind == Kind::Born && self.instance(id)?.pages == old.pages;
            same.then_some(id)
        })
    }

    fn new_instance(&mut self, block: BlockId, pages: u64, born: Index) -> u32 {
        self.serials += 1;
        let instance = Instance {
            block,
            serial: self.serials,
            pages,
            born,
            died: u64::MAX,
            last: born,
        };
        let id = match self.unused.pop() {
            Some(id) => {
                if let Some(place) = self.instances.get_mut(id as usize) {
                    *place = instance;
                }
                id
            }
            None => {
                self.instances.push(instance);
                u32::try_from(self.instances.len() - 1).unwrap_or(u32::MAX)
            }
        };
        if block.index() >= self.current.len() {
            self.current.resize(block.index() + 1, None);
        }
        if let Some(place) = self.current.get_mut(block.index()) {
            *place = Some(id);
        }
        id
    }

    fn end(&mut self, id: u32, block: BlockId, at: Index) {
        if let Some(instance) = self.instances.get_mut(id as usize) {
            instance.died = at;
        }
        if let Some(place) = self.current.get_mut(block.index()) {
            *place = None;
        }
    }

    fn append(&mut self, kind: Kind, signatures: [u64; 3]) {
        let mut sums = self.ops.last().map_or([0; 3], |o| o.sums);
        for (sum, signature) in sums.iter_mut().zip(signatures) {
            *sum = sum.wrapping_mul(FACTOR).wrapping_add(signature);
        }
        self.ops.push(Op {
            kind,
            signatures,
            sums,
            end: self.uses_forgotten + self.uses.len() as u64,
        });
        self.follow(signatures);
        let at = self.last();
        let doubtful = self
            .cursor
            .is_none_or(|c| c.strayed >= DOUBT || self.agreement < TRUSTED);
        if doubtful || at.is_multiple_of(LOOK) {
            self.look(doubtful);
        }
        for (gram, table) in GRAMS.iter().zip(0..) {
            if let Some(slot) = self.sum(at, *gram).map(slot_of)
                && let Some(place) = self
                    .tables
                    .get_mut(table)
                    .and_then(|t: &mut Vec<Index>| t.get_mut(slot))
            {
                *place = at;
            }
        }
        if self.ops.len() > OPERATIONS || self.uses.len() > USES {
            self.forget();
        }
    }

    /// Moves the cursor with the operation that has just come.
    fn follow(&mut self, [weak, strong, same]: [u64; 3]) {
        let Some(mut cursor) = self.cursor else {
            return;
        };
        let expected = |at: Index| Some(self.ops.get(self.place_of(at)?)?.signatures);
        let last = self.last();
        let found = (cursor.at..last.min(cursor.at + 1 + SKIP))
            .find(|&at| expected(at).is_some_and(|[w, ..]| w == weak));
        let [_, found_strong, found_same] = found.and_then(expected).unwrap_or_default();
        for (share, agrees) in [
            (&mut self.agreement, found_strong == strong),
            (&mut self.sameness, found_same == same),
        ] {
            *share -= *share / 64;
            *share += if agrees { 1024 } else { 0 };
        }
        match found {
            Some(at) => {
                self.progress += at + 1 - cursor.at;
                cursor.run = if at == cursor.at {
                    cursor.run + 1
                } else {
                    cursor.run.saturating_sub(PENALTY)
                };
                cursor.at = at + 1;
                cursor.strayed = 0;
            }
            None => {
                cursor.strayed += 1;
                cursor.run = cursor.run.saturating_sub(PENALTY);
            }
        }
        self.cursor = Some(cursor).filter(|c| c.strayed < STRAY);
        if self.cursor.is_none() {
            self.epoch += 1;
        }
    }

    /// Looks for the place that agrees over the longest stretch. As long as the cursor is not in doubt, only one
    /// is better at which the same was done for longer.
    fn look(&mut self, doubtful: bool) {
        let last = self.last();
        for (gram, table) in GRAMS.iter().zip(&self.tables) {
            let better = |c: Cursor| match gram.by {
                Look::Weak => c.run < gram.length,
                Look::Strong => false,
                Look::Same => self.sameness < 65536 / 2,
            };
            if !doubtful && !self.cursor.is_some_and(better) {
                continue;
            }
            let Some(sum) = self.sum(last, *gram) else {
                continue;
            };
            if self
                .cursor
                .is_some_and(|c| self.sum(c.at - 1, *gram) == Some(sum))
            {
                return;
            }
            let found = table.get(slot_of(sum)).copied().unwrap_or(0);
            if found > 0 && found < last && self.sum(found, *gram) == Some(sum) {
                self.cursor = Some(Cursor {
                    at: found + 1,
                    run: gram.length,
                    strayed: 0,
                });
                if gram.by != Look::Weak {
                    self.agreement = self.agreement.max(AGREED);
                }
                if gram.by == Look::Same {
                    self.sameness = self.sameness.max(AGREED);
                }
                self.epoch += 1;
                return;
            }
        }
    }

    /// The sum of the gram that ends with an operation; `None`: it would begin before what is kept.
    fn sum(&self, end: Index, gram: Gram) -> Option<u64> {
        let get = |at: Index| {
            let op = self.ops.get(self.place_of(at)?)?;
            op.sums.get(gram.by as usize).copied()
        };
        let before = get(end.checked_sub(gram.length)?)?;
        let exponent = u32::try_from(gram.length).ok()?;
        Some(get(end)?.wrapping_sub(before.wrapping_mul(FACTOR.wrapping_pow(exponent))))
    }

    fn place_of(&self, at: Index) -> Option<usize> {
        usize::try_from(at.checked_sub(self.forgotten + 1)?).ok()
    }

    /// Forgets the older half, and who died in it.
    fn forget(&mut self) {
        let half = self.ops.len() / 2;
        let Some(end) = half
            .checked_sub(1)
            .and_then(|i| self.ops.get(i))
            .map(|o| o.end)
        else {
            return;
        };
        self.ops.drain(..half);
        self.forgotten += half as u64;
        let uses = usize::try_from(end - self.uses_forgotten).unwrap_or(usize::MAX);
        self.uses.drain(..uses.min(self.uses.len()));
        self.uses_forgotten = end;
        for (id, instance) in (0_u32..).zip(&mut self.instances) {
            if instance.died <= self.forgotten && instance.died > 0 {
                // Marks it as unused already, so that it is not listed twice.
                instance.died = 0;
                self.unused.push(id);
            }
        }
        if self.cursor.is_some_and(|c| c.at <= self.forgotten) {
            self.cursor = None;
            self.epoch += 1;
        }
    }
}

/// Adds a word to a signature (the finalizer of `SplitMix64`).
#[must_use]
pub const fn mix(signature: u64, word: u64) -> u64 {
    let mut x = signature.wrapping_mul(FACTOR) ^ word.wrapping_add(FACTOR);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

fn slot_of(sum: u64) -> usize {
    usize::try_from(mix(0, sum) % TABLE as u64).unwrap_or(0)
}

#[cfg(test)]
#[path = "history_tests.rs"]
mod tests;
