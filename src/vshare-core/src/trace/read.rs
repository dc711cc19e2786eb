//! A trace that has been checked: every block that is named is there, nothing is impossibly large.

use super::period;
use super::{Decoder, Fault, Head, Record, TraceError, What};
use crate::units::PAGE;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

/// Most pages that a block, and all live ones together, may have: 16 TiB.
const MOST_PAGES: u64 = 1 << 23;

/// Most time that a piece of work may take: a day.
const LONGEST_NS: u64 = 86_400_000_000_000;

/// A block from its allocation to its end: numbered afresh, so that no number comes twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Its size.
    pub pages: u64,
    /// Pieces of work before its allocation.
    pub born: usize,
}

/// Work, whose blocks [`Trace::pieces`] tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Work {
    /// Its kind.
    pub what: What,
    /// Its function's number.
    pub function: u32,
    /// Equal for work that is alike.
    pub signature: u64,
    /// Where it was submitted.
    pub stream: u32,
    /// Host clock.
    pub when_ns: u64,
    /// Time on the device, 0 if not known.
    pub device_ns: u64,
    pub(super) pieces: Range<usize>,
}

/// What happened, blocks and work by their places in [`Trace::blocks`] and [`Trace::works`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A block is there from now on.
    Alloc(usize),
    /// A block is gone.
    Free(usize),
    /// Work was submitted.
    Work(usize),
    /// The host waits for all work.
    Sync,
}

/// The part of a trace that counts: after the warm-up, in whole steps where there are any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// The first piece of work that counts.
    pub first: usize,
    /// Pieces of work in one step, if the trace repeats itself.
    pub period: Option<usize>,
    /// Whole steps in the window, 0 without a period.
    pub steps: usize,
}

/// A whole trace.
#[derive(Clone, Debug)]
pub struct Trace {
    /// What it says of itself.
    pub head: Head,
    events: Vec<Event>,
    works: Vec<Work>,
    blocks: Vec<Block>,
    pieces: Vec<usize>,
    functions: BTreeMap<u32, String>,
    peak: u64,
    truncated: Option<u64>,
}

impl Trace {
    /// Reads and checks a trace. One that is truncated is good up to there, see [`Self::truncated`].
    ///
    /// # Errors
    /// Says what is wrong and at which byte.
    pub fn read(bytes: &[u8]) -> Result<Self, TraceError> {
        let mut decoder = Decoder::new(bytes)?;
        let mut reading = Reading::default();
        let mut truncated = None;
        loop {
            let at = decoder.at();
            match decoder.next() {
                None => break,
                Some(Ok(record)) => reading
                    .add(record)
                    .map_err(|fault| TraceError { at, fault })?,
                Some(Err(error)) if error.fault == Fault::Truncated => {
                    truncated = Some(error.at);
                    break;
                }
                Some(Err(error)) => return Err(error),
            }
        }
        let mut trace = reading.finish().map_err(|fault| TraceError {
            at: bytes.len() as u64,
            fault,
        })?;
        trace.truncated = truncated;
        Ok(trace)
    }

    /// The byte at which the record begins that the file ends in.
    #[must_use]
    pub const fn truncated(&self) -> Option<u64> {
        self.truncated
    }

    /// All that happened, in order.
    #[must_use]
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// All work, in order.
    #[must_use]
    pub fn works(&self) -> &[Work] {
        &self.works
    }

    /// All blocks that ever were, in the order of their allocation.
    #[must_use]
    pub fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// The blocks that a piece of work may touch, each once.
    #[must_use]
    pub fn pieces(&self, work: &Work) -> &[usize] {
        self.pieces.get(work.pieces.clone()).unwrap_or(&[])
    }

    /// A block's pages.
    #[must_use]
    pub fn pages(&self, block: usize) -> u64 {
        self.blocks.get(block).map_or(0, |b| b.pages)
    }

    /// A function's name.
    #[must_use]
    pub fn function(&self, id: u32) -> Option<&str> {
        self.functions.get(&id).map(String::as_str)
    }

    /// Most pages that were allocated at once.
    #[must_use]
    pub const fn peak(&self) -> u64 {
        self.peak
    }

