//! Contexts that are about to end, and threads that are about to use one: neither under the other.
//!
//! To make a context current that has just been destroyed breaks the program's heap, and its memory's
//! addresses may be another's the moment after.

use crate::clock::{Deadline, wait_until};
use crate::cuda::CUcontext;
use crate::process;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How long a call that ends a context waits for visitors, and they for it.
const PATIENCE_MS: u64 = 10_000;

/// Calls under way that may end a context, for those who hold no lock.
static ENDINGS: AtomicUsize = AtomicUsize::new(0);

/// Whether any context may be about to end.
pub(crate) fn any_ending() -> bool {
    ENDINGS.load(Ordering::SeqCst) != 0
}

/// Who is where. The same context may stand in a list several times.
#[derive(Debug)]
pub(crate) struct Visits {
    inside: Vec<CUcontext>,
    ending: Vec<CUcontext>,
}

impl Visits {
    pub(crate) const fn new() -> Self {
        Self {
            inside: Vec::new(),
            ending: Vec::new(),
        }
    }

    /// Whether a call that may end the context is under way.
    pub(crate) fn is_ending(&self, context: CUcontext) -> bool {
        self.ending.contains(&context)
    }
}

/// Keeps a context from ending while it lives.
#[derive(Debug)]
pub(crate) struct Visit(CUcontext);

impl Visit {
    /// `None`: the context is about to end.
    pub(crate) fn begin(context: CUcontext) -> Option<Self> {
        let visits = &mut process::state().visits;
        if visits.is_ending(context) {
            return None;
        }
        visits.inside.push(context);
        Some(Self(context))
    }

    /// The context.
    pub(crate) const fn context(&self) -> CUcontext {
        self.0
    }

    /// As [`Self::begin`], but waits while it is open whether the context ends: giving back one of
    /// several references to a primary context ends nothing. `None`: it has ended.
    pub(crate) fn wait(context: CUcontext) -> Option<Self> {
        let mut visit = None;
        wait_until(Deadline::after_ms(PATIENCE_MS), || {
            let known = {
                let mut state = process::state();
                state.arenas.of(context).is_some() || state.streams.has_any_in(context)
            };
            visit = known.then(|| Self::begin(context)).flatten();
            visit.is_some() || !known
        });
        visit
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        remove_one(&mut process::state().visits.inside, self.0);
    }
}

/// A call that may end a context, while it lives: nobody visits the context meanwhile.
#[derive(Debug)]
pub(crate) struct Ending(CUcontext);

impl Ending {
    /// Waits for those who are inside.
    pub(crate) fn begin(context: CUcontext) -> Self {
        ENDINGS.fetch_add(1, Ordering::SeqCst);
        process::state().visits.ending.push(context);
        let ending = Self(context);
        wait_until(Deadline::after_ms(PATIENCE_MS), || {
            !process::state().visits.inside.contains(&context)
        });
        ending
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        remove_one(&mut process::state().visits.ending, self.0);
        ENDINGS.fetch_sub(1, Ordering::SeqCst);
    }
}

fn remove_one(list: &mut Vec<CUcontext>, context: CUcontext) {
    if let Some(at) = list.iter().position(|&c| c == context) {
        list.swap_remove(at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_visits_a_context_that_is_ending_and_it_ends_when_all_have_left() {
        let context = CUcontext(0x7771);
        let visit = Visit::begin(context).unwrap();
        let ends = std::thread::spawn(move || {
            let ending = Ending::begin(context);
            assert!(Visit::begin(context).is_none());
            drop(ending);
        });
        let begun = Deadline::after_ms(PATIENCE_MS);
        assert!(wait_until(begun, || process::state()
            .visits
            .is_ending(context)));
        assert!(!ends.is_finished());
        drop(visit);
        ends.join().unwrap();
        assert!(Visit::begin(context).is_some());
    }

    #[test]
    fn two_calls_that_may_end_a_context_count_as_two() {
        let context = CUcontext(0x7772);
        let (first, second) = (Ending::begin(context), Ending::begin(context));
        drop(first);
        assert!(Visit::begin(context).is_none());
        drop(second);
        assert!(Visit::begin(context).is_some());
    }

    #[test]
    fn a_context_of_which_nothing_is_known_is_not_visited() {
        assert!(Visit::wait(CUcontext(0x7773)).is_none());
    }
}
