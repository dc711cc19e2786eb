//! Whether a trace repeats itself, and after how much work.

use super::{Trace, Work};
use alloc::vec::Vec;

/// One in so many pieces of work may differ: programs log, and look at their loss now and then.
const STRAYS: usize = 50;

/// The fewest pieces of work after which all from `first` on repeats what was before. A loop within the
/// step is no period: what follows it does not repeat after so few.
pub(super) fn of(trace: &Trace, first: usize) -> Option<usize> {
    let keys: Vec<u64> = trace.works().iter().map(|w| key(trace, w)).collect();
    let (&last, before) = keys.split_last()?;
    let longest = keys.len() / 2;
    (1..=longest)
        .filter(|&period| {
            before.len().checked_sub(period).and_then(|i| before.get(i)) == Some(&last)
        })
        .find(|&period| repeats(&keys, first.max(period), period))
}

fn repeats(keys: &[u64], from: usize, period: usize) -> bool {
    let (Some(now), Some(then)) = (keys.get(from..), keys.get(from - period..)) else {
        return false;
    };
    let may = now.len() / STRAYS;
    let strays = now.iter().zip(then).filter(|(a, b)| a != b);
    now.len() >= period && strays.take(may + 1).count() <= may
}

/// What makes two pieces of work alike. Blocks' numbers differ from step to step; their sizes do not.
fn key(trace: &Trace, work: &Work) -> u64 {
    let mut key = work.signature ^ u64::from(work.function).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    for &piece in trace.pieces(work) {
        key = (key ^ trace.pages(piece)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    key
}
