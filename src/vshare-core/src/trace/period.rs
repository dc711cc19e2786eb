//! Whether a trace repeats itself, and after how much work.

use super::{Trace, Work};

/// One in so many pieces of work may differ: programs log, and look at their loss now and then.
const STRAYS: usize = 25;

/// The fewest pieces of work after which all from `first` on repeats what was before. A loop within the
/// step is no period: what follows it does not repeat after so few.
pub(super) fn of(trace: &Trace, first: usize) -> Option<usize> {
    let count = trace.works().len();
    (1..=count / 2).find(|&period| {
        // Most are out after the look at the last one.
        different(trace, count - 1, period).next().is_none() && repeats(trace, first, period)
    })
}

fn repeats(trace: &Trace, first: usize, period: usize) -> bool {
    let from = first.max(period);
    let compared = trace.works().len() - from;
    let may = compared / STRAYS;
    compared >= period && different(trace, from, period).take(may + 1).count() <= may
}

/// Work from `from` on that is unlike that a period before.
fn different(trace: &Trace, from: usize, period: usize) -> impl Iterator<Item = usize> + '_ {
    let now = trace.works().iter().skip(from);
    let then = trace.works().iter().enumerate().skip(from - period);
    now.zip(then)
        .filter(|&(now, (number, then))| !is_like(trace, now, then, number))
        .map(|(_, (number, _))| number)
}

/// Whether work is like earlier work, whose number is `number`: alike, and on the same blocks, or on
/// blocks of the same sizes that were not there yet.
fn is_like(trace: &Trace, now: &Work, then: &Work, number: usize) -> bool {
    let (pieces, earlier) = (trace.pieces(now), trace.pieces(then));
    now.signature == then.signature
        && now.function == then.function
        && pieces.len() == earlier.len()
        && pieces.iter().zip(earlier).all(|(&a, &b)| {
            let block = trace.blocks().get(a);
            a == b || block.is_some_and(|a| a.born > number && a.pages == trace.pages(b))
        })
}