    /// The part that counts when the first `skip` percent of the device's time (or, where that is not
    /// known, of the work) are warm-up.
    #[must_use]
    pub fn window(&self, skip: u64) -> Window {
        let total: u64 = self.works.iter().map(|w| w.device_ns).sum();
        let weight = |work: &Work| if total == 0 { 1 } else { work.device_ns };
        let all: u64 = self.works.iter().map(weight).sum();
        let warm = u128::from(all) * u128::from(skip.min(100)) / 100;
        let mut sum = 0_u128;
        let warm_works = self
            .works
            .iter()
            .take_while(|work| {
                sum += u128::from(weight(work));
                sum <= warm
            })
            .count();
        // Something has to count.
        let first = warm_works.min(self.works.len().saturating_sub(1));
        let count = self.works.len() - first;
        match period::of(self, first).filter(|&p| p <= count) {
            Some(period) => {
                let steps = count / period;
                Window {
                    first: self.works.len() - steps * period,
                    period: Some(period),
                    steps,
                }
            }
            None => Window {
                first,
                period: None,
                steps: 0,
            },
        }
    }
}

#[derive(Default)]
struct Reading {
    head: Option<Head>,
    events: Vec<Event>,
    works: Vec<Work>,
    blocks: Vec<Block>,
    pieces: Vec<usize>,
    functions: BTreeMap<u32, String>,
    /// Blocks that are there, by the recording's numbers.
    there: BTreeMap<u32, usize>,
    live: u64,
    peak: u64,
    /// The work that a block was last named by, plus one.
    named: Vec<usize>,
}

impl Reading {
    fn add(&mut self, record: Record<'_>) -> Result<(), Fault> {
        if self.head.is_none() != matches!(record, Record::Head(_)) {
            return Err(match self.head {
                None => Fault::NoHead,
                Some(_) => Fault::SecondHead,
            });
        }
        match record {
            Record::Head(head) if head.page != PAGE => return Err(Fault::PageSize(head.page)),
            Record::Head(head) => self.head = Some(head),
            Record::Alloc { block, pages, .. } => self.alloc(block, pages)?,
            Record::Free { block, .. } => {
                let block = self.there.remove(&block).ok_or(Fault::NoBlock(block))?;
                self.live -= self.blocks.get(block).map_or(0, |b| b.pages);
                self.events.push(Event::Free(block));
            }
            Record::Work {
                what,
                function,
                signature,
                stream,
                when_ns,
                device_ns,
                pieces,
            } => {
                if device_ns > LONGEST_NS {
                    return Err(Fault::LongWork(device_ns));
                }
                let first = self.pieces.len();
                let stamp = self.works.len() + 1;
                for &piece in pieces.iter() {
                    let &block = self.there.get(&piece).ok_or(Fault::NoBlock(piece))?;
                    // Named twice is named.
                    if let Some(named) = self.named.get_mut(block).filter(|n| **n != stamp) {
                        *named = stamp;
                        self.pieces.push(block);
                    }
                }
                self.events.push(Event::Work(self.works.len()));
                self.works.push(Work {
                    what,
                    function,
                    signature,
                    stream,
                    when_ns,
                    device_ns,
                    pieces: first..self.pieces.len(),
                });
            }
            Record::Function { id, name } => {
                self.functions.insert(id, name.into_owned());
            }
            Record::Sync { .. } => self.events.push(Event::Sync),
            // Work is replayed in the order of its submission, which is behind all that it waits for.
            Record::Wait { .. } => {}
        }
        Ok(())
    }

    fn alloc(&mut self, block: u32, pages: u64) -> Result<(), Fault> {
        if pages == 0 || pages > MOST_PAGES {
            return Err(Fault::Pages(pages));
        }
        self.live += pages;
        self.peak = self.peak.max(self.live);
        if self.live > MOST_PAGES {
            return Err(Fault::TooMuchLive);
        }
        if self.there.insert(block, self.blocks.len()).is_some() {
            return Err(Fault::BlockThere(block));
        }
        self.events.push(Event::Alloc(self.blocks.len()));
        self.blocks.push(Block {
            pages,
            born: self.works.len(),
        });
        self.named.push(0);
        Ok(())
    }

    fn finish(self) -> Result<Trace, Fault> {
        if self.works.is_empty() && self.head.is_some() {
            return Err(Fault::NoWork);
        }
        Ok(Trace {
            head: self.head.ok_or(Fault::NoHead)?,
            events: self.events,
            works: self.works,
            blocks: self.blocks,
            pieces: self.pieces,
            functions: self.functions,
            peak: self.peak,
            truncated: None,
        })
    }
}
