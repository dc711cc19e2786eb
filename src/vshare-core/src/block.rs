//! Blocks, and the words in which the pool speaks of them.

/// A large block or a chunk: what residency is kept for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BlockId(u32);

impl BlockId {
    pub(crate) const fn new(number: u32) -> Self {
        Self(number)
    }

    pub(crate) const fn number(self) -> u32 {
        self.0
    }

    /// Its place in tables that are indexed by block.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A line of work that frees in its own order: a stream, or [`Slot::ALL`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Slot(pub u32);

impl Slot {
    /// Memory freed for nobody in particular: waits for all streams.
    pub const ALL: Self = Self(0);
}

/// After what freed memory may be handed out again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// At once.
    Nothing,
    /// After the work now in this slot; at once to requests in the same slot.
    Work(Slot),
}

/// Pages that belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The first page's number.
    pub first: u64,
    /// How many pages.
    pub pages: u64,
}

/// An allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allocated {
    /// Its address.
    pub address: u64,
    /// The block that holds it.
    pub block: BlockId,
    /// The block's pages, if the block is new.
    pub new: Option<Run>,
}

/// What has become of a free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Freed {
    /// Bytes the program had asked for.
    pub bytes: u64,
    /// What the caller had stored with it.
    pub tag: u64,
    /// The block and its pages, if nothing is left in it.
    pub gone: Option<(BlockId, Run)>,
}

/// What has become of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It is there from now on, with so many pages.
    Born(BlockId, u64),
    /// It is gone.
    Gone(BlockId),
}

/// An allocation as the program knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// The address it was given.
    pub address: u64,
    /// The bytes it asked for.
    pub bytes: u64,
    /// What the caller stored with it.
    pub tag: u64,
    /// Differs for every allocation.
    pub serial: u64,
}

/// Why an address cannot be freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FreeError {
    /// Outside the pool.
    Foreign,
    /// Inside the pool, but no allocation begins there (any more).
    NoBlock,
}

/// There is no room: an extent of at least this many pages is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRoom {
    /// Pages in one run.
    pub pages: u64,
}

impl Run {
    /// The numbers of its pages.
    pub fn numbers(self) -> core::ops::Range<u64> {
        self.first..self.first + self.pages
    }
}
