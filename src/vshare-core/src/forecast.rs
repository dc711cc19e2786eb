//! What is expected to come: the stretch of the past that the program is thought to be repeating, with the
//! blocks of today in the places of those of then.
//!
//! Made under the lock and small, so that planning can go on without it.

use crate::block::BlockId;
use crate::history::{History, Kind};
use alloc::vec::Vec;

/// A block in a forecast: one that lives, or one that is yet to be born.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The block, if it lives, and the number that tells this life from others.
    pub block: Option<(BlockId, u64)>,
    /// Its pages.
    pub pages: u64,
    /// Pages of it on the device now.
    pub here: u64,
    /// Pages of it with data in host memory now.
    pub host: u64,
    /// Whether its birth is in the stretch that repeats.
    pub born_within: bool,
    /// The part that takes its place when the stretch repeats, if it has died in it.
    pub successor: Option<u32>,
}

/// One operation of a forecast.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// What is done.
    pub kind: Kind,
    /// Where its parts end in [`Forecast::uses`]; they begin where those of the step before end.
    pub end: u32,
}

/// The stretch that is expected to repeat from now on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Forecast {
    /// Its operations.
    pub steps: Vec<Step>,
    /// The parts that they use, by number.
    pub uses: Vec<u32>,
    /// All parts, and blocks on the device that nothing in the stretch uses.
    pub parts: Vec<Part>,
    /// Pages that may be on the device.
    pub budget: u64,
}

/// Longest stretch that is planned for: beyond that planning would take longer than it saves.
pub(crate) const LONGEST: u64 = if cfg!(test) { 1 << 11 } else { 1 << 16 };

impl Forecast {
    /// What is to come, as far as it can be told. `lies` tells how many pages of a block are on the device and
    /// in host memory.
    #[must_use]
    pub fn new(
        history: &History,
        budget: u64,
        lies: impl Fn(BlockId) -> (u64, u64),
    ) -> Option<Self> {
        let (from, lag) = (history.cursor()?, history.lag()?);
        if lag > LONGEST {
            return None;
        }
        let mut forecast = Self {
            budget,
            ..Self::default()
        };
        let mut numbers = alloc::vec![u32::MAX; history.instances()];
        for at in from..=history.last() {
            let (kind, ids) = history.op(at)?;
            for &id in ids {
                let number = forecast.part(history, id, from, &mut numbers, &lies)?;
                forecast.uses.push(number);
            }
            forecast.steps.push(Step {
                kind,
                end: u32::try_from(forecast.uses.len()).ok()?,
            });
        }
        // Who has died and is replaced: the replacement was born within the stretch.
        for id in 0..u32::try_from(numbers.len()).ok()? {
            let Some(&number) = numbers.get(id as usize).filter(|&&n| n != u32::MAX) else {
                continue;
            };
            if history.instance(id)?.lives() || history.instance(id)?.born >= from {
                continue;
            }
            let Some(next) = history.successor(id, lag) else {
                continue;
            };
            let next = forecast.part(history, next, from, &mut numbers, &lies)?;
            if let Some(part) = forecast.parts.get_mut(number as usize) {
                part.successor = Some(next);
            }
        }
        Some(forecast)
    }

    /// Adds a block that is on the device and that nothing in the stretch uses.
    pub fn add_idle(&mut self, block: BlockId, serial: u64, pages: u64, here: u64) {
        self.parts.push(Part {
            block: Some((block, serial)),
            pages,
            here,
            host: 0,
            born_within: false,
            successor: None,
        });
    }

    /// The parts a step uses.
    #[must_use]
    pub fn uses_of(&self, step: usize) -> &[u32] {
        let start = match step.checked_sub(1) {
            Some(before) => self.steps.get(before).map_or(0, |s| s.end),
            None => 0,
        };
        let end = self.steps.get(step).map_or(0, |s| s.end);
        self.uses
            .get(start as usize..end as usize)
            .unwrap_or_default()
    }

    fn part(
        &mut self,
        history: &History,
        id: u32,
        from: u64,
        numbers: &mut [u32],
        lies: &impl Fn(BlockId) -> (u64, u64),
    ) -> Option<u32> {
        let number = numbers.get_mut(id as usize)?;
        if *number == u32::MAX {
            *number = u32::try_from(self.parts.len()).ok()?;
            let instance = history.instance(id)?;
            let block = instance
                .lives()
                .then_some((instance.block, instance.serial));
            let (here, host) = block.map_or((0, 0), |b| lies(b.0));
            self.parts.push(Part {
                block,
                pages: instance.pages,
                here,
                host,
                born_within: instance.born >= from,
                successor: None,
            });
        }
        Some(*number)
    }
}
