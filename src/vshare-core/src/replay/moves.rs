//! Moves in one direction: those that are asked for, and those that are under way and share the link.

use crate::block::Run;
use crate::link::{Link, float};
use crate::policies::PIECE;
use crate::units::PAGE;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// What pages hold that move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cargo {
    /// Data, over the link.
    Data,
    /// Nothing yet.
    Nothing,
    /// Nothing that anybody will read.
    Dropped,
}

#[derive(Debug)]
struct Move {
    run: Run,
    cargo: Cargo,
    /// When the call's own cost is over.
    begins: f64,
    /// Bytes after that.
    left: f64,
}

impl Move {
    fn is_copying(&self, now: f64) -> bool {
        self.cargo == Cargo::Data && now >= self.begins
    }
}

/// Moves in one direction.
#[derive(Debug)]
pub(super) struct Moves {
    workers: usize,
    urgent: VecDeque<(Run, Cargo)>,
    ahead: VecDeque<(Run, Cargo)>,
    under_way: Vec<Move>,
}

impl Moves {
    pub(super) const fn new(workers: usize) -> Self {
        Self {
            workers,
            urgent: VecDeque::new(),
            ahead: VecDeque::new(),
            under_way: Vec::new(),
        }
    }

    /// Whether a mover has nothing to do.
    pub(super) fn is_idle(&self) -> bool {
        self.under_way.len() < self.workers
    }

    pub(super) fn is_nothing_asked(&self) -> bool {
        self.urgent.is_empty() && self.ahead.is_empty()
    }

    /// Pages that are asked for or under way.
    pub(super) fn pages(&self) -> u64 {
        let asked = self.urgent.iter().chain(&self.ahead).map(|(run, _)| run);
        asked
            .chain(self.under_way.iter().map(|m| &m.run))
            .map(|run| run.pages)
            .sum()
    }

    /// Asks for moves, in pieces.
    pub(super) fn ask(&mut self, runs: &[Run], cargo: Cargo, urgent: bool) {
        let queue = if urgent {
            &mut self.urgent
        } else {
            &mut self.ahead
        };
        for run in runs {
            let end = run.first + run.pages;
            let mut first = run.first;
            while first < end {
                let pages = PIECE.min(end - first);
                queue.push_back((Run { first, pages }, cargo));
                first += pages;
            }
        }
    }

    /// Drops pages in one call.
    pub(super) fn drop_all(&mut self, runs: &[Run], now: f64, link: &Link) {
        let per_byte = link.drop_ns / float(1 << 30);
        let mut begins = now + link.call_ns;
        for &run in runs {
            begins += float(run.pages * PAGE) * per_byte;
            self.under_way.push(Move {
                run,
                cargo: Cargo::Dropped,
                begins,
                left: 0.0,
            });
        }
    }

    /// Gives idle movers what is asked for. Returns whether any got something.
    pub(super) fn begin(&mut self, begins: f64) -> bool {
        let before = self.under_way.len();
        while self.is_idle()
            && let Some((run, cargo)) = self.urgent.pop_front().or_else(|| self.ahead.pop_front())
        {
            self.under_way.push(Move {
                run,
                cargo,
                begins,
                left: float(run.pages * PAGE),
            });
        }
        self.under_way.len() > before
    }

    /// Whether anything uses the link.
    pub(super) fn is_copying(&self, now: f64) -> bool {
        self.under_way.iter().any(|m| m.is_copying(now))
    }

    /// When something changes next, at these rates.
    pub(super) fn next(&self, now: f64, rate: f64, populate: f64) -> Option<f64> {
        let share = self.shares(now, rate, populate);
        self.under_way
            .iter()
            .map(|m| {
                if now < m.begins {
                    m.begins
                } else if m.left <= 0.0 {
                    now
                } else {
                    now + m.left / share(m.cargo)
                }
            })
            .reduce(f64::min)
    }

    /// Goes on from `now` to `then`; returns what has ended.
    pub(super) fn advance(
        &mut self,
        now: f64,
        then: f64,
        rate: f64,
        populate: f64,
    ) -> Vec<(Run, Cargo)> {
        let share = self.shares(now, rate, populate);
        for m in &mut self.under_way {
            if now >= m.begins {
                m.left -= (then - now) * share(m.cargo);
            }
        }
        let mut ended = Vec::new();
        // Less than a byte is rounding.
        self.under_way.retain(|m| {
            let over = then >= m.begins && m.left < 1.0;
            if over {
                ended.push((m.run, m.cargo));
            }
            !over
        });
        ended
    }

    /// What each move gets of the rates.
    fn shares(&self, now: f64, rate: f64, populate: f64) -> impl Fn(Cargo) -> f64 + use<> {
        let count = |cargo| {
            let moving = self.under_way.iter();
            let moving = moving.filter(|m| m.cargo == cargo && now >= m.begins);
            float(moving.count().max(1) as u64)
        };
        let (data, nothing) = (rate / count(Cargo::Data), populate / count(Cargo::Nothing));
        move |cargo| {
            if cargo == Cargo::Data { data } else { nothing }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_dropped_takes_its_time_and_none_of_the_link() {
        let link = Link::default();
        let mut moves = Moves::new(1);
        let run = Run {
            first: 0,
            pages: (1 << 30) / PAGE,
        };
        moves.drop_all(&[run], 100.0, &link);
        assert!(!moves.is_copying(1e9) && !moves.is_idle());
        let end = 100.0 + link.call_ns + link.drop_ns;
        assert_eq!(moves.next(100.0, 50.0, 159.0), Some(end));
        assert_eq!(moves.advance(100.0, end / 2.0, 50.0, 159.0), []);
        assert_eq!(
            moves.advance(end / 2.0, end, 50.0, 159.0),
            [(run, Cargo::Dropped)]
        );
    }

    #[test]
    fn moves_that_run_at_once_share_the_link() {
        let mut moves = Moves::new(2);
        let run = Run {
            first: 3,
            pages: 2 * PIECE,
        };
        moves.ask(&[run], Cargo::Data, true);
        assert_eq!(moves.pages(), 2 * PIECE);
        assert!(moves.begin(0.0) && moves.is_nothing_asked());
        let end = float(2 * PIECE * PAGE) / 50.0;
        assert_eq!(moves.next(0.0, 50.0, 159.0), Some(end));
        assert_eq!(moves.advance(0.0, end, 50.0, 159.0).len(), 2);
    }
}
