//! How much of given blocks is missing.

use super::Residency;
use crate::block::BlockId;

impl Residency {
    /// Pages of these blocks that are not on the device, or moving.
    #[must_use]
    pub fn missing_of(&self, ids: &[BlockId]) -> u64 {
        ids.iter()
            .filter_map(|id| self.blocks.get(id.index()))
            .map(|b| b.run.map_or(0, |run| run.pages - b.here))
            .sum()
    }
}
